// Each work-item compares two numbers that lie a power of two apart and swaps them where they are out of order.
kernel void bitonic(global float *keys, const uint distance, const uint block)
{
    const uint i = get_global_id(0);
    const uint low = 2 * i - (i & (distance - 1)), high = low + distance;
    const float a = keys[low], b = keys[high];
    if ((a > b) == ((low & block) == 0)) {
        keys[low] = b;
        keys[high] = a;
    }
}
