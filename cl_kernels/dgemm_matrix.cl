// Matrix product C = A B on NVIDIA GPUs, of row-major matrices of doubles padded with zeros to whole tiles, by the FP64 matrix
// instructions of sub-groups and asynchronous copies into local memory, both by PTX. PTX 0 emulates them, to test the rest on
// any device. A sub-group of 32 keeps ROWS x COLUMNS elements of C in registers; SUB_GROUPS_DOWN x SUB_GROUPS_ACROSS sub-groups
// are a work-group.
#define FP64 1
#include "common.cl"
#define SUB_GROUP 32
#define GROUP_SIZE (SUB_GROUP * SUB_GROUPS_DOWN * SUB_GROUPS_ACROSS)
#define TILE_ROWS (SUB_GROUPS_DOWN * ROWS)
#define TILE_COLUMNS (SUB_GROUPS_ACROSS * COLUMNS)
#define DEPTH 8                     // values of k in a slab, as instruction m16n8k8 takes them
#define M (ROWS / 16)               // instructions down a sub-group's part of C
#define N (COLUMNS / 8)             // and across
#define A_SLAB (TILE_ROWS * DEPTH)  // doubles: rows of 8
#define SLAB (A_SLAB + DEPTH * TILE_COLUMNS)
#define A_COPIES (A_SLAB / 2 / GROUP_SIZE)  // copies of 16 bytes by a work-item
#define B_COPIES ((SLAB - A_SLAB) / 2 / GROUP_SIZE)
#define B_ACROSS (TILE_COLUMNS / 2)           // work-items that copy a row of B together
#define LINES (TILE_ROWS + TILE_COLUMNS / 2)  // lines of 128 bytes in a slab
#define PREFETCHES ((LINES + GROUP_SIZE - 1) / GROUP_SIZE)
#define BAND 8

#if PTX
#define STRINGIFY_TOKENS(x) #x
#define STRINGIFY(x) STRINGIFY_TOKENS(x)
typedef uint address;  // an address in local memory, in bytes
#define DOUBLE_SIZE 8

address local_address(const local void* p) {
    address found;
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(found) : "l"(p));
    return found;
}

void copy_async(const address to, const global double* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
}

void prefetch_line(const global double* p) {
    asm volatile("prefetch.global.L2 [%0];" : : "l"(p));
}

// END_SLAB ends the copies of one slab. WAIT_SLABS waits until at most that many of this work-item's last slabs are in flight.
#define END_SLAB() asm volatile("cp.async.commit_group;" : : : "memory")
#define WAIT_SLABS(slabs) asm volatile("cp.async.wait_group " STRINGIFY(slabs) ";" : : : "memory")

// A split barrier: a sub-group that arrives early computes until it needs the others, instead of waiting.
void mbarrier_init(const address mbarrier, const uint id) {
    if (id == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], %1;"
                     :
                     : "r"(mbarrier), "r"(SUB_GROUPS_DOWN * SUB_GROUPS_ACROSS)
                     : "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
}

void mbarrier_arrive(const address mbarrier, const uint lane) {
    WAIT_SLABS(STAGES - 2);
    asm volatile("bar.warp.sync 0xffffffff;" : : : "memory");
    if (lane == 0) asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" : : "r"(mbarrier) : "memory");
}

void mbarrier_wait(const address mbarrier, const uint phase) {
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra AGAIN; }"
                 :
                 : "r"(mbarrier), "r"(phase)
                 : "memory");
}

void multiply_add(double d[4], const double a[4], const double b[2], local double* unused, const uint id) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}
#else
typedef local double* address;
#define DOUBLE_SIZE 1
#define local_address(p) ((local double*)(p))
#define copy_async(to, from) (*(local double2*)(to) = *(const global double2*)(from))
#define prefetch_line(p)
#define END_SLAB()
#define WAIT_SLABS(slabs)
#define mbarrier_init(mbarrier, id)
#define mbarrier_arrive(mbarrier, lane)
#define mbarrier_wait(mbarrier, phase) barrier(CLK_LOCAL_MEM_FENCE)

// Emulates the instruction, with the sub-group's operands in local memory, 6 doubles a work-item.
void multiply_add(double d[4], const double a[4], const double b[2], local double* operands, const uint id) {
    for (uint e = 0; e < 4; e++) operands[id * 6 + e] = a[e];
    for (uint e = 0; e < 2; e++) operands[id * 6 + 4 + e] = b[e];
    barrier(CLK_LOCAL_MEM_FENCE);
    const local double* first = operands + id / SUB_GROUP * SUB_GROUP * 6;
    for (uint e = 0; e < 4; e++)
        for (uint k = 0; k < DEPTH; k++)
            d[e] += first[(id % SUB_GROUP / 4 * 4 + k % 4) * 6 + e / 2 + k / 4 * 2] *
                    first[((id % 4 * 2 + e % 2) * 4 + k % 4) * 6 + 4 + k / 4];
    barrier(CLK_LOCAL_MEM_FENCE);
}
#endif

