// Each work-item turns one pixel of four bytes into a grey one of one byte.
kernel void grey(global const uchar4 *restrict colours, global uchar *restrict greys)
{
    const size_t i = get_global_id(0);
    const uchar4 c = colours[i];
    greys[i] = (77 * c.x + 150 * c.y + 29 * c.z) >> 8;
}
