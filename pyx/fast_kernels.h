/* The sets of float kernels, and the table of them. fast_body.h is compiled once for each instruction set.
 *
 * Vectors are the compiler's own (`vector_size`), so that the body is the same for all sets; operations without an
 * operator (halves, and four sums at once) are defined by each set with intrinsics. Sums of products may be contracted,
 * which this profile permits.
 */
#ifndef I2S_FAST_KERNELS_H
#define I2S_FAST_KERNELS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"

enum { I2S_F32, I2S_F16, I2S_BF16 };                                  /* types of weights */
enum { I2S_RELU, I2S_SQUARE, I2S_RELU2, I2S_SILU, I2S_GELU };         /* activations */

#define I2S_KEYS 64    /* keys whose scores are looked at together */
#define I2S_WIDEST 512 /* widest head */

/* Keys and values of one group of heads, `count` of them; `next` are needed after these, and from where on they lie. */
typedef struct {
    const uint16_t *keys, *values;
    int64_t key_pitch, value_pitch, inner, value, count; /* halves from one to the next, and of each */
    const char *next_keys, *next_values;
    int64_t next;
} i2s_attended;

/* The state of rows of queries: sums of values, and the largest score and the total share of each row. */
typedef struct {
    float *sums, *most, *total;
} i2s_state;

typedef struct {
    const char *name;
    int (*available)(void);
    void (*dots)(int kind, const uint8_t *w, int64_t rows, int64_t pitch, int64_t columns, const float *x, int64_t x_pitch,
                 int64_t tokens, float *out, int64_t stride);
    /* The same; every token has the sums that it has alone. */
    void (*dots_alone)(int kind, const uint8_t *w, int64_t rows, int64_t pitch, int64_t columns, const float *x,
                       int64_t x_pitch, int64_t tokens, float *out, int64_t stride);
    void (*activate)(int kind, const float *x, const float *by, int64_t n, float *out);
    void (*norm)(const float *x, const float *gain, int64_t n, float eps, float *out);
    void (*add)(const float *a, const float *b, int64_t n, float *out);
    void (*multiply)(const float *a, const float *b, int64_t n, float *out);
    void (*times)(const float *a, float factor, int64_t n, float *out);
    void (*rotate)(const float *x, const float *cosine, const float *sine, int64_t pairs, int64_t apart, int64_t width,
                   float *out);
    void (*halve)(const float *x, int64_t n, uint16_t *out);
    float (*soft_max)(float *z, int64_t count, float scale, float *most);
    void (*widen)(const uint16_t *x, int64_t n, float *out);
    void (*weighted_sum)(int kind, const float *p, int64_t p_pitch, int64_t rows, const uint8_t *v, int64_t pitch,
                         int64_t count, int64_t width, float *out, int64_t stride);
    void (*attend)(const i2s_attended *a, const float *queries, float scale, const i2s_state *state);
} i2s_fast_set;

/* A half as a float, exactly. Shifted into a float, its exponent is 112 too small; a product corrects this, also for
 * subnormal numbers; for infinity and NaN the exponent is set separately. */
static inline float i2s_float_of_half(uint16_t half) {
    const uint32_t magnitude = (uint32_t)(half & 0x7FFFu) << 13;
    float f;
    memcpy(&f, &magnitude, 4);
    f *= 5.192296858534828e33f; /* 2^112 */
    uint32_t bits;
    memcpy(&bits, &f, 4);
    bits |= (uint32_t)(half & 0x8000u) << 16 | ((half & 0x7C00u) == 0x7C00u ? 0x7F800000u : 0u);
    memcpy(&f, &bits, 4);
    return f;
}

