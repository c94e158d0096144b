/* Ranks, and sums of products with one side read in another order. Several sums run side by side, since each addition
 * waits for the previous one. */
#ifndef I2S_PERMUTED_H
#define I2S_PERMUTED_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"

static uint32_t i2s_largest(const uint32_t *counts, int64_t n) {
    uint32_t most = 0;
    int64_t i;
    for (i = 0; i < n; i++) most = counts[i] > most ? counts[i] : most;
    return most;
}

/* For each count, as seen[count - *least], twice its rank plus n; returns the number of different counts. `seen` has
 * four elements for each count up to the largest: increments of one counter wait for each other, so four are used in
 * turn. */
static int64_t i2s_rank_table(const uint32_t *counts, int64_t n, uint32_t *seen, uint32_t *least) {
    uint32_t low = UINT32_MAX, most = 0, *other[3];
    int64_t before = 0, different = 0, i;
    size_t value, size;
    int k;
    for (i = 0; i < n; i++) {
        low = counts[i] < low ? counts[i] : low;
        most = counts[i] > most ? counts[i] : most;
    }
    *least = low;
    if (n == 0) return 0;
    size = (size_t)(most - low) + 1;
    memset(seen, 0, 4 * size * sizeof *seen);
    for (k = 0; k < 3; k++) other[k] = seen + (k + 1) * size;
    for (i = 0; i + 4 <= n; i += 4) {
        seen[counts[i] - low]++;
        for (k = 0; k < 3; k++) other[k][counts[i + k + 1] - low]++;
    }
    for (; i < n; i++) seen[counts[i] - low]++;
    for (value = 0; value < size; value++) seen[value] += other[0][value] + other[1][value] + other[2][value];
    for (value = 0; value < size; value++) {
        const uint32_t many = seen[value];
        different += many > 0;
        seen[value] = (uint32_t)(2 * before + many);  /* twice the middle of these, and less than 2^32 */
        before += many;
    }
    return different;
}

/* The ranks of counts, with mean 0; equal counts share a rank. Returns the number of different counts. */
static int64_t i2s_ranks(const uint32_t *counts, int64_t n, uint32_t *seen, double *found) {
    uint32_t least;
    const int64_t different = i2s_rank_table(counts, n, seen, &least);
    int64_t i;
    for (i = 0; i < n; i++) found[i] = ((double)seen[counts[i] - least] - (double)n) / 2;
    return different;
}

/* The same for at most 2^20 counts, whose ranks floats represent exactly. */
static int64_t i2s_short_ranks(const uint32_t *counts, int64_t n, uint32_t *seen, float *found) {
    uint32_t least;
    const int64_t different = i2s_rank_table(counts, n, seen, &least);
    int64_t i;
    for (i = 0; i < n; i++) found[i] = (float)((int32_t)seen[counts[i] - least] - (int32_t)n) / 2;
    return different;
}

/* The ranks of floats in the same form; 0 if one is not finite. `keys` has room for 2 n. Numbers are sorted by their
 * bits, as unsigned numbers in the order of the floats, eleven bits at a time, with their positions in the low bits. */
static int64_t i2s_float_ranks(const float *values, int64_t n, uint64_t *keys, double *found) {
    enum { DIGIT = 11, DIGITS = 1 << DIGIT, PASSES = 3 };
    uint64_t *from = keys, *to = keys + n;
    uint32_t places[PASSES][DIGITS];
    int64_t i, stop, different = 0;
    int pass;
    memset(places, 0, sizeof places);
    for (i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        if ((bits & 0x7F800000u) == 0x7F800000u) return 0;
        if (bits == 0x80000000u) bits = 0;
        bits = bits >> 31 ? ~bits : bits | 0x80000000u;
        from[i] = (uint64_t)bits << 32 | (uint64_t)i;
        for (pass = 0; pass < PASSES; pass++) places[pass][bits >> pass * DIGIT & (DIGITS - 1)]++;
    }
    for (pass = 0; pass < PASSES; pass++) {
        uint64_t *kept = from;
        const int shift = 32 + pass * DIGIT;
        uint32_t at = 0;
        int digit;
        if (places[pass][from[0] >> shift & (DIGITS - 1)] == n) continue;  /* all equal */
        for (digit = 0; digit < DIGITS; digit++) {
            const uint32_t many = places[pass][digit];
            places[pass][digit] = at;
            at += many;
        }
        for (i = 0; i < n; i++) to[places[pass][from[i] >> shift & (DIGITS - 1)]++] = from[i];
        from = to;
        to = kept;
    }
    for (i = 0; i < n; i = stop, different++) {
        int64_t k;
        for (stop = i + 1; stop < n && from[stop] >> 32 == from[i] >> 32;) stop++;
        for (k = i; k < stop; k++) found[from[k] & 0xFFFFFFFFu] = (double)(i + stop - n) / 2;
    }
    return different;
}

