/* Probes for benchmarks: the most multiplications that a processor can do, by repeating its widest instruction on
 * registers; the most with the additional instructions of a kernel; and the fastest reading of memory or caches. All
 * run in the threads that compute the products.
 *
 * Additional instructions: weights are packed, so a register of them is masked four times, for any number of tokens;
 * and without dot products, the products must be added. On processors where these share ports with multiplications, no
 * kernel of one token comes near the first probe. Loads, and additions at the end of a row, are omitted. */
#ifndef I2S_MATMUL_PEAK_H
#define I2S_MATMUL_PEAK_H

#include <stdint.h>
#include <string.h>

#include "cpu.h"

#define I2S_PEAK_TWELVE(OP) OP(0) OP(1) OP(2) OP(3) OP(4) OP(5) OP(6) OP(7) OP(8) OP(9) OP(10) OP(11)

static int64_t i2s_peak_none(int64_t rounds) {
    (void)rounds;
    return 0;
}

static int64_t i2s_masked_none(int64_t rounds, int64_t tokens) {
    (void)rounds, (void)tokens;
    return 0;
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

/* `vzeroupper`: SSE instructions of the thread take longer while upper halves of registers are in use. */
#define I2S_PEAK(NAME, OP, MACS)                                                                                        \
    static int64_t NAME(int64_t rounds) {                                                                               \
        int64_t left = rounds;                                                                                          \
        if (rounds <= 0) return 0;                                                                                      \
        __asm__ volatile("1:\n\t" I2S_PEAK_TWELVE(OP) "dec %0\n\tjnz 1b\n\tvzeroupper\n\t"                              \
                         : "+r"(left)                                                                                   \
                         :                                                                                              \
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",     \
                           "xmm11", "xmm15", "cc");                                                                     \
        return rounds * 12 * (MACS);                                                                                    \
    }
#define I2S_PEAK_AVX2(i) "vpmaddubsw %%ymm15, %%ymm15, %%ymm" #i "\n\t"
#define I2S_PEAK_AVXVNNI(i) "%{vex%} vpdpbusd %%ymm15, %%ymm15, %%ymm" #i "\n\t"
#define I2S_PEAK_AVX512(i) "vpdpbusd %%zmm15, %%zmm15, %%zmm" #i "\n\t"
I2S_PEAK(i2s_peak_avx2, I2S_PEAK_AVX2, 32)
#if defined(I2S_KNOWS_AVXVNNI)
I2S_PEAK(i2s_peak_avxvnni, I2S_PEAK_AVXVNNI, 32)
#endif
I2S_PEAK(i2s_peak_avx512, I2S_PEAK_AVX512, 64)

/* A round: weights are masked, and each of the tokens takes twelve multiplications with them. */
#define I2S_MASKED(NAME, MASKS, OP, MACS)                                                                               \
    static int64_t NAME(int64_t rounds, int64_t tokens) {                                                               \
        int64_t left = rounds, token;                                                                                   \
        if (rounds <= 0 || tokens <= 0) return 0;                                                                       \
        __asm__ volatile("1:\n\t" MASKS "mov %2, %1\n\t"                                                                \
                         "2:\n\t" I2S_PEAK_TWELVE(OP) "dec %1\n\tjnz 2b\n\tdec %0\n\tjnz 1b\n\tvzeroupper\n\t"          \
                         : "+r"(left), "=&r"(token)                                                                     \
                         : "r"(tokens)                                                                                  \
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",     \
                           "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc");                                          \
        return rounds * 12 * tokens * (MACS);                                                                           \
    }
#define I2S_MASK_256(i) "vpand %%ymm15, %%ymm13, %%ymm14\n\t"
#define I2S_MASK_512(i) "vpandd %%zmm15, %%zmm13, %%zmm14\n\t"
#define I2S_SHIFT_256 "vpsrlw $4, %%ymm15, %%ymm14\n\t" /* of four fields two: the products of the others would not fit */
#define I2S_MASKED_AVX2(i)                                                                                              \
    "vpmaddubsw %%ymm15, %%ymm14, %%ymm12\n\tvpaddw %%ymm12, %%ymm" #i ", %%ymm" #i "\n\t"
#define I2S_MASKED_AVXVNNI(i) "%{vex%} vpdpbusd %%ymm15, %%ymm14, %%ymm" #i "\n\t"
#define I2S_MASKED_AVX512(i) "vpdpbusd %%zmm15, %%zmm14, %%zmm" #i "\n\t"
I2S_MASKED(i2s_masked_avx2, I2S_SHIFT_256 I2S_SHIFT_256 I2S_SHIFT_256 I2S_PEAK_TWELVE(I2S_MASK_256), I2S_MASKED_AVX2, 32)
#if defined(I2S_KNOWS_AVXVNNI)
I2S_MASKED(i2s_masked_avxvnni, I2S_PEAK_TWELVE(I2S_MASK_256), I2S_MASKED_AVXVNNI, 32)
#endif
I2S_MASKED(i2s_masked_avx512, I2S_PEAK_TWELVE(I2S_MASK_512), I2S_MASKED_AVX512, 64)

#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))

#if defined(__clang__)
#define I2S_PEAK_TARGET(feature) __attribute__((target(feature)))
#else
#define I2S_PEAK_TARGET(feature) __attribute__((target("arch=armv8.2-a+" feature)))
#endif
#define I2S_PEAK(NAME, OP, MACS)                                                                                        \
    static int64_t NAME(int64_t rounds) {                                                                               \
        int64_t left = rounds;                                                                                          \
        if (rounds <= 0) return 0;                                                                                      \
        __asm__ volatile("1:\n\t" I2S_PEAK_TWELVE(OP) "subs %0, %0, #1\n\tb.ne 1b\n\t"                                  \
                         : "+r"(left)                                                                                   \
                         :                                                                                              \
                         : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v15", "cc");      \
        return rounds * 12 * (MACS);                                                                                    \
    }
#define I2S_PEAK_NEON(i) "smlal v" #i ".8h, v15.8b, v15.8b\n\t"
#define I2S_PEAK_DOTPROD(i) "sdot v" #i ".4s, v15.16b, v15.16b\n\t"
I2S_PEAK(i2s_peak_neon, I2S_PEAK_NEON, 8)
I2S_PEAK_TARGET("dotprod") I2S_PEAK(i2s_peak_dotprod, I2S_PEAK_DOTPROD, 16)
#if defined(I2S_KNOWS_I8MM)
#define I2S_PEAK_I8MM(i) "smmla v" #i ".4s, v15.16b, v15.16b\n\t"
I2S_PEAK_TARGET("i8mm") I2S_PEAK(i2s_peak_i8mm, I2S_PEAK_I8MM, 32)
#endif

/* A round: weights are masked; then `TURNS` (which depends on the tokens) times twelve multiplications follow. */
#define I2S_MASKED(NAME, MASKS, OP, TURNS, MACS)                                                                        \
    static int64_t NAME(int64_t rounds, int64_t tokens) {                                                               \
        int64_t left = rounds, turn;                                                                                    \
        if (rounds <= 0 || tokens <= 0) return 0;                                                                       \
        __asm__ volatile("1:\n\t" MASKS "mov %1, %2\n\t"                                                                \
                         "2:\n\t" I2S_PEAK_TWELVE(OP) "subs %1, %1, #1\n\tb.ne 2b\n\tsubs %0, %0, #1\n\tb.ne 1b\n\t"    \
                         : "+r"(left), "=&r"(turn)                                                                      \
                         : "r"((int64_t)(TURNS))                                                                        \
                         : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v13", "v14",      \
                           "v15", "cc");                                                                                \
        return rounds * 12 * tokens * (MACS);                                                                           \
    }
#define I2S_MASK_128(i) "and v14.16b, v15.16b, v13.16b\n\t"
#define I2S_MASK_TWICE I2S_MASK_128(0) I2S_MASK_128(1)
#define I2S_MASKED_NEON(i) "smlal v" #i ".8h, v14.8b, v15.8b\n\t" /* of the half of a register */
#define I2S_MASKED_DOTPROD(i) "sdot v" #i ".4s, v14.16b, v15.16b\n\t"
I2S_MASKED(i2s_masked_neon, I2S_MASK_TWICE I2S_MASK_TWICE I2S_MASK_TWICE, I2S_MASKED_NEON, tokens, 8)
I2S_PEAK_TARGET("dotprod")
I2S_MASKED(i2s_masked_dotprod, I2S_PEAK_TWELVE(I2S_MASK_128), I2S_MASKED_DOTPROD, tokens, 16)
#if defined(I2S_KNOWS_I8MM)
#define I2S_MASKED_I8MM(i) "smmla v" #i ".4s, v14.16b, v15.16b\n\t" /* of two tokens; one token is for dot products */
I2S_PEAK_TARGET("i8mm")
I2S_MASKED(i2s_masked_pairs, I2S_PEAK_TWELVE(I2S_MASK_128), I2S_MASKED_I8MM, (tokens + 1) / 2, 16)
static int64_t i2s_masked_i8mm(int64_t rounds, int64_t tokens) {
    return (tokens == 1 ? i2s_masked_dotprod : i2s_masked_pairs)(rounds, tokens);
}
#endif

#endif

typedef struct {
    int64_t (*peak)(int64_t);
    int64_t (*masked)(int64_t, int64_t); /* done instead of `peak`, where there are tokens */
    int64_t rounds, tokens;
    const uint8_t *data;
    int64_t bytes, repeats;
    int64_t ahead; /* how far memory is prefetched; 0: not at all */
    int second;    /* whether into the second-level cache */
    int64_t part;  /* bytes that are read by one thread at a time */
    uint64_t found; /* keeps compilers from removing the loop */
} i2s_probe_job;

static void i2s_probe_peak_part(void *of, int64_t part) {
    const i2s_probe_job *job = (const i2s_probe_job *)of;
    (void)part;
    if (job->tokens > 0)
        job->masked(job->rounds, job->tokens);
    else
        job->peak(job->rounds);
}

#define I2S_PROBE_GROUP 512       /* bytes that are prefetched at a time */
#define I2S_PROBE_PART (4 << 20)  /* bytes of a part of memory, as of a product: threads claim them one by one */

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include "intrinsics.h"
#define I2S_PROBE_READ(NAME, TARGET, WIDE, LOAD, OR, ZERO)                                                              \
    __attribute__((target(TARGET))) static uint64_t NAME(const uint8_t *p, int64_t n, int64_t ahead, int second) {      \
        WIDE a = ZERO, b = ZERO, c = ZERO, d = ZERO;                                                                    \
        const int64_t step = 4 * (int64_t)sizeof(WIDE);                                                                 \
        for (int64_t i = 0; i + I2S_PROBE_GROUP <= n; i += I2S_PROBE_GROUP) {                                           \
            for (int64_t line = 0; ahead > 0 && line < I2S_PROBE_GROUP; line += 64) {                                   \
                const char *next = (const char *)((uintptr_t)p + (uintptr_t)(i + line + ahead));                        \
                if (second)                                                                                             \
                    _mm_prefetch(next, _MM_HINT_T1);                                                                    \
                else                                                                                                    \
                    _mm_prefetch(next, _MM_HINT_T0);                                                                    \
            }                                                                                                           \
            for (int64_t k = i; k < i + I2S_PROBE_GROUP; k += step) {                                                   \
                a = OR(a, LOAD((const void *)(p + k)));                                                                 \
                b = OR(b, LOAD((const void *)(p + k + sizeof(WIDE))));                                                  \
                c = OR(c, LOAD((const void *)(p + k + 2 * sizeof(WIDE))));                                              \
                d = OR(d, LOAD((const void *)(p + k + 3 * sizeof(WIDE))));                                              \
            }                                                                                                           \
        }                                                                                                               \
        WIDE all = OR(OR(a, b), OR(c, d));                                                                              \
        uint64_t words[sizeof(WIDE) / 8], found = 0;                                                                    \
        memcpy(words, &all, sizeof words);                                                                              \
        for (size_t i = 0; i < sizeof(WIDE) / 8; i++) found |= words[i];                                                \
        return found;                                                                                                   \
    }
#define I2S_PROBE_LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
I2S_PROBE_READ(i2s_probe_read_avx2, "avx2", __m256i, I2S_PROBE_LOAD, _mm256_or_si256, _mm256_setzero_si256())
I2S_PROBE_READ(i2s_probe_read_avx512, "avx512f", __m512i, _mm512_loadu_si512, _mm512_or_si512, _mm512_setzero_si512())
#endif

static uint64_t i2s_probe_read_portable(const uint8_t *p, int64_t n) {
    uint64_t found = 0, word;
    for (int64_t i = 0; i + 8 <= n; i += 8) {
        memcpy(&word, p + i, 8);
        found |= word;
    }
    return found;
}

/* Lines are prefetched `ahead` bytes, a group of them before it is read, or not if that is 0: into the second-level cache with
 * `second`. Which is fastest differs between processors. */
static uint64_t i2s_probe_read(const uint8_t *p, int64_t n, int64_t ahead, int second) {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    if (i2s_cpu_avx512bw()) return i2s_probe_read_avx512(p, n, ahead, second);
    if (i2s_cpu_avx2()) return i2s_probe_read_avx2(p, n, ahead, second);
#endif
    (void)ahead, (void)second;
    return i2s_probe_read_portable(p, n);
}

static void i2s_probe_read_part(void *of, int64_t part) {
    i2s_probe_job *job = (i2s_probe_job *)of;
    const int64_t first = part * job->part, left = job->bytes - first;
    uint64_t found = 0;
    for (int64_t i = 0; i < job->repeats; i++)
        found |= i2s_probe_read(job->data + first, left < job->part ? left : job->part, job->ahead, job->second);
    if (found == 0) job->found = 1;
}

#endif
