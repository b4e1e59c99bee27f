// Each work-group transposes a tile of 16 x 16 numbers in local memory, padded by a word.
#define TILE 16
kernel void transpose_tiled(global const float *restrict in, global float *restrict out, const int n)
{
    local float tile[TILE][TILE + 1];
    const int x = get_local_id(0), y = get_local_id(1);
    const int left = get_group_id(0) * TILE, top = get_group_id(1) * TILE;
    tile[y][x] = in[(top + y) * n + left + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[(left + y) * n + top + x] = tile[x][y];
}
