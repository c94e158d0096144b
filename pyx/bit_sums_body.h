/* The body of `bit_sums.h` for vectors of I2S_SUMS_BYTES; included once for each instruction set. */

typedef uint64_t I2S_SUMS(sums_vector) __attribute__((vector_size(I2S_SUMS_BYTES)));
#define V I2S_SUMS(sums_vector)
#define I2S_SUMS_INLINE I2S_SUMS_TARGET static inline __attribute__((always_inline))

/* The next vector, of which only n bytes may exist; the others are 0. */
I2S_SUMS_INLINE V I2S_SUMS(sums_load)(const uint8_t *p, int64_t n) {
    V v = {0};
    if (n >= I2S_SUMS_BYTES)
        memcpy(&v, p, I2S_SUMS_BYTES);
    else if (n > 0)
        I2S_SUMS_PART(v, p, n);
    return v;
}

/* Eight vectors, `step` bytes apart; one by one, since half of a vector just written cannot be read with the other
 * half. */
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

/* One bit for each pair of two vectors: those of the first in the lower bits of pairs. A bit that is shifted into the
 * next byte is masked. */
I2S_SUMS_INLINE V I2S_SUMS(sums_joined)(V first, V second, int either) {
    const V lower = (V){0} + 0x5555555555555555u;
    second = either ? second | second << 1 : second << 1;
    if (either) first |= first >> 1;
    return (first & lower) | (second & ~lower);
}

/* Add sixteen vectors to the planes. */
I2S_SUMS_INLINE void I2S_SUMS(sums_sixteen)(V planes[I2S_PLANES], const V v[16]) {
    V one = planes[0], two = planes[1], four = planes[2], eight = planes[3], twos[8], fours[4], eights[2], carry;
    int k;
I2S_UNROLLED
    for (k = 0; k < 8; k++) I2S_SUMS_CSA(V, twos[k], one, one, v[2 * k], v[2 * k + 1]);
I2S_UNROLLED
    for (k = 0; k < 4; k++) I2S_SUMS_CSA(V, fours[k], two, two, twos[2 * k], twos[2 * k + 1]);
I2S_UNROLLED
    for (k = 0; k < 2; k++) I2S_SUMS_CSA(V, eights[k], four, four, fours[2 * k], fours[2 * k + 1]);
    I2S_SUMS_CSA(V, carry, eight, eight, eights[0], eights[1]);
    planes[0] = one;
    planes[1] = two;
    planes[2] = four;
    planes[3] = eight;
I2S_UNROLLED
    for (k = 4; k < I2S_PLANES; k++) {
        const V next = planes[k] & carry;
        planes[k] ^= carry;
        carry = next;
    }
}

/* Swap bit k of byte i in `high`, shifted by `by`, with the same bit of `low`. */
#define I2S_SUMS_SWAP(low, high, by, mask)                                                                              \
    do {                                                                                                                \
        const V i2s_t = ((low) >> (by) ^ (high)) & (mask);                                                              \
        (high) ^= i2s_t;                                                                                                \
        (low) ^= i2s_t << (by);                                                                                         \
    } while (0)

/* Planes to bytes: byte i of vector b is the counter of bit b of byte i. */
I2S_SUMS_INLINE void I2S_SUMS(sums_bytes)(V p[I2S_PLANES]) {
    const V one = (V){0} + 0x5555555555555555u, two = (V){0} + 0x3333333333333333u, four = (V){0} + 0x0F0F0F0F0F0F0F0Fu;
    int k;
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
    I2S_SUMS(sums_bytes)(planes);
    I2S_SUMS(sums_put)(bytes[0], I2S_SUMS_BYTES, planes);
    for (pair = 0; pair < 4; pair++, counts += width) {
        const uint8_t *low = bytes[2 * pair], *high = bytes[2 * pair + 1];
        if (n == I2S_SUMS_BYTES)
            for (i = 0; i < I2S_SUMS_BYTES; i++) counts[i] += (uint32_t)low[i] + high[i];
        else
            for (i = 0; i < n; i++) counts[i] += (uint32_t)low[i] + high[i];
    }
}

