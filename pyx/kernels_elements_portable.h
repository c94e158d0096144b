/* Between a payload and its elements, in plain C: one byte each, or a float each. */

/* --- payload to one byte an element -------------------------------------------------------------------------------- */

/* A field is read as (code ^ flip) - less: every map but zero-first is of this form. */
#define I2S_READ(v, shift) (uint8_t)(((((v) >> (shift)) & 3) ^ flip) - less)

static void i2s_fields(const uint8_t *I2S_RESTRICT src, int64_t n, uint8_t flip, uint8_t less, uint8_t *I2S_RESTRICT a,
                       uint8_t *I2S_RESTRICT b, uint8_t *I2S_RESTRICT c, uint8_t *I2S_RESTRICT d) {
    int64_t j;
    for (j = 0; j < n; j++) {
        a[j] = I2S_READ(src[j], 6);
        b[j] = I2S_READ(src[j], 4);
        c[j] = I2S_READ(src[j], 2);
        d[j] = I2S_READ(src[j], 0);
    }
}

#define I2S_FIELDS_OF(group)                                                                                            \
    static void i2s_fields_##group(const uint8_t *I2S_RESTRICT src, int64_t blocks, uint8_t flip, uint8_t less,         \
                                   uint8_t *I2S_RESTRICT dst) {                                                         \
        int64_t b;                                                                                                      \
        int j;                                                                                                          \
        for (b = 0; b < blocks; b++, src += group, dst += 4 * group)                                                    \
            for (j = 0; j < group; j++) {                                                                               \
                dst[j] = I2S_READ(src[j], 6);                                                                           \
                dst[j + group] = I2S_READ(src[j], 4);                                                                   \
                dst[j + 2 * group] = I2S_READ(src[j], 2);                                                               \
                dst[j + 3 * group] = I2S_READ(src[j], 0);                                                               \
            }                                                                                                           \
    }
I2S_FIELDS_OF(32)
I2S_FIELDS_OF(16)

static void i2s_fields_msb(const uint8_t *I2S_RESTRICT src, int64_t n, uint8_t flip, uint8_t less,
                           uint8_t *I2S_RESTRICT dst) {
    int64_t j;
    for (j = 0; j < n; j++) {
        dst[4 * j] = I2S_READ(src[j], 6);
        dst[4 * j + 1] = I2S_READ(src[j], 4);
        dst[4 * j + 2] = I2S_READ(src[j], 2);
        dst[4 * j + 3] = I2S_READ(src[j], 0);
    }
}

static void i2s_fields_lsb(const uint8_t *I2S_RESTRICT src, int64_t n, uint8_t flip, uint8_t less,
                           uint8_t *I2S_RESTRICT dst) {
    int64_t j;
    for (j = 0; j < n; j++) {
        dst[4 * j] = I2S_READ(src[j], 0);
        dst[4 * j + 1] = I2S_READ(src[j], 2);
        dst[4 * j + 2] = I2S_READ(src[j], 4);
        dst[4 * j + 3] = I2S_READ(src[j], 6);
    }
}

static void i2s_zero_first(uint8_t *codes, int64_t n) {
    int64_t j;
    for (j = 0; j < n; j++) codes[j] = (uint8_t)((codes[j] & 1) - (codes[j] >> 1));
}

static void i2s_unpack_portable(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, uint8_t *dst,
                                int stream) {
    const uint8_t flip = map == I2S_TWOS_COMPLEMENT ? 2 : 0;
    const uint8_t less = map == I2S_OFFSET_1 ? 1 : map == I2S_OFFSET_2 || map == I2S_TWOS_COMPLEMENT ? 2 : 0;
    const int64_t last = lsb ? 0 : 3 * group, step = lsb ? -group : group;
    int64_t b;
    (void)stream;
    if (group == 1 && lsb) i2s_fields_lsb(src, blocks, flip, less, dst);
    else if (group == 1) i2s_fields_msb(src, blocks, flip, less, dst);
    else if (group == 16 && !lsb) i2s_fields_16(src, blocks, flip, less, dst);
    else if (group == 32 && !lsb) i2s_fields_32(src, blocks, flip, less, dst);
    else
        for (b = 0; b < blocks; b++) {
            uint8_t *d = dst + 4 * b * group + last;
            i2s_fields(src + b * group, group, flip, less, d - 3 * step, d - 2 * step, d - step, d);
        }
    if (map == I2S_ZERO_FIRST) i2s_zero_first(dst, 4 * blocks * group);
}

