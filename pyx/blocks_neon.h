/* Operations that NEON does in one or a few instructions, for blocks_vector.h. */

I2S_ALWAYS void i2s_pour_neon(void *dst, const void *src, size_t n, int stream) { i2s_pour_portable(dst, src, n, stream); }

/* Four bytes as numbers of 32 bits, without a sign and with it; and back. */
static inline uint32x4_t i2s_widen_neon(const uint8_t *p) {
    uint32_t four;
    memcpy(&four, p, 4);
    return vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four))));
}
static inline int32x4_t i2s_widen_signed_neon(const uint8_t *p) {
    uint32_t four;
    memcpy(&four, p, 4);
    return vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(four))));
}
static inline void i2s_narrow_neon(uint8_t *p, uint32x4_t v) {
    const uint16x4_t words = vmovn_u32(v);
    const uint32_t four = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(words, words))), 0);
    memcpy(p, &four, 4);
}

/* Four codes in each four bytes to the low of them, the first in its low bits. */
static inline uint32x4_t i2s_fours_neon(uint8x16_t codes) {
    uint32x4_t v = vreinterpretq_u32_u8(codes);
    v = vorrq_u32(v, vshrq_n_u32(v, 6));
    return vandq_u32(vorrq_u32(v, vshrq_n_u32(v, 12)), vdupq_n_u32(255));
}

/* The first digit of each byte, as a value: -1 and the thresholds 86 and 171 that it has reached. */
static inline uint8x16_t i2s_thirds_neon(uint8x16_t v) {
    const uint8x16_t reached = vaddq_u8(vcgtq_u8(v, vdupq_n_u8(85)), vcgtq_u8(v, vdupq_n_u8(170)));
    return vsubq_u8(vdupq_n_u8(255), reached);
}

/* The numbers for 12 bytes of IQ1_BN, from 60 of 64 values, and four unused ones: of each 16 values, 15 are the digits
 * of three bytes, the last digit first. */
static inline uint8x16_t i2s_twelve_neon(const int8_t *values) {
    static const uint8_t first[16] = {4, 9, 14, 20, 25, 30, 36, 41, 46, 52, 57, 62, 64, 64, 64, 64};
    const uint8x16x4_t from = vld1q_u8_x4((const uint8_t *)values);
    uint8x16_t at = vld1q_u8(first), number = vqtbl4q_u8(from, at);
    int digit;
    for (digit = 0; digit < 4; digit++) {
        at = vsubq_u8(at, vdupq_n_u8(1));
        number = vaddq_u8(vmulq_u8(number, vdupq_n_u8(3)), vqtbl4q_u8(from, at));
    }
    return vaddq_u8(number, vdupq_n_u8(121));
}

#define I2S_LOOK16(table, at) vqtbl1q_u8((uint8x16_t)(table), (uint8x16_t)(at))

/* ceil(13 number / 243) of each byte: 878 (4 number + 74) / 2^16; the product is doubled. */
static inline uint8x16_t i2s_steps16(uint8x16_t v) {
    const int16x8_t more = vdupq_n_s16(74);
    const int16x8_t low = vaddq_s16(vreinterpretq_s16_u16(vshll_n_u8(vget_low_u8(v), 2)), more);
    const int16x8_t high = vaddq_s16(vreinterpretq_s16_u16(vshll_n_u8(vget_high_u8(v), 2)), more);
    return vreinterpretq_u8_s8(vcombine_s8(vmovn_s16(vqdmulhq_n_s16(low, 439)), vmovn_s16(vqdmulhq_n_s16(high, 439))));
}
