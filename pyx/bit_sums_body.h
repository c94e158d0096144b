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
        I2S_SUMS_PART(v, p, n);
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
    I2S_SUMS_CSA(V, two_a, one, one, v[0], v[1]);
    I2S_SUMS_CSA(V, two_b, one, one, v[2], v[3]);
    I2S_SUMS_CSA(V, two_c, one, one, v[4], v[5]);
    I2S_SUMS_CSA(V, two_d, one, one, v[6], v[7]);
    I2S_SUMS_CSA(V, four_a, two, two, two_a, two_b);
    I2S_SUMS_CSA(V, four_b, two, two, two_c, two_d);
    I2S_SUMS_CSA(V, carry, four, four, four_a, four_b);
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

/* A lower bit for each pair that is set. A bit that crosses into the next byte is masked. */
I2S_SUMS_INLINE V I2S_SUMS(sums_set)(V v, int either) {
    return (either ? v | v >> 1 : v) & 0x5555555555555555u;
}

/* Count along one segment of a row: fields of two bits hold three vectors, those of four bits five such sums, and bytes 17 of
 * these. `out[pair * step]` is written. */
I2S_SUMS_INLINE void I2S_SUMS(sums_along)(const uint8_t *p, int64_t segment, int either, uint32_t *out, int64_t step) {
    enum { N = I2S_SUMS_BYTES };
    const uint64_t two = 0x3333333333333333u, four = 0x0F0F0F0F0F0F0F0Fu;
    uint32_t totals[4] = {0};
    int64_t c = 0;
    int k;
    while (c < segment) {
        V bytes[4] = {{0}}, sums;
        uint64_t total = 0;
        int group, three;
        for (group = 0; group < 17 && c < segment; group++) {
            V low = {0}, high = {0}, v;
            for (three = 0; three < 5 && c + 3 * N <= segment; three++, c += 3 * N) {
                v = I2S_SUMS(sums_set)(I2S_SUMS(sums_load)(p + c, N), either);
                v += I2S_SUMS(sums_set)(I2S_SUMS(sums_load)(p + c + N, N), either);
                v += I2S_SUMS(sums_set)(I2S_SUMS(sums_load)(p + c + 2 * N, N), either);
                low += v & two;
                high += v >> 2 & two;
            }
            if (three < 5)
                for (; c < segment; c += N) {
                    v = I2S_SUMS(sums_set)(I2S_SUMS(sums_load)(p + c, segment - c), either);
                    low += v & two;
                    high += v >> 2 & two;
                }
            bytes[0] += low & four;
            bytes[1] += high & four;
            bytes[2] += low >> 4 & four;
            bytes[3] += high >> 4 & four;
        }
        sums = I2S_SUMS_SAD(V, bytes[0]) | I2S_SUMS_SAD(V, bytes[1]) << 16;  /* at most 64 * 255 in 16 bits */
        sums |= I2S_SUMS_SAD(V, bytes[2]) << 32 | I2S_SUMS_SAD(V, bytes[3]) << 48;
I2S_UNROLLED
        for (k = 0; k < N / 8; k++) total += sums[k];
I2S_UNROLLED
        for (k = 0; k < 4; k++) totals[k] += (uint32_t)(total >> (16 * k) & 0xFFFF);
    }
I2S_UNROLLED
    for (k = 0; k < 4; k++) out[k * step] = totals[k];
}

/* Rows are taken 32 at a time and segment by segment, so that what is counted down is still in the first-level cache when it
 * is counted along. */
I2S_SUMS_INLINE void I2S_SUMS(sums_of)(const uint8_t *data, int64_t rows, int64_t width, int64_t segment, int either,
                                       uint32_t *columns, uint32_t *segments, int64_t step, uint8_t *scratch) {
    enum { N = I2S_SUMS_BYTES, TILE = 32 };
    const int64_t vectors = (segment + N - 1) / N, stretches = width / segment, room = stretches * vectors * I2S_PLANES * N;
    int64_t r, s, v, held = 0;
    V planes[I2S_PLANES], eight[8];
    int k;
    memset(scratch, 0, (size_t)room);
    for (r = 0; r < rows; r += TILE, data += TILE * width) {
        const int64_t now = rows - r < TILE ? rows - r : TILE;
        for (s = 0; s < stretches; s++) {
            const uint8_t *tile = data + s * segment;
            uint8_t *kept = scratch + s * vectors * I2S_PLANES * N;
            uint32_t *out = segments + r * stretches + s;
            for (v = 0; v < vectors; v++, kept += I2S_PLANES * N) {
                const uint8_t *p = tile + v * N;
                const int64_t n = segment - v * N;
                int64_t of;
                I2S_SUMS(sums_take)(planes, kept, N);
                for (of = 0; of < now; of += 16, p += 16 * width) {
                    if (now - of >= 16 && n >= N) {
I2S_UNROLLED
                        for (k = 0; k < 8; k++)
                            eight[k] = I2S_SUMS(sums_joined)(I2S_SUMS(sums_load)(p + 2 * k * width, N),
                                                             I2S_SUMS(sums_load)(p + (2 * k + 1) * width, N), either);
                    } else {
                        for (k = 0; k < 8; k++)
                            eight[k] = I2S_SUMS(sums_joined)(
                                I2S_SUMS(sums_load)(p + 2 * k * width, of + 2 * k < now ? n : 0),
                                I2S_SUMS(sums_load)(p + (2 * k + 1) * width, of + 2 * k + 1 < now ? n : 0), either);
                    }
                    I2S_SUMS(sums_eight)(planes, eight);
                }
                I2S_SUMS(sums_put)(kept, N, planes);
            }
            for (k = 0; k < now; k++) I2S_SUMS(sums_along)(tile + k * width, segment, either, out + k * stretches, step);
        }
        if ((held += TILE / 2) > 255 - TILE / 2 || r + TILE >= rows) {
            for (s = 0; s < stretches; s++)
                for (v = 0; v < vectors; v++) {
                    const int64_t n = segment - v * N;
                    I2S_SUMS(sums_take)(planes, scratch + (s * vectors + v) * I2S_PLANES * N, N);
                    I2S_SUMS(sums_spill)(planes, n < N ? n : N, columns + s * segment + v * N, width);
                }
            memset(scratch, 0, (size_t)room);
            held = 0;
        }
    }
}

/* A matrix of `rows` rows of `width` bytes: columns[pair * width + c] grows by how many rows have that pair of column c set;
 * segments[pair * step + s] becomes how many bytes of the s-th stretch of `segment` bytes have it set. A pair is set where its
 * lower bit is, or `either`. `width` is a multiple of `segment`. `scratch` has I2S_PLANES * (segment + I2S_MOST_BYTES)
 * bytes for each stretch of a row. */
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
#undef I2S_SUMS_PART
#undef I2S_SUMS_CSA
#undef I2S_SUMS
#undef I2S_SUMS_TARGET
