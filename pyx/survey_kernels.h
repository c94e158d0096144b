/* Examines one block of a payload, for each instruction set.
 *
 * A block is I2S_BLOCK bytes; its words of eight bytes belong to four lanes in turn.
 *
 * `codes(p, sums)`         counts for each lane how many codes have their low bit set, sums[0..3], and how many their high
 *                          bit, sums[4..7]. Where no code has both, that gives the histogram; and at no further cost it
 *                          is what a fingerprint is made of.
 * `words(p, sums)`         adds up the words of each lane, for payloads of other types.
 * `floats_N(p, sums, mask)`  does the same, and finds out whether a float of N bytes is not finite: then all bits of its
 *                          exponent, `mask`, are set.
 *
 * They return bits: SEEN_RUN if a run of I2S_LEAST_RUN bytes may lie in the block (two words in 128 bytes are compared;
 * it is set whenever there is a run), SEEN_BOTH if a code has both bits, SEEN_ODD if a float is not finite: only all of
 * the mask's bits together give the largest value, so a maximum finds it.
 */
#ifndef I2S_SURVEY_KERNELS_H
#define I2S_SURVEY_KERNELS_H

#define I2S_BLOCK 4096
#define I2S_LEAST_RUN 256

enum { I2S_SEEN_RUN = 1, I2S_SEEN_BOTH = 2, I2S_SEEN_ODD = 4 };

