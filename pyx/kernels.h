/* Kernels over I2S payloads: counting, packing, unpacking, transcoding, dequantizing. They need no Python.
 *
 * `i2s_kernels` is a table with one row for each instruction set that this compiler can target; the caller asks
 * `available()` of a row whether the processor has it. The first row, portable, is always there and is plain C.
 */
#ifndef I2S_KERNELS_H
#define I2S_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "carry_save.h"
#include "cpu.h"

/* The meaning of an unpacked byte: the code itself, or the trit of a code map. */
enum { I2S_CODES, I2S_OFFSET_1, I2S_ZERO_FIRST, I2S_TWOS_COMPLEMENT, I2S_OFFSET_2 };
#define I2S_MAPS(M) M(I2S_CODES) M(I2S_OFFSET_1) M(I2S_ZERO_FIRST) M(I2S_TWOS_COMPLEMENT) M(I2S_OFFSET_2)

/* Layouts in which 128 elements are exactly 32 bytes. */
enum { I2S_KIND_128, I2S_KIND_64, I2S_KIND_MSB, I2S_KIND_LSB };
#define I2S_KINDS(K) K(I2S_KIND_128) K(I2S_KIND_64) K(I2S_KIND_MSB) K(I2S_KIND_LSB)
#define I2S_PAIRS_OF(K, F) K(F, I2S_KIND_128) K(F, I2S_KIND_64) K(F, I2S_KIND_MSB) K(F, I2S_KIND_LSB)
#define I2S_KIND_PAIRS(K)                                                                                               \
    I2S_PAIRS_OF(K, I2S_KIND_128)                                                                                       \
    I2S_PAIRS_OF(K, I2S_KIND_64)                                                                                        \
    I2S_PAIRS_OF(K, I2S_KIND_MSB)                                                                                       \
    I2S_PAIRS_OF(K, I2S_KIND_LSB)

/* Bytes of four rows that are put together in the cache before they leave it. */
#define I2S_HELD 8192

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

/* One multiplication, as in the definition. A compiler that knows the trit to be -1 would flip the sign instead, which
 * differs for a NaN. */
static inline float i2s_weight(uint8_t code, int map, float scale) {
    volatile float trit = (float)(int8_t)i2s_meaning(code, map);
    return trit * scale;
}

/* How results are stored. Past the cache: on most processors, for results that would not stay in it. Owned: plain
 * stores to lines that were prefetched for writing, which is faster on a processor with few line buffers
 * (`i2s_cpu_owns`). Unfenced: past the cache, if the caller ends with a fenced call. */
enum { I2S_PLAIN, I2S_PAST, I2S_OWNED, I2S_UNFENCED };

#include "kernels_portable.h"

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#include "intrinsics.h"
#define I2S_X86 1

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  /* vectors are passed only to functions that are inlined */
typedef uint8_t v32 __attribute__((vector_size(32)));
typedef uint8_t v32u __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint16_t v16w __attribute__((vector_size(32)));
typedef uint64_t v4q __attribute__((vector_size(32)));
typedef uint64_t v4qu __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint64_t v8q __attribute__((vector_size(64)));
typedef uint64_t v8qu __attribute__((vector_size(64), aligned(1), may_alias));

/* How far ahead of its use memory is prefetched; past the end of a buffer too, which is allowed and does nothing. */
#define I2S_AHEAD 8192
#define I2S_PREFETCH_AT(p, ahead) _mm_prefetch((const char *)((uintptr_t)(p) + (uintptr_t)(ahead)), _MM_HINT_T0)
#define I2S_PREFETCH(p) I2S_PREFETCH_AT(p, I2S_AHEAD)
#define I2S_LINES_AHEAD(run) ((run) > 4 * I2S_AHEAD ? 0 : (run) > I2S_AHEAD ? (run) : I2S_AHEAD)

/* Loops over a few vectors that must stay in registers. */
#if defined(__clang__)
#define I2S_UNROLL4 _Pragma("clang loop unroll(full)")
#else
#define I2S_UNROLL4 _Pragma("GCC unroll 4")
#endif

#define I2S_OWN_AHEAD 2048
#define I2S_BY_WAY(way)                                                                                                 \
    switch (way) {                                                                                                      \
    case I2S_PAST:                                                                                                      \
    case I2S_UNFENCED:                                                                                                  \
        I2S_CALL(I2S_PAST);                                                                                             \
        if ((way) == I2S_PAST) _mm_sfence();                                                                            \
        break;                                                                                                          \
    case I2S_OWNED: I2S_CALL(I2S_OWNED); break;                                                                         \
    default: I2S_CALL(I2S_PLAIN);                                                                                       \
    }

/* Bytes of payload of four distant rows that are unpacked one row after the other. */
#define I2S_STRIP 4096

