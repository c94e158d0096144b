/* Attention: rows of queries are multiplied with the keys and values of a cache, which are float16, some at a time. */
#ifndef I2S_FAST_ATTENTION_H
#define I2S_FAST_ATTENTION_H

#include "fast_pass.h"

/* Memory that is prefetched a few lines at a time during computation: [at, end). */
typedef struct {
    const char *at, *end;
    int64_t lines; /* at a time */
} i2s_asking;

static inline void i2s_ask(i2s_asking *ask) {
    for (int64_t n = 0; n < ask->lines && ask->at < ask->end; n++, ask->at += 64) __builtin_prefetch(ask->at, 0, 2);
}

static void i2s_attend_clear(const i2s_state *state, int64_t rows, int64_t value) {
    for (int64_t r = 0; r < rows; r++) {
        state->most[r] = -INFINITY;
        state->total[r] = 0;
    }
    memset(state->sums, 0, (size_t)(rows * value) * 4);
}

/* The `part`th of `parts` of the next keys or values, for `times` askings. */
static i2s_asking i2s_asking_of(const uint16_t *from, const uint16_t *to, int64_t part, int64_t parts, int64_t times) {
    const int64_t lines = ((const char *)to - (const char *)from + 63) / 64, first = lines * part / parts;
    const int64_t count = lines * (part + 1) / parts - first;
    const char *at = (const char *)from + 64 * first;
    const i2s_asking ask = {at, at + 64 * count, (count + times - 1) / times};
    return ask;
}

/* Keys or values of one group, `pitch` halves apart, as floats side by side. */
static const uint8_t *i2s_widened(const i2s_pass *p, const uint16_t *from, int64_t pitch, int64_t count, int64_t width,
                                  float *wide) {
    for (int64_t k = 0; k < count; k++) p->fast->widen(from + k * pitch, width, wide + k * width);
    return (const uint8_t *)wide;
}

/* The first key that a row sees, of which `sees` are not later than it. */
static inline int64_t i2s_first_key(const i2s_step *s, int64_t sees) {
    return s->first && sees > s->first ? sees - s->first : 0;
}

/* Multiply rows of queries that share keys with the keys [from, to), at most I2S_KEYS. Row r sees `sees` + r / share of
 * all, from its first key on. `wide` is room for floats if the rows are many, else NULL: each half is then converted once, not for every four
 * rows. `ask` is memory needed next (keys and values) to prefetch before every few keys, or NULL. How keys are divided
 * changes no sum. */
static void i2s_attend_keys(const i2s_pass *p, const uint16_t *keys, const uint16_t *values, const float *queries,
                            int64_t rows, int64_t share, int64_t sees, int64_t from, int64_t to, float *scores,
                            const i2s_state *state, float *wide, i2s_asking *ask) {
    const i2s_step *s = p->step;
    const int64_t k_pitch = s->groups * s->inner, v_pitch = s->groups * s->value, z_pitch = I2S_KEYS + 16;
    const int64_t count = to - from, few = wide != NULL ? I2S_WIDENED : ask != NULL ? I2S_FEW : count;
    for (int64_t k = 0; k < count; k += few) {
        const int64_t some = k + few < count ? few : count - k;
        const uint16_t *at = keys + (from + k) * k_pitch;
        if (ask != NULL) i2s_ask(ask), i2s_ask(ask + 1);
        if (wide != NULL)
            p->fast->dots(I2S_F32, i2s_widened(p, at, k_pitch, some, s->inner, wide), some, s->inner * 4, s->inner, queries,
                          s->inner, rows, scores + k, z_pitch);
        else
            p->fast->dots(I2S_F16, (const uint8_t *)at, some, k_pitch * 2, s->inner, queries, s->inner, rows, scores + k,
                          z_pitch);
    }
    for (int64_t r = 0; r < rows; r++) {
        float *z = scores + r * z_pitch;
        int64_t seen = s->kind ? sees + r / share - from : count, hidden = i2s_first_key(s, sees + r / share) - from;
        seen = seen < 0 ? 0 : seen > count ? count : seen;
        hidden = hidden < 0 ? 0 : hidden > seen ? seen : hidden;
        const float before = state->most[r];
        const float added = p->fast->soft_max(z + hidden, seen - hidden, s->factor, state->most + r);
        memset(z, 0, (size_t)hidden * 4);
        if (seen < count) memset(z + seen, 0, (size_t)(count - seen) * 4);
        if (before != state->most[r] && before != -INFINITY) { /* rescale sums that were added with a smaller maximum */
            const float less = expf(before - state->most[r]);
            state->total[r] *= less;
            p->fast->times(state->sums + r * s->value, less, s->value, state->sums + r * s->value);
        }
        state->total[r] += added;
    }
    for (int64_t k = 0; k < count; k += few) {
        const int64_t some = k + few < count ? few : count - k;
        const uint16_t *at = values + (from + k) * v_pitch;
        if (ask != NULL) i2s_ask(ask), i2s_ask(ask + 1);
        if (wide != NULL)
            p->fast->weighted_sum(I2S_F32, scores + k, z_pitch, rows, i2s_widened(p, at, v_pitch, some, s->value, wide),
                                  s->value * 4, some, s->value, state->sums, s->value);
        else
            p->fast->weighted_sum(I2S_F16, scores + k, z_pitch, rows, (const uint8_t *)at, v_pitch * 2, some, s->value,
                                  state->sums, s->value);
    }
}

