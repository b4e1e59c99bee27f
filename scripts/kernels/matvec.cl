// Each work-group multiplies one row of a matrix with a vector, and sums by a tree in local memory.
kernel void matvec(global const float *restrict matrix, global const float *restrict x, global float *restrict y, const int columns)
{
    local float part[128];
    const int me = get_local_id(0);
    const size_t row = get_group_id(0);
    float sum = 0;
    for (int column = me; column < columns; column += 128)
        sum += matrix[row * columns + column] * x[column];
    part[me] = sum;
    for (int half_size = 64; half_size > 0; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < half_size)
            part[me] += part[me + half_size];
    }
    if (me == 0)
        y[row] = part[0];
}
