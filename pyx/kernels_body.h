/* The payload kernels of x86, written once over 32-byte vectors and compiled for each instruction set.
 *
 * kernels.h includes this file once for each set, with I2S_NAME(x) (the suffix of the functions), I2S_TARGET (the function
 * attribute that switches the set on) and I2S_WIDE (its widest vector of 64-bit words). What the parameters mean:
 *
 * `group`, `lsb`: every layout is one scheme with two parameters. Bytes come in runs of `group`, and the four codes of byte
 * j of a run belong to elements j, group + j, 2 group + j and 3 group + j of a block of 4 group elements; the first of them
 * is in the top bits, or with `lsb` in the bottom bits. group is 32 for interleave-128, 16 for interleave-64, 1 for the
 * sequential layouts, the number of columns for rows-1x4, and a quarter of the elements for row-blocks-4.
 *
 * `map`: what an unpacked byte stands for. `remap`: NULL, or what i2s_remap_portable takes.
 *
 * `stream`: store past the cache, for a result that does not fit it. It is a wish: where the result is not aligned, or the
 * group is odd, ordinary stores serve. Where results are larger than payloads, `way` names a third way beside these two:
 * I2S_OWNED, ordinary stores to lines that were asked for.
 *
 * Memory is asked for I2S_AHEAD bytes before it is used: what a kernel computes on a line keeps the processor from seeing
 * the next lines by itself early enough. Sums and maxima are taken in trees, because an operation may take two cycles.
 */

#define I2S_INLINE static inline __attribute__((always_inline)) I2S_TARGET

/* Before 32 bytes at `at` are taken from each of four pieces of one run of memory, of which 4 at bytes are behind us. Where
 * the run is short, lines are asked for in their order in memory, a whole run ahead; with four distant pieces, in each. */
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

/* A streamed store is two halves, so that an address need only be a multiple of 16: that of a bytes object is. */
I2S_INLINE void I2S_NAME(store)(void *p, v32 v, int way) {
    if (way == I2S_PAST) {
        _mm_stream_si128((__m128i *)p, _mm256_castsi256_si128((__m256i)v));
        _mm_stream_si128((__m128i *)p + 1, _mm256_extracti128_si256((__m256i)v, 1));
    } else {
        *(v32u *)p = v;
    }
}

/* Asks for the lines of a result that are written a little later, so that the processor owns them by then. */
I2S_INLINE void I2S_NAME(own)(const void *p, int bytes, int way) {
    int i;
    if (way == I2S_OWNED)
        for (i = 0; i < bytes; i += 64) I2S_PREFETCH_AT((const uint8_t *)p + i, I2S_OWN_AHEAD);
}

/* Shifts are of 16-bit words: what slips in from the neighbour is masked away, or is zero for sound codes. */
I2S_INLINE v32 I2S_NAME(right)(v32 v, int shift) { return (v32)((v16w)v >> shift); }

I2S_INLINE v32 I2S_NAME(left)(v32 v, int shift) { return (v32)((v16w)v << shift); }

I2S_INLINE v32 I2S_NAME(field)(v32 v, int shift) { return I2S_NAME(right)(v, shift) & 3; }

I2S_INLINE v32 I2S_NAME(lows)(v32 a, v32 b) { return (v32)_mm256_permute2x128_si256((__m256i)a, (__m256i)b, 0x20); }

I2S_INLINE v32 I2S_NAME(highs)(v32 a, v32 b) { return (v32)_mm256_permute2x128_si256((__m256i)a, (__m256i)b, 0x31); }

/* --- permutations of four vectors ---------------------------------------------------------------------------------- */

/* Byte i of each of the four vectors side by side: `across` all 32 of them, or for each half by itself. */
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

/* 4 bytes of each, for each half by itself: piece b of vector q becomes piece q of vector b. */
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

/* Bytes q, 4 + q, 8 + q, ... of all four come together in vector q: those of vector b as word b, or if not `across` as
 * piece b of each half. It undoes what `interleave` does to `words`, or to `pieces`. */
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

/* Halves: of the columns 0 to 127 in four vectors, those that interleave-64 has in one field come together; and back. */
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

/* --- payload to one byte an element -------------------------------------------------------------------------------- */

