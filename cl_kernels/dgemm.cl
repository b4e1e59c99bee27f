// C = A B of row-major matrices of T, stored padded with zeros to whole tiles, for CPUs: work-groups of one, `pack`, then
// `multiply`. A work-item keeps ROWS x COLUMNS of C in registers.
#ifdef FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

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
