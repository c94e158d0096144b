/* The payload kernels, written once over 32-byte vectors and compiled for each instruction set.
 *
 * kernels.h includes this file once for each set, with I2S_NAME(x) (the suffix of the functions), I2S_TARGET (the
 * function attribute that switches the set on), I2S_STREAM32(p, v) (a store past the cache, or an ordinary one) and
 * I2S_FENCE(). Nothing here needs Python.
 *
 * Every layout is one scheme with two parameters: bytes come in runs of `group`, and the four codes of byte j of a run
 * belong to elements j, group + j, 2 group + j and 3 group + j of a block of 4 group elements; the first of them is in
 * the top bits, or with `lsb` in the bottom bits. group is 32 for interleave-128, 16 for interleave-64, 1 for the
 * sequential layouts, the number of columns for rows-1x4, and a quarter of the elements for row-blocks-4.
 */

#define I2S_INLINE static inline __attribute__((always_inline)) I2S_TARGET

I2S_INLINE v32 I2S_NAME(load)(const void *p) { return *(const v32u *)p; }

I2S_INLINE void I2S_NAME(store)(void *p, v32 v, int stream) {
    if (stream) I2S_STREAM32(p, v);
    else *(v32u *)p = v;
}

/* What a code stands for, as map_id says: the code itself, or the trit of a code map. The unused code of a map gives
 * what its arithmetic gives: +2 for offset-1, -2 for twos-complement and offset-2, 0 for zero-first. */
I2S_INLINE v32 I2S_NAME(meaning)(v32 c, int map) {
    switch (map) {
    case I2S_OFFSET_1: return c - 1;
    case I2S_ZERO_FIRST: return (c & 1) - (c >> 1);
    case I2S_TWOS_COMPLEMENT: return (c ^ 2) - 2;
    case I2S_OFFSET_2: return c - 2;
    default: return c;
    }
}

/* The code of a trit -1, 0, +1; or the code itself. */
I2S_INLINE v32 I2S_NAME(code)(v32 t, int map) {
    switch (map) {
    case I2S_OFFSET_1: return t + 1;
    case I2S_ZERO_FIRST: return (t & 1) + ((t >> 7) & 1);
    case I2S_TWOS_COMPLEMENT: return t & 3;
    case I2S_OFFSET_2: return t + 2;
    default: return t;
    }
}

/* Shifts by 16-bit words: what slips in from the neighbour is masked away, or is zero for sound codes. */
I2S_INLINE v32 I2S_NAME(right)(v32 v, int shift) { return (v32)((v16w)v >> shift); }

I2S_INLINE v32 I2S_NAME(left)(v32 v, int shift) { return (v32)((v16w)v << shift); }

I2S_INLINE v32 I2S_NAME(field)(v32 v, int shift) { return I2S_NAME(right)(v, shift) & 3; }

/* 32 codes in the order of their elements, from 8 bytes of a sequential layout; and 32 bytes from 128 codes. */
#ifdef I2S_X86
I2S_INLINE v32 I2S_NAME(spread)(const uint8_t *p, int lsb) {
    const __m256i each = _mm256_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3,
                                          4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7);
    const __m256i by4 = _mm256_set1_epi32(lsb ? (int)0xFFFF0000u : 0x0000FFFF);
    const __m256i by2 = _mm256_set1_epi32(lsb ? (int)0xFF00FF00u : 0x00FF00FF);
    int64_t eight;
    memcpy(&eight, p, 8);
    __m256i t = _mm256_shuffle_epi8(_mm256_set1_epi64x(eight), each);
    t = _mm256_blendv_epi8(t, _mm256_srli_epi16(t, 4), by4);
    t = _mm256_blendv_epi8(t, _mm256_srli_epi16(t, 2), by2);
    return (v32)_mm256_and_si256(t, _mm256_set1_epi8(3));
}

