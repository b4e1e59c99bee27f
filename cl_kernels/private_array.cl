// What one work-item does over and over with arrays of its own, of WORDS words: PATTERN 0 adds to every element, 1 multiplies
// N x N matrices, 2 sorts. Static: all indices are known once the loops of known bounds are unrolled. DYNAMIC: bounds and
// indices come at run time. The group's size is fixed, so that a compiler may give its few work-items all registers there are.
#define EACH for (uint i = 0; i < WORDS; i++)
#define MINE(i) ((i) * GROUP + lid)

#if PATTERN == 0
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void add(const global float* restrict in, global float* restrict out, const uint words, const uint step, const float x,
         const uint rounds) {
    const uint lid = get_local_id(0);
    float a[WORDS];
#if DYNAMIC
    for (uint i = 0; i < words; i++) a[i] = in[MINE(i)];
    uint at = step;
    for (uint r = 0; r < rounds; r++) {
        for (uint i = 0; i < words; i++) {
            a[at] += x;
            at += step;
            at -= at >= words ? words : 0;
        }
    }
    for (uint i = 0; i < words; i++) out[MINE(i)] = a[i];
#else
#pragma unroll
    EACH a[i] = in[MINE(i)];
    // additions of floats may not be put together, so no compiler makes one of all rounds
    for (uint r = 0; r < rounds; r++) {
#pragma unroll
        EACH a[i] += x;
    }
#pragma unroll
    EACH out[MINE(i)] = a[i];
#endif
}
#endif

#if PATTERN == 1
// a := a * b, through a third matrix, modulo 2^32
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void matmul(const global uint* restrict in, global uint* restrict out, const uint n, const uint rounds) {
    const uint lid = get_local_id(0);
    uint a[WORDS], b[WORDS], c[WORDS];
#if DYNAMIC
    const uint words = n * n;
    for (uint i = 0; i < words; i++) a[i] = in[MINE(i)];
    for (uint i = 0; i < words; i++) b[i] = in[MINE(i + words)];
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
    for (uint i = 0; i < words; i++) out[MINE(i)] = a[i];
#else
#pragma unroll
    EACH a[i] = in[MINE(i)];
#pragma unroll
    EACH b[i] = in[MINE(i + WORDS)];
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
        EACH a[i] = c[i];
    }
#pragma unroll
    EACH out[MINE(i)] = a[i];
#endif
}
#endif

#if PATTERN == 2
// Every round sorts and then inverts all bits, which leaves the worst order for the next one.
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sort(const global uint* restrict in, global uint* restrict out, const uint words, const uint phases, const uint rounds) {
    const uint lid = get_local_id(0);
    uint a[WORDS];
#if DYNAMIC
    for (uint i = 0; i < words; i++) a[i] = in[MINE(i)];
    for (uint r = 0; r < rounds; r++) {
        // by insertion: where an element goes depends on what the others are
        for (uint i = 1; i < words; i++) {
            const uint key = a[i];
            uint j = i;
            while (j > 0 && a[j - 1] > key) {
                a[j] = a[j - 1];
                j--;
            }
            a[j] = key;
        }
        for (uint i = 0; i < words; i++) a[i] = ~a[i];
    }
    for (uint i = 0; i < words; i++) out[MINE(i)] = a[i];
#else
#define EXCHANGE                              \
    {                                         \
        const uint least = min(a[i], a[i + 1]); \
        a[i + 1] = max(a[i], a[i + 1]);       \
        a[i] = least;                         \
    }
#pragma unroll
    EACH a[i] = in[MINE(i)];
    for (uint r = 0; r < rounds; r++) {
        // by odd-even transposition; each pass of this loop is two of its phases, in little code that no cache of it overflows
        for (uint p = 0; p < phases; p++) {
#pragma unroll
            for (uint i = 0; i + 1 < WORDS; i += 2) EXCHANGE
#pragma unroll
            for (uint i = 1; i + 1 < WORDS; i += 2) EXCHANGE
        }
#pragma unroll
        EACH a[i] = ~a[i];
    }
#pragma unroll
    EACH out[MINE(i)] = a[i];
#endif
}
#endif
