/* Positions of the digits of blocks, for blocks_vector.h: 64 elements at a time, in four pieces of 16. A piece looks up
 * its bytes among 16 of the block, from an offset of its own, and multiplies each by a power of 3, modulo 256, so that
 * the wanted digit becomes the first one. */
#ifndef I2S_BLOCKS_DIGITS_H
#define I2S_BLOCKS_DIGITS_H

#include <stdint.h>

#include "block_kinds.h"

enum { I2S_PTQ1_DIGITS, I2S_TQ1_DIGITS = I2S_PTQ1_DIGITS + 2, I2S_IQ1_DIGITS = I2S_TQ1_DIGITS + 4, I2S_DIGIT_GROUPS };

#define I2S_2(x) x, x
#define I2S_4(x) x, x, x, x
#define I2S_8(x) I2S_4(x), I2S_4(x)
#define I2S_16(x) I2S_8(x), I2S_8(x)
#define I2S_IN_ORDER 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#define I2S_EIGHT 4, 5, 6, 7, 8, 9, 10, 11
#define I2S_5(x) x, x, x, x, x
/* Of 16 elements of IQ1_BN 15 are the digits of three bytes, the last digit first; the 16th is digit 4 - piece of the last. */
#define I2S_IQ1_PIECE(i) I2S_5(3 * (i)), I2S_5(3 * (i) + 1), I2S_5(3 * (i) + 2), 12
#define I2S_IQ1_POWERS(last) 81, 27, 9, 3, 1, 81, 27, 9, 3, 1, 81, 27, 9, 3, 1, last

static const uint8_t i2s_digit_places[I2S_DIGIT_GROUPS][4] = {
    {0, 0, 0, 0}, {0, 12, 12, 12}, {0, 16, 0, 16}, {0, 16, 0, 16}, {0, 16, 32, 32}, {32, 32, 32, 36}, {0, 0, 0, 0},
};
static const I2S_ALIGNED uint8_t i2s_digit_bytes[I2S_DIGIT_GROUPS][64] = {
    {I2S_4(I2S_IN_ORDER)},
    {I2S_IN_ORDER, I2S_EIGHT, I2S_EIGHT, I2S_EIGHT, I2S_EIGHT, I2S_EIGHT, 12, 13, 12, 13, 12, 13, 12, 13},
    {I2S_4(I2S_IN_ORDER)},
    {I2S_4(I2S_IN_ORDER)},
    {I2S_4(I2S_IN_ORDER)},
    {I2S_IN_ORDER, I2S_IN_ORDER, I2S_IN_ORDER, 12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15},
    {I2S_IQ1_PIECE(0), I2S_IQ1_PIECE(1), I2S_IQ1_PIECE(2), I2S_IQ1_PIECE(3)},
};
static const I2S_ALIGNED uint8_t i2s_digit_powers[I2S_DIGIT_GROUPS][64] = {
    {I2S_16(1), I2S_16(3), I2S_16(9), I2S_16(27)},
    {I2S_16(81), I2S_8(1), I2S_8(3), I2S_8(9), I2S_8(27), I2S_8(81), I2S_2(1), I2S_2(3), I2S_2(9), I2S_2(27)},
    {I2S_16(1), I2S_16(1), I2S_16(3), I2S_16(3)},
    {I2S_16(9), I2S_16(9), I2S_16(27), I2S_16(27)},
    {I2S_16(81), I2S_16(81), I2S_16(1), I2S_16(3)},
    {I2S_16(9), I2S_16(27), I2S_16(81), I2S_4(1), I2S_4(3), I2S_4(9), I2S_4(27)},
    {I2S_IQ1_POWERS(81), I2S_IQ1_POWERS(27), I2S_IQ1_POWERS(9), I2S_IQ1_POWERS(3)},
};

/* Shift counts of the fields of 16 or 32 bytes for the elements in order, one number for each four of them. */
static const I2S_ALIGNED uint32_t i2s_field_shifts[2][32] = {
    {I2S_4(0), I2S_4(2), I2S_4(4), I2S_4(6)}, {I2S_8(0), I2S_8(2), I2S_8(4), I2S_8(6)},
};

/* The weight of a value as a digit or a field, starting with that of 0: a vector looks -1 up as 0. */
static const I2S_ALIGNED uint8_t i2s_digit_worth[5][16] = {{81, 162}, {27, 54}, {9, 18}, {3, 6}, {1, 2}};
static const I2S_ALIGNED uint8_t i2s_pair_worth[2][16] = {{9, 18}, {1, 2}};
static const I2S_ALIGNED uint8_t i2s_field_worth[4][16] = {{1, 2, 3}, {4, 8, 12}, {16, 32, 48}, {64, 128, 192}};

#endif
