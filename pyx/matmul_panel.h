/* Products of many tokens by panels: weights are unpacked once for all of them. AVX-512 VNNI.
 *
 * On processors with two ports for 512-bit vectors, masks, shifts and horizontal sums of the tile kernel use ports that
 * multiplications need: at most two thirds of the peak remain. Here 48 rows by up to 27 blocks are transposed and
 * unpacked into a panel, which stays in the second-level cache for all tokens. A vector is four columns of 16 rows; the
 * load unit broadcasts the activation codes of these columns, and the sums of 16 rows are side by side. The inner loop
 * has only multiplications and loads.
 *
 * Panel: for every four columns, in order, one vector for each group of 16 rows.
 * Activations: for each tile of eight tokens, for every four columns, in order, four codes of each token.
 */
#ifndef I2S_MATMUL_PANEL_H
#define I2S_MATMUL_PANEL_H

#include "matmul_x86.h"

#define I2S_PANEL_GROUPS 3  /* of 16 rows: with eight tokens 24 sums, three vectors of weights and one of activations */
#define I2S_PANEL_ROWS (16 * I2S_PANEL_GROUPS)
#define I2S_PANEL_TOKENS 8  /* in a tile */
#define I2S_PANEL_BLOCKS 27 /* most blocks in a panel: it takes 162 KiB unpacked */
#define I2S_PANEL_AHEAD 1024 /* prefetch distance of activations in bytes: with many tokens they are in the last cache */
#define I2S_PANEL_STEPS 32  /* steps of four columns in a block */
#define I2S_PANEL_LEAST 24  /* tokens from which unpacking is worthwhile */
#define I2S_PANEL_NEVER INT64_MAX

#define I2S_MM_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
/* By assembly, because compilers make a load and a shuffle of it, which uses a port that multiplications need. */
#define I2S_BROADCAST512(to, from) __asm__("vpbroadcastd %1, %0" : "=v"(to) : "m"(*(const int32_t *)(const void *)(from)))

/* Whether multiplications share their ports with masks and shifts: on Intel's processors they do; AMD's have ports for
 * both, and tiles reach 0.9 of the peak there. The query is slow in a virtual machine. */
static int i2s_panels_pay(void) {
    static _Atomic int known = -1; /* several threads may call this at once */
    if (known < 0) {
        unsigned a, b, c, d;
        __cpuid(0, a, b, c, d);
        known = b == 0x756E6547 && d == 0x49656E69 && c == 0x6C65746E; /* GenuineIntel */
    }
    return known;
}

/* Number of tokens from which panels are used; set by tests and benchmarks, -1 leaves it to the processor. */
static int64_t i2s_panel_forced = -1;

static int64_t i2s_panel_from(void) {
    if (i2s_panel_forced >= 0) return i2s_panel_forced;
    return i2s_panels_pay() ? I2S_PANEL_LEAST : I2S_PANEL_NEVER;
}

/* Activation codes of a tile: 8 x 8 times four codes are transposed. Missing tokens are zeros. */
I2S_MM_TARGET static void i2s_panel_arrange(const int8_t *codes, int64_t blocks, int tokens, int8_t *arranged) {
    const int64_t columns = blocks * I2S_MM_COLUMNS;
    for (int64_t k = 0; k < columns; k += 32, arranged += 32 * I2S_PANEL_TOKENS) {
        __m256i v[8], pairs[8], fours[8];
        I2S_MM_UNROLL for (int t = 0; t < 8; t++)
            v[t] = t < tokens ? _mm256_loadu_si256((const __m256i *)(codes + t * columns + k)) : _mm256_setzero_si256();
        I2S_MM_UNROLL for (int t = 0; t < 8; t += 2) {
            pairs[t] = _mm256_unpacklo_epi32(v[t], v[t + 1]);
            pairs[t + 1] = _mm256_unpackhi_epi32(v[t], v[t + 1]);
        }
        I2S_MM_UNROLL for (int t = 0; t < 8; t += 4)
            I2S_MM_UNROLL for (int i = 0; i < 2; i++) {
                fours[t + 2 * i] = _mm256_unpacklo_epi64(pairs[t + i], pairs[t + 2 + i]);
                fours[t + 2 * i + 1] = _mm256_unpackhi_epi64(pairs[t + i], pairs[t + 2 + i]);
            }
        I2S_MM_UNROLL for (int i = 0; i < 4; i++) {
            _mm256_storeu_si256((__m256i *)(arranged + 32 * i), _mm256_permute2x128_si256(fours[i], fours[4 + i], 0x20));
            _mm256_storeu_si256((__m256i *)(arranged + 128 + 32 * i), _mm256_permute2x128_si256(fours[i], fours[4 + i], 0x31));
        }
    }
}

