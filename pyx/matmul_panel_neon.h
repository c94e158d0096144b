/* Products of many tokens by panels: weights are unpacked once for all of them. NEON with dot products, and with I8MM.
 *
 * The tile kernels unpack a field for every four tokens, with the pipes that multiply: 28 shifts and masks to 64 dot
 * products, or to 32 matrix products. Here 32 rows by up to 27 blocks are unpacked into a panel, which stays in the
 * second-level cache for all tokens; the inner loop has only multiplications and loads.
 *
 * Panel: strips of eight rows. Of a strip, for every four columns, in order, a vector of rows 0 to 3 and one of rows 4 to 7
 * (dot products); or for every eight columns a vector of each two rows (I8MM).
 * Activations: for each tile of eight tokens, for every four columns (or eight), in order, the codes of each token.
 */
#ifndef I2S_MATMUL_PANEL_NEON_H
#define I2S_MATMUL_PANEL_NEON_H

#include "matmul_neon.h"

#define I2S_PANEL_STRIP 8   /* rows: with eight tokens 16 sums, of 32 vector registers */
#define I2S_PANEL_ROWS 32
#define I2S_PANEL_TOKENS 8  /* in a tile */
#define I2S_PANEL_BLOCKS 27 /* most blocks in a panel: it takes 108 KiB unpacked */
#define I2S_PANEL_BLOCK (I2S_PANEL_STRIP * I2S_MM_COLUMNS) /* bytes of a block in a strip */
/* Tokens from which unpacking is worthwhile, by llvm-mca's estimates of cycles: 10 on Neoverse N1
 * for dot products, 7 on V1 for both. */
#define I2S_PANEL_LEAST_DOTPROD 16
#define I2S_PANEL_LEAST_I8MM 8

/* Number of tokens from which panels are used; set by tests and benchmarks, -1 leaves it to the processor. */
static int64_t i2s_panel_forced = -1;

static inline int64_t i2s_panel_from(int64_t least) { return i2s_panel_forced >= 0 ? i2s_panel_forced : least; }
static int64_t i2s_panel_from_dotprod(void) { return i2s_panel_from(I2S_PANEL_LEAST_DOTPROD); }

/* Activation codes of a tile, `unit` columns at a time. Missing tokens are zeros. */
I2S_MM_INLINE void i2s_panel_arrange(const int unit, const int8_t *codes, int64_t blocks, int tokens, int8_t *arranged) {
    const int64_t columns = blocks * I2S_MM_COLUMNS;
    for (int64_t k = 0; k < columns; k += unit, arranged += unit * I2S_PANEL_TOKENS) {
        for (int t = 0; t < tokens; t++) memcpy(arranged + unit * t, codes + t * columns + k, (size_t)unit);
        memset(arranged + unit * tokens, 0, (size_t)(unit * (I2S_PANEL_TOKENS - tokens)));
    }
}

/* Sums of up to four rows and one token; added to the existing sums, unless it is the first piece of the columns. */
I2S_MM_INLINE void i2s_panel_store(int32_t *out, int32x4_t sums, int64_t rows, int more) {
    if (rows >= 4) {
        vst1q_s32(out, more ? vaddq_s32(vld1q_s32(out), sums) : sums);
    } else {
        int32_t four[4];
        vst1q_s32(four, sums);
        for (int64_t r = 0; r < rows; r++) out[r] = more ? (int32_t)((uint32_t)out[r] + (uint32_t)four[r]) : four[r];
    }
}

/* Blocks of eight rows into a strip of a panel. */
typedef void (*i2s_panel_unpacker)(const uint8_t *const row[I2S_PANEL_STRIP], int64_t blocks, uint8_t *to);
/* A strip with the given number of rows by a tile with the given number of tokens. */
typedef void (*i2s_panel_kernel)(const uint8_t *strip, int64_t blocks, const int8_t *x, int more, int tokens, int64_t rows,
                                 int32_t *out, int64_t stride);

/* ---- Dot products: four rows by four columns in a vector, times four columns of a token, which an index picks. ---- */

static void i2s_panel_arrange_dotprod(const int8_t *codes, int64_t blocks, int tokens, int8_t *arranged) {
    i2s_panel_arrange(4, codes, blocks, tokens, arranged);
}

