/* The body of `bit_sums.h` for vectors of I2S_SUMS_BYTES; included once for each instruction set. */

typedef uint64_t I2S_SUMS(sums_vector) __attribute__((vector_size(I2S_SUMS_BYTES)));
#define V I2S_SUMS(sums_vector)

/* The next vector, of which only n bytes may be there; the others are 0. */
I2S_SUMS_TARGET static inline V I2S_SUMS(sums_load)(const uint8_t *p, int64_t n) {
    V v = {0};
    if (n >= I2S_SUMS_BYTES)
        memcpy(&v, p, I2S_SUMS_BYTES);
    else
        memcpy(&v, p, (size_t)n);
    return v;
}

/* Add a vector of weight 2^from to the planes. */
I2S_SUMS_TARGET static inline void I2S_SUMS(sums_carry)(V planes[I2S_PLANES], V carry, int from) {
    int k;
    for (k = from; k < I2S_PLANES; k++) {
        const V next = planes[k] & carry;
        planes[k] ^= carry;
        carry = next;
    }
}

/* Add eight vectors to the planes; they lie `step` bytes apart, and of each `n` bytes are there. */
I2S_SUMS_TARGET static inline void I2S_SUMS(sums_eight)(V planes[I2S_PLANES], const uint8_t *p, int64_t step, int64_t n) {
    V two_a, two_b, two_c, two_d, four_a, four_b, eight, one = planes[0], two = planes[1], four = planes[2];
    I2S_CSA(V, two_a, one, one, I2S_SUMS(sums_load)(p, n), I2S_SUMS(sums_load)(p + step, n));
    I2S_CSA(V, two_b, one, one, I2S_SUMS(sums_load)(p + 2 * step, n), I2S_SUMS(sums_load)(p + 3 * step, n));
    I2S_CSA(V, two_c, one, one, I2S_SUMS(sums_load)(p + 4 * step, n), I2S_SUMS(sums_load)(p + 5 * step, n));
    I2S_CSA(V, two_d, one, one, I2S_SUMS(sums_load)(p + 6 * step, n), I2S_SUMS(sums_load)(p + 7 * step, n));
    I2S_CSA(V, four_a, two, two, two_a, two_b);
    I2S_CSA(V, four_b, two, two, two_c, two_d);
    I2S_CSA(V, eight, four, four, four_a, four_b);
    planes[0] = one;
    planes[1] = two;
    planes[2] = four;
    I2S_SUMS(sums_carry)(planes, eight, 3);
}

/* Add the planes of one vector to the counters of its bytes, n of them, and clear the planes. */
I2S_SUMS_TARGET static void I2S_SUMS(sums_spill)(V planes[I2S_PLANES], int64_t n, uint32_t *counts) {
    uint8_t bytes[I2S_PLANES][I2S_SUMS_BYTES];
    int64_t i;
    int k, b;
    memcpy(bytes, planes, sizeof(bytes));
    memset(planes, 0, sizeof(bytes));
    for (i = 0; i < n; i++) {
        uint64_t x = 0;
        for (k = 0; k < I2S_PLANES; k++) x |= (uint64_t)bytes[k][i] << (8 * k);
        x = i2s_transposed(x);
        for (b = 0; b < 8; b++) counts[8 * i + b] += (uint32_t)(x >> (8 * b) & 255);
    }
}

/* Add the planes of one vector, whose counters reach `most` at most, to eight counters, one for each bit; clear them. */
I2S_SUMS_TARGET static void I2S_SUMS(sums_fold)(V planes[I2S_PLANES], int64_t most, uint32_t counts[8]) {
    uint64_t words[I2S_PLANES][I2S_SUMS_BYTES / 8], folded[I2S_PLANES + 4] = {0};
    int used = 0, k, j, b, top;
    while (used < I2S_PLANES && most >> used) used++;
    memcpy(words, planes, sizeof(words));
    memset(planes, 0, sizeof(words));
    top = used + 4;
    for (j = 0; j < I2S_SUMS_BYTES / 8; j++) {
        uint64_t carry = 0;
        for (k = 0; k < used; k++) I2S_CSA(uint64_t, carry, folded[k], folded[k], words[k][j], carry);
        for (; k < top; k++) {
            const uint64_t next = folded[k] & carry;
            folded[k] ^= carry;
            carry = next;
        }
    }
    for (k = 0; k < top; k++)
        for (b = 0; b < 8; b++)
            counts[b] += (uint32_t)__builtin_popcountll(folded[k] & (0x0101010101010101u << b)) << k;
}

