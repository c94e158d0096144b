/* Products of ternary matrices with activation codes, straight on packed bytes. They need no Python.
 *
 * A matrix is rows of blocks: 32 bytes hold 128 codes, byte j of them those of the columns j, 32 + j, 64 + j and 96 + j, the
 * first on top (clause 5.5, interleave-128). What is computed is the sum of code times activation code, with codes as the
 * numbers 0 to 3 and activation codes from -128 to 127: exactly, in every set of kernels.
 *
 * `i2s_matmul_sets` has one row for each instruction set that this compiler can target, slowest first. A set arranges the
 * activation codes of a tile of tokens as it reads them, and multiplies rows with them: four tokens share what is unpacked in
 * registers, or many tokens share panels (matmul_panel.h, matmul_amx.h, matmul_panel_neon.h). i2s_matmul_run does a whole
 * product in parts that do not depend on who does them: rows of the matrix, tile by tile of tokens.
 */
#ifndef I2S_MATMUL_H
#define I2S_MATMUL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "matmul_pool.h"

#define I2S_MM_COLUMNS 128 /* columns in a block */
#define I2S_MM_BYTES 32    /* bytes in a block */
#define I2S_MM_TILE 4      /* tokens that share unpacked weights */
#define I2S_MM_PANEL (1 << 18) /* bytes of weights that all tokens use before the next ones: they stay in cache */
#define I2S_MM_PARTS(tokens) ((tokens) == 1 ? 2 : 8) /* maximum number of parts for each thread */
#define I2S_MM_PART_BLOCKS (1 << 13) /* minimum blocks times tokens in a part, if there are more parts than threads */
#define I2S_MM_OWN 128         /* most blocks of one token that every part arranges for itself */
#define I2S_MM_LOOKED (1 << 13) /* bytes of weights that are looked at before they are multiplied: both in the first cache */
#define I2S_MM_LOOKED_ROWS 384  /* with many tokens at least so many rows: a multiple of the rows in every panel */
#define I2S_MM_LONGEST 8192    /* blocks in a row up to which no lane overflows in any set; plain C processes longer rows */

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define I2S_MM_X86 1
#endif

#include "matmul_peak.h"
#include "matmul_portable.h"
#include "matmul_reuse.h"
#if defined(I2S_MM_X86)
#include "matmul_amx.h"
#include "matmul_panel.h"
#include "matmul_x86.h"
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#define I2S_MM_NEON 1
#include "matmul_panel_neon.h"
#endif

/* A kernel for many tokens, which have their own tiles and arrangement. The number of rows should be a multiple of
 * `rows`. */
typedef struct i2s_matmul_many_kernel {
    const struct i2s_matmul_many_kernel *fewer; /* a kernel for fewer tokens, or NULL */
    int64_t (*from)(void); /* number of tokens from which it is used */
    int64_t *forced;       /* the same, set by tests and benchmarks; -1 leaves it to the processor */
    int tokens, rows;
    void (*arrange)(const int8_t *codes, int64_t blocks, int tokens, int8_t *arranged);
    void (*product)(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *arranged, int64_t tokens, int32_t *out,
                    int64_t stride);
} i2s_matmul_many_kernel;

typedef struct {
    const char *name;
    int (*available)(void);
    int step; /* arranged activations are multiples of this many blocks */
    void (*arrange)(const int8_t *codes, int64_t blocks, int tokens, int8_t *arranged);
    void (*product)(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *arranged, int tokens, int32_t *out,
                    int64_t stride);
    /* One token with weights from memory, and its codes as they are; NULL if `product` is as fast. */
    void (*stream)(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *codes, int32_t *out);
    void (*quantize)(const float *x, int64_t columns, int8_t *codes, float *scale, int32_t *sum);
    void (*epilogue)(int32_t *acc, int64_t n, int32_t sum, float scale, float weight_scale);
    int (*unused)(const uint8_t *w, int64_t bytes); /* whether code 3 occurs in whole blocks */
    int64_t (*peak)(int64_t rounds); /* returns the number of multiplications */
    int64_t (*masked)(int64_t rounds, int64_t tokens); /* the same, with masks of weights that this many tokens share */
    const i2s_matmul_many_kernel *many; /* or NULL */
} i2s_matmul_set;

static int i2s_matmul_always(void) { return 1; }

