// Chains of dependent integer operations, which measure a core's clock and test the in-kernel counter that TICKS selects, and
// kernels that test by behaviour which features a device has.
#define TICK_BITS 64
#include "common.cl"

// The only work-item runs 32 operations a step, none of which can start before the one before it has ended, and writes their
// ticks.
kernel void alu_chain(global uint* restrict out, global ulong* restrict ticks, const uint steps, const uint a, const uint b) {
    uint x = a;
    const ulong start = ticks_now();
    for (uint i = 0; i < steps; i++) {
        ALU_CHAIN_32(x, a, b)
    }
    // the store keeps the second reading behind the last operation
    out[0] = x;
    ticks[0] = ticks_now() - start;
}

#if FENCE
// The only work-item writes the ticks of `steps` steps between two readings of the counter, summed over REPEATS chains. Fences
// keep an out-of-order core from reading the counter before the chain has ended.
kernel void fenced_chain(global uint* restrict out, global ulong* restrict ticks, const uint steps, const uint a,
                         const uint b) {
    ulong sum = 0;
    for (uint i = 0; i < REPEATS; i++) {
        uint x = a + i;  // chains are independent
        INSTRUCTION_FENCE
        const ulong start = ticks_now();
        INSTRUCTION_FENCE
        for (uint k = 0; k < steps; k++) {
            ALU_CHAIN_32(x, a, b)
        }
        out[0] = x;
        INSTRUCTION_FENCE
        sum += ticks_now() - start;
    }
    ticks[0] = sum;
}
#endif

#if NONTEMPORAL
// Each work-item stores one word past the caches: tests that the builtin exists and stores the given value.
kernel void nontemporal(global uint* restrict out) {
    __builtin_nontemporal_store((uint)get_global_id(0) * 3u + 1u, &out[get_global_id(0)]);
}
#endif

#if FP16
// The only work-item adds numbers whose sum is rounded in half.
kernel void half_add(global uint* restrict out, const uint one) {
    const half sum = (half)one + (half)2048.0f;
    out[0] = (uint)(sum - (half)2047.0f);
}
#endif

#if FP64
// The only work-item adds two numbers whose sum double precision holds and single does not.
kernel void double_add(global uint* restrict out, const uint one) {
    out[0] = (uint)(((double)one + 0x1p-40 - (double)one) * 0x1p40);
}
#endif
