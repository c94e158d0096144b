/* Products of many tokens by tiles (AMX): panels as in matmul_panel.h, multiplied 16 rows by 16 tokens by 64 columns at a time.
 *
 * A vector of a panel is four columns of 16 rows; 16 consecutive vectors are a tile of the second operand. The first
 * operand is 64 activation codes of 16 tokens, in the order of the columns. Two tiles of each make four tiles of sums,
 * of 32 rows by 32 tokens; all columns of a panel are added up in these.
 *
 * Tiles belong to a thread and must be configured first: each product configures and releases them, since a thread that
 * keeps them takes longer to switch.
 *
 * Activations: for each 16 tokens, for every 64 columns, in order, 64 codes of each token; missing tokens are zeros.
 */
#ifndef I2S_MATMUL_AMX_H
#define I2S_MATMUL_AMX_H

#include "matmul_panel.h"

#if defined(I2S_KNOWS_AMX)

#define I2S_AMX_TOKENS 16 /* in a tile of activations */
#define I2S_AMX_ROWS 128  /* in a panel, which takes 432 KiB unpacked */
#define I2S_AMX_TILE 1024 /* bytes */
#define I2S_AMX_LEAST 17  /* tokens from which transposing is worthwhile */
#define I2S_AMX_FEW_LEAST 6 /* tokens from which tiles are worthwhile, with weights as they are unpacked */

#define I2S_MM_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

/* By assembly, without headers that older compilers lack: load tile TO from rows that are PITCH bytes apart, and store
 * it. */
#define I2S_AMX_LOAD(TO, from, PITCH) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #TO : : "r"(from), "r"((int64_t)(PITCH)) : "memory")
#define I2S_AMX_STORE(FROM, to, PITCH) \
    __asm__ volatile("tilestored %%tmm" #FROM ", (%0,%1,1)" : : "r"(to), "r"((int64_t)(PITCH)) : "memory")
#define I2S_AMX_ZERO(TO) __asm__ volatile("tilezero %%tmm" #TO : :)
/* Sums of signed (activations X) times unsigned bytes (weights W). */
#define I2S_AMX_MULTIPLY(SUMS, X, W) __asm__ volatile("tdpbsud %%tmm" #W ", %%tmm" #X ", %%tmm" #SUMS : :)
/* Sums of unsigned (weights W) times signed bytes (activations X): by rows of weights. */
#define I2S_AMX_BY_ROWS(SUMS, W, X) __asm__ volatile("tdpbusd %%tmm" #X ", %%tmm" #W ", %%tmm" #SUMS : :)

/* All eight tiles: 16 rows of 64 bytes. */
static void i2s_amx_begin(void) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } tiles;
    memset(&tiles, 0, sizeof tiles);
    tiles.palette = 1;
    for (int i = 0; i < 8; i++) tiles.bytes[i] = 64, tiles.rows[i] = 16;
    __asm__ volatile("ldtilecfg %0" : : "m"(tiles));
}

static void i2s_amx_end(void) { __asm__ volatile("tilerelease" : :); }

/* The probe: products of tiles, four in a round. */
static int64_t i2s_peak_amx(int64_t rounds) {
    i2s_amx_begin();
    for (int64_t i = 0; i < rounds; i++) {
        I2S_AMX_MULTIPLY(0, 4, 6);
        I2S_AMX_MULTIPLY(1, 4, 7);
        I2S_AMX_MULTIPLY(2, 5, 6);
        I2S_AMX_MULTIPLY(3, 5, 7);
    }
    i2s_amx_end();
    return rounds < 0 ? 0 : rounds * 4 * 16 * 16 * 64;
}

/* Number of tokens from which tiles are used; tests and benchmarks set it. */
static int64_t i2s_amx_forced = -1;

static int64_t i2s_amx_from(void) { return i2s_amx_forced >= 0 ? i2s_amx_forced : I2S_AMX_LEAST; }

I2S_MM_TARGET static void i2s_amx_arrange(const int8_t *codes, int64_t blocks, int tokens, int8_t *arranged) {
    const int64_t columns = blocks * I2S_MM_COLUMNS;
    for (int64_t k = 0; k < columns; k += 64)
        for (int t = 0; t < I2S_AMX_TOKENS; t++, arranged += 64)
            _mm512_storeu_si512(arranged, t < tokens ? _mm512_loadu_si512(codes + t * columns + k) : _mm512_setzero_si512());
}