#define I2S_CAN_STREAM(dst, group) ((uintptr_t)(dst) % 16 == 0 && ((group) == 1 || (group) % 16 == 0))

#define I2S_NAME(x) x##_avx2
#define I2S_TARGET __attribute__((target("avx2")))
#define I2S_WIDE v4q
#define I2S_WIDE_LOADED v4qu
#define I2S_SEQUENTIAL(src, blocks, lsb, map, dst) 0
#include "kernels_body.h"
#undef I2S_SEQUENTIAL
#undef I2S_NAME
#undef I2S_TARGET
#undef I2S_WIDE
#undef I2S_WIDE_LOADED

#include "kernels_vbmi.h"
#define I2S_NAME(x) x##_avx512
#define I2S_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define I2S_WIDE v8q
#define I2S_WIDE_LOADED v8qu
#define I2S_SEQUENTIAL(src, blocks, lsb, map, dst) (i2s_cpu_avx512vbmi() ? i2s_unpack_vbmi(src, blocks, lsb, map, dst) : 0)
#include "kernels_body.h"
#undef I2S_SEQUENTIAL
#undef I2S_NAME
#undef I2S_TARGET
#undef I2S_WIDE
#undef I2S_WIDE_LOADED

#include "kernels_vbmi.h"

#include "kernels_count_avx2.h"

/* Two vectors become one of all their low bits and one of all their high bits, so that no bit of a count is wasted. Each
 * kind is added up as in carry_save.h: of 16 such vectors, one is counted by table. */
#define I2S_COUNTED __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
typedef struct { __m512i ones, twos, fours, eights; } i2s_carries;

static inline __attribute__((always_inline)) I2S_COUNTED __m512i i2s_bytes_of(__m512i v) {
    const __m512i bits = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const __m512i nibble = _mm512_set1_epi8(15);
    return _mm512_add_epi8(_mm512_shuffle_epi8(bits, _mm512_and_si512(v, nibble)),
                           _mm512_shuffle_epi8(bits, _mm512_and_si512(_mm512_srli_epi16(v, 4), nibble)));
}

static inline __attribute__((always_inline)) I2S_COUNTED __m512i i2s_eighth(i2s_carries *c, const __m512i v[8]) {
    __m512i two[4], four[2], eight;
    I2S_CARRY512(two[0], c->ones, v[0], v[1]);
    I2S_CARRY512(two[1], c->ones, v[2], v[3]);
    I2S_CARRY512(four[0], c->twos, two[0], two[1]);
    I2S_CARRY512(two[2], c->ones, v[4], v[5]);
    I2S_CARRY512(two[3], c->ones, v[6], v[7]);
    I2S_CARRY512(four[1], c->twos, two[2], two[3]);
    I2S_CARRY512(eight, c->fours, four[0], four[1]);
    return eight;
}

/* The number of bits left in the carries, and in `sixteens`, where each counts 16 times. */
static inline __attribute__((always_inline)) I2S_COUNTED uint64_t i2s_counted(const i2s_carries *c, __m512i sixteens) {
    const __m512i zero = _mm512_setzero_si512(), two = i2s_bytes_of(c->twos), eight = i2s_bytes_of(c->eights);
    const __m512i one = _mm512_add_epi8(i2s_bytes_of(c->ones), _mm512_add_epi8(two, two));
    const __m512i four = _mm512_add_epi8(i2s_bytes_of(c->fours), _mm512_add_epi8(eight, eight));
    return (uint64_t)_mm512_reduce_add_epi64(_mm512_sad_epu8(one, zero)) +
           4 * (uint64_t)_mm512_reduce_add_epi64(_mm512_sad_epu8(four, zero)) +
           16 * (uint64_t)_mm512_reduce_add_epi64(sixteens);
}

