/* Runs every set of float kernels on random numbers and compares with sums of double, without Python.
 *
 * Every buffer is a separate allocation of exactly the size that a kernel may use, so that a sanitizer detects accesses
 * beyond it.
 * Prints one line for each set, and how many comparisons passed and failed. */
#include <stdio.h>
#include <stdlib.h>

#include "fast_kernels.h"

static unsigned long passed, failed;
static uint64_t state = 1;

static float some(void) { /* between -1 and 1, not evenly */
    state = state * 6364136223846793005u + 1442695040888963407u;
    const float f = (float)((int32_t)(state >> 33) - (1 << 30)) / (float)(1 << 30);
    return f * f * f;
}

static void *obtain(int64_t bytes) {
    void *p = malloc((size_t)(bytes > 0 ? bytes : 1));
    if (p == NULL) exit(2);
    return p;
}

static float *floats(int64_t n) {
    float *p = obtain(n * 4);
    for (int64_t i = 0; i < n; i++) p[i] = some();
    return p;
}

static void compare(const char *set, const char *what, int64_t n, double got, double want, double limit) {
    if ((isnan(got) && isnan(want)) || got == want || fabs(got - want) <= limit) {
        passed++;
        return;
    }
    failed++;
    printf("%s %s %ld: %.9g instead of %.9g\n", set, what, (long)n, got, want);
}

static double number(int kind, const uint8_t *p) {
    float f;
    uint16_t h;
    if (kind == I2S_F32) {
        memcpy(&f, p, 4);
        return f;
    }
    memcpy(&h, p, 2);
    if (kind == I2S_F16) return i2s_float_of_half(h);
    const uint32_t bits = (uint32_t)h << 16;
    memcpy(&f, &bits, 4);
    return f;
}

static void products(const i2s_fast_set *set, int kind, int64_t rows, int64_t columns, int64_t tokens) {
    const int64_t size = kind == I2S_F32 ? 4 : 2, pitch = columns * size;
    uint8_t *w = obtain(rows * pitch);
    for (int64_t i = 0; i < rows * columns; i++) {
        const float f = some();
        uint32_t bits;
        memcpy(&bits, &f, 4);
        const uint16_t h = kind == I2S_F16 ? i2s_half_of_float(f) : (uint16_t)(bits >> 16);
        memcpy(w + i * size, kind == I2S_F32 ? (const void *)&f : (const void *)&h, (size_t)size);
    }
    float *x = floats(tokens * columns), *out = floats(tokens * rows);
    set->dots(kind, w, rows, pitch, columns, x, columns, tokens, out, rows);
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t r = 0; r < rows; r++) {
            double sum = 0, size_of_it = 0;
            for (int64_t k = 0; k < columns; k++) {
                const double product = number(kind, w + (r * columns + k) * size) * x[t * columns + k];
                sum += product;
                size_of_it += fabs(product);
            }
            compare(set->name, "dots", columns, out[t * rows + r], sum, size_of_it * 1e-6);
        }
    free(w), free(x), free(out);
}

