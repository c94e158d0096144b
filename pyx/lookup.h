/* Products of packed weights with activation codes by tables: partial sums for pairs of weights are looked up.
 *
 * Half a byte of weights holds the codes of two columns. For one token such a pair has 16 possible sums; they are
 * computed once (i2s_lookup_tables) and then only looked up, for every row. A vector instruction that looks up bytes
 * uses one table for all of its lanes, so lanes have to be rows: i2s_lookup_arrange puts byte j of 32 rows side by
 * side. Sums of pairs need 16 bits (-768 to 762), so every look-up is two, for the low and the high bytes; sums of 32
 * pairs of a row fit 16 bits again, and are then added to 32-bit sums.
 */
#ifndef I2S_LOOKUP_H
#define I2S_LOOKUP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"

#define I2S_LU_ROWS 32   /* rows side by side */
#define I2S_LU_TABLE 64  /* bytes of the tables of a byte of weights: low and high bytes of either half's 16 sums */
#define I2S_LU_FLUSH 16  /* bytes of weights whose pairs fit 16 bits together: 2 * 16 * 768 < 2^15 */

/* Rows of `bytes` each, 32 side by side; missing rows are zeros. */
static void i2s_lookup_arrange(const uint8_t *w, int64_t rows, int64_t bytes, uint8_t *to) {
    for (int64_t first = 0; first < rows; first += I2S_LU_ROWS, to += bytes * I2S_LU_ROWS) {
        const int64_t there = rows - first < I2S_LU_ROWS ? rows - first : I2S_LU_ROWS;
        if (there < I2S_LU_ROWS) memset(to, 0, (size_t)(bytes * I2S_LU_ROWS));
        for (int64_t r = 0; r < there; r++)
            for (int64_t j = 0; j < bytes; j++) to[j * I2S_LU_ROWS + r] = w[(first + r) * bytes + j];
    }
}

/* The tables of one token: for each byte of a row, those of its upper half, then those of its lower half. */
static void i2s_lookup_tables(const int8_t *codes, int64_t blocks, uint8_t *tables) {
    for (int64_t b = 0; b < blocks; b++, codes += 128)
        for (int j = 0; j < 32; j++)
            for (int half = 0; half < 2; half++, tables += 32) {
                const int first = codes[64 * half + j], second = codes[64 * half + 32 + j];
                for (int i = 0; i < 16; i++) {
                    const uint16_t sum = (uint16_t)((i >> 2) * first + (i & 3) * second);
                    tables[i] = (uint8_t)sum;
                    tables[16 + i] = (uint8_t)(sum >> 8);
                }
            }
}

static void i2s_lookup_portable(const uint8_t *w, int64_t groups, int64_t bytes, const uint8_t *tables, int32_t *out) {
    for (int64_t g = 0; g < groups; g++, out += I2S_LU_ROWS) {
        memset(out, 0, I2S_LU_ROWS * sizeof *out);
        for (int64_t j = 0; j < bytes; j++, w += I2S_LU_ROWS) {
            const uint8_t *upper = tables + j * I2S_LU_TABLE, *lower = upper + 32;
            for (int r = 0; r < I2S_LU_ROWS; r++) {
                const int a = w[r] >> 4, b = w[r] & 15;
                out[r] += (int16_t)(uint16_t)(upper[a] | upper[16 + a] << 8);
                out[r] += (int16_t)(uint16_t)(lower[b] | lower[16 + b] << 8);
            }
        }
    }
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include "intrinsics.h"
#define I2S_LU_X86 1

__attribute__((target("avx2"))) static void i2s_lookup_avx2(const uint8_t *w, int64_t groups, int64_t bytes,
                                                            const uint8_t *tables, int32_t *out) {
    const __m256i mask = _mm256_set1_epi8(15);
    for (int64_t g = 0; g < groups; g++, out += I2S_LU_ROWS) {
        __m256i sum[4]; /* rows 0 to 7, 8 to 15, 16 to 23, 24 to 31 */
        for (int i = 0; i < 4; i++) sum[i] = _mm256_setzero_si256();
        const uint8_t *t = tables;
        for (int64_t j = 0; j < bytes; j += I2S_LU_FLUSH) {
            /* An unpacked pair of halves has the rows 0 to 7 and 16 to 23, or 8 to 15 and 24 to 31. */
            __m256i even = _mm256_setzero_si256(), odd = _mm256_setzero_si256();
            for (int k = 0; k < I2S_LU_FLUSH; k++, w += I2S_LU_ROWS, t += I2S_LU_TABLE) {
                const __m256i v = _mm256_loadu_si256((const __m256i *)w);
                const __m256i upper = _mm256_and_si256(_mm256_srli_epi16(v, 4), mask), lower = _mm256_and_si256(v, mask);
                const __m256i ul = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)t));
                const __m256i uh = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(t + 16)));
                const __m256i ll = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(t + 32)));
                const __m256i lh = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(t + 48)));
                const __m256i a = _mm256_shuffle_epi8(ul, upper), b = _mm256_shuffle_epi8(uh, upper);
                const __m256i c = _mm256_shuffle_epi8(ll, lower), d = _mm256_shuffle_epi8(lh, lower);
                even = _mm256_add_epi16(even, _mm256_unpacklo_epi8(a, b));
                odd = _mm256_add_epi16(odd, _mm256_unpackhi_epi8(a, b));
                even = _mm256_add_epi16(even, _mm256_unpacklo_epi8(c, d));
                odd = _mm256_add_epi16(odd, _mm256_unpackhi_epi8(c, d));
            }
            sum[0] = _mm256_add_epi32(sum[0], _mm256_cvtepi16_epi32(_mm256_castsi256_si128(even)));
            sum[1] = _mm256_add_epi32(sum[1], _mm256_cvtepi16_epi32(_mm256_castsi256_si128(odd)));
            sum[2] = _mm256_add_epi32(sum[2], _mm256_cvtepi16_epi32(_mm256_extracti128_si256(even, 1)));
            sum[3] = _mm256_add_epi32(sum[3], _mm256_cvtepi16_epi32(_mm256_extracti128_si256(odd, 1)));
        }
        for (int i = 0; i < 4; i++) _mm256_storeu_si256((__m256i *)(out + 8 * i), sum[i]);
    }
}

