/* ---- AVX-512 VNNI: two blocks a step, 4 rows. Activations of a step: field by field, and in it token by token. ---- */

#define I2S_MM_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#define I2S_DP512(acc, w, q) __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(w), "v"(q))

I2S_MM_TARGET static void i2s_arrange_avx512(const int8_t *codes, int64_t blocks, int tokens, int8_t *arranged) {
    const int64_t columns = blocks * I2S_MM_COLUMNS;
    for (int64_t b = 0; b < blocks; b += 2)
        for (int field = 0; field < 4; field++)
            for (int t = 0; t < tokens; t++, arranged += 64) {
                const int8_t *from = codes + t * columns + b * I2S_MM_COLUMNS + 32 * field;
                const int both = b + 1 < blocks;
                const __m256i low = _mm256_loadu_si256((const __m256i *)from);
                const __m256i high = both ? _mm256_loadu_si256((const __m256i *)(from + 128)) : _mm256_setzero_si256();
                _mm512_storeu_si512(arranged, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
            }
}

/* The sums of four vectors, in each lane of 128 bits for that lane. */
I2S_MM_TARGET I2S_MM_INLINE __m512i i2s_lanes4_512(__m512i a, __m512i b, __m512i c, __m512i d) {
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

I2S_MM_TARGET I2S_MM_INLINE __m128i i2s_sums4_512(__m512i a, __m512i b, __m512i c, __m512i d) {
    const __m512i all = i2s_lanes4_512(a, b, c, d);
    const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/* Two blocks of a row, or the last one with zeros for the other. */
I2S_MM_TARGET I2S_MM_INLINE __m512i i2s_weights512(const uint8_t *w, int both) {
    return both ? _mm512_loadu_si512(w) : _mm512_zextsi256_si512(_mm256_loadu_si256((const __m256i *)w));
}

I2S_MM_TARGET I2S_MM_INLINE void i2s_vector_step512(const int R, const uint8_t *w, int64_t pitch, int both, const int8_t *q,
                                                    __m512i acc[4][4]) {
    const __m512i mask[4] = I2S_MM_MASKS(_mm512_set1_epi8);
    __m512i x[4];
    I2S_MM_UNROLL for (int f = 0; f < 4; f++) x[f] = _mm512_loadu_si512(q + 64 * f);
    I2S_MM_UNROLL for (int r = 0; r < R; r++) {
        const __m512i v = i2s_weights512(w + r * pitch, both);
        I2S_MM_UNROLL for (int f = 0; f < 4; f++) {
            const __m512i u = _mm512_and_si512(v, mask[f]);
            I2S_DP512(acc[r][f], u, x[f]);
        }
    }
}

/* R rows and one token. With TOUCH, as many rows follow, and prefetched memory is also read. */
I2S_MM_TARGET I2S_MM_INLINE void i2s_vector512(const int R, const int TOUCH, const uint8_t *w, int64_t blocks, const int8_t *q,
                                               int32_t *out) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    const uint8_t *touch = TOUCH ? w + R * pitch : w;
    __m512i acc[4][4];
    I2S_MM_UNROLL for (int r = 0; r < R; r++)
        I2S_MM_UNROLL for (int f = 0; f < 4; f++) acc[r][f] = _mm512_setzero_si512();
    const uint8_t *ahead = (const uint8_t *)((uintptr_t)w + (uintptr_t)(R * pitch + I2S_MM_AHEAD));
    int64_t b = 0;
    for (; b + 1 < blocks; b += 2) {
        I2S_MM_UNROLL for (int r = 0; r < R; r++) {
            I2S_MM_ASK(ahead, 64 * r);
            if (TOUCH) I2S_MM_TOUCH(touch + 64 * r);
        }
        i2s_vector_step512(R, w, pitch, 1, q, acc);
        w += 64, q += 256, touch += 64 * R, ahead = (const uint8_t *)((uintptr_t)ahead + 64 * R);
    }
    if (b < blocks) {
        I2S_MM_UNROLL for (int r = 0; r < R; r++) I2S_MM_ASK(ahead, 32 * r);
        i2s_vector_step512(R, w, pitch, 0, q, acc);
    }
    __m512i sum[4];
    I2S_MM_UNROLL for (int r = 0; r < R; r++)
        sum[r] = _mm512_add_epi32(
            _mm512_add_epi32(_mm512_srai_epi32(acc[r][0], 6), _mm512_srai_epi32(acc[r][1], 4)),
            _mm512_add_epi32(_mm512_srai_epi32(acc[r][2], 2), acc[r][3]));
    if (R == 4)
        _mm_storeu_si128((__m128i *)out, i2s_sums4_512(sum[0], sum[1], sum[2], sum[3]));
    else
        I2S_MM_UNROLL for (int r = 0; r < R; r++) out[r] = _mm512_reduce_add_epi32(sum[r]);
}

/* Eight rows and one token, in two passes over the rows: first the two high fields, then the two low ones. Two
 * accumulators for each row remain, and those of the first pass are shifted to the scales of the second, so that at the
 * end of the rows, where nothing is multiplied, two thirds of the shifts and additions and half of the rest are left.
 * The price is that weights are read twice, the second time from the first-level cache. */
I2S_MM_TARGET I2S_MM_INLINE void i2s_twice_step512(const int low, const uint8_t *w, int64_t pitch, int both,
                                                   const int8_t *q, __m512i acc[8][2]) {
    const __m512i mask[4] = I2S_MM_MASKS(_mm512_set1_epi8);
    __m512i x[2];
    I2S_MM_UNROLL for (int f = 0; f < 2; f++) x[f] = _mm512_loadu_si512(q + 64 * (2 * low + f));
    I2S_MM_UNROLL for (int r = 0; r < 8; r++) {
        __m512i v = i2s_weights512(w + r * pitch, both);
        __asm__("" : "+v"(v)); /* otherwise gcc loads it again for the second mask */
        I2S_MM_UNROLL for (int f = 0; f < 2; f++) {
            const __m512i u = _mm512_and_si512(v, mask[2 * low + f]);
            I2S_DP512(acc[r][f], u, x[f]);
        }
    }
}

/* A pass. It prefetches half of the next rows. */
I2S_MM_TARGET I2S_MM_INLINE void i2s_twice_pass512(const int low, const uint8_t *w, int64_t blocks, const int8_t *q,
                                                   __m512i acc[8][2]) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    uintptr_t ahead = (uintptr_t)w + (uintptr_t)((low ? 12 : 8) * pitch + I2S_MM_AHEAD_TWICE);
    int64_t b = 0;
    for (; b + 1 < blocks; b += 2, w += 64, q += 256, ahead += 256) {
        I2S_MM_UNROLL for (int line = 0; line < 4; line++) I2S_MM_ASK(ahead, 64 * line);
        i2s_twice_step512(low, w, pitch, 1, q, acc);
    }
    if (b < blocks) i2s_twice_step512(low, w, pitch, 0, q, acc);
}

/* The sums of eight vectors. */
I2S_MM_TARGET I2S_MM_INLINE __m256i i2s_sums8_512(const __m512i a[8]) {
    __m512i four[2];
    I2S_MM_UNROLL for (int i = 0; i < 2; i++) four[i] = i2s_lanes4_512(a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3]);
    const __m512i halves = _mm512_add_epi32(_mm512_shuffle_i32x4(four[0], four[1], 0x88),  /* lanes 0 and 2 of both */
                                            _mm512_shuffle_i32x4(four[0], four[1], 0xDD)); /* lanes 1 and 3 */
    const __m512i even = _mm512_shuffle_i32x4(halves, halves, 0x08), odd = _mm512_shuffle_i32x4(halves, halves, 0x0D);
    return _mm256_add_epi32(_mm512_castsi512_si256(even), _mm512_castsi512_si256(odd));
}

