// Latency of a memory space: a chase in which every node holds the location of the next one, so a step is one load. Nodes lie
// at words of 8 bytes; `lap` has the words of all nodes in order. The macros that differ between spaces come first: what a node
// is (node_t), where the chain is stored (CHAIN), and how the next node is loaded (NEXT).
#define TICK_BITS 32
#include "common.cl"

#if SPACE_global || SPACE_global_cg || (SPACE_readonly && PTX)
// A node is an absolute address, counted from an aligned base, so that offsets are what indexes a cache.
#define CHAIN global uchar* arena
typedef ulong node_t;
typedef uint seen_t;
#define SET_UP const ulong base = ((ulong)arena + (ALIGNMENT - 1)) & ~(ulong)(ALIGNMENT - 1);
#define NODE_AT(word) (base + 8ul * (word))
#define WORD_OF(node) (uint)(((node) - base) / 8)
#define SEEN_OF(node) ((uint)(node))
#define OFFSET_OF(seen) ((seen) - (uint)base)
#define STORE_LINK(word, next) *(global ulong*)NODE_AT(word) = NODE_AT(next);
#if PTX
#if SPACE_global
#define LOAD_INSTRUCTION "ld.global.ca.u64 %0, [%1];"
#elif SPACE_global_cg
#define LOAD_INSTRUCTION "ld.global.cg.u64 %0, [%1];"
#else
#define LOAD_INSTRUCTION "ld.global.nc.u64 %0, [%1];"
#endif
DEFINE_LOAD_PTX(ulong, "=l", LOAD_INSTRUCTION)
#define NEXT(node) load_ptx(node)
#else
#define NEXT(node) *(global const ulong*)(node)
#endif

#elif SPACE_readonly
// A node is its offset in bytes: a pointer made from a loaded number would lose what `restrict` promises.
#define CHAIN const global uchar* restrict arena
typedef ulong node_t;
typedef uint seen_t;
#define SET_UP const global uchar* base = arena + (-(ulong)arena & (ulong)(ALIGNMENT - 1));
#define NODE_AT(word) (8ul * (word))
#define WORD_OF(node) (uint)((node) / 8)
#define SEEN_OF(node) ((uint)(node))
#define OFFSET_OF(seen) (seen)
#define STORE_LINK(word, next) \
    *(global ulong*)(arena + (-(ulong)arena & (ulong)(ALIGNMENT - 1)) + NODE_AT(word)) = NODE_AT(next);
#define NEXT(node) *(const global ulong*)(base + (node))

#elif SPACE_constant || SPACE_constant_array
// A node is its offset in bytes. The host writes the array of program scope in front of this text.
#if SPACE_constant
#define CHAIN constant uchar* chain
#define NEXT(node) *(constant const uint*)(chain + (node))
#define STORE_LINK(word, next) *(global uint*)(arena + NODE_AT(word)) = NODE_AT(next);
#else
#define CHAIN const global uint* unused
#define NEXT(node) *(constant const uint*)((constant const uchar*)chain_array + (node))
#endif
typedef uint node_t;
typedef uint seen_t;
#define SET_UP
#define NODE_AT(word) (8u * (word))
#define WORD_OF(node) ((node) / 8)
#define SEEN_OF(node) (node)
#define OFFSET_OF(seen) (seen)

#elif SPACE_image1d_buffer || SPACE_image1d
// A node is the number of its texel, of 4 bytes.
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
#define SET_UP
#define NODE_AT(word) (2 * (word))
#define WORD_OF(node) ((node) / 2)
#define SEEN_OF(node) (node)
#define OFFSET_OF(seen) (4 * (seen))

#elif SPACE_image2d
// A node is the column and row of its texel, of 16 bytes, a format that all devices have.
constant sampler_t plain = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;
#define CHAIN read_only image2d_t chain
typedef uint2 node_t;
typedef uint2 seen_t;
#define SET_UP const uint width = (uint)get_image_width(chain);
#define NODE_AT(word) ((uint2)((word) / 2 % width, (word) / 2 / width))
#define WORD_OF(node) (2 * ((node).y * width + (node).x))
#define SEEN_OF(node) (node)
#define OFFSET_OF(seen) (8 * WORD_OF(seen))
#define NEXT(node) read_imageui(chain, plain, as_int2(node)).xy

#elif SPACE_local
// A node is an address in the local memory of the work-group, into which each launch copies the lap.
#define CHAIN local ulong* store
typedef ulong node_t;
typedef uint seen_t;
#define SET_UP \
    for (uint k = 0; k < nodes; k++) store[lap[k]] = (ulong)(store + lap[k + 1 == nodes ? 0 : k + 1]);
#define NODE_AT(word) ((ulong)(store + (word)))
#define WORD_OF(node) (uint)(((node) - (ulong)store) / 8)
#define SEEN_OF(node) ((uint)(node))
#define OFFSET_OF(seen) ((seen) - (uint)(ulong)store)
#define NEXT(node) *(local const ulong*)(node)

