// Each work-group adds up 256 numbers in local memory by atomic additions, and adds the sum to one in global memory.
kernel void sum_atomic(global const uint *restrict in, global uint *sum)
{
    local uint part;
    const size_t i = get_global_id(0);
    if (get_local_id(0) == 0)
        part = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(&part, in[i] & 15);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0)
        atomic_add(sum, part);
}