I2S_MM_TARGET I2S_MM_INLINE void i2s_twice512(const uint8_t *w, int64_t blocks, const int8_t *q, int32_t *out) {
    __m512i acc[8][2], sum[8];
    I2S_MM_UNROLL for (int r = 0; r < 8; r++) acc[r][0] = acc[r][1] = _mm512_setzero_si512();
    i2s_twice_pass512(0, w, blocks, q, acc);
    I2S_MM_UNROLL for (int r = 0; r < 8; r++)
        I2S_MM_UNROLL for (int f = 0; f < 2; f++) acc[r][f] = _mm512_srai_epi32(acc[r][f], 4);
    i2s_twice_pass512(1, w, blocks, q, acc);
    I2S_MM_UNROLL for (int r = 0; r < 8; r++) sum[r] = _mm512_add_epi32(_mm512_srai_epi32(acc[r][0], 2), acc[r][1]);
    _mm256_storeu_si256((__m256i *)out, i2s_sums8_512(sum));
}

/* R rows and one token, half as wide. */
I2S_MM_TARGET I2S_MM_INLINE void i2s_vector_step512vl(const int R, const uint8_t *w, int64_t pitch, const int8_t *q,
                                                      __m256i acc[4][4]) {
    const __m256i mask[4] = I2S_MM_MASKS(_mm256_set1_epi8);
    __m256i x[4];
    I2S_MM_UNROLL for (int f = 0; f < 4; f++) x[f] = _mm256_loadu_si256((const __m256i *)(q + 64 * f));
    I2S_MM_UNROLL for (int r = 0; r < R; r++) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(w + r * pitch));
        I2S_MM_UNROLL for (int f = 0; f < 4; f++) {
            const __m256i u = _mm256_and_si256(v, mask[f]);
            I2S_DP512(acc[r][f], u, x[f]);
        }
    }
}

