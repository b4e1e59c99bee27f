// Sharing of caches: which paths of one compute unit store lines in one place, how much of it local memory takes, and which
// compute units share the cache behind the one for constants. With PTX 1 NVIDIA's registers give the compute unit, and loads
// name their path; with PTX 0 a work-group counts as a unit. The host writes `constant uint chain_array[]`, cut into slices,
// in front of this text.
//
// A node is its offset in bytes and holds the offset of the next one, so a step is one load, on whatever path. In the array of
// program scope a chain runs through each slice in random order, then through the next slice.
#define TICK_BITS 32
#include "common.cl"

#define PATH_GLOBAL 0
#define PATH_READONLY 1
#define PATH_IMAGE 2
#define PATH_CONSTANT 3
#define PATH_CONSTANT_ARRAY 4

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
#define LOAD_CONSTANT_ARRAY(node) *(constant const uint*)((constant const uchar*)chain_array + (node))

#if IMAGES
#define IMAGE_PARAMETER read_only image1d_buffer_t image,
#define IMAGE_ARGUMENT image,
#else
#define IMAGE_PARAMETER
#define IMAGE_ARGUMENT
#endif

// The node reached from `node` after so many steps on a path.
uint walk(const uint path, global const uchar* arena, IMAGE_PARAMETER constant const uchar* constants, uint node,
          const uint steps) {
    if (path == PATH_GLOBAL) {
        for (uint i = 0; i < steps; i++) node = LOAD_GLOBAL(arena, node);
    } else if (path == PATH_READONLY) {
        for (uint i = 0; i < steps; i++) node = LOAD_READONLY(arena, node);
    } else if (path == PATH_CONSTANT) {
        for (uint i = 0; i < steps; i++) node = *(constant const uint*)(constants + node);
    } else if (path == PATH_CONSTANT_ARRAY) {
        for (uint i = 0; i < steps; i++) node = LOAD_CONSTANT_ARRAY(node);
    }
#if IMAGES
    else if (path == PATH_IMAGE) {
        for (uint i = 0; i < steps; i++) node = read_imageui(image, (int)(node / 4)).x;
    }
#endif
    return node;
}

// One walk on a path between two readings of the counter; the store to local memory waits for the last load.
#define TIME_WALK(path, first, steps, ticks, reached)                                    \
    {                                                                                    \
        INSTRUCTION_FENCE                                                                \
        const uint start = ticks_now();                                                  \
        INSTRUCTION_FENCE                                                                \
        *kept = walk(path, arena, IMAGE_ARGUMENT constants, (first) + (*zero), steps);   \
        INSTRUCTION_FENCE                                                                \
        ticks = ticks_now() - start;                                                     \
        reached = *kept;                                                                 \
    }
#define WALK(path, first, steps) *kept = walk(path, arena, IMAGE_ARGUMENT constants, (first) + (*zero), steps);

// The only work-item times the third lap of each of several sets, `steps` accesses from node `first`. LOCAL_BYTES of local
// memory are declared and used beside. `ticks` and `reached` are of set `row`.
kernel void fit(global const uchar* arena, IMAGE_PARAMETER constant const uchar* constants, const uint path, const uint first,
                const uint steps, const uint row, global uint* restrict ticks, global uint* restrict reached) {
    local volatile uint pad[LOCAL_WORDS];
    local volatile uint* const kept = pad + (steps + row) % LOCAL_WORDS;
    local volatile uint* const zero = pad + (steps + row + 1) % LOCAL_WORDS;
    *zero = 0;
    WALK(path, first, steps)
    WALK(path, first, steps)
    uint taken, last;
    TIME_WALK(path, first, steps, taken, last)
    ticks[row] = taken;
    reached[row] = last;
}

