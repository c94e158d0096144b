/* Runs the block kernels on cases from a file, without Python: `block_driver CASES [SET]`, as driver.c does for I2_S.
 *
 * The file is "I2SBLOCK", then for each case nine integers of 8 bytes, little-endian: what, kind, rows, blocks, front, an
 * option (the bytes of scales swapped, or the largest value), the answer, the bytes of source and of result; then source,
 * scales of a pack behind it, and result. Sources and results end where the process may touch no more. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blocks.h"
#include "../../../pages.h"

enum { UNPACK, PACK, FLOATS, COUNT, SCALES, WHATS };
static const char *const NAMES[WHATS] = {"unpack", "pack", "floats", "count", "scales"};
enum { WORDS = 9, FILL = 0xA5, BEFORE = 64 };

static unsigned long passed, failed;

static void give_up(const char *why) {
    fprintf(stderr, "block_driver: %s\n", why);
    exit(2);
}

typedef struct { uint8_t *whole, *start; size_t mapped; } memory;

/* `bytes` bytes that end `behind` bytes before inaccessible memory; the surroundings are FILL. */
static memory obtain(size_t bytes, size_t behind) {
    const size_t page = page_size(), room = (BEFORE + bytes + behind + page - 1) / page * page;
    memory m;
    m.whole = open_pages(room + page);
    if (m.whole == NULL || !close_pages(m.whole + room, page)) give_up("no memory");
    m.mapped = room + page;
    m.start = m.whole + room - behind - bytes;
    memset(m.whole, FILL, room);
    return m;
}

static int clean(const memory *m, size_t bytes, size_t behind) {
    size_t i;
    for (i = 1; i <= BEFORE; i++)
        if (m->start[-(ptrdiff_t)i] != FILL) return 0;
    for (i = 0; i < behind; i++)
        if (m->start[bytes + i] != FILL) return 0;
    return 1;
}

static void run(const i2s_block_set *set, const int64_t w[WORDS], const uint8_t *source, const uint8_t *result, int number) {
    static const size_t behind[] = {0, 32, 1, 64};
    const int what = (int)w[0], kind = (int)w[1], front = (int)w[4], option = (int)w[5];
    const size_t n = (size_t)w[7], m = (size_t)w[8];
    int i, stream;
    for (i = 0; i < 4; i++)
        for (stream = 0; stream < 2; stream++) {
            /* floats are aligned as floats */
            const size_t after = what == FLOATS || what == SCALES ? behind[i] / 4 * 4 : behind[i];
            memory in = obtain(n, behind[i]), out = obtain(m, after);
            int64_t answer = w[6];
            int right, same = 1;
            memcpy(in.start, source, n);
            switch (what) {
            case UNPACK: {
                /* the scales of blocks are those of `scales`, in the byte order of the option */
                const size_t size = i2s_block_kinds[kind].scale < 0 ? 0 : (size_t)(w[2] * w[3]) * 4;
                memory at_once = obtain(size, 0), apart = obtain(size, 0);
                answer = set->unpack(kind, in.start, w[2], w[3], front, (int8_t *)out.start, stream, option,
                                     (float *)at_once.start);
                if (size) i2s_block_scales(kind, in.start, w[2] * w[3], option, (float *)apart.start);
                same = memcmp(at_once.start, apart.start, size) == 0 && clean(&at_once, size, 0);
                release_pages(at_once.whole, at_once.mapped);
                release_pages(apart.whole, apart.mapped);
                break;
            }
            case PACK: {
                const size_t values = (size_t)(w[2] * w[3] * i2s_block_kinds[kind].elements);
                answer = set->pack(kind, (const int8_t *)in.start, w[2], w[3], front, in.start + values, front ? front : 2,
                                   option, out.start, stream);
                break;
            }
            case FLOATS: answer = set->floats(kind, in.start, w[2], w[3], front, option, (float *)out.start, stream); break;
            case COUNT: {
                uint64_t count[3];
                set->count(kind, in.start, w[2], w[3], front, count);
                memcpy(out.start, count, sizeof count);
                break;
            }
            default: i2s_block_scales(kind, in.start, w[3], option, (float *)out.start);
            }
            right = same && answer == w[6] && (answer && what == PACK ? 1 : memcmp(out.start, result, m) == 0) && clean(&out, m, after);
            if (right) passed++;
            else {
                failed++;
                printf("%s %s, case %d, kind %d: wrong (behind %zu, stream %d)\n", set->name, NAMES[what], number, kind, behind[i], stream);
            }
            release_pages(in.whole, in.mapped);
            release_pages(out.whole, out.mapped);
        }
}

int main(int argc, char **argv) {
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    char magic[8];
    int64_t w[WORDS];
    int s, number = 0, ran = 0;
    if (!file || fread(magic, 1, 8, file) != 8 || memcmp(magic, "I2SBLOCK", 8)) give_up("no cases");
    while (fread(w, 8, WORDS, file) == WORDS) {
        const size_t n = (size_t)w[7], m = (size_t)w[8];
        uint8_t *source = malloc(n + m + 1);
        if (!source || fread(source, 1, n + m, file) != n + m) give_up("cut off");
        for (s = 0; s < I2S_BLOCK_SETS; s++)
            if (i2s_block_sets[s].available() && (argc < 3 || !strcmp(argv[2], i2s_block_sets[s].name))) {
                run(i2s_block_sets + s, w, source, source + n, number);
                ran |= 1 << s;
            }
        free(source);
        number++;
    }
    fclose(file);
    for (s = 0; s < I2S_BLOCK_SETS; s++)
        if (ran >> s & 1) printf("%s: runs\n", i2s_block_sets[s].name);
    printf("%lu passed, %lu failed\n", passed, failed);
    return failed != 0;
}