I2S_MM_TARGET I2S_MM_INLINE void i2s_vector512vl(const int R, const uint8_t *w, int64_t blocks, const int8_t *q,
                                                 int32_t *out) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    __m256i acc[4][4];
    I2S_MM_UNROLL for (int r = 0; r < R; r++)
        I2S_MM_UNROLL for (int f = 0; f < 4; f++) acc[r][f] = _mm256_setzero_si256();
    const uint8_t *ahead = (const uint8_t *)((uintptr_t)w + (uintptr_t)(R * pitch + I2S_MM_AHEAD_512VL));
    int64_t b = 0;
    for (; b + 1 < blocks; b += 2) {
        I2S_MM_UNROLL for (int r = 0; r < R; r += 2) I2S_MM_ASK(ahead, 32 * r);
        i2s_vector_step512vl(R, w, pitch, q, acc);
        I2S_MM_UNROLL for (int r = 0; r < R; r += 2) I2S_MM_ASK(ahead, 32 * (R + r));
        i2s_vector_step512vl(R, w + 32, pitch, q + 32, acc);
        w += 64, q += 256, ahead = (const uint8_t *)((uintptr_t)ahead + 64 * R);
    }
    if (b < blocks) i2s_vector_step512vl(R, w, pitch, q, acc);
    __m256i sum[4];
    I2S_MM_UNROLL for (int r = 0; r < 4; r++)
        sum[r] = r >= R ? _mm256_setzero_si256()
                        : _mm256_add_epi32(
                              _mm256_add_epi32(_mm256_srai_epi32(acc[r][0], 6), _mm256_srai_epi32(acc[r][1], 4)),
                              _mm256_add_epi32(_mm256_srai_epi32(acc[r][2], 2), acc[r][3]));
    const __m256i all = _mm256_hadd_epi32(_mm256_hadd_epi32(sum[0], sum[1]), _mm256_hadd_epi32(sum[2], sum[3]));
    const __m128i sums = _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    if (R == 4)
        _mm_storeu_si128((__m128i *)out, sums);
    else
        *out = _mm_cvtsi128_si32(sums);
}

