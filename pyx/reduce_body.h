/* The kernels of reduce.h for one instruction set: NAME, TARGET and FUSED (whether it has fused multiply-adds). */

#if defined(__GNUC__) || defined(__clang__)
typedef double NAME(i2s_eight) __attribute__((vector_size(64), aligned(8), may_alias));
typedef float NAME(i2s_lane8) __attribute__((vector_size(32), aligned(4), may_alias));
#define VECTORS 1
#else
#define VECTORS 0
#endif

TARGET static void NAME(i2s_products)(const double *x, int64_t tokens, int64_t columns, const void *w, int kind,
                                      int64_t row_step, int64_t column_step, int64_t start, int64_t stop, float *out,
                                      int64_t rows, double *scratch) {
    float *row = (float *)(scratch + columns * I2S_OUTPUTS);
    for (int64_t n = start; n < stop; n += I2S_OUTPUTS) {
        int64_t count = stop - n < I2S_OUTPUTS ? stop - n : I2S_OUTPUTS;
        if (count < I2S_OUTPUTS) memset(scratch, 0, sizeof(double) * columns * I2S_OUTPUTS);
        for (int64_t i = 0; i < count; i++) {
            i2s_row(w, kind, (n + i) * row_step, column_step, columns, row);
            for (int64_t k = 0; k < columns; k++) scratch[k * I2S_OUTPUTS + i] = (double)row[k];
        }
        for (int64_t t = 0; t < tokens; t += I2S_TOKENS) {
            const double *xt = x + t * columns;
            int64_t some = tokens - t < I2S_TOKENS ? tokens - t : I2S_TOKENS;
            double sum[I2S_TOKENS][I2S_OUTPUTS];
#if VECTORS
#define FOR_EACH(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define BEGIN(i) NAME(i2s_eight) a##i = {0}, b##i = {0};
#define STEP(i) { double e = xt[k * I2S_TOKENS + i]; a##i += e * p; b##i += e * q; }
#define FINISH(i) memcpy(&sum[i][0], &a##i, 64); memcpy(&sum[i][8], &b##i, 64);
            if (some == 1) {
                BEGIN(0)
                for (int64_t k = 0; k < columns; k++) {
                    NAME(i2s_eight) p = *(const NAME(i2s_eight) *)(scratch + k * I2S_OUTPUTS);
                    NAME(i2s_eight) q = *(const NAME(i2s_eight) *)(scratch + k * I2S_OUTPUTS + 8);
                    STEP(0)
                }
                FINISH(0)
            } else {
                FOR_EACH(BEGIN)
                for (int64_t k = 0; k < columns; k++) {
                    NAME(i2s_eight) p = *(const NAME(i2s_eight) *)(scratch + k * I2S_OUTPUTS);
                    NAME(i2s_eight) q = *(const NAME(i2s_eight) *)(scratch + k * I2S_OUTPUTS + 8);
                    FOR_EACH(STEP)
                }
                FOR_EACH(FINISH)
            }
#undef FOR_EACH
#undef BEGIN
#undef STEP
#undef FINISH
#else
            memset(sum, 0, sizeof sum);
            for (int64_t k = 0; k < columns; k++)
                for (int i = 0; i < I2S_TOKENS; i++)
                    for (int j = 0; j < I2S_OUTPUTS; j++)
                        sum[i][j] += xt[k * I2S_TOKENS + i] * scratch[k * I2S_OUTPUTS + j];
#endif
            for (int64_t i = 0; i < some; i++)
                for (int64_t j = 0; j < count; j++) out[(t + i) * rows + n + j] = (float)sum[i][j];
        }
    }
}

#if defined(__GNUC__) || defined(__clang__)
#define ALWAYS __attribute__((always_inline))
#else
#define ALWAYS
#endif

/* One dot product over 4 vectors of `vector` lanes, which is a constant where this is inlined. */
ALWAYS TARGET static inline float NAME(i2s_lane_sum)(const float *x, const float *row, int64_t columns, const int vector) {
    const int step = 4 * vector;
    int64_t whole = columns / step * step;
    float lane[I2S_MOST_LANES] = {0};
    for (int64_t k = 0; k < whole; k += step)
        for (int i = 0; i < step; i++) {
#if FUSED
            lane[i] = __builtin_fmaf(x[k + i], row[k + i], lane[i]);
#else
            lane[i] = fmaf(x[k + i], row[k + i], lane[i]);
#endif
        }
    for (int i = 0; i < vector; i++) lane[i] = (lane[i] + lane[2 * vector + i]) + (lane[vector + i] + lane[3 * vector + i]);
    for (int half = vector / 2; half >= 4; half /= 2)
        for (int i = 0; i < half; i++) lane[i] += lane[half + i];
    float total = vector == 8 ? (lane[0] + lane[1]) + (lane[2] + lane[3]) : (lane[0] + lane[2]) + (lane[1] + lane[3]);
    if (whole < columns) {
        double wide = total;
        for (int64_t k = whole; k < columns; k++) {
            volatile float product = x[k] * row[k];
            wide += (double)product;
        }
        total = (float)wide;
    }
    return total;
}

TARGET static void NAME(i2s_lanes)(const float *x, int64_t tokens, int64_t columns, const void *w, int kind,
                                   int64_t row_step, int64_t column_step, int64_t start, int64_t stop, float *out,
                                   int64_t rows, float *row, int vector) {
    for (int64_t n = start; n < stop; n++) {
        i2s_row(w, kind, n * row_step, column_step, columns, row);
        for (int64_t t = 0; t < tokens; t++) {
            const float *xt = x + t * columns;
            out[t * rows + n] = vector == 8 ? NAME(i2s_lane_sum)(xt, row, columns, 8) : NAME(i2s_lane_sum)(xt, row, columns, 16);
        }
    }
}

#undef ALWAYS
#undef VECTORS
#undef NAME
#undef TARGET
#undef FUSED
