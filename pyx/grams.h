/* Gram matrices of trits: the products of all pairs of vectors, each vector minus its mean.
 *
 * A byte holds four codes. `i2s_gram_trits` unpacks them: vectors are consecutive, as bytes -1, 0, +1, each padded with
 * zeros to whole cache lines; one set has planes of bits instead (`grams_planes.h`). Products of bytes are added in
 * pairs; with at most I2S_GRAM_MOST elements nothing overflows.
 */
#ifndef I2S_GRAMS_H
#define I2S_GRAMS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"

/* Loops over sums, which must stay in registers. */
#if defined(__GNUC__) && !defined(__clang__)
#define I2S_GRAM_UNROLLED _Pragma("GCC unroll 16")
#else
#define I2S_GRAM_UNROLLED
#endif

enum { I2S_GRAM_LINE = 64, I2S_GRAM_MOST = 1 << 14 };

/* At most eight bytes of each of at most eight rows, transposed. */
static inline void i2s_gram_turn_bytes(const uint8_t *from, int64_t rows, int64_t stride, int64_t n, uint8_t *to,
                                       int64_t width) {
    int64_t i, v;
#if defined(__BYTE_ORDER__) && defined(__ORDER_LITTLE_ENDIAN__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (rows >= 8 && n >= 8) {  /* squares of one byte, of two and of four are swapped */
        static const uint64_t kept[3] = {0x00FF00FF00FF00FFu, 0x0000FFFF0000FFFFu, 0x00000000FFFFFFFFu};
        uint64_t row[8];
        int k, step;
        for (k = 0; k < 8; k++) memcpy(&row[k], from + k * stride, 8);
        I2S_GRAM_UNROLLED
        for (step = 0; step < 3; step++) {
            I2S_GRAM_UNROLLED
            for (k = 0; k < 8; k++) {
                const int apart = 1 << step;
                uint64_t both;
                if (k & apart) continue;
                both = (row[k] >> 8 * apart ^ row[k + apart]) & kept[step];
                row[k + apart] ^= both;
                row[k] ^= both << 8 * apart;
            }
        }
        for (k = 0; k < 8; k++) memcpy(to + k * width, &row[k], 8);
        return;
    }
#endif
    for (i = 0; i < rows && i < 8; i++)
        for (v = 0; v < n && v < 8; v++) to[v * width + i] = from[i * stride + v];
}

/* The surplus from the sum of the second vector; nothing is subtracted where that sum is 0. */
#define I2S_GRAM_TOO_MUCH(sum) (I2S_GRAM_MORE ? (sum) : 0)

/* products[i * n + j], j at most i, of n vectors of `room` elements; n is a multiple of 4. Some sets multiply trits plus 1,
 * which are not negative, with trits: what is too much by that is the sum of the second vector where I2S_GRAM_MORE is 1, or of
 * the first where I2S_GRAM_FIRST is. */
static void i2s_gram_products_portable(const int8_t *vectors, int64_t n, int64_t room, int32_t *products) {
    int64_t i, j, c;
    for (i = 0; i < n; i++)
        for (j = 0; j <= i; j++) {
            const int8_t *one = vectors + i * room, *other = vectors + j * room;
            int16_t sum = 0;
            for (c = 0; c < room; c++) sum = (int16_t)(sum + (int16_t)(one[c] * other[c]));
            products[i * n + j] = sum;
        }
}
#define I2S_GRAM(name) i2s_##name##_portable
#define I2S_GRAM_TARGET
#define I2S_GRAM_MORE 0
#define I2S_GRAM_FIRST 0
#define I2S_GRAM_TURN(from, to, n, mean) 0
#include "grams_body.h"

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define I2S_GRAMS_X86 1
#include "intrinsics.h"

#define I2S_GRAM_256 __attribute__((target("avx2,fma")))
/* Four sums of vectors of 32-bit numbers, beside each other: those of pairs of vectors first, in turn. */
I2S_GRAM_256 static inline __m128i i2s_gram_totals_256(__m256i a, __m256i b, __m256i c, __m256i d) {
    const __m256i ab = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    const __m256i cd = _mm256_add_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    const __m256i all = _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
    return _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}

