/* Counts of groups, for the kernels in survey_groups.h: of the scales, one by one; of the bytes of a divided group; and
 * how neighbors are merged. */
#ifndef I2S_SURVEY_GROUP_TALLY_H
#define I2S_SURVEY_GROUP_TALLY_H

#include <stdint.h>
#include <string.h>

#include "block_kinds.h"

#if defined(__GNUC__) || defined(__clang__)
#define I2S_INTO static inline __attribute__((always_inline))
#define I2S_LINE __attribute__((aligned(64)))
#else
#define I2S_INTO static inline
#define I2S_LINE
#endif

/* Keeps compilers from vectorizing a loop that only moves numbers, which would be slower. */
#if defined(__GNUC__) || defined(__clang__)
#define I2S_ONE_BY_ONE(x) __asm__("" : "+r"(x))
#else
#define I2S_ONE_BY_ONE(x) (void)0
#endif

#define I2S_OCTAVES 32
/* Blocks that the kernels process at once; whole vectors for every kind. */
#define I2S_GROUP_TILE 32
/* Tiles whose scales are gathered at once. */
#define I2S_GROUP_TILES 8
#define I2S_LARGEST_BLOCK 66

typedef struct {
    uint32_t scale;  /* the bytes of the scale seen so far, in place */
    uint8_t some;    /* a code of the group is not that of 0 */
} i2s_open_group;

typedef struct {
    int32_t kind, swap;
    int64_t unit;  /* bytes of a group */
    uint64_t odd, scales, infinite, negative, lost;
    /* the first odd byte of the payload; numbers of groups; -1 is none */
    int64_t first_odd, first_infinite, first_negative, first_lost, first_largest;
    uint32_t largest;  /* bits of the largest finite scale, without the sign */
    i2s_open_group head, tail;
    uint64_t *octaves;  /* NULL if there are too few groups for a distribution */
    int32_t base;       /* the first of four octaves that kernels count at once, or -1 before it is chosen */
} i2s_groups;

/* The role of a byte of a group. */
enum { I2S_IS_SCALE, I2S_IS_CODES, I2S_IS_DIGITS, I2S_IS_FOUR_DIGITS, I2S_IS_LAST_DIGITS };

static inline int i2s_group_front(int kind) { return kind == I2S_IQ2 ? 4 : kind == I2S_IQ1 ? 2 : 0; }

static inline int i2s_group_class(int kind, int64_t at) {
    const i2s_block shape = i2s_block_kinds[kind];
    const int front = i2s_group_front(kind);
    if (front) {
        if (at < front) return I2S_IS_SCALE;
        if (kind == I2S_IQ2) return I2S_IS_CODES;
        return (at - front) % shape.bytes == 12 ? I2S_IS_LAST_DIGITS : I2S_IS_DIGITS;
    }
    if (at >= shape.scale && at < shape.scale + 2) return I2S_IS_SCALE;
    if (kind == I2S_TQ1) return at < 48 ? I2S_IS_DIGITS : I2S_IS_FOUR_DIGITS;
    if (kind == I2S_PTQ1) return at < 24 ? I2S_IS_DIGITS : I2S_IS_FOUR_DIGITS;
    return I2S_IS_CODES;
}

/* The number of codes 3 in a byte, or whether no packer writes it. Packers write ceil(256 * N / 243): for each such
 * byte b, 243 * b modulo 256 is below 243. Four digits end with a digit 0, and 81 stands for 243; or they begin with
 * it, and N is below 81. */
static inline int i2s_group_odd(int what, uint8_t b) {
    const uint8_t both = b & (b >> 1) & 0x55;
    switch (what) {
    case I2S_IS_CODES: return (both & 1) + ((both >> 2) & 1) + ((both >> 4) & 1) + (both >> 6);
    case I2S_IS_DIGITS: return (uint8_t)(b * 243) > 242;
    case I2S_IS_FOUR_DIGITS: return (uint8_t)(b * 81) > 80;
    case I2S_IS_LAST_DIGITS: return (uint8_t)(b * 243) > 242 || b > 85;
    default: return 0;
    }
}

/* Whether a byte has a code other than that of 0. Digits of N = b * 243 / 256: 121 is 11111. */
static inline int i2s_group_some(int what, uint8_t b) {
    const int number = b * 243 >> 8;
    switch (what) {
    case I2S_IS_CODES: return b != 0x55;
    case I2S_IS_DIGITS: return number != 121;
    case I2S_IS_FOUR_DIGITS: return number / 3 != 40;
    case I2S_IS_LAST_DIGITS: return number % 81 != 40;
    default: return 0;
    }
}

static void i2s_groups_begin(i2s_groups *g) {
    const i2s_groups fresh = {g->kind, g->swap, g->unit, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, 0, {0, 0}, {0, 0}, g->octaves, -1};
    *g = fresh;
    if (g->octaves) memset(g->octaves, 0, I2S_OCTAVES * sizeof *g->octaves);
}

