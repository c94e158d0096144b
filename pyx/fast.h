/* A program of a few kinds of steps over the values of a pass: what a graph becomes, so that one call does all of it.
 *
 * A value is a slot: `at` floats of every token, at values + at * tokens. Steps come in the order of the graph. Each is cut
 * into parts by tokens, rows or heads, which threads claim; how it is cut does not change what comes out.
 */
#ifndef I2S_FAST_H
#define I2S_FAST_H

#include <stddef.h>

#include "fast_kernels.h"
#include "matmul_interface.h"

enum {
    I2S_NORM,        /* in, inner, weight (gain or NULL), factor (eps) */
    I2S_QUANTIZE,    /* in, width, inner (columns with zeros behind) */
    I2S_TERNARY,     /* first, count (matrices), inner (columns) */
    I2S_DENSE,       /* in, width (columns), weight, kind, heads (rows), out */
    I2S_ACTIVATE,    /* in, in2 (or -1), kind, width, out */
    I2S_ADD,         /* in, in2, width, out */
    I2S_MULTIPLY,    /* in, in2, width, out */
    I2S_BIAS,        /* in, weight, width, out */
    I2S_TIMES,       /* in, factor, width, out */
    I2S_ROPE,        /* in, heads, inner (dimension), kind (1: neighbours), groups (pairs), weight (cosines), weight2 (sines) */
    I2S_STORE_KV,    /* in, width, layer, kind (0 keys, 1 values) */
    I2S_ATTEND,      /* in (queries), heads, groups, inner, value, factor (scale), kind (1: causal), layer, out */
    I2S_SELECT_ROWS, /* in, width, out */
    I2S_HEAD,        /* in, width (columns), weight, kind, heads (rows): to the result */
};

typedef struct {
    int32_t op, kind, late, layer; /* late: behind I2S_SELECT_ROWS, where only some tokens are left */
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

#define I2S_KEYS 64       /* keys whose scores are looked at together */
#define I2S_QUERIES 32    /* rows of queries, of all heads that share keys, together */
#define I2S_SPLIT 256     /* keys of a single token that one thread looks at */
#define I2S_WIDEST 512    /* widest head */
#define I2S_WIDENED 32    /* keys or values that are floats at a time, for all rows of queries: they stay in the nearest cache */
#define I2S_FEW 8         /* keys or values between two times that memory is asked for more of them */
#define I2S_PARTS 64
#define I2S_NEAREST 6144  /* floats of a token, of all steps that go over it together, that the nearest cache holds */
#define I2S_STREAM (4 << 20) /* bytes of a part that is read from memory once */
/* Floats that a part of attention works in: queries, sums, scores, and the most and the total of each row; then keys or
 * values as floats. */
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
    /* of the step that is on, or the steps that go over a few tokens together */
    const i2s_step *step;
    int64_t now, part, parts; /* tokens, tokens or rows in a part, parts */
    int64_t together, few;    /* steps, tokens */
} i2s_pass;

static inline float *i2s_slot(const i2s_pass *p, int64_t at) { return p->values + at * p->tokens; }

static inline void i2s_spread(i2s_pass *p, i2s_pool_part run, int64_t parts) {
    if (parts == 1) run(p, 0);
    else p->shared->run(run, p, parts, p->threads);
}

/* ---- steps that take tokens one by one: those in a row go over a few tokens together ---- */

