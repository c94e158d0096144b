/* Counts of set pairs of bits, down the columns of a matrix of bytes and along its segments.
 *
 * For each pair one bit is counted: the lower one, or whether either is set. Down the columns, two rows are joined in
 * one vector (the upper bit of each pair is the second row's) and counted in slices: plane k of a vector holds bit k of
 * as many counters as the vector has bits, and carry-save adders add sixteen vectors to the planes at once. Eight
 * planes hold counts up to 255, which are then added to the counters. Along a segment, fields of bits are added, and
 * widened before they overflow.
 */
#ifndef I2S_BIT_SUMS_H
#define I2S_BIT_SUMS_H

#include <stdint.h>
#include <string.h>

#include "cpu.h"

enum { I2S_PLANES = 8, I2S_MOST_BYTES = 64 };

/* Loops over planes, which must stay in registers. */
#if defined(__GNUC__) && !defined(__clang__)
#define I2S_UNROLLED _Pragma("GCC unroll 16")
#else
#define I2S_UNROLLED
#endif

/* a + b + c, of each bit: the sum in low, the carry in high. */
#define I2S_CSA(type, high, low, a, b, c)                                                                               \
    do {                                                                                                                \
        const type i2s_a = (a), i2s_b = (b), i2s_c = (c), i2s_u = i2s_a ^ i2s_b;                                        \
        (high) = (i2s_a & i2s_b) | (i2s_u & i2s_c);                                                                     \
        (low) = i2s_u ^ i2s_c;                                                                                          \
    } while (0)

/* The sum of the bytes of each 64-bit number; one instruction if the processor has it. */
#define I2S_SAD_STEP(x, by, mask) (((x) & (mask)) + ((x) >> (by) & (mask)))
#define I2S_SUMS_SAD(V, x)                                                                                              \
    I2S_SAD_STEP(I2S_SAD_STEP(I2S_SAD_STEP(x, 8, 0x00FF00FF00FF00FFu), 16, 0x0000FFFF0000FFFFu), 32, 0xFFFFFFFFu)
#define I2S_SUMS_SPREAD(sums, out)                                                                                      \
    do {                                                                                                                \
        const uint64_t i2s_total = (sums)[0] + (sums)[1];                                                               \
        for (int i2s_k = 0; i2s_k < 4; i2s_k++) (out)[i2s_k] += (uint32_t)(i2s_total >> 16 * i2s_k & 0xFFFF);           \
    } while (0)
#define I2S_SUMS_PART(v, p, n) memcpy(&(v), p, (size_t)(n))
#define I2S_SUMS_CSA I2S_CSA
#define I2S_SUMS_BYTES 16
#define I2S_SUMS(name) i2s_##name##_portable
#define I2S_SUMS_TARGET
#include "bit_sums_body.h"

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define I2S_SUMS_X86 1
#include "intrinsics.h"
/* Adds four sums of 16 bits in each half of 128 bits to counters. */
#define I2S_SUMS_SPREAD_128(x, out)                                                                                     \
    do {                                                                                                                \
        const __m128i i2s_x = (x), i2s_four = _mm_cvtepu16_epi32(_mm_add_epi64(i2s_x, _mm_unpackhi_epi64(i2s_x, i2s_x))); \
        _mm_storeu_si128((__m128i *)(out), _mm_add_epi32(_mm_loadu_si128((const __m128i *)(out)), i2s_four));           \
    } while (0)
#define I2S_SUMS_SPREAD_256(x, out)                                                                                     \
    I2S_SUMS_SPREAD_128(_mm_add_epi64(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)), out)
#define I2S_SUMS_SPREAD(sums, out) I2S_SUMS_SPREAD_256((__m256i)(sums), out)
#define I2S_SUMS_SAD(V, x) (V)_mm256_sad_epu8((__m256i)(x), _mm256_setzero_si256())
#define I2S_SUMS_PART(v, p, n) memcpy(&(v), p, (size_t)(n))
#define I2S_SUMS_CSA I2S_CSA
#define I2S_SUMS_BYTES 32
#define I2S_SUMS(name) i2s_##name##_avx2
#define I2S_SUMS_TARGET __attribute__((target("avx2,popcnt")))
#include "bit_sums_body.h"

