// Pointer chase: each node holds the absolute address of the next one, so a step is a single load.
#include "common.cl"

// Each work-item writes one node: the address of its successor. Work-item 0 also sets the cursor: the
// node reached, which is the first, all steps so far, those of the last launch, and where the chain begins.
kernel void build_chain(global uchar* chain, const global uint* restrict next, global ulong* restrict cursor,
                        const ulong spacing) {
    const size_t i = get_global_id(0);
    *(global ulong*)(chain + i * spacing) = (ulong)(chain + next[i] * spacing);
    if (i > 0) return;
    cursor[0] = cursor[3] = (ulong)chain;
    cursor[1] = cursor[2] = 0;
}

#define STEP                     \
    p = (global const ulong*)*p; \
    made++;

// The only work-item makes 16 steps a block, from the node where the last launch ended, so that a short pass over a long chain
// does not visit the same, by then cached, nodes again.
kernel void chase(global ulong* cursor, const uint blocks) {
    global const ulong* p = (global const ulong*)cursor[0];
    ulong made = 0;
    for (uint i = 0; i < blocks; i++) {
        // the address of each load is the value of the last one
        REPEAT_16(STEP)
    }
    cursor[0] = (ulong)p;
    cursor[1] += made;
    cursor[2] = made;
}

// Each work-item walks one segment of the cycle, and writes the number of steps to the first node of the next segment, or
// `limit`.
kernel void lap(global const uchar* chain, global const uint* restrict starts, global ulong* restrict steps,
                const ulong spacing, const ulong limit) {
    const size_t i = get_global_id(0);
    global const ulong* p = (global const ulong*)(chain + starts[i] * spacing);
    const ulong end = (ulong)(chain + starts[i + 1] * spacing);
    ulong n = 0;
    do {
        p = (global const ulong*)*p;
        n++;
    } while ((ulong)p != end && n < limit);
    steps[i] = n;
}

// Each work-item checks one node, and counts it if it does not hold what build_chain wrote.
kernel void compare(global uchar* chain, const global uint* restrict next, global uint* restrict wrong, const ulong spacing) {
    const size_t i = get_global_id(0);
    if (*(global ulong*)(chain + i * spacing) != (ulong)(chain + next[i] * spacing)) atomic_inc(wrong);
}
