/* Unpacking sequential layouts on processors that move bytes across whole vectors and extract any eight bits of a word
 * (AVX-512 VBMI): two bytes of payload are put into each word of 64 bits, and each of its bytes gets the bits from its
 * code on. */
#ifndef I2S_KERNELS_VBMI_H
#define I2S_KERNELS_VBMI_H

#define I2S_ON_VBMI static __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi")))
#define I2S_EIGHT_TIMES(a, b) a, b, a, b, a, b, a, b
static const uint8_t i2s_two_bytes[64] __attribute__((aligned(64))) = {
    I2S_EIGHT_TIMES(0, 1), I2S_EIGHT_TIMES(2, 3), I2S_EIGHT_TIMES(4, 5), I2S_EIGHT_TIMES(6, 7),
    I2S_EIGHT_TIMES(8, 9), I2S_EIGHT_TIMES(10, 11), I2S_EIGHT_TIMES(12, 13), I2S_EIGHT_TIMES(14, 15)};

/* `less` is the number that plain maps subtract; `meanings` has the value of each code for the other maps. */
I2S_ON_VBMI inline __attribute__((always_inline)) int64_t i2s_unpack_1_vbmi(const uint8_t *src, int64_t blocks,
                                                                            uint64_t shifts, int plain, __m512i less,
                                                                            __m512i meanings, uint8_t *dst) {
    const __m512i places = _mm512_load_si512(i2s_two_bytes), from = _mm512_set1_epi64((long long)shifts);
    const __m512i three = _mm512_set1_epi8(3);
    int64_t b;
    for (b = 0; b + 16 <= blocks; b += 16) {
        const __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(src + b)));
        const __m512i bits = _mm512_multishift_epi64_epi8(from, _mm512_permutexvar_epi8(places, v));
        const __m512i codes = _mm512_and_si512(bits, three);
        _mm512_storeu_si512(dst + 4 * b, plain ? _mm512_sub_epi8(codes, less) : _mm512_shuffle_epi8(meanings, codes));
    }
    return b;
}

/* Returns the number of unpacked bytes of payload: all those in whole vectors, or 0 without VBMI. */
I2S_ON_VBMI int64_t i2s_unpack_vbmi(const uint8_t *src, int64_t blocks, int lsb, int map, uint8_t *dst) {
    const uint64_t shifts = lsb ? 0x0E0C0A0806040200u : 0x080A0C0E00020406u;
    const int plain = map != I2S_TWOS_COMPLEMENT && map != I2S_ZERO_FIRST;
    uint32_t meanings = 0;
    int c;
    for (c = 0; c < 4; c++) meanings |= (uint32_t)i2s_meaning((uint8_t)c, map) << 8 * c;
    const __m512i all = _mm512_set1_epi32((int)meanings), less = _mm512_set1_epi8((char)-(int8_t)meanings);
    return plain ? i2s_unpack_1_vbmi(src, blocks, shifts, 1, less, all, dst)
                 : i2s_unpack_1_vbmi(src, blocks, shifts, 0, less, all, dst);
}

#undef I2S_ON_VBMI
#endif
