// Sharing of caches: which paths of one compute unit store lines in one place, how much of it local memory takes, and which
// compute units share the cache behind the one for constants. With PTX 1 NVIDIA's registers give the compute unit, and loads
// name their path; with PTX 0 a work-group counts as a unit.
//
// A node is its offset in bytes and holds the offset of the next one, so a step is one load, on whatever path. With ARRAY 1 the
// host writes `constant uint chain_array[]`, cut into slices, in front of this text: a chain runs through each slice in random
// order, then through the next slice. Such a program has no kernel with a pointer to constant memory: in one with both, an
// H200's driver made loads from the array as from global memory.
#define TICK_BITS 32
#include "common.cl"

#define PATH_GLOBAL 0
#define PATH_READONLY 1
#define PATH_IMAGE 2
#define PATH_CONSTANT 3
#define PATH_CONSTANT_ARRAY 4
#define PATH_IDLE 5

#if ARRAY
#define LOAD_CONSTANT_ARRAY(node) *(constant const uint*)((constant const uchar*)chain_array + (node))
#endif

#if PTX
DEFINE_LOAD_PTX(uint, "=r", "ld.global.ca.u32 %0, [%1];")
uint load_readonly(const ulong address) {
    uint value;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(value) : "l"(address));
    return value;
}
#define LOAD_GLOBAL(arena, node) load_ptx((ulong)(arena) + (node))
#define LOAD_READONLY(arena, node) load_readonly((ulong)(arena) + (node))
uint unit_now(void) {
    uint id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id) : : "memory");
    return id;
}
#else
#define LOAD_GLOBAL(arena, node) *(global const uint*)((arena) + (node))
#define LOAD_READONLY(arena, node) LOAD_GLOBAL(arena, node)
#define unit_now() ((uint)get_group_id(0))
#endif

#if !UNITS
#if IMAGES
#define IMAGE_PARAMETER read_only image1d_buffer_t image,
#else
#define IMAGE_PARAMETER
#endif
#if ARRAY
#define CONSTANTS_PARAMETER
#else
#define CONSTANTS_PARAMETER constant const uchar *constants,
#endif

// The only work-item makes `count` walks, one after the other, by the words of `schedule`: a path, the first node, and steps;
// on the path that is idle it waits as long as the walk of that number took, or so many rounds. `ticks` and `reached` have the
// time of each walk and the node that it ended at. The first node goes to local memory before the first reading of the counter,
// so that it is there, and the last one before the second. `kept` may have more words, which are what is asked about.
kernel void walks(const global uchar* arena, IMAGE_PARAMETER CONSTANTS_PARAMETER const global uint4* restrict schedule,
                  const uint count, local volatile uint* kept, global uint* ticks, global uint* reached) {
    for (uint k = 0; k < count; k++) {
        const uint4 walk = schedule[k];
        const uint path = walk.x, steps = walk.z;
        const uint wait = path == PATH_IDLE ? ticks[walk.y] : 0u;
        kept[0] = walk.y;
        INSTRUCTION_FENCE
        const uint start = ticks_now();
        INSTRUCTION_FENCE
        uint node = walk.y;
        if (path == PATH_GLOBAL) {
            for (uint i = 0; i < steps; i++) node = LOAD_GLOBAL(arena, node);
        } else if (path == PATH_READONLY) {
            for (uint i = 0; i < steps; i++) node = LOAD_READONLY(arena, node);
#if IMAGES
        } else if (path == PATH_IMAGE) {
            for (uint i = 0; i < steps; i++) node = read_imageui(image, (int)(node / 4)).x;
#endif
#if ARRAY
        } else if (path == PATH_CONSTANT_ARRAY) {
            for (uint i = 0; i < steps; i++) node = LOAD_CONSTANT_ARRAY(node);
#else
        } else if (path == PATH_CONSTANT) {
            for (uint i = 0; i < steps; i++) node = *(constant const uint*)(constants + node);
#endif
        } else if (path == PATH_IDLE) {
            uint x = start;
            for (uint i = 0; i < steps && ticks_now() - start < wait; i++) {
                ALU_CHAIN_32(x, 0x9E3779B9u, 1u)
            }
            kept[1] = x;
        }
        kept[0] = node;
        INSTRUCTION_FENCE
        ticks[k] = ticks_now() - start;
        reached[k] = kept[0];
    }
}

#else
// Waits until a count has reached `wanted`, or for PATIENCE readings of it; true if it has.
bool wait_for(volatile global uint* count, const uint wanted) {
    for (uint i = 0; i < PATIENCE; i++) {
        if (atomic_or(count, 0u) >= wanted) return true;
    }
    return false;
}

// The only work-item of each work-group writes the compute unit that it runs on.
kernel void units(global uint* restrict unit, volatile global uint* arrived) {
    unit[get_group_id(0)] = unit_now();
    atomic_inc(arrived);
    wait_for(arrived, (uint)get_num_groups(0));
}

// Sets `ticks` to the time of so many steps through the array of program scope from node kept[0], and kept[0] to the node that
// they end at. The first node comes from local memory, so that the compiler sees one address for all work-items.
#define TIME_WALK(steps, ticks)                                              \
    {                                                                        \
        INSTRUCTION_FENCE                                                    \
        const uint start = ticks_now();                                      \
        INSTRUCTION_FENCE                                                    \
        uint node = kept[0];                                                 \
        for (uint i = 0; i < (steps); i++) node = LOAD_CONSTANT_ARRAY(node); \
        kept[0] = node;                                                      \
        INSTRUCTION_FENCE                                                    \
        ticks = ticks_now() - start;                                         \
    }

// The first work-item on each compute unit takes part. The one on unit `source` walks the whole array of program scope twice,
// timing both laps, into source_ticks. Then each unit whose number among all, place[unit], is one of the SLICES from
// `first_place` on times one walk through a slice that is its own: fast if what the source loaded is in a cache that it shares.
// A `source` that no unit has is the control: nobody walks before. Rows of `ticks` are by source and then by
// place; counts of a launch are at `launch`.
kernel void shared_units(const global uint* restrict place, const uint count, const uint source, const uint row,
                         const uint first_place, const uint launch, volatile global uint* arrived,
                         volatile global uint* claimed, volatile global uint* walked, global uint* restrict ticks,
                         global uint* restrict source_ticks, global uint* restrict reached, const uint unit_limit) {
    local volatile uint kept[1];
    const uint id = unit_now();
    const bool first_here = id < unit_limit && atomic_inc(&claimed[launch * unit_limit + id]) == 0u;
    atomic_inc(&arrived[launch]);
    if (!first_here) return;
    bool in_time = wait_for(&arrived[launch], (uint)get_num_groups(0));
    if (id == source) {
        for (uint lap = 0; lap < 2; lap++) {
            kept[0] = 0;
            TIME_WALK(SLICES * SLICE_NODES, source_ticks[2 * row + lap])
        }
        atomic_inc(&walked[launch]);
        return;
    }
    const uint mine = place[id];
    if (mine < first_place || mine >= min(count, first_place + SLICES)) return;
    if (source < unit_limit) in_time = wait_for(&walked[launch], 1u) && in_time;
    const uint from = (mine - first_place) * SLICE_BYTES;
    uint taken;
    kept[0] = from;
    TIME_WALK(SLICE_NODES, taken)
    ticks[row * count + mine] = in_time ? taken : 0u;
    reached[row * count + mine] = kept[0] == (from + SLICE_BYTES) % (SLICES * SLICE_BYTES) ? 1u : 0u;
}
#endif
