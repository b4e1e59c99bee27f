// C = A B of row-major matrices of T, stored padded with zeros to whole tiles. A work-item keeps ROWS x COLUMNS of C in
// registers. WORK_GROUP 1 suits CPUs: `pack`, then `multiply`. Larger work-groups suit GPUs: `multiply` alone, through local
// memory.
#ifdef FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

// As stream.cl has it: a whole number below `levels` for each index and seed.
uint value(const ulong i, const uint seed, const uint levels) {
    uint h = (uint)(i ^ (i >> 32)) * 2654435761u ^ seed;
    h = (h ^ (h >> 15)) * 2246822519u;
    return (h ^ (h >> 13)) % levels;
}

// One work-item an element of `size`: whole numbers from -most to most in n x n, zeros around them; rows are `stride` long.
kernel void init(global T* restrict a, const uint n, const uint stride, const uint seed, const uint most, const ulong size) {
    const size_t i = get_global_id(0), row = i / stride, column = i % stride;
    const bool inside = row < n && column < n;
    if (i < size) a[i] = inside ? (T)((int)value((ulong)row * n + column, seed, 2 * most + 1) - (int)most) : (T)0;
}

#if WORK_GROUP == 1
// An FMA is written a * b + c: PoCL 3.0 has no fma() of vectors (its compiler aborts) and calls a function for that of scalars.
#pragma OPENCL FP_CONTRACT ON
#define VECTORS (COLUMNS / WIDTH)

// One work-item DEPTH rows of B and PACKED panels, of COLUMNS columns each: copy them in the order in which `multiply` reads
// them, a panel by ascending k. Panels of one block of rows lie side by side. Several panels at once, since rows far apart cost
// a page each.
kernel void pack(const global V* restrict b, global V* restrict b_packed, const uint column_panels, const uint inner) {
    const uint chunks = (column_panels + PACKED - 1) / PACKED;
    const size_t first = get_group_id(0) / chunks * DEPTH, count = min((size_t)DEPTH, inner - first);
    const size_t left = get_group_id(0) % chunks * PACKED, right = min(left + PACKED, (size_t)column_panels);
    for (size_t k = 0; k < count; k++)
        for (size_t panel = left; panel < right; panel++)
#pragma unroll
            for (size_t v = 0; v < VECTORS; v++)
                b_packed[(first * column_panels + panel * count + k) * VECTORS + v] =
                    b[((first + k) * column_panels + panel) * VECTORS + v];
}

// Where the compiler makes a CPU's own instructions: into the second level of cache. Elsewhere it is left to the hardware.
#if defined(__x86_64__) || defined(__aarch64__)
#define PREFETCH(p) __builtin_prefetch((const void*)(size_t)(p), 0, 2)
#else
#define PREFETCH(p)
#endif
#define STEPS 8  // of k between prefetches
#define LINE 64

// One step of k: an element of each row of A by a row of B's panel.
void step(V sum[ROWS][VECTORS], const local T* restrict down, const global V* restrict along) {
#pragma unroll
    for (size_t r = 0; r < ROWS; r++)
#pragma unroll
        for (size_t v = 0; v < VECTORS; v++) sum[r][v] += (V)(down[r * DEPTH]) * along[v];
}

