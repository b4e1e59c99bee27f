// Each work-item computes one number of the product of two matrices, from global memory.
kernel void matmul_naive(global const float *restrict a, global const float *restrict b, global float *restrict c, const int n)
{
    const int x = get_global_id(0), y = get_global_id(1);
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}
