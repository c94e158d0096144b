/* The look at whole blocks, once for each instruction set: compilers make vectors of these loops. I2S_NAME(i2s_digits) finds
 * digits that no packer writes. Where anything in a tile is odd, the tile is counted group by group. */

I2S_INTO I2S_TARGET int I2S_NAME(i2s_codes_seen)(const uint8_t *p, const uint8_t *mask, int n) {
    uint8_t both = 0;
    int i;
    for (i = 0; i < n; i++) both |= (uint8_t)(p[i] & (p[i] >> 1) & mask[i]);
    return both != 0;
}

I2S_INTO I2S_TARGET void I2S_NAME(i2s_look)(i2s_groups *g, int kind, const uint8_t *p, int64_t count, int64_t number) {
    const i2s_block shape = i2s_block_kinds[kind];
    const int digits = kind == I2S_TQ1 || kind == I2S_PTQ1, n = I2S_GROUP_TILE * shape.bytes;
    const int fours = kind == I2S_TQ1 ? 4 : 2;  /* bytes of four digits before the scale */
    const uint8_t *mask = i2s_group_masks[kind];
    uint16_t near[4][I2S_GROUP_TILE] = {{0}};  /* how often each of four octaves was seen, lane by lane */
    int64_t held = 0;
    int base = -1, k, c;
    for (; count >= I2S_GROUP_TILE; count -= I2S_GROUP_TILE, number += I2S_GROUP_TILE, p += n) {
        uint16_t scales[I2S_GROUP_TILE], octave[I2S_GROUP_TILE], most = 0, beyond = 0;
        int odd;
        for (c = 0; c < I2S_GROUP_TILE; c++) memcpy(&scales[c], p + c * shape.bytes + shape.scale, 2);
        if (g->swap != I2S_BIG_ENDIAN)
            for (c = 0; c < I2S_GROUP_TILE; c++) scales[c] = (uint16_t)(scales[c] << 8 | scales[c] >> 8);
        for (c = 0; c < I2S_GROUP_TILE; c++) {
            const uint16_t less = (uint16_t)(scales[c] - 1);  /* of 0 the largest number of all */
            most = less > most ? less : most;
        }
        if (digits) {
            uint16_t pairs[I2S_GROUP_TILE * 2], worst = 0;
            for (c = 0; c < I2S_GROUP_TILE; c++) memcpy(pairs + c * fours / 2, p + c * shape.bytes + shape.scale - fours, (size_t)fours);
            for (c = 0; c < I2S_GROUP_TILE * fours / 2; c++) {
                const uint16_t low = (uint16_t)(pairs[c] * 81) & 255, high = (uint16_t)((pairs[c] >> 8) * 81) & 255;
                worst = low > worst ? low : worst;
                worst = high > worst ? high : worst;
            }
            odd = (worst > 80) | I2S_NAME(i2s_digits)(p, mask, n);
        } else odd = I2S_NAME(i2s_codes_seen)(p, mask, n);
        if (odd || most >= 0x7BFF) {  /* infinite, NaN, negative or 0 */
            i2s_groups_plain(g, p, I2S_GROUP_TILE, number);
            continue;
        }
        g->scales += I2S_GROUP_TILE;
        most++;
        if (most > g->largest) i2s_group_largest(g, scales, most, number);
        if (!g->octaves) continue;
        if (base < 0) base = scales[0] >> 10 < 2 ? 0 : (scales[0] >> 10) - 2;
        for (c = 0; c < I2S_GROUP_TILE; c++) {
            octave[c] = (uint16_t)((scales[c] >> 10) - base);
            beyond = octave[c] > beyond ? octave[c] : beyond;
        }
        if (beyond > 3) {
            for (c = 0; c < I2S_GROUP_TILE; c++) g->octaves[scales[c] >> 10]++;
            continue;
        }
        for (k = 0; k < 4; k++)
            for (c = 0; c < I2S_GROUP_TILE; c++) near[k][c] = (uint16_t)(near[k][c] + (octave[c] == k));
        if (++held == 65535) {
            for (k = 0; k < 4; k++)
                for (c = 0; c < I2S_GROUP_TILE; c++) {
                    if (near[k][c]) g->octaves[base + k] += near[k][c];
                    near[k][c] = 0;
                }
            held = 0;
        }
    }
    for (k = 0; k < 4 && held; k++)
        for (c = 0; c < I2S_GROUP_TILE; c++)
            if (near[k][c]) g->octaves[base + k] += near[k][c];
    i2s_groups_plain(g, p, count, number);
}

/* Whole groups, `number` being that of the first. */
I2S_TARGET static void I2S_NAME(i2s_groups)(i2s_groups *g, const uint8_t *p, int64_t count, int64_t number) {
    switch (g->kind) {
    case I2S_Q2_64: I2S_NAME(i2s_look)(g, I2S_Q2_64, p, count, number); break;
    case I2S_Q2_128: I2S_NAME(i2s_look)(g, I2S_Q2_128, p, count, number); break;
    case I2S_TQ2: I2S_NAME(i2s_look)(g, I2S_TQ2, p, count, number); break;
    case I2S_TQ1: I2S_NAME(i2s_look)(g, I2S_TQ1, p, count, number); break;
    case I2S_PTQ1: I2S_NAME(i2s_look)(g, I2S_PTQ1, p, count, number); break;
    default: i2s_groups_plain(g, p, count, number);  /* rows with a scale in front */
    }
}
