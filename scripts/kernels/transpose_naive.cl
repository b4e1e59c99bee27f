// Each work-item copies one number of a matrix to its place in the transpose.
kernel void transpose_naive(global const float *restrict in, global float *restrict out, const int n)
{
    const int x = get_global_id(0), y = get_global_id(1);
    out[x * n + y] = in[y * n + x];
}