I2S_INLINE v32 I2S_NAME(gather)(const v32 x[4], int lsb) {
    const __m256i weights = _mm256_set1_epi32(lsb ? 0x40100401 : 0x01041040), one = _mm256_set1_epi16(1);
    __m256i d[4];
    int p;
    for (p = 0; p < 4; p++) d[p] = _mm256_madd_epi16(_mm256_maddubs_epi16((__m256i)x[p], weights), one);
    d[0] = _mm256_packus_epi16(_mm256_packs_epi32(d[0], d[1]), _mm256_packs_epi32(d[2], d[3]));
    return (v32)_mm256_permutevar8x32_epi32(d[0], _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
#else
I2S_INLINE v32 I2S_NAME(spread)(const uint8_t *p, int lsb) {
    v8d d = __builtin_convertvector(*(const v8bu *)p, v8d);
    if (lsb) return (v32)((d & 3) | ((d << 6) & 0x300) | ((d << 12) & 0x30000) | ((d << 18) & 0x3000000));
    return (v32)((d >> 6) | ((d << 4) & 0x300) | ((d << 14) & 0x30000) | ((d << 24) & 0x3000000));
}

I2S_INLINE v32 I2S_NAME(gather)(const v32 x[4], int lsb) {
    union { v32 v; v8b b[4]; } u;
    int p;
    for (p = 0; p < 4; p++) {
        v8d d = (v8d)x[p];
        if (lsb) d = (d & 3) | ((d >> 6) & 0xC) | ((d >> 12) & 0x30) | ((d >> 18) & 0xC0);
        else d = ((d << 6) & 0xC0) | ((d >> 4) & 0x30) | ((d >> 14) & 0xC) | ((d >> 24) & 3);
        u.b[p] = __builtin_convertvector(d, v8b);
    }
    return u.v;
}
#endif

I2S_INLINE v32 I2S_NAME(lows)(v32 a, v32 b) {
    return __builtin_shuffle(a, b, (v32){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
                                         32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47});
}

I2S_INLINE v32 I2S_NAME(highs)(v32 a, v32 b) {
    return __builtin_shuffle(a, b, (v32){16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                         48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63});
}

#ifdef I2S_X86
/* Four vectors of 32 bytes to 128 bytes in which byte i of each stands side by side. */
I2S_INLINE void I2S_NAME(interleave)(const v32 w[4], v32 out[4]) {
    __m256i a = _mm256_unpacklo_epi8((__m256i)w[0], (__m256i)w[1]), b = _mm256_unpackhi_epi8((__m256i)w[0], (__m256i)w[1]);
    __m256i c = _mm256_unpacklo_epi8((__m256i)w[2], (__m256i)w[3]), d = _mm256_unpackhi_epi8((__m256i)w[2], (__m256i)w[3]);
    __m256i e = _mm256_unpacklo_epi16(a, c), f = _mm256_unpackhi_epi16(a, c);
    __m256i g = _mm256_unpacklo_epi16(b, d), h = _mm256_unpackhi_epi16(b, d);
    out[0] = (v32)_mm256_permute2x128_si256(e, f, 0x20);
    out[1] = (v32)_mm256_permute2x128_si256(g, h, 0x20);
    out[2] = (v32)_mm256_permute2x128_si256(e, f, 0x31);
    out[3] = (v32)_mm256_permute2x128_si256(g, h, 0x31);
}
#endif

/* --- payload to one byte an element -------------------------------------------------------------------------------- */

I2S_INLINE void I2S_NAME(unpack_with)(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, uint8_t *dst,
                                      int stream) {
    int64_t b, j;
    int p;
    if (group == 1) {
        b = 0;
#ifdef I2S_X86
        for (; b + 32 <= blocks; b += 32) {
            v32 v = I2S_NAME(load)(src + b), y[4], out[4];
            for (p = 0; p < 4; p++) y[p] = I2S_NAME(meaning)(I2S_NAME(field)(v, lsb ? 2 * p : 6 - 2 * p), map);
            I2S_NAME(interleave)(y, out);
            for (p = 0; p < 4; p++) I2S_NAME(store)(dst + 4 * b + 32 * p, out[p], stream);
        }
#endif
        for (; b + 8 <= blocks; b += 8)
            I2S_NAME(store)(dst + 4 * b, I2S_NAME(meaning)(I2S_NAME(spread)(src + b, lsb), map), stream);
        src += b;
        dst += 4 * b;
        blocks -= b;
    } else if (group == 16) {
        for (b = 0; b + 2 <= blocks; b += 2) {
            v32 v = I2S_NAME(load)(src + 16 * b), y[4];
            for (p = 0; p < 4; p++) y[p] = I2S_NAME(meaning)(I2S_NAME(field)(v, lsb ? 2 * p : 6 - 2 * p), map);
            I2S_NAME(store)(dst + 64 * b, I2S_NAME(lows)(y[0], y[1]), stream);
            I2S_NAME(store)(dst + 64 * b + 32, I2S_NAME(lows)(y[2], y[3]), stream);
            I2S_NAME(store)(dst + 64 * b + 64, I2S_NAME(highs)(y[0], y[1]), stream);
            I2S_NAME(store)(dst + 64 * b + 96, I2S_NAME(highs)(y[2], y[3]), stream);
        }
        src += 16 * b;
        dst += 64 * b;
        blocks -= b;
    }
    for (b = 0; b < blocks; b++, src += group, dst += 4 * group) {
        for (j = 0; j + 32 <= group; j += 32) {
            v32 v = I2S_NAME(load)(src + j);
            for (p = 0; p < 4; p++)
                I2S_NAME(store)(dst + p * group + j,
                                I2S_NAME(meaning)(I2S_NAME(field)(v, lsb ? 2 * p : 6 - 2 * p), map), stream);
        }
        for (; j < group; j++)
            for (p = 0; p < 4; p++) dst[p * group + j] = i2s_meaning((src[j] >> (lsb ? 2 * p : 6 - 2 * p)) & 3, map);
    }
}

static I2S_TARGET void I2S_NAME(i2s_unpack)(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map,
                                            uint8_t *dst, int stream) {
#define I2S_CALL(M)                                                                                                     \
    case M:                                                                                                             \
        if (group == 32 && !lsb) I2S_NAME(unpack_with)(src, blocks, 32, 0, M, dst, stream);                             \
        else if (lsb) I2S_NAME(unpack_with)(src, blocks, group, 1, M, dst, stream);                                     \
        else I2S_NAME(unpack_with)(src, blocks, group, 0, M, dst, stream);                                              \
        break;
    if (stream) switch (map) { I2S_MAPS(I2S_CALL) }
    else {
        stream = 0;
        switch (map) { I2S_MAPS(I2S_CALL) }
    }
#undef I2S_CALL
    if (stream) I2S_FENCE();
}

/* --- one byte an element to payload; anything but -1, 0 and +1 (or 0 to 3 for codes) is counted as wrong ------------ */

/* The largest of these is above the bound exactly where a byte was no trit, or no code. */
I2S_INLINE v32 I2S_NAME(judged)(v32 t, int map) { return map == I2S_CODES ? t : t + 1; }

I2S_INLINE v32 I2S_NAME(larger)(v32 a, v32 b) {
#ifdef I2S_X86
    return (v32)_mm256_max_epu8((__m256i)a, (__m256i)b);
#else
    v32 above = (v32)(a > b);
    return (a & above) | (b & ~above);
#endif
}

I2S_INLINE v32 I2S_NAME(joined)(const v32 x[4], int lsb) {
    if (lsb) return I2S_NAME(left)(x[3], 6) | I2S_NAME(left)(x[2], 4) | I2S_NAME(left)(x[1], 2) | x[0];
    return I2S_NAME(left)(x[0], 6) | I2S_NAME(left)(x[1], 4) | I2S_NAME(left)(x[2], 2) | x[3];
}

I2S_INLINE int I2S_NAME(pack_with)(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, uint8_t *dst,
                                   int stream) {
    int64_t b, j;
    int p, bad = 0;
    v32 worst = {0}, x[4];
    if (group == 1) {
        for (b = 0; b + 32 <= blocks; b += 32) {
            for (p = 0; p < 4; p++) {
                v32 t = I2S_NAME(load)(src + 4 * b + 32 * p);
                worst = I2S_NAME(larger)(worst, I2S_NAME(judged)(t, map));
                x[p] = I2S_NAME(code)(t, map);
            }
            I2S_NAME(store)(dst + b, I2S_NAME(gather)(x, lsb), stream);
        }
        src += 4 * b;
        dst += b;
        blocks -= b;
    } else if (group == 16) {
        for (b = 0; b + 2 <= blocks; b += 2) {
            for (p = 0; p < 4; p++) {
                v32 t = I2S_NAME(load)(src + 64 * b + 32 * p);
                worst = I2S_NAME(larger)(worst, I2S_NAME(judged)(t, map));
                x[p] = I2S_NAME(code)(t, map);
            }
            v32 y[4] = {I2S_NAME(lows)(x[0], x[2]), I2S_NAME(highs)(x[0], x[2]), I2S_NAME(lows)(x[1], x[3]),
                        I2S_NAME(highs)(x[1], x[3])};
            I2S_NAME(store)(dst + 16 * b, I2S_NAME(joined)(y, lsb), stream);
        }
        src += 64 * b;
        dst += 16 * b;
        blocks -= b;
    }
    for (b = 0; b < blocks; b++, src += 4 * group, dst += group) {
        for (j = 0; j + 32 <= group; j += 32) {
            for (p = 0; p < 4; p++) {
                v32 t = I2S_NAME(load)(src + p * group + j);
                worst = I2S_NAME(larger)(worst, I2S_NAME(judged)(t, map));
                x[p] = I2S_NAME(code)(t, map);
            }
            I2S_NAME(store)(dst + j, I2S_NAME(joined)(x, lsb), stream);
        }
        for (; j < group; j++) {
            uint8_t v = 0;
            for (p = 0; p < 4; p++) {
                uint8_t t = src[p * group + j];
                bad |= map == I2S_CODES ? t > 3 : (uint8_t)(t + 1) > 2;
                v |= (uint8_t)(i2s_code(t, map) << (lsb ? 2 * p : 6 - 2 * p));
            }
            dst[j] = v;
        }
    }
    for (p = 0; p < 32; p++) bad |= worst[p] > (map == I2S_CODES ? 3 : 2);
    return bad;
}

static I2S_TARGET int I2S_NAME(i2s_pack)(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, uint8_t *dst,
                                         int stream) {
    int bad = 0;
#define I2S_CALL(M)                                                                                                     \
    case M:                                                                                                             \
        if (group == 32 && !lsb) bad = I2S_NAME(pack_with)(src, blocks, 32, 0, M, dst, stream);                         \
        else if (lsb) bad = I2S_NAME(pack_with)(src, blocks, group, 1, M, dst, stream);                                 \
        else bad = I2S_NAME(pack_with)(src, blocks, group, 0, M, dst, stream);                                          \
        break;
    if (stream) switch (map) { I2S_MAPS(I2S_CALL) }
    else {
        stream = 0;
        switch (map) { I2S_MAPS(I2S_CALL) }
    }
#undef I2S_CALL
    if (stream) I2S_FENCE();
    return bad;
}

/* --- payload to float32: scale * trit, one multiplication, so that the sign of zero and NaN are those of C ---------- */

/* 32 codes to 32 floats, by way of a table of four. */
I2S_INLINE void I2S_NAME(floats_of)(v32 codes, const float table[4], float *dst, int stream) {
    int q;
#ifdef I2S_X86
    const __m256 values = _mm256_broadcast_ps((const __m128 *)table);
    for (q = 0; q < 4; q++) {
        __m128i half = q < 2 ? _mm256_castsi256_si128((__m256i)codes) : _mm256_extracti128_si256((__m256i)codes, 1);
        __m256i d = _mm256_cvtepu8_epi32(q & 1 ? _mm_srli_si128(half, 8) : half);
        I2S_NAME(store)(dst + 8 * q, (v32)_mm256_permutevar_ps(values, d), stream);
    }
#else
    uint8_t c[32];
    *(v32u *)c = codes;
    (void)stream;
    for (q = 0; q < 32; q++) dst[q] = table[c[q]];
#endif
}

/* Runs of 8 bytes with 32 elements, 8 in each of four planes: codes need not be cut out, the look-up takes two bits. */
I2S_INLINE void I2S_NAME(float_planes)(const uint8_t *src, const float table[4], int lsb, float *dst, int64_t plane,
                                       int stream) {
    int p;
#ifdef I2S_X86
    const __m256 values = _mm256_broadcast_ps((const __m128 *)table);
    __m256i d = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)src));
    for (p = 0; p < 4; p++)
        I2S_NAME(store)(dst + p * plane, (v32)_mm256_permutevar_ps(values, _mm256_srli_epi32(d, lsb ? 2 * p : 6 - 2 * p)), stream);
