// Each work-item evaluates a polynomial of degree 256 at one place, by Horner's rule.
kernel void polynomial(global const float *restrict x, global float *restrict y)
{
    const size_t i = get_global_id(0);
    const float at = x[i];
    float sum = 1;
    for (int n = 0; n < 256; n++)
        sum = fma(sum, at, 0.5f);
    y[i] = sum;
}
