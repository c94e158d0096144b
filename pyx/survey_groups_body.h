/* Examines whole blocks, once for each instruction set: compilers vectorize these loops. I2S_NAME(i2s_digits) finds
 * digits that no packer writes. If anything in a tile is odd, the tile is counted group by group. */

I2S_INTO I2S_TARGET int I2S_NAME(i2s_codes_seen)(const uint8_t *p, const uint8_t *mask, int n) {
    uint8_t both = 0;
    int i;
    for (i = 0; i < n; i++) both |= (uint8_t)(p[i] & (p[i] >> 1) & mask[i]);
    return (both & 0x55) != 0;
}

/* A tile with something odd, or with scales outside of the octaves counted so far. */
I2S_TARGET static void I2S_NAME(i2s_look_again)(i2s_groups *g, int kind, const uint8_t *p, int64_t number) {
    const i2s_block shape = i2s_block_kinds[kind];
    uint16_t scales[I2S_GROUP_TILE], most = 0;
    int c;
    for (c = 0; c < I2S_GROUP_TILE; c++) {
        const uint8_t *s = p + c * shape.bytes + shape.scale;
        uint16_t less;
        scales[c] = g->swap ? (uint16_t)(s[0] << 8 | s[1]) : (uint16_t)(s[1] << 8 | s[0]);
        less = (uint16_t)(scales[c] - 1);  /* of 0 the largest number of all */
        most = less > most ? less : most;
    }
    if (most >= 0x7BFF) {  /* infinite, NaN, negative or 0 */
        i2s_groups_plain(g, p, I2S_GROUP_TILE, number);
        return;
    }
    g->scales += I2S_GROUP_TILE;
    most++;
    if (most > g->largest) i2s_group_largest(g, p + shape.scale, shape.bytes, most, number);
    if (!g->octaves) return;
    if (g->base < 0) g->base = most >> 10 < 2 ? 0 : (most >> 10) - 2;
    for (c = 0; c < I2S_GROUP_TILE; c++) g->octaves[scales[c] >> 10]++;
}

/* The scales of some tiles side by side, as stored, and so the bytes of four digits before them. */
I2S_INTO I2S_TARGET void I2S_NAME(i2s_lay)(int kind, const uint8_t *p, int tiles, uint16_t *heads, uint16_t *pairs) {
    const i2s_block shape = i2s_block_kinds[kind];
    const int fours = kind == I2S_TQ1 ? 4 : kind == I2S_PTQ1 ? 2 : 0;
    const uint8_t *s = p + shape.scale;
    uint8_t *h = (uint8_t *)heads, *f = (uint8_t *)pairs;
    int c;
#ifdef I2S_GATHER
    if (kind == I2S_PTQ1) {
        for (; tiles > 0; tiles--, p += I2S_GROUP_TILE * shape.bytes, heads += I2S_GROUP_TILE, pairs += I2S_GROUP_TILE)
            I2S_GATHER(p, heads, pairs);
        return;
    }
#endif
    for (c = tiles * I2S_GROUP_TILE; c > 0; c--, s += shape.bytes, h += 2, f += fours) {
        uint16_t scale;
        uint32_t before = 0;
        memcpy(&scale, s, 2);
        memcpy(&before, s - fours, (size_t)fours);
        I2S_ONE_BY_ONE(scale);
        I2S_ONE_BY_ONE(before);
        memcpy(h, &scale, 2);
        memcpy(f, &before, (size_t)fours);
    }
}

