/* ---- 256 bits wide: one block a step. Activations of a step: field by field, and in it token by token. ---- */

#define I2S_MM_TARGET __attribute__((target("avx2")))

I2S_MM_TARGET static void i2s_arrange_avx2(const int8_t *codes, int64_t blocks, int tokens, int8_t *arranged) {
    for (int64_t b = 0; b < blocks; b++)
        for (int field = 0; field < 4; field++)
            for (int t = 0; t < tokens; t++, arranged += 32) {
                const int8_t *from = codes + (t * blocks + b) * I2S_MM_COLUMNS + 32 * field;
                _mm256_storeu_si256((__m256i *)arranged, _mm256_loadu_si256((const __m256i *)from));
            }
}

I2S_MM_TARGET I2S_MM_INLINE __m128i i2s_sums4_256(__m256i a, __m256i b, __m256i c, __m256i d) {
    const __m256i all = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    return _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}

I2S_MM_TARGET I2S_MM_INLINE int32_t i2s_sum_256(__m256i a) {
    return _mm_cvtsi128_si32(i2s_sums4_256(a, a, a, a));
}

I2S_MM_TARGET I2S_MM_INLINE __m256i i2s_load256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

/* ---- AVX2: products are added in 16 bits and widened before they can overflow, for all codes and activations. ---- */

/* Two products of a code and an activation code are at most 2 * 3 * 128 = 768, or four times that for a code times 4.
 * */
#define I2S_MM_VECTOR_RUN 5   /* blocks whose two fields at scale 4 fit: 5 * 2 * 4 * 768 = 30720 */
#define I2S_MM_MATRIX_RUN 10  /* blocks whose four fields at scale 1 fit: 10 * 4 * 768 = 30720 */

/* Pinned to registers, because gcc makes trees of such sums, which do not fit the registers. */
#define I2S_ADD16(acc, p) __asm__("vpaddw %1, %0, %0" : "+x"(acc) : "x"(p))

I2S_MM_TARGET I2S_MM_INLINE void i2s_widen256(__m256i *wide, __m256i *narrow) {
    *wide = _mm256_add_epi32(*wide, _mm256_madd_epi16(*narrow, _mm256_set1_epi16(1)));
    *narrow = _mm256_setzero_si256();
}

/* The next blocks of R rows, at most one run, into 16 bits: a quarter of what fits. */
I2S_MM_TARGET I2S_MM_INLINE void i2s_vector_run_avx2(const int R, const uint8_t **w, int64_t pitch, int64_t blocks,
                                                     const int8_t **q, const uint8_t **ahead, __m256i acc[4]) {
    const __m256i four = _mm256_set1_epi8(0x0C), one = _mm256_set1_epi8(0x03);
    __m256i times4[4];
    I2S_MM_UNROLL for (int r = 0; r < R; r++) times4[r] = _mm256_setzero_si256();
    for (int64_t b = 0; b < blocks; b++) {
        I2S_MM_UNROLL for (int r = 0; r < R; r += 2) I2S_MM_ASK(*ahead, 32 * r);
        I2S_MM_UNROLL for (int r = 0; r < R; r++) {
            const __m256i low = i2s_load256(*w + r * pitch), high = _mm256_srli_epi16(low, 4);
            const __m256i p0 = _mm256_maddubs_epi16(_mm256_and_si256(high, four), i2s_load256(*q));
            I2S_ADD16(times4[r], p0);
            const __m256i p1 = _mm256_maddubs_epi16(_mm256_and_si256(high, one), i2s_load256(*q + 32));
            I2S_ADD16(acc[r], p1);
            const __m256i p2 = _mm256_maddubs_epi16(_mm256_and_si256(low, four), i2s_load256(*q + 64));
            I2S_ADD16(times4[r], p2);
            const __m256i p3 = _mm256_maddubs_epi16(_mm256_and_si256(low, one), i2s_load256(*q + 96));
            I2S_ADD16(acc[r], p3);
        }
        *w += 32, *q += 128, *ahead = (const uint8_t *)((uintptr_t)*ahead + 32 * R);
    }
    I2S_MM_UNROLL for (int r = 0; r < R; r++) I2S_ADD16(acc[r], _mm256_srai_epi16(times4[r], 2));
}