#if defined(I2S_MM_X86)
static const i2s_matmul_many_kernel i2s_matmul_panels = {
    NULL, i2s_panel_from, &i2s_panel_forced, I2S_PANEL_TOKENS, I2S_PANEL_ROWS, i2s_panel_arrange, i2s_panel_product};
#if defined(I2S_KNOWS_AMX)
static const i2s_matmul_many_kernel i2s_matmul_amx_few = {
    NULL, i2s_amx_few_from, &i2s_amx_few_forced, I2S_AMX_TOKENS, 32, i2s_amx_few_arrange, i2s_amx_few_product};
static const i2s_matmul_many_kernel i2s_matmul_amx = {
    &i2s_matmul_amx_few, i2s_amx_from, &i2s_amx_forced, I2S_AMX_TOKENS, 32, i2s_amx_arrange, i2s_amx_product};
#endif
#elif defined(I2S_MM_NEON)
static const i2s_matmul_many_kernel i2s_matmul_panels_dotprod = {
    NULL, i2s_panel_from_dotprod, &i2s_panel_forced, I2S_PANEL_TOKENS, I2S_PANEL_ROWS, i2s_panel_arrange_dotprod,
    i2s_panel_product_dotprod};
#if defined(I2S_KNOWS_I8MM)
static const i2s_matmul_many_kernel i2s_matmul_panels_i8mm = {
    NULL, i2s_panel_from_i8mm, &i2s_panel_forced, I2S_PANEL_TOKENS, I2S_PANEL_ROWS, i2s_panel_arrange_i8mm,
    i2s_panel_product_i8mm};
#endif
#endif

static const i2s_matmul_set i2s_matmul_sets[] = {
    {"portable", i2s_matmul_always, 1, i2s_arrange_portable, i2s_product_portable, NULL, i2s_quantize_portable,
     i2s_epilogue_portable, i2s_unused_portable, i2s_peak_none, i2s_masked_none, NULL},
#if defined(I2S_MM_X86)
    {"avx2", i2s_cpu_avx2, 1, i2s_arrange_avx2, i2s_product_avx2, NULL, i2s_quantize_avx2, i2s_epilogue_avx2, i2s_unused_avx2,
     i2s_peak_avx2, i2s_masked_avx2, NULL},
#if defined(I2S_KNOWS_AVXVNNI)
    {"avxvnni", i2s_cpu_avxvnni, 1, i2s_arrange_avx2, i2s_product_avxvnni, NULL, i2s_quantize_avx2, i2s_epilogue_avx2, i2s_unused_avx2,
     i2s_peak_avxvnni, i2s_masked_avxvnni, NULL},
#endif
    {"avx512vl", i2s_cpu_avx512vnni, 2, i2s_arrange_avx512, i2s_product_avx512vl, i2s_stream_avx512, i2s_quantize_avx512,
     i2s_epilogue_avx512, i2s_unused_avx512, i2s_peak_avx512, i2s_masked_avx512, &i2s_matmul_panels},
    {"avx512", i2s_cpu_avx512vnni, 2, i2s_arrange_avx512, i2s_product_avx512, i2s_stream_avx512, i2s_quantize_avx512,
     i2s_epilogue_avx512, i2s_unused_avx512, i2s_peak_avx512, i2s_masked_avx512, &i2s_matmul_panels},
#if defined(I2S_KNOWS_AMX)
    {"amx", i2s_cpu_amx, 2, i2s_arrange_avx512, i2s_product_avx512, i2s_stream_avx512, i2s_quantize_avx512,
     i2s_epilogue_avx512, i2s_unused_avx512, i2s_peak_amx, i2s_masked_avx512, &i2s_matmul_amx},
#endif
#elif defined(I2S_MM_NEON)
    {"neon", i2s_cpu_neon, 1, i2s_arrange_neon, i2s_product_neon, NULL, i2s_quantize_portable, i2s_epilogue_portable, i2s_unused_portable,
     i2s_peak_neon, i2s_masked_neon, NULL},
    {"dotprod", i2s_cpu_dotprod, 1, i2s_arrange_neon, i2s_product_dotprod, NULL, i2s_quantize_portable,
     i2s_epilogue_portable, i2s_unused_portable, i2s_peak_dotprod, i2s_masked_dotprod, &i2s_matmul_panels_dotprod},
#if defined(I2S_KNOWS_I8MM)
    {"i8mm", i2s_cpu_i8mm, 1, i2s_arrange_i8mm, i2s_product_i8mm, NULL, i2s_quantize_portable, i2s_epilogue_portable, i2s_unused_portable,
     i2s_peak_i8mm, i2s_masked_i8mm, &i2s_matmul_panels_i8mm},
#endif
#endif
};
#define I2S_MATMUL_SETS ((int)(sizeof i2s_matmul_sets / sizeof i2s_matmul_sets[0]))

