/* Between a payload and its elements, on AArch64: one byte each, or a float each. */

/* --- payload to one byte an element -------------------------------------------------------------------------------- */

/* The values of the codes of a byte: two look-ups for each nibble. */
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

/* The codes of a byte plus `judge`, and the largest of these, which shows whether all were valid. */
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