// One work-item tiles of C, each of `high` x `wide` panels. For each block of DEPTH: the rows of A, brought side by side, stay
// in the second level of cache with the sums so far, while every product of ROWS rows and a panel of B is made. Sums go to C
// once, at last: the rows of a matrix may lie a power of two apart, where few of them fit a cache. Meanwhile the next panel of
// B and the next block of A are prefetched, a line now and then: the first use of a panel would else wait for the third level,
// which gives a core less than that use takes.
kernel void multiply(const global T* restrict a, const global V* restrict b_packed, global V* restrict c, const uint row_panels,
                     const uint column_panels, const uint inner, const uint high, const uint wide, local T* restrict a_block,
                     local V* restrict sums) {
    const uint tile_rows = (row_panels + high - 1) / high, tile_columns = (column_panels + wide - 1) / wide;
    const size_t stride = (size_t)column_panels * VECTORS;
    for (uint tile = get_group_id(0); tile < tile_rows * tile_columns; tile += get_num_groups(0)) {
        const size_t top = tile % tile_rows * high, bottom = min(top + high, (size_t)row_panels);
        const size_t left = tile / tile_rows * wide, right = min(left + wide, (size_t)column_panels);
        const size_t rows = (bottom - top) * ROWS;
        for (size_t first = 0; first < inner; first += DEPTH) {
            const size_t count = min((size_t)DEPTH, inner - first);
            const bool last = first + count == inner;
            const global T* a_next = a + top * ROWS * inner + (last ? first : first + DEPTH);
            for (size_t row = 0; row < rows; row++)
                for (size_t k = 0; k < count; k++) a_block[row * DEPTH + k] = a[(top * ROWS + row) * inner + first + k];
            for (size_t column = left; column < right; column++) {
                const global V* restrict along = b_packed + (first * column_panels + column * count) * VECTORS;
                const global char* b_next = (const global char*)(along + count * VECTORS);
                for (size_t row = top; row < bottom; row++) {
                    const size_t done = (column - left) * (bottom - top) + row - top;
                    const global T* a_row = a_next + (last ? 0 : min(done, rows - 1) * inner);
                    const local T* restrict down = a_block + (row - top) * ROWS * DEPTH;
                    local V* restrict so_far = sums + ((column - left) * high + row - top) * ROWS * VECTORS;
                    V sum[ROWS][VECTORS];
#pragma unroll
                    for (size_t i = 0; i < ROWS * VECTORS; i++)
                        sum[i / VECTORS][i % VECTORS] = first == 0 ? (V)(0) : so_far[i];
                    size_t k = 0;
#pragma unroll 1
                    for (; k + STEPS <= count; k += STEPS) {
                        PREFETCH(a_row + k);
                        PREFETCH(b_next);
                        PREFETCH(b_next + LINE);
                        b_next += 2 * LINE;
#pragma unroll
                        for (size_t i = 0; i < STEPS; i++) step(sum, down + k + i, along + (k + i) * VECTORS);
                    }
#pragma unroll 1
                    for (; k < count; k++) step(sum, down + k, along + k * VECTORS);
                    if (last) {
#pragma unroll
                        for (size_t i = 0; i < ROWS * VECTORS; i++)
                            c[(row * ROWS + i / VECTORS) * stride + column * VECTORS + i % VECTORS] =
                                sum[i / VECTORS][i % VECTORS];
                    } else {
#pragma unroll
                        for (size_t i = 0; i < ROWS * VECTORS; i++) so_far[i] = sum[i / VECTORS][i % VECTORS];
                    }
                }
            }
        }
    }
}

#else
// A work-group is GROUP_ROWS x GROUP_COLUMNS work-items, its tile of C TILE_ROWS x TILE_COLUMNS. V is 16 bytes, WIDTH elements.
#define TILE_ROWS (GROUP_ROWS * ROWS)
#define TILE_COLUMNS (GROUP_COLUMNS * COLUMNS)
#define A_LOADS (TILE_ROWS * DEPTH / WIDTH / WORK_GROUP)  // vectors that a work-item brings of a slab, DEPTH deep
#define B_LOADS (TILE_COLUMNS * DEPTH / WIDTH / WORK_GROUP)
#define A_ACROSS (DEPTH / WIDTH)  // vectors in a row of a slab
#define B_ACROSS (TILE_COLUMNS / WIDTH)
#define A_STRIDE (TILE_ROWS + WIDTH)  // padded, so that neighbours who store a transposed slab meet different banks
#define BAND 8
// 32 neighbours lie 4 x 8, so that together they read few different words of local memory
#define ACROSS (GROUP_COLUMNS < 8 ? GROUP_COLUMNS : 8)
#define DOWN (GROUP_ROWS < 4 ? GROUP_ROWS : 4)
#if WIDTH == 2
#define SPLIT(to, v) ((to)[0] = (v).s0, (to)[1] = (v).s1)
#define JOIN(from) ((V)((from)[0], (from)[1]))
#else
#define SPLIT(to, v) ((to)[0] = (v).s0, (to)[1] = (v).s1, (to)[2] = (v).s2, (to)[3] = (v).s3)
#define JOIN(from) ((V)((from)[0], (from)[1], (from)[2], (from)[3]))
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
void place(local T* a_slab, local V* b_slab, const V a_next[A_LOADS], const V b_next[B_LOADS], const uint id) {
#pragma unroll
    for (uint i = 0; i < A_LOADS; i++) {
        const uint at = id + i * WORK_GROUP;
        T part[WIDTH];
        SPLIT(part, a_next[i]);
#pragma unroll
        for (uint w = 0; w < WIDTH; w++) a_slab[(at % A_ACROSS * WIDTH + w) * A_STRIDE + at / A_ACROSS] = part[w];
    }
#pragma unroll
    for (uint i = 0; i < B_LOADS; i++) b_slab[id + i * WORK_GROUP] = b_next[i];
}

