// Throughput of a copy by a fixed number of work-groups, at any size of the array. Each work-item has ILP words in flight, of 4
// bytes or vectors V of them: all loads of a round come before its stores, and lie a whole grid of work-items apart, so that
// each is coalesced. NONTEMPORAL: stores bypass the caches, as a CPU's copies have to, which otherwise first read what they
// overwrite.
#include "common.cl"
#if NONTEMPORAL
#define STORE(v, p) __builtin_nontemporal_store((v), (p))
#else
#define STORE(v, p) (*(p) = (v))
#endif
#define LOAD_WORD(j) const V word##j = in[i + j * items];
#define STORE_WORD(j) STORE(word##j, &out[i + j * items]);

// Each work-item copies ILP words a round, `rounds` times, and then its share of the rest of n words. IN_STEP is for CPUs,
// where the work-items of a work-group are a loop on one core: a barrier in each round keeps that loop within the round, on
// neighbouring words.
kernel void copy_grid(const global V* restrict in, global V* restrict out, const ulong n, const ulong rounds) {
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
    for (ulong i = rounds * (ILP * items) + get_global_id(0); i < n; i += items) STORE(in[i], &out[i]);
}
