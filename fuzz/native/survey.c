/* The survey of payloads under libFuzzer: for any bytes, every kernel set gives the findings of the portable one, for
 * any division into parts and pieces, and the counts of plain loops.
 *
 * The first eight bytes of an input choose the kind of payload and its division; the rest is the payload. Each buffer
 * has exactly the size of its content, so that AddressSanitizer detects a read beyond it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "survey.h"

enum { CONTROL = 8, MOST = 1 << 20 };

static void fail(const char *what, const char *set) {
    fprintf(stderr, "survey: %s, with the kernels %s\n", what, set);
    abort();
}

/* The kind of a payload. */
typedef struct {
    int32_t width;
    uint64_t mask;
    int kind, swap, octaves;  /* kind -1: no groups */
    int64_t unit;
} description;

static description described(const uint8_t *control) {
    static const uint64_t masks[5] = {0x7C00u, 0x7F80u, 0x7F800000u, 0x7FF0000000000000u, 0};
    static const int32_t widths[5] = {2, 2, 4, 8, 1};
    description made = {0, 0, -1, 0, 1, 0};
    const int what = control[0] % (6 + I2S_BLOCK_KINDS);
    if (what >= 1 && what < 6) {
        made.width = widths[what - 1];
        made.mask = masks[what - 1];
    }
    if (what >= 6) {
        made.width = 1;
        made.kind = what - 6;
        made.unit = i2s_block_kinds[made.kind].bytes;
        if (i2s_group_front(made.kind)) made.unit = i2s_group_front(made.kind) + made.unit * (1 + control[1] % 40);
        made.swap = control[2] & 1;
        made.octaves = !(control[2] & 2);
    }
    return made;
}

static i2s_part part_of(const description *what, int64_t pos, int64_t size) {
    i2s_part part;
    memset(&part, 0, sizeof part);
    part.pos = pos;
    part.size = size;
    part.width = what->width;
    part.mask = what->mask;
    if (what->kind >= 0) {
        part.groups = calloc(1, sizeof(i2s_groups));
        if (part.groups == NULL) exit(0);
        part.groups->kind = what->kind;
        part.groups->swap = what->swap;
        part.groups->unit = what->unit;
        if (what->octaves) part.groups->octaves = calloc(I2S_OCTAVES, sizeof(uint64_t));
    }
    i2s_part_begin(&part);
    return part;
}

static void dropped(i2s_part *part) {
    if (part->groups) free(part->groups->octaves);
    free(part->groups);
}

/* Feed the bytes of a part in pieces of whole blocks, each in a separate buffer. */
static void fed(i2s_part *part, const i2s_survey_set *set, const uint8_t *data, int64_t size, int64_t piece) {
    int64_t at;
    for (at = 0; at < size; at += piece) {
        const int64_t n = size - at < piece ? size - at : piece;
        uint8_t *copy = malloc((size_t)n);
        if (copy == NULL) exit(0);
        memcpy(copy, data + at, (size_t)n);
        i2s_part_feed(part, set, copy, n);
        free(copy);
    }
}

static void require_same(const i2s_part *a, const i2s_part *b, const char *set) {
#define SAME(field) if (a->field != b->field) fail(#field " differs", set)
    SAME(seen); SAME(lows); SAME(highs); SAME(boths); SAME(digest); SAME(first_unused); SAME(non_finite);
    SAME(first_non_finite); SAME(last); SAME(last_value); SAME(run_at); SAME(run); SAME(run_value); SAME(open);
#undef SAME
#define SAME(field) if (a->groups->field != b->groups->field) fail("groups: " #field " differs", set)
    if (a->groups) {
        SAME(odd); SAME(scales); SAME(infinite); SAME(negative); SAME(lost); SAME(first_odd); SAME(first_infinite);
        SAME(first_negative); SAME(first_lost); SAME(first_largest); SAME(largest);
        if (a->groups->octaves && memcmp(a->groups->octaves, b->groups->octaves, I2S_OCTAVES * sizeof(uint64_t)))
            fail("groups: octaves differ", set);
    }
#undef SAME
}

/* The counts of plain loops over the payload. */
static void require_counts(const i2s_part *part, const description *what, const uint8_t *data, int64_t size) {
    uint64_t lows = 0, highs = 0, boths = 0, scales = 0;
    int64_t i, k, run = 0, from = 0, first = -1;
    for (i = 0; i < size; i++) {
        for (k = 0; k < 8; k += 2) {
            lows += data[i] >> k & 1;
            highs += data[i] >> (k + 1) & 1;
            boths += (data[i] >> k & 3) == 3;
            if ((data[i] >> k & 3) == 3 && first < 0) first = i;
        }
        if (i + 1 == size || data[i + 1] != data[i]) {
            if (i + 1 - from > run) run = i + 1 - from;
            from = i + 1;
        }
    }
    if (part->seen != size) fail("not every byte was seen", "portable");
    if (what->width == 0 && (part->lows != lows || part->highs != highs || part->boths != boths))
        fail("codes are miscounted", "portable");
    if (what->width == 0 && part->first_unused != first) fail("the first code 3 is elsewhere", "portable");
    if (part->run != (run >= I2S_LEAST_RUN ? run : 0)) fail("the longest run is another", "portable");
    if (what->kind >= 0) {
        scales = (uint64_t)(size / what->unit);
        if (part->groups->scales != scales) fail("groups are miscounted", "portable");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length) {
    static int begun;
    const uint8_t *control = input, *data = input + CONTROL;
    int64_t size = (int64_t)length - CONTROL, piece, cut, i;
    description what;
    i2s_part wanted;
    if (!begun) i2s_groups_init();
    begun = 1;
    if (size < 1 || size > MOST) return 0;
    what = described(control);
    piece = I2S_BLOCK * (1 + control[3] % 7);
    cut = (int64_t)((uint32_t)control[4] | (uint32_t)control[5] << 8) * I2S_BLOCK % (size + I2S_BLOCK) / I2S_BLOCK * I2S_BLOCK;
    if (cut > size) cut = size / I2S_BLOCK * I2S_BLOCK;
    wanted = part_of(&what, 0, size);
    fed(&wanted, &i2s_survey_sets[0], data, size, MOST / I2S_BLOCK * I2S_BLOCK);
    require_counts(&wanted, &what, data, size);
    for (i = 0; i < I2S_SURVEY_SETS; i++) {
        const i2s_survey_set *set = &i2s_survey_sets[i];
        i2s_part first, second;
        if (!set->available()) continue;
        first = part_of(&what, 0, cut);
        second = part_of(&what, cut, size - cut);
        fed(&first, set, data, cut, piece);
        fed(&second, set, data + cut, size - cut, piece);
        i2s_part_join(&first, &second);
        require_same(&first, &wanted, set->name);
        dropped(&first);
        dropped(&second);
    }
    dropped(&wanted);
    return 0;
}
