// Each work-item computes one element of Z = T^T X, component k of pixel p. T^T has a row for each component, so a work-item
// reads a row in order. T^T lies in global memory (V0), or in constant memory, through a pointer or as an array of program
// scope that the host writes in front of this text. In V2 the work-group stages X in local memory for its components.
#include "common.cl"
#if PLACE == 0
#define ROTATION_PARAMETER const global float* restrict rotation
#define ROTATION(n) rotation[n]
#elif PLACE == 1
#define ROTATION_PARAMETER constant float* restrict rotation
#define ROTATION(n) rotation[n]
#else
#define ROTATION_PARAMETER const global float* restrict unused
#define ROTATION(n) rotation_array[n]
#endif

FIXED_GROUP_SIZE(GROUP_PIXELS, GROUP_COMPONENTS, 1)
kernel void transform(const global uchar* restrict rows, ROTATION_PARAMETER, global float* restrict z, const uint bands,
                      const uint pixels, const uint components) {
    const uint p = (uint)get_global_id(0), k = (uint)get_global_id(1);
    float sum = 0.0f;
#if STAGED
    local uchar tile[DEPTH * GROUP_PIXELS];
    const uint item = (uint)(get_local_id(1) * GROUP_PIXELS + get_local_id(0)), left = (uint)get_group_id(0) * GROUP_PIXELS;
    for (uint first = 0; first < bands; first += DEPTH) {
        for (uint n = item; n < DEPTH * GROUP_PIXELS; n += GROUP_PIXELS * GROUP_COMPONENTS) {
            const uint b = first + n / GROUP_PIXELS, at = left + n % GROUP_PIXELS;
            if (b < bands && at < pixels) tile[n] = rows[b * (size_t)pixels + at];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint last = min((uint)DEPTH, bands - first);
        if (p < pixels && k < components)
            for (uint b = 0; b < last; b++)
                sum += ROTATION(k * bands + first + b) * (float)tile[b * GROUP_PIXELS + get_local_id(0)];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (p < pixels && k < components) z[k * (size_t)pixels + p] = sum;
#else
    if (p >= pixels || k >= components) return;
    for (uint b = 0; b < bands; b++) sum += ROTATION(k * bands + b) * (float)rows[b * (size_t)pixels + p];
    z[k * (size_t)pixels + p] = sum;
#endif
}
