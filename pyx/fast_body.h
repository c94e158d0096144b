/* The float kernels of profile `fast`, once for each instruction set: fast_kernels.h includes this with names and vectors.
 *
 * FN(name) is the name of a function of the set, TARGET its attribute, VB the bytes of a vector. The set defines
 * FN(halves), FN(narrow), FN(fma) and FN(sum4); a set with VB above 16 also defines what is below for VB 16. Every
 * output of a product is one sum of lanes over k in order, folded in one way: it depends neither on the number of rows
 * processed together nor on the number of tokens. (The set with AVX-512 has kernels of its own for one token alone.) So FN(fma) is an instruction if there is one: a compiler that chooses
 * between that and two roundings (as GCC 16 does) may choose differently for one row and for four.
 */

#define VL (VB / 4) /* floats in a vector */
#define INLINE TARGET static inline __attribute__((always_inline))

#if VB == 16 /* sets with four floats in a vector; wider sets define these with their own instructions */
INLINE FN(vf) FN(larger)(FN(vf) a, FN(vf) b) {
    const FN(vi) which = a > b;
    return (FN(vf))(((FN(vi))a & which) | ((FN(vi))b & ~which));
}
INLINE FN(vf) FN(rows_of)(i2s_four four) { return four; }
INLINE FN(vf) FN(lanes4)(FN(vf) a, FN(vf) b, FN(vf) c, FN(vf) d) {
    float four[4];
    FN(sum4)(a, b, c, d, four);
    return FN(load)(four);
}
INLINE FN(vf) FN(join)(const FN(vf) *of) { return of[0]; }
#endif

/* VL values of a type of weights, as floats. */
INLINE FN(vf) FN(widen)(const int kind, const uint8_t *p) {
    if (kind == I2S_F16) return FN(halves)(p);
    if (kind == I2S_F32) return FN(load)((const float *)p);
    FN(vi) bits;
    for (int i = 0; i < VL; i++) bits[i] = (int32_t)((uint32_t)(p[2 * i] | p[2 * i + 1] << 8) << 16);
    return (FN(vf))bits;
}

/* The last few numbers of a row, followed by zeros. */
INLINE FN(vf) FN(widen_part)(const int kind, const uint8_t *p, int count) {
    uint8_t part[VB] = {0};
    memcpy(part, p, (size_t)(count * (kind == I2S_F32 ? 4 : 2)));
    return FN(widen)(kind, part);
}

INLINE FN(vf) FN(load_part)(const float *p, int count) {
    float part[VL] = {0};
    memcpy(part, p, (size_t)count * 4);
    return FN(load)(part);
}

INLINE float FN(sum)(FN(vf) a) {
    float four[4];
    FN(sum4)(a, a, a, a, four);
    return four[0];
}

/* R rows by C tokens. `ahead`: memory to prefetch meanwhile, in the order of addresses, or NULL. `second`: prefetch
 * into the second-level cache. */
