/* Kernels over types that pack weights in blocks with scales of their own. They need no Python.
 *
 * `i2s_block_sets` is a table with one row for each instruction set that this compiler can target, as `i2s_kernels` is for
 * I2_S. A matrix is rows of whole blocks, with `front` bytes before the blocks of each row; where scales belong to blocks,
 * the whole tensor may be called as one row. Every kernel works on a tile of codes that stays in the first cache:
 *
 *     unpack, floats     blocks -> codes (one byte each) -> int8, or code - 1 times the scale -> out, past the cache or not;
 *                        unpack gives the scales of blocks as well, unless `scales` is NULL
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
/* Bytes of blocks that are collected before whole lines are moved: more than a few tiles produce. */
#define I2S_PACK_ROOM 6144

#if defined(__GNUC__) || defined(__clang__)
#define I2S_ALWAYS static inline __attribute__((always_inline))
#define I2S_ALIGNED __attribute__((aligned(64)))
/* How far ahead of its use memory is prefetched; past the end of a buffer too, which is allowed and does nothing. */
#define I2S_BLOCKS_AHEAD 8192
#define I2S_ASK_AT(p, ahead) __builtin_prefetch((const char *)((uintptr_t)(p) + (uintptr_t)(ahead)))
#else
#define I2S_BLOCKS_AHEAD 0
#define I2S_ASK_AT(p, ahead) (void)(p)
#define I2S_ALWAYS static inline
#define I2S_ALIGNED
#endif

/* How far ahead values to pack are prefetched. A processor that executes 512-bit operations in halves (Zen 4) detects
 * the sequential reads itself, and reads at four fifths of the speed with additional prefetches: 0 there, which costs
 * nothing. */
static inline int64_t i2s_pack_ahead(void) {
#if defined(I2S_CPU_X86)
    return i2s_cpu_halves_avx512() ? 0 : I2S_BLOCKS_AHEAD;
#else
    return I2S_BLOCKS_AHEAD;
#endif
}

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

/* The same for `n` of them, `step` bytes apart. */
I2S_ALWAYS void i2s_halves(const uint8_t *src, int step, int64_t n, int swap, float *dst) {
    int64_t i;
    for (i = 0; i < n; i++) dst[i] = i2s_half(src + i * step, swap);
}

