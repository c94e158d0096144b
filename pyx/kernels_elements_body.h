/* Between a payload and its elements: one byte each, or a float each. */

/* --- payload to one byte an element -------------------------------------------------------------------------------- */

/* How codes are read. Plain maps subtract a number. The others are twos-complement, or are converted to it: zero-first
 * has +1 and -1 for 1 and 2, and 0 for the unused 3, so 2 becomes 3 and 3 becomes 0 while four codes still share a
 * byte. */
typedef struct { v32 less, odd; } I2S_NAME(reading);

I2S_INLINE v32 I2S_NAME(prepared)(v32 v, int plain, const I2S_NAME(reading) *how) {
    return plain ? v : (v ^ (I2S_NAME(right)(v, 1) & how->odd)) & ~I2S_NAME(left)(v & how->odd, 1);
}

I2S_INLINE v32 I2S_NAME(meaning)(v32 codes, int plain, const I2S_NAME(reading) *how) {
    return plain ? codes - how->less : (codes ^ 2) - 2;
}

/* Four distant rows of one run, one after the other: for each, the codes of I2S_STRIP bytes, which stay in the nearest
 * cache meanwhile. Returns the number of bytes of the run that are done. */
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

/* Put nibbles side by side, then each beside itself shifted by a field: this moves half as many bytes across a register
 * as putting four fields side by side. */
I2S_INLINE int64_t I2S_NAME(unpack_1)(const uint8_t *src, int64_t blocks, int lsb, int plain, const I2S_NAME(reading) *how,
                                      uint8_t *dst, int way) {
    const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    int64_t b;
    int h;
    for (b = 0; b + 32 <= blocks; b += 32) {
        const v32 v = (v32)_mm256_permutevar8x32_epi32((__m256i)I2S_NAME(load)(src + b), order);
        const v32 low = I2S_NAME(prepared)(v, plain, how), high = I2S_NAME(right)(low, 4);
        const v32 first = lsb ? low : high, second = lsb ? high : low;
        I2S_NAME(own)(dst + 4 * b, 128, way);
        for (h = 0; h < 2; h++) {
            const v32 both = (v32)(h ? _mm256_unpackhi_epi8((__m256i)first, (__m256i)second)
                                     : _mm256_unpacklo_epi8((__m256i)first, (__m256i)second));
            const v32 x = I2S_NAME(meaning)(I2S_NAME(field)(both, lsb ? 0 : 2), plain, how);
            const v32 y = I2S_NAME(meaning)(I2S_NAME(field)(both, lsb ? 2 : 0), plain, how);
            I2S_NAME(store)(dst + 4 * b + 64 * h, (v32)_mm256_unpacklo_epi8((__m256i)x, (__m256i)y), way);
            I2S_NAME(store)(dst + 4 * b + 64 * h + 32, (v32)_mm256_unpackhi_epi8((__m256i)x, (__m256i)y), way);
        }
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
    if (group == 1 && way == I2S_PLAIN) {
        const int64_t done = I2S_SEQUENTIAL(src, blocks, lsb, map, dst);
        src += done;
        dst += 4 * done;
        blocks -= done;
    }
#define I2S_CALL(WAY)                                                                                                   \
    if (plain) I2S_NAME(unpack_with)(src, blocks, group, lsb, map, 1, dst, WAY);                                        \
    else I2S_NAME(unpack_with)(src, blocks, group, lsb, map, 0, dst, WAY)
    I2S_BY_WAY(way)
#undef I2S_CALL
}

/* --- one byte an element to payload; reports whether a byte was not -1, 0 or +1 (0 to 3 for codes) -------------------
 * */

/* How trits become codes. Plain maps (none, and offset-1) add a number, and the largest sum shows whether all bytes
 * were valid. The others take two bits; zero-first is first written as twos-complement, then 3 becomes 2. */
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

/* Neighboring elements are joined by a multiplication and an addition, twice. */
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

/* A look-up takes two bits of each 32-bit word and ignores the others, so that codes need not be masked. */
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

/* Four bytes are sixteen elements: each 32-bit word gets all four, shifted for its element. */
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
