// Each work-item visits the 16 neighbours of a vertex where that is of the current level, and marks those that are new.
kernel void bfs(
    global const uint *restrict first, global const uint *restrict neighbours, global uint *level, const uint current)
{
    const size_t vertex = get_global_id(0);
    if (level[vertex] == current)
        for (uint edge = first[vertex]; edge < first[vertex + 1]; edge++)
            if (level[neighbours[edge]] > current + 1)
                level[neighbours[edge]] = current + 1;
}