#else
    int j;
    (void)stream;
    for (p = 0; p < 4; p++)
        for (j = 0; j < 8; j++) dst[p * plane + j] = table[(src[j] >> (lsb ? 2 * p : 6 - 2 * p)) & 3];
#endif
}

I2S_INLINE void I2S_NAME(floats_with)(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map, float scale,
                                      float *dst, int stream) {
    float table[4];
    int64_t b, j;
    int p;
    for (p = 0; p < 4; p++) table[p] = i2s_weight((uint8_t)p, map, scale);
    if (group == 1) {
        for (b = 0; b + 8 <= blocks; b += 8)
            I2S_NAME(floats_of)(I2S_NAME(spread)(src + b, lsb), table, dst + 4 * b, stream);
        src += b;
        dst += 4 * b;
        blocks -= b;
    }
    for (b = 0; b < blocks; b++, src += group, dst += 4 * group) {
        for (j = 0; j + 8 <= group; j += 8) I2S_NAME(float_planes)(src + j, table, lsb, dst + j, group, stream);
        for (; j < group; j++)
            for (p = 0; p < 4; p++) dst[p * group + j] = table[(src[j] >> (lsb ? 2 * p : 6 - 2 * p)) & 3];
    }
}

static I2S_TARGET void I2S_NAME(i2s_floats)(const uint8_t *src, int64_t blocks, int64_t group, int lsb, int map,
                                            float scale, float *dst, int stream) {
    if (stream) {
        if (group == 32 && !lsb) I2S_NAME(floats_with)(src, blocks, 32, 0, map, scale, dst, 1);
        else I2S_NAME(floats_with)(src, blocks, group, lsb, map, scale, dst, 1);
        I2S_FENCE();
    } else {
        if (group == 32 && !lsb) I2S_NAME(floats_with)(src, blocks, 32, 0, map, scale, dst, 0);
        else I2S_NAME(floats_with)(src, blocks, group, lsb, map, scale, dst, 0);
    }
}

