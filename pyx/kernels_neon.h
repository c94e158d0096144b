/* The payload kernels of AArch64. What the parameters mean is said in kernels_body.h; `stream` means nothing here, because
 * C has no stores past the cache of this processor. Loads and stores of four vectors at once do the interleaving. */

#define I2S_INLINE static inline __attribute__((always_inline))

static inline uint8x16_t i2s_neon_bytes(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
    const uint8_t x[16] = {a, b, c, d};
    return vld1q_u8(x);
}

/* Field p of vector q becomes field q of vector p; the first field is in the top bits. */
I2S_INLINE void i2s_neon_transpose(uint8x16_t v[4]) {
    const uint8x16_t pairs = vdupq_n_u8(0x33), nibbles = vdupq_n_u8(0x0F);
    uint8x16_t t;
    /* exchange fields 1 and 3 of the even vectors with fields 0 and 2 of the odd ones */
    t = vandq_u8(veorq_u8(v[0], vshrq_n_u8(v[1], 2)), pairs); v[0] = veorq_u8(v[0], t); v[1] = veorq_u8(v[1], vshlq_n_u8(t, 2));
    t = vandq_u8(veorq_u8(v[2], vshrq_n_u8(v[3], 2)), pairs); v[2] = veorq_u8(v[2], t); v[3] = veorq_u8(v[3], vshlq_n_u8(t, 2));
    /* exchange the low nibbles of the first two with the high nibbles of the last two */
    t = vandq_u8(veorq_u8(v[0], vshrq_n_u8(v[2], 4)), nibbles); v[0] = veorq_u8(v[0], t); v[2] = veorq_u8(v[2], vshlq_n_u8(t, 4));
    t = vandq_u8(veorq_u8(v[1], vshrq_n_u8(v[3], 4)), nibbles); v[1] = veorq_u8(v[1], t); v[3] = veorq_u8(v[3], vshlq_n_u8(t, 4));
}

/* --- payload to one byte an element -------------------------------------------------------------------------------- */

/* What the codes of a byte stand for: two look-ups of each nibble. */
typedef struct { uint8x16_t upper, lower; } i2s_neon_reading;

static i2s_neon_reading i2s_neon_read(int map) {
    uint8_t upper[16], lower[16];
    i2s_neon_reading how;
    int k;
    for (k = 0; k < 16; k++) {
        upper[k] = i2s_meaning((uint8_t)(k >> 2), map);
        lower[k] = i2s_meaning((uint8_t)(k & 3), map);
    }
    how.upper = vld1q_u8(upper);
    how.lower = vld1q_u8(lower);
    return how;
}

/* The first field, in the top bits, is x[0], or with `lsb` x[3]. */
I2S_INLINE void i2s_neon_fields(uint8x16_t v, int lsb, const i2s_neon_reading *how, uint8x16_t x[4]) {
    const uint8x16_t high = vshrq_n_u8(v, 4), low = vandq_u8(v, vdupq_n_u8(15));
    x[lsb ? 3 : 0] = vqtbl1q_u8(how->upper, high);
    x[lsb ? 2 : 1] = vqtbl1q_u8(how->lower, high);
    x[lsb ? 1 : 2] = vqtbl1q_u8(how->upper, low);
    x[lsb ? 0 : 3] = vqtbl1q_u8(how->lower, low);
}

I2S_INLINE void i2s_neon_unpack_runs(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map,
                                     const i2s_neon_reading *how, uint8_t *dst) {
    int64_t b, j;
    int p;
    for (b = 0; b < blocks; b++, src += group, dst += 4 * group) {
        for (j = 0; j + 16 <= group; j += 16) {
            uint8x16_t x[4];
            i2s_neon_fields(vld1q_u8(src + j), lsb, how, x);
            for (p = 0; p < 4; p++) vst1q_u8(dst + p * group + j, x[p]);
        }
        for (; j < group; j++)
            for (p = 0; p < 4; p++) dst[(lsb ? 3 - p : p) * group + j] = i2s_meaning((src[j] >> (6 - 2 * p)) & 3, map);
    }
}