static int64_t i2s_token_units(const i2s_pass *p, const i2s_sequence *each) { /* queries processed together */
    const int64_t share = p->step->heads / p->step->groups, most = share < I2S_QUERIES ? I2S_QUERIES / share : 1;
    return most < each->stop - each->start ? most : each->stop - each->start;
}

/* Queries of `tokens` tokens from `token` on with the keys of a group, heads of a token side by side. If a token has
 * more heads than fit, those from `head` on. */
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
        for (int64_t k = i2s_first_key(s, sees); k < to; k += I2S_KEYS)
            i2s_attend_keys(p, keys, values, queries, rows, some, sees, k, k + I2S_KEYS < to ? k + I2S_KEYS : to, scores,
                            &state, rows > 4 ? wide : NULL, NULL);
        for (int64_t r = 0; r < rows; r++)
            p->fast->times(sums + r * s->value, 1.0f / state.total[r], s->value,
                           i2s_slot(p, s->out) +
                               ((token + r / some) * s->heads + group * share + head + r % some) * s->value);
    }
}

/* Pieces of the keys that the only token of a sequence sees. */
static int64_t i2s_pieces(const i2s_pass *p, int64_t q) {
    const int64_t seen = p->sequence[q].past + 1;
    return (seen - i2s_first_key(p->step, seen) + I2S_SPLIT - 1) / I2S_SPLIT;
}

/* Whether a sequence has one token in this pass and many keys, which are processed in pieces. */
static int i2s_splits(const i2s_pass *p, int64_t q) {
    return p->sequence[q].stop - p->sequence[q].start == 1 && i2s_pieces(p, q) > 1 &&
           p->step->heads / p->step->groups <= I2S_QUERIES;
}

static void i2s_attend_part(void *of, int64_t part) {
    const i2s_pass *p = (const i2s_pass *)of;
    const i2s_step *s = p->step;
    int64_t unit = 0;
    for (int64_t q = 0; q < p->sequences; q++) {
        const i2s_sequence *each = p->sequence + q;
        const int64_t tokens = i2s_token_units(p, each);
        if (i2s_splits(p, q)) continue;
        for (int64_t t = each->start; t < each->stop; t += tokens)
            for (int64_t g = 0; g < s->groups; g++, unit++)
                if (unit % p->parts == part)
                    i2s_attend_unit(p, q, g, t, t + tokens < each->stop ? tokens : each->stop - t, p->room + part * I2S_ROOM);
    }
}

/* Multiply rows of queries with the keys of their group from `k` to `end`, and prefetch a part of the keys and values of
 * all groups from `next` to `last`. On a core with a small first-level cache that is one line at a time: many at once
 * delay the computation. */
static void i2s_split_keys(const i2s_pass *p, int64_t group, int64_t k, int64_t end, int64_t next, int64_t last,
                           const i2s_state *state) {
    const i2s_step *s = p->step;
    const int64_t share = s->heads / s->groups, k_pitch = s->groups * s->inner, v_pitch = s->groups * s->value;
    const uint16_t *const *cache = (const uint16_t *const *)p->caches + (p->split * p->layers + s->layer) * 2;
    const uint16_t *keys = cache[0], *values = cache[1];
    const float *queries = i2s_slot(p, s->in) + (p->sequence[p->split].start * s->heads + group * share) * s->inner;
    const int64_t fours = i2s_cpu_small_first() ? share / 4 * 4 : 0;
    i2s_attended attended = {
        keys + k * k_pitch + group * s->inner, values + k * v_pitch + group * s->value, k_pitch, v_pitch, s->inner, s->value,
        end - k, (const char *)(keys + next * k_pitch + (last - next) * group * s->inner),
        (const char *)(values + next * v_pitch + (last - next) * group * s->value), last - next};
    for (int64_t r = 0; r < fours; r += 4, attended.next = 0) {
        const i2s_state four = {state->sums + r * s->value, state->most + r, state->total + r};
        p->fast->attend(&attended, queries + r * s->inner, s->factor, &four);
    }
    if (fours == share) return;
    float scores[I2S_QUERIES * (I2S_KEYS + 16)];
    const i2s_state rest = {state->sums + fours * s->value, state->most + fours, state->total + fours};
    const int64_t times = 2 * ((end - k + I2S_FEW - 1) / I2S_FEW); /* once for so many keys, then for as many values */
    i2s_asking ask[2] = {i2s_asking_of(keys + next * k_pitch, keys + last * k_pitch, group, s->groups, times),
                         i2s_asking_of(values + next * v_pitch, values + last * v_pitch, group, s->groups, times)};
    i2s_attend_keys(p, keys + group * s->inner, values + group * s->value, queries + fours * s->inner, share - fours, share,
                    p->sequence[p->split].past + 1, k, end, scores, &rest, NULL, fours ? NULL : ask);
}