/* Destination of a tile's sums: the result if the tile is whole, else a separate buffer. */
typedef struct {
    int32_t *sums;
    int64_t pitch; /* bytes */
    int32_t *out;  /* of the existing part, or NULL */
    int64_t tokens, rows;
    int32_t own[16 * 16];
} i2s_amx_place;

static void i2s_amx_find(i2s_amx_place *at, int64_t tokens, int64_t rows, int more, int32_t *out, int64_t stride) {
    at->tokens = tokens < 0 ? 0 : tokens < 16 ? tokens : 16;
    at->rows = rows < 0 ? 0 : rows < 16 ? rows : 16;
    const int whole = at->tokens == 16 && at->rows == 16;
    at->sums = whole ? out : at->own;
    at->pitch = whole ? stride * 4 : 64;
    at->out = whole ? NULL : out;
    if (!whole && more)
        for (int64_t t = 0; t < at->tokens; t++) memcpy(at->own + 16 * t, out + t * stride, (size_t)at->rows * 4);
}

static void i2s_amx_leave(const i2s_amx_place *at, int64_t stride) {
    if (at->out != NULL)
        for (int64_t t = 0; t < at->tokens; t++) memcpy(at->out + t * stride, at->own + 16 * t, (size_t)at->rows * 4);
}

/* Two groups of rows, `other` bytes apart, by two tiles of tokens, `second` bytes apart; a missing group or tile is
 * replaced by the first. `steps` of 64 columns, added to the existing sums with `more`. */
static void i2s_amx_sums(const uint8_t *panel, int64_t other, int64_t pitch, int64_t steps, const int8_t *x, int64_t second,
                         int more, const i2s_amx_place at[4]) {
    if (more) {
        I2S_AMX_LOAD(0, at[0].sums, at[0].pitch);
        I2S_AMX_LOAD(1, at[1].sums, at[1].pitch);
        I2S_AMX_LOAD(2, at[2].sums, at[2].pitch);
        I2S_AMX_LOAD(3, at[3].sums, at[3].pitch);
    } else {
        I2S_AMX_ZERO(0);
        I2S_AMX_ZERO(1);
        I2S_AMX_ZERO(2);
        I2S_AMX_ZERO(3);
    }
    for (int64_t s = 0; s < steps; s++, x += I2S_AMX_TILE, panel += 16 * pitch) {
        I2S_AMX_LOAD(4, x, 64);
        I2S_AMX_LOAD(6, panel, pitch);
        I2S_AMX_MULTIPLY(0, 4, 6);
        I2S_AMX_LOAD(7, panel + other, pitch);
        I2S_AMX_MULTIPLY(1, 4, 7);
        I2S_AMX_LOAD(5, x + second, 64);
        I2S_AMX_MULTIPLY(2, 5, 6);
        I2S_AMX_MULTIPLY(3, 5, 7);
    }
    I2S_AMX_STORE(0, at[0].sums, at[0].pitch);
    I2S_AMX_STORE(1, at[1].sums, at[1].pitch);
    I2S_AMX_STORE(2, at[2].sums, at[2].pitch);
    I2S_AMX_STORE(3, at[3].sums, at[3].pitch);
}

/* All tokens by the rows of a panel, whose pairs of groups lie one after the other. */
static void i2s_amx_panel(const uint8_t *panel, int64_t rows, int64_t some, const int8_t *x, int64_t tile, int64_t tokens,
                          int more, int32_t *out, int64_t stride) {
    const int64_t two = 2 * I2S_AMX_TOKENS;
    for (int64_t t = 0; t < tokens; t += two, x += 2 * tile, out += two * stride)
        for (int64_t r = 0; r < rows; r += 32) {
            const int64_t groups = rows - r > 16 ? 2 : 1;
            i2s_amx_place at[4];
            for (int i = 0; i < 4; i++) {
                const int64_t token = i / 2 * I2S_AMX_TOKENS, row = r + i % 2 * 16;
                i2s_amx_find(&at[i], tokens - t - token, rows - row, more, out + token * stride + row, stride);
            }
            i2s_amx_sums(panel + r * some * I2S_MM_COLUMNS, 64 * (groups - 1), 64 * groups, 2 * some, x,
                         tokens - t > I2S_AMX_TOKENS ? tile : 0, more, at);
            for (int i = 0; i < 4; i++) i2s_amx_leave(&at[i], stride);
        }
}

