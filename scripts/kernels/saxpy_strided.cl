// Each work-item scales one number and adds it to another; neighbours are 8 numbers apart.
kernel void saxpy_strided(global const float *restrict x, global float *restrict y, const float a)
{
    const size_t i = 8 * get_global_id(0);
    y[i] = a * x[i] + y[i];
}
