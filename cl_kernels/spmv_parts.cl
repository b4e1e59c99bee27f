// Sums of rows that several work-items or work-groups share.

// The sum over the work-items of a group of `size`, by a tree in `sums`. Only the first work-item returns it: the others do not
// read it, since the first may still be writing.
double sum_of_group(double sum, const uint size, local double* sums) {
    const uint item = get_local_id(0);
    sums[item] = sum;
    for (uint left = size; left > 1; left = (left + 1) / 2) {
        const uint apart = (left + 1) / 2;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item + apart < left) sums[item] += sums[item + apart];
    }
    return item == 0 ? sums[0] : 0;
}

// Each work-item adds every PARTS_GROUP-th part of the row of its work-group, given as row, first part and number of parts.
FIXED_GROUP_SIZE(PARTS_GROUP, 1, 1)
kernel void csr_parts(const global uint4* restrict rows, const global double* restrict parts, global double* restrict y) {
    local double sums[PARTS_GROUP];
    const uint4 row = rows[get_group_id(0)];
    double sum = 0;
    for (uint i = row.y + get_local_id(0); i < row.y + row.z; i += PARTS_GROUP) sum += parts[i];
    sum = sum_of_group(sum, PARTS_GROUP, sums);
    if (get_local_id(0) == 0) y[row.x] = sum;
}
