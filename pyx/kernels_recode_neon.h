/* From a payload to one in another layout or with other codes, on AArch64. */

/* --- payload to payload -------------------------------------------------------------------------------------------- */

/* As i2s_remap_portable, by a look-up of each nibble. n is a multiple of 32. */
static void i2s_neon_remap(const uint8_t *src, int64_t n, const uint8_t *remap, uint8_t *dst) {
    const uint8x16_t low4 = vdupq_n_u8(15);
    uint8_t each[16];
    uint8x16_t lows, highs;
    int64_t i;
    int k;
    for (k = 0; k < 16; k++) each[k] = (uint8_t)k;
    i2s_remap_portable(each, 16, remap);
    lows = vandq_u8(vld1q_u8(each), low4);
    highs = vshlq_n_u8(lows, 4);
    for (i = 0; i < n; i += 16) {
        const uint8x16_t v = vld1q_u8(src + i);
        vst1q_u8(dst + i, vorrq_u8(vqtbl1q_u8(lows, vandq_u8(v, low4)), vqtbl1q_u8(highs, vshrq_n_u8(v, 4))));
    }
}

I2S_INLINE uint8x16_t i2s_neon_bits(uint8x16_t v, uint8_t bits) { return vandq_u8(v, vdupq_n_u8(bits)); }

/* One block of 128 elements between interleave-128 and interleave-64. */
I2S_INLINE void i2s_neon_to_64(uint8x16_t v[2]) {
    const uint8x16_t x = v[0], y = v[1], a = vshrq_n_u8(y, 2), b = vshlq_n_u8(x, 2);
    const uint8x16_t top = vdupq_n_u8(0xC0), second = vdupq_n_u8(0x30), third = vdupq_n_u8(0x0C);
    /* fields 0 and 1 of both halves, then fields 2 and 3 */
    v[0] = vbslq_u8(top, x, vbslq_u8(second, a, vbslq_u8(third, vshrq_n_u8(x, 2), vshrq_n_u8(y, 4))));
    v[1] = vbslq_u8(top, vshlq_n_u8(x, 4), vbslq_u8(second, vshlq_n_u8(y, 2), vbslq_u8(third, b, y)));
}

I2S_INLINE void i2s_neon_from_64(uint8x16_t v[2]) {
    const uint8x16_t x = v[0], y = v[1];
    const uint8x16_t top = vdupq_n_u8(0xC0), second = vdupq_n_u8(0x30), third = vdupq_n_u8(0x0C);
    v[0] = vbslq_u8(top, x, vbslq_u8(second, vshlq_n_u8(x, 2), vbslq_u8(third, vshrq_n_u8(y, 4), vshrq_n_u8(y, 2))));
    v[1] = vbslq_u8(top, vshlq_n_u8(x, 2), vbslq_u8(second, vshlq_n_u8(x, 4), vbslq_u8(third, vshrq_n_u8(y, 2), y)));
}

I2S_INLINE uint8x16_t i2s_neon_reversed(uint8x16_t v) {
    v = vsliq_n_u8(vshrq_n_u8(v, 4), v, 4);
    return vorrq_u8(i2s_neon_bits(vshrq_n_u8(v, 2), 0x33), vshlq_n_u8(i2s_neon_bits(v, 0x33), 2));
}

I2S_INLINE void i2s_neon_turn(uint8x16_t v[4]) {
    uint8x16_t t = v[0];
    v[0] = v[3];
    v[3] = t;
    t = v[1];
    v[1] = v[2];
    v[2] = t;
}

/* Two blocks of 128 elements from one layout to another. In a sequential block, word q of 8 bytes has the elements that
 * field q has in interleave-128, four neighbours to a byte; with interleave-64 it is 4 bytes of a block of 64. */
I2S_INLINE void i2s_neon_two(const uint8_t *src, int from, int to, uint8_t *dst) {
    uint8x16x4_t v;
    int p;
    if (from >= I2S_KIND_MSB && to >= I2S_KIND_MSB) {
        for (p = 0; p < 4; p++) vst1q_u8(dst + 16 * p, i2s_neon_reversed(vld1q_u8(src + 16 * p)));
        return;
    }
    if (from < I2S_KIND_MSB && to < I2S_KIND_MSB) {
        for (p = 0; p < 4; p++) v.val[p] = vld1q_u8(src + 16 * p);
        for (p = 0; p < 4; p += 2) {
            if (to == I2S_KIND_64) i2s_neon_to_64(v.val + p);
            else i2s_neon_from_64(v.val + p);
        }
        for (p = 0; p < 4; p++) vst1q_u8(dst + 16 * p, v.val[p]);
        return;
    }
    if (to < I2S_KIND_MSB) {
        if (to == I2S_KIND_128) {
            const uint64x2x4_t w = vld4q_u64((const uint64_t *)src);
            for (p = 0; p < 4; p++) v.val[p] = vreinterpretq_u8_u64(w.val[p]);
        } else {
            const uint32x4x4_t w = vld4q_u32((const uint32_t *)src);
            for (p = 0; p < 4; p++) v.val[p] = vreinterpretq_u8_u32(w.val[p]);
        }
        i2s_neon_transpose(v.val);
        if (from == I2S_KIND_LSB) i2s_neon_turn(v.val);
        vst4q_u8(dst, v);
        return;
    }
    v = vld4q_u8(src);
    if (to == I2S_KIND_LSB) i2s_neon_turn(v.val);
    i2s_neon_transpose(v.val);
    if (from == I2S_KIND_128) {
        uint64x2x4_t w;
        for (p = 0; p < 4; p++) w.val[p] = vreinterpretq_u64_u8(v.val[p]);
        vst4q_u64((uint64_t *)dst, w);
    } else {
        uint32x4x4_t w;
        for (p = 0; p < 4; p++) w.val[p] = vreinterpretq_u32_u8(v.val[p]);
        vst4q_u32((uint32_t *)dst, w);
    }
}

