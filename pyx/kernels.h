/* Kernels over I2S payloads: counting, packing, unpacking, transcoding, dequantising. They need no Python.
 *
 * `i2s_kernels` is a table with one row for each instruction set that this compiler can target; the caller asks
 * `available()` of a row whether the processor has it. The first row, portable, is always there and is plain C.
 */
#ifndef I2S_KERNELS_H
#define I2S_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"

/* What an unpacked byte stands for: the code itself, or the trit of a code map. */
enum { I2S_CODES, I2S_OFFSET_1, I2S_ZERO_FIRST, I2S_TWOS_COMPLEMENT, I2S_OFFSET_2 };
#define I2S_MAPS(M) M(I2S_CODES) M(I2S_OFFSET_1) M(I2S_ZERO_FIRST) M(I2S_TWOS_COMPLEMENT) M(I2S_OFFSET_2)

/* Layouts in which 128 elements are 32 bytes of their own. */
enum { I2S_KIND_128, I2S_KIND_64, I2S_KIND_MSB, I2S_KIND_LSB };
#define I2S_KINDS(K) K(I2S_KIND_128) K(I2S_KIND_64) K(I2S_KIND_MSB) K(I2S_KIND_LSB)
#define I2S_PAIRS_OF(K, F) K(F, I2S_KIND_128) K(F, I2S_KIND_64) K(F, I2S_KIND_MSB) K(F, I2S_KIND_LSB)
#define I2S_KIND_PAIRS(K)                                                                                               \
    I2S_PAIRS_OF(K, I2S_KIND_128)                                                                                       \
    I2S_PAIRS_OF(K, I2S_KIND_64)                                                                                        \
    I2S_PAIRS_OF(K, I2S_KIND_MSB)                                                                                       \
    I2S_PAIRS_OF(K, I2S_KIND_LSB)

/* Bytes of four rows that are put together in the cache before they leave it. */
#define I2S_HELD 32768

static inline uint8_t i2s_meaning(uint8_t c, int map) {
    switch (map) {
    case I2S_OFFSET_1: return (uint8_t)(c - 1);
    case I2S_ZERO_FIRST: return (uint8_t)((c & 1) - (c >> 1));
    case I2S_TWOS_COMPLEMENT: return (uint8_t)((c ^ 2) - 2);
    case I2S_OFFSET_2: return (uint8_t)(c - 2);
    default: return c;
    }
}

static inline uint8_t i2s_code(uint8_t t, int map) {
    switch (map) {
    case I2S_OFFSET_1: return (uint8_t)((t + 1) & 3);
    case I2S_ZERO_FIRST: return (uint8_t)((t & 1) + (t >> 7));
    case I2S_TWOS_COMPLEMENT: return t & 3;
    case I2S_OFFSET_2: return (uint8_t)((t + 2) & 3);
    default: return t & 3;
    }
}

/* One multiplication, as the definition has it. A compiler that knows the trit to be -1 would flip the sign instead,
 * which for a NaN is not the same. */
static inline float i2s_weight(uint8_t code, int map, float scale) {
    volatile float trit = (float)(int8_t)i2s_meaning(code, map);
    return trit * scale;
}

#include "kernels_portable.h"

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

typedef uint8_t v32 __attribute__((vector_size(32)));
typedef uint8_t v32u __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint16_t v16w __attribute__((vector_size(32)));
typedef uint64_t v4q __attribute__((vector_size(32)));
typedef uint8_t v64 __attribute__((vector_size(64)));
typedef uint8_t v64u __attribute__((vector_size(64), aligned(1), may_alias));
typedef uint8_t v8b __attribute__((vector_size(8)));
typedef uint8_t v8bu __attribute__((vector_size(8), aligned(1), may_alias));
typedef uint32_t v8d __attribute__((vector_size(32)));

#if defined(__x86_64__)
#include <immintrin.h>
#define I2S_X86 1

#define I2S_NAME(x) x##_avx2
#define I2S_TARGET __attribute__((target("avx2")))
/* Two halves, so that an address need only be a multiple of 16: that of a bytes object is. */
#define I2S_STREAM32(p, v)                                                                                              \
    (_mm_stream_si128((__m128i *)(p), _mm256_castsi256_si128((__m256i)(v))),                                            \
     _mm_stream_si128((__m128i *)(p) + 1, _mm256_extracti128_si256((__m256i)(v), 1)))
#define I2S_FENCE() _mm_sfence()
#define I2S_WIDE_VECTOR v32
#define I2S_WIDE_UNALIGNED v32u
#include "kernels_body.h"
#undef I2S_NAME
#undef I2S_TARGET
#undef I2S_WIDE_VECTOR
#undef I2S_WIDE_UNALIGNED

