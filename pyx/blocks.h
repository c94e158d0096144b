/* Kernels over types that pack weights in blocks with scales of their own. They need no Python.
 *
 * `i2s_block_sets` is a table with one row for each instruction set that this compiler can target, as `i2s_kernels` is for
 * I2_S. A matrix is rows of whole blocks, with `front` bytes before the blocks of each row; where scales belong to blocks,
 * the whole tensor may be called as one row. Every kernel works on a tile of codes that stays in the first cache:
 *
 *     unpack, floats     blocks -> codes (one byte each) -> int8, or code - 1 times the scale -> out, past the cache or not
 *     pack               int8 -> codes -> blocks -> out
 *     count              blocks -> how often bit 0, bit 1 and both of a code are set, without codes in between
 */
#ifndef I2S_BLOCKS_H
#define I2S_BLOCKS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "block_kinds.h"
#include "cpu.h"

/* Elements of a tile: whole blocks of every kind. */
#define I2S_TILE 2048

/* A float16 as float32, exactly; `swap` where its bytes are in the other order. Without its sign it is a float32 whose
 * exponent is too small by 112; of infinity and NaN the exponent is all ones. */
static inline float i2s_half(const uint8_t *p, int swap) {
    const uint32_t h = swap ? (uint32_t)p[0] << 8 | p[1] : (uint32_t)p[1] << 8 | p[0];
    uint32_t bits = (h & 0x7FFFu) << 13;
    float f;
    memcpy(&f, &bits, 4);
    f *= 0x1p112f;
    memcpy(&bits, &f, 4);
    bits |= (h & 0x8000u) << 16 | ((h & 0x7C00u) == 0x7C00u ? 0x7F800000u : 0u);
    memcpy(&f, &bits, 4);
    return f;
}

static inline float i2s_single(const uint8_t *p, int swap) {
    const uint32_t bits = swap ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]
                               : (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* ceil(number * 256 / 243) of a number of five digits, in arithmetic that fits 16 bits: 34522 / 2^23 is just above 1 / 243. */
static inline uint8_t i2s_digits_byte(uint8_t number) {
    const uint16_t x = (uint16_t)(number * 13 + 242);
    return (uint8_t)(number + (uint8_t)((uint16_t)(((uint32_t)x * 34522u) >> 16) >> 7));
}

#if defined(__GNUC__) || defined(__clang__)
#define I2S_ALWAYS static inline __attribute__((always_inline))
#define I2S_ALIGNED __attribute__((aligned(64)))
#else
#define I2S_ALWAYS static inline
#define I2S_ALIGNED
#endif

/* The scale of each block of a kind that has them, as float32. */
static inline void i2s_block_scales(int kind, const uint8_t *src, int64_t blocks, int swap, float *dst) {
    const i2s_block shape = i2s_block_kinds[kind];
    int64_t b;
    for (b = 0; b < blocks; b++) dst[b] = i2s_half(src + b * shape.bytes + shape.scale, swap);
}

typedef struct {
    const char *name;
    int (*available)(void);
    int (*unpack)(int kind, const uint8_t *src, int64_t rows, int64_t blocks, int front, int8_t *dst, int stream);
    int (*pack)(int kind, const int8_t *src, int64_t rows, int64_t blocks, int front, const uint8_t *scales, int most,
                uint8_t *dst, int stream);
    void (*floats)(int kind, const uint8_t *src, int64_t rows, int64_t blocks, int front, int swap, float *dst, int stream);
    void (*count)(int kind, const uint8_t *src, int64_t rows, int64_t blocks, int front, uint64_t count[3]);
} i2s_block_set;

/* Moves a tile to where it belongs; past the cache where that is wanted and the address allows it. */
I2S_ALWAYS void i2s_pour_portable(void *dst, const void *src, size_t n, int stream) {
    (void)stream;
    memcpy(dst, src, n);
}

#include "blocks_portable.h"

#define I2S_NAME(x) x##_portable
#define I2S_TARGET
#include "blocks_body.h"
#undef I2S_NAME
#undef I2S_TARGET

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#include <immintrin.h>

#define I2S_POUR(SET, TARGET, V, LOAD, STREAM)                                                                          \
    static __attribute__((target(TARGET))) void i2s_pour_##SET(void *dst, const void *src, size_t n, int stream) {      \
        uint8_t *d = (uint8_t *)dst;                                                                                    \
        const uint8_t *s = (const uint8_t *)src;                                                                        \
        if (stream && (uintptr_t)d % sizeof(V) == 0) {                                                                  \
            for (; n >= sizeof(V); n -= sizeof(V), s += sizeof(V), d += sizeof(V)) STREAM((V *)d, LOAD((const V *)s));  \
        }                                                                                                               \
        memcpy(d, s, n);                                                                                                \
    }
