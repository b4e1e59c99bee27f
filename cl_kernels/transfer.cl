// Kernels of the host-link benchmarks: contents, checks and work beside transfers.
#include "common.cl"

// The only work-item writes the buffer's device address.
kernel void address(global ulong* out) {
    out[0] = (ulong)out;
}

// Each work-item writes one word of a pattern, which depends on its index and the seed.
kernel void pattern(global uint* restrict out, const uint seed) {
    out[get_global_id(0)] = (uint)get_global_id(0) * HASH_FACTOR ^ seed;
}

// Each work-item checks one word, and counts it if it is not the pattern's.
kernel void compare(const global uint* restrict in, const uint seed, global uint* restrict wrong) {
    if (in[get_global_id(0)] != ((uint)get_global_id(0) * HASH_FACTOR ^ seed)) atomic_inc(wrong);
}

// Each work-item runs a chain of dependent operations, and writes its end.
kernel void chain(global uint* restrict out, const uint steps, const uint factor, const uint addend) {
    uint x = (uint)get_global_id(0);
    for (uint i = 0; i < steps; i++) x = x * factor + addend;
    out[get_global_id(0)] = x;
}

// Each work-item copies 16 bytes.
kernel void stream(const global uint4* restrict in, global uint4* restrict out) {
    out[get_global_id(0)] = in[get_global_id(0)];
}