I2S_MM_TARGET I2S_MM_INLINE void i2s_matrix_step512(const int R, const int C, const uint8_t *w, int64_t pitch, int both,
                                                    const int8_t *q, __m512i acc[4][4]) {
    const __m512i three = _mm512_set1_epi8(3);
    __m512i v[4];
    I2S_MM_UNROLL for (int r = 0; r < R; r++) v[r] = i2s_weights512(w + r * pitch, both);
    I2S_MM_UNROLL for (int f = 0; f < 4; f++) {
        __m512i u[4];
        I2S_MM_UNROLL for (int r = 0; r < R; r++)
            u[r] = _mm512_and_si512(f == 3 ? v[r] : _mm512_srli_epi16(v[r], 6 - 2 * f), three);
        I2S_MM_UNROLL for (int c = 0; c < C; c++) {
            const __m512i x = _mm512_loadu_si512(q + 64 * (C * f + c));
            I2S_MM_UNROLL for (int r = 0; r < R; r++) I2S_DP512(acc[r][c], u[r], x);
        }
    }
}

/* R rows and C tokens. */
I2S_MM_TARGET I2S_MM_INLINE void i2s_matrix512(const int R, const int C, const uint8_t *w, int64_t blocks, const int8_t *q,
                                               int32_t *out, int64_t stride) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    __m512i acc[4][4];
    I2S_MM_UNROLL for (int r = 0; r < R; r++)
        I2S_MM_UNROLL for (int c = 0; c < C; c++) acc[r][c] = _mm512_setzero_si512();
    const uint8_t *ahead = (const uint8_t *)((uintptr_t)w + (uintptr_t)(R * pitch + I2S_MM_AHEAD));
    int64_t b = 0;
    for (; b + 1 < blocks; b += 2) {
        I2S_MM_UNROLL for (int r = 0; r < R; r++) I2S_MM_ASK(ahead, 64 * r);
        i2s_matrix_step512(R, C, w, pitch, 1, q, acc);
        w += 64, q += 256 * C, ahead = (const uint8_t *)((uintptr_t)ahead + 64 * R);
    }
    if (b < blocks) i2s_matrix_step512(R, C, w, pitch, 0, q, acc);
    I2S_MM_UNROLL for (int c = 0; c < C; c++) {
        if (R == 4)
            _mm_storeu_si128((__m128i *)(out + c * stride), i2s_sums4_512(acc[0][c], acc[1][c], acc[2][c], acc[3][c]));
        else
            I2S_MM_UNROLL for (int r = 0; r < R; r++) out[c * stride + r] = _mm512_reduce_add_epi32(acc[r][c]);
    }
}

I2S_MM_PRODUCT(i2s_product_avx512vl, i2s_vector512vl, 4, i2s_matrix512, 4)

/* If 512-bit operations are executed in halves, they are not faster alone. But 256-bit ones need twice the
 * instructions, nearly as many as such a processor can issue in a cycle; with another thread on the core, which takes
 * half of the issue slots, they reach 0.55 of the peak and 512-bit ones 0.75. */
I2S_MM_TARGET static void i2s_product_avx512(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *q, int tokens,
                                             int32_t *out, int64_t stride) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    int64_t r = 0;
    if (tokens > 1) {
        i2s_product_avx512vl(w, rows, blocks, q, tokens, out, stride);
        return;
    }
    if (rows * pitch > I2S_MM_NEAR && !i2s_cpu_halves_avx512())
        for (; r + 8 <= rows; r += 4) i2s_vector512(4, 1, w + r * pitch, blocks, q, out + r);
    if (blocks <= I2S_MM_TWICE && i2s_cpu_halves_avx512())
        for (; r + 8 <= rows; r += 8) i2s_twice512(w + r * pitch, blocks, q, out + r);
    for (; r + 4 <= rows; r += 4) i2s_vector512(4, 0, w + r * pitch, blocks, q, out + r);
    for (; r < rows; r++) i2s_vector512(1, 0, w + r * pitch, blocks, q, out + r);
}

/* R rows and one token, for weights from memory: half as wide and two rows at a time, so that the next data was
 * prefetched longest ago, and few loads wait at once. With `second` it is prefetched into the second-level cache. */
