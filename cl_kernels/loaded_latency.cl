// Latency of a pointer chase in one work-group while the others stream. The first work-group to arrive chases, so that it never
// waits for one that has not started; each other one streams through its own segment of the data until the chase has ended.
// STORED of the vectors of a batch are stored, too: 0, 2 or 4 of 4. STREAMS 0: the others end at once.
#include "common.cl"

#define BATCH 4  // vectors V that a work-item loads before it uses one
#define STRIDE (BATCH * GROUP_SIZE)
// words of `state`
#define ARRIVED 0
#define ENDED 1
#define GAVE_UP 2
#define MET 3

// Each work-item writes one word, from a formula by which the host knows all sums.
kernel void number_words(global uint* restrict data, const uint seed) {
    data[get_global_id(0)] = (uint)get_global_id(0) * HASH_FACTOR + seed;
}

#define STEP                     \
    p = (global const ulong*)*p; \
    made++;

// One work-item makes 16 steps a block from the node where the last launch ended, after all other groups have arrived. Their
// arrivals are read at most `patience` times: groups that run one after the other never meet. It writes how many it met.
void chase(global ulong* cursor, const uint blocks, volatile global uint* state, const uint patience) {
    uint polls = 0, met = state[ARRIVED];
    while (met < get_num_groups(0)) {
        if (++polls > patience) {
            state[GAVE_UP] = state[ENDED] = 1;
            return;
        }
        met = state[ARRIVED];
    }
    global const ulong* p = (global const ulong*)cursor[0];
    ulong made = 0;
    for (uint i = 0; i < blocks; i++) {
        // the address of each load is the value of the last one
        REPEAT_16(STEP)
    }
    cursor[0] = (ulong)p;
    cursor[1] += made;
    cursor[2] = made;
    state[MET] = met;
    state[ENDED] = 1;
}

// A work-item of the first work-group chases; those of the others load batches from a segment of `segment` blocks, round and
// round, and `spins` chains of operations lie between two batches. They look whether the chase has ended after `per_poll`
// batches. Each writes how many batches it made and the sum of all words, and each group the sum of its work-items' batches.
// `ones` has all bits set, so that a chain ends where it began: the next address is computed from it, so no load precedes it.
FIXED_GROUP_SIZE(GROUP_SIZE, 1, 1)
kernel void loaded_latency(global ulong* cursor, const uint blocks, volatile global uint* state, const uint patience,
                           const global V* restrict data, global V* restrict target, global uint* restrict batches,
                           global V* restrict sums, volatile global uint* streamed, const uint segment, const uint spins,
                           const uint per_poll, const uint ones, const uint addend) {
    local uint ticket;
    if (get_local_id(0) == 0) ticket = atomic_inc(&state[ARRIVED]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (ticket == 0) {
        if (get_local_id(0) == 0) chase(cursor, blocks, state, patience);
        return;
    }
#if STREAMS
    const uint stream = ticket - 1;
    const size_t first = (size_t)stream * segment * STRIDE + get_local_id(0);
    V sum = (V)(0);
    uint made = 0, block = 0, zero = 0;
    while (!state[ENDED]) {
        for (uint i = 0; i < per_poll; i++) {
            const size_t at = first + (size_t)block * STRIDE + zero;
            const V a = data[at], b = data[at + GROUP_SIZE], c = data[at + 2 * GROUP_SIZE], d = data[at + 3 * GROUP_SIZE];
            sum += a + b;
            sum += c + d;
#if STORED > 0
            target[at] = a;
            target[at + GROUP_SIZE] = b;
#endif
#if STORED > 2
            target[at + 2 * GROUP_SIZE] = c;
            target[at + 3 * GROUP_SIZE] = d;
#endif
            made++;
            block = block + 1 == segment ? 0 : block + 1;
            for (uint spin = 0; spin < spins; spin++) {
                ALU_CHAIN_32(zero, ones, addend)
            }
        }
    }
    const size_t own = (size_t)stream * GROUP_SIZE + get_local_id(0);
    batches[own] = made;
    sums[own] = sum;
    atomic_add(&streamed[stream], made);
#endif
}

// The work-items together count the words of the target that are those of the data.
kernel void count_stored(const global uint* restrict data, const global uint* restrict target, volatile global uint* stored,
                         const ulong words) {
    uint same = 0;
    for (ulong i = get_global_id(0); i < words; i += get_global_size(0)) same += data[i] == target[i];
    atomic_add(stored, same);
}
