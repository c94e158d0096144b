/* What the block kernels do with one tile, in vectors: the types are those of GCC and Clang, which make of them what the
 * processor has. I2S_WIDTH is its widest. What takes few instructions of the processor but many of such types is in
 * blocks_x86.h and blocks_neon.h:
 *
 *     I2S_WIDEN, I2S_WIDEN_SIGNED, I2S_NARROW   a quarter of as many bytes as numbers of 32 bits; and their low bytes
 *     I2S_FOURS      four codes in four bytes to one byte
 *     I2S_LOOK, I2S_LOOK16   bytes of each 16 by their places; from place 128 on 0. With I2S_RUN, I2S_STEPS and
 *                    I2S_LOOK_RUN are of vectors of so many bytes, 32 where a vector has them
 *     I2S_TIMES      products of bytes, modulo 256
 *     I2S_THIRDS     the first digit of each byte, as a value
 *     I2S_PLACES     16 bytes from each of as many places as fill a vector
 *     I2S_MOST       the larger bytes of two vectors
 *     I2S_STEPS, I2S_STEPS16   ceil(13 number / 243) of each byte, a number of five digits
 *     I2S_TWELVE     IQ1_BN's bytes of 64 values, but for the last one
 *
 * Parts of a block never go through memory to be joined: a load of what two stores have just written waits for both. */

typedef uint8_t I2S_NAME(wide) __attribute__((vector_size(I2S_WIDTH)));
typedef uint32_t I2S_NAME(longs) __attribute__((vector_size(I2S_WIDTH)));
typedef int32_t I2S_NAME(ints) __attribute__((vector_size(I2S_WIDTH)));
typedef float I2S_NAME(reals) __attribute__((vector_size(I2S_WIDTH)));
typedef uint8_t I2S_NAME(b32) __attribute__((vector_size(32)));
typedef uint8_t I2S_NAME(run) __attribute__((vector_size(I2S_RUN)));
typedef uint8_t I2S_NAME(b16) __attribute__((vector_size(16)));
typedef uint64_t I2S_NAME(q16) __attribute__((vector_size(16)));

#define I2S_WIDE I2S_NAME(wide)
#define I2S_LONGS I2S_NAME(longs)
#define I2S_B32 I2S_NAME(b32)
#define I2S_B16 I2S_NAME(b16)
#define I2S_Q16 I2S_NAME(q16)

/* Eight bytes and `tail`, as a vector. */
I2S_ALWAYS I2S_TARGET I2S_B16 I2S_NAME(pair)(const uint8_t *src, uint64_t tail) {
    I2S_NAME(q16) v = {0, tail};
    uint64_t first;
    memcpy(&first, src, 8);
    v[0] = first;
    return (I2S_B16)v;
}

/* The 26 bytes of PTQ1_0, and 0. */
I2S_ALWAYS I2S_TARGET I2S_B32 I2S_NAME(ptq1_load)(const uint8_t *src) {
    uint16_t tail;
    I2S_B16 low;
    memcpy(&low, src, 16);
    memcpy(&tail, src + 24, 2);
    const I2S_B16 high = I2S_NAME(pair)(src + 16, tail);
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                                   23, 24, 25, 26, 27, 28, 29, 30, 31);
}

/* The last 20 bytes of TQ1_0, and 0. */
I2S_ALWAYS I2S_TARGET I2S_B32 I2S_NAME(tq1_load)(const uint8_t *src) {
    uint32_t tail;
    I2S_B16 low;
    memcpy(&low, src + 32, 16);
    memcpy(&tail, src + 48, 4);
    const I2S_B16 high = (I2S_B16)(I2S_NAME(q16)){tail, 0};
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                                   23, 24, 25, 26, 27, 28, 29, 30, 31);
}

