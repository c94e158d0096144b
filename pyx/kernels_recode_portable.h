/* From a payload to one in another layout or with other codes, in plain C. */

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
        const uint64_t v = i2s_word(data + 8 * j), hi = (v >> 1) & even;  /* odd bits of v do not matter: coefficients have none */
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

/* Four arrays in a tile, in the order in which a layout stores them. */
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

/* One tile. In a sequential block of 128 elements, word q of 8 bytes has the elements of field q in interleave-128,
 * four neighbors to a byte: words are distributed by number, fields are transposed, bytes are put side by side. With
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

/* Columns of four rows that share bytes are distributed in the order of the rows' layout; then fields are transposed.
 *
 * Pieces of four rows that are consecutive in memory are written (or read, below) one after the other: side by side
 * they are too short for a processor to detect the next lines. */
static void i2s_to_rows_portable(const uint8_t *src, int64_t first, int64_t last, int64_t cols, int64_t step, int lsb,
                                 int to, const uint8_t *remap, uint8_t *dst, int stream) {
    i2s_quarters x, written;
    uint8_t *in[4], *rows[4], *made[4];
    int64_t i, c, part;
    int p;
    (void)stream;
    for (p = 0; p < 4; p++) in[p] = x.bytes[to == I2S_KIND_LSB ? 3 - p : p];
    for (i = first; i < last; i++)
        for (c = 0; c < cols; c += part) {
            const uint8_t *planes = src + i * cols + c;
            part = i2s_least(cols - c, I2S_TILE);
            for (p = 0; p < 4; p++) {
                const int q = lsb ? 3 - p : p;
                rows[q] = dst + ((step == 1 ? 4 * i : i) + p * step) * (cols / 4) + c / 4;
                made[q] = step == 1 ? written.bytes[q] : rows[q];
            }
            if (to == I2S_KIND_128) i2s_deal_32(planes, part / 128, in[0], in[1], in[2], in[3]);
            else if (to == I2S_KIND_64) i2s_deal_16(planes, part / 64, in[0], in[1], in[2], in[3]);
            else i2s_deal_1(planes, part / 4, in[0], in[1], in[2], in[3]);
            i2s_transpose(x.bytes[0], x.bytes[1], x.bytes[2], x.bytes[3], part / 32, made[0], made[1], made[2], made[3]);
            for (p = 0; p < 4; p++) {
                const int q = lsb ? 3 - p : p;
                if (remap != NULL) i2s_remap_portable(made[q], part / 4, remap);
                if (made[q] != rows[q]) memcpy(rows[q], made[q], (size_t)(part / 4));
            }
        }
}

static void i2s_of_rows_portable(const uint8_t *src, int64_t first, int64_t last, int64_t cols, int64_t step, int lsb,
                                 int from, const uint8_t *remap, uint8_t *dst, int stream) {
    i2s_quarters x, read;
    uint8_t *out[4];
    int64_t i, c, part;
    int p;
    (void)stream;
    for (p = 0; p < 4; p++) out[p] = x.bytes[from == I2S_KIND_LSB ? 3 - p : p];
    for (i = first; i < last; i++)
        for (c = 0; c < cols; c += part) {
            uint8_t *planes = dst + i * cols + c;
            part = i2s_least(cols - c, I2S_TILE);
            for (p = 0; p < 4; p++)
                memcpy(read.bytes[lsb ? 3 - p : p], src + ((step == 1 ? 4 * i : i) + p * step) * (cols / 4) + c / 4,
                       (size_t)(part / 4));
            i2s_transpose(read.bytes[0], read.bytes[1], read.bytes[2], read.bytes[3], part / 32, x.bytes[0], x.bytes[1],
                          x.bytes[2], x.bytes[3]);
            if (from == I2S_KIND_128) i2s_undeal_32(out[0], out[1], out[2], out[3], part / 128, planes);
            else if (from == I2S_KIND_64) i2s_undeal_16(out[0], out[1], out[2], out[3], part / 64, planes);
            else i2s_undeal_1(out[0], out[1], out[2], out[3], part / 4, planes);
            if (remap != NULL) i2s_remap_portable(planes, part, remap);
        }
}
