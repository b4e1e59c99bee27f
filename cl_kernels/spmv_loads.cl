// Loads of matrix entries, which SpMV reads only once. PTX: by NVIDIA's loads that allocate no line in L1, which is left to x.
// AHEAD: with prefetches that many entries ahead, for cores whose hardware prefetchers reach less far.
#define FP64 1
#include "common.cl"

#if PTX
double load_value(const global double* p) {
    double value;
    asm("ld.global.nc.L1::no_allocate.f64 %0, [%1];" : "=d"(value) : "l"(p));
    return value;
}
int load_index(const global int* p) {
    int index;
    asm("ld.global.nc.L1::no_allocate.s32 %0, [%1];" : "=r"(index) : "l"(p));
    return index;
}
#define LOAD_VALUE(p) load_value(p)
#define LOAD_INDEX(p) load_index(p)
#else
#define LOAD_VALUE(p) (*(p))
#define LOAD_INDEX(p) (*(p))
#endif

#if AHEAD
#define PREFETCH_ENTRY(p) __builtin_prefetch((const global char*)((p) + AHEAD), 0, 3)
#else
#define PREFETCH_ENTRY(p)
#endif