/* The 13 bytes of IQ1_BN, and 0. */
I2S_ALWAYS I2S_TARGET I2S_B16 I2S_NAME(iq1_load)(const uint8_t *src) {
    uint64_t tail;
    memcpy(&tail, src + 5, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return I2S_NAME(pair)(src, tail << 24);
#else
    return I2S_NAME(pair)(src, tail >> 24);
#endif
}

I2S_ALWAYS I2S_TARGET I2S_B16 I2S_NAME(load16)(const void *p) {
    I2S_B16 v;
    memcpy(&v, p, 16);
    return v;
}

/* Whether a byte of a vector has a bit of `mask`. */
I2S_ALWAYS I2S_TARGET int I2S_NAME(any)(I2S_WIDE v, uint64_t mask) {
    uint64_t parts[I2S_WIDTH / 8], all = 0;
    int i;
    memcpy(parts, &v, I2S_WIDTH);
    for (i = 0; i < I2S_WIDTH / 8; i++) all |= parts[i];
    return (all & mask) != 0;
}

/* Blocks to values. `seen` gets both bits of a field where it is 3. */
I2S_ALWAYS I2S_TARGET void I2S_NAME(q2_values)(const uint8_t *src, int n, int8_t *values, I2S_LONGS *seen) {
    int j;
    for (j = 0; j < n; j += I2S_WIDTH / 4) {
        I2S_LONGS v = (I2S_LONGS)I2S_WIDEN(src + j);
        I2S_WIDE value;
        *seen |= v & v >> 1;
        v |= v << 6;
        value = (I2S_WIDE)((v | v << 12) & 0x03030303u) - 1;
        memcpy(values + 4 * j, &value, I2S_WIDTH);
    }
}

/* Runs of `width` bytes, whose four fields are runs of as many elements, the first in the low bits. */
I2S_ALWAYS I2S_TARGET void I2S_NAME(run_values)(const uint8_t *src, int width, int8_t *values, I2S_LONGS *seen) {
    int e, i;
    for (e = 0; e < 4 * width; e += I2S_WIDTH) {
        const uint8_t *at[4];
        I2S_LONGS v, shifts;
        I2S_WIDE value;
        for (i = 0; i < I2S_WIDTH / 16; i++) at[i] = src + (e + 16 * i) % width;
        memcpy(&shifts, i2s_field_shifts[width / 32] + e / 4, I2S_WIDTH);
        v = (I2S_LONGS)I2S_PLACES(at);
        if (e < width) *seen |= v & v >> 1;
        value = (I2S_WIDE)(v >> shifts & 0x03030303u) - 1;
        memcpy(values + e, &value, I2S_WIDTH);
    }
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(digit_values)(int group, const uint8_t *src, int8_t *values) {
    int e, i;
    for (e = 0; e < 64; e += I2S_WIDTH) {
        const uint8_t *at[4];
        I2S_WIDE bytes, powers, value;
        for (i = 0; i < I2S_WIDTH / 16; i++) at[i] = src + i2s_digit_places[group][e / 16 + i];
        memcpy(&bytes, i2s_digit_bytes[group] + e, I2S_WIDTH);
        memcpy(&powers, i2s_digit_powers[group] + e, I2S_WIDTH);
        value = (I2S_WIDE)I2S_THIRDS(I2S_TIMES(I2S_LOOK(I2S_PLACES(at), bytes), powers));
        memcpy(values + e, &value, I2S_WIDTH);
    }
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(values_of)(int kind, const uint8_t *src, int8_t *values, I2S_LONGS *seen) {
    uint8_t near[16];
    I2S_B16 bytes;
    int i;
    switch (kind) {
    case I2S_Q2_64: I2S_NAME(q2_values)(src + 2, 16, values, seen); break;
    case I2S_Q2_128: I2S_NAME(q2_values)(src + 2, 32, values, seen); break;
    case I2S_TQ2:
        I2S_NAME(run_values)(src, 32, values, seen);
        I2S_NAME(run_values)(src + 32, 32, values + 128, seen);
        break;
    case I2S_IQ2: I2S_NAME(run_values)(src, 16, values, seen); break;
    case I2S_TQ1:
        for (i = 0; i < 4; i++) I2S_NAME(digit_values)(I2S_TQ1_DIGITS + i, src, values + 64 * i);
        break;
    case I2S_PTQ1:
        for (i = 0; i < 2; i++) I2S_NAME(digit_values)(I2S_PTQ1_DIGITS + i, src, values + 64 * i);
        break;
    default:
        bytes = I2S_NAME(iq1_load)(src);
        memcpy(near, &bytes, 16);
        I2S_NAME(digit_values)(I2S_IQ1_DIGITS, near, values);
    }
}

/* Whole blocks, a tile at most, to values; 1 where a code is 3. */
I2S_ALWAYS I2S_TARGET int I2S_NAME(tile_values)(int kind, const uint8_t *src, int64_t blocks, int8_t *values) {
    const i2s_block shape = i2s_block_kinds[kind];
    I2S_LONGS seen = {0};
    int64_t b;
    for (b = 0; b < blocks; b++)
        I2S_NAME(values_of)(kind, src + b * shape.bytes, values + b * shape.elements, &seen);
    return I2S_NAME(any)((I2S_WIDE)seen, 0x5555555555555555u);
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(values_to_floats)(const int8_t *values, int n, float scale, float *weights) {
    int k;
    for (k = 0; k < n; k += I2S_WIDTH / 4) {
        const I2S_NAME(ints) value = (I2S_NAME(ints))I2S_WIDEN_SIGNED(values + k);
        const I2S_NAME(reals) w = __builtin_convertvector(value, I2S_NAME(reals)) * scale;
        memcpy(weights + k, &w, sizeof w);
    }
}

/* Values to the bytes of a block, all but its scale; up to 15 bytes after it are also written. */
I2S_ALWAYS I2S_TARGET void I2S_NAME(q2_bytes)(const int8_t *values, int n, uint8_t *dst) {
    int j;
    for (j = 0; j < n; j += I2S_WIDTH / 4) {
        I2S_WIDE v;
        memcpy(&v, values + 4 * j, I2S_WIDTH);
        v += 1;
        I2S_NARROW(dst + j, I2S_FOURS(v));
    }
}

/* The combined value of `count` runs of `width` elements, `step` apart, in each byte. */
I2S_ALWAYS I2S_TARGET I2S_B16 I2S_NAME(worth)(const uint8_t (*by)[16], int count, const int8_t *values, int step) {
    I2S_B16 sum = {0};
    int n;
    for (n = 0; n < count; n++)
        sum += (I2S_B16)I2S_LOOK16(I2S_NAME(load16)(by[n]), I2S_NAME(load16)(values + n * step));
    return sum;
}

I2S_ALWAYS I2S_TARGET I2S_NAME(run) I2S_NAME(worth_run)(const uint8_t (*by)[16], int count, const int8_t *values, int step) {
    I2S_NAME(run) sum = {0}, one;
    int n;
    for (n = 0; n < count; n++) {
        memcpy(&one, values + n * step, I2S_RUN);
        sum += (I2S_NAME(run))I2S_LOOK_RUN(by[n], one);
    }
    return sum;
}

/* Numbers of five digits to the bytes that stand for them: see i2s_digits_byte. */
I2S_ALWAYS I2S_TARGET I2S_B16 I2S_NAME(digits_bytes)(I2S_B16 number) { return number + (I2S_B16)I2S_STEPS16(number); }

/* The last four bytes of TQ1_0: four runs of four elements. Numbers side by side in 64 bits never reach each other. */
I2S_ALWAYS I2S_TARGET void I2S_NAME(tq1_last)(const int8_t *values, uint8_t *dst) {
    const I2S_Q16 codes = (I2S_Q16)(I2S_NAME(load16)(values) + 1);
    const uint64_t a = codes[0] * ((uint64_t)81 << 32 | 27), b = codes[1] * ((uint64_t)9 << 32 | 3);
    const I2S_B16 bytes = I2S_NAME(digits_bytes)((I2S_B16)(I2S_Q16){(a >> 32) + (b >> 32), 0});
    memcpy(dst, &bytes, 16);
}

/* The numbers of the last ten bytes of PTQ1_0: five runs of eight elements, then four of two. */
I2S_ALWAYS I2S_TARGET I2S_B16 I2S_NAME(ptq1_last)(const int8_t *values) {
    const I2S_B16 last = I2S_NAME(worth)(i2s_digit_worth + 4, 1, values + 32, 0);
    I2S_B16 number = I2S_NAME(worth)(i2s_pair_worth, 2, values, 16);  /* digits 0 and 2, 1 and 3 */
    const uint64_t two = ((I2S_Q16)last)[1] * ((uint64_t)81 << 48 | (uint64_t)27 << 32 | 9 << 16 | 3);
    number += number + number;
    number += number + number + __builtin_shufflevector(number, number, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    return (I2S_B16)(I2S_Q16){((I2S_Q16)(number + last))[0], two >> 48};
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(tq1_bytes)(const int8_t *values, uint8_t *dst) {
    I2S_B16 last = I2S_NAME(worth)(i2s_digit_worth, 5, values + 160, 16);
    int h;
    for (h = 0; h < 32; h += I2S_RUN) {
        I2S_NAME(run) number = I2S_NAME(worth_run)(i2s_digit_worth, 5, values + h, 32);
        number += (I2S_NAME(run))I2S_STEPS(number);
        memcpy(dst + h, &number, I2S_RUN);
    }
    last = I2S_NAME(digits_bytes)(last);
    memcpy(dst + 32, &last, 16);
    I2S_NAME(tq1_last)(values + 240, dst + 48);
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(ptq1_bytes)(const int8_t *values, uint8_t *dst) {
    const I2S_B16 first = I2S_NAME(worth)(i2s_digit_worth, 5, values, 16), last = I2S_NAME(ptq1_last)(values + 80);
#if I2S_RUN == 32
    const I2S_B32 number = __builtin_shufflevector(first, last, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
                                                   19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    const I2S_B32 bytes = number + (I2S_B32)I2S_STEPS(number);
#else
    const I2S_B16 bytes[2] = {I2S_NAME(digits_bytes)(first), I2S_NAME(digits_bytes)(last)};
#endif
    memcpy(dst, &bytes, 32);
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(bytes_of)(int kind, const int8_t *values, uint8_t *dst) {
    I2S_B16 bytes;
    int i, h;
    switch (kind) {
    case I2S_Q2_64: I2S_NAME(q2_bytes)(values, 16, dst + 2); break;
    case I2S_Q2_128: I2S_NAME(q2_bytes)(values, 32, dst + 2); break;
    case I2S_TQ2:
        for (i = 0; i < 2; i++)
            for (h = 0; h < 32; h += I2S_RUN) {
                const I2S_NAME(run) run = I2S_NAME(worth_run)(i2s_field_worth, 4, values + 128 * i + h, 32);
                memcpy(dst + 32 * i + h, &run, I2S_RUN);
            }
        break;
    case I2S_IQ2:
        bytes = I2S_NAME(worth)(i2s_field_worth, 4, values, 16);
        memcpy(dst, &bytes, 16);
        break;
    case I2S_TQ1: I2S_NAME(tq1_bytes)(values, dst); break;
    case I2S_PTQ1: I2S_NAME(ptq1_bytes)(values, dst); break;
    default:
        I2S_TWELVE(values, dst);
        dst[12] = i2s_digits_byte((uint8_t)(values[15] + 3 * values[31] + 9 * values[47] + 27 * values[63] + 40));
    }
}

/* A tile of values to blocks, whose scales are left out; 1 where a value is below -1 or above `most`. */
I2S_ALWAYS I2S_TARGET int I2S_NAME(tile_bytes)(int kind, const int8_t *values, int64_t blocks, int most, uint8_t *dst,
                                               int64_t ahead) {
    const i2s_block shape = i2s_block_kinds[kind];
    const uint8_t top = (uint8_t)(most + 1);
    I2S_WIDE largest = {0}, v;
    int64_t b;
    int k;
    for (b = 0; b < blocks; b++, values += shape.elements, dst += shape.bytes) {
        /* Memory is prefetched between the blocks, since it accepts few requests at a time. */
        for (k = 0; k < shape.elements; k += I2S_WIDTH) {
            if (k % 64 == 0) I2S_ASK_AT(values + k, ahead);
            memcpy(&v, values + k, I2S_WIDTH);
            v += 1;
            largest = (I2S_WIDE)I2S_MOST(largest, v);
        }
        I2S_NAME(bytes_of)(kind, values, dst);
    }
    return I2S_NAME(any)((I2S_WIDE)(largest > top), ~(uint64_t)0);
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(count_bits)(const uint8_t *src, int n, uint64_t count[3]) {
    count_bits_portable(src, n, count);
}

/* How many digits of each byte have reached either threshold, added to bytes that may grow by 5; `whole` is 0 in the bytes
 * that have four digits only. */
I2S_ALWAYS I2S_TARGET void I2S_NAME(add_digits)(I2S_B32 q, I2S_B32 whole, uint8_t *one, uint8_t *two) {
    I2S_B32 a, b;
    int d;
    memcpy(&a, one, 32);
    memcpy(&b, two, 32);
    for (d = 0; d < 5; d++) {
        if (d == 4) q &= whole;
        a -= (I2S_B32)(q > 85);
        b -= (I2S_B32)(q > 170);
        q = q + q + q;
    }
    memcpy(one, &a, 32);
    memcpy(two, &b, 32);
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(count_digits)(int kind, const uint8_t *src, uint8_t one[64], uint8_t two[64]) {
    const uint64_t all = ~(uint64_t)0;
    typedef uint64_t quads __attribute__((vector_size(32)));
    const I2S_B32 every = (I2S_B32)(quads){all, all, all, all};
    if (kind == I2S_PTQ1) I2S_NAME(add_digits)(I2S_NAME(ptq1_load)(src), (I2S_B32)(quads){all, all, all, 0}, one, two);
    else if (kind == I2S_TQ1) {
        I2S_B32 q;
        memcpy(&q, src, 32);
        I2S_NAME(add_digits)(q, every, one, two);
        I2S_NAME(add_digits)(I2S_NAME(tq1_load)(src), (I2S_B32)(quads){all, all, 0, 0}, one + 32, two + 32);
    } else {
        /* The last byte has no first digit: three times it begins with the second. */
        const I2S_B16 by = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 1, 1}, q = I2S_NAME(iq1_load)(src) * by, none = {0};
        const I2S_B32 both = __builtin_shufflevector(q, none, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
                                                     19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
        I2S_NAME(add_digits)(both, (I2S_B32)(quads){all, 0xFFFFFFFFu, 0, 0}, one, two);
    }
}
#undef I2S_WIDE
#undef I2S_LONGS
#undef I2S_B32
#undef I2S_B16
#undef I2S_Q16
