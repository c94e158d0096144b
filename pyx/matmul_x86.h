/* Products of packed weights with activation codes: AVX2, AVX-VNNI and AVX-512 VNNI.
 *
 * One token takes the access order that memory likes: a few rows side by side, and one prefetch stream that runs through
 * the next rows in the order of their addresses. How many rows, and how wide, depends on where the weights are. Fields of a byte are masked and not shifted: the products come out times
 * 64, 16, 4 and 1, are summed apart and shifted once at the end of the row; every lane is a multiple, so that is exact.
 * More tokens share unpacked fields, which then are shifted. Accumulators are pinned to registers by inline assembly:
 * with the intrinsic, gcc 12 copies them around.
 */
#ifndef I2S_MATMUL_X86_H
#define I2S_MATMUL_X86_H

#include "intrinsics.h"

#if defined(__clang__)
#define I2S_MM_UNROLL _Pragma("clang loop unroll(full)")
#else
#define I2S_MM_UNROLL _Pragma("GCC unroll 8")
#endif
#define I2S_MM_INLINE static inline __attribute__((always_inline))

/* How far behind the next rows memory is asked for; past the end of a buffer too, which is allowed and does nothing. */
#define I2S_MM_AHEAD 4096
#define I2S_MM_AHEAD_512VL 2048
#define I2S_MM_AHEAD_STREAM 6144
#define I2S_MM_ASK(p, at) _mm_prefetch((const char *)((uintptr_t)(p) + (uintptr_t)(at)), _MM_HINT_T0)
#define I2S_MM_ASK_SECOND(p, at) _mm_prefetch((const char *)((uintptr_t)(p) + (uintptr_t)(at)), _MM_HINT_T1)

/* The product of a set: VECTOR for one token, VR rows at a time; MATRIX for two to four, MR rows at a time. */
#define I2S_MM_TOKENS(C, MATRIX, MR)                                                                                    \
    for (; r + MR <= rows; r += MR) MATRIX(MR, C, w + r * pitch, blocks, q, out + r, stride);                           \
    for (; r < rows; r++) MATRIX(1, C, w + r * pitch, blocks, q, out + r, stride);
#define I2S_MM_PRODUCT(NAME, VECTOR, VR, MATRIX, MR)                                                                    \
    I2S_MM_TARGET static void NAME(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *q, int tokens,         \
                                   int32_t *out, int64_t stride) {                                                      \
        const int64_t pitch = blocks * I2S_MM_BYTES;                                                                    \
        int64_t r = 0;                                                                                                  \
        if (tokens == 1) {                                                                                              \
            for (; r + VR <= rows; r += VR) VECTOR(VR, w + r * pitch, blocks, q, out + r);                              \
            for (; r < rows; r++) VECTOR(1, w + r * pitch, blocks, q, out + r);                                         \
        } else if (tokens == 2) {                                                                                       \
            I2S_MM_TOKENS(2, MATRIX, MR)                                                                                \
        } else if (tokens == 3) {                                                                                       \
            I2S_MM_TOKENS(3, MATRIX, MR)                                                                                \
        } else {                                                                                                        \
            I2S_MM_TOKENS(4, MATRIX, MR)                                                                                \
        }                                                                                                               \
    }

/* The fields of a byte, where they are. */
#define I2S_MM_MASKS(SET1) {SET1((char)0xC0), SET1(0x30), SET1(0x0C), SET1(0x03)}

/* Weights that a cache of the processor's own holds, and nobody has to wait for. */
#define I2S_MM_NEAR (1 << 19)

/* Read a byte and forget it: memory that a load waits for is looked after better than what was only asked for. */
#define I2S_MM_TOUCH(p)                                                                                                 \
    do {                                                                                                                \
        uint32_t nothing;                                                                                               \
        __asm__ volatile("movzbl %1, %0" : "=r"(nothing) : "m"(*(const uint8_t *)(p)));                                 \
    } while (0)

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

