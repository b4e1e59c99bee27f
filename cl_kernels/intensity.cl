// Rate over arithmetic intensity: reads of a set of data in batches, with multiply-adds on what was read. V is a vector of W
// elements of T, U the unsigned vector of its size, of elements WORD. COMBINE loads of a batch become one vector by exclusive
// or, which is no arithmetic in T, so that there may be less than a multiply-add for each element read: CHAINS vectors a batch.
// HALF: numbers of 16 bits, whose bits are added up; with PACKED two in each uint of V, multiplied by PTX.
#include "common.cl"

#pragma OPENCL FP_CONTRACT ON

#define LOADS 8
#define BLOCK (LOADS * GROUP_SIZE)  // vectors that a work-group reads in a batch
#define AS_V PASTE(as_, V)

// Any word that differs from place to place.
#define MASK(i) ((WORD)((uint)(i) * HASH_FACTOR) * (WORD)(HASH_SCRAMBLE_FACTOR))

#if HALF  // from float, without arithmetic in half
#define TO_BITS(number) (WORD)(number ? (as_uint((float)(number)) - (112 << 23)) >> 13 : 0)
#else
#define TO_BITS(number) PASTE(as_, WORD)((T)(number))
#endif

// Each work-item writes one element of a set. The elements that are combined are masked so that together they give a whole
// number from 0 to 63, by a formula by which the host knows all sums.
kernel void fill(global WORD* restrict data) {
    const ulong i = get_global_id(0), vector = i / W;
    const uint lane = i % W, item = vector % GROUP_SIZE, load = vector / GROUP_SIZE % LOADS;
    const uint block = (uint)(vector / BLOCK);
    const uint number = (5 * block + 3 * (load / COMBINE) + item + lane) & 63;
    WORD word = MASK(i);
    if (load % COMBINE == 0) {
        word = TO_BITS(number);
        for (uint n = 1; n < COMBINE; n++) word ^= MASK(i + n * GROUP_SIZE * W);
    }
    data[i] = word;
}

#define LOAD(n) const U l##n = p[n * GROUP_SIZE];
#if COMBINE == 1
#define GIVE_CHAIN(n) V x##n = AS_V(l##n);
#define GIVE_CHAINS APPLY(8, GIVE_CHAIN)
#elif COMBINE == 2
#define GIVE_CHAINS V x0 = AS_V(l0 ^ l1), x1 = AS_V(l2 ^ l3), x2 = AS_V(l4 ^ l5), x3 = AS_V(l6 ^ l7);
#elif COMBINE == 4
#define GIVE_CHAINS V x0 = AS_V(l0 ^ l1 ^ l2 ^ l3), x1 = AS_V(l4 ^ l5 ^ l6 ^ l7);
#else
#define GIVE_CHAINS V x0 = AS_V(l0 ^ l1 ^ l2 ^ l3 ^ l4 ^ l5 ^ l6 ^ l7);
#endif
// Two steps: the second undoes the factor of the first, so that numbers stay exact, and no product can be left out. The factor
// is the addend, too, so that a step reads two registers.
#if PACKED
#define FMA_2(x, f) asm volatile("fma.rn.f16x2 %0, %0, %1, %1;" : "+r"(x) : "r"(f));
#define STEP(x, f) FMA_2(x.s0, f.s0) FMA_2(x.s1, f.s1) FMA_2(x.s2, f.s2) FMA_2(x.s3, f.s3)
#define FILL(x) ((V)(x) * 0x10001)
#else
#define STEP(x, f) x = x * f + f;
#define FILL(x) ((V)(x))
#endif
#define STEP_CHAIN(n) STEP(x##n, factor)
#define STEP_BACK(n) STEP(x##n, back)
#define TWO_STEPS APPLY(CHAINS, STEP_CHAIN) APPLY(CHAINS, STEP_BACK)
#if HALF
#define SUMS U
#define ADD_TO(n, sum) sum += PASTE(as_, U)(x##n);
#else
#define SUMS V
#define ADD_TO(n, sum) sum = x##n * factor + sum;
#endif
#if CHAINS == 8
#define ADD_FOUR ADD_TO(0, a) ADD_TO(1, b) ADD_TO(2, a) ADD_TO(3, b)
#define ADD_CHAINS ADD_FOUR ADD_TO(4, a) ADD_TO(5, b) ADD_TO(6, a) ADD_TO(7, b)
#elif CHAINS == 4
#define ADD_CHAINS ADD_TO(0, a) ADD_TO(1, b) ADD_TO(2, a) ADD_TO(3, b)
#elif CHAINS == 2
#define ADD_CHAINS ADD_TO(0, a) ADD_TO(1, b)
#else
#define ADD_CHAINS ADD_TO(0, a)
#endif

// Sums are kept modulo LIMIT, a power of two far below the numbers of which T no longer has all. Adding and subtracting ROUND
// gives the nearest whole number; PoCL's compiler of LLVM 14 aborts at floor() and select() of such vectors.
#if HALF
#define FOLD(sum)
#elif REAL
#define FOLD(sum) sum -= (T)(LIMIT) * ((sum * (T)(1.0f / LIMIT) + (T)(ROUND)) - (T)(ROUND));
#else
#define FOLD(sum) sum &= (V)(LIMIT - 1);
#endif

// The only work-item moves the place at which the next pass begins, so that short passes do not read the same, by then cached,
// blocks.
kernel void advance(global uint* cursor, const uint batches) { cursor[0] += batches; }

// Each work-item reads `batches` batches of `mask` + 1 blocks, all blocks once before any again, in the order of a full-period
// generator with `jump`. Each vector that the loads give takes `eights` x 8 + `twos` x 2 multiply-adds, one more if `odd`, and,
// but in half, one that adds it to a sum. The factors are opaque to the compiler.
FIXED_GROUP_SIZE(GROUP_SIZE, 1, 1)
kernel void intensity(const global U* restrict data, global SUMS* restrict sums, const global uint* restrict cursor,
                      const uint batches, const uint mask, const uint jump, const uint eights, const uint twos, const uint odd,
                      const T scalar_factor, const T scalar_back) {
    const uint group = get_group_id(0), addend = jump == 1 ? 1 : (group * HASH_FACTOR >> 7) | 1;
    const V factor = FILL(scalar_factor), back = FILL(scalar_back);
    uint block = ((uint)((ulong)group * ((ulong)mask + 1) / get_num_groups(0)) + cursor[0]) & mask;
    SUMS total = (SUMS)(0);
#pragma unroll 1
    for (uint i = 0; i < batches; i++) {
        const global U* const p = data + (ulong)block * BLOCK + get_local_id(0);
        APPLY(8, LOAD)
        GIVE_CHAINS
#pragma unroll 1
        for (uint n = 0; n < eights; n++) {
            REPEAT_4(TWO_STEPS)
        }
#pragma unroll 1
        for (uint n = 0; n < twos; n++) {
            TWO_STEPS
        }
        if (odd) {
            APPLY(CHAINS, STEP_BACK)
        }
        SUMS a = (SUMS)(0), b = (SUMS)(0);
        ADD_CHAINS
        total += a + b;
        FOLD(total)
        block = (block * jump + addend) & mask;
    }
    sums[get_global_id(0)] = total;
}
