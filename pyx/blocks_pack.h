/* Packing, once for each instruction set: I2S_NAME(tile_bytes) makes blocks of a tile of values. */

/* Returns 1 if a value is below -1 or above `most`; the output is then undefined. Scales are `each` bytes apart, 0 if
 * all groups share one. Rows of blocks are assembled consecutively, at the same offset within a cache line as their
 * destination, and moved as whole lines, since few blocks end at a line boundary. Lines are moved after a delay of some
 * tiles, because a load waits for pending stores to its line. */
I2S_ALWAYS I2S_TARGET int I2S_NAME(pack_with)(int kind, const int8_t *src, int64_t rows, int64_t blocks, int front,
                                              const uint8_t *scales, int each, int most, uint8_t *dst, int stream) {
    const i2s_block shape = i2s_block_kinds[kind];
    const int64_t tile = I2S_TILE / shape.elements, ahead = i2s_pack_ahead();
    I2S_ALIGNED uint8_t bytes[I2S_PACK_ROOM];
    size_t from = stream ? (uintptr_t)dst % 64 : 0, made = from;
    int64_t r, b, c;
    int bad = 0;
    for (r = 0; r < rows; r++) {
        if (shape.scale < 0) {
            memcpy(bytes + made, scales, (size_t)front);
            scales += each;
            made += (size_t)front;
        }
        for (b = 0; b < blocks; b += tile) {
            const int64_t now = blocks - b < tile ? blocks - b : tile;
            const size_t lines = made - made % 64;
            uint8_t *next = bytes + made;
            bad |= I2S_NAME(tile_bytes)(kind, src, now, most, next, ahead);
            for (c = 0; c < now && shape.scale >= 0; c++, scales += each) memcpy(next + c * shape.bytes + shape.scale, scales, 2);
            src += now * shape.elements;
            made += (size_t)(now * shape.bytes);
            if (lines > from) {
                I2S_NAME(i2s_pour)(dst, bytes + from, lines - from, stream);
                dst += lines - from;
                from = lines;
            }
            if (made > I2S_PACK_ROOM - I2S_TILE) {
                memmove(bytes, bytes + from, made - from);
                made -= from;
                from = 0;
            }
        }
    }
    I2S_NAME(i2s_pour)(dst, bytes + from, made - from, stream);
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
