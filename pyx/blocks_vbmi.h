/* Packing blocks where the processor moves bytes across whole vectors (AVX-512 VBMI) and sums products of four (VNNI).
 *
 * The values of a byte are brought together in the four bytes of a number of 32 bits and multiplied by what they are worth;
 * the values are signed as they are, and the sum begins with what all of them would be worth as -1. Of digits it is three
 * times the number N of five digits: 3 N * 23014 is just above 2^16 * N * 256 / 243, so that the byte that stands for N is
 * byte 2 of it, rounded up. That is exact for all N up to 242.
 */
#ifndef I2S_BLOCKS_VBMI_H
#define I2S_BLOCKS_VBMI_H

#define I2S_VBMI "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni,popcnt"
#define I2S_ON_VBMI I2S_ON(I2S_VBMI)

/* Positions of bytes: of four values `step` apart from position `at` on; the same for eight numbers; of one byte of
 * each of 16. */
#define I2S_PLACE4(at, step) at, (at) + (step), (at) + 2 * (step), (at) + 3 * (step)
#define I2S_PLACES8(at, step)                                                                                          \
    I2S_PLACE4(at, step), I2S_PLACE4((at) + 1, step), I2S_PLACE4((at) + 2, step), I2S_PLACE4((at) + 3, step),           \
        I2S_PLACE4((at) + 4, step), I2S_PLACE4((at) + 5, step), I2S_PLACE4((at) + 6, step), I2S_PLACE4((at) + 7, step)
#define I2S_EVERY4(at) at, (at) + 4, (at) + 8, (at) + 12
#define I2S_EVERY16(at) I2S_EVERY4(at), I2S_EVERY4((at) + 16), I2S_EVERY4((at) + 32), I2S_EVERY4((at) + 48)

/* Of PTQ1_0: 16 bytes of the first four runs of 16; then, of the second 64 values, eight of runs of 8 and two of runs of 2;
 * and the fifth digits of both, in the first and the second byte. */
static const I2S_ALIGNED uint8_t i2s_runs_of_16[64] = {I2S_PLACES8(0, 16), I2S_PLACES8(8, 16)};
static const I2S_ALIGNED uint8_t i2s_ptq1_second[64] = {I2S_PLACES8(16, 8), I2S_PLACE4(56, 2), I2S_PLACE4(57, 2)};
#define I2S_PTQ1_FIFTH4(at) at, (at) + 48, 0, 0, (at) + 1, (at) + 49, 0, 0, (at) + 2, (at) + 50, 0, 0, (at) + 3, (at) + 51, 0, 0
static const I2S_ALIGNED uint8_t i2s_ptq1_fifth[64] = {I2S_PTQ1_FIFTH4(0), I2S_PTQ1_FIFTH4(4),
    8, 0, 0, 0, 9, 0, 0, 0, 10, 0, 0, 0, 11, 0, 0, 0, 12, 0, 0, 0, 13, 0, 0, 0, 14, 0, 0, 0, 15, 0, 0, 0};

/* IQ1_BN: four digits of twelve bytes, and all digits of the last byte; then the fifth digits. */
#define I2S_IQ1_FOUR(at) I2S_PLACE4(at, 1), I2S_PLACE4((at) + 5, 1), I2S_PLACE4((at) + 10, 1)
#define I2S_IQ1_FIFTH(at) (at) + 4, 0, 0, 0, (at) + 9, 0, 0, 0, (at) + 14, 0, 0, 0
static const I2S_ALIGNED uint8_t i2s_iq1_four[64] = {
    I2S_IQ1_FOUR(0), I2S_IQ1_FOUR(16), I2S_IQ1_FOUR(32), I2S_IQ1_FOUR(48), I2S_PLACE4(15, 16)};
static const I2S_ALIGNED uint8_t i2s_iq1_fifth[64] = {I2S_IQ1_FIFTH(0), I2S_IQ1_FIFTH(16), I2S_IQ1_FIFTH(32), I2S_IQ1_FIFTH(48)};

/* Of TQ1_0, two vectors' runs of 32, brought together: the first halves of four of them, or the second. */
#define I2S_BY_16(at) at, (at) + 32, (at) + 16, (at) + 48
static const I2S_ALIGNED uint8_t i2s_tq1_four[64] = {
    I2S_BY_16(0), I2S_BY_16(1), I2S_BY_16(2), I2S_BY_16(3), I2S_BY_16(4), I2S_BY_16(5), I2S_BY_16(6), I2S_BY_16(7),
    I2S_BY_16(8), I2S_BY_16(9), I2S_BY_16(10), I2S_BY_16(11), I2S_BY_16(12), I2S_BY_16(13), I2S_BY_16(14), I2S_BY_16(15)};