I2S_INLINE int64_t i2s_neon_unpack_1(const uint8_t *src, int64_t blocks, int lsb, const i2s_neon_reading *how, uint8_t *dst) {
    int64_t b;
    for (b = 0; b + 16 <= blocks; b += 16) {
        uint8x16x4_t x;
        i2s_neon_fields(vld1q_u8(src + b), lsb, how, x.val);
        vst4q_u8(dst + 4 * b, x);
    }
    return b;
}

static void i2s_unpack_neon(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, uint8_t *dst, int stream) {
    const i2s_neon_reading how = i2s_neon_read(map);
    int64_t done = 0;
    (void)stream;
    if (group == 32 && !lsb) {
        i2s_neon_unpack_runs(src, blocks, 32, 0, map, &how, dst);
        return;
    }
    if (group == 16 && !lsb) {
        i2s_neon_unpack_runs(src, blocks, 16, 0, map, &how, dst);
        return;
    }
    if (group == 1) done = lsb ? i2s_neon_unpack_1(src, blocks, 1, &how, dst) : i2s_neon_unpack_1(src, blocks, 0, &how, dst);
    i2s_neon_unpack_runs(src + done * group, blocks - done, group, lsb, map, &how, dst + 4 * done * group);
}

/* --- one byte an element to payload -------------------------------------------------------------------------------- */

/* The codes of what a byte is with `judge` added, and the largest of these, which tells whether all were sound. */
typedef struct { uint8x16_t judge, codes, worst; } i2s_neon_writing;

I2S_INLINE uint8x16_t i2s_neon_join(uint8x16_t x[4], int lsb, i2s_neon_writing *how) {
    uint8x16_t r;
    int p;
    for (p = 0; p < 4; p++) x[p] = vaddq_u8(x[p], how->judge);
    how->worst = vmaxq_u8(how->worst, vmaxq_u8(vmaxq_u8(x[0], x[1]), vmaxq_u8(x[2], x[3])));
    for (p = 0; p < 4; p++) x[p] = vqtbl1q_u8(how->codes, x[p]);
    r = vsliq_n_u8(x[lsb ? 0 : 3], x[lsb ? 1 : 2], 2);
    return vsliq_n_u8(vsliq_n_u8(r, x[lsb ? 2 : 1], 4), x[lsb ? 3 : 0], 6);
}

I2S_INLINE int i2s_neon_pack_runs(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, i2s_neon_writing *how,
                                  uint8_t *dst) {
    int64_t b, j;
    int p, bad = 0;
    for (b = 0; b < blocks; b++, src += 4 * group, dst += group) {
        for (j = 0; j + 16 <= group; j += 16) {
            uint8x16_t x[4];
            for (p = 0; p < 4; p++) x[p] = vld1q_u8(src + p * group + j);
            vst1q_u8(dst + j, i2s_neon_join(x, lsb, how));
        }
        for (; j < group; j++) {
            uint8_t v = 0;
            for (p = 0; p < 4; p++) {
                const uint8_t t = src[(lsb ? 3 - p : p) * group + j];
                bad |= map == I2S_CODES ? t > 3 : (uint8_t)(t + 1) > 2;
                v |= (uint8_t)(i2s_code(t, map) << (6 - 2 * p));
            }
            dst[j] = v;
        }
    }
    return bad;
}

I2S_INLINE int64_t i2s_neon_pack_1(const uint8_t *src, int64_t blocks, int lsb, i2s_neon_writing *how, uint8_t *dst) {
    int64_t b;
    for (b = 0; b + 16 <= blocks; b += 16) {
        uint8x16x4_t x = vld4q_u8(src + 4 * b);
        vst1q_u8(dst + b, i2s_neon_join(x.val, lsb, how));
    }
    return b;
}

static int i2s_pack_neon(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, uint8_t *dst, int stream) {
    i2s_neon_writing how;
    int64_t done = 0;
    int bad;
    (void)stream;
    how.judge = vdupq_n_u8(map != I2S_CODES);
    how.codes = map == I2S_CODES ? i2s_neon_bytes(0, 1, 2, 3)
                                 : i2s_neon_bytes(i2s_code(255, map), i2s_code(0, map), i2s_code(1, map), 0);
    how.worst = vdupq_n_u8(0);
    if (group == 32 && !lsb) {
        bad = i2s_neon_pack_runs(src, blocks, 32, 0, map, &how, dst);
    } else if (group == 16 && !lsb) {
        bad = i2s_neon_pack_runs(src, blocks, 16, 0, map, &how, dst);
    } else {
        if (group == 1) done = lsb ? i2s_neon_pack_1(src, blocks, 1, &how, dst) : i2s_neon_pack_1(src, blocks, 0, &how, dst);
        bad = i2s_neon_pack_runs(src + 4 * done * group, blocks - done, group, lsb, map, &how, dst + done * group);
    }
    return bad | (vmaxvq_u8(how.worst) > (map == I2S_CODES ? 3 : 2));
}

