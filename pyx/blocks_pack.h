/* Packing, once for each instruction set: I2S_NAME(tile_bytes) makes blocks of a tile of values. */

/* Returns 1 where a value is below -1 or above `most`; then what was written means nothing. Scales are `each` bytes apart, 0
 * where all groups have one. Rows and their blocks are laid behind each other, and whole lines of them are moved on: few
 * blocks end where a line does. */
I2S_ALWAYS I2S_TARGET int I2S_NAME(pack_with)(int kind, const int8_t *src, int64_t rows, int64_t blocks, int front,
                                              const uint8_t *scales, int each, int most, uint8_t *dst, int stream) {
    const i2s_block shape = i2s_block_kinds[kind];
    const int64_t tile = I2S_TILE / shape.elements;
    I2S_ALIGNED uint8_t bytes[I2S_TILE];
    size_t held = 0;
    int64_t r, b, c;
    int bad = 0;
    for (r = 0; r < rows; r++) {
        if (shape.scale < 0) {
            memcpy(bytes + held, scales, (size_t)front);
            scales += each;
            held += (size_t)front;
        }
        for (b = 0; b < blocks; b += tile) {
            const int64_t now = blocks - b < tile ? blocks - b : tile;
            uint8_t *made = bytes + held;
            size_t lines;
            bad |= I2S_NAME(tile_bytes)(kind, src, now, most, made);
            for (c = 0; c < now && shape.scale >= 0; c++, scales += each) memcpy(made + c * shape.bytes + shape.scale, scales, 2);
            held += (size_t)(now * shape.bytes);
            lines = i2s_whole_lines(dst, held, stream);
            I2S_NAME(i2s_pour)(dst, bytes, lines, stream);
            dst += lines;
            held -= lines;
            if (held > 64) memmove(bytes, bytes + lines, held); /* only where the result does not begin with a line */
            else memmove(bytes, bytes + lines, 64);
            src += now * shape.elements;
        }
    }
    memcpy(dst, bytes, held);
    return bad;
}

static I2S_TARGET int I2S_NAME(i2s_block_pack)(int kind, const int8_t *src, int64_t rows, int64_t blocks, int front,
                                               const uint8_t *scales, int each, int most, uint8_t *dst, int stream) {
    int bad = 0;
    switch (kind) {
#define I2S_CALL(K) case K: bad = I2S_NAME(pack_with)(K, src, rows, blocks, front, scales, each, most, dst, stream); break;
        I2S_BLOCK_KINDS_OF(I2S_CALL)
#undef I2S_CALL
    }
#ifdef I2S_BLOCKS_FENCE
    if (stream) _mm_sfence();
#endif
    return bad;
}
