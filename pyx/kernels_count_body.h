/* Whether a code occurs, and the probes of memory of the benchmarks. */

/* --- does a code occur at all -------------------------------------------------------------------------------------- */

/* In the even bits: where code 1, 2 or 3 occurred; for code 0, where only others occurred. Three operations each. */
#define I2S_SEEN(a, v, code)                                                                                            \
    ((code) == 3 ? (a) | ((v) & ((v) >> 1)) : (code) == 2 ? (a) | (~(v) & ((v) >> 1)) :                                 \
     (code) == 1 ? (a) | ((v) & ~((v) >> 1)) : (a) & ((v) | ((v) >> 1)))

/* Before a function of plain C is called last: GCC omits this if it knows which registers that function uses. SSE
 * instructions of the thread, also those of Python and NumPy, would take up to three times as long from then on. */
#define I2S_LEAVE() _mm256_zeroupper()

I2S_INLINE int I2S_NAME(scan_with)(const uint8_t *src, int64_t n, int code) {
    const int64_t w = sizeof(I2S_WIDE);
    const uint64_t even = 0x5555555555555555u;
    int64_t i = 0, stop;
    int q;
    while (n - i >= 4 * w) {
        I2S_WIDE a = (I2S_WIDE){0} - (code == 0), b = a, c = a, d = a;
        uint64_t seen = 0;
        stop = n - i > 65536 ? i + 65536 : n;
        for (; i + 4 * w <= stop; i += 4 * w) {
            I2S_WIDE x = *(const I2S_WIDE_LOADED *)(src + i), y = *(const I2S_WIDE_LOADED *)(src + i + w);
            I2S_WIDE z = *(const I2S_WIDE_LOADED *)(src + i + 2 * w), u = *(const I2S_WIDE_LOADED *)(src + i + 3 * w);
            for (q = 0; q < 4 * w; q += 64) I2S_PREFETCH(src + i + q);
            a = I2S_SEEN(a, x, code);
            b = I2S_SEEN(b, y, code);
            c = I2S_SEEN(c, z, code);
            d = I2S_SEEN(d, u, code);
        }
        a = code == 0 ? ~(a & b & c & d) : a | b | c | d;
        for (q = 0; q < (int)(w / 8); q++) seen |= a[q] & even;
        if (seen) {
            I2S_LEAVE();
            return 1;
        }
    }
    I2S_LEAVE();
    return i2s_scan_portable(src + i, n - i, code);
}

static I2S_TARGET int I2S_NAME(i2s_scan)(const uint8_t *src, int64_t n, int code) {
    switch (code) {
    case 0: return I2S_NAME(scan_with)(src, n, 0);
    case 1: return I2S_NAME(scan_with)(src, n, 1);
    case 2: return I2S_NAME(scan_with)(src, n, 2);
    default: return I2S_NAME(scan_with)(src, n, 3);
    }
}

/* The read probe of the benchmarks: the speed of memory with nothing but an OR. */
static I2S_TARGET uint64_t I2S_NAME(i2s_read)(const uint8_t *src, int64_t n) {
    const int64_t w = sizeof(I2S_WIDE);
    I2S_WIDE a = {0}, b = {0}, c = {0}, d = {0};
    int64_t i;
    for (i = 0; i + 4 * w <= n; i += 4 * w) {
        a |= *(const I2S_WIDE_LOADED *)(src + i);
        b |= *(const I2S_WIDE_LOADED *)(src + i + w);
        c |= *(const I2S_WIDE_LOADED *)(src + i + 2 * w);
        d |= *(const I2S_WIDE_LOADED *)(src + i + 3 * w);
    }
    a |= b | c | d;
    const uint64_t found = a[0] | a[1] | a[2] | a[3];
    I2S_LEAVE();
    return found | i2s_read_portable(src + i, n - i);
}

/* The write probe: stores and nothing else. */
static I2S_TARGET void I2S_NAME(i2s_write)(uint8_t *dst, int64_t n) {
    const v32 v = (v32){0} + 1;
    int64_t i;
    for (i = 0; i + 64 <= n; i += 64) {
        I2S_NAME(store)(dst + i, v, I2S_PLAIN);
        I2S_NAME(store)(dst + i + 32, v, I2S_PLAIN);
        __asm__ volatile("" : : : "memory");  /* no call of memset */
    }
    memset(dst + i, 1, (size_t)(n - i));
}

#undef I2S_LEAVE
#undef I2S_SEEN
