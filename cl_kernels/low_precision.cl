// Peak rate of arithmetic whose numbers count few steps exactly, or whose instruction OpenCL C has no word for: independent
// chains in registers, as in arithmetic.cl. FORM says what a step is, CHAINS how many chains a work-item has. After FOLDED
// rounds of 16 steps the bits of a chain's end are added up, and it starts again. INSTRUCTION is one of PTX.
#include "common.cl"

#define HALF 0
#define PACKED 1
#define DOT 2
#define MATRIX 3
#define VNNI 4
#define AMX 5
#define QUOTE_TOKENS(text) #text
#define QUOTE(text) QUOTE_TOKENS(text)

#if FORM == HALF
// OpenCL C's half. V is half or a vector of it, BITS and SUMS are such vectors of ushort and uint.
#pragma OPENCL FP_CONTRACT ON
#define WORD ushort
#define OPERAND half
#define FROM_BITS(bits) as_half((ushort)(bits))
#define FROM_SUMS(bits) PASTE(as_, V)(PASTE(convert_, BITS)(bits))
#define TO_SUMS(x) PASTE(convert_, SUMS)(PASTE(as_, BITS)(x))
#define STEP(x, a, b) x = x * a + a;
#elif FORM == VNNI
#define WORD uint
#define OPERAND uint16
#else
#define WORD uint
#define OPERAND uint
#endif
#if FORM != HALF
#define SUMS V
#define FROM_BITS(bits) bits
#define FROM_SUMS(bits) bits
#define TO_SUMS(x) x
#endif

#if FORM == PACKED
// Two numbers of 16 bits in a register.
#define V uint
#define STEP(x, a, b) asm volatile(QUOTE(INSTRUCTION) " %0, %0, %1, %1;" : "+r"(x) : "r"(a));
#elif FORM == DOT
// The dot product of the four bytes of two registers, and an addend.
#define V uint
#define STEP(x, a, b) asm volatile(QUOTE(INSTRUCTION) " %0, %0, %1, %2;" : "+r"(x) : "r"(a), "r"(b));
#elif FORM == MATRIX
// The matrix instruction of a sub-group: D += A B with D of 16 x 8 in four registers, which hold 32-bit floats or integers. All
// elements of A are one number and all of B another, so that it does not matter which of them a work-item holds. With
// OPAQUE, A depends on the sums so far, or else the assembler would take the product out of the loop where it emulates the
// instruction. Such an A costs others half of their rate.
#define V uint4
#define STEP(x, a, b)                                                                        \
    asm volatile(QUOTE(INSTRUCTION) " {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3};" \
                 : "+r"(x.s0), "+r"(x.s1), "+r"(x.s2), "+r"(x.s3)                            \
                 : "r"(OPAQUE ? a ^ (x.s0 & zero) : a), "r"(b));
#endif

#if FORM == MATRIX
// Each work-item of a sub-group gives its parts of matrices A and B, and adds the product to its part of C.
kernel void product(const global uint4* restrict a, const global uint2* restrict b, global uint4* restrict c) {
    const uint i = get_global_id(0);
    const uint4 x = a[i];
    const uint2 y = b[i];
    uint4 sum = c[i];
    asm volatile(QUOTE(INSTRUCTION) " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(sum.s0), "+r"(sum.s1), "+r"(sum.s2), "+r"(sum.s3)
                 : "r"(x.s0), "r"(x.s1), "r"(x.s2), "r"(x.s3), "r"(y.s0), "r"(y.s1));
    c[i] = sum;
}
#endif

