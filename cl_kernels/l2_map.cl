// Where lines lie in the L2: how long a work-item on one compute unit waits for each of LINES lines that all are in the L2.
// PTX 1: NVIDIA's registers tell the compute unit and the time; 0, for tests of the rest: a work-group is a unit, and no time
// passes. ATOMIC 0: loads that leave out L1 (ld.global.cg); 1: additions of 0, which are done where the line is at home.
#if PTX
uint unit_now(void) {
    uint id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id) : : "memory");
    return id;
}
uint ticks_now(void) {
    uint t;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(t) : : "memory");
    return t;
}
#if ATOMIC
#define NEXT(p) asm volatile("atom.global.add.u64 %0, [%0], 0;" : "+l"(p) : : "memory")
#else
#define NEXT(p) asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(p) : : "memory")
#endif
#else
#define unit_now() ((uint)get_group_id(0))
#define ticks_now() 0u
#define NEXT(p) p = *(volatile global ulong*)p
#endif

// Count this work-group in, and wait until all are there or PATIENCE looks have passed: they spread over the units meanwhile.
void meet(volatile global uint* arrived) {
    for (uint i = 0; i < PATIENCE && atomic_or(arrived, 0u) < get_num_groups(0); i++) {
    }
}

// One work-item a work-group: which compute unit it runs on.
kernel void units(global uint* restrict unit, volatile global uint* arrived) {
    unit[get_group_id(0)] = unit_now();
    atomic_inc(arrived);
    meet(arrived);
}

// One work-item a line: a node that holds its own address, so that following it stays on that line.
kernel void own_addresses(global uchar* memory, const global uint* restrict offset) {
    global uchar* node = memory + offset[get_global_id(0)];
    *(global ulong*)node = (ulong)node;
}

// One work-item a work-group: the first that runs on the target unit measures, after the others have come and gone, so that
// nothing else is on its way; row `row` of ticks is the time of `steps` dependent accesses to each line. unit tells where it
// ran, wrong counts lines that did not lead to themselves.
kernel void l2_map(global uchar* memory, const global uint* restrict offset, global uint* restrict unit,
                   global uint* restrict ticks, volatile global uint* arrived, volatile global uint* claimed,
                   global uint* restrict wrong, const uint row, const uint target, const uint steps) {
    local uint kept[LINES];  // kept near until the end: a store would be on its way to the L2 while the next line is timed
    volatile local ulong sink;
    const uint id = unit_now();
    atomic_inc(&arrived[row]);
    if (id != target || atomic_cmpxchg(&claimed[row], 0u, 1u) != 0u) return;
    meet(&arrived[row]);
    for (uint i = 0; i < LINES; i++) {  // into the L2, and their pages into the TLBs
        ulong p = (ulong)(memory + offset[i]);
        NEXT(p);
        sink = p;
    }
    uint lost = 0;
    for (uint i = 0; i < LINES; i++) {
        ulong p = (ulong)(memory + offset[i]);
        NEXT(p);
        sink = p;
        const uint start = ticks_now();
        for (uint n = 0; n < steps; n++) {
            // each access's address is what the last one read
            NEXT(p);
        }
        sink = p;  // cannot begin before the last access has ended
        kept[i] = ticks_now() - start;
        lost += p != (ulong)(memory + offset[i]);
    }
    for (uint i = 0; i < LINES; i++) ticks[(size_t)row * LINES + i] = kept[i];
    unit[row] = id;
    wrong[row] = lost;
}