static void i2s_few_tokens(const i2s_pass *p, const i2s_step *s, int64_t from, int64_t to) {
    const i2s_fast_set *f = p->fast;
    const int64_t n = (to - from) * s->width;
    float *out = i2s_slot(p, s->out) + from * s->width;
    const float *in = s->in < 0 ? NULL : i2s_slot(p, s->in) + from * s->width;
    const float *in2 = s->in2 < 0 ? NULL : i2s_slot(p, s->in2) + from * s->width;
    switch (s->op) {
    case I2S_NORM:
        for (int64_t i = 0; i < n; i += s->inner) f->norm(in + i, (const float *)s->weight, s->inner, s->factor, out + i);
        break;
    case I2S_QUANTIZE:
        for (int64_t t = from; t < to; t++) {
            p->ternary->quantize(in + (t - from) * s->width, s->width, p->codes + t * s->inner, p->scales + t, p->sums + t);
            memset(p->codes + t * s->inner + s->width, 0, (size_t)(s->inner - s->width));
        }
        break;
    case I2S_ACTIVATE: f->activate(s->kind, in, in2, n, out); break;
    case I2S_ADD: f->add(in, in2, n, out); break;
    case I2S_MULTIPLY: f->multiply(in, in2, n, out); break;
    case I2S_TIMES: f->times(in, s->factor, n, out); break;
    case I2S_BIAS:
        for (int64_t i = 0; i < n; i += s->width) f->add(in + i, (const float *)s->weight, s->width, out + i);
        break;
    case I2S_ROPE:
        for (int64_t t = from; t < to; t++) {
            const int64_t at = p->positions[t] * s->groups;
            for (int64_t h = 0; h < s->heads; h++, in += s->inner, out += s->inner)
                f->rotate(in, (const float *)s->weight + at, (const float *)s->weight2 + at, s->groups, s->kind ? 1 : 0,
                          s->inner, out);
        }
        break;
    case I2S_STORE_KV:
        for (int64_t q = 0; q < p->sequences; q++) {
            const i2s_sequence *each = p->sequence + q;
            const int64_t first = each->start > from ? each->start : from, last = each->stop < to ? each->stop : to;
            uint16_t *kept = p->caches[(q * p->layers + s->layer) * 2 + s->kind];
            if (first < last)
                f->halve(in + (first - from) * s->width, (last - first) * s->width,
                         kept + (each->past + first - each->start) * s->width);
        }
        break;
    default: break;
    }
}

/* What a step writes the next one finds in the nearest cache. */
static void i2s_tokenwise(void *of, int64_t number) {
    const i2s_pass *p = (const i2s_pass *)of;
    const int64_t first = number * p->part, last = first + p->part < p->now ? first + p->part : p->now;
    for (int64_t t = first; t < last; t += p->few)
        for (int64_t i = 0; i < p->together; i++)
            i2s_few_tokens(p, p->step + i, t, t + p->few < last ? t + p->few : last);
}

static int i2s_takes_tokens(const i2s_step *s) {
    return s->op != I2S_TERNARY && s->op != I2S_DENSE && s->op != I2S_HEAD && s->op != I2S_ATTEND && s->op != I2S_SELECT_ROWS;
}

static int64_t i2s_slot_written(const i2s_step *s) {
    return s->op == I2S_QUANTIZE || s->op == I2S_STORE_KV ? -1 : s->out;
}

/* Whether a step may do the first tokens before another one did the last: not where a slot that both use has another width
 * in either, since rows of other tokens lie there. */
static int i2s_apart(const i2s_step *a, const i2s_step *b) {
    const int64_t of_a[3] = {a->in, a->in2, i2s_slot_written(a)}, of_b[3] = {b->in, b->in2, i2s_slot_written(b)};
    if (a->width == b->width) return 1;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            if (of_a[i] == of_b[j] && of_a[i] >= 0) return 0;
    return 1;
}

/* How many steps from this one on go over tokens together. */
static int64_t i2s_together(const i2s_step *s, int64_t left) {
    int64_t count = 1;
    for (; count < left && i2s_takes_tokens(s + count) && s[count].late == s->late; count++)
        for (int64_t i = 0; i < count; i++)
            if (!i2s_apart(s + i, s + count)) return count;
    return count;
}

static void i2s_by_tokens(i2s_pass *p) {
    int64_t width = 1, parts = p->threads * 2;
    for (int64_t i = 0; i < p->together; i++) width += p->step[i].width;
    const int64_t work = p->now * width;
    p->few = width < I2S_NEAREST ? I2S_NEAREST / width : 1;
    if (parts > work >> 14) parts = work >> 14; /* a part takes some microseconds, as waking a thread does */
    if (parts > p->now) parts = p->now;
    if (parts < 1 || p->threads == 1) parts = 1;
    p->part = (p->now + parts - 1) / parts;
    i2s_spread(p, i2s_tokenwise, (p->now + p->part - 1) / p->part);
}

/* ---- ternary matrices: those that share their activations are one step ---- */

#define I2S_MOST_MATRICES 4
typedef struct {
    const i2s_pass *pass;
    i2s_matmul_job jobs[I2S_MOST_MATRICES];
    int64_t ends[I2S_MOST_MATRICES]; /* parts of a matrix and of those before it */
} i2s_ternary_job;

static void i2s_ternary_part(void *of, int64_t part) {
    i2s_ternary_job *all = (i2s_ternary_job *)of;
    int64_t m = 0;
    while (part >= all->ends[m]) m++;
    i2s_matmul_part(&all->jobs[m], m ? part - all->ends[m - 1] : part);
}

