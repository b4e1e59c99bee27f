// Each work-item adds its number to a random one of many sums.
kernel void scatter_add(global const uint *restrict places, global uint *sums)
{
    const size_t i = get_global_id(0);
    atomic_add(sums + places[i], (uint)i);
}
