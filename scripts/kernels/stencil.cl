// Each work-item averages a number of a grid and its four neighbours.
kernel void stencil(global const float *restrict in, global float *restrict out, const int n)
{
    const int x = get_global_id(0), y = get_global_id(1);
    const int left = max(x - 1, 0), right = min(x + 1, n - 1), up = max(y - 1, 0), down = min(y + 1, n - 1);
    const float sum = in[y * n + left] + in[y * n + right] + in[up * n + x] + in[down * n + x];
    out[y * n + x] = 0.2f * (in[y * n + x] + sum);
}
