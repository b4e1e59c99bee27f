// Throughput of local memory: copying within it, word by word, and reading it as fast as it gives.
#if COPY
// Work-items copy ILP words each from one region of their work-group's local memory to another, and back: 2 copies a round. Nobody
// touches another's words, so no barrier is needed; volatile, so that every load and every store is made, in this order: all loads
// of a copy are on their way before the first store waits for one. Each copy puts a work-item's words one place further round, by
// the names of registers alone, so that where they are in the end tells how many copies were made.
kernel void copy_local(global uint* restrict found, const uint rounds) {
    local uint store[2 * ILP * GROUP];
    volatile local uint* const here = store + get_local_id(0);
    const uint first = (uint)get_global_id(0) * ILP;
    for (uint k = 0; k < ILP; k++) here[k * GROUP] = first + k;
    for (uint k = 0; k < ILP; k++) here[(ILP + k) * GROUP] = ~0u;
    uint held[ILP];
    for (uint i = 0; i < rounds; i++) {
#define MOVE(from, to)                                                                   \
    _Pragma("unroll") for (uint k = 0; k < ILP; k++) held[k] = here[((from) + k) * GROUP]; \
    _Pragma("unroll") for (uint k = 0; k < ILP; k++) here[((to) + (k + 1) % ILP) * GROUP] = held[k];
        MOVE(0, ILP)
        MOVE(ILP, 0)
    }
    for (uint k = 0; k < ILP; k++) found[first + k] = here[k * GROUP];
    for (uint k = 0; k < ILP; k++) found[ILP * get_global_size(0) + first + k] = here[(ILP + k) * GROUP];
}
#else
// Work-items read vectors of 16 B, UNROLLED a round, neighbours next to each other, and add up what they read, of each of the four
// words alone: two loads are one three-term addition each, so adding is a quarter of what a GPU that reads 128 B a cycle can do
// meanwhile. Each round begins one sub-group's share further on, so that no round's loads are those of the one before.
#if PTX
// not volatile in PTX: volatile vectors may be taken apart; the sums need every one
uint4 loaded(const uint address) {
    uint x, y, z, w;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(address) : "memory");
    return (uint4)(x, y, z, w);
}
#define LOADED(k) loaded(address + (k) * STEP_BYTES)
#else
#define LOADED(k) (*(local const uint4*)((local const uchar*)store + at + (k) * STEP_BYTES))
#endif
#define STEP_BYTES (16 * STEP)

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
kernel void read_local(global uint4* restrict sums, const uint rounds) {
    // the last loads of a round go beyond what the first may begin at
    local uint4 store[TURN + UNROLLED * STEP];
    for (uint k = 0; k < TURN + UNROLLED * STEP; k += GROUP) {
        const uint i = k + (uint)get_local_id(0);
        if (i < TURN + UNROLLED * STEP) store[i] = (uint4)(4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3) * 2654435761u;
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
            for (uint j = 0; j < ILP; j++) v[j] = LOADED(k + j);
#pragma unroll
            for (uint j = 0; j < ILP; j += 2) sum += v[j] + v[j + 1];
        }
        at = (at + STEP_BYTES) & (16 * TURN - 1);
    }
    sums[get_global_id(0)] = sum;
}
#endif