static const I2S_ALIGNED uint8_t i2s_tq1_last[64] = {
    I2S_PLACE4(48, 4), I2S_PLACE4(49, 4), I2S_PLACE4(50, 4), I2S_PLACE4(51, 4)};
static const I2S_ALIGNED uint8_t i2s_every_byte_2[64] = {I2S_EVERY16(2), I2S_EVERY16(2), I2S_EVERY16(2), I2S_EVERY16(2)};
static const I2S_ALIGNED uint8_t i2s_every_byte_0[64] = {I2S_EVERY16(0), I2S_EVERY16(0), I2S_EVERY16(0), I2S_EVERY16(0)};

#define I2S_WORTH4(a, b, c, d) _mm512_set1_epi32((int)((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24))

I2S_ON_VBMI __m512i i2s_moved(const uint8_t places[64], __m512i v) { return _mm512_permutexvar_epi8(_mm512_load_si512(places), v); }

/* Three times numbers of five digits to numbers whose byte 2 stands for them. */
I2S_ON_VBMI __m512i i2s_digits_vbmi(__m512i number) {
    return _mm512_dpwssd_epi32(_mm512_set1_epi32(65535), number, _mm512_set1_epi32(23014));
}

/* One byte of each of 16 numbers, those at `places`. */
I2S_ON_VBMI __m128i i2s_sixteen(const uint8_t places[64], __m512i v) { return _mm512_castsi512_si128(i2s_moved(places, v)); }

/* Four values of two bits, the first lowest, and those of -1. */
I2S_ON_VBMI __m512i i2s_fields_vbmi(__m512i values) {
    return _mm512_dpbusd_epi32(_mm512_set1_epi32(85), I2S_WORTH4(1, 4, 16, 64), values);
}

I2S_ON_VBMI void i2s_q2_vbmi(const int8_t *values, uint8_t *dst) {
    _mm_storeu_si128((__m128i *)dst, i2s_sixteen(i2s_every_byte_0, i2s_fields_vbmi(_mm512_loadu_si512(values))));
}

I2S_ON_VBMI void i2s_iq2_vbmi(const int8_t *values, uint8_t *dst) {
    const __m512i fours = i2s_moved(i2s_runs_of_16, _mm512_loadu_si512(values));
    _mm_storeu_si128((__m128i *)dst, i2s_sixteen(i2s_every_byte_0, i2s_fields_vbmi(fours)));
}

/* Runs of 32: the third and the fourth are moved by four bits, then the second and the fourth, which are upper halves, by two. */
I2S_ON_VBMI void i2s_tq2_vbmi(const int8_t *values, uint8_t *dst) {
    const __m512i one = _mm512_set1_epi8(1), first = _mm512_add_epi8(_mm512_loadu_si512(values), one);
    const __m512i second = _mm512_add_epi8(_mm512_loadu_si512(values + 64), one);
    const __m512i both = _mm512_or_si512(first, _mm512_slli_epi16(second, 4));
    const __m256i upper = _mm256_slli_epi16(_mm512_extracti64x4_epi64(both, 1), 2);
    _mm256_storeu_si256((__m256i *)dst, _mm256_or_si256(_mm512_castsi512_si256(both), upper));
}

I2S_ON_VBMI void i2s_ptq1_vbmi(const int8_t *values, uint8_t *dst) {
    const __m512i a = _mm512_loadu_si512(values), b = _mm512_loadu_si512(values + 64);
    const __m512i four = I2S_WORTH4(243, 81, 27, 9), most = _mm512_set1_epi32(363), fifth = i2s_moved(i2s_ptq1_fifth, b);
    /* of the last two bytes, which have four digits, the fifth is 0, that is not worth 3 */
    const __m512i last = _mm512_mask_set1_epi32(most, 0x0300, 360), ten = _mm512_maskz_set1_epi32(0x00FF, 3 << 8);
    __m512i first = _mm512_dpbusd_epi32(most, four, i2s_moved(i2s_runs_of_16, a));
    __m512i second = _mm512_dpbusd_epi32(last, four, i2s_moved(i2s_ptq1_second, b));
    first = i2s_digits_vbmi(_mm512_dpbusd_epi32(first, _mm512_set1_epi32(3), fifth));
    second = i2s_digits_vbmi(_mm512_dpbusd_epi32(second, ten, fifth));
    first = _mm512_mask_permutexvar_epi8(i2s_moved(i2s_every_byte_2, first), 0xFFFF0000u,
                                         _mm512_load_si512(i2s_every_byte_2), second);
    _mm256_storeu_si256((__m256i *)dst, _mm512_castsi512_si256(first));
}