/* A product: out[t * rows + r]. With `scales`, the output is not the sums but float32, by the epilogue; with `sums` alone
 * these are subtracted, which makes sums of trits of those of codes. */
typedef struct {
    const i2s_matmul_set *set;
    const uint8_t *weights;
    int64_t rows, blocks, tokens;
    const int8_t *codes;
    int8_t *arranged;     /* i2s_matmul_scratch bytes */
    int32_t *out;
    const float *scales;  /* of the tokens, or NULL */
    const int32_t *sums;  /* of the tokens' codes, or NULL */
    float weight_scale;
    int64_t part_rows;    /* rows in a part, a multiple of the unit: parts share no cache line of a token's results */
    int64_t part_tiles;   /* tiles in a part */
    int streams;          /* one token, and weights from memory */
    int look;             /* whether code 3 is looked for */
    i2s_pool_flag unused; /* whether it was found */
} i2s_matmul_job;

/* The kernel for many tokens, if it applies to this product. */
static inline const i2s_matmul_many_kernel *i2s_matmul_many(const i2s_matmul_job *job) {
    const i2s_matmul_many_kernel *many = job->set->many;
    while (many != NULL && job->tokens < many->from()) many = many->fewer;
    return many;
}

static inline int64_t i2s_matmul_tile(const i2s_matmul_job *job) { /* tokens in a tile */
    const i2s_matmul_many_kernel *many = i2s_matmul_many(job);
    return many != NULL ? many->tokens : I2S_MM_TILE;
}

static inline int64_t i2s_matmul_unit(const i2s_matmul_job *job) { /* parts have multiples of this many rows */
    const i2s_matmul_many_kernel *many = i2s_matmul_many(job);
    return many != NULL ? many->rows : 16;
}

static inline int64_t i2s_matmul_tiles(const i2s_matmul_job *job) {
    return (job->tokens + i2s_matmul_tile(job) - 1) / i2s_matmul_tile(job);
}

static inline int64_t i2s_matmul_pitch(const i2s_matmul_job *job) { /* arranged bytes of one token */
    const int step = i2s_matmul_many(job) != NULL ? 1 : job->set->step;
    return (job->blocks + step - 1) / step * step * I2S_MM_COLUMNS;
}

/* Whether every part arranges the codes for itself: those of one token. What one thread arranges for all must get from
 * its cache into those of the others, in each product: 2,560 columns took a tenth of the time of 640 rows. */
static inline int i2s_matmul_alone(const i2s_matmul_job *job) {
    return job->tokens == 1 && job->blocks <= I2S_MM_OWN && i2s_matmul_many(job) == NULL;
}

static inline int64_t i2s_matmul_scratch(const i2s_matmul_job *job) { /* the last tile of many tokens is padded */
    if (i2s_matmul_alone(job)) return 0;
    const int64_t tokens = i2s_matmul_many(job) != NULL ? i2s_matmul_tiles(job) * i2s_matmul_tile(job) : job->tokens;
    return i2s_matmul_pitch(job) * tokens;
}

static inline int i2s_matmul_tokens_of(const i2s_matmul_job *job, int64_t tile) {
    const int64_t most = i2s_matmul_tile(job), left = job->tokens - tile * most;
    return (int)(left < most ? left : most);
}

/* First step, for a tile of tokens: arrange the activation codes for the kernel. */
static void i2s_matmul_arrange(void *of, int64_t tile) {
    const i2s_matmul_job *job = (const i2s_matmul_job *)of;
    const i2s_matmul_many_kernel *many = i2s_matmul_many(job);
    const int64_t first = tile * i2s_matmul_tile(job);
    (many != NULL ? many->arrange : job->set->arrange)(job->codes + first * job->blocks * I2S_MM_COLUMNS, job->blocks,
                                                       i2s_matmul_tokens_of(job, tile),
                                                       job->arranged + first * i2s_matmul_pitch(job));
}

static inline int64_t i2s_matmul_row_parts(const i2s_matmul_job *job) {
    return (job->rows + job->part_rows - 1) / job->part_rows;
}

