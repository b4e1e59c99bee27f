// Sparse matrix-vector product y = A x in double, CSR-Adaptive: CSR unchanged, cut into blocks of about equally many entries,
// which are sum_part rows, or a part of a row that is longer than many blocks. After Greathouse & Daga 2014 and Daga &
// Greathouse 2015. Any number of work-groups is right.
#include "spmv_loads.cl"
#include "spmv_parts.cl"
#define TILE (GROUP_SIZE * PER)  // entries whose products fit into local memory
#define SHIFT 28                 // the number of a block's entries is below this bit, log2 of its lanes above it

// Stores the products of a block in local memory, then adds up its rows: 2^shift lanes a row, all teams in rounds.
void sum_rows(const global double* restrict values, const global int* restrict indices, const global int* restrict indptr,
              const global double* restrict x, global double* restrict y, const uint rows, const int begin, const int entries,
              const uint shift, local double* products, local double* sums) {
    const uint item = get_local_id(0), lanes = 1u << shift, lane = item & (lanes - 1), teams = GROUP_SIZE >> shift;
    int column[PER];
#pragma unroll
    for (uint i = 0; i < PER; i++)
        column[i] = item + i * GROUP_SIZE < entries ? LOAD_INDEX(&indices[begin + item + i * GROUP_SIZE]) : 0;
#pragma unroll
    for (uint i = 0; i < PER; i++) {
        const uint k = item + i * GROUP_SIZE;
        if (k < entries) products[k] = LOAD_VALUE(&values[begin + k]) * x[column[i]];
    }
    // the bounds of the first row are in flight while other work-items still gather
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
            row += GROUP_SIZE;
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
        // double buffering: one set is written while the other may still be read, so one barrier a round is enough
        local double* mine = sums + set * GROUP_SIZE;
        mine[item] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < teams && first + item < rows) {
            double total = 0;
            // each work-item starts at another lane, so that neighbours read different banks
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

// Sums `entries` products by all work-items of a group of any size, and returns the sum to the first one. All loads of a batch
// are in flight before the first is used.
double sum_part(const global double* restrict values, const global int* restrict indices, const global double* restrict x,
                const int begin, const int entries, local double* sums) {
    double sum = 0;
    for (int first = get_local_id(0); first < entries; first += TILE) {
        int column[PER];
        double value[PER];
#pragma unroll
        for (uint i = 0; i < PER; i++) {
            const int k = first + i * GROUP_SIZE;
            column[i] = k < entries ? LOAD_INDEX(&indices[begin + k]) : 0;
            value[i] = k < entries ? LOAD_VALUE(&values[begin + k]) : 0;
        }
#pragma unroll
        for (uint i = 0; i < PER; i++) sum += first + i * GROUP_SIZE < entries ? value[i] * x[column[i]] : 0;
    }
    return sum_of_group(sum, GROUP_SIZE, sums);
}

// Each work-item helps with the block that its work-group takes in a round. A block is its first row (of a part: the place of
// its sum), its number of rows (of a part: 0), its first entry, and its numbers of entries and lanes.
FIXED_GROUP_SIZE(GROUP_SIZE, 1, 1)
kernel void csr_adaptive(const global double* restrict values, const global int* restrict indices,
                         const global int* restrict indptr, const global uint4* restrict blocks,
                         const global double* restrict x, global double* restrict y, global double* restrict parts,
                         const uint count) {
    local double products[TILE], sums[2 * GROUP_SIZE];
    for (uint b = get_group_id(0); b < count; b += get_num_groups(0)) {
        const uint4 block = blocks[b];
        const int entries = block.w & ((1u << SHIFT) - 1);
        if (block.y > 0 && entries <= TILE) {
            sum_rows(values, indices, indptr + block.x, x, y + block.x, block.y, block.z, entries, block.w >> SHIFT, products,
                     sums);
        } else {
            const double sum = sum_part(values, indices, x, block.z, entries, sums);
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