INLINE void FN(tile)(const int kind, const int R, const int C, const uint8_t *w, int64_t pitch, int64_t columns,
                     const float *x, int64_t x_pitch, float *out, int64_t stride, const uint8_t *ahead, const int second) {
    const int size = kind == I2S_F32 ? 4 : 2;
    FN(vf) acc[4][4];
    UNROLL for (int c = 0; c < C; c++)
        UNROLL for (int r = 0; r < R; r++) acc[c][r] = (FN(vf)){0};
    int64_t k = 0;
    for (; k + VL <= columns; k += VL) {
        if (C > 1 && ahead != NULL && k * size * R % 64 == 0) __builtin_prefetch(ahead + k * size * R, 0, 2);
        if (C == 1 && R > 1 && ahead != NULL) {
            if (second)
                UNROLL for (int p = 0; p < R * VL * size; p += 64) __builtin_prefetch(ahead + p, 0, 2);
            else
                UNROLL for (int p = 0; p < R * VL * size; p += 64) __builtin_prefetch(ahead + p, 0, 3);
            ahead += R * VL * size;
        }
        FN(vf) v[4];
        UNROLL for (int r = 0; r < R; r++) v[r] = FN(widen)(kind, w + r * pitch + k * size);
        UNROLL for (int c = 0; c < C; c++) {
            FN(vf) a = FN(load)(x + c * x_pitch + k);
            I2S_ONCE(a);
            UNROLL for (int r = 0; r < R; r++) acc[c][r] = FN(fma)(v[r], a, acc[c][r]);
        }
    }
    if (k < columns) {
        const int left = (int)(columns - k);
        FN(vf) v[4];
        UNROLL for (int r = 0; r < R; r++) v[r] = FN(widen_part)(kind, w + r * pitch + k * size, left);
        UNROLL for (int c = 0; c < C; c++) {
            const FN(vf) a = FN(load_part)(x + c * x_pitch + k, left);
            UNROLL for (int r = 0; r < R; r++) acc[c][r] = FN(fma)(v[r], a, acc[c][r]);
        }
    }
    UNROLL for (int c = 0; c < C; c++) {
        float four[4];
        FN(sum4)(acc[c][0], acc[c][R > 1], acc[c][R > 2 ? 2 : 0], acc[c][R > 3 ? 3 : 0], four);
        UNROLL for (int r = 0; r < R; r++) out[c * stride + r] = four[r];
    }
}

/* `from_memory`: no other tokens met the rows just before. Several tokens prefetch only then: eight by the head of a large
 * model take a sixth less on Zen 3. */
INLINE void FN(tiles)(const int kind, const int C, const uint8_t *w, int64_t rows, int64_t pitch, int64_t columns,
                      const float *x, int64_t x_pitch, float *out, int64_t stride, const int from_memory) {
    const int R = C == 1 ? 4 : ROWS, far = rows * pitch > I2S_FAST_FAR, second = far && i2s_cpu_asks_second();
    int64_t r = 0;
    if (C == 1 && far && i2s_cpu_small_first())
        for (; r + 2 <= rows; r += 2)
            FN(tile)(kind, 2, C, w + r * pitch, pitch, columns, x, x_pitch, out + r, stride, w + (r + 2) * pitch + AHEAD, 1);
    for (; r + R <= rows; r += R)
        FN(tile)(kind, R, C, w + r * pitch, pitch, columns, x, x_pitch, out + r, stride,
                 C == 1 || from_memory ? w + (r + R) * pitch + AHEAD : NULL, second);
    for (; r < rows; r++) FN(tile)(kind, 1, C, w + r * pitch, pitch, columns, x, x_pitch, out + r, stride, NULL, 0);
}

INLINE void FN(dots_of)(const int kind, const uint8_t *w, int64_t rows, int64_t pitch, int64_t columns, const float *x,
                        int64_t x_pitch, int64_t tokens, float *out, int64_t stride) {
    int64_t t = 0;
    for (; t + 4 <= tokens; t += 4)
        FN(tiles)(kind, 4, w, rows, pitch, columns, x + t * x_pitch, x_pitch, out + t * stride, stride, t == 0);
    if (t + 2 <= tokens) {
        FN(tiles)(kind, 2, w, rows, pitch, columns, x + t * x_pitch, x_pitch, out + t * stride, stride, t == 0);
        t += 2;
    }
    if (t < tokens) FN(tiles)(kind, 1, w, rows, pitch, columns, x + t * x_pitch, x_pitch, out + t * stride, stride, t == 0);
}

/* out[t * stride + r] = the sum of row r times token t. `pitch` is in bytes, `x_pitch` in floats. */
TARGET static void FN(dots)(int kind, const uint8_t *w, int64_t rows, int64_t pitch, int64_t columns, const float *x,
                            int64_t x_pitch, int64_t tokens, float *out, int64_t stride) {
    if (kind == I2S_F16)
        FN(dots_of)(I2S_F16, w, rows, pitch, columns, x, x_pitch, tokens, out, stride);
    else if (kind == I2S_F32)
        FN(dots_of)(I2S_F32, w, rows, pitch, columns, x, x_pitch, tokens, out, stride);
    else
        FN(dots_of)(I2S_BF16, w, rows, pitch, columns, x, x_pitch, tokens, out, stride);
}

