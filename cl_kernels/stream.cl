// STREAM and similar kernels over arrays of T. With V, a vector of elements, the file defines the kernel that is measured: OP
// selects what `stream` or `reduce` computes. Without V it defines kernels that fill the inputs and compute the expected
// outputs of every shape.
#include "common.cl"

#ifndef V
typedef PASTE(T, 4) T4;

// Four whole numbers from 1 to `levels`, a power of two up to 1024: hashes of the indices from i on and of a seed. They are
// small so that sums of products are exact and results can be compared for equality, and none is 0, so that no sum lacks a term
// unseen. No vector here has over 32 bytes: PoCL 3.0 calls built-in functions of 64 bytes wrongly on CPUs with AVX-512 that its
// LLVM does not know, such as AMD's Zen 4.
uint4 values(const ulong i, const uint seed, const uint levels) {
    const ulong4 at = i + (ulong4)(0, 1, 2, 3);
    uint4 h = convert_uint4((at ^ (at >> 32)) & 0xFFFFFFFFul) * HASH_FACTOR ^ seed;
    HASH_SCRAMBLE(h)
    return (HASH_FOLD(h) & (levels - 1)) + 1;
}

// Each work-item writes four of n elements.
kernel void init(global T* restrict a, const ulong n, const uint seed, const uint levels) {
    const ulong i = 4 * get_global_id(0);
    const T4 v = PASTE(convert_, PASTE(T, 4))(values(i, seed, levels));
    if (i + 4 <= n) {
        vstore4(v, 0, a + i);
    } else {
        const T rest[4] = {v.s0, v.s1, v.s2, v.s3};
        for (ulong e = i; e < n; e++) a[e] = rest[e - i];
    }
}

// Each work-item checks four of n elements, and counts those that differ from times_b * b + times_c * c + plus by the inputs'
// formula.
kernel void verify(const global T* restrict a, const ulong n, const uint seed_b, const uint seed_c, const uint levels,
                   const uint times_b, const uint times_c, const uint plus, global uint* restrict wrong) {
    const ulong i = 4 * get_global_id(0);
    const T4 want =
        PASTE(convert_, PASTE(T, 4))(times_b * values(i, seed_b, levels) + times_c * values(i, seed_c, levels) + plus);
    if (i + 4 <= n && all(vload4(0, a + i) == want)) return;
    const T wants[4] = {want.s0, want.s1, want.s2, want.s3};
    for (ulong e = i; e < min(i + 4, n); e++)
        if (!(a[e] == wants[e - i])) atomic_inc(wrong);
}

// Each of m work-items sums, in integers and from the inputs' formula alone, every m-th four of n elements of b, or of b times
// c.
kernel void expect(global ulong* restrict partial, const uint seed_b, const uint seed_c, const uint levels, const uint products,
                   const ulong n) {
    const ulong k = get_global_id(0), m = get_global_size(0);
    ulong4 sums = 0;
    for (ulong i = 4 * k; i + 4 <= n; i += 4 * m)
        sums += convert_ulong4(values(i, seed_b, levels) * (products ? values(i, seed_c, levels) : (uint4)(1)));
    ulong sum = sums.s0 + sums.s1 + sums.s2 + sums.s3;
    if (k == 0)
        for (ulong e = n / 4 * 4; e < n; e++)
            sum += values(e, seed_b, levels).s0 * (products ? values(e, seed_c, levels).s0 : 1u);
    partial[k] = sum;
}

#else
#define OP_COPY 0
#define OP_SCALE 1
#define OP_ADD 2
#define OP_TRIAD 3
#define OP_WRITE 4
#define OP_DOT 5
#define OP_READ 6

#if NONTEMPORAL
#define STORE(v, p) __builtin_nontemporal_store((v), (p))
#else
#define STORE(v, p) (*(p) = (v))
#endif

#if OP <= OP_WRITE
#if OP == OP_COPY
#define VALUE(i) b[i]
#elif OP == OP_SCALE
#define VALUE(i) ((V)(s) * b[i])
#elif OP == OP_ADD
#define VALUE(i) (b[i] + c[i])
#elif OP == OP_TRIAD
#define VALUE(i) (b[i] + (V)(s) * c[i])
#else
#define VALUE(i) ((V)(s))
#endif

// Each work-item writes one vector; with LOOP, for a fixed number of work-groups, every m-th of n vectors for m work-items.
kernel void stream(global V* restrict a, const global V* restrict b, const global V* restrict c, const T s, const ulong n) {
#if LOOP
    for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) STORE(VALUE(i), &a[i]);
#else
    const size_t i = get_global_id(0);
    STORE(VALUE(i), &a[i]);
#endif
}

#else
#if OP == OP_DOT
#define TERM(i) (b[i] * c[i])
#else
#define TERM(i) (b[i])
#endif

// Each work-item sums its share of n vectors. BLOCKED: a contiguous block, read as four streams at the same time, since a
// core's prefetcher stops at the end of each page; otherwise its work-group reads four tiles of its size that lie side by side,
// and goes on by the whole grid, so that neighbours read neighbouring addresses: four streams a grid apart were 1 to 4% slower
// on an H100. It writes a vector of sums, which the host adds up.
kernel void reduce(const global V* restrict b, const global V* restrict c, global V* restrict partial, const ulong n) {
    const ulong k = get_global_id(0), m = get_global_size(0);
#if BLOCKED
    const ulong first = n / m * k, last = k + 1 == m ? n : n / m * (k + 1), apart = (last - first) / 4, end = first + apart;
#else
    const ulong apart = get_local_size(0), first = get_group_id(0) * 4 * apart + get_local_id(0), last = n;
    const ulong end = n < 3 * apart ? 0 : n - 3 * apart;
#endif
    const ulong step = BLOCKED ? 1 : apart, next = BLOCKED ? 1 : 4 * m;
    V s0 = (V)(0), s1 = (V)(0), s2 = (V)(0), s3 = (V)(0);
    ulong i = first;
    for (; i < end; i += next) {
        const V t0 = TERM(i), t1 = TERM(i + apart), t2 = TERM(i + 2 * apart), t3 = TERM(i + 3 * apart);
        s0 += t0;
#if BLOCKED
        // independent sums, so that an addition need not wait for the one before it
        s1 += t1;
        s2 += t2;
        s3 += t3;
#else
        // one sum, since other work-items use the time: on an H200 it read 1 to 5% faster than four, which take more registers
        s0 += t1;
        s0 += t2;
        s0 += t3;
#endif
    }
    for (i = BLOCKED ? first + 4 * apart : i; i < last; i += step) s0 += TERM(i);
    partial[k] = (s0 + s1) + (s2 + s3);
}
#endif
#endif
