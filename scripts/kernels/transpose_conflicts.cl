// Each work-group transposes a tile of 32 x 32 numbers in local memory without padding, 4 numbers a work-item.
#define TILE 32
#define ROWS 8
kernel void transpose_conflicts(global const float *restrict in, global float *restrict out, const int n)
{
    local float tile[TILE][TILE];
    const int x = get_local_id(0), y = get_local_id(1);
    const int left = get_group_id(0) * TILE, top = get_group_id(1) * TILE;
    for (int row = y; row < TILE; row += ROWS)
        tile[row][x] = in[(top + row) * n + left + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int row = y; row < TILE; row += ROWS)
        out[(left + row) * n + top + x] = tile[x][row];
}
