/* The kernels of floats.h for one instruction set: NAME, TARGET, BYTES of its vectors (0: plain loops) and F16C
 * (whether it can convert halves). No product is added to anything, so fused operations would change nothing. */

/* ---- words to floats, `count` of at most I2S_SHARE ---- */

TARGET I2S_INLINED void NAME(i2s_floats_widen)(int kind, const uint8_t *words, int count, float *out) {
    uint32_t bits;
    uint16_t word;
    int i = 0;
    if (kind == I2S_WORDS_F32) {
        memcpy(out, words, (size_t)count * 4);
    } else if (kind == I2S_WORDS_BF16) {
        for (; i < count; i++) {
            memcpy(&word, words + 2 * i, 2);
            bits = (uint32_t)word << 16;
            memcpy(out + i, &bits, 4);
        }
    } else {
#if F16C && BYTES == 64
        for (; i + 16 <= count; i += 16)
            _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(words + 2 * i))));
#elif F16C
        for (; i + 8 <= count; i += 8)
            _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(words + 2 * i))));
#endif
        for (; i < count; i++) { /* the bits are moved, and 2^112 takes care of the exponent */
            float value;
            memcpy(&word, words + 2 * i, 2);
            bits = (uint32_t)(word & 0x7fff) << 13;
            memcpy(&value, &bits, 4);
            value *= 0x1p112f;
            memcpy(&bits, &value, 4);
            bits |= (uint32_t)(word & 0x8000) << 16 | ((word & 0x7c00) == 0x7c00 ? 0x7f800000u : 0);
            memcpy(out + i, &bits, 4);
        }
    }
}

/* ---- floats to words ---- */

TARGET I2S_INLINED uint32_t NAME(i2s_floats_narrow)(int kind, const float *values, int count, uint8_t *out) {
    uint32_t bits, odd = 0;
    int i = 0;
    if (kind == I2S_WORDS_F32) {
        for (; i < count; i++) {
            memcpy(&bits, values + i, 4);
            odd |= (bits & 0x7fffffffu) + 0x00800000u;
            memcpy(out + 4 * i, &bits, 4);
        }
        return odd >> 31;
    }
    if (kind == I2S_WORDS_BF16) {
        for (; i < count; i++) {
            uint32_t word;
            uint16_t half;
            memcpy(&bits, values + i, 4);
            odd |= (bits & 0x7fffffffu) + 0x00800000u;
            word = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
            odd |= ((word & 0x7fffu) + 0x80u) << 16;
            half = (uint16_t)word;
            memcpy(out + 2 * i, &half, 2);
        }
        return odd >> 31;
    }
#if F16C && BYTES == 64
    for (; i + 16 <= count; i += 16)
        _mm256_storeu_si256((__m256i *)(out + 2 * i), _mm512_cvtps_ph(_mm512_loadu_ps(values + i), 0));
#elif F16C
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(out + 2 * i), _mm256_cvtps_ph(_mm256_loadu_ps(values + i), 0));
#endif
    for (; i < count; i++) {
        /* Numbers below 2^-14 are rounded by the addition of 1/2, whose last bit is worth as much as that of the half. */
        uint32_t size, small, large;
        uint16_t half;
        float value;
        memcpy(&bits, values + i, 4);
        size = bits & 0x7fffffffu;
        memcpy(&value, &size, 4);
        value += 0.5f;
        memcpy(&small, &value, 4);
        small -= 0x3f000000u;
        large = (size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13;
        large = size >= 0x47800000u ? 0x7c00u : large;
        half = (uint16_t)((size < 0x38800000u ? small : large) | (bits >> 16 & 0x8000u));
        memcpy(out + 2 * i, &half, 2);
    }
    for (i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, out + 2 * i, 2);
        odd |= (uint32_t)(half & 0x7fff) + 0x400u;
    }
    return odd >> 15 & 1;
}

/* Types are constants after inlining, and so is the number of words except for the last group. */
TARGET I2S_INLINED uint32_t NAME(i2s_floats_pair)(int kind, const uint8_t *words, int64_t count, int to, uint8_t *out) {
    const int width = kind == I2S_WORDS_F32 ? 4 : 2, wide = to == I2S_WORDS_F32 ? 4 : 2;
    float values[I2S_SHARE];
    uint32_t odd = 0;
    int64_t at = 0;
    for (; at + I2S_SHARE <= count; at += I2S_SHARE) {
        NAME(i2s_floats_widen)(kind, words + at * width, I2S_SHARE, values);
        odd |= NAME(i2s_floats_narrow)(to, values, I2S_SHARE, out + at * wide);
    }
    NAME(i2s_floats_widen)(kind, words + at * width, (int)(count - at), values);
    return odd | NAME(i2s_floats_narrow)(to, values, (int)(count - at), out + at * wide);
}

TARGET static int NAME(i2s_floats_change)(int kind, const uint8_t *words, int64_t count, int to, uint8_t *out) {
    switch (3 * kind + to) {
    case 3 * I2S_WORDS_BF16 + I2S_WORDS_F16:
        return (int)NAME(i2s_floats_pair)(I2S_WORDS_BF16, words, count, I2S_WORDS_F16, out);
    case 3 * I2S_WORDS_F16 + I2S_WORDS_F16:
        return (int)NAME(i2s_floats_pair)(I2S_WORDS_F16, words, count, I2S_WORDS_F16, out);
    case 3 * I2S_WORDS_F32 + I2S_WORDS_F16:
        return (int)NAME(i2s_floats_pair)(I2S_WORDS_F32, words, count, I2S_WORDS_F16, out);
    case 3 * I2S_WORDS_BF16 + I2S_WORDS_BF16:
        return (int)NAME(i2s_floats_pair)(I2S_WORDS_BF16, words, count, I2S_WORDS_BF16, out);
    default: return (int)NAME(i2s_floats_pair)(kind, words, count, to, out);
    }
}

