/* The body of `permuted.h` for vectors of I2S_PERMUTED_BYTES; included once for each instruction set. */

typedef double I2S_PERMUTED(permuted_doubles) __attribute__((vector_size(I2S_PERMUTED_BYTES)));
typedef float I2S_PERMUTED(permuted_floats) __attribute__((vector_size(I2S_PERMUTED_BYTES)));
#define V I2S_PERMUTED(permuted_doubles)
#define F I2S_PERMUTED(permuted_floats)
#define I2S_PERMUTED_INLINE I2S_PERMUTED_TARGET static inline __attribute__((always_inline))

I2S_PERMUTED_INLINE double I2S_PERMUTED(permuted_sum)(const V sums[4]) {
    const V all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    double sum = 0;
    int k;
    for (k = 0; k < I2S_PERMUTED_BYTES / 8; k++) sum += all[k];
    return sum;
}

/* A product of ranks: exact in any order of additions. */
I2S_PERMUTED_TARGET static double I2S_PERMUTED(rank_product)(const double *one, const float *other, int64_t n) {
    enum { N = I2S_PERMUTED_BYTES / 4 };
    V sums[4] = {{0}};
    double rest = 0;
    int64_t j = 0;
    for (; j + 2 * N <= n; j += 2 * N) {
        F a, b;
        memcpy(&a, other + j, sizeof a);
        memcpy(&b, other + j + N, sizeof b);
        I2S_PERMUTED_ADD(sums, a, one + j);
        I2S_PERMUTED_ADD(sums + 2, b, one + j + N);
    }
    for (; j < n; j++) rest += one[j] * other[j];
    return I2S_PERMUTED(permuted_sum)(sums) + rest;
}

/* The same with one[j] and other[places[j]] of `size`. */
I2S_PERMUTED_TARGET static double I2S_PERMUTED(permuted_product)(const double *one, const float *other, int64_t size,
                                                                 const int32_t *places, int64_t n) {
    enum { N = I2S_PERMUTED_BYTES / 4 };
    V sums[4] = {{0}};
    double rest = 0;
    int64_t j = 0;
    for (; j + 2 * N <= n; j += 2 * N) {
        const F a = I2S_PERMUTED_TAKE(other, places + j, size), b = I2S_PERMUTED_TAKE(other, places + j + N, size);
        I2S_PERMUTED_ADD(sums, a, one + j);
        I2S_PERMUTED_ADD(sums + 2, b, one + j + N);
    }
    for (; j < n; j++) rest += one[j] * other[places[j]];
    return I2S_PERMUTED(permuted_sum)(sums) + rest;
}

/* to[j] = from[places[j]] */
I2S_PERMUTED_TARGET static void I2S_PERMUTED(permute)(const float *from, int64_t size, const int32_t *places, int64_t n,
                                                      float *to) {
    enum { N = I2S_PERMUTED_BYTES / 4 };
    int64_t j = 0;
    for (; j + N <= n; j += N) {
        const F v = I2S_PERMUTED_TAKE(from, places + j, size);
        memcpy(to + j, &v, sizeof v);
    }
    for (; j < n; j++) to[j] = from[places[j]];
}

/* The sum of squares of ranks. */
I2S_PERMUTED_TARGET static double I2S_PERMUTED(rank_square)(const float *ranks, int64_t n) {
    double sums[8] = {0};
    int64_t j = 0;
    int k;
    for (; j + 8 <= n; j += 8)
        for (k = 0; k < 8; k++) sums[k] += (double)ranks[j + k] * ranks[j + k];
    for (; j < n; j++) sums[0] += (double)ranks[j] * ranks[j];
    for (k = 1; k < 8; k++) sums[0] += sums[k];
    return sums[0];
}

/* The scores of profiles against the columns of a matrix under the hypotheses from `first` to `stop`: `base` has the
 * counts of n columns by their places, `places` the place of each column, or only those of the first block if all
 * blocks `repeat` it. If `share` heads of `width` columns each share a key head, their columns are summed. `others` has
 * `many` profiles of n / share ranks; `found` [many, hypotheses] gets the scores. Returns 0 if a profile is almost
 * constant, since its ranks are not meaningful. `kept` has room for (2 + many) n numbers, `counts` for n, `squares` for
 * `many`, `seen` for four of each count up to `share` times the largest. Columns are processed in blocks, which stay in
 * the first-level cache under all hypotheses. */
