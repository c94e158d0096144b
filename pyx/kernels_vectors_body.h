/* The parts of all kernels over vectors of 32 bytes: loads, stores, shifts of fields, and permutations of four vectors. */

/* Prefetch before 32 bytes at `at` are read from each of four pieces of one run of memory, of which 4 at bytes are
 * done. If the run is short, lines are prefetched in their order in memory, a whole run ahead; with four distant
 * pieces, in each. */
I2S_INLINE void I2S_NAME(ask_four)(const uint8_t *run, const uint8_t *const piece[4], int64_t at, int64_t ahead) {
    int p;
    if (ahead) {
        I2S_PREFETCH_AT(run, ahead);
        I2S_PREFETCH_AT(run + 64, ahead);
    } else {
        I2S_UNROLL4 for (p = 0; p < 4; p++) I2S_PREFETCH_AT(piece[p] + at, I2S_AHEAD / 4);
    }
}

I2S_INLINE v32 I2S_NAME(load)(const void *p) { return *(const v32u *)p; }

/* A streamed store is two halves, so that an address need only be a multiple of 16, as that of a bytes object is. */
I2S_INLINE void I2S_NAME(store)(void *p, v32 v, int way) {
    if (way == I2S_PAST) {
        _mm_stream_si128((__m128i *)p, _mm256_castsi256_si128((__m256i)v));
        _mm_stream_si128((__m128i *)p + 1, _mm256_extracti128_si256((__m256i)v, 1));
    } else {
        *(v32u *)p = v;
    }
}

/* Prefetches the lines of a result that are written a little later, so that the processor owns them by then. */
I2S_INLINE void I2S_NAME(own)(const void *p, int bytes, int way) {
    int i;
    if (way == I2S_OWNED)
        for (i = 0; i < bytes; i += 64) I2S_PREFETCH_AT((const uint8_t *)p + i, I2S_OWN_AHEAD);
}

/* Shifts are of 16-bit words: bits shifted in from the next byte are masked, or are zero for valid codes. */
I2S_INLINE v32 I2S_NAME(right)(v32 v, int shift) { return (v32)((v16w)v >> shift); }

I2S_INLINE v32 I2S_NAME(left)(v32 v, int shift) { return (v32)((v16w)v << shift); }

I2S_INLINE v32 I2S_NAME(field)(v32 v, int shift) { return I2S_NAME(right)(v, shift) & 3; }

I2S_INLINE v32 I2S_NAME(lows)(v32 a, v32 b) { return (v32)_mm256_permute2x128_si256((__m256i)a, (__m256i)b, 0x20); }

I2S_INLINE v32 I2S_NAME(highs)(v32 a, v32 b) { return (v32)_mm256_permute2x128_si256((__m256i)a, (__m256i)b, 0x31); }

/* --- permutations of four vectors ---------------------------------------------------------------------------------- */

/* Byte i of each of the four vectors side by side: `across` all 32 of them, or for each half separately. */
I2S_INLINE void I2S_NAME(interleave)(v32 v[4], int across) {
    __m256i a = _mm256_unpacklo_epi8((__m256i)v[0], (__m256i)v[1]), b = _mm256_unpackhi_epi8((__m256i)v[0], (__m256i)v[1]);
    __m256i c = _mm256_unpacklo_epi8((__m256i)v[2], (__m256i)v[3]), d = _mm256_unpackhi_epi8((__m256i)v[2], (__m256i)v[3]);
    v32 e = (v32)_mm256_unpacklo_epi16(a, c), f = (v32)_mm256_unpackhi_epi16(a, c);
    v32 g = (v32)_mm256_unpacklo_epi16(b, d), h = (v32)_mm256_unpackhi_epi16(b, d);
    v[0] = across ? I2S_NAME(lows)(e, f) : e;
    v[1] = across ? I2S_NAME(lows)(g, h) : f;
    v[2] = across ? I2S_NAME(highs)(e, f) : g;
    v[3] = across ? I2S_NAME(highs)(g, h) : h;
}