static inline int64_t i2s_matmul_parts(const i2s_matmul_job *job) {
    return i2s_matmul_row_parts(job) * ((i2s_matmul_tiles(job) + job->part_tiles - 1) / job->part_tiles);
}

/* Rows [first, last) and tiles [tile, end), four tokens at a time; the rows stay in cache for all of them. `arranged` are
 * the codes of the first tile. */
static void i2s_matmul_by_tiles(const i2s_matmul_job *job, int64_t first, int64_t last, int64_t tile, int64_t end,
                                const int8_t *arranged) {
    const int64_t pitch = job->blocks * I2S_MM_BYTES;
    int64_t some = end - tile > 1 ? I2S_MM_PANEL / pitch & ~(int64_t)15 : last - first;
    if (some < 16) some = 16;
    for (int64_t r = first; r < last; r += some) {
        const int64_t rows = r + some < last ? some : last - r;
        for (int64_t i = tile; i < end; i++)
            job->set->product(job->weights + r * pitch, rows, job->blocks,
                              arranged + (i - tile) * I2S_MM_TILE * i2s_matmul_pitch(job), i2s_matmul_tokens_of(job, i),
                              job->out + i * I2S_MM_TILE * job->rows + r, job->rows);
    }
}

/* How many rows are multiplied after each look: few enough that they are read from memory once. */
static inline int64_t i2s_matmul_looked(const i2s_matmul_job *job, int64_t tiles) {
    const int64_t pitch = job->blocks * I2S_MM_BYTES;
    const int64_t unit = i2s_matmul_many(job) != NULL ? I2S_MM_LOOKED_ROWS : 8;
    const int64_t rows = (tiles > 1 ? I2S_MM_PANEL : I2S_MM_LOOKED) / pitch / unit * unit;
    return rows > unit ? rows : unit;
}

/* Second step: the rows and tokens of one part. */
static void i2s_matmul_part(void *of, int64_t part) {
    i2s_matmul_job *job = (i2s_matmul_job *)of;
    const i2s_matmul_many_kernel *many = i2s_matmul_many(job);
    const int64_t across = i2s_matmul_row_parts(job), pitch = job->blocks * I2S_MM_BYTES, size = i2s_matmul_tile(job);
    const int64_t first = part % across * job->part_rows, tile = part / across * job->part_tiles;
    const int64_t last = first + job->part_rows < job->rows ? first + job->part_rows : job->rows;
    const int64_t tiles = i2s_matmul_tiles(job);
    const int64_t end = tile + job->part_tiles < tiles ? tile + job->part_tiles : tiles;
    const int64_t until = end * size < job->tokens ? end * size : job->tokens;
    int8_t memory[I2S_MM_OWN * I2S_MM_COLUMNS + 63], *const own = memory + (-(uintptr_t)memory & 63);
    const int8_t *arranged = own;
    if (!i2s_matmul_alone(job)) arranged = job->arranged + tile * size * i2s_matmul_pitch(job);
    else if (!job->streams) job->set->arrange(job->codes, job->blocks, 1, own);
    const int64_t some = job->look ? i2s_matmul_looked(job, end - tile) : last - first;
    for (int64_t r = first; r < last; r += some) {
        const int64_t rows = last - r < some ? last - r : some;
        const uint8_t *w = job->weights + r * pitch;
        if (job->look && job->set->unused(w, rows * pitch)) job->unused = 1;
        if (job->streams)
            job->set->stream(w, rows, job->blocks, job->codes, job->out + r);
        else if (many != NULL)
            many->product(w, rows, job->blocks, arranged, until - tile * size, job->out + tile * size * job->rows + r,
                          job->rows);
        else
            i2s_matmul_by_tiles(job, r, r + rows, tile, end, arranged);
    }
    for (int64_t t = tile * size; t < until && job->sums != NULL; t++) {
        int32_t *out = job->out + t * job->rows;
        if (job->scales != NULL)
            job->set->epilogue(out + first, last - first, job->sums[t], job->scales[t], job->weight_scale);
        else
            for (int64_t r = first; r < last; r++) out[r] = (int32_t)((uint32_t)out[r] - (uint32_t)job->sums[t]);
    }
}

/* Divide a product into parts that depend only on its shape and the number of threads: more parts than threads if they
 * are large, since a thread that shares its processor takes longer. */