/* ---- elements: each a few operations of float32 ---- */

INLINE FN(vf) FN(select)(FN(vi) which, FN(vf) a, FN(vf) b) { return (FN(vf))(((FN(vi))a & which) | ((FN(vi))b & ~which)); }

/* e^x to about one unit in the last place, x at most 88.8; results below the smallest normal float are 0. With `falling`, x is
 * at most 0: the power of two is a float then. */
INLINE FN(vf) FN(exp_below)(FN(vf) x, const int falling) {
    const FN(vf) shift = ALL(12582912.0f), low = ALL(-87.3f), t = FN(larger)(low, x);
    const FN(vf) shifted = t * 1.44269504088896341f + shift;
    const FN(vf) n = shifted - shift;
    const FN(vf) r = (t - n * 0.693359375f) + n * 2.12194440e-4f;
    FN(vf) y = ALL(1.9875691500e-4f);
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * (r * r) + r + 1.0f;
    const FN(vi) power = (FN(vi))shifted - (FN(vi))shift, half = power >> 1;
    if (falling) y = y * (FN(vf))((power + 127) << 23);
    else y = y * (FN(vf))((half + 127) << 23) * (FN(vf))((power - half + 127) << 23);
    return (FN(vf))((FN(vi))y & ~(x < low));
}

INLINE FN(vf) FN(exp)(FN(vf) x) {
    const FN(vf) high = ALL(88.8f);
    return FN(exp_below)(FN(select)(x > high, high, x), 0);
}

INLINE FN(vf) FN(activated)(const int kind, FN(vf) x) {
    if (kind == I2S_SQUARE) return x * x;
    if (kind == I2S_SILU) return x / (1.0f + FN(exp)(-x));
    if (kind == I2S_GELU) { /* half of x times 1 + tanh(z) is x / (1 + e^(-2 z)) */
        const FN(vf) z = 1.5957691216057308f * (x + 0.044715f * (x * x * x));
        return x / (1.0f + FN(exp)(-z));
    }
    const FN(vf) up = FN(select)(x <= 0.0f, ALL(0.0f), x);
    return kind == I2S_RELU ? up : up * up;
}

INLINE void FN(activate_as)(const int kind, const float *x, const float *by, int64_t n, float *out) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        FN(vf) y = FN(activated)(kind, FN(load)(x + i));
        if (by != NULL) y = y * FN(load)(by + i);
        FN(store)(out + i, y);
    }
    if (i < n) {
        float part[VL];
        FN(vf) y = FN(activated)(kind, FN(load_part)(x + i, (int)(n - i)));
        if (by != NULL) y = y * FN(load_part)(by + i, (int)(n - i));
        FN(store)(part, y);
        memcpy(out + i, part, (size_t)(n - i) * 4);
    }
}

/* The activation of x, and times `by` unless that is NULL. */
TARGET static void FN(activate)(int kind, const float *x, const float *by, int64_t n, float *out) {
    if (kind == I2S_RELU) FN(activate_as)(I2S_RELU, x, by, n, out);
    else if (kind == I2S_SQUARE) FN(activate_as)(I2S_SQUARE, x, by, n, out);
    else if (kind == I2S_RELU2) FN(activate_as)(I2S_RELU2, x, by, n, out);
    else if (kind == I2S_SILU) FN(activate_as)(I2S_SILU, x, by, n, out);
    else FN(activate_as)(I2S_GELU, x, by, n, out);
}

