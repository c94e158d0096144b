/* Steps that process tokens one by one: consecutive ones process a few tokens together. */
#ifndef I2S_FAST_TOKENS_H
#define I2S_FAST_TOKENS_H

#include "fast_pass.h"

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

/* The next step finds the output of this step in the nearest cache. */
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

/* Whether a step may process the first tokens before another one has processed the last: not if a slot that both use
 * has different widths in them, since rows of other tokens lie there. */
static int i2s_apart(const i2s_step *a, const i2s_step *b) {
    const int64_t of_a[3] = {a->in, a->in2, i2s_slot_written(a)}, of_b[3] = {b->in, b->in2, i2s_slot_written(b)};
    if (a->width == b->width) return 1;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            if (of_a[i] == of_b[j] && of_a[i] >= 0) return 0;
    return 1;
}

/* The number of steps from this one on that process tokens together. */
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
    if (parts > work >> 14) parts = work >> 14; /* a part takes a few microseconds, about as long as waking a thread */
    if (parts > p->now) parts = p->now;
    if (parts < 1 || p->threads == 1) parts = 1;
    p->part = (p->now + parts - 1) / parts;
    i2s_spread(p, i2s_tokenwise, (p->now + p->part - 1) / p->part);
}

#endif
