// Each work-group sums 512 numbers by a tree in local memory.
kernel void reduction(global const float *restrict in, global float *restrict sums)
{
    local float part[256];
    const int me = get_local_id(0);
    const size_t start = get_group_id(0) * 512 + me;
    part[me] = in[start] + in[start + 256];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = 128; half_size > 0; half_size /= 2) {
        if (me < half_size)
            part[me] += part[me + half_size];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (me == 0)
        sums[get_group_id(0)] = part[0];
}
