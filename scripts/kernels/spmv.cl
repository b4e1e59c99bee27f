// Each work-item multiplies one row of a sparse matrix, 16 numbers at random columns, with a vector.
kernel void spmv(
    global const uint *restrict first, global const uint *restrict columns, global const float *restrict values,
    global const float *restrict x, global float *restrict y)
{
    const size_t row = get_global_id(0);
    float sum = 0;
    for (uint k = first[row]; k < first[row + 1]; k++)
        sum += values[k] * x[columns[k]];
    y[row] = sum;
}
