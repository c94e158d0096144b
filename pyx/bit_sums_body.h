/* The body of `bit_sums.h` for vectors of I2S_SUMS_BYTES; included once for each instruction set. */

typedef uint64_t I2S_SUMS(sums_vector) __attribute__((vector_size(I2S_SUMS_BYTES)));
#define V I2S_SUMS(sums_vector)
#define I2S_SUMS_INLINE I2S_SUMS_TARGET static inline __attribute__((always_inline))

/* The next vector, of which only n bytes may be there; the others are 0. */
I2S_SUMS_INLINE V I2S_SUMS(sums_load)(const uint8_t *p, int64_t n) {
    V v = {0};
    if (n >= I2S_SUMS_BYTES)
        memcpy(&v, p, I2S_SUMS_BYTES);
    else if (n > 0)
        memcpy(&v, p, (size_t)n);
    return v;
}

/* Eight vectors, `step` bytes apart; one by one, since half of a vector that was just written cannot be read with the other. */
I2S_SUMS_INLINE void I2S_SUMS(sums_take)(V v[8], const uint8_t *p, int64_t step) {
    int k;
I2S_UNROLLED
    for (k = 0; k < 8; k++) memcpy(&v[k], p + k * step, I2S_SUMS_BYTES);
}

I2S_SUMS_INLINE void I2S_SUMS(sums_put)(uint8_t *p, int64_t step, const V v[8]) {
    int k;
I2S_UNROLLED
    for (k = 0; k < 8; k++) memcpy(p + k * step, &v[k], I2S_SUMS_BYTES);
}

/* One bit for each pair of two vectors: those of the first in the lower bits of pairs. A bit that crosses into the next byte
 * is masked. */
I2S_SUMS_INLINE V I2S_SUMS(sums_joined)(V first, V second, int either) {
    const V lower = (V){0} + 0x5555555555555555u;
    second = either ? second | second << 1 : second << 1;
    if (either) first |= first >> 1;
    return (first & lower) | (second & ~lower);
}

/* Add eight vectors to the planes. */
I2S_SUMS_INLINE void I2S_SUMS(sums_eight)(V planes[I2S_PLANES], const V v[8]) {
    V two_a, two_b, two_c, two_d, four_a, four_b, carry, one = planes[0], two = planes[1], four = planes[2];
    int k;
    I2S_CSA(V, two_a, one, one, v[0], v[1]);
    I2S_CSA(V, two_b, one, one, v[2], v[3]);
    I2S_CSA(V, two_c, one, one, v[4], v[5]);
    I2S_CSA(V, two_d, one, one, v[6], v[7]);
    I2S_CSA(V, four_a, two, two, two_a, two_b);
    I2S_CSA(V, four_b, two, two, two_c, two_d);
    I2S_CSA(V, carry, four, four, four_a, four_b);
    planes[0] = one;
    planes[1] = two;
    planes[2] = four;
I2S_UNROLLED
    for (k = 3; k < I2S_PLANES; k++) {
        const V next = planes[k] & carry;
        planes[k] ^= carry;
        carry = next;
    }
}

/* Bit k of byte i in `high`, whose place is above that in `low` by `by` bits, changes places with that of `low`. */
#define I2S_SUMS_SWAP(low, high, by, mask)                                                                              \
    do {                                                                                                                \
        const V i2s_t = ((low) >> (by) ^ (high)) & (mask);                                                              \
        (high) ^= i2s_t;                                                                                                \
        (low) ^= i2s_t << (by);                                                                                         \
    } while (0)

/* Planes to bytes: byte i of vector b is the counter of bit b of byte i. Planes from `used` on are 0. */
I2S_SUMS_INLINE void I2S_SUMS(sums_bytes)(V p[I2S_PLANES], int used) {
    const V one = (V){0} + 0x5555555555555555u, two = (V){0} + 0x3333333333333333u, four = (V){0} + 0x0F0F0F0F0F0F0F0Fu;
    int k;
I2S_UNROLLED
    for (k = used; k < I2S_PLANES; k++) p[k] = (V){0};
I2S_UNROLLED
    for (k = 0; k < 8; k += 2) I2S_SUMS_SWAP(p[k], p[k + 1], 1, one);
I2S_UNROLLED
    for (k = 0; k < 8; k++)
        if (!(k & 2)) I2S_SUMS_SWAP(p[k], p[k + 2], 2, two);
I2S_UNROLLED
    for (k = 0; k < 4; k++) I2S_SUMS_SWAP(p[k], p[k + 4], 4, four);
}