enum { I2S_REPEATS = 128 };

/* The places from `at` on, `now` of them; those of the first block are given, and others move with their block, in a
 * ring of n columns; n and `at` are whole blocks. */
static void i2s_places_of_blocks(const int32_t *places, int64_t n, int64_t at, int64_t now, int32_t *found) {
    int64_t i, k;
    for (i = 0; i < now; i += I2S_REPEATS)
        for (k = 0; k < I2S_REPEATS; k++) {
            const int64_t place = places[k] + at + i;
            found[i + k] = (int32_t)(place < n ? place : place - n);
        }
}

/* Bodies: vectors of floats, how they are loaded from `places`, and how products of floats with doubles are added. */
#define I2S_PERMUTED_ROWS 4
#define I2S_PERMUTED_EACH(values, mine, many, p, size)                                                                  \
    for (int i2s_row = 0; i2s_row < (many); i2s_row++) (values)[i2s_row] = I2S_PERMUTED_TAKE((mine)[i2s_row], p, size)
#define I2S_PERMUTED_BYTES 16
#define I2S_PERMUTED_TAKE_ROWS I2S_PERMUTED_EACH
#define I2S_PERMUTED(name) i2s_##name##_portable
#define I2S_PERMUTED_TARGET
#define I2S_PERMUTED_TAKE(from, p, size) ((F){(from)[(p)[0]], (from)[(p)[1]], (from)[(p)[2]], (from)[(p)[3]]})
#define I2S_PERMUTED_ADD(sums, x, p)                                                                                    \
    do {                                                                                                                \
        V i2s_v[2];                                                                                                     \
        memcpy(i2s_v, p, sizeof i2s_v);                                                                                 \
        (sums)[0] += i2s_v[0] * (V){(x)[0], (x)[1]};                                                                    \
        (sums)[1] += i2s_v[1] * (V){(x)[2], (x)[3]};                                                                    \
    } while (0)
#include "permuted_body.h"

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define I2S_PERMUTED_X86 1
#include "intrinsics.h"
/* Gathers are slow on many processors, single loads are not. */
#define I2S_PERMUTED_BYTES 32
#define I2S_PERMUTED_TAKE_ROWS I2S_PERMUTED_EACH
#define I2S_PERMUTED(name) i2s_##name##_avx2
#define I2S_PERMUTED_TARGET __attribute__((target("avx2,fma")))
#define I2S_PERMUTED_TAKE(from, p, size)                                                                                \
    ((F){(from)[(p)[0]], (from)[(p)[1]], (from)[(p)[2]], (from)[(p)[3]], (from)[(p)[4]], (from)[(p)[5]], (from)[(p)[6]], \
         (from)[(p)[7]]})
#define I2S_PERMUTED_ADD(sums, x, p)                                                                                    \
    do {                                                                                                                \
        const __m256 i2s_x = (__m256)(x);                                                                               \
        (sums)[0] += (V)_mm256_loadu_pd(p) * (V)_mm256_cvtps_pd(_mm256_castps256_ps128(i2s_x));                         \
        (sums)[1] += (V)_mm256_loadu_pd((p) + 4) * (V)_mm256_cvtps_pd(_mm256_extractf128_ps(i2s_x, 1));                 \
    } while (0)
#include "permuted_body.h"

#define I2S_PERMUTED_512 __attribute__((target("avx2,fma,avx512f,avx512bw,avx512vl,avx512dq" I2S_BY_512)))
/* Sixteen of `size` floats. Layouts mostly have them within a window of 64, which is permuted: a gather takes longer.
 * */
