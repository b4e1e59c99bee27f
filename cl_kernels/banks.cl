// Bank conflicts of local memory: dependent loads by work-items whose words of T lie `stride` words apart. A word holds the
// address of the next work-item's word, so after k loads work-item i is at the word of work-item i + k, which proves that all k
// loads happened, and every load accesses all words at once. No arithmetic on addresses lies between two loads, at any stride.
// A word of 8 bytes also holds a 1, which is summed: a compiler drops the load of a half that nothing uses, even of a volatile
// one.
#include "common.cl"
#if WORD_BYTES == 4
#define MAKE_WORD(address) (address)
#define ADDRESS_OF(word) (word)
#define COUNT(word)
#else
#define MAKE_WORD(address) (uint2)(address, 1)
#define ADDRESS_OF(word) (word).x
#define COUNT(word) met += (word).y;
#endif

#if PTX
// an address within the window of local memory has 32 bits
#define BASE ((uint)(ulong)store)
T load_ptx(const uint address) {
#if WORD_BYTES == 4
    uint word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
#else
    uint next, one;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(next), "=r"(one) : "r"(address) : "memory");
    return (uint2)(next, one);
#endif
}
#define NEXT_WORD load_ptx(at)
#else
#define BASE 0u
#define NEXT_WORD *(local const T*)((local const uchar*)store + at)
#endif

#define STEP                      \
    {                             \
        const T word = NEXT_WORD; \
        at = ADDRESS_OF(word);    \
        COUNT(word)               \
    }

// Each work-item of one work-group makes 16 loads a block, and writes the number of the word it has reached and its count.
kernel void follow(global uint* restrict reached, const uint stride, const uint blocks) {
    local T store[WORDS];
    const uint id = (uint)get_local_id(0), items = (uint)get_local_size(0);
    if (stride > 0 || id == 0) store[id * stride] = MAKE_WORD(BASE + WORD_BYTES * ((id + 1) % items * stride));
    barrier(CLK_LOCAL_MEM_FENCE);
    uint at = BASE + WORD_BYTES * (id * stride), met = 0;
    for (uint i = 0; i < blocks; i++) {
        REPEAT_16(STEP)
    }
    reached[id] = (at - BASE) / WORD_BYTES;
    reached[items + id] = met;
}
