// Each work-item finds the nearest of 8 centres for one point of 16 features; one feature of all points is a row in memory.
kernel void kmeans_columns(
    global const float *restrict points, constant float *centres, global int *restrict nearest, const int n)
{
    const int i = get_global_id(0);
    float best = FLT_MAX;
    int chosen = 0;
    for (int c = 0; c < 8; c++) {
        float distance2 = 0;
        for (int f = 0; f < 16; f++) {
            const float apart = points[f * n + i] - centres[c * 16 + f];
            distance2 += apart * apart;
        }
        if (distance2 < best) {
            best = distance2;
            chosen = c;
        }
    }
    nearest[i] = chosen;
}
