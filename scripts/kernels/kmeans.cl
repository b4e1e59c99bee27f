// Each work-item finds the nearest of 8 centres for one point of 16 features; a point's features are neighbours in memory.
kernel void kmeans(global const float *restrict points, constant float *centres, global int *restrict nearest)
{
    const size_t i = get_global_id(0);
    float best = FLT_MAX;
    int chosen = 0;
    for (int c = 0; c < 8; c++) {
        float distance2 = 0;
        for (int f = 0; f < 16; f++) {
            const float apart = points[i * 16 + f] - centres[c * 16 + f];
            distance2 += apart * apart;
        }
        if (distance2 < best) {
            best = distance2;
            chosen = c;
        }
    }
    nearest[i] = chosen;
}
