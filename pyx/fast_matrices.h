/* Products with matrices: ternary ones and those of floats. */
#ifndef I2S_FAST_MATRICES_H
#define I2S_FAST_MATRICES_H

#include "fast_pass.h"

/* ---- ternary matrices: those with the same activations are one step ---- */

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
    int64_t parts = 0, arranged = 0; /* matrices that need the codes arranged */
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
        /* One token streams the weights, which is faster with fewer separate streams; several tokens use panels. */
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
        arranged += !job->streams && !i2s_matmul_alone(job);
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
    (p->tokens == p->sequences ? p->fast->dots_alone : p->fast->dots)(
        s->kind, (const uint8_t *)s->weight + first * pitch, last - first, pitch, s->width, i2s_slot(p, s->in), s->width,
        p->now, out + first, s->heads);
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

#endif
