// One lap of a chase through a memory space: every node holds where the next one is, so a step is one load. Nodes lie at words
// of 8 bytes; `lap` has the words of all nodes in order. What differs between spaces stands at the top: what a node is, where
// the chain is kept, and how the next node is loaded.

#if SPACE_global || SPACE_global_cg || (SPACE_readonly && PTX)
// a node is its own absolute address, from a base that is aligned, so that offsets are what indexes a cache
#define CHAIN global uchar* arena
typedef ulong node_t;
typedef uint seen_t;
#define BEGIN const ulong base = ((ulong)arena + (ALIGNMENT - 1)) & ~(ulong)(ALIGNMENT - 1);
#define AT(word) (base + 8ul * (word))
#define WORD(node) (uint)(((node) - base) / 8)
#define SEEN(node) ((uint)(node))
#define OFFSET(seen) ((seen) - (uint)base)
#define LINK(word, next) *(global ulong*)AT(word) = AT(next);
#if PTX
#if SPACE_global
#define LOAD "ld.global.ca.u64 %0, [%1];"
#elif SPACE_global_cg
#define LOAD "ld.global.cg.u64 %0, [%1];"
#else
#define LOAD "ld.global.nc.u64 %0, [%1];"
#endif
ulong loaded(const ulong address) {
    ulong value;
    asm volatile(LOAD : "=l"(value) : "l"(address));
    return value;
}
#define NEXT(node) loaded(node)
#else
#define NEXT(node) *(global const ulong*)(node)
#endif

#elif SPACE_readonly
// a node is its offset in bytes: a pointer made of a loaded number would lose what `restrict` promises
#define CHAIN const global uchar* restrict arena
typedef ulong node_t;
typedef uint seen_t;
#define BEGIN const global uchar* base = arena + (-(ulong)arena & (ulong)(ALIGNMENT - 1));
#define AT(word) (8ul * (word))
#define WORD(node) (uint)((node) / 8)
#define SEEN(node) ((uint)(node))
#define OFFSET(seen) (seen)
#define LINK(word, next) *(global ulong*)(arena + (-(ulong)arena & (ulong)(ALIGNMENT - 1)) + AT(word)) = AT(next);
#define NEXT(node) *(const global ulong*)(base + (node))

#elif SPACE_constant || SPACE_constant_array
// a node is its offset in bytes; a program-scope array comes before this text
#if SPACE_constant
#define CHAIN constant uchar* chain
#define NEXT(node) *(constant const uint*)(chain + (node))
#define LINK(word, next) *(global uint*)(arena + AT(word)) = AT(next);
#else
#define CHAIN const global uint* unused
#define NEXT(node) *(constant const uint*)((constant const uchar*)chain_array + (node))
#endif
typedef uint node_t;
typedef uint seen_t;
#define BEGIN
#define AT(word) (8u * (word))
#define WORD(node) ((node) / 8)
#define SEEN(node) (node)
#define OFFSET(seen) (seen)

#elif SPACE_image1d_buffer || SPACE_image1d
// a node is its texel's number; texels are of 4 bytes
#if SPACE_image1d_buffer
#define CHAIN read_only image1d_buffer_t chain
#define NEXT(node) read_imageui(chain, (int)(node)).x
#else
constant sampler_t plain = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;
#define CHAIN read_only image1d_t chain
#define NEXT(node) read_imageui(chain, plain, (int)(node)).x
#endif
typedef uint node_t;
typedef uint seen_t;
#define BEGIN
#define AT(word) (2 * (word))
#define WORD(node) ((node) / 2)
#define SEEN(node) (node)
#define OFFSET(seen) (4 * (seen))

#elif SPACE_image2d
// a node is its texel's column and row; texels are of 16 bytes, since all devices have those
constant sampler_t plain = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;
#define CHAIN read_only image2d_t chain
typedef uint2 node_t;
typedef uint2 seen_t;
#define BEGIN const uint width = (uint)get_image_width(chain);
#define AT(word) ((uint2)((word) / 2 % width, (word) / 2 / width))
#define WORD(node) (2 * ((node).y * width + (node).x))
#define SEEN(node) (node)
#define OFFSET(seen) (8 * WORD(seen))
#define NEXT(node) read_imageui(chain, plain, as_int2(node)).xy