/* How codes are read. Plain maps subtract a number. The others are twos-complement, or become it: zero-first has +1 and -1
 * for 1 and 2, and 0 for the unused 3, so 2 becomes 3 and 3 becomes 0 while four codes still share a byte. */
typedef struct { v32 less, odd; } I2S_NAME(reading);

I2S_INLINE v32 I2S_NAME(prepared)(v32 v, int plain, const I2S_NAME(reading) *how) {
    return plain ? v : (v ^ (I2S_NAME(right)(v, 1) & how->odd)) & ~I2S_NAME(left)(v & how->odd, 1);
}

I2S_INLINE v32 I2S_NAME(meaning)(v32 codes, int plain, const I2S_NAME(reading) *how) {
    return plain ? codes - how->less : (codes ^ 2) - 2;
}

/* Four distant rows of one run, one after the other: of each, the codes of I2S_STRIP bytes, which stay in the nearest cache
 * meanwhile. How many bytes of the run are done. */
I2S_INLINE int64_t I2S_NAME(unpack_rows)(const uint8_t *src, int64_t group, int lsb, int plain, const I2S_NAME(reading) *how,
                                         uint8_t *dst, int way) {
    const int64_t whole = group & ~(int64_t)63;
    int64_t from, i;
    int p;
    for (from = 0; from < whole; from += I2S_STRIP) {
        const int64_t to = whole - from < I2S_STRIP ? whole : from + I2S_STRIP;
        I2S_UNROLL4 for (p = 0; p < 4; p++) {
            uint8_t *row = dst + (lsb ? 3 - p : p) * group;
            for (i = from; i < to; i += 64) {
                const v32 v = I2S_NAME(prepared)(I2S_NAME(load)(src + i), plain, how);
                const v32 w = I2S_NAME(prepared)(I2S_NAME(load)(src + i + 32), plain, how);
                I2S_NAME(own)(row + i, 64, way);
                I2S_NAME(store)(row + i, I2S_NAME(meaning)(I2S_NAME(field)(v, 6 - 2 * p), plain, how), way);
                I2S_NAME(store)(row + i + 32, I2S_NAME(meaning)(I2S_NAME(field)(w, 6 - 2 * p), plain, how), way);
            }
        }
    }
    return whole;
}

I2S_INLINE void I2S_NAME(unpack_runs)(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, int plain,
                                      const I2S_NAME(reading) *how, uint8_t *dst, int way) {
    int64_t b, j;
    int p;
    for (b = 0; b < blocks; b++, src += group, dst += 4 * group) {
        j = group < 64 ? 0 : I2S_NAME(unpack_rows)(src, group, lsb, plain, how, dst, way);
        for (; j + 32 <= group; j += 32) {
            if (group == 32) I2S_NAME(own)(dst, 128, way);
            v32 v = I2S_NAME(prepared)(I2S_NAME(load)(src + j), plain, how);
            I2S_UNROLL4 for (p = 0; p < 4; p++)
                I2S_NAME(store)(dst + (lsb ? 3 - p : p) * group + j,
                                I2S_NAME(meaning)(I2S_NAME(field)(v, 6 - 2 * p), plain, how), way);
        }
        for (; j < group; j++)
            for (p = 0; p < 4; p++) dst[(lsb ? 3 - p : p) * group + j] = i2s_meaning((src[j] >> (6 - 2 * p)) & 3, map);
    }
}

/* Both halves of a register hold the same 16 bytes, and are shifted so that two fields come out of one. */
I2S_INLINE int64_t I2S_NAME(unpack_16)(const uint8_t *src, int64_t blocks, int plain, const I2S_NAME(reading) *how,
                                       uint8_t *dst, int way) {
    int64_t b;
    int h;
    for (b = 0; b + 2 <= blocks; b += 2) {
        v32 v = I2S_NAME(prepared)(I2S_NAME(load)(src + 16 * b), plain, how);
        for (h = 0; h < 2; h++) {
            I2S_NAME(own)(dst + 64 * (b + h), 64, way);
            v32 twice = h ? I2S_NAME(highs)(v, v) : I2S_NAME(lows)(v, v);
            v32 first = (v32)((v4q)twice >> (v4q){6, 6, 4, 4}) & 3, second = (v32)((v4q)twice >> (v4q){2, 2, 0, 0}) & 3;
            I2S_NAME(store)(dst + 64 * (b + h), I2S_NAME(meaning)(first, plain, how), way);
            I2S_NAME(store)(dst + 64 * (b + h) + 32, I2S_NAME(meaning)(second, plain, how), way);
        }
    }
    return b;
}