I2S_MM_TARGET I2S_MM_INLINE void i2s_stream512(const int R, const int second, const uint8_t *w, int64_t blocks,
                                               const int8_t *q, int32_t *out) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    const __m256i mask[4] = I2S_MM_MASKS(_mm256_set1_epi8);
    __m256i acc[2][4];
    I2S_MM_UNROLL for (int r = 0; r < R; r++)
        I2S_MM_UNROLL for (int f = 0; f < 4; f++) acc[r][f] = _mm256_setzero_si256();
    uintptr_t ahead = (uintptr_t)w + (uintptr_t)(R * pitch + I2S_MM_AHEAD_STREAM);
    for (int64_t b = 0; b < blocks; b++, w += 32, q += 128, ahead += (uintptr_t)(32 * R)) {
        if (second)
            I2S_MM_ASK_SECOND(ahead, 0);
        else
            I2S_MM_ASK(ahead, 0);
        __m256i v[2];
        I2S_MM_UNROLL for (int r = 0; r < R; r++) v[r] = _mm256_loadu_si256((const __m256i *)(w + r * pitch));
        I2S_MM_UNROLL for (int f = 0; f < 4; f++) {
            const __m256i x = _mm256_loadu_si256((const __m256i *)(q + 32 * f));
            I2S_MM_UNROLL for (int r = 0; r < R; r++) {
                const __m256i u = _mm256_and_si256(v[r], mask[f]);
                I2S_DP512(acc[r][f], u, x);
            }
        }
    }
    I2S_MM_UNROLL for (int r = 0; r < R; r++) {
        __m256i sum = _mm256_add_epi32(_mm256_add_epi32(_mm256_srai_epi32(acc[r][0], 6), _mm256_srai_epi32(acc[r][1], 4)),
                                       _mm256_add_epi32(_mm256_srai_epi32(acc[r][2], 2), acc[r][3]));
        sum = _mm256_hadd_epi32(sum, sum);
        sum = _mm256_hadd_epi32(sum, sum);
        out[r] = _mm_cvtsi128_si32(_mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1)));
    }
}

/* Two rows of an even number of blocks, with 512-bit vectors: for processors whose second thread on a core takes half
 * of the issue slots, so that twice as many instructions cannot keep up with memory. Memory is prefetched into the
 * second-level cache: with prefetches into the first, some orders of the same instructions reach half the speed of
 * others. The distance counts from the first row: for rows of 2,048 to 16,384 columns 7,424 bytes were best, or 1 KiB more
 * than both rows (with 6,144 more, 6,912 columns took a sixth longer). Measured on Zen 4. A vector that crosses a cache line
 * waits for both lines: if a row begins in the middle of a line (`half`), its first and last blocks are processed
 * separately. `codes` are those of a token, `pairs` the same for the two blocks of each vector side by side, field by
 * field. */
I2S_MM_TARGET I2S_MM_INLINE void i2s_stream512_lone(const uint8_t *w, int64_t pitch, const int8_t *codes, __m512i acc[2][4]) {
    I2S_MM_UNROLL for (int f = 0; f < 4; f++) {
        const __m512i x = _mm512_zextsi256_si512(_mm256_loadu_si256((const __m256i *)(codes + 32 * f)));
        I2S_MM_UNROLL for (int r = 0; r < 2; r++) {
            const __m512i u = _mm512_and_si512(i2s_weights512(w + r * pitch, 0), _mm512_set1_epi8((char)(0xC0 >> 2 * f)));
            I2S_DP512(acc[r][f], u, x);
        }
    }
}

