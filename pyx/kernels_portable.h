/* The portable kernels: plain C for every compiler and processor, in loops that compilers vectorise: one simple thing at a
 * time to a tile of memory that stays in the nearest cache, `restrict` where pointers are apart, constants where the common
 * layouts have them. What the parameters mean is said in kernels_body.h; `stream` means nothing here. */

#define I2S_TILE 4096

#if defined(__GNUC__) || defined(_MSC_VER)
#define I2S_RESTRICT __restrict
#else
#define I2S_RESTRICT restrict
#endif

static inline uint64_t i2s_word(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static inline void i2s_put(uint8_t *p, uint64_t v) { memcpy(p, &v, 8); }

static inline int64_t i2s_least(int64_t a, int64_t b) { return a < b ? a : b; }

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

/* Whether a byte, `judge` added, is above the bound: no trit, or no code. Four pieces at once: a maximum takes its time. */
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

/* Four neighbours; the largest byte, `judge` added, is given back, because to get at them takes longer than to look. */
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

/* --- payload to payload -------------------------------------------------------------------------------------------- */

/* Another code for each code, on packed bytes: the two bits of the new code are polynomials over the bits of the old one,
 * each c0 ^ c1 hi ^ c2 lo ^ c3 hi lo; remap has the coefficients of the high and then the low bit, as bytes 0x00 or 0x55.
 * n is a multiple of 8. */
static void i2s_remap_portable(uint8_t *data, int64_t n, const uint8_t *remap) {
    const uint64_t even = 0x5555555555555555u;
    const int64_t words = n / 8;
    uint64_t c[8];
    int64_t j;
    int q;
    for (q = 0; q < 8; q++) c[q] = remap[q] * (uint64_t)0x0101010101010101u;
    for (j = 0; j < words; j++) {
        const uint64_t v = i2s_word(data + 8 * j), hi = (v >> 1) & even;  /* odd bits of v do no harm: coefficients have none */
        const uint64_t h = c[0] ^ (v & c[2]) ^ (hi & (c[1] ^ (v & c[3])));
        const uint64_t l = c[4] ^ (v & c[6]) ^ (hi & (c[5] ^ (v & c[7])));
        i2s_put(data + 8 * j, h << 1 | l);
    }
}

/* Four arrays of n units, put side by side a unit at a time, and the way back. */
#define I2S_DEAL_OF(unit)                                                                                               \
    static void i2s_deal_##unit(const uint8_t *I2S_RESTRICT src, int64_t n, uint8_t *I2S_RESTRICT a,                    \
                                uint8_t *I2S_RESTRICT b, uint8_t *I2S_RESTRICT c, uint8_t *I2S_RESTRICT d) {            \
        int64_t j;                                                                                                      \
        for (j = 0; j < n; j++) {                                                                                       \
            memcpy(a + unit * j, src + unit * 4 * j, unit);                                                             \
            memcpy(b + unit * j, src + unit * (4 * j + 1), unit);                                                       \
            memcpy(c + unit * j, src + unit * (4 * j + 2), unit);                                                       \
            memcpy(d + unit * j, src + unit * (4 * j + 3), unit);                                                       \
        }                                                                                                               \
    }                                                                                                                   \
    static void i2s_undeal_##unit(const uint8_t *I2S_RESTRICT a, const uint8_t *I2S_RESTRICT b,                         \
                                  const uint8_t *I2S_RESTRICT c, const uint8_t *I2S_RESTRICT d, int64_t n,              \
                                  uint8_t *I2S_RESTRICT dst) {                                                          \
        int64_t j;                                                                                                      \
        for (j = 0; j < n; j++) {                                                                                       \
            memcpy(dst + unit * 4 * j, a + unit * j, unit);                                                             \
            memcpy(dst + unit * (4 * j + 1), b + unit * j, unit);                                                       \
            memcpy(dst + unit * (4 * j + 2), c + unit * j, unit);                                                       \
            memcpy(dst + unit * (4 * j + 3), d + unit * j, unit);                                                       \
        }                                                                                                               \
    }
