/* What the vectors of x86 do in an instruction or a few, for blocks_vector.h: with 32 bytes by AVX2, with 64 by AVX-512. */

#define I2S_ON(TARGET) static inline __attribute__((always_inline, target(TARGET)))
#define I2S_ON_AVX2 I2S_ON("avx2")
#define I2S_ON_AVX512 I2S_ON("avx512f,avx512bw,avx512vl,avx512dq")

/* Moves a tile to its destination, past the cache if wanted and if the address allows it; a bytes object begins at a
 * multiple of 16. */
#define I2S_POUR(SET, TARGET, V, LOAD, STREAM)                                                                          \
    static __attribute__((target(TARGET))) void i2s_pour_##SET(void *dst, const void *src, size_t n, int stream) {      \
        uint8_t *d = (uint8_t *)dst;                                                                                    \
        const uint8_t *s = (const uint8_t *)src;                                                                        \
        if (stream && (uintptr_t)d % sizeof(V) == 0)                                                                    \
            for (; n >= sizeof(V); n -= sizeof(V), s += sizeof(V), d += sizeof(V)) STREAM((V *)d, LOAD((const V *)s));  \
        if (stream && (uintptr_t)d % 16 == 0)                                                                           \
            for (; n >= 16; n -= 16, s += 16, d += 16) _mm_stream_si128((__m128i *)d, _mm_loadu_si128((const __m128i *)s)); \
        memcpy(d, s, n);                                                                                                \
    }
I2S_POUR(avx2, "avx2", __m256i, _mm256_loadu_si256, _mm256_stream_si256)
I2S_POUR(avx512vl, "avx512f,avx512bw,avx512vl", __m512i, _mm512_loadu_si512, _mm512_stream_si512)
I2S_POUR(avx512, "avx512f,avx512bw,avx512vl", __m512i, _mm512_loadu_si512, _mm512_stream_si512)

/* The low bytes of eight numbers of 32 bits. */
I2S_ON_AVX2 void i2s_narrow_avx2(uint8_t *p, __m256i v) {
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}

/* Four codes in each four bytes to the low of them, the first in its low bits. */
I2S_ON_AVX2 __m256i i2s_fours_avx2(__m256i codes) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x0401)), _mm256_set1_epi32(0x00100001));
}
I2S_ON_AVX512 __m512i i2s_fours_avx512(__m512i codes) {
    return _mm512_madd_epi16(_mm512_maddubs_epi16(codes, _mm512_set1_epi16(0x0401)), _mm512_set1_epi32(0x00100001));
}

/* Products of bytes, modulo 256: of the odd ones the upper half of each word is one. */
I2S_ON_AVX2 __m256i i2s_times_avx2(__m256i v, __m256i by) {
    const __m256i low = _mm256_set1_epi16(255);
    const __m256i even = _mm256_and_si256(_mm256_mullo_epi16(v, by), low);
    return _mm256_or_si256(even, _mm256_mullo_epi16(_mm256_andnot_si256(low, v), _mm256_srli_epi16(by, 8)));
}
I2S_ON_AVX512 __m512i i2s_times_avx512(__m512i v, __m512i by) {
    const __m512i low = _mm512_set1_epi16(255);
    const __m512i odd = _mm512_mullo_epi16(_mm512_andnot_si512(low, v), _mm512_srli_epi16(by, 8));
    return _mm512_ternarylogic_epi64(_mm512_mullo_epi16(v, by), low, odd, 0xEA); /* (a & b) | c */
}

/* The first digit of each byte, as a value: -1 and the thresholds 86 and 171 that it has reached. AVX2 compares signed. */
I2S_ON_AVX2 __m256i i2s_thirds_avx2(__m256i v) {
    const __m256i q = _mm256_xor_si256(v, _mm256_set1_epi8(-128));
    const __m256i first = _mm256_cmpgt_epi8(q, _mm256_set1_epi8(85 - 128));
    const __m256i second = _mm256_cmpgt_epi8(q, _mm256_set1_epi8(170 - 128));
    return _mm256_sub_epi8(_mm256_set1_epi8(-1), _mm256_add_epi8(first, second));
}
I2S_ON_AVX512 __m512i i2s_thirds_avx512(__m512i v) {
    const __mmask64 first = _mm512_cmpgt_epu8_mask(v, _mm512_set1_epi8(85));
    const __mmask64 second = _mm512_cmpgt_epu8_mask(v, _mm512_set1_epi8((char)170));
    const __m512i value = _mm512_mask_mov_epi8(_mm512_set1_epi8(-1), first, _mm512_setzero_si512());
    return _mm512_mask_mov_epi8(value, second, _mm512_set1_epi8(1));
}

/* 16 bytes from each of the next places. */
#define I2S_LOAD16(p) _mm_loadu_si128((const __m128i *)(p))
I2S_ON_AVX2 __m256i i2s_places_avx2(const uint8_t *const at[]) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(I2S_LOAD16(at[0])), I2S_LOAD16(at[1]), 1);
}
I2S_ON_AVX512 __m512i i2s_places_avx512(const uint8_t *const at[]) {
    __m512i v = _mm512_broadcast_i32x4(I2S_LOAD16(at[0]));
    if (at[1] != at[0]) v = _mm512_inserti32x4(v, I2S_LOAD16(at[1]), 1);
    if (at[2] != at[0]) v = _mm512_inserti32x4(v, I2S_LOAD16(at[2]), 2);
    if (at[3] != at[0]) v = _mm512_inserti32x4(v, I2S_LOAD16(at[3]), 3);
    return v;
}

