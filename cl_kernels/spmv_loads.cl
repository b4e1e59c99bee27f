// How the kernels of SpMV load what they read once, entries of a matrix. PTX: by NVIDIA's loads that take no line of L1, which is
// left to x; AHEAD: prefetched that many entries before they are due, for cores whose own prefetchers reach less far.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

#if PTX
double value_at(const global double* p) {
    double value;
    asm("ld.global.nc.L1::no_allocate.f64 %0, [%1];" : "=d"(value) : "l"(p));
    return value;
}
int index_at(const global int* p) {
    int index;
    asm("ld.global.nc.L1::no_allocate.s32 %0, [%1];" : "=r"(index) : "l"(p));
    return index;
}
#define VALUE(p) value_at(p)
#define INDEX(p) index_at(p)
#else
#define VALUE(p) (*(p))
#define INDEX(p) (*(p))
#endif

#if AHEAD
#define PREFETCH(p) __builtin_prefetch((const global char*)((p) + AHEAD), 0, 3)
#else
#define PREFETCH(p)
#endif
