/* The body of `grams.h`, which compilers vectorize; included once for each instruction set. A set whose vectors are not
 * bytes defines its own versions of the functions that depend on this, and I2S_GRAM_OF_PLANES. */

#ifndef I2S_GRAM_OF_PLANES
/* The trits of one pair of bits of n bytes; `table` has that of each code. */
I2S_GRAM_TARGET static inline void I2S_GRAM(gram_spread)(const uint8_t *p, int64_t n, int pair, const int8_t table[4],
                                                         int8_t *out) {
    const int8_t first = table[0], low = (int8_t)(table[1] - first), high = (int8_t)(table[2] - first);
    const int8_t both = (int8_t)(table[3] - table[1] - table[2] + first);
    int64_t i;
    for (i = 0; i < n; i++) {
        const uint8_t code = (uint8_t)(p[i] >> 2 * pair);
        const int8_t one = (int8_t)-(code & 1), two = (int8_t)-(code >> 1 & 1);
        out[i] = (int8_t)(first + (one & low) + (two & high) + (one & two & both));
    }
}

/* The trits of a rectangle of n bytes in each of `rows` rows, `stride` apart, as vectors of `room` elements each.
 *
 * Down the columns a vector is a place: a pair of bits where bytes hold four places of one row (`mixed` is 0; the least pair
 * is the first place), else a byte, which holds four rows. Along the rows it is a row: of bytes, or of a pair of bits (the
 * greatest is the first row). `turned` has room for rows * n bytes. The order within a vector does not matter. */
I2S_GRAM_TARGET static void I2S_GRAM(gram_trits)(const uint8_t *data, int64_t rows, int64_t stride, int64_t n, int down,
                                                 int mixed, const int8_t table[4], int64_t room, int8_t *out,
                                                 uint8_t *turned) {
    const int64_t vectors = down ? n : rows, length = down ? rows : n;
    int64_t v, i;
    int pair;
    if (down)
        for (i = 0; i < rows; i += 8)
            for (v = 0; v < n; v += 8)
                i2s_gram_turn_bytes(data + i * stride + v, rows - i, stride, n - v, turned + v * rows + i, rows);
    for (v = 0; v < vectors; v++) {
        const uint8_t *p = down ? turned + v * rows : data + v * stride;
        const int apart = down != mixed;  /* each pair is a separate vector, or the next part of one */
        for (pair = 0; pair < 4; pair++)
            I2S_GRAM(gram_spread)(p, length, mixed ? 3 - pair : pair, table,
                                  apart ? out + (4 * v + pair) * room : out + v * room + pair * length);
        if (apart) {
            for (pair = 0; pair < 4; pair++) memset(out + (4 * v + pair) * room + length, 0, (size_t)(room - length));
        } else memset(out + v * room + 4 * length, 0, (size_t)(room - 4 * length));
    }
}

/* The sums of vectors, and their means. */
I2S_GRAM_TARGET static inline void I2S_GRAM(gram_means)(const int8_t *vectors, int64_t n, int64_t length, int64_t room,
                                                        double *means, double *sums) {
    int64_t i, j;
    for (i = 0; i < n; i++) {
        int16_t sum = 0;
        for (j = 0; j < room; j++) sum = (int16_t)(sum + vectors[i * room + j]);
        sums[i] = sum;
        means[i] = sum / (double)length;
    }
}
#endif

/* The lower triangle of a square matrix, each number less `mean`, and the upper one from it; in squares, which stay in the cache. */
I2S_GRAM_TARGET static inline void I2S_GRAM(gram_mirror)(float *out, int64_t n, float mean) {
    enum { SQUARE = 16 };
    int64_t i, j, row, to;
    for (i = 0; i < n; i += SQUARE)
        for (j = 0; j <= i; j += SQUARE) {
            if (j < i && i + SQUARE <= n && I2S_GRAM_TURN(out + i * n + j, out + j * n + i, n, mean)) continue;
            for (row = i; row < n && row < i + SQUARE; row++) {
                to = row < j + SQUARE ? row : j + SQUARE;
                for (int64_t col = j; col < to; col++) out[col * n + row] = out[row * n + col] -= mean;
            }
        }
}

/* The Gram of n vectors of `length` elements with `room` for each: less the means, whole, in floats. `means` has room for
 * four times n numbers. */
