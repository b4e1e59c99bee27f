// Definitions that several kernel files share. The line `#include "common.cl"` of a kernel file is replaced by this text when
// the file is loaded, so no compiler needs to find it. Everything here is a macro, or a function that exists only where the
// including file asks for it: what a kernel does not use adds no code.
//
// Macros that select parts, defined before the line or by -D: FP64 (1: double), FP16 (1: half), INT64_ATOMICS (1: 64-bit
// atomics), TICKS and TICK_BITS (the in-kernel counter), FENCE (1: x86's lfence).

#if FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#if FP16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
#if INT64_ATOMICS
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#endif

// ---- kernels ----

// Stands before a kernel whose work-groups have this size, and lets the compiler rely on it.
#define FIXED_GROUP_SIZE(x, y, z) __attribute__((reqd_work_group_size(x, y, z)))

// ---- repetition ----

#define REPEAT_4(code) code code code code
#define REPEAT_8(code) code code code code code code code code
#define REPEAT_16(code) REPEAT_4(REPEAT_4(code))

// APPLY(n, macro) is macro(0) macro(1) ... macro(n - 1), for n = 1, 2, 4, 8 or 12, which may be macros.
#define PASTE_TOKENS(a, b) a##b
#define PASTE(a, b) PASTE_TOKENS(a, b)
#define APPLY_1(macro) macro(0)
#define APPLY_2(macro) macro(0) macro(1)
#define APPLY_4(macro) macro(0) macro(1) macro(2) macro(3)
#define APPLY_8(macro) macro(0) macro(1) macro(2) macro(3) macro(4) macro(5) macro(6) macro(7)
#define APPLY_12(macro) APPLY_8(macro) macro(8) macro(9) macro(10) macro(11)
#define APPLY(n, macro) PASTE(APPLY_, n)(macro)

// ---- hashes ----

// The two largest odd multipliers of xxHash32. Multiplying an index by the first spreads neighbouring indices over all words;
// HASH_SCRAMBLE and HASH_FOLD carry high bits of h, a uint or a vector of uint, down to its low bits.
#define HASH_FACTOR 2654435761u
#define HASH_SCRAMBLE_FACTOR 2246822519u
#define HASH_SCRAMBLE(h) h = (h ^ (h >> 15)) * HASH_SCRAMBLE_FACTOR;
#define HASH_FOLD(h) (h ^ (h >> 13))

// ---- sorting ----

// Exchanges two elements that are not in ascending order, without a branch once compiled. With min() and max() in their place
// Intel's CPU compiler of 2026 gives wrong values where a work-group is one work-item.
#define SORT_PAIR(type, first, second)                              \
    {                                                               \
        const type least = (first) < (second) ? (first) : (second); \
        second = (first) < (second) ? (second) : (first);           \
        first = least;                                              \
    }

// ---- time ----

// 32 dependent integer operations on x. Xor and add do not merge into one operation, and neither cancels the other, so a
// compiler cannot fold them.
#define ALU_CHAIN_32(x, a, b) REPEAT_16(x = (x ^ a) + b;)

// ticks_now() reads the counter that TICKS selects: 0 none, 1 NVIDIA's %clock or %clock64, 2 the compiler's cycle counter (the
// TSC on x86), as a uint, or as a ulong where TICK_BITS is 64.
#ifdef TICKS
#if TICK_BITS == 64
#define TICK ulong
#define TICK_INSTRUCTION "mov.u64 %0, %%clock64;"
#define TICK_REGISTER "=l"
#else
#define TICK uint
#define TICK_INSTRUCTION "mov.u32 %0, %%clock;"
#define TICK_REGISTER "=r"
#endif
#if TICKS == 1
TICK ticks_now(void) {
    TICK t;
    asm volatile(TICK_INSTRUCTION : TICK_REGISTER(t) : : "memory");
    return t;
}
#elif TICKS == 2
// the builtin's type is wider than a ulong in OpenCL C, and arithmetic on it aborts the process: narrow it at once
#define ticks_now() ((TICK)(ulong)__builtin_readcyclecounter())
#else
#define ticks_now() ((TICK)0)
#endif
#endif

// Waits until every earlier instruction has ended, where the processor has such a fence; else nothing.
#if FENCE
#define INSTRUCTION_FENCE __asm__ volatile("lfence" : : : "memory");
#else
#define INSTRUCTION_FENCE
#endif

// ---- loads by PTX ----

// Defines load_ptx(address), a load from global memory by the given instruction. Volatile: the compiler may neither leave a
// load out nor merge two.
#define DEFINE_LOAD_PTX(type, result, instruction)                \
    type load_ptx(const ulong address) {                          \
        type value;                                               \
        asm volatile(instruction : result(value) : "l"(address)); \
        return value;                                             \
    }
