// A copy by a fixed number of work-groups, whatever the array's size. ILP words of 4 bytes are on their way at once for each
// work-item: all loads of a round come before its stores, and lie a whole grid of work-items apart, so that each is coalesced.
#define LOAD(j) const uint word##j = in[i + j * items];
#define STORE(j) out[i + j * items] = word##j;
#if ILP == 1
#define EACH(DO) DO(0)
#elif ILP == 2
#define EACH(DO) DO(0) DO(1)
#elif ILP == 4
#define EACH(DO) DO(0) DO(1) DO(2) DO(3)
#else
#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#endif

// Each work-item copies ILP words a round, `rounds` times, and then what is left of n words. IN_STEP is for CPUs, where the
// work-items of a work-group are a loop on one core: a barrier a round keeps that loop within the round, on neighbouring words.
kernel void copy_grid(const global uint* restrict in, global uint* restrict out, const ulong n, const ulong rounds) {
    const ulong items = get_global_size(0);
    // not unrolled: more words than ILP would be on their way
#pragma unroll 1
    for (ulong round = 0; round < rounds; round++) {
        const ulong i = round * (ILP * items) + get_global_id(0);
        EACH(LOAD)
        EACH(STORE)
#if IN_STEP
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
    }
#pragma unroll 1
    for (ulong i = rounds * (ILP * items) + get_global_id(0); i < n; i += items) out[i] = in[i];
}
