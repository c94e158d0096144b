/* Products of packed weights with activation codes: NEON alone, with dot products, and with products of small matrices (I8MM).
 *
 * One prefetch stream runs through the next rows in the order of their addresses, as on x86.
 */
#ifndef I2S_MATMUL_NEON_H
#define I2S_MATMUL_NEON_H

#include <arm_neon.h>

#if defined(__clang__)
#define I2S_MM_UNROLL _Pragma("clang loop unroll(full)")
#define I2S_MM_DOTPROD __attribute__((target("dotprod")))
#define I2S_MM_I8MM __attribute__((target("dotprod,i8mm")))
#else
#define I2S_MM_UNROLL _Pragma("GCC unroll 8")
#define I2S_MM_DOTPROD __attribute__((target("arch=armv8.2-a+dotprod")))
#define I2S_MM_I8MM __attribute__((target("arch=armv8.2-a+dotprod+i8mm")))
#endif
#define I2S_MM_INLINE static inline __attribute__((always_inline))
/* By inline assembly, because Clang before version 16 offers these intrinsics only if all code may use them. */
#define I2S_SDOT(acc, a, b) __asm__("sdot %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(a), "w"(b))
#define I2S_SDOT_LANE(acc, a, b, lane) __asm__("sdot %0.4s, %1.16b, %2.4b[" #lane "]" : "+w"(acc) : "w"(a), "w"(b))
#define I2S_SMMLA(acc, a, b) __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(a), "w"(b))
/* A barrier: compilers that load the data of a later step early run out of registers and spill sums. */
#define I2S_MM_STEP() __asm__ volatile("" ::: "memory")
#define I2S_MM_AHEAD 2048
#define I2S_MM_ASK(p) __builtin_prefetch((const void *)(p))

/* Activations of a block: field by field, and within a field token by token. */
static void i2s_arrange_neon(const int8_t *codes, int64_t blocks, int tokens, int8_t *arranged) {
    for (int64_t b = 0; b < blocks; b++)
        for (int field = 0; field < 4; field++)
            for (int t = 0; t < tokens; t++, arranged += 32)
                memcpy(arranged, codes + (t * blocks + b) * I2S_MM_COLUMNS + 32 * field, 32);
}

/* The codes of one field of 16 bytes. */
I2S_MM_INLINE int8x16_t i2s_field_neon(uint8x16_t v, int f) {
    switch (f) {
    case 0: return vreinterpretq_s8_u8(vshrq_n_u8(v, 6));
    case 1: return vreinterpretq_s8_u8(vandq_u8(vshrq_n_u8(v, 4), vdupq_n_u8(3)));
    case 2: return vreinterpretq_s8_u8(vandq_u8(vshrq_n_u8(v, 2), vdupq_n_u8(3)));
    default: return vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(3)));
    }
}

/* ---- With dot products: sums in 32 bits throughout. ---- */

/* R rows and one token. Fields are masked and not shifted, so that two of the sums come out times 16 and 4. */
I2S_MM_DOTPROD I2S_MM_INLINE void i2s_vector_dotprod(const int R, const uint8_t *w, int64_t blocks, const int8_t *q,
                                                     int32_t *out) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    int32x4_t acc[4][3];
    I2S_MM_UNROLL for (int r = 0; r < R; r++)
        I2S_MM_UNROLL for (int f = 0; f < 3; f++) acc[r][f] = vdupq_n_s32(0);
    uintptr_t ahead = (uintptr_t)w + (uintptr_t)(R * pitch + I2S_MM_AHEAD);
    for (int64_t b = 0; b < blocks; b++, w += 32, q += 128, ahead += (uintptr_t)(32 * R)) {
        I2S_MM_UNROLL for (int r = 0; r < R; r += 2) I2S_MM_ASK(ahead + 32 * r);
        I2S_MM_UNROLL for (int half = 0; half < 32; half += 16) {
            const int8x16_t x0 = vld1q_s8(q + half), x1 = vld1q_s8(q + half + 32), x2 = vld1q_s8(q + half + 64),
                            x3 = vld1q_s8(q + half + 96);
            I2S_MM_UNROLL for (int r = 0; r < R; r++) {
                const uint8x16_t v = vld1q_u8(w + r * pitch + half);
                I2S_SDOT(acc[r][0], vshrq_n_u8(v, 6), x0);
                I2S_SDOT(acc[r][1], vandq_u8(v, vdupq_n_u8(0x30)), x1);
                I2S_SDOT(acc[r][2], vandq_u8(v, vdupq_n_u8(0x0C)), x2);
                I2S_SDOT(acc[r][0], vandq_u8(v, vdupq_n_u8(0x03)), x3);
            }
        }
    }
    I2S_MM_UNROLL for (int r = 0; r < R; r++)
        out[r] = vaddvq_s32(vaddq_s32(vsraq_n_s32(acc[r][0], acc[r][1], 4), vshrq_n_s32(acc[r][2], 2)));
}

