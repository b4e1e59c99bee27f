// Matrix product C = A B on CPUs, of row-major matrices of T padded with zeros to whole tiles, in two kernels, `pack` and
// `multiply`, by work-groups of one work-item, which keeps ROWS x COLUMNS elements of C in registers.
#include "common.cl"

// An FMA is written a * b + c: the compiler of PoCL 3.0 aborts at fma() of vectors, and makes a call of fma() of scalars.
#pragma OPENCL FP_CONTRACT ON
#define VECTORS (COLUMNS / WIDTH)

// Each work-item copies DEPTH rows of PACKED panels of B, of COLUMNS columns each, in the order in which `multiply` reads them:
// a panel by ascending k, the panels of one block of rows side by side. It copies several panels at a time, since each row lies
// in a page of its own.
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

// A prefetch into the second level of cache, where the compiler emits a CPU's native instructions; elsewhere nothing.
#if defined(__x86_64__) || defined(__aarch64__)
#define PREFETCH_L2(p) __builtin_prefetch((const void*)(size_t)(p), 0, 2)
#else
#define PREFETCH_L2(p)
#endif
#define PREFETCH_INTERVAL 8  // values of k
#define LINE_BYTES 64

// Adds the products of one k: an element of each row of A by a row of B's panel.
void multiply_add_row(V sum[ROWS][VECTORS], const local T* restrict down, const global V* restrict along) {
#pragma unroll
    for (size_t r = 0; r < ROWS; r++)
#pragma unroll
        for (size_t v = 0; v < VECTORS; v++) sum[r][v] += (V)(down[r * DEPTH]) * along[v];
}

// Each work-item computes tiles of C, of `high` x `wide` panels. For each block of DEPTH values of k the rows of A, copied side
// by side, stay in the second level of cache together with the partial sums, while each ROWS rows are multiplied by each panel
// of B. Sums are stored to C only once, at the end: the rows of a matrix may lie a power of two apart, and then few of them fit
// into a cache. Meanwhile lines of the next panel of B and of the next block of A are prefetched: the first use of a panel
// would otherwise wait for the third level, which gives a core less bandwidth than that use needs.
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
                    for (size_t i = 0; i < ROWS * VECTORS; i++) sum[i / VECTORS][i % VECTORS] = first == 0 ? (V)(0) : so_far[i];
                    size_t k = 0;
#pragma unroll 1
                    for (; k + PREFETCH_INTERVAL <= count; k += PREFETCH_INTERVAL) {
                        PREFETCH_L2(a_row + k);
                        PREFETCH_L2(b_next);
                        PREFETCH_L2(b_next + LINE_BYTES);
                        b_next += 2 * LINE_BYTES;
#pragma unroll
                        for (size_t i = 0; i < PREFETCH_INTERVAL; i++)
                            multiply_add_row(sum, down + k + i, along + (k + i) * VECTORS);
                    }
#pragma unroll 1
                    for (; k < count; k++) multiply_add_row(sum, down + k, along + k * VECTORS);
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
