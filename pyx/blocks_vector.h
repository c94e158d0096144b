/* What the block kernels do with one tile, in vectors: the types are those of GCC and Clang, which make of them what the
 * processor has. I2S_WIDTH is its widest. What takes few instructions of the processor but many of such types is in
 * blocks_x86.h and blocks_neon.h:
 *
 *     I2S_WIDEN, I2S_WIDEN_SIGNED, I2S_NARROW   a quarter of as many bytes as numbers of 32 bits; and their low bytes
 *     I2S_FOURS      four codes in four bytes to one byte
 *     I2S_LOOK, I2S_LOOK16   bytes of each 16 by their places; from place 128 on 0
 *     I2S_TIMES      products of bytes, modulo 256
 *     I2S_THIRDS     the first digit of each byte, as a value
 *     I2S_PLACES     16 bytes from each of as many places as fill a vector
 *     I2S_MOST       the larger bytes of two vectors
 *     I2S_HIGH_878   878 times each number of 16 bits, the upper 16 bits of it
 *     I2S_TWELVE     IQ1_BN's bytes of 64 values, but for the last one
 *
 * Parts of a block never go through memory to be joined: a load of what two stores have just written waits for both. */

typedef uint8_t I2S_NAME(wide) __attribute__((vector_size(I2S_WIDTH)));
typedef uint32_t I2S_NAME(longs) __attribute__((vector_size(I2S_WIDTH)));
typedef int32_t I2S_NAME(ints) __attribute__((vector_size(I2S_WIDTH)));
typedef float I2S_NAME(reals) __attribute__((vector_size(I2S_WIDTH)));
typedef uint8_t I2S_NAME(b32) __attribute__((vector_size(32)));
typedef uint8_t I2S_NAME(b16) __attribute__((vector_size(16)));
typedef uint16_t I2S_NAME(w16) __attribute__((vector_size(16)));
typedef uint64_t I2S_NAME(q16) __attribute__((vector_size(16)));

#define I2S_WIDE I2S_NAME(wide)
#define I2S_LONGS I2S_NAME(longs)
#define I2S_B32 I2S_NAME(b32)
#define I2S_B16 I2S_NAME(b16)
#define I2S_W16 I2S_NAME(w16)
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

