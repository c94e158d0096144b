/* Products of ranks as 16-bit numbers, for AVX-512: of profiles of at most I2S_SHORT_MOST elements.
 *
 * Ranks are multiples of 1/2, and twice a rank is an integer below the length. Products of these are added in pairs, as
 * 32-bit numbers while nothing can overflow and then as 64-bit ones, so they are exact, as those of floats are. Places
 * are those of a first block, of which others are copies: two permutations give a vector of any order within a block.
 * */
#ifndef I2S_PERMUTED_SHORT_H
#define I2S_PERMUTED_SHORT_H

enum { I2S_SHORT_MOST = 16383, I2S_SHORT_CHUNK = 1024 };

/* Twice each rank; 0 if one is not a multiple of 1/2 that fits 16 bits. */
I2S_PERMUTED_512 static int i2s_shorts_of_ranks(const double *ranks, int64_t n, int16_t *found) {
    int64_t i = 0;
    __mmask8 wrong = 0;
    for (; i + 8 <= n; i += 8) {
        const __m512d rank = _mm512_loadu_pd(ranks + i), twice = _mm512_add_pd(rank, rank);
        const __m128i shorts = _mm256_cvtsepi32_epi16(_mm512_cvtpd_epi32(twice));
        wrong |= _mm512_cmp_pd_mask(_mm512_cvtepi32_pd(_mm256_cvtepi16_epi32(shorts)), twice, _CMP_NEQ_UQ);
        _mm_storeu_si128((__m128i *)(found + i), shorts);
    }
    for (; i < n; i++) {
        const double twice = 2 * ranks[i];
        if (!(twice >= -I2S_SHORT_MOST && twice <= I2S_SHORT_MOST) || (int16_t)twice != twice) return 0;
        found[i] = (int16_t)twice;
    }
    return !wrong;
}

/* Twice the ranks of counts; returns the number of different counts. */
I2S_PERMUTED_512 static int64_t i2s_ranks_as_shorts(const uint32_t *counts, int64_t n, uint32_t *seen, int16_t *found) {
    uint32_t least;
    const int64_t different = i2s_rank_table(counts, n, seen, &least);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m512i at = _mm512_sub_epi32(_mm512_loadu_si512(counts + i), _mm512_set1_epi32((int32_t)least));
        const __m512i twice = _mm512_sub_epi32(_mm512_i32gather_epi32(at, seen, 4), _mm512_set1_epi32((int32_t)n));
        _mm256_storeu_si256((__m256i *)(found + i), _mm512_cvtepi32_epi16(twice));
    }
    for (; i < n; i++) found[i] = (int16_t)((int32_t)seen[counts[i] - least] - (int32_t)n);
    return different;
}

/* The sum of squares of ranks, from twice these. */
I2S_PERMUTED_512 static double i2s_short_square(const int16_t *shorts, int64_t n) {
    int64_t sum = 0, i;
    for (i = 0; i < n; i++) sum += (int32_t)shorts[i] * shorts[i];
    return (double)sum / 4;
}

/* Whether the places of a first block are all in one block. */
I2S_PERMUTED_512 static int i2s_short_within(const int32_t *places) {
    int32_t other = 0;
    int i;
    for (i = 0; i < I2S_REPEATS; i++) other |= places[i] ^ places[0];
    return other >= 0 && other < I2S_REPEATS;
}

/* to[j] = from[place of at + j] for `now` of n elements, in whole blocks. */
I2S_PERMUTED_512 static void i2s_short_order(const int16_t *from, int64_t n, const int32_t *places, int64_t at, int64_t now,
                                             int16_t *to) {
    enum { N = 32, PARTS = I2S_REPEATS / N };
    __m512i within[PARTS];
    __mmask32 second[PARTS];
    int64_t source = (at + (places[0] & ~(I2S_REPEATS - 1))) % n, i;
    int part;
    for (part = 0; part < PARTS; part++) {
        const __m256i low = _mm512_cvtepi32_epi16(_mm512_loadu_si512(places + part * N));
        const __m256i high = _mm512_cvtepi32_epi16(_mm512_loadu_si512(places + part * N + N / 2));
        within[part] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
        second[part] = _mm512_test_epi16_mask(within[part], _mm512_set1_epi16(I2S_REPEATS / 2));
    }
    for (i = 0; i < now; i += I2S_REPEATS) {
        const __m512i *block = (const __m512i *)(from + source);
        const __m512i a = _mm512_loadu_si512(block), b = _mm512_loadu_si512(block + 1);
        const __m512i c = _mm512_loadu_si512(block + 2), d = _mm512_loadu_si512(block + 3);
        for (part = 0; part < PARTS; part++) {
            const __m512i one = _mm512_permutex2var_epi16(a, within[part], b), two = _mm512_permutex2var_epi16(c, within[part], d);
            _mm512_storeu_si512(to + i + part * N, _mm512_mask_mov_epi16(one, second[part], two));
        }
        source += I2S_REPEATS;
        if (source == n) source = 0;
    }
}

/* The products of `shorts` in an order with each of the `others`, [many, n]; over 4, those of the ranks themselves, in
 * found[k * step]. */
I2S_PERMUTED_512 static void i2s_short_products(const int16_t *shorts, int64_t n, const int32_t *places, const int16_t *others,
                                                int64_t many, int64_t step, double *found) {
    enum { N = 32 };
    int16_t taken[I2S_SHORT_CHUNK];
    const int64_t safe = INT32_MAX / (2 * n * n) * N / I2S_REPEATS * I2S_REPEATS;
    const int64_t chunk = safe < I2S_SHORT_CHUNK ? safe : I2S_SHORT_CHUNK;
    int64_t k, at, i;
    for (k = 0; k < many; k++) found[k * step] = 0;
    for (at = 0; at < n; at += chunk) {
        const int64_t now = n - at < chunk ? n - at : chunk;
        i2s_short_order(shorts, n, places, at, now, taken);
        for (k = 0; k < many; k++) {
            const int16_t *other = others + k * n + at;
            __m512i sums = _mm512_setzero_si512(), wide;
            for (i = 0; i < now; i += N)
                sums = _mm512_add_epi32(sums, _mm512_madd_epi16(_mm512_loadu_si512(taken + i), _mm512_loadu_si512(other + i)));
            wide = _mm512_add_epi64(_mm512_cvtepi32_epi64(_mm512_castsi512_si256(sums)),
                                    _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(sums, 1)));
            found[k * step] += (double)_mm512_reduce_add_epi64(wide) / 4;
        }
    }
}

#endif
