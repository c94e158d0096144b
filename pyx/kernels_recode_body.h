/* From a payload to one in another layout or with other codes. */

/* --- payload to payload; elements never leave the registers ----------------------------------------------------------
 * */

/* As i2s_remap_portable, by a look-up of each nibble; without coefficients a copy. n is a multiple of 32. */
I2S_INLINE void I2S_NAME(pour_with)(const uint8_t *src, int64_t n, const uint8_t *remap, uint8_t *dst, int stream) {
    uint8_t each[32] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    v32 lows, highs;
    int64_t i;
    if (remap != NULL) i2s_remap_portable(each, 32, remap);
    lows = I2S_NAME(load)(each) & 15;
    highs = I2S_NAME(left)(lows, 4);
    for (i = 0; i < n; i += 32) {
        v32 v = I2S_NAME(load)(src + i);
        I2S_PREFETCH(src + i);
        if (remap != NULL)
            v = (v32)_mm256_shuffle_epi8((__m256i)lows, (__m256i)(v & 15)) |
                (v32)_mm256_shuffle_epi8((__m256i)highs, (__m256i)(I2S_NAME(right)(v, 4) & 15));
        I2S_NAME(store)(dst + i, v, stream);
    }
}

static I2S_TARGET void I2S_NAME(pour)(const uint8_t *src, int64_t n, const uint8_t *remap, uint8_t *dst, int stream) {
    if (stream && remap != NULL) I2S_NAME(pour_with)(src, n, remap, dst, 1);
    else if (stream) I2S_NAME(pour_with)(src, n, NULL, dst, 1);
    else if (remap != NULL) I2S_NAME(pour_with)(src, n, remap, dst, 0);
    else memcpy(dst, src, (size_t)n);
}

/* Both halves of a block in both lanes, those of the upper lane shifted to the bits of the second 64-block, or of the
 * second group; then four fields are selected. */
I2S_INLINE v32 I2S_NAME(to_64)(v32 v) {
    v32 a = (v32)((v4q)I2S_NAME(lows)(v, v) << (v4q){0, 0, 4, 4});
    v32 b = (v32)((v4q)I2S_NAME(highs)(v, v) << (v4q){0, 0, 4, 4});
    return (a & 0xC0) | I2S_NAME(right)((a & 0x30) | (b & 0xC0), 2) | I2S_NAME(right)(b & 0x30, 4);
}

I2S_INLINE v32 I2S_NAME(from_64)(v32 v) {
    v32 a = (v32)((v4q)I2S_NAME(lows)(v, v) << (v4q){0, 0, 2, 2});
    v32 b = (v32)((v4q)I2S_NAME(highs)(v, v) << (v4q){0, 0, 2, 2});
    return (a & 0xC0) | I2S_NAME(left)(a & 0x0C, 2) | I2S_NAME(right)(b & 0xC0, 4) | I2S_NAME(right)(b & 0x0C, 2);
}

/* The four codes of each byte in the opposite order. */
I2S_INLINE v32 I2S_NAME(reversed)(v32 v) {
    v = (I2S_NAME(right)(v, 4) & 0x0F) | (I2S_NAME(left)(v, 4) & 0xF0);
    return (I2S_NAME(right)(v, 2) & 0x33) | (I2S_NAME(left)(v, 2) & 0xCC);
}

/* Four blocks of 128 elements from one layout to another. In a sequential block, word q of 8 bytes has the elements of
 * field q in interleave-128, four neighbors to a byte. To convert, the words of four blocks are grouped by number,
 * fields are transposed between the numbers, and each byte becomes four neighbors. For interleave-64 it is the same
 * with half the bytes. */
I2S_INLINE void I2S_NAME(four)(v32 v[4], int from, int to) {
    int p;
    if (from >= I2S_KIND_MSB && to >= I2S_KIND_MSB) {
        I2S_UNROLL4 for (p = 0; p < 4; p++) v[p] = I2S_NAME(reversed)(v[p]);
    } else if (from >= I2S_KIND_MSB) {
        if (to == I2S_KIND_128) I2S_NAME(words)(v);
        else I2S_NAME(pieces)(v);
        I2S_NAME(transpose)(v);
        if (from == I2S_KIND_LSB) I2S_NAME(turn)(v);
        I2S_NAME(interleave)(v, to == I2S_KIND_128);
    } else if (to >= I2S_KIND_MSB) {
        I2S_NAME(deal)(v, from == I2S_KIND_128);
        if (to == I2S_KIND_LSB) I2S_NAME(turn)(v);
        I2S_NAME(transpose)(v);
        if (from == I2S_KIND_128) I2S_NAME(words)(v);
        else I2S_NAME(pieces)(v);
    } else {
        I2S_UNROLL4 for (p = 0; p < 4; p++) v[p] = to == I2S_KIND_64 ? I2S_NAME(to_64)(v[p]) : I2S_NAME(from_64)(v[p]);
    }
}

