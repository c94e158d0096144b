/* Four rows of queries meet the keys and values of their group, once for each instruction set; fast_body.h includes this.
 *
 * A token that is decoded has few rows, often four, that read the cache once. Their four products for each half take as long
 * with AVX-512 as reading it from memory does, so nothing else may take long: scores of a key lie side by side, and the
 * maximum, powers and totals of the rows are found together. Sums are those that dots, soft_max and weighted_sum give one after
 * the other, bit for bit.
 */

/* Scores of four rows and R keys, whose sums are left undone: a vector for each key, z[VL * key + 4 * part + row]. `ahead` is
 * prefetched meanwhile, as many bytes as the keys; or NULL. */
INLINE void FN(score_tile)(const int R, const uint8_t *k, int64_t pitch, int64_t columns, const float *q, float *z,
                           const char *ahead) {
    FN(vf) acc[2][4];
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int c = 0; c < 4; c++) acc[r][c] = (FN(vf)){0};
    int64_t i = 0;
    for (; i + VL <= columns; i += VL) {
        if (i * 2 * R % 64 == 0 && ahead != NULL) __builtin_prefetch(ahead + i * 2 * R, 0, 2);
        FN(vf) v[2];
        UNROLL for (int r = 0; r < R; r++) v[r] = FN(halves)(k + r * pitch + i * 2);
        UNROLL for (int c = 0; c < 4; c++) {
            FN(vf) a = FN(load)(q + c * columns + i);
            I2S_ONCE(a);
            UNROLL for (int r = 0; r < R; r++) acc[r][c] = FN(fma)(v[r], a, acc[r][c]);
        }
    }
    if (i < columns) {
        const int left = (int)(columns - i);
        UNROLL for (int r = 0; r < R; r++) {
            const FN(vf) v = FN(widen_part)(I2S_F16, k + r * pitch + i * 2, left);
            UNROLL for (int c = 0; c < 4; c++)
                acc[r][c] = FN(fma)(v, FN(load_part)(q + c * columns + i, left), acc[r][c]);
        }
    }
    UNROLL for (int r = 0; r < R; r++) FN(store)(z + VL * r, FN(lanes4)(acc[r][0], acc[r][1], acc[r][2], acc[r][3]));
}

INLINE void FN(score_tiles)(const i2s_attended *a, const int64_t columns, const float *q, float *z) {
    const int R = 2;
    const int64_t pitch = a->key_pitch * 2;
    const uint8_t *keys = (const uint8_t *)a->keys;
    int64_t k = 0;
    for (; k + R <= a->count; k += R, keys += R * pitch)
        FN(score_tile)(R, keys, pitch, columns, q, z + VL * k, k < a->next ? a->next_keys + k * columns * 2 : NULL);
    for (; k < a->count; k++, keys += pitch) FN(score_tile)(1, keys, pitch, columns, q, z + VL * k, NULL);
}

/* Four numbers are added as sum4 does it: lanes that are VB / 32 apart first, or those beside each other. */
INLINE i2s_four FN(folded)(i2s_four a, i2s_four b, i2s_four c, i2s_four d) {
    return VB == 64 ? (a + c) + (b + d) : (a + b) + (c + d);
}

/* The totals of four rows as soft_max adds them: vector j has those of keys j * VL / 4 and so on. */
INLINE i2s_four FN(sum_rows)(const FN(vf) *sums) {
    float keys[4 * VL];
    i2s_four part[4];
    UNROLL for (int j = 0; j < 4; j++) FN(store)(keys + j * VL, sums[j]);
    UNROLL for (int j = 0; j < VL / 4; j++)
        part[j] = FN(folded)(i2s_four_at(keys + 16 * j), i2s_four_at(keys + 16 * j + 4), i2s_four_at(keys + 16 * j + 8),
                             i2s_four_at(keys + 16 * j + 12));
    if (VL == 16) return FN(folded)(part[0], part[1], part[2], part[3]);
    return VL == 8 ? part[0] + part[VL / 4 - 1] : part[0];
}

