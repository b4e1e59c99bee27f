// One work-item goes one of two ways, chosen by its number: `span` neighbours go the same way, the next `span` the other one. The
// ways are loops of as many multiply-adds, whose bounds and constants come at run time, so that no compiler makes one of both or
// turns them into selections; in the second one the chains change places, which costs nothing. Four chains that do not wait for
// each other keep a scheduler busy by themselves: a sub-group that goes both ways takes twice as long even where a device
// switches between them.
#define FORTH           \
    {                   \
        w = w * a + b;  \
        x = x * a + b;  \
        y = y * a + b;  \
        z = z * a + b;  \
    }
#define TURNING                   \
    {                             \
        const uint held = w;      \
        w = x * c + d;            \
        x = y * c + d;            \
        y = z * c + d;            \
        z = held * c + d;         \
    }
#define FOUR(what) what what what what

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void diverge(global uint* restrict out, const uint span, const uint a, const uint b, const uint c, const uint d,
             const uint steps) {
    const uint lid = get_local_id(0);
    uint w = lid * 4 + 1, x = w + 1, y = w + 2, z = w + 3;
    if ((lid / span) & 1) {
        for (uint i = 0; i < steps; i++) {
            FOUR(FOUR(TURNING))
        }
    } else {
        for (uint i = 0; i < steps; i++) {
            FOUR(FOUR(FORTH))
        }
    }
    out[lid] = w + 3 * x + 5 * y + 7 * z;
}