I2S_GRAM_256 static void i2s_gram_products_avx2(const int8_t *vectors, int64_t n, int64_t room, int32_t *products) {
    const __m256i one = _mm256_set1_epi8(1), ones = _mm256_set1_epi16(1);
    int64_t i, j, c;
    int a, b;
    for (i = 0; i < n; i += 2)
        for (j = 0; j <= i; j += 4) {
            __m256i sums[2][4];
I2S_GRAM_UNROLLED
            for (a = 0; a < 8; a++) sums[a / 4][a % 4] = _mm256_setzero_si256();
            for (c = 0; c < room; c += 32) {
                __m256i first[2];
I2S_GRAM_UNROLLED
                for (a = 0; a < 2; a++)
                    first[a] = _mm256_add_epi8(one, _mm256_loadu_si256((const __m256i *)(vectors + (i + a) * room + c)));
I2S_GRAM_UNROLLED
                for (b = 0; b < 4; b++) {
                    const __m256i second = _mm256_loadu_si256((const __m256i *)(vectors + (j + b) * room + c));
I2S_GRAM_UNROLLED
                    for (a = 0; a < 2; a++)
                        sums[a][b] = _mm256_add_epi16(sums[a][b], _mm256_maddubs_epi16(first[a], second));
                }
            }
I2S_GRAM_UNROLLED
            for (a = 0; a < 8; a++) sums[a / 4][a % 4] = _mm256_madd_epi16(sums[a / 4][a % 4], ones);
I2S_GRAM_UNROLLED
            for (a = 0; a < 2; a++)
                _mm_storeu_si128((__m128i *)(products + (i + a) * n + j),
                                 i2s_gram_totals_256(sums[a][0], sums[a][1], sums[a][2], sums[a][3]));
        }
}
#define I2S_GRAM(name) i2s_##name##_avx2
#define I2S_GRAM_TARGET I2S_GRAM_256
#define I2S_GRAM_MORE 1
#define I2S_GRAM_FIRST 0
#define I2S_GRAM_TURN(from, to, n, mean) 0
#include "grams_body.h"

#define I2S_GRAM_WORDS "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq"
#define I2S_GRAM_512 __attribute__((target(I2S_GRAM_WORDS I2S_BY_512)))
I2S_GRAM_512 static inline __m128i i2s_gram_totals_512(const __m512i v[4]) {
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m256i two = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
}

/* A 16 by 16 tile of floats of a matrix of n columns minus `mean`, written in place and transposed to the mirrored
 * place. */
I2S_GRAM_512 static inline int i2s_gram_turn_512(float *from, float *to, int64_t n, float mean) {
    __m512 rows[16], turned[16];
    int a;
I2S_GRAM_UNROLLED
    for (a = 0; a < 16; a++) {
        rows[a] = _mm512_sub_ps(_mm512_loadu_ps(from + a * n), _mm512_set1_ps(mean));
        _mm512_storeu_ps(from + a * n, rows[a]);
    }
I2S_GRAM_UNROLLED
    for (a = 0; a < 16; a += 2) {
        turned[a] = _mm512_unpacklo_ps(rows[a], rows[a + 1]);
        turned[a + 1] = _mm512_unpackhi_ps(rows[a], rows[a + 1]);
    }
I2S_GRAM_UNROLLED
    for (a = 0; a < 16; a++) {  /* rows[4 q + c]: of rows 4 q to 4 q + 3 the columns c, 4 + c, 8 + c, 12 + c */
        const __m512d one = _mm512_castps_pd(turned[a / 4 * 4 + a % 4 / 2]);
        const __m512d other = _mm512_castps_pd(turned[a / 4 * 4 + a % 4 / 2 + 2]);
        rows[a] = _mm512_castpd_ps(a % 2 ? _mm512_unpackhi_pd(one, other) : _mm512_unpacklo_pd(one, other));
    }
I2S_GRAM_UNROLLED
    for (a = 0; a < 4; a++) {
        const __m512 even = _mm512_shuffle_f32x4(rows[a], rows[4 + a], 0x88);
        const __m512 odd = _mm512_shuffle_f32x4(rows[a], rows[4 + a], 0xDD);
        const __m512 even_below = _mm512_shuffle_f32x4(rows[8 + a], rows[12 + a], 0x88);
        const __m512 odd_below = _mm512_shuffle_f32x4(rows[8 + a], rows[12 + a], 0xDD);
        _mm512_storeu_ps(to + a * n, _mm512_shuffle_f32x4(even, even_below, 0x88));
        _mm512_storeu_ps(to + (4 + a) * n, _mm512_shuffle_f32x4(odd, odd_below, 0x88));
        _mm512_storeu_ps(to + (8 + a) * n, _mm512_shuffle_f32x4(even, even_below, 0xDD));
        _mm512_storeu_ps(to + (12 + a) * n, _mm512_shuffle_f32x4(odd, odd_below, 0xDD));
    }
    return 1;
}

