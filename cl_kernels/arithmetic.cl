// Chains of multiply-adds in registers, which depend on nothing but themselves: what the arithmetic units can do.
#ifdef FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#if MATRIX
// FP64 matrix instructions of NVIDIA's sub-groups, by PTX: D += A B with A of 16 x 16, B of 16 x 8. All elements of A are `factor`
// and all of B `addend`, so that each adds 16 times their product to every element of D, wherever a work-item's elements lie.
#define MULTIPLY(d)                                                                                                            \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, "              \
                 "{%12,%13,%14,%15}, {%0,%1,%2,%3};"                                                                           \
                 : "+d"(d.s0), "+d"(d.s1), "+d"(d.s2), "+d"(d.s3)                                                              \
                 : "d"(a), "d"(a), "d"(a), "d"(a), "d"(a), "d"(a), "d"(a), "d"(a), "d"(b), "d"(b), "d"(b), "d"(b));
#define V double4
#define STEP(x) MULTIPLY(x)
#else
// contracted to one instruction where there is one: mad() is a function that some runtimes do not take apart
#pragma OPENCL FP_CONTRACT ON
#define STEP(x) x = x * a + b;
#endif

#if CHAINS == 1
#define EACH STEP(x0)
#elif CHAINS == 2
#define EACH STEP(x0) STEP(x1)
#elif CHAINS == 4
#define EACH STEP(x0) STEP(x1) STEP(x2) STEP(x3)
#else
#define EACH STEP(x0) STEP(x1) STEP(x2) STEP(x3) STEP(x4) STEP(x5) STEP(x6) STEP(x7)
#endif

// One work-item: CHAINS chains of 16 x `rounds` steps, each from its own number, whose ends are all written.
kernel void chains(global T* restrict out, const T factor, const T addend, const uint rounds) {
    const T own = (T)(get_global_id(0) & 63);
#if MATRIX
    const double a = factor, b = addend;
#else
    const V a = (V)(factor), b = (V)(addend);
#endif
    V x0 = (V)(own), x1 = (V)(own + 1), x2 = (V)(own + 2), x3 = (V)(own + 3);
    V x4 = (V)(own + 4), x5 = (V)(own + 5), x6 = (V)(own + 6), x7 = (V)(own + 7);
    for (uint i = 0; i < rounds; i++) {
        EACH EACH EACH EACH EACH EACH EACH EACH
        EACH EACH EACH EACH EACH EACH EACH EACH
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
}
