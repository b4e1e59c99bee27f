// Loads of sub-groups whose work-items touch a chosen number of distinct lines, none of which is met again soon. WIDTH is the
// number of work-items of a sub-group, LOADS how many independent loads an interval has, FMAS how many dependent multiply-adds
// follow them, STORES whether each interval stores a word, and STORED_INTERVALS after how many intervals the same word is
// stored again. Macros: TICKS and TICK_BITS (see common.cl), PTX (1: a work-group writes the number of its compute unit).
#include "common.cl"

#define LINE_WORDS 32  // 128 bytes

#if PTX
uint unit_now(void) {
    uint unit;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(unit));
    return unit;
}
#else
#define unit_now() 0
#endif

// Each work-item writes one word: a whole number below 256, by a formula that the host knows.
kernel void number_words(global float* restrict data, const uint seed) {
    data[get_global_id(0)] = (float)(((uint)get_global_id(0) * HASH_FACTOR + seed) >> 24);
}

// The line of a region that a load reads: all work-items of a sub-group that share a region have the same counter.
uint line_of(const uint counter, const uint mask) {
    uint h = counter;
    HASH_SCRAMBLE(h)
    return (HASH_FOLD(h) * HASH_FACTOR >> 5) & mask;
}

// Each work-item makes `intervals` rounds: LOADS loads from lines of its region, FMAS multiply-adds that add 1 each, and the
// sum of all that. The region is that of the 2^lane_shift work-items beside it, which read words of one line that are
// `word_step` apart; it has 2^region_shift words and `mask` + 1 lines. `zero` and `one` are 0 and 1 at run time, opaque to the
// compiler: the next interval's addresses wait for the end of this one's arithmetic.
kernel void memory_divergence(const global float* restrict data, global float* restrict sums, global float* restrict stored,
                              global ulong* restrict ticks, global uint* restrict units, const uint intervals, const uint mask,
                              const uint lane_shift, const uint region_shift, const uint word_step, const uint seed,
                              const uint zero, const float one) {
    const uint lane = get_local_id(0) % WIDTH, sub_group = get_global_id(0) / WIDTH;
    const uint within = (lane & ((1u << lane_shift) - 1)) * word_step;
    const global float* const region = data + ((size_t)(lane >> lane_shift) << region_shift) + within;
    // each region has its own sequence, so that no two lines of a load differ by a power of two alone
    uint counter = sub_group * HASH_FACTOR + (lane >> lane_shift) * HASH_SCRAMBLE_FACTOR + seed;
    float sum = 0;
    barrier(CLK_LOCAL_MEM_FENCE);  // all sub-groups of the work-group start together
    const ulong start = ticks_now();
#pragma unroll 1
    for (uint i = 0; i < intervals; i++) {
        float loaded[LOADS];
#pragma unroll
        for (uint j = 0; j < LOADS; j++) loaded[j] = region[(size_t)line_of(counter + j, mask) * LINE_WORDS];
        float x = loaded[0];
#pragma unroll
        for (uint j = 1; j < LOADS; j++) x += loaded[j];
#pragma unroll
        for (uint n = 0; n < FMAS; n++) x = fma(x, one, one);
        sum += x;
        counter += LOADS + (as_uint(x) & zero);
#if STORES
        stored[(size_t)(i % STORED_INTERVALS) * get_global_size(0) + get_global_id(0)] = x;
#endif
    }
    sums[get_global_id(0)] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        ticks[get_group_id(0)] = ticks_now() - start;
        units[get_group_id(0)] = unit_now();
    }
}