static void i2s_ternary_arrange(void *of, int64_t tile) { i2s_matmul_arrange(&((i2s_ternary_job *)of)->jobs[0], tile); }

static void i2s_ternary(i2s_pass *p) {
    const i2s_step *s = p->step;
    i2s_ternary_job all;
    all.pass = p;
    int64_t parts = 0, arranged = 0; /* matrices that take the codes arranged */
    for (int64_t m = 0; m < s->count; m++) {
        const i2s_matrix *matrix = p->matrices + s->first + m;
        i2s_matmul_job *job = &all.jobs[m];
        memset(job, 0, sizeof *job);
        job->blocks = s->inner / I2S_MM_COLUMNS;
        job->set = job->blocks <= I2S_MM_LONGEST ? p->ternary : p->shared->sets;
        job->weights = matrix->weights;
        job->rows = matrix->rows;
        job->tokens = p->now;
        job->codes = p->codes;
        job->arranged = p->arranged;
        job->out = (int32_t *)i2s_slot(p, matrix->out);
        job->scales = p->scales;
        job->sums = p->sums;
        job->weight_scale = matrix->scale;
        /* One token streams the weights, which goes the better the fewer beginnings there are; several go over panels. */
        const int64_t bytes = job->rows * job->blocks * I2S_MM_BYTES, least = (p->threads + s->count - 1) / s->count;
        int64_t pieces = bytes / (p->now == 1 ? 3 * I2S_MM_PANEL : I2S_MM_PANEL) / p->threads * p->threads;
        if (pieces < least) pieces = least;
        if (p->threads == 1) pieces = 1;
        const int64_t unit = i2s_matmul_unit(job);
        job->part_rows = ((job->rows + pieces - 1) / pieces + unit - 1) / unit * unit;
        if (job->part_rows < unit) job->part_rows = unit;
        job->part_tiles = i2s_matmul_tiles(job);
        parts += i2s_matmul_row_parts(job);
        all.ends[m] = parts;
        job->streams = i2s_matmul_streams(job);
        arranged += !job->streams;
    }
    const int64_t tiles = arranged ? i2s_matmul_tiles(&all.jobs[0]) : 0;
    if (p->now >= 8 * I2S_MM_TILE && p->threads > 1) p->shared->run(i2s_ternary_arrange, &all, tiles, p->threads);
    else
        for (int64_t i = 0; i < tiles; i++) i2s_ternary_arrange(&all, i);
    p->shared->run(i2s_ternary_part, &all, parts, p->threads);
}

/* ---- matrices of floats ---- */

static void i2s_dense_part(void *of, int64_t part) {
    const i2s_pass *p = (const i2s_pass *)of;
    const i2s_step *s = p->step;
    const int64_t first = part * p->part, last = first + p->part < s->heads ? first + p->part : s->heads;
    const int64_t pitch = s->width * (s->kind == I2S_F32 ? 4 : 2);
    float *out = s->op == I2S_HEAD ? p->result : i2s_slot(p, s->out);
    p->fast->dots(s->kind, (const uint8_t *)s->weight + first * pitch, last - first, pitch, s->width, i2s_slot(p, s->in),
                  s->width, p->now, out + first, s->heads);
}

static void i2s_dense(i2s_pass *p) {
    const i2s_step *s = p->step;
    if (p->now == 0 || s->heads == 0) return;
    const int64_t pitch = s->width * (s->kind == I2S_F32 ? 4 : 2);
    int64_t rows = s->heads;
    if (p->threads > 1 || p->now > 1) { /* a panel stays in cache while tokens go over it */
        rows = (p->now == 1 ? I2S_STREAM : I2S_MM_PANEL) / (pitch > 0 ? pitch : 1) / 16 * 16;
        if (p->now == 1 && rows > s->heads / p->threads) rows = (s->heads / p->threads + 15) / 16 * 16;
        if (rows < 16) rows = 16;
        if (rows * 60000 < s->heads) rows = (s->heads / 60000 + 15) / 16 * 16;
    }
    p->part = rows;
    i2s_spread(p, i2s_dense_part, (s->heads + rows - 1) / rows);
}

/* ---- attention ---- */

/* What rows of queries have come to: sums of values, and the largest score and the total share of each row. */
typedef struct {
    float *sums, *most, *total;
} i2s_state;

