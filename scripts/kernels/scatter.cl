// Each work-item copies its number to a random place.
kernel void scatter(global const uint *restrict places, global const float *restrict in, global float *restrict out)
{
    const size_t i = get_global_id(0);
    out[places[i]] = in[i];
}
