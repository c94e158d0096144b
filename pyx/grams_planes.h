/* Grams of trits as planes of bits, by AVX-512 with VPOPCNTDQ: 64 products of trits are two counts of bits.
 *
 * A vector has two planes of words: where it is not 0, and where it is -1. The product of two vectors is the places where both
 * are not 0, less twice those of them where one is -1 and the other is not. `vectors` holds both planes of the first vector, then
 * those of the next; a plane has a word for each 64 elements of the `room` of a vector, and zeros behind its elements.
 */
#ifndef I2S_GRAMS_PLANES_H
#define I2S_GRAMS_PLANES_H

#define I2S_GRAM_POPCNT __attribute__((target(I2S_GRAM_WORDS ",avx512vpopcntdq,popcnt" I2S_BY_512)))

/* All ones where a code's trit is not 0, and where it is -1. */
typedef struct {
    uint64_t some[4], minus[4];
} i2s_gram_signs;

/* Add the codes of a pair of bits of n bytes to both planes of a vector, which are zeros from element `at` on. */
I2S_GRAM_POPCNT static inline void i2s_gram_append(const uint8_t *p, int64_t n, int pair, const i2s_gram_signs *signs,
                                                   uint64_t *some, uint64_t *minus, int64_t at) {
    const __m512i low = _mm512_set1_epi8((char)(1 << 2 * pair)), high = _mm512_set1_epi8((char)(2 << 2 * pair));
    int64_t i;
    for (i = 0; i < n; i += 64) {
        const uint64_t there = n - i < 64 ? ((uint64_t)1 << (n - i)) - 1 : UINT64_MAX;
        const __m512i bytes = _mm512_maskz_loadu_epi8(there, p + i);
        const uint64_t l = _mm512_test_epi8_mask(bytes, low), h = _mm512_test_epi8_mask(bytes, high);
        const uint64_t codes[4] = {~(l | h) & there, l & ~h, h & ~l, l & h};
        const int64_t word = (at + i) / 64;
        const int by = (int)((at + i) % 64);
        uint64_t a = 0, b = 0;
        int code;
        I2S_GRAM_UNROLLED
        for (code = 0; code < 4; code++) {
            a |= codes[code] & signs->some[code];
            b |= codes[code] & signs->minus[code];
        }
        some[word] |= a << by;
        minus[word] |= b << by;
        if (by && a >> (64 - by)) {  /* after the last word come zeros, which are not written */
            some[word + 1] |= a >> (64 - by);
            minus[word + 1] |= b >> (64 - by);
        }
    }
}

/* The planes of the trits that `gram_trits` of other sets spreads, in the same order. */
I2S_GRAM_POPCNT static void i2s_gram_trits_avx512vpopcntdq(const uint8_t *data, int64_t rows, int64_t stride, int64_t n,
                                                           int down, int mixed, const int8_t table[4], int64_t room,
                                                           int8_t *out, uint8_t *turned) {
    const int64_t vectors = down ? n : rows, length = down ? rows : n, words = room / 64;
    const int apart = down != mixed;
    uint64_t *planes = (uint64_t *)out;
    i2s_gram_signs signs;
    int64_t v, i;
    int pair;
    for (pair = 0; pair < 4; pair++) {
        signs.some[pair] = table[pair] ? UINT64_MAX : 0;
        signs.minus[pair] = table[pair] < 0 ? UINT64_MAX : 0;
    }
    if (down)
        for (i = 0; i < rows; i += 8)
            for (v = 0; v < n; v += 8)
                i2s_gram_turn_bytes(data + i * stride + v, rows - i, stride, n - v, turned + v * rows + i, rows);
    memset(planes, 0, (size_t)((apart ? 4 : 1) * vectors * 2 * words) * sizeof *planes);
    for (v = 0; v < vectors; v++) {
        const uint8_t *p = down ? turned + v * rows : data + v * stride;
        for (pair = 0; pair < 4; pair++) {
            uint64_t *some = planes + (apart ? 4 * v + pair : v) * 2 * words;
            i2s_gram_append(p, length, mixed ? 3 - pair : pair, &signs, some, some + words, apart ? 0 : pair * length);
        }
    }
}

