/* Products of one token with long rows, and of a few tokens each as if it were alone, by AVX-512; fast_kernels.h includes this with the names of that set.
 *
 * On AMD's family 19h a matrix in memory is read fastest one row after the other, a group of lines prefetched into the
 * second-level cache before as many are used: as fast as memory is, where two rows at a time, by vectors half as wide, took a
 * tenth longer. Vectors are added in turn to two sums of a row, as one sum waits for each addition. Measured on Zen 4.
 */

#define I2S_LONG_ROW 1024 /* columns; in shorter rows it takes too long to add up the lanes */

/* Lines are prefetched where this stands: compilers move their own prefetches between loads, and reading memory then takes a
 * twentieth longer. */
TARGET I2S_FAST_INLINE void FN(ask)(const uint8_t *p, const int bytes) {
    UNROLL for (int line = 0; line < bytes; line += 64) __asm__ volatile("prefetcht1 %0" : : "m"(p[line]));
}

/* R rows with 16 N columns. */
TARGET I2S_FAST_INLINE void FN(token_step)(const int kind, const int R, const int N, const uint8_t *w, int64_t pitch,
                                           const float *x, FN(vf) sums[4][2]) {
    const int size = kind == I2S_F32 ? 4 : 2;
    UNROLL for (int n = 0; n < N; n++) {
        const FN(vf) a = FN(load)(x + 16 * n);
        UNROLL for (int r = 0; r < R; r++)
            sums[r][n % 2] = FN(fma)(FN(widen)(kind, w + r * pitch + 16 * n * size), a, sums[r][n % 2]);
    }
}

/* R rows. With `far`, which is for one row, the lines that follow are prefetched. */
TARGET I2S_FAST_INLINE void FN(token_tile)(const int kind, const int R, const int far, const uint8_t *w, int64_t pitch,
                                           int64_t columns, const float *x, float *out) {
    const int size = kind == I2S_F32 ? 4 : 2;
    FN(vf) sums[4][2], both[4];
    UNROLL for (int r = 0; r < R; r++) sums[r][0] = sums[r][1] = (FN(vf)){0};
    int64_t k = 0;
    if (far)
        for (; k + 256 <= columns; k += 256) {
            FN(ask)(w + k * size + 1024, 256 * size);
            FN(token_step)(kind, R, 16, w + k * size, pitch, x + k, sums);
        }
    for (; k + 32 <= columns; k += 32) FN(token_step)(kind, R, 2, w + k * size, pitch, x + k, sums);
    for (int n = 0; k < columns; k += 16, n = 1) {
        const int left = columns - k < 16 ? (int)(columns - k) : 16;
        const FN(vf) a = FN(load_part)(x + k, left);
        UNROLL for (int r = 0; r < R; r++)
            sums[r][n] = FN(fma)(FN(widen_part)(kind, w + r * pitch + k * size, left), a, sums[r][n]);
    }
    float four[4];
    UNROLL for (int r = 0; r < 4; r++) both[r] = sums[r < R ? r : 0][0] + sums[r < R ? r : 0][1];
    FN(sum4)(both[0], both[1], both[2], both[3], four);
    UNROLL for (int r = 0; r < R; r++) out[r] = four[r];
}

TARGET I2S_FAST_INLINE void FN(token_tiles)(const int kind, const uint8_t *w, int64_t rows, int64_t pitch, int64_t columns,
                                            const float *x, float *out) {
    int64_t r = 0;
    if (rows * pitch > I2S_FAST_FAR)
        for (; r < rows; r++) FN(token_tile)(kind, 1, 1, w + r * pitch, pitch, columns, x, out + r);
    for (; r + 4 <= rows; r += 4) FN(token_tile)(kind, 4, 0, w + r * pitch, pitch, columns, x, out + r);
    for (; r < rows; r++) FN(token_tile)(kind, 1, 0, w + r * pitch, pitch, columns, x, out + r);
}

/* Sums do not depend on the number of rows: threads have different ones. */
TARGET static void FN(token_dots)(int kind, const uint8_t *w, int64_t rows, int64_t pitch, int64_t columns, const float *x,
                                  float *out) {
    if (kind == I2S_F16) FN(token_tiles)(I2S_F16, w, rows, pitch, columns, x, out);
    else if (kind == I2S_F32) FN(token_tiles)(I2S_F32, w, rows, pitch, columns, x, out);
    else FN(token_tiles)(I2S_BF16, w, rows, pitch, columns, x, out);
}