I2S_PERMUTED_TARGET static int I2S_PERMUTED(column_scores)(const uint32_t *base, int64_t n, const int32_t *places, int repeat,
                                                           int64_t hypotheses, int64_t first, int64_t stop,
                                                           const double *others, int64_t many, int64_t share, int64_t width,
                                                           int64_t values, uint32_t *seen, uint32_t *counts, float *kept,
                                                           double *squares, double *found) {
    enum { BLOCK = 512 };
    const int64_t length = n / share, row = repeat ? I2S_REPEATS : n;
    float *permuted = kept + n;
    int32_t filled[BLOCK];
    double size;
    int64_t h, i, k, at;
    if (first >= stop) return 1;
#ifdef I2S_PERMUTED_SHORT
    if (share == 1 && repeat && n <= I2S_SHORT_MOST) {
        int16_t *shorts = (int16_t *)kept, *theirs = shorts + n;
        int all = i2s_shorts_of_ranks(others, many * n, theirs);
        for (h = first; h < stop; h++) all &= i2s_short_within(places + h * row);
        if (all) {
            if (i2s_ranks_as_shorts(base, n, seen, shorts) < values) return 0;
            size = i2s_short_square(shorts, n);
            for (h = first; h < stop; h++)
                i2s_short_products(shorts, n, places + h * row, theirs, many, hypotheses, found + h);
            for (k = 0; k < many; k++) {
                const double by = sqrt(i2s_short_square(theirs + k * n, n) * size) / sqrt((double)length - 1);
                for (h = first; h < stop; h++) found[k * hypotheses + h] /= by;
            }
            return 1;
        }
    }
#endif
    for (k = 0; k < many; k++) {
        const double *other = others + k * length;
        double sums[8] = {0};
        for (at = 0; at + 8 <= length; at += 8)
            for (i = 0; i < 8; i++) sums[i] += other[at + i] * other[at + i];
        for (; at < length; at++) sums[0] += other[at] * other[at];
        for (squares[k] = 0, i = 0; i < 8; i++) squares[k] += sums[i];
    }
    if (share == 1) {
        if (i2s_short_ranks(base, n, seen, kept) < values) return 0;
        size = I2S_PERMUTED(rank_square)(kept, n);
        for (k = 0; k < many; k++)
            for (h = first; h < stop; h++) found[k * hypotheses + h] = 0;
        for (at = 0; at < n; at += BLOCK) {
            const int64_t now = n - at < BLOCK ? n - at : BLOCK;
            for (h = first; h < stop; h++) {
                const int32_t *order = repeat ? filled : places + h * row + at;
                if (repeat) i2s_places_of_blocks(places + h * row, n, at, now, filled);
                if (many == 1) {
                    found[h] += I2S_PERMUTED(permuted_product)(others + at, kept, n, order, now);
                    continue;
                }
                I2S_PERMUTED(permute)(kept, n, order, now, permuted);
                for (k = 0; k < many; k++)
                    found[k * hypotheses + h] += I2S_PERMUTED(rank_product)(others + k * length + at, permuted, now);
            }
        }
        for (k = 0; k < many; k++)
            for (h = first; h < stop; h++)
                found[k * hypotheses + h] /= sqrt(squares[k] * size) / sqrt((double)length - 1);
        return 1;
    }
    for (h = first; h < stop; h++) {
        int64_t to = 0, in = 0, heads = 0;  /* the current column, its place in a head, and heads of one group so far */
        memset(counts, 0, (size_t)length * sizeof *counts);
        for (at = 0; at < n; at += BLOCK) {
            const int64_t now = n - at < BLOCK ? n - at : BLOCK;
            const int32_t *order = repeat ? filled : places + h * row + at;
            if (repeat) i2s_places_of_blocks(places + h * row, n, at, now, filled);
            for (i = 0; i < now;) {
                const int64_t part = width - in < now - i ? width - in : now - i;
                for (k = 0; k < part; k++) counts[to + k] += base[order[i + k]];
                i += part;
                to += part;
                if ((in += part) < width) continue;
                in = 0;
                if (++heads < share) to -= width;
                else heads = 0;
            }
        }
        if (i2s_short_ranks(counts, length, seen, permuted) < values) return 0;
        size = I2S_PERMUTED(rank_square)(permuted, length);
        for (k = 0; k < many; k++) {
            const double product = I2S_PERMUTED(rank_product)(others + k * length, permuted, length);
            found[k * hypotheses + h] = product / (sqrt(squares[k] * size) / sqrt((double)length - 1));
        }
    }
    return 1;
}

