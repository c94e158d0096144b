/* What the block kernels do with one block, in vectors: the types are those of GCC and Clang, which make of them what the
 * processor has. I2S_WIDTH is its widest. I2S_WIDEN reads a quarter of as many bytes as numbers of 32 bits, I2S_NARROW writes
 * their low bytes, I2S_MULHI is the high half of products of 16 bits. Parts of a block never go through memory to be joined:
 * a load of what two stores have just written waits for both. */

typedef uint8_t I2S_NAME(wide) __attribute__((vector_size(I2S_WIDTH)));
typedef uint32_t I2S_NAME(longs) __attribute__((vector_size(I2S_WIDTH)));
typedef int32_t I2S_NAME(ints) __attribute__((vector_size(I2S_WIDTH)));
typedef float I2S_NAME(reals) __attribute__((vector_size(I2S_WIDTH)));
typedef uint8_t I2S_NAME(b32) __attribute__((vector_size(32)));
typedef uint8_t I2S_NAME(b16) __attribute__((vector_size(16)));
typedef int8_t I2S_NAME(s32) __attribute__((vector_size(32)));
typedef int8_t I2S_NAME(s16) __attribute__((vector_size(16)));
typedef uint16_t I2S_NAME(w16) __attribute__((vector_size(16)));
typedef uint64_t I2S_NAME(q16) __attribute__((vector_size(16)));

#define I2S_WIDE I2S_NAME(wide)
#define I2S_B32 I2S_NAME(b32)
#define I2S_B16 I2S_NAME(b16)
/* Codes of vector `q`, `less` 1 where values are wanted: how many of the thresholds 86 and 171 are reached; a comparison is
 * 0 or -1. Vectors compare signed
 * numbers in one instruction: so `q` is I2S_SIGNED, 128 less than the byte that it stands for, and so is any odd number
 * times it. */
#define I2S_SIGNED(q) ((q) ^ 128)
#define I2S_DIGIT(V, S, q) ((V){0} - (uint8_t)less - (V)((S)(q) > 85 - 128) - (V)((S)(q) > 170 - 128))

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

