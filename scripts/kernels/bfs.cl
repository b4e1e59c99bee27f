// Each work-item whose vertex is of the current level visits its 16 neighbours and marks the new ones.
kernel void bfs(
    global const uint *restrict first, global const uint *restrict neighbours, global uint *level, const uint current)
{
    const size_t vertex = get_global_id(0);
    if (level[vertex] == current)
        for (uint edge = first[vertex]; edge < first[vertex + 1]; edge++)
            if (level[neighbours[edge]] > current + 1)
                level[neighbours[edge]] = current + 1;
}