/* The scale of one whole group, by its bits as a number. */
static inline void i2s_group_scale(i2s_groups *g, uint32_t bits, int64_t number, int some) {
    const int single = g->kind == I2S_IQ2;
    const uint32_t most = single ? 0x7FFFFFFFu : 0x7FFFu, size = bits & most;
    int octave = single ? (int)(size >> 23) - 112 : (int)(size >> 10);
    g->scales++;
    if (size >= (single ? 0x7F800000u : 0x7C00u)) {
        if (g->infinite++ == 0) g->first_infinite = number;
        return;
    }
    if (size == 0) {
        if (some && g->lost++ == 0) g->first_lost = number;
        return;
    }
    if (bits > most && g->negative++ == 0) g->first_negative = number;
    octave = octave < 0 ? 0 : octave >= I2S_OCTAVES ? I2S_OCTAVES - 1 : octave;
    if (g->octaves) g->octaves[octave]++;
    if (size > g->largest) {
        g->largest = size;
        g->first_largest = number;
    }
}

static inline void i2s_group_close(i2s_groups *g, const i2s_open_group *open, int64_t number) {
    uint32_t bits = open->scale;
    if (g->swap) bits = g->kind == I2S_IQ2 ? bits >> 24 | (bits >> 8 & 0xFF00u) | (bits << 8 & 0xFF0000u) | bits << 24
                                           : (bits >> 8 & 0xFFu) | (bits << 8 & 0xFF00u);
    i2s_group_scale(g, bits, number, open->some);
}

/* n bytes of one group, from byte `at` of it on, which is byte `pos` of the payload. */
static void i2s_group_bytes(i2s_groups *g, i2s_open_group *open, const uint8_t *p, int64_t n, int64_t at, int64_t pos) {
    const int kind = g->kind, scale = i2s_block_kinds[kind].scale;
    int64_t i;
    for (i = 0; i < n; i++) {
        const int what = i2s_group_class(kind, at + i);
        int odd;
        if (what == I2S_IS_SCALE) {
            open->scale |= (uint32_t)p[i] << 8 * (at + i - (scale < 0 ? 0 : scale));
            continue;
        }
        open->some |= (uint8_t)i2s_group_some(what, p[i]);
        odd = i2s_group_odd(what, p[i]);
        if (odd && g->odd == 0) g->first_odd = pos + i;
        g->odd += (uint64_t)odd;
    }
}

/* Tables of i2s_group_odd and i2s_group_some, and for a tile of each kind the masks for whole vectors: 255 for bytes of
 * codes, 0 for bytes of five digits. Filled once, when the module is loaded. */
static uint8_t i2s_odd_table[5][256], i2s_some_table[5][256];
static I2S_LINE uint8_t i2s_group_masks[I2S_BLOCK_KINDS][I2S_GROUP_TILE * I2S_LARGEST_BLOCK];

static void i2s_groups_init(void) {
    int what, b, kind, i;
    for (what = 0; what < 5; what++)
        for (b = 0; b < 256; b++) {
            i2s_odd_table[what][b] = (uint8_t)i2s_group_odd(what, (uint8_t)b);
            i2s_some_table[what][b] = (uint8_t)i2s_group_some(what, (uint8_t)b);
        }
    for (kind = 0; kind < I2S_BLOCK_KINDS; kind++) {
        const int bytes = i2s_block_kinds[kind].bytes;
        for (i = 0; i < I2S_GROUP_TILE * bytes; i++) {
            what = i2s_group_front(kind) ? I2S_IS_SCALE : i2s_group_class(kind, i % bytes);
            i2s_group_masks[kind][i] = kind == I2S_TQ1 || kind == I2S_PTQ1 ? (what == I2S_IS_DIGITS ? 0 : 255)
                                                                           : (what == I2S_IS_CODES ? 255 : 0);
        }
    }
}

static inline uint64_t i2s_codes_odd(const uint8_t *p, int64_t n) {
    const uint64_t even = 0x5555555555555555u;
    uint64_t total = 0, v;
    int64_t i;
    for (i = 0; i < n; i += 8) {
        v = 0;
        memcpy(&v, p + i, (size_t)(n - i < 8 ? n - i : 8));
        for (v &= v >> 1 & even; v; v &= v - 1) total++;
    }
    return total;
}

/* One whole group: the rest after every kernel, and all groups in the plain one. Only if the scale is 0 are the codes
 * examined for nonzero weights. */
