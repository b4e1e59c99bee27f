// Each work-group computes a tile of 16 x 16 numbers of the product of two matrices, by tiles of both in local memory.
#define TILE 16
kernel void matmul_tiled(global const float *restrict a, global const float *restrict b, global float *restrict c, const int n)
{
    local float rows[TILE][TILE], columns[TILE][TILE];
    const int x = get_local_id(0), y = get_local_id(1);
    const int column = get_global_id(0), row = get_global_id(1);
    float sum = 0;
    for (int start = 0; start < n; start += TILE) {
        rows[y][x] = a[row * n + start + x];
        columns[y][x] = b[(start + y) * n + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < TILE; k++)
            sum += rows[y][k] * columns[k][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * n + column] = sum;
}
