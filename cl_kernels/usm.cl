// Writes of an allocation that the host or the device touched last. V is a vector of 16 words, or of as many as a work-item of
// a GPU stores at a time, 4. stream.cl reads it.
#include "common.cl"
#if NONTEMPORAL
#define STORE(v, p) __builtin_nontemporal_store((v), (p))
#else
#define STORE(v, p) (*(p) = (v))
#endif
#if LANES == 16
#define LANE_NUMBERS (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#else
#define LANE_NUMBERS (uint4)(0, 1, 2, 3)
#endif

// Each work-item writes one vector: each word becomes its index times a factor.
kernel void write_words(global V* restrict out, const uint factor) {
    const size_t i = get_global_id(0);
    STORE(((V)((uint)i * LANES) + LANE_NUMBERS) * factor, &out[i]);
}
