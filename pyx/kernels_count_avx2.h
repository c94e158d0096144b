/* How often each code occurs, with AVX2: bits of vectors are added as in carry_save.h, low and high bits of codes at
 * once, in their original positions. For codes with both bits set, two vectors are merged into one, so that no bit is
 * unused. Of 16 such vectors, one is counted by table. */
#ifndef I2S_KERNELS_COUNT_AVX2_H
#define I2S_KERNELS_COUNT_AVX2_H

#define I2S_COUNTED __attribute__((target("avx2")))
#define I2S_COUNTED_INLINE static inline __attribute__((always_inline)) I2S_COUNTED
typedef struct { v4q ones, twos, fours, eights; } i2s_carries_avx2;
/* In bytes: bits of even places, of odd places, or of all. */
typedef struct { v32 even, odd; } i2s_places_avx2;

/* The sum of two vectors and the carry, and the new carry. */
I2S_COUNTED_INLINE v4q i2s_carry_avx2(v4q *sum, v4q a, v4q b) {
    const v4q either = a ^ b, on = (a & b) | (either & *sum);
    *sum ^= either;
    return on;
}

I2S_COUNTED_INLINE v4q i2s_eighth_avx2(i2s_carries_avx2 *c, const v4q v[8]) {
    v4q two, four[2];
    two = i2s_carry_avx2(&c->ones, v[0], v[1]);
    four[0] = i2s_carry_avx2(&c->twos, two, i2s_carry_avx2(&c->ones, v[2], v[3]));
    two = i2s_carry_avx2(&c->ones, v[4], v[5]);
    four[1] = i2s_carry_avx2(&c->twos, two, i2s_carry_avx2(&c->ones, v[6], v[7]));
    return i2s_carry_avx2(&c->fours, four[0], four[1]);
}

/* The nibbles of a table have both counts of a nibble of bits. */
I2S_COUNTED_INLINE i2s_places_avx2 i2s_bytes_of_avx2(v4q v) {
    const __m256i table = _mm256_setr_epi8(0, 1, 16, 17, 1, 2, 17, 18, 16, 17, 32, 33, 17, 18, 33, 34,
                                           0, 1, 16, 17, 1, 2, 17, 18, 16, 17, 32, 33, 17, 18, 33, 34);
    const __m256i nibble = _mm256_set1_epi8(15), high = _mm256_srli_epi16((__m256i)v, 4);
    const v32 both = (v32)_mm256_add_epi8(_mm256_shuffle_epi8(table, _mm256_and_si256((__m256i)v, nibble)),
                                          _mm256_shuffle_epi8(table, _mm256_and_si256(high, nibble)));
    const i2s_places_avx2 found = {both & 15, (v32)((v16w)both >> 4) & 15};
    return found;
}

I2S_COUNTED_INLINE uint64_t i2s_sum_avx2(v32 bytes) {
    const v4q sums = (v4q)_mm256_sad_epu8((__m256i)bytes, _mm256_setzero_si256());
    return sums[0] + sums[1] + sums[2] + sums[3];
}

/* The rest in the carries: each vector has its weight. */
I2S_COUNTED_INLINE void i2s_left_avx2(const i2s_carries_avx2 *c, uint64_t found[2]) {
    const v4q left[4] = {c->ones, c->twos, c->fours, c->eights};
    int k;
    for (k = 0; k < 4; k++) {
        const i2s_places_avx2 places = i2s_bytes_of_avx2(left[k]);
        found[0] += i2s_sum_avx2(places.even) << k;
        found[1] += i2s_sum_avx2(places.odd) << k;
    }
}

I2S_COUNTED static void i2s_histogram_avx2(const uint8_t *src, int64_t n, uint64_t count[4]) {
    const v4q zero = {0}, even = zero + 0x5555555555555555u;
    i2s_carries_avx2 bits = {zero, zero, zero, zero}, boths = bits;
    /* Zen 4 detects sequential reads itself, and is slower with additional prefetches (as in i2s_pack_ahead). */
    const int64_t ahead = i2s_cpu_halves_avx512() ? 0 : I2S_AHEAD;
    uint64_t found[2] = {0, 0}, both[2] = {0, 0};
    int64_t i = 0;
    int k, q;
    while (n - i >= 1024) {
        /* bytes of the inner sums grow by at most 8 in a step */
        const int64_t stop = n - i > 31 * 1024 ? i + 31 * 1024 : n;
        v32 lows = {0}, highs = {0}, threes = {0};
        for (; i + 1024 <= stop; i += 1024) {
            v4q eight[4], pair[2];
            i2s_places_avx2 places;
#pragma GCC unroll 2
            for (k = 0; k < 2; k++) {
                v4q three[8];
#pragma GCC unroll 2
                for (q = 0; q < 2; q++) {
                    const uint8_t *p = src + i + 512 * k + 256 * q;
                    v4q v[8];
                    int m;
#pragma GCC unroll 8
                    for (m = 0; m < 8; m++) v[m] = *(const v4qu *)(p + 32 * m);
#pragma GCC unroll 4
                    for (m = 0; m < 4; m++) {
                        const v4q a = v[2 * m], b = v[2 * m + 1], first = a & (a >> 1), second = b & (b + b);
                        I2S_PREFETCH_AT(p + 64 * m, ahead);
                        three[4 * q + m] = second ^ ((first ^ second) & even); /* even ? first : second */
                    }
                    eight[2 * k + q] = i2s_eighth_avx2(&bits, v);
                }
                pair[k] = i2s_eighth_avx2(&boths, three);
            }
#pragma GCC unroll 2
            for (k = 0; k < 2; k++) {
                places = i2s_bytes_of_avx2(i2s_carry_avx2(&bits.eights, eight[2 * k], eight[2 * k + 1]));
                lows += places.even;
                highs += places.odd;
            }
            places = i2s_bytes_of_avx2(i2s_carry_avx2(&boths.eights, pair[0], pair[1]));
            threes += places.even + places.odd;
        }
        found[0] += 16 * i2s_sum_avx2(lows);
        found[1] += 16 * i2s_sum_avx2(highs);
        both[0] += 16 * i2s_sum_avx2(threes);
    }
    i2s_histogram_portable(src + i, n - i, count);
    i2s_left_avx2(&bits, found);
    i2s_left_avx2(&boths, both);
    both[0] += both[1];
    count[1] += found[0] - both[0];
    count[2] += found[1] - both[0];
    count[3] += both[0];
    count[0] = 4 * (uint64_t)n - count[1] - count[2] - count[3];
}

#undef I2S_COUNTED
#undef I2S_COUNTED_INLINE
#endif
