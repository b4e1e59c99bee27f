// Contents of the matrices that `gemm` multiplies: those of dgemm in another type, T, whose bits are looked up.
#include "dgemm_init.cl"

// Each work-item writes one of `size` elements in rows of `stride`: the bits of whole numbers from -most to most within n x n,
// or of the transposed matrix, and zeros around them.
kernel void init_bits(global T* restrict a, const global T* restrict bits, const uint n, const uint stride, const uint seed,
                      const uint most, const uint transposed, const ulong size) {
    const size_t i = get_global_id(0), row = i / stride, column = i % stride;
    const ulong element = transposed ? (ulong)column * n + row : (ulong)row * n + column;
    const bool inside = row < n && column < n;
    if (i < size) a[i] = bits[inside ? value(element, seed, 2 * most + 1) : most];
}