#elif SPACE_local
// a node is its own address in the local memory of the work-group, where each launch copies the lap
#define CHAIN local ulong* store
typedef ulong node_t;
typedef uint seen_t;
#define BEGIN for (uint k = 0; k < nodes; k++) store[lap[k]] = (ulong)(store + lap[k + 1 == nodes ? 0 : k + 1]);
#define AT(word) ((ulong)(store + (word)))
#define WORD(node) (uint)(((node) - (ulong)store) / 8)
#define SEEN(node) ((uint)(node))
#define OFFSET(seen) ((seen) - (uint)(ulong)store)
#define NEXT(node) *(local const ulong*)(node)

#elif SPACE_private
// a node is its number in an array of the work-item's own, where each launch copies the lap
#define CHAIN const global uint* unused
typedef uint node_t;
typedef uint seen_t;
#define BEGIN                                                                          \
    ulong store[WORDS];                                                                \
    for (uint k = 0; k < nodes; k++) store[lap[k]] = lap[k + 1 == nodes ? 0 : k + 1];
#define AT(word) (word)
#define WORD(node) (node)
#define SEEN(node) (node)
#define OFFSET(seen) (8 * (seen))
#define NEXT(node) (uint)store[node]
#endif

#if TICKS == 1
uint ticks_now(void) {
    uint t;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(t) : : "memory");
    return t;
}
#elif TICKS == 2
// the builtin's type is wider than a ulong in OpenCL C, and arithmetic on it aborts the process: narrow it at once
#define ticks_now() ((uint)(ulong)__builtin_readcyclecounter())
#else
#define ticks_now() 0u
#endif

#if FENCE
#define SETTLED __asm__ volatile("lfence" : : : "memory");
#else
#define SETTLED
#endif

#ifdef LINK
// One work-item a node: write where the next one is.
kernel void build(global uchar* arena, const global uint* restrict lap, const uint nodes) {
#if !SPACE_constant && !(SPACE_readonly && !PTX)
    BEGIN
#endif
    const uint k = (uint)get_global_id(0);
    LINK(lap[k], lap[k + 1 == nodes ? 0 : k + 1])
}
#endif

// One work-item a part of the lap, from node corners[i] to corners[i + 1]: how many of its steps are left when one does not
// reach the node that it should.
kernel void follow(CHAIN, const global uint* restrict lap, const uint nodes, const global uint* restrict corners,
                   global uint* restrict wrong) {
    const size_t i = get_global_id(0);
    const uint last = corners[i + 1];
    BEGIN
    uint k = corners[i];
    node_t node = AT(lap[k]);
    while (k < last) {
        node = NEXT(node);
        // a damaged node is no address to go on from
        if (WORD(node) != lap[k + 1 == nodes ? 0 : k + 1]) break;
        k++;
    }
    wrong[i] = last - k;
}

#define STEP node = NEXT(node);
#define FOUR STEP STEP STEP STEP

#define TWO x = (x ^ a) + b;
#define EIGHT TWO TWO TWO TWO

#if FENCE
// Wait for what was begun and note the ticks since the last note. What follows may begin while the counter is read, so that a
// window is longer than its steps by no more than the wait.
#define NOTE(word)                        \
    {                                     \
        SETTLED                           \
        const uint now = ticks_now();     \
        word = now - last;                \
        last = now;                       \
    }
#define ADDED(n) \
    for (uint k = 0; k < (n) / 32; k++) { EIGHT EIGHT EIGHT EIGHT }

// two operations that neither merge nor cancel either; a product takes several cycles, and so few slots that what runs on the
// core's other thread hardly slows it
#define PRODUCT x = (x * a) ^ b;
#define MULTIPLIED(n) \
    for (uint k = 0; k < (n) / 8; k++) { PRODUCT PRODUCT PRODUCT PRODUCT PRODUCT PRODUCT PRODUCT PRODUCT }

// Ticks of a short and a long chain of each kind, which say what a tick is here and now.
#define CLOCKED(first)           \
    NOTE(skipped)                \
    ADDED(SHORT)                 \
    NOTE(noted[(first)])         \
    ADDED(LONG)                  \
    NOTE(noted[(first) + 1])     \
    MULTIPLIED(SHORT / 4)        \
    NOTE(noted[(first) + 2])     \
    MULTIPLIED(LONG / 4)         \
    NOTE(noted[(first) + 3])

