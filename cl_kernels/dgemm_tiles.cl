// C = A B of row-major matrices of T, stored padded with zeros to whole tiles, for GPUs: through local memory, by OpenCL C. A
// work-group is GROUP_ROWS x GROUP_COLUMNS work-items, each of which keeps ROWS x COLUMNS of C in registers; its tile of C is
// TILE_ROWS x TILE_COLUMNS. V is 16 bytes, WIDTH elements.
#ifdef FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define TILE_ROWS (GROUP_ROWS * ROWS)
#define TILE_COLUMNS (GROUP_COLUMNS * COLUMNS)
#define A_LOADS (TILE_ROWS * DEPTH / WIDTH / WORK_GROUP)  // vectors that a work-item brings of a slab, DEPTH deep
#define B_LOADS (TILE_COLUMNS * DEPTH / WIDTH / WORK_GROUP)
#define A_ACROSS (DEPTH / WIDTH)  // vectors in a row of a slab
#define B_ACROSS (TILE_COLUMNS / WIDTH)
#define A_STRIDE (TILE_ROWS + WIDTH)  // padded, so that neighbours who store a transposed slab meet different banks
#define BAND 8
// 32 neighbours lie 4 x 8, so that together they read few different words of local memory; and every two of them, of which one
// has the next number but one, in turns above and beside each other, so that half of them are served at once
#define ACROSS (GROUP_COLUMNS < 8 ? GROUP_COLUMNS : 8)
#define DOWN (GROUP_ROWS < 4 ? GROUP_ROWS : 4)
#define PAIRED (ACROSS > 1 && DOWN > 1)
// Columns lie in local memory with neighbours exchanged: sums and columns are both vectors, and so the odd elements of one meet
// the even ones of the other, which on some GPUs are in different banks of registers.
#if WIDTH == 2
#define SPLIT(to, v) ((to)[0] = (v).s0, (to)[1] = (v).s1)
#define JOIN(from) ((V)((from)[0], (from)[1]))
#define EXCHANGED(v) (v).s10
#else
#define SPLIT(to, v) ((to)[0] = (v).s0, (to)[1] = (v).s1, (to)[2] = (v).s2, (to)[3] = (v).s3)
#define JOIN(from) ((V)((from)[0], (from)[1], (from)[2], (from)[3]))
#define EXCHANGED(v) (v).s1032
#endif

// One work-item's share of a slab, from global memory to registers.
void fetch(V a_next[A_LOADS], V b_next[B_LOADS], const global T* a, const global T* b, const uint id, const size_t inner,
           const size_t stride) {
#pragma unroll
    for (uint i = 0; i < A_LOADS; i++) {
        const uint at = id + i * WORK_GROUP;
        a_next[i] = *(const global V*)(a + at / A_ACROSS * inner + at % A_ACROSS * WIDTH);
    }
#pragma unroll
    for (uint i = 0; i < B_LOADS; i++) {
        const uint at = id + i * WORK_GROUP;
        b_next[i] = *(const global V*)(b + at / B_ACROSS * stride + at % B_ACROSS * WIDTH);
    }
}

// And from registers to local memory, A transposed: the rows that one work-item reads then lie side by side.
void place(local T* a_slab, local T* b_slab, const V a_next[A_LOADS], const V b_next[B_LOADS], const uint id) {
#pragma unroll
    for (uint i = 0; i < A_LOADS; i++) {
        const uint at = id + i * WORK_GROUP;
        T part[WIDTH];
        SPLIT(part, a_next[i]);
#pragma unroll
        for (uint w = 0; w < WIDTH; w++) a_slab[(at % A_ACROSS * WIDTH + w) * A_STRIDE + at / A_ACROSS] = part[w];
    }
#pragma unroll
    for (uint i = 0; i < B_LOADS; i++) ((local V*)b_slab)[id + i * WORK_GROUP] = EXCHANGED(b_next[i]);
}

// A work-item's rows of A and columns of B at one k: vectors that lie its group's size apart.
void pick(T rows[ROWS], T columns[COLUMNS], const local T* a, const local T* b) {
#pragma unroll
    for (uint i = 0; i < ROWS / WIDTH; i++) SPLIT(rows + i * WIDTH, *(const local V*)(a + i * GROUP_ROWS * WIDTH));
#pragma unroll
    for (uint j = 0; j < COLUMNS / WIDTH; j++)
        SPLIT(columns + j * WIDTH, EXCHANGED(*(const local V*)(b + j * GROUP_COLUMNS * WIDTH)));
}

