// Sum of n doubles, read as vectors V of WIDTH, by work-groups of GROUP_SIZE work-items. BLOCKED gives each work-item one
// contiguous block (best for a CPU's core); otherwise neighbours read neighbouring vectors. ATOMIC adds the groups' sums to one
// result.
#define FP64 1
#define INT64_ATOMICS ATOMIC
#include "common.cl"

// The vectors of one work-item that `init` writes: first, first + VECTOR_STRIDE ... below last.
#if BLOCKED
#define VECTOR_STRIDE 1
#define SHARE(vectors, k, m) const ulong first = (vectors) * (k) / (m), last = (vectors) * ((k) + 1) / (m);
#else
#define VECTOR_STRIDE m
#define SHARE(vectors, k, m) const ulong first = (k), last = (vectors);
#endif
#define RADIX 8  // of a tree in local memory: a barrier costs about as much as eight additions

// The sum of a vector's elements. Macros, since the calling convention of wide vectors depends on the processor.
#define SUM_OF_1(v) (v)
#define SUM_OF_2(v) ((v).lo + (v).hi)
#define SUM_OF_4(v) SUM_OF_2((v).lo + (v).hi)
#define SUM_OF_8(v) SUM_OF_4((v).lo + (v).hi)
#define SUM_OF_16(v) SUM_OF_8((v).lo + (v).hi)
#define SUM_OF(width, v) PASTE(SUM_OF_, width)(v)

// A whole number from 0 to 511, a hash of i and seed.
uint hash_9_bits(const uint i, const uint seed) {
    uint h = (i ^ seed) * HASH_FACTOR;
    HASH_SCRAMBLE(h)
    return h >> 23;
}

// Element i, from 1 to 1023: leaving one out or adding one twice always changes the sum. It is 1 plus a number for the
// element's row, of 2^ROW_BITS elements, plus a number for its column: so the host knows the sum without adding all elements.
double value(const ulong i, const uint seed) {
    return 1 + hash_9_bits((uint)i & ((1u << ROW_BITS) - 1), seed) + hash_9_bits((uint)(i >> ROW_BITS), ~seed);
}

// Each work-item writes its share of the n elements. BLOCKED: the share that it sums in `reduce`, so that with first-touch
// placement each page lies near the core that sums it.
kernel void init(global double* restrict a, const ulong n, const uint seed) {
    const ulong k = get_global_id(0), m = get_global_size(0);
    SHARE(n / WIDTH, k, m)
    for (ulong i = first; i < last; i += VECTOR_STRIDE)
        for (ulong e = i * WIDTH; e < (i + 1) * WIDTH; e++) a[e] = value(e, seed);
    for (ulong e = n / WIDTH * WIDTH + k; e < n; e += m) a[e] = value(e, seed);
}

