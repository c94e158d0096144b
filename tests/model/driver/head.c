/* The law of a head that is not read whole, for every set that copies and scores and every set that reads, without Python.
 *
 * Odd rows meet odd states: no logit is above its bound, a row alone has the bits that it has among all, the copies are the
 * same in all sets, a token among others has the bits that it has alone, and the largest logit is found with its bits from
 * rows whose bounds reach that of the best estimate.
 * Prints one line for each set, and how many comparisons passed and failed. */
#include <stdio.h>
#include <stdlib.h>

#include "screened_head.h"

enum { MOST_ROWS = 150, MOST_COLUMNS = 1200, STATES = 8 };

static unsigned long passed, failed;
static uint64_t state = 1;

static uint32_t some(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}
static double unit(void) { return some() / 2147483648.0; }
static double bell(void) { return unit() + unit() + unit() + unit() - 2; }

static void check(int fine, const char *what, const char *head, const char *set, int kind, int how) {
    if (fine) passed++;
    else if (failed++ < 20) printf("%s: %s, read by %s, rows %d, state %d\n", what, head, set, kind, how);
}

static void *obtain(int64_t bytes) {
    void *p = malloc((size_t)bytes);
    if (p == NULL) exit(2);
    return p;
}

static double half(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return i2s_float_of_half(h);
}

static void fill_rows(uint8_t *w, int64_t rows, int64_t columns, int kind) {
    const double size = pow(10, (unit() - 0.5) * (kind == 7 ? 9 : 4));
    for (int64_t i = 0; i < rows * columns; i++) {
        double v = bell() * size;
        if (kind == 1) v = v * v * v;                                                        /* heavy tails */
        if (kind == 2 && i >= columns) v = half(w + i % columns * 2) * (some() % 4096 ? 1 : 1.001); /* nearly equal rows */
        if (kind == 3) v = (int)(some() % 3) - 1;                                            /* exact ties */
        if (kind == 4 && some() % 64) v = 0;
        if (kind == 5) v = (some() & 1 ? 1 : -1) * (double)(1 + (some() & 1)) * size;        /* ends of the range */
        if (kind == 6) v = (int)(some() % 8) * 5.96e-8;                                      /* subnormal halves */
        uint16_t h = i2s_half_of_float((float)v);
        if ((h & 0x7C00) == 0x7C00) h = 0x7BFF;
        memcpy(w + i * 2, &h, 2);
    }
    const uint16_t odd = some() & 1 ? 0x7E00 : some() & 1 ? 0x7C00 : 0xFC00;
    if (some() % 8 == 0) memcpy(w + some() % (uint64_t)(rows * columns) * 2, &odd, 2);
}

static void fill_state(float *x, const uint8_t *w, const i2s_head_copy *h, int how) {
    const double loud = pow(10, (unit() - 0.5) * 12);
    const int64_t at = some() % (uint64_t)h->rows;
    for (int64_t k = 0; k < h->columns; k++) {
        double v = bell() * loud;
        const double a = half(w + (at * h->columns + k) * 2), b = isfinite(a) ? a : 0;
        if (how == 1) v = v * v * v;
        if (how == 2) v = b * loud;                                                       /* along a row */
        if (how == 3) v = (b - h->scale[at] * (double)(h->codes[at * h->pitch + k] - 128)) * loud; /* along its error */
        if (how == 4) v = k == 17 ? 1e3 * loud : v;
        if (how == 5) v = (int)(some() % 3) - 1;
        if (how == 6) v = v * 1e-36;                                                      /* products underflow */
        if (how == 7 && some() % 64) v = 0;
        x[k] = isfinite(v) ? (float)v : 0.0f;
    }
}

/* As state_of of i2s_spec/model/screened_head.py, with one h. */
static void prepare(i2s_head_token *t, const i2s_head_copy *h, const float *x, int16_t *codes, int8_t *high, int8_t *low) {
    const int64_t n = h->columns;
    double largest = 0, squares = 0, distance = 0, over = 0, within = 0;
    for (int64_t k = 0; k < n; k++) {
        const double a = fabs((double)x[k]);
        largest = a > largest ? a : largest, squares += a * a;
    }
    t->step = largest > 0 ? largest / 32000 : 1, t->sum = 0;
    const double cut = largest * unit();
    for (int64_t k = 0; k < h->pitch; k++) {
        const double y = k < n ? x[k] : 0, a = fabs(y), v = a < cut ? a : cut;
        const int c = (int)lrint(y / t->step), up = (c + 128 + 65536) / 256 - 256;
        codes[k] = (int16_t)c, high[k] = (int8_t)up, low[k] = (int8_t)(c - 256 * up), t->sum += c;
        distance += (y - t->step * c) * (y - t->step * c), over += a - v, within += v * v;
    }
    const double m = (double)(n + 8) / 16777216;
    t->codes = codes, t->high = high, t->low = low;
    t->over = over * (1 + 1e-6), t->within = sqrt(within) * (1 + 1e-6);
    t->rest = (sqrt(distance) + (m / (1 - m) + 1e-9) * sqrt(squares)) * (1 + 1e-6);
}

static int64_t best_of(const float *z, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (z[i] > z[best]) best = i;
    return best;
}

static void run_in_turn(i2s_pool_part run, void *job, int64_t parts, int64_t threads) {
    (void)threads;
    for (int64_t i = 0; i < parts; i++) run(job, i);
}