I2S_DEAL_OF(1)
I2S_DEAL_OF(4)
I2S_DEAL_OF(8)
I2S_DEAL_OF(16)
I2S_DEAL_OF(32)

/* Field p of array q becomes field q of array p; the first field is in the top bits. Arrays are of n words of 8 bytes. */
static void i2s_transpose(const uint8_t *I2S_RESTRICT a, const uint8_t *I2S_RESTRICT b, const uint8_t *I2S_RESTRICT c,
                          const uint8_t *I2S_RESTRICT d, int64_t n, uint8_t *I2S_RESTRICT e, uint8_t *I2S_RESTRICT f,
                          uint8_t *I2S_RESTRICT g, uint8_t *I2S_RESTRICT h) {
    const uint64_t pairs = 0x3333333333333333u, nibbles = 0x0F0F0F0F0F0F0F0Fu;
    int64_t j;
    for (j = 0; j < n; j++) {
        uint64_t x = i2s_word(a + 8 * j), y = i2s_word(b + 8 * j), z = i2s_word(c + 8 * j), w = i2s_word(d + 8 * j), t;
        /* exchange fields 1 and 3 of the even arrays with fields 0 and 2 of the odd ones */
        t = (x ^ (y >> 2)) & pairs; x ^= t; y ^= t << 2;
        t = (z ^ (w >> 2)) & pairs; z ^= t; w ^= t << 2;
        /* exchange the low nibbles of the first two with the high nibbles of the last two */
        t = (x ^ (z >> 4)) & nibbles; x ^= t; z ^= t << 4;
        t = (y ^ (w >> 4)) & nibbles; y ^= t; w ^= t << 4;
        i2s_put(e + 8 * j, x);
        i2s_put(f + 8 * j, y);
        i2s_put(g + 8 * j, z);
        i2s_put(h + 8 * j, w);
    }
}

/* Four arrays in a tile, and in the order in which a layout has them in its bytes. */
typedef struct { uint8_t bytes[4][I2S_TILE / 4]; } i2s_quarters;

static void i2s_128_to_64(const uint8_t *I2S_RESTRICT src, int64_t blocks, uint8_t *I2S_RESTRICT dst) {
    int64_t b;
    int j;
    for (b = 0; b < blocks; b++, src += 32, dst += 32)
        for (j = 0; j < 16; j++) {
            const uint8_t x = src[j], y = src[16 + j];
            dst[j] = (uint8_t)((x & 0xC0) | ((y & 0xC0) >> 2) | ((x & 0x30) >> 2) | ((y & 0x30) >> 4));
            dst[16 + j] = (uint8_t)(((x & 0x0C) << 4) | ((y & 0x0C) << 2) | ((x & 3) << 2) | (y & 3));
        }
}

static void i2s_64_to_128(const uint8_t *I2S_RESTRICT src, int64_t blocks, uint8_t *I2S_RESTRICT dst) {
    int64_t b;
    int j;
    for (b = 0; b < blocks; b++, src += 32, dst += 32)
        for (j = 0; j < 16; j++) {
            const uint8_t x = src[j], y = src[16 + j];
            dst[j] = (uint8_t)((x & 0xC0) | ((x & 0x0C) << 2) | ((y & 0xC0) >> 4) | ((y & 0x0C) >> 2));
            dst[16 + j] = (uint8_t)(((x & 0x30) << 2) | ((x & 3) << 4) | ((y & 0x30) >> 2) | (y & 3));
        }
}

static void i2s_reverse(const uint8_t *I2S_RESTRICT src, int64_t n, uint8_t *I2S_RESTRICT dst) {
    int64_t j;
    for (j = 0; j < n; j++)
        dst[j] = (uint8_t)(src[j] << 6 | (src[j] & 0x0C) << 2 | (src[j] & 0x30) >> 2 | src[j] >> 6);
}

/* One tile. In a sequential block of 128 elements, word q of 8 bytes has the elements that field q has in interleave-128,
 * four neighbours to a byte: words are dealt by number, fields are transposed, bytes are put side by side. With
 * interleave-64 it is 4 bytes of a block of 64. */
