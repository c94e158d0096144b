/* A pass: its steps and their data. A value is a slot: `at` floats of every token, at values + at * tokens. */
#ifndef I2S_FAST_PASS_H
#define I2S_FAST_PASS_H

#include <stddef.h>

#include "fast_kernels.h"
#include "matmul_interface.h"

enum {
    I2S_NORM,        /* in, inner, weight (gain or NULL), factor (eps) */
    I2S_QUANTIZE,    /* in, width, inner (columns padded with zeros) */
    I2S_TERNARY,     /* first, count (matrices), inner (columns) */
    I2S_DENSE,       /* in, width (columns), weight, kind, heads (rows), out */
    I2S_ACTIVATE,    /* in, in2 (or -1), kind, width, out */
    I2S_ADD,         /* in, in2, width, out */
    I2S_MULTIPLY,    /* in, in2, width, out */
    I2S_BIAS,        /* in, weight, width, out */
    I2S_TIMES,       /* in, factor, width, out */
    I2S_ROPE,        /* in, heads, inner (dimension), kind (1: neighbours), groups (pairs), weight (cosines), weight2 (sines) */
    I2S_STORE_KV,    /* in, width, layer, kind (0 keys, 1 values) */
    I2S_ATTEND,      /* in (queries), heads, groups, inner, value, factor (scale), kind (1: causal), first (window or 0), layer, out */
    I2S_SELECT_ROWS, /* in, width, out */
    I2S_HEAD,        /* in, width (columns), weight, kind, heads (rows): to the result */
};

typedef struct {
    int32_t op, kind, late, layer; /* late: after I2S_SELECT_ROWS, where only some tokens remain */
    int64_t in, in2, out, width, inner, heads, groups, value, first, count;
    const void *weight, *weight2;
    float factor;
} i2s_step;

typedef struct {
    const uint8_t *weights;
    int64_t rows, out;
    float scale;
} i2s_matrix;

typedef struct {
    int64_t start, stop, past;
} i2s_sequence;

#define I2S_QUERIES 32    /* rows of queries, of all heads that share keys, processed together */
#define I2S_SPLIT 256     /* keys of a single token that one thread processes */
#define I2S_WIDENED 32    /* keys or values converted to floats at a time; they stay in the nearest cache */
#define I2S_FEW 8         /* keys or values between two prefetches of more of them */
#define I2S_PARTS 64
#define I2S_NEAREST 6144  /* floats of a token, for all steps processed together, that the nearest cache holds */
#define I2S_STREAM (4 << 20) /* bytes of a part that is read from memory once */
/* Floats of scratch memory of a part of attention: queries, sums, scores, and the maximum and the total of each row;
 * then keys or values as floats. */
#define I2S_ROOM ((int64_t)I2S_QUERIES * (2 * I2S_WIDEST + I2S_KEYS + 16 + 2) + I2S_WIDENED * I2S_WIDEST)

typedef struct {
    const i2s_fast_set *fast;
    const i2s_matmul_set *ternary;
    const i2s_matmul_interface *shared;
    int64_t threads, tokens, chosen, sequences, layers;
    const i2s_step *steps;
    const i2s_matrix *matrices;
    const i2s_sequence *sequence;
    const int64_t *rows, *positions;
    uint16_t *const *caches; /* [(sequence * layers + layer) * 2 + part] */
    float *values, *result, *room, *partial;
    int8_t *codes, *arranged;
    float *scales;
    int32_t *sums;
    /* of the current step, or of the steps that process a few tokens together */
    const i2s_step *step;
    int64_t now, part, parts; /* tokens, tokens or rows in a part, parts */
    int64_t together, few;    /* steps, tokens */
    int64_t split;            /* the sequence whose keys are processed in pieces */
} i2s_pass;

static inline float *i2s_slot(const i2s_pass *p, int64_t at) { return p->values + at * p->tokens; }

static inline void i2s_spread(i2s_pass *p, i2s_pool_part run, int64_t parts) {
    if (parts == 1) run(p, 0);
    else p->shared->run(run, p, parts, p->threads);
}

#endif
