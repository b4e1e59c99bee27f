// Transposes a matrix of n x n: a work-item each element, read along rows and written along columns.
kernel void transpose(global const float* from, global float* to, const uint n) {
    const uint column = get_global_id(0), row = get_global_id(1);
    to[column * n + row] = from[row * n + column];
}