// As `chase` below, in windows of `inner` blocks each. noted: the steps of a window, how many operations and how many products a
// long chain has more, the ticks of chains before and after the windows, and those of each window.
kernel void chase(CHAIN, const global uint* restrict lap, const uint nodes, global ulong* restrict state, const uint blocks,
                  const uint inner, global uint* restrict noted, const uint a, const uint b) {
    BEGIN
    node_t node = AT((uint)state[0]);
    uint x = a, last = ticks_now(), skipped;
    CLOCKED(3)
    NOTE(skipped)
    for (uint first = 0, w = 3 + CHAINS; first < blocks; first += inner, w++) {
        const uint count = min(inner, blocks - first);
        for (uint i = 0; i < count; i++) {
            FOUR FOUR FOUR FOUR
        }
        NOTE(noted[w])
    }
    CLOCKED(3 + CHAINS / 2)
    noted[0] = 16 * inner;
    noted[1] = LONG - SHORT;
    noted[2] = (LONG - SHORT) / 4;
    state[0] = WORD(node);
    state[1] += 16ul * blocks;
    state[2] = x;  // so that the chains are not left out
}
#else
// One work-item: 16 steps a block, from where the last launch ended, so that a short pass over a long lap does not visit the
// same, by then cached, nodes again. state: the word reached, and the steps taken in all.
kernel void chase(CHAIN, const global uint* restrict lap, const uint nodes, global ulong* restrict state, const uint blocks) {
    BEGIN
    node_t node = AT((uint)state[0]);
    for (uint i = 0; i < blocks; i++) {
        FOUR FOUR FOUR FOUR
    }
    state[0] = WORD(node);
    state[1] += 16ul * blocks;
}
#endif

// What is between two readings of the counter: the store must wait for what was loaded, and the second reading for the store.
#define BRACKET(access)                 \
    SETTLED                             \
    const uint start = ticks_now();     \
    SETTLED                             \
    access                              \
    seen[slot] = SEEN(node);            \
    SETTLED                             \
    ticks[slot] = ticks_now() - start;

// One work-item: the ticks of `count` single accesses after the first `skip` of a lap, and where each one led, by way of local
// memory to word `first` of the outputs; what a bracket without an access takes; and the ticks of steps[0] dependent operations.
kernel void trace(CHAIN, const global uint* restrict lap, const uint nodes, local volatile seen_t* seen,
                  local volatile uint* ticks, global uint* restrict out_ticks, global uint* restrict visited,
                  global uint* restrict costs, global ulong* restrict steps, const uint a, const uint b, const uint first,
                  const uint skip, const uint count) {
    BEGIN
    node_t node = AT(lap[0]);
    // instructions are at hand when the first one counts: so it is begun a few brackets early, here and below
    for (int i = -8; i < COSTS; i++) {
        const int slot = max(i, 0);
        BRACKET()
    }
    for (int i = 0; i < COSTS; i++) costs[i] = ticks[i];
    const int early = (int)min(skip, 8u);
    for (uint i = early; i < skip; i++) node = NEXT(node);
    for (int i = -early; i < (int)count; i++) {
        const int slot = max(i, 0);
        BRACKET(node = NEXT(node);)
    }
    for (uint i = 0; i < count; i++) {
        const seen_t reached = seen[i];
        out_ticks[first + i] = ticks[i];
        visited[first + i] = OFFSET(reached);
    }
    uint x = a;
    const uint chained = (uint)steps[0] / 32;
    SETTLED
    const uint start = ticks_now();
    SETTLED
    for (uint i = 0; i < chained; i++) {
        EIGHT EIGHT EIGHT EIGHT
    }
    ticks[0] = x;
    SETTLED
    steps[1] = ticks_now() - start;
}

// One work-item a word: fill caches with what is no chase's.
kernel void flush_write(global ulong* restrict words) {
    words[get_global_id(0)] = get_global_id(0);
}

// The same by loads. `never` is nowhere there, which the compiler does not know.
kernel void flush_read(const global ulong* restrict words, global ulong* restrict out, const ulong never) {
    if (words[get_global_id(0)] == never) out[0] = never;
}
