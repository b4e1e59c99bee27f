// Each work-item counts one byte-sized value in a histogram of 256 bins in global memory.
kernel void histogram_global(global const uint *restrict values, global uint *bins)
{
    atomic_inc(bins + (values[get_global_id(0)] & 255));
}
