// Kernels of device_link: contents on the source, the use by the target, and the check there.
#include "common.cl"

// Each work-item writes one word of a pattern, which depends on its index and the seed.
kernel void write_pattern(global uint* restrict out, const uint seed) {
    out[get_global_id(0)] = (uint)get_global_id(0) * HASH_FACTOR ^ seed;
}

// Each work-item checks one word, and counts it if it is not the pattern's.
kernel void count_wrong(const global uint* restrict in, const uint seed, global uint* restrict wrong) {
    if (in[get_global_id(0)] != ((uint)get_global_id(0) * HASH_FACTOR ^ seed)) atomic_inc(wrong);
}

// The only work-item reads the last word: then the device has the buffer.
kernel void read_last(const global uint* restrict in, const uint last, global uint* restrict out) {
    out[0] = in[last];
}