// Every second row backwards: the column that ends one row begins the next.
void update(T sum[ROWS][COLUMNS], const T rows[ROWS], const T columns[COLUMNS]) {
#pragma unroll
    for (uint i = 0; i < ROWS; i++)
#pragma unroll
        for (uint at = 0; at < COLUMNS; at++) {
            const uint j = i % 2 ? COLUMNS - 1 - at : at;
            sum[i][j] = fma(rows[i], columns[j], sum[i][j]);
        }
}

// One work-group tiles of C. Slabs of A and B take turns in two halves of local memory: while one is worked on, the next is on
// its way to registers; and while one k is worked on, the operands of the next.
__attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
kernel void multiply(const global T* restrict a, const global T* restrict b, global T* restrict c, const uint tile_rows,
                     const uint tile_columns, const uint inner) {
    local T a_slab[2 * DEPTH * A_STRIDE] __attribute__((aligned(16)));
    local T b_slab[2 * DEPTH * TILE_COLUMNS] __attribute__((aligned(16)));
    const uint id = get_local_id(0), block = id / (ACROSS * DOWN), lane = id % (ACROSS * DOWN);
    const uint right = PAIRED ? lane / 4 % (ACROSS / 2) * 2 + lane % 2 : lane % ACROSS;
    const uint below = PAIRED ? lane / (2 * ACROSS) * 2 + lane / 2 % 2 : lane / ACROSS;
    const uint x = block % (GROUP_COLUMNS / ACROSS) * ACROSS + right, y = block / (GROUP_COLUMNS / ACROSS) * DOWN + below;
    const size_t stride = (size_t)tile_columns * TILE_COLUMNS;
    for (uint tile = get_group_id(0); tile < tile_rows * tile_columns; tile += get_num_groups(0)) {
        // tiles go down bands of a few rows, so that those worked on at once share rows of A and columns of B in a cache
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
        fetch(a_next, b_next, a_from, b_from, id, inner, stride);
        place(a_slab, b_slab, a_next, b_next, id);
        barrier(CLK_LOCAL_MEM_FENCE);
        const local T* a_at = a_slab + y * WIDTH;
        const local T* b_at = b_slab + x * WIDTH;
        pick(rows[0], columns[0], a_at, b_at);
        for (uint k = 0, turn = 0; k < inner; k += DEPTH, turn ^= 1) {
            const uint next = min(k + DEPTH, inner - DEPTH);  // the last slab comes twice: that costs less than a branch
            fetch(a_next, b_next, a_from + next, b_from + next * stride, id, inner, stride);
#pragma unroll UNROLL
            for (uint d = 2; d < DEPTH; d += 2) {
                pick(rows[1], columns[1], a_at + A_STRIDE, b_at + TILE_COLUMNS);
                update(sum, rows[0], columns[0]);
                a_at += 2 * A_STRIDE;
                b_at += 2 * TILE_COLUMNS;
                pick(rows[0], columns[0], a_at, b_at);
                update(sum, rows[1], columns[1]);
            }
            pick(rows[1], columns[1], a_at + A_STRIDE, b_at + TILE_COLUMNS);
            update(sum, rows[0], columns[0]);
            place(a_slab + (turn ^ 1) * (DEPTH * A_STRIDE), b_slab + (turn ^ 1) * (DEPTH * TILE_COLUMNS), a_next, b_next, id);
            // the only one a slab: whoever passes it has read all of this slab, and nobody writes there until the next one
            barrier(CLK_LOCAL_MEM_FENCE);
            a_at = a_slab + (turn ^ 1) * (DEPTH * A_STRIDE) + y * WIDTH;
            b_at = b_slab + (turn ^ 1) * (DEPTH * TILE_COLUMNS) + x * WIDTH;
            pick(rows[0], columns[0], a_at, b_at);
            update(sum, rows[1], columns[1]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);  // the next tile begins with the first half again
#pragma unroll
        for (uint i = 0; i < ROWS; i++)
#pragma unroll
            for (uint j = 0; j < COLUMNS / WIDTH; j++)
                *(global V*)(c + (top + (i / WIDTH * GROUP_ROWS + y) * WIDTH + i % WIDTH) * stride + left +
                             (j * GROUP_COLUMNS + x) * WIDTH) = JOIN(sum[i] + j * WIDTH);
    }
}