static void i2s_convert_portable(const uint8_t *src, int64_t blocks, int from, int to, uint8_t *dst) {
    const int64_t n = 8 * blocks;
    i2s_quarters x, y;
    uint8_t *in[4], *out[4];
    int p;
    if (n < 8) return;
    for (p = 0; p < 4; p++) {
        in[p] = x.bytes[to == I2S_KIND_LSB ? 3 - p : p];
        out[p] = y.bytes[from == I2S_KIND_LSB ? 3 - p : p];
    }
    if (from == I2S_KIND_128 && to == I2S_KIND_64) {
        i2s_128_to_64(src, blocks, dst);
    } else if (from == I2S_KIND_64 && to == I2S_KIND_128) {
        i2s_64_to_128(src, blocks, dst);
    } else if (from >= I2S_KIND_MSB && to >= I2S_KIND_MSB) {
        i2s_reverse(src, 32 * blocks, dst);
    } else if (from >= I2S_KIND_MSB) {
        if (to == I2S_KIND_128) i2s_deal_8(src, n / 8, in[0], in[1], in[2], in[3]);
        else i2s_deal_4(src, n / 4, in[0], in[1], in[2], in[3]);
        i2s_transpose(x.bytes[0], x.bytes[1], x.bytes[2], x.bytes[3], blocks, y.bytes[0], y.bytes[1], y.bytes[2], y.bytes[3]);
        i2s_undeal_1(out[0], out[1], out[2], out[3], n, dst);
    } else {
        i2s_deal_1(src, n, in[0], in[1], in[2], in[3]);
        i2s_transpose(x.bytes[0], x.bytes[1], x.bytes[2], x.bytes[3], blocks, y.bytes[0], y.bytes[1], y.bytes[2], y.bytes[3]);
        if (from == I2S_KIND_128) i2s_undeal_8(out[0], out[1], out[2], out[3], n / 8, dst);
        else i2s_undeal_4(out[0], out[1], out[2], out[3], n / 4, dst);
    }
}

static void i2s_blocks_portable(const uint8_t *src, int64_t blocks, int from, int to, const uint8_t *remap, uint8_t *dst,
                                int stream) {
    int64_t b, part;
    (void)stream;
    for (b = 0; b < blocks; b += part) {
        part = i2s_least(blocks - b, I2S_TILE / 32);
        if (from != to) i2s_convert_portable(src + 32 * b, part, from, to, dst + 32 * b);
        else memcpy(dst + 32 * b, src + 32 * b, (size_t)(32 * part));
        if (remap != NULL) i2s_remap_portable(dst + 32 * b, 32 * part, remap);
    }
}

/* Columns of four rows that share bytes are dealt as the rows' layout has them in its bytes; then fields are transposed. */
static void i2s_to_rows_portable(const uint8_t *src, int64_t first, int64_t last, int64_t cols, int64_t step, int lsb,
                                 int to, const uint8_t *remap, uint8_t *dst, int stream) {
    i2s_quarters x;
    uint8_t *in[4], *rows[4];
    int64_t i, c, part;
    int p;
    (void)stream;
    for (p = 0; p < 4; p++) in[p] = x.bytes[to == I2S_KIND_LSB ? 3 - p : p];
    for (i = first; i < last; i++)
        for (c = 0; c < cols; c += part) {
            const uint8_t *planes = src + i * cols + c;
            part = i2s_least(cols - c, I2S_TILE);
            for (p = 0; p < 4; p++)
                rows[lsb ? 3 - p : p] = dst + ((step == 1 ? 4 * i : i) + p * step) * (cols / 4) + c / 4;
            if (to == I2S_KIND_128) i2s_deal_32(planes, part / 128, in[0], in[1], in[2], in[3]);
            else if (to == I2S_KIND_64) i2s_deal_16(planes, part / 64, in[0], in[1], in[2], in[3]);
            else i2s_deal_1(planes, part / 4, in[0], in[1], in[2], in[3]);
            i2s_transpose(x.bytes[0], x.bytes[1], x.bytes[2], x.bytes[3], part / 32, rows[0], rows[1], rows[2], rows[3]);
            if (remap != NULL)
                for (p = 0; p < 4; p++) i2s_remap_portable(rows[p], part / 4, remap);
        }
}