I2S_INLINE void I2S_NAME(blocks_with)(const uint8_t *src, int64_t blocks, int from, int to, uint8_t *dst, int stream) {
    v32 v[4];
    int64_t b;
    int p;
    for (b = 0; b + 4 <= blocks; b += 4) {
        I2S_UNROLL4 for (p = 0; p < 4; p++) v[p] = I2S_NAME(load)(src + 32 * (b + p));
        I2S_PREFETCH(src + 32 * b);
        I2S_PREFETCH(src + 32 * b + 64);
        I2S_NAME(four)(v, from, to);
        I2S_UNROLL4 for (p = 0; p < 4; p++) I2S_NAME(store)(dst + 32 * (b + p), v[p], stream);
    }
    if (b < blocks) {
        memset(v, 0, sizeof v);
        memcpy(v, src + 32 * b, (size_t)(32 * (blocks - b)));
        I2S_NAME(four)(v, from, to);
        memcpy(dst + 32 * b, v, (size_t)(32 * (blocks - b)));
    }
}

static I2S_TARGET void I2S_NAME(convert)(const uint8_t *src, int64_t blocks, int from, int to, uint8_t *dst, int stream) {
#define I2S_CALL(F, T)                                                                                                  \
    if (F != T && from == F && to == T) {                                                                               \
        if (stream) I2S_NAME(blocks_with)(src, blocks, F, T, dst, 1);                                                   \
        else I2S_NAME(blocks_with)(src, blocks, F, T, dst, 0);                                                          \
    }
    I2S_KIND_PAIRS(I2S_CALL)
#undef I2S_CALL
}

static I2S_TARGET void I2S_NAME(i2s_blocks)(const uint8_t *src, int64_t blocks, int from, int to, const uint8_t *remap,
                                            uint8_t *dst, int stream) {
    int64_t b;
    stream = stream && I2S_CAN_STREAM(dst, 1);
    if (from == to) {
        I2S_NAME(pour)(src, 32 * blocks, remap, dst, stream);
    } else if (remap == NULL) {
        I2S_NAME(convert)(src, blocks, from, to, dst, stream);
    } else {
        v32 held[I2S_HELD / 32];
        for (b = 0; b < blocks; b += I2S_HELD / 32) {
            const int64_t part = blocks - b < I2S_HELD / 32 ? blocks - b : I2S_HELD / 32;
            I2S_NAME(convert)(src + 32 * b, part, from, to, (uint8_t *)held, 0);
            I2S_NAME(pour)((const uint8_t *)held, 32 * part, remap, dst + 32 * b, stream);
        }
    }
    if (stream) _mm_sfence();
}

/* --- four rows at once between one byte a column and rows of blocks ------------------------------------------------- */

/* rows-1x4 and row-blocks-4 have a byte for each column of four rows: a transposition of fields converts it to rows of
 * blocks, or back. Columns are a multiple of 128. Group i of the groups `first` to `last` is the bytes i cols to (i +
 * 1) cols, and contains the rows i, i + step, i + 2 step and i + 3 step, or with step 1 the rows 4 i to 4 i + 3. */
I2S_INLINE void I2S_NAME(rows_with)(const uint8_t *planes, int64_t cols, int lsb, int to, uint8_t *const rows[4]) {
    int64_t c;
    int p;
    for (c = 0; c < cols; c += 128) {
        v32 v[4];
        I2S_UNROLL4 for (p = 0; p < 4; p++) v[p] = I2S_NAME(load)(planes + c + 32 * p);
        I2S_PREFETCH(planes + c);
        I2S_PREFETCH(planes + c + 64);
        if (to == I2S_KIND_64) I2S_NAME(halve)(v);
        if (to >= I2S_KIND_MSB) I2S_NAME(deal)(v, 1);
        if (to == I2S_KIND_LSB) I2S_NAME(turn)(v);
        I2S_NAME(transpose)(v);
        I2S_UNROLL4 for (p = 0; p < 4; p++) I2S_NAME(store)(rows[lsb ? 3 - p : p] + c / 4, v[p], 0);
    }
}

