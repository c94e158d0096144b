/* What `claims.py` measures: the loops that an article on inference in plain C describes, and what AVX2 unpacks. Each
   function does its work `times` times, so that the call itself does not count. */

#include <math.h>
#include <stdint.h>

/* Nothing that was computed before is known any more. */
#define AGAIN __asm__ volatile("" : : : "memory")

/* The sums of a token: four weights to a byte, the first in the lowest bits; 1 adds, 2 subtracts, 0 and 3 do nothing. */
static void sums_of(int32_t *sums, const uint8_t *weights, const int8_t *codes, int rows, int columns) {
    for (int row = 0; row < rows; row++) {
        const uint8_t *bytes = weights + (long)row * (columns / 4);
        int32_t sum = 0;
        for (int at = 0; at < columns / 4; at++) {
            for (int k = 0; k < 4; k++) {
                int code = bytes[at] >> (2 * k) & 3;
                if (code == 1)
                    sum += codes[4 * at + k];
                else if (code == 2)
                    sum -= codes[4 * at + k];
            }
        }
        sums[row] = sum;
    }
}

void product(int32_t *sums, const uint8_t *weights, const int8_t *codes, int rows, int columns, long times) {
    for (long time = 0; time < times; time++) {
        AGAIN;
        sums_of(sums, weights, codes, rows, columns);
    }
}

/* The same sums by multiplication, with the trits of every byte in a table of 256 times four. */
void product_by_table(int32_t *sums, const uint8_t *weights, const int8_t *codes, int rows, int columns, long times) {
    static int8_t trits[256][4];
    for (int byte = 0; byte < 256; byte++)
        for (int k = 0; k < 4; k++)
            trits[byte][k] = (int8_t)((byte >> (2 * k) & 3) == 1 ? 1 : (byte >> (2 * k) & 3) == 2 ? -1 : 0);
    for (long time = 0; time < times; time++) {
        AGAIN;
        for (int row = 0; row < rows; row++) {
            const uint8_t *bytes = weights + (long)row * (columns / 4);
            int32_t sum = 0;
            for (int at = 0; at < columns / 4; at++)
                for (int k = 0; k < 4; k++)
                    sum += trits[bytes[at]][k] * codes[4 * at + k];
            sums[row] = sum;
        }
    }
}

/* The codes of a token in two passes. */
static void codes_of(int8_t *codes, const float *values, int n) {
    float largest = 1e-8f;
    for (int i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(values[i]));
    float factor = 127.0f / largest;
    for (int i = 0; i < n; i++)
        codes[i] = (int8_t)fmaxf(-128.0f, fminf(127.0f, roundf(values[i] * factor)));
}

void quantize(int8_t *codes, const float *values, int n, long times) {
    for (long time = 0; time < times; time++) {
        AGAIN;
        codes_of(codes, values, n);
    }
}

#ifdef __AVX2__
#include <immintrin.h>

/* Multiplications that wait for each other take three cycles each on every x86 processor with AVX2: `times` cycles. */
void cycles(long times) {
    uint64_t value = 3;
    for (long time = 0; time < times; time += 24)
        __asm__ volatile("imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0\n"
                         "imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0\n" : "+r"(value));
}

/* A vector that is computed although nothing reads it. */
#define COMPUTED(vector) __asm__ volatile("" : : "x"(vector))

/* The article's order, 8 bytes at a time: a shuffle brings each byte to four lanes, a mask leaves a field of each, and a
   second shuffle looks the trit up. */
void unpack_shuffled(int8_t *trits, const uint8_t *weights, long bytes, int keep, long times) {
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3,
                                            4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7);
    const __m256i fields = _mm256_set1_epi32((int)0xc0300c03), low = _mm256_set1_epi8(15);
    const __m256i signs = _mm256_setr_epi8(0, 1, -1, 0, 1, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0,
                                           0, 1, -1, 0, 1, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0);
    for (long time = 0; time < times; time++) {
        for (long at = 0; at < bytes; at += 8) {
            __m256i part = _mm256_set1_epi64x(*(const int64_t *)(weights + at));
            part = _mm256_and_si256(_mm256_shuffle_epi8(part, spread), fields);
            part = _mm256_and_si256(_mm256_or_si256(part, _mm256_srli_epi16(part, 4)), low);
            part = _mm256_shuffle_epi8(signs, part);
            if (keep)
                _mm256_storeu_si256((__m256i *)(trits + 4 * at), part);
            else
                COMPUTED(part);
        }
    }
}

/* I2_S, 32 bytes at a time: shifts and masks. */
void unpack_blocks(int8_t *trits, const uint8_t *weights, long bytes, int keep, long times) {
    const __m256i mask = _mm256_set1_epi8(3), one = _mm256_set1_epi8(1);
    for (long time = 0; time < times; time++) {
        for (long at = 0; at < bytes; at += 32) {
            __m256i all = _mm256_loadu_si256((const __m256i *)(weights + at));
            __m256i part[4] = {_mm256_srli_epi16(all, 6), _mm256_srli_epi16(all, 4), _mm256_srli_epi16(all, 2), all};
            for (int k = 0; k < 4; k++) {
                part[k] = _mm256_sub_epi8(_mm256_and_si256(part[k], mask), one);
                if (keep)
                    _mm256_storeu_si256((__m256i *)(trits + 4 * at + 32 * k), part[k]);
                else
                    COMPUTED(part[k]);
            }
        }
    }
}
#endif
