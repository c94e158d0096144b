/* The portable kernels: plain C for every compiler and processor, in loops that compilers can vectorise.
 * What the parameters mean is said in kernels_body.h. */

static inline int i2s_shift(int plane, int lsb) { return lsb ? 2 * plane : 6 - 2 * plane; }

static void i2s_unpack_portable(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, uint8_t *dst,
                                int stream) {
    uint8_t table[4];
    int64_t b, j;
    int p;
    (void)stream;
    for (p = 0; p < 4; p++) table[p] = i2s_meaning((uint8_t)p, map);
    if (group == 1) {
        for (b = 0; b < blocks; b++)
            for (p = 0; p < 4; p++) dst[4 * b + p] = table[(src[b] >> i2s_shift(p, lsb)) & 3];
        return;
    }
    for (b = 0; b < blocks; b++, src += group, dst += 4 * group)
        for (p = 0; p < 4; p++) {
            const int shift = i2s_shift(p, lsb);
            uint8_t *out = dst + p * group;
            if (map == I2S_CODES) for (j = 0; j < group; j++) out[j] = (src[j] >> shift) & 3;
            else if (map == I2S_OFFSET_1) for (j = 0; j < group; j++) out[j] = (uint8_t)(((src[j] >> shift) & 3) - 1);
            else for (j = 0; j < group; j++) out[j] = table[(src[j] >> shift) & 3];
        }
}

static int i2s_pack_portable(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, uint8_t *dst, int stream) {
    int64_t b, j;
    unsigned bad = 0;
    (void)stream;
    for (b = 0; b < blocks; b++, src += 4 * group, dst += group) {
        const uint8_t *a0 = src, *a1 = src + group, *a2 = src + 2 * group, *a3 = src + 3 * group;
        if (lsb) {
            const uint8_t *t0 = a0, *t1 = a1;
            a0 = a3; a1 = a2; a2 = t1; a3 = t0;
        }
        for (j = 0; j < group; j++) {
            if (map == I2S_CODES) bad |= (unsigned)(a0[j] | a1[j] | a2[j] | a3[j]) & ~3u;
            else
                bad |= (unsigned)((uint8_t)(a0[j] + 1) > 2) | ((uint8_t)(a1[j] + 1) > 2) | ((uint8_t)(a2[j] + 1) > 2) |
                       ((uint8_t)(a3[j] + 1) > 2);
            dst[j] = (uint8_t)(i2s_code(a0[j], map) << 6 | i2s_code(a1[j], map) << 4 | i2s_code(a2[j], map) << 2 |
                               i2s_code(a3[j], map));
        }
    }
    return bad != 0;
}

static void i2s_floats_portable(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, float scale,
                                float *dst, int stream) {
    float table[4];
    int64_t b, j;
    int p;
    (void)stream;
    for (p = 0; p < 4; p++) table[p] = i2s_weight((uint8_t)p, map, scale);
    if (group == 1) {
        for (b = 0; b < blocks; b++)
            for (p = 0; p < 4; p++) dst[4 * b + p] = table[(src[b] >> i2s_shift(p, lsb)) & 3];
        return;
    }
    for (b = 0; b < blocks; b++, src += group, dst += 4 * group)
        for (p = 0; p < 4; p++) {
            const int shift = i2s_shift(p, lsb);
            for (j = 0; j < group; j++) dst[p * group + j] = table[(src[j] >> shift) & 3];
        }
}

static uint8_t i2s_remap_portable(uint8_t v, const uint8_t *c) {
    uint8_t lo = v & 0x55, hi = (v >> 1) & 0x55, both = lo & hi;
    uint8_t h = (uint8_t)(c[0] ^ (hi & c[1]) ^ (lo & c[2]) ^ (both & c[3]));
    uint8_t l = (uint8_t)(c[4] ^ (hi & c[5]) ^ (lo & c[6]) ^ (both & c[7]));
    return (uint8_t)(h << 1 | l);
}

static const int64_t i2s_kind_group[4] = {32, 16, 1, 1};

/* One block of 128 elements, by way of its codes. */
static void i2s_block_portable(const uint8_t *src, int from, int to, const uint8_t *map, uint8_t *dst) {
    uint8_t codes[128];
    int j;
    i2s_unpack_portable(src, 32 / i2s_kind_group[from], i2s_kind_group[from], from == I2S_KIND_LSB, I2S_CODES, codes, 0);
    i2s_pack_portable(codes, 32 / i2s_kind_group[to], i2s_kind_group[to], to == I2S_KIND_LSB, I2S_CODES, dst, 0);
    if (map != NULL)
        for (j = 0; j < 32; j++) dst[j] = i2s_remap_portable(dst[j], map);
}

