// y = A x in double by slabs of rows whose sums stay close (in local memory, or in a core's own cache) while the slab's entries come
// column by column, so that x is read forwards: neighbours share its lines, and none is read far from the last. Any number of
// work-groups will do. Comes after spmv_loads.cl.
// An entry is a value and a word: its sum within the slab above COLUMN_BITS bits of column, counted from the first column of its
// run of RUN entries.
#define COLUMN(word) ((word) & ((1u << COLUMN_BITS) - 1))
#define SUM(word) ((word) >> COLUMN_BITS)

#if BLOCKED
// Each work-item takes slabs and adds up in y itself.
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
                PREFETCH(value + i);
                PREFETCH(word + i);
                for (uint j = i; j < i + 8; j++) sums[SUM(word[j])] += value[j] * ahead[COLUMN(word[j])];
            }
        }
    }
}

#else
#if PTX
void add(local double* sum, const double value) {
    asm volatile("{ .reg .u64 wide; .reg .u32 at; cvta.to.shared.u64 wide, %0; cvt.u32.u64 at, wide; red.shared.add.f64 [at], %1; }"
                 : : "l"(sum), "d"(value) : "memory");
}
#else
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
void add(local double* sum, const double value) {
    volatile local ulong* at = (volatile local ulong*)sum;
    ulong seen = *at, before;
    do {
        before = seen;
        seen = atom_cmpxchg(at, before, as_ulong(as_double(before) + value));
    } while (seen != before);
}
#endif

// Each work-group takes a slab a round. A long row has several sums, so that neighbours seldom add to one: the first among the
// rows', the others behind them.
__attribute__((reqd_work_group_size(ITEMS, 1, 1)))
kernel void slab(const global double* restrict values, const global uint* restrict words, const global int* restrict bases,
    const global int* restrict runs, const global int* restrict begins, const global int* restrict extra_begins,
    const global int* restrict extra_rows, const global double* restrict x, global double* restrict y, const uint slabs) {
    local double sums[SUMS];
    const uint item = get_local_id(0);
    for (uint s = get_group_id(0); s < slabs; s += get_num_groups(0)) {
        const uint rows = begins[s + 1] - begins[s], extras = extra_begins[s + 1] - extra_begins[s];
        for (uint i = item; i < rows + extras; i += ITEMS) sums[i] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        const size_t end = (size_t)runs[s + 1] * RUN;
        for (size_t k = (size_t)runs[s] * RUN + item; k < end; k += PER * ITEMS) {
            uint word[PER];
            double product[PER];
#pragma unroll
            for (uint i = 0; i < PER; i++)
                word[i] = k + i * ITEMS < end ? (uint)INDEX((const global int*)&words[k + i * ITEMS]) : 0;
#pragma unroll
            for (uint i = 0; i < PER; i++) product[i] = k + i * ITEMS < end ? VALUE(&values[k + i * ITEMS]) : 0;
#pragma unroll
            for (uint i = 0; i < PER; i++)
                if (k + i * ITEMS < end) product[i] *= x[bases[(k + i * ITEMS) / RUN] + COLUMN(word[i])];
#pragma unroll
            for (uint i = 0; i < PER; i++)
                if (k + i * ITEMS < end) add(sums + SUM(word[i]), product[i]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = item; i < extras; i += ITEMS) add(sums + extra_rows[extra_begins[s] + i], sums[rows + i]);
        barrier(CLK_LOCAL_MEM_FENCE);
        // no barrier here: the sums that a work-item reads are those that it sets to 0 itself for the next slab
        for (uint i = item; i < rows; i += ITEMS) y[begins[s] + i] = sums[i];
    }
}
#endif