/* --- payload to payload, without an element ever leaving the registers --------------------------------------------- */

/* Another code for each code, on packed bytes: the two bits of the new code are polynomials over the bits of the old one,
 * each c0 ^ c1 hi ^ c2 lo ^ c3 hi lo, with coefficients spread over the bytes as 0x00 or 0x55. */
I2S_INLINE v32 I2S_NAME(remap)(v32 v, const uint8_t *c) {
    v32 lo = v & 0x55, hi = I2S_NAME(right)(v, 1) & 0x55, both = lo & hi;
    v32 h = c[0] ^ (hi & c[1]) ^ (lo & c[2]) ^ (both & c[3]);
    v32 l = c[4] ^ (hi & c[5]) ^ (lo & c[6]) ^ (both & c[7]);
    return I2S_NAME(left)(h, 1) | l;
}

/* Blocks of 128 elements in 32 bytes, one layout to another: interleave-128 to or from interleave-64 directly, the rest
 * by way of the 128 codes in registers. */
I2S_INLINE void I2S_NAME(codes_of)(const uint8_t *src, int kind, v32 x[4]) {
    int p;
    if (kind == I2S_KIND_128) {
        v32 v = I2S_NAME(load)(src);
        for (p = 0; p < 4; p++) x[p] = I2S_NAME(field)(v, 6 - 2 * p);
    } else if (kind == I2S_KIND_64) {
        v32 v = I2S_NAME(load)(src), y[4];
        for (p = 0; p < 4; p++) y[p] = I2S_NAME(field)(v, 6 - 2 * p);
        x[0] = I2S_NAME(lows)(y[0], y[1]);
        x[1] = I2S_NAME(lows)(y[2], y[3]);
        x[2] = I2S_NAME(highs)(y[0], y[1]);
        x[3] = I2S_NAME(highs)(y[2], y[3]);
    } else {
        for (p = 0; p < 4; p++) x[p] = I2S_NAME(spread)(src + 8 * p, kind == I2S_KIND_LSB);
    }
}

