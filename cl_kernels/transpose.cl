// Transposition of an n x n matrix of words in tiles of TILE x TILE, by work-groups of TILE x ROWS work-items. With STAGED
// tiles go through local memory, where PAD extra words in each row spread a column over as many banks as a row.
#include "common.cl"
#define WORD_AT(row, column) (((uint)(row) * n + (uint)(column)) * HASH_FACTOR + 1u)

// Each work-item writes one element, which identifies its row and column.
kernel void init(global uint* restrict in, const uint n) {
    in[get_global_id(0)] = WORD_AT(get_global_id(0) / n, get_global_id(0) % n);
}

// Each work-item moves TILE / ROWS elements of a tile that lie below each other.
kernel void transpose(const global uint* restrict in, global uint* restrict out, const uint n) {
    const uint x = (uint)get_local_id(0), y = (uint)get_local_id(1);
    const uint column = (uint)get_group_id(0) * TILE, row = (uint)get_group_id(1) * TILE;
#if STAGED
    local uint tile[TILE][TILE + PAD];
    for (uint k = 0; k < TILE; k += ROWS)
        if (row + k + y < n && column + x < n) tile[k + y][x] = in[(size_t)(row + k + y) * n + column + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = 0; k < TILE; k += ROWS)
        if (column + k + y < n && row + x < n) out[(size_t)(column + k + y) * n + row + x] = tile[x][k + y];
#else
    for (uint k = 0; k < TILE; k += ROWS)
        if (row + k + y < n && column + x < n)
            out[(size_t)(column + x) * n + row + k + y] = in[(size_t)(row + k + y) * n + column + x];
#endif
}

// Each work-item checks one element of the result, and counts it if it is not that of `init` with row and column exchanged.
kernel void verify(const global uint* restrict out, global uint* restrict wrong, const uint n) {
    const size_t i = get_global_id(0);
    if (out[i] != WORD_AT(i % n, i / n)) atomic_inc(wrong);
}