// The only work-item times laps of the owner's set of `steps` accesses: 0 the first of the launch; 1 warm; 2 after `own_steps`
// other accesses on the owner's path; 3 warm; 4 after `other_steps` other accesses on the other path; 5 warm; 6 after a wait of
// as many ticks as the other walk took; 7 warm. With `same` nonzero, 8 is a lap after the set was evicted on its own path and
// then visited on the other one. ticks[9] and ticks[10] are those of the walks on the own and the other path.
kernel void paths(global const uchar* arena, IMAGE_PARAMETER constant const uchar* constants, const uint owner,
                  const uint first, const uint steps, const uint own_first, const uint own_steps, const uint other,
                  const uint other_first, const uint other_steps, const uint same, global uint* restrict ticks,
                  global uint* restrict reached) {
    local volatile uint pad[2];
    local volatile uint* const kept = pad;
    local volatile uint* const zero = pad + 1;
    *zero = 0;
    uint taken[11], last[11];
    TIME_WALK(owner, first, steps, taken[0], last[0])
    WALK(owner, first, steps)
    TIME_WALK(owner, first, steps, taken[1], last[1])
    TIME_WALK(owner, own_first, own_steps, taken[9], last[9])
    TIME_WALK(owner, first, steps, taken[2], last[2])
    WALK(owner, first, steps)
    WALK(owner, first, steps)
    TIME_WALK(owner, first, steps, taken[3], last[3])
    TIME_WALK(other, other_first, other_steps, taken[10], last[10])
    TIME_WALK(owner, first, steps, taken[4], last[4])
    WALK(owner, first, steps)
    WALK(owner, first, steps)
    TIME_WALK(owner, first, steps, taken[5], last[5])
    const uint begin = ticks_now();
    uint x = begin;
    for (uint i = 0; i < other_steps && ticks_now() - begin < taken[10]; i++) {
        ALU_CHAIN_32(x, 0x9E3779B9u, 1u)
    }
    *kept = x;
    TIME_WALK(owner, first, steps, taken[6], last[6])
    TIME_WALK(owner, first, steps, taken[7], last[7])
    taken[8] = 0;
    last[8] = last[7];
    if (same) {
        WALK(owner, own_first, own_steps)
        WALK(other, first, steps)
        TIME_WALK(owner, first, steps, taken[8], last[8])
    }
    for (uint i = 0; i < 11; i++) {
        ticks[i] = taken[i];
        reached[i] = last[i];
    }
}

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

// The first work-item on each compute unit takes part. The one on unit `source` walks the whole array of program scope twice,
// timing both laps, into source_ticks. Then each unit whose number among all, place[unit], is one of the SLICES from
// `first_place` on times one walk through a slice that is its own: fast if what the source loaded is in a cache that it shares.
// A `source` that no unit has is the control: nobody walks before. Rows of `ticks` are by source and then by
// place; counts of a launch are at `launch`.
kernel void shared_units(const global uint* restrict place, const uint count, const uint source, const uint row,
                         const uint first_place, const uint launch, volatile global uint* arrived, volatile global uint* claimed,
                         volatile global uint* walked, global uint* restrict ticks, global uint* restrict source_ticks,
                         global uint* restrict reached, const uint unit_limit) {
    local volatile uint pad[2];
    local volatile uint* const kept = pad;
    local volatile uint* const zero = pad + 1;
    *zero = 0;
    const uint id = unit_now();
    const bool first_here = id < unit_limit && atomic_inc(&claimed[launch * unit_limit + id]) == 0u;
    atomic_inc(&arrived[launch]);
    if (!first_here) return;
    bool in_time = wait_for(&arrived[launch], (uint)get_num_groups(0));
    if (id == source) {
        for (uint lap = 0; lap < 2; lap++) {
            uint node = *zero;
            INSTRUCTION_FENCE
            const uint start = ticks_now();
            INSTRUCTION_FENCE
            for (uint i = 0; i < SLICES * SLICE_NODES; i++) node = LOAD_CONSTANT_ARRAY(node);
            *kept = node;
            INSTRUCTION_FENCE
            source_ticks[2 * row + lap] = ticks_now() - start;
        }
        atomic_inc(&walked[launch]);
        return;
    }
    const uint mine = place[id];
    if (mine < first_place || mine >= min(count, first_place + SLICES)) return;
    if (source < unit_limit) in_time = wait_for(&walked[launch], 1u) && in_time;
    const uint from = (mine - first_place) * SLICE_BYTES;
    uint node = from + *zero;
    INSTRUCTION_FENCE
    const uint start = ticks_now();
    INSTRUCTION_FENCE
    for (uint i = 0; i < SLICE_NODES; i++) node = LOAD_CONSTANT_ARRAY(node);
    *kept = node;
    INSTRUCTION_FENCE
    const uint taken = ticks_now() - start;
    ticks[row * count + mine] = in_time ? taken : 0u;
    reached[row * count + mine] = *kept == (from + SLICE_BYTES) % (SLICES * SLICE_BYTES) ? 1u : 0u;
}