/* 4 bytes of each, for each half separately: piece b of vector q becomes piece q of vector b. */
I2S_INLINE void I2S_NAME(pieces)(v32 v[4]) {
    __m256i a = _mm256_unpacklo_epi32((__m256i)v[0], (__m256i)v[1]), b = _mm256_unpackhi_epi32((__m256i)v[0], (__m256i)v[1]);
    __m256i c = _mm256_unpacklo_epi32((__m256i)v[2], (__m256i)v[3]), d = _mm256_unpackhi_epi32((__m256i)v[2], (__m256i)v[3]);
    v[0] = (v32)_mm256_unpacklo_epi64(a, c);
    v[1] = (v32)_mm256_unpackhi_epi64(a, c);
    v[2] = (v32)_mm256_unpacklo_epi64(b, d);
    v[3] = (v32)_mm256_unpackhi_epi64(b, d);
}

/* 8 bytes of each: word b of vector q becomes word q of vector b. */
I2S_INLINE void I2S_NAME(words)(v32 v[4]) {
    v32 a = (v32)_mm256_unpacklo_epi64((__m256i)v[0], (__m256i)v[1]), b = (v32)_mm256_unpackhi_epi64((__m256i)v[0], (__m256i)v[1]);
    v32 c = (v32)_mm256_unpacklo_epi64((__m256i)v[2], (__m256i)v[3]), d = (v32)_mm256_unpackhi_epi64((__m256i)v[2], (__m256i)v[3]);
    v[0] = I2S_NAME(lows)(a, c);
    v[1] = I2S_NAME(lows)(b, d);
    v[2] = I2S_NAME(highs)(a, c);
    v[3] = I2S_NAME(highs)(b, d);
}

/* Bytes q, 4 + q, 8 + q, ... of all four are collected in vector q: those of vector b as word b, or if not `across` as
 * piece b of each half. This is the inverse of `interleave` to `words`, or to `pieces`. */
I2S_INLINE void I2S_NAME(deal)(v32 v[4], int across) {
    const __m256i by4 = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
                                         0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    int p;
    I2S_UNROLL4 for (p = 0; p < 4; p++) v[p] = (v32)_mm256_shuffle_epi8((__m256i)v[p], by4);
    I2S_NAME(pieces)(v);
    if (across)
        I2S_UNROLL4 for (p = 0; p < 4; p++) v[p] = (v32)_mm256_permutevar8x32_epi32((__m256i)v[p], order);
}

/* Halves: of the columns 0 to 127 in four vectors, those that interleave-64 has in one field are collected; and back.
 * */
I2S_INLINE void I2S_NAME(halve)(v32 v[4]) {
    v32 a = v[0], b = v[1], c = v[2], d = v[3];
    v[0] = I2S_NAME(lows)(a, c);
    v[1] = I2S_NAME(highs)(a, c);
    v[2] = I2S_NAME(lows)(b, d);
    v[3] = I2S_NAME(highs)(b, d);
}

I2S_INLINE void I2S_NAME(unhalve)(v32 v[4]) {
    v32 a = v[0], b = v[1], c = v[2], d = v[3];
    v[0] = I2S_NAME(lows)(a, b);
    v[1] = I2S_NAME(lows)(c, d);
    v[2] = I2S_NAME(highs)(a, b);
    v[3] = I2S_NAME(highs)(c, d);
}

/* Field p of vector q becomes field q of vector p; the first field is in the top bits. */
I2S_INLINE void I2S_NAME(transpose)(v32 v[4]) {
    v32 t;
    /* exchange fields 1 and 3 of the even vectors with fields 0 and 2 of the odd ones */
    t = (v[0] ^ I2S_NAME(right)(v[1], 2)) & 0x33; v[0] ^= t; v[1] ^= I2S_NAME(left)(t, 2);
    t = (v[2] ^ I2S_NAME(right)(v[3], 2)) & 0x33; v[2] ^= t; v[3] ^= I2S_NAME(left)(t, 2);
    /* exchange the low nibbles of the first two with the high nibbles of the last two */
    t = (v[0] ^ I2S_NAME(right)(v[2], 4)) & 0x0F; v[0] ^= t; v[2] ^= I2S_NAME(left)(t, 4);
    t = (v[1] ^ I2S_NAME(right)(v[3], 4)) & 0x0F; v[1] ^= t; v[3] ^= I2S_NAME(left)(t, 4);
}

I2S_INLINE void I2S_NAME(turn)(v32 v[4]) {
    v32 t = v[0]; v[0] = v[3]; v[3] = t;
    t = v[1]; v[1] = v[2]; v[2] = t;
}
