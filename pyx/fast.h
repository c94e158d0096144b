/* A program of a few kinds of steps over the values of a pass: a graph is compiled to it, so that one call runs all of
 * it.
 *
 * A value is a slot: `at` floats of every token, at values + at * tokens. Steps are in the order of the graph. Each is
 * divided by tokens, rows or heads into parts, which threads claim; the division does not change the result.
 */
#ifndef I2S_FAST_H
#define I2S_FAST_H

#include "fast_pass.h"
#include "fast_tokens.h"
#include "fast_matrices.h"
#include "fast_attention.h"

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
