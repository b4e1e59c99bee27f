// Each work-item prices a call and a put by the formula of Black and Scholes.
float normal(const float x)
{
    return 0.5f + 0.5f * erf(x * 0.70710678f);
}

kernel void options(
    global const float *restrict price, global const float *restrict strike, global float *restrict calls,
    global float *restrict puts)
{
    const size_t i = get_global_id(0);
    const float s = 10 + 20 * price[i], k = 10 + 20 * strike[i], rate = 0.02f, deviation = 0.3f;
    const float up = (log(s / k) + rate + 0.5f * deviation * deviation) / deviation, down = up - deviation;
    const float call = s * normal(up) - k * exp(-rate) * normal(down);
    calls[i] = call;
    puts[i] = call + k * exp(-rate) - s;
}