/* Values to the bytes of a block, all but its scale; up to 15 bytes behind it are written, too. */
I2S_ALWAYS I2S_TARGET void I2S_NAME(q2_bytes)(const int8_t *values, int n, uint8_t *dst) {
    int j;
    for (j = 0; j < n; j += I2S_WIDTH / 4) {
        I2S_WIDE v;
        memcpy(&v, values + 4 * j, I2S_WIDTH);
        v += 1;
        I2S_NARROW(dst + j, I2S_FOURS(v));
    }
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(run_bytes)(const int8_t *values, int width, uint8_t *dst) {
    int h, p;
    for (h = 0; h < width; h += 16) {
        I2S_B16 v = {0};
        for (p = 0; p < 4; p++)
            v |= (I2S_B16)I2S_LOOK16(I2S_NAME(load16)(i2s_field_worth[p]), I2S_NAME(load16)(values + p * width + h));
        memcpy(dst + h, &v, 16);
    }
}

/* Numbers of five digits to the bytes that stand for them, in arithmetic of 16 bits: see i2s_digits_byte. */
I2S_ALWAYS I2S_TARGET I2S_B16 I2S_NAME(digits_bytes)(I2S_B16 number) {
    const I2S_W16 both = (I2S_W16)number, even = (both << 2 & 0x3FC) + 74, odd = (both >> 6 & 0x3FC) + 74;
    return number + (I2S_B16)((I2S_W16)I2S_HIGH_878(even) | (I2S_W16)I2S_HIGH_878(odd) << 8);
}

/* 16 values, what each is worth as digit n. */
I2S_ALWAYS I2S_TARGET I2S_B16 I2S_NAME(worth)(int n, const int8_t *values) {
    return (I2S_B16)I2S_LOOK16(I2S_NAME(load16)(i2s_digit_worth[n]), I2S_NAME(load16)(values));
}

/* Five runs of 16 elements, `step` apart, each the next digit of 16 bytes. */
I2S_ALWAYS I2S_TARGET void I2S_NAME(five_runs)(const int8_t *values, int step, uint8_t *dst) {
    I2S_B16 number = {0};
    int n;
    for (n = 0; n < 5; n++) number += I2S_NAME(worth)(n, values + n * step);
    number = I2S_NAME(digits_bytes)(number);
    memcpy(dst, &number, 16);
}

/* The last four bytes of TQ1_0: four runs of four elements. Numbers side by side in 64 bits never reach each other. */
I2S_ALWAYS I2S_TARGET void I2S_NAME(tq1_last)(const int8_t *values, uint8_t *dst) {
    const I2S_Q16 codes = (I2S_Q16)(I2S_NAME(load16)(values) + 1);
    const uint64_t a = codes[0] * ((uint64_t)81 << 32 | 27), b = codes[1] * ((uint64_t)9 << 32 | 3);
    const I2S_B16 bytes = I2S_NAME(digits_bytes)((I2S_B16)(I2S_Q16){(a >> 32) + (b >> 32), 0});
    memcpy(dst, &bytes, 16);
}

/* The last ten bytes of PTQ1_0: five runs of eight elements, then four of two. */
I2S_ALWAYS I2S_TARGET void I2S_NAME(ptq1_last)(const int8_t *values, uint8_t *dst) {
    const I2S_B16 last = I2S_NAME(worth)(4, values + 32);
    I2S_B16 number = I2S_NAME(worth)(2, values) + I2S_NAME(worth)(4, values + 16);  /* digits 0 and 2, 1 and 3 */
    const uint64_t two = ((I2S_Q16)last)[1] * ((uint64_t)81 << 48 | (uint64_t)27 << 32 | 9 << 16 | 3);
    number += number + number;
    number += number + number + __builtin_shufflevector(number, number, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    number = I2S_NAME(digits_bytes)((I2S_B16)(I2S_Q16){((I2S_Q16)(number + last))[0], two >> 48});
    memcpy(dst, &number, 16);
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(bytes_of)(int kind, const int8_t *values, uint8_t *dst) {
    switch (kind) {
    case I2S_Q2_64: I2S_NAME(q2_bytes)(values, 16, dst + 2); break;
    case I2S_Q2_128: I2S_NAME(q2_bytes)(values, 32, dst + 2); break;
    case I2S_TQ2:
        I2S_NAME(run_bytes)(values, 32, dst);
        I2S_NAME(run_bytes)(values + 128, 32, dst + 32);
        break;
    case I2S_IQ2: I2S_NAME(run_bytes)(values, 16, dst); break;
    case I2S_TQ1:
        I2S_NAME(five_runs)(values, 32, dst);
        I2S_NAME(five_runs)(values + 16, 32, dst + 16);
        I2S_NAME(five_runs)(values + 160, 16, dst + 32);
        I2S_NAME(tq1_last)(values + 240, dst + 48);
        break;
    case I2S_PTQ1:
        I2S_NAME(five_runs)(values, 16, dst);
        I2S_NAME(ptq1_last)(values + 80, dst + 16);
        break;
    default:
        I2S_TWELVE(values, dst);
        dst[12] = i2s_digits_byte((uint8_t)(values[15] + 3 * values[31] + 9 * values[47] + 27 * values[63] + 40));
    }
}

/* A tile of values to blocks, whose scales are left out; 1 where a value is below -1 or above `most`. */
I2S_ALWAYS I2S_TARGET int I2S_NAME(tile_bytes)(int kind, const int8_t *values, int64_t blocks, int most, uint8_t *dst) {
    const i2s_block shape = i2s_block_kinds[kind];
    const uint8_t top = (uint8_t)(most + 1);
    I2S_WIDE largest = {0}, v;
    int64_t b, k;
    for (k = 0; k < blocks * shape.elements; k += I2S_WIDTH) {
        if (k % 64 == 0) I2S_ASK(values + k);
        memcpy(&v, values + k, I2S_WIDTH);
        v += 1;
        largest = (I2S_WIDE)I2S_MOST(largest, v);
    }
    for (b = 0; b < blocks; b++) I2S_NAME(bytes_of)(kind, values + b * shape.elements, dst + b * shape.bytes);
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
#undef I2S_W16
#undef I2S_Q16