I2S_MM_TARGET I2S_MM_INLINE __m128i i2s_sums4_512(__m512i a, __m512i b, __m512i c, __m512i d) {
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/* Two blocks of a row, or the one that is left, with zeros for the other. */
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

/* R rows and one token. With TOUCH as many rows follow, and what was asked for is also read. */
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

/* R rows and one token, half as wide: for processors that halve wide vectors anyway, and then lose most where a load lies in
 * two cache lines, which it does where a payload begins at an odd multiple of 32. */
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

I2S_MM_TARGET static void i2s_product_avx512wide(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *q, int tokens,
                                                 int32_t *out, int64_t stride) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    int64_t r = 0;
    if (tokens > 1) {
        i2s_product_avx512vl(w, rows, blocks, q, tokens, out, stride);
        return;
    }
    if (rows * pitch > I2S_MM_NEAR)
        for (; r + 8 <= rows; r += 4) i2s_vector512(4, 1, w + r * pitch, blocks, q, out + r);
    for (; r + 4 <= rows; r += 4) i2s_vector512(4, 0, w + r * pitch, blocks, q, out + r);
    for (; r < rows; r++) i2s_vector512(1, 0, w + r * pitch, blocks, q, out + r);
}

static void i2s_product_avx512(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *q, int tokens, int32_t *out,
                               int64_t stride) {
    (i2s_cpu_halves_avx512() ? i2s_product_avx512vl : i2s_product_avx512wide)(w, rows, blocks, q, tokens, out, stride);
}

/* R rows and one token, for weights that come from memory: half as wide and two rows at a time, so that what is needed next
 * was asked for longest ago, and few loads wait at once. With `second` it is asked for into the second-level cache. */
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

I2S_MM_TARGET static void i2s_stream_avx512(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *codes,
                                            int32_t *out) {
    const int64_t pitch = blocks * I2S_MM_BYTES;
    const int second = i2s_cpu_asks_second();
    int64_t r = 0;
    for (; r + 2 <= rows; r += 2) i2s_stream512(2, second, w + r * pitch, blocks, codes, out + r);
    if (r < rows) i2s_stream512(1, second, w + r * pitch, blocks, codes, out + r);
}

I2S_MM_TARGET static void i2s_quantize_avx512(const float *x, int64_t n, int8_t *codes, float *scale, int32_t *sum) {
    i2s_quantize_body(x, n, codes, scale, sum);
}
I2S_MM_TARGET static void i2s_epilogue_avx512(int32_t *acc, int64_t n, int32_t sum, float scale, float weight_scale) {
    i2s_epilogue_body(acc, n, sum, scale, weight_scale);
}
#undef I2S_MM_TARGET

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

/* ---- AVX2: products are added in 16 bits and widened before they can overflow, whatever codes and activations. ---- */

/* Two products of a code and an activation code are at most 2 * 3 * 128 = 768, four times that if the code is. */
#define I2S_MM_VECTOR_RUN 5   /* blocks whose two fields at scale 4 fit: 5 * 2 * 4 * 768 = 30720 */
#define I2S_MM_MATRIX_RUN 10  /* blocks whose four fields at scale 1 fit: 10 * 4 * 768 = 30720 */

/* Pinned, because gcc makes trees of such sums, which do not fit the registers. */
#define I2S_ADD16(acc, p) __asm__("vpaddw %1, %0, %0" : "+x"(acc) : "x"(p))

I2S_MM_TARGET I2S_MM_INLINE void i2s_widen256(__m256i *wide, __m256i *narrow) {
    *wide = _mm256_add_epi32(*wide, _mm256_madd_epi16(*narrow, _mm256_set1_epi16(1)));
    *narrow = _mm256_setzero_si256();
}

/* The next blocks of R rows, at most a run, into 16 bits: a quarter of what fits. */
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
I2S_MM_TARGET static void i2s_epilogue_avx2(int32_t *acc, int64_t n, int32_t sum, float scale, float weight_scale) {
    i2s_epilogue_body(acc, n, sum, scale, weight_scale);
}
#undef I2S_MM_TARGET

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

#endif