/* The lower bit of each pair says whether it is set; the upper one is ignored. */
I2S_SUMS_INLINE V I2S_SUMS(sums_set)(const uint8_t *p, int64_t n, int either) {
    const V v = I2S_SUMS(sums_load)(p, n);
    return either ? v | v >> 1 : v;
}

/* Count along one segment of a row. Seven vectors become three planes by carry-save adders, and these fields of four bits, which
 * hold two such sums; bytes hold 18 of these. `out[pair]` is written. */
I2S_SUMS_INLINE void I2S_SUMS(sums_along)(const uint8_t *p, int64_t segment, int either, uint32_t *out) {
    enum { N = I2S_SUMS_BYTES, SEVEN = 7 };
    const V one = (V){0} + 0x5555555555555555u, two = (V){0} + 0x3333333333333333u, four = (V){0} + 0x0F0F0F0F0F0F0F0Fu;
    const V more = (V){0} + 0x4444444444444444u;
    int64_t c = 0;
    int k;
    for (k = 0; k < 4; k++) out[k] = 0;
    while (c < segment) {
        V bytes[4] = {{0}}, sums;
        int group, half;
        for (group = 0; group < 18 && c < segment; group++) {
            V low = {0}, high = {0};
            for (half = 0; half < 2 && c < segment; half++, c += SEVEN * N, p += SEVEN * N) {
                const int64_t n = segment - c;
                V v[SEVEN], ones, twos, fours = {0}, pairs;
                if (n <= 3 * N) {
I2S_UNROLLED
                    for (k = 0; k < 3; k++) v[k] = I2S_SUMS(sums_set)(p + k * N, n - k * N, either);
                    I2S_SUMS_CSA(V, twos, ones, v[0], v[1], v[2]);
                } else {
                    V twos_b, twos_c;
                    if (n >= SEVEN * N) {
I2S_UNROLLED
                        for (k = 0; k < SEVEN; k++) v[k] = I2S_SUMS(sums_set)(p + k * N, N, either);
                    } else {
I2S_UNROLLED
                        for (k = 0; k < SEVEN; k++) v[k] = I2S_SUMS(sums_set)(p + k * N, n - k * N, either);
                    }
                    I2S_SUMS_CSA(V, twos, ones, v[0], v[1], v[2]);
                    I2S_SUMS_CSA(V, twos_b, ones, ones, v[3], v[4]);
                    I2S_SUMS_CSA(V, twos_c, ones, ones, v[5], v[6]);
                    I2S_SUMS_CSA(V, fours, twos, twos, twos_b, twos_c);
                }
                pairs = (ones & one) | (twos << 1 & ~one);
                low += (pairs & two) | (fours << 2 & more);
                high += (pairs >> 2 & two) | (fours & more);
            }
            bytes[0] += low & four;
            bytes[1] += high & four;
            bytes[2] += low >> 4 & four;
            bytes[3] += high >> 4 & four;
        }
        sums = I2S_SUMS_SAD(V, bytes[0]) | I2S_SUMS_SAD(V, bytes[1]) << 16;  /* at most 64 * 255 in 16 bits */
        sums |= I2S_SUMS_SAD(V, bytes[2]) << 32 | I2S_SUMS_SAD(V, bytes[3]) << 48;
        I2S_SUMS_SPREAD(sums, out);
    }
}

/* Rows are processed 32 at a time and segment by segment, so that data counted down the columns is still in the
 * first-level cache when it is counted along the rows. Returns the maximum that the planes hold: 0 after the `last`
 * rows, when all is in the counters. */