/* A matrix of `rows` rows of `width` bytes: columns[8 * c + b] grows by how often bit b of column c is set;
 * segments[8 * s + b] becomes how often it is set in the s-th stretch of `segment` bytes. `width` is a multiple of
 * `segment`. `scratch` has I2S_PLANES * (width + I2S_MOST_BYTES) bytes. */
I2S_SUMS_TARGET static void I2S_SUMS(bit_sums)(const uint8_t *data, int64_t rows, int64_t width, int64_t segment,
                                               uint32_t *columns, uint32_t *segments, uint8_t *scratch) {
    enum { N = I2S_SUMS_BYTES };
    const int64_t vectors = (width + N - 1) / N, stretches = rows * (width / segment);
    int64_t r = 0, s, c, v;
    V planes[I2S_PLANES];
    /* down the columns, eight rows at a time */
    memset(scratch, 0, (size_t)(vectors * (int64_t)sizeof(planes)));
    while (r < rows) {
        int64_t held = 0;
        for (; r + 8 <= rows && held + 8 <= 255; r += 8, held += 8) {
            for (v = 0; v < vectors; v++) {
                memcpy(planes, scratch + v * (int64_t)sizeof(planes), sizeof(planes));
                I2S_SUMS(sums_eight)(planes, data + r * width + v * N, width, width - v * N);
                memcpy(scratch + v * (int64_t)sizeof(planes), planes, sizeof(planes));
            }
        }
        for (; rows - r < 8 && r < rows && held < 255; r++, held++) {
            for (v = 0; v < vectors; v++) {
                memcpy(planes, scratch + v * (int64_t)sizeof(planes), sizeof(planes));
                I2S_SUMS(sums_carry)(planes, I2S_SUMS(sums_load)(data + r * width + v * N, width - v * N), 0);
                memcpy(scratch + v * (int64_t)sizeof(planes), planes, sizeof(planes));
            }
        }
        for (v = 0; v < vectors; v++) {
            memcpy(planes, scratch + v * (int64_t)sizeof(planes), sizeof(planes));
            I2S_SUMS(sums_spill)(planes, width - v * N < N ? width - v * N : N, columns + 8 * v * N);
            memcpy(scratch + v * (int64_t)sizeof(planes), planes, sizeof(planes));
        }
    }
    /* along the segments, eight vectors at a time */
    memset(planes, 0, sizeof(planes));
    memset(segments, 0, (size_t)stretches * 8 * sizeof(uint32_t));
    for (s = 0; s < stretches; s++) {
        const uint8_t *p = data + s * segment;
        int64_t held = 0;
        for (c = 0; c + 8 * N <= segment; c += 8 * N) {
            I2S_SUMS(sums_eight)(planes, p + c, N, N);
            if ((held += 8) > 255 - 8) I2S_SUMS(sums_fold)(planes, held, segments + 8 * s), held = 0;
        }
        for (; c < segment; c += N) {
            I2S_SUMS(sums_carry)(planes, I2S_SUMS(sums_load)(p + c, segment - c), 0);
            if (++held > 255 - 8) I2S_SUMS(sums_fold)(planes, held, segments + 8 * s), held = 0;
        }
        if (held) I2S_SUMS(sums_fold)(planes, held, segments + 8 * s);
    }
}

#undef V
#undef I2S_SUMS_BYTES
#undef I2S_SUMS
#undef I2S_SUMS_TARGET
