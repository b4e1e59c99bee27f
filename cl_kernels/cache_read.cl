// Bandwidth of a cache: reads of the same set of data again and again, by vectors V of words. PATH selects the load: PATH_PLAIN
// is the compiler's; PATH_CA and PATH_CG are NVIDIA's, which use and bypass the first cache. Every load enters the sums, so
// that none can be left out. XOR: those of a batch by exclusive or, of which a CPU does two in one operation where additions
// would take the ports that its widest loads need.
#include "common.cl"
#define PATH_PLAIN 0
#define PATH_CA 1
#define PATH_CG 2

#if PATH == PATH_PLAIN
#define LOAD(p) (*(p))
#else
#if PATH == PATH_CA
#define LOAD_INSTRUCTION "ld.global.ca.v4.u32"
#else
#define LOAD_INSTRUCTION "ld.global.cg.v4.u32"
#endif
// Volatile: the compiler may neither leave a load out nor merge two.
uint4 load_ptx(const ulong address) {
    uint x, y, z, w;
    asm volatile(LOAD_INSTRUCTION " {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "l"(address));
    return (uint4)(x, y, z, w);
}
#define LOAD(p) load_ptx((ulong)(p))
#endif

#define BLOCK (ILP * GROUP_SIZE)  // vectors that a work-group reads in a batch

// Each work-item writes one word, from a formula by which the host knows all sums.
kernel void number_words(global uint* restrict data, const uint seed) {
    data[get_global_id(0)] = (uint)get_global_id(0) * HASH_FACTOR + seed;
}

// Each work-item sums its vectors of the `batches` blocks that its work-group reads, from a set of `mask` + 1 blocks, each once
// before any is read again. With `own` 1 each work-group has its own set; otherwise all share one, and start at evenly spaced
// blocks of it. With a `factor` of 1 a group reads blocks in ascending order; with 5 in its own order (a congruential generator
// of full period): groups in the same order would catch up with one that stalls, and then one fetch would serve several of
// them. The order is opaque to the compiler, so it cannot keep in registers what was read.
FIXED_GROUP_SIZE(GROUP_SIZE, 1, 1)
kernel void cache_read(const global V* restrict data, global V* restrict sums, const uint batches, const uint mask,
                       const uint own, const uint factor) {
    const ulong group = get_group_id(0), blocks = (ulong)mask + 1;
    const uint addend = factor == 1 ? 1 : ((uint)group * HASH_FACTOR >> 7) | 1;
    const global V* const set = data + (own ? group * blocks * BLOCK : 0) + get_local_id(0);
    uint block = own ? 0 : (uint)(group * blocks / get_num_groups(0));
    V sum = (V)(0);
#pragma unroll 1
    for (uint i = 0; i < batches; i++) {
        const global V* const p = set + (ulong)block * BLOCK;
#if XOR
        V a = (V)(0), b = (V)(0), c = (V)(0), d = (V)(0);
#pragma unroll
        for (uint n = 0; n < ILP; n += 8) {
            a ^= p[n * GROUP_SIZE] ^ p[(n + 1) * GROUP_SIZE];
            b ^= p[(n + 2) * GROUP_SIZE] ^ p[(n + 3) * GROUP_SIZE];
            c ^= p[(n + 4) * GROUP_SIZE] ^ p[(n + 5) * GROUP_SIZE];
            d ^= p[(n + 6) * GROUP_SIZE] ^ p[(n + 7) * GROUP_SIZE];
        }
        sum += (a ^ b) ^ (c ^ d);
#else
        // all loads of a batch are in flight before the first is used
        const V a = LOAD(p), b = LOAD(p + GROUP_SIZE), c = LOAD(p + 2 * GROUP_SIZE), d = LOAD(p + 3 * GROUP_SIZE);
        sum += a + b;
        sum += c + d;
#endif
        block = (block * factor + addend) & mask;
    }
    sums[get_global_id(0)] = sum;
}