/* Data to stream or remap is assembled in the cache and written row by row. */
static I2S_TARGET void I2S_NAME(i2s_to_rows)(const uint8_t *src, int64_t first, int64_t last, int64_t cols, int64_t step,
                                             int lsb, int to, const uint8_t *remap, uint8_t *dst, int stream) {
    const int hold = (stream = stream && I2S_CAN_STREAM(dst, 1)) || remap != NULL;
    v32 held[I2S_HELD / 32];
    int64_t i, c;
    int p;
    for (i = first; i < last; i++)
        for (c = 0; c < cols; c += I2S_HELD) {
            const int64_t part = cols - c < I2S_HELD ? cols - c : I2S_HELD;
            uint8_t *rows[4], *into[4];
            I2S_UNROLL4 for (p = 0; p < 4; p++) {
                rows[p] = dst + ((step == 1 ? 4 * i : i) + p * step) * (cols / 4) + c / 4;
                into[p] = hold ? (uint8_t *)held + p * (part / 4) : rows[p];
            }
#define I2S_CALL(T) case T: I2S_NAME(rows_with)(src + i * cols + c, part, lsb, T, into); break;
            switch (to) { I2S_KINDS(I2S_CALL) }
#undef I2S_CALL
            if (hold)
                I2S_UNROLL4 for (p = 0; p < 4; p++) I2S_NAME(pour)(into[p], part / 4, remap, rows[p], stream);
        }
    if (stream) _mm_sfence();
}

I2S_INLINE void I2S_NAME(planes_with)(const uint8_t *const rows[4], int64_t cols, int lsb, int from, const uint8_t *run,
                                      int64_t ahead, uint8_t *planes, int stream) {
    int64_t c;
    int p;
    for (c = 0; c < cols; c += 128) {
        v32 v[4];
        I2S_UNROLL4 for (p = 0; p < 4; p++) v[p] = I2S_NAME(load)(rows[lsb ? 3 - p : p] + c / 4);
        I2S_NAME(ask_four)(run + c, rows, c / 4, ahead);
        I2S_NAME(transpose)(v);
        if (from == I2S_KIND_LSB) I2S_NAME(turn)(v);
        if (from >= I2S_KIND_MSB) I2S_NAME(interleave)(v, 1);
        if (from == I2S_KIND_64) I2S_NAME(unhalve)(v);
        I2S_UNROLL4 for (p = 0; p < 4; p++) I2S_NAME(store)(planes + c + 32 * p, v[p], stream);
    }
}

static I2S_TARGET void I2S_NAME(i2s_of_rows)(const uint8_t *src, int64_t first, int64_t last, int64_t cols, int64_t step,
                                             int lsb, int from, const uint8_t *remap, uint8_t *dst, int stream) {
    const int64_t ahead = step == 1 ? I2S_LINES_AHEAD(cols) : 0;
    const int straight = (stream = stream && I2S_CAN_STREAM(dst, 1)) && remap == NULL;
    v32 held[I2S_HELD / 32];
    int64_t i, c;
    int p;
    for (i = first; i < last; i++)
        for (c = 0; c < cols; c += I2S_HELD) {
            const int64_t part = cols - c < I2S_HELD ? cols - c : I2S_HELD;
            const uint8_t *rows[4];
            uint8_t *into = remap != NULL ? (uint8_t *)held : dst + i * cols + c;
            I2S_UNROLL4 for (p = 0; p < 4; p++) rows[p] = src + ((step == 1 ? 4 * i : i) + p * step) * (cols / 4) + c / 4;
#define I2S_CALL(F)                                                                                                     \
    case F:                                                                                                             \
        if (straight) I2S_NAME(planes_with)(rows, part, lsb, F, src + i * cols + c, ahead, into, 1);                    \
        else I2S_NAME(planes_with)(rows, part, lsb, F, src + i * cols + c, ahead, into, 0);                             \
        break;
            switch (from) { I2S_KINDS(I2S_CALL) }
#undef I2S_CALL
            if (remap != NULL) I2S_NAME(pour)(into, part, remap, dst + i * cols + c, stream);
        }
    if (stream) _mm_sfence();
}