I2S_PERMUTED_512 static inline __attribute__((always_inline)) __m512 i2s_permuted_take_512(const float *from,
                                                                                           const int32_t *p, int64_t size) {
    const __m512i places = _mm512_loadu_si512(p);
    const int32_t base = p[0] & ~63;
    const __m512i within = _mm512_xor_si512(places, _mm512_set1_epi32(base));
    if (base + 64 <= size && _mm512_cmplt_epu32_mask(within, _mm512_set1_epi32(64)) == 0xFFFF) {
        const __m512 low = _mm512_permutex2var_ps(_mm512_loadu_ps(from + base), within, _mm512_loadu_ps(from + base + 16));
        const __m512 high = _mm512_permutex2var_ps(_mm512_loadu_ps(from + base + 32), within,
                                                   _mm512_loadu_ps(from + base + 48));
        return _mm512_mask_mov_ps(low, _mm512_test_epi32_mask(within, _mm512_set1_epi32(32)), high);
    }
    return _mm512_i32gather_ps(places, from, 4);
}
/* The same of `many` rows. */
typedef float i2s_permuted_rows_512 __attribute__((vector_size(64)));
I2S_PERMUTED_512 static inline __attribute__((always_inline)) void i2s_permuted_rows_of_512(i2s_permuted_rows_512 *values,
                                                                                            const float *const *from,
                                                                                            const int many, const int32_t *p,
                                                                                            int64_t size) {
    const __m512i places = _mm512_loadu_si512(p);
    const int32_t base = p[0] & ~63;
    const __m512i within = _mm512_xor_si512(places, _mm512_set1_epi32(base));
    const __mmask16 above = _mm512_test_epi32_mask(within, _mm512_set1_epi32(32));
    int row;
    if (base + 64 <= size && _mm512_cmplt_epu32_mask(within, _mm512_set1_epi32(64)) == 0xFFFF)
        for (row = 0; row < many; row++) {
            const float *window = from[row] + base;
            const __m512 low = _mm512_permutex2var_ps(_mm512_loadu_ps(window), within, _mm512_loadu_ps(window + 16));
            const __m512 high = _mm512_permutex2var_ps(_mm512_loadu_ps(window + 32), within, _mm512_loadu_ps(window + 48));
            values[row] = (i2s_permuted_rows_512)_mm512_mask_mov_ps(low, above, high);
        }
    else
        for (row = 0; row < many; row++) values[row] = (i2s_permuted_rows_512)_mm512_i32gather_ps(places, from[row], 4);
}
#include "permuted_short.h"
#define I2S_PERMUTED_BYTES 64
#define I2S_PERMUTED_TAKE_ROWS i2s_permuted_rows_of_512
#define I2S_PERMUTED_SHORT 1
#define I2S_PERMUTED(name) i2s_##name##_avx512
#define I2S_PERMUTED_TARGET I2S_PERMUTED_512
#define I2S_PERMUTED_TAKE(from, p, size) ((F)i2s_permuted_take_512(from, p, size))
#define I2S_PERMUTED_ADD(sums, x, p)                                                                                    \
    do {                                                                                                                \
        const __m512 i2s_x = (__m512)(x);                                                                               \
        (sums)[0] += (V)_mm512_loadu_pd(p) * (V)_mm512_cvtps_pd(_mm512_castps512_ps256(i2s_x));                         \
        (sums)[1] += (V)_mm512_loadu_pd((p) + 8) * (V)_mm512_cvtps_pd(_mm512_extractf32x8_ps(i2s_x, 1));                \
    } while (0)
#include "permuted_body.h"

static int i2s_scores_has_avx2(void) { return i2s_cpu_avx2fma(); }
static int i2s_scores_has_avx512(void) { return i2s_cpu_avx512bw(); }
#endif

static int i2s_scores_has_portable(void) { return 1; }

typedef struct {
    const char *name;
    int (*available)(void);
    int (*columns)(const uint32_t *, int64_t, const int32_t *, int, int64_t, int64_t, int64_t, const double *, int64_t, int64_t,
                   int64_t, int64_t, uint32_t *, uint32_t *, float *, double *, double *);
    void (*grams)(const float *, int64_t, const float *const *, int64_t, const int32_t *, int64_t, int, double *);
} i2s_scores_set;

/* From the slowest to the fastest. */
static const i2s_scores_set i2s_scores_sets[] = {
    {"portable", i2s_scores_has_portable, i2s_column_scores_portable, i2s_gram_products_of_portable},
#ifdef I2S_PERMUTED_X86
    {"avx2", i2s_scores_has_avx2, i2s_column_scores_avx2, i2s_gram_products_of_avx2},
    {"avx512", i2s_scores_has_avx512, i2s_column_scores_avx512, i2s_gram_products_of_avx512},
#endif
};
enum { I2S_SCORES_SETS = sizeof(i2s_scores_sets) / sizeof(i2s_scores_sets[0]) };

#endif
