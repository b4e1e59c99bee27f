// Reads and writes of an allocation that the host or the device touched last.

// Each work-item sums words that lie `items` apart, so that neighbours read neighbouring words.
kernel void read_words(const global uint* restrict in, global uint* restrict sums, const ulong words) {
    uint sum = 0;
    for (ulong i = get_global_id(0); i < words; i += get_global_size(0)) sum += in[i];
    sums[get_global_id(0)] = sum;
}

// Each work-item writes words that lie `items` apart: each becomes its index times a factor.
kernel void write_words(global uint* restrict out, const uint factor, const ulong words) {
    for (ulong i = get_global_id(0); i < words; i += get_global_size(0)) out[i] = (uint)i * factor;
}