static void tokens(const i2s_head_set *set, const i2s_head_copy *h, const i2s_head_copy *first, int kind) {
    const i2s_matmul_interface shared = {.run = run_in_turn};
    const int64_t rows = h->rows;
    i2s_head_job job = {.copy = h, .set = set, .first = 0, .last = rows};
    i2s_head_make(&job, &shared, 1);
    check(memcmp(h->codes, first->codes, (size_t)(rows * h->pitch)) == 0, "codes", set->name, "none", kind, 0);
    for (int64_t r = 0; r < rows; r++)
        check(memcmp(h->scale + r, first->scale + r, 4) == 0 || (isnan(h->scale[r]) && isnan(first->scale[r])), "scale", set->name,
              "none", kind, 0);
    float *states = obtain(STATES * h->columns * 4), *all[3];
    float *whole = obtain(rows * 4), *estimate = obtain(rows * 4), *upper = obtain(rows * 4);
    int16_t *codes = obtain(STATES * h->pitch * 2);
    int8_t *high = obtain(STATES * h->pitch), *low = obtain(STATES * h->pitch);
    int64_t *ids = obtain(rows * 8);
    i2s_head_token every[STATES];
    for (int how = 0; how < STATES; how++) {
        fill_state(states + how * h->columns, h->weights, h, how);
        prepare(every + how, h, states + how * h->columns, codes + how * h->pitch, high + how * h->pitch, low + how * h->pitch);
    }
    for (int i = 0; i < 3; i++) all[i] = obtain(STATES * rows * 4);
    for (int f = 0; f < I2S_FAST_SETS; f++) {
        const char *name = i2s_fast_sets[f]->name;
        if (!i2s_fast_sets[f]->available()) continue;
        const int together = 1 + (int)(some() % STATES);
        i2s_head_job many = {.copy = h, .token = every, .x = states, .tokens = together, .set = set, .fast = i2s_fast_sets[f]};
        many.estimate = all[0];
        i2s_head_scan(&many, &shared, 1);
        many.estimate = all[1], many.upper = all[2], many.last = rows;
        i2s_head_scan(&many, &shared, 1);
        for (int how = 0; how < STATES; how++) {
            const i2s_head_token *token = every + how;
            const float *x = states + how * h->columns;
            i2s_head_job scan = {.copy = h, .token = token, .x = x, .tokens = 1, .set = set, .fast = i2s_fast_sets[f]};
            scan.estimate = whole;
            i2s_head_scan(&scan, &shared, 1); /* all rows are read */
            scan.estimate = estimate, scan.upper = upper, scan.last = rows;
            i2s_head_scan(&scan, &shared, 1);
            const float *const alone_is[3] = {whole, estimate, upper};
            for (int i = 0; i < 3 && how < together; i++)
                for (int64_t r = 0; r < rows; r++) {
                    const float *const found = all[i] + how * rows + r;
                    const int same = memcmp(found, alone_is[i] + r, 4) == 0 || (isnan(*found) && isnan(alone_is[i][r]));
                    check(same, "a token among others", set->name, name, kind, how);
                }
            int numbers = 1;
            for (int64_t r = 0; r < rows; r++) {
                check(!(whole[r] > upper[r]), "bound", set->name, name, kind, how);
                numbers = numbers && isfinite(whole[r]);
                ids[r] = r;
            }
            i2s_head_job alone = {.copy = h, .x = x, .tokens = 1, .fast = i2s_fast_sets[f], .ids = ids, .last = rows};
            float *z = obtain(rows * 4);
            alone.estimate = z;
            i2s_head_rows(&alone, &shared, 1);
            for (int64_t r = 0; r < rows; r++)
                check(memcmp(z + r, whole + r, 4) == 0 || isnan(z[r]), "a row alone", set->name, name, kind, how);
            const float least = z[best_of(estimate, rows)];
            int64_t count = 0;
            for (int64_t r = 0; r < rows; r++)
                if (!(upper[r] < least)) ids[count] = r, z[count++] = whole[r];
            if (numbers) check(ids[best_of(z, count)] == best_of(whole, rows), "the largest", set->name, name, kind, how);
            free(z);
        }
    }
    for (int i = 0; i < 3; i++) free(all[i]);
    free(states), free(whole), free(estimate), free(upper), free(codes), free(high), free(low), free(ids);
}

static i2s_head_copy room(const uint8_t *w, int64_t rows, int64_t columns) {
    const int64_t pitch = (columns + I2S_HEAD_COLUMNS - 1) / I2S_HEAD_COLUMNS * I2S_HEAD_COLUMNS;
    return (i2s_head_copy){w, rows, columns, pitch, obtain(rows * pitch), obtain(rows * 4), obtain(rows * 4), obtain(rows * 4),
                           obtain(rows * 4)};
}

static void leave(const i2s_head_copy *h) { free(h->codes), free(h->scale), free(h->most), free(h->error), free(h->norm); }

int main(int argc, char **argv) {
    const int times = argc > 1 ? atoi(argv[1]) : 80;
    for (int i = 0; i < times; i++) {
        const int kind = i % 8;
        const int64_t rows = 1 + some() % MOST_ROWS, columns = 1 + some() % MOST_COLUMNS;
        uint8_t *w = obtain(rows * columns * 2);
        fill_rows(w, rows, columns, kind);
        const i2s_head_copy first = room(w, rows, columns);
        i2s_head_sets[0].copy(&first, 0, rows);
        for (int s = 0; s < I2S_HEAD_SETS; s++) {
            if (!i2s_head_sets[s].available()) continue;
            const i2s_head_copy h = room(w, rows, columns);
            tokens(&i2s_head_sets[s], &h, &first, kind);
            leave(&h);
        }
        leave(&first);
        free(w);
    }
    for (int s = 0; s < I2S_HEAD_SETS; s++) printf("%s: %s\n", i2s_head_sets[s].name, i2s_head_sets[s].available() ? "runs" : "cannot run here");
    printf("%lu passed, %lu failed\n", passed, failed);
    return failed != 0;
}
