// Dependent loads from local memory, by work-items whose places lie `stride` words of T apart. A word holds where the next
// work-item's word lies, so that after k loads work-item i is at the place of work-item i + k, which shows that all were made,
// and all places are met at once by every load, which is what their banks see. Of an address nothing is computed between two
// loads, whatever the stride. A word of 8 B holds a 1 beside it, which is added up aside: of a half that nobody uses a compiler
// makes no load, even of a volatile one.
#if WORD_BYTES == 4
#define FILLED(address) (address)
#define ADDRESS(word) (word)
#define COUNTED(word)
#else
#define FILLED(address) (uint2)(address, 1)
#define ADDRESS(word) (word).x
#define COUNTED(word) met += (word).y;
#endif

#if PTX
// an address in local memory's own window has 32 bits
#define BASE ((uint)(ulong)store)
T loaded(const uint address) {
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
#define LOADED loaded(at)
#else
#define BASE 0u
#define LOADED *(local const T*)((local const uchar*)store + at)
#endif

#define STEP                 \
    {                        \
        const T word = LOADED; \
        at = ADDRESS(word);  \
        COUNTED(word)        \
    }
#define STEPS4 STEP STEP STEP STEP

// Work-items of one work-group make 16 loads a block each, and say at which word they are in the end, and what they counted.
kernel void follow(global uint* restrict reached, const uint stride, const uint blocks) {
    local T store[WORDS];
    const uint id = (uint)get_local_id(0), items = (uint)get_local_size(0);
    if (stride > 0 || id == 0) store[id * stride] = FILLED(BASE + WORD_BYTES * ((id + 1) % items * stride));
    barrier(CLK_LOCAL_MEM_FENCE);
    uint at = BASE + WORD_BYTES * (id * stride), met = 0;
    for (uint i = 0; i < blocks; i++) {
        STEPS4 STEPS4 STEPS4 STEPS4
    }
    reached[id] = (at - BASE) / WORD_BYTES;
    reached[items + id] = met;
}