static inline float i2s_single(const uint8_t *p, int swap) {
    const uint32_t bits = swap ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]
                               : (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* ceil(number * 256 / 243) of a number of five digits, in arithmetic that fits 16 bits: 4 * 878 / 2^16 is just above
 * 13 / 243. */
static inline uint8_t i2s_digits_byte(uint8_t number) {
    return (uint8_t)(number + (uint8_t)(((uint32_t)(4 * number + 74) * 878u) >> 16));
}

/* The scale of each block of a kind that has them, as float32. */
static inline void i2s_block_scales(int kind, const uint8_t *src, int64_t blocks, int swap, float *dst) {
    const i2s_block shape = i2s_block_kinds[kind];
    i2s_halves(src + shape.scale, shape.bytes, blocks, swap, dst);
}

typedef struct {
    const char *name;
    int (*available)(void);
    int (*unpack)(int kind, const uint8_t *src, int64_t rows, int64_t blocks, int front, int8_t *dst, int stream, int swap,
                  float *scales);
    int (*pack)(int kind, const int8_t *src, int64_t rows, int64_t blocks, int front, const uint8_t *scales, int each,
                int most, uint8_t *dst, int stream);
    int (*floats)(int kind, const uint8_t *src, int64_t rows, int64_t blocks, int front, int swap, float *dst, int stream);
    void (*count)(int kind, const uint8_t *src, int64_t rows, int64_t blocks, int front, uint64_t count[3]);
} i2s_block_set;

/* Moves a tile to its place; past the cache where that is wanted and the address allows it. */
I2S_ALWAYS void i2s_pour_portable(void *dst, const void *src, size_t n, int stream) {
    (void)stream;
    memcpy(dst, src, n);
}

#include "blocks_portable.h"

#define I2S_NAME(x) x##_portable
#define I2S_TARGET
#include "blocks_body.h"
#include "blocks_pack.h"
#undef I2S_NAME
#undef I2S_TARGET

#if defined(__GNUC__) || defined(__clang__)
#include "blocks_digits.h"
#endif

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#include "intrinsics.h"

#include "blocks_x86.h"

#define I2S_BLOCKS_FENCE 1
#define I2S_NAME(x) x##_avx2
#define I2S_TARGET __attribute__((target("avx2,popcnt")))
#define I2S_WIDTH 32
#define I2S_RUN 32
#define I2S_LOOK_RUN(table, at) I2S_LOOK32(table, at)
#define I2S_STEPS(v) i2s_steps32((__m256i)(v))
#define I2S_STEPS16(v) i2s_steps16((__m128i)(v))
#define I2S_WIDEN(p) _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p)))
#define I2S_WIDEN_SIGNED(p) _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p)))
#define I2S_NARROW(p, v) i2s_narrow_avx2(p, v)
#define I2S_FOURS(v) i2s_fours_avx2((__m256i)(v))
#define I2S_LOOK(v, at) _mm256_shuffle_epi8(v, (__m256i)(at))
#define I2S_TIMES(v, by) i2s_times_avx2(v, (__m256i)(by))
#define I2S_THIRDS(v) i2s_thirds_avx2(v)
#define I2S_PLACES(at) i2s_places_avx2(at)
#define I2S_MOST(a, b) _mm256_max_epu8((__m256i)(a), (__m256i)(b))
#define I2S_TWELVE(values, dst) i2s_twelve_avx2(values, dst)
#include "blocks_vector.h"
#include "blocks_body.h"
#include "blocks_pack.h"
#undef I2S_NAME
#undef I2S_TARGET
#undef I2S_WIDTH
#undef I2S_RUN
#undef I2S_LOOK_RUN
#undef I2S_STEPS
#undef I2S_STEPS16
#undef I2S_WIDEN
#undef I2S_WIDEN_SIGNED
#undef I2S_NARROW
#undef I2S_FOURS
#undef I2S_LOOK
#undef I2S_TIMES
#undef I2S_THIRDS
#undef I2S_PLACES
#undef I2S_MOST
#undef I2S_TWELVE

#define I2S_NAME(x) x##_avx512vl
#define I2S_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,popcnt" I2S_BY_512)))
#define I2S_WIDTH 64
#define I2S_RUN 32
#define I2S_LOOK_RUN(table, at) I2S_LOOK32(table, at)
#define I2S_STEPS(v) i2s_steps32((__m256i)(v))
#define I2S_STEPS16(v) i2s_steps16((__m128i)(v))
#define I2S_WIDEN(p) _mm512_cvtepu8_epi32(I2S_LOAD16(p))
#define I2S_WIDEN_SIGNED(p) _mm512_cvtepi8_epi32(I2S_LOAD16(p))
#define I2S_NARROW(p, v) _mm_storeu_si128((__m128i *)(p), _mm512_cvtepi32_epi8(v))
#define I2S_FOURS(v) i2s_fours_avx512((__m512i)(v))
#define I2S_LOOK(v, at) _mm512_shuffle_epi8(v, (__m512i)(at))
#define I2S_TIMES(v, by) i2s_times_avx512(v, (__m512i)(by))
#define I2S_THIRDS(v) i2s_thirds_avx512(v)
#define I2S_PLACES(at) i2s_places_avx512(at)
#define I2S_MOST(a, b) _mm512_max_epu8((__m512i)(a), (__m512i)(b))
#define I2S_TWELVE(values, dst) i2s_twelve_avx512(values, dst)
#include "blocks_vector.h"
#include "blocks_body.h"
#include "blocks_pack.h"
#undef I2S_NAME
#undef I2S_TARGET
#undef I2S_WIDTH
#undef I2S_RUN
#undef I2S_LOOK_RUN
#undef I2S_STEPS
#undef I2S_STEPS16
#undef I2S_WIDEN
#undef I2S_WIDEN_SIGNED
#undef I2S_NARROW
#undef I2S_FOURS
#undef I2S_LOOK
#undef I2S_TIMES
#undef I2S_THIRDS
#undef I2S_PLACES
#undef I2S_MOST
#undef I2S_TWELVE

#include "blocks_vbmi.h"

#define I2S_NAME(x) x##_avx512
#define I2S_TARGET __attribute__((target(I2S_VBMI I2S_BY_512)))
#include "blocks_pack.h"
#undef I2S_NAME
#undef I2S_TARGET
#undef I2S_BLOCKS_FENCE
#endif

#if (defined(__GNUC__) || defined(__clang__)) && defined(__aarch64__)
#include <arm_neon.h>

#include "blocks_neon.h"

#define I2S_NAME(x) x##_neon
#define I2S_TARGET 
#define I2S_WIDTH 16
#define I2S_RUN 16
#define I2S_LOOK_RUN(table, at) I2S_LOOK16(vld1q_u8(table), at)
#define I2S_STEPS(v) i2s_steps16((uint8x16_t)(v))
#define I2S_STEPS16(v) I2S_STEPS(v)
#define I2S_WIDEN(p) i2s_widen_neon(p)
#define I2S_WIDEN_SIGNED(p) i2s_widen_signed_neon((const uint8_t *)(p))
#define I2S_NARROW(p, v) i2s_narrow_neon(p, v)
#define I2S_FOURS(v) i2s_fours_neon((uint8x16_t)(v))
#define I2S_LOOK(v, at) vqtbl1q_u8(v, (uint8x16_t)(at))
#define I2S_TIMES(v, by) vmulq_u8(v, (uint8x16_t)(by))
#define I2S_THIRDS(v) i2s_thirds_neon(v)
#define I2S_PLACES(at) vld1q_u8((at)[0])
#define I2S_MOST(a, b) vmaxq_u8((uint8x16_t)(a), (uint8x16_t)(b))
#define I2S_TWELVE(values, dst) vst1q_u8(dst, (uint8x16_t)digits_bytes_neon((b16_neon)i2s_twelve_neon(values)))
#include "blocks_vector.h"
#include "blocks_body.h"
#include "blocks_pack.h"
#undef I2S_NAME
#undef I2S_TARGET
#undef I2S_WIDTH
#undef I2S_RUN
#undef I2S_LOOK_RUN
#undef I2S_STEPS
#undef I2S_STEPS16
#undef I2S_WIDEN
#undef I2S_WIDEN_SIGNED
#undef I2S_NARROW
#undef I2S_FOURS
#undef I2S_LOOK
#undef I2S_TIMES
#undef I2S_THIRDS
#undef I2S_PLACES
#undef I2S_MOST
#undef I2S_TWELVE
#endif

static int i2s_blocks_always(void) { return 1; }
#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
static int i2s_blocks_avx2(void) { return i2s_cpu_avx2() && i2s_cpu_popcnt(); }
static int i2s_blocks_avx512vl(void) { return i2s_cpu_avx512bw() && i2s_cpu_popcnt(); }
static int i2s_blocks_avx512(void) { return i2s_blocks_avx512vl() && I2S_HAS(avx512vbmi) && I2S_HAS(avx512vnni); }
#endif

#define I2S_BLOCK_ROW(SET, AVAILABLE)                                                                                   \
    {#SET, AVAILABLE, i2s_block_unpack_##SET, i2s_block_pack_##SET, i2s_block_floats_##SET, i2s_block_count_##SET}
static const i2s_block_set i2s_block_sets[] = {
    I2S_BLOCK_ROW(portable, i2s_blocks_always),
#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
    I2S_BLOCK_ROW(avx2, i2s_blocks_avx2),
    I2S_BLOCK_ROW(avx512vl, i2s_blocks_avx512vl),
    {"avx512", i2s_blocks_avx512, i2s_block_unpack_avx512vl, i2s_block_pack_avx512, i2s_block_floats_avx512vl,
     i2s_block_count_avx512vl},
#endif
#if (defined(__GNUC__) || defined(__clang__)) && defined(__aarch64__)
    I2S_BLOCK_ROW(neon, i2s_cpu_neon),
#endif
};
enum { I2S_BLOCK_SETS = sizeof i2s_block_sets / sizeof *i2s_block_sets };

#endif
