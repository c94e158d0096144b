/* Copying and scoring the rows of a head, once for each instruction set; screened_head.h includes this.
 *
 * FN(name) is a function of the set of float kernels, HEAD(name) one of this set, which has defined HEAD(dot).
 */

#define VL (VB / 4)
#define INLINE TARGET static inline __attribute__((always_inline))
INLINE FN(vf) HEAD(magnitude)(FN(vf) v) { return (FN(vf))((FN(vi))v & 0x7FFFFFFF); }

/* The whole number nearest to v times `by`, rounded once, and 1.5 * 2^23 more, as the bits of a float. */
INLINE FN(vi) HEAD(nearest)(FN(vf) v, float by) {
#if VB == 16 && !defined(__aarch64__)
    FN(vi) n;
    for (int i = 0; i < VL; i++) n[i] = 0x4B400000 + (int32_t)(((double)v[i] * by + 6755399441055744.0) - 6755399441055744.0);
    return n;
#else
    return (FN(vi))FN(fma)(v, ALL(by), ALL(12582912.0f));
#endif
}

INLINE float HEAD(largest)(FN(vf) v) {
    float all[VL], most = 0;
    FN(store)(all, v);
    for (int i = 0; i < VL; i++) most = all[i] > most ? all[i] : most;
    return most;
}

TARGET static void HEAD(copy)(const i2s_head_copy *h, int64_t first, int64_t last) {
    const int64_t n = h->columns;
    const double sums = 1 + (double)(n + 32) / 16777216; /* what sums of n squares lose in any order, and their roots */
    for (int64_t r = first; r < last; r++) {
        const uint8_t *row = h->weights + r * n * 2;
        uint8_t *codes = h->codes + r * h->pitch;
        FN(vf) top = {0}, squares = {0}, far = {0}, errors = {0};
        for (int64_t k = 0; k < n; k += VL) {
            if (k % 32 == 0) __builtin_prefetch(row + 2 * (n + k), 0, 2);
            const FN(vf) v = k + VL <= n ? FN(halves)(row + 2 * k) : FN(widen_part)(I2S_F16, row + 2 * k, (int)(n - k));
            top = FN(larger)(HEAD(magnitude)(v), top);
            squares = FN(fma)(v, v, squares); /* NaN and infinity remain here */
        }
        const float square = FN(sum)(squares);
        memset(codes + n, 128, (size_t)(h->pitch - n));
        if (!(square < INFINITY)) {
            memset(codes, 128, (size_t)n);
            h->scale[r] = NAN, h->most[r] = h->error[r] = h->norm[r] = INFINITY;
            continue;
        }
        float scale = HEAD(largest)(top) / 127.0f;
        uint32_t bits;
        memcpy(&bits, &scale, 4);
        bits = (bits + 0xFF) & ~0xFFu; /* up to 16 bits */
        memcpy(&scale, &bits, 4);
        const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
        for (int64_t from = 0; from < n; from += 64) { /* compilers narrow loops of 64 well, and single vectors badly */
            const int64_t end = from + 64 < n ? from + 64 : n;
            int32_t near[64];
            for (int64_t k = from; k < end; k += VL) {
                const FN(vf) v = k + VL <= n ? FN(halves)(row + 2 * k) : FN(widen_part)(I2S_F16, row + 2 * k, (int)(n - k));
                const FN(vi) code = HEAD(nearest)(v, inverse);
                const FN(vf) e = v - ((FN(vf))code - 12582912.0f) * scale;
                far = FN(larger)(HEAD(magnitude)(e), far);
                errors = FN(fma)(e, e, errors);
                memcpy(near + (k - from), &code, VB);
            }
            if (end == from + 64)
                for (int i = 0; i < 64; i++) codes[from + i] = (uint8_t)(near[i] + 128);
            else
                for (int i = 0; i < end - from; i++) codes[from + i] = (uint8_t)(near[i] + 128);
        }
        const double error = sqrt((double)FN(sum)(errors)) * sums;
        h->scale[r] = scale;
        h->most[r] = i2s_head_up((double)HEAD(largest)(far) * (1 + 1.2e-7));
        h->error[r] = i2s_head_up(error * (1 + 1.2e-7));
        h->norm[r] = i2s_head_up(sqrt((double)square) * sums + error);
    }
}

TARGET static void HEAD(score)(const i2s_head_copy *h, const i2s_head_token *t, int64_t tokens, int64_t first, int64_t last,
                               float *estimate, float *upper) {
    double sums[4 * I2S_HEAD_ROWS];
    for (int64_t r = first; r < last; r += I2S_HEAD_ROWS) {
        const int64_t count = last - r < I2S_HEAD_ROWS ? last - r : I2S_HEAD_ROWS;
        const uint8_t *codes = h->codes + r * h->pitch;
        for (int64_t n = 0, group = 1; n < tokens; n += group) {
            int64_t begin = 0;
#ifdef DOTS
            group = tokens - n < 4 ? 1 : 4;
            if (group == 4)
                for (; begin + 2 <= count; begin += 2)
                    HEAD(dots)(t + n, codes + begin * h->pitch, h->pitch, sums + begin);
#endif
            for (int64_t j = 0; j < group; j++) {
                double *const each = sums + j * I2S_HEAD_ROWS;
                for (int64_t i = begin; i < count; i++) each[i] = HEAD(dot)(t + n + j, codes + i * h->pitch, h->pitch);
                i2s_head_bounds(h, t + n + j, r, count, each, estimate + (n + j) * h->rows, upper + (n + j) * h->rows);
            }
        }
    }
}

#undef VL
#undef INLINE
