/* ---- AVX-VNNI: as AVX-512 VNNI, in sixteen registers half as wide. ---- */

#if defined(I2S_KNOWS_AVXVNNI)
#define I2S_MM_TARGET __attribute__((target("avx2,avxvnni")))
#define I2S_DP256(acc, w, q) __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(w), "xm"(q))

I2S_MM_TARGET I2S_MM_INLINE void i2s_vector_avxvnni(const int R, const uint8_t *w, int64_t blocks, const int8_t *q,
                                                    int32_t *out) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    const __m256i mask[4] = I2S_MM_MASKS(_mm256_set1_epi8);
    __m256i acc[2][4];
    I2S_MM_UNROLL for (int r = 0; r < R; r++)
        I2S_MM_UNROLL for (int f = 0; f < 4; f++) acc[r][f] = _mm256_setzero_si256();
    const uint8_t *ahead = (const uint8_t *)((uintptr_t)w + (uintptr_t)(R * pitch + I2S_MM_AHEAD));
    for (int64_t b = 0; b < blocks; b++) {
        I2S_MM_ASK(ahead, 0);
        __m256i v[2];
        I2S_MM_UNROLL for (int r = 0; r < R; r++) v[r] = i2s_load256(w + r * pitch);
        I2S_MM_UNROLL for (int f = 0; f < 4; f++) {
            const __m256i x = i2s_load256(q + 32 * f);
            I2S_MM_UNROLL for (int r = 0; r < R; r++) {
                const __m256i u = _mm256_and_si256(v[r], mask[f]);
                I2S_DP256(acc[r][f], u, x);
            }
        }
        w += 32, q += 128, ahead = (const uint8_t *)((uintptr_t)ahead + 32 * R);
    }
    I2S_MM_UNROLL for (int r = 0; r < R; r++)
        out[r] = i2s_sum_256(_mm256_add_epi32(
            _mm256_add_epi32(_mm256_srai_epi32(acc[r][0], 6), _mm256_srai_epi32(acc[r][1], 4)),
            _mm256_add_epi32(_mm256_srai_epi32(acc[r][2], 2), acc[r][3])));
}

I2S_MM_TARGET I2S_MM_INLINE void i2s_matrix_avxvnni(const int R, const int C, const uint8_t *w, int64_t blocks,
                                                    const int8_t *q, int32_t *out, int64_t stride) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    const __m256i three = _mm256_set1_epi8(3);
    __m256i acc[2][4];
    I2S_MM_UNROLL for (int r = 0; r < R; r++)
        I2S_MM_UNROLL for (int c = 0; c < C; c++) acc[r][c] = _mm256_setzero_si256();
    const uint8_t *ahead = (const uint8_t *)((uintptr_t)w + (uintptr_t)(R * pitch + I2S_MM_AHEAD));
    for (int64_t b = 0; b < blocks; b++) {
        I2S_MM_ASK(ahead, 0);
        __m256i v[2];
        I2S_MM_UNROLL for (int r = 0; r < R; r++) v[r] = i2s_load256(w + r * pitch);
        I2S_MM_UNROLL for (int f = 0; f < 4; f++) {
            __m256i u[2];
            I2S_MM_UNROLL for (int r = 0; r < R; r++)
                u[r] = _mm256_and_si256(f == 3 ? v[r] : _mm256_srli_epi16(v[r], 6 - 2 * f), three);
            I2S_MM_UNROLL for (int c = 0; c < C; c++) {
                const __m256i x = i2s_load256(q + 32 * (C * f + c));
                I2S_MM_UNROLL for (int r = 0; r < R; r++) I2S_DP256(acc[r][c], u[r], x);
            }
        }
        w += 32, q += 128 * C, ahead = (const uint8_t *)((uintptr_t)ahead + 32 * R);
    }
    I2S_MM_UNROLL for (int c = 0; c < C; c++)
        I2S_MM_UNROLL for (int r = 0; r < R; r++) out[c * stride + r] = i2s_sum_256(acc[r][c]);
}

I2S_MM_PRODUCT(i2s_product_avxvnni, i2s_vector_avxvnni, 2, i2s_matrix_avxvnni, 2)
#undef I2S_MM_TARGET
#endif
