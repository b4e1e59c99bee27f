// Each work-item inserts its key into a table of empty places, by compare-and-swap at the next free place.
kernel void hash_insert(global const uint *restrict keys, global uint *table, const uint places)
{
    const uint key = keys[get_global_id(0)] | 1;
    uint at = key * 2654435761u % places;
    for (uint tries = 0; tries < 64; tries++) {
        const uint seen = atomic_cmpxchg(table + at, 0u, key);
        if (seen == 0 || seen == key)
            return;
        at = (at + 1) % places;
    }
}
