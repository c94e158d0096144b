/* Examines payloads of types with a scale for each group: bytes that no packer writes, and unusual scales.
 *
 * A group has one scale: a block, or a row with its scale in front. `i2s_groups_feed` takes bytes in order, divided
 * anywhere, and `i2s_groups_join` merges neighbors: for a divided group, each side keeps the bytes of the scale that it
 * saw, and whether a code stood for a nonzero weight. Whole tiles of blocks go to the kernel of the set.
 *
 *     odd        codes 3 where two bits are a code; bytes that stand for digits and that no packer writes
 *     infinite   scales that are infinite or NaN
 *     negative   finite scales below 0
 *     lost       scales of 0 in groups that have other weights than 0
 *     octaves    the other scales by the exponent of a float16; of float32 likewise, what is out of its range at its ends
 */
#ifndef I2S_SURVEY_GROUPS_H
#define I2S_SURVEY_GROUPS_H

#include "survey_group_tally.h"

/* The minimum over a tile of each byte XOR a byte that no packer writes: 0 if there is one. A byte is one if 13 times
 * it, modulo 256, is 1 to 13; no two of the 13 end with the same four bits. */
I2S_INTO int i2s_digits_portable(const uint8_t *p, const uint8_t *mask, int n) {
    uint8_t least = 255;
    int i;
    for (i = 0; i < n; i++) {
        const uint8_t apart = (uint8_t)(13 * p[i] - 1) | mask[i];
        least = apart < least ? apart : least;
    }
    return least < 13;
}

/* The findings in the scales of a tile, and in its bytes of four digits: `count` for each block. Scales are written in
 * this machine's byte order. Special scales are those in none of the four octaves from `first` on, 0, or not finite. */
enum { I2S_TILE_ODD = 1, I2S_TILE_SPECIAL = 2, I2S_TILE_ABOVE = 4 };
#define I2S_TILE(set, target)                                                                                           \
    I2S_INTO target int i2s_tile_##set(const uint16_t *head, const uint16_t *pair, int count, int swap, uint16_t first,  \
                                       uint16_t top, uint16_t *scales) {                                                \
        uint16_t special = 0, above = 0, odd = 0;                                                                       \
        int c;                                                                                                          \
        for (c = 0; c < I2S_GROUP_TILE; c++) scales[c] = swap ? (uint16_t)(head[c] << 8 | head[c] >> 8) : head[c];       \
        for (c = 0; c < I2S_GROUP_TILE; c++)                                                                            \
            special |= (uint16_t)(((uint16_t)(scales[c] - 1) >= 0x7BFF) | ((uint16_t)(scales[c] - first) > 0xFFF));      \
        for (c = 0; c < I2S_GROUP_TILE; c++) above |= (uint16_t)(scales[c] > top);                                      \
        for (c = 0; c < I2S_GROUP_TILE * count / 2; c++)                                                                \
            odd |= (uint16_t)((((pair[c] & 255) * 81 & 255) > 80) | (((pair[c] >> 8) * 81 & 255) > 80));                 \
        return (odd ? I2S_TILE_ODD : 0) | (special ? I2S_TILE_SPECIAL : 0) | (above ? I2S_TILE_ABOVE : 0);               \
    }                                                                                                                   \
    I2S_INTO target void i2s_tile_octaves_##set(const uint16_t *scales, uint16_t first, uint16_t near[4][I2S_GROUP_TILE]) {\
        int c, k;                                                                                                       \
        for (k = 0; k < 4; k++)                                                                                         \
            for (c = 0; c < I2S_GROUP_TILE; c++)                                                                        \
                near[k][c] = (uint16_t)(near[k][c] + ((uint16_t)(scales[c] - first) >> 10 == k));                        \
    }
I2S_TILE(portable, )

#define I2S_NAME(x) x##_portable
#define I2S_TARGET
#include "survey_groups_body.h"
#undef I2S_NAME
#undef I2S_TARGET

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#include "intrinsics.h"

#include "survey_gather.h"

/* By its lower four bits, the byte that no packer writes, as a signed number; if there is none, one with other bits. */
#define I2S_UNWRITTEN 1, 1, -78, 99, 20, -59, 7, 119, 40, -39, -118, 12, 60, -19, -98, 79

I2S_INTO __attribute__((target("avx2"))) int i2s_digits_avx2(const uint8_t *p, const uint8_t *mask, int n) {
    const __m256i table = _mm256_setr_epi8(I2S_UNWRITTEN, I2S_UNWRITTEN);
    __m256i least = _mm256_set1_epi8(-1);
    int i;
    for (i = 0; i < n; i += 32) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(p + i));
        const __m256i lower = _mm256_and_si256(v, _mm256_set1_epi8(15));
        const __m256i apart = _mm256_xor_si256(_mm256_shuffle_epi8(table, lower), v);
        least = _mm256_min_epu8(least, _mm256_or_si256(apart, _mm256_loadu_si256((const __m256i *)(mask + i))));
    }
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(least, _mm256_setzero_si256())) != 0;
}
I2S_TILE(avx2, __attribute__((target("avx2,popcnt"))))
#define I2S_NAME(x) x##_avx2
#define I2S_TARGET __attribute__((target("avx2,popcnt")))
#define I2S_GATHER i2s_gather_avx2
#include "survey_groups_body.h"
#undef I2S_GATHER
#undef I2S_NAME
#undef I2S_TARGET

