// Sums of products of each two of `bands` rows of `pixels` integers, in 64-bit integers, so that they are exact in any order. A
// work-group computes one pair of rows (V0 to V2) or of tiles of rows (V3, V4) over one slice of the pixels, for pairs i <= j
// only.
#include "common.cl"
#define GROUP_SIZE (TILE * TILE)
#define TILE_PITCH (DEPTH + PAD)

// Each work-item sums every GROUP_SIZE-th pixel of its work-group's band; the first writes the sum of the band.
FIXED_GROUP_SIZE(GROUP_SIZE, 1, 1)
kernel void band_sums(const global T* restrict rows, global long* restrict sums, const uint pixels) {
    local long slots[GROUP_SIZE];
    const uint item = (uint)get_local_id(0);
    const global T* row = rows + get_group_id(0) * (size_t)pixels;
    long sum = 0;
    for (uint p = item; p < pixels; p += GROUP_SIZE) sum += row[p];
    slots[item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint n = GROUP_SIZE / 2; n > 0; n /= 2) {
        if (item < n) slots[item] += slots[item + n];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (item == 0) sums[get_group_id(0)] = slots[0];
}

#if VERSION < 3
// Each work-item sums every GROUP_SIZE-th pixel of one pair's slice. Then a tree in global memory (V0) or local memory (V1, V2)
// adds up the work-group's sums. The running sum is an element of the tree (V0, V1), which a compiler keeps in a register if it
// sees that no other work-item uses it, or a variable of its own (V2).
FIXED_GROUP_SIZE(GROUP_SIZE, 1, 1)
kernel void covariance(const global T* restrict rows, const global ushort2* restrict pairs, global long* restrict partial,
                       global long* restrict products, const uint bands, const uint pixels, const uint slice) {
    const uint item = (uint)get_local_id(0);
    const ushort2 pair = pairs[get_group_id(0)];
    const uint first = (uint)get_group_id(1) * slice, last = min(first + slice, pixels);
    const global T* a = rows + pair.x * (size_t)pixels;
    const global T* b = rows + pair.y * (size_t)pixels;
#if VERSION == 0
    global long* slots = partial + (get_group_id(1) * get_num_groups(0) + get_group_id(0)) * GROUP_SIZE;
#define TREE_FENCE CLK_GLOBAL_MEM_FENCE
#else
    local long slots[GROUP_SIZE];
#define TREE_FENCE CLK_LOCAL_MEM_FENCE
#endif
#if VERSION < 2
    slots[item] = 0;
    for (uint p = first + item; p < last; p += GROUP_SIZE) slots[item] += (long)((int)a[p] * (int)b[p]);
#else
    long sum = 0;
    for (uint p = first + item; p < last; p += GROUP_SIZE) sum += (long)((int)a[p] * (int)b[p]);
    slots[item] = sum;
#endif
    barrier(TREE_FENCE);
    for (uint n = GROUP_SIZE / 2; n > 0; n /= 2) {
        if (item < n) slots[item] += slots[item + n];
        barrier(TREE_FENCE);
    }
    if (item == 0) products[(get_group_id(1) * bands + pair.x) * bands + pair.y] = slots[0];
}
#else
// Each work-item computes one pair of a TILE x TILE tile of pairs, from DEPTH pixels at a time of both tiles' rows in local
// memory. In V4 each row there is longer by PAD, one word of four bytes, so that rows start in different banks.
FIXED_GROUP_SIZE(TILE, TILE, 1)
kernel void covariance(const global T* restrict rows, const global ushort2* restrict pairs, global long* restrict partial,
                       global long* restrict products, const uint bands, const uint pixels, const uint slice) {
    local T tile_a[TILE * TILE_PITCH], tile_b[TILE * TILE_PITCH];
    const uint column = (uint)get_local_id(0), row = (uint)get_local_id(1), item = row * TILE + column;
    const ushort2 pair = pairs[get_group_id(0)];
    const uint above = pair.x * TILE, left = pair.y * TILE;
    const uint first = (uint)get_group_id(1) * slice, last = min(first + slice, pixels);
    long sum = 0;
    for (uint start = first; start < last; start += DEPTH) {
        for (uint n = item; n < TILE * DEPTH; n += GROUP_SIZE) {
            const uint r = n / DEPTH, k = n % DEPTH, p = start + k;
            tile_a[r * TILE_PITCH + k] = above + r < bands && p < last ? rows[(above + r) * (size_t)pixels + p] : (T)0;
            tile_b[r * TILE_PITCH + k] = left + r < bands && p < last ? rows[(left + r) * (size_t)pixels + p] : (T)0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < DEPTH; k++)
            sum += (long)((int)tile_a[row * TILE_PITCH + k] * (int)tile_b[column * TILE_PITCH + k]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (above + row < bands && left + column < bands)
        products[(get_group_id(1) * bands + above + row) * bands + left + column] = sum;
}
#endif

// Each work-item sums one pair i <= j over the slices.
kernel void add_slices(const global long* restrict slices, global long* restrict products, const uint bands, const uint count) {
    const uint i = (uint)get_global_id(1), j = (uint)get_global_id(0);
    if (i > j) return;
    long sum = 0;
    for (uint s = 0; s < count; s++) sum += slices[(s * (size_t)bands + i) * bands + j];
    products[i * bands + j] = sum;
}
