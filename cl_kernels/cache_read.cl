// Reading a set again and again, by vectors V of LANES words. PATH says how loads go: PLAIN as the compiler makes them; CA and
// CG, NVIDIA's loads that use the first cache and that leave it out. Of the loads of a batch every EVERY-th is summed up: with
// more than 1 all are volatile, so that none is left out.
#define PLAIN 0
#define CA 1
#define CG 2

#if PATH == PLAIN
#define READ(p) (*(p))
#else
#if PATH == CA
#define LOAD "ld.global.ca.v4.u32"
#else
#define LOAD "ld.global.cg.v4.u32"
#endif
// volatile: a load may be neither left out nor done once for two
uint4 read16(const ulong address) {
    uint x, y, z, w;
    asm volatile(LOAD " {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "l"(address));
    return (uint4)(x, y, z, w);
}
#define READ(p) read16((ulong)(p))
#endif

#define BLOCK (ILP * GROUP)  // vectors that a work-group reads in one batch

// One work-item a word: what their sums are known of.
kernel void number_words(global uint* restrict data, const uint seed) {
    data[get_global_id(0)] = (uint)get_global_id(0) * 2654435761u + seed;
}

// Each work-group reads `batches` blocks of a set of `mask` + 1 blocks, each once before any comes again. With `own` 1 each
// work-group has a set of its own; else they share one, and begin evenly spread over it. With a `factor` of 1 blocks come one
// after the other; with 5 in an order of each group's own (a congruential generator of full period), since groups that follow
// each other catch up with one that waits, and what they then ask for together is fetched once for all of them. Which block comes
// next no compiler knows, so it cannot keep what was read. Work-items keep the sum of what they read.
__attribute__((reqd_work_group_size(GROUP, 1, 1)))
kernel void cache_read(const global V* restrict data, global V* restrict sums, const uint batches, const uint mask,
                       const uint own, const uint factor) {
    const ulong group = get_group_id(0), blocks = (ulong)mask + 1;
    const uint addend = factor == 1 ? 1 : ((uint)group * 2654435761u >> 7) | 1;
    const global V* const set = data + (own ? group * blocks * BLOCK : 0) + get_local_id(0);
    uint block = own ? 0 : (uint)(group * blocks / get_num_groups(0));
    V sum = (V)(0);
#if EVERY > 1
    V other = (V)(0);
#endif
#pragma unroll 1
    for (uint i = 0; i < batches; i++) {
        const global V* const p = set + (ulong)block * BLOCK;
#if EVERY > 1
#pragma unroll
        for (uint n = 0; n < ILP; n++) {
            const V got = ((const volatile global V*)p)[n * GROUP];
            if (n % (2 * EVERY) == 0) sum += got;
            if (n % (2 * EVERY) == EVERY) other += got;
        }
#else
        // all of a batch are on their way before the first is used
        const V a = READ(p), b = READ(p + GROUP), c = READ(p + 2 * GROUP), d = READ(p + 3 * GROUP);
        sum += a + b;
        sum += c + d;
#endif
        block = (block * factor + addend) & mask;
    }
#if EVERY > 1
    sum += other;
#endif
    sums[get_global_id(0)] = sum;
}
