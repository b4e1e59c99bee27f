// Each work-item iterates one point of the plane until it escapes; neighbours take different numbers of steps.
kernel void mandelbrot(global uint *restrict steps, const int n)
{
    const int column = get_global_id(0), row = get_global_id(1);
    const float x = 3.0f * column / n - 2.25f, y = 2.5f * row / n - 1.25f;
    float a = 0, b = 0;
    uint step = 0;
    while (a * a + b * b < 4 && step < 256) {
        const float next = a * a - b * b + x;
        b = 2 * a * b + y;
        a = next;
        step++;
    }
    steps[row * n + column] = step;
}
