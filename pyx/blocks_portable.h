/* The operations of the block kernels on one block, in plain C: the table's row `portable`, and the rest after whole
 * vectors.
 *
 * A digit in base 3 is the number of thresholds (86 and 171) that a byte has reached; three times the byte, modulo 256,
 * has the next digit. For every byte this equals the definition's (byte * 3^n mod 256) * 3 >> 8.
 */

/* Codes of a block: one byte each, 0 to 3, in the order of the elements; digits are values already, -1 to 1. */
I2S_ALWAYS void q2_codes_portable(const uint8_t *src, int n, uint8_t *codes) {
    int j;
    for (j = 0; j < n; j++) {
        uint32_t v = src[j];
        v |= v << 6;
        v = (v | v << 12) & 0x03030303u;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        v = v >> 24 | (v >> 8 & 0xFF00u) | (v << 8 & 0xFF0000u) | v << 24;
#endif
        memcpy(codes + 4 * j, &v, 4);
    }
}

/* Runs of `width` bytes; their four fields are runs of as many elements, the first in the low bits. */
I2S_ALWAYS void run_codes_portable(const uint8_t *src, int width, uint8_t *codes) {
    int m, p;
    for (m = 0; m < width; m += 8) {
        uint64_t v, field;
        memcpy(&v, src + m, 8);
        for (p = 0; p < 4; p++) {
            field = v >> (2 * p) & 0x0303030303030303u;
            memcpy(codes + p * width + m, &field, 8);
        }
    }
}

I2S_ALWAYS void next_digit_portable(uint8_t *q, int n, uint8_t *codes) {
    int m;
    for (m = 0; m < n; m++) {
        const uint8_t b = q[m];
        codes[m] = (uint8_t)((b > 85) + (b > 170) - 1);
        q[m] = (uint8_t)(b + b + b);
    }
}

I2S_ALWAYS void tq1_codes_portable(const uint8_t *src, uint8_t *codes) {
    uint8_t q[64] = {0}, digit[64];
    int n;
    memcpy(q, src, 52);
    for (n = 0; n < 5; n++) {
        next_digit_portable(q, 64, digit);
        memcpy(codes + 32 * n, digit, 32);
        memcpy(codes + 160 + 16 * n, digit + 32, 16);
        if (n < 4) memcpy(codes + 240 + 4 * n, digit + 48, 4);
    }
}

I2S_ALWAYS void ptq1_codes_portable(const uint8_t *src, uint8_t *codes) {
    uint8_t q[32] = {0}, digit[32];
    int n;
    memcpy(q, src, 26);
    for (n = 0; n < 5; n++) {
        next_digit_portable(q, 32, digit);
        memcpy(codes + 16 * n, digit, 16);
        memcpy(codes + 80 + 8 * n, digit + 16, 8);
        if (n < 4) memcpy(codes + 120 + 2 * n, digit + 24, 2);
    }
}

/* Of 16 elements 15 are the digits of three bytes, the last digit first; the 16th is digit 4 - group of the last byte. */
I2S_ALWAYS void iq1_codes_portable(const uint8_t *src, uint8_t *codes) {
    uint8_t q[16] = {0}, digit[5][16];
    int n, i, j;
    memcpy(q, src, 13);
    for (n = 4; n >= 0; n--) next_digit_portable(q, 16, digit[n]);  /* digit[j] is digit 4 - j of the definition */
    for (i = 0; i < 4; i++) {
        for (j = 0; j < 5; j++) {
            codes[16 * i + j] = digit[j][3 * i];
            codes[16 * i + 5 + j] = digit[j][3 * i + 1];
            codes[16 * i + 10 + j] = digit[j][3 * i + 2];
        }
        codes[16 * i + 15] = digit[i][12];
    }
}

