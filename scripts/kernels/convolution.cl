// Each work-item convolves one place of an image with 7 x 7 weights in constant memory.
#define RADIUS 3
kernel void convolution(global const float *restrict in, global float *restrict out, constant float *weights, const int n)
{
    const int x = get_global_id(0), y = get_global_id(1);
    float sum = 0;
    for (int v = -RADIUS; v <= RADIUS; v++)
        for (int u = -RADIUS; u <= RADIUS; u++) {
            const int column = clamp(x + u, 0, n - 1), row = clamp(y + v, 0, n - 1);
            sum += weights[(v + RADIUS) * (2 * RADIUS + 1) + u + RADIUS] * in[row * n + column];
        }
    out[y * n + x] = sum;
}
