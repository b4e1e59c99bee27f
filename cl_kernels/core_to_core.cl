// A line handed between two compute units by compare-and-swap. UNIT says how a work-group knows its compute unit: 1 NVIDIA's
// %smid, 2 the number of the CPU by x86's rdtscp, 0 not at all, and then a work-group counts as a unit.
#define TICK_BITS 32
#include "common.cl"

#if UNIT == 1
uint unit_now(void) {
    uint id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id) : : "memory");
    return id;
}
#elif UNIT == 2
// Linux keeps the number of the CPU in the lower 12 bits of the register that rdtscp reads beside the counter.
uint unit_now(void) {
    uint low, high, cpu;
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(cpu) : : "memory");
    return cpu & 0xFFF;
}
#else
#define unit_now() ((uint)get_group_id(0))
#endif
#define NO_UNIT 0xFFFFFFFFu

// Waits until all work-groups have arrived, or for PATIENCE reads of their count: meanwhile they spread over the units.
void wait_for_groups(volatile global uint* arrived) {
    for (uint i = 0; i < PATIENCE && *arrived < get_num_groups(0); i++) {}
}

// The only work-item of each work-group writes the compute unit that it runs on.
kernel void units(global uint* restrict unit, volatile global uint* arrived) {
    atomic_inc(arrived);
    wait_for_groups(arrived);
    unit[get_group_id(0)] = unit_now();
}

// The only work-item of the first work-group on each of the two units hands over each of LINES lines `rounds` times, after
// WARM_ROUNDS that are not timed: it waits until the word has its own number, and adds 1, by which the word is the other's. The
// other work-groups end when all have arrived, so that no thread has two of them. Numbers begin at a multiple of 2^20 that no
// other row has. A wait of over `patience` polls ends the row. Each of the two writes where it ran, if it was one unit
// all the time and no wait was so long, and how many lines had another number of turns; the first one the ticks of each line.
kernel void hand_over(global uchar* memory, const global uint* restrict offset, volatile global uint* arrived,
                      volatile global uint* claimed, global uint* restrict unit, global uint* restrict ticks,
                      global uint* restrict wrong, const uint row, const uint first, const uint second, const uint rounds,
                      const uint patience) {
    uint kept[LINES] = {0};
    const uint id = unit_now();
    atomic_inc(&arrived[row]);
    wait_for_groups(&arrived[row]);
    if (id != first && id != second) return;
    const uint role = id == first ? 0 : 1, side = 2 * row + role;
    if (atomic_cmpxchg(&claimed[side], 0u, 1u) != 0u) return;
    uint failed = 0, waits = 0;  // lines with another number of turns, and waits without end
    for (uint i = 0; i < LINES && waits == 0; i++) {
        volatile global uint* line = (volatile global uint*)(memory + offset[i]);
        const uint base = (row + 1) << 20;
        if (role == 0) atomic_xchg(line, base);
        uint number = base + role, made = 0, polls = 0, start = 0;
        while (made < rounds + WARM_ROUNDS && polls <= patience) {
            if (made == WARM_ROUNDS && polls == 0) start = ticks_now();
            if (atomic_cmpxchg(line, number, number + 1) == number) {
                number += 2;
                made++;
                polls = 0;
            } else {
                polls++;
            }
        }
        kept[i] = ticks_now() - start;
        waits += polls > patience;
        failed += polls <= patience && made != rounds + WARM_ROUNDS;
    }
    if (role == 0) {
        for (uint i = 0; i < LINES; i++) ticks[row * LINES + i] = kept[i];
    }
    unit[side] = waits == 0 && unit_now() == id ? id : NO_UNIT;
    wrong[side] = failed;
}
