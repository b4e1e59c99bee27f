// Each work-item scales one number and adds it to another.
kernel void saxpy(global const float *restrict x, global float *restrict y, const float a)
{
    const size_t i = get_global_id(0);
    y[i] = a * x[i] + y[i];
}