/* The scales of a tile are one vector. */
I2S_INTO __attribute__((target("avx512f,avx512bw,avx512vl"))) int i2s_tile_avx512vl(
    const uint16_t *head, const uint16_t *pair, int count, int swap, uint16_t first, uint16_t top, uint16_t *scales) {
    const __m512i low = _mm512_set1_epi16(255), times = _mm512_set1_epi16(81), most = _mm512_set1_epi8(80);
    __m512i v = _mm512_loadu_si512(head);
    __mmask32 special;
    __mmask64 odd = 0;
    int c;
    if (swap) v = _mm512_or_si512(_mm512_slli_epi16(v, 8), _mm512_srli_epi16(v, 8));
    _mm512_storeu_si512(scales, v);
    special = _mm512_cmpge_epu16_mask(_mm512_sub_epi16(v, _mm512_set1_epi16(1)), _mm512_set1_epi16(0x7BFF));
    special |= _mm512_cmpgt_epu16_mask(_mm512_sub_epi16(v, _mm512_set1_epi16((short)first)), _mm512_set1_epi16(0xFFF));
    for (c = 0; c < I2S_GROUP_TILE * count / 2; c += 32) {
        const __m512i four = _mm512_loadu_si512(pair + c);
        const __m512i even = _mm512_mullo_epi16(four, times), upper = _mm512_mullo_epi16(_mm512_andnot_si512(low, four), times);
        odd |= _mm512_cmpgt_epu8_mask(_mm512_ternarylogic_epi32(low, even, upper, 0xCA), most);  /* low ? even : upper */
    }
    return (odd ? I2S_TILE_ODD : 0) | (special ? I2S_TILE_SPECIAL : 0) |
           (_mm512_cmpgt_epu16_mask(v, _mm512_set1_epi16((short)top)) ? I2S_TILE_ABOVE : 0);
}

I2S_INTO __attribute__((target("avx512f,avx512bw,avx512vl"))) void i2s_tile_octaves_avx512vl(
    const uint16_t *scales, uint16_t first, uint16_t near[4][I2S_GROUP_TILE]) {
    const __m512i v = _mm512_sub_epi16(_mm512_loadu_si512(scales), _mm512_set1_epi16((short)first));
    const __m512i octave = _mm512_srli_epi16(v, 10), one = _mm512_set1_epi16(1);
    int k;
    for (k = 0; k < 4; k++) {
        const __m512i held = _mm512_loadu_si512(near[k]);
        const __mmask32 here = _mm512_cmpeq_epi16_mask(octave, _mm512_set1_epi16((short)k));
        _mm512_storeu_si512(near[k], _mm512_mask_add_epi16(held, here, held, one));
    }
}

I2S_INTO __attribute__((target("avx512f,avx512bw,avx512vl"))) int i2s_digits_avx512vl(const uint8_t *p, const uint8_t *mask,
                                                                                   int n) {
    const __m512i table = _mm512_broadcast_i32x4(_mm_setr_epi8(I2S_UNWRITTEN));
    __m512i least = _mm512_set1_epi8(-1);
    int i;
    for (i = 0; i < n; i += 64) {
        const __m512i v = _mm512_loadu_si512(p + i);
        const __m512i lower = _mm512_and_si512(v, _mm512_set1_epi8(15));
        const __m512i apart = _mm512_ternarylogic_epi64(  /* (a ^ b) | c */
            _mm512_shuffle_epi8(table, lower), v, _mm512_loadu_si512(mask + i), 0xBE);
        least = _mm512_min_epu8(least, apart);
    }
    return _mm512_testn_epi8_mask(least, least) != 0;
}
#define I2S_NAME(x) x##_avx512vl
#define I2S_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,popcnt" I2S_BY_512)))
#define I2S_LOOKED(table, v) _mm512_shuffle_epi8(table, _mm512_and_si512(v, _mm512_set1_epi8(15)))
#include "survey_groups_body.h"
#undef I2S_LOOKED
#undef I2S_NAME
#undef I2S_TARGET

/* If bytes are looked up among 64 (VBMI), by their lower six bits, no bits must be cleared first. */
#define I2S_NAME(x) x##_avx512
#define I2S_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,popcnt" I2S_BY_512)))
#define I2S_LOOKED(table, v) _mm512_permutexvar_epi8(v, table)
#define i2s_look_again_avx512 i2s_look_again_avx512vl
#include "survey_tiles.h"
#undef I2S_LOOKED
#undef I2S_NAME
#undef I2S_TARGET
static void i2s_groups_avx512(i2s_groups *g, const uint8_t *p, int64_t count, int64_t number) {
    (g->kind == I2S_PTQ1 ? i2s_look_ptq1_avx512 : i2s_groups_avx512vl)(g, p, count, number);
}
#endif

#endif
