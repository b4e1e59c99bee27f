// Sums of products of every two of `bands` rows of `pixels` integers, as 64-bit integers, so that they are exact in any order.
// A work-group does one pair of rows (V0 to V2) or of tiles of rows (V3, V4) over one slice of the pixels; only pairs i <= j.
#define GROUP (TILE * TILE)
#define STRIDE (DEPTH + PAD)

// One work-group a band: the sum of its pixels.
__attribute__((reqd_work_group_size(GROUP, 1, 1)))
kernel void band_sums(const global T* restrict rows, global long* restrict sums, const uint pixels) {
    local long slots[GROUP];
    const uint item = (uint)get_local_id(0);
    const global T* row = rows + get_group_id(0) * (size_t)pixels;
    long sum = 0;
    for (uint p = item; p < pixels; p += GROUP) sum += row[p];
    slots[item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint n = GROUP / 2; n > 0; n /= 2) {
        if (item < n) slots[item] += slots[item + n];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (item == 0) sums[get_group_id(0)] = slots[0];
}

#if VERSION < 3
// One work-item sums every GROUP-th pixel of one pair's slice. Then the group adds its work-items' sums by a tree, which lies in
// global memory (V0) or in local memory. The running sum is a place of the tree (V0, V1), which compilers that see that nobody
// else uses it keep in a register by themselves, or is named a variable (V2).
__attribute__((reqd_work_group_size(GROUP, 1, 1)))
kernel void covariance(const global T* restrict rows, const global ushort2* restrict pairs, global long* restrict partial,
                global long* restrict products, const uint bands, const uint pixels, const uint slice) {
    const uint item = (uint)get_local_id(0);
    const ushort2 pair = pairs[get_group_id(0)];
    const uint first = (uint)get_group_id(1) * slice, last = min(first + slice, pixels);
    const global T* a = rows + pair.x * (size_t)pixels;
    const global T* b = rows + pair.y * (size_t)pixels;
#if VERSION == 0
    global long* slots = partial + (get_group_id(1) * get_num_groups(0) + get_group_id(0)) * GROUP;
#define FENCE CLK_GLOBAL_MEM_FENCE
#else
    local long slots[GROUP];
#define FENCE CLK_LOCAL_MEM_FENCE
#endif
#if VERSION < 2
    slots[item] = 0;
    for (uint p = first + item; p < last; p += GROUP) slots[item] += (long)((int)a[p] * (int)b[p]);
#else
    long sum = 0;
    for (uint p = first + item; p < last; p += GROUP) sum += (long)((int)a[p] * (int)b[p]);
    slots[item] = sum;
#endif
    barrier(FENCE);
    for (uint n = GROUP / 2; n > 0; n /= 2) {
        if (item < n) slots[item] += slots[item + n];
        barrier(FENCE);
    }
    if (item == 0) products[(get_group_id(1) * bands + pair.x) * bands + pair.y] = slots[0];
}
#else
// One work-item does one pair of a TILE x TILE tile of pairs, from DEPTH pixels at a time of both tiles' rows in local memory.
// In V4 each row there is PAD longer, one word of four bytes, so that rows begin in different banks.
__attribute__((reqd_work_group_size(TILE, TILE, 1)))
kernel void covariance(const global T* restrict rows, const global ushort2* restrict pairs, global long* restrict partial,
                global long* restrict products, const uint bands, const uint pixels, const uint slice) {
    local T tile_a[TILE * STRIDE], tile_b[TILE * STRIDE];
    const uint column = (uint)get_local_id(0), row = (uint)get_local_id(1), item = row * TILE + column;
    const ushort2 pair = pairs[get_group_id(0)];
    const uint above = pair.x * TILE, left = pair.y * TILE;
    const uint first = (uint)get_group_id(1) * slice, last = min(first + slice, pixels);
    long sum = 0;
    for (uint start = first; start < last; start += DEPTH) {
        for (uint n = item; n < TILE * DEPTH; n += GROUP) {
            const uint r = n / DEPTH, k = n % DEPTH, p = start + k;
            tile_a[r * STRIDE + k] = above + r < bands && p < last ? rows[(above + r) * (size_t)pixels + p] : (T)0;
            tile_b[r * STRIDE + k] = left + r < bands && p < last ? rows[(left + r) * (size_t)pixels + p] : (T)0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < DEPTH; k++) sum += (long)((int)tile_a[row * STRIDE + k] * (int)tile_b[column * STRIDE + k]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (above + row < bands && left + column < bands)
        products[(get_group_id(1) * bands + above + row) * bands + left + column] = sum;
}
#endif

// One work-item a pair i <= j: the sum over slices.
kernel void add_slices(const global long* restrict slices, global long* restrict products, const uint bands, const uint count) {
    const uint i = (uint)get_global_id(1), j = (uint)get_global_id(0);
    if (i > j) return;
    long sum = 0;
    for (uint s = 0; s < count; s++) sum += slices[(s * (size_t)bands + i) * bands + j];
    products[i * bands + j] = sum;
}