/* The state of some rows of all groups and pieces. Sums begin at cache lines. */
static i2s_state i2s_split_state(const i2s_pass *p, int64_t row, int64_t rows) {
    float *most = p->partial + rows * p->step->value;
    const i2s_state state = {p->partial + row * p->step->value, most + row, most + rows + row};
    return state;
}

/* One token and many keys: a piece of the keys, of all groups, in memory order; the pieces are combined afterwards. The
 * pieces in between belong to other threads. */
static void i2s_split_part(void *of, int64_t piece) {
    const i2s_pass *p = (const i2s_pass *)of;
    const i2s_step *s = p->step;
    const int64_t share = s->heads / s->groups, seen = p->sequence[p->split].past + 1, pieces = i2s_pieces(p, p->split);
    const int64_t from = i2s_first_key(s, seen) + piece * I2S_SPLIT, to = from + I2S_SPLIT < seen ? from + I2S_SPLIT : seen;
    for (int64_t k = from; k < to; k += I2S_KEYS) {
        const int64_t end = k + I2S_KEYS < to ? k + I2S_KEYS : to;
        int64_t next = end < to ? end : from + p->threads * I2S_SPLIT;
        if (next > seen) next = seen;
        const int64_t last = next + I2S_KEYS < seen ? next + I2S_KEYS : seen;
        for (int64_t g = 0; g < s->groups; g++) {
            const i2s_state state = i2s_split_state(p, (g * pieces + piece) * share, s->heads * pieces);
            if (k == from) i2s_attend_clear(&state, share, s->value);
            i2s_split_keys(p, g, k, end, next, last, &state);
        }
    }
}

static void i2s_join(const i2s_pass *p) {
    const i2s_step *s = p->step;
    const int64_t share = s->heads / s->groups, pieces = i2s_pieces(p, p->split), token = p->sequence[p->split].start;
    for (int64_t h = 0; h < s->heads; h++) {
        const i2s_state first = i2s_split_state(p, h / share * pieces * share + h % share, s->heads * pieces);
        float most = -INFINITY, total = 0, by[64], *out = i2s_slot(p, s->out) + (token * s->heads + h) * s->value;
        for (int64_t i = 0; i < pieces; i++) most = first.most[i * share] > most ? first.most[i * share] : most;
        memset(out, 0, (size_t)s->value * 4);
        for (int64_t i = 0; i < pieces; i += 64) {
            const int64_t some = pieces - i < 64 ? pieces - i : 64;
            for (int64_t j = 0; j < some; j++) {
                const float top = first.most[(i + j) * share];
                by[j] = top == -INFINITY ? 1.0f : expf(top - most);
                total += by[j] * first.total[(i + j) * share];
            }
            p->fast->weighted_sum(I2S_F32, by, 64, 1, (const uint8_t *)(first.sums + i * share * s->value),
                                  share * s->value * 4, some, s->value, out, s->value);
        }
        p->fast->times(out, 1.0f / total, s->value, out);
    }
}

static void i2s_attention(i2s_pass *p) {
    const i2s_step *s = p->step;
    const int64_t most = p->threads < I2S_PARTS / 4 ? p->threads * 4 : I2S_PARTS;
    int64_t units = 0, work = 0;
    for (int64_t q = 0; q < p->sequences; q++) {
        const i2s_sequence *each = p->sequence + q;
        if (i2s_splits(p, q)) {
            p->split = q;
            i2s_spread(p, i2s_split_part, i2s_pieces(p, q));
            i2s_join(p);
            continue;
        }
        const int64_t tokens = i2s_token_units(p, each), count = each->stop - each->start;
        units += (count + tokens - 1) / tokens * s->groups;
        work += count * (each->past + count) * s->heads * s->inner;
    }
    if (units == 0) return;
    p->parts = p->threads == 1 || work < 1 << 17 ? 1 : units < most ? units : most;
    i2s_spread(p, i2s_attend_part, p->parts);
}

#endif
