// Matrix product C = A B on GPUs, of row-major matrices of T padded with zeros to whole tiles, through local memory, in OpenCL
// C alone. A work-group is GROUP_ROWS x GROUP_COLUMNS work-items, each of which keeps ROWS x COLUMNS elements of C in
// registers; its tile of C is TILE_ROWS x TILE_COLUMNS. V is a vector of 16 bytes, WIDTH elements.
#include "common.cl"
#define TILE_ROWS (GROUP_ROWS * ROWS)
#define TILE_COLUMNS (GROUP_COLUMNS * COLUMNS)
#define A_LOADS (TILE_ROWS * DEPTH / WIDTH / GROUP_SIZE)  // vectors of a slab, DEPTH deep, that a work-item loads
#define B_LOADS (TILE_COLUMNS * DEPTH / WIDTH / GROUP_SIZE)
#define A_ACROSS (DEPTH / WIDTH)  // vectors in a row of a slab
#define B_ACROSS (TILE_COLUMNS / WIDTH)
#define A_STRIDE (TILE_ROWS + WIDTH)  // padded, so that neighbours that store a transposed slab access different banks
#define BAND 8
// 32 neighbouring work-items form 4 rows of 8, so that together they read few different words of local memory. Work-items whose
// numbers differ by two lie above and beside each other in turns, so that half of the 32 are served at once.
#define LANES_ACROSS (GROUP_COLUMNS < 8 ? GROUP_COLUMNS : 8)
#define LANES_DOWN (GROUP_ROWS < 4 ? GROUP_ROWS : 4)
#define PAIRED (LANES_ACROSS > 1 && LANES_DOWN > 1)
// Columns lie in local memory with neighbours swapped. Sums and columns are both vectors, so an odd element of one is combined
// with an even one of the other, which on some GPUs lie in different register banks.
#if WIDTH == 2
#define FROM_VECTOR(to, v) ((to)[0] = (v).s0, (to)[1] = (v).s1)
#define TO_VECTOR(from) ((V)((from)[0], (from)[1]))
#define SWAP_NEIGHBOURS(v) (v).s10
#else
#define FROM_VECTOR(to, v) ((to)[0] = (v).s0, (to)[1] = (v).s1, (to)[2] = (v).s2, (to)[3] = (v).s3)
#define TO_VECTOR(from) ((V)((from)[0], (from)[1], (from)[2], (from)[3]))
#define SWAP_NEIGHBOURS(v) (v).s1032
#endif

// Loads one work-item's share of a slab from global memory to registers.
void load_slab(V a_next[A_LOADS], V b_next[B_LOADS], const global T* a, const global T* b, const uint id, const size_t inner,
               const size_t stride) {
#pragma unroll
    for (uint i = 0; i < A_LOADS; i++) {
        const uint at = id + i * GROUP_SIZE;
        a_next[i] = *(const global V*)(a + at / A_ACROSS * inner + at % A_ACROSS * WIDTH);
    }
#pragma unroll
    for (uint i = 0; i < B_LOADS; i++) {
        const uint at = id + i * GROUP_SIZE;
        b_next[i] = *(const global V*)(b + at / B_ACROSS * stride + at % B_ACROSS * WIDTH);
    }
}

// Stores it from registers to local memory, A transposed, so that the rows that one work-item reads lie side by side.
void store_slab(local T* a_slab, local T* b_slab, const V a_next[A_LOADS], const V b_next[B_LOADS], const uint id) {
#pragma unroll
    for (uint i = 0; i < A_LOADS; i++) {
        const uint at = id + i * GROUP_SIZE;
        T part[WIDTH];
        FROM_VECTOR(part, a_next[i]);
#pragma unroll
        for (uint w = 0; w < WIDTH; w++) a_slab[(at % A_ACROSS * WIDTH + w) * A_STRIDE + at / A_ACROSS] = part[w];
    }
#pragma unroll
    for (uint i = 0; i < B_LOADS; i++) ((local V*)b_slab)[id + i * GROUP_SIZE] = SWAP_NEIGHBOURS(b_next[i]);
}

// Loads a work-item's rows of A and columns of B at one value of k: vectors that lie its group's size apart.
void load_fragments(T rows[ROWS], T columns[COLUMNS], const local T* a, const local T* b) {
#pragma unroll
    for (uint i = 0; i < ROWS / WIDTH; i++) FROM_VECTOR(rows + i * WIDTH, *(const local V*)(a + i * GROUP_ROWS * WIDTH));
#pragma unroll
    for (uint j = 0; j < COLUMNS / WIDTH; j++)
        FROM_VECTOR(columns + j * WIDTH, SWAP_NEIGHBOURS(*(const local V*)(b + j * GROUP_COLUMNS * WIDTH)));
}

// Adds the products of one value of k, every second row backwards: the last column of one row is the first of the next.
void multiply_add_fragments(T sum[ROWS][COLUMNS], const T rows[ROWS], const T columns[COLUMNS]) {
#pragma unroll
    for (uint i = 0; i < ROWS; i++)
#pragma unroll
        for (uint at = 0; at < COLUMNS; at++) {
            const uint j = i % 2 ? COLUMNS - 1 - at : at;
            sum[i][j] = fma(rows[i], columns[j], sum[i][j]);
        }
}

