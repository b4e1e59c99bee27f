// A copy of elements of T, whatever type that is.
#ifdef FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

// One work-item an element of n; the last work-group may have work-items beyond them.
kernel void copy_elements(const global T* restrict in, global T* restrict out, const ulong n) {
    const size_t i = get_global_id(0);
    if (i < n) out[i] = in[i];
}