I2S_INLINE void i2s_neon_blocks(const uint8_t *src, int64_t blocks, int from, int to, uint8_t *dst) {
    int64_t b;
    for (b = 0; b + 2 <= blocks; b += 2) i2s_neon_two(src + 32 * b, from, to, dst + 32 * b);
    if (b < blocks) {
        uint8_t held[64] = {0};
        memcpy(held, src + 32 * b, 32);
        i2s_neon_two(held, from, to, held);
        memcpy(dst + 32 * b, held, 32);
    }
}

static void i2s_blocks_neon(const uint8_t *src, int64_t blocks, int from, int to, const uint8_t *remap, uint8_t *dst,
                            int stream) {
    int64_t b, part;
    (void)stream;
    for (b = 0; b < blocks; b += part) {
        const uint8_t *s = src + 32 * b;
        uint8_t *d = dst + 32 * b;
        part = i2s_least(blocks - b, I2S_HELD / 32);
#define I2S_CALL(F, T) if (F != T && from == F && to == T) i2s_neon_blocks(s, part, F, T, d);
        I2S_KIND_PAIRS(I2S_CALL)
#undef I2S_CALL
        if (remap != NULL) i2s_neon_remap(from == to ? s : d, 32 * part, remap, d);
        else if (from == to) memcpy(d, s, (size_t)(32 * part));
    }
}

/* Positions of 16 bytes of field m among 128 columns, for half h of a row's 32 bytes. */
I2S_INLINE int64_t i2s_neon_at(int kind, int h, int m) { return kind == I2S_KIND_128 ? 32 * m + 16 * h : 64 * h + 16 * m; }

I2S_INLINE void i2s_neon_to_rows(const uint8_t *planes, int64_t cols, int to, uint8_t *const rows[4]) {
    int64_t c;
    int h, m;
    for (c = 0; c < cols; c += 128)
        for (h = 0; h < 2; h++) {
            uint8x16x4_t v;
            if (to >= I2S_KIND_MSB) v = vld4q_u8(planes + c + 64 * h);
            else for (m = 0; m < 4; m++) v.val[m] = vld1q_u8(planes + c + i2s_neon_at(to, h, m));
            if (to == I2S_KIND_LSB) i2s_neon_turn(v.val);
            i2s_neon_transpose(v.val);
            for (m = 0; m < 4; m++) vst1q_u8(rows[m] + c / 4 + 16 * h, v.val[m]);
        }
}

static void i2s_to_rows_neon(const uint8_t *src, int64_t first, int64_t last, int64_t cols, int64_t step, int lsb, int to,
                             const uint8_t *remap, uint8_t *dst, int stream) {
    int64_t i;
    int p;
    (void)stream;
    for (i = first; i < last; i++) {
        uint8_t *rows[4];
        for (p = 0; p < 4; p++) rows[lsb ? 3 - p : p] = dst + ((step == 1 ? 4 * i : i) + p * step) * (cols / 4);
#define I2S_CALL(T) case T: i2s_neon_to_rows(src + i * cols, cols, T, rows); break;
        switch (to) { I2S_KINDS(I2S_CALL) }
#undef I2S_CALL
        if (remap != NULL)
            for (p = 0; p < 4; p++) i2s_neon_remap(rows[p], cols / 4, remap, rows[p]);
    }
}

I2S_INLINE void i2s_neon_of_rows(const uint8_t *const rows[4], int64_t cols, int from, uint8_t *planes) {
    int64_t c;
    int h, m;
    for (c = 0; c < cols; c += 128)
        for (h = 0; h < 2; h++) {
            uint8x16x4_t v;
            for (m = 0; m < 4; m++) v.val[m] = vld1q_u8(rows[m] + c / 4 + 16 * h);
            i2s_neon_transpose(v.val);
            if (from == I2S_KIND_LSB) i2s_neon_turn(v.val);
            if (from >= I2S_KIND_MSB) vst4q_u8(planes + c + 64 * h, v);
            else for (m = 0; m < 4; m++) vst1q_u8(planes + c + i2s_neon_at(from, h, m), v.val[m]);
        }
}

static void i2s_of_rows_neon(const uint8_t *src, int64_t first, int64_t last, int64_t cols, int64_t step, int lsb, int from,
                             const uint8_t *remap, uint8_t *dst, int stream) {
    int64_t i;
    int p;
    (void)stream;
    for (i = first; i < last; i++) {
        const uint8_t *rows[4];
        for (p = 0; p < 4; p++) rows[lsb ? 3 - p : p] = src + ((step == 1 ? 4 * i : i) + p * step) * (cols / 4);
#define I2S_CALL(F) case F: i2s_neon_of_rows(rows, cols, F, dst + i * cols); break;
        switch (from) { I2S_KINDS(I2S_CALL) }
#undef I2S_CALL
        if (remap != NULL) i2s_neon_remap(dst + i * cols, cols, remap, dst + i * cols);
    }
}
