/* Products of packed weights with activation codes: AVX2, AVX-VNNI and AVX-512 VNNI.
 *
 * One token uses the access order that is best for memory: a few rows side by side, and one prefetch stream through the
 * next rows in the order of their addresses. The number of rows and the width depend on where the weights are. Fields
 * of a byte are masked and not shifted: the products are multiplied by 64, 16, 4 and 1, are summed separately and
 * shifted once at the end of the row; every lane is a multiple, so that is exact. More tokens share unpacked fields,
 * which are then shifted. Accumulators are pinned to registers by inline assembly: with the intrinsic, gcc 12 copies
 * them around.
 */
#ifndef I2S_MATMUL_X86_H
#define I2S_MATMUL_X86_H

#include "intrinsics.h"

#if defined(__clang__)
#define I2S_MM_UNROLL _Pragma("clang loop unroll(full)")
#else
#define I2S_MM_UNROLL _Pragma("GCC unroll 8")
#endif
#define I2S_MM_INLINE static inline __attribute__((always_inline))

/* How far after the next rows memory is prefetched; past the end of a buffer too, which is allowed and does nothing. */
#define I2S_MM_AHEAD 4096
#define I2S_MM_AHEAD_512VL 2048
#define I2S_MM_AHEAD_STREAM 6144
#define I2S_MM_AHEAD_WIDE 7424 /* after the first of two rows, which are shorter; else 1 KiB after both */
#define I2S_MM_AHEAD_TWICE 1024
#define I2S_MM_ASK(p, at) _mm_prefetch((const char *)((uintptr_t)(p) + (uintptr_t)(at)), _MM_HINT_T0)
#define I2S_MM_ASK_SECOND(p, at) _mm_prefetch((const char *)((uintptr_t)(p) + (uintptr_t)(at)), _MM_HINT_T1)

/* The product of a set: VECTOR for one token, VR rows at a time; MATRIX for two to four, MR rows at a time. */
#define I2S_MM_TOKENS(C, MATRIX, MR)                                                                                    \
    for (; r + MR <= rows; r += MR) MATRIX(MR, C, w + r * pitch, blocks, q, out + r, stride);                           \
    for (; r < rows; r++) MATRIX(1, C, w + r * pitch, blocks, q, out + r, stride);
#define I2S_MM_PRODUCT(NAME, VECTOR, VR, MATRIX, MR)                                                                    \
    I2S_MM_TARGET static void NAME(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *q, int tokens,         \
                                   int32_t *out, int64_t stride) {                                                      \
        const int64_t pitch = blocks * I2S_MM_BYTES;                                                                    \
        int64_t r = 0;                                                                                                  \
        if (tokens == 1) {                                                                                              \
            for (; r + VR <= rows; r += VR) VECTOR(VR, w + r * pitch, blocks, q, out + r);                              \
            for (; r < rows; r++) VECTOR(1, w + r * pitch, blocks, q, out + r);                                         \
        } else if (tokens == 2) {                                                                                       \
            I2S_MM_TOKENS(2, MATRIX, MR)                                                                                \
        } else if (tokens == 3) {                                                                                       \
            I2S_MM_TOKENS(3, MATRIX, MR)                                                                                \
        } else {                                                                                                        \
            I2S_MM_TOKENS(4, MATRIX, MR)                                                                                \
        }                                                                                                               \
    }

/* The fields of a byte, in their positions. */
#define I2S_MM_MASKS(SET1) {SET1((char)0xC0), SET1(0x30), SET1(0x0C), SET1(0x03)}

/* Most blocks in a row for which reading weights twice is faster: eight longer rows and what is prefetched do not stay in
 * the first-level cache. Measured on Zen 4 up to 46 blocks, or up to 34 in small pages. */
#define I2S_MM_TWICE 32

/* Weights in a cache of the processor, without waiting for memory. */
#define I2S_MM_NEAR (1 << 19)

/* Read a byte and discard it: memory that a load waits for has priority over prefetches. */
#define I2S_MM_TOUCH(p)                                                                                                 \
    do {                                                                                                                \
        uint32_t nothing;                                                                                               \
        __asm__ volatile("movzbl %1, %0" : "=r"(nothing) : "m"(*(const uint8_t *)(p)));                                 \
    } while (0)

#include "matmul_avx512.h"
#include "matmul_avx2.h"
#include "matmul_avxvnni.h"

#endif
