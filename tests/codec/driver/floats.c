/* Runs the passes of floats.h on cases from a file, without Python: `floats CASES [SET]`.
 *
 * The file is "I2SFLOAT", then for each case seven integers of 8 bytes, little-endian: what (0 sums, 1 cut, 2 change), the type
 * of the words, two arguments, the answer, the bytes of source and of result; then those bytes. Arguments are runs and rows;
 * count and least; count and the other type. Each call is made with words at an even and at an odd address, in memory that
 * ends with them, where a sanitizer watches. Where the answer is that a word is no number, the result does not count. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "floats.h"

static unsigned long passed, failed;

static void call(const i2s_floats_set *set, const int64_t *of, const uint8_t *words, const uint8_t *wanted, int shift, long number) {
    uint8_t *memory = malloc((size_t)of[5] + 4), *source = memory + shift, *out = malloc((size_t)of[6] + 4);
    int answer = 0;
    memcpy(source, words, (size_t)of[5]);
    memset(out, 0xA5, (size_t)of[6] + 4);
    if (of[0] == 0) answer = set->sums((int)of[1], source, of[2], of[3], (float *)(void *)out);
    else if (of[0] == 1) set->cut((int)of[1], source, of[2], (uint32_t)of[3], (int8_t *)out);
    else answer = set->change((int)of[1], source, of[2], (int)of[3], out);
    const int wrong = (answer != 0) != (of[4] != 0) || (!answer && memcmp(out, wanted, (size_t)of[6]) != 0)
                      || memcmp(out + of[6], "\xA5\xA5\xA5\xA5", 4) != 0;
    if (wrong) printf("%s, case %ld: wrong\n", set->name, number);
    *(wrong ? &failed : &passed) += 1;
    free(memory);
    free(out);
}

int main(int count, char **word) {
    char magic[8];
    int64_t of[7];
    FILE *file = count > 1 ? fopen(word[1], "rb") : NULL;
    if (file == NULL || fread(magic, 1, 8, file) != 8 || memcmp(magic, "I2SFLOAT", 8) != 0) return 2;
    for (long number = 0; fread(of, 8, 7, file) == 7; number++) {
        uint8_t *words = malloc((size_t)of[5] + 1), *wanted = malloc((size_t)of[6] + 1);
        if (fread(words, 1, (size_t)of[5], file) != (size_t)of[5] || fread(wanted, 1, (size_t)of[6], file) != (size_t)of[6])
            return 2;
        for (int i = 0; i < I2S_FLOATS_SETS; i++)
            if (i2s_floats_sets[i].available() && (count < 3 || strcmp(word[2], i2s_floats_sets[i].name) == 0)) {
                if (number == 0) printf("%s: runs\n", i2s_floats_sets[i].name);
                for (int shift = 0; shift < 4; shift += 3) call(&i2s_floats_sets[i], of, words, wanted, shift, number);
            }
        free(words);
        free(wanted);
    }
    fclose(file);
    printf("%lu passed, %lu failed\n", passed, failed);
    return failed || !passed;
}