// One work-group tiles of C. Slabs of A and B take turns in two halves of local memory: while one is worked on, the next is on
// its way to registers. A work-item's rows and columns come as vectors that lie its group's size apart.
__attribute__((reqd_work_group_size(WORK_GROUP, 1, 1)))
kernel void multiply(const global T* restrict a, const global T* restrict b, global T* restrict c, const uint tile_rows,
                     const uint tile_columns, const uint inner) {
    local T a_slab[2][DEPTH * A_STRIDE] __attribute__((aligned(16)));
    local V b_slab[2][DEPTH * B_ACROSS];
    const uint id = get_local_id(0), block = id / (ACROSS * DOWN), lane = id % (ACROSS * DOWN);
    const uint x = block % (GROUP_COLUMNS / ACROSS) * ACROSS + lane % ACROSS;
    const uint y = block / (GROUP_COLUMNS / ACROSS) * DOWN + lane / ACROSS;
    const size_t stride = (size_t)tile_columns * TILE_COLUMNS;
    for (uint tile = get_group_id(0); tile < tile_rows * tile_columns; tile += get_num_groups(0)) {
        // tiles go down bands of a few rows, so that those worked on at once share rows of A and columns of B in a cache
        const uint band = tile / (BAND * tile_columns) * BAND, within = tile % (BAND * tile_columns);
        const uint height = min((uint)BAND, tile_rows - band);
        const size_t top = (size_t)(band + within % height) * TILE_ROWS, left = (size_t)(within / height) * TILE_COLUMNS;
        const global T* a_from = a + top * inner;
        const global T* b_from = b + left;
        V a_next[A_LOADS], b_next[B_LOADS];
        T sum[ROWS][COLUMNS];
#pragma unroll
        for (uint i = 0; i < ROWS; i++)
#pragma unroll
            for (uint j = 0; j < COLUMNS; j++) sum[i][j] = 0;
        fetch(a_next, b_next, a_from, b_from, id, inner, stride);
        for (uint k = 0; k < inner; k += DEPTH) {
            const uint turn = k / DEPTH % 2;
            place(a_slab[turn], b_slab[turn], a_next, b_next, id);
            // the only one a slab: whoever passes it has done with the slab before, and nobody writes there until the next one
            barrier(CLK_LOCAL_MEM_FENCE);
            const uint next = min(k + DEPTH, inner - DEPTH);  // the last slab comes twice: that costs less than a branch
            fetch(a_next, b_next, a_from + next, b_from + next * stride, id, inner, stride);
#pragma unroll
            for (uint d = 0; d < DEPTH; d++) {
                T rows[ROWS], columns[COLUMNS];
#pragma unroll
                for (uint i = 0; i < ROWS / WIDTH; i++)
                    SPLIT(rows + i * WIDTH, *(const local V*)&a_slab[turn][d * A_STRIDE + (i * GROUP_ROWS + y) * WIDTH]);
#pragma unroll
                for (uint j = 0; j < COLUMNS / WIDTH; j++)
                    SPLIT(columns + j * WIDTH, b_slab[turn][d * B_ACROSS + j * GROUP_COLUMNS + x]);
#pragma unroll
                for (uint i = 0; i < ROWS; i++)
#pragma unroll
                    for (uint j = 0; j < COLUMNS; j++) sum[i][j] = fma(rows[i], columns[j], sum[i][j]);
            }
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
#endif