/* --- one byte an element to payload -------------------------------------------------------------------------------- */

/* Whether a byte plus `judge` is above the bound: not a trit, or not a code. Four pieces at once: a maximum is slow. */
static int i2s_unsound(const uint8_t *a, const uint8_t *b, const uint8_t *c, const uint8_t *d, int64_t n, uint8_t judge,
                       uint8_t bound) {
    uint8_t worst = 0;
    int64_t j;
    for (j = 0; j < n; j++) {
        const uint8_t w = (uint8_t)(a[j] + judge), x = (uint8_t)(b[j] + judge);
        const uint8_t y = (uint8_t)(c[j] + judge), z = (uint8_t)(d[j] + judge);
        const uint8_t p = w > x ? w : x, q = y > z ? y : z, r = p > q ? p : q;
        worst = r > worst ? r : worst;
    }
    return worst > bound;
}

/* Multiplications and sums, because no processor shifts bytes. */
#define I2S_WRITTEN(a, b, c, d, more)                                                                                   \
    (uint8_t)(((((uint8_t)((a) + more) * 4 + (((b) + more) & 3)) * 4) + (((c) + more) & 3)) * 4 + (((d) + more) & 3))

static void i2s_join(const uint8_t *I2S_RESTRICT a, const uint8_t *I2S_RESTRICT b, const uint8_t *I2S_RESTRICT c,
                     const uint8_t *I2S_RESTRICT d, int64_t n, uint8_t more, uint8_t *I2S_RESTRICT dst) {
    int64_t j;
    for (j = 0; j < n; j++) dst[j] = I2S_WRITTEN(a[j], b[j], c[j], d[j], more);
}

#define I2S_JOIN_OF(group)                                                                                              \
    static void i2s_join_##group(const uint8_t *I2S_RESTRICT src, int64_t blocks, uint8_t more,                         \
                                 uint8_t *I2S_RESTRICT dst) {                                                           \
        int64_t b;                                                                                                      \
        int j;                                                                                                          \
        for (b = 0; b < blocks; b++, src += 4 * group, dst += group)                                                    \
            for (j = 0; j < group; j++)                                                                                 \
                dst[j] = I2S_WRITTEN(src[j], src[j + group], src[j + 2 * group], src[j + 3 * group], more);             \
    }
I2S_JOIN_OF(32)
I2S_JOIN_OF(16)

/* Four neighboring elements; returns the largest byte plus `judge`, since extracting the bytes takes longer than
 * comparing. */
#define I2S_NEIGHBOURS(name, first, second, third, fourth)                                                              \
    static uint8_t i2s_join_##name(const uint8_t *I2S_RESTRICT src, int64_t n, uint8_t more, uint8_t judge,             \
                                   uint8_t *I2S_RESTRICT dst) {                                                         \
        const uint8_t rest = (uint8_t)(more - judge);                                                                   \
        uint8_t worst = 0;                                                                                              \
        int64_t j;                                                                                                      \
        for (j = 0; j < n; j++) {                                                                                       \
            const uint8_t a = (uint8_t)(src[4 * j + first] + judge), b = (uint8_t)(src[4 * j + second] + judge);        \
            const uint8_t c = (uint8_t)(src[4 * j + third] + judge), d = (uint8_t)(src[4 * j + fourth] + judge);        \
            const uint8_t p = a > b ? a : b, q = c > d ? c : d, r = p > q ? p : q;                                      \
            worst = r > worst ? r : worst;                                                                              \
            dst[j] = I2S_WRITTEN(a, b, c, d, rest);                                                                     \
        }                                                                                                               \
        return worst;                                                                                                   \
    }
