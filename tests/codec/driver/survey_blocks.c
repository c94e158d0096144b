/* Every set of the survey's kernels against plain C, block by block: `survey_blocks`.
 *
 * Blocks of random bytes, of runs, of one code 3 and of one float that is not finite at each position, at unaligned
 * addresses. Prints each set that runs, with its numbers of right and wrong results. */
#include "survey.h"

#include <stdio.h>
#include <stdlib.h>

static unsigned long passed, failed;

static void judge(const i2s_survey_set *set, const uint8_t *p) {
    const i2s_survey_set *plain = &i2s_survey_sets[0];
    static const uint64_t masks[] = {0x7C00, 0x7F80, 0x7F800000u, 0x7FF0000000000000u};
    uint64_t got[8] = {0}, want[8] = {0};
    int right = set->codes(p, got) == plain->codes(p, want);
    right &= memcmp(got, want, sizeof got) == 0;
    right &= set->words(p, got) == plain->words(p, want) && memcmp(got, want, 32) == 0;
    for (int m = 0; m < 2; m++)
        right &= set->floats_2(p, got, masks[m]) == plain->floats_2(p, want, masks[m]) && memcmp(got, want, 32) == 0;
    right &= set->floats_4(p, got, masks[2]) == plain->floats_4(p, want, masks[2]) && memcmp(got, want, 32) == 0;
    right &= set->floats_8(p, got, masks[3]) == plain->floats_8(p, want, masks[3]) && memcmp(got, want, 32) == 0;
    if (right)
        passed++;
    else
        failed++;
}

int main(void) {
    uint8_t *room = malloc(I2S_BLOCK + 64);
    uint64_t state = 88172645463325252u;
    if (room == NULL) return 2;
    for (int i = 0; i < I2S_SURVEY_SETS; i++) {
        const i2s_survey_set *set = &i2s_survey_sets[i];
        printf("%s: %s\n", set->name, set->available() ? "runs" : "this processor cannot");
        if (!set->available()) continue;
        for (int round = 0; round < 200; round++) {
            uint8_t *p = room + round % 33;
            for (int k = 0; k < I2S_BLOCK; k++) {
                state ^= state << 13, state ^= state >> 7, state ^= state << 17;
                p[k] = round % 4 == 0 ? 0xFF : round % 4 == 1 ? (uint8_t)(state >> 32) & 0xAA : (uint8_t)(state >> 32);
            }
            judge(set, p);
            memset(p + 37 * (round % 60), round, I2S_LEAST_RUN + round);
            judge(set, p);
        }
        for (int at = 0; at + 8 <= I2S_BLOCK; at++) {
            uint8_t *p = room + 1;
            memset(p, 0, I2S_BLOCK);
            p[at] = (uint8_t)(3 << at % 4 * 2);
            judge(set, p);
            const uint64_t infinite = at % 8 == 0 ? 0x7FF0000000000000u : at % 4 == 0 ? 0x7F800000u : 0x7C00u;
            memcpy(p + at, &infinite, 8);
            judge(set, p);
        }
    }
    free(room);
    printf("%lu passed, %lu failed\n", passed, failed);
    return failed != 0;
}
