// Sparse matrix-vector product y = A x in double. With TEAM, teams of work-items take rows of CSR; with WIDTH the format is
// ELL; with neither, single work-items take rows of CSR. All kernels loop over rows, so any number of work-groups is right.
#include "spmv_loads.cl"

// A work-item's rows are one contiguous block (BLOCKED: what a CPU's core streams best), or every n-th row for n work-items
// (neighbours read neighbouring addresses).
#if BLOCKED
#define FIRST_ROW ((uint)((ulong)rows * get_global_id(0) / get_global_size(0)))
#define END_ROW ((uint)((ulong)rows * (get_global_id(0) + 1) / get_global_size(0)))
#define ROW_STRIDE 1u
#else
#define FIRST_ROW ((uint)get_global_id(0))
#define END_ROW rows
#define ROW_STRIDE ((uint)get_global_size(0))
#endif

#ifdef TEAM
#define TEAMS (GROUP_SIZE / TEAM)
// Each work-item is a lane of a team of TEAM neighbours, which takes one row a round. A lane sums every TEAM-th entry, so that
// lanes read neighbouring addresses; then the first work-items of the group add up one team's lanes each, so that they write
// neighbouring addresses.
kernel void csr_team(const global double* restrict values, const global int* restrict indices,
                     const global int* restrict indptr, const global double* restrict x, global double* restrict y,
                     const uint rows) {
    // Double buffering: one set is written while the other may still be read, so one barrier a round is enough. The pitch of
    // TEAM + 1 keeps the work-items that add up on different banks.
    local double sums[2][TEAMS * (TEAM + 1)];
    const uint item = get_local_id(0), team = item / TEAM, lane = item % TEAM;
    uint set = 0;
    for (uint first = get_group_id(0) * TEAMS; first < rows; first += get_num_groups(0) * TEAMS) {
        const uint row = first + team;
        double sum = 0;
        if (row < rows) {
            const uint end = indptr[row + 1];
            for (uint k = indptr[row] + lane; k < end; k += TEAM) sum += values[k] * x[indices[k]];
        }
        sums[set][team * (TEAM + 1) + lane] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < TEAMS && first + item < rows) {
            double total = 0;
            for (uint i = 0; i < TEAM; i++) total += sums[set][item * (TEAM + 1) + i];
            y[first + item] = total;
        }
        set ^= 1;
    }
}

#elif defined WIDTH
#define ENTRY(k, row) ((size_t)(k) * PITCH + (row))
#define BATCH 8
// Each work-item takes rows padded to WIDTH entries. The k-th entries of all rows lie together, PITCH after the entries before
// them, so neighbours read neighbouring addresses. Where rows have more than STREAMS entries, a work-item with a block
// processes TILE rows entry by entry: few streams at a time, and vectors of rows.
kernel void ell(const global double* restrict values, const global int* restrict indices, const global double* restrict x,
                global double* restrict y, const uint rows) {
    const uint last = END_ROW;
#if BLOCKED && WIDTH > STREAMS
    for (uint tile = FIRST_ROW; tile < last; tile += TILE) {
        const uint end = min(tile + TILE, last);
        for (uint row = tile; row < end; row++) y[row] = 0;
        for (uint k = 0; k < WIDTH; k++)
            for (uint row = tile; row < end; row++) y[row] += values[ENTRY(k, row)] * x[indices[ENTRY(k, row)]];
    }
#elif BLOCKED
    for (uint row = FIRST_ROW; row < last; row++) {
        double sum = 0;
        for (uint k = 0; k < WIDTH; k++) sum += values[ENTRY(k, row)] * x[indices[ENTRY(k, row)]];
        y[row] = sum;
    }
#else
    for (uint row = FIRST_ROW; row < last; row += ROW_STRIDE) {
        double sum = 0;
        // all loads of a batch are in flight before the first is used
        for (uint first = 0; first < WIDTH; first += BATCH) {
            int column[BATCH];
            double value[BATCH];
#pragma unroll
            for (uint i = 0; i < BATCH; i++) column[i] = first + i < WIDTH ? LOAD_INDEX(&indices[ENTRY(first + i, row)]) : 0;
#pragma unroll
            for (uint i = 0; i < BATCH; i++) value[i] = first + i < WIDTH ? LOAD_VALUE(&values[ENTRY(first + i, row)]) : 0;
#pragma unroll
            for (uint i = 0; i < BATCH; i++) sum += first + i < WIDTH ? value[i] * x[column[i]] : 0;
        }
        y[row] = sum;
    }
#endif
}

#else
// Each work-item takes rows and sums the entries of each in order.
kernel void csr_row(const global double* restrict values, const global int* restrict indices, const global int* restrict indptr,
                    const global double* restrict x, global double* restrict y, const uint rows) {
    const uint last = END_ROW, step = ROW_STRIDE;
    for (uint row = FIRST_ROW; row < last; row += step) {
        const int begin = indptr[row], end = indptr[row + 1];
#if AHEAD
        for (int k = begin; k < end; k += 8) {  // a line of values, half a line of indices
            PREFETCH_ENTRY(values + k);
            PREFETCH_ENTRY(indices + k);
        }
#endif
        double sum = 0;
        for (int k = begin; k < end; k++) sum += values[k] * x[indices[k]];
        y[row] = sum;
    }
}
#endif
