// Each work-item sums one row of a matrix, whose numbers are neighbours in memory.
kernel void row_sums(global const float *restrict matrix, global float *restrict sums, const int columns)
{
    const size_t row = get_global_id(0);
    float sum = 0;
    for (int column = 0; column < columns; column++)
        sum += matrix[row * columns + column];
    sums[row] = sum;
}