I2S_ALWAYS void codes_of_portable(int kind, const uint8_t *src, uint8_t *codes) {
    switch (kind) {
    case I2S_Q2_64: q2_codes_portable(src + 2, 16, codes); break;
    case I2S_Q2_128: q2_codes_portable(src + 2, 32, codes); break;
    case I2S_TQ2:
        run_codes_portable(src, 32, codes);
        run_codes_portable(src + 32, 32, codes + 128);
        break;
    case I2S_IQ2: run_codes_portable(src, 16, codes); break;
    case I2S_TQ1: tq1_codes_portable(src, codes); break;
    case I2S_PTQ1: ptq1_codes_portable(src, codes); break;
    default: iq1_codes_portable(src, codes); break;
    }
}

/* Codes to the bytes of a block, without its scale. */
I2S_ALWAYS void q2_bytes_portable(const uint8_t *codes, int n, uint8_t *dst) {
    int j;
    for (j = 0; j < n; j++) {
        uint32_t c;
        memcpy(&c, codes + 4 * j, 4);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        c = c >> 24 | (c >> 8 & 0xFF00u) | (c << 8 & 0xFF0000u) | c << 24;
#endif
        dst[j] = (uint8_t)(c | c >> 6 | c >> 12 | c >> 18);
    }
}

I2S_ALWAYS void run_bytes_portable(const uint8_t *codes, int width, uint8_t *dst) {
    int m;
    for (m = 0; m < width; m++)
        dst[m] = (uint8_t)(codes[m] | codes[width + m] << 2 | codes[2 * width + m] << 4 | codes[3 * width + m] << 6);
}

/* `digits` runs of `width` elements, each the next digit of `width` bytes. */
I2S_ALWAYS void digit_bytes_portable(const uint8_t *codes, int width, int digits, uint8_t *dst) {
    uint8_t number[32];
    int m, n;
    for (m = 0; m < width; m++) number[m] = codes[m];
    for (n = 1; n < 5; n++)
        for (m = 0; m < width; m++) number[m] = (uint8_t)(number[m] * 3 + (n < digits ? codes[n * width + m] : 0));
    for (m = 0; m < width; m++) dst[m] = i2s_digits_byte(number[m]);
}

I2S_ALWAYS void iq1_bytes_portable(const uint8_t *codes, uint8_t *dst) {
    uint8_t number[16] = {0}, last = 0;
    int i, j;
    for (j = 4; j >= 0; j--)
        for (i = 0; i < 12; i++) number[i] = (uint8_t)(number[i] * 3 + codes[16 * (i / 3) + 5 * (i % 3) + j]);
    for (i = 3; i >= 0; i--) last = (uint8_t)(last * 3 + codes[16 * i + 15]);
    number[12] = last;
    for (i = 0; i < 13; i++) dst[i] = i2s_digits_byte(number[i]);
}

I2S_ALWAYS void bytes_of_portable(int kind, const uint8_t *codes, uint8_t *dst) {
    switch (kind) {
    case I2S_Q2_64: q2_bytes_portable(codes, 16, dst + 2); break;
    case I2S_Q2_128: q2_bytes_portable(codes, 32, dst + 2); break;
    case I2S_TQ2:
        run_bytes_portable(codes, 32, dst);
        run_bytes_portable(codes + 128, 32, dst + 32);
        break;
    case I2S_IQ2: run_bytes_portable(codes, 16, dst); break;
    case I2S_TQ1:
        digit_bytes_portable(codes, 32, 5, dst);
        digit_bytes_portable(codes + 160, 16, 5, dst + 32);
        digit_bytes_portable(codes + 240, 4, 4, dst + 48);
        break;
    case I2S_PTQ1:
        digit_bytes_portable(codes, 16, 5, dst);
        digit_bytes_portable(codes + 80, 8, 5, dst + 16);
        digit_bytes_portable(codes + 120, 2, 4, dst + 24);
        break;
    default: iq1_bytes_portable(codes, dst); break;
    }
}

/* Codes to values in place; 1 where a code is 3. */
I2S_ALWAYS int codes_to_values_portable(uint8_t *codes, int64_t n) {
    uint8_t seen = 0;
    int64_t k;
    for (k = 0; k < n; k++) {
        seen |= (uint8_t)(codes[k] & codes[k] >> 1);
        codes[k] = (uint8_t)(codes[k] - 1);
    }
    return seen & 1;
}

