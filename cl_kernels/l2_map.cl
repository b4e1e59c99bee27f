// Location of lines in a sliced L2: the latency from one compute unit to each of LINES lines that are all in the L2. With PTX 1
// NVIDIA's registers give the compute unit and the time; with PTX 0, for tests of the rest, a work-group counts as a unit and
// no time passes. With ATOMIC 0 accesses are loads that bypass L1 (ld.global.cg); with 1 they are additions of 0, which are
// performed in the line's home slice.
#define TICKS PTX
#define TICK_BITS 32
#include "common.cl"
#if PTX
uint unit_now(void) {
    uint id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id) : : "memory");
    return id;
}
#if ATOMIC
#define LOAD_NEXT(p) asm volatile("atom.global.add.u64 %0, [%0], 0;" : "+l"(p) : : "memory")
#else
#define LOAD_NEXT(p) asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(p) : : "memory")
#endif
#else
#define unit_now() ((uint)get_group_id(0))
#define LOAD_NEXT(p) p = *(volatile global ulong*)p
#endif

// Waits until all work-groups have arrived, or for PATIENCE reads of their count: meanwhile they spread over the units.
void wait_for_groups(volatile global uint* arrived) {
    for (uint i = 0; i < PATIENCE && atomic_or(arrived, 0u) < get_num_groups(0); i++) {}
}

// The only work-item of each work-group writes the compute unit that it runs on.
kernel void units(global uint* restrict unit, volatile global uint* arrived) {
    unit[get_group_id(0)] = unit_now();
    atomic_inc(arrived);
    wait_for_groups(arrived);
}

#define NODES 4
#define NODE(i, steps) ((ulong)(memory + offset[i]) + 8 * ((steps) % NODES))

// Each work-item writes one line: a ring of NODES nodes in one sector, each of which holds the address of the next, so that a
// chase stays in that sector, and where it ends shows its steps.
kernel void make_rings(global uchar* memory, const global uint* restrict offset) {
    const uint i = get_global_id(0);
    for (uint k = 0; k < NODES; k++) *(global ulong*)NODE(i, k) = NODE(i, k + 1);
}

// The only work-item of each work-group checks where it runs. The first one on the target unit measures, after the others have
// arrived and ended, so that no other access is in flight; row `row` of `ticks` is the time of `steps` dependent accesses to
// each line. `unit` records where it ran; `wrong` counts lines of which not all steps were made, or led elsewhere.
kernel void l2_map(global uchar* memory, const global uint* restrict offset, global uint* restrict unit,
                   global uint* restrict ticks, volatile global uint* arrived, volatile global uint* claimed,
                   global uint* restrict wrong, const uint row, const uint target, const uint steps) {
    local uint kept[LINES];  // in local memory until the end: a store to the L2 would overlap with the timing of the next line
    volatile local ulong sink;
    const uint id = unit_now();
    atomic_inc(&arrived[row]);
    if (id != target || atomic_cmpxchg(&claimed[row], 0u, 1u) != 0u) return;
    wait_for_groups(&arrived[row]);
    for (uint i = 0; i < LINES; i++) {  // loads the lines into the L2, and their pages into the TLBs
        ulong p = (ulong)(memory + offset[i]);
        LOAD_NEXT(p);
        sink = p;
    }
    uint lost = 0;
    for (uint i = 0; i < LINES; i++) {
        ulong p = (ulong)(memory + offset[i]);
        LOAD_NEXT(p);
        sink = p;
        uint made = 0;
        const uint start = ticks_now();
        for (uint n = 0; n < steps; n++) {
            // the address of each access is the value that the last one read
            LOAD_NEXT(p);
            made++;
        }
        sink = p;  // cannot start before the last access has ended
        kept[i] = ticks_now() - start;
        lost += made != steps || p != NODE(i, steps + 1);
    }
    for (uint i = 0; i < LINES; i++) ticks[(size_t)row * LINES + i] = kept[i];
    unit[row] = id;
    wrong[row] = lost;
}