/* ---- trits ---- */

TARGET static void NAME(i2s_floats_cut)(int kind, const uint8_t *words, int64_t count, uint32_t least, int8_t *trits) {
    if (kind == I2S_WORDS_F32) {
        for (int64_t i = 0; i < count; i++) {
            int32_t word;
            memcpy(&word, words + 4 * i, 4);
            trits[i] = (int8_t)((word & 0x7fffffff) >= (int32_t)least ? (word >> 31) | 1 : 0);
        }
    } else {
        const int16_t from = (int16_t)least;
        for (int64_t i = 0; i < count; i++) {
            int16_t word;
            memcpy(&word, words + 2 * i, 2);
            trits[i] = (int8_t)((int16_t)(word & 0x7fff) >= from ? (int16_t)(word >> 15) | 1 : 0);
        }
    }
}

/* ---- the only magnitude ---- */

#define ONLY(WORD, SIGNLESS)                                                                                           \
    WORD word, first = 0;                                                                                              \
    for (; at < count && !first; at++) {                                                                               \
        memcpy(&word, words + at * (int64_t)sizeof word, sizeof word);                                                 \
        first = (WORD)(word & SIGNLESS);                                                                               \
    }                                                                                                                  \
    while (at < count) {                                                                                               \
        const int64_t end = count - at < I2S_SHARE ? count : at + I2S_SHARE;                                           \
        WORD odd = 0;                                                                                                  \
        for (; at < end; at++) {                                                                                       \
            memcpy(&word, words + at * (int64_t)sizeof word, sizeof word);                                             \
            word = (WORD)(word & SIGNLESS);                                                                            \
            odd = (WORD)(odd | (word ? word ^ first : 0));                                                             \
        }                                                                                                              \
        if (odd) return -1;                                                                                            \
    }                                                                                                                  \
    return (int64_t)first;

TARGET static int64_t NAME(i2s_floats_only)(int kind, const uint8_t *words, int64_t count) {
    int64_t at = 0;
    if (kind == I2S_WORDS_F32) {
        ONLY(uint32_t, 0x7fffffffu)
    } else {
        ONLY(uint16_t, 0x7fffu)
    }
}

#undef ONLY

/* ---- sums: each column from its first row to its last ---- */

#if BYTES
typedef float NAME(i2s_floats_vector) __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef uint32_t NAME(i2s_floats_bits) __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef uint16_t NAME(i2s_floats_halves) __attribute__((vector_size(BYTES / 2), aligned(1), may_alias));
#define LANES (BYTES / 4)
#define VECTORS (I2S_COLUMNS / LANES)

TARGET static int NAME(i2s_floats_sums)(int kind, const uint8_t *words, int64_t runs, int64_t rows, float *sums) {
    NAME(i2s_floats_bits) odd = {0};
    uint32_t each[LANES], any = 0;
    for (int64_t run = 0; run < runs; run++, sums += I2S_COLUMNS) {
        NAME(i2s_floats_vector) total[VECTORS];
        memset(total, 0, sizeof total);
        if (kind == I2S_WORDS_BF16) {
            for (int64_t row = 0; row < rows; row++, words += 2 * I2S_COLUMNS)
                for (int v = 0; v < VECTORS; v++) {
                    const NAME(i2s_floats_halves) halves = *(const NAME(i2s_floats_halves) *)(words + v * LANES * 2);
                    const NAME(i2s_floats_bits) bits =
                        (__builtin_convertvector(halves, NAME(i2s_floats_bits)) & 0x7fffu) << 16;
                    odd |= bits + 0x00800000u;
                    total[v] += (NAME(i2s_floats_vector))bits;
                }
        } else {
            const int step = kind == I2S_WORDS_F32 ? 4 : 2;
            for (int64_t row = 0; row < rows; row++, words += step * I2S_COLUMNS) {
                float values[I2S_COLUMNS];
                NAME(i2s_floats_widen)(kind, words, I2S_COLUMNS, values);
                for (int v = 0; v < VECTORS; v++) {
                    const NAME(i2s_floats_bits) bits = *(const NAME(i2s_floats_bits) *)(values + v * LANES) & 0x7fffffffu;
                    odd |= bits + 0x00800000u;
                    total[v] += (NAME(i2s_floats_vector))bits;
                }
            }
        }
        memcpy(sums, total, sizeof total);
    }
    memcpy(each, &odd, sizeof each);
    for (int i = 0; i < LANES; i++) any |= each[i];
    return (int)(any >> 31);
}

#undef LANES
#undef VECTORS
#else
TARGET static int NAME(i2s_floats_sums)(int kind, const uint8_t *words, int64_t runs, int64_t rows, float *sums) {
    const int step = kind == I2S_WORDS_F32 ? 4 : 2;
    uint32_t odd = 0;
    for (int64_t run = 0; run < runs; run++, sums += I2S_COLUMNS) {
        memset(sums, 0, I2S_COLUMNS * sizeof *sums);
        for (int64_t row = 0; row < rows; row++, words += step * I2S_COLUMNS) {
            float values[I2S_COLUMNS];
            NAME(i2s_floats_widen)(kind, words, I2S_COLUMNS, values);
            for (int i = 0; i < I2S_COLUMNS; i++) {
                uint32_t bits;
                float size;
                memcpy(&bits, values + i, 4);
                bits &= 0x7fffffffu;
                odd |= bits + 0x00800000u;
                memcpy(&size, &bits, 4);
                sums[i] += size;
            }
        }
    }
    return (int)(odd >> 31);
}
#endif

#undef NAME
#undef TARGET
#undef BYTES
#undef F16C
