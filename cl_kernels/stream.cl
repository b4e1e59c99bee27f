// STREAM and its relatives over arrays of T, moved as vectors V of W elements. OP selects what `stream` or `reduce` does.
#ifdef FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define COPY 0
#define SCALE 1
#define ADD 2
#define TRIAD 3
#define WRITE 4
#define DOT 5
#define READ 6

// A small whole number for each index and seed: sums of products stay exact, so results are compared for equality.
uint value(const ulong i, const uint seed, const uint levels) {
    uint h = (uint)(i ^ (i >> 32)) * 2654435761u ^ seed;
    h = (h ^ (h >> 15)) * 2246822519u;
    return (h ^ (h >> 13)) % levels;
}

// One work-item an element.
kernel void init(global T* restrict a, const uint seed, const uint levels) {
    a[get_global_id(0)] = (T)value(get_global_id(0), seed, levels);
}

#if NONTEMPORAL
#define STORE(v, p) __builtin_nontemporal_store((v), (p))
#else
#define STORE(v, p) (*(p) = (v))
#endif

#if OP <= WRITE
#if OP == COPY
#define VALUE(i) b[i]
#elif OP == SCALE
#define VALUE(i) ((V)(s)*b[i])
#elif OP == ADD
#define VALUE(i) (b[i] + c[i])
#elif OP == TRIAD
#define VALUE(i) (b[i] + (V)(s)*c[i])
#else
#define VALUE(i) ((V)(s))
#endif

// One work-item a vector; with LOOP, for a fixed number of work-groups, every m-th of n vectors.
kernel void stream(global V* restrict a, const global V* restrict b, const global V* restrict c, const T s, const ulong n) {
#if LOOP
    for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) STORE(VALUE(i), &a[i]);
#else
    const size_t i = get_global_id(0);
    STORE(VALUE(i), &a[i]);
#endif
}

// One work-item an element: count the elements that are not what the inputs' formula says.
kernel void verify(const global T* restrict a, const uint seed_b, const uint seed_c, const uint levels, const uint s,
                   global uint* restrict wrong) {
    const size_t i = get_global_id(0);
    const uint b = value(i, seed_b, levels), c = value(i, seed_c, levels);
#if OP == COPY
    const uint want = b;
#elif OP == SCALE
    const uint want = s * b;
#elif OP == ADD
    const uint want = b + c;
#elif OP == TRIAD
    const uint want = b + s * c;
#else
    const uint want = s;
#endif
    if (!(a[i] == (T)want)) atomic_inc(wrong);
}

#else
#if OP == DOT
#define TERM(i) (b[i] * c[i])
#else
#define TERM(i) (b[i])
#endif

// Each work-item sums its share of n vectors: a contiguous block (BLOCKED: one core's stream) or every m-th vector (neighbours
// read neighbouring addresses). Its sums stay a vector: the host adds them up.
kernel void reduce(const global V* restrict b, const global V* restrict c, global V* restrict partial, const ulong n) {
    const ulong k = get_global_id(0), m = get_global_size(0);
#if BLOCKED
    const ulong first = n / m * k, last = k + 1 == m ? n : n / m * (k + 1), step = 1;
#else
    const ulong first = k, last = n, step = m;
#endif
    // four sums, so that an addition need not wait for the one before it
    V s0 = (V)(0), s1 = (V)(0), s2 = (V)(0), s3 = (V)(0);
    ulong i = first;
    for (; i + 3 * step < last; i += 4 * step) {
        s0 += TERM(i);
        s1 += TERM(i + step);
        s2 += TERM(i + 2 * step);
        s3 += TERM(i + 3 * step);
    }
    for (; i < last; i += step) s0 += TERM(i);
    partial[k] = (s0 + s1) + (s2 + s3);
}

// Each work-item sums, in integers and from the inputs' formula alone, every m-th of n elements.
kernel void expect(global ulong* restrict partial, const uint seed_b, const uint seed_c, const uint levels, const ulong n) {
    ulong sum = 0;
    for (ulong i = get_global_id(0); i < n; i += get_global_size(0))
#if OP == DOT
        sum += value(i, seed_b, levels) * value(i, seed_c, levels);
#else
        sum += value(i, seed_b, levels);
#endif
    partial[get_global_id(0)] = sum;
}
#endif