#define I2S_NAME(x) x##_avx512
#define I2S_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq")))
#define I2S_WIDE_VECTOR v64
#define I2S_WIDE_UNALIGNED v64u
#include "kernels_body.h"
#undef I2S_NAME
#undef I2S_TARGET
#undef I2S_STREAM32
#undef I2S_FENCE
#undef I2S_WIDE_VECTOR
#undef I2S_WIDE_UNALIGNED

/* Codes 1, 2 and 3 are counted in the nibbles of a table, two codes a look-up: the sums of three look-ups fit. */
__attribute__((target("avx2"))) static void i2s_histogram_avx2(const uint8_t *src, int64_t n, uint64_t count[4]) {
    /* low nibble: how many codes 1; high nibble: how many codes 2 */
    const __m256i ones_twos = _mm256_setr_epi8(0, 1, 16, 0, 1, 2, 17, 1, 16, 17, 32, 16, 0, 1, 16, 0,
                                               0, 1, 16, 0, 1, 2, 17, 1, 16, 17, 32, 16, 0, 1, 16, 0);
    const __m256i threes = _mm256_setr_epi8(0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 2,
                                            0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 2);
    const __m256i nibble = _mm256_set1_epi8(0x0F), zero = _mm256_setzero_si256();
    __m256i sum1 = zero, sum2 = zero, sum3 = zero;
    int64_t i = 0;
    uint64_t rest[4];
    while (i + 96 <= n) {
        /* bytes of the inner sums grow by at most 12 (codes 1 and 2) and 12 (code 3) in a round */
        __m256i part1 = zero, part2 = zero, part3 = zero;
        int round;
        for (round = 0; round < 21 && i + 96 <= n; round++, i += 96) {
            __m256i both = zero;
            int q;
            for (q = 0; q < 3; q++) {
                __m256i v = _mm256_loadu_si256((const __m256i *)(src + i + 32 * q));
                __m256i low = _mm256_and_si256(v, nibble), high = _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble);
                both = _mm256_add_epi8(both, _mm256_shuffle_epi8(ones_twos, low));
                both = _mm256_add_epi8(both, _mm256_shuffle_epi8(ones_twos, high));
                part3 = _mm256_add_epi8(part3, _mm256_shuffle_epi8(threes, low));
                part3 = _mm256_add_epi8(part3, _mm256_shuffle_epi8(threes, high));
            }
            part1 = _mm256_add_epi8(part1, _mm256_and_si256(both, nibble));
            part2 = _mm256_add_epi8(part2, _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble));
        }
        sum1 = _mm256_add_epi64(sum1, _mm256_sad_epu8(part1, zero));
        sum2 = _mm256_add_epi64(sum2, _mm256_sad_epu8(part2, zero));
        sum3 = _mm256_add_epi64(sum3, _mm256_sad_epu8(part3, zero));
    }
    i2s_histogram_portable(src + i, n - i, rest);
    {
        uint64_t lanes[4];
        int q;
        for (q = 0; q < 4; q++) count[q] = rest[q];
        _mm256_storeu_si256((__m256i *)lanes, sum1);
        for (q = 0; q < 4; q++) count[1] += lanes[q];
        _mm256_storeu_si256((__m256i *)lanes, sum2);
        for (q = 0; q < 4; q++) count[2] += lanes[q];
        _mm256_storeu_si256((__m256i *)lanes, sum3);
        for (q = 0; q < 4; q++) count[3] += lanes[q];
        count[0] = 4 * (uint64_t)n - count[1] - count[2] - count[3];
    }
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq"))) static void i2s_histogram_avx512(
    const uint8_t *src, int64_t n, uint64_t count[4]) {
    const __m512i even = _mm512_set1_epi8(0x55);
    __m512i low = _mm512_setzero_si512(), all = low, both = low;
    int64_t i = 0;
    uint64_t rest[4], ones, bits, threes;
    for (; i + 256 <= n; i += 256) {
        int q;
        for (q = 0; q < 4; q++) {
            __m512i v = _mm512_loadu_si512(src + i + 64 * q);
            _mm_prefetch((const char *)(src + i + 64 * q + 4096), _MM_HINT_T0);
            low = _mm512_add_epi64(low, _mm512_popcnt_epi64(_mm512_and_si512(v, even)));
            all = _mm512_add_epi64(all, _mm512_popcnt_epi64(v));
            both = _mm512_add_epi64(both, _mm512_popcnt_epi64(
                _mm512_ternarylogic_epi64(v, _mm512_srli_epi64(v, 1), even, 0x80)));
        }
    }
    i2s_histogram_portable(src + i, n - i, rest);
    threes = (uint64_t)_mm512_reduce_add_epi64(both);
    ones = (uint64_t)_mm512_reduce_add_epi64(low);
    bits = (uint64_t)_mm512_reduce_add_epi64(all);
    count[1] = rest[1] + ones - threes;
    count[2] = rest[2] + (bits - ones) - threes;
    count[3] = rest[3] + threes;
    count[0] = 4 * (uint64_t)n - count[1] - count[2] - count[3];
}