I2S_INLINE v32 I2S_NAME(bytes_of)(const v32 x[4], int kind) {
    if (kind == I2S_KIND_128) return I2S_NAME(joined)(x, 0);
    if (kind == I2S_KIND_64) {
        v32 y[4] = {I2S_NAME(lows)(x[0], x[2]), I2S_NAME(highs)(x[0], x[2]), I2S_NAME(lows)(x[1], x[3]),
                    I2S_NAME(highs)(x[1], x[3])};
        return I2S_NAME(joined)(y, 0);
    }
    return I2S_NAME(gather)(x, kind == I2S_KIND_LSB);
}

I2S_INLINE void I2S_NAME(transpose)(v32 v[4]) {
    v32 t;
    /* exchange fields 1,3 of the even vectors with fields 0,2 of the odd ones */
    t = (v[0] ^ I2S_NAME(right)(v[1], 2)) & 0x33; v[0] ^= t; v[1] ^= I2S_NAME(left)(t, 2);
    t = (v[2] ^ I2S_NAME(right)(v[3], 2)) & 0x33; v[2] ^= t; v[3] ^= I2S_NAME(left)(t, 2);
    /* exchange the low nibbles of the first two with the high nibbles of the last two */
    t = (v[0] ^ I2S_NAME(right)(v[2], 4)) & 0x0F; v[0] ^= t; v[2] ^= I2S_NAME(left)(t, 4);
    t = (v[1] ^ I2S_NAME(right)(v[3], 4)) & 0x0F; v[1] ^= t; v[3] ^= I2S_NAME(left)(t, 4);
}

