// Each work-item sends the rank of one vertex to its 16 neighbours, by atomic additions.
kernel void push(global const uint *restrict neighbours, global const uint *restrict rank, global uint *next)
{
    const size_t vertex = get_global_id(0);
    const uint share = rank[vertex] / 16;
    for (uint edge = 0; edge < 16; edge++)
        atomic_add(next + neighbours[vertex * 16 + edge], share);
}
