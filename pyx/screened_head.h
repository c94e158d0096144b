/* A head of halves that is not read whole: a copy of its rows in 8 bits, with a bound of what the copy leaves out.
 *
 * i2s_spec/model/screened_head.py has the definition and the proof of the bound. Row r is scale * code + e, with codes of 8
 * bits; the scale has 16 significant bits, so that code * scale is a float, and e is rounded once. The integers are the same
 * in every set; only the sums behind `error` and `norm` are added in different orders, and rounded up by more than that.
 */
#ifndef I2S_SCREENED_HEAD_H
#define I2S_SCREENED_HEAD_H

#include "fast_pass.h"

#define I2S_HEAD_COLUMNS 128 /* codes of a row are padded with zeros to a multiple of this */
#define I2S_HEAD_FEW 64      /* rows of a part that are copied, or read alone */
#define I2S_HEAD_ROWS 64     /* rows that are scored for all tokens before the next ones: their codes remain in cache */
#define I2S_HEAD_AHEAD 1024  /* bytes prefetched ahead: a tenth faster than without on Zen 3, where 2 KiB are a fifth slower */

typedef struct {
    const uint8_t *weights; /* halves */
    int64_t rows, columns, pitch; /* pitch: codes of a row */
    uint8_t *codes; /* + 128 */
    float *scale, *most, *error, *norm; /* of each row: largest |e|, norm of e, norms of row and e together */
} i2s_head_copy;

typedef struct {
    const int16_t *codes;     /* of x, padded with zeros */
    const int8_t *high, *low; /* codes = 256 high + low */
    int64_t sum;              /* of the codes */
    double step, over, within, rest; /* of the codes; what multiplies `most`, `error` and `norm` */
} i2s_head_token;

typedef struct {
    const char *name;
    int (*available)(void);
    void (*copy)(const i2s_head_copy *h, int64_t first, int64_t last);
    void (*score)(const i2s_head_copy *h, const i2s_head_token *t, int64_t tokens, int64_t first, int64_t last, float *estimate,
                  float *upper); /* [tokens, rows] */
} i2s_head_set;

static inline float i2s_head_up(double v) { return (float)(v * (1 + 1.2e-7)); } /* not below v, though rounded */

/* Estimates and upper bounds of `count` rows from the sums of products of codes, in one loop: row by row it took a seventh
 * of the time. A row that is not finite has no scale: it must be read. */
I2S_FAST_INLINE void i2s_head_bounds(const i2s_head_copy *h, const i2s_head_token *t, int64_t r, int64_t count,
                                     const double *sums, float *estimate, float *upper) {
    for (int64_t i = 0; i < count; i++) {
        const double about = (double)h->scale[r + i] * t->step * sums[i];
        const double up = about + (double)h->most[r + i] * t->over + (double)h->error[r + i] * t->within +
                          (double)h->norm[r + i] * t->rest + 1e-30; /* more than underflow takes away */
        estimate[r + i] = about == about ? (float)about : -INFINITY;
        upper[r + i] = up == up ? (float)(up + fabs(up) * 1.2e-7) : INFINITY;
    }
}

/* ---- plain C ---- */

#define FN(name) i2s_fast_##name##_portable
#define HEAD(name) i2s_head_##name##_portable
#define TARGET
#define VB 16
I2S_FAST_INLINE double HEAD(dot)(const i2s_head_token *t, const uint8_t *c, int64_t n) {
    int64_t all = 0;
    for (int64_t k = 0; k < n; k += I2S_HEAD_COLUMNS) {
        int32_t sum = 0;
        for (int64_t i = k; i < k + I2S_HEAD_COLUMNS; i++) sum += c[i] * t->codes[i];
        all += sum;
    }
    return (double)(all - 128 * t->sum);
}
#include "screened_head_body.h"
#undef FN
#undef HEAD
#undef TARGET
#undef VB

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

/* ---- AVX2: products of 16 bits; the codes of x are so small that a lane holds the sum of its own ---- */