I2S_NEIGHBOURS(msb, 0, 1, 2, 3)
I2S_NEIGHBOURS(lsb, 3, 2, 1, 0)

/* zero-first from twos-complement: 3 becomes 2. */
static void i2s_two_for_three(uint8_t *packed, int64_t n) {
    int64_t j;
    for (j = 0; j < n; j++) packed[j] ^= (packed[j] >> 1) & 0x55;
}

static int i2s_pack_portable(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, uint8_t *dst, int stream) {
    const uint8_t more = map == I2S_OFFSET_1 ? 1 : map == I2S_OFFSET_2 ? 2 : 0;
    const uint8_t judge = map != I2S_CODES, bound = map == I2S_CODES ? 3 : 2;
    const int64_t last = lsb ? 0 : 3 * group, step = lsb ? -group : group;
    int64_t b, j, k, part;
    int bad = 0;
    (void)stream;
    if (group > I2S_TILE) {
        for (b = 0; b < blocks; b++)
            for (j = 0; j < group; j += part) {
                const uint8_t *s = src + 4 * b * group + j;
                uint8_t *d = dst + b * group + j;
                part = i2s_least(group - j, I2S_TILE);
                bad |= i2s_unsound(s, s + group, s + 2 * group, s + 3 * group, part, judge, bound);
                s += last;
                i2s_join(s - 3 * step, s - 2 * step, s - step, s, part, more, d);
                if (map == I2S_ZERO_FIRST) i2s_two_for_three(d, part);
            }
        return bad;
    }
    for (b = 0; b < blocks; b += part) {
        const uint8_t *s = src + 4 * b * group;
        uint8_t *d = dst + b * group;
        part = i2s_least(blocks - b, I2S_TILE / group);
        k = part * group;
        if (group != 1) bad |= i2s_unsound(s, s + k, s + 2 * k, s + 3 * k, k, judge, bound);
        if (group == 1 && lsb) bad |= i2s_join_lsb(s, part, more, judge, d) > bound;
        else if (group == 1) bad |= i2s_join_msb(s, part, more, judge, d) > bound;
        else if (group == 16 && !lsb) i2s_join_16(s, part, more, d);
        else if (group == 32 && !lsb) i2s_join_32(s, part, more, d);
        else
            for (k = 0; k < part; k++) {
                const uint8_t *t = s + 4 * k * group + last;
                i2s_join(t - 3 * step, t - 2 * step, t - step, t, group, more, d + k * group);
            }
        if (map == I2S_ZERO_FIRST) i2s_two_for_three(d, part * group);
    }
    return bad;
}

/* --- payload to float32 -------------------------------------------------------------------------------------------- */

static void i2s_scaled(const int8_t *I2S_RESTRICT trits, int64_t n, float scale, float *I2S_RESTRICT dst) {
    int64_t j;
    for (j = 0; j < n; j++) dst[j] = (float)trits[j] * scale;
}

static void i2s_floats_portable(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, float scale,
                                float *dst, int stream) {
    uint8_t trits[4 * I2S_TILE];
    int64_t b, j, p, part;
    (void)stream;
    if (group <= I2S_TILE) {
        for (b = 0; b < blocks; b += part) {
            part = i2s_least(blocks - b, I2S_TILE / group);
            i2s_unpack_portable(src + b * group, part, group, lsb, map, trits, 0);
            i2s_scaled((const int8_t *)trits, 4 * part * group, scale, dst + 4 * b * group);
        }
        return;
    }
    for (b = 0; b < blocks; b++, src += group, dst += 4 * group)
        for (j = 0; j < group; j += part) {
            part = i2s_least(group - j, I2S_TILE);
            i2s_unpack_portable(src + j, 1, part, lsb, map, trits, 0);
            for (p = 0; p < 4; p++) i2s_scaled((const int8_t *)trits + p * part, part, scale, dst + p * group + j);
        }
}
