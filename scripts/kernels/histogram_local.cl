// Each work-group counts 4096 values in a histogram of its own in local memory and adds it to the one in global memory.
kernel void histogram_local(global const uint *restrict values, global uint *bins)
{
    local uint mine[256];
    const int me = get_local_id(0);
    mine[me] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int n = 0; n < 16; n++)
        atomic_inc(mine + (values[get_group_id(0) * 4096 + n * 256 + me] & 255));
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(bins + me, mine[me]);
}