static void attention(const i2s_fast_set *set, int64_t rows, int64_t count, int64_t width) {
    float *p = floats(rows * count), *sums = floats(rows * width), *before = obtain(rows * width * 4);
    uint16_t *v = obtain(count * width * 2);
    float *wide = obtain(count * width * 4), *again = obtain(rows * width * 4);
    for (int64_t i = 0; i < count * width; i++) v[i] = i2s_half_of_float(some());
    memcpy(before, sums, (size_t)(rows * width) * 4);
    memcpy(again, sums, (size_t)(rows * width) * 4);
    set->weighted_sum(I2S_F16, p, count, rows, (const uint8_t *)v, width * 2, count, width, sums, width);
    set->widen(v, count * width, wide);
    for (int64_t s = 0; s < count; s += 5) /* in pieces, as floats: the same bits */
        set->weighted_sum(I2S_F32, p + s, count, rows, (const uint8_t *)(wide + s * width), width * 4,
                          s + 5 < count ? 5 : count - s, width, again, width);
    compare(set->name, "weighted_sum in pieces", count, memcmp(again, sums, (size_t)(rows * width) * 4), 0, 0);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c++) {
            double sum = before[r * width + c];
            for (int64_t s = 0; s < count; s++) sum += (double)p[r * count + s] * i2s_float_of_half(v[s * width + c]);
            compare(set->name, "weighted_sum", count, sums[r * width + c], sum, 1e-6 * (double)(count + 1));
        }
    free(wide), free(again);
    float *z = floats(count + 16), *scores = obtain((count + 16) * 4), most = 0.1f; /* room for a vector behind them */
    memcpy(scores, z, (size_t)count * 4);
    const float total = set->soft_max(z, count, 7.5f, &most);
    double top = 0.1f, want = 0;
    for (int64_t i = 0; i < count; i++) top = scores[i] * 7.5f > top ? scores[i] * 7.5f : top;
    compare(set->name, "most", count, most, top, 0);
    for (int64_t i = 0; i < count; i++) {
        compare(set->name, "share", count, z[i], exp((double)(scores[i] * 7.5f) - top), 1e-6);
        want += exp((double)(scores[i] * 7.5f) - top);
    }
    compare(set->name, "total", count, total, want, 1e-6 * (double)count);
    free(p), free(sums), free(before), free(v), free(z), free(scores);
}

/* Four rows of queries meet keys and values: the bits, but for totals, that products, soft_max and weighted_sum give one after the other. */
static void together(const i2s_fast_set *set, int64_t count, int64_t inner, int64_t value, float before, int64_t next) {
    const int64_t pitch = count + 16;
    uint16_t *keys = obtain(count * inner * 2), *values = obtain(count * value * 2);
    float *queries = floats(4 * inner), *scores = obtain(4 * pitch * 4), *sums = floats(4 * value);
    float *want = obtain(4 * value * 4), most[4], total[4], tops[4], totals[4];
    for (int64_t i = 0; i < count * inner; i++) keys[i] = i2s_half_of_float(some());
    for (int64_t i = 0; i < count * value; i++) values[i] = i2s_half_of_float(some());
    memcpy(want, sums, (size_t)(4 * value) * 4);
    set->dots(I2S_F16, (const uint8_t *)keys, count, inner * 2, inner, queries, inner, 4, scores, pitch);
    for (int r = 0; r < 4; r++) {
        most[r] = tops[r] = before - (float)r * 0.125f;
        total[r] = totals[r] = before == -INFINITY ? 0.0f : 1.5f;
        const float added = set->soft_max(scores + r * pitch, count, 1.25f, tops + r);
        if (tops[r] != most[r] && most[r] != -INFINITY) {
            const float less = expf(most[r] - tops[r]);
            totals[r] *= less;
            set->times(want + r * value, less, value, want + r * value);
        }
        totals[r] += added;
    }
    set->weighted_sum(I2S_F16, scores, pitch, 4, (const uint8_t *)values, value * 2, count, value, want, value);
    const i2s_attended all = {keys, values, inner, value, inner, value, count, (const char *)keys, (const char *)values, next};
    const i2s_state state = {sums, most, total};
    set->attend(&all, queries, 1.25f, &state);
    compare(set->name, "attend: sums", count, memcmp(sums, want, (size_t)(4 * value) * 4), 0, 0);
    compare(set->name, "attend: most", count, memcmp(most, tops, sizeof most), 0, 0);
    for (int r = 0; r < 4; r++) /* what is left of a total and what is added, the compiler may round once or twice */
        compare(set->name, "attend: total", count, total[r], totals[r], 1e-6 * totals[r]);
    free(keys), free(values), free(queries), free(scores), free(sums), free(want);
}

