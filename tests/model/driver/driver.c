/* Runs the kernels of BitLinear on cases from a file, without Python: `driver CASES [SET]`.
 *
 * A case is one call with what it must give. Every kernel set that is compiled in and that the processor can run (or only
 * SET) makes each call several times: with one and with more threads, at several addresses, and with all memory ending
 * where the process may touch no more, or beginning there. Without SET a child process has to get right what its parent did.
 *
 * The file is "I2SMATML", then for each case ten integers of 8 bytes, little-endian: what, four arguments, the bytes of
 * two sources and three results; then those bytes. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "matmul.h"
#include "../../pages.h"

/* Arguments and contents, by what is called:
 *   product    rows, blocks, tokens; weights, codes -> sums
 *   look       the same, with a look for code 3 -> sums of trits, whether it was found
 *   linear     rows, blocks, tokens, bits of the weights' scale; weights, and for all tokens codes, scales, sums -> floats
 *   quantize   tokens, columns; floats -> codes, scales, sums */
enum { PRODUCT, LINEAR, QUANTIZE, LOOK, WHATS };
static const char *const NAMES[WHATS] = {"product", "linear", "quantize", "look"};

enum { ARGUMENTS = 4, SOURCES = 2, RESULTS = 3, WORDS = 1 + ARGUMENTS + SOURCES + RESULTS };

typedef struct {
    int64_t what, arg[ARGUMENTS], bytes[SOURCES + RESULTS];
    uint8_t *content[SOURCES + RESULTS];
} test_case;

/* Offset of memory after the first accessible byte; AT_END: it ends with the last. */
enum { AT_END = -1 };
static const int PLACES[] = {0, 32, 1, AT_END};
enum { N_PLACES = sizeof PLACES / sizeof PLACES[0] };
static const int THREADS[] = {1, 2, 5};
enum { N_THREADS = sizeof THREADS / sizeof THREADS[0] };

static unsigned long passed, failed;

static void give_up(const char *why) {
    fprintf(stderr, "driver: %s\n", why);
    exit(2);
}

typedef struct {
    uint8_t *whole, *start;
    size_t mapped;
} memory;

/* Bytes between two inaccessible pages. `unit`: alignment of their start. */
static memory obtain(int64_t bytes, int place, int unit) {
    const size_t page = page_size();
    const size_t inner = ((size_t)bytes + 64 + page - 1) / page * page;
    memory m = {open_pages(inner + 2 * page), NULL, inner + 2 * page};
    if (m.whole == NULL || !close_pages(m.whole, page) || !close_pages(m.whole + page + inner, page)) give_up("no memory");
    memset(m.whole + page, 0xA5, inner);
    size_t at = place == AT_END ? inner - (size_t)bytes : (size_t)place;
    m.start = m.whole + page + at / (size_t)unit * (size_t)unit;
    return m;
}

static memory filled(const uint8_t *content, int64_t bytes, int place, int unit) {
    memory m = obtain(bytes, place, unit);
    memcpy(m.start, content, (size_t)bytes);
    return m;
}

static void let_go(memory m) { release_pages(m.whole, m.mapped); }

static void judge(const test_case *c, const char *set, size_t number, memory *results, int count) {
    int right = 1;
    for (int i = 0; i < count; i++) {
        right &= memcmp(results[i].start, c->content[SOURCES + i], (size_t)c->bytes[SOURCES + i]) == 0;
        let_go(results[i]);
    }
    if (right) {
        passed++;
    } else {
        failed++;
        printf("%s %s, case %zu: the result is wrong\n", set, NAMES[c->what], number);
    }
}

static void multiply_as(const test_case *c, const i2s_matmul_set *set, size_t number, int place, int threads) {
    const int64_t tokens = c->arg[2], codes_bytes = tokens * c->arg[1] * I2S_MM_COLUMNS;
    memory weights = filled(c->content[0], c->bytes[0], place, 1);
    memory codes = filled(c->content[1], codes_bytes, place, 1);
    memory results[2] = {obtain(c->bytes[SOURCES], place, 4), {0}}, out = results[0];
    i2s_matmul_job job = {.set = set, .weights = weights.start, .rows = c->arg[0], .blocks = c->arg[1], .tokens = tokens,
                          .codes = (const int8_t *)codes.start, .out = (int32_t *)(void *)out.start,
                          .look = c->what == LOOK};
    float *scales = NULL;
    int32_t *sums = NULL;
    if (c->what == LINEAR) {
        scales = malloc((size_t)tokens * 4 + 1);
        sums = malloc((size_t)tokens * 4 + 1);
        memcpy(scales, c->content[1] + codes_bytes, (size_t)tokens * 4);
        memcpy(sums, c->content[1] + codes_bytes + tokens * 4, (size_t)tokens * 4);
        job.scales = scales;
        job.sums = sums;
        memcpy(&job.weight_scale, &c->arg[3], 4);
    }
    if (c->what == LOOK) {
        sums = malloc((size_t)tokens * 4 + 1);
        i2s_matmul_offsets(job.codes, tokens, c->arg[1] * I2S_MM_COLUMNS, sums);
        job.sums = sums;
    }
    memory scratch = obtain(i2s_matmul_scratch(&job), AT_END, 1);
    job.arranged = (int8_t *)scratch.start;
    i2s_matmul_run(&job, threads);
    if (c->what == PRODUCT) {  /* the second time the weights are known to be in cache, which may select another kernel */
        const int right = memcmp(out.start, c->content[SOURCES], (size_t)c->bytes[SOURCES]) == 0;
        memset(out.start, 0, (size_t)c->bytes[SOURCES]);
        if (right) i2s_matmul_run(&job, threads);
    }
    if (c->what == LOOK) {
        const int32_t found = job.unused;
        results[1] = filled((const uint8_t *)&found, 4, 0, 4);
    }
    judge(c, set->name, number, results, c->what == LOOK ? 2 : 1);
    let_go(weights);
    let_go(codes);
    let_go(scratch);
    free(scales);
    free(sums);
}

