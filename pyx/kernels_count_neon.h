/* Which codes occur and how often, on AArch64, and the probe of memory of the benchmarks. */

/* --- counting ------------------------------------------------------------------------------------------------------ */

/* In the even bits: where the code occurred; for code 0, where only other codes occurred. */
I2S_INLINE uint8x16_t i2s_neon_seen(uint8x16_t seen, uint8x16_t v, int code) {
    const uint8x16_t high = vshrq_n_u8(v, 1);
    if (code == 0) return vandq_u8(seen, vorrq_u8(v, high));
    return vorrq_u8(seen, code == 3 ? vandq_u8(v, high) : code == 2 ? vbicq_u8(high, v) : vbicq_u8(v, high));
}

I2S_INLINE int i2s_neon_scan(const uint8_t *src, int64_t n, int code) {
    int64_t i = 0, stop;
    while (n - i >= 64) {
        uint8x16_t a = vdupq_n_u8(code == 0 ? 0xFF : 0), b = a, c = a, d = a;
        stop = i + i2s_least(n - i, 65536);
        for (; i + 64 <= stop; i += 64) {
            a = i2s_neon_seen(a, vld1q_u8(src + i), code);
            b = i2s_neon_seen(b, vld1q_u8(src + i + 16), code);
            c = i2s_neon_seen(c, vld1q_u8(src + i + 32), code);
            d = i2s_neon_seen(d, vld1q_u8(src + i + 48), code);
        }
        if (code == 0) a = vmvnq_u8(vandq_u8(vandq_u8(a, b), vandq_u8(c, d)));
        else a = vorrq_u8(vorrq_u8(a, b), vorrq_u8(c, d));
        if (vmaxvq_u8(i2s_neon_bits(a, 0x55))) return 1;
    }
    return i2s_scan_portable(src + i, n - i, code);
}

static int i2s_scan_neon(const uint8_t *src, int64_t n, int code) {
    switch (code) {
    case 0: return i2s_neon_scan(src, n, 0);
    case 1: return i2s_neon_scan(src, n, 1);
    case 2: return i2s_neon_scan(src, n, 2);
    default: return i2s_neon_scan(src, n, 3);
    }
}

/* Two vectors become one of all their low bits and one of all their high bits, so that no bit of a count is wasted. */
static void i2s_histogram_neon(const uint8_t *src, int64_t n, uint64_t count[4]) {
    const uint8x16_t even = vdupq_n_u8(0x55);
    uint64_t ones = 0, twos = 0, threes = 0;
    int64_t i = 0, stop;
    while (n - i >= 32) {
        uint8x16_t lows = vdupq_n_u8(0), highs = lows, boths = lows;
        stop = i + i2s_least(n - i, 31 * 32);  /* 31 times 8 fits a byte */
        for (; i + 32 <= stop; i += 32) {
            const uint8x16_t v = vld1q_u8(src + i), w = vld1q_u8(src + i + 16);
            const uint8x16_t low = vbslq_u8(even, v, vshlq_n_u8(w, 1)), high = vbslq_u8(even, vshrq_n_u8(v, 1), w);
            lows = vaddq_u8(lows, vcntq_u8(low));
            highs = vaddq_u8(highs, vcntq_u8(high));
            boths = vaddq_u8(boths, vcntq_u8(vandq_u8(low, high)));
        }
        ones += vaddlvq_u8(lows);
        twos += vaddlvq_u8(highs);
        threes += vaddlvq_u8(boths);
    }
    i2s_histogram_portable(src + i, n - i, count);
    count[1] += ones - threes;
    count[2] += twos - threes;
    count[3] += threes;
    count[0] = 4 * (uint64_t)n - count[1] - count[2] - count[3];
}

#define i2s_write_neon i2s_write_portable

/* The read probe of the benchmarks: the speed of memory with nothing but an OR. */
static uint64_t i2s_read_neon(const uint8_t *src, int64_t n) {
    uint8x16_t a = vdupq_n_u8(0), b = a, c = a, d = a;
    int64_t i;
    for (i = 0; i + 64 <= n; i += 64) {
        a = vorrq_u8(a, vld1q_u8(src + i));
        b = vorrq_u8(b, vld1q_u8(src + i + 16));
        c = vorrq_u8(c, vld1q_u8(src + i + 32));
        d = vorrq_u8(d, vld1q_u8(src + i + 48));
    }
    a = vorrq_u8(vorrq_u8(a, b), vorrq_u8(c, d));
    return vgetq_lane_u64(vreinterpretq_u64_u8(a), 0) | vgetq_lane_u64(vreinterpretq_u64_u8(a), 1) |
           i2s_read_portable(src + i, n - i);
}
