// Barriers within a work-group, and across work-groups that run at the same time.
#include "common.cl"

// The barrier that is timed and the one that is verified are the same text.
#define PASS_BARRIER              \
    barrier(CLK_LOCAL_MEM_FENCE); \
    met++;

// Each work-item of one work-group passes 16 barriers a block and does nothing else; it writes how many.
kernel void group_barrier(global uint* restrict done, const uint blocks) {
    uint met = 0;
    for (uint i = 0; i < blocks; i++) {
        REPEAT_16(PASS_BARRIER)
    }
    done[get_global_id(0)] = met;
}

// Each work-item passes a number, at first its own index, to the neighbour `shift` places before it and adds 1, `rounds` times:
// the result is right only if the barriers separate the rounds. Rounds use two halves of `slot` in turn, so that one barrier a
// round is enough. Without barriers `shift` is 0: every work-item then loads what it stored, which compilers cannot know.
kernel void exchange(global uint* restrict out, const uint rounds, const uint shift, local uint* slot) {
    const uint id = get_local_id(0), n = get_local_size(0);
    const uint neighbour = (id + shift) % n;
    uint held = id, met = 0;
    for (uint i = 0; i < rounds; i++) {
        local uint* half_of_round = slot + (i & 1) * n;
        half_of_round[id] = held;
#if !NO_BARRIER
        PASS_BARRIER
#endif
        held = half_of_round[neighbour] + 1;
    }
    out[id] = held;
}

// The only work-item of each work-group arrives at a counter and waits for the other groups, `rounds` times. The fences belong
// to the barrier: without them a write before it need not be visible after it. state[0] counts arrivals. state[1] becomes 1
// when a group has read the counter more than `patience` times: then the groups do not run at the same time, and the wait would
// never end. Each group writes in how many rounds it saw that all others had arrived too, before it went on.
kernel void device_barrier(volatile global uint* state, global uint* restrict passed, const uint rounds, const uint patience) {
    const uint group = get_group_id(0), groups = get_num_groups(0);
    uint together = 0;
    for (uint round = 1; round <= rounds; round++) {
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        atomic_inc(&state[0]);
        uint reads = 0, arrived = state[0];
        while (arrived < round * groups) {
            if (++reads > patience || state[1]) {
                state[1] = 1;
                return;
            }
            arrived = state[0];
        }
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        together += arrived >= round * groups;
    }
    passed[group] = together;
}
