// Cost of divergence. Which of two branches a work-item takes depends on its number: `span` neighbours take the same branch,
// the next `span` the other. The branches are loops of equally many multiply-adds. Their bounds and constants come at run time,
// so that a compiler can neither merge the loops nor replace them by selections; in the second the chains exchange names, which
// costs nothing. Four independent chains keep a scheduler busy, so a sub-group that takes both branches needs twice the time
// even where a device switches between them.
#include "common.cl"
#define STEP_FIRST     \
    {                  \
        w = w * a + b; \
        x = x * a + b; \
        y = y * a + b; \
        z = z * a + b; \
    }
#define STEP_SECOND          \
    {                        \
        const uint held = w; \
        w = x * c + d;       \
        x = y * c + d;       \
        y = z * c + d;       \
        z = held * c + d;    \
    }

// Each work-item runs 16 x `steps` steps of its branch, and writes a weighted sum of its chains.
FIXED_GROUP_SIZE(GROUP_SIZE, 1, 1)
kernel void diverge(global uint* restrict out, const uint span, const uint a, const uint b, const uint c, const uint d,
                    const uint steps) {
    const uint lid = get_local_id(0);
    uint w = lid * 4 + 1, x = w + 1, y = w + 2, z = w + 3;
    if ((lid / span) & 1) {
        for (uint i = 0; i < steps; i++) {
            REPEAT_16(STEP_SECOND)
        }
    } else {
        for (uint i = 0; i < steps; i++) {
            REPEAT_16(STEP_FIRST)
        }
    }
    out[lid] = w + 3 * x + 5 * y + 7 * z;
}
