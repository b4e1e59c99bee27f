// Work-items of a work-group follow chains of dependent loads side by side. `table` has WORDS words, of which each says where the
// next one to be read is; where a work-item begins, `starts` says. What differs between memories stands at the top: where the
// table is kept while it is read, what a place is counted in, and how the word there is loaded.

#if MEMORY_global || MEMORY_global_cg
// a place is an offset in bytes; each work-group has a table of its own, so that groups do not queue for the same lines
#define TABLE const global uint* restrict tables
#define KEEP const global uint* table = tables + WORDS * get_group_id(0);
#if PTX
#if MEMORY_global
#define LOAD "ld.global.ca.u32 %0, [%1];"
#else
#define LOAD "ld.global.cg.u32 %0, [%1];"
#endif
uint loaded(const ulong address) {
    uint value;
    asm volatile(LOAD : "=r"(value) : "l"(address));
    return value;
}
#define NEXT(place) loaded((ulong)table + (place))
#else
#define NEXT(place) *(const global uint*)((const global uchar*)table + (place))
#endif

#elif MEMORY_constant
#define TABLE constant uint* restrict table
#define KEEP
#define NEXT(place) *(constant const uint*)((constant const uchar*)table + (place))

#elif MEMORY_constant_array
// the table comes before this text, as an array of the program
#define TABLE const global uint* restrict unused
#define KEEP
#define NEXT(place) *(constant const uint*)((constant const uchar*)constant_table + (place))

#elif MEMORY_image
// a place is a texel's number
#define TABLE read_only image1d_buffer_t table
#define KEEP
#define NEXT(place) read_imageui(table, (int)(place)).x

#elif MEMORY_local
#define TABLE const global uint* restrict table, local uint* restrict kept
#define KEEP                                                                                              \
    for (uint k = get_local_id(0); k < WORDS; k += get_local_size(0)) kept[k] = table[k];                 \
    barrier(CLK_LOCAL_MEM_FENCE);
#define NEXT(place) *(local const uint*)((local const uchar*)kept + (place))

#elif MEMORY_private
// a place is an element's number: an array that is indexed by what it holds cannot lie in registers
#define TABLE const global uint* restrict table
#define KEEP                                              \
    uint kept[WORDS];                                     \
    for (uint k = 0; k < WORDS; k++) kept[k] = table[k];
#define NEXT(place) kept[place]

#elif MEMORY_register
// no load at all: an operation that reads what the last one wrote
#define TABLE const uint factor, const uint addend
#define KEEP
#define NEXT(place) ((place) * factor + addend)
#endif

#define FOUR place = NEXT(place); place = NEXT(place); place = NEXT(place); place = NEXT(place);

kernel void follow(TABLE, const global uint* restrict starts, global uint* restrict ends, const uint blocks) {
    KEEP
    uint place = starts[get_local_id(0)];
    for (uint i = 0; i < blocks; i++) {
        FOUR FOUR FOUR FOUR
    }
    ends[get_global_id(0)] = place;
}
