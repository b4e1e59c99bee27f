// y = A x in double by CSR as it is, in blocks of about as many entries: whole rows, or a part of a row that is longer than many
// blocks. After Greathouse & Daga 2014 and Daga & Greathouse 2015. Any number of work-groups will do. Comes after spmv_loads.cl.
#define TILE (ITEMS * PER)  // entries whose products fit into local memory
#define SHIFT 28            // a block's entries lie below these bits, and the binary logarithm of its lanes in them

// Products of a block in local memory, then its rows: 2^shift lanes add up a row, all teams in rounds.
void stream(const global double* restrict values, const global int* restrict indices, const global int* restrict indptr,
            const global double* restrict x, global double* restrict y, const uint rows, const int begin, const int entries,
            const uint shift, local double* products, local double* sums) {
    const uint item = get_local_id(0), lanes = 1u << shift, lane = item & (lanes - 1), teams = ITEMS >> shift;
    int column[PER];
#pragma unroll
    for (uint i = 0; i < PER; i++) column[i] = item + i * ITEMS < entries ? INDEX(&indices[begin + item + i * ITEMS]) : 0;
#pragma unroll
    for (uint i = 0; i < PER; i++) {
        const uint k = item + i * ITEMS;
        if (k < entries) products[k] = VALUE(&values[begin + k]) * x[column[i]];
    }
    // the first row's ends are on their way while others still gather
    uint row = item >> shift;
    int k = 0, end = 0;
    if (row < rows) {
        k = indptr[row] - begin + lane;
        end = indptr[row + 1] - begin;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (shift == 0) {
        while (row < rows) {
            double sum = 0;
            for (; k < end; k++) sum += products[k];
            y[row] = sum;
            row += ITEMS;
            if (row < rows) {
                k = indptr[row] - begin;
                end = indptr[row + 1] - begin;
            }
        }
        return;
    }
    uint set = 0;
    for (uint first = 0; first < rows; first += teams) {
        double sum = 0;
        for (; k < end; k += lanes) sum += products[k];
        // two sets: one is written while the other may still be read, so that one barrier a round is enough
        local double* mine = sums + set * ITEMS;
        mine[item] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < teams && first + item < rows) {
            double total = 0;
            // each begins at another lane, so that neighbours read different banks
            for (uint i = 0; i < lanes; i++) total += mine[(item << shift) + ((item + i) & (lanes - 1))];
            y[first + item] = total;
        }
        set ^= 1;
        row += teams;
        k = end = 0;
        if (row < rows) {
            k = indptr[row] - begin + lane;
            end = indptr[row + 1] - begin;
        }
    }
}

// The sum of `entries` products, by all work-items of a group of any size; only the first has it. The others
// do not read it, since the first may still be writing.
double whole(const global double* restrict values, const global int* restrict indices, const global double* restrict x,
             const int begin, const int entries, local double* sums) {
    const uint item = get_local_id(0);
    double sum = 0;
    for (int k = begin + item; k < begin + entries; k += ITEMS) sum += VALUE(&values[k]) * x[INDEX(&indices[k])];
    sums[item] = sum;
    for (uint left = ITEMS; left > 1; left = (left + 1) / 2) {
        const uint apart = (left + 1) / 2;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item + apart < left) sums[item] += sums[item + apart];
    }
    return item == 0 ? sums[0] : 0;
}

// Each work-group takes a block a round: its first row (of a part: where its sum goes), its rows (of a part: none), its first
// entry, its entries and lanes.
__attribute__((reqd_work_group_size(ITEMS, 1, 1)))
kernel void csr_adaptive(const global double* restrict values, const global int* restrict indices, const global int* restrict indptr,
    const global uint4* restrict blocks, const global double* restrict x, global double* restrict y,
    global double* restrict parts, const uint count) {
    local double products[TILE], sums[2 * ITEMS];
    for (uint b = get_group_id(0); b < count; b += get_num_groups(0)) {
        const uint4 block = blocks[b];
        const int entries = block.w & ((1u << SHIFT) - 1);
        if (block.y > 0 && entries <= TILE) {
            stream(values, indices, indptr + block.x, x, y + block.x, block.y, block.z, entries, block.w >> SHIFT, products, sums);
        } else {
            const double sum = whole(values, indices, x, block.z, entries, sums);
            if (get_local_id(0) == 0) {
                if (block.y > 0)
                    y[block.x] = sum;
                else
                    parts[block.x] = sum;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

// Each work-item adds up the parts of one row: row, first part, parts.
kernel void csr_parts(const global uint4* restrict rows, const global double* restrict parts, global double* restrict y) {
    const uint4 row = rows[get_global_id(0)];
    double sum = 0;
    for (uint i = row.y; i < row.y + row.z; i++) sum += parts[i];
    y[row.x] = sum;
}
