// Each work-item sums the forces of all bodies on one; all read the same body at a time.
kernel void nbody(global const float4 *restrict bodies, global float4 *restrict forces, const int n)
{
    const size_t i = get_global_id(0);
    const float4 me = bodies[i];
    float4 force = 0;
    for (int j = 0; j < n; j++) {
        const float4 apart = bodies[j] - me;
        const float distance2 = apart.x * apart.x + apart.y * apart.y + apart.z * apart.z + 0.01f;
        const float inverse = native_rsqrt(distance2);
        force += apart * (bodies[j].w * inverse * inverse * inverse);
    }
    forces[i] = force;
}
