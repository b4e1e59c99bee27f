// One work-item runs a chain of dependent integer operations: what a core's clock is measured by, and what an in-kernel
// counter is tested against. 32 operations a step; no operation can start before the one before it has ended.
// TICKS selects the counter: 0 none, 1 NVIDIA's %clock64, 2 the compiler's cycle counter (the TSC on x86).
#if TICKS == 1
ulong ticks_now(void) {
    ulong t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) : : "memory");
    return t;
}
#elif TICKS == 2
// the builtin's type is wider than a ulong in OpenCL C, and arithmetic on it aborts the process: narrow it at once
#define ticks_now() ((ulong)__builtin_readcyclecounter())
#else
#define ticks_now() ((ulong)0)
#endif

#define SETTLED __asm__ volatile("lfence" : : : "memory");

// xor and add do not merge into one operation, and neither cancels the other, so nothing can be folded
#define TWO x = (x ^ a) + b;
#define EIGHT TWO TWO TWO TWO

kernel void alu_chain(global uint* restrict out, global ulong* restrict ticks, const uint steps, const uint a, const uint b) {
    uint x = a;
    const ulong start = ticks_now();
    for (uint i = 0; i < steps; i++) {
        EIGHT EIGHT EIGHT EIGHT
    }
    // the result must be known before the counter is read again
    out[0] = x;
    ticks[0] = ticks_now() - start;
}

#if FENCE
// One work-item: the ticks of `steps` steps between two readings of the counter, REPEATS times over, with fences, which keep a
// core that runs ahead from reading the counter before the chain has ended.
kernel void fenced_chain(global uint* restrict out, global ulong* restrict ticks, const uint steps, const uint a, const uint b) {
    ulong sum = 0;
    for (uint i = 0; i < REPEATS; i++) {
        uint x = a + i;  // no chain waits for the one before it
        SETTLED
        const ulong start = ticks_now();
        SETTLED
        for (uint k = 0; k < steps; k++) {
            EIGHT EIGHT EIGHT EIGHT
        }
        out[0] = x;
        SETTLED
        sum += ticks_now() - start;
    }
    ticks[0] = sum;
}
#endif

// One work-item a word: a store that may bypass the caches, to see whether the builtin exists and stores what it is given.
#if NONTEMPORAL
kernel void nontemporal(global uint* restrict out) {
    __builtin_nontemporal_store((uint)get_global_id(0) * 3u + 1u, &out[get_global_id(0)]);
}
#endif

#if FP64
// One work-item: an addition that double precision holds and single does not.
kernel void double_add(global uint* restrict out, const uint one) {
    out[0] = (uint)(((double)one + 0x1p-40 - (double)one) * 0x1p40);
}
#endif