static void elements(const i2s_fast_set *set, int64_t n) {
    float *x = floats(n), *by = floats(n), *out = floats(n);
    uint16_t *halves = obtain(n * 2);
    double squares = 0;
    for (int64_t i = 0; i < n; i++) {
        x[i] *= 20;
        squares += (double)x[i] * x[i];
    }
    set->norm(x, by, n, 1e-5f, out);
    for (int64_t i = 0; i < n; i++)
        compare(set->name, "norm", n, out[i], x[i] / sqrt(squares / (double)n + 1e-5) * by[i], 1e-5);
    for (int kind = I2S_RELU; kind <= I2S_GELU; kind++) {
        set->activate(kind, x, by, n, out);
        for (int64_t i = 0; i < n; i++) {
            const double a = x[i], up = a > 0 ? a : 0, z = 0.7978845608028654 * (a + 0.044715 * a * a * a);
            const double want = kind == I2S_RELU     ? up
                                : kind == I2S_SQUARE ? a * a
                                : kind == I2S_RELU2  ? up * up
                                : kind == I2S_SILU   ? a / (1 + exp(-a))
                                                     : a / 2 * (1 + tanh(z));
            compare(set->name, "activate", kind, out[i], want * by[i], 1e-6 * (fabs(want) + 1));
        }
    }
    set->halve(x, n, halves);
    for (int64_t i = 0; i < n; i++) compare(set->name, "halve", n, halves[i], i2s_half_of_float(x[i]), 0);
    set->rotate(x, by, by, n / 2, 0, n, out);
    for (int64_t i = 0; i < n / 2; i++)
        compare(set->name, "rotate", n, out[i], ((double)x[i] - x[i + n / 2]) * by[i], 1e-5);
    set->rotate(x, by, by, n / 2, 1, n, out);
    for (int64_t i = 0; i < n / 2; i++)
        compare(set->name, "rotate", n, out[2 * i + 1], ((double)x[2 * i] + x[2 * i + 1]) * by[i], 1e-5);
    free(x), free(by), free(out), free(halves);
}

int main(void) {
    for (int i = 0; i < I2S_FAST_SETS; i++) {
        const i2s_fast_set *set = i2s_fast_sets[i];
        const int runs = set->available();
        printf("%s: %s\n", set->name, runs ? "runs" : "is not for this processor");
        if (!runs) continue;
        for (int kind = I2S_F32; kind <= I2S_BF16; kind++)
            for (int64_t rows = 1; rows < 10; rows += 2)
                for (int64_t tokens = 1; tokens < 8; tokens++)
                    for (int64_t columns = 1; columns < 80; columns += 13) products(set, kind, rows, columns, tokens);
        for (int kind = I2S_F32; kind <= I2S_BF16; kind++) { /* long rows of one token; the last more than 2 MiB of them */
            for (int64_t columns = 1024; columns < 1090; columns += 13) products(set, kind, 7, columns, 1);
            products(set, kind, 430, 2477, 1);
        }
        for (int64_t rows = 1; rows < 9; rows++)
            for (int64_t count = 1; count < 70; count += 17)
                for (int64_t width = 1; width < 140; width += 23) attention(set, rows, count, width);
        const int64_t widths[] = {1, 16, 37, 64, 100, 128, 140};
        const float befores[] = {-INFINITY, -2.0f, 0.0f, 100.0f};
        for (int64_t count = 1; count <= I2S_KEYS; count += count < 10 ? 1 : 9)
            for (int inner = 0; inner < 7; inner++)
                for (int value = 0; value < 7; value++)
                    for (int before = 0; before < 4; before++)
                        together(set, count, widths[inner], widths[value], befores[before], before % 2 ? count : count / 2);
        for (int64_t n = 1; n < 150; n++) elements(set, n);
        for (int half = 0; half < 65536; half++) { /* all of them, to floats and back */
            const uint16_t h = (uint16_t)half;
            const float one = 1;
            float f;
            uint16_t back;
            set->dots(I2S_F16, (const uint8_t *)&h, 1, 2, 1, &one, 1, 1, &f, 1);
            compare(set->name, "half", half, f, i2s_float_of_half(h), 0);
            set->halve(&f, 1, &back);
            if (!isnan(f) && f != 0) compare(set->name, "back", half, back, h, 0);
        }
    }
    printf("%lu passed, %lu failed\n", passed, failed);
    return failed != 0;
}