I2S_INTO I2S_TARGET void I2S_NAME(i2s_look)(i2s_groups *g, int kind, const uint8_t *p, int64_t count, int64_t number) {
    const i2s_block shape = i2s_block_kinds[kind];
    const int digits = kind == I2S_TQ1 || kind == I2S_PTQ1, n = I2S_GROUP_TILE * shape.bytes;
    const int fours = kind == I2S_TQ1 ? 4 : 2;  /* bytes of four digits before the scale */
    const int swap = g->swap != I2S_BIG_ENDIAN;
    const uint8_t *mask = i2s_group_masks[kind];
    uint16_t near[4][I2S_GROUP_TILE] = {{0}};  /* counts of each of four octaves, by lane */
    int64_t held = 0;
    int k, c;
    while (count >= I2S_GROUP_TILE) {
        /* Scales are arranged for several tiles: loading a vector just written in parts would wait for all stores. */
        const int tiles = count >= I2S_GROUP_TILES * I2S_GROUP_TILE ? I2S_GROUP_TILES : (int)(count / I2S_GROUP_TILE);
        uint16_t heads[I2S_GROUP_TILES * I2S_GROUP_TILE], pairs[I2S_GROUP_TILES * I2S_GROUP_TILE * 2];
        int tile;
        I2S_NAME(i2s_lay)(kind, p, tiles, heads, pairs);
        for (tile = 0; tile < tiles; tile++, count -= I2S_GROUP_TILE, number += I2S_GROUP_TILE, p += n) {
            const uint16_t *head = heads + tile * I2S_GROUP_TILE, *pair = pairs + tile * I2S_GROUP_TILE * fours / 2;
            const uint16_t top = (uint16_t)g->largest, first = (uint16_t)(g->base < 0 ? 0 : g->base << 10);
            uint16_t scales[I2S_GROUP_TILE];
            const int seen = I2S_NAME(i2s_tile)(head, pair, digits ? fours : 0, swap, first, top, scales);
            if (digits ? (seen & I2S_TILE_ODD) | I2S_NAME(i2s_digits)(p, mask, n) : I2S_NAME(i2s_codes_seen)(p, mask, n)) {
                i2s_groups_plain(g, p, I2S_GROUP_TILE, number);
                continue;
            }
            if (seen & I2S_TILE_SPECIAL || g->base < 0) {
                I2S_NAME(i2s_look_again)(g, kind, p, number);
                continue;
            }
            g->scales += I2S_GROUP_TILE;
            if (seen & I2S_TILE_ABOVE) {
                uint16_t most = 0;
                for (c = 0; c < I2S_GROUP_TILE; c++) most = scales[c] > most ? scales[c] : most;
                i2s_group_largest(g, p + shape.scale, shape.bytes, most, number);
            }
            I2S_NAME(i2s_tile_octaves)(scales, first, near);
            if (++held < 65535) continue;
            for (k = 0; k < 4; k++)
                for (c = 0; c < I2S_GROUP_TILE; c++) {
                    if (g->octaves && near[k][c]) g->octaves[g->base + k] += near[k][c];
                    near[k][c] = 0;
                }
            held = 0;
        }
    }
    for (k = 0; k < 4 && held; k++)
        for (c = 0; c < I2S_GROUP_TILE; c++)
            if (g->octaves && near[k][c]) g->octaves[g->base + k] += near[k][c];
    i2s_groups_plain(g, p, count, number);
}

#ifdef I2S_LOOKED
#include "survey_tiles.h"
#define I2S_LOOK_PTQ1 I2S_NAME(i2s_look_ptq1)
#define I2S_LOOK_FIELDS I2S_NAME(i2s_look_fields)
#else
#define I2S_LOOK_PTQ1(g, p, count, number) I2S_NAME(i2s_look)(g, I2S_PTQ1, p, count, number)
#define I2S_LOOK_FIELDS I2S_NAME(i2s_look)
#endif

/* Whole groups, `number` being that of the first. */
I2S_TARGET static void I2S_NAME(i2s_groups)(i2s_groups *g, const uint8_t *p, int64_t count, int64_t number) {
    switch (g->kind) {
    case I2S_Q2_64: I2S_LOOK_FIELDS(g, I2S_Q2_64, p, count, number); break;
    case I2S_Q2_128: I2S_LOOK_FIELDS(g, I2S_Q2_128, p, count, number); break;
    case I2S_TQ2: I2S_LOOK_FIELDS(g, I2S_TQ2, p, count, number); break;
    case I2S_TQ1: I2S_NAME(i2s_look)(g, I2S_TQ1, p, count, number); break;
    case I2S_PTQ1: I2S_LOOK_PTQ1(g, p, count, number); break;
    default: i2s_groups_plain(g, p, count, number);  /* rows with a scale in front */
    }
}
#undef I2S_LOOK_PTQ1
#undef I2S_LOOK_FIELDS