I2S_INLINE int64_t I2S_NAME(unpack_1)(const uint8_t *src, int64_t blocks, int lsb, int plain, const I2S_NAME(reading) *how,
                                      uint8_t *dst, int way) {
    int64_t b;
    int p;
    for (b = 0; b + 32 <= blocks; b += 32) {
        v32 v = I2S_NAME(prepared)(I2S_NAME(load)(src + b), plain, how), x[4];
        I2S_UNROLL4 for (p = 0; p < 4; p++) x[p] = I2S_NAME(meaning)(I2S_NAME(field)(v, lsb ? 2 * p : 6 - 2 * p), plain, how);
        I2S_NAME(own)(dst + 4 * b, 128, way);
        I2S_NAME(interleave)(x, 1);
        I2S_UNROLL4 for (p = 0; p < 4; p++) I2S_NAME(store)(dst + 4 * b + 32 * p, x[p], way);
    }
    return b;
}

I2S_INLINE void I2S_NAME(unpack_with)(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, int plain,
                                      uint8_t *dst, int way) {
    const I2S_NAME(reading) how = {(v32){0} + (uint8_t)(map == I2S_OFFSET_1 ? 1 : map == I2S_OFFSET_2 ? 2 : 0),
                                   (v32){0} + (uint8_t)(map == I2S_ZERO_FIRST ? 0x55 : 0)};
    int64_t done = 0;
    if (group == 32 && !lsb) {
        I2S_NAME(unpack_runs)(src, blocks, 32, 0, map, plain, &how, dst, way);
        return;
    }
    if (group == 1) {
        if (lsb) done = I2S_NAME(unpack_1)(src, blocks, 1, plain, &how, dst, way);
        else done = I2S_NAME(unpack_1)(src, blocks, 0, plain, &how, dst, way);
    } else if (group == 16 && !lsb) {
        done = I2S_NAME(unpack_16)(src, blocks, plain, &how, dst, way);
    }
    I2S_NAME(unpack_runs)(src + done * group, blocks - done, group, lsb, map, plain, &how, dst + 4 * done * group, way);
}

static I2S_TARGET void I2S_NAME(i2s_unpack)(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map,
                                            uint8_t *dst, int way) {
    const int plain = map != I2S_TWOS_COMPLEMENT && map != I2S_ZERO_FIRST;
    if (way == I2S_PAST && !I2S_CAN_STREAM(dst, group)) way = I2S_PLAIN;
#define I2S_CALL(WAY)                                                                                                   \
    if (plain) I2S_NAME(unpack_with)(src, blocks, group, lsb, map, 1, dst, WAY);                                        \
    else I2S_NAME(unpack_with)(src, blocks, group, lsb, map, 0, dst, WAY)
    I2S_BY_WAY(way)
#undef I2S_CALL
}

/* --- one byte an element to payload; whether anything was not -1, 0 or +1 (not 0 to 3 for codes) -------------------- */

/* How codes are made of trits. Plain maps (none, and offset-1) add a number, and the largest sum tells whether all were
 * sound. The others take two bits; zero-first is first written as twos-complement, then 3 becomes 2. */
typedef struct { v32 more, odd, worst; } I2S_NAME(writing);

I2S_INLINE v32 I2S_NAME(larger)(v32 a, v32 b) { return (v32)_mm256_max_epu8((__m256i)a, (__m256i)b); }

I2S_INLINE void I2S_NAME(codes)(v32 x[4], int plain, I2S_NAME(writing) *how) {
    v32 judged[4];
    int p;
    I2S_UNROLL4 for (p = 0; p < 4; p++) {
        judged[p] = plain ? x[p] + how->more : x[p] + 1;
        x[p] = plain ? judged[p] : (x[p] + how->more) & 3;
    }
    how->worst = I2S_NAME(larger)(how->worst, I2S_NAME(larger)(I2S_NAME(larger)(judged[0], judged[1]),
                                                               I2S_NAME(larger)(judged[2], judged[3])));
}

I2S_INLINE v32 I2S_NAME(finished)(v32 v, int plain, const I2S_NAME(writing) *how) {
    return plain ? v : v ^ (I2S_NAME(right)(v, 1) & how->odd);
}