I2S_COUNTED static void i2s_histogram_carry(const uint8_t *src, int64_t n, uint64_t count[4]) {
    const __m512i even = _mm512_set1_epi8(0x55), zero = _mm512_setzero_si512();
    i2s_carries carries[3] = {{zero, zero, zero, zero}, {zero, zero, zero, zero}, {zero, zero, zero, zero}};
    __m512i sixteens[3] = {zero, zero, zero};
    uint64_t ones, twos, threes;
    int64_t i = 0;
    int k, q;
    while (n - i >= 2048) {
        /* bytes of the inner sums grow by at most 8 in a step */
        const int64_t stop = n - i > 31 * 2048 ? i + 31 * 2048 : n;
        __m512i part[3] = {zero, zero, zero};
        for (; i + 2048 <= stop; i += 2048) {
            __m512i eight[3][2];
#pragma GCC unroll 2
            for (k = 0; k < 2; k++) {
                __m512i low[8], high[8], both[8];
#pragma GCC unroll 8
                for (q = 0; q < 8; q++) {
                    const uint8_t *p = src + i + 1024 * k + 128 * q;
                    const __m512i v = _mm512_loadu_si512(p), w = _mm512_loadu_si512(p + 64);
                    I2S_PREFETCH(p);
                    I2S_PREFETCH(p + 64);
                    low[q] = _mm512_ternarylogic_epi64(even, v, _mm512_add_epi8(w, w), 0xCA);  /* even ? v : w << 1 */
                    high[q] = _mm512_ternarylogic_epi64(even, _mm512_srli_epi64(v, 1), w, 0xCA);
                    both[q] = _mm512_and_si512(low[q], high[q]);
                }
                eight[0][k] = i2s_eighth(&carries[0], low);
                eight[1][k] = i2s_eighth(&carries[1], high);
                eight[2][k] = i2s_eighth(&carries[2], both);
            }
#pragma GCC unroll 3
            for (k = 0; k < 3; k++) {
                __m512i sixteen;
                I2S_CARRY512(sixteen, carries[k].eights, eight[k][0], eight[k][1]);
                part[k] = _mm512_add_epi8(part[k], i2s_bytes_of(sixteen));
            }
        }
#pragma GCC unroll 3
        for (k = 0; k < 3; k++) sixteens[k] = _mm512_add_epi64(sixteens[k], _mm512_sad_epu8(part[k], zero));
    }
    i2s_histogram_portable(src + i, n - i, count);
    ones = i2s_counted(&carries[0], sixteens[0]);
    twos = i2s_counted(&carries[1], sixteens[1]);
    threes = i2s_counted(&carries[2], sixteens[2]);
    count[1] += ones - threes;
    count[2] += twos - threes;
    count[3] += threes;
    count[0] = 4 * (uint64_t)n - count[1] - count[2] - count[3];
}
/* The same, where the processor counts bits itself. */
__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq"))) static void i2s_histogram_popcnt(
    const uint8_t *src, int64_t n, uint64_t count[4]) {
    const __m512i even = _mm512_set1_epi8(0x55);
    __m512i lows = _mm512_setzero_si512(), highs = lows, boths = lows;
    uint64_t ones, twos, threes;
    int64_t i = 0;
    for (; i + 256 <= n; i += 256) {
        int q;
        for (q = 0; q < 256; q += 64) I2S_PREFETCH(src + i + q);
        for (q = 0; q < 256; q += 128) {
            const __m512i v = _mm512_loadu_si512(src + i + q), w = _mm512_loadu_si512(src + i + q + 64);
            const __m512i low = _mm512_ternarylogic_epi64(even, v, _mm512_add_epi8(w, w), 0xCA);  /* even ? v : w << 1 */
            const __m512i high = _mm512_ternarylogic_epi64(even, _mm512_srli_epi64(v, 1), w, 0xCA);
            lows = _mm512_add_epi64(lows, _mm512_popcnt_epi64(low));
            highs = _mm512_add_epi64(highs, _mm512_popcnt_epi64(high));
            boths = _mm512_add_epi64(boths, _mm512_popcnt_epi64(_mm512_and_si512(low, high)));
        }
    }
    i2s_histogram_portable(src + i, n - i, count);
    ones = (uint64_t)_mm512_reduce_add_epi64(lows);
    twos = (uint64_t)_mm512_reduce_add_epi64(highs);
    threes = (uint64_t)_mm512_reduce_add_epi64(boths);
    count[1] += ones - threes;
    count[2] += twos - threes;
    count[3] += threes;
    count[0] = 4 * (uint64_t)n - count[1] - count[2] - count[3];
}

static void i2s_histogram_avx512(const uint8_t *src, int64_t n, uint64_t count[4]) {
    (i2s_cpu_avx512vpopcntdq() ? i2s_histogram_popcnt : i2s_histogram_carry)(src, n, count);
}
#pragma GCC diagnostic pop

static int i2s_has_avx2(void) { return i2s_cpu_avx2(); }
static int i2s_has_avx512(void) { return i2s_cpu_avx512bw(); }
#endif

#if defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#include <arm_neon.h>
#define I2S_NEON 1
#include "kernels_neon.h"
static int i2s_has_neon(void) { return i2s_cpu_neon(); }
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
    void (*write)(uint8_t *, int64_t);
} i2s_kernel_set;

static int i2s_always(void) { return 1; }

#define I2S_ROW(set, has)                                                                                               \
    {#set, has, i2s_unpack_##set, i2s_pack_##set, i2s_floats_##set, i2s_blocks_##set, i2s_to_rows_##set,                 \
     i2s_of_rows_##set, i2s_scan_##set, i2s_histogram_##set, i2s_read_##set, i2s_write_##set}

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
