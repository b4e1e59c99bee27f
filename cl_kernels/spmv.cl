// y = A x in double. TEAM: rows of CSR by teams of work-items; WIDTH: ELL; neither: rows of CSR by single work-items.
// Any number of work-groups will do: all kernels loop over rows. Comes after spmv_loads.cl.

// A work-item's rows are one contiguous block (BLOCKED: what a CPU's core streams best) or every n-th one, n being all
// work-items (neighbours read neighbouring addresses).
#if BLOCKED
#define FIRST ((uint)((ulong)rows * get_global_id(0) / get_global_size(0)))
#define LAST ((uint)((ulong)rows * (get_global_id(0) + 1) / get_global_size(0)))
#define STEP 1u
#else
#define FIRST ((uint)get_global_id(0))
#define LAST rows
#define STEP ((uint)get_global_size(0))
#endif

#ifdef TEAM
#define TEAMS (ITEMS / TEAM)
// Each team of TEAM neighbours takes one row a round. Its lanes take every TEAM-th entry, so that they read neighbouring
// addresses; the first work-items of the group then add up one team's lanes each, so that they write neighbouring addresses.
kernel void csr_team(const global double* restrict values, const global int* restrict indices, const global int* restrict indptr,
                     const global double* restrict x, global double* restrict y, const uint rows) {
    // two sets: one is written while the other may still be read, so that one barrier a round is enough. TEAM + 1 keeps the
    // work-items that add up on different banks.
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
#define AT(k, row) ((size_t)(k) * PITCH + (row))
#define BATCH 8
// Each work-item takes rows padded to WIDTH entries. Entry k of all rows lies together, PITCH apart from entry k + 1: neighbours
// read neighbouring addresses. Where rows have more than STREAMS entries, a block goes through TILE rows entry by entry: few
// streams at a time, and vectors of rows.
kernel void ell(const global double* restrict values, const global int* restrict indices, const global double* restrict x,
                global double* restrict y, const uint rows) {
    const uint last = LAST;
#if BLOCKED && WIDTH > STREAMS
    for (uint tile = FIRST; tile < last; tile += TILE) {
        const uint end = min(tile + TILE, last);
        for (uint row = tile; row < end; row++) y[row] = 0;
        for (uint k = 0; k < WIDTH; k++)
            for (uint row = tile; row < end; row++) y[row] += values[AT(k, row)] * x[indices[AT(k, row)]];
    }
#elif BLOCKED
    for (uint row = FIRST; row < last; row++) {
        double sum = 0;
        for (uint k = 0; k < WIDTH; k++) sum += values[AT(k, row)] * x[indices[AT(k, row)]];
        y[row] = sum;
    }
#else
    for (uint row = FIRST; row < last; row += STEP) {
        double sum = 0;
        // a batch's loads are all under way before the first is needed
        for (uint first = 0; first < WIDTH; first += BATCH) {
            int column[BATCH];
            double value[BATCH];
#pragma unroll
            for (uint i = 0; i < BATCH; i++) column[i] = first + i < WIDTH ? INDEX(&indices[AT(first + i, row)]) : 0;
#pragma unroll
            for (uint i = 0; i < BATCH; i++) value[i] = first + i < WIDTH ? VALUE(&values[AT(first + i, row)]) : 0;
#pragma unroll
            for (uint i = 0; i < BATCH; i++) sum += first + i < WIDTH ? value[i] * x[column[i]] : 0;
        }
        y[row] = sum;
    }
#endif
}

#else
// Each work-item takes rows and walks along each of them.
kernel void csr_row(const global double* restrict values, const global int* restrict indices, const global int* restrict indptr,
                    const global double* restrict x, global double* restrict y, const uint rows) {
    const uint last = LAST, step = STEP;
    for (uint row = FIRST; row < last; row += step) {
        const int begin = indptr[row], end = indptr[row + 1];
#if AHEAD
        for (int k = begin; k < end; k += 8) {  // a line of values, half a line of indices
            PREFETCH(values + k);
            PREFETCH(indices + k);
        }
#endif
        double sum = 0;
        for (int k = begin; k < end; k++) sum += values[k] * x[indices[k]];
        y[row] = sum;
    }
}
#endif