/* x / sqrt(mean(x^2) + eps), and times the gain unless that is NULL. */
TARGET static void FN(norm)(const float *x, const float *gain, int64_t n, float eps, float *out) {
    FN(vf) sums[4] = {{0}, {0}, {0}, {0}};
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL)
        UNROLL for (int j = 0; j < 4; j++) {
            const FN(vf) v = FN(load)(x + i + j * VL);
            sums[j] += v * v;
        }
    for (; i < n; i += VL) {
        const FN(vf) v = i + VL <= n ? FN(load)(x + i) : FN(load_part)(x + i, (int)(n - i));
        sums[0] += v * v;
    }
    const float mean = FN(sum)((sums[0] + sums[1]) + (sums[2] + sums[3])) / (float)n;
    const float factor = 1.0f / sqrtf(mean + eps);
    if (gain == NULL)
        for (i = 0; i < n; i++) out[i] = x[i] * factor;
    else
        for (i = 0; i < n; i++) out[i] = x[i] * factor * gain[i];
}

TARGET static void FN(add)(const float *a, const float *b, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}
TARGET static void FN(multiply)(const float *a, const float *b, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) out[i] = a[i] * b[i];
}
TARGET static void FN(times)(const float *a, float factor, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) out[i] = a[i] * factor;
}

/* Rotate pairs: `apart` is the distance between the elements of a pair, `step` that between pairs. */
TARGET static void FN(rotate)(const float *x, const float *cosine, const float *sine, int64_t pairs, int64_t apart,
                              int64_t width, float *out) {
    if (apart == 1)
        for (int64_t i = 0; i < pairs; i++) {
            const float a = x[2 * i], b = x[2 * i + 1];
            out[2 * i] = a * cosine[i] - b * sine[i];
            out[2 * i + 1] = a * sine[i] + b * cosine[i];
        }
    else
        for (int64_t i = 0; i < pairs; i++) {
            const float a = x[i], b = x[i + pairs];
            out[i] = a * cosine[i] - b * sine[i];
            out[i + pairs] = a * sine[i] + b * cosine[i];
        }
    for (int64_t i = 2 * pairs; i < width; i++) out[i] = x[i];
}

/* Rounded to half precision. */
TARGET static void FN(halve)(const float *x, int64_t n, uint16_t *out) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL) FN(narrow)(FN(load)(x + i), out + i);
    if (i < n) {
        uint16_t part[VL];
        FN(narrow)(FN(load_part)(x + i, (int)(n - i)), part);
        memcpy(out + i, part, (size_t)(n - i) * 2);
    }
}

/* Halves as floats. */
TARGET static void FN(widen_halves)(const uint16_t *x, int64_t n, float *out) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL) FN(store)(out + i, FN(halves)((const uint8_t *)(x + i)));
    for (; i < n; i++) out[i] = i2s_float_of_half(x[i]);
}

/* ---- attention ---- */

/* Scores of one row, `count` of them: scaled, replaced by e^(z - most), and summed. `most` is raised first. */
TARGET static float FN(soft_max)(float *z, int64_t count, float scale, float *most) {
    FN(vf) top = ALL(*most);
    int64_t i = 0;
    for (; i < count; i += VL) { /* rows have room for whole vectors */
        if (i + VL > count)
            for (int64_t j = count; j < i + VL; j++) z[j] = -INFINITY;
        const FN(vf) v = FN(load)(z + i) * scale;
        FN(store)(z + i, v);
        top = FN(select)(v > top, v, top);
    }
    float tops[VL], best = *most;
    FN(store)(tops, top);
    for (int j = 0; j < VL; j++) best = tops[j] > best ? tops[j] : best;
    *most = best;
    const float less = best == -INFINITY ? 0.0f : best;
    FN(vf) sum = {0};
    for (i = 0; i < count; i += VL) {
        const FN(vf) p = FN(exp_below)(FN(load)(z + i) - less, 1);
        FN(store)(z + i, p);
        sum += p;
    }
    return FN(sum)(sum);
}

/* The share of row c in value s is p[c * p_pitch + s * p_step]. The first `next` steps prefetch as many bytes from `ahead` on
 * as they add. */
