/* Runs the payload kernels on cases from a file, without Python: `driver CASES [SET]`.
 *
 * A case is one call of one kernel with what it must give. Every kernel set that is compiled in and that the processor can
 * run (or only SET) makes each call several times: at other addresses, with and without streaming stores, in memory from
 * the allocator (where a sanitizer watches) and in memory that ends where the process may touch no more.
 *
 * The file is "I2SCASES", then for each case eleven integers of 8 bytes, little-endian: what, seven arguments, the answer,
 * the bytes of source and of result; then those bytes. What a kernel is to leave alone in a result is FILL. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "../../pages.h"

/* Arguments, by what is called:
 *   unpack, pack       blocks, group, lsb, map           (pack answers 1 where a byte is no trit; then no result counts)
 *   floats             blocks, group, lsb, map, bits of the scale
 *   blocks             blocks, from, to, remap
 *   to_rows, of_rows   first, last, cols, step, lsb, kind, remap
 *   scan               code                              (answers whether it occurs)
 *   histogram                                            (the result is four counts of 8 bytes)
 * remap is -1, or the bits of its eight coefficients, the first in the lowest bit. */
enum { UNPACK, PACK, FLOATS, BLOCKS, TO_ROWS, OF_ROWS, SCAN, HISTOGRAM, WHATS };
static const char *const NAMES[WHATS] = {"unpack", "pack", "floats", "blocks", "to_rows", "of_rows", "scan", "histogram"};

enum { ARGUMENTS = 7, FILL = 0xA5, MARGIN = 64 };

typedef struct {
    int64_t what, arg[ARGUMENTS], answer, source_bytes, result_bytes;
    uint8_t *source, *result;
} test_case;
enum { WORDS = 4 + ARGUMENTS };

/* Offsets of source and result in a fresh piece of memory; AT_END: they end with it. */
enum { AT_END = -1 };
static const int PLACES[][2] = {{0, 0}, {16, 48}, {1, 0}, {3, 32}, {8, 4}, {31, 12}, {AT_END, AT_END}};
enum { N_PLACES = sizeof PLACES / sizeof PLACES[0] };

static unsigned long passed, failed;

static void give_up(const char *why) {
    fprintf(stderr, "driver: %s\n", why);
    exit(2);
}

/* --- memory with watched surroundings -------------------------------------------------------------------------------
 * */

typedef struct {
    uint8_t *whole, *start; /* the allocation, and the requested bytes, at least MARGIN later */
    size_t mapped;          /* size of the allocation, if it is of pages */
} memory;

/* From the allocator, at a multiple of 64. */
static uint8_t *aligned(size_t bytes) {
#if defined(_WIN32)
    return _aligned_malloc(bytes, 64);
#else
    void *at;
    return posix_memalign(&at, 64, bytes) == 0 ? at : NULL;
#endif
}

static void free_aligned(uint8_t *at) {
#if defined(_WIN32)
    _aligned_free(at);
#else
    free(at);
#endif
}

/* `bytes` bytes that begin `offset` bytes into a fresh piece, or end at its end. All of it is FILL. */
static memory obtain(size_t bytes, int offset) {
    const size_t lead = MARGIN + (offset == AT_END ? 0 : (size_t)offset);
    memory m = {NULL, NULL, 0};
    if (offset == AT_END) {
        const size_t page = page_size(), room = (lead + bytes + page - 1) / page * page;
        m.whole = open_pages(room + page);
        if (m.whole == NULL || !close_pages(m.whole + room, page)) give_up("no memory");
        m.mapped = room + page;
        m.start = m.whole + room - bytes;
        memset(m.whole, FILL, room);
    } else {
        m.whole = aligned(lead + bytes);
        if (m.whole == NULL) give_up("no memory");
        m.start = m.whole + lead;
        memset(m.whole, FILL, lead + bytes);
    }
    return m;
}

static void release(memory m) {
    if (m.mapped) release_pages(m.whole, m.mapped);
    else free_aligned(m.whole);
}

static int margin_kept(memory m) {
    int i;
    for (i = 1; i <= MARGIN; i++)
        if (m.start[-i] != FILL) return 0;
    return 1;
}

/* --- one call and its errors -----------------------------------------------------------------------------------------
 * */

static const uint8_t *remap_of(int64_t bits, uint8_t coefficients[8]) {
    int i;
    if (bits < 0) return NULL;
    for (i = 0; i < 8; i++) coefficients[i] = (bits >> i) & 1 ? 0x55 : 0;
    return coefficients;
}

static int call(const i2s_kernel_set *set, const test_case *c, const uint8_t *src, uint8_t *dst, int stream) {
    const int64_t *a = c->arg;
    uint8_t coefficients[8];
    uint64_t counts[4];
    uint32_t bits = (uint32_t)a[4];
    float scale;
    int i;
    switch (c->what) {
    case UNPACK: set->unpack(src, a[0], a[1], (int)a[2], (int)a[3], dst, stream); return 0;
    case PACK: return set->pack(src, a[0], a[1], (int)a[2], (int)a[3], dst, stream) != 0;
    case FLOATS:
        memcpy(&scale, &bits, 4);
        set->floats(src, a[0], a[1], (int)a[2], (int)a[3], scale, (float *)(void *)dst, stream);
        return 0;
    case BLOCKS: set->blocks(src, a[0], (int)a[1], (int)a[2], remap_of(a[3], coefficients), dst, stream); return 0;
    case TO_ROWS:
        set->to_rows(src, a[0], a[1], a[2], a[3], (int)a[4], (int)a[5], remap_of(a[6], coefficients), dst, stream);
        return 0;
    case OF_ROWS:
        set->of_rows(src, a[0], a[1], a[2], a[3], (int)a[4], (int)a[5], remap_of(a[6], coefficients), dst, stream);
        return 0;
    case SCAN: return set->scan(src, c->source_bytes, (int)a[0]) != 0;
    default:
        set->histogram(src, c->source_bytes, counts);
        for (i = 0; i < 32; i++) dst[i] = (uint8_t)(counts[i / 8] >> (i % 8 * 8));
        return 0;
    }
}

