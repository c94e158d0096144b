/* The block kernels, once for each instruction set, over the functions for one block of blocks_portable.h or blocks_vector.h. */

/* Memory is prefetched explicitly: the computation keeps the processor from detecting the next lines early enough. */
I2S_ALWAYS I2S_TARGET void I2S_NAME(ask_ahead)(const uint8_t *src, int64_t n) {
    int64_t i;
    for (i = 0; i < n; i += 64) I2S_ASK_AT(src + i, I2S_BLOCKS_AHEAD);
}

/* Returns 1 where a code is 3. */
I2S_ALWAYS I2S_TARGET int I2S_NAME(unpack_with)(int kind, const uint8_t *src, int64_t rows, int64_t blocks, int front,
                                                int8_t *dst, int stream, int swap, float *scales) {
    const i2s_block shape = i2s_block_kinds[kind];
    const int64_t tile = I2S_TILE / shape.elements;
    I2S_ALIGNED int8_t values[I2S_TILE];
    int64_t r, b;
    int seen = 0;
    for (r = 0; r < rows; r++) {
        src += front;
        for (b = 0; b < blocks; b += tile) {
            const int64_t now = blocks - b < tile ? blocks - b : tile, n = now * shape.elements;
            I2S_NAME(ask_ahead)(src, now * shape.bytes);
            seen |= I2S_NAME(tile_values)(kind, src, now, values);
            I2S_NAME(i2s_pour)(dst, values, (size_t)n, stream);
            if (shape.scale >= 0 && scales) {
                i2s_halves(src + shape.scale, shape.bytes, now, swap, scales);
                scales += now;
            }
            src += now * shape.bytes;
            dst += n;
        }
    }
    return seen;
}

I2S_ALWAYS I2S_TARGET int I2S_NAME(floats_with)(int kind, const uint8_t *src, int64_t rows, int64_t blocks, int front,
                                                int swap, float *dst, int stream) {
    const i2s_block shape = i2s_block_kinds[kind];
    const int64_t tile = I2S_TILE / shape.elements;
    I2S_ALIGNED int8_t values[I2S_TILE];
    I2S_ALIGNED float weights[I2S_TILE];
    float scale = 0;
    int64_t r, b, c;
    int seen = 0;
    for (r = 0; r < rows; r++) {
        if (shape.scale < 0) scale = front == 4 ? i2s_single(src, swap) : i2s_half(src, swap);
        src += front;
        for (b = 0; b < blocks; b += tile) {
            const int64_t now = blocks - b < tile ? blocks - b : tile;
            I2S_NAME(ask_ahead)(src, now * shape.bytes);
            seen |= I2S_NAME(tile_values)(kind, src, now, values);
            for (c = 0; c < now; c++) {
                if (shape.scale >= 0) scale = i2s_half(src + c * shape.bytes + shape.scale, swap);
                I2S_NAME(values_to_floats)(values + c * shape.elements, shape.elements, scale, weights + c * shape.elements);
            }
            I2S_NAME(i2s_pour)(dst, weights, (size_t)(now * shape.elements) * 4, stream);
            src += now * shape.bytes;
            dst += now * shape.elements;
        }
    }
    return seen;
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(count_with)(int kind, const uint8_t *src, int64_t rows, int64_t blocks, int front,
                                                uint64_t count[3]) {
    const i2s_block shape = i2s_block_kinds[kind];
    uint8_t one[64] = {0}, two[64] = {0};
    int64_t r, b;
    int held = 0, m;
    for (r = 0; r < rows; r++) {
        src += front;
        for (b = 0; b < blocks; b++, src += shape.bytes) {
            switch (kind) {
            case I2S_Q2_64: I2S_NAME(count_bits)(src + 2, 16, count); continue;
            case I2S_Q2_128: I2S_NAME(count_bits)(src + 2, 32, count); continue;
            case I2S_TQ2: I2S_NAME(count_bits)(src, 64, count); continue;
            case I2S_IQ2: I2S_NAME(count_bits)(src, 16, count); continue;
            default: I2S_NAME(count_digits)(kind, src, one, two);
            }
            if (++held == 51) { /* 51 * 5 = 255 */
                for (m = 0; m < 64; m++) {
                    count[0] += (uint64_t)(one[m] - two[m]);
                    count[1] += two[m];
                    one[m] = two[m] = 0;
                }
                held = 0;
            }
        }
    }
    for (m = 0; m < 64; m++) {
        count[0] += (uint64_t)(one[m] - two[m]);
        count[1] += two[m];
    }
}

/* One function for each kind, so that sizes are constants in it. */
static I2S_TARGET int I2S_NAME(i2s_block_unpack)(int kind, const uint8_t *src, int64_t rows, int64_t blocks, int front,
                                                 int8_t *dst, int stream, int swap, float *scales) {
    int seen = 0;
    switch (kind) {
#define I2S_CALL(K) case K: seen = I2S_NAME(unpack_with)(K, src, rows, blocks, front, dst, stream, swap, scales); break;
        I2S_BLOCK_KINDS_OF(I2S_CALL)
#undef I2S_CALL
    }
#ifdef I2S_BLOCKS_FENCE
    if (stream) _mm_sfence();
#endif
    return seen;
}

static I2S_TARGET int I2S_NAME(i2s_block_floats)(int kind, const uint8_t *src, int64_t rows, int64_t blocks, int front,
                                                 int swap, float *dst, int stream) {
    int seen = 0;
    switch (kind) {
#define I2S_CALL(K) case K: seen = I2S_NAME(floats_with)(K, src, rows, blocks, front, swap, dst, stream); break;
        I2S_BLOCK_KINDS_OF(I2S_CALL)
#undef I2S_CALL
    }
#ifdef I2S_BLOCKS_FENCE
    if (stream) _mm_sfence();
#endif
    return seen;
}

static I2S_TARGET void I2S_NAME(i2s_block_count)(int kind, const uint8_t *src, int64_t rows, int64_t blocks, int front,
                                                 uint64_t count[3]) {
    count[0] = count[1] = count[2] = 0;
    switch (kind) {
#define I2S_CALL(K) case K: I2S_NAME(count_with)(K, src, rows, blocks, front, count); break;
        I2S_BLOCK_KINDS_OF(I2S_CALL)
#undef I2S_CALL
    }
}