static int i2s_has_avx2(void) { return i2s_cpu_avx2(); }
static int i2s_has_avx512(void) { return i2s_cpu_avx512bw() && i2s_cpu_avx512vpopcntdq(); }
#endif

#if defined(__aarch64__)
#include <arm_neon.h>
#define I2S_NEON 1
#define I2S_NAME(x) x##_neon
#define I2S_TARGET
#define I2S_STREAM32(p, v) (*(v32u *)(p) = (v))  /* this compiler gives no streaming stores of this width */
#define I2S_FENCE() ((void)0)
#define I2S_WIDE_VECTOR v32
#define I2S_WIDE_UNALIGNED v32u
#include "kernels_body.h"
#undef I2S_NAME
#undef I2S_TARGET
#undef I2S_STREAM32
#undef I2S_FENCE
#undef I2S_WIDE_VECTOR
#undef I2S_WIDE_UNALIGNED

static void i2s_histogram_neon(const uint8_t *src, int64_t n, uint64_t count[4]) {
    const uint8x16_t even = vdupq_n_u8(0x55);
    uint64_t ones = 0, bits = 0, threes = 0, rest[4];
    int64_t i = 0;
    while (i + 16 <= n) {
        uint8x16_t low = vdupq_n_u8(0), all = low, both = low;
        int round;
        for (round = 0; round < 31 && i + 16 <= n; round++, i += 16) {  /* 31 * 8 fits a byte */
            uint8x16_t v = vld1q_u8(src + i);
            low = vaddq_u8(low, vcntq_u8(vandq_u8(v, even)));
            all = vaddq_u8(all, vcntq_u8(v));
            both = vaddq_u8(both, vcntq_u8(vandq_u8(vandq_u8(v, vshrq_n_u8(v, 1)), even)));
        }
        ones += vaddlvq_u8(low);
        bits += vaddlvq_u8(all);
        threes += vaddlvq_u8(both);
    }
    i2s_histogram_portable(src + i, n - i, rest);
    count[1] = rest[1] + ones - threes;
    count[2] = rest[2] + (bits - ones) - threes;
    count[3] = rest[3] + threes;
    count[0] = 4 * (uint64_t)n - count[1] - count[2] - count[3];
}

static int i2s_has_neon(void) { return i2s_cpu_neon(); }
#endif
#pragma GCC diagnostic pop
#endif

typedef struct {
    const char *name;
    int (*available)(void);
    void (*unpack)(const uint8_t *, int64_t, int64_t, int, int, uint8_t *, int);
    int (*pack)(const uint8_t *, int64_t, int64_t, int, int, uint8_t *, int);
    void (*floats)(const uint8_t *, int64_t, int64_t, int, int, float, float *, int);
    void (*blocks)(const uint8_t *, int64_t, int, int, const uint8_t *, uint8_t *, int);
    void (*to_rows)(const uint8_t *, int64_t, int64_t, int64_t, int64_t, int, int, const uint8_t *, uint8_t *, int);
    void (*of_rows)(const uint8_t *, int64_t, int64_t, int64_t, int64_t, int, int, const uint8_t *, uint8_t *, int);
    int (*scan)(const uint8_t *, int64_t, int);
    void (*histogram)(const uint8_t *, int64_t, uint64_t[4]);
    uint64_t (*read)(const uint8_t *, int64_t);
} i2s_kernel_set;

static int i2s_always(void) { return 1; }

#define I2S_ROW(set, has)                                                                                               \
    {#set, has, i2s_unpack_##set, i2s_pack_##set, i2s_floats_##set, i2s_blocks_##set, i2s_to_rows_##set,                 \
     i2s_of_rows_##set, i2s_scan_##set, i2s_histogram_##set, i2s_read_##set}

/* From the slowest to the fastest. */
static const i2s_kernel_set i2s_kernels[] = {
    I2S_ROW(portable, i2s_always),
#ifdef I2S_X86
    I2S_ROW(avx2, i2s_has_avx2),
    I2S_ROW(avx512, i2s_has_avx512),
#endif
#ifdef I2S_NEON
    I2S_ROW(neon, i2s_has_neon),
#endif
};
enum { I2S_KERNEL_SETS = sizeof(i2s_kernels) / sizeof(i2s_kernels[0]) };

#endif