#define FN(name) i2s_fast_##name##_avx2
#define HEAD(name) i2s_head_##name##_avx2
#define TARGET __attribute__((target("avx2,fma,f16c")))
#define VB 32
TARGET I2S_FAST_INLINE double HEAD(total)(__m256i all) {
    const __m256d d = _mm256_add_pd(_mm256_cvtepi32_pd(_mm256_castsi256_si128(all)),
                                    _mm256_cvtepi32_pd(_mm256_extracti128_si256(all, 1)));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(d), _mm256_extractf128_pd(d, 1));
    return _mm_cvtsd_f64(two) + _mm_cvtsd_f64(_mm_unpackhi_pd(two, two));
}
TARGET I2S_FAST_INLINE double HEAD(dot)(const i2s_head_token *t, const uint8_t *c, int64_t n) {
    __m256i sums[4];
    UNROLL for (int j = 0; j < 4; j++) sums[j] = _mm256_setzero_si256();
    for (int64_t k = 0; k < n; k += 64) {
        __builtin_prefetch(c + k + I2S_HEAD_AHEAD, 0, 3);
        UNROLL for (int j = 0; j < 4; j++)
            sums[j] = _mm256_add_epi32(
                sums[j], _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(c + k + 16 * j))),
                                           _mm256_loadu_si256((const __m256i *)(t->codes + k + 16 * j))));
    }
    const __m256i all = _mm256_add_epi32(_mm256_add_epi32(sums[0], sums[1]), _mm256_add_epi32(sums[2], sums[3]));
    return HEAD(total)(all) - 128.0 * (double)t->sum;
}
/* Two rows with four tokens: each vector that is loaded has several products. Eight tokens of a head of 328 million take
 * 43 ms on Zen 3, one after the other 68, and halves 80. */
TARGET I2S_FAST_INLINE void HEAD(dots)(const i2s_head_token *t, const uint8_t *c, int64_t n, double *sums) {
    const int16_t *x[4] = {t[0].codes, t[1].codes, t[2].codes, t[3].codes};
    __m256i s[4][2];
    UNROLL for (int j = 0; j < 4; j++) s[j][0] = s[j][1] = _mm256_setzero_si256();
    for (int64_t k = 0; k < n; k += 64) {
        __builtin_prefetch(c + k + 2 * n, 0, 3); /* of the next two */
        __builtin_prefetch(c + k + 3 * n, 0, 3);
        UNROLL for (int64_t i = k; i < k + 64; i += 16) {
            __m256i a = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(c + i)));
            __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(c + n + i)));
            I2S_ONCE(a);
            I2S_ONCE(b);
            UNROLL for (int j = 0; j < 4; j++) {
                __m256i v = _mm256_loadu_si256((const __m256i *)(x[j] + i));
                I2S_ONCE(v);
                s[j][0] = _mm256_add_epi32(s[j][0], _mm256_madd_epi16(a, v));
                s[j][1] = _mm256_add_epi32(s[j][1], _mm256_madd_epi16(b, v));
                I2S_ONCE(s[j][0]);
                I2S_ONCE(s[j][1]);
            }
        }
    }
    UNROLL for (int j = 0; j < 4; j++)
        for (int i = 0; i < 2; i++) sums[j * I2S_HEAD_ROWS + i] = HEAD(total)(s[j][i]) - 128.0 * (double)t[j].sum;
}
#define DOTS
#include "screened_head_body.h"
#undef DOTS
#undef FN
#undef HEAD
#undef TARGET
#undef VB

/* ---- AVX-512 VNNI ---- */