I2S_MM_TARGET I2S_MM_INLINE void i2s_stream512_wide(const int half, const uint8_t *w, int64_t blocks, const int8_t *codes,
                                                    const int8_t *pairs, int32_t *out) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    const __m512i mask[4] = I2S_MM_MASKS(_mm512_set1_epi8);
    __m512i acc[2][4];
    I2S_MM_UNROLL for (int r = 0; r < 2; r++)
        I2S_MM_UNROLL for (int f = 0; f < 4; f++) acc[r][f] = _mm512_setzero_si512();
    const int64_t least = 2 * pitch + 1024, distance = least > I2S_MM_AHEAD_WIDE ? least : I2S_MM_AHEAD_WIDE;
    uintptr_t ahead = (uintptr_t)w + (uintptr_t)distance;
    if (half) {
        I2S_MM_ASK_SECOND(ahead, 0);
        I2S_MM_ASK_SECOND(ahead, 64);
        i2s_stream512_lone(w, pitch, codes, acc);
        w += 32, ahead += 128;
    }
    for (int64_t b = half; b + 1 < blocks; b += 2, w += 64, pairs += 256, ahead += 128) {
        I2S_MM_ASK_SECOND(ahead, 0);
        I2S_MM_ASK_SECOND(ahead, 64);
        __m512i v[2];
        I2S_MM_UNROLL for (int r = 0; r < 2; r++) v[r] = _mm512_loadu_si512(w + r * pitch);
        I2S_MM_UNROLL for (int f = 0; f < 4; f++) {
            const __m512i x = _mm512_load_si512(pairs + 64 * f);
            I2S_MM_UNROLL for (int r = 0; r < 2; r++) {
                const __m512i u = _mm512_and_si512(v[r], mask[f]);
                I2S_DP512(acc[r][f], u, x);
            }
        }
    }
    if (half) i2s_stream512_lone(w, pitch, codes + (blocks - 1) * I2S_MM_COLUMNS, acc);
    I2S_MM_UNROLL for (int r = 0; r < 2; r++)
        out[r] = _mm512_reduce_add_epi32(_mm512_add_epi32(
            _mm512_add_epi32(_mm512_srai_epi32(acc[r][0], 6), _mm512_srai_epi32(acc[r][1], 4)),
            _mm512_add_epi32(_mm512_srai_epi32(acc[r][2], 2), acc[r][3])));
}

#define I2S_MM_PAIRED 128 /* most blocks in a row whose codes are paired */

I2S_MM_TARGET static void i2s_stream_avx512wide(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *codes,
                                                int32_t *out) {
    int8_t memory[I2S_MM_PAIRED * I2S_MM_COLUMNS + 63], *const pairs = memory + (-(uintptr_t)memory & 63);
    const int64_t pitch = blocks * I2S_MM_BYTES, half = (uintptr_t)w >> 5 & 1;
    i2s_arrange_avx512(codes + half * I2S_MM_COLUMNS, blocks - 2 * half, 1, pairs);
    if (half)
        for (int64_t r = 0; r < rows; r += 2) i2s_stream512_wide(1, w + r * pitch, blocks, codes, pairs, out + r);
    else
        for (int64_t r = 0; r < rows; r += 2) i2s_stream512_wide(0, w + r * pitch, blocks, codes, pairs, out + r);
}

I2S_MM_TARGET static void i2s_stream_avx512(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *codes,
                                            int32_t *out) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    const int second = i2s_cpu_asks_second();
    int64_t r = 0;
    if (i2s_cpu_halves_avx512() && blocks % 2 == 0 && blocks <= I2S_MM_PAIRED) {
        r = rows & ~(int64_t)1;
        i2s_stream_avx512wide(w, r, blocks, codes, out);
    }
    for (; r + 2 <= rows; r += 2) i2s_stream512(2, second, w + r * pitch, blocks, codes, out + r);
    if (r < rows) i2s_stream512(1, second, w + r * pitch, blocks, codes, out + r);
}

I2S_MM_TARGET static void i2s_quantize_avx512(const float *x, int64_t n, int8_t *codes, float *scale, int32_t *sum) {
    i2s_quantize_body(x, n, codes, scale, sum);
}
I2S_MM_TARGET I2S_MM_UNUSED(i2s_unused_avx512, i2s_vector64)
I2S_MM_TARGET static void i2s_epilogue_avx512(int32_t *acc, int64_t n, int32_t sum, float scale, float weight_scale) {
    i2s_epilogue_body(acc, n, sum, scale, weight_scale);
}
#undef I2S_MM_TARGET