static inline uint64_t i2s_word_at(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* A run of at least 255 bytes contains 128 at a multiple of 128; there the first word equals that 64 bytes later. */
#define I2S_SEEMS_RUN(p) (i2s_word_at(p) == i2s_word_at((p) + 64))

/* --- plain C ------------------------------------------------------------------------------------------------------- */

static inline uint64_t i2s_bits_of_bytes(uint64_t v) {
    v -= (v >> 1) & 0x5555555555555555u;
    v = (v & 0x3333333333333333u) + ((v >> 2) & 0x3333333333333333u);
    return (v + (v >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
}

/* Two words become one of all their low bits and one of all their high bits, so that no bit of a count is wasted. */
static int i2s_codes_portable(const uint8_t *p, uint64_t sums[8]) {
    const uint64_t even = 0x5555555555555555u, halves = 0x00FF00FF00FF00FFu;
    uint64_t total[8] = {0}, both[4] = {0};
    int run = 0, i, q, k;
    for (i = 0; i < I2S_BLOCK; i += 1024) {
        uint64_t part[8] = {0};  /* of bytes, which grow by at most 8 with two words: by 128 in 1,024 bytes */
        for (k = i; k < i + 1024; k += 64) {
            for (q = 0; q < 4; q++) {
                const uint64_t v = i2s_word_at(p + k + 8 * q), w = i2s_word_at(p + k + 32 + 8 * q);
                const uint64_t low = (v & even) | (w & even) << 1, high = ((v >> 1) & even) | (w & ~even);
                both[q] |= low & high;
                part[q] += i2s_bits_of_bytes(low);
                part[4 + q] += i2s_bits_of_bytes(high);
            }
        }
        for (q = 0; q < 8; q++) total[q] += (part[q] & halves) + ((part[q] >> 8) & halves);
    }
    for (q = 0; q < 8; q++) sums[q] = (total[q] * 0x0001000100010001u) >> 48;
    for (i = 0; i < I2S_BLOCK; i += 128) run |= I2S_SEEMS_RUN(p + i);
    return run | (both[0] | both[1] | both[2] | both[3] ? I2S_SEEN_BOTH : 0);
}

static int i2s_words_portable(const uint8_t *p, uint64_t sums[4]) {
    int run = 0, i, q;
    for (q = 0; q < 4; q++) sums[q] = 0;
    for (i = 0; i < I2S_BLOCK; i += 32)
        for (q = 0; q < 4; q++) sums[q] += i2s_word_at(p + i + 8 * q);
    for (i = 0; i < I2S_BLOCK; i += 128) run |= I2S_SEEMS_RUN(p + i);
    return run;
}

#define I2S_FLOATS_PORTABLE(name, type)                                                                                 \
    static int name(const uint8_t *p, uint64_t sums[4], uint64_t mask) {                                                \
        const type m = (type)mask;                                                                                      \
        type most = 0;                                                                                                  \
        int i;                                                                                                          \
        for (i = 0; i < I2S_BLOCK; i += (int)sizeof(type)) {                                                            \
            type v;                                                                                                     \
            memcpy(&v, p + i, sizeof(type));                                                                            \
            v &= m;                                                                                                     \
            most = v > most ? v : most;                                                                                 \
        }                                                                                                               \
        return i2s_words_portable(p, sums) | (most == m ? I2S_SEEN_ODD : 0);                                            \
    }
I2S_FLOATS_PORTABLE(i2s_floats_2_portable, uint16_t)
I2S_FLOATS_PORTABLE(i2s_floats_4_portable, uint32_t)
I2S_FLOATS_PORTABLE(i2s_floats_8_portable, uint64_t)

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#include "intrinsics.h"
#define I2S_SURVEY_X86 1

#define I2S_AVX2 __attribute__((target("avx2")))
#define I2S_AVX512VL __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define I2S_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq")))

/* --- AVX2: bits are counted nibble by nibble in a table, low bits in one half of an entry, high bits in the other --- */

I2S_AVX2 static int i2s_codes_avx2(const uint8_t *p, uint64_t sums[8]) {
    const __m256i bits = _mm256_setr_epi8(0, 1, 16, 17, 1, 2, 17, 18, 16, 17, 32, 33, 17, 18, 33, 34,
                                          0, 1, 16, 17, 1, 2, 17, 18, 16, 17, 32, 33, 17, 18, 33, 34);
    const __m256i nibble = _mm256_set1_epi8(0x0F), zero = _mm256_setzero_si256();
    __m256i lows = zero, highs = zero, both = zero;
    int run = 0, i, k, q;
    for (i = 0; i < I2S_BLOCK; i += 1024) {
        __m256i low = zero, high = zero;  /* of bytes, which grow by at most 8 with two vectors: by 128 in 1,024 bytes */
        for (k = i; k < i + 1024; k += 128) {
            run |= I2S_SEEMS_RUN(p + k);
            for (q = k; q < k + 128; q += 64) {
                const __m256i v = _mm256_loadu_si256((const __m256i *)(p + q));
                const __m256i w = _mm256_loadu_si256((const __m256i *)(p + q + 32));
                const __m256i vs = _mm256_srli_epi16(v, 4), ws = _mm256_srli_epi16(w, 4);
                const __m256i sum = _mm256_add_epi8(
                    _mm256_add_epi8(_mm256_shuffle_epi8(bits, _mm256_and_si256(v, nibble)),
                                    _mm256_shuffle_epi8(bits, _mm256_and_si256(vs, nibble))),
                    _mm256_add_epi8(_mm256_shuffle_epi8(bits, _mm256_and_si256(w, nibble)),
                                    _mm256_shuffle_epi8(bits, _mm256_and_si256(ws, nibble))));
                /* a high bit is in the upper bit of a pair; a shift of the whole word brings it beside the low one */
                both = _mm256_or_si256(both, _mm256_and_si256(v, _mm256_srli_epi64(v, 1)));
                both = _mm256_or_si256(both, _mm256_and_si256(w, _mm256_srli_epi64(w, 1)));
                low = _mm256_add_epi8(low, _mm256_and_si256(sum, nibble));
                high = _mm256_add_epi8(high, _mm256_and_si256(_mm256_srli_epi16(sum, 4), nibble));
            }
        }
        lows = _mm256_add_epi64(lows, _mm256_sad_epu8(low, zero));
        highs = _mm256_add_epi64(highs, _mm256_sad_epu8(high, zero));
    }
    _mm256_storeu_si256((__m256i *)sums, lows);
    _mm256_storeu_si256((__m256i *)(sums + 4), highs);
    return run | (_mm256_testz_si256(both, _mm256_set1_epi8(0x55)) ? 0 : I2S_SEEN_BOTH);
}

#define I2S_LOOK_AVX2(name, extra, each, after)                                                                         \
    I2S_AVX2 static int name(const uint8_t *p, uint64_t sums[4] extra) {                                                \
        __m256i a = _mm256_setzero_si256(), b = a, most = a, more = a;                                                  \
        int run = 0, i, q;                                                                                              \
        for (i = 0; i < I2S_BLOCK; i += 128) {                                                                          \
            run |= I2S_SEEMS_RUN(p + i);                                                                                \
            for (q = i; q < i + 128; q += 64) {                                                                         \
                const __m256i v = _mm256_loadu_si256((const __m256i *)(p + q));                                         \
                const __m256i w = _mm256_loadu_si256((const __m256i *)(p + q + 32));                                    \
                a = _mm256_add_epi64(a, v);                                                                             \
                b = _mm256_add_epi64(b, w);                                                                             \
                each                                                                                                    \
            }                                                                                                           \
        }                                                                                                               \
        _mm256_storeu_si256((__m256i *)sums, _mm256_add_epi64(a, b));                                                   \
        (void)most;                                                                                                     \
        (void)more;                                                                                                     \
        return run after;                                                                                               \
    }
I2S_LOOK_AVX2(i2s_words_avx2, , , )
#define I2S_FLOATS_AVX2(bits)                                                                                           \
    I2S_LOOK_AVX2(i2s_floats_##bits##_avx2, I2S_COMMA uint64_t mask,                                                    \
                  const __m256i m = _mm256_set1_epi##bits((int##bits##_t)mask);                                         \
                  most = _mm256_max_epu##bits(most, _mm256_and_si256(v, m));                                            \
                  more = _mm256_max_epu##bits(more, _mm256_and_si256(w, m));,                                           \
                  | (_mm256_movemask_epi8(_mm256_cmpeq_epi##bits(_mm256_max_epu##bits(most, more),                      \
                                                                _mm256_set1_epi##bits((int##bits##_t)mask)))            \
                     ? I2S_SEEN_ODD : 0))
#define I2S_COMMA ,
I2S_FLOATS_AVX2(16)
I2S_FLOATS_AVX2(32)
#define i2s_floats_2_avx2 i2s_floats_16_avx2
#define i2s_floats_4_avx2 i2s_floats_32_avx2
#define i2s_floats_8_avx2 i2s_floats_8_portable

/* --- AVX-512 without VPOPCNTDQ: carry-save adders over 256 bits, which cost such a processor no clock and use three ports. Of
 * 16 vectors one is counted as above; what stays behind in the adders is counted at the end --- */

I2S_AVX512VL static int i2s_codes_avx512vl(const uint8_t *p, uint64_t sums[8]) {
    const __m256i bits = _mm256_setr_epi8(0, 1, 16, 17, 1, 2, 17, 18, 16, 17, 32, 33, 17, 18, 33, 34,
                                          0, 1, 16, 17, 1, 2, 17, 18, 16, 17, 32, 33, 17, 18, 33, 34);
    const __m256i nibble = _mm256_set1_epi8(0x0F), zero = _mm256_setzero_si256();
    __m256i left[4] = {zero, zero, zero, zero};  /* ones, twos, fours, eights */
    __m256i both = zero, low = zero, high = zero, lows, highs;
    int run = 0, i, k, q;
#define I2S_COUNTED(v)                                                                                                  \
    _mm256_add_epi8(_mm256_shuffle_epi8(bits, _mm256_and_si256(v, nibble)),                                             \
                    _mm256_shuffle_epi8(bits, _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble)))
#define I2S_UPPER(v) _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble)
    for (i = 0; i < I2S_BLOCK; i += 512) {
        __m256i eight[2], sixteen;
#pragma GCC unroll 2
        for (k = 0; k < 2; k++) {
            __m256i v[8], two[4], four[2];
#pragma GCC unroll 8
            for (q = 0; q < 8; q++) {
                v[q] = _mm256_loadu_si256((const __m256i *)(p + i + 256 * k + 32 * q));
                both = _mm256_ternarylogic_epi64(both, v[q], _mm256_srli_epi64(v[q], 1), 0xF8);  /* both | (v & v >> 1) */
            }
            run |= I2S_SEEMS_RUN(p + i + 256 * k);
            run |= I2S_SEEMS_RUN(p + i + 256 * k + 128);
#pragma GCC unroll 4
            for (q = 0; q < 4; q++) I2S_CARRY256(two[q], left[0], v[2 * q], v[2 * q + 1]);
#pragma GCC unroll 2
            for (q = 0; q < 2; q++) I2S_CARRY256(four[q], left[1], two[2 * q], two[2 * q + 1]);
            I2S_CARRY256(eight[k], left[2], four[0], four[1]);
        }
        I2S_CARRY256(sixteen, left[3], eight[0], eight[1]);
        sixteen = I2S_COUNTED(sixteen);
        low = _mm256_add_epi8(low, _mm256_and_si256(sixteen, nibble));
        high = _mm256_add_epi8(high, I2S_UPPER(sixteen));
    }
    /* a byte has at most 4 low and 4 high bits in each of 8 vectors of sixteens, and 15 times that in what is left */
    lows = _mm256_slli_epi64(_mm256_sad_epu8(low, zero), 4);
    highs = _mm256_slli_epi64(_mm256_sad_epu8(high, zero), 4);
    low = high = zero;
#pragma GCC unroll 4
    for (q = 3; q >= 0; q--) {
        const __m256i counted = I2S_COUNTED(left[q]);
        low = _mm256_add_epi8(_mm256_add_epi8(low, low), _mm256_and_si256(counted, nibble));
        high = _mm256_add_epi8(_mm256_add_epi8(high, high), I2S_UPPER(counted));
    }
    _mm256_storeu_si256((__m256i *)sums, _mm256_add_epi64(lows, _mm256_sad_epu8(low, zero)));
    _mm256_storeu_si256((__m256i *)(sums + 4), _mm256_add_epi64(highs, _mm256_sad_epu8(high, zero)));
    return run | (_mm256_testz_si256(both, _mm256_set1_epi8(0x55)) ? 0 : I2S_SEEN_BOTH);
}
#undef I2S_COUNTED
#undef I2S_UPPER

/* --- AVX-512: two vectors become one of all their low bits and one of all their high bits ----------------------------- */

#define I2S_FOLDED(v) _mm256_add_epi64(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1))

I2S_AVX512 static int i2s_codes_avx512(const uint8_t *p, uint64_t sums[8]) {
    const __m512i even = _mm512_set1_epi8(0x55);
    __m512i lows = _mm512_setzero_si512(), highs = lows, both = lows;
    __mmask8 run = 0;  /* only the first bit counts, as I2S_SEEMS_RUN compares */
    int i;
#pragma GCC unroll 4
    for (i = 0; i < I2S_BLOCK; i += 128) {
        __m512i v = _mm512_loadu_si512(p + i), w = _mm512_loadu_si512(p + i + 64);
        I2S_LOADED(v);
        I2S_LOADED(w);
        const __m512i low = _mm512_ternarylogic_epi64(even, v, _mm512_add_epi8(w, w), 0xCA);  /* even ? v : w << 1 */
        const __m512i high = _mm512_ternarylogic_epi64(even, _mm512_srli_epi64(v, 1), w, 0xCA);
        run |= _mm512_cmpeq_epi64_mask(v, w);
        both = _mm512_ternarylogic_epi64(both, low, high, 0xF8);  /* both | (low & high) */
        lows = _mm512_add_epi64(lows, _mm512_popcnt_epi64(low));
        highs = _mm512_add_epi64(highs, _mm512_popcnt_epi64(high));
    }
    _mm256_storeu_si256((__m256i *)sums, I2S_FOLDED(lows));
    _mm256_storeu_si256((__m256i *)(sums + 4), I2S_FOLDED(highs));
    return (run & 1) | (_mm512_test_epi64_mask(both, both) ? I2S_SEEN_BOTH : 0);
}

#define I2S_LOOK_AVX512(name, extra, each, after)                                                                       \
    I2S_AVX512 static int name(const uint8_t *p, uint64_t sums[4] extra) {                                              \
        __m512i a = _mm512_setzero_si512(), b = a, most = a, more = a;                                                  \
        __mmask8 run = 0;                                                                                               \
        int i;                                                                                                          \
        I2S_UNROLL_4                                                                                                    \
        for (i = 0; i < I2S_BLOCK; i += 128) {                                                                          \
            __m512i v = _mm512_loadu_si512(p + i), w = _mm512_loadu_si512(p + i + 64);                                  \
            I2S_LOADED(v);                                                                                              \
            I2S_LOADED(w);                                                                                              \
            run |= _mm512_cmpeq_epi64_mask(v, w);                                                                       \
            a = _mm512_add_epi64(a, v);                                                                                 \
            b = _mm512_add_epi64(b, w);                                                                                 \
            each                                                                                                        \
        }                                                                                                               \
        a = _mm512_add_epi64(a, b);                                                                                     \
        _mm256_storeu_si256((__m256i *)sums, I2S_FOLDED(a));                                                            \
        (void)most;                                                                                                     \
        (void)more;                                                                                                     \
        return (run & 1) after;                                                                                         \
    }
#define I2S_UNROLL_4 _Pragma("GCC unroll 4")
I2S_LOOK_AVX512(i2s_words_avx512, , , )
#define I2S_FLOATS_AVX512(bits)                                                                                         \
    I2S_LOOK_AVX512(i2s_floats_##bits##_avx512, I2S_COMMA uint64_t mask,                                                \
                    const __m512i m = _mm512_set1_epi##bits((int##bits##_t)mask);                                       \
                    most = _mm512_max_epu##bits(most, _mm512_and_si512(v, m));                                          \
                    more = _mm512_max_epu##bits(more, _mm512_and_si512(w, m));,                                         \
                    | (_mm512_cmpeq_epu##bits##_mask(_mm512_max_epu##bits(most, more),                                  \
                                                     _mm512_set1_epi##bits((int##bits##_t)mask)) ? I2S_SEEN_ODD : 0))
I2S_FLOATS_AVX512(16)
I2S_FLOATS_AVX512(32)
I2S_FLOATS_AVX512(64)
#define i2s_floats_2_avx512 i2s_floats_16_avx512
#define i2s_floats_4_avx512 i2s_floats_32_avx512
#define i2s_floats_8_avx512 i2s_floats_64_avx512

static int i2s_survey_has_avx2(void) { return i2s_cpu_avx2() && i2s_cpu_popcnt(); }
static int i2s_survey_has_avx512vl(void) { return i2s_cpu_avx512bw(); }
static int i2s_survey_has_avx512(void) { return i2s_cpu_avx512vpopcntdq() && I2S_HAS(avx512vbmi); }
#endif

#if (defined(__GNUC__) || defined(__clang__)) && defined(__aarch64__) && !I2S_BIG_ENDIAN
#include <arm_neon.h>
#define I2S_SURVEY_NEON 1

/* --- NEON, which counts the bits of each byte; of 32 bytes two lanes are in one vector and two in the next ------------- */

static inline void i2s_add_bytes_neon(uint64x2_t *sums, uint8x16_t bytes) {
    *sums = vaddq_u64(*sums, vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(bytes))));
}

static int i2s_codes_neon(const uint8_t *p, uint64_t sums[8]) {
    const uint8x16_t even = vdupq_n_u8(0x55), zero = vdupq_n_u8(0);
    uint64x2_t lows[2], highs[2];
    uint8x16_t both = zero;
    int run = 0, i, k, h;
    for (h = 0; h < 2; h++) lows[h] = highs[h] = vdupq_n_u64(0);
    for (i = 0; i < I2S_BLOCK; i += 1024) {
        uint8x16_t low[2] = {zero, zero}, high[2] = {zero, zero};  /* grow by at most 8 in 64 bytes: by 128 in 1,024 */
        for (k = i; k < i + 1024; k += 64) {
            for (h = 0; h < 2; h++) {
                const uint8x16_t v = vld1q_u8(p + k + 16 * h), w = vld1q_u8(p + k + 32 + 16 * h);
                const uint8x16_t l = vbslq_u8(even, v, vaddq_u8(w, w)), u = vbslq_u8(even, vshrq_n_u8(v, 1), w);
                both = vorrq_u8(both, vandq_u8(l, u));
                low[h] = vaddq_u8(low[h], vcntq_u8(l));
                high[h] = vaddq_u8(high[h], vcntq_u8(u));
            }
        }
        for (h = 0; h < 2; h++) {
            i2s_add_bytes_neon(&lows[h], low[h]);
            i2s_add_bytes_neon(&highs[h], high[h]);
        }
    }
    for (h = 0; h < 2; h++) {
        vst1q_u64(sums + 2 * h, lows[h]);
        vst1q_u64(sums + 4 + 2 * h, highs[h]);
    }
    for (i = 0; i < I2S_BLOCK; i += 128) run |= I2S_SEEMS_RUN(p + i);
    return run | (vmaxvq_u8(both) ? I2S_SEEN_BOTH : 0);
}

#define I2S_LOOK_NEON(name, extra, before, each, after)                                                                 \
    static int name(const uint8_t *p, uint64_t sums[4] extra) {                                                         \
        uint64x2_t a = vdupq_n_u64(0), b = a;                                                                           \
        int run = 0, i;                                                                                                 \
        before                                                                                                          \
        for (i = 0; i < I2S_BLOCK; i += 32) {                                                                           \
            const uint8x16_t v = vld1q_u8(p + i), w = vld1q_u8(p + i + 16);                                             \
            a = vaddq_u64(a, vreinterpretq_u64_u8(v));                                                                  \
            b = vaddq_u64(b, vreinterpretq_u64_u8(w));                                                                  \
            each                                                                                                        \
        }                                                                                                               \
        for (i = 0; i < I2S_BLOCK; i += 128) run |= I2S_SEEMS_RUN(p + i);                                               \
        vst1q_u64(sums, a);                                                                                             \
        vst1q_u64(sums + 2, b);                                                                                         \
        return run after;                                                                                               \
    }
I2S_LOOK_NEON(i2s_words_neon, , , , )
#define I2S_NEON_COMMA ,
#define I2S_NEON_VECTOR_16 uint16x8_t
#define I2S_NEON_VECTOR_32 uint32x4_t
#define I2S_NEON_VECTOR_64 uint64x2_t
#define I2S_ALL_SET_NEON(bits, x)                                                                                       \
    vreinterpretq_u8_u##bits(vceqq_u##bits(vandq_u##bits(vreinterpretq_u##bits##_u8(x), m), m))
#define I2S_FLOATS_NEON(bytes, bits)                                                                                    \
    I2S_LOOK_NEON(i2s_floats_##bytes##_neon, I2S_NEON_COMMA uint64_t mask,                                              \
                  const I2S_NEON_VECTOR_##bits m = vdupq_n_u##bits((uint##bits##_t)mask);                         \
                  uint8x16_t odd = vdupq_n_u8(0);,                                                                      \
                  odd = vorrq_u8(odd, vorrq_u8(I2S_ALL_SET_NEON(bits, v), I2S_ALL_SET_NEON(bits, w)));,                 \
                  | (vmaxvq_u8(odd) ? I2S_SEEN_ODD : 0))
I2S_FLOATS_NEON(2, 16)
I2S_FLOATS_NEON(4, 32)
I2S_FLOATS_NEON(8, 64)

static int i2s_survey_has_neon(void) { return i2s_cpu_neon(); }
#endif

/* --- the table ------------------------------------------------------------------------------------------------------ */

static int i2s_survey_has_portable(void) { return 1; }

typedef struct {
    const char *name;
    int (*available)(void);
    int (*codes)(const uint8_t *, uint64_t[8]);
    int (*words)(const uint8_t *, uint64_t[4]);
    int (*floats_2)(const uint8_t *, uint64_t[4], uint64_t);
    int (*floats_4)(const uint8_t *, uint64_t[4], uint64_t);
    int (*floats_8)(const uint8_t *, uint64_t[4], uint64_t);
    void (*groups)(i2s_groups *, const uint8_t *, int64_t, int64_t);
} i2s_survey_set;

#define I2S_SURVEY_ROW(set, f2, f4, f8)                                                                                 \
    {#set, i2s_survey_has_##set, i2s_codes_##set, i2s_words_##set, f2, f4, f8, i2s_groups_##set}

/* From the slowest to the fastest. */
static const i2s_survey_set i2s_survey_sets[] = {
    I2S_SURVEY_ROW(portable, i2s_floats_2_portable, i2s_floats_4_portable, i2s_floats_8_portable),
#ifdef I2S_SURVEY_X86
    I2S_SURVEY_ROW(avx2, i2s_floats_2_avx2, i2s_floats_4_avx2, i2s_floats_8_avx2),
    {"avx512vl", i2s_survey_has_avx512vl, i2s_codes_avx512vl, i2s_words_avx2, i2s_floats_2_avx2, i2s_floats_4_avx2,
     i2s_floats_8_avx2, i2s_groups_avx512vl},
    I2S_SURVEY_ROW(avx512, i2s_floats_2_avx512, i2s_floats_4_avx512, i2s_floats_8_avx512),
#endif
#ifdef I2S_SURVEY_NEON  /* which compilers use for groups in plain C, too */
    {"neon", i2s_survey_has_neon, i2s_codes_neon, i2s_words_neon, i2s_floats_2_neon, i2s_floats_4_neon, i2s_floats_8_neon,
     i2s_groups_portable},
#endif
};
enum { I2S_SURVEY_SETS = sizeof(i2s_survey_sets) / sizeof(i2s_survey_sets[0]) };
#endif
