// Each work-item follows a linked list through 64 random places.
kernel void lists(global const uint *restrict next, global uint *restrict ends)
{
    uint at = get_global_id(0);
    for (int n = 0; n < 64; n++)
        at = next[at];
    ends[get_global_id(0)] = at;
}