/* 12 bytes of IQ1_BN from 60 of 64 codes; of 16 codes each, 15 are the digits of three bytes, the last digit first. Four
 * digits of a byte are brought together, the fifth beside them; 17261 / 2^14 is just above 256 / 243. What follows the 12
 * bytes is written, too. */
#define I2S_FOUR_DIGITS 0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, -1, -1, -1, -1
#define I2S_FIFTH_DIGIT 4, -1, -1, -1, 9, -1, -1, -1, 14, -1, -1, -1, -1, -1, -1, -1
I2S_ON_AVX2 __m256i i2s_twelve_half_avx2(__m256i codes) {
    const __m256i four = _mm256_shuffle_epi8(codes, _mm256_setr_epi8(I2S_FOUR_DIGITS, I2S_FOUR_DIGITS));
    const __m256i fifth = _mm256_shuffle_epi8(codes, _mm256_setr_epi8(I2S_FIFTH_DIGIT, I2S_FIFTH_DIGIT));
    const __m256i number = _mm256_add_epi16(_mm256_maddubs_epi16(four, _mm256_set1_epi32(0x1B090301)),
                                            _mm256_maddubs_epi16(fifth, _mm256_set1_epi32(81)));
    const __m256i scaled = _mm256_madd_epi16(number, _mm256_set1_epi16(17261));
    return _mm256_srli_epi32(_mm256_add_epi32(scaled, _mm256_set1_epi32(16226)), 14);
}
I2S_ON_AVX2 void i2s_twelve_avx2(const int8_t *values, uint8_t *dst) {
    const __m256i one = _mm256_set1_epi8(1), *from = (const __m256i *)values;
    const __m256i a = i2s_twelve_half_avx2(_mm256_add_epi8(_mm256_loadu_si256(from), one));
    const __m256i b = i2s_twelve_half_avx2(_mm256_add_epi8(_mm256_loadu_si256(from + 1), one));
    /* numbers of half a and b: 0 to 2 and 6 to 8 in the lower lane, 3 to 5 and 9 to 11 in the upper */
    const __m256i words = _mm256_packus_epi32(a, b), bytes = _mm256_shuffle_epi8(_mm256_packus_epi16(words, words),
        _mm256_setr_epi8(0, 1, 2, -1, -1, -1, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1,
                         -1, -1, -1, 0, 1, 2, -1, -1, -1, 4, 5, 6, -1, -1, -1, -1));
    const __m128i both = _mm_or_si128(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
    _mm_storeu_si128((__m128i *)dst, both);
}
I2S_ON_AVX512 void i2s_twelve_avx512(const int8_t *values, uint8_t *dst) {
    const __m512i codes = _mm512_add_epi8(_mm512_loadu_si512(values), _mm512_set1_epi8(1));
    const __m512i four = _mm512_shuffle_epi8(codes, _mm512_broadcast_i32x4(_mm_setr_epi8(I2S_FOUR_DIGITS)));
    const __m512i fifth = _mm512_shuffle_epi8(codes, _mm512_broadcast_i32x4(_mm_setr_epi8(I2S_FIFTH_DIGIT)));
    const __m512i number = _mm512_add_epi16(_mm512_maddubs_epi16(four, _mm512_set1_epi32(0x1B090301)),
                                            _mm512_maddubs_epi16(fifth, _mm512_set1_epi32(81)));
    const __m512i scaled = _mm512_madd_epi16(number, _mm512_set1_epi16(17261));
    const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_srli_epi32(_mm512_add_epi32(scaled, _mm512_set1_epi32(16226)), 14));
    const __m128i dense = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    _mm_storeu_si128((__m128i *)dst, _mm_shuffle_epi8(bytes, dense));
}

#define I2S_LOOK16(table, at) _mm_shuffle_epi8((__m128i)(table), (__m128i)(at))
#define I2S_LOOK32(table, at) _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(I2S_LOAD16(table)), (__m256i)(at))

/* ceil(13 number / 243) of each byte: 878 (4 number + 74) / 2^16. */
I2S_ON_AVX2 __m128i i2s_steps16(__m128i v) {
    const __m128i more = _mm_set1_epi16(74), by = _mm_set1_epi16(878);
    const __m128i even = _mm_mulhi_epu16(_mm_add_epi16(_mm_maddubs_epi16(v, _mm_set1_epi16(4)), more), by);
    const __m128i odd = _mm_mulhi_epu16(_mm_add_epi16(_mm_maddubs_epi16(v, _mm_set1_epi16(4 << 8)), more), by);
    return _mm_or_si128(even, _mm_slli_epi16(odd, 8));
}
I2S_ON_AVX2 __m256i i2s_steps32(__m256i v) {
    const __m256i more = _mm256_set1_epi16(74), by = _mm256_set1_epi16(878);
    const __m256i even = _mm256_mulhi_epu16(_mm256_add_epi16(_mm256_maddubs_epi16(v, _mm256_set1_epi16(4)), more), by);
    const __m256i odd = _mm256_mulhi_epu16(_mm256_add_epi16(_mm256_maddubs_epi16(v, _mm256_set1_epi16(4 << 8)), more), by);
    return _mm256_or_si256(even, _mm256_slli_epi16(odd, 8));
}
