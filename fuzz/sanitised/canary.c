/* Injected faults: a run of the sanitizers counts only if each of these ends the process with a report. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int sound(const uint8_t *p, int64_t n) {
    int sum = 0;
    for (int64_t i = 0; i < n; i++) sum += p[i];
    return sum;
}

/* A kernel that reads four bytes at a time, and so past the end if the size is not a multiple of four. */
int reads_beyond(const uint8_t *p, int64_t n) {
    uint32_t sum = 0, four;
    for (int64_t i = 0; i < n; i += 4) {
        memcpy(&four, p + i, 4);
        sum += four;
    }
    return (int)(sum & 0xFF);
}

int writes_before(const uint8_t *p, int64_t n) {
    uint8_t *made = malloc((size_t)n);
    volatile int64_t at = -1;
    if (made == NULL) return -1;
    memcpy(made, p, (size_t)n);
    made[at] = 1;
    at = made[0];
    free(made);
    return (int)at;
}

int reads_freed(const uint8_t *p, int64_t n) {
    uint8_t *volatile made = malloc((size_t)n);
    if (made == NULL) return -1;
    memcpy(made, p, (size_t)n);
    free(made);
    return made[n - 1];
}

int reads_beyond_stack(const uint8_t *p, int64_t n) {
    uint8_t block[16];
    uint8_t *volatile of = block;
    memset(block, p[0], sizeof block);
    return of[n < 16 ? 16 : n];
}

int shifts_too_far(const uint8_t *p, int64_t n) { return (int)((uint32_t)p[0] << (n + 32)); }

int adds_too_much(const uint8_t *p, int64_t n) { return (int)(INT32_MAX - p[0] % 2) + (int)n; }

int loads_misaligned(const uint8_t *p, int64_t n) { return *(const int32_t *)(((uintptr_t)p | 1) + (n < 0)) & 0xFF; }

int casts_too_much(const uint8_t *p, int64_t n) {
    volatile float much = 1e30f * (float)(p[0] + n + 1);
    return (int32_t)much & 0xFF;
}
