// The emptiest kernel that can be verified: one work-item of all leaves a token behind.
kernel void mark(global uint* restrict done, const uint token) {
    if (get_global_id(0) == 0) done[0] = token;
}
