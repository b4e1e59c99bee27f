// Chains of one operation: its latency by a single chain, its throughput by many. V is T or a vector of T, CHAINS the chains of
// a work-item; REAL: T is a floating-point type. `a` and `b` are opaque to the compiler. No chain can be shortened: where
// equal operations would merge, two values feed each other (add, mul), or another operation stands between them (its carrier,
// whose own cost the host knows). GROUP says which kernels there are: 0 arithmetic, 1 functions, 2 local memory, 3 sub-groups.
// PACKED: V is a register with two halves, whose instructions are those of PTX; T has the bits of one.
#include "common.cl"

#pragma OPENCL FP_CONTRACT ON

#define LOAD_CHAIN(i) V x##i = starts[CHAINS * get_global_id(0) + i], y##i = x##i + (V)(2);
#define STORE_CHAIN(i) ends[CHAINS * get_global_id(0) + i] = x##i;

// Each work-item repeats two operations in each of its chains, and writes the end of each chain and how many rounds it made.
#define DEFINE_CHAINS(name, repeat, set_up, first, second)                                                          \
    kernel void name(const global V* restrict starts, global V* restrict ends, global uint* restrict made, \
                           const T scalar_a, const T scalar_b, const uint rounds) {                                 \
        const V a = FILL(scalar_a), b = FILL(scalar_b);                                                             \
        uint done = 0;                                                                                              \
        set_up APPLY(CHAINS, LOAD_CHAIN) for (uint i = 0; i < rounds; i++) {                                        \
            repeat(APPLY(CHAINS, first) APPLY(CHAINS, second)) done++;                                              \
        }                                                                                                           \
        APPLY(CHAINS, STORE_CHAIN) made[get_global_id(0)] = done;                                                   \
    }
#if PACKED
#define FILL(x) ((V)(x) * 0x10001)
#else
#define FILL(x) ((V)(x))
#endif
#define ONCE(code) code
#define NOTHING
#define DEFINE_FAST(name, first, second) DEFINE_CHAINS(name, REPEAT_8, NOTHING, first, second)
#define DEFINE_SLOW(name, step) DEFINE_CHAINS(name, ONCE, NOTHING, step, step)

#if GROUP == 0 && PACKED
#define OF_TWO(instruction, x, y) asm volatile(instruction " %0, %0, %1;" : "+r"(x) : "r"(y));
#define ADD_A(i) OF_TWO("add.f16x2", x##i, a)
#define ADD_B(i) OF_TWO("add.f16x2", x##i, b)
#define MUL_A(i) OF_TWO("mul.f16x2", x##i, a)
#define MUL_B(i) OF_TWO("mul.f16x2", x##i, b)
#define FMA(i) asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(x##i) : "r"(a), "r"(b));
#define MIN(i) OF_TWO("min.f16x2", x##i, a) OF_TWO("add.f16x2", x##i, b)
#elif GROUP == 0 && REAL
#define ADD_A(i) x##i += a;
#define ADD_B(i) x##i += b;
#define MUL_A(i) x##i *= a;
#define MUL_B(i) x##i *= b;
#define FMA(i) x##i = x##i * a + b;
#define MIN(i) x##i = min(x##i, a) + b;
#endif
#if GROUP == 0 && REAL
DEFINE_FAST(run_add, ADD_A, ADD_B)
DEFINE_FAST(run_mul, MUL_A, MUL_B)
DEFINE_FAST(run_fma, FMA, FMA)
DEFINE_FAST(run_min, MIN, MIN)
#elif GROUP == 0
#define ADD_X(i) x##i += y##i;
#define ADD_Y(i) y##i += x##i;
#define MUL_X(i) x##i *= y##i;
#define MUL_Y(i) y##i *= x##i;
#define XOR_PLUS(i) x##i = (x##i ^ a) + b;
#define XOR_MINUS(i) x##i = (x##i ^ a) - b;
#define MIN(i) x##i = min(x##i, a) ^ b;
#define SHIFT(i) x##i = (x##i >> a) + b;
#define MUL_HI(i) x##i = b - mul_hi(x##i, a);
#define POPCOUNT(i) x##i = popcount(x##i) + b;
DEFINE_FAST(run_add, ADD_X, ADD_Y)
DEFINE_FAST(run_mul, MUL_X, MUL_Y)
DEFINE_FAST(run_xor, XOR_PLUS, XOR_MINUS)
DEFINE_FAST(run_min, MIN, MIN)
DEFINE_FAST(run_shift, SHIFT, SHIFT)
DEFINE_FAST(run_mul_hi, MUL_HI, MUL_HI)
DEFINE_FAST(run_popcount, POPCOUNT, POPCOUNT)
#endif