// Each work-item computes its elements of the tiles of C that its work-group takes. Slabs of A and B alternate between two
// halves of local memory: while one is used, the next is loaded to registers; and while one value of k is used, the operands of
// the next.
FIXED_GROUP_SIZE(GROUP_SIZE, 1, 1)
kernel void multiply(const global T* restrict a, const global T* restrict b, global T* restrict c, const uint tile_rows,
                     const uint tile_columns, const uint inner) {
    local T a_slab[2 * DEPTH * A_STRIDE] __attribute__((aligned(16)));
    local T b_slab[2 * DEPTH * TILE_COLUMNS] __attribute__((aligned(16)));
    const uint id = get_local_id(0), block = id / (LANES_ACROSS * LANES_DOWN), lane = id % (LANES_ACROSS * LANES_DOWN);
    const uint right = PAIRED ? lane / 4 % (LANES_ACROSS / 2) * 2 + lane % 2 : lane % LANES_ACROSS;
    const uint below = PAIRED ? lane / (2 * LANES_ACROSS) * 2 + lane / 2 % 2 : lane / LANES_ACROSS;
    const uint x = block % (GROUP_COLUMNS / LANES_ACROSS) * LANES_ACROSS + right,
               y = block / (GROUP_COLUMNS / LANES_ACROSS) * LANES_DOWN + below;
    const size_t stride = (size_t)tile_columns * TILE_COLUMNS;
    for (uint tile = get_group_id(0); tile < tile_rows * tile_columns; tile += get_num_groups(0)) {
        // tiles are taken band by band, so that those computed at the same time share rows of A and columns of B in a cache
        const uint band = tile / (BAND * tile_columns) * BAND, within = tile % (BAND * tile_columns);
        const uint height = min((uint)BAND, tile_rows - band);
        const size_t top = (size_t)(band + within % height) * TILE_ROWS, left = (size_t)(within / height) * TILE_COLUMNS;
        const global T* a_from = a + top * inner;
        const global T* b_from = b + left;
        V a_next[A_LOADS], b_next[B_LOADS];
        T sum[ROWS][COLUMNS], rows[2][ROWS], columns[2][COLUMNS];
#pragma unroll
        for (uint i = 0; i < ROWS; i++)
#pragma unroll
            for (uint j = 0; j < COLUMNS; j++) sum[i][j] = 0;
        load_slab(a_next, b_next, a_from, b_from, id, inner, stride);
        store_slab(a_slab, b_slab, a_next, b_next, id);
        barrier(CLK_LOCAL_MEM_FENCE);
        const local T* a_at = a_slab + y * WIDTH;
        const local T* b_at = b_slab + x * WIDTH;
        load_fragments(rows[0], columns[0], a_at, b_at);
        for (uint k = 0, turn = 0; k < inner; k += DEPTH, turn ^= 1) {
            const uint next = min(k + DEPTH, inner - DEPTH);  // the last slab is loaded twice: that costs less than a branch
            load_slab(a_next, b_next, a_from + next, b_from + next * stride, id, inner, stride);
#pragma unroll UNROLL
            for (uint d = 2; d < DEPTH; d += 2) {
                load_fragments(rows[1], columns[1], a_at + A_STRIDE, b_at + TILE_COLUMNS);
                multiply_add_fragments(sum, rows[0], columns[0]);
                a_at += 2 * A_STRIDE;
                b_at += 2 * TILE_COLUMNS;
                load_fragments(rows[0], columns[0], a_at, b_at);
                multiply_add_fragments(sum, rows[1], columns[1]);
            }
            load_fragments(rows[1], columns[1], a_at + A_STRIDE, b_at + TILE_COLUMNS);
            multiply_add_fragments(sum, rows[0], columns[0]);
            store_slab(a_slab + (turn ^ 1) * (DEPTH * A_STRIDE), b_slab + (turn ^ 1) * (DEPTH * TILE_COLUMNS), a_next, b_next,
                       id);
            // One barrier a slab is enough: a work-item that passes it has read all of this slab, and none writes there until
            // the next barrier.
            barrier(CLK_LOCAL_MEM_FENCE);
            a_at = a_slab + (turn ^ 1) * (DEPTH * A_STRIDE) + y * WIDTH;
            b_at = b_slab + (turn ^ 1) * (DEPTH * TILE_COLUMNS) + x * WIDTH;
            load_fragments(rows[0], columns[0], a_at, b_at);
            multiply_add_fragments(sum, rows[1], columns[1]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);  // the next tile starts again with the first half
#pragma unroll
        for (uint i = 0; i < ROWS; i++)
#pragma unroll
            for (uint j = 0; j < COLUMNS / WIDTH; j++)
                *(global V*)(c + (top + (i / WIDTH * GROUP_ROWS + y) * WIDTH + i % WIDTH) * stride + left +
                             (j * GROUP_COLUMNS + x) * WIDTH) = TO_VECTOR(sum[i] + j * WIDTH);
    }
}