/* R rows by T tokens, with the sums of token_tile. */
TARGET I2S_FAST_INLINE void FN(few_tile)(const int kind, const int R, const int T, const uint8_t *w, int64_t pitch,
                                         int64_t columns, const float *x, int64_t x_pitch, float *out, int64_t stride) {
    const int size = kind == I2S_F32 ? 4 : 2;
    FN(vf) sums[4][2][2], v[2];
    UNROLL for (int t = 0; t < T; t++)
        UNROLL for (int r = 0; r < R; r++) sums[t][r][0] = sums[t][r][1] = (FN(vf)){0};
    int64_t k = 0;
    for (; k + 32 <= columns; k += 32) {
        __builtin_prefetch(w + R * pitch + k * R * size, 0, 2); /* the next rows: a line or two of them */
        if (R * size > 2) __builtin_prefetch(w + R * pitch + k * R * size + 64, 0, 2);
        UNROLL for (int n = 0; n < 2; n++) {
            UNROLL for (int r = 0; r < R; r++) v[r] = FN(widen)(kind, w + r * pitch + (k + 16 * n) * size);
            UNROLL for (int t = 0; t < T; t++) {
                FN(vf) a = FN(load)(x + t * x_pitch + k + 16 * n);
                I2S_ONCE(a);
                UNROLL for (int r = 0; r < R; r++) sums[t][r][n] = FN(fma)(v[r], a, sums[t][r][n]);
            }
        }
    }
    for (int n = 0; k < columns; k += 16, n = 1) {
        const int left = columns - k < 16 ? (int)(columns - k) : 16;
        UNROLL for (int r = 0; r < R; r++) v[r] = FN(widen_part)(kind, w + r * pitch + k * size, left);
        UNROLL for (int t = 0; t < T; t++) {
            const FN(vf) a = FN(load_part)(x + t * x_pitch + k, left);
            UNROLL for (int r = 0; r < R; r++) sums[t][r][n] = FN(fma)(v[r], a, sums[t][r][n]);
        }
    }
    UNROLL for (int t = 0; t < T; t++) {
        float four[4];
        const FN(vf) one = sums[t][0][0] + sums[t][0][1], other = R > 1 ? sums[t][R - 1][0] + sums[t][R - 1][1] : one;
        FN(sum4)(one, other, one, one, four);
        UNROLL for (int r = 0; r < R; r++) out[t * stride + r] = four[r];
    }
}

TARGET I2S_FAST_INLINE void FN(few_dots)(const int kind, const uint8_t *w, int64_t rows, int64_t pitch, int64_t columns,
                                         const float *x, int64_t x_pitch, int64_t tokens, float *out, int64_t stride) {
    int64_t t = 0, r = 0;
    for (; t + 4 <= tokens; t += 4, x += 4 * x_pitch, out += 4 * stride) {
        for (r = 0; r + 2 <= rows; r += 2)
            FN(few_tile)(kind, 2, 4, w + r * pitch, pitch, columns, x, x_pitch, out + r, stride);
        if (r < rows) FN(few_tile)(kind, 1, 4, w + r * pitch, pitch, columns, x, x_pitch, out + r, stride);
    }
    for (; t < tokens; t++, x += x_pitch, out += stride) {
        for (r = 0; r + 2 <= rows; r += 2)
            FN(few_tile)(kind, 2, 1, w + r * pitch, pitch, columns, x, x_pitch, out + r, stride);
        if (r < rows) FN(few_tile)(kind, 1, 1, w + r * pitch, pitch, columns, x, x_pitch, out + r, stride);
    }
}

/* One token reads the weights from memory, several from a cache. */
static void i2s_fast_any_dots_avx512(int kind, const uint8_t *w, int64_t rows, int64_t pitch, int64_t columns, const float *x,
                                     int64_t x_pitch, int64_t tokens, float *out, int64_t stride) {
    if (tokens == 1 && columns >= I2S_LONG_ROW && i2s_cpu_small_first())
        FN(token_dots)(kind, w, rows, pitch, columns, x, out);
    else
        (tokens == 1 ? i2s_fast_dots_avx512vl : i2s_fast_dots_avx512)(kind, w, rows, pitch, columns, x, x_pitch, tokens, out,
                                                                      stride);
}

TARGET static void i2s_fast_alone_dots_avx512(int kind, const uint8_t *w, int64_t rows, int64_t pitch, int64_t columns,
                                              const float *x, int64_t x_pitch, int64_t tokens, float *out,
                                              int64_t stride) {
    if (tokens == 1)
        i2s_fast_any_dots_avx512(kind, w, rows, pitch, columns, x, x_pitch, tokens, out, stride);
    else if (columns < I2S_LONG_ROW || !i2s_cpu_small_first())
        i2s_fast_dots_avx512vl(kind, w, rows, pitch, columns, x, x_pitch, tokens, out, stride);
    else if (kind == I2S_F16) FN(few_dots)(I2S_F16, w, rows, pitch, columns, x, x_pitch, tokens, out, stride);
    else if (kind == I2S_F32) FN(few_dots)(I2S_F32, w, rows, pitch, columns, x, x_pitch, tokens, out, stride);
    else FN(few_dots)(I2S_BF16, w, rows, pitch, columns, x, x_pitch, tokens, out, stride);
}
