/* Examines whole blocks of PTQ1_0, and of codes of two bits, with AVX-512: one pass over a tile of 32 blocks in
 * registers.
 *
 * Scales are extracted from vectors that are loaded anyway. A block is an odd number of words, so the scales of a tile
 * have different positions in the vectors, and one vector holds them all; for PTQ1_0 the last words are extracted as in
 * survey_gather.h. Their order is not that of blocks.
 *
 * I2S_LOOKED(table, v) is, for each byte, the one that no packer writes and that ends with the same four bits. Included
 * once for each instruction set, as survey_groups_body.h is.
 */

/* Loaded once, not for each use: so many loads would take longer than the computation. */
#ifndef I2S_LOADED
#define I2S_LOADED(v) __asm__("" : "+v"(v))
#endif

/* The last words of 16 blocks, and the minimum of the other bytes XOR a byte that no packer writes. */
I2S_INTO I2S_TARGET void I2S_NAME(i2s_ptq1_half)(const uint8_t *p, const uint8_t *mask, __m512i table, __m512i *least,
                                                   __m512i *last) {
    int i;
    *last = _mm512_setzero_si512();
    for (i = 0; i < 448; i += 64) {
        __m512i v = _mm512_loadu_si512(p + i), words = _mm512_load_si512(mask + i);
        I2S_LOADED(v);
        I2S_LOADED(words);
        *least = _mm512_min_epu8(*least, _mm512_ternarylogic_epi64(I2S_LOOKED(table, v), v, words, 0xBE)); /* (a ^ b) | c */
        *last = _mm512_ternarylogic_epi64(*last, v, words, 0xF8);                                        /* a | (b & c) */
    }
}

/* Whether a pair has a byte that represents no four digits. */
I2S_INTO I2S_TARGET __mmask64 I2S_NAME(i2s_pairs_odd)(__m512i pair) {
    const __m512i low = _mm512_set1_epi16(255), times = _mm512_set1_epi16(81), even = _mm512_mullo_epi16(pair, times);
    const __m512i odd = _mm512_mullo_epi16(_mm512_andnot_si512(low, pair), times);
    return _mm512_cmpgt_epu8_mask(_mm512_ternarylogic_epi32(low, even, odd, 0xCA), _mm512_set1_epi8(80)); /* low ? even : odd */
}

I2S_TARGET static void I2S_NAME(i2s_add_octaves)(i2s_groups *g, __m512i near[4]) {
    const __m512i low = _mm512_set1_epi32(0xFFFF);
    int k;
    for (k = 0; k < 4; k++) {
        const __m512i sums = _mm512_add_epi32(_mm512_and_si512(near[k], low), _mm512_srli_epi32(near[k], 16));
        const uint32_t sum = (uint32_t)_mm512_reduce_add_epi32(sums);
        if (g->octaves && sum) g->octaves[g->base + k] += sum;
        near[k] = _mm512_setzero_si512();
    }
}

/* The scales of a tile, in any order; 1 if their octaves are in `near`, which can count 65,535 tiles. */
I2S_INTO I2S_TARGET int I2S_NAME(i2s_tile_scales)(i2s_groups *g, int kind, const uint8_t *p, int64_t number, __m512i scales,
                                                  __m512i near[4]) {
    const i2s_block shape = i2s_block_kinds[kind];
    const __m512i one = _mm512_set1_epi16(1);
    __m512i octave;
    __mmask32 special;
    if (g->swap) scales = _mm512_or_si512(_mm512_slli_epi16(scales, 8), _mm512_srli_epi16(scales, 8));
    octave = _mm512_sub_epi16(scales, _mm512_set1_epi16((short)(g->base < 0 ? 0 : g->base << 10)));
    special = _mm512_cmpge_epu16_mask(_mm512_sub_epi16(scales, one), _mm512_set1_epi16(0x7BFF));
    special |= _mm512_cmpgt_epu16_mask(octave, _mm512_set1_epi16(0xFFF));
    if (special || g->base < 0) {
        I2S_NAME(i2s_look_again)(g, kind, p, number);
        return 0;
    }
    g->scales += I2S_GROUP_TILE;
    if (_mm512_cmpgt_epu16_mask(scales, _mm512_set1_epi16((short)g->largest))) {
        uint16_t each[I2S_GROUP_TILE], most = 0;
        int c;
        _mm512_storeu_si512(each, scales);
        for (c = 0; c < I2S_GROUP_TILE; c++) most = each[c] > most ? each[c] : most;
        i2s_group_largest(g, p + shape.scale, shape.bytes, most, number);
    }
    octave = _mm512_srli_epi16(octave, 10);
#define I2S_ONE(k) near[k] = _mm512_mask_add_epi16(near[k], _mm512_cmpeq_epi16_mask(octave, _mm512_set1_epi16(k)), near[k], one);
    I2S_ONE(0) I2S_ONE(1) I2S_ONE(2) I2S_ONE(3)
#undef I2S_ONE
    return 1;
}

