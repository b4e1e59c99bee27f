// Contents of the matrices that `dgemm` multiplies.
#include "common.cl"

// A whole number below `levels`, a hash of index and seed, as in stream.cl.
uint value(const ulong i, const uint seed, const uint levels) {
    uint h = (uint)(i ^ (i >> 32)) * HASH_FACTOR ^ seed;
    HASH_SCRAMBLE(h)
    return HASH_FOLD(h) % levels;
}

// Each work-item writes one of `size` elements in rows of `stride`: whole numbers from -most to most within n x n, zeros around
// them.
kernel void init(global T* restrict a, const uint n, const uint stride, const uint seed, const uint most, const ulong size) {
    const size_t i = get_global_id(0), row = i / stride, column = i % stride;
    const bool inside = row < n && column < n;
    if (i < size) a[i] = inside ? (T)((int)value((ulong)row * n + column, seed, 2 * most + 1) - (int)most) : (T)0;
}