static void i2s_of_rows_portable(const uint8_t *src, int64_t first, int64_t last, int64_t cols, int64_t step, int lsb,
                                 int from, const uint8_t *remap, uint8_t *dst, int stream) {
    i2s_quarters x;
    uint8_t *out[4];
    const uint8_t *rows[4];
    int64_t i, c, part;
    int p;
    (void)stream;
    for (p = 0; p < 4; p++) out[p] = x.bytes[from == I2S_KIND_LSB ? 3 - p : p];
    for (i = first; i < last; i++)
        for (c = 0; c < cols; c += part) {
            uint8_t *planes = dst + i * cols + c;
            part = i2s_least(cols - c, I2S_TILE);
            for (p = 0; p < 4; p++)
                rows[lsb ? 3 - p : p] = src + ((step == 1 ? 4 * i : i) + p * step) * (cols / 4) + c / 4;
            i2s_transpose(rows[0], rows[1], rows[2], rows[3], part / 32, x.bytes[0], x.bytes[1], x.bytes[2], x.bytes[3]);
            if (from == I2S_KIND_128) i2s_undeal_32(out[0], out[1], out[2], out[3], part / 128, planes);
            else if (from == I2S_KIND_64) i2s_undeal_16(out[0], out[1], out[2], out[3], part / 64, planes);
            else i2s_undeal_1(out[0], out[1], out[2], out[3], part / 4, planes);
            if (remap != NULL) i2s_remap_portable(planes, part, remap);
        }
}

/* --- counting ------------------------------------------------------------------------------------------------------ */

/* Words side by side in several lanes: a compiler makes vectors of them, and an operation may take two cycles. */
enum { I2S_LANES = 8 };

static int i2s_scan_portable(const uint8_t *src, int64_t n, int code) {
    const uint64_t low = code & 1 ? 0 : ~(uint64_t)0, high = code & 2 ? 0 : ~(uint64_t)0, even = 0x5555555555555555u;
    int64_t rows, k;
    int q;
    for (; n >= 8 * I2S_LANES; n -= 8 * I2S_LANES * rows, src += 8 * I2S_LANES * rows) {
        uint64_t seen[I2S_LANES] = {0}, any = 0;
        rows = i2s_least(n / (8 * I2S_LANES), 1024);
        for (k = 0; k < rows; k++)
            for (q = 0; q < I2S_LANES; q++) {
                const uint64_t v = i2s_word(src + 8 * (I2S_LANES * k + q));
                seen[q] |= (v ^ low) & ((v >> 1) ^ high);
            }
        for (q = 0; q < I2S_LANES; q++) any |= seen[q] & even;
        if (any) return 1;
    }
    for (k = 0; k < n; k++)
        if (((src[k] ^ low) & ((src[k] >> 1) ^ high) & 0x55) != 0) return 1;
    return 0;
}

/* Three words to the counts, 2 bits wide, of their low bits, of their high bits, and of the fields that have both. */
static inline void i2s_count_three(const uint8_t *src, int64_t apart, uint64_t count[3]) {
    const uint64_t even = 0x5555555555555555u;
    const uint64_t u = i2s_word(src), v = i2s_word(src + apart), w = i2s_word(src + 2 * apart);
    const uint64_t x = (u >> 1) & even, y = (v >> 1) & even, z = (w >> 1) & even;
    count[0] = (u & even) + (v & even) + (w & even);
    count[1] = x + y + z;
    count[2] = (x & u) + (y & v) + (z & w);
}

