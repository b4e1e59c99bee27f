// Each work-item advances one place of a cube by the heat equation, from its six neighbours.
kernel void heat(global const float *restrict in, global float *restrict out, const int n)
{
    const size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2), i = (z * n + y) * n + x;
    const size_t plane = (size_t)n * n;
    float sum = 0;
    if (x > 0 && x < n - 1 && y > 0 && y < n - 1 && z > 0 && z < n - 1)
        sum = in[i - 1] + in[i + 1] + in[i - n] + in[i + n] + in[i - plane] + in[i + plane];
    out[i] = 0.4f * in[i] + 0.1f * sum;
}
