// Barriers within a work-group, and across work-groups that run at the same time.
#include "common.cl"

// Each work-item of one work-group passes 16 barriers a block and does nothing else.
kernel void group_barrier(global uint* restrict done, const uint blocks) {
    uint met = 0;
    for (uint i = 0; i < blocks; i++) {
        REPEAT_16(barrier(CLK_LOCAL_MEM_FENCE);)
        met += 16;
    }
    done[get_global_id(0)] = met;
}

// Each work-item passes its number on to its neighbour `rounds` times; the result is right only if the barriers separate the
// rounds.
kernel void rotate_ids(global uint* restrict out, const uint rounds, local uint* slot) {
    const uint id = get_local_id(0), n = get_local_size(0);
    uint held = id;
    for (uint i = 0; i < rounds; i++) {
        slot[id] = held;
        barrier(CLK_LOCAL_MEM_FENCE);
        held = slot[(id + 1) % n];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    out[id] = held;
}

// The only work-item of each work-group arrives at a counter and waits for the other groups, `rounds` times. The fences belong
// to the barrier: without them a write before it need not be visible after it. state[0] counts arrivals. state[1] becomes 1
// when a group has read the counter more than `patience` times: then the groups do not run at the same time, and the wait would
// never end. With VERIFY each round checks that the neighbour has arrived too.
kernel void device_barrier(volatile global uint* state, volatile global uint* seen, const uint rounds, const uint patience) {
    const uint group = get_group_id(0), groups = get_num_groups(0);
    for (uint round = 1; round <= rounds; round++) {
#if VERIFY
        seen[group] = round;
#endif
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        atomic_inc(&state[0]);
        uint reads = 0;
        while (state[0] < round * groups) {
            if (++reads > patience || state[1]) {
                state[1] = 1;
                return;
            }
        }
        mem_fence(CLK_GLOBAL_MEM_FENCE);
#if VERIFY
        if (seen[(group + 1) % groups] < round) atomic_inc(&state[2]);
#endif
    }
}