#if GROUP == 1
#define DIV(i) x##i = a / x##i + b;
DEFINE_SLOW(run_div, DIV)
#if REAL
#define RCP(i) x##i = (V)(1) / x##i + b;
#define SQRT(i) x##i = sqrt(x##i) + b;
#define RSQRT(i) x##i = rsqrt(x##i) + b;
#define EXP(i) x##i = exp(x##i) + b;
#define LOG(i) x##i = log(x##i) + b;
#define SIN(i) x##i = sin(x##i) + b;
DEFINE_SLOW(run_rcp, RCP)
DEFINE_SLOW(run_sqrt, SQRT)
DEFINE_SLOW(run_rsqrt, RSQRT)
DEFINE_SLOW(run_exp, EXP)
DEFINE_SLOW(run_log, LOG)
DEFINE_SLOW(run_sin, SIN)
#endif
#if NATIVE
#define NATIVE_DIV(i) x##i = native_divide(a, x##i) + b;
#define NATIVE_RCP(i) x##i = native_recip(x##i) + b;
#define NATIVE_SQRT(i) x##i = native_sqrt(x##i) + b;
#define NATIVE_RSQRT(i) x##i = native_rsqrt(x##i) + b;
#define NATIVE_EXP(i) x##i = native_exp(x##i) + b;
#define NATIVE_LOG(i) x##i = native_log(x##i) + b;
#define NATIVE_SIN(i) x##i = native_sin(x##i) + b;
DEFINE_SLOW(run_native_div, NATIVE_DIV)
DEFINE_SLOW(run_native_rcp, NATIVE_RCP)
DEFINE_SLOW(run_native_sqrt, NATIVE_SQRT)
DEFINE_SLOW(run_native_rsqrt, NATIVE_RSQRT)
DEFINE_SLOW(run_native_exp, NATIVE_EXP)
DEFINE_SLOW(run_native_log, NATIVE_LOG)
DEFINE_SLOW(run_native_sin, NATIVE_SIN)
#endif
#if CONVERTS
// To the other kind of number and back, two conversions. ONE is no number of the first kind where the other is wider, or
// compilers would add without converting.
#define FORTH(x) PASTE(convert_, OTHER)(PASTE(as_, SIGNED)(x))
#define BACK(x) PASTE(as_, V)(PASTE(convert_, SIGNED)(x))
#define CONVERT(i) x##i = BACK(FORTH(x##i) + (OTHER)(ONE));
DEFINE_SLOW(run_convert, CONVERT)
#endif
#endif

#if GROUP == 2
// Each work-item follows its own column of ROWS words in local memory, so that no barrier is needed; a place is an offset in
// bytes.
#define LOCAL_TABLE                                                                                  \
    local uint table[ROWS * ITEMS];                                                                  \
    for (uint r = 0; r < ROWS; r++)                                                                  \
        table[r * ITEMS + get_local_id(0)] = 4 * ((r + 1) % ROWS * ITEMS + (uint)get_local_id(0));
#define LOCAL_LOAD(i) x##i = *(local const uint*)((local const uchar*)table + x##i);
DEFINE_CHAINS(run_local_load, REPEAT_8, LOCAL_TABLE, LOCAL_LOAD, LOCAL_LOAD)
#endif

#if GROUP == 3
#if PTX
uint shuffle(const uint x, const uint source) {
    uint found;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, -1;" : "=r"(found) : "r"(x), "r"(source));
    return found;
}
uint reduce(const uint x) {
    uint found;
    asm volatile("redux.sync.max.u32 %0, %1, -1;" : "=r"(found) : "r"(x));
    return found;
}
#else
#define shuffle sub_group_shuffle
#define reduce sub_group_reduce_max
#endif
#define LANE                                     \
    const uint lane = get_local_id(0) % ROWS; \
    const uint next = (lane + 1) % ROWS;
#define SHUFFLE(i) x##i = shuffle(x##i, next);
#define REDUCE(i) x##i = reduce(x##i) + lane;
DEFINE_CHAINS(run_shuffle, REPEAT_8, LANE, SHUFFLE, SHUFFLE)
DEFINE_CHAINS(run_reduce, REPEAT_8, LANE, REDUCE, REDUCE)
#endif