/* Scores of four rows as score_tile leaves them: summed and scaled; e^(z - most) as z[4 * key + row], and the sum of each row
 * to `added`. `most` is raised first. There is room for a multiple of VL keys. */
INLINE void FN(soft_max_rows)(float *z, int64_t count, float scale, float *most, float *added) {
    const int64_t whole = (count + VL - 1) / VL * VL * 4;
    for (int64_t i = VL * count; i < whole * (VL / 4); i++) z[i] = -INFINITY;
    i2s_four best = i2s_four_at(most);
    FN(vf) top = FN(rows_of)(best);
    for (int64_t i = 0; i < whole; i += VL) {
        FN(vf) parts[VL / 4];
        UNROLL for (int j = 0; j < VL / 4; j++) parts[j] = FN(load)(z + i * (VL / 4) + j * VL);
        const FN(vf) v = FN(join)(parts) * scale;
        FN(store)(z + i, v);
        top = FN(larger)(v, top);
    }
    float tops[VL];
    FN(store)(tops, top);
    typedef int32_t four_bits __attribute__((vector_size(16)));
    UNROLL for (int j = 0; j < VL; j += 4) {
        const i2s_four each = i2s_four_at(tops + j);
        const four_bits more = each > best;
        best = (i2s_four)(((four_bits)each & more) | ((four_bits)best & ~more));
    }
    memcpy(most, &best, sizeof best);
    const four_bits some = best != -INFINITY; /* else 0 is taken away, and all powers are 0 */
    const FN(vf) less = FN(rows_of)((i2s_four)((four_bits)best & some));
    FN(vf) sums[4] = {{0}, {0}, {0}, {0}};
    for (int64_t i = 0; i < whole; i += 4 * VL)
        UNROLL for (int j = 0; j < 4; j++) {
            const FN(vf) p = FN(exp_below)(FN(load)(z + i + j * VL) - less, 1);
            FN(store)(z + i + j * VL, p);
            sums[j] += p;
        }
    const i2s_four all = FN(sum_rows)(sums);
    memcpy(added, &all, sizeof all);
}

/* Keys and values that are halves, `count` of them and no more than I2S_KEYS, for four rows of queries that lie side by side.
 * The next keys and values, `next` of them and no more than `count`, are asked for meanwhile, as many bytes from these
 * addresses on as belong to a group. */
TARGET static void FN(attend)(const i2s_attended *a, const float *queries, float scale, const i2s_state *state) {
    float for_scores[VL * I2S_KEYS + 16], for_queries[4 * I2S_WIDEST + 16], before[4], added[4];
    float *z = i2s_line_in(for_scores);
    const float *q = queries;
    if ((uintptr_t)queries % VB != 0) { /* a vector that lies in two lines takes two loads, and they are loaded for every key */
        float *own = i2s_line_in(for_queries);
        for (int64_t i = 0; i < 4 * a->inner; i++) own[i] = queries[i];
        q = own;
    }
    if (a->inner == 128) FN(score_tiles)(a, 128, q, z); /* the usual width: no loop within a key */
    else FN(score_tiles)(a, a->inner, q, z);
    memcpy(before, state->most, sizeof before);
    FN(soft_max_rows)(z, a->count, scale, state->most, added);
    for (int c = 0; c < 4; c++) {
        if (before[c] != state->most[c] && before[c] != -INFINITY) { /* what was added with a smaller maximum */
            const float less = expf(before[c] - state->most[c]);
            state->total[c] *= less;
            FN(times)(state->sums + c * a->value, less, a->value, state->sums + c * a->value);
        }
        state->total[c] += added[c];
    }
    FN(mix_rows)(I2S_F16, 4, z, 1, 4, (const uint8_t *)a->values, a->value_pitch * 2, a->count, a->value, state->sums,
                 a->value, a->next_values, a->next);
}