I2S_INLINE int I2S_NAME(pack_runs)(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, int plain,
                                   I2S_NAME(writing) *how, uint8_t *dst, int stream) {
    const int64_t ahead = I2S_LINES_AHEAD(4 * group);
    int64_t b, j;
    int p, bad = 0;
    for (b = 0; b < blocks; b++, src += 4 * group, dst += group) {
        const uint8_t *from[4];
        I2S_UNROLL4 for (p = 0; p < 4; p++) from[p] = src + (lsb ? 3 - p : p) * group;
        for (j = 0; j + 32 <= group; j += 32) {
            v32 x[4];
            I2S_UNROLL4 for (p = 0; p < 4; p++) x[p] = I2S_NAME(load)(from[p] + j);
            I2S_NAME(ask_four)(src + 4 * j, from, j, ahead);
            I2S_NAME(codes)(x, plain, how);
            x[0] = I2S_NAME(left)(x[0], 6) | I2S_NAME(left)(x[1], 4) | I2S_NAME(left)(x[2], 2) | x[3];
            I2S_NAME(store)(dst + j, I2S_NAME(finished)(x[0], plain, how), stream);
        }
        for (; j < group; j++) {
            uint8_t v = 0;
            I2S_UNROLL4 for (p = 0; p < 4; p++) {
                const uint8_t t = from[p][j];
                bad |= map == I2S_CODES ? t > 3 : (uint8_t)(t + 1) > 2;
                v |= (uint8_t)(i2s_code(t, map) << (6 - 2 * p));
            }
            dst[j] = v;
        }
    }
    return bad;
}

I2S_INLINE int64_t I2S_NAME(pack_16)(const uint8_t *src, int64_t blocks, int plain, I2S_NAME(writing) *how, uint8_t *dst,
                                     int stream) {
    int64_t b;
    int p;
    for (b = 0; b + 2 <= blocks; b += 2) {
        v32 x[4], first, second;
        I2S_UNROLL4 for (p = 0; p < 4; p++) x[p] = I2S_NAME(load)(src + 64 * b + 32 * p);
        I2S_PREFETCH(src + 64 * b);
        I2S_PREFETCH(src + 64 * b + 64);
        I2S_NAME(codes)(x, plain, how);
        first = (v32)(((v4q)x[0] << (v4q){6, 6, 4, 4}) | ((v4q)x[1] << (v4q){2, 2, 0, 0}));
        second = (v32)(((v4q)x[2] << (v4q){6, 6, 4, 4}) | ((v4q)x[3] << (v4q){2, 2, 0, 0}));
        x[0] = I2S_NAME(lows)(first, second) | I2S_NAME(highs)(first, second);
        I2S_NAME(store)(dst + 16 * b, I2S_NAME(finished)(x[0], plain, how), stream);
    }
    return b;
}

/* Neighbours are joined by a multiplication and an addition, twice. */
I2S_INLINE int64_t I2S_NAME(pack_1)(const uint8_t *src, int64_t blocks, int lsb, int plain, I2S_NAME(writing) *how,
                                    uint8_t *dst, int stream) {
    const __m256i pairs = _mm256_set1_epi16(lsb ? 0x0401 : 0x0104), fours = _mm256_set1_epi16(lsb ? 0x1001 : 0x0110);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    int64_t b;
    int p;
    for (b = 0; b + 32 <= blocks; b += 32) {
        v32 x[4];
        __m256i d[4];
        I2S_UNROLL4 for (p = 0; p < 4; p++) x[p] = I2S_NAME(load)(src + 4 * b + 32 * p);
        I2S_PREFETCH(src + 4 * b);
        I2S_PREFETCH(src + 4 * b + 64);
        I2S_NAME(codes)(x, plain, how);
        I2S_UNROLL4 for (p = 0; p < 4; p++) d[p] = _mm256_maddubs_epi16((__m256i)x[p], pairs);
        d[0] = _mm256_maddubs_epi16(_mm256_packus_epi16(d[0], d[1]), fours);
        d[1] = _mm256_maddubs_epi16(_mm256_packus_epi16(d[2], d[3]), fours);
        d[0] = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(d[0], d[1]), order);
        I2S_NAME(store)(dst + b, I2S_NAME(finished)((v32)d[0], plain, how), stream);
    }
    return b;
}

