// Contended atomic operations. T is uint or ulong, in which int, long, float and double are stored. OP selects the operation,
// ADDRESS the cells that work-items address, USED whether the value that an operation returns is used.
#define INT64_ATOMICS LONG
#include "common.cl"
#if LONG
#define ATOMIC(name) atom_##name
#else
#define ATOMIC(name) atomic_##name
#endif
#define OP_ADD 0
#define OP_CAS 1
#define OP_EXCHANGE 2
#define OP_LOOP_ADD 3

#define ADDRESS_SAME 0
#define ADDRESS_GROUP 1
#define ADDRESS_LINE 2
#define ADDRESS_SPREAD 3

#if IN_LOCAL
#define CELL_SPACE local
#else
#define CELL_SPACE global
#endif

// Performs one operation on a cell. `held` is the value that the work-item carries from one operation to the next; `count` is
// its sum of results, of compare-and-swaps its successes, and `missed` their failures. `zero` is zero at run time, opaque to
// the compiler: the operand depends on the last result, so operations are dependent. No operation leaves the sum of cells and
// results as it was.
void operate(volatile CELL_SPACE T* const cell, T* const held, T* const count, T* const missed, const T zero) {
#if OP == OP_ADD
#if USED
    *held = ATOMIC(add)(cell, (T)1 + (*held & zero));
    *count += *held;
#else
    ATOMIC(add)(cell, (T)1);
#endif
#elif OP == OP_CAS
    // One attempt. It succeeds where the cell holds the value that this work-item saw last (with ADDRESS_SPREAD in another
    // cell).
    const T old = ATOMIC(cmpxchg)(cell, *held, *held + 1);
    *count += old == *held;
    *missed += old != *held;
    *held = old == *held ? old + 1 : old;
#elif OP == OP_EXCHANGE
#if USED
    *held = ATOMIC(xchg)(cell, *held + 1);
#else
    // no operation waits for a result, but all are summed: nothing else would show that they came
    *count += ATOMIC(xchg)(cell, *held);
    *held += 1;
#endif
#else
    // An addition that the device has no instruction for: it is repeated until no other work-item wrote in between.
    T seen = *cell, expected;
    do {
        expected = seen;
        seen = ATOMIC(cmpxchg)(cell, expected, AS_T(AS_REAL(expected) + (REAL)1));
    } while (seen != expected);
    *count += 1;
#endif
}

// The cell that the next operation of this work-item addresses.
size_t next_cell(const size_t fixed, uint* const state) {
#if ADDRESS == ADDRESS_SPREAD
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state & (SPREAD_CELLS - 1);
#else
    return fixed;
#endif
}

// Each work-item performs `rounds` operations, one after the other, on the cells that ADDRESS selects, and writes its last
// value, of compare-and-swaps its failures, and its count.
kernel void compete(volatile global T* restrict cells, global T* restrict carried, global T* restrict counted, const T zero,
                    const uint rounds) {
    const size_t id = get_global_id(0);
    uint state = ((uint)id + 1u) * HASH_FACTOR | 1u;
    T held = OP == OP_EXCHANGE ? (T)(id + 1) : (T)0, count = 0, missed = 0;
#if IN_LOCAL
    local T mine[LOCAL_CELLS];
    // The loop starts at 0 for every work-item: PoCL 3.0 cannot compile a start that differs before a barrier.
    for (size_t i = 0; i < LOCAL_CELLS; i += get_local_size(0)) mine[(i + get_local_id(0)) % LOCAL_CELLS] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    volatile local T* const base = mine;
    const size_t fixed = 0;
#else
    volatile global T* const base = cells;
    const size_t fixed = ADDRESS == ADDRESS_GROUP  ? get_group_id(0)
                         : ADDRESS == ADDRESS_LINE ? id * (LINE_BYTES / sizeof(T))
                                                   : 0;
#endif
    for (uint i = 0; i < rounds; i++) operate(base + next_cell(fixed, &state), &held, &count, &missed, zero);
#if IN_LOCAL
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t i = get_local_id(0); i < LOCAL_CELLS; i += get_local_size(0))
        cells[get_group_id(0) * LOCAL_CELLS + i] = mine[i];
#endif
    carried[id] = OP == OP_CAS ? missed : held;
    counted[id] = count;
}