I2S_TARGET static void I2S_NAME(i2s_look_ptq1)(i2s_groups *g, const uint8_t *p, int64_t count, int64_t number) {
    const __m512i words = _mm512_set1_epi32(0xFFFF), zero = _mm512_setzero_si512();
    const int bytes = i2s_block_kinds[I2S_PTQ1].bytes;
    const uint8_t *mask = i2s_group_masks[I2S_PTQ1];
    __m512i near[4] = {zero, zero, zero, zero};
    __m512i table = _mm512_broadcast_i32x4(_mm_setr_epi8(I2S_UNWRITTEN));
    int64_t held = 0;
    I2S_LOADED(table);
    for (; count >= I2S_GROUP_TILE; count -= I2S_GROUP_TILE, number += I2S_GROUP_TILE, p += I2S_GROUP_TILE * bytes) {
        __m512i least = _mm512_set1_epi8(-1), a, b, scales;
        I2S_NAME(i2s_ptq1_half)(p, mask, table, &least, &a);
        I2S_NAME(i2s_ptq1_half)(p + 16 * bytes, mask, table, &least, &b);
        scales = _mm512_ternarylogic_epi32(words, _mm512_srli_epi32(a, 16), b, 0xCA); /* words ? a : b */
        if (I2S_NAME(i2s_pairs_odd)(_mm512_ternarylogic_epi32(words, a, _mm512_slli_epi32(b, 16), 0xCA)) |
            _mm512_testn_epi8_mask(least, least)) {
            i2s_groups_plain(g, p, I2S_GROUP_TILE, number);
            continue;
        }
        held += I2S_NAME(i2s_tile_scales)(g, I2S_PTQ1, p, number, scales, near);
        if (held < 65535) continue;
        I2S_NAME(i2s_add_octaves)(g, near);
        held = 0;
    }
    if (held) I2S_NAME(i2s_add_octaves)(g, near);
    i2s_groups_plain(g, p, count, number);
}

/* Blocks of codes of two bits: `mask` is 255 for bytes of codes and 0 for those of a scale. */
I2S_INTO I2S_TARGET void I2S_NAME(i2s_look_fields)(i2s_groups *g, int kind, const uint8_t *p, int64_t count, int64_t number) {
    const __m512i zero = _mm512_setzero_si512();
    const int bytes = i2s_block_kinds[kind].bytes;
    const uint8_t *mask = i2s_group_masks[kind];
    __m512i near[4] = {zero, zero, zero, zero};
    int64_t held = 0;
    for (; count >= I2S_GROUP_TILE; count -= I2S_GROUP_TILE, number += I2S_GROUP_TILE, p += I2S_GROUP_TILE * bytes) {
        __m512i both = zero, scales = zero;
        int i;
        for (i = 0; i < I2S_GROUP_TILE * bytes; i += 64) {
            __m512i v = _mm512_loadu_si512(p + i), codes = _mm512_load_si512(mask + i);
            I2S_LOADED(v);
            I2S_LOADED(codes);
            both = _mm512_or_si512(both, _mm512_ternarylogic_epi64(v, _mm512_srli_epi16(v, 1), codes, 0x80)); /* a & b & c */
            scales = _mm512_ternarylogic_epi64(scales, v, codes, 0xF4);                                      /* a | (b & ~c) */
        }
        if (_mm512_test_epi8_mask(both, _mm512_set1_epi8(0x55))) {
            i2s_groups_plain(g, p, I2S_GROUP_TILE, number);
            continue;
        }
        held += I2S_NAME(i2s_tile_scales)(g, kind, p, number, scales, near);
        if (held < 65535) continue;
        I2S_NAME(i2s_add_octaves)(g, near);
        held = 0;
    }
    if (held) I2S_NAME(i2s_add_octaves)(g, near);
    i2s_groups_plain(g, p, count, number);
}
