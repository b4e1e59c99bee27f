// Cost of a private array of WORDS words. Each work-item repeats one operation on arrays of its own: PATTERN 0 adds to every
// element, 1 multiplies N x N matrices, 2 sorts. Without DYNAMIC all indices are constants once loops of constant bounds are
// unrolled; with it bounds and indices come at run time. The size of the work-group is fixed, so that a compiler may give its
// few work-items all registers.
#include "common.cl"
#define FOR_EACH_WORD for (uint i = 0; i < WORDS; i++)
#define OWN_ELEMENT(i) ((i) * GROUP_SIZE + lid)

#if PATTERN == 0
// Each work-item adds x to every element of its array, `rounds` times.
FIXED_GROUP_SIZE(GROUP_SIZE, 1, 1)
kernel void add(const global float* restrict in, global float* restrict out, const uint words, const uint step, const float x,
                const uint rounds) {
    const uint lid = get_local_id(0);
    float a[WORDS];
#if DYNAMIC
    for (uint i = 0; i < words; i++) a[i] = in[OWN_ELEMENT(i)];
    uint at = step;
    for (uint r = 0; r < rounds; r++) {
        for (uint i = 0; i < words; i++) {
            a[at] += x;
            at += step;
            at -= at >= words ? words : 0;
        }
    }
    for (uint i = 0; i < words; i++) out[OWN_ELEMENT(i)] = a[i];
#else
#pragma unroll
    FOR_EACH_WORD a[i] = in[OWN_ELEMENT(i)];
    // Floating-point additions may not be reassociated, so a compiler cannot merge rounds.
    for (uint r = 0; r < rounds; r++) {
#pragma unroll
        FOR_EACH_WORD a[i] += x;
    }
#pragma unroll
    FOR_EACH_WORD out[OWN_ELEMENT(i)] = a[i];
#endif
}
#endif

#if PATTERN == 1
// Each work-item computes a := a * b through a third matrix, modulo 2^32.
FIXED_GROUP_SIZE(GROUP_SIZE, 1, 1)
kernel void matmul(const global uint* restrict in, global uint* restrict out, const uint n, const uint rounds) {
    const uint lid = get_local_id(0);
    uint a[WORDS], b[WORDS], c[WORDS];
#if DYNAMIC
    const uint words = n * n;
    for (uint i = 0; i < words; i++) a[i] = in[OWN_ELEMENT(i)];
    for (uint i = 0; i < words; i++) b[i] = in[OWN_ELEMENT(i + words)];
    for (uint r = 0; r < rounds; r++) {
        for (uint i = 0; i < n; i++) {
            for (uint j = 0; j < n; j++) {
                uint sum = 0;
                for (uint k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
                c[i * n + j] = sum;
            }
        }
        for (uint i = 0; i < words; i++) a[i] = c[i];
    }
    for (uint i = 0; i < words; i++) out[OWN_ELEMENT(i)] = a[i];
#else
#pragma unroll
    FOR_EACH_WORD a[i] = in[OWN_ELEMENT(i)];
#pragma unroll
    FOR_EACH_WORD b[i] = in[OWN_ELEMENT(i + WORDS)];
    for (uint r = 0; r < rounds; r++) {
#pragma unroll
        for (uint i = 0; i < N; i++) {
#pragma unroll
            for (uint j = 0; j < N; j++) {
                uint sum = 0;
#pragma unroll
                for (uint k = 0; k < N; k++) sum += a[i * N + k] * b[k * N + j];
                c[i * N + j] = sum;
            }
        }
#pragma unroll
        FOR_EACH_WORD a[i] = c[i];
    }
#pragma unroll
    FOR_EACH_WORD out[OWN_ELEMENT(i)] = a[i];
#endif
}
#endif

#if PATTERN == 2
// Each work-item sorts its array and then subtracts each element from a number that is 1 lower each round, which leaves the
// worst order for the next round, and elements that show the number of rounds.
FIXED_GROUP_SIZE(GROUP_SIZE, 1, 1)
kernel void sort(const global uint* restrict in, global uint* restrict out, const uint words, const uint phases,
                 const uint rounds) {
    const uint lid = get_local_id(0);
    uint a[WORDS], top = ~0u;
#if DYNAMIC
    for (uint i = 0; i < words; i++) a[i] = in[OWN_ELEMENT(i)];
    for (uint r = 0; r < rounds; r++) {
        // insertion sort: the place of an element depends on the values of the others
        for (uint i = 1; i < words; i++) {
            const uint key = a[i];
            uint j = i;
            while (j > 0 && a[j - 1] > key) {
                a[j] = a[j - 1];
                j--;
            }
            a[j] = key;
        }
        for (uint i = 0; i < words; i++) a[i] = top - a[i];
        top--;
    }
    for (uint i = 0; i < words; i++) out[OWN_ELEMENT(i)] = a[i];
#else
#pragma unroll
    FOR_EACH_WORD a[i] = in[OWN_ELEMENT(i)];
    for (uint r = 0; r < rounds; r++) {
        // odd-even transposition sort; one pass of this loop is two phases: little code, which fits the instruction cache
        for (uint p = 0; p < phases; p++) {
#pragma unroll
            for (uint i = 0; i + 1 < WORDS; i += 2) SORT_PAIR(uint, a[i], a[i + 1])
#pragma unroll
            for (uint i = 1; i + 1 < WORDS; i += 2) SORT_PAIR(uint, a[i], a[i + 1])
        }
#pragma unroll
        FOR_EACH_WORD a[i] = top - a[i];
        top--;
    }
#pragma unroll
    FOR_EACH_WORD out[OWN_ELEMENT(i)] = a[i];
#endif
}
#endif