I2S_MM_TARGET I2S_MM_INLINE void i2s_vector_avx2(const int R, const uint8_t *w, int64_t blocks, const int8_t *q,
                                                 int32_t *out) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    __m256i wide[4], acc[4];
    I2S_MM_UNROLL for (int r = 0; r < R; r++) wide[r] = acc[r] = _mm256_setzero_si256();
    const uint8_t *ahead = (const uint8_t *)((uintptr_t)w + (uintptr_t)(R * pitch + I2S_MM_AHEAD));
    int64_t left = blocks;
    for (; left > 2 * I2S_MM_VECTOR_RUN; left -= 2 * I2S_MM_VECTOR_RUN) {
        i2s_vector_run_avx2(R, &w, pitch, I2S_MM_VECTOR_RUN, &q, &ahead, acc);
        i2s_vector_run_avx2(R, &w, pitch, I2S_MM_VECTOR_RUN, &q, &ahead, acc);
        I2S_MM_UNROLL for (int r = 0; r < R; r++) i2s_widen256(&wide[r], &acc[r]);
    }
    const int64_t first = left < I2S_MM_VECTOR_RUN ? left : I2S_MM_VECTOR_RUN;
    i2s_vector_run_avx2(R, &w, pitch, first, &q, &ahead, acc);
    i2s_vector_run_avx2(R, &w, pitch, left - first, &q, &ahead, acc);
    I2S_MM_UNROLL for (int r = 0; r < R; r++) i2s_widen256(&wide[r], &acc[r]);
    if (R == 4)
        _mm_storeu_si128((__m128i *)out, i2s_sums4_256(wide[0], wide[1], wide[2], wide[3]));
    else
        I2S_MM_UNROLL for (int r = 0; r < R; r++) out[r] = i2s_sum_256(wide[r]);
}

I2S_MM_TARGET I2S_MM_INLINE void i2s_matrix_avx2(const int R, const int C, const uint8_t *w, int64_t blocks, const int8_t *q,
                                                 int32_t *out, int64_t stride) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    const __m256i three = _mm256_set1_epi8(3);
    __m256i wide[2][4], acc[2][4];
    I2S_MM_UNROLL for (int r = 0; r < R; r++)
        I2S_MM_UNROLL for (int c = 0; c < C; c++) wide[r][c] = acc[r][c] = _mm256_setzero_si256();
    const uint8_t *ahead = (const uint8_t *)((uintptr_t)w + (uintptr_t)(R * pitch + I2S_MM_AHEAD));
    for (int64_t left = blocks; left > 0; left -= I2S_MM_MATRIX_RUN) {
        for (int64_t b = left < I2S_MM_MATRIX_RUN ? left : I2S_MM_MATRIX_RUN; b > 0; b--) {
            I2S_MM_ASK(ahead, 0);
            __m256i v[2];
            I2S_MM_UNROLL for (int r = 0; r < R; r++) v[r] = i2s_load256(w + r * pitch);
            I2S_MM_UNROLL for (int f = 0; f < 4; f++) {
                __m256i u[2];
                I2S_MM_UNROLL for (int r = 0; r < R; r++)
                    u[r] = _mm256_and_si256(f == 3 ? v[r] : _mm256_srli_epi16(v[r], 6 - 2 * f), three);
                I2S_MM_UNROLL for (int c = 0; c < C; c++)
                    I2S_MM_UNROLL for (int r = 0; r < R; r++) {
                        const __m256i p = _mm256_maddubs_epi16(u[r], i2s_load256(q + 32 * (C * f + c)));
                        I2S_ADD16(acc[r][c], p);
                    }
            }
            w += 32, q += 128 * C, ahead = (const uint8_t *)((uintptr_t)ahead + 32 * R);
        }
        I2S_MM_UNROLL for (int r = 0; r < R; r++)
            I2S_MM_UNROLL for (int c = 0; c < C; c++) i2s_widen256(&wide[r][c], &acc[r][c]);
    }
    I2S_MM_UNROLL for (int c = 0; c < C; c++)
        I2S_MM_UNROLL for (int r = 0; r < R; r++) out[c * stride + r] = i2s_sum_256(wide[r][c]);
}

I2S_MM_PRODUCT(i2s_product_avx2, i2s_vector_avx2, 4, i2s_matrix_avx2, 2)

I2S_MM_TARGET static void i2s_quantize_avx2(const float *x, int64_t n, int8_t *codes, float *scale, int32_t *sum) {
    i2s_quantize_body(x, n, codes, scale, sum);
}
I2S_MM_TARGET I2S_MM_UNUSED(i2s_unused_avx2, i2s_vector32)
I2S_MM_TARGET static void i2s_epilogue_avx2(int32_t *acc, int64_t n, int32_t sum, float scale, float weight_scale) {
    i2s_epilogue_body(acc, n, sum, scale, weight_scale);
}
#undef I2S_MM_TARGET
