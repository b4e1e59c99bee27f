// Sparse matrix-vector product y = A x in double by slabs of rows. A slab's sums stay close (in local memory, or in a core's
// own cache), and its entries come column by column, so that x is read in ascending order: neighbours share its lines. Any
// number of work-groups is right. An entry is a value and a word: the number of its sum within the slab, above COLUMN_BITS bits
// of column, counted from the first column of its run of RUN entries.
#define INT64_ATOMICS (!BLOCKED && !PTX)
#include "spmv_loads.cl"
#define COLUMN_OF(word) ((word) & ((1u << COLUMN_BITS) - 1))
#define SUM_INDEX_OF(word) ((word) >> COLUMN_BITS)

#if BLOCKED
// Each work-item takes slabs, and its sums are the elements of y.
kernel void slab(const global double* restrict values, const global uint* restrict words, const global int* restrict bases,
                 const global int* restrict runs, const global int* restrict begins, const global int* restrict extra_begins,
                 const global int* restrict extra_rows, const global double* restrict x, global double* restrict y,
                 const uint slabs) {
    for (uint s = get_global_id(0); s < slabs; s += get_global_size(0)) {
        global double* sums = y + begins[s];
        const int rows = begins[s + 1] - begins[s], last = runs[s + 1];
        for (int row = 0; row < rows; row++) sums[row] = 0;
        for (int run = runs[s]; run < last; run++) {
            const global double* value = values + (size_t)run * RUN;
            const global uint* word = words + (size_t)run * RUN;
            const global double* ahead = x + bases[run];
            for (uint i = 0; i < RUN; i += 8) {
                PREFETCH_ENTRY(value + i);
                PREFETCH_ENTRY(word + i);
                for (uint j = i; j < i + 8; j++) sums[SUM_INDEX_OF(word[j])] += value[j] * ahead[COLUMN_OF(word[j])];
            }
        }
    }
}

#else
#if PTX
void add_to_sum(local double* sum, const double value) {
    asm volatile(
        "{ .reg .u64 wide; .reg .u32 at; cvta.to.shared.u64 wide, %0; cvt.u32.u64 at, wide; red.shared.add.f64 [at], %1; }"
        :
        : "l"(sum), "d"(value)
        : "memory");
}
#else
void add_to_sum(local double* sum, const double value) {
    volatile local ulong* at = (volatile local ulong*)sum;
    ulong seen = *at, before;
    do {
        before = seen;
        seen = atom_cmpxchg(at, before, as_ulong(as_double(before) + value));
    } while (seen != before);
}
#endif

// Each work-item adds every GROUP_SIZE-th product of the slab that its work-group takes in a round. A long row has several
// sums, so that neighbours seldom add to the same one: the first lies among the rows' sums, the others after them.
FIXED_GROUP_SIZE(GROUP_SIZE, 1, 1)
kernel void slab(const global double* restrict values, const global uint* restrict words, const global int* restrict bases,
                 const global int* restrict runs, const global int* restrict begins, const global int* restrict extra_begins,
                 const global int* restrict extra_rows, const global double* restrict x, global double* restrict y,
                 const uint slabs) {
    local double sums[SUMS];
    const uint item = get_local_id(0);
    for (uint s = get_group_id(0); s < slabs; s += get_num_groups(0)) {
        const uint rows = begins[s + 1] - begins[s], extras = extra_begins[s + 1] - extra_begins[s];
        for (uint i = item; i < rows + extras; i += GROUP_SIZE) sums[i] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        const size_t end = (size_t)runs[s + 1] * RUN;
        for (size_t k = (size_t)runs[s] * RUN + item; k < end; k += PER * GROUP_SIZE) {
            uint word[PER];
            double product[PER];
#pragma unroll
            for (uint i = 0; i < PER; i++)
                word[i] = k + i * GROUP_SIZE < end ? (uint)LOAD_INDEX((const global int*)&words[k + i * GROUP_SIZE]) : 0;
#pragma unroll
            for (uint i = 0; i < PER; i++) product[i] = k + i * GROUP_SIZE < end ? LOAD_VALUE(&values[k + i * GROUP_SIZE]) : 0;
#pragma unroll
            for (uint i = 0; i < PER; i++)
                if (k + i * GROUP_SIZE < end) product[i] *= x[bases[(k + i * GROUP_SIZE) / RUN] + COLUMN_OF(word[i])];
#pragma unroll
            for (uint i = 0; i < PER; i++)
                if (k + i * GROUP_SIZE < end) add_to_sum(sums + SUM_INDEX_OF(word[i]), product[i]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = item; i < extras; i += GROUP_SIZE) add_to_sum(sums + extra_rows[extra_begins[s] + i], sums[rows + i]);
        barrier(CLK_LOCAL_MEM_FENCE);
        // no barrier is needed here: a work-item reads the sums that it sets to 0 itself for the next slab
        for (uint i = item; i < rows; i += GROUP_SIZE) y[begins[s] + i] = sums[i];
    }
}
#endif