static void i2s_attend_clear(const i2s_state *state, int64_t rows, int64_t value) {
    for (int64_t r = 0; r < rows; r++) {
        state->most[r] = -INFINITY;
        state->total[r] = 0;
    }
    memset(state->sums, 0, (size_t)(rows * value) * 4);
}

/* Memory that is asked for a few lines at a time, while there is something to compute: [at, end) of keys and of values. */
typedef struct {
    const char *at[2], *end[2];
    int64_t lines[2]; /* at a time */
} i2s_asking;

/* The `part`th of `parts` of the next keys or values, for `times` askings. */
static void i2s_asking_of(i2s_asking *ask, int which, const uint16_t *from, const uint16_t *to, int64_t part, int64_t parts,
                          int64_t times) {
    const int64_t lines = ((const char *)to - (const char *)from + 63) / 64, first = lines * part / parts;
    const int64_t count = lines * (part + 1) / parts - first;
    ask->at[which] = (const char *)from + 64 * first;
    ask->end[which] = ask->at[which] + 64 * count;
    ask->lines[which] = (count + times - 1) / times;
}

static inline void i2s_ask(i2s_asking *ask) {
    for (int i = 0; i < 2; i++)
        for (int64_t n = 0; n < ask->lines[i] && ask->at[i] < ask->end[i]; n++, ask->at[i] += 64)
            __builtin_prefetch(ask->at[i], 0, 2);
}

/* Keys or values of one group, `pitch` halves apart, as floats side by side. */
static const uint8_t *i2s_widened(const i2s_pass *p, const uint16_t *from, int64_t pitch, int64_t count, int64_t width,
                                  float *wide) {
    for (int64_t k = 0; k < count; k++) p->fast->widen(from + k * pitch, width, wide + k * width);
    return (const uint8_t *)wide;
}

/* Rows of queries that share keys meet the keys [from, to), no more than I2S_KEYS. Row r sees `sees` + r / share of all.
 * `wide` is room for floats where the rows are many, else NULL: each half is then made a float once, and not for every four
 * rows. `ask` is what is needed next, or NULL. How keys are cut changes no sum. */
static void i2s_attend_keys(const i2s_pass *p, const uint16_t *keys, const uint16_t *values, const float *queries,
                            int64_t rows, int64_t share, int64_t sees, int64_t from, int64_t to, float *scores,
                            const i2s_state *state, float *wide, i2s_asking *ask) {
    const i2s_step *s = p->step;
    const int64_t k_pitch = s->groups * s->inner, v_pitch = s->groups * s->value, z_pitch = I2S_KEYS + 16;
    const int64_t count = to - from, few = wide != NULL ? I2S_WIDENED : ask != NULL ? I2S_FEW : count;
    for (int64_t k = 0; k < count; k += few) {
        const int64_t some = k + few < count ? few : count - k;
        const uint16_t *at = keys + (from + k) * k_pitch;
        if (ask != NULL) i2s_ask(ask);
        if (wide != NULL)
            p->fast->dots(I2S_F32, i2s_widened(p, at, k_pitch, some, s->inner, wide), some, s->inner * 4, s->inner, queries,
                          s->inner, rows, scores + k, z_pitch);
        else
            p->fast->dots(I2S_F16, (const uint8_t *)at, some, k_pitch * 2, s->inner, queries, s->inner, rows, scores + k,
                          z_pitch);
    }
    for (int64_t r = 0; r < rows; r++) {
        float *z = scores + r * z_pitch;
        int64_t seen = s->kind ? sees + r / share - from : count;
        seen = seen < 0 ? 0 : seen > count ? count : seen;
        const float before = state->most[r], added = p->fast->soft_max(z, seen, s->factor, state->most + r);
        if (seen < count) memset(z + seen, 0, (size_t)(count - seen) * 4);
        if (before != state->most[r] && before != -INFINITY) { /* what was added by a smaller measure */
            const float less = expf(before - state->most[r]);
            state->total[r] *= less;
            p->fast->times(state->sums + r * s->value, less, s->value, state->sums + r * s->value);
        }
        state->total[r] += added;
    }
    for (int64_t k = 0; k < count; k += few) {
        const int64_t some = k + few < count ? few : count - k;
        const uint16_t *at = values + (from + k) * v_pitch;
        if (ask != NULL) i2s_ask(ask);
        if (wide != NULL)
            p->fast->weighted_sum(I2S_F32, scores + k, z_pitch, rows, i2s_widened(p, at, v_pitch, some, s->value, wide),
                                  s->value * 4, some, s->value, state->sums, s->value);
        else
            p->fast->weighted_sum(I2S_F16, scores + k, z_pitch, rows, (const uint8_t *)at, v_pitch * 2, some, s->value,
                                  state->sums, s->value);
    }
}