/* Add the planes of one vector to the counters of its bytes, n of them: `counts[pair * width]`. */
I2S_SUMS_TARGET static void I2S_SUMS(sums_spill)(V planes[I2S_PLANES], int64_t n, uint32_t *counts, int64_t width) {
    uint8_t bytes[I2S_PLANES][I2S_SUMS_BYTES];
    int64_t i;
    int pair;
    I2S_SUMS(sums_bytes)(planes, I2S_PLANES);
    I2S_SUMS(sums_put)(bytes[0], I2S_SUMS_BYTES, planes);
    for (pair = 0; pair < 4; pair++, counts += width) {
        const uint8_t *low = bytes[2 * pair], *high = bytes[2 * pair + 1];
        if (n == I2S_SUMS_BYTES)
            for (i = 0; i < I2S_SUMS_BYTES; i++) counts[i] += (uint32_t)low[i] + high[i];
        else
            for (i = 0; i < n; i++) counts[i] += (uint32_t)low[i] + high[i];
    }
}

/* Add the planes of one vector to eight counters, one for each bit. */
I2S_SUMS_INLINE void I2S_SUMS(sums_fold)(V planes[I2S_PLANES], int used, uint64_t counts[2]) {
    V half[2];
    int b, h, j;
    I2S_SUMS(sums_bytes)(planes, used);
I2S_UNROLLED
    for (h = 0; h < 2; h++) {
        half[h] = (V){0};
I2S_UNROLLED
        for (b = 0; b < 4; b++) half[h] |= I2S_SUMS_SAD(V, planes[4 * h + b]) << (16 * b);
I2S_UNROLLED
        for (j = 0; j < I2S_SUMS_BYTES / 8; j++) counts[h] += half[h][j];  /* at most 64 * 255 in 16 bits */
    }
}

/* Count along one segment of joined rows; `first` and `second` are the counters of its rows, `step` apart by pair. */
I2S_SUMS_INLINE void I2S_SUMS(sums_along)(const uint8_t *p, int64_t segment, uint32_t *first, uint32_t *second, int64_t step) {
    enum { N = I2S_SUMS_BYTES };
    uint32_t totals[8] = {0};
    int64_t c = 0;
    int j, b;
    while (c < segment) {
        const int64_t stop = segment - c < 248 * N ? segment : c + 248 * N;
        const int64_t most = (stop - c + N - 1) / N;
        uint64_t counts[2] = {0};
        V planes[I2S_PLANES] = {{0}}, v[8];
        for (; c + 8 * N <= stop; c += 8 * N) {
            I2S_SUMS(sums_take)(v, p + c, N);
            I2S_SUMS(sums_eight)(planes, v);
        }
        if (c < stop) {
I2S_UNROLLED
            for (j = 0; j < 8; j++) v[j] = I2S_SUMS(sums_load)(p + c + j * N, stop - c - j * N);
            I2S_SUMS(sums_eight)(planes, v);
            c = stop;
        }
        if (most < 16) I2S_SUMS(sums_fold)(planes, 4, counts);
        else if (most < 32) I2S_SUMS(sums_fold)(planes, 5, counts);
        else if (most < 64) I2S_SUMS(sums_fold)(planes, 6, counts);
        else I2S_SUMS(sums_fold)(planes, I2S_PLANES, counts);
I2S_UNROLLED
        for (b = 0; b < 8; b++) totals[b] += (uint32_t)(counts[b / 4] >> (16 * (b % 4)) & 0xFFFF);
    }
I2S_UNROLLED
    for (b = 0; b < 8; b += 2) {
        first[b / 2 * step] = totals[b];
        if (second) second[b / 2 * step] = totals[b + 1];
    }
}

