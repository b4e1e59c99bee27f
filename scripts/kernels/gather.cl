// Each work-item copies a number from a random place.
kernel void gather(global const uint *restrict places, global const float *restrict in, global float *restrict out)
{
    const size_t i = get_global_id(0);
    out[i] = in[places[i]];
}