/* A group of up to 16 rows into every `groups`th vector of a panel; the last row is repeated for missing ones. */
I2S_MM_TARGET static void i2s_panel_unpack(const uint8_t *w, int64_t rows, int64_t pitch, int64_t blocks, int64_t groups,
                                           uint8_t *to) {
    const __m512i three = _mm512_set1_epi8(3);
    const uint8_t *row[16];
    for (int i = 0; i < 16; i++) row[i] = w + (i < rows ? i : rows - 1) * pitch;
    for (int64_t at = 0; at < blocks * I2S_MM_BYTES; at += 16) { /* half a block: bytes for 4 x 16 columns of each row */
        __m512i v[4];
        I2S_MM_UNROLL for (int i = 0; i < 4; i++) { /* rows i, 4 + i, 8 + i and 12 + i */
            v[i] = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(row[i] + at)));
            v[i] = _mm512_inserti32x4(v[i], _mm_loadu_si128((const __m128i *)(row[4 + i] + at)), 1);
            v[i] = _mm512_inserti32x4(v[i], _mm_loadu_si128((const __m128i *)(row[8 + i] + at)), 2);
            v[i] = _mm512_inserti32x4(v[i], _mm_loadu_si128((const __m128i *)(row[12 + i] + at)), 3);
        }
        const __m512i a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]);
        const __m512i c = _mm512_unpacklo_epi32(v[2], v[3]), d = _mm512_unpackhi_epi32(v[2], v[3]);
        const __m512i four[4] = {_mm512_unpacklo_epi64(a, c), _mm512_unpackhi_epi64(a, c), _mm512_unpacklo_epi64(b, d),
                                 _mm512_unpackhi_epi64(b, d)};
        /* byte j of a block has the columns j, 32 + j, 64 + j and 96 + j: fields are eight steps apart */
        uint8_t *half = to + (at / I2S_MM_BYTES * I2S_PANEL_STEPS + at % I2S_MM_BYTES / 4) * 64 * groups;
        I2S_MM_UNROLL for (int i = 0; i < 4; i++, half += 64 * groups) {
            _mm512_store_si512(half, _mm512_and_si512(_mm512_srli_epi16(four[i], 6), three));
            _mm512_store_si512(half + 8 * 64 * groups, _mm512_and_si512(_mm512_srli_epi16(four[i], 4), three));
            _mm512_store_si512(half + 16 * 64 * groups, _mm512_and_si512(_mm512_srli_epi16(four[i], 2), three));
            _mm512_store_si512(half + 24 * 64 * groups, _mm512_and_si512(four[i], three));
        }
    }
}

/* G groups by C tokens of a tile, of which `tokens` exist; added to the existing sums, unless it is the first piece of
 * the columns. `last` has a bit for each row of the last group. */
I2S_MM_TARGET I2S_MM_INLINE void i2s_panel_tile(const int G, const int C, const uint8_t *panel, int64_t steps, const int8_t *x,
                                                int more, int tokens, __mmask16 last, int32_t *out, int64_t stride) {
    __m512i acc[I2S_PANEL_GROUPS][I2S_PANEL_TOKENS];
    I2S_MM_UNROLL for (int c = 0; c < C; c++)
        I2S_MM_UNROLL for (int g = 0; g < G; g++)
            acc[g][c] = more && c < tokens ? _mm512_maskz_loadu_epi32(g == G - 1 ? last : 0xFFFF, out + c * stride + 16 * g)
                                           : _mm512_setzero_si512();
    for (int64_t s = 0; s < steps; s += 2, panel += 2 * 64 * G, x += 2 * 4 * I2S_PANEL_TOKENS) {
        I2S_MM_ASK(x, I2S_PANEL_AHEAD);
        I2S_MM_UNROLL for (int u = 0; u < 2; u++) {
            __m512i w[I2S_PANEL_GROUPS];
            I2S_MM_UNROLL for (int g = 0; g < G; g++) w[g] = _mm512_load_si512(panel + 64 * (G * u + g));
            I2S_MM_UNROLL for (int c = 0; c < C; c++) {
                __m512i q;
                I2S_BROADCAST512(q, x + 4 * (I2S_PANEL_TOKENS * u + c));
                I2S_MM_UNROLL for (int g = 0; g < G; g++) I2S_DP512(acc[g][c], w[g], q);
            }
        }
    }
    I2S_MM_UNROLL for (int c = 0; c < C; c++)
        if (c < tokens)
            I2S_MM_UNROLL for (int g = 0; g < G; g++)
                _mm512_mask_storeu_epi32(out + c * stride + 16 * g, g == G - 1 ? last : 0xFFFF, acc[g][c]);
}