I2S_GRAM_TARGET static void I2S_GRAM(gram)(const int8_t *vectors, int64_t n, int64_t length, int64_t room, int32_t *products,
                                           double *means, float *out) {
    double *sums = means + n;
    int64_t i, j;
    I2S_GRAM(gram_products)(vectors, n, room, products);
    I2S_GRAM(gram_means)(vectors, n, length, room, means, sums);
    for (i = 0; i < n; i++) {
        const double sum = sums[i], more = I2S_GRAM_FIRST * sum;  /* whole numbers: exact in any order */
        for (j = 0; j <= i; j++)
            out[i * n + j] = (float)(products[i * n + j] - more - I2S_GRAM_MORE * sums[j] - sum * means[j]);
    }
    I2S_GRAM(gram_mirror)(out, n, 0);
}

/* The same as correlations, which `gram_correlations` makes of a Gram. Floats will do, since all are of one size. */
I2S_GRAM_TARGET static void I2S_GRAM(gram_correlated)(const int8_t *vectors, int64_t n, int64_t length, int64_t room,
                                                      int32_t *products, double *means, float *out) {
    enum { LANES = 32 };
    double *sums = means + n, lanes[LANES] = {0}, total = 0;
    float *of_means = (float *)(sums + n), *of_sums = of_means + n, *inverse = of_sums + n;
    int64_t i, j;
    int k;
    I2S_GRAM(gram_products)(vectors, n, room, products);
    I2S_GRAM(gram_means)(vectors, n, length, room, means, sums);
    for (i = 0; i < n; i++) {
        const double size = products[i * n + i] - (I2S_GRAM_FIRST + I2S_GRAM_MORE) * sums[i] - sums[i] * means[i];
        inverse[i] = size > 0 ? (float)(1 / sqrt(size)) : 0;
        of_means[i] = (float)means[i];
        of_sums[i] = (float)sums[i];
    }
    for (i = 0; i < n; i++) {
        const float sum = of_sums[i], more = I2S_GRAM_FIRST * sum, own = inverse[i];
        const int32_t *product = products + i * n;
        const int64_t whole = (i + LANES - 1) / LANES * LANES, stop = whole <= n ? whole : i;
        float of_row[LANES] = {0}, *row = out + i * n;
        for (j = 0; j < i; j++)
            row[j] = (product[j] - more - I2S_GRAM_TOO_MUCH(of_sums[j]) - sum * of_means[j]) * inverse[j] * own;
        for (; j < stop; j++) row[j] = 0;  /* zeros for whole vectors, since the mirror writes there later */
        for (j = 0; j + LANES <= stop; j += LANES)
            for (k = 0; k < LANES; k++) of_row[k] += row[j + k];
        for (k = 0; j < i; j++) of_row[k++] += row[j];
        for (k = 0; k < LANES; k++) lanes[k] += of_row[k];
        row[i] = 0;
    }
    for (k = 0; k < LANES; k++) total += lanes[k];
    I2S_GRAM(gram_mirror)(out, n, (float)(n > 1 ? 2 * total / ((double)n * (double)(n - 1)) : 0));
    for (i = 0; i < n; i++) out[i * n + i] = 0;
}

/* Products as correlations: 0 on the diagonal and for vectors that are constant, and summing up to 0. */
I2S_GRAM_TARGET static void I2S_GRAM(gram_correlations)(const float *products, int64_t n, double *inverse, float *out) {
    const double pairs = n > 1 ? (double)n * (double)(n - 1) : 1;
    double mean = 0;
    int64_t i, j;
    for (i = 0; i < n; i++) inverse[i] = products[i * n + i] > 0 ? 1 / sqrt((double)products[i * n + i]) : 0;
    for (i = 0; i < n; i++) {
        double sums[4] = {0};
        for (j = 0; j + 4 <= i; j += 4) {
            int k;
            for (k = 0; k < 4; k++) sums[k] += products[i * n + j + k] * inverse[j + k];
        }
        for (; j < i; j++) sums[0] += products[i * n + j] * inverse[j];
        mean += (sums[0] + sums[1] + sums[2] + sums[3]) * inverse[i];
    }
    mean = 2 * mean / pairs;
    for (i = 0; i < n; i++) {
        for (j = 0; j < n; j++) out[i * n + j] = (float)(products[i * n + j] * inverse[i] * inverse[j] - mean);
        out[i * n + i] = 0;
    }
}

#undef I2S_GRAM
#undef I2S_GRAM_MORE
#undef I2S_GRAM_FIRST
#undef I2S_GRAM_TURN
#undef I2S_GRAM_TARGET