I2S_SUMS_INLINE void I2S_SUMS(sums_of)(const uint8_t *data, int64_t rows, int64_t width, int64_t segment, int either,
                                       uint32_t *columns, uint32_t *segments, int64_t step, uint8_t *scratch) {
    enum { N = I2S_SUMS_BYTES };
    const int64_t vectors = (width + N - 1) / N, stretches = width / segment;
    uint8_t *joined = scratch + vectors * I2S_PLANES * N;
    int64_t r, s, v, held = 0;
    V planes[I2S_PLANES], eight[8];
    int k;
    memset(scratch, 0, (size_t)(vectors * I2S_PLANES * N));
    for (r = 0; r < rows; r += 16, data += 16 * width) {
        const int64_t now = rows - r < 16 ? rows - r : 16;
        for (v = 0; v < vectors; v++) {
            const uint8_t *p = data + v * N;
            const int64_t n = width - v * N;
            if (now == 16 && n >= N) {
I2S_UNROLLED
                for (k = 0; k < 8; k++)
                    eight[k] = I2S_SUMS(sums_joined)(I2S_SUMS(sums_load)(p + 2 * k * width, N),
                                                     I2S_SUMS(sums_load)(p + (2 * k + 1) * width, N), either);
            } else {
I2S_UNROLLED
                for (k = 0; k < 8; k++)
                    eight[k] = I2S_SUMS(sums_joined)(I2S_SUMS(sums_load)(p + 2 * k * width, 2 * k < now ? n : 0),
                                                     I2S_SUMS(sums_load)(p + (2 * k + 1) * width, 2 * k + 1 < now ? n : 0),
                                                     either);
            }
            I2S_SUMS(sums_put)(joined + v * N, vectors * N, eight);
            I2S_SUMS(sums_take)(planes, scratch + v * I2S_PLANES * N, N);
            I2S_SUMS(sums_eight)(planes, eight);
            I2S_SUMS(sums_put)(scratch + v * I2S_PLANES * N, N, planes);
        }
        for (k = 0; 2 * k < now; k++)
            for (s = 0; s < stretches; s++) {
                uint32_t *first = segments + (r + 2 * k) * stretches + s;
                I2S_SUMS(sums_along)(joined + k * vectors * N + s * segment, segment, first,
                                     2 * k + 1 < now ? first + stretches : NULL, step);
            }
        if ((held += 8) > 255 - 8 || r + 16 >= rows) {
            for (v = 0; v < vectors; v++) {
                I2S_SUMS(sums_take)(planes, scratch + v * I2S_PLANES * N, N);
                I2S_SUMS(sums_spill)(planes, width - v * N < N ? width - v * N : N, columns + v * N, width);
            }
            memset(scratch, 0, (size_t)(vectors * I2S_PLANES * N));
            held = 0;
        }
    }
}

/* A matrix of `rows` rows of `width` bytes: columns[pair * width + c] grows by how many rows have that pair of column c set;
 * segments[pair * step + s] becomes how many bytes of the s-th stretch of `segment` bytes have it set. A pair is set where its
 * lower bit is, or `either`. `width` is a multiple of `segment`. `scratch` has 2 * I2S_PLANES * (width + I2S_MOST_BYTES)
 * bytes. */
I2S_SUMS_TARGET static void I2S_SUMS(bit_sums)(const uint8_t *data, int64_t rows, int64_t width, int64_t segment, int either,
                                               uint32_t *columns, uint32_t *segments, int64_t step, uint8_t *scratch) {
    if (either) I2S_SUMS(sums_of)(data, rows, width, segment, 1, columns, segments, step, scratch);
    else I2S_SUMS(sums_of)(data, rows, width, segment, 0, columns, segments, step, scratch);
}

#undef V
#undef I2S_SUMS_INLINE
#undef I2S_SUMS_SWAP
#undef I2S_SUMS_BYTES
#undef I2S_SUMS_SAD
#undef I2S_SUMS
#undef I2S_SUMS_TARGET