/* Both halves of a block in both lanes, those of the upper lane shifted to where the second 64-block, or the second
 * group, has its bits; then four fields are picked. */
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

I2S_INLINE v32 I2S_NAME(block)(const uint8_t *src, int from, int to) {
    v32 x[4];
    if (from == to) return I2S_NAME(load)(src);
    if (from == I2S_KIND_128 && to == I2S_KIND_64) return I2S_NAME(to_64)(I2S_NAME(load)(src));
    if (from == I2S_KIND_64 && to == I2S_KIND_128) return I2S_NAME(from_64)(I2S_NAME(load)(src));
    if (from >= I2S_KIND_MSB && to >= I2S_KIND_MSB) return I2S_NAME(reversed)(I2S_NAME(load)(src));
    I2S_NAME(codes_of)(src, from, x);
    return I2S_NAME(bytes_of)(x, to);
}

#ifdef I2S_X86
/* Four blocks of a sequential layout at once to interleave-128: 8 bytes of each quarter of a block come together, the
 * fields are transposed between the quarters, and the bytes go to their places. */
I2S_INLINE void I2S_NAME(four_blocks)(const uint8_t *src, int lsb, v32 out[4]) {
    __m256i b0 = (__m256i)I2S_NAME(load)(src), b1 = (__m256i)I2S_NAME(load)(src + 32);
    __m256i b2 = (__m256i)I2S_NAME(load)(src + 64), b3 = (__m256i)I2S_NAME(load)(src + 96);
    __m256i l01 = _mm256_unpacklo_epi64(b0, b1), h01 = _mm256_unpackhi_epi64(b0, b1);
    __m256i l23 = _mm256_unpacklo_epi64(b2, b3), h23 = _mm256_unpackhi_epi64(b2, b3);
    v32 v[4] = {(v32)_mm256_permute2x128_si256(l01, l23, 0x20), (v32)_mm256_permute2x128_si256(h01, h23, 0x20),
                (v32)_mm256_permute2x128_si256(l01, l23, 0x31), (v32)_mm256_permute2x128_si256(h01, h23, 0x31)};
    I2S_NAME(transpose)(v);
    if (lsb) {
        v32 w[4] = {v[3], v[2], v[1], v[0]};
        I2S_NAME(interleave)(w, out);
    } else {
        I2S_NAME(interleave)(v, out);
    }
}
#endif

I2S_INLINE void I2S_NAME(blocks_with)(const uint8_t *src, int64_t blocks, int from, int to, const uint8_t *map,
                                      uint8_t *dst, int stream) {
    int64_t b = 0;
    uint8_t c[8];
    if (map != NULL) memcpy(c, map, 8);
#ifdef I2S_X86
    if (from >= I2S_KIND_MSB && to < I2S_KIND_MSB) {
        for (; b + 4 <= blocks; b += 4) {
            v32 out[4];
            int p;
            I2S_NAME(four_blocks)(src + 32 * b, from == I2S_KIND_LSB, out);
            for (p = 0; p < 4; p++) {
                v32 v = to == I2S_KIND_64 ? I2S_NAME(to_64)(out[p]) : out[p];
                I2S_NAME(store)(dst + 32 * b + 32 * p, map != NULL ? I2S_NAME(remap)(v, c) : v, stream);
            }
        }
    }
#endif
    if (map != NULL) {
        for (; b < blocks; b++)
            I2S_NAME(store)(dst + 32 * b, I2S_NAME(remap)(I2S_NAME(block)(src + 32 * b, from, to), c), stream);
    } else {
        for (; b < blocks; b++) I2S_NAME(store)(dst + 32 * b, I2S_NAME(block)(src + 32 * b, from, to), stream);
    }
}