/* Two such counts to bytes; the sum of ten is still one byte. */
static inline uint64_t i2s_count_six(uint64_t a, uint64_t b) {
    const uint64_t pairs = 0x3333333333333333u, nibbles = 0x0F0F0F0F0F0F0F0Fu;
    const uint64_t sum = (a & pairs) + ((a >> 2) & pairs) + (b & pairs) + ((b >> 2) & pairs);
    return (sum & nibbles) + ((sum >> 4) & nibbles);
}

/* Counters 2 bits wide are added up to 4 bits, these to bytes, these to words of 16 bits, each before it could overflow. */
enum { I2S_SIX = 6 * 8 * I2S_LANES, I2S_STEP = 10 * I2S_SIX };

static void i2s_count_steps(const uint8_t *src, int64_t steps, uint64_t sum[3]) {
    const uint64_t bytes = 0x00FF00FF00FF00FFu;
    uint64_t wide[3][I2S_LANES] = {{0}};
    int64_t s;
    int i, k, q;
    for (s = 0; s < steps; s++) {  /* at most 100 of at most 480 to a word of 16 bits */
        uint64_t narrow[3][I2S_LANES] = {{0}};
        for (i = 0; i < 10; i++, src += I2S_SIX)
            for (k = 0; k < I2S_LANES; k++) {
                uint64_t a[3], b[3];
                i2s_count_three(src + 8 * k, 8 * I2S_LANES, a);
                i2s_count_three(src + 8 * k + 24 * I2S_LANES, 8 * I2S_LANES, b);
                narrow[0][k] += i2s_count_six(a[0], b[0]);
                narrow[1][k] += i2s_count_six(a[1], b[1]);
                narrow[2][k] += i2s_count_six(a[2], b[2]);
            }
        for (q = 0; q < 3; q++)
            for (k = 0; k < I2S_LANES; k++) wide[q][k] += (narrow[q][k] & bytes) + ((narrow[q][k] >> 8) & bytes);
    }
    for (q = 0; q < 3; q++)
        for (k = 0; k < I2S_LANES; k++)
            for (i = 0; i < 64; i += 16) sum[q] += (wide[q][k] >> i) & 0xFFFF;
}

static inline unsigned i2s_popcount(uint64_t x) {
    x = x - ((x >> 1) & 0x5555555555555555u);
    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (unsigned)((x * 0x0101010101010101u) >> 56);
}

static void i2s_histogram_portable(const uint8_t *src, int64_t n, uint64_t count[4]) {
    const uint64_t even = 0x5555555555555555u;
    uint64_t sum[3] = {0, 0, 0};  /* of low bits, high bits, both in one code */
    int64_t i = 0, steps;
    while ((steps = i2s_least((n - i) / I2S_STEP, 100)) > 0) {
        i2s_count_steps(src + i, steps, sum);
        i += steps * I2S_STEP;
    }
    while (i < n) {
        uint64_t v = 0;
        const int64_t part = i2s_least(n - i, 8);
        memcpy(&v, src + i, (size_t)part);
        sum[0] += i2s_popcount(v & even);
        sum[1] += i2s_popcount((v >> 1) & even);
        sum[2] += i2s_popcount(v & (v >> 1) & even);
        i += part;
    }
    count[1] = sum[0] - sum[2];
    count[2] = sum[1] - sum[2];
    count[3] = sum[2];
    count[0] = 4 * (uint64_t)n - count[1] - count[2] - count[3];
}

/* The read probe of the benchmarks: what memory gives when nothing but an OR is done with it. */
static uint64_t i2s_read_portable(const uint8_t *src, int64_t n) {
    const int64_t rows = n / (8 * I2S_LANES);
    uint64_t seen[I2S_LANES] = {0};
    int64_t k;
    int q;
    for (k = 0; k < rows; k++)
        for (q = 0; q < I2S_LANES; q++) seen[q] |= i2s_word(src + 8 * (I2S_LANES * k + q));
    for (q = 1; q < I2S_LANES; q++) seen[0] |= seen[q];
    for (k *= 8 * I2S_LANES; k < n; k++) seen[0] |= src[k];
    return seen[0];
}

static void i2s_write_portable(uint8_t *dst, int64_t n) { memset(dst, 1, (size_t)n); }