#define FN(name) i2s_fast_##name##_avx512
#define HEAD(name) i2s_head_##name##_avx512vnni
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c" I2S_BY_512)))
#define VB 64
TARGET I2S_FAST_INLINE double HEAD(total)(__m512i v) {
    return _mm512_reduce_add_pd(_mm512_add_pd(_mm512_cvtepi32_pd(_mm512_castsi512_si256(v)),
                                              _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(v, 1))));
}
TARGET I2S_FAST_INLINE double HEAD(dot)(const i2s_head_token *t, const uint8_t *c, int64_t n) {
    __m512i high = _mm512_setzero_si512(), low = high;
    for (int64_t k = 0; k < n; k += I2S_HEAD_COLUMNS) {
        FN(ask)(c + k + I2S_HEAD_AHEAD, I2S_HEAD_COLUMNS);
        UNROLL for (int64_t i = k; i < k + I2S_HEAD_COLUMNS; i += 64) {
            const __m512i v = _mm512_loadu_si512(c + i);
            high = _mm512_dpbusd_epi32(high, v, _mm512_loadu_si512(t->high + i));
            low = _mm512_dpbusd_epi32(low, v, _mm512_loadu_si512(t->low + i));
        }
    }
    return 256 * HEAD(total)(high) + HEAD(total)(low) - 128.0 * (double)t->sum;
}
#include "screened_head_body.h"
#undef FN
#undef HEAD
#undef TARGET
#undef VB
static const i2s_head_set i2s_head_sets[] = {
    {"portable", i2s_fast_always, i2s_head_copy_portable, i2s_head_score_portable},
    {"avx2", i2s_cpu_avx2fma, i2s_head_copy_avx2, i2s_head_score_avx2},
    {"avx512vnni", i2s_cpu_avx512vnni, i2s_head_copy_avx512vnni, i2s_head_score_avx512vnni},
};

#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))

/* ---- NEON, and with dot products ---- */

#define FN(name) i2s_fast_##name##_neon
#define TARGET
#define VB 16
#define HEAD(name) i2s_head_##name##_neon
I2S_FAST_INLINE double HEAD(dot)(const i2s_head_token *t, const uint8_t *c, int64_t n) {
    int32x4_t sums[4];
    UNROLL for (int j = 0; j < 4; j++) sums[j] = vdupq_n_s32(0);
    for (int64_t k = 0; k < n; k += 16) {
        const int8x16_t v = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(c + k), vdupq_n_u8(128)));
        const int16x8_t first = vmovl_s8(vget_low_s8(v)), second = vmovl_s8(vget_high_s8(v));
        const int16x8_t a = vld1q_s16(t->codes + k), b = vld1q_s16(t->codes + k + 8);
        sums[0] = vmlal_s16(sums[0], vget_low_s16(first), vget_low_s16(a));
        sums[1] = vmlal_s16(sums[1], vget_high_s16(first), vget_high_s16(a));
        sums[2] = vmlal_s16(sums[2], vget_low_s16(second), vget_low_s16(b));
        sums[3] = vmlal_s16(sums[3], vget_high_s16(second), vget_high_s16(b));
    }
    int64_t all = 0;
    UNROLL for (int j = 0; j < 4; j++) all += vaddlvq_s32(sums[j]);
    return (double)all;
}
#include "screened_head_body.h"
#undef HEAD

#define HEAD(name) i2s_head_##name##_dotprod
#undef TARGET
#define TARGET I2S_MM_DOTPROD
TARGET I2S_FAST_INLINE double HEAD(dot)(const i2s_head_token *t, const uint8_t *c, int64_t n) {
    int32x4_t high[2] = {vdupq_n_s32(0), vdupq_n_s32(0)}, low[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
    for (int64_t k = 0; k < n; k += 32) {
        __builtin_prefetch(c + k + I2S_HEAD_AHEAD, 0, 3);
        UNROLL for (int j = 0; j < 2; j++) {
            const int8x16_t v = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(c + k + 16 * j), vdupq_n_u8(128)));
            I2S_SDOT(high[j], v, vld1q_s8(t->high + k + 16 * j));
            I2S_SDOT(low[j], v, vld1q_s8(t->low + k + 16 * j));
        }
    }
    return 256.0 * (double)vaddlvq_s32(vaddq_s32(high[0], high[1])) + (double)vaddlvq_s32(vaddq_s32(low[0], low[1]));
}
#include "screened_head_body.h"
#undef FN
#undef HEAD
#undef TARGET
#undef VB
static const i2s_head_set i2s_head_sets[] = {
    {"portable", i2s_fast_always, i2s_head_copy_portable, i2s_head_score_portable},
    {"neon", i2s_cpu_neon, i2s_head_copy_neon, i2s_head_score_neon},
    {"dotprod", i2s_cpu_dotprod, i2s_head_copy_dotprod, i2s_head_score_dotprod},
};