I2S_INLINE int I2S_NAME(pack_with)(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, int plain,
                                   uint8_t *dst, int stream) {
    I2S_NAME(writing) how = {(v32){0} + (uint8_t)(map == I2S_OFFSET_1 ? 1 : map == I2S_OFFSET_2 ? 2 : 0),
                             (v32){0} + (uint8_t)(map == I2S_ZERO_FIRST ? 0x55 : 0), {0}};
    int64_t done = 0;
    int p, bad = 0;
    if (group == 32 && !lsb) {
        bad = I2S_NAME(pack_runs)(src, blocks, 32, 0, map, plain, &how, dst, stream);
    } else {
        if (group == 1) {
            if (lsb) done = I2S_NAME(pack_1)(src, blocks, 1, plain, &how, dst, stream);
            else done = I2S_NAME(pack_1)(src, blocks, 0, plain, &how, dst, stream);
        } else if (group == 16 && !lsb) {
            done = I2S_NAME(pack_16)(src, blocks, plain, &how, dst, stream);
        }
        bad = I2S_NAME(pack_runs)(src + 4 * done * group, blocks - done, group, lsb, map, plain, &how, dst + done * group,
                                  stream);
    }
    for (p = 0; p < 32; p++) bad |= how.worst[p] > (map == I2S_CODES ? 3 : 2);
    return bad;
}

static I2S_TARGET int I2S_NAME(i2s_pack)(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, uint8_t *dst,
                                         int stream) {
    const int plain = map == I2S_CODES || map == I2S_OFFSET_1;
    int bad;
    if (stream && I2S_CAN_STREAM(dst, group)) {
        if (plain) bad = I2S_NAME(pack_with)(src, blocks, group, lsb, map, 1, dst, 1);
        else bad = I2S_NAME(pack_with)(src, blocks, group, lsb, map, 0, dst, 1);
        _mm_sfence();
        return bad;
    }
    if (plain) return I2S_NAME(pack_with)(src, blocks, group, lsb, map, 1, dst, 0);
    return I2S_NAME(pack_with)(src, blocks, group, lsb, map, 0, dst, 0);
}

/* --- payload to float32: scale * trit, one multiplication, so that the sign of zero and NaN are those of C ---------- */

/* A look-up takes two bits of each 32-bit word and minds no others, so that codes need not be cut out. */
I2S_INLINE v32 I2S_NAME(values)(const float table[4], __m256i words) {
    return (v32)_mm256_permutevar_ps(_mm256_broadcast_ps((const __m128 *)table), words);
}

/* Four distant rows of one run, one after the other. */
I2S_INLINE int64_t I2S_NAME(float_rows)(const uint8_t *src, int64_t group, int lsb, const float table[4], float *dst, int way) {
    const int64_t whole = group & ~(int64_t)15;
    int64_t from, i;
    int p;
    for (from = 0; from < whole; from += I2S_STRIP / 4) {
        const int64_t to = whole - from < I2S_STRIP / 4 ? whole : from + I2S_STRIP / 4;
        I2S_UNROLL4 for (p = 0; p < 4; p++) {
            float *row = dst + (lsb ? 3 - p : p) * group;
            for (i = from; i < to; i += 16) {
                const __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(src + i)));
                const __m256i w = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(src + i + 8)));
                I2S_NAME(own)(row + i, 64, way);
                I2S_NAME(store)(row + i, I2S_NAME(values)(table, _mm256_srli_epi32(v, 6 - 2 * p)), way);
                I2S_NAME(store)(row + i + 8, I2S_NAME(values)(table, _mm256_srli_epi32(w, 6 - 2 * p)), way);
            }
        }
    }
    return whole;
}

/* Rows of 16 or 32 elements, each of them written as a whole. */
I2S_INLINE void I2S_NAME(float_blocks)(const uint8_t *src, int64_t blocks, int group, const float table[4], float *dst, int way) {
    int64_t b;
    int p, q;
    for (b = 0; b < blocks; b++, src += group, dst += 4 * group) {
        __m256i words[4];
        I2S_UNROLL4 for (q = 0; q < group / 8; q++)
            words[q] = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(src + 8 * q)));
        I2S_NAME(own)(dst, 16 * group, way);
        I2S_UNROLL4 for (p = 0; p < 4; p++)
            I2S_UNROLL4 for (q = 0; q < group / 8; q++)
                I2S_NAME(store)(dst + p * group + 8 * q, I2S_NAME(values)(table, _mm256_srli_epi32(words[q], 6 - 2 * p)), way);
    }
}

