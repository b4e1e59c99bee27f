// One work-item an element: read every STRIDE-th element of `in` and write it, so that part of each line is used only.
kernel void strided_read(const global uint* restrict in, global uint* restrict out) {
    out[get_global_id(0)] = in[get_global_id(0) * STRIDE];
}