static int64_t i2s_token_units(const i2s_pass *p, const i2s_sequence *each) { /* tokens whose queries go together */
    const int64_t share = p->step->heads / p->step->groups, most = share < I2S_QUERIES ? I2S_QUERIES / share : 1;
    return most < each->stop - each->start ? most : each->stop - each->start;
}

/* Queries of `tokens` tokens from `token` on that meet the keys of a group, heads of a token side by side. A token may have
 * more heads than fit: those from `head` on. */
static void i2s_attend_unit(const i2s_pass *p, int64_t q, int64_t group, int64_t token, int64_t tokens, float *room) {
    const i2s_step *s = p->step;
    const i2s_sequence *each = p->sequence + q;
    const int64_t share = s->heads / s->groups;
    const uint16_t *keys = p->caches[(q * p->layers + s->layer) * 2] + group * s->inner;
    const uint16_t *values = p->caches[(q * p->layers + s->layer) * 2 + 1] + group * s->value;
    float *queries = room, *scores = queries + I2S_QUERIES * I2S_WIDEST;
    float *sums = scores + I2S_QUERIES * (I2S_KEYS + 16), *most = sums + I2S_QUERIES * I2S_WIDEST;
    float *wide = most + 2 * I2S_QUERIES;
    const i2s_state state = {sums, most, most + I2S_QUERIES};
    for (int64_t head = 0; head < share; head += I2S_QUERIES) {
        const int64_t some = share - head < I2S_QUERIES ? share - head : I2S_QUERIES, rows = tokens * some;
        for (int64_t t = 0; t < tokens; t++)
            memcpy(queries + t * some * s->inner,
                   i2s_slot(p, s->in) + ((token + t) * s->heads + group * share + head) * s->inner,
                   (size_t)(some * s->inner) * 4);
        const int64_t sees = each->past + token - each->start + 1;
        const int64_t to = s->kind ? sees + tokens - 1 : each->past + each->stop - each->start;
        i2s_attend_clear(&state, rows, s->value);
        for (int64_t k = 0; k < to; k += I2S_KEYS)
            i2s_attend_keys(p, keys, values, queries, rows, some, sees, k, k + I2S_KEYS < to ? k + I2S_KEYS : to, scores,
                            &state, rows > 4 ? wide : NULL, NULL);
        for (int64_t r = 0; r < rows; r++)
            p->fast->times(sums + r * s->value, 1.0f / state.total[r], s->value,
                           i2s_slot(p, s->out) +
                               ((token + r / some) * s->heads + group * share + head + r % some) * s->value);
    }
}

static void i2s_attend_part(void *of, int64_t part) {
    const i2s_pass *p = (const i2s_pass *)of;
    const i2s_step *s = p->step;
    int64_t unit = 0;
    for (int64_t q = 0; q < p->sequences; q++) {
        const i2s_sequence *each = p->sequence + q;
        const int64_t tokens = i2s_token_units(p, each);
        for (int64_t t = each->start; t < each->stop; t += tokens)
            for (int64_t g = 0; g < s->groups; g++, unit++)
                if (unit % p->parts == part)
                    i2s_attend_unit(p, q, g, t, t + tokens < each->stop ? tokens : each->stop - t, p->room + part * I2S_ROOM);
    }
}

