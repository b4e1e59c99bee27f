// Throughput of local memory: copies within it, word by word (COPY 1), and reads at full speed (COPY 0). V is what a work-item
// copies or reads at a time, LANES words of 4 bytes: as much as the device's widest load.
#include "common.cl"
#if LANES == 16
#define LANE_NUMBERS (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#elif LANES == 4
#define LANE_NUMBERS (uint4)(0, 1, 2, 3)
#else
#define LANE_NUMBERS 0
#endif
#define NUMBERED(i) ((V)((i) * LANES) + LANE_NUMBERS)

#if COPY
// Neighbouring work-items have neighbouring words; with OWN_BLOCK each has a block of its own, since a core runs them one after
// the other, and words of one that lie a power of two apart fall into one set of its cache.
#if OWN_BLOCK
#define ITEM_STRIDE (2 * ILP)
#define WORD_STRIDE 1
#else
#define ITEM_STRIDE 1
#define WORD_STRIDE GROUP_SIZE
#endif

// Each work-item copies ILP words V from one region of its work-group's local memory to another, and back: 2 copies a round. No
// work-item accesses another's words, so no barrier is needed. Each copy back adds 1, so the contents show how many were made.
// `zero` is 0 at run time, opaque to the compiler: a load may be of any word stored before it, and a store may overwrite any,
// so none can be left out or moved, and all loads of a copy are in flight before the first store waits for one.
kernel void copy_local(global V* restrict contents, const uint rounds, const uint zero) {
    local V store[2 * ILP * GROUP_SIZE];
    local V* const source = store + get_local_id(0) * ITEM_STRIDE;
    local V* const target = source + zero;
    const uint first = (uint)get_global_id(0) * ILP;
    for (uint k = 0; k < ILP; k++) source[k * WORD_STRIDE] = NUMBERED(first + k);
    for (uint k = 0; k < ILP; k++) source[(ILP + k) * WORD_STRIDE] = (V)(~0u);
    V held[ILP];
    for (uint i = 0; i < rounds; i++) {
#define COPY_WORDS(from, to, more)                                                                 \
    _Pragma("unroll") for (uint k = 0; k < ILP; k++) held[k] = source[((from) + k) * WORD_STRIDE]; \
    _Pragma("unroll") for (uint k = 0; k < ILP; k++) target[((to) + k) * WORD_STRIDE] = held[k] + (V)(more);
        COPY_WORDS(0, ILP, 0)
        COPY_WORDS(ILP, 0, 1)
    }
    for (uint k = 0; k < ILP; k++) contents[first + k] = source[k * WORD_STRIDE];
    for (uint k = 0; k < ILP; k++) contents[ILP * get_global_size(0) + first + k] = source[(ILP + k) * WORD_STRIDE];
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
#define LOAD_VECTOR(k) (*(local const V*)((local const uchar*)store + at + (k) * LOAD_STRIDE_BYTES))
#endif
#define VECTOR_BYTES (4 * LANES)
#define LOAD_STRIDE_BYTES (VECTOR_BYTES * LOAD_STRIDE)

// Each work-item reads UNROLLED vectors V a round, next to its neighbours', and sums each of their words. Two loads share one
// addition of three terms, so a GPU that reads 128 bytes a cycle spends a quarter of its additions on the sums. Each round
// starts LOAD_STRIDE vectors, one sub-group's share, after the last one, so no round repeats the loads of the one before. XOR:
// the loads of a round are joined by exclusive or, of which a CPU does two in one operation where additions would take the
// ports that its widest loads need.
#if XOR
#define JOIN(a, b) joined ^= (a) ^ (b);
#else
#define JOIN(a, b) sum += (a) + (b);
#endif
FIXED_GROUP_SIZE(GROUP_SIZE, 1, 1)
kernel void read_local(global V* restrict sums, const uint rounds) {
    // the last loads of a round reach beyond the vectors at which its first may start
    local V store[START_VECTORS + UNROLLED * LOAD_STRIDE];
    for (uint k = 0; k < START_VECTORS + UNROLLED * LOAD_STRIDE; k += GROUP_SIZE) {
        const uint i = k + (uint)get_local_id(0);
        if (i < START_VECTORS + UNROLLED * LOAD_STRIDE) store[i] = NUMBERED(i) * HASH_FACTOR;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint at = VECTOR_BYTES * (uint)get_local_id(0);
    V sum = (V)(0);
    for (uint i = 0; i < rounds; i++) {
#if XOR
        V joined = (V)(0);
#endif
#if PTX
        const uint address = (uint)(ulong)store + at;
#endif
#pragma unroll
        for (uint k = 0; k < UNROLLED; k += ILP) {
            V v[ILP];
#pragma unroll
            for (uint j = 0; j < ILP; j++) v[j] = LOAD_VECTOR(k + j);
#pragma unroll
            for (uint j = 0; j < ILP; j += 2) JOIN(v[j], v[j + 1])
        }
#if XOR
        sum += joined;
#endif
        at = (at + LOAD_STRIDE_BYTES) & (VECTOR_BYTES * START_VECTORS - 1);
    }
    sums[get_global_id(0)] = sum;
}
#endif
