// Peak rate of arithmetic: independent chains of multiply-adds in registers. V is T or a vector of T, CHAINS the chains of a
// work-item, MATRIX whether a step is one matrix instruction, OWN_CONSTANTS whether each work-item computes the constants, of
// 32 bits.
#include "common.cl"

#if MATRIX
// The FP64 matrix instruction of NVIDIA's sub-groups, by PTX: D += A B with A of 16 x 16 and B of 16 x 8. All elements of A
// are one number and all of B another, so each instruction adds 16 times their product to every element of D, and it does not
// matter which elements a work-item holds.
#define MULTIPLY_ADD(sum, a, b)                                                                                   \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, " \
                 "{%12,%13,%14,%15}, {%0,%1,%2,%3};"                                                              \
                 : "+d"(sum.s0), "+d"(sum.s1), "+d"(sum.s2), "+d"(sum.s3)                                         \
                 : "d"(a), "d"(a), "d"(a), "d"(a), "d"(a), "d"(a), "d"(a), "d"(a), "d"(b), "d"(b), "d"(b), "d"(b));
#define V double4
#else
// Contraction gives one instruction where the device has one; mad() would be a call that some runtimes do not inline. The
// factor is the addend, too, so that a step reads two registers. With an addend of its own, each change of the constants cost
// an H200 a cycle, and float stayed at 89% of the peak. NVIDIA's compiler extends constants of 8 or 16 bits to registers
// before each use, unless they are of 32 bits and a work-item's own: short was at 73% of int there.
#pragma OPENCL FP_CONTRACT ON
#define MULTIPLY_ADD(x, factor, addend) x = x * factor + addend;
#endif

// Two steps: the second undoes the factor of the first, so that numbers stay exact, and no product can be left out.
#define STEP_CHAIN(i) MULTIPLY_ADD(x##i, a, b)
#define STEP_BACK(i) MULTIPLY_ADD(x##i, c, d)
#define TWO_STEPS APPLY(CHAINS, STEP_CHAIN) APPLY(CHAINS, STEP_BACK)

// Each work-item runs CHAINS chains of 16 x `rounds` steps from different start values, and writes the end of each.
kernel void chains(global T* restrict out, const T factor, const T addend, const T back, const T last, const uint rounds) {
    const T own = (T)(get_global_id(0) & 63);
#if MATRIX
    const double a = factor, b = addend, c = back, d = last;
#else
#if OWN_CONSTANTS
    const uint zero = get_local_id(0) >> 16, a = factor + zero, b = a, c = back + zero, d = c;
#else
    const V a = (V)(factor), b = a, c = (V)(back), d = c;
#endif
#endif
    V x0 = (V)(own), x1 = (V)(own + 1), x2 = (V)(own + 2), x3 = (V)(own + 3);
    V x4 = (V)(own + 4), x5 = (V)(own + 5), x6 = (V)(own + 6), x7 = (V)(own + 7);
    V x8 = (V)(own + 8), x9 = (V)(own + 9), x10 = (V)(own + 10), x11 = (V)(own + 11);
    for (uint i = 0; i < rounds; i++) {
        REPEAT_8(TWO_STEPS)
    }
    global V* const mine = (global V*)out + CHAINS * get_global_id(0);
    mine[0] = x0;
#if CHAINS > 1
    mine[1] = x1;
#endif
#if CHAINS > 2
    mine[2] = x2;
    mine[3] = x3;
#endif
#if CHAINS > 4
    mine[4] = x4;
    mine[5] = x5;
    mine[6] = x6;
    mine[7] = x7;
#endif
#if CHAINS > 8
    mine[8] = x8;
    mine[9] = x9;
    mine[10] = x10;
    mine[11] = x11;
#endif
}
