// Sums of rows that several work-items or work-groups share.
// Each work-item adds up the parts of one row, given as row, first part and number of parts.
kernel void csr_parts(const global uint4* restrict rows, const global double* restrict parts, global double* restrict y) {
    const uint4 row = rows[get_global_id(0)];
    double sum = 0;
    for (uint i = row.y; i < row.y + row.z; i++) sum += parts[i];
    y[row.x] = sum;
}
