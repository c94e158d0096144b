/* Gram matrices of trits: the products of vectors with each other, each vector less its mean.
 *
 * A byte holds four codes. `i2s_gram_trits` spreads them: vectors lie beside each other, as bytes -1, 0, +1, and behind each as
 * many zeros as make whole lines. Products are of bytes, which are added in pairs; with at most I2S_GRAM_MOST elements nothing
 * overflows.
 */
#ifndef I2S_GRAMS_H
#define I2S_GRAMS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"

/* Loops over sums, which stay in registers. */
#if defined(__GNUC__) && !defined(__clang__)
#define I2S_GRAM_UNROLLED _Pragma("GCC unroll 16")
#else
#define I2S_GRAM_UNROLLED
#endif

enum { I2S_GRAM_LINE = 64, I2S_GRAM_MOST = 1 << 14 };

/* The trits of one pair of bits of n bytes; `table` has that of each code. */
static inline void i2s_gram_spread(const uint8_t *p, int64_t n, int pair, const int8_t table[4], int8_t *out) {
    const int8_t first = table[0], low = (int8_t)(table[1] - first), high = (int8_t)(table[2] - first);
    const int8_t both = (int8_t)(table[3] - table[1] - table[2] + first);
    int64_t i;
    for (i = 0; i < n; i++) {
        const uint8_t code = (uint8_t)(p[i] >> 2 * pair);
        const int8_t one = (int8_t)-(code & 1), two = (int8_t)-(code >> 1 & 1);
        out[i] = (int8_t)(first + (one & low) + (two & high) + (one & two & both));
    }
}

/* The trits of a rectangle of n bytes in each of `rows` rows, `stride` apart, as vectors of `room` elements each.
 *
 * Down the columns a vector is a place: a pair of bits where bytes hold four places of one row (`mixed` is 0; the least pair
 * is the first place), else a byte, which holds four rows. Along the rows it is a row: of bytes, or of a pair of bits (the
 * greatest is the first row). `turned` has room for rows * n bytes. The order within a vector does not matter. */
static void i2s_gram_trits(const uint8_t *data, int64_t rows, int64_t stride, int64_t n, int down, int mixed,
                           const int8_t table[4], int64_t room, int8_t *out, uint8_t *turned) {
    const int64_t vectors = down ? n : rows, length = down ? rows : n;
    int64_t v, i;
    int pair;
    if (down)
        for (i = 0; i < rows; i++)
            for (v = 0; v < n; v++) turned[v * rows + i] = data[i * stride + v];
    for (v = 0; v < vectors; v++) {
        const uint8_t *p = down ? turned + v * rows : data + v * stride;
        const int apart = down != mixed;  /* each pair is a vector of its own, or the next part of one */
        for (pair = 0; pair < 4; pair++)
            i2s_gram_spread(p, length, mixed ? 3 - pair : pair, table,
                            apart ? out + (4 * v + pair) * room : out + v * room + pair * length);
        if (apart) {
            for (pair = 0; pair < 4; pair++) memset(out + (4 * v + pair) * room + length, 0, (size_t)(room - length));
        } else memset(out + v * room + 4 * length, 0, (size_t)(room - 4 * length));
    }
}

/* products[i * n + j], j at most i, of n vectors of `room` elements; n is a multiple of 4. */
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

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define I2S_GRAMS_X86 1
#include <immintrin.h>

/* Products of trits plus 1, which are not negative, with trits; what is too much by that is the sum of the second vector. */
__attribute__((target("avx2"))) static inline int32_t i2s_gram_total_avx2(__m256i sums) {
    const __m256i words = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
}

__attribute__((target("avx2"))) static void i2s_gram_products_avx2(const int8_t *vectors, int64_t n, int64_t room,
                                                                   int32_t *products) {
    const __m256i one = _mm256_set1_epi8(1);
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
            for (a = 0; a < 8; a++) products[(i + a / 4) * n + j + a % 4] = i2s_gram_total_avx2(sums[a / 4][a % 4]);
        }
}