/* Some rows of `gram_products_of`, from row i on, which all end in one vector of columns: places are loaded once for
 * all. */
I2S_PERMUTED_INLINE void I2S_PERMUTED(gram_products_rows)(const float *one, int64_t width, const float *const others[2],
                                                          int64_t step, const int32_t *places, int64_t n, int64_t i,
                                                          const int many, const int squares,
                                                          double sums[5][I2S_PERMUTED_BYTES / 4]) {
    enum { N = I2S_PERMUTED_BYTES / 4, MOST = I2S_PERMUTED_ROWS };
    const int64_t left = i / N * N, stop = left + N < n ? left + N : n;
    const int parts = squares ? 5 : 2;
    const float *mine[MOST];
    F of[5][MOST] = {{{0}}}, values[MOST];
    int64_t j;
    int k, sum, row;
    for (row = 0; row < many; row++) mine[row] = one + places[i + row] * width;
    for (j = 0; j + N <= n && j <= left; j += N) {
        if (j == left) {
            for (sum = 0; sum < parts; sum++)
                for (row = 0; row < many; row++) of[sum][row] += of[sum][row];
        }
        I2S_PERMUTED_TAKE_ROWS(values, mine, many, places + j, width);
        for (row = 0; row < many; row++) {
            F first, second;
            memcpy(&first, others[0] + (i + row) * step + j, sizeof first);
            memcpy(&second, others[1] + (i + row) * step + j, sizeof second);
            of[0][row] += values[row] * first;
            of[1][row] += values[row] * second;
            if (squares) {
                of[2][row] += values[row] * values[row];
                of[3][row] += first * first;
                of[4][row] += second * second;
            }
        }
    }
    if (j <= left) {  /* less than a vector remains, along the diagonal */
        for (sum = 0; sum < parts; sum++)
            for (row = 0; row < many; row++) of[sum][row] += of[sum][row];
        for (row = 0; row < many; row++)
            for (j = left; j < stop; j++) {
                const double value = mine[row][places[j]], first = others[0][(i + row) * step + j];
                const double second = others[1][(i + row) * step + j];
                sums[0][0] += value * first;
                sums[1][0] += value * second;
                sums[2][0] += value * value;
                sums[3][0] += first * first;
                sums[4][0] += second * second;
            }
    }
    for (sum = 0; sum < parts; sum++) {
        for (row = 1; row < many; row++) of[sum][0] += of[sum][row];
        for (k = 0; k < N; k++) sums[sum][k] += of[sum][0][k];
    }
}

/* Sums over the rows and columns `places` of `one`, whose rows are `width` apart, and the first n of two `others`,
 * whose rows are `step` apart: of the products with the elements of either, and, on request, of the squares of each of
 * the three. All are symmetric, with 0 on the diagonal: elements left of the squares along the diagonal count twice. */
I2S_PERMUTED_TARGET static void I2S_PERMUTED(gram_products_of)(const float *one, int64_t width, const float *const others[2],
                                                               int64_t step, const int32_t *places, int64_t n, int squares,
                                                               double sums[5]) {
    enum { N = I2S_PERMUTED_BYTES / 4, ROWS = I2S_PERMUTED_ROWS };
    double rows[5][N] = {{0}};
    int64_t i = 0;
    int k, sum;
    for (; i + ROWS <= n; i += ROWS) {
        if (squares) I2S_PERMUTED(gram_products_rows)(one, width, others, step, places, n, i, ROWS, 1, rows);
        else I2S_PERMUTED(gram_products_rows)(one, width, others, step, places, n, i, ROWS, 0, rows);
    }
    for (; i < n; i++) I2S_PERMUTED(gram_products_rows)(one, width, others, step, places, n, i, 1, squares, rows);
    for (sum = 0; sum < 5; sum++)
        for (k = 0; k < N; k++) sums[sum] += rows[sum][k];
}

#undef V
#undef F
#undef I2S_PERMUTED_INLINE
#undef I2S_PERMUTED_BYTES
#undef I2S_PERMUTED_SHORT
#undef I2S_PERMUTED_TAKE_ROWS
#undef I2S_PERMUTED
#undef I2S_PERMUTED_TARGET
#undef I2S_PERMUTED_TAKE
#undef I2S_PERMUTED_ADD