/* A float as the nearest half, ties to even. */
static inline uint16_t i2s_half_of_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | (magnitude >> 13 & 0x1FFu));
    if (magnitude >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* values that round to 2^16 or more */
    if (magnitude < 0x38800000u) { /* below 2^-14: a multiple of 2^-24, which adding 0.5 rounds to */
        float small;
        memcpy(&small, &magnitude, 4);
        small += 0.5f;
        memcpy(&bits, &small, 4);
        return (uint16_t)(sign | (bits - 0x3F000000u));
    }
    return (uint16_t)(sign | ((magnitude + 0xFFFu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13));
}

/* Where a line of the cache begins in an array that has 15 floats more. Compilers for Windows do not align arrays so far. */
static inline float *i2s_line_in(float *p) { return p + ((64 - ((uintptr_t)p & 63)) & 63) / 4; }

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Code that is the same in every set. */
#define I2S_FAST_VECTORS(T)                                                                                             \
    typedef float FN(vf) __attribute__((vector_size(VB)));                                                              \
    typedef int32_t FN(vi) __attribute__((vector_size(VB)));                                                            \
    T static inline __attribute__((always_inline)) FN(vf) FN(load)(const float *p) {                                    \
        FN(vf) v;                                                                                                       \
        memcpy(&v, p, VB);                                                                                              \
        return v;                                                                                                       \
    }                                                                                                                   \
    T static inline __attribute__((always_inline)) void FN(store)(float *p, FN(vf) v) { memcpy(p, &v, VB); }
/* A vector that several operations take is loaded once: compilers otherwise make it an operand in memory of each, and loads
 * are the limit then (attention of Zen 3 took a fourteenth longer). */
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define I2S_ONCE(v) __asm__("" : "+v"(v))
#else
#define I2S_ONCE(v) (void)(v)
#endif
#define ALL(x) ((FN(vf)){0} + (x))
typedef float i2s_four __attribute__((vector_size(16)));
static inline i2s_four i2s_four_at(const float *p) {
    i2s_four v;
    memcpy(&v, p, 16);
    return v;
}
#define I2S_FAST_FAR (1 << 21) /* bytes that the second-level cache does not hold */
#define I2S_FAST_SET(NAME, AVAILABLE)                                                                                   \
    {NAME, AVAILABLE, FN(dots), FN(dots), FN(activate), FN(norm), FN(add), FN(multiply), FN(times), FN(rotate),         \
     FN(halve), FN(soft_max), FN(widen_halves), FN(weighted_sum), FN(attend)}
#define I2S_FAST_INLINE static inline __attribute__((always_inline))

static int i2s_fast_always(void) { return 1; }

/* ---- plain C ---- */

#define FN(name) i2s_fast_##name##_portable
#define TARGET
#define VB 16
#define ROWS 2
#define MIX 2
#define AHEAD 1024
I2S_FAST_VECTORS()
I2S_FAST_INLINE FN(vf) FN(halves)(const uint8_t *p) { /* as i2s_float_of_half */
    uint16_t h __attribute__((vector_size(8)));
    memcpy(&h, p, 8);
    const FN(vi) wide = __builtin_convertvector(h, FN(vi)), exponent = wide & 0x7C00;
    const FN(vi) bits = (FN(vi))((FN(vf))((wide & 0x7FFF) << 13) * 5.192296858534828e33f);
    return (FN(vf))(bits | (wide & 0x8000) << 16 | ((exponent == 0x7C00) & 0x7F800000));
}
I2S_FAST_INLINE void FN(narrow)(FN(vf) v, uint16_t *out) {
    for (int i = 0; i < 4; i++) out[i] = i2s_half_of_float(v[i]);
}
I2S_FAST_INLINE FN(vf) FN(fma)(FN(vf) a, FN(vf) b, FN(vf) c) {
#if defined(__FP_FAST_FMAF) || defined(__FMA__) /* an instruction, whatever the compiler would choose for a * b + c */
    for (int i = 0; i < 4; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#else
    return a * b + c;
#endif
}
I2S_FAST_INLINE void FN(sum4)(FN(vf) a, FN(vf) b, FN(vf) c, FN(vf) d, float *four) {
    four[0] = (a[0] + a[1]) + (a[2] + a[3]);
    four[1] = (b[0] + b[1]) + (b[2] + b[3]);
    four[2] = (c[0] + c[1]) + (c[2] + c[3]);
    four[3] = (d[0] + d[1]) + (d[2] + d[3]);
}
#include "fast_body.h"
static const i2s_fast_set i2s_fast_portable = I2S_FAST_SET("portable", i2s_fast_always);
#undef FN
#undef TARGET
#undef VB
#undef ROWS
#undef MIX
#undef AHEAD

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include "intrinsics.h"

/* ---- AVX2, FMA and F16C ---- */

#define FN(name) i2s_fast_##name##_avx2
#define TARGET __attribute__((target("avx2,fma,f16c")))
#define VB 32
#define ROWS 2
#define MIX 2
#define AHEAD 2048
I2S_FAST_VECTORS(TARGET)
TARGET I2S_FAST_INLINE FN(vf) FN(halves)(const uint8_t *p) {
    return (FN(vf))_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
TARGET I2S_FAST_INLINE void FN(narrow)(FN(vf) v, uint16_t *out) {
    _mm_storeu_si128((__m128i *)out, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
}
TARGET I2S_FAST_INLINE FN(vf) FN(fma)(FN(vf) a, FN(vf) b, FN(vf) c) {
    return (FN(vf))_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
TARGET I2S_FAST_INLINE void FN(sum4)(FN(vf) a, FN(vf) b, FN(vf) c, FN(vf) d, float *four) {
    const __m256 all = _mm256_hadd_ps(_mm256_hadd_ps((__m256)a, (__m256)b), _mm256_hadd_ps((__m256)c, (__m256)d));
    _mm_storeu_ps(four, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}
TARGET I2S_FAST_INLINE FN(vf) FN(larger)(FN(vf) a, FN(vf) b) { return (FN(vf))_mm256_max_ps((__m256)a, (__m256)b); }
TARGET I2S_FAST_INLINE FN(vf) FN(rows_of)(i2s_four four) {
    return (FN(vf))_mm256_insertf128_ps(_mm256_castps128_ps256((__m128)four), (__m128)four, 1);
}
TARGET I2S_FAST_INLINE FN(vf) FN(lanes4)(FN(vf) a, FN(vf) b, FN(vf) c, FN(vf) d) {
    return (FN(vf))_mm256_hadd_ps(_mm256_hadd_ps((__m256)a, (__m256)b), _mm256_hadd_ps((__m256)c, (__m256)d));
}
TARGET I2S_FAST_INLINE FN(vf) FN(join)(const FN(vf) *of) {
    return (FN(vf))_mm256_add_ps(_mm256_permute2f128_ps((__m256)of[0], (__m256)of[1], 0x20),
                                 _mm256_permute2f128_ps((__m256)of[0], (__m256)of[1], 0x31));
}
#include "fast_body.h"
static const i2s_fast_set i2s_fast_avx2 = I2S_FAST_SET("avx2", i2s_cpu_avx2fma);
#undef FN
#undef TARGET
#undef VB
#undef ROWS
#undef MIX
#undef AHEAD

/* ---- AVX-512 with vectors half as wide, which are faster where memory is the limit ---- */

#define FN(name) i2s_fast_##name##_avx512vl
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma,f16c" I2S_BY_256)))
#define VB 32
#define ROWS 4
#define MIX 4
#define AHEAD 2048
I2S_FAST_VECTORS(TARGET)
TARGET I2S_FAST_INLINE FN(vf) FN(halves)(const uint8_t *p) {
    return (FN(vf))_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
TARGET I2S_FAST_INLINE void FN(narrow)(FN(vf) v, uint16_t *out) {
    _mm_storeu_si128((__m128i *)out, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
}
TARGET I2S_FAST_INLINE FN(vf) FN(fma)(FN(vf) a, FN(vf) b, FN(vf) c) {
    return (FN(vf))_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
TARGET I2S_FAST_INLINE void FN(sum4)(FN(vf) a, FN(vf) b, FN(vf) c, FN(vf) d, float *four) {
    const __m256 all = _mm256_hadd_ps(_mm256_hadd_ps((__m256)a, (__m256)b), _mm256_hadd_ps((__m256)c, (__m256)d));
    _mm_storeu_ps(four, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}
TARGET I2S_FAST_INLINE FN(vf) FN(larger)(FN(vf) a, FN(vf) b) { return (FN(vf))_mm256_max_ps((__m256)a, (__m256)b); }
TARGET I2S_FAST_INLINE FN(vf) FN(rows_of)(i2s_four four) {
    return (FN(vf))_mm256_insertf128_ps(_mm256_castps128_ps256((__m128)four), (__m128)four, 1);
}
TARGET I2S_FAST_INLINE FN(vf) FN(lanes4)(FN(vf) a, FN(vf) b, FN(vf) c, FN(vf) d) {
    return (FN(vf))_mm256_hadd_ps(_mm256_hadd_ps((__m256)a, (__m256)b), _mm256_hadd_ps((__m256)c, (__m256)d));
}
TARGET I2S_FAST_INLINE FN(vf) FN(join)(const FN(vf) *of) {
    return (FN(vf))_mm256_add_ps(_mm256_permute2f128_ps((__m256)of[0], (__m256)of[1], 0x20),
                                 _mm256_permute2f128_ps((__m256)of[0], (__m256)of[1], 0x31));
}
#include "fast_body.h"
static const i2s_fast_set i2s_fast_avx512vl = I2S_FAST_SET("avx512vl", i2s_cpu_avx512bw);
#undef FN
#undef TARGET
#undef VB
#undef ROWS
#undef MIX
#undef AHEAD

/* ---- AVX-512 ---- */

#define FN(name) i2s_fast_##name##_avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma,f16c" I2S_BY_512)))
#define VB 64
#define ROWS 4
#define MIX 4
#define AHEAD 4096
I2S_FAST_VECTORS(TARGET)
TARGET I2S_FAST_INLINE FN(vf) FN(halves)(const uint8_t *p) {
    return (FN(vf))_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
TARGET I2S_FAST_INLINE void FN(narrow)(FN(vf) v, uint16_t *out) {
    _mm256_storeu_si256((__m256i *)out, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
}
TARGET I2S_FAST_INLINE FN(vf) FN(fma)(FN(vf) a, FN(vf) b, FN(vf) c) {
    return (FN(vf))_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
TARGET I2S_FAST_INLINE FN(vf) FN(lanes4)(FN(vf) a, FN(vf) b, FN(vf) c, FN(vf) d) {
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps((__m512)a, (__m512)b), _mm512_unpackhi_ps((__m512)a, (__m512)b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps((__m512)c, (__m512)d), _mm512_unpackhi_ps((__m512)c, (__m512)d));
    const __m512 lo = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd)));
    const __m512 hi = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd)));
    return (FN(vf))_mm512_add_ps(lo, hi);
}
TARGET I2S_FAST_INLINE void FN(sum4)(FN(vf) a, FN(vf) b, FN(vf) c, FN(vf) d, float *four) {
    const __m512 all = (__m512)FN(lanes4)(a, b, c, d);
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    _mm_storeu_ps(four, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}
TARGET I2S_FAST_INLINE FN(vf) FN(larger)(FN(vf) a, FN(vf) b) { return (FN(vf))_mm512_max_ps((__m512)a, (__m512)b); }
TARGET I2S_FAST_INLINE FN(vf) FN(rows_of)(i2s_four four) { return (FN(vf))_mm512_broadcast_f32x4((__m128)four); }
TARGET I2S_FAST_INLINE FN(vf) FN(join)(const FN(vf) *of) {
    const __m512 a = (__m512)of[0], b = (__m512)of[1], c = (__m512)of[2], d = (__m512)of[3];
    const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
    const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xEE));
    return (FN(vf))_mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
}
#include "fast_body.h"
#include "fast_one_token.h"
static const i2s_fast_set i2s_fast_avx512 = {
    "avx512", i2s_cpu_avx512bw, i2s_fast_any_dots_avx512, i2s_fast_alone_dots_avx512, FN(activate), FN(norm), FN(add),
    FN(multiply), FN(times), FN(rotate), FN(halve), FN(soft_max), FN(widen_halves), FN(weighted_sum), FN(attend)};
#undef FN
#undef TARGET
#undef VB
#undef ROWS
#undef MIX
#undef AHEAD
static const i2s_fast_set *const i2s_fast_sets[] = {&i2s_fast_portable, &i2s_fast_avx2, &i2s_fast_avx512vl, &i2s_fast_avx512};

#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#include <arm_neon.h>

/* ---- NEON ---- */

#define FN(name) i2s_fast_##name##_neon
#define TARGET
#define VB 16
#define ROWS 4
#define MIX 4
#define AHEAD 1024
I2S_FAST_VECTORS()
I2S_FAST_INLINE FN(vf) FN(halves)(const uint8_t *p) {
    return (FN(vf))vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}
I2S_FAST_INLINE void FN(narrow)(FN(vf) v, uint16_t *out) {
    vst1_u16(out, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v)));
}
I2S_FAST_INLINE FN(vf) FN(fma)(FN(vf) a, FN(vf) b, FN(vf) c) {
    return (FN(vf))vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
I2S_FAST_INLINE void FN(sum4)(FN(vf) a, FN(vf) b, FN(vf) c, FN(vf) d, float *four) {
    const float32x4_t ab = vpaddq_f32((float32x4_t)a, (float32x4_t)b), cd = vpaddq_f32((float32x4_t)c, (float32x4_t)d);
    vst1q_f32(four, vpaddq_f32(ab, cd));
}
#include "fast_body.h"
static const i2s_fast_set i2s_fast_neon = I2S_FAST_SET("neon", i2s_cpu_neon);
#undef FN
#undef TARGET
#undef VB
#undef ROWS
#undef MIX
#undef AHEAD
static const i2s_fast_set * i2s_fast_sets[] = {&i2s_fast_portable, &i2s_fast_neon};

#else
static const i2s_fast_set * i2s_fast_sets[] = {&i2s_fast_portable};
#endif

#define I2S_FAST_SETS ((int)(sizeof i2s_fast_sets / sizeof i2s_fast_sets[0]))

#endif