INLINE void FN(mix_tile)(const int kind, const int C, const int N, const float *p, int64_t p_pitch, int64_t p_step,
                         const uint8_t *v, int64_t pitch, int64_t count, float *out, int64_t stride, const char *ahead,
                         int64_t next) {
    const int size = kind == I2S_F32 ? 4 : 2;
    FN(vf) acc[4][4];
    UNROLL for (int c = 0; c < C; c++)
        UNROLL for (int n = 0; n < N; n++) acc[c][n] = FN(load)(out + c * stride + n * VL);
    for (int64_t s = 0; s < count; s++, v += pitch) {
        if (s < next && s * N * VL * size % 64 == 0)
            UNROLL for (int b = 0; b < N * VL * size; b += 64) __builtin_prefetch(ahead + s * N * VL * size + b, 0, 2);
        if (C == 4 && next) __builtin_prefetch(v + 64, 0, 3); /* of the columns after these */
        FN(vf) w[4];
        UNROLL for (int n = 0; n < N; n++) w[n] = FN(widen)(kind, v + n * VL * size);
        UNROLL for (int c = 0; c < C; c++) {
            const float share = p[c * p_pitch + s * p_step];
            UNROLL for (int n = 0; n < N; n++) acc[c][n] += w[n] * share;
        }
    }
    UNROLL for (int c = 0; c < C; c++)
        UNROLL for (int n = 0; n < N; n++) FN(store)(out + c * stride + n * VL, acc[c][n]);
}

INLINE void FN(mix_rows)(const int kind, const int C, const float *p, int64_t p_pitch, int64_t p_step, const uint8_t *v,
                         int64_t pitch, int64_t count, int64_t width, float *out, int64_t stride, const char *ahead,
                         int64_t next) {
    const int size = kind == I2S_F32 ? 4 : 2;
    int64_t i = 0;
    for (; i + MIX * VL <= width; i += MIX * VL, ahead += next * MIX * VL * size)
        FN(mix_tile)(kind, C, MIX, p, p_pitch, p_step, v + i * size, pitch, count, out + i, stride, ahead, next);
    for (; i + VL <= width; i += VL)
        FN(mix_tile)(kind, C, 1, p, p_pitch, p_step, v + i * size, pitch, count, out + i, stride, ahead, 0);
    for (; i < width; i++)
        UNROLL for (int c = 0; c < C; c++)
            for (int64_t s = 0; s < count; s++) {
                float value;
                uint16_t half;
                memcpy(&half, v + s * pitch + i * size, 2);
                if (kind == I2S_F32) memcpy(&value, v + s * pitch + i * size, 4);
                else value = i2s_float_of_half(half);
                out[c * stride + i] += p[c * p_pitch + s * p_step] * value;
            }
}

INLINE void FN(mix_all)(const int kind, const float *p, int64_t p_pitch, int64_t rows, const uint8_t *v, int64_t pitch,
                        int64_t count, int64_t width, float *out, int64_t stride) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4)
        FN(mix_rows)(kind, 4, p + r * p_pitch, p_pitch, 1, v, pitch, count, width, out + r * stride, stride, (const char *)v,
                     0);
    for (; r < rows; r++)
        FN(mix_rows)(kind, 1, p + r * p_pitch, p_pitch, 1, v, pitch, count, width, out + r * stride, stride, (const char *)v,
                     0);
}

/* Add values (halves or floats, `pitch` bytes apart) times their weights: out[r] += sum of p[r, s] v[s]. */
TARGET static void FN(weighted_sum)(int kind, const float *p, int64_t p_pitch, int64_t rows, const uint8_t *v, int64_t pitch,
                                    int64_t count, int64_t width, float *out, int64_t stride) {
    if (kind == I2S_F32) FN(mix_all)(I2S_F32, p, p_pitch, rows, v, pitch, count, width, out, stride);
    else FN(mix_all)(I2S_F16, p, p_pitch, rows, v, pitch, count, width, out, stride);
}

#include "fast_attend_body.h"

#undef VL
#undef INLINE
