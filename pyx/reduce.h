/* Sums in a fixed order, many at a time: dot products in float64 by index, and in float32 over lanes of vectors.
 *
 * The product of two floats is exact in double, so fusing it with the addition changes nothing; what is never done is to
 * split one sum. A matrix is unpacked to float64, 16 outputs side by side; a tile of 8 tokens lies side by side too. The
 * inner loop then is one broadcast and two vector operations for each token, all sums in registers. */
#ifndef I2S_REDUCE_H
#define I2S_REDUCE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"

#define I2S_TOKENS 8
#define I2S_OUTPUTS 16
#define I2S_MOST_LANES 64

/* Exactly the float that a half represents: its bits are moved and a factor of 2^112 corrects the exponent. */
static inline float i2s_half(uint16_t h) {
    uint32_t bits = (uint32_t)(h & 0x7fff) << 13;
    float value;
    if ((h & 0x7c00) == 0x7c00) {
        bits |= 0x7f800000u;
        memcpy(&value, &bits, 4);
    } else {
        memcpy(&value, &bits, 4);
        value *= 0x1p112f;
    }
    return h & 0x8000 ? -value : value;
}

static inline float i2s_bfloat16(uint16_t b) {
    uint32_t bits = (uint32_t)b << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* Weights may begin at any address of a file or a caller's buffer: no alignment is assumed. */
#if defined(__GNUC__) || defined(__clang__)
typedef float i2s_float_anywhere __attribute__((aligned(1)));
typedef uint16_t i2s_short_anywhere __attribute__((aligned(1)));
#else
typedef float i2s_float_anywhere;
typedef uint16_t i2s_short_anywhere;
#endif

/* One row of a matrix as floats: kind 0 float32, 1 float16, 2 bfloat16; `step` elements apart. */
static inline void i2s_row(const void *w, int kind, int64_t at, int64_t step, int64_t columns, float *out) {
    if (kind == 0) {
        const i2s_float_anywhere *p = (const i2s_float_anywhere *)w + at;
        for (int64_t k = 0; k < columns; k++) out[k] = p[k * step];
    } else {
        const i2s_short_anywhere *p = (const i2s_short_anywhere *)w + at;
        if (kind == 1) for (int64_t k = 0; k < columns; k++) out[k] = i2s_half(p[k * step]);
        else for (int64_t k = 0; k < columns; k++) out[k] = i2s_bfloat16(p[k * step]);
    }
}

/* x: tiles of [columns][8] doubles; w: rows start..stop; out: [tokens][rows]; scratch: columns * 17 doubles.
 * lanes: x [tokens][columns] floats; scratch: columns floats; vector: 8 or 16 lanes, four such vectors. */
typedef struct {
    const char *name;
    int (*available)(void);
    void (*products)(const double *x, int64_t tokens, int64_t columns, const void *w, int kind, int64_t row_step,
                     int64_t column_step, int64_t start, int64_t stop, float *out, int64_t rows, double *scratch);
    void (*lanes)(const float *x, int64_t tokens, int64_t columns, const void *w, int kind, int64_t row_step,
                  int64_t column_step, int64_t start, int64_t stop, float *out, int64_t rows, float *scratch, int vector);
} i2s_reduce_set;

#define NAME(x) x##_portable
#define TARGET
#define FUSED 0
#include "reduce_body.h"

#if (defined(__x86_64__) || defined(__i386__)) && (defined(__GNUC__) || defined(__clang__))
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma,f16c")))
#define FUSED 1
#include "reduce_body.h"
#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c")))
#define FUSED 1
#include "reduce_body.h"
#endif

static int i2s_reduce_always(void) { return 1; }

static const i2s_reduce_set i2s_reduce_sets[] = {
    {"portable", i2s_reduce_always, i2s_products_portable, i2s_lanes_portable},
#if (defined(__x86_64__) || defined(__i386__)) && (defined(__GNUC__) || defined(__clang__))
    {"avx2", i2s_cpu_avx2fma, i2s_products_avx2, i2s_lanes_avx2},
    {"avx512", i2s_cpu_avx512bw, i2s_products_avx512, i2s_lanes_avx512},
#endif
};
#define I2S_REDUCE_SETS ((int)(sizeof i2s_reduce_sets / sizeof *i2s_reduce_sets))

static void i2s_squares(const float *x, int64_t tokens, int64_t columns, int rounded, double *out) {
    for (int64_t t = 0; t < tokens; t++, x += columns) {
        double sum = 0;
        if (rounded)
            for (int64_t k = 0; k < columns; k++) { volatile float square = x[k] * x[k]; sum += (double)square; }
        else
            for (int64_t k = 0; k < columns; k++) sum += (double)x[k] * (double)x[k];
        out[t] = sum;
    }
}

static void i2s_sums(const float *x, int64_t tokens, int64_t columns, double *out) {
    for (int64_t t = 0; t < tokens; t++, x += columns) {
        double sum = 0;
        for (int64_t k = 0; k < columns; k++) sum += (double)x[k];
        out[t] = sum;
    }
}

#endif