static void i2s_panel_unpack_dotprod(const uint8_t *const row[I2S_PANEL_STRIP], int64_t blocks, uint8_t *to) {
    for (int64_t at = 0; at < blocks * I2S_MM_BYTES; at += 16) {
        /* byte j of a block has the columns j, 32 + j, 64 + j and 96 + j: fields are eight steps apart */
        uint8_t *half = to + at / I2S_MM_BYTES * I2S_PANEL_BLOCK + at % I2S_MM_BYTES * I2S_PANEL_STRIP;
        I2S_MM_UNROLL for (int g = 0; g < 2; g++) {
            uint32x4_t v[4];
            I2S_MM_UNROLL for (int r = 0; r < 4; r++) v[r] = vreinterpretq_u32_u8(vld1q_u8(row[4 * g + r] + at));
            const uint64x2_t a = vreinterpretq_u64_u32(vtrn1q_u32(v[0], v[1]));
            const uint64x2_t b = vreinterpretq_u64_u32(vtrn2q_u32(v[0], v[1]));
            const uint64x2_t c = vreinterpretq_u64_u32(vtrn1q_u32(v[2], v[3]));
            const uint64x2_t d = vreinterpretq_u64_u32(vtrn2q_u32(v[2], v[3]));
            const uint8x16_t four[4] = {
                vreinterpretq_u8_u64(vtrn1q_u64(a, c)), vreinterpretq_u8_u64(vtrn1q_u64(b, d)),
                vreinterpretq_u8_u64(vtrn2q_u64(a, c)), vreinterpretq_u8_u64(vtrn2q_u64(b, d))};
            I2S_MM_UNROLL for (int i = 0; i < 4; i++)
                I2S_MM_UNROLL for (int f = 0; f < 4; f++)
                    vst1q_s8((int8_t *)half + 32 * (8 * f + i) + 16 * g, i2s_field_neon(four[i], f));
        }
    }
}

/* Four tokens from the `first` on: four columns of each lie side by side in x. */
#define I2S_PANEL_FOUR(first)                                                                                           \
    {                                                                                                                   \
        const int8x16_t q = vld1q_s8(x + 4 * (first));                                                                  \
        I2S_MM_UNROLL for (int g = 0; g < 2; g++) {                                                                     \
            I2S_SDOT_LANE(acc[g][(first)], w[g], q, 0);                                                                 \
            I2S_SDOT_LANE(acc[g][(first) + 1], w[g], q, 1);                                                             \
            I2S_SDOT_LANE(acc[g][(first) + 2], w[g], q, 2);                                                             \
            I2S_SDOT_LANE(acc[g][(first) + 3], w[g], q, 3);                                                             \
        }                                                                                                               \
    }

/* C tokens of a tile: four or eight. */
I2S_MM_DOTPROD I2S_MM_INLINE void i2s_panel_tile_dotprod(const int C, const uint8_t *strip, int64_t blocks, const int8_t *x,
                                                         int more, int tokens, int64_t rows, int32_t *out, int64_t stride) {
    int32x4_t acc[2][I2S_PANEL_TOKENS];
    I2S_MM_UNROLL for (int c = 0; c < C; c++)
        I2S_MM_UNROLL for (int g = 0; g < 2; g++) acc[g][c] = vdupq_n_s32(0);
    for (int64_t s = 0; s < blocks * I2S_MM_COLUMNS; s += 4, strip += 32, x += 4 * I2S_PANEL_TOKENS) {
        const int8x16_t w[2] = {vld1q_s8((const int8_t *)strip), vld1q_s8((const int8_t *)strip + 16)};
        I2S_PANEL_FOUR(0)
        if (C > 4) I2S_PANEL_FOUR(4)
    }
    I2S_MM_UNROLL for (int c = 0; c < C; c++)
        if (c < tokens)
            I2S_MM_UNROLL for (int g = 0; g < 2; g++)
                i2s_panel_store(out + c * stride + 4 * g, acc[g][c], rows - 4 * g, more);
}

