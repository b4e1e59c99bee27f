// Throughput of local memory: copies within it, word by word (COPY 1), and reads at full speed (COPY 0).
#include "common.cl"
#if COPY
// Each work-item copies ILP words from one region of its work-group's local memory to another, and back: 2 copies a round. No
// work-item accesses another's words, so no barrier is needed. The regions are volatile, so every load and store is performed
// in this order: all loads of a copy are in flight before the first store waits for one. Each copy rotates a work-item's words
// by one place, through the names of registers alone, so their final places prove how many copies were made.
kernel void copy_local(global uint* restrict contents, const uint rounds) {
    local uint store[2 * ILP * GROUP_SIZE];
    volatile local uint* const here = store + get_local_id(0);
    const uint first = (uint)get_global_id(0) * ILP;
    for (uint k = 0; k < ILP; k++) here[k * GROUP_SIZE] = first + k;
    for (uint k = 0; k < ILP; k++) here[(ILP + k) * GROUP_SIZE] = ~0u;
    uint held[ILP];
    for (uint i = 0; i < rounds; i++) {
#define COPY_WORDS(from, to)                                                                    \
    _Pragma("unroll") for (uint k = 0; k < ILP; k++) held[k] = here[((from) + k) * GROUP_SIZE]; \
    _Pragma("unroll") for (uint k = 0; k < ILP; k++) here[((to) + (k + 1) % ILP) * GROUP_SIZE] = held[k];
        COPY_WORDS(0, ILP)
        COPY_WORDS(ILP, 0)
    }
    for (uint k = 0; k < ILP; k++) contents[first + k] = here[k * GROUP_SIZE];
    for (uint k = 0; k < ILP; k++) contents[ILP * get_global_size(0) + first + k] = here[(ILP + k) * GROUP_SIZE];
}
#else
#if PTX
// The PTX load is not ld.volatile: volatile vectors may be split; the sums need every load.
uint4 load_ptx(const uint address) {
    uint x, y, z, w;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(address) : "memory");
    return (uint4)(x, y, z, w);
}
#define LOAD_VECTOR(k) load_ptx(address + (k) * LOAD_STRIDE_BYTES)
#else
#define LOAD_VECTOR(k) (*(local const uint4*)((local const uchar*)store + at + (k) * LOAD_STRIDE_BYTES))
#endif
#define LOAD_STRIDE_BYTES (16 * LOAD_STRIDE)

// Each work-item reads UNROLLED vectors of 16 bytes a round, next to its neighbours', and sums each of their four words. Two
// loads share one addition of three terms, so a GPU that reads 128 bytes a cycle spends a quarter of its additions on the sums.
// Each round starts LOAD_STRIDE vectors, one sub-group's share, after the last one, so no round repeats the loads of the one
// before.
FIXED_GROUP_SIZE(GROUP_SIZE, 1, 1)
kernel void read_local(global uint4* restrict sums, const uint rounds) {
    // the last loads of a round reach beyond the vectors at which its first may start
    local uint4 store[START_VECTORS + UNROLLED * LOAD_STRIDE];
    for (uint k = 0; k < START_VECTORS + UNROLLED * LOAD_STRIDE; k += GROUP_SIZE) {
        const uint i = k + (uint)get_local_id(0);
        if (i < START_VECTORS + UNROLLED * LOAD_STRIDE)
            store[i] = (uint4)(4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3) * HASH_FACTOR;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint at = 16 * (uint)get_local_id(0);
    uint4 sum = (uint4)(0);
    for (uint i = 0; i < rounds; i++) {
#if PTX
        const uint address = (uint)(ulong)store + at;
#endif
#pragma unroll
        for (uint k = 0; k < UNROLLED; k += ILP) {
            uint4 v[ILP];
#pragma unroll
            for (uint j = 0; j < ILP; j++) v[j] = LOAD_VECTOR(k + j);
#pragma unroll
            for (uint j = 0; j < ILP; j += 2) sum += v[j] + v[j + 1];
        }
        at = (at + LOAD_STRIDE_BYTES) & (16 * START_VECTORS - 1);
    }
    sums[get_global_id(0)] = sum;
}
#endif