/* Products of four vectors with four, by `add`(sums, first, second); `whole` makes 32-bit numbers of the sums. */
#define I2S_GRAM_PRODUCTS_512(name, target_words, add, whole)                                                           \
    target_words static void name(const int8_t *vectors, int64_t n, int64_t room, int32_t *products) {                  \
        const __m512i one = _mm512_set1_epi8(1);                                                                        \
        int64_t i, j, c;                                                                                                \
        int a, b;                                                                                                       \
        for (i = 0; i < n; i += 4)                                                                                      \
            for (j = 0; j <= i; j += 4) {                                                                               \
                __m512i sums[4][4];                                                                                     \
                I2S_GRAM_UNROLLED                                                                                       \
                for (a = 0; a < 16; a++) sums[a / 4][a % 4] = _mm512_setzero_si512();                                   \
                for (c = 0; c < room; c += 64) {                                                                        \
                    __m512i first[4];                                                                                   \
                    I2S_GRAM_UNROLLED                                                                                   \
                    for (a = 0; a < 4; a++)                                                                             \
                        first[a] = _mm512_add_epi8(one, _mm512_loadu_si512(vectors + (i + a) * room + c));              \
                    I2S_GRAM_UNROLLED                                                                                   \
                    for (b = 0; b < 4; b++) {                                                                           \
                        const __m512i second = _mm512_loadu_si512(vectors + (j + b) * room + c);                        \
                        I2S_GRAM_UNROLLED                                                                               \
                        for (a = 0; a < 4; a++) sums[a][b] = add(sums[a][b], first[a], second);                         \
                    }                                                                                                   \
                }                                                                                                       \
                I2S_GRAM_UNROLLED                                                                                       \
                for (a = 0; a < 16; a++) sums[a / 4][a % 4] = whole(sums[a / 4][a % 4]);                                \
                I2S_GRAM_UNROLLED                                                                                       \
                for (a = 0; a < 4; a++)                                                                                 \
                    _mm_storeu_si128((__m128i *)(products + (i + a) * n + j), i2s_gram_totals_512(sums[a]));            \
            }                                                                                                           \
    }

#define I2S_GRAM_ADD_WORDS(sums, first, second) _mm512_add_epi16(sums, _mm512_maddubs_epi16(first, second))
#define I2S_GRAM_WHOLE_WORDS(sums) _mm512_madd_epi16(sums, _mm512_set1_epi16(1))
I2S_GRAM_PRODUCTS_512(i2s_gram_products_avx512, I2S_GRAM_512, I2S_GRAM_ADD_WORDS, I2S_GRAM_WHOLE_WORDS)
#define I2S_GRAM(name) i2s_##name##_avx512
#define I2S_GRAM_TARGET I2S_GRAM_512
#define I2S_GRAM_MORE 1
#define I2S_GRAM_FIRST 0
#define I2S_GRAM_TURN i2s_gram_turn_512
#include "grams_body.h"

#define I2S_GRAM_VNNI __attribute__((target(I2S_GRAM_WORDS ",avx512vnni" I2S_BY_512)))
/* Products of eight vectors with 32, which are turned so that a register has four elements of each of sixteen: no sum
 * has to be added up across one. The turned ones are not negative, so that what is too much is the sum of the first vector. */