I2S_MM_DOTPROD I2S_MM_INLINE void i2s_matrix_dotprod(const int R, const int C, const uint8_t *w, int64_t blocks,
                                                     const int8_t *q, int32_t *out, int64_t stride) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    int32x4_t acc[4][4];
    I2S_MM_UNROLL for (int r = 0; r < R; r++)
        I2S_MM_UNROLL for (int c = 0; c < C; c++) acc[r][c] = vdupq_n_s32(0);
    uintptr_t ahead = (uintptr_t)w + (uintptr_t)(R * pitch + I2S_MM_AHEAD);
    for (int64_t b = 0; b < blocks; b++, w += 32, q += 128 * C, ahead += (uintptr_t)(32 * R)) {
        I2S_MM_UNROLL for (int r = 0; r < R; r += 2) I2S_MM_ASK(ahead + 32 * r);
        I2S_MM_UNROLL for (int half = 0; half < 32; half += 16) {
            uint8x16_t v[4];
            I2S_MM_UNROLL for (int r = 0; r < R; r++) v[r] = vld1q_u8(w + r * pitch + half);
            I2S_MM_UNROLL for (int f = 0; f < 4; f++) {
                int8x16_t u[4];
                I2S_MM_STEP();
                I2S_MM_UNROLL for (int r = 0; r < R; r++) u[r] = i2s_field_neon(v[r], f);
                I2S_MM_UNROLL for (int c = 0; c < C; c++) {
                    const int8x16_t x = vld1q_s8(q + 32 * (C * f + c) + half);
                    I2S_MM_UNROLL for (int r = 0; r < R; r++) I2S_SDOT(acc[r][c], u[r], x);
                }
            }
        }
    }
    I2S_MM_UNROLL for (int c = 0; c < C; c++)
        I2S_MM_UNROLL for (int r = 0; r < R; r++) out[c * stride + r] = vaddvq_s32(acc[r][c]);
}

#if defined(I2S_KNOWS_I8MM)
/* ---- With I8MM: two rows by two tokens over eight columns are one instruction. ---- */

/* Activations of a block: eight columns at a time in the order of the kernel (half, field, group), and in them token by token. */
static void i2s_arrange_i8mm(const int8_t *codes, int64_t blocks, int tokens, int8_t *arranged) {
    if (tokens == 1) { /* dot products compute these */
        i2s_arrange_neon(codes, blocks, 1, arranged);
        return;
    }
    for (int64_t b = 0; b < blocks; b++)
        for (int half = 0; half < 32; half += 16)
            for (int field = 0; field < 4; field++)
                for (int group = 0; group < 16; group += 8)
                    for (int t = 0; t < tokens; t++, arranged += 8)
                        memcpy(arranged, codes + (t * blocks + b) * I2S_MM_COLUMNS + 32 * field + half + group, 8);
}