/* All tokens by some rows. */
static void i2s_amx_product(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *arranged, int64_t tokens,
                            int32_t *out, int64_t stride) {
    static _Thread_local uint8_t memory[I2S_AMX_ROWS * I2S_MM_COLUMNS * I2S_PANEL_BLOCKS + 63];
    uint8_t *const panel = memory + (-(uintptr_t)memory & 63);
    const int64_t pitch = blocks * I2S_MM_BYTES, tile = blocks * I2S_MM_COLUMNS * I2S_AMX_TOKENS;
    const int64_t pieces = (blocks + I2S_PANEL_BLOCKS - 1) / I2S_PANEL_BLOCKS, most = (blocks + pieces - 1) / pieces;
    i2s_amx_begin();
    for (int64_t r = 0; r < rows; r += I2S_AMX_ROWS) {
        const int64_t count = rows - r < I2S_AMX_ROWS ? rows - r : I2S_AMX_ROWS;
        for (int64_t b = 0; b < blocks; b += most) {
            const int64_t some = blocks - b < most ? blocks - b : most;
            for (int64_t g = 0; g < count; g += 16) {
                const int64_t groups = count - g / 32 * 32 > 16 ? 2 : 1;
                i2s_panel_unpack(w + (r + g) * pitch + b * I2S_MM_BYTES, count - g, pitch, some, groups,
                                 panel + g / 32 * 32 * some * I2S_MM_COLUMNS + g % 32 * 4);
            }
            i2s_amx_panel(panel, count, some, arranged + b * I2S_MM_COLUMNS * I2S_AMX_TOKENS, tile, tokens, b > 0, out + r,
                          stride);
        }
    }
    i2s_amx_end();
}

/* ---- Few tokens, which do not justify transposing: weights are the first operand, as they are unpacked. ----
 *
 * The second is four activation codes of each of 16 tokens, for every four columns. Sums come out by rows, and are
 * transposed once for all columns. Two groups of rows by the two halves of a block make four tiles of sums.
 */

static int64_t i2s_amx_few_forced = -1;

static int64_t i2s_amx_few_from(void) { return i2s_amx_few_forced >= 0 ? i2s_amx_few_forced : I2S_AMX_FEW_LEAST; }

I2S_MM_TARGET static void i2s_amx_few_arrange(const int8_t *codes, int64_t blocks, int tokens, int8_t *arranged) {
    const int64_t columns = blocks * I2S_MM_COLUMNS;
    for (int64_t k = 0; k < columns; k += 4, arranged += 64)
        for (int t = 0; t < I2S_AMX_TOKENS; t++)
            if (t < tokens)
                memcpy(arranged + 4 * t, codes + t * columns + k, 4);
            else
                memset(arranged + 4 * t, 0, 4);
}

/* A block of 32 rows: for each 16 of them a tile of its first 64 columns, and one of the others. Rows `next` bytes
 * later are prefetched. */
I2S_MM_TARGET I2S_MM_INLINE void i2s_amx_few_unpack(const uint8_t *const row[32], int64_t at, int64_t next, uint8_t *to) {
    const __m512i three = _mm512_set1_epi8(3);
    const __m512i first = _mm512_inserti64x4(_mm512_set1_epi16(6), _mm256_set1_epi16(4), 1);
    const __m512i other = _mm512_inserti64x4(_mm512_set1_epi16(2), _mm256_set1_epi16(0), 1);
    for (int i = 0; i < 32; i++) {
        const __m512i v = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(row[i] + at)));
        I2S_MM_ASK(row[i] + at, next);
        uint8_t *const place = to + i / 16 * 2 * I2S_AMX_TILE + i % 16 * 64;
        _mm512_store_si512(place, _mm512_and_si512(_mm512_srlv_epi16(v, first), three));
        _mm512_store_si512(place + I2S_AMX_TILE, _mm512_and_si512(_mm512_srlv_epi16(v, other), three));
    }
}

