// Contents of arrays that are copied, and their check: each word is a hash of its index and a seed, so no second array is
// needed.
#include "common.cl"

uint word_at(const ulong i, const uint seed) {
    uint h = ((uint)i ^ (uint)(i >> 32) * HASH_SCRAMBLE_FACTOR) * HASH_FACTOR ^ seed;
    HASH_SCRAMBLE(h)
    return HASH_FOLD(h);
}

// Each work-item writes one word.
kernel void fill_words(global uint* restrict out, const uint seed) {
    out[get_global_id(0)] = word_at(get_global_id(0), seed);
}

// Each work-item checks one word, and counts it if it is wrong.
kernel void count_wrong(const global uint* restrict out, const uint seed, global uint* restrict wrong) {
    if (out[get_global_id(0)] != word_at(get_global_id(0), seed)) atomic_inc(wrong);
}