/* The same eight columns of two rows, side by side: the low or the high halves of two vectors. */
I2S_MM_INLINE uint8x16_t i2s_low_halves(uint8x16_t a, uint8x16_t b) {
    return vreinterpretq_u8_u64(vzip1q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
}
I2S_MM_INLINE uint8x16_t i2s_high_halves(uint8x16_t a, uint8x16_t b) {
    return vreinterpretq_u8_u64(vzip2q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
}

/* R rows, an even number or one, and C tokens; the last of an odd number of tokens is multiplied twice. */
I2S_MM_I8MM I2S_MM_INLINE void i2s_matrix_i8mm(const int R, const int C, const uint8_t *w, int64_t blocks, const int8_t *q,
                                               int32_t *out, int64_t stride) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    const int rows = (R + 1) / 2, tokens = (C + 1) / 2; /* pairs of them */
    int32x4_t acc[4][2];
    I2S_MM_UNROLL for (int r = 0; r < rows; r++)
        I2S_MM_UNROLL for (int c = 0; c < tokens; c++) acc[r][c] = vdupq_n_s32(0);
    uintptr_t ahead = (uintptr_t)w + (uintptr_t)(R * pitch + I2S_MM_AHEAD);
    for (int64_t b = 0; b < blocks; b++, w += 32, ahead += (uintptr_t)(32 * R)) {
        I2S_MM_UNROLL for (int r = 0; r < R; r += 2) I2S_MM_ASK(ahead + 32 * r);
        I2S_MM_UNROLL for (int half = 0; half < 32; half += 16) {
            uint8x16_t v[4][2];
            I2S_MM_UNROLL for (int r = 0; r < rows; r++) {
                const uint8x16_t a = vld1q_u8(w + 2 * r * pitch + half);
                const uint8x16_t other = R > 1 ? vld1q_u8(w + (2 * r + 1) * pitch + half) : a;
                v[r][0] = i2s_low_halves(a, other);
                v[r][1] = i2s_high_halves(a, other);
            }
            I2S_MM_UNROLL for (int f = 0; f < 4; f++)
                I2S_MM_UNROLL for (int group = 0; group < 2; group++) {
                    int8x16_t u[4];
                    I2S_MM_STEP();
                    I2S_MM_UNROLL for (int r = 0; r < rows; r++) u[r] = i2s_field_neon(v[r][group], f);
                    I2S_MM_UNROLL for (int c = 0; c < tokens; c++) {
                        const int8x16_t x = 2 * c + 1 < C ? vld1q_s8(q + 16 * c)
                                                          : vcombine_s8(vld1_s8(q + 16 * c), vld1_s8(q + 16 * c));
                        I2S_MM_UNROLL for (int r = 0; r < rows; r++) I2S_SMMLA(acc[r][c], x, u[r]);
                    }
                    q += 8 * C;
                }
        }
    }
    I2S_MM_UNROLL for (int c = 0; c < C; c++)
        I2S_MM_UNROLL for (int r = 0; r < rows; r++) {
            const int32x2_t sums = c % 2 ? vget_high_s32(acc[r][c / 2]) : vget_low_s32(acc[r][c / 2]);
            if (R > 1)
                vst1_s32(out + c * stride + 2 * r, sums);
            else
                out[c * stride] = vget_lane_s32(sums, 0);
        }
}
#endif

/* ---- Without: products are added in 16 bits and widened before they can overflow, for all codes and activations. ----
 * */

#define I2S_MM_RUN 5 /* blocks of which a lane's 16 products fit: 5 * 16 * 3 * 128 = 30720 */

I2S_MM_INLINE void i2s_matrix_neon(const int R, const int C, const uint8_t *w, int64_t blocks, const int8_t *q, int32_t *out,
                                   int64_t stride) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    int32x4_t wide[4][4];
    int16x8_t acc[4][4];
    I2S_MM_UNROLL for (int r = 0; r < R; r++)
        I2S_MM_UNROLL for (int c = 0; c < C; c++) {
            wide[r][c] = vdupq_n_s32(0);
            acc[r][c] = vdupq_n_s16(0);
        }
    uintptr_t ahead = (uintptr_t)w + (uintptr_t)(R * pitch + I2S_MM_AHEAD);
    for (int64_t left = blocks; left > 0; left -= I2S_MM_RUN) {
        const int64_t run = left < I2S_MM_RUN ? left : I2S_MM_RUN;
        for (int64_t b = 0; b < run; b++, w += 32, q += 128 * C, ahead += (uintptr_t)(32 * R)) {
            I2S_MM_UNROLL for (int r = 0; r < R; r += 2) I2S_MM_ASK(ahead + 32 * r);
            I2S_MM_UNROLL for (int half = 0; half < 32; half += 16) {
                uint8x16_t v[4];
                I2S_MM_UNROLL for (int r = 0; r < R; r++) v[r] = vld1q_u8(w + r * pitch + half);
                I2S_MM_UNROLL for (int f = 0; f < 4; f++) {
                    int8x16_t u[4];
                    I2S_MM_UNROLL for (int r = 0; r < R; r++) u[r] = i2s_field_neon(v[r], f);
                    I2S_MM_UNROLL for (int c = 0; c < C; c++) {
                        const int8x16_t x = vld1q_s8(q + 32 * (C * f + c) + half);
                        I2S_MM_UNROLL for (int r = 0; r < R; r++) {
                            acc[r][c] = vmlal_s8(acc[r][c], vget_low_s8(u[r]), vget_low_s8(x));
                            acc[r][c] = vmlal_high_s8(acc[r][c], u[r], x);
                        }
                    }
                }
            }
        }
        I2S_MM_UNROLL for (int r = 0; r < R; r++)
            I2S_MM_UNROLL for (int c = 0; c < C; c++) {
                wide[r][c] = vpadalq_s16(wide[r][c], acc[r][c]);
                acc[r][c] = vdupq_n_s16(0);
            }
    }
    I2S_MM_UNROLL for (int c = 0; c < C; c++)
        I2S_MM_UNROLL for (int r = 0; r < R; r++) out[c * stride + r] = vaddvq_s32(wide[r][c]);
}

