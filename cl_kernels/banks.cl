// Bank conflicts of local memory: dependent loads by work-items whose words of T lie `stride` words apart; with a stride of 0
// all read one word. Words lie on a ring of RING places, `apart` words from each other, and each holds the address of the next,
// so after k loads work-item i is k places on, which proves that all k loads happened, and work-items keep their distance:
// every load accesses words `stride` apart. No arithmetic on addresses lies between two loads, at any stride. A word of 8 bytes
// also holds a 1, which is summed: a compiler drops the load of a half that nothing uses, even of a volatile one.
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
        made++;                   \
    }

// Each work-item of one work-group makes 17 loads a block, and writes the number of the word it has reached, its count and its
// loads.
kernel void follow(global uint* restrict reached, const uint stride, const uint apart, const uint blocks) {
    local T store[WORDS];
    const uint id = (uint)get_local_id(0), items = (uint)get_local_size(0);
    // The loop starts at 0 for every work-item: PoCL 3.0 cannot compile a start that differs before a barrier.
    for (uint first = 0; first < RING; first += items) {
        const uint place = first + id;
        if (place < RING) store[place * apart] = MAKE_WORD(BASE + WORD_BYTES * ((place + 1) % RING * apart));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint at = BASE + WORD_BYTES * (id * stride), met = 0, made = 0;
    for (uint i = 0; i < blocks; i++) {
        REPEAT_16(STEP) STEP  // an odd number shows more in where they end
    }
    reached[id] = (at - BASE) / WORD_BYTES;
    reached[items + id] = met;
    reached[2 * items + id] = made;
}
