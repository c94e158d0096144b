/* Carry-save adders: bits of many vectors are counted place by place, without a count of bits for each vector.
 *
 * Three vectors of bits become one of their sums and one of their carries, in two operations: the bits at one position
 * of `sum`, `a` and `b` add up to sum + 2 carry. Further adders add the carries, so that only one of 16 vectors must be
 * counted, at a cost of two operations per vector. AVX-512 has such an operation (`vpternlogq`) also on processors
 * without VPOPCNTDQ.
 */
#ifndef I2S_CARRY_SAVE_H
#define I2S_CARRY_SAVE_H

#define I2S_CARRY(bits, type, carry, sum, a, b)                                                                         \
    do {                                                                                                                \
        const type s_ = (sum), a_ = (a), b_ = (b);                                                                      \
        (sum) = bits##_ternarylogic_epi64(s_, a_, b_, 0x96);   /* whether an odd number of them is set */               \
        (carry) = bits##_ternarylogic_epi64(s_, a_, b_, 0xE8); /* whether two of them are */                            \
    } while (0)
#define I2S_CARRY256(carry, sum, a, b) I2S_CARRY(_mm256, __m256i, carry, sum, a, b)
#define I2S_CARRY512(carry, sum, a, b) I2S_CARRY(_mm512, __m512i, carry, sum, a, b)

#endif
