/* The types that pack weights in blocks with scales of their own, as the kernels number them: the layouts of
 * schema/blocks.py, Q2_0_G128 and PQ2_0 being one. */
#ifndef I2S_BLOCK_KINDS_H
#define I2S_BLOCK_KINDS_H

#include <stdint.h>

enum { I2S_Q2_64, I2S_Q2_128, I2S_TQ2, I2S_IQ2, I2S_TQ1, I2S_PTQ1, I2S_IQ1, I2S_BLOCK_KINDS };
#define I2S_BLOCK_KINDS_OF(K) K(I2S_Q2_64) K(I2S_Q2_128) K(I2S_TQ2) K(I2S_IQ2) K(I2S_TQ1) K(I2S_PTQ1) K(I2S_IQ1)

/* Elements and bytes of a block, and where its scale is, or -1 where a row has it. */
typedef struct { int elements, bytes, scale; } i2s_block;
static const i2s_block i2s_block_kinds[I2S_BLOCK_KINDS] = {
    {64, 18, 0}, {128, 34, 0}, {256, 66, 64}, {64, 16, -1}, {256, 54, 52}, {128, 28, 26}, {64, 13, -1},
};

static inline int i2s_kind_has_digits(int kind) { return kind == I2S_TQ1 || kind == I2S_PTQ1 || kind == I2S_IQ1; }

#endif