/* Values to codes; 1 where one is below -1 or above `most`. */
I2S_ALWAYS int values_to_codes_portable(const int8_t *values, int64_t n, int most, uint8_t *codes) {
    uint8_t largest = 0;
    int64_t k;
    for (k = 0; k < n; k++) {
        const uint8_t code = (uint8_t)(values[k] + 1);
        largest = code > largest ? code : largest;
        codes[k] = code;
    }
    return largest > most + 1;
}

I2S_ALWAYS void values_to_floats_portable(const int8_t *values, int n, float scale, float *weights) {
    int k;
    for (k = 0; k < n; k++) weights[k] = (float)values[k] * scale;
}

/* Whole blocks, at most a tile, to values; 1 if a code is 3, which a digit never is. */
I2S_ALWAYS int tile_values_portable(int kind, const uint8_t *src, int64_t blocks, int8_t *values) {
    const i2s_block shape = i2s_block_kinds[kind];
    uint8_t *codes = (uint8_t *)values;
    int64_t b;
    for (b = 0; b < blocks; b++) codes_of_portable(kind, src + b * shape.bytes, codes + b * shape.elements);
    return i2s_kind_has_digits(kind) ? 0 : codes_to_values_portable(codes, blocks * shape.elements);
}

/* A tile of values to blocks without their scales; 1 if a value is below -1 or above `most`. */
I2S_ALWAYS int tile_bytes_portable(int kind, const int8_t *values, int64_t blocks, int most, uint8_t *dst, int64_t ahead) {
    const i2s_block shape = i2s_block_kinds[kind];
    I2S_ALIGNED uint8_t codes[I2S_TILE];
    const int bad = values_to_codes_portable(values, blocks * shape.elements, most, codes);
    int64_t b;
    (void)ahead;
    for (b = 0; b < blocks; b++) bytes_of_portable(kind, codes + b * shape.elements, dst + b * shape.bytes);
    return bad;
}

/* How often bit 0, bit 1, and both bits of a two-bit code are set. */
I2S_ALWAYS void count_bits_portable(const uint8_t *src, int n, uint64_t count[3]) {
    const uint64_t even = 0x5555555555555555u;
    int i;
    for (i = 0; i < n; i += 16) {
        uint64_t v, w, low, high;
        memcpy(&v, src + i, 8);
        memcpy(&w, src + i + 8, 8);
        low = (v & even) | (w & even) << 1;
        high = (v >> 1 & even) | (w & ~even);
#if defined(__GNUC__) || defined(__clang__)
        count[0] += (uint64_t)__builtin_popcountll(low);
        count[1] += (uint64_t)__builtin_popcountll(high);
        count[2] += (uint64_t)__builtin_popcountll(low & high);
#else
        for (; low | high; low >>= 1, high >>= 1) {
            count[0] += low & 1;
            count[1] += high & 1;
            count[2] += low & high & 1;
        }
#endif
    }
}

/* How many digits of each byte have reached either threshold, added to bytes that may grow by 5. */
I2S_ALWAYS void count_digits_portable(int kind, const uint8_t *src, uint8_t one[64], uint8_t two[64]) {
    const int n = kind == I2S_TQ1 ? 52 : kind == I2S_PTQ1 ? 26 : 13, whole = kind == I2S_TQ1 ? 48 : kind == I2S_PTQ1 ? 24 : 12;
    uint8_t q[64];
    int m, d;
    memcpy(q, src, (size_t)n);
    if (kind == I2S_IQ1) q[12] = (uint8_t)(q[12] * 3);  /* the last byte has no first digit: three times it begins with the second */
    for (d = 0; d < 5; d++)
        for (m = 0; m < (d == 4 ? whole : n); m++) {
            one[m] = (uint8_t)(one[m] + (q[m] > 85));
            two[m] = (uint8_t)(two[m] + (q[m] > 170));
            q[m] = (uint8_t)(q[m] + q[m] + q[m]);
        }
}