// Copies one work-item's share of a slab into local memory: rows of 8 elements of A, then 8 rows of B. Pieces of a row (halves
// of A's, quadruples of B's) are permuted by the row's number, so that work-items that read operands together access different
// banks.
void load_slab_async(const address slab, const global double* a, const global double* b, const uint id, const size_t inner,
                     const size_t stride) {
#pragma unroll
    for (uint i = 0; i < A_COPIES; i++)
        copy_async(slab + (i * GROUP_SIZE + (id ^ id / 8 % 2 * 2)) * 2 * DOUBLE_SIZE,
                   a + (i * (GROUP_SIZE / 4) + id / 4) * inner + id % 4 * 2);
#pragma unroll
    for (uint i = 0; i < B_COPIES; i++) {
        const uint k = i * (GROUP_SIZE / B_ACROSS) + id / B_ACROSS, at = id % B_ACROSS;
        copy_async(slab + (A_SLAB + (k * B_ACROSS + (at ^ k % 4 * 2)) * 2) * DOUBLE_SIZE, b + k * stride + at * 2);
    }
}

// Loads a work-item's operands for half of its sub-group's rows of A: of every 16 rows two, at two values of k.
void load_fragment_a(double a[M][4], const uint first, const local double* low, const local double* high) {
#pragma unroll
    for (uint i = first; i < first + M / 2; i++) {
        a[i][0] = low[16 * i * DEPTH];
        a[i][1] = low[(16 * i + 8) * DEPTH];
        a[i][2] = high[16 * i * DEPTH];
        a[i][3] = high[(16 * i + 8) * DEPTH];
    }
}

// Loads its operands for the columns of B: of every 8 columns one, at two values of k.
void load_fragment_b(double b[N][2], const local double* even, const local double* odd) {
#pragma unroll
    for (uint j = 0; j < N; j++) {
        const local double* from = j % 2 ? odd + (j - 1) * 8 : even + j * 8;
        b[j][0] = from[0];
        b[j][1] = from[4 * TILE_COLUMNS];
    }
}

// Adds the products of half of a slab.
void multiply_add_fragments(double sum[M][N][4], const uint first, const double a[M][4], const double b[N][2],
                            local double* operands, const uint id) {
#if PTX
#pragma unroll
    for (uint i = first; i < first + M / 2; i++)
#pragma unroll
        for (uint j = 0; j < N; j++) multiply_add(sum[i][j], a[i], b[j], operands, id);
#else  // emulated instructions have barriers, and compilers of CPUs take a minute for as many as unrolled loops have
#pragma unroll 1
    for (uint i = first; i < first + M / 2; i++)
#pragma unroll 1
        for (uint j = 0; j < N; j++) multiply_add(sum[i][j], a[i], b[j], operands, id);
#endif
}