/* Write the sums of 16 rows by 16 tokens, in two parts, so that those of a token are side by side. */
I2S_MM_TARGET static void i2s_amx_few_leave(const int32_t *one, const int32_t *other, __mmask16 rows, int64_t tokens,
                                            int32_t *out, int64_t stride) {
    __m512i v[16], w[16];
    I2S_MM_UNROLL for (int i = 0; i < 16; i++)
        v[i] = _mm512_add_epi32(_mm512_load_si512(one + 16 * i), _mm512_load_si512(other + 16 * i));
    I2S_MM_UNROLL for (int i = 0; i < 16; i += 2) {
        w[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        w[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    I2S_MM_UNROLL for (int i = 0; i < 16; i += 4)
        I2S_MM_UNROLL for (int j = 0; j < 2; j++) {
            v[i + 2 * j] = _mm512_unpacklo_epi64(w[i + j], w[i + 2 + j]);
            v[i + 2 * j + 1] = _mm512_unpackhi_epi64(w[i + j], w[i + 2 + j]);
        }
    /* lane l of v[4 * g + c]: token 4 * l + c of the rows from 4 * g on */
    I2S_MM_UNROLL for (int c = 0; c < 4; c++) {
        const __m512i even = _mm512_shuffle_i32x4(v[c], v[4 + c], 0x88), odd = _mm512_shuffle_i32x4(v[c], v[4 + c], 0xDD);
        const __m512i more_even = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0x88);
        const __m512i more_odd = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0xDD);
        w[c] = _mm512_shuffle_i32x4(even, more_even, 0x88);
        w[4 + c] = _mm512_shuffle_i32x4(odd, more_odd, 0x88);
        w[8 + c] = _mm512_shuffle_i32x4(even, more_even, 0xDD);
        w[12 + c] = _mm512_shuffle_i32x4(odd, more_odd, 0xDD);
    }
    for (int t = 0; t < tokens && t < 16; t++) _mm512_mask_storeu_epi32(out + t * stride, rows, w[t]);
}

I2S_MM_TARGET static void i2s_amx_few_rows(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *x, int64_t tokens,
                                           int32_t *out, int64_t stride) {
    _Alignas(64) uint8_t unpacked[2][4 * I2S_AMX_TILE]; /* a block, and meanwhile the next one */
    _Alignas(64) int32_t sums[4][16 * 16];
    const uint8_t *row[32];
    for (int i = 0; i < 32; i++) row[i] = w + (i < rows ? i : rows - 1) * blocks * I2S_MM_BYTES;
    I2S_AMX_ZERO(0);
    I2S_AMX_ZERO(1);
    I2S_AMX_ZERO(2);
    I2S_AMX_ZERO(3);
    i2s_amx_few_unpack(row, 0, 32 * blocks * I2S_MM_BYTES, unpacked[0]);
    for (int64_t b = 0; b < blocks; b++, x += 2 * I2S_AMX_TILE) {
        const uint8_t *const here = unpacked[b & 1];
        if (b + 1 < blocks) i2s_amx_few_unpack(row, (b + 1) * I2S_MM_BYTES, 32 * blocks * I2S_MM_BYTES, unpacked[~b & 1]);
        I2S_AMX_LOAD(6, x, 64);
        I2S_AMX_LOAD(4, here, 64);
        I2S_AMX_BY_ROWS(0, 4, 6);
        I2S_AMX_LOAD(5, here + 2 * I2S_AMX_TILE, 64);
        I2S_AMX_BY_ROWS(2, 5, 6);
        I2S_AMX_LOAD(7, x + I2S_AMX_TILE, 64);
        I2S_AMX_LOAD(4, here + I2S_AMX_TILE, 64);
        I2S_AMX_BY_ROWS(1, 4, 7);
        I2S_AMX_LOAD(5, here + 3 * I2S_AMX_TILE, 64);
        I2S_AMX_BY_ROWS(3, 5, 7);
    }
    I2S_AMX_STORE(0, sums[0], 64);
    I2S_AMX_STORE(1, sums[1], 64);
    I2S_AMX_STORE(2, sums[2], 64);
    I2S_AMX_STORE(3, sums[3], 64);
    for (int g = 0; g < 2 && 16 * g < rows; g++)
        i2s_amx_few_leave(sums[2 * g], sums[2 * g + 1], (__mmask16)(rows - 16 * g >= 16 ? 0xFFFF : (1 << (rows - 16 * g)) - 1),
                          tokens, out + 16 * g, stride);
}

static void i2s_amx_few_product(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *arranged, int64_t tokens,
                                int32_t *out, int64_t stride) {
    const int64_t pitch = blocks * I2S_MM_BYTES, tile = blocks * I2S_MM_COLUMNS * I2S_AMX_TOKENS;
    i2s_amx_begin();
    for (int64_t r = 0; r < rows; r += 32)
        for (int64_t t = 0; t < tokens; t += I2S_AMX_TOKENS)
            i2s_amx_few_rows(w + r * pitch, rows - r, blocks, arranged + t / I2S_AMX_TOKENS * tile, tokens - t,
                             out + t * stride + r, stride);
    i2s_amx_end();
}

#undef I2S_MM_TARGET
#endif
#endif