#elif SPACE_private
// A node is an index into a private array, into which each launch copies the lap.
#define CHAIN const global uint* unused
typedef uint node_t;
typedef uint seen_t;
#define SET_UP          \
    ulong store[WORDS]; \
    for (uint k = 0; k < nodes; k++) store[lap[k]] = lap[k + 1 == nodes ? 0 : k + 1];
#define NODE_AT(word) (word)
#define WORD_OF(node) (node)
#define SEEN_OF(node) (node)
#define OFFSET_OF(seen) (8 * (seen))
#define NEXT(node) (uint) store[node]
#endif

#ifdef STORE_LINK
// Each work-item writes one node: the location of the next one.
kernel void build(global uchar* arena, const global uint* restrict lap, const uint nodes) {
#if !SPACE_constant && !(SPACE_readonly && !PTX)
    SET_UP
#endif
    const uint k = (uint)get_global_id(0);
    STORE_LINK(lap[k], lap[k + 1 == nodes ? 0 : k + 1])
}
#endif

// Each work-item checks a part of the lap, from node corners[i] to corners[i + 1], and writes how many of its nodes do not lead
// to the next one. Loads do not wait for each other, as those of a chase do.
kernel void follow(CHAIN, const global uint* restrict lap, const uint nodes, const global uint* restrict corners,
                   global uint* restrict wrong) {
    const size_t i = get_global_id(0);
    const uint last = corners[i + 1];
    SET_UP
    uint astray = 0;
    for (uint k = corners[i]; k < last; k++) {
        const node_t node = NEXT(NODE_AT(lap[k]));
        astray += WORD_OF(node) != lap[k + 1 == nodes ? 0 : k + 1];
    }
    wrong[i] = astray;
}

#define STEP           \
    node = NEXT(node); \
    made++;

#if FENCE
// Waits for all earlier instructions and stores the ticks since the last note. Later instructions may start while the counter
// is read, so a window is longer than its steps by at most the wait.
#define NOTE(word)                    \
    {                                 \
        INSTRUCTION_FENCE             \
        const uint now = ticks_now(); \
        word = now - last;            \
        last = now;                   \
    }
#define ADD_OPERATIONS(n)                 \
    for (uint k = 0; k < (n) / 32; k++) { \
        ALU_CHAIN_32(x, a, b)             \
    }

// Two operations that neither merge nor cancel. A product takes several cycles but few issue slots, so the core's other
// hardware thread hardly slows it.
#define PRODUCT x = (x * a) ^ b;
#define ADD_PRODUCTS(n)                  \
    for (uint k = 0; k < (n) / 8; k++) { \
        REPEAT_8(PRODUCT)                \
    }

// Stores the ticks of a short and a long chain of each kind, which calibrate the tick against the core clock at this moment.
#define NOTE_CHAINS(first)        \
    NOTE(skipped)                 \
    ADD_OPERATIONS(SHORT_CHAIN)   \
    NOTE(noted[(first)])          \
    ADD_OPERATIONS(LONG_CHAIN)    \
    NOTE(noted[(first) + 1])      \
    ADD_PRODUCTS(SHORT_CHAIN / 4) \
    NOTE(noted[(first) + 2])      \
    ADD_PRODUCTS(LONG_CHAIN / 4)  \
    NOTE(noted[(first) + 3])

// The only work-item does what `chase` below does, in windows of `inner` blocks. It writes to `noted`: the steps of a window,
// by how many operations and products a long chain exceeds a short one, the ticks of the chains before and after the windows,
// and the ticks of each window.
kernel void chase(CHAIN, const global uint* restrict lap, const uint nodes, global ulong* restrict state, const uint blocks,
                  const uint inner, global uint* restrict noted, const uint a, const uint b) {
    SET_UP
    node_t node = NODE_AT((uint)state[0]);
    ulong made = 0;
    uint x = a, last = ticks_now(), skipped;
    NOTE_CHAINS(3)
    NOTE(skipped)
    for (uint first = 0, w = 3 + CHAIN_TICKS; first < blocks; first += inner, w++) {
        const uint count = min(inner, blocks - first);
        for (uint i = 0; i < count; i++) {
            REPEAT_16(STEP)
        }
        NOTE(noted[w])
    }
    NOTE_CHAINS(3 + CHAIN_TICKS / 2)
    noted[0] = 16 * inner;
    noted[1] = LONG_CHAIN - SHORT_CHAIN;
    noted[2] = (LONG_CHAIN - SHORT_CHAIN) / 4;
    state[0] = WORD_OF(node);
    state[1] += made;
    state[2] = made;
    state[3] = x;  // uses x, so that the compiler keeps the chains
}
#else
// The only work-item makes 16 steps a block, from the node where the last launch ended, so that a short pass over a long lap
// does not visit the same, by then cached, nodes again. state: the word reached, the total number of steps, and those of this
// launch.
kernel void chase(CHAIN, const global uint* restrict lap, const uint nodes, global ulong* restrict state, const uint blocks) {
    SET_UP
    node_t node = NODE_AT((uint)state[0]);
    ulong made = 0;
    for (uint i = 0; i < blocks; i++) {
        REPEAT_16(STEP)
    }
    state[0] = WORD_OF(node);
    state[1] += made;
    state[2] = made;
}
#endif

