// Pointer chase: each node holds the absolute address of the next one, so a step is one load and nothing else.

// One work-item a node: turn the successor's number into its address. Work-item 0 also sets the cursor to node 0.
kernel void build_chain(global uchar* chain, const global uint* restrict next, global ulong* restrict cursor,
                        const ulong spacing) {
    const size_t i = get_global_id(0);
    *(global ulong*)(chain + i * spacing) = (ulong)(chain + next[i] * spacing);
    if (i == 0) cursor[0] = (ulong)chain;
}

#define STEP p = (global const ulong*)*p;
#define FOUR STEP STEP STEP STEP

// One work-item: 16 steps a block, from where the last launch ended, so that a short pass over a long chain does not visit
// the same, by then cached, nodes again.
kernel void chase(global ulong* cursor, const uint blocks) {
    global const ulong* p = (global const ulong*)cursor[0];
    for (uint i = 0; i < blocks; i++) {
        // each load's address is the last load's value
        FOUR FOUR FOUR FOUR
    }
    cursor[0] = (ulong)p;
}

// One work-item a segment of the cycle: the number of steps from its first node to the next segment's, at most `limit`.
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

// One work-item a node: count the nodes that do not hold what build_chain wrote.
kernel void compare(global uchar* chain, const global uint* restrict next, global uint* restrict wrong, const ulong spacing) {
    const size_t i = get_global_id(0);
    if (*(global ulong*)(chain + i * spacing) != (ulong)(chain + next[i] * spacing)) atomic_inc(wrong);
}