static inline void i2s_group_whole(i2s_groups *g, const uint8_t *p, int64_t number) {
    const int kind = g->kind, front = i2s_group_front(kind), scale = i2s_block_kinds[kind].scale;
    const uint8_t *s = p + (front ? 0 : scale);
    const int digits = kind == I2S_TQ1 || kind == I2S_PTQ1 || kind == I2S_IQ1;
    i2s_open_group open = {(uint32_t)s[0] | (uint32_t)s[1] << 8, 0};
    const uint32_t size = front == 4 ? (g->swap ? 0xFFFFFF7Fu : 0x7FFFFFFFu) : g->swap ? 0xFF7Fu : 0x7FFFu;  /* not the sign */
    uint64_t odd = 0;
    int64_t i;
    if (front == 4) open.scale |= (uint32_t)s[2] << 16 | (uint32_t)s[3] << 24;
    if (!digits) odd = kind == I2S_TQ2 ? i2s_codes_odd(p, 64) : i2s_codes_odd(p + (front ? 4 : 2), g->unit - (front ? 4 : 2));
    else if (kind == I2S_IQ1) {
        for (i = front; i < g->unit; i += 13) {
            int k;
            for (k = 0; k < 12; k++) odd += i2s_odd_table[I2S_IS_DIGITS][p[i + k]];
            odd += i2s_odd_table[I2S_IS_LAST_DIGITS][p[i + 12]];
        }
    } else {
        const int whole = kind == I2S_TQ1 ? 48 : 24;
        for (i = 0; i < whole; i++) odd += i2s_odd_table[I2S_IS_DIGITS][p[i]];
        for (; i < scale; i++) odd += i2s_odd_table[I2S_IS_FOUR_DIGITS][p[i]];
    }
    if (odd && g->odd == 0)
        for (i = 0; g->first_odd < 0; i++)
            if (i2s_odd_table[i2s_group_class(kind, i)][p[i]]) g->first_odd = number * g->unit + i;
    g->odd += odd;
    if ((open.scale & size) == 0)
        for (i = 0; i < g->unit && !open.some; i++) open.some = i2s_some_table[i2s_group_class(kind, i)][p[i]];
    i2s_group_close(g, &open, number);
}

static void i2s_groups_plain(i2s_groups *g, const uint8_t *p, int64_t count, int64_t number) {
    int64_t i;
    for (i = 0; i < count; i++) i2s_group_whole(g, p + i * g->unit, number + i);
}

/* The first of equally large scales of a tile that exceed all before; `p` is the first of all, `step` bytes apart. */
static inline void i2s_group_largest(i2s_groups *g, const uint8_t *p, int step, uint16_t most, int64_t number) {
    const uint8_t low = (uint8_t)most, high = (uint8_t)(most >> 8);
    for (; p[0] != (g->swap ? high : low) || p[1] != (g->swap ? low : high); p += step) number++;
    g->largest = most;
    g->first_largest = number;
}

/* The n bytes from byte `pos` of the payload on; `start` is where the part begins. */
static void i2s_groups_feed(i2s_groups *g, void (*look)(i2s_groups *, const uint8_t *, int64_t, int64_t), const uint8_t *p,
                            int64_t n, int64_t pos, int64_t start) {
    const int64_t unit = g->unit;
    int64_t at = pos % unit, number = pos / unit, whole;
    if (at) {
        const int ours = number * unit >= start;
        i2s_open_group *open = ours ? &g->tail : &g->head;
        const int64_t here = unit - at < n ? unit - at : n;
        i2s_group_bytes(g, open, p, here, at, pos);
        if (ours && at + here == unit) {
            i2s_group_close(g, open, number);
            memset(open, 0, sizeof *open);
        }
        p += here;
        n -= here;
        number++;
    }
    whole = n / unit;
    look(g, p, whole, number);
    if (n > whole * unit) i2s_group_bytes(g, &g->tail, p + whole * unit, n - whole * unit, 0, (number + whole) * unit);
}

/* Add the findings of `next`, which begins at byte `pos` of the payload and ends before `stop`; if no byte lies between
 * them, a divided group is joined. */
static void i2s_groups_join(i2s_groups *g, const i2s_groups *next, int64_t start, int64_t pos, int64_t stop, int meet) {
    const int64_t number = pos / g->unit;
    int o;
    if (pos % g->unit) {
        if (meet) {  /* also if the group began before this part: then it is still the head's */
            i2s_open_group *open = number * g->unit >= start ? &g->tail : &g->head;
            open->scale |= next->head.scale;
            open->some |= next->head.some;
            if (open == &g->tail && (number + 1) * g->unit <= stop) {
                i2s_group_close(g, open, number);
                memset(open, 0, sizeof *open);
            }
        } else memset(&g->tail, 0, sizeof g->tail);
    }
    if (stop > (number + (pos % g->unit != 0)) * g->unit) g->tail = next->tail;
    if (g->first_odd < 0) g->first_odd = next->first_odd;
    if (g->first_infinite < 0) g->first_infinite = next->first_infinite;
    if (g->first_negative < 0) g->first_negative = next->first_negative;
    if (g->first_lost < 0) g->first_lost = next->first_lost;
    if (next->largest > g->largest) {
        g->largest = next->largest;
        g->first_largest = next->first_largest;
    }
    g->odd += next->odd;
    g->scales += next->scales;
    g->infinite += next->infinite;
    g->negative += next->negative;
    g->lost += next->lost;
    for (o = 0; g->octaves && next->octaves && o < I2S_OCTAVES; o++) g->octaves[o] += next->octaves[o];
}

#endif