I2S_ALWAYS I2S_TARGET I2S_B16 I2S_NAME(lower)(I2S_B32 v) {
    return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

I2S_ALWAYS I2S_TARGET I2S_B16 I2S_NAME(upper)(I2S_B32 v) {
    return __builtin_shufflevector(v, v, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(q2_codes)(const uint8_t *src, int n, uint8_t *codes) {
    int j;
    for (j = 0; j < n; j += I2S_WIDTH / 4) {
        I2S_NAME(longs) v = (I2S_NAME(longs))I2S_WIDEN(src + j);
        v |= v << 6;
        v = (v | v << 12) & 0x03030303u;
        memcpy(codes + 4 * j, &v, sizeof v);
    }
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(run_codes)(const uint8_t *src, uint8_t *codes) {
    I2S_B32 v;
    int p;
    memcpy(&v, src, 32);
    for (p = 0; p < 4; p++) {
        const I2S_B32 code = v >> (2 * p) & 3;
        memcpy(codes + 32 * p, &code, 32);
    }
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(iq2_codes)(const uint8_t *src, uint8_t *codes) {
    I2S_B16 v;
    int p;
    memcpy(&v, src, 16);
    for (p = 0; p < 4; p++) {
        const I2S_B16 code = v >> (2 * p) & 3;
        memcpy(codes + 16 * p, &code, 16);
    }
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(tq1_codes)(const uint8_t *src, uint8_t *codes, int less) {
    I2S_B32 q, r = I2S_SIGNED(I2S_NAME(tq1_load)(src));
    int n;
    memcpy(&q, src, 32);
    q = I2S_SIGNED(q);
    for (n = 0; n < 5; n++) {
        const I2S_B32 first = I2S_DIGIT(I2S_B32, I2S_NAME(s32), q), rest = I2S_DIGIT(I2S_B32, I2S_NAME(s32), r);
        const I2S_B16 second = I2S_NAME(lower)(rest), third = I2S_NAME(upper)(rest);
        memcpy(codes + 32 * n, &first, 32);
        memcpy(codes + 160 + 16 * n, &second, 16);
        if (n < 4) memcpy(codes + 240 + 4 * n, &third, 4);
        q = q + q + q;
        r = r + r + r;
    }
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(ptq1_codes)(const uint8_t *src, uint8_t *codes, int less) {
    I2S_B32 q = I2S_SIGNED(I2S_NAME(ptq1_load)(src));
    int n;
    for (n = 0; n < 5; n++) {
        const I2S_B32 code = I2S_DIGIT(I2S_B32, I2S_NAME(s32), q);
        const I2S_B16 low = I2S_NAME(lower)(code);
        const I2S_NAME(q16) high = (I2S_NAME(q16))I2S_NAME(upper)(code);
        const uint64_t second = high[0];
        const uint16_t third = (uint16_t)high[1];
        memcpy(codes + 16 * n, &low, 16);
        memcpy(codes + 80 + 8 * n, &second, 8);
        if (n < 4) memcpy(codes + 120 + 2 * n, &third, 2);
        q = q + q + q;
    }
}

/* Of 16 elements 15 are the digits of three bytes, the last digit first; the 16th is digit 4 - group of the last byte. */
#define I2S_GROUP(i, last)                                                                                              \
    do {                                                                                                                \
        const I2S_B16 by = {81, 27, 9, 3, 1, 81, 27, 9, 3, 1, 81, 27, 9, 3, 1, last};                                   \
        const I2S_B16 b = by * __builtin_shufflevector(q, q, 3 * i, 3 * i, 3 * i, 3 * i, 3 * i, 3 * i + 1, 3 * i + 1,   \
            3 * i + 1, 3 * i + 1, 3 * i + 1, 3 * i + 2, 3 * i + 2, 3 * i + 2, 3 * i + 2, 3 * i + 2, 12);                \
        const I2S_B16 code = I2S_DIGIT(I2S_B16, I2S_NAME(s16), b);                                                                     \
        memcpy(codes + 16 * i, &code, 16);                                                                              \
    } while (0)

I2S_ALWAYS I2S_TARGET void I2S_NAME(iq1_codes)(const uint8_t *src, uint8_t *codes, int less) {
    const I2S_B16 q = I2S_SIGNED(I2S_NAME(iq1_load)(src));
    I2S_GROUP(0, 81);
    I2S_GROUP(1, 27);
    I2S_GROUP(2, 9);
    I2S_GROUP(3, 3);
}
#undef I2S_GROUP

I2S_ALWAYS I2S_TARGET void I2S_NAME(codes_of)(int kind, const uint8_t *src, uint8_t *codes, int less) {
    switch (kind) {
    case I2S_Q2_64: I2S_NAME(q2_codes)(src + 2, 16, codes); break;
    case I2S_Q2_128: I2S_NAME(q2_codes)(src + 2, 32, codes); break;
    case I2S_TQ2:
        I2S_NAME(run_codes)(src, codes);
        I2S_NAME(run_codes)(src + 32, codes + 128);
        break;
    case I2S_IQ2: I2S_NAME(iq2_codes)(src, codes); break;
    case I2S_TQ1: I2S_NAME(tq1_codes)(src, codes, less); break;
    case I2S_PTQ1: I2S_NAME(ptq1_codes)(src, codes, less); break;
    default: I2S_NAME(iq1_codes)(src, codes, less); break;
    }
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(q2_bytes)(const uint8_t *codes, int n, uint8_t *dst) {
    int j;
    for (j = 0; j < n; j += I2S_WIDTH / 4) {
        I2S_NAME(longs) c;
        memcpy(&c, codes + 4 * j, sizeof c);
        c |= c >> 6;
        c = (c | c >> 12) & 255;
        I2S_NARROW(dst + j, c);
    }
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(run_bytes)(const uint8_t *codes, uint8_t *dst) {
    I2S_B32 v = {0}, code;
    int p;
    for (p = 3; p >= 0; p--) {
        memcpy(&code, codes + 32 * p, 32);
        v += v;
        v = (v + v) | code;
    }
    memcpy(dst, &v, 32);
}

/* Numbers of five digits to the bytes that stand for them: see i2s_digits_byte. */
I2S_ALWAYS I2S_TARGET I2S_B16 I2S_NAME(digits_bytes)(I2S_B16 number) {
    const I2S_NAME(w16) both = (I2S_NAME(w16))number, low = both & 255, high = both >> 8;
    const I2S_NAME(w16) by = (I2S_NAME(w16)){0} + 34522;
    const I2S_NAME(w16) a = (I2S_NAME(w16))I2S_MULHI(low * 13 + 242, by) >> 7;
    const I2S_NAME(w16) b = (I2S_NAME(w16))I2S_MULHI(high * 13 + 242, by) >> 7;
    return number + (I2S_B16)(a | b << 8);
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(tq1_bytes)(const uint8_t *codes, uint8_t *dst) {
    I2S_B32 first = {0}, run;
    I2S_B16 second = {0}, half;
    uint32_t third = 0, four;
    int n;
    for (n = 0; n < 5; n++) {
        memcpy(&run, codes + 32 * n, 32);
        memcpy(&half, codes + 160 + 16 * n, 16);
        first = first + first + first + run;
        second = second + second + second + half;
        third *= 3;  /* four numbers below 243, each in its byte */
        if (n < 4) {
            memcpy(&four, codes + 240 + 4 * n, 4);
            third += four;
        }
    }
    half = I2S_NAME(digits_bytes)(I2S_NAME(lower)(first));
    memcpy(dst, &half, 16);
    half = I2S_NAME(digits_bytes)(I2S_NAME(upper)(first));
    memcpy(dst + 16, &half, 16);
    half = I2S_NAME(digits_bytes)(second);
    memcpy(dst + 32, &half, 16);
    half = I2S_NAME(digits_bytes)((I2S_B16)(I2S_NAME(q16)){third, 0});
    memcpy(dst + 48, &half, 4);
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(ptq1_bytes)(const uint8_t *codes, uint8_t *dst) {
    I2S_B16 first = {0}, second = {0}, half;
    uint16_t two;
    int n;
    for (n = 0; n < 5; n++) {
        two = 0;
        if (n < 4) memcpy(&two, codes + 120 + 2 * n, 2);
        memcpy(&half, codes + 16 * n, 16);
        first = first + first + first + half;
        second = second + second + second + I2S_NAME(pair)(codes + 80 + 8 * n, two);
    }
    first = I2S_NAME(digits_bytes)(first);
    second = I2S_NAME(digits_bytes)(second);
    memcpy(dst, &first, 16);
    memcpy(dst + 16, &second, 8);
    two = (uint16_t)((I2S_NAME(q16))second)[1];
    memcpy(dst + 24, &two, 2);
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(bytes_of)(int kind, const uint8_t *codes, uint8_t *dst) {
    switch (kind) {
    case I2S_Q2_64: I2S_NAME(q2_bytes)(codes, 16, dst + 2); break;
    case I2S_Q2_128: I2S_NAME(q2_bytes)(codes, 32, dst + 2); break;
    case I2S_TQ2:
        I2S_NAME(run_bytes)(codes, dst);
        I2S_NAME(run_bytes)(codes + 128, dst + 32);
        break;
    case I2S_IQ2: run_bytes_portable(codes, 16, dst); break;
    case I2S_TQ1: I2S_NAME(tq1_bytes)(codes, dst); break;
    case I2S_PTQ1: I2S_NAME(ptq1_bytes)(codes, dst); break;
    default: iq1_bytes_portable(codes, dst); break;
    }
}

I2S_ALWAYS I2S_TARGET int I2S_NAME(codes_to_values)(uint8_t *codes, int64_t n) {
    I2S_WIDE seen = {0}, v;
    int64_t k;
    int i, found = 0;
    for (k = 0; k < n; k += I2S_WIDTH) {
        memcpy(&v, codes + k, I2S_WIDTH);
        seen |= (I2S_WIDE)(v > 2);
        v -= 1;
        memcpy(codes + k, &v, I2S_WIDTH);
    }
    for (i = 0; i < I2S_WIDTH; i++) found |= seen[i];
    return found != 0;
}

I2S_ALWAYS I2S_TARGET int I2S_NAME(values_to_codes)(const int8_t *values, int64_t n, int most, uint8_t *codes) {
    const uint8_t top = (uint8_t)(most + 1);
    I2S_WIDE seen = {0}, v;
    int64_t k;
    int i, found = 0;
    for (k = 0; k < n; k += I2S_WIDTH) {
        memcpy(&v, values + k, I2S_WIDTH);
        v += 1;
        seen |= (I2S_WIDE)(v > top);
        memcpy(codes + k, &v, I2S_WIDTH);
    }
    for (i = 0; i < I2S_WIDTH; i++) found |= seen[i];
    return found != 0;
}

I2S_ALWAYS I2S_TARGET void I2S_NAME(codes_to_floats)(const uint8_t *codes, int n, float scale, float *weights) {
    int k;
    for (k = 0; k < n; k += I2S_WIDTH / 4) {
        const I2S_NAME(ints) value = (I2S_NAME(ints))I2S_WIDEN(codes + k) - 1;
        const I2S_NAME(reals) w = __builtin_convertvector(value, I2S_NAME(reals)) * scale;
        memcpy(weights + k, &w, sizeof w);
    }
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
#undef I2S_B32
#undef I2S_B16
#undef I2S_DIGIT
#undef I2S_SIGNED