#if FORM == VNNI
// x86's instruction adds to each of 16 elements the dot product of its four bytes. A function has it: PoCL gives a kernel with
// other instructions than its own code wrong numbers of work-items.
#define V uint16
#define STEP(x, a, b) __asm__ volatile(QUOTE(INSTRUCTION) " %2, %1, %0" : "+v"(x) : "v"(b), "v"(a));
#define CHAINS_FUNCTION __attribute__((target("avx512f,avx512vnni"), noinline)) void
#elif FORM == AMX
// x86's instruction of tiles, 16 rows of 64 bytes: D += A B with D of 16 x 16 elements. D of chain i is tile i, A tile 4, and B
// tiles 6 and 7. In a function, as above.
#define V uint
#define TILE_WORDS 256
#define TILE_TIMES(b, d) __asm__ volatile(QUOTE(INSTRUCTION) " %%tmm" #b ", %%tmm4, %%tmm" #d ::);
#define MOVE_TILE(instruction, operands) __asm__ volatile(instruction " " operands : : "r"(tile), "r"(64ul) : "memory");
#define FILL_TILE(number, bits)                        \
    for (uint w = 0; w < TILE_WORDS; w++) tile[w] = bits; \
    MOVE_TILE("tileloadd", "(%0,%1), %%tmm" #number)
#define CHAINS_FUNCTION __attribute__((target("amx-tile,amx-int8,amx-bf16"), noinline)) void
#else
#define CHAINS_FUNCTION void
#endif
#if FORM == AMX
#define CHAIN_SUMS TILE_WORDS
#else
#define CHAIN_SUMS 1
#endif

#define STARTS 16  // work-items from which on start values repeat
#if FORM == AMX
#define DECLARE_CHAIN(i) \
    for (uint w = 0; w < TILE_WORDS; w++) mine[TILE_WORDS * i + w] = 0;
#define START_CHAIN(i) FILL_TILE(i, starts[own + i] ^ (mine[TILE_WORDS * i] & zero))
#define STEP_CHAIN(i) TILE_TIMES(6, i)
#define STEP_BACK(i) TILE_TIMES(7, i)
#define FOLD_CHAIN(i)                                 \
    MOVE_TILE("tilestored", "%%tmm" #i ", (%0,%1)") \
    for (uint w = 0; w < TILE_WORDS; w++) mine[TILE_WORDS * i + w] += tile[w];
#define STORE_CHAIN(i)
#else
// A chain starts with bits that depend on its last end, or else a compiler could move the steps out of the loop.
#define DECLARE_CHAIN(i)                               \
    V x##i;                                            \
    SUMS sum##i = (SUMS)(0);                           \
    const SUMS start##i = (SUMS)((uint)starts[own + i]);
#define START_CHAIN(i) x##i = FROM_SUMS(start##i ^ (sum##i & zero));
#define STEP_CHAIN(i) STEP(x##i, a, b)
#define STEP_BACK(i) STEP(x##i, c, d)
#define FOLD_CHAIN(i) sum##i += TO_SUMS(x##i);
#define STORE_CHAIN(i) mine[i] = sum##i;
#endif
#define TWO_STEPS APPLY(CHAINS, STEP_CHAIN) APPLY(CHAINS, STEP_BACK)

// Each work-item runs CHAINS chains of FOLDED x 16 steps from different start values `rounds` times, and writes the sum of the
// ends of each. Operands are bits of registers; `zero` is 0, opaque to the compiler.
CHAINS_FUNCTION run_chains(global SUMS* restrict mine, const global WORD* restrict starts, const uint own, const uint a_bits,
                           const uint b_bits, const uint c_bits, const uint d_bits, const uint zero, const uint rounds) {
#if FORM == AMX
    uint tile[TILE_WORDS] __attribute__((aligned(64)));
    for (uint w = 0; w < 16; w++) tile[w] = w / 4 == 1 ? 64 * 0x10001 : w / 2 == 6 ? 16 * 0x01010101 : w == 0;
    MOVE_TILE("ldtilecfg", "(%0)")  // palette 1; eight tiles of 64 bytes and 16 rows
    FILL_TILE(4, a_bits)
    FILL_TILE(6, b_bits)
    FILL_TILE(7, d_bits)
#else
    const OPERAND a = FROM_BITS(a_bits), b = FROM_BITS(b_bits), c = FROM_BITS(c_bits), d = FROM_BITS(d_bits);
#endif
    APPLY(CHAINS, DECLARE_CHAIN)
    for (uint i = 0; i < rounds; i++) {
        APPLY(CHAINS, START_CHAIN)
        for (uint j = 0; j < FOLDED; j++) {
            REPEAT_8(TWO_STEPS)
        }
        APPLY(CHAINS, FOLD_CHAIN)
    }
    APPLY(CHAINS, STORE_CHAIN)
}
kernel void chains(global uint* restrict out, const global WORD* restrict starts, const uint a_bits, const uint b_bits,
                   const uint c_bits, const uint d_bits, const uint zero, const uint rounds) {
    const uint own = get_global_id(0) % STARTS;
    global SUMS* const mine = (global SUMS*)out + CHAIN_SUMS * CHAINS * get_global_id(0);
    run_chains(mine, starts, own, a_bits, b_bits, c_bits, d_bits, zero, rounds);
}