/* The product of a set: VECTOR for one token, four rows at a time; MATRIX for two to four, MR rows at a time. */
#define I2S_MM_TOKENS(C, MATRIX, MR)                                                                                    \
    for (; r + MR <= rows; r += MR) MATRIX(MR, C, w + r * pitch, blocks, q, out + r, stride);                           \
    for (; r < rows; r++) MATRIX(1, C, w + r * pitch, blocks, q, out + r, stride);
#define I2S_MM_PRODUCT(NAME, VECTOR, MATRIX, MR)                                                                        \
    static void NAME(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *q, int tokens, int32_t *out,         \
                     int64_t stride) {                                                                                  \
        const int64_t pitch = blocks * I2S_MM_BYTES;                                                                    \
        int64_t r = 0;                                                                                                  \
        if (tokens == 1) {                                                                                              \
            for (; r + 4 <= rows; r += 4) VECTOR(4, w + r * pitch, blocks, q, out + r);                                 \
            for (; r < rows; r++) VECTOR(1, w + r * pitch, blocks, q, out + r);                                         \
        } else if (tokens == 2) {                                                                                       \
            I2S_MM_TOKENS(2, MATRIX, MR)                                                                                \
        } else if (tokens == 3) {                                                                                       \
            I2S_MM_TOKENS(3, MATRIX, MR)                                                                                \
        } else {                                                                                                        \
            I2S_MM_TOKENS(4, MATRIX, MR)                                                                                \
        }                                                                                                               \
    }

#define I2S_MM_VECTOR_NEON(R, w, blocks, q, out) i2s_matrix_neon(R, 1, w, blocks, q, out, 0)
I2S_MM_PRODUCT(i2s_product_neon, I2S_MM_VECTOR_NEON, i2s_matrix_neon, 2)
I2S_MM_DOTPROD I2S_MM_PRODUCT(i2s_product_dotprod, i2s_vector_dotprod, i2s_matrix_dotprod, 4)
#if defined(I2S_KNOWS_I8MM)
I2S_MM_I8MM I2S_MM_PRODUCT(i2s_product_i8mm, i2s_vector_dotprod, i2s_matrix_i8mm, 8)
#endif

#endif