I2S_SUMS_INLINE int I2S_SUMS(sums_of)(const uint8_t *data, int64_t rows, int64_t width, int64_t segment, int either,
                                      uint32_t *columns, uint32_t *segments, uint8_t *kept, int held, int last) {
    enum { N = I2S_SUMS_BYTES, TILE = 32 };
    const int64_t vectors = (segment + N - 1) / N, stretches = width / segment;
    int64_t r, s, v;
    V planes[I2S_PLANES], joined[TILE / 2];
    int k;
    for (r = 0; r < rows; r += TILE, data += TILE * width) {
        const int64_t now = rows - r < TILE ? rows - r : TILE;
        uint8_t *to = kept;
        for (s = 0; s < stretches; s++) {
            const uint8_t *tile = data + s * segment;
            for (v = 0; v < vectors; v++, to += I2S_PLANES * N) {
                const uint8_t *p = tile + v * N;
                const int64_t n = segment - v * N;
                I2S_SUMS(sums_take)(planes, to, N);
                if (now == TILE && n >= N) {
I2S_UNROLLED
                    for (k = 0; k < TILE / 2; k++)
                        joined[k] = I2S_SUMS(sums_joined)(I2S_SUMS(sums_load)(p + 2 * k * width, N),
                                                          I2S_SUMS(sums_load)(p + (2 * k + 1) * width, N), either);
                } else {
                    for (k = 0; k < TILE / 2; k++)
                        joined[k] = I2S_SUMS(sums_joined)(
                            I2S_SUMS(sums_load)(p + 2 * k * width, 2 * k < now ? n : 0),
                            I2S_SUMS(sums_load)(p + (2 * k + 1) * width, 2 * k + 1 < now ? n : 0), either);
                }
                I2S_SUMS(sums_sixteen)(planes, joined);
                I2S_SUMS(sums_put)(to, N, planes);
            }
            if (segments != NULL)
                for (k = 0; k < now; k++)
                    I2S_SUMS(sums_along)(tile + k * width, segment, either, segments + 4 * ((r + k) * stretches + s));
        }
        if ((held += TILE / 2) > 255 - TILE / 2 || (last && r + TILE >= rows)) {
            to = kept;
            for (s = 0; s < stretches; s++)
                for (v = 0; v < vectors; v++, to += I2S_PLANES * N) {
                    const int64_t n = segment - v * N;
                    I2S_SUMS(sums_take)(planes, to, N);
                    I2S_SUMS(sums_spill)(planes, n < N ? n : N, columns + s * segment + v * N, width);
                }
            memset(kept, 0, (size_t)(to - kept));
            held = 0;
        }
    }
    return held;
}

/* A matrix of `rows` rows of `width` bytes: columns[pair * width + c] grows by how many rows have that pair of column c set;
 * segments[s * 4 + pair] becomes how many bytes of the s-th stretch of `segment` bytes have it set, unless it is NULL. A pair
 * is set where its lower bit is, or `either`. `width` is a multiple of `segment`. `kept` has I2S_PLANES * (segment +
 * I2S_MOST_BYTES) bytes for each stretch of a row, zeros before the first call, and `held` is what the call before returned. */
I2S_SUMS_TARGET static int I2S_SUMS(bit_sums)(const uint8_t *data, int64_t rows, int64_t width, int64_t segment, int either,
                                              uint32_t *columns, uint32_t *segments, uint8_t *kept, int held, int last) {
    if (either) return I2S_SUMS(sums_of)(data, rows, width, segment, 1, columns, segments, kept, held, last);
    return I2S_SUMS(sums_of)(data, rows, width, segment, 0, columns, segments, kept, held, last);
}

#undef V
#undef I2S_SUMS_INLINE
#undef I2S_SUMS_SWAP
#undef I2S_SUMS_BYTES
#undef I2S_SUMS_SAD
#undef I2S_SUMS_SPREAD
#undef I2S_SUMS_PART
#undef I2S_SUMS_CSA
#undef I2S_SUMS
#undef I2S_SUMS_TARGET
