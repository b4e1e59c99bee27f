// Dependent loads from local memory, by work-items whose places lie `stride` words of T apart. A word holds where the next
// work-item's word lies, so that after k loads work-item i is at the place of work-item i + k, which shows that all were made,
// and all places are met at once by every load, which is what their banks see. Of a node, which is an address, nothing is computed
// between two loads, whatever the stride.
#if PTX
// an address in local memory's own window has 32 bits, and fits a word of either size
#define NODE(place) ((T)(ulong)(store + (place)))
#define PLACE(node) ((uint)(((node) - (T)(ulong)store) / sizeof(T)))
T loaded(const T node) {
    T value;
#if WORD_BYTES == 4
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(node) : "memory");
#else
    asm volatile("ld.shared.u64 %0, [%1];" : "=l"(value) : "l"(node) : "memory");
#endif
    return value;
}
#define STEP at = loaded(at);
#else
#define NODE(place) ((T)(sizeof(T) * (place)))
#define PLACE(node) ((uint)((node) / sizeof(T)))
#define STEP at = *(local const T*)((local const uchar*)store + at);
#endif
#define STEPS4 STEP STEP STEP STEP

// Work-items of one work-group make 16 loads a block each, and say where they are in the end, in words.
kernel void follow(global uint* restrict reached, const uint stride, const uint blocks) {
    local T store[WORDS];
    const uint id = (uint)get_local_id(0), items = (uint)get_local_size(0);
    if (stride > 0 || id == 0) store[id * stride] = NODE((id + 1) % items * stride);
    barrier(CLK_LOCAL_MEM_FENCE);
    T at = NODE(id * stride);
    for (uint i = 0; i < blocks; i++) {
        STEPS4 STEPS4 STEPS4 STEPS4
    }
    reached[id] = PLACE(at);
}
