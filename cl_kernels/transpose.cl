// An n x n matrix of words, transposed in tiles of TILE x TILE by work-groups of TILE x ROWS work-items, through local memory with
// STAGED, whose rows there have PAD words too many, so that a column lies in as many banks as a row.
#define WORD(row, column) (((uint)(row) * n + (uint)(column)) * 2654435761u + 1u)

// One work-item an element: a word that tells its place.
kernel void init(global uint* restrict in, const uint n) {
    in[get_global_id(0)] = WORD(get_global_id(0) / n, get_global_id(0) % n);
}

// One work-item TILE / ROWS elements of a tile, below each other.
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

// One work-item an element of the result: count those that are not the ones of `init` at rows and columns exchanged.
kernel void verify(const global uint* restrict out, global uint* restrict wrong, const uint n) {
    const size_t i = get_global_id(0);
    if (out[i] != WORD(i % n, i / n)) atomic_inc(wrong);
}