// Each work-item computes its elements of the tiles of C that its work-group takes. STAGES slabs of A and B are in local memory
// or in flight. While half of a slab's products are computed, the operands of the other half are loaded to registers; while the
// other half is computed, those of the next slab. `inner` is a multiple of 16.
FIXED_GROUP_SIZE(GROUP_SIZE, 1, 1)
kernel void multiply(const global double* restrict a, const global double* restrict b, global double* restrict c,
                     const uint tile_rows, const uint tile_columns, const uint inner) {
    local double slabs[STAGES * SLAB] __attribute__((aligned(128)));
    local ulong mbarrier_word[1];
#if PTX
    local double* const operands = 0;
#else
    local double operands[GROUP_SIZE * 6];
#endif
    const uint id = get_local_id(0), lane = id % SUB_GROUP, sub_group = id / SUB_GROUP;
    const uint row = sub_group / SUB_GROUPS_ACROSS * ROWS + lane / 4, column = sub_group % SUB_GROUPS_ACROSS * COLUMNS,
               t = lane % 4;
    // locations of its operands in the first slab: of A for k below 4 and above; of B for columns at even and odd multiples of
    // 8
    const local double* const low = slabs + row * DEPTH + (t ^ lane / 8 % 2 * 4);
    const local double* const high = slabs + row * DEPTH + (t ^ lane / 8 % 2 * 4 ^ 4);
    const local double* const even = slabs + A_SLAB + t * TILE_COLUMNS + column + (lane / 4 ^ 4 * t);
    const local double* const odd = slabs + A_SLAB + t * TILE_COLUMNS + column + (lane / 4 ^ 4 * t ^ 8);
    const address to = local_address(slabs), mbarrier = local_address(mbarrier_word);
    const size_t stride = (size_t)tile_columns * TILE_COLUMNS;
    uint phase = 0;
    mbarrier_init(mbarrier, id);
    for (uint tile = get_group_id(0); tile < tile_rows * tile_columns; tile += get_num_groups(0)) {
        // tiles are taken band by band, so that those computed at the same time share rows of A and columns of B in a cache
        const uint band = tile / (BAND * tile_columns) * BAND, within = tile % (BAND * tile_columns);
        const uint height = min((uint)BAND, tile_rows - band);
        const size_t top = (size_t)(band + within % height) * TILE_ROWS, left = (size_t)(within / height) * TILE_COLUMNS;
        const global double* a_from = a + top * inner;
        const global double* b_from = b + left;
        double sum[M][N][4], a_part[M][4], b_part[2][N][2];
#pragma unroll
        for (uint i = 0; i < M * N * 4; i++) sum[i / 4 / N][i / 4 % N][i % 4] = 0;
#if AHEAD
        // two stages do not cover the latency of memory: lines are prefetched into the second level AHEAD slabs before they are
        // copied
        const global double* line[PREFETCHES];
        size_t step[PREFETCHES];
#pragma unroll
        for (uint i = 0; i < PREFETCHES; i++) {
            const uint at = min(id + i * GROUP_SIZE, (uint)LINES - 1), of_b = at - TILE_ROWS;
            line[i] = at < TILE_ROWS ? a_from + at * inner
                                     : b_from + of_b / (TILE_COLUMNS / 16) * stride + of_b % (TILE_COLUMNS / 16) * 16;
            step[i] = at < TILE_ROWS ? DEPTH : DEPTH * stride;
            for (uint s = 0; s < STAGES + AHEAD && s * DEPTH < inner; s++) {
                prefetch_line(line[i]);
                line[i] += step[i];
            }
        }
#endif
#pragma unroll
        for (uint s = 0; s < STAGES; s++) {
            if (s * DEPTH < inner) load_slab_async(to + s * SLAB * DOUBLE_SIZE, a_from, b_from, id, inner, stride);
            END_SLAB();
            a_from += DEPTH;
            b_from += DEPTH * stride;
        }
        WAIT_SLABS(STAGES - 1);
        barrier(CLK_LOCAL_MEM_FENCE);
        load_fragment_a(a_part, 0, low, high);
        load_fragment_b(b_part[0], even, odd);
        uint stage = 0;
#pragma unroll 1
        for (uint k = 0; k < inner; k += 2 * DEPTH) {
#pragma unroll
            for (uint turn = 0; turn < 2; turn++) {  // operands of B alternate between two sets of registers
                load_fragment_a(a_part, M / 2, low + stage * SLAB, high + stage * SLAB);
                mbarrier_arrive(mbarrier, lane);
                multiply_add_fragments(sum, 0, a_part, b_part[turn], operands, id);
                mbarrier_wait(mbarrier, phase++ & 1);  // all have read this slab, and the next one is complete
                if (k + (turn + STAGES) * DEPTH < inner)
                    load_slab_async(to + stage * SLAB * DOUBLE_SIZE, a_from, b_from, id, inner, stride);
                END_SLAB();
                a_from += DEPTH;
                b_from += DEPTH * stride;
#if AHEAD
#pragma unroll
                for (uint i = 0; i < PREFETCHES; i++) {
                    if (k + (turn + STAGES + AHEAD) * DEPTH < inner) prefetch_line(line[i]);
                    line[i] += step[i];
                }
#endif
                stage = stage + 1 == STAGES ? 0 : stage + 1;
                load_fragment_a(a_part, 0, low + stage * SLAB, high + stage * SLAB);
                load_fragment_b(b_part[turn ^ 1], even + stage * SLAB, odd + stage * SLAB);
                multiply_add_fragments(sum, M / 2, a_part, b_part[turn], operands, id);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);  // the next tile starts again at the first stage
        global double2* const to_c = (global double2*)(c + (top + row) * stride + left + column) + t;
#pragma unroll
        for (uint i = 0; i < M; i++)
#pragma unroll
            for (uint e = 0; e < 2; e++)
#pragma unroll
                for (uint j = 0; j < N; j++)
                    to_c[(16 * i + 8 * e) * (stride / 2) + 4 * j] = (double2)(sum[i][j][2 * e], sum[i][j][2 * e + 1]);
    }
}