I2S_MM_DOTPROD static void i2s_panel_dotprod_4(const uint8_t *strip, int64_t blocks, const int8_t *x, int more, int tokens,
                                               int64_t rows, int32_t *out, int64_t stride) {
    i2s_panel_tile_dotprod(4, strip, blocks, x, more, tokens, rows, out, stride);
}
I2S_MM_DOTPROD static void i2s_panel_dotprod_8(const uint8_t *strip, int64_t blocks, const int8_t *x, int more, int tokens,
                                               int64_t rows, int32_t *out, int64_t stride) {
    i2s_panel_tile_dotprod(8, strip, blocks, x, more, tokens, rows, out, stride);
}

/* ---- I8MM: two rows by eight columns in a vector, times eight columns of two tokens. ---- */

#if defined(I2S_KNOWS_I8MM)
static int64_t i2s_panel_from_i8mm(void) { return i2s_panel_from(I2S_PANEL_LEAST_I8MM); }

static void i2s_panel_arrange_i8mm(const int8_t *codes, int64_t blocks, int tokens, int8_t *arranged) {
    i2s_panel_arrange(8, codes, blocks, tokens, arranged);
}

static void i2s_panel_unpack_i8mm(const uint8_t *const row[I2S_PANEL_STRIP], int64_t blocks, uint8_t *to) {
    for (int64_t at = 0; at < blocks * I2S_MM_BYTES; at += 16) {
        uint8_t *half = to + at / I2S_MM_BYTES * I2S_PANEL_BLOCK + at % I2S_MM_BYTES * I2S_PANEL_STRIP;
        I2S_MM_UNROLL for (int p = 0; p < 4; p++) { /* pairs of rows */
            const uint8x16_t a = vld1q_u8(row[2 * p] + at), b = vld1q_u8(row[2 * p + 1] + at);
            const uint8x16_t eight[2] = {i2s_low_halves(a, b), i2s_high_halves(a, b)};
            I2S_MM_UNROLL for (int i = 0; i < 2; i++)
                I2S_MM_UNROLL for (int f = 0; f < 4; f++)
                    vst1q_s8((int8_t *)half + 64 * (4 * f + i) + 16 * p, i2s_field_neon(eight[i], f));
        }
    }
}

I2S_MM_I8MM I2S_MM_INLINE void i2s_panel_tile_i8mm(const int C, const uint8_t *strip, int64_t blocks, const int8_t *x,
                                                   int more, int tokens, int64_t rows, int32_t *out, int64_t stride) {
    int32x4_t acc[4][I2S_PANEL_TOKENS / 2];
    I2S_MM_UNROLL for (int c = 0; c < C / 2; c++)
        I2S_MM_UNROLL for (int p = 0; p < 4; p++) acc[p][c] = vdupq_n_s32(0);
    for (int64_t s = 0; s < blocks * I2S_MM_COLUMNS; s += 8, strip += 64, x += 8 * I2S_PANEL_TOKENS) {
        int8x16_t w[4];
        I2S_MM_UNROLL for (int p = 0; p < 4; p++) w[p] = vld1q_s8((const int8_t *)strip + 16 * p);
        I2S_MM_UNROLL for (int c = 0; c < C / 2; c++) {
            const int8x16_t q = vld1q_s8(x + 16 * c);
            I2S_MM_UNROLL for (int p = 0; p < 4; p++) I2S_SMMLA(acc[p][c], q, w[p]);
        }
    }
    I2S_MM_UNROLL for (int c = 0; c < C; c++)
        if (c < tokens)
            I2S_MM_UNROLL for (int g = 0; g < 2; g++) {
                const int32x4_t a = acc[2 * g][c / 2], b = acc[2 * g + 1][c / 2];
                const int32x4_t sums = c % 2 ? vcombine_s32(vget_high_s32(a), vget_high_s32(b))
                                             : vcombine_s32(vget_low_s32(a), vget_low_s32(b));
                i2s_panel_store(out + c * stride + 4 * g, sums, rows - 4 * g, more);
            }
}

I2S_MM_I8MM static void i2s_panel_i8mm_4(const uint8_t *strip, int64_t blocks, const int8_t *x, int more, int tokens,
                                         int64_t rows, int32_t *out, int64_t stride) {
    i2s_panel_tile_i8mm(4, strip, blocks, x, more, tokens, rows, out, stride);
}
I2S_MM_I8MM static void i2s_panel_i8mm_8(const uint8_t *strip, int64_t blocks, const int8_t *x, int more, int tokens,
                                         int64_t rows, int32_t *out, int64_t stride) {
    i2s_panel_tile_i8mm(8, strip, blocks, x, more, tokens, rows, out, stride);
}
#endif

