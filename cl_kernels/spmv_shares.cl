// Sparse matrix-vector product y = A x in double, CSR unchanged and cut into shares of about equally many rows and entries, as
// on a merge path (Merrill & Garland 2016): a share is some rows, or a part of a row that is longer than several shares. Any
// number of work-items is right.
#include "spmv_loads.cl"
#include "spmv_parts.cl"
#define PRODUCT(k) (values[k] * x[indices[k]])

double sum_entries(const global double* restrict values, const global int* restrict indices, const global double* restrict x,
                   const int begin, const int end) {
    // four sums at a time: one alone would wait for each addition; no vectors, since their elements of x come one by one
    double a = 0, b = 0, c = 0, d = 0;
    int k = begin;
    for (; k + 4 <= end; k += 4) {
        PREFETCH_ENTRY(values + k);
        PREFETCH_ENTRY(indices + k);
        a += PRODUCT(k);
        b += PRODUCT(k + 1);
        c += PRODUCT(k + 2);
        d += PRODUCT(k + 3);
    }
    for (; k < end; k++) a += PRODUCT(k);
    return (a + b) + (c + d);
}

// The same for consecutive columns: elements of x come in vectors.
double sum_run(const global double* restrict value, const global double* restrict element, const int count) {
    double8 a = 0, b = 0;
    double rest = 0;
    int k = 0;
    for (; k + 16 <= count; k += 16) {
        PREFETCH_ENTRY(value + k);
        PREFETCH_ENTRY(value + k + 8);
        a += vload8(0, value + k) * vload8(0, element + k);
        b += vload8(0, value + k + 8) * vload8(0, element + k + 8);
    }
    if (k + 8 <= count) {
        a += vload8(0, value + k) * vload8(0, element + k);
        k += 8;
    }
    for (; k < count; k++) rest += value[k] * element[k];
    a += b;
    const double4 sums = a.lo + a.hi;
    return (sums.x + sums.y) + (sums.z + sums.w) + rest;
}

// Each work-item takes shares: the first row (of a part: the place of its sum), the number of rows (of a part: 0), the first
// entry and the number of entries, whose highest bit marks rows of consecutive columns.
kernel void csr_shares(const global double* restrict values, const global int* restrict indices,
                       const global int* restrict indptr, const global int* restrict first_columns,
                       const global uint4* restrict shares, const global double* restrict x, global double* restrict y,
                       global double* restrict parts, const uint count) {
    for (uint s = get_global_id(0); s < count; s += get_global_size(0)) {
        const uint4 share = shares[s];
        const bool is_run = share.w >> 31;
        const int begin = share.z, entries = share.w & 0x7fffffff;
        if (share.y == 0) {
            parts[share.x] = is_run ? sum_run(values + begin, x + indices[begin], entries)
                                    : sum_entries(values, indices, x, begin, begin + entries);
        } else if (is_run) {
            for (uint row = share.x; row < share.x + share.y; row++)
                y[row] = sum_run(values + indptr[row], x + first_columns[row], indptr[row + 1] - indptr[row]);
        } else {
            for (uint row = share.x; row < share.x + share.y; row++)
                y[row] = sum_entries(values, indices, x, indptr[row], indptr[row + 1]);
        }
    }
}
