// Each work-item finds the place of its number among sorted ones by halving.
kernel void search(global const uint *restrict sorted, global const uint *restrict wanted, global uint *restrict found, const uint n)
{
    const size_t i = get_global_id(0);
    const uint key = wanted[i];
    uint low = 0, high = n;
    while (low < high) {
        const uint middle = (low + high) / 2;
        if (sorted[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    found[i] = low;
}
