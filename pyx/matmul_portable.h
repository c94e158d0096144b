/* Products of packed weights with activation codes in plain C, and the two float steps around them. */
#ifndef I2S_MATMUL_PORTABLE_H
#define I2S_MATMUL_PORTABLE_H

#include <stdint.h>
#include <string.h>

/* Activation codes stay as they are; the blocks of each token follow those of the token before. */
static void i2s_arrange_portable(const int8_t *codes, int64_t blocks, int tokens, int8_t *arranged) {
    memcpy(arranged, codes, (size_t)(tokens * blocks * I2S_MM_COLUMNS));
}

/* The sum over one block of columns, in a form that compilers vectorise: four sums side by side. */
static inline int32_t i2s_block_dot(const uint8_t *w, const int8_t *q) {
    int32_t sum = 0;
    for (int j = 0; j < I2S_MM_BYTES; j++) {
        const int b = w[j];
        sum += (b >> 6) * q[j] + ((b >> 4) & 3) * q[32 + j] + ((b >> 2) & 3) * q[64 + j] + (b & 3) * q[96 + j];
    }
    return sum;
}

static void i2s_product_portable(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *arranged, int tokens,
                                 int32_t *out, int64_t stride) {
    for (int64_t r = 0; r < rows; r++, w += blocks * I2S_MM_BYTES)
        for (int t = 0; t < tokens; t++) {
            const int8_t *q = arranged + t * blocks * I2S_MM_COLUMNS;
            uint32_t sum = 0;
            for (int64_t b = 0; b < blocks; b++)
                sum += (uint32_t)i2s_block_dot(w + b * I2S_MM_BYTES, q + b * I2S_MM_COLUMNS);
            out[t * stride + r] = (int32_t)sum;
        }
}

/* Whether code 3 occurs, whose bits are both set: four vectors at a time, and what is left word by word. Bits that a shift
 * brings from one code to the next are in odd places, which are not asked. */
typedef uint64_t i2s_vector32 __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint64_t i2s_vector64 __attribute__((vector_size(64), aligned(1), may_alias));
#define I2S_MM_UNUSED(NAME, VECTOR)                                                                                     \
    static int NAME(const uint8_t *w, int64_t bytes) {                                                                  \
        const int64_t size = (int64_t)sizeof(VECTOR);                                                                   \
        VECTOR both[4] = {{0}, {0}, {0}, {0}};                                                                          \
        uint64_t words[sizeof(VECTOR) / 8], found = 0;                                                                  \
        for (; bytes >= 4 * size; bytes -= 4 * size, w += 4 * size) {                                                   \
            const VECTOR *v = (const VECTOR *)(const void *)w;                                                          \
            both[0] |= v[0] & v[0] >> 1;                                                                                \
            both[1] |= v[1] & v[1] >> 1;                                                                                \
            both[2] |= v[2] & v[2] >> 1;                                                                                \
            both[3] |= v[3] & v[3] >> 1;                                                                                \
        }                                                                                                               \
        both[0] |= both[1] | both[2] | both[3];                                                                         \
        memcpy(words, &both[0], sizeof words);                                                                          \
        for (size_t i = 0; i < sizeof(VECTOR) / 8; i++) found |= words[i];                                              \
        for (; bytes > 0; bytes -= 8, w += 8) {                                                                         \
            memcpy(words, w, 8);                                                                                        \
            found |= words[0] & words[0] >> 1;                                                                          \
        }                                                                                                               \
        return (found & UINT64_C(0x5555555555555555)) != 0;                                                             \
    }
I2S_MM_UNUSED(i2s_unused_portable, i2s_vector32)

/* Quantize tokens, as i2s_spec.model.reference.bitlinear defines. Floats are compared as integers, which orders
 * magnitudes, puts NaN above infinity and loses no NaN. Adding 1.5 * 2^23 to a float below 2^22 rounds it half to even
 * and leaves the integer in the low bits; no magnitude here is above 127. */
static inline __attribute__((always_inline)) void i2s_quantize_body(const float *x, int64_t columns, int8_t *codes,
                                                                    float *scale, int32_t *sum) {
    uint32_t top = 0;
    for (int64_t k = 0; k < columns; k++) {
        uint32_t bits;
        memcpy(&bits, x + k, 4);
        bits &= 0x7FFFFFFFu;
        top = bits > top ? bits : top;
    }
    float amax;
    memcpy(&amax, &top, 4);
    if (top >= 0x7F800000u) {
        const uint32_t none = top > 0x7F800000u ? 0x7FC00000u : 0;
        memcpy(scale, &none, 4);
        memset(codes, 0, (size_t)columns);
        *sum = 0;
        return;
    }
    const float s = (float)(127.0 / ((double)amax > 1e-5 ? (double)amax : 1e-5));
    int32_t total = 0;
    for (int64_t k = 0; k < columns; k++) {
        const float product = x[k] * s;
        const float shifted = product + 12582912.0f;
        int32_t bits;
        memcpy(&bits, &shifted, 4);
        const int32_t code = bits - 0x4B400000;
        codes[k] = (int8_t)code;
        total += code;
    }
    *scale = s;
    *sum = total;
}

static void i2s_quantize_portable(const float *x, int64_t columns, int8_t *codes, float *scale, int32_t *sum) {
    i2s_quantize_body(x, columns, codes, scale, sum);
}

/* Subtract the offset and apply the scales, in place: int32 in, float32 out, three roundings. */
static inline __attribute__((always_inline)) void i2s_epilogue_body(int32_t *acc, int64_t n, int32_t sum, float scale,
                                                                    float weight_scale) {
    for (int64_t i = 0; i < n; i++) {
        const float y = (float)(int32_t)((uint32_t)acc[i] - (uint32_t)sum) / scale * weight_scale;
        memcpy(acc + i, &y, 4);
    }
}

static void i2s_epilogue_portable(int32_t *acc, int64_t n, int32_t sum, float scale, float weight_scale) {
    i2s_epilogue_body(acc, n, sum, scale, weight_scale);
}

#endif
