/* Sums of products where one side is read in another order. Several sums run side by side, since each addition waits for the
 * one before it. */
#ifndef I2S_PERMUTED_H
#define I2S_PERMUTED_H

#include <stdint.h>

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

/* Adds the products of `mine[places]` and `theirs`, and the squares of either, to `sums`. */
static inline void i2s_gram_row(const float *mine, const float *theirs, const int32_t *places, int64_t n, double sums[3]) {
    float product[4] = {0}, square[4] = {0}, other[4] = {0};
    int64_t j;
    int k;
    for (j = 0; j + 4 <= n; j += 4)
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
    sums[0] += (product[0] + product[1]) + (product[2] + product[3]);
    sums[1] += (square[0] + square[1]) + (square[2] + square[3]);
    sums[2] += (other[0] + other[1]) + (other[2] + other[3]);
}

#endif