I2S_INLINE void I2S_NAME(float_runs)(const uint8_t *src, int64_t blocks, int64_t group, int lsb, const float table[4],
                                     float *dst, int way) {
    int64_t b, j;
    int p;
    for (b = 0; b < blocks; b++, src += group, dst += 4 * group) {
        j = group < 64 ? 0 : I2S_NAME(float_rows)(src, group, lsb, table, dst, way);
        for (; j < group; j++)
            for (p = 0; p < 4; p++) dst[(lsb ? 3 - p : p) * group + j] = table[(src[j] >> (6 - 2 * p)) & 3];
    }
}

/* Four bytes are sixteen elements: each 32-bit word gets them all, shifted as its element wants it. */
I2S_INLINE int64_t I2S_NAME(floats_1)(const uint8_t *src, int64_t blocks, int lsb, const float table[4], float *dst,
                                      int way) {
    const __m256i first = lsb ? _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14) : _mm256_setr_epi32(6, 4, 2, 0, 14, 12, 10, 8);
    const __m256i second = _mm256_add_epi32(first, _mm256_set1_epi32(16));
    int64_t b;
    for (b = 0; b + 4 <= blocks; b += 4) {
        int32_t four;
        __m256i words;
        memcpy(&four, src + b, 4);
        words = _mm256_set1_epi32(four);
        I2S_NAME(own)(dst + 4 * b, 64, way);
        I2S_NAME(store)(dst + 4 * b, I2S_NAME(values)(table, _mm256_srlv_epi32(words, first)), way);
        I2S_NAME(store)(dst + 4 * b + 8, I2S_NAME(values)(table, _mm256_srlv_epi32(words, second)), way);
    }
    return b;
}

I2S_INLINE void I2S_NAME(floats_with)(const uint8_t *src, int64_t blocks, int64_t group, int lsb, const float table[4],
                                      float *dst, int way) {
    int64_t done = 0;
    if (!lsb && (group == 32 || group == 16)) {
        if (group == 32) I2S_NAME(float_blocks)(src, blocks, 32, table, dst, way);
        else I2S_NAME(float_blocks)(src, blocks, 16, table, dst, way);
        return;
    }
    if (group == 1) {
        if (lsb) done = I2S_NAME(floats_1)(src, blocks, 1, table, dst, way);
        else done = I2S_NAME(floats_1)(src, blocks, 0, table, dst, way);
    }
    I2S_NAME(float_runs)(src + done * group, blocks - done, group, lsb, table, dst + 4 * done * group, way);
}

static I2S_TARGET void I2S_NAME(i2s_floats)(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map,
                                            float scale, float *dst, int way) {
    float table[4];
    int p;
    for (p = 0; p < 4; p++) table[p] = i2s_weight((uint8_t)p, map, scale);
    if ((way == I2S_PAST || way == I2S_UNFENCED) && !I2S_CAN_STREAM(dst, group == 1 ? 16 : 4 * group)) way = I2S_PLAIN;
#define I2S_CALL(WAY) I2S_NAME(floats_with)(src, blocks, group, lsb, table, dst, WAY)
    I2S_BY_WAY(way)
#undef I2S_CALL
}

/* --- payload to payload, without an element ever leaving the registers --------------------------------------------- */

/* What i2s_remap_portable does, by a look-up of each nibble; without coefficients a copy. n is a multiple of 32. */
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

/* Both halves of a block in both lanes, those of the upper lane shifted to where the second 64-block, or the second group,
 * has its bits; then four fields are picked. */
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

/* Four blocks of 128 elements from one layout to another. In a sequential block, word q of 8 bytes has the elements that
 * field q has in interleave-128, four neighbours to a byte: to go there, the words of four blocks come together by number,
 * fields are transposed between the numbers, and what was a byte becomes four neighbours. To interleave-64 it is the same
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

/* rows-1x4 and row-blocks-4 have a byte for each column of four rows: a transposition of fields makes rows of blocks of it,
 * or the way back. Columns are a multiple of 128. Group i of the `first` to `last` shares the bytes i cols to (i + 1) cols,
 * and is the rows i, i + step, i + 2 step and i + 3 step, or with step 1 the rows 4 i to 4 i + 3. */
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

