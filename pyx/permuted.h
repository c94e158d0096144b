/* Ranks, and sums of products where one side is read in another order. Several sums run side by side, since each addition
 * waits for the one before it. */
#ifndef I2S_PERMUTED_H
#define I2S_PERMUTED_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline double i2s_permuted_product(const double *one, const double *other, const int32_t *places, int64_t n) {
    double a = 0, b = 0, c = 0, d = 0;
    int64_t j;
    for (j = 0; j + 4 <= n; j += 4) {
        a += one[j] * other[places[j]];
        b += one[j + 1] * other[places[j + 1]];
        c += one[j + 2] * other[places[j + 2]];
        d += one[j + 3] * other[places[j + 3]];
    }
    for (; j < n; j++) a += one[j] * other[places[j]];
    return (a + b) + (c + d);
}

/* Adds twice the products of `mine[places]` and `theirs`, and, if asked, of the squares of either, to `sums`. */
static inline void i2s_gram_row(const float *mine, const float *theirs, const int32_t *places, int64_t n, int squares,
                                double sums[3]) {
    float product[4] = {0}, square[4] = {0}, other[4] = {0};
    int64_t j = 0;
    int k;
    if (!squares)
        for (; j + 4 <= n; j += 4)
            for (k = 0; k < 4; k++) product[k] += mine[places[j + k]] * theirs[j + k];
    for (; j + 4 <= n; j += 4)
        for (k = 0; k < 4; k++) {
            const float value = mine[places[j + k]], their = theirs[j + k];
            product[k] += value * their;
            square[k] += value * value;
            other[k] += their * their;
        }
    for (; j < n; j++) {
        const float value = mine[places[j]], their = theirs[j];
        product[0] += value * their;
        square[0] += value * value;
        other[0] += their * their;
    }
    sums[0] += 2 * ((double)(product[0] + product[1]) + (product[2] + product[3]));
    sums[1] += 2 * ((double)(square[0] + square[1]) + (square[2] + square[3]));
    sums[2] += 2 * ((double)(other[0] + other[1]) + (other[2] + other[3]));
}

/* A product of ranks: exact, in whatever order it is added up. */
static inline double i2s_rank_product(const double *one, const double *other, int64_t n) {
    double sums[8] = {0};
    int64_t j = 0;
    int k;
    for (; j + 8 <= n; j += 8)
        for (k = 0; k < 8; k++) sums[k] += one[j + k] * other[j + k];
    for (; j < n; j++) sums[0] += one[j] * other[j];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/* The ranks of counts that are `most` at most, with mean 0, equals sharing one; how many different counts there are. `seen` has
 * most + 1 elements. */
static int64_t i2s_ranks(const uint32_t *counts, int64_t n, uint32_t most, uint32_t *seen, double *found) {
    int64_t before = 0, different = 0, i;
    uint32_t value;
    memset(seen, 0, ((size_t)most + 1) * sizeof *seen);
    for (i = 0; i < n; i++) seen[counts[i]]++;
    for (value = 0; value <= most; value++) {
        const uint32_t many = seen[value];
        different += many > 0;
        seen[value] = (uint32_t)(2 * before + many);  /* twice the middle of these, and less than 2^32 */
        before += many;
    }
    for (i = 0; i < n; i++) found[i] = ((double)seen[counts[i]] - (double)n) / 2;
    return different;
}

/* The ranks of floats likewise; 0 where one is not finite. `keys` has room for 2 n. Numbers are sorted by their bits, as
 * unsigned numbers in the order of the floats, eight at a time, with their places below. */
static int64_t i2s_float_ranks(const float *values, int64_t n, uint64_t *keys, double *found) {
    enum { DIGIT = 8, DIGITS = 1 << DIGIT };
    uint64_t *from = keys, *to = keys + n;
    int64_t i, stop, different = 0;
    int shift;
    for (i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        if ((bits & 0x7F800000u) == 0x7F800000u) return 0;
        if (bits == 0x80000000u) bits = 0;
        bits = bits >> 31 ? ~bits : bits | 0x80000000u;
        from[i] = (uint64_t)bits << 32 | (uint64_t)i;
    }
    for (shift = 32; shift < 64; shift += DIGIT) {
        uint64_t *kept = from;
        int64_t places[DIGITS] = {0}, at = 0;
        int digit;
        for (i = 0; i < n; i++) places[from[i] >> shift & (DIGITS - 1)]++;
        if (places[from[0] >> shift & (DIGITS - 1)] == n) continue;  /* all alike */
        for (digit = 0; digit < DIGITS; digit++) {
            const int64_t many = places[digit];
            places[digit] = at;
            at += many;
        }
        for (i = 0; i < n; i++) to[places[from[i] >> shift & (DIGITS - 1)]++] = from[i];
        from = to;
        to = kept;
    }
    for (i = 0; i < n; i = stop, different++) {
        int64_t k;
        for (stop = i + 1; stop < n && from[stop] >> 32 == from[i] >> 32;) stop++;
        for (k = i; k < stop; k++) found[from[k] & 0xFFFFFFFFu] = (double)(i + stop - n) / 2;
    }
    return different;
}

/* The scores of profiles against the columns of a matrix under hypotheses: `base` has the counts of n columns by their places,
 * `places` the place of each column. Where heads share a key head, `share` of them with `width` columns each, their columns
 * are summed. `others` has `many` profiles of n / share ranks. Returns 0 where a profile is almost constant: it has no ranks
 * worth comparing. `kept` has room for 2 n + many numbers, `counts` for n, `seen` for share times the largest count and 1. */
static int i2s_column_scores(const uint32_t *base, int64_t n, const int32_t *places, int64_t hypotheses, const double *others,
                             int64_t many, int64_t share, int64_t width, int64_t values, uint32_t *seen, uint32_t *counts,
                             double *kept, double *found) {
    const int64_t length = n / share;
    double *permuted = kept + n, *squares = kept + 2 * n, size = 0;
    uint32_t most = 0;
    int64_t h, i, k;
    if (share == 1) {
        for (i = 0; i < n; i++) most = base[i] > most ? base[i] : most;
        if (i2s_ranks(base, n, most, seen, kept) < values) return 0;
        size = i2s_rank_product(kept, kept, n);
    }
    for (k = 0; k < many; k++) squares[k] = i2s_rank_product(others + k * length, others + k * length, length);
    for (h = 0; h < hypotheses; h++, places += n) {
        const double *ranks = permuted;
        if (share == 1 && many > 1) {
            for (i = 0; i < n; i++) permuted[i] = kept[places[i]];
        } else if (share > 1) {
            int64_t head, s;
            memset(counts, 0, (size_t)length * sizeof *counts);
            for (head = 0; head * width < length; head++)
                for (s = 0; s < share; s++)
                    for (i = 0; i < width; i++) counts[head * width + i] += base[places[(head * share + s) * width + i]];
            for (most = 0, i = 0; i < length; i++) most = counts[i] > most ? counts[i] : most;
            if (i2s_ranks(counts, length, most, seen, permuted) < values) return 0;
            size = i2s_rank_product(permuted, permuted, length);
        }
        for (k = 0; k < many; k++) {
            const double *other = others + k * length;
            const double product = share == 1 && many == 1 ? i2s_permuted_product(other, kept, places, n)
                                                           : i2s_rank_product(other, ranks, length);
            found[k * hypotheses + h] = product / (sqrt(squares[k] * size) / sqrt((double)length - 1));
        }
    }
    return 1;
}

#endif