#if !ONLY_LAPS
// One access between two readings of the counter: the store waits for the loaded value, and the second reading for the store.
#define TIME_ACCESS(access)         \
    INSTRUCTION_FENCE               \
    const uint start = ticks_now(); \
    INSTRUCTION_FENCE               \
    access;                         \
    seen[slot] = SEEN_OF(node);     \
    INSTRUCTION_FENCE               \
    ticks[slot] = ticks_now() - start;

// Records the ticks of a bracket without an access. A few brackets run before the first one that counts, so that instructions
// are cached.
#define NOTE_COSTS                     \
    for (int i = -8; i < COSTS; i++) { \
        const int slot = max(i, 0);    \
        TIME_ACCESS()                  \
    }                                  \
    for (int i = 0; i < COSTS; i++) costs[i] = ticks[i];

// Records the ticks of steps[0] dependent operations.
#define NOTE_CHAIN                                \
    {                                             \
        uint x = a;                               \
        const uint chained = (uint)steps[0] / 32; \
        INSTRUCTION_FENCE                         \
        const uint start = ticks_now();           \
        INSTRUCTION_FENCE                         \
        for (uint i = 0; i < chained; i++) {      \
            ALU_CHAIN_32(x, a, b)                 \
        }                                         \
        ticks[0] = x;                             \
        INSTRUCTION_FENCE                         \
        steps[1] = ticks_now() - start;           \
    }

// The first work-item records `count` single accesses after the first `skip` of a lap: the ticks of each and the node that it
// reached, through local memory into the outputs from word `first` on. It also records the ticks of a bracket without an
// access, and of steps[0] dependent operations.
kernel void trace(CHAIN, const global uint* restrict lap, const uint nodes, local volatile seen_t* seen,
                  local volatile uint* ticks, global uint* restrict out_ticks, global uint* restrict visited,
                  global uint* restrict costs, global ulong* restrict steps, const uint a, const uint b, const uint first,
                  const uint skip, const uint count) {
    // The others make the driver leave the first cache as large as the laps have it.
    if (get_local_id(0)) return;
    SET_UP
    node_t node = NODE_AT(lap[0]);
    NOTE_COSTS
    const int early = (int)min(skip, 8u);
    for (uint i = early; i < skip; i++) node = NEXT(node);
    for (int i = -early; i < (int)count; i++) {
        const int slot = max(i, 0);
        TIME_ACCESS(node = NEXT(node))
    }
    for (uint i = 0; i < count; i++) {
        const seen_t reached = seen[i];
        out_ticks[first + i] = ticks[i];
        visited[first + i] = OFFSET_OF(reached);
    }
    NOTE_CHAIN
}

#if SPACE_global || SPACE_global_cg
#define LOAD(word) load_node(NODE_AT(word))
#if PTX
#define load_node load_ptx
#else
#define load_node(node) *(global const volatile ulong*)(node)
#endif

// Loads the crowd's nodes from number `from` to `to`, which lie `apart` words from each other, in a scrambled order.
#define LOAD_CROWD(from, to) \
    for (uint k = (from) + item; k < (to); k += items) loaded ^= LOAD((ulong)(k * CROWD_FACTOR & (crowd - 1)) * apart);