/* One token and many keys: a piece of the keys, of all groups, as they lie in memory; put together afterwards. */
static void i2s_split_part(void *of, int64_t piece) {
    const i2s_pass *p = (const i2s_pass *)of;
    const i2s_step *s = p->step;
    const int64_t share = s->heads / s->groups, seen = p->sequence->past + 1, pieces = (seen + I2S_SPLIT - 1) / I2S_SPLIT;
    const int64_t from = piece * I2S_SPLIT, to = from + I2S_SPLIT < seen ? from + I2S_SPLIT : seen;
    const uint16_t *keys = p->caches[s->layer * 2], *values = p->caches[s->layer * 2 + 1];
    const int64_t k_pitch = s->groups * s->inner, v_pitch = s->groups * s->value;
    float scores[I2S_QUERIES * (I2S_KEYS + 16)];
    for (int64_t k = from; k < to; k += I2S_KEYS) {
        const int64_t end = k + I2S_KEYS < to ? k + I2S_KEYS : to, next = end + I2S_KEYS < seen ? end + I2S_KEYS : seen;
        const int64_t times = 2 * ((end - k + I2S_FEW - 1) / I2S_FEW); /* once for so many keys, then for as many values */
        for (int64_t g = 0; g < s->groups; g++) {
            float *sums = p->partial + (g * pieces + piece) * share * (s->value + 2);
            const i2s_state state = {sums, sums + share * s->value, sums + share * (s->value + 1)};
            if (k == from) i2s_attend_clear(&state, share, s->value);
            i2s_asking ask;
            i2s_asking_of(&ask, 0, keys + end * k_pitch, keys + next * k_pitch, g, s->groups, times);
            i2s_asking_of(&ask, 1, values + end * v_pitch, values + next * v_pitch, g, s->groups, times);
            i2s_attend_keys(p, keys + g * s->inner, values + g * s->value, i2s_slot(p, s->in) + g * share * s->inner, share,
                            share, seen, k, end, scores, &state, NULL, &ask);
        }
    }
}

static void i2s_join(const i2s_pass *p) {
    const i2s_step *s = p->step;
    const int64_t share = s->heads / s->groups, seen = p->sequence->past + 1, pieces = (seen + I2S_SPLIT - 1) / I2S_SPLIT;
    for (int64_t h = 0; h < s->heads; h++) {
        const float *first = p->partial + h / share * pieces * share * (s->value + 2);
        const int64_t step = share * (s->value + 2), r = h % share;
        float most = -INFINITY, total = 0, *out = i2s_slot(p, s->out) + h * s->value;
        for (int64_t i = 0; i < pieces; i++) {
            const float each = first[i * step + share * s->value + r];
            most = each > most ? each : most;
        }
        memset(out, 0, (size_t)s->value * 4);
        for (int64_t i = 0; i < pieces; i++) {
            const float *sums = first + i * step, top = sums[share * s->value + r];
            const float by = top == -INFINITY ? 1.0f : expf(top - most);
            total += by * sums[share * (s->value + 1) + r];
            for (int64_t c = 0; c < s->value; c++) out[c] += by * sums[r * s->value + c];
        }
        p->fast->times(out, 1.0f / total, s->value, out);
    }
}

static void i2s_attention(i2s_pass *p) {
    const i2s_step *s = p->step;
    const int64_t share = s->heads / s->groups, most = p->threads < I2S_PARTS / 4 ? p->threads * 4 : I2S_PARTS;
    if (p->tokens == 1 && p->sequence->past >= I2S_SPLIT && share <= I2S_QUERIES) {
        i2s_spread(p, i2s_split_part, (p->sequence->past + I2S_SPLIT) / I2S_SPLIT);
        i2s_join(p);
        return;
    }
    int64_t units = 0, work = 0;
    for (int64_t q = 0; q < p->sequences; q++) {
        const i2s_sequence *each = p->sequence + q;
        const int64_t tokens = i2s_token_units(p, each), count = each->stop - each->start;
        units += (count + tokens - 1) / tokens * s->groups;
        work += count * (each->past + count) * s->heads * s->inner;
    }
    p->parts = p->threads == 1 || work < 1 << 17 ? 1 : units < most ? units : most;
    i2s_spread(p, i2s_attend_part, p->parts);
}

/* ---- the whole ---- */

static void i2s_select_rows(const i2s_pass *p) {
    const i2s_step *s = p->step;
    for (int64_t i = 0; i < p->chosen; i++)
        memcpy(i2s_slot(p, s->out) + i * s->width, i2s_slot(p, s->in) + p->rows[i] * s->width, (size_t)s->width * 4);
}

static void i2s_fast_run(i2s_pass *p, int64_t steps) {
    for (int64_t i = 0; i < steps; i += p->together) {
        p->step = p->steps + i;
        p->together = i2s_takes_tokens(p->step) ? i2s_together(p->step, steps - i) : 1;
        p->now = p->step->late ? p->chosen : p->tokens;
        if (p->now == 0) continue;
        switch (p->step->op) {
        case I2S_TERNARY: i2s_ternary(p); break;
        case I2S_DENSE:
        case I2S_HEAD: i2s_dense(p); break;
        case I2S_ATTEND: i2s_attention(p); break;
        case I2S_SELECT_ROWS: i2s_select_rows(p); break;
        default: i2s_by_tokens(p);
        }
    }
}

#endif
