// Each work-group computes the running sums of its 256 numbers in local memory (Hillis and Steele).
kernel void scan(global const float *restrict in, global float *restrict out)
{
    local float sums[2][256];
    const int me = get_local_id(0);
    const size_t i = get_global_id(0);
    int from = 0;
    sums[0][me] = in[i];
    for (int step = 1; step < 256; step *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        sums[1 - from][me] = me >= step ? sums[from][me] + sums[from][me - step] : sums[from][me];
        from = 1 - from;
    }
    out[i] = sums[from][me];
}
