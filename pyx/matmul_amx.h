/* Products of many tokens by tiles (AMX): panels as in matmul_panel.h, multiplied 16 rows by 16 tokens by 64 columns at a time.
 *
 * A vector of a panel is four columns of 16 rows, and 16 of them, one after the other, are what the processor calls a tile of
 * the second operand. The first is 64 activation codes of 16 tokens, in the order of the columns. Two tiles of each make four
 * tiles of sums, of 32 rows by 32 tokens; all that there is of the columns in a panel is added up in these.
 *
 * Tiles are what a thread has, and there are none before they are configured: each product configures them and gives them back,
 * since a thread that keeps them is slower to switch.
 *
 * Activations: for each 16 tokens, for every 64 columns, in order, 64 codes of each token; of tokens that are not there zeros.
 */
#ifndef I2S_MATMUL_AMX_H
#define I2S_MATMUL_AMX_H

#include "matmul_panel.h"

#if defined(I2S_KNOWS_AMX)

#define I2S_AMX_TOKENS 16 /* in a tile of activations */
#define I2S_AMX_ROWS 128  /* in a panel, which takes 432 KiB unpacked */
#define I2S_AMX_TILE 1024 /* bytes */
#define I2S_AMX_LEAST 12  /* tokens from which on unpacking pays */

#define I2S_MM_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

/* By assembly, which takes no headers that older compilers lack: tile TO from rows that lie PITCH bytes apart, and back. */
#define I2S_AMX_LOAD(TO, from, PITCH) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #TO : : "r"(from), "r"((int64_t)(PITCH)) : "memory")
#define I2S_AMX_STORE(FROM, to, PITCH) \
    __asm__ volatile("tilestored %%tmm" #FROM ", (%0,%1,1)" : : "r"(to), "r"((int64_t)(PITCH)) : "memory")
#define I2S_AMX_ZERO(TO) __asm__ volatile("tilezero %%tmm" #TO : :)
/* Sums of signed (activations X) times unsigned bytes (weights W). */
#define I2S_AMX_MULTIPLY(SUMS, X, W) __asm__ volatile("tdpbsud %%tmm" #W ", %%tmm" #X ", %%tmm" #SUMS : :)

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

/* The probe: products of tiles, of which a round does four. */
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

/* Tokens from which on tiles are used; tests and benchmarks set it. */
static int64_t i2s_amx_forced = -1;

static int64_t i2s_amx_from(void) { return i2s_amx_forced >= 0 ? i2s_amx_forced : I2S_AMX_LEAST; }

I2S_MM_TARGET static void i2s_amx_arrange(const int8_t *codes, int64_t blocks, int tokens, int8_t *arranged) {
    const int64_t columns = blocks * I2S_MM_COLUMNS;
    for (int64_t k = 0; k < columns; k += 64)
        for (int t = 0; t < I2S_AMX_TOKENS; t++, arranged += 64)
            _mm512_storeu_si512(arranged, t < tokens ? _mm512_loadu_si512(codes + t * columns + k) : _mm512_setzero_si512());
}

/* Where the sums of a tile are: in the result where it is whole, else in a place of its own. */
typedef struct {
    int32_t *sums;
    int64_t pitch; /* bytes */
    int32_t *out;  /* of the part that is there, or NULL */
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

/* Two groups of rows, which lie `other` bytes apart, by two tiles of tokens, which lie `second` bytes apart; what is not there
 * may be read twice. `steps` of 64 columns, added to what is there with `more`. */
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

#undef I2S_MM_TARGET
#endif
#endif