I2S_POUR(avx2, "avx2", __m256i, _mm256_loadu_si256, _mm256_stream_si256)
I2S_POUR(avx512, "avx512f,avx512bw,avx512vl", __m512i, _mm512_loadu_si512, _mm512_stream_si512)

/* The low bytes of eight numbers of 32 bits. */
static inline __attribute__((always_inline, target("avx2"))) void i2s_narrow_avx2(uint8_t *p, __m256i v) {
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}

#define I2S_BLOCKS_FENCE 1
#define I2S_NAME(x) x##_avx2
#define I2S_TARGET __attribute__((target("avx2,popcnt")))
#define I2S_WIDTH 32
#define I2S_MULHI(a, b) _mm_mulhi_epu16((__m128i)(a), (__m128i)(b))
#define I2S_WIDEN(p) _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p)))
#define I2S_NARROW(p, v) i2s_narrow_avx2(p, (__m256i)(v))
#include "blocks_vector.h"
#include "blocks_body.h"
#undef I2S_NAME
#undef I2S_TARGET
#undef I2S_WIDTH
#undef I2S_WIDEN
#undef I2S_NARROW

#define I2S_NAME(x) x##_avx512
#define I2S_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,popcnt" I2S_BY_512)))
#define I2S_WIDTH 64
#define I2S_WIDEN(p) _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(p)))
#define I2S_NARROW(p, v) _mm_storeu_si128((__m128i *)(p), _mm512_cvtepi32_epi8((__m512i)(v)))
#include "blocks_vector.h"
#include "blocks_body.h"
#undef I2S_NAME
#undef I2S_TARGET
#undef I2S_WIDTH
#undef I2S_WIDEN
#undef I2S_NARROW
#undef I2S_MULHI
#undef I2S_BLOCKS_FENCE
#endif

#if (defined(__GNUC__) || defined(__clang__)) && defined(__aarch64__)
#include <arm_neon.h>
I2S_ALWAYS void i2s_pour_neon(void *dst, const void *src, size_t n, int stream) { i2s_pour_portable(dst, src, n, stream); }
static inline uint16x8_t i2s_mulhi_neon(uint16x8_t a, uint16x8_t b) {
    const uint32x4_t low = vmull_u16(vget_low_u16(a), vget_low_u16(b)), high = vmull_u16(vget_high_u16(a), vget_high_u16(b));
    return vcombine_u16(vshrn_n_u32(low, 16), vshrn_n_u32(high, 16));
}
static inline uint32x4_t i2s_widen_neon(const uint8_t *p) {
    uint32_t four;
    memcpy(&four, p, 4);
    return vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four))));
}
static inline void i2s_narrow_neon(uint8_t *p, uint32x4_t v) {
    const uint16x4_t words = vmovn_u32(v);
    const uint32_t four = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(words, words))), 0);
    memcpy(p, &four, 4);
}
#define I2S_NAME(x) x##_neon
#define I2S_TARGET
#define I2S_WIDTH 16
#define I2S_MULHI(a, b) i2s_mulhi_neon((uint16x8_t)(a), (uint16x8_t)(b))
#define I2S_WIDEN(p) i2s_widen_neon(p)
#define I2S_NARROW(p, v) i2s_narrow_neon(p, (uint32x4_t)(v))
#include "blocks_vector.h"
#include "blocks_body.h"
#undef I2S_NAME
#undef I2S_TARGET
#undef I2S_WIDTH
#undef I2S_WIDEN
#undef I2S_NARROW
#undef I2S_MULHI
#endif

static int i2s_blocks_always(void) { return 1; }
#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
static int i2s_blocks_avx2(void) { return i2s_cpu_avx2() && i2s_cpu_popcnt(); }
static int i2s_blocks_avx512(void) { return i2s_cpu_avx512bw() && i2s_cpu_popcnt(); }
#endif

#define I2S_BLOCK_ROW(SET, AVAILABLE)                                                                                   \
    {#SET, AVAILABLE, i2s_block_unpack_##SET, i2s_block_pack_##SET, i2s_block_floats_##SET, i2s_block_count_##SET}
static const i2s_block_set i2s_block_sets[] = {
    I2S_BLOCK_ROW(portable, i2s_blocks_always),
#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
    I2S_BLOCK_ROW(avx2, i2s_blocks_avx2),
    I2S_BLOCK_ROW(avx512, i2s_blocks_avx512),
#endif
#if (defined(__GNUC__) || defined(__clang__)) && defined(__aarch64__)
    I2S_BLOCK_ROW(neon, i2s_cpu_neon),
#endif
};
enum { I2S_BLOCK_SETS = sizeof i2s_block_sets / sizeof *i2s_block_sets };

#endif