// One work-group. For each of `record` numbers of lines, from `first` to `until`: its first work-item loads the node at word
// lap[0]; all items load, `rounds` times, so many of `crowd` nodes, those from number also_from to also_until, and those at
// words lap[2] and on; the first item loads lap[1], whose page is that of lap[0], and times a load of lap[0]. sink keeps the
// loads.
kernel void evict(CHAIN, const global uint* restrict lap, const uint nodes, local volatile seen_t* seen,
                  local volatile uint* ticks, global uint* restrict out_ticks, global uint* restrict visited,
                  global uint* restrict costs, global ulong* restrict steps, const uint a, const uint b, const uint first,
                  const uint until, const uint record, const uint crowd, const uint apart, const uint also_from,
                  const uint also_until, const uint rounds, global ulong* restrict sink) {
    SET_UP
    const uint item = (uint)get_local_id(0), items = (uint)get_local_size(0), between = max(1u, record - 1);
    node_t node = NODE_AT(lap[0]);
    ulong loaded = 0;
    if (item == 0) {
        NOTE_COSTS
    }
    for (uint j = 0; j < record; j++) {
        const uint count = until - (uint)((ulong)(until - first) * (between - j) / between);
        if (item == 0) loaded ^= LOAD(lap[0]);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        for (uint round = 0; round < rounds; round++) {
            LOAD_CROWD(0, count)
            LOAD_CROWD(also_from, also_until)
            for (uint k = 2 + item; k < nodes; k += items) loaded ^= LOAD(lap[k]);
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (item == 0) {
            const int slot = (int)j;
            loaded ^= LOAD(lap[1]);
            node = NODE_AT(lap[0]);
            TIME_ACCESS(node = LOAD(lap[0]))
            out_ticks[j] = ticks[slot];
            visited[j] = OFFSET_OF(seen[slot]);
        }
    }
    sink[item] = loaded;
    if (item == 0) {
        NOTE_CHAIN
    }
}

// The number within a window of 2^n places that follows as number k: no constant stride, which a prefetcher would follow across
// pages, and nothing that comes again further on.
inline uint scrambled(const uint k, const uint window) {
    uint n = k & (window - 1);
    n = n * CROWD_FACTOR & (window - 1);
    n ^= n >> 5;
    n = n * CROWD_FACTOR & (window - 1);
    return n ^ n >> 7;
}

// The word of line number k: lines follow window by window.
#define LINE_AT(k) ((ulong)((k) - ((k) & (window - 1)) + scrambled(k, window)) * apart)
#define LOAD_LINES(from, to) \
    for (uint k = (from) + item; k < (to); k += items) loaded ^= LOAD(LINE_AT(k));

// The number of lines loaded before number j is timed, and of the line that is: it lies one of `ages` numbers of lines back,
// from `youngest` to `oldest`, each as often as others and at no regular distance.
#define LOADED_BEFORE(j) (first + (uint)((ulong)(until - first) * ((j) + 1) / record))
#define AGE_INDEX(j) ((ulong)((j) * CROWD_FACTOR) * ages >> 32)
#define AGE(j) (youngest + (uint)((oldest - youngest) * AGE_INDEX(j) / max(1u, ages - 1)))
#define TIMED_LINE(j) (LOADED_BEFORE(j) - 1 - AGE(j))

// One work-group, whose work-items load lines: from number `begin` to `first`, then to `until` in `record` stretches. After
// each stretch the first one times a load of a line that was loaded before, after one of the other half of its page. Timed
// lines hold their own addresses. Each launch loads others, `span` lines further on, and comes to the same again after `turns`
// of them; `turn` counts them.
kernel void residence(CHAIN, const global uint* restrict lap, const uint nodes, local volatile seen_t* seen,
                      local volatile uint* ticks, global uint* restrict out_ticks, global uint* restrict visited,
                      global uint* restrict costs, global ulong* restrict steps, const uint a, const uint b, const uint begin,
                      const uint first, const uint until, const uint record, const uint window, const uint apart,
                      const uint ages, const uint youngest, const uint oldest, const uint turns, const uint span,
                      global uint* restrict turn, global ulong* restrict sink) {
    SET_UP
    const uint shift = turn[0] % turns * span;
    const uint item = (uint)get_local_id(0), items = (uint)get_local_size(0);
    ulong loaded = 0;
    if (item == 0) {
        node_t node = NODE_AT(lap[0]);
        NOTE_COSTS
    }
    for (uint j = item; j < record; j += items) {
        const ulong word = LINE_AT(shift + TIMED_LINE(j));
        *(global ulong*)NODE_AT(word) = NODE_AT(word);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    LOAD_LINES(shift + begin, shift + first)
    for (uint j = 0, from = first; j < record; j++) {
        const uint to = LOADED_BEFORE(j);
        LOAD_LINES(shift + from, shift + to)
        from = to;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (item == 0) {
            const int slot = 0;
            const ulong word = LINE_AT(shift + TIMED_LINE(j));
            loaded ^= LOAD(word ^ HALF_PAGE_WORDS);
            node_t node = NODE_AT(word);
            TIME_ACCESS(node = load_node(node))
            out_ticks[j] = ticks[slot];
            visited[j] = OFFSET_OF(seen[slot]);
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
    sink[item] = loaded;
    if (item == 0) {
        turn[0]++;
        NOTE_CHAIN
    }
}
#endif

// Each work-item writes one word: fills caches with data that no chase uses.
kernel void flush_write(global ulong* restrict words) {
    words[get_global_id(0)] = get_global_id(0);
}

// Each work-item reads one word. No word equals `never`, but the compiler cannot know it, so it keeps the loads.
kernel void flush_read(const global ulong* restrict words, global ulong* restrict out, const ulong never) {
    if (words[get_global_id(0)] == never) out[0] = never;
}
#endif