/* ---- All tokens by some rows. ---- */

/* Prefetches lines of some rows that are needed next, the `part`th of `parts`; past the end of a buffer too. */
static inline void i2s_panel_ask(uintptr_t rows, int64_t count, int64_t pitch, int64_t bytes, int64_t part, int64_t parts) {
    for (int64_t r = count * part / parts; r < count * (part + 1) / parts; r++)
        for (int64_t at = 0; at < bytes + 64; at += 64)
            __builtin_prefetch((const void *)(rows + (uintptr_t)(r * pitch + at)), 0, 2);
}

I2S_MM_INLINE void i2s_panel_product(i2s_panel_unpacker unpack, i2s_panel_kernel four, i2s_panel_kernel eight,
                                     const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *arranged, int64_t tokens,
                                     int32_t *out, int64_t stride) {
    static _Thread_local uint8_t panel[I2S_PANEL_ROWS * I2S_MM_COLUMNS * I2S_PANEL_BLOCKS] __attribute__((aligned(64)));
    const int64_t pitch = blocks * I2S_MM_BYTES, tiles = (tokens + I2S_PANEL_TOKENS - 1) / I2S_PANEL_TOKENS;
    const int64_t pieces = (blocks + I2S_PANEL_BLOCKS - 1) / I2S_PANEL_BLOCKS, most = (blocks + pieces - 1) / pieces;
    for (int64_t r = 0; r < rows; r += I2S_PANEL_ROWS) {
        const int64_t count = rows - r < I2S_PANEL_ROWS ? rows - r : I2S_PANEL_ROWS;
        for (int64_t b = 0; b < blocks; b += most) {
            const int64_t some = blocks - b < most ? blocks - b : most;
            const uint8_t *from = w + r * pitch + b * I2S_MM_BYTES;
            for (int64_t s = 0; s < count; s += I2S_PANEL_STRIP) { /* the last row is repeated for missing ones */
                const uint8_t *row[I2S_PANEL_STRIP];
                for (int64_t i = 0; i < I2S_PANEL_STRIP; i++) row[i] = from + (s + i < count ? s + i : count - 1) * pitch;
                unpack(row, some, panel + s * some * I2S_MM_COLUMNS);
            }
            const uintptr_t next = (uintptr_t)from + (uintptr_t)(b + most < blocks ? most * I2S_MM_BYTES
                                                                                   : I2S_PANEL_ROWS * pitch - b * I2S_MM_BYTES);
            for (int64_t i = 0; i < tiles; i++) {
                const int64_t left = tokens - i * I2S_PANEL_TOKENS;
                const int there = left < I2S_PANEL_TOKENS ? (int)left : I2S_PANEL_TOKENS;
                const int8_t *x = arranged + (i * blocks + b) * I2S_MM_COLUMNS * I2S_PANEL_TOKENS;
                i2s_panel_ask(next, count, pitch, most * I2S_MM_BYTES, i, tiles);
                for (int64_t s = 0; s < count; s += I2S_PANEL_STRIP)
                    (there > 4 ? eight : four)(panel + s * some * I2S_MM_COLUMNS, some, x, b > 0, there, count - s,
                                               out + i * I2S_PANEL_TOKENS * stride + r + s, stride);
            }
        }
    }
}

static void i2s_panel_product_dotprod(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *arranged, int64_t tokens,
                                      int32_t *out, int64_t stride) {
    i2s_panel_product(i2s_panel_unpack_dotprod, i2s_panel_dotprod_4, i2s_panel_dotprod_8, w, rows, blocks, arranged, tokens,
                      out, stride);
}
#if defined(I2S_KNOWS_I8MM)
static void i2s_panel_product_i8mm(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *arranged, int64_t tokens,
                                   int32_t *out, int64_t stride) {
    i2s_panel_product(i2s_panel_unpack_i8mm, i2s_panel_i8mm_4, i2s_panel_i8mm_8, w, rows, blocks, arranged, tokens, out,
                      stride);
}
#endif

#endif
