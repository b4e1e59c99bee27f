// A copy of elements of T, whatever type that is.
#ifdef FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

// One work-item ELEMENTS of n elements, as far apart as its work-group is large, all loaded before the first is stored; the last
// work-group may have work-items beyond them.
kernel void copy_elements(const global T* restrict in, global T* restrict out, const ulong n) {
    const size_t size = get_local_size(0), first = get_group_id(0) * size * ELEMENTS + get_local_id(0);
    if (first + (ELEMENTS - 1) * size < n) {
        T held[ELEMENTS];
#pragma unroll
        for (int k = 0; k < ELEMENTS; k++) held[k] = in[first + k * size];
#pragma unroll
        for (int k = 0; k < ELEMENTS; k++) out[first + k * size] = held[k];
    } else {
        for (size_t i = first; i < n; i += size) out[i] = in[i];
    }
}
