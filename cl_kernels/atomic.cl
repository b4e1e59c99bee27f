// Atomic operations that compete: T is uint or ulong, as which int, long, float and double are stored. OP selects one operation,
// ADDRESS where work-items aim, USED whether the old value is used.
#if LONG
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#define ATOMIC(name) atom_##name
#else
#define ATOMIC(name) atomic_##name
#endif
#ifdef FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define ADD 0
#define CAS 1
#define EXCHANGE 2
#define LOOP_ADD 3

#define SAME 0
#define GROUP 1
#define LINE 2
#define SPREAD 3

#if IN_LOCAL
#define CELLS local
#else
#define CELLS global
#endif

// One operation on a cell. `held` is what the work-item carries from one operation to the next; `count` what it adds up. `zero` is
// 0, which no compiler knows: what is added depends on the value before, so that each operation waits for the last one's result.
void operate(volatile CELLS T* const cell, T* const held, T* const count, const T zero) {
#if OP == ADD
#if USED
    *held = ATOMIC(add)(cell, (T)1 + (*held & zero));
    *count += *held;
#else
    ATOMIC(add)(cell, (T)1);
#endif
#elif OP == CAS
    // one attempt: it succeeds where the cell holds what this work-item saw last (of SPREAD, in another cell)
    const T old = ATOMIC(cmpxchg)(cell, *held, *held + 1);
    *count += old == *held;
    *held = old == *held ? old + 1 : old;
#elif OP == EXCHANGE
#if USED
    *held = ATOMIC(xchg)(cell, *held);
#else
    ATOMIC(xchg)(cell, *held);
#endif
#else
    // an addition that the device has no instruction for: repeated until nobody came between
    T seen = *cell, expected;
    do {
        expected = seen;
        seen = ATOMIC(cmpxchg)(cell, expected, AS_T(AS_REAL(expected) + (REAL)1));
    } while (seen != expected);
    *count += 1;
#endif
}

// Where the next operation of this work-item goes.
size_t next(const size_t fixed, uint* const state) {
#if ADDRESS == SPREAD
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state & (TABLE - 1);
#else
    return fixed;
#endif
}

// Every work-item does `rounds` operations, one after the other, on the cells of its ADDRESS, and leaves behind what it carries
// and what it counted.
kernel void compete(volatile global T* restrict cells, global T* restrict carried, global T* restrict counted, const T zero,
                    const uint rounds) {
    const size_t id = get_global_id(0);
    uint state = ((uint)id + 1u) * 2654435761u | 1u;
    T held = OP == EXCHANGE ? (T)(id + 1) : (T)0, count = 0;
#if IN_LOCAL
    local T mine[LOCAL_CELLS];
    // not begun at each work-item's own number: PoCL 3.0 cannot compile that before a barrier
    for (size_t i = 0; i < LOCAL_CELLS; i += get_local_size(0)) mine[(i + get_local_id(0)) % LOCAL_CELLS] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    volatile local T* const base = mine;
    const size_t fixed = 0;
#else
    volatile global T* const base = cells;
    const size_t fixed = ADDRESS == GROUP ? get_group_id(0) : ADDRESS == LINE ? id * (LINE_BYTES / sizeof(T)) : 0;
#endif
    for (uint i = 0; i < rounds; i++) operate(base + next(fixed, &state), &held, &count, zero);
#if IN_LOCAL
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t i = get_local_id(0); i < LOCAL_CELLS; i += get_local_size(0)) cells[get_group_id(0) * LOCAL_CELLS + i] = mine[i];
#endif
    carried[id] = held;
    counted[id] = count;
}