/* Every case with the kernels for many tokens too, if there are any, whatever this processor would choose. */
static void multiply(const test_case *c, const i2s_matmul_set *set, size_t number, int place, int threads) {
    for (const i2s_matmul_many_kernel *many = set->many; many != NULL; many = many->fewer) {
        *many->forced = 1;
        multiply_as(c, set, number, place, threads);
        *many->forced = INT64_MAX;
    }
    multiply_as(c, set, number, place, threads);
}

static void quantize(const test_case *c, const i2s_matmul_set *set, size_t number, int place, int threads) {
    memory x = filled(c->content[0], c->bytes[0], place, 4);
    memory results[RESULTS];
    for (int i = 0; i < RESULTS; i++) results[i] = obtain(c->bytes[SOURCES + i], place, i ? 4 : 1);
    i2s_quantize_job job = {.set = set, .x = (const float *)(void *)x.start, .tokens = c->arg[0], .columns = c->arg[1],
                            .codes = (int8_t *)results[0].start, .scales = (float *)(void *)results[1].start,
                            .sums = (int32_t *)(void *)results[2].start};
    i2s_quantize_run(&job, threads);
    judge(c, set->name, number, results, RESULTS);
    let_go(x);
}

static uint8_t *read_all(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) give_up("cannot open the file of cases");
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*size + 1);
    if (bytes == NULL || fread(bytes, 1, *size, file) != *size) give_up("cannot read the file of cases");
    fclose(file);
    return bytes;
}

/* All cases with one set. */
static void run(const i2s_matmul_set *set, const uint8_t *bytes, size_t size) {
    size_t at = 8;
    for (size_t number = 0; at < size; number++) {
        test_case c;
        if (size - at < WORDS * 8) give_up("the file of cases ends within a case");
        memcpy(&c, bytes + at, WORDS * 8);
        at += WORDS * 8;
        if (c.what < 0 || c.what >= WHATS) give_up("a case asks for what there is not");
        for (int i = 0; i < SOURCES + RESULTS; i++) {
            if (c.bytes[i] < 0 || (size_t)c.bytes[i] > size - at) give_up("the file of cases ends within a case");
            c.content[i] = (uint8_t *)(uintptr_t)(bytes + at);
            at += (size_t)c.bytes[i];
        }
        for (int p = 0; p < N_PLACES; p++)
            for (int t = 0; t < N_THREADS; t++)
                (c.what == QUANTIZE ? quantize : multiply)(&c, set, number, PLACES[p], THREADS[t]);
    }
}

#if !defined(_WIN32)
/* A forked child has none of the threads, and must work without them. */
static void in_a_child(const uint8_t *bytes, size_t size) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const unsigned long before = failed;
        run(&i2s_matmul_sets[0], bytes, size);
        _exit(failed != before);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        failed++;
        printf("in a child: the results are wrong\n");
    }
}
#endif

int main(int argc, char **argv) {
    size_t size;
    if (argc < 2 || argc > 3) give_up("usage: driver CASES [SET]");
    uint8_t *bytes = read_all(argv[1], &size);
    if (size < 8 || memcmp(bytes, "I2SMATML", 8) != 0) give_up("this is no file of cases");
    int found = 0;
    for (int i = 0; i < I2S_MATMUL_SETS; i++) {
        const i2s_matmul_set *set = &i2s_matmul_sets[i];
        if (argc == 3 && strcmp(argv[2], set->name) != 0) continue;
        found = 1;
        if (set->available()) {
            run(set, bytes, size);
            i2s_probe_job probe = {.peak = set->peak, .masked = set->masked, .rounds = 1000, .data = bytes,
                                   .bytes = (int64_t)size, .repeats = 1, .ahead = 4096};
            i2s_probe_run(&probe, 2);
            probe.tokens = 3;
            i2s_probe_run(&probe, 2);
            probe.peak = NULL;
            i2s_probe_run(&probe, 3);
        }
        printf("%s: %s\n", set->name, set->available() ? "runs" : "this processor cannot");
    }
    if (!found) give_up("there is no such set");

#if !defined(_WIN32)
    if (argc == 2) in_a_child(bytes, size);
#endif
    free(bytes);
    printf("%lu passed, %lu failed\n", passed, failed);
    return failed != 0;
}
