// The sum of n doubles, read as vectors V of WIDTH, by work-groups of GROUP work-items. BLOCKED gives each work-item one contiguous
// block (a core's way), else neighbours read neighbouring vectors. ATOMIC adds the groups' sums to one result.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#if ATOMIC
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#endif

// The vectors of one work-item: first, first + STEP ... below last.
#if BLOCKED
#define STEP 1
#define SHARE(vectors, k, m) const ulong first = (vectors) * (k) / (m), last = (vectors) * ((k) + 1) / (m);
#else
#define STEP m
#define SHARE(vectors, k, m) const ulong first = (k), last = (vectors);
#endif

// The sum over one vector. No function: how wide vectors are passed to one depends on what the processor has.
#define ACROSS_1(v) (v)
#define ACROSS_2(v) ((v).lo + (v).hi)
#define ACROSS_4(v) ACROSS_2((v).lo + (v).hi)
#define ACROSS_8(v) ACROSS_4((v).lo + (v).hi)
#define ACROSS_16(v) ACROSS_8((v).lo + (v).hi)
#define NAMED(width) ACROSS_##width
#define ACROSS(width, v) NAMED(width)(v)

// A whole number from 0 to 511 for each i and seed.
uint mixed(const uint i, const uint seed) {
    uint h = (i ^ seed) * 2654435761u;
    h = (h ^ (h >> 15)) * 2246822519u;
    return h >> 23;
}

// Element i, from 1 to 1023: one left out or added twice always changes the sum. It is 1 plus a number for the element's row, of
// 2^ROW_BITS elements, and one for its column there: so the host knows the sum of all without adding all.
double value(const ulong i, const uint seed) {
    return 1 + mixed((uint)i & ((1u << ROW_BITS) - 1), seed) + mixed((uint)(i >> ROW_BITS), ~seed);
}

// Each work-item writes its share of the n elements. The shares are those of `reduce`: pages that lie near who touches them first
// then lie near who sums them.
kernel void init(global double* restrict a, const ulong n, const uint seed) {
    const ulong k = get_global_id(0), m = get_global_size(0);
    SHARE(n / WIDTH, k, m)
    for (ulong i = first; i < last; i += STEP)
        for (ulong e = i * WIDTH; e < (i + 1) * WIDTH; e++) a[e] = value(e, seed);
    for (ulong e = n / WIDTH * WIDTH + k; e < n; e += m) a[e] = value(e, seed);
}

#if ATOMIC
// Add to a double that others add to: try until nobody else was between the reading and the writing.
void add(volatile global ulong* const sum, const double value) {
    ulong seen = *sum, before;
    do {
        before = seen;
        seen = atom_cmpxchg(sum, before, as_ulong(as_double(before) + value));
    } while (seen != before);
}
#endif

// Each work-item sums its share, its work-group adds up those sums in local memory, and its first work-item adds the group's
// sum to the result (ATOMIC) or writes it to out[group]: of one group that is the result, of several it is reduced once more.
#if ATOMIC
kernel void reduce(const global double* restrict a, volatile global ulong* restrict out, const ulong n, local double* slot) {
#else
kernel void reduce(const global double* restrict a, global double* restrict out, const ulong n, local double* slot) {
#endif
    const global V* restrict b = (const global V*)a;
    const ulong k = get_global_id(0), m = get_global_size(0);
    SHARE(n / WIDTH, k, m)
    // four sums, so that an addition need not wait for the one before it
    V s0 = (V)(0), s1 = (V)(0), s2 = (V)(0), s3 = (V)(0);
    ulong i = first;
    for (; i + 3 * STEP < last; i += 4 * STEP) {
        s0 += b[i];
        s1 += b[i + STEP];
        s2 += b[i + 2 * STEP];
        s3 += b[i + 3 * STEP];
    }
    for (; i < last; i += STEP) s0 += b[i];
    const V all = (s0 + s1) + (s2 + s3);
    double sum = ACROSS(WIDTH, all);
    for (ulong e = n / WIDTH * WIDTH + k; e < n; e += m) sum += a[e];
#if GROUP > 1
    const uint id = get_local_id(0);
    slot[id] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint left = GROUP; left > 1; left = (left + 1) / 2) {
        const uint upper = (left + 1) / 2;
        if (id + upper < left) slot[id] += slot[id + upper];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (id > 0) return;
    sum = slot[0];
#endif
#if ATOMIC
    add(out, sum);
#else
    out[get_group_id(0)] = sum;
#endif
}
