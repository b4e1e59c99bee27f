// Each work-item filters one value of the cube: the value minus the median (V0, V0n) or the mean (V1 on) of the 3 x 3 pixels
// around it. The median comes from sorting an array (MEDIAN 1) or from a network of exchanges with constant indices (MEDIAN 2).
// From V2 on a work-group stages its pixels in local memory: a piece of three rows in V2, a tile with its border in V3, by the
// same code with another shape of the work-group. The nearest pixel of the image stands for a pixel beyond its edge.
#include "common.cl"
#define TILE_COLUMNS (GROUP_COLUMNS + 2)
#define TILE_ROWS (GROUP_ROWS + 2)
#define EXCHANGE(a, b) SORT_PAIR(uchar, nine[a], nine[b])

FIXED_GROUP_SIZE(GROUP_COLUMNS, GROUP_ROWS, 1)
kernel void filter(const global uchar* restrict cube, global short* restrict noise, const int width, const int height) {
    const int x = (int)get_global_id(0), y = (int)get_global_id(1);
    const size_t first = get_global_id(2) * (size_t)width * (size_t)height;
    const global uchar* band = cube + first;
#if STAGED
    local uchar tile[TILE_ROWS * TILE_COLUMNS];
    const int left = (int)(get_group_id(0) * GROUP_COLUMNS) - 1, top = (int)(get_group_id(1) * GROUP_ROWS) - 1;
    const int item = (int)(get_local_id(1) * GROUP_COLUMNS + get_local_id(0));
    for (int n = item; n < TILE_ROWS * TILE_COLUMNS; n += GROUP_COLUMNS * GROUP_ROWS)
        tile[n] = band[clamp(top + n / TILE_COLUMNS, 0, height - 1) * width + clamp(left + n % TILE_COLUMNS, 0, width - 1)];
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    if (x >= width || y >= height) return;
    uchar nine[9];
    for (int dy = 0; dy < 3; dy++)
        for (int dx = 0; dx < 3; dx++)
#if STAGED
            nine[3 * dy + dx] = tile[((int)get_local_id(1) + dy) * TILE_COLUMNS + (int)get_local_id(0) + dx];
#else
            nine[3 * dy + dx] = band[clamp(y + dy - 1, 0, height - 1) * width + clamp(x + dx - 1, 0, width - 1)];
#endif
    const int own = nine[4];
#if MEDIAN == 1
    // The indices depend on the values, so the array cannot lie in registers.
    for (int n = 1; n < 9; n++) {
        const uchar value = nine[n];
        int place = n;
        for (; place > 0 && nine[place - 1] > value; place--) nine[place] = nine[place - 1];
        nine[place] = value;
    }
    const int centre = nine[4];
#elif MEDIAN == 2
    // 19 exchanges move the median to element 4 (Smith 1996; Devillard 1998): all indices are constants, so the array needs no
    // address.
    // clang-format off
    EXCHANGE(1, 2) EXCHANGE(4, 5) EXCHANGE(7, 8) EXCHANGE(0, 1) EXCHANGE(3, 4) EXCHANGE(6, 7) EXCHANGE(1, 2) EXCHANGE(4, 5)
    EXCHANGE(7, 8) EXCHANGE(0, 3) EXCHANGE(5, 8) EXCHANGE(4, 7) EXCHANGE(3, 6) EXCHANGE(1, 4) EXCHANGE(2, 5) EXCHANGE(4, 7)
    EXCHANGE(4, 2) EXCHANGE(6, 4) EXCHANGE(4, 2)
    const int centre = nine[4];
    // clang-format on
#else
    int sum = 0;
    for (int n = 0; n < 9; n++) sum += nine[n];
    const int centre = (sum + 4) / 9;
#endif
    noise[first + (size_t)y * (size_t)width + (size_t)x] = (short)(own - centre);
}
