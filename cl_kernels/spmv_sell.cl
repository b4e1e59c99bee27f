// Sparse matrix-vector product y = A x in double, SELL-C-sigma (Kreutzer et al. 2014): chunks of CHUNK rows of about equal
// length, each as wide as its longest row; the k-th entries of a chunk's rows lie together. Any number of work-groups is right.
#include "spmv_loads.cl"
#if SORTED
#define ROW(slot) order[slot]
#else
#define ROW(slot) (slot)
#endif

#if BLOCKED
// Each work-item takes a contiguous block of chunks, a vector of 8 rows at a time. The last chunk may have more rows than y,
// which has room for them. CHUNK is a multiple of 8, so that vectors are aligned; no built-in function takes one, since PoCL
// 3.0 calls those of 64 bytes wrongly on CPUs with AVX-512 that its LLVM does not know.
kernel void sell(const global double* restrict values, const global int* restrict indices, const global int* restrict begins,
                 const global int* restrict order, const global double* restrict x, global double* restrict y,
                 const uint slots) {
    const uint chunks = slots / CHUNK, last = (uint)((ulong)chunks * (get_global_id(0) + 1) / get_global_size(0));
    for (uint chunk = (uint)((ulong)chunks * get_global_id(0) / get_global_size(0)); chunk < last; chunk++) {
        const int end = begins[chunk + 1];
        double8 sum = 0;
        for (int k = begins[chunk]; k < end; k++) {
            const global double* value = values + (size_t)k * CHUNK;
            const global int* index = indices + (size_t)k * CHUNK;
            PREFETCH_ENTRY(value);
            PREFETCH_ENTRY(index);
            const int8 c = vload8(0, index);
            const double8 v = *(const global double8*)value;
            sum += v * (double8)(x[c.s0], x[c.s1], x[c.s2], x[c.s3], x[c.s4], x[c.s5], x[c.s6], x[c.s7]);
        }
#if SORTED
        const int8 row = vload8(chunk, order);
        y[row.s0] = sum.s0, y[row.s1] = sum.s1, y[row.s2] = sum.s2, y[row.s3] = sum.s3;
        y[row.s4] = sum.s4, y[row.s5] = sum.s5, y[row.s6] = sum.s6, y[row.s7] = sum.s7;
#elif NONTEMPORAL
        __builtin_nontemporal_store(sum, (global double8*)y + chunk);
#else
        ((global double8*)y)[chunk] = sum;
#endif
    }
}

#else
#define BATCH 8
// Each work-item takes rows; all loads of a batch are in flight before the first is used.
kernel void sell(const global double* restrict values, const global int* restrict indices, const global int* restrict begins,
                 const global int* restrict order, const global double* restrict x, global double* restrict y,
                 const uint slots) {
    for (uint slot = get_global_id(0); slot < slots; slot += get_global_size(0)) {
        const uint chunk = slot / CHUNK;
        const size_t end = (size_t)begins[chunk + 1] * CHUNK;
        double sum = 0;
        for (size_t k = (size_t)begins[chunk] * CHUNK + slot % CHUNK; k < end; k += BATCH * CHUNK) {
            int column[BATCH];
            double value[BATCH];
#pragma unroll
            for (uint i = 0; i < BATCH; i++) column[i] = k + i * CHUNK < end ? LOAD_INDEX(&indices[k + i * CHUNK]) : 0;
#pragma unroll
            for (uint i = 0; i < BATCH; i++) value[i] = k + i * CHUNK < end ? LOAD_VALUE(&values[k + i * CHUNK]) : 0;
#pragma unroll
            for (uint i = 0; i < BATCH; i++) sum += value[i] * x[column[i]];
        }
        y[ROW(slot)] = sum;
    }
}
#endif
