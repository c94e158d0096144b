/* The last words of PTQ1_0's blocks, side by side: two bytes of four digits, and the scale.
 *
 * They are one of the seven 32-bit words of a block. Seven is coprime to the number of lanes of a vector: of as many
 * blocks as a vector has lanes, which are seven vectors, each lane has such a word in exactly one of them. So each
 * vector contributes the lanes that it has, and none is moved. Heads and pairs of a tile are in the same order, which
 * is not that of blocks.
 */
#ifndef I2S_SURVEY_GATHER_H
#define I2S_SURVEY_GATHER_H

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#include "intrinsics.h"

/* The lanes of vector i whose words are the last of a block: lane l is word lanes * i + l. */
#define I2S_LAST_OF_7(word) ((word) % 7 == 6)
#define I2S_LANES_4(word)                                                                                               \
    (I2S_LAST_OF_7(word) | I2S_LAST_OF_7((word) + 1) << 1 | I2S_LAST_OF_7((word) + 2) << 2 | I2S_LAST_OF_7((word) + 3) << 3)
#define I2S_LANES_8(word) (I2S_LANES_4(word) | I2S_LANES_4((word) + 4) << 4)
#define I2S_LANES_16(word) (I2S_LANES_8(word) | I2S_LANES_8((word) + 8) << 8)

I2S_INTO __attribute__((target("avx2"))) __m256i i2s_last_words_avx2(const uint8_t *p) {
    __m256i v = _mm256_loadu_si256((const __m256i *)p);
#define I2S_BLEND(i) v = _mm256_blend_epi32(v, _mm256_loadu_si256((const __m256i *)p + i), I2S_LANES_8(8 * i));
    I2S_BLEND(1) I2S_BLEND(2) I2S_BLEND(3) I2S_BLEND(4) I2S_BLEND(5) I2S_BLEND(6)
#undef I2S_BLEND
    return v;
}

I2S_INTO __attribute__((target("avx2"))) void i2s_gather_avx2(const uint8_t *p, uint16_t *heads, uint16_t *pairs) {
    int half;
    for (half = 0; half < 2; half++, p += 16 * 28, heads += 16, pairs += 16) {
        const __m256i a = i2s_last_words_avx2(p), b = i2s_last_words_avx2(p + 8 * 28);
        const __m256i head = _mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xAA);
        _mm256_storeu_si256((__m256i *)heads, head);
        _mm256_storeu_si256((__m256i *)pairs, _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xAA));
    }
}
#endif

#endif