/* --- payload to float32 -------------------------------------------------------------------------------------------- */

I2S_INLINE void i2s_neon_scaled(uint8x16_t trits, float scale, float *dst) {
    const int16x8_t low = vmovl_s8(vget_low_s8(vreinterpretq_s8_u8(trits))), high = vmovl_high_s8(vreinterpretq_s8_u8(trits));
    vst1q_f32(dst, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), scale));
    vst1q_f32(dst + 4, vmulq_n_f32(vcvtq_f32_s32(vmovl_high_s16(low)), scale));
    vst1q_f32(dst + 8, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), scale));
    vst1q_f32(dst + 12, vmulq_n_f32(vcvtq_f32_s32(vmovl_high_s16(high)), scale));
}

I2S_INLINE void i2s_neon_float_runs(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, float scale,
                                    const i2s_neon_reading *how, float *dst) {
    float table[4];
    int64_t b, j;
    int p;
    for (p = 0; p < 4; p++) table[p] = i2s_weight((uint8_t)p, map, scale);
    for (b = 0; b < blocks; b++, src += group, dst += 4 * group) {
        for (j = 0; j + 16 <= group; j += 16) {
            uint8x16_t x[4];
            i2s_neon_fields(vld1q_u8(src + j), lsb, how, x);
            for (p = 0; p < 4; p++) i2s_neon_scaled(x[p], scale, dst + p * group + j);
        }
        for (; j < group; j++)
            for (p = 0; p < 4; p++) dst[(lsb ? 3 - p : p) * group + j] = table[(src[j] >> (6 - 2 * p)) & 3];
    }
}

I2S_INLINE int64_t i2s_neon_floats_1(const uint8_t *src, int64_t blocks, int lsb, float scale, const i2s_neon_reading *how,
                                     float *dst) {
    int64_t b;
    for (b = 0; b + 16 <= blocks; b += 16) {
        uint8x16_t x[4];
        uint8x16x2_t even, odd, first, second;
        i2s_neon_fields(vld1q_u8(src + b), lsb, how, x);
        even = vzipq_u8(x[0], x[2]);
        odd = vzipq_u8(x[1], x[3]);
        first = vzipq_u8(even.val[0], odd.val[0]);
        second = vzipq_u8(even.val[1], odd.val[1]);
        i2s_neon_scaled(first.val[0], scale, dst + 4 * b);
        i2s_neon_scaled(first.val[1], scale, dst + 4 * b + 16);
        i2s_neon_scaled(second.val[0], scale, dst + 4 * b + 32);
        i2s_neon_scaled(second.val[1], scale, dst + 4 * b + 48);
    }
    return b;
}

static void i2s_floats_neon(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, float scale, float *dst,
                            int stream) {
    const i2s_neon_reading how = i2s_neon_read(map);
    int64_t done = 0;
    (void)stream;
    if (group == 32 && !lsb) {
        i2s_neon_float_runs(src, blocks, 32, 0, map, scale, &how, dst);
        return;
    }
    if (group == 1) done = i2s_neon_floats_1(src, blocks, lsb, scale, &how, dst);
    i2s_neon_float_runs(src + done * group, blocks - done, group, lsb, map, scale, &how, dst + 4 * done * group);
}

/* --- payload to payload -------------------------------------------------------------------------------------------- */

/* What i2s_remap_portable does: a look-up of each nibble. n is a multiple of 32. */
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

/* Where 16 bytes of field m lie among 128 columns, for the half h of a row's 32 bytes. */
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

/* --- counting ------------------------------------------------------------------------------------------------------ */

/* In the even bits: where the code has been seen; for code 0, where only others were. */
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

/* The read probe of the benchmarks: what memory gives when nothing but an OR is done with it. */
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

#undef I2S_INLINE