/* What is streamed or remapped is put together in the cache and leaves row by row. */
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

/* --- does a code occur at all -------------------------------------------------------------------------------------- */

/* In the even bits: where code 1, 2 or 3 has been seen; for code 0, where only others were. Three operations each. */
#define I2S_SEEN(a, v, code)                                                                                            \
    ((code) == 3 ? (a) | ((v) & ((v) >> 1)) : (code) == 2 ? (a) | (~(v) & ((v) >> 1)) :                                 \
     (code) == 1 ? (a) | ((v) & ~((v) >> 1)) : (a) & ((v) | ((v) >> 1)))

I2S_INLINE int I2S_NAME(scan_with)(const uint8_t *src, int64_t n, int code) {
    const int64_t w = sizeof(I2S_WIDE);
    const uint64_t even = 0x5555555555555555u;
    int64_t i = 0, stop;
    int q;
    while (n - i >= 4 * w) {
        I2S_WIDE a = (I2S_WIDE){0} - (code == 0), b = a, c = a, d = a;
        uint64_t seen = 0;
        stop = n - i > 65536 ? i + 65536 : n;
        for (; i + 4 * w <= stop; i += 4 * w) {
            I2S_WIDE x = *(const I2S_WIDE_LOADED *)(src + i), y = *(const I2S_WIDE_LOADED *)(src + i + w);
            I2S_WIDE z = *(const I2S_WIDE_LOADED *)(src + i + 2 * w), u = *(const I2S_WIDE_LOADED *)(src + i + 3 * w);
            for (q = 0; q < 4 * w; q += 64) I2S_PREFETCH(src + i + q);
            a = I2S_SEEN(a, x, code);
            b = I2S_SEEN(b, y, code);
            c = I2S_SEEN(c, z, code);
            d = I2S_SEEN(d, u, code);
        }
        a = code == 0 ? ~(a & b & c & d) : a | b | c | d;
        for (q = 0; q < (int)(w / 8); q++) seen |= a[q] & even;
        if (seen) return 1;
    }
    return i2s_scan_portable(src + i, n - i, code);
}

static I2S_TARGET int I2S_NAME(i2s_scan)(const uint8_t *src, int64_t n, int code) {
    switch (code) {
    case 0: return I2S_NAME(scan_with)(src, n, 0);
    case 1: return I2S_NAME(scan_with)(src, n, 1);
    case 2: return I2S_NAME(scan_with)(src, n, 2);
    default: return I2S_NAME(scan_with)(src, n, 3);
    }
}

/* The read probe of the benchmarks: what memory gives when nothing but an OR is done with it. */
static I2S_TARGET uint64_t I2S_NAME(i2s_read)(const uint8_t *src, int64_t n) {
    const int64_t w = sizeof(I2S_WIDE);
    I2S_WIDE a = {0}, b = {0}, c = {0}, d = {0};
    int64_t i;
    for (i = 0; i + 4 * w <= n; i += 4 * w) {
        a |= *(const I2S_WIDE_LOADED *)(src + i);
        b |= *(const I2S_WIDE_LOADED *)(src + i + w);
        c |= *(const I2S_WIDE_LOADED *)(src + i + 2 * w);
        d |= *(const I2S_WIDE_LOADED *)(src + i + 3 * w);
    }
    a |= b | c | d;
    return (a[0] | a[1] | a[2] | a[3]) | i2s_read_portable(src + i, n - i);
}

/* The write probe: stores and nothing else. */
static I2S_TARGET void I2S_NAME(i2s_write)(uint8_t *dst, int64_t n) {
    const v32 v = (v32){0} + 1;
    int64_t i;
    for (i = 0; i + 64 <= n; i += 64) {
        I2S_NAME(store)(dst + i, v, I2S_PLAIN);
        I2S_NAME(store)(dst + i + 32, v, I2S_PLAIN);
        __asm__ volatile("" : : : "memory");  /* no call of memset */
    }
    memset(dst + i, 1, (size_t)(n - i));
}

#undef I2S_INLINE
#undef I2S_SEEN
