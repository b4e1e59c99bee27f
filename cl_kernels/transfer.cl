// Helpers of the host-link benchmark.

// One work-item writes down where the kernel sees the buffer.
kernel void address(global ulong* out) { out[0] = (ulong)out; }

// One work-item a word: a pattern whose every word depends on its index and the seed.
kernel void pattern(global uint* restrict out, const uint seed) {
    out[get_global_id(0)] = (uint)get_global_id(0) * 2654435761u ^ seed;
}

// One work-item a word: count the words that are not the pattern's.
kernel void compare(const global uint* restrict in, const uint seed, global uint* restrict wrong) {
    if (in[get_global_id(0)] != ((uint)get_global_id(0) * 2654435761u ^ seed)) atomic_inc(wrong);
}

// One work-item an element: a chain of dependent operations, and its end.
kernel void chain(global uint* restrict out, const uint steps, const uint factor, const uint addend) {
    uint x = (uint)get_global_id(0);
    for (uint i = 0; i < steps; i++) x = x * factor + addend;
    out[get_global_id(0)] = x;
}

// One work-item 16 B: copy them.
kernel void stream(const global uint4* restrict in, global uint4* restrict out) {
    out[get_global_id(0)] = in[get_global_id(0)];
}