I2S_GRAM_VNNI static void i2s_gram_products_avx512vnni(const int8_t *vectors, int64_t n, int64_t room, int32_t *products) {
    enum { STRIP = 32, ROWS = 8, CHUNK = 1024 };
    __m512i turned[CHUNK / 4][2];
    const __m512i one = _mm512_set1_epi8(1);
    int64_t i, j, start, c;
    int a, k;
    for (j = 0; j < n; j += STRIP) {
        const int many = n - j < STRIP ? (int)(n - j) : STRIP;
        const uint32_t there = many < STRIP ? ((uint32_t)1 << many) - 1 : UINT32_MAX;
        const __mmask16 masks[2] = {(__mmask16)there, (__mmask16)(there >> 16)};
        for (start = 0; start < room; start += CHUNK) {
            const int64_t now = room - start < CHUNK ? room - start : CHUNK;
            if (many < STRIP) memset(turned, 0, sizeof turned);
            for (k = 0; k < many; k++)
                for (c = 0; c < now; c += 4)
                    memcpy((char *)turned + (c / 4 * STRIP + k) * 4, vectors + (j + k) * room + start + c, 4);
            for (c = 0; c < now / 4; c++) {
                turned[c][0] = _mm512_add_epi8(turned[c][0], one);
                turned[c][1] = _mm512_add_epi8(turned[c][1], one);
            }
            for (i = j; i < n; i += ROWS) {
                const int8_t *first[ROWS];
                __m512i sums[ROWS][2];
I2S_GRAM_UNROLLED
                for (a = 0; a < ROWS; a++) {
                    const int64_t row = i + a < n ? i + a : n - 1;
                    const int32_t *before = products + row * n + j;
                    first[a] = vectors + row * room + start;
                    sums[a][0] = start ? _mm512_maskz_loadu_epi32(masks[0], before) : _mm512_setzero_si512();
                    sums[a][1] = start ? _mm512_maskz_loadu_epi32(masks[1], before + 16) : _mm512_setzero_si512();
                }
                for (c = 0; c < now; c += 4) {
                    const __m512i low = turned[c / 4][0], high = turned[c / 4][1];
I2S_GRAM_UNROLLED
                    for (a = 0; a < ROWS; a++) {
                        int32_t four;
                        __m512i all;
                        memcpy(&four, first[a] + c, sizeof four);
                        all = _mm512_set1_epi32(four);
                        sums[a][0] = _mm512_dpbusd_epi32(sums[a][0], low, all);
                        sums[a][1] = _mm512_dpbusd_epi32(sums[a][1], high, all);
                    }
                }
I2S_GRAM_UNROLLED
                for (a = 0; a < ROWS; a++)
                    if (i + a < n) {
                        _mm512_mask_storeu_epi32(products + (i + a) * n + j, masks[0], sums[a][0]);
                        _mm512_mask_storeu_epi32(products + (i + a) * n + j + 16, masks[1], sums[a][1]);
                    }
            }
        }
    }
}
#define I2S_GRAM(name) i2s_##name##_avx512vnni
#define I2S_GRAM_TARGET I2S_GRAM_VNNI
#define I2S_GRAM_MORE 0
#define I2S_GRAM_FIRST 1
#define I2S_GRAM_TURN i2s_gram_turn_512
#include "grams_body.h"

#include "grams_planes.h"

static int i2s_grams_has_avx2(void) { return i2s_cpu_avx2fma(); }
static int i2s_grams_has_avx512(void) { return i2s_cpu_avx512bw(); }
static int i2s_grams_has_avx512vnni(void) { return i2s_cpu_avx512vnni(); }
#endif

static int i2s_grams_has_portable(void) { return 1; }

typedef struct {
    const char *name;
    int (*available)(void);
    void (*trits)(const uint8_t *, int64_t, int64_t, int64_t, int, int, const int8_t *, int64_t, int8_t *, uint8_t *);
    void (*gram)(const int8_t *, int64_t, int64_t, int64_t, int32_t *, double *, float *);
    void (*correlated)(const int8_t *, int64_t, int64_t, int64_t, int32_t *, double *, float *);
    void (*correlations)(const float *, int64_t, double *, float *);
} i2s_grams_set;

#define I2S_GRAMS_ROW(set)                                                                                              \
    {#set, i2s_grams_has_##set, i2s_gram_trits_##set, i2s_gram_##set, i2s_gram_correlated_##set, i2s_gram_correlations_##set}
/* From the slowest to the fastest. */
static const i2s_grams_set i2s_grams_sets[] = {
    I2S_GRAMS_ROW(portable),
#ifdef I2S_GRAMS_X86
    I2S_GRAMS_ROW(avx2), I2S_GRAMS_ROW(avx512), I2S_GRAMS_ROW(avx512vnni), I2S_GRAMS_ROW(avx512vpopcntdq),
#endif
};
enum { I2S_GRAMS_SETS = sizeof(i2s_grams_sets) / sizeof(i2s_grams_sets[0]) };

#endif
