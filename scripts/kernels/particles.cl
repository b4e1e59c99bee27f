// Each work-item moves one particle, a structure of 8 floats, by its velocity.
typedef struct {
    float x, y, z, mass, vx, vy, vz, charge;
} particle;

kernel void particles(global particle *restrict all, const float dt)
{
    const size_t i = get_global_id(0);
    all[i].x += dt * all[i].vx;
    all[i].y += dt * all[i].vy;
    all[i].z += dt * all[i].vz;
}