#if GROUP_SIZE > 1
// Sums slot[0] to slot[GROUP_SIZE - 1] of a work-group into slot[0]; ends with a barrier.
void sum_slots(local double* slot, const uint id) {
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint left = GROUP_SIZE; left > 1; left = (left + RADIX - 1) / RADIX) {
        const uint lower = (left + RADIX - 1) / RADIX;
        if (id < lower) {
            double sum = slot[id];
            for (uint at = id + lower; at < left; at += lower) sum += slot[at];
            slot[id] = sum;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
#endif

#if ATOMIC
typedef ulong Shared;

// Adds to a double that other work-groups add to: guesses its value, and repeats until no other addition came in between.
void publish(volatile global ulong* const sum, const double value) {
    ulong seen = 0, before;
    do {
        before = seen;
        seen = atom_cmpxchg(sum, before, as_ulong(as_double(before) + value));
    } while (seen != before);
}
#else
typedef uint2 Shared;

// Writes a double for another work-group to read. OpenCL 1.2 guarantees only 32-bit atomics for that.
void publish(volatile global uint2* const sum, const double value) {
    volatile global uint* const words = (volatile global uint*)sum;
    atomic_xchg(words, as_uint2(value).x);
    atomic_xchg(words + 1, as_uint2(value).y);
}

// Reads a double that another work-group has published.
double read_published(volatile global uint2* const sum) {
    volatile global uint* const words = (volatile global uint*)sum;
    return as_double((uint2)(atomic_or(words, 0u), atomic_or(words + 1, 0u)));
}
#endif

// Each work-item sums its share, its work-group adds up those sums in local memory, and the group's first work-item writes the
// group's sum to sums[group], or adds it to sums[0] (ATOMIC). The group that ends last, counted in `ended`, adds up the sums of
// all groups and resets the count, and the sum of ATOMIC, to 0 for the next launch. Both must be 0 before the first launch.
kernel void reduce(const global double* restrict a, volatile global Shared* restrict sums, volatile global uint* restrict ended,
                   global double* restrict out, const ulong n, local double* slot) {
    const global V* restrict b = (const global V*)a;
    const ulong k = get_global_id(0), m = get_global_size(0);
    // Four streams of vectors, `apart` from each other, while all four have one. BLOCKED: the quarters of a block, since a
    // core's prefetcher stops at the end of each page. Otherwise tiles side by side, from which the work-group goes on by the
    // whole grid: streams a grid apart took 2 to 4% longer on an H200.
#if BLOCKED
    SHARE(n / WIDTH, k, m)
    const ulong apart = (last - first) / 4, next = 1, end = first + apart;
#else
    const ulong apart = GROUP_SIZE, next = 4 * m, last = n / WIDTH;
    const ulong first = get_group_id(0) * 4 * apart + get_local_id(0), end = last < 3 * apart ? 0 : last - 3 * apart;
#endif
    V s0 = (V)(0), s1 = (V)(0), s2 = (V)(0), s3 = (V)(0);
    ulong i = first;
    for (; i < end; i += next) {
        const V t0 = b[i], t1 = b[i + apart], t2 = b[i + 2 * apart], t3 = b[i + 3 * apart];
        s0 += t0;
#if BLOCKED
        // independent sums, so that an addition need not wait for the one before it
        s1 += t1;
        s2 += t2;
        s3 += t3;
#else
        // one sum, which takes fewer registers: other work-items use the time
        s0 += t1;
        s0 += t2;
        s0 += t3;
#endif
    }
    for (i = BLOCKED ? first + 4 * apart : i; i < last; i += BLOCKED ? 1 : apart) s0 += b[i];
    const V all = (s0 + s1) + (s2 + s3);
    double sum = SUM_OF(WIDTH, all);
    for (ulong e = n / WIDTH * WIDTH + k; e < n; e += m) sum += a[e];

    const uint id = get_local_id(0), groups = get_num_groups(0);
#if GROUP_SIZE > 1
    slot[id] = sum;
    sum_slots(slot, id);
    sum = slot[0];
#endif
    if (groups == 1) {
        if (id == 0) *out = sum;
        return;
    }
#if GROUP_SIZE > 1
    local uint is_last;
#else
    uint is_last = 0;
#endif
    if (id == 0) {
        publish(ATOMIC ? sums : sums + get_group_id(0), sum);
        mem_fence(CLK_GLOBAL_MEM_FENCE);  // the sum is visible before the group is counted
        is_last = atomic_inc(ended) + 1 == groups;
    }
#if GROUP_SIZE > 1
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    if (!is_last) return;
    mem_fence(CLK_GLOBAL_MEM_FENCE);
#if ATOMIC
    if (id == 0) *out = as_double(atom_xchg(sums, 0));
#else
    sum = 0;
    for (uint group = id; group < groups; group += GROUP_SIZE) sum += read_published(&sums[group]);
#if GROUP_SIZE > 1
    slot[id] = sum;
    sum_slots(slot, id);
    sum = slot[0];
#endif
    if (id == 0) *out = sum;
#endif
    if (id == 0) atomic_xchg(ended, 0);
}
