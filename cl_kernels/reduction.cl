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

#if GROUP > 1
// Add up what the work-items of a group have in slot[0] to slot[GROUP - 1]; the sum is in slot[0], after a barrier.
void add_up(local double* slot, const uint id) {
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint left = GROUP; left > 1; left = (left + 1) / 2) {
        const uint upper = (left + 1) / 2;
        if (id + upper < left) slot[id] += slot[id + upper];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
#endif

#if ATOMIC
typedef ulong Shared;

// Add to a double that others add to: guess what it is, and try until nobody else was between the reading and the writing.
void hand_over(volatile global ulong* const sum, const double value) {
    ulong seen = 0, before;
    do {
        before = seen;
        seen = atom_cmpxchg(sum, before, as_ulong(as_double(before) + value));
    } while (seen != before);
}
#else
typedef uint2 Shared;

// Write a double for another work-group to read: OpenCL 1.2 has but atomics for that, everywhere of 32 bits alone.
void hand_over(volatile global uint2* const sum, const double value) {
    volatile global uint* const words = (volatile global uint*)sum;
    atomic_xchg(words, as_uint2(value).x);
    atomic_xchg(words + 1, as_uint2(value).y);
}

double handed_over(volatile global uint2* const sum) {
    volatile global uint* const words = (volatile global uint*)sum;
    return as_double((uint2)(atomic_or(words, 0u), atomic_or(words + 1, 0u)));
}
#endif

// Each work-item sums its share, its work-group adds up those sums in local memory, and its first work-item writes the group's sum
// to sums[group], or adds it to sums[0] (ATOMIC). The group that ends last, of those counted in `ended`, adds up what the others
// have left and sets the count, and ATOMIC's sum, to 0 again for the next launch. Both are 0 before the first one.
kernel void reduce(const global double* restrict a, volatile global Shared* restrict sums, volatile global uint* restrict ended,
                   global double* restrict out, const ulong n, local double* slot) {
    const global V* restrict b = (const global V*)a;
    const ulong k = get_global_id(0), m = get_global_size(0);
    SHARE(n / WIDTH, k, m)
    // Four streams of vectors `apart` from each other, as long as all four have one: of a block its quarters, since a core's prefetcher
    // stops at the end of each page. Each has a sum, so that an addition need not wait for the one before it.
    const ulong apart = BLOCKED ? (last - first) / 4 : m, next = BLOCKED ? 1 : 4 * m;
    const ulong end = BLOCKED ? first + apart : last < 3 * m ? 0 : last - 3 * m;
    V s0 = (V)(0), s1 = (V)(0), s2 = (V)(0), s3 = (V)(0);
    ulong i = first;
    for (; i < end; i += next) {
        s0 += b[i];
        s1 += b[i + apart];
        s2 += b[i + 2 * apart];
        s3 += b[i + 3 * apart];
    }
    for (i = BLOCKED ? first + 4 * apart : i; i < last; i += STEP) s0 += b[i];
    const V all = (s0 + s1) + (s2 + s3);
    double sum = ACROSS(WIDTH, all);
    for (ulong e = n / WIDTH * WIDTH + k; e < n; e += m) sum += a[e];

    const uint id = get_local_id(0), groups = get_num_groups(0);
#if GROUP > 1
    slot[id] = sum;
    add_up(slot, id);
    sum = slot[0];
#endif
    if (groups == 1) {
        if (id == 0) *out = sum;
        return;
    }
#if GROUP > 1
    local uint is_last;
#else
    uint is_last = 0;
#endif
    if (id == 0) {
        hand_over(ATOMIC ? sums : sums + get_group_id(0), sum);
        mem_fence(CLK_GLOBAL_MEM_FENCE);  // what is handed over is there before the group counts
        is_last = atomic_inc(ended) + 1 == groups;
    }
#if GROUP > 1
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    if (!is_last) return;
    mem_fence(CLK_GLOBAL_MEM_FENCE);
#if ATOMIC
    if (id == 0) *out = as_double(atom_xchg(sums, 0));
#else
    sum = 0;
    for (uint group = id; group < groups; group += GROUP) sum += handed_over(&sums[group]);
#if GROUP > 1
    slot[id] = sum;
    add_up(slot, id);
    sum = slot[0];
#endif
    if (id == 0) *out = sum;
#endif
    if (id == 0) atomic_xchg(ended, 0);
}