static void i2s_matmul_cut(i2s_matmul_job *job, int64_t threads) {
    const int64_t unit = i2s_matmul_unit(job), tiles = i2s_matmul_tiles(job), lines = (job->rows + unit - 1) / unit;
    const int64_t worth = job->rows * job->blocks / I2S_MM_PART_BLOCKS * job->tokens;
    const int64_t most = threads * I2S_MM_PARTS(job->tokens);
    int64_t parts = worth < threads ? threads : worth < most ? worth : most;
    if (threads == 1) parts = 1;
    const int64_t across = parts < lines ? parts : lines;
    const int64_t down = parts / across < tiles ? parts / across : tiles;
    job->part_rows = (lines + across - 1) / across * unit;
    job->part_tiles = (tiles + down - 1) / down;
}

/* Whether the weights are for one token and come from memory; not those that are looked at, which brings them into cache.
 * Call it once for each product, since it records the read. */
static inline int i2s_matmul_streams(const i2s_matmul_job *job) {
    return job->tokens == 1 && !job->look && job->set->stream != NULL && i2s_matmul_many(job) == NULL &&
           i2s_reuse_far(job->weights, job->rows * job->blocks * I2S_MM_BYTES);
}

/* Compute a product with at most the given number of threads; `arranged` is scratch memory. With `look`, rows are looked at
 * just before they are multiplied, whatever the set: a few KiB, which the kernel then takes from the first cache. A pass of
 * its own would read all from memory again. */
static void i2s_matmul_run(i2s_matmul_job *job, int64_t threads) {
    if (job->rows == 0 || job->tokens == 0) return;
    i2s_matmul_cut(job, threads);
    const int64_t tiles = i2s_matmul_tiles(job);
    job->unused = 0;
    job->streams = i2s_matmul_streams(job);
    if (!job->streams && !i2s_matmul_alone(job))
        i2s_pool_run(i2s_matmul_arrange, job, tiles, job->tokens >= 8 * I2S_MM_TILE ? threads : 1);
    i2s_pool_run(i2s_matmul_part, job, i2s_matmul_parts(job), threads);
}

/* The sums of tokens' codes, which offsets are: sums of weight codes minus these are sums of trits. */
static void i2s_matmul_offsets(const int8_t *codes, int64_t tokens, int64_t columns, int32_t *sums) {
    for (int64_t t = 0; t < tokens; t++) {
        int32_t sum = 0;
        for (int64_t k = 0; k < columns; k++) sum += codes[t * columns + k];
        sums[t] = sum;
    }
}

/* Tokens to quantize. */
typedef struct {
    const i2s_matmul_set *set;
    const float *x;
    int64_t tokens, columns, part; /* tokens in a part */
    int8_t *codes;
    float *scales;
    int32_t *sums;
} i2s_quantize_job;

static void i2s_quantize_part(void *of, int64_t part) {
    const i2s_quantize_job *job = (const i2s_quantize_job *)of;
    const int64_t first = part * job->part, last = first + job->part < job->tokens ? first + job->part : job->tokens;
    for (int64_t t = first; t < last; t++)
        job->set->quantize(job->x + t * job->columns, job->columns, job->codes + t * job->columns, job->scales + t,
                           job->sums + t);
}

static void i2s_quantize_run(i2s_quantize_job *job, int64_t threads) {
    const int64_t worth = job->tokens * job->columns >> 15; /* waking a thread takes a few microseconds, as such a part does */
    if (threads > worth) threads = worth > 0 ? worth : 1;
    job->part = (job->tokens + threads - 1) / threads;
    i2s_pool_run(i2s_quantize_part, job, (job->tokens + job->part - 1) / job->part, threads);
}

/* The probes, each in so many threads: `rounds` of multiplications in every thread, with masks if there are tokens; or
 * all bytes, divided among the threads, so many times. */
static void i2s_probe_run(i2s_probe_job *job, int64_t threads) {
    if (job->peak != NULL) {
        i2s_pool_run(i2s_probe_peak_part, job, threads, threads);
        return;
    }
    job->part = (job->bytes + threads - 1) / threads;
    if (job->repeats == 1 && job->part > I2S_PROBE_PART) job->part = I2S_PROBE_PART;
    if (job->part > 0) i2s_pool_run(i2s_probe_read_part, job, (job->bytes + job->part - 1) / job->part, threads);
}

#endif