#define I2S_PANEL_TILE(G, C)                                                                                            \
    I2S_MM_TARGET static void i2s_panel_tile_##G##_##C(const uint8_t *panel, int64_t steps, const int8_t *x, int more,  \
                                                       int tokens, __mmask16 last, int32_t *out, int64_t stride) {      \
        i2s_panel_tile(G, C, panel, steps, x, more, tokens, last, out, stride);                                         \
    }
I2S_PANEL_TILE(1, 4) I2S_PANEL_TILE(1, 8) I2S_PANEL_TILE(2, 4) I2S_PANEL_TILE(2, 8) I2S_PANEL_TILE(3, 4) I2S_PANEL_TILE(3, 8)

typedef void (*i2s_panel_kernel)(const uint8_t *, int64_t, const int8_t *, int, int, __mmask16, int32_t *, int64_t);
static const i2s_panel_kernel i2s_panel_kernels[I2S_PANEL_GROUPS][2] = {{i2s_panel_tile_1_4, i2s_panel_tile_1_8},
                                                                        {i2s_panel_tile_2_4, i2s_panel_tile_2_8},
                                                                        {i2s_panel_tile_3_4, i2s_panel_tile_3_8}};

/* Prefetches lines of some rows that are needed next, the `part`th of `parts`; past the end of a buffer too. */
static inline void i2s_panel_ask(uintptr_t rows, int64_t count, int64_t pitch, int64_t bytes, int64_t part, int64_t parts) {
    for (int64_t r = count * part / parts; r < count * (part + 1) / parts; r++)
        for (int64_t at = 0; at < bytes + 64; at += 64)
            _mm_prefetch((const char *)(rows + (uintptr_t)(r * pitch + at)), _MM_HINT_T1);
}

/* All tokens by some rows. */
I2S_MM_TARGET static void i2s_panel_product(const uint8_t *w, int64_t rows, int64_t blocks, const int8_t *arranged,
                                            int64_t tokens, int32_t *out, int64_t stride) {
    static _Thread_local uint8_t memory[I2S_PANEL_ROWS * I2S_MM_COLUMNS * I2S_PANEL_BLOCKS + 63];
    uint8_t *const panel = memory + (-(uintptr_t)memory & 63); /* Windows aligns thread-local data to 16 bytes */
    const int64_t pitch = blocks * I2S_MM_BYTES, tiles = (tokens + I2S_PANEL_TOKENS - 1) / I2S_PANEL_TOKENS;
    const int64_t pieces = (blocks + I2S_PANEL_BLOCKS - 1) / I2S_PANEL_BLOCKS, most = (blocks + pieces - 1) / pieces;
    for (int64_t r = 0; r < rows; r += I2S_PANEL_ROWS) {
        const int64_t count = rows - r < I2S_PANEL_ROWS ? rows - r : I2S_PANEL_ROWS, groups = (count + 15) / 16;
        const __mmask16 last = (__mmask16)(0xFFFF >> (16 * groups - count));
        for (int64_t b = 0; b < blocks; b += most) {
            const int64_t some = blocks - b < most ? blocks - b : most;
            const uint8_t *from = w + r * pitch + b * I2S_MM_BYTES;
            for (int64_t g = 0; g < groups; g++)
                i2s_panel_unpack(from + 16 * g * pitch, count - 16 * g, pitch, some, groups, panel + 64 * g);
            const uintptr_t next = (uintptr_t)from + (uintptr_t)(b + most < blocks ? most * I2S_MM_BYTES
                                                                                   : I2S_PANEL_ROWS * pitch - b * I2S_MM_BYTES);
            for (int64_t i = 0; i < tiles; i++) {
                const int64_t left = tokens - i * I2S_PANEL_TOKENS;
                const int there = left < I2S_PANEL_TOKENS ? (int)left : I2S_PANEL_TOKENS;
                i2s_panel_ask(next, count, pitch, most * I2S_MM_BYTES, i, tiles);
                i2s_panel_kernels[groups - 1][there > 4](
                    panel, some * I2S_PANEL_STEPS,
                    arranged + (i * blocks + b) * I2S_MM_COLUMNS * I2S_PANEL_TOKENS, b > 0, there, last,
                    out + i * I2S_PANEL_TOKENS * stride + r, stride);
            }
        }
    }
}

#undef I2S_MM_TARGET
#endif