/* Floats are equal if their bits are; infinity times 0 may be any NaN, because processors differ. */
static int same_floats(const uint8_t *got, const uint8_t *want, int64_t bytes, uint32_t scale) {
    const int infinite = (scale & 0x7FFFFFFFu) == 0x7F800000u;
    int64_t i;
    for (i = 0; i < bytes; i += 4) {
        uint32_t x, y;
        memcpy(&x, got + i, 4);
        memcpy(&y, want + i, 4);
        if (x == y) continue;
        if (!infinite || (x & 0x7FFFFFFFu) <= 0x7F800000u || (y & 0x7FFFFFFFu) <= 0x7F800000u) return 0;
    }
    return 1;
}

static const char *wrong(const i2s_kernel_set *set, const test_case *c, const int place[2], int stream) {
    memory src = obtain((size_t)c->source_bytes, place[0]), dst = obtain((size_t)c->result_bytes, place[1]);
    const char *why = NULL;
    memcpy(src.start, c->source, (size_t)c->source_bytes);
    if (call(set, c, src.start, dst.start, stream) != c->answer) why = "the answer";
    else if (c->what == FLOATS) {
        if (!same_floats(dst.start, c->result, c->result_bytes, (uint32_t)c->arg[4])) why = "the result";
    } else if (!(c->what == PACK && c->answer) && memcmp(dst.start, c->result, (size_t)c->result_bytes) != 0) {
        why = "the result";
    }
    if (memcmp(src.start, c->source, (size_t)c->source_bytes) != 0) why = "the source";
    if (!margin_kept(dst)) why = "what is before the result";
    release(src);
    release(dst);
    return why;
}

/* A line for the first failure of a set in a case, for at most LINES of them. */
static void run(const i2s_kernel_set *set, const test_case *c, long number) {
    enum { LINES = 20 };
    static int lines;
    int p, stream, i, told = 0;
    for (p = 0; p < N_PLACES; p++)
        for (stream = 0; stream < (c->what < SCAN ? 2 : 1); stream++) {
            const char *why = wrong(set, c, PLACES[p], stream);
            if (why == NULL) {
                passed++;
                continue;
            }
            failed++;
            if (told++ || lines++ >= LINES) continue;
            printf("%s %s, case %ld: %s is wrong at %d, %d%s; arguments", set->name, NAMES[c->what], number, why,
                   PLACES[p][0], PLACES[p][1], stream ? ", streaming" : "");
            for (i = 0; i < ARGUMENTS; i++) printf(" %lld", (long long)c->arg[i]);
            printf("\n");
        }
}

/* --- the file ------------------------------------------------------------------------------------------------------- */

static int64_t integer(const uint8_t *p) {
    uint64_t v = 0;
    int i;
    for (i = 7; i >= 0; i--) v = v << 8 | p[i];
    return (int64_t)v;
}

static uint8_t *bytes_of(FILE *file, int64_t n) {
    uint8_t *bytes;
    if (n < 0 || n > 1 << 28) give_up("a case is too large");
    bytes = malloc((size_t)n + 1);
    if (bytes == NULL || fread(bytes, 1, (size_t)n, file) != (size_t)n) give_up("the file ends too soon");
    return bytes;
}

static int next(FILE *file, test_case *c) {
    uint8_t words[8 * WORDS];
    const size_t got = fread(words, 1, sizeof words, file);
    int i;
    if (got == 0) return 0;
    if (got != sizeof words) give_up("the file ends too soon");
    c->what = integer(words);
    for (i = 0; i < ARGUMENTS; i++) c->arg[i] = integer(words + 8 * (1 + i));
    c->answer = integer(words + 8 * (1 + ARGUMENTS));
    c->source_bytes = integer(words + 8 * (2 + ARGUMENTS));
    c->result_bytes = integer(words + 8 * (3 + ARGUMENTS));
    if (c->what < 0 || c->what >= WHATS) give_up("a case of no known kind");
    c->source = bytes_of(file, c->source_bytes);
    c->result = bytes_of(file, c->result_bytes);
    return 1;
}

int main(int count, char **words) {
    const char *only = count > 2 ? words[2] : NULL;
    FILE *file = count > 1 ? fopen(words[1], "rb") : NULL;
    char magic[8];
    test_case c;
    long number = 0;
    int s, sets = 0;
    if (file == NULL || fread(magic, 1, 8, file) != 8 || memcmp(magic, "I2SCASES", 8) != 0) give_up("usage: driver CASES [SET]");
    for (s = 0; s < I2S_KERNEL_SETS; s++) {
        const int runs = i2s_kernels[s].available() && (only == NULL || strcmp(only, i2s_kernels[s].name) == 0);
        printf("%s: %s\n", i2s_kernels[s].name, runs ? "runs" : "left out");
        sets += runs;
    }
    if (sets == 0) give_up("no such kernel set here");
    for (; next(file, &c); number++) {
        for (s = 0; s < I2S_KERNEL_SETS; s++)
            if (i2s_kernels[s].available() && (only == NULL || strcmp(only, i2s_kernels[s].name) == 0)) run(&i2s_kernels[s], &c, number);
        free(c.source);
        free(c.result);
    }
    fclose(file);
    printf("%ld cases, %d kernel sets\n%lu passed, %lu failed\n", number, sets, passed, failed);
    return failed != 0;
}