#define I2S_GRAM_512 __attribute__((target("avx2,avx512f,avx512bw,avx512vl,avx512dq" I2S_BY_512)))
I2S_GRAM_512 static void i2s_gram_products_avx512(const int8_t *vectors, int64_t n, int64_t room, int32_t *products) {
    const __m512i one = _mm512_set1_epi8(1);
    int64_t i, j, c;
    int a, b;
    for (i = 0; i < n; i += 4)
        for (j = 0; j <= i; j += 4) {
            __m512i sums[4][4];
I2S_GRAM_UNROLLED
            for (a = 0; a < 16; a++) sums[a / 4][a % 4] = _mm512_setzero_si512();
            for (c = 0; c < room; c += 64) {
                __m512i first[4];
I2S_GRAM_UNROLLED
                for (a = 0; a < 4; a++) first[a] = _mm512_add_epi8(one, _mm512_loadu_si512(vectors + (i + a) * room + c));
I2S_GRAM_UNROLLED
                for (b = 0; b < 4; b++) {
                    const __m512i second = _mm512_loadu_si512(vectors + (j + b) * room + c);
I2S_GRAM_UNROLLED
                    for (a = 0; a < 4; a++)
                        sums[a][b] = _mm512_add_epi16(sums[a][b], _mm512_maddubs_epi16(first[a], second));
                }
            }
I2S_GRAM_UNROLLED
            for (a = 0; a < 16; a++)
                products[(i + a / 4) * n + j + a % 4] =
                    i2s_gram_total_avx2(_mm256_add_epi16(_mm512_castsi512_si256(sums[a / 4][a % 4]),
                                                         _mm512_extracti64x4_epi64(sums[a / 4][a % 4], 1)));
        }
}

static int i2s_grams_has_avx2(void) { return i2s_cpu_avx2(); }
static int i2s_grams_has_avx512(void) { return i2s_cpu_avx512bw(); }
#endif

static int i2s_grams_has_portable(void) { return 1; }

typedef struct {
    const char *name;
    int (*available)(void);
    void (*products)(const int8_t *, int64_t, int64_t, int32_t *);
    int more;  /* whether each product is too much by the sum of its second vector */
} i2s_grams_set;

/* From the slowest to the fastest. */
static const i2s_grams_set i2s_grams_sets[] = {
    {"portable", i2s_grams_has_portable, i2s_gram_products_portable, 0},
#ifdef I2S_GRAMS_X86
    {"avx2", i2s_grams_has_avx2, i2s_gram_products_avx2, 1},
    {"avx512", i2s_grams_has_avx512, i2s_gram_products_avx512, 1},
#endif
};
enum { I2S_GRAMS_SETS = sizeof(i2s_grams_sets) / sizeof(i2s_grams_sets[0]) };

/* The upper triangle of a square matrix becomes that of the lower one; in squares, which stay in the cache. */
static inline void i2s_gram_mirror(float *out, int64_t n) {
    enum { SQUARE = 16 };
    int64_t i, j, row, to;
    for (i = 0; i < n; i += SQUARE)
        for (j = 0; j <= i; j += SQUARE)
            for (row = i; row < n && row < i + SQUARE; row++) {
                to = row < j + SQUARE ? row : j + SQUARE;
                for (int64_t col = j; col < to; col++) out[col * n + row] = out[row * n + col];
            }
}

/* The Gram of n vectors of `length` elements with `room` for each: less the means, whole, in floats. `means` has room for
 * twice n numbers. */
static void i2s_gram(const i2s_grams_set *set, const int8_t *vectors, int64_t n, int64_t length, int64_t room,
                     int32_t *products, double *means, float *out) {
    double *sums = means + n;
    int64_t i, j;
    set->products(vectors, n, room, products);
    for (i = 0; i < n; i++) {
        int32_t sum = 0;
        for (j = 0; j < room; j++) sum += vectors[i * room + j];
        sums[i] = sum;
        means[i] = sum / (double)length;
    }
    for (i = 0; i < n; i++) {
        const double sum = sums[i], more = set->more;
        for (j = 0; j <= i; j++) out[i * n + j] = (float)(products[i * n + j] - more * sums[j] - sum * means[j]);
    }
    i2s_gram_mirror(out, n);
}

/* Products as correlations: 0 on the diagonal and for vectors that are constant, and summing up to 0. */
static void i2s_gram_correlations(const float *products, int64_t n, double *inverse, float *out) {
    const double pairs = n > 1 ? (double)n * (double)(n - 1) : 1;
    double mean = 0;
    int64_t i, j;
    for (i = 0; i < n; i++) inverse[i] = products[i * n + i] > 0 ? 1 / sqrt((double)products[i * n + i]) : 0;
    for (i = 0; i < n; i++) {
        double sums[4] = {0};
        for (j = 0; j + 4 <= i; j += 4) {
            int k;
            for (k = 0; k < 4; k++) sums[k] += products[i * n + j + k] * inverse[j + k];
        }
        for (; j < i; j++) sums[0] += products[i * n + j] * inverse[j];
        mean += (sums[0] + sums[1] + sums[2] + sums[3]) * inverse[i];
    }
    mean = 2 * mean / pairs;
    for (i = 0; i < n; i++) {
        for (j = 0; j < n; j++) out[i * n + j] = (float)(products[i * n + j] * inverse[i] * inverse[j] - mean);
        out[i * n + i] = 0;
    }
}

#endif