static I2S_TARGET void I2S_NAME(i2s_blocks)(const uint8_t *src, int64_t blocks, int from, int to, const uint8_t *map,
                                            uint8_t *dst, int stream) {
#define I2S_CALL(F, T)                                                                                                  \
    if (from == F && to == T) {                                                                                         \
        if (stream) I2S_NAME(blocks_with)(src, blocks, F, T, map, dst, 1);                                              \
        else I2S_NAME(blocks_with)(src, blocks, F, T, map, dst, 0);                                                     \
    }
    I2S_KIND_PAIRS(I2S_CALL)
#undef I2S_CALL
    if (stream) I2S_FENCE();
}

/* Four rows at once between one byte a column (rows-1x4, row-blocks-4) and rows of blocks: a transposition of 2-bit
 * fields between four vectors, in two steps. `rows` gives the four rows of blocks, `planes` the bytes of the columns;
 * columns are a multiple of 128. With `lsb` the first row is in the bottom bits of a byte. */
I2S_INLINE v32 I2S_NAME(finish)(v32 v, int to, const uint8_t *map) {
    if (to == I2S_KIND_64) v = I2S_NAME(to_64)(v);
    else if (to != I2S_KIND_128) {
        v32 x[4];
        int p;
        for (p = 0; p < 4; p++) x[p] = I2S_NAME(field)(v, 6 - 2 * p);
        v = I2S_NAME(gather)(x, to == I2S_KIND_LSB);
    }
    return map != NULL ? I2S_NAME(remap)(v, map) : v;
}

I2S_INLINE void I2S_NAME(rows_with)(const uint8_t *planes, int64_t cols, int lsb, int to, const uint8_t *map,
                                    uint8_t *const rows[4]) {
    int64_t c;
    int p;
    for (c = 0; c < cols; c += 128) {
        v32 v[4];
        for (p = 0; p < 4; p++) v[p] = I2S_NAME(load)(planes + c + 32 * p);
        I2S_NAME(transpose)(v);
        for (p = 0; p < 4; p++) I2S_NAME(store)(rows[lsb ? 3 - p : p] + c / 4, I2S_NAME(finish)(v[p], to, map), 0);
    }
}

/* Groups first to last: group i shares the bytes src + i cols, and is the rows i, i + step, ... (4 i, 4 i + 1, ... with
 * step 1) of the result. With `stream` a group is put together in the cache and leaves row by row. */
static I2S_TARGET void I2S_NAME(i2s_to_rows)(const uint8_t *src, int64_t first, int64_t last, int64_t cols, int64_t step,
                                             int lsb, int to, const uint8_t *map, uint8_t *dst, int stream) {
    const int64_t row_bytes = cols / 4;
    uint8_t held[I2S_HELD] __attribute__((aligned(64)));
    int64_t i, j;
    int p;
    stream = stream && 4 * row_bytes <= I2S_HELD;
    for (i = first; i < last; i++) {
        uint8_t *rows[4], *into[4];
        for (p = 0; p < 4; p++) {
            rows[p] = dst + ((step == 1 ? 4 * i : i) + p * step) * row_bytes;
            into[p] = stream ? held + p * row_bytes : rows[p];
        }
#define I2S_CALL(T) case T: I2S_NAME(rows_with)(src + i * cols, cols, lsb, T, map, into); break;
        switch (to) { I2S_KINDS(I2S_CALL) }
#undef I2S_CALL
        if (stream)
            for (p = 0; p < 4; p++)
                for (j = 0; j < row_bytes; j += 32) I2S_NAME(store)(rows[p] + j, I2S_NAME(load)(into[p] + j), 1);
    }
    if (stream) I2S_FENCE();
}