static void i2s_blocks_portable(const uint8_t *src, int64_t blocks, int from, int to, const uint8_t *map, uint8_t *dst,
                                int stream) {
    int64_t b;
    (void)stream;
    for (b = 0; b < blocks; b++) {
        if (from != to) i2s_block_portable(src + 32 * b, from, to, map, dst + 32 * b);
        else {
            int j;
            for (j = 0; j < 32; j++) dst[32 * b + j] = map != NULL ? i2s_remap_portable(src[32 * b + j], map) : src[32 * b + j];
        }
    }
}

static void i2s_rows_of_planes_portable(const uint8_t *planes, int64_t cols, int lsb, int to, const uint8_t *map,
                                        uint8_t *const rows[4]) {
    int64_t c;
    int p, j;
    for (c = 0; c < cols; c += 128)
        for (p = 0; p < 4; p++) {
            const int shift = i2s_shift(p, lsb);
            uint8_t block[32];
            for (j = 0; j < 32; j++)
                block[j] = (uint8_t)(((planes[c + j] >> shift) & 3) << 6 | ((planes[c + 32 + j] >> shift) & 3) << 4 |
                                     ((planes[c + 64 + j] >> shift) & 3) << 2 | ((planes[c + 96 + j] >> shift) & 3));
            i2s_blocks_portable(block, 1, I2S_KIND_128, to, map, rows[p] + c / 4, 0);
        }
}

static void i2s_planes_of_rows_portable(const uint8_t *const rows[4], int64_t cols, int lsb, int from, const uint8_t *map,
                                        uint8_t *planes) {
    int64_t c;
    int p, j;
    for (c = 0; c < cols; c += 128) {
        uint8_t out[128] = {0};
        for (p = 0; p < 4; p++) {
            uint8_t codes[128];
            i2s_unpack_portable(rows[p] + c / 4, 32 / i2s_kind_group[from], i2s_kind_group[from], from == I2S_KIND_LSB,
                                I2S_CODES, codes, 0);
            for (j = 0; j < 128; j++) out[j] |= (uint8_t)(codes[j] << i2s_shift(p, lsb));
        }
        for (j = 0; j < 128; j++) planes[c + j] = map != NULL ? i2s_remap_portable(out[j], map) : out[j];
    }
}

static void i2s_to_rows_portable(const uint8_t *src, int64_t first, int64_t last, int64_t cols, int64_t step, int lsb,
                                 int to, const uint8_t *map, uint8_t *dst, int stream) {
    int64_t i;
    int p;
    (void)stream;
    for (i = first; i < last; i++) {
        uint8_t *rows[4];
        for (p = 0; p < 4; p++) rows[p] = dst + ((step == 1 ? 4 * i : i) + p * step) * (cols / 4);
        i2s_rows_of_planes_portable(src + i * cols, cols, lsb, to, map, rows);
    }
}

static void i2s_of_rows_portable(const uint8_t *src, int64_t first, int64_t last, int64_t cols, int64_t step, int lsb,
                                 int from, const uint8_t *map, uint8_t *dst, int stream) {
    int64_t i;
    int p;
    (void)stream;
    for (i = first; i < last; i++) {
        const uint8_t *rows[4];
        for (p = 0; p < 4; p++) rows[p] = src + ((step == 1 ? 4 * i : i) + p * step) * (cols / 4);
        i2s_planes_of_rows_portable(rows, cols, lsb, from, map, dst + i * cols);
    }
}

static int i2s_scan_portable(const uint8_t *src, int64_t n, int code) {
    const uint8_t low = (uint8_t)(code & 1 ? 0 : 0xFF), high = (uint8_t)(code & 2 ? 0 : 0xFF);
    int64_t i;
    uint8_t found = 0;
    for (i = 0; i < n; i++) found |= (uint8_t)((src[i] ^ low) & ((src[i] >> 1) ^ high) & 0x55);
    return found != 0;
}

static inline unsigned i2s_popcount(uint64_t x) {
    x = x - ((x >> 1) & 0x5555555555555555u);
    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (unsigned)((x * 0x0101010101010101u) >> 56);
}

static void i2s_histogram_portable(const uint8_t *src, int64_t n, uint64_t count[4]) {
    const uint64_t even = 0x5555555555555555u;
    uint64_t ones = 0, bits = 0, threes = 0;
    int64_t i = 0;
    while (i < n) {
        uint64_t v = 0;
        const int64_t part = n - i < 8 ? n - i : 8;
        memcpy(&v, src + i, (size_t)part);
        ones += i2s_popcount(v & even);
        bits += i2s_popcount(v);
        threes += i2s_popcount(v & (v >> 1) & even);
        i += part;
    }
    count[1] = ones - threes;
    count[2] = bits - ones - threes;
    count[3] = threes;
    count[0] = 4 * (uint64_t)n - count[1] - count[2] - count[3];
}

static uint64_t i2s_read_portable(const uint8_t *src, int64_t n) {
    uint64_t found = 0, v;
    int64_t i;
    for (i = 0; i + 8 <= n; i += 8) {
        memcpy(&v, src + i, 8);
        found |= v;
    }
    return found;
}
