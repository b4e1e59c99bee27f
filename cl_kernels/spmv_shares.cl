// Sparse matrix-vector product y = A x in double, CSR unchanged and cut into shares of about equally many rows and entries, as
// on a merge path (Merrill & Garland 2016): a share is some rows, or a part of a row that is longer than several shares. Any
// number of work-items is right.
#include "spmv_loads.cl"
#include "spmv_parts.cl"
#define X_AT(k) (double4)(x[indices[k]], x[indices[(k) + 1]], x[indices[(k) + 2]], x[indices[(k) + 3]])
#define PRODUCTS(k) (vload4(0, values + (k)) * X_AT(k))

double sum_entries(const global double* restrict values, const global int* restrict indices, const global double* restrict x,
                   const int begin, const int end) {
    // eight sums at a time: one alone would wait for each addition
    double4 even = 0, odd = 0;
    int k = begin;
    for (; k + 8 <= end; k += 8) {  // a line of values, half a line of indices
        PREFETCH_ENTRY(values + k);
        PREFETCH_ENTRY(indices + k);
        even += PRODUCTS(k);
        odd += PRODUCTS(k + 4);
    }
    PREFETCH_ENTRY(values + k);
    PREFETCH_ENTRY(indices + k);
    even += odd;
    double sum = (even.x + even.y) + (even.z + even.w);
    for (; k < end; k++) sum += values[k] * x[indices[k]];
    return sum;
}

// Each work-item takes shares: the first row (of a part: the place of its sum), the number of rows (of a part: 0), the first
// entry and the number of entries.
kernel void csr_shares(const global double* restrict values, const global int* restrict indices,
                       const global int* restrict indptr, const global uint4* restrict shares,
                       const global double* restrict x, global double* restrict y, global double* restrict parts,
                       const uint count) {
    for (uint s = get_global_id(0); s < count; s += get_global_size(0)) {
        const uint4 share = shares[s];
        if (share.y == 0) {
            parts[share.x] = sum_entries(values, indices, x, share.z, share.z + share.w);
        } else {
            for (uint row = share.x; row < share.x + share.y; row++)
                y[row] = sum_entries(values, indices, x, indptr[row], indptr[row + 1]);
        }
    }
}