/* Products of four vectors with sixteen, whose words lie beside each other: no sum has to be added up across a register. */
I2S_GRAM_POPCNT static void i2s_gram_products_avx512vpopcntdq(const int8_t *vectors, int64_t n, int64_t room,
                                                              int32_t *products) {
    enum { STRIP = 16, ROWS = 4, MOST = 16 };
    const uint64_t *planes = (const uint64_t *)vectors;
    const int64_t words = room / 64;
    uint64_t turned[MOST][4][8] __attribute__((aligned(64)));  /* of each word: not 0, of eight and of eight vectors; -1 */
    int64_t i, j, start, w;
    int a, k;
    for (j = 0; j < n; j += STRIP) {
        const int many = n - j < STRIP ? (int)(n - j) : STRIP;
        const __mmask8 masks[2] = {(__mmask8)(many < 8 ? (1 << many) - 1 : 255), (__mmask8)(many < 8 ? 0 : (1 << (many - 8)) - 1)};
        for (start = 0; start < words; start += MOST) {
            const int64_t now = words - start < MOST ? words - start : MOST;
            if (many < STRIP) memset(turned, 0, sizeof turned);
            for (k = 0; k < many; k++)
                for (w = 0; w < now; w++) {
                    const uint64_t *from = planes + (j + k) * 2 * words + start + w;
                    turned[w][k / 8][k % 8] = from[0];
                    turned[w][2 + k / 8][k % 8] = from[words];
                }
            for (i = j; i < n; i += ROWS) {  /* there are a multiple of four */
                const uint64_t *first = planes + i * 2 * words + start;
                __m512i both[ROWS][2], unlike[ROWS][2];
                I2S_GRAM_UNROLLED
                for (a = 0; a < 2 * ROWS; a++) both[a / 2][a % 2] = unlike[a / 2][a % 2] = _mm512_setzero_si512();
                for (w = 0; w < now; w++) {
                    const __m512i some[2] = {_mm512_load_si512(turned[w][0]), _mm512_load_si512(turned[w][1])};
                    const __m512i minus[2] = {_mm512_load_si512(turned[w][2]), _mm512_load_si512(turned[w][3])};
                    I2S_GRAM_UNROLLED
                    for (a = 0; a < 2 * ROWS; a++) {
                        const uint64_t *one = first + a / 2 * 2 * words + w;
                        const __m512i sign = _mm512_set1_epi64((int64_t)one[words]);
                        const __m512i there = _mm512_and_si512(some[a % 2], _mm512_set1_epi64((int64_t)one[0]));
                        const __m512i apart = _mm512_ternarylogic_epi64(there, minus[a % 2], sign, 0x60);  /* there & (. ^ .) */
                        both[a / 2][a % 2] = _mm512_add_epi64(both[a / 2][a % 2], _mm512_popcnt_epi64(there));
                        unlike[a / 2][a % 2] = _mm512_add_epi64(unlike[a / 2][a % 2], _mm512_popcnt_epi64(apart));
                    }
                }
                I2S_GRAM_UNROLLED
                for (a = 0; a < 2 * ROWS; a++) {
                    int32_t *to = products + (i + a / 2) * n + j + 8 * (a % 2);
                    const __m512i twice = _mm512_add_epi64(unlike[a / 2][a % 2], unlike[a / 2][a % 2]);
                    __m256i sums = _mm512_cvtepi64_epi32(_mm512_sub_epi64(both[a / 2][a % 2], twice));
                    if (start) sums = _mm256_add_epi32(sums, _mm256_maskz_loadu_epi32(masks[a % 2], to));
                    _mm256_mask_storeu_epi32(to, masks[a % 2], sums);
                }
            }
        }
    }
}

I2S_GRAM_POPCNT static void i2s_gram_means_avx512vpopcntdq(const int8_t *vectors, int64_t n, int64_t length, int64_t room,
                                                           double *means, double *sums) {
    const uint64_t *plane = (const uint64_t *)vectors;
    const int64_t words = room / 64;
    int64_t i, w;
    for (i = 0; i < n; i++, plane += 2 * words) {
        int64_t sum = 0;
        for (w = 0; w < words; w++) sum += __builtin_popcountll(plane[w]) - 2 * __builtin_popcountll(plane[words + w]);
        sums[i] = (double)sum;
        means[i] = (double)sum / (double)length;
    }
}

#define I2S_GRAM(name) i2s_##name##_avx512vpopcntdq
#define I2S_GRAM_TARGET I2S_GRAM_POPCNT
#define I2S_GRAM_MORE 0
#define I2S_GRAM_FIRST 0
#define I2S_GRAM_TURN i2s_gram_turn_512
#define I2S_GRAM_OF_PLANES 1
#include "grams_body.h"
#undef I2S_GRAM_OF_PLANES

static int i2s_grams_has_avx512vpopcntdq(void) { return i2s_cpu_avx512vpopcntdq() && I2S_HAS(popcnt); }

#endif
