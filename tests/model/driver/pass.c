/* One ternary step of a pass, without Python: which kernel a token takes, and that both give the same sums.
 *
 * Weights that were not read recently stream; recently read ones are multiplied from the cache, as are several tokens.
 * Windows has no such check: all weights count as near there. */
#include <stdio.h>
#include <stdlib.h>

#include "fast.h"

enum { BLOCKS = 3, COLUMNS = BLOCKS * I2S_MM_COLUMNS, ROWS = 33, TOKENS = 2 };

static int streamed;
static const i2s_matmul_set *set;

static void counting(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *codes, int32_t *out) {
    streamed++;
    for (int64_t r = 0; r < rows; r++) { /* the definition */
        int32_t sum = 0;
        for (int64_t b = 0; b < blocks; b++)
            for (int j = 0; j < I2S_MM_COLUMNS; j++)
                sum += (w[(r * blocks + b) * I2S_MM_BYTES + j % 32] >> (6 - 2 * (j / 32)) & 3) *
                       codes[b * I2S_MM_COLUMNS + j];
        out[r] = sum;
    }
}

int main(void) {
    static uint8_t weights[ROWS * BLOCKS * I2S_MM_BYTES];
    static int8_t codes[TOKENS * COLUMNS], arranged[16 * COLUMNS + 4096];
    static float values[TOKENS * ROWS], scales[TOKENS];
    static int32_t sums[TOKENS];
    static float first[TOKENS * ROWS];
    for (int i = 0; i < I2S_MATMUL_SETS; i++)
        if (i2s_matmul_sets[i].available()) set = &i2s_matmul_sets[i];
    i2s_matmul_set counted = *set;
    counted.stream = counting;
    for (size_t i = 0; i < sizeof weights; i++) weights[i] = (uint8_t)(i * 37 + i / 7);
    for (size_t i = 0; i < sizeof codes; i++) codes[i] = (int8_t)(i * 91 + i / 5);
    for (int t = 0; t < TOKENS; t++) {
        scales[t] = 2.0f;
        for (int k = 0; k < COLUMNS; k++) sums[t] += codes[t * COLUMNS + k];
    }
    i2s_matmul_interface shared;
    i2s_matmul_offer(&shared);
    const i2s_matrix matrix = {weights, ROWS, 0, 0.5f};
    const i2s_step step = {.op = I2S_TERNARY, .first = 0, .count = 1, .inner = COLUMNS};
    i2s_pass pass = {.ternary = &counted, .shared = &shared, .threads = 1, .tokens = TOKENS, .matrices = &matrix,
                     .values = values, .codes = codes, .arranged = arranged, .scales = scales, .sums = sums, .step = &step};
    int failed = 0;
    pass.now = 1;
    i2s_ternary(&pass);
    memcpy(first, values, sizeof(float) * ROWS);
    failed += streamed != 1;
    i2s_ternary(&pass);
    failed += streamed != 1;
    failed += memcmp(first, values, sizeof(float) * ROWS) != 0;
    static uint8_t others[sizeof weights];
    memcpy(others, weights, sizeof weights);
    const i2s_matrix fresh = {others, ROWS, 0, 0.5f};
    pass.matrices = &fresh;
    pass.now = TOKENS;
    i2s_ternary(&pass);
    failed += streamed != 1;
    failed += memcmp(first, values, sizeof(float) * ROWS) != 0;
    printf("%s: streamed %d times, %d failed\n", set->name, streamed, failed);
    return failed != 0;
}