#else
static const i2s_head_set i2s_head_sets[] = {
    {"portable", i2s_fast_always, i2s_head_copy_portable, i2s_head_score_portable},
};
#endif

#define I2S_HEAD_SETS ((int)(sizeof i2s_head_sets / sizeof i2s_head_sets[0]))

/* ---- many rows: copied, scored or read by parts, which threads claim ---- */

typedef struct {
    const i2s_head_copy *copy;
    const i2s_head_token *token; /* [tokens] */
    const float *x;              /* [tokens, columns] */
    int64_t tokens;
    const i2s_head_set *set;
    const i2s_fast_set *fast;
    int64_t first, last, part;   /* rows to be copied, or scored before all others are read; rows of a part */
    float *estimate, *upper;     /* [tokens, rows]; a row that was read has its logit as both */
    const int64_t *ids;          /* rows to be read alone */
} i2s_head_job;

static void i2s_head_read(const i2s_head_job *job, int64_t first, int64_t count, float *out) {
    const int64_t columns = job->copy->columns, pitch = columns * 2;
    job->fast->dots_alone(I2S_F16, job->copy->weights + first * pitch, count, pitch, columns, job->x, columns, job->tokens, out,
                          job->copy->rows);
}

static void i2s_head_copy_part(void *of, int64_t number) {
    const i2s_head_job *job = (const i2s_head_job *)of;
    const int64_t first = job->first + number * job->part, last = first + job->part;
    job->set->copy(job->copy, first, last < job->last ? last : job->last);
}

static void i2s_head_scan_part(void *of, int64_t number) {
    const i2s_head_job *job = (const i2s_head_job *)of;
    const int64_t rows = job->copy->rows, first = number * job->part, last = first + job->part < rows ? first + job->part : rows;
    const int64_t scored = job->last < first ? first : job->last > last ? last : job->last;
    if (first < scored) job->set->score(job->copy, job->token, job->tokens, first, scored, job->estimate, job->upper);
    if (scored == last) return;
    i2s_head_read(job, scored, last - scored, job->estimate + scored);
    for (int64_t n = 0; job->upper != NULL && n < job->tokens; n++)
        memcpy(job->upper + n * rows + scored, job->estimate + n * rows + scored, (size_t)(last - scored) * 4);
}

static void i2s_head_rows_part(void *of, int64_t number) {
    const i2s_head_job *job = (const i2s_head_job *)of;
    const int64_t last = (number + 1) * job->part;
    for (int64_t i = number * job->part; i < job->last && i < last; i++) i2s_head_read(job, job->ids[i], 1, job->estimate + i);
}

/* Copy the rows from the first to the last. */
static void i2s_head_make(i2s_head_job *job, const i2s_matmul_interface *shared, int64_t threads) {
    job->part = I2S_HEAD_FEW;
    shared->run(i2s_head_copy_part, job, (job->last - job->first + job->part - 1) / job->part, threads);
}

/* Score rows up to the last, and read the others: those of a part remain in cache while several tokens meet them. */
static void i2s_head_scan(i2s_head_job *job, const i2s_matmul_interface *shared, int64_t threads) {
    const int64_t rows = job->copy->rows;
    job->part = (job->tokens == 1 ? I2S_STREAM : I2S_MM_PANEL) / (job->copy->columns * 2) / 16 * 16;
    if (job->part < 16) job->part = 16;
    if (job->part * 60000 < rows) job->part = rows / 60000 + 16;
    shared->run(i2s_head_scan_part, job, (rows + job->part - 1) / job->part, threads);
}

/* estimate[i]: the logit of row ids[i], with the bits that it has in the whole. */
static void i2s_head_rows(i2s_head_job *job, const i2s_matmul_interface *shared, int64_t threads) {
    job->part = I2S_HEAD_FEW;
    shared->run(i2s_head_rows_part, job, (job->last + job->part - 1) / job->part, threads);
}

#endif
