/* Passes over weights as stored in checkpoints: words of float32, float16 or bfloat16, little-endian.
 *
 *     sums    |w| added up in 32 columns, so many rows at a time: the first step of the mean that PyTorch takes
 *     cut     -1, 0 or +1: a magnitude of `least` or more is 1, with the sign of the weight
 *     change  words of another type, rounded to nearest, ties to even
 *     only    the bits of the magnitude that all words other than 0 have
 *
 * Rounding w * gain to an integer is monotonic in |w|, so one magnitude separates the weights that become 0 from the
 * others, and the bits of magnitudes have the same order as the magnitudes. `cut` therefore compares integers. `sums`
 * and `change` report whether infinities or NaN are among the words; their results for those are undefined. */
#ifndef I2S_FLOATS_H
#define I2S_FLOATS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"

enum { I2S_WORDS_F32, I2S_WORDS_F16, I2S_WORDS_BF16 };

#define I2S_COLUMNS 32
#if defined(__GNUC__) || defined(__clang__)
#define I2S_INLINED static inline __attribute__((always_inline))
#else
#define I2S_INLINED static inline
#endif
#define I2S_SHARE 256 /* words that are converted through floats on the stack */

/* words: runs * rows * 32; sums: [runs][32]. Both answers: whether a word, or its result, is infinite or NaN. */
typedef struct {
    const char *name;
    int (*available)(void);
    int (*sums)(int kind, const uint8_t *words, int64_t runs, int64_t rows, float *sums);
    void (*cut)(int kind, const uint8_t *words, int64_t count, uint32_t least, int8_t *trits);
    int (*change)(int kind, const uint8_t *words, int64_t count, int to, uint8_t *out);
    int64_t (*only)(int kind, const uint8_t *words, int64_t count); /* 0: all are 0; -1: several magnitudes */
} i2s_floats_set;

#if defined(I2S_CPU_X86)
#include "intrinsics.h"
#define NAME(x) x##_portable
#define TARGET
#define BYTES 16
#define F16C 0
#include "floats_body.h"
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma,f16c" I2S_BY_256)))
#define BYTES 32
#define F16C 1
#include "floats_body.h"
#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c" I2S_BY_512)))
#define BYTES 64
#define F16C 1
#include "floats_body.h"
#elif defined(I2S_CPU_ARM)
#define NAME(x) x##_portable
#if defined(__clang__)
#define TARGET
#else
#define TARGET __attribute__((optimize("no-tree-vectorize")))
#endif
#define BYTES 0
#define F16C 0
#include "floats_body.h"
#define NAME(x) x##_neon
#define TARGET
#define BYTES 16
#define F16C 0
#include "floats_body.h"
#else
#define NAME(x) x##_portable
#define TARGET
#define BYTES 0
#define F16C 0
#include "floats_body.h"
#endif

static int i2s_floats_always(void) { return 1; }

static const i2s_floats_set i2s_floats_sets[] = {
    {"portable", i2s_floats_always, i2s_floats_sums_portable, i2s_floats_cut_portable, i2s_floats_change_portable,
     i2s_floats_only_portable},
#if defined(I2S_CPU_X86)
    {"avx2", i2s_cpu_avx2fma, i2s_floats_sums_avx2, i2s_floats_cut_avx2, i2s_floats_change_avx2,
     i2s_floats_only_avx2},
    {"avx512", i2s_cpu_avx512bw, i2s_floats_sums_avx512, i2s_floats_cut_avx512, i2s_floats_change_avx512,
     i2s_floats_only_avx512},
#elif defined(I2S_CPU_ARM)
    {"neon", i2s_cpu_neon, i2s_floats_sums_neon, i2s_floats_cut_neon, i2s_floats_change_neon,
     i2s_floats_only_neon},
#endif
};
#define I2S_FLOATS_SETS ((int)(sizeof i2s_floats_sets / sizeof *i2s_floats_sets))

#endif