/* Two groups of 32 rows side by side, a half of the vector each. */
__attribute__((target("avx512f,avx512bw"))) static void i2s_lookup_avx512(const uint8_t *w, int64_t groups, int64_t bytes,
                                                                          const uint8_t *tables, int32_t *out) {
    const __m512i mask = _mm512_set1_epi8(15);
    const int64_t pitch = bytes * I2S_LU_ROWS;
    int64_t g = 0;
    for (; g + 1 < groups; g += 2, w += pitch, out += 2 * I2S_LU_ROWS) {
        __m512i sum[4];
        for (int i = 0; i < 4; i++) sum[i] = _mm512_setzero_si512();
        const uint8_t *t = tables;
        for (int64_t j = 0; j < bytes; j += I2S_LU_FLUSH) {
            __m512i even = _mm512_setzero_si512(), odd = _mm512_setzero_si512();
            for (int k = 0; k < I2S_LU_FLUSH; k++, w += I2S_LU_ROWS, t += I2S_LU_TABLE) {
                const __m512i v = _mm512_inserti64x4(
                    _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)w)),
                    _mm256_loadu_si256((const __m256i *)(w + pitch)), 1);
                const __m512i upper = _mm512_and_si512(_mm512_srli_epi16(v, 4), mask), lower = _mm512_and_si512(v, mask);
                const __m512i ul = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)t));
                const __m512i uh = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(t + 16)));
                const __m512i ll = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(t + 32)));
                const __m512i lh = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(t + 48)));
                const __m512i a = _mm512_shuffle_epi8(ul, upper), b = _mm512_shuffle_epi8(uh, upper);
                const __m512i c = _mm512_shuffle_epi8(ll, lower), d = _mm512_shuffle_epi8(lh, lower);
                even = _mm512_add_epi16(even, _mm512_unpacklo_epi8(a, b));
                odd = _mm512_add_epi16(odd, _mm512_unpackhi_epi8(a, b));
                even = _mm512_add_epi16(even, _mm512_unpacklo_epi8(c, d));
                odd = _mm512_add_epi16(odd, _mm512_unpackhi_epi8(c, d));
            }
            for (int half = 0; half < 2; half++) {
                const __m256i e = half ? _mm512_extracti64x4_epi64(even, 1) : _mm512_castsi512_si256(even);
                const __m256i o = half ? _mm512_extracti64x4_epi64(odd, 1) : _mm512_castsi512_si256(odd);
                sum[2 * half] = _mm512_add_epi32(sum[2 * half], _mm512_cvtepi16_epi32(e));
                sum[2 * half + 1] = _mm512_add_epi32(sum[2 * half + 1], _mm512_cvtepi16_epi32(o));
            }
        }
        for (int half = 0; half < 2; half++) { /* sums of even: rows 0 to 7, then 16 to 23; of odd: 8 to 15, 24 to 31 */
            int32_t *to = out + I2S_LU_ROWS * half;
            _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(sum[2 * half]));
            _mm256_storeu_si256((__m256i *)(to + 8), _mm512_castsi512_si256(sum[2 * half + 1]));
            _mm256_storeu_si256((__m256i *)(to + 16), _mm512_extracti64x4_epi64(sum[2 * half], 1));
            _mm256_storeu_si256((__m256i *)(to + 24), _mm512_extracti64x4_epi64(sum[2 * half + 1], 1));
        }
    }
    if (g < groups) i2s_lookup_avx2(w, 1, bytes, tables, out);
}
#endif

static int i2s_lookup_always(void) { return 1; }

typedef struct {
    const char *name;
    int (*available)(void);
    void (*product)(const uint8_t *w, int64_t groups, int64_t bytes, const uint8_t *tables, int32_t *out);
} i2s_lookup_set;

static const i2s_lookup_set i2s_lookup_sets[] = {
    {"portable", i2s_lookup_always, i2s_lookup_portable},
#if defined(I2S_LU_X86)
    {"avx2", i2s_cpu_avx2, i2s_lookup_avx2},
    {"avx512", i2s_cpu_avx512vnni, i2s_lookup_avx512},
#endif
};
#define I2S_LOOKUP_SETS ((int)(sizeof i2s_lookup_sets / sizeof i2s_lookup_sets[0]))

#endif
