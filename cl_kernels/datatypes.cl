// Throughput of a copy by data type: elements of T.
#include "common.cl"
// NONTEMPORAL: stores bypass the caches; a CPU's other stores first read what they overwrite.
#if NONTEMPORAL
#define STORE(v, p) __builtin_nontemporal_store((v), (p))
#else
#define STORE(v, p) (*(p) = (v))
#endif

// Each work-item copies ELEMENTS of n elements, which lie a work-group's size apart; it loads all before it stores the first.
// The last work-group may have work-items beyond the end.
kernel void copy_elements(const global T* restrict in, global T* restrict out, const ulong n) {
    const size_t size = get_local_size(0), first = get_group_id(0) * size * ELEMENTS + get_local_id(0);
    if (first + (ELEMENTS - 1) * size < n) {
        T held[ELEMENTS];
#pragma unroll
        for (int k = 0; k < ELEMENTS; k++) held[k] = in[first + k * size];
#pragma unroll
        for (int k = 0; k < ELEMENTS; k++) STORE(held[k], &out[first + k * size]);
    } else {
        for (size_t i = first; i < n; i += size) out[i] = in[i];
    }
}
