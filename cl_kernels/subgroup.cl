// Chains of dependent loads that the work-items of a work-group follow at the same time. `table` has WORDS words, each of which
// holds the place of the next word to read; `starts` has the first place of each work-item. The macros that differ between
// memories come first: where the table is stored (TABLE_PARAMETER, SET_UP), and how the word at a place is loaded (NEXT).
#include "common.cl"

#if MEMORY_global || MEMORY_global_cg
// A place is an offset in bytes. Each work-group has its own table, so that groups do not queue for the same lines.
#define TABLE_PARAMETER const global uint* restrict tables
#define SET_UP const global uint* table = tables + WORDS * get_group_id(0);
#if PTX
#if MEMORY_global
#define LOAD_INSTRUCTION "ld.global.ca.u32 %0, [%1];"
#else
#define LOAD_INSTRUCTION "ld.global.cg.u32 %0, [%1];"
#endif
DEFINE_LOAD_PTX(uint, "=r", LOAD_INSTRUCTION)
#define NEXT(place) load_ptx((ulong)table + (place))
#else
#define NEXT(place) *(const global uint*)((const global uchar*)table + (place))
#endif

#elif MEMORY_constant
#define TABLE_PARAMETER constant uint* restrict table
#define SET_UP
#define NEXT(place) *(constant const uint*)((constant const uchar*)table + (place))

#elif MEMORY_constant_array
// The host writes the table in front of this text, as an array of program scope.
#define TABLE_PARAMETER const global uint* restrict unused
#define SET_UP
#define NEXT(place) *(constant const uint*)((constant const uchar*)constant_table + (place))

#elif MEMORY_image
// A place is the number of a texel.
#define TABLE_PARAMETER read_only image1d_buffer_t table
#define SET_UP
#define NEXT(place) read_imageui(table, (int)(place)).x

#elif MEMORY_local
#define TABLE_PARAMETER const global uint* restrict table, local uint* restrict kept
#define SET_UP                                                                            \
    for (uint k = get_local_id(0); k < WORDS; k += get_local_size(0)) kept[k] = table[k]; \
    barrier(CLK_LOCAL_MEM_FENCE);
#define NEXT(place) *(local const uint*)((local const uchar*)kept + (place))

#elif MEMORY_private
// A place is an index: an array that is indexed by its own contents cannot lie in registers.
#define TABLE_PARAMETER const global uint* restrict table
#define SET_UP        \
    uint kept[WORDS]; \
    for (uint k = 0; k < WORDS; k++) kept[k] = table[k];
#define NEXT(place) kept[place]

#elif MEMORY_register
// No load: each operation reads the result of the last one.
#define TABLE_PARAMETER const uint factor, const uint addend
#define SET_UP
#define NEXT(place) ((place) * factor + addend)
#endif

#define STEP             \
    place = NEXT(place); \
    made++;

// Each work-item makes 17 steps a block from its start, and writes the place where it ends, and behind all places its steps.
kernel void follow(TABLE_PARAMETER, const global uint* restrict starts, global uint* restrict ends, const uint blocks) {
    SET_UP
    uint place = starts[get_local_id(0)], made = 0;
    for (uint i = 0; i < blocks; i++) {
        REPEAT_16(STEP) STEP  // an odd number shows more in where they end
    }
    ends[get_global_id(0)] = place;
    ends[get_global_size(0) + get_global_id(0)] = made;
}