/* Runs of 32, 16 and 4. Of the third 64 values the first half is the fifth digit of 32 bytes, the second half two of the next 16. */
I2S_ON_VBMI void i2s_tq1_vbmi(const int8_t *values, uint8_t *dst) {
    const __m512i a = _mm512_loadu_si512(values), b = _mm512_loadu_si512(values + 64), d = _mm512_loadu_si512(values + 192);
    const __m512i c = i2s_moved(i2s_runs_of_16, _mm512_loadu_si512(values + 128)), most = _mm512_set1_epi32(363);
    const __m512i four = I2S_WORTH4(243, 81, 27, 9), bytes = _mm512_load_si512(i2s_every_byte_2);
    const __m512i low = _mm512_mask_alignr_epi64(a, 0xCC, b, b, 6), high = _mm512_mask_alignr_epi64(b, 0x33, a, a, 2);
    __m512i w = _mm512_dpbusd_epi32(most, four, i2s_moved(i2s_tq1_four, low));
    __m512i x = _mm512_dpbusd_epi32(most, four, i2s_moved(i2s_tq1_four, high));
    __m512i y = _mm512_dpbusd_epi32(most, I2S_WORTH4(27, 9, 3, 0), i2s_moved(i2s_runs_of_16, d));
    const __m512i z = _mm512_dpbusd_epi32(_mm512_set1_epi32(360), four, i2s_moved(i2s_tq1_last, d));
    w = i2s_moved(i2s_every_byte_2, i2s_digits_vbmi(_mm512_dpbusd_epi32(w, _mm512_set1_epi32(3), c)));
    x = i2s_digits_vbmi(_mm512_dpbusd_epi32(x, _mm512_set1_epi32(3 << 8), c));
    y = i2s_digits_vbmi(_mm512_dpbusd_epi32(y, I2S_WORTH4(0, 0, 243, 81), c));
    w = _mm512_mask_permutexvar_epi8(w, 0xFFFF0000u, bytes, x);
    w = _mm512_mask_permutexvar_epi8(w, (uint64_t)0xFFFF << 32, bytes, y);
    w = _mm512_mask_permutexvar_epi8(w, (uint64_t)0xFFFF << 48, bytes, i2s_digits_vbmi(z));
    _mm512_storeu_si512(dst, w);
}

I2S_ON_VBMI void i2s_iq1_vbmi(const int8_t *values, uint8_t *dst) {
    const __m512i v = _mm512_loadu_si512(values);
    const __m512i most = _mm512_mask_set1_epi32(_mm512_set1_epi32(363), 0x1000, 120);
    const __m512i fifth = _mm512_maskz_set1_epi32(0x0FFF, 243);
    const __m512i number = _mm512_dpbusd_epi32(most, I2S_WORTH4(3, 9, 27, 81), i2s_moved(i2s_iq1_four, v));
    const __m512i all = i2s_digits_vbmi(_mm512_dpbusd_epi32(number, fifth, i2s_moved(i2s_iq1_fifth, v)));
    _mm_storeu_si128((__m128i *)dst, i2s_sixteen(i2s_every_byte_2, all));
}

/* A tile of values to blocks without their scales; 1 if a value is below -1 or above `most`. Up to 12 bytes after a
 * block are also written. */
I2S_ON_VBMI int tile_bytes_avx512(int kind, const int8_t *values, int64_t blocks, int most, uint8_t *dst, int64_t ahead) {
    const i2s_block shape = i2s_block_kinds[kind];
    __m512i largest = _mm512_setzero_si512();
    int64_t b;
    int k;
    for (b = 0; b < blocks; b++, values += shape.elements, dst += shape.bytes) {
        /* Memory is prefetched between the blocks, since it accepts few requests at a time. */
        for (k = 0; k < shape.elements; k += 64) {
            I2S_ASK_AT(values + k, ahead);
            largest = _mm512_max_epu8(largest, _mm512_add_epi8(_mm512_loadu_si512(values + k), _mm512_set1_epi8(1)));
        }
        switch (kind) {
        case I2S_Q2_128: i2s_q2_vbmi(values + 64, dst + 18); /* fall through */
        case I2S_Q2_64: i2s_q2_vbmi(values, dst + 2); break;
        case I2S_TQ2:
            i2s_tq2_vbmi(values, dst);
            i2s_tq2_vbmi(values + 128, dst + 32);
            break;
        case I2S_IQ2: i2s_iq2_vbmi(values, dst); break;
        case I2S_TQ1: i2s_tq1_vbmi(values, dst); break;
        case I2S_PTQ1: i2s_ptq1_vbmi(values, dst); break;
        default: i2s_iq1_vbmi(values, dst);
        }
    }
    return _mm512_cmpgt_epu8_mask(largest, _mm512_set1_epi8((char)(most + 1))) != 0;
}

#endif
