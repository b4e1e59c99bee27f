// The matrices that `dgemm` multiplies.
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
