// Throughput of a copy by a fixed number of work-groups, at any size of the array. Each work-item has ILP words of 4 bytes in
// flight: all loads of a round come before its stores, and lie a whole grid of work-items apart, so that each is coalesced.
#include "common.cl"
#define LOAD_WORD(j) const uint word##j = in[i + j * items];
#define STORE_WORD(j) out[i + j * items] = word##j;

// Each work-item copies ILP words a round, `rounds` times, and then its share of the rest of n words. IN_STEP is for CPUs,
// where the work-items of a work-group are a loop on one core: a barrier in each round keeps that loop within the round, on
// neighbouring words.
kernel void copy_grid(const global uint* restrict in, global uint* restrict out, const ulong n, const ulong rounds) {
    const ulong items = get_global_size(0);
    // not unrolled: otherwise more than ILP words would be in flight
#pragma unroll 1
    for (ulong round = 0; round < rounds; round++) {
        const ulong i = round * (ILP * items) + get_global_id(0);
        APPLY(ILP, LOAD_WORD)
        APPLY(ILP, STORE_WORD)
#if IN_STEP
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
    }
#pragma unroll 1
    for (ulong i = rounds * (ILP * items) + get_global_id(0); i < n; i += items) out[i] = in[i];
}