I2S_INLINE void I2S_NAME(planes_with)(const uint8_t *const rows[4], int64_t cols, int lsb, int from, const uint8_t *map,
                                      uint8_t *planes, int stream) {
    int64_t c;
    int p;
    for (c = 0; c < cols; c += 128) {
        v32 v[4];
        for (p = 0; p < 4; p++) v[p] = I2S_NAME(block)(rows[lsb ? 3 - p : p] + c / 4, from, I2S_KIND_128);
        I2S_NAME(transpose)(v);
        for (p = 0; p < 4; p++)
            I2S_NAME(store)(planes + c + 32 * p, map != NULL ? I2S_NAME(remap)(v[p], map) : v[p], stream);
    }
}

/* The way back; the numbers are those of i2s_to_rows. The rows of the next group are asked for before this one is done,
 * because four streams at once are more than the processor foresees. */
static I2S_TARGET void I2S_NAME(i2s_of_rows)(const uint8_t *src, int64_t first, int64_t last, int64_t cols, int64_t step,
                                             int lsb, int from, const uint8_t *map, uint8_t *dst, int stream) {
    const int64_t row_bytes = cols / 4;
    int64_t i, j;
    int p;
    for (i = first; i < last; i++) {
        const uint8_t *rows[4];
        for (p = 0; p < 4; p++) rows[p] = src + ((step == 1 ? 4 * i : i) + p * step) * row_bytes;
        if (i + 1 < last)
            for (p = 0; p < 4; p++)
                for (j = 0; j < row_bytes; j += 64)
                    __builtin_prefetch(rows[p] + (step == 1 ? 4 : 1) * row_bytes + j, 0, 3);
#define I2S_CALL(F)                                                                                                     \
    case F:                                                                                                             \
        if (stream) I2S_NAME(planes_with)(rows, cols, lsb, F, map, dst + i * cols, 1);                                  \
        else I2S_NAME(planes_with)(rows, cols, lsb, F, map, dst + i * cols, 0);                                         \
        break;
        switch (from) { I2S_KINDS(I2S_CALL) }
#undef I2S_CALL
    }
    if (stream) I2S_FENCE();
}

/* --- does a code occur at all -------------------------------------------------------------------------------------- */

/* Bytes in whose even bits a match of `code` shows. */
#define I2S_MATCH(v, code)                                                                                              \
    (((code) & 1 ? (v) : ~(v)) & ((code) & 2 ? ((v) >> 1) : ~((v) >> 1)) & 0x55)

I2S_INLINE int I2S_NAME(scan_with)(const uint8_t *src, int64_t n, int code) {
    int64_t i = 0;
    int q;
    I2S_WIDE_VECTOR a = {0}, b = {0}, c = {0}, d = {0};
    const int64_t w = sizeof(I2S_WIDE_VECTOR);
    for (; i + 4 * w <= n; i += 4 * w) {
        I2S_WIDE_VECTOR x = *(const I2S_WIDE_UNALIGNED *)(src + i), y = *(const I2S_WIDE_UNALIGNED *)(src + i + w);
        I2S_WIDE_VECTOR z = *(const I2S_WIDE_UNALIGNED *)(src + i + 2 * w);
        I2S_WIDE_VECTOR u = *(const I2S_WIDE_UNALIGNED *)(src + i + 3 * w);
        a |= I2S_MATCH(x, code);
        b |= I2S_MATCH(y, code);
        c |= I2S_MATCH(z, code);
        d |= I2S_MATCH(u, code);
    }
    a |= b | c | d;
    for (q = 0; q < (int)w; q++)
        if (a[q]) return 1;
    for (; i < n; i++)
        if (I2S_MATCH((unsigned)src[i], code)) return 1;
    return 0;
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
    int64_t i = 0;
    I2S_WIDE_VECTOR a = {0}, b = {0}, c = {0}, d = {0};
    const int64_t w = sizeof(I2S_WIDE_VECTOR);
    for (; i + 4 * w <= n; i += 4 * w) {
        a |= *(const I2S_WIDE_UNALIGNED *)(src + i);
        b |= *(const I2S_WIDE_UNALIGNED *)(src + i + w);
        c |= *(const I2S_WIDE_UNALIGNED *)(src + i + 2 * w);
        d |= *(const I2S_WIDE_UNALIGNED *)(src + i + 3 * w);
    }
    a |= b | c | d;
    return a[0] + a[1];
}

#undef I2S_INLINE