#define I2S_SUMS_SPREAD(sums, out)                                                                                      \
    do {                                                                                                                \
        const __m512i i2s_eight = (__m512i)(sums);                                                                      \
        const __m256i i2s_half = _mm256_add_epi64(_mm512_castsi512_si256(i2s_eight),                                    \
                                                  _mm512_extracti64x4_epi64(i2s_eight, 1));                             \
        I2S_SUMS_SPREAD_256(i2s_half, out);                                                                             \
    } while (0)
#define I2S_SUMS_SAD(V, x) (V)_mm512_sad_epu8((__m512i)(x), _mm512_setzero_si512())
#define I2S_SUMS_PART(v, p, n) (v) = (V)_mm512_maskz_loadu_epi8(((__mmask64)1 << (n)) - 1, p)
#define I2S_SUMS_CSA(V, high, low, a, b, c)                                                                             \
    do {                                                                                                                \
        const __m512i i2s_a = (__m512i)(a), i2s_b = (__m512i)(b), i2s_c = (__m512i)(c);                                 \
        (high) = (V)_mm512_ternarylogic_epi64(i2s_a, i2s_b, i2s_c, 0xE8);                                               \
        (low) = (V)_mm512_ternarylogic_epi64(i2s_a, i2s_b, i2s_c, 0x96);                                                \
    } while (0)
#define I2S_SUMS_BYTES 64
#define I2S_SUMS(name) i2s_##name##_avx512
#define I2S_SUMS_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,popcnt" I2S_BY_512)))
#include "bit_sums_body.h"

static int i2s_sums_has_avx2(void) { return i2s_cpu_avx2() && i2s_cpu_popcnt(); }
static int i2s_sums_has_avx512(void) { return i2s_cpu_avx512bw() && i2s_cpu_popcnt(); }
#endif

static int i2s_sums_has_portable(void) { return 1; }

typedef struct {
    const char *name;
    int (*available)(void);
    int (*sums)(const uint8_t *, int64_t, int64_t, int64_t, int, uint32_t *, uint32_t *, uint8_t *, int, int);
} i2s_sums_set;

/* From the slowest to the fastest. */
static const i2s_sums_set i2s_sums_sets[] = {
    {"portable", i2s_sums_has_portable, i2s_bit_sums_portable},
#ifdef I2S_SUMS_X86
    {"avx2", i2s_sums_has_avx2, i2s_bit_sums_avx2},
    {"avx512", i2s_sums_has_avx512, i2s_bit_sums_avx512},
#endif
};
enum { I2S_SUMS_SETS = sizeof(i2s_sums_sets) / sizeof(i2s_sums_sets[0]) };

/* Counts of the places of columns from sums [4, cols]: where a byte holds four columns of a row, those of the four stretches of
 * a row of bytes together; then where it holds four rows, those of its pairs. Of `height` those that are not set, if `others`. */
static void i2s_totals_of_columns(const uint32_t *pairs, int64_t cols, uint32_t height, int others, uint32_t *columns) {
    const uint32_t sign = others ? UINT32_MAX : 0, more = others ? height + 1 : 0;  /* x ^ sign is -1 - x */
    const int64_t quarter = cols / 4;
    int64_t i;
    int p;
    for (i = 0; i < quarter; i++)
        for (p = 0; p < 4; p++) {
            const uint32_t *of = pairs + p * cols + i;
            columns[4 * i + p] = ((of[0] + of[quarter] + of[2 * quarter] + of[3 * quarter]) ^ sign) + more;
        }
    for (columns += cols, i = 0; i < cols; i++)
        columns[i] = ((pairs[i] + pairs[cols + i] + pairs[2 * cols + i] + pairs[3 * cols + i]) ^ sign) + more;
}

/* Counts of rows of `width` from the sums of groups of four stretches of four pairs: of stretches, each a row; then of pairs, of
 * which the greatest is the first row. */
static void i2s_totals_of_rows(const uint32_t *stretches, int64_t groups, uint32_t width, int others, uint32_t *rows) {
    const uint32_t sign = others ? UINT32_MAX : 0, more = others ? width + 1 : 0;
    uint32_t *mixed = rows + 4 * groups;
    int64_t i;
    int k;
    for (i = 0; i < groups; i++, stretches += 16, rows += 4, mixed += 4)
        for (k = 0; k < 4; k++) {
            const uint32_t *of = stretches + 4 * k;
            rows[k] = ((of[0] + of[1] + of[2] + of[3]) ^ sign) + more;
            mixed[3 - k] = ((stretches[k] + stretches[4 + k] + stretches[8 + k] + stretches[12 + k]) ^ sign) + more;
        }
}

#endif
