// What copies are made of and held against: words that their place and a seed give, so that no second array has to be kept.
uint word_at(const ulong i, const uint seed) {
    uint h = ((uint)i ^ (uint)(i >> 32) * 2246822519u) * 2654435761u ^ seed;
    h = (h ^ (h >> 15)) * 2246822519u;
    return h ^ (h >> 13);
}

// One work-item a word.
kernel void fill_words(global uint* restrict out, const uint seed) {
    out[get_global_id(0)] = word_at(get_global_id(0), seed);
}

// One work-item a word: count those that are not what their place says.
kernel void count_wrong(const global uint* restrict out, const uint seed, global uint* restrict wrong) {
    if (out[get_global_id(0)] != word_at(get_global_id(0), seed)) atomic_inc(wrong);
}
