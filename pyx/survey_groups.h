/* Looking at payloads of types with a scale for each group: bytes that no packer writes, and scales that are odd.
 *
 * A group is what has a scale: a block, or a row with its scale in front. `i2s_groups_feed` takes bytes in order, cut
 * anywhere, and `i2s_groups_join` puts neighbours together: of a group that is cut, each side keeps the bytes of the scale
 * that it saw, and whether a code stood for another weight than 0. Whole tiles of blocks go to the kernel of the set.
 *
 *     odd        codes 3 where two bits are a code; bytes that stand for digits and that no packer writes
 *     infinite   scales that are infinite or NaN
 *     negative   finite scales below 0
 *     lost       scales of 0 in groups that have other weights than 0
 *     octaves    the other scales by the exponent of a float16; of float32 likewise, what is out of its range at its ends
 */
#ifndef I2S_SURVEY_GROUPS_H
#define I2S_SURVEY_GROUPS_H

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

/* Keeps a loop that only moves numbers from being made one of vectors, which are put together more slowly. */
#if defined(__GNUC__) || defined(__clang__)
#define I2S_ONE_BY_ONE(x) __asm__("" : "+r"(x))
#else
#define I2S_ONE_BY_ONE(x) (void)0
#endif

#define I2S_OCTAVES 32
/* Blocks that the kernels take at once; of every kind whole vectors. */
#define I2S_GROUP_TILE 32
/* Tiles whose scales are gathered at once. */
#define I2S_GROUP_TILES 8
#define I2S_LARGEST_BLOCK 66

typedef struct {
    uint32_t scale;  /* its bytes that were seen, each in its place */
    uint8_t some;    /* a code of the group is not that of 0 */
} i2s_open_group;

typedef struct {
    int32_t kind, swap;
    int64_t unit;  /* bytes of a group */
    uint64_t odd, scales, infinite, negative, lost;
    /* the first odd byte of the payload; numbers of groups; -1 is nowhere */
    int64_t first_odd, first_infinite, first_negative, first_lost, first_largest;
    uint32_t largest;  /* bits of the largest finite scale, without the sign */
    i2s_open_group head, tail;
    uint64_t *octaves;  /* NULL where so few groups say nothing */
    int32_t base;       /* the first of four octaves that kernels count at once, or -1: none was chosen yet */
} i2s_groups;

/* What a byte of a group is. */
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

/* How many codes 3 a byte has, or whether no packer writes it. ceil(256 * N / 243) is what packers write: of every byte b
 * that is one, 243 * b modulo 256 is below 243. Four digits end with one that is 0, and 81 stands for 243; or they begin
 * with it, and N is below 81. */
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

/* Whether a byte has a code that is not that of 0. Digits of N = b * 243 / 256: 121 is 11111. */
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

/* Tables of i2s_group_odd and i2s_group_some, and for a tile of each kind what a look at whole vectors asks of its bytes:
 * 255 where codes are, 0 where five digits are in a byte. Filled once, when the module is loaded. */
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

/* One whole group: what every kernel leaves over, and what the plain one does with all. Only where the scale is 0 the codes
 * are looked at for other weights. */
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

/* The first of equally large scales of a tile that are larger than all before; `p` is the first of all, `step` bytes apart. */
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

/* Add what was seen in `next`, which begins at byte `pos` of the payload and ends before `stop`; where no byte lies between
 * them, a group that was cut is put together. */
static void i2s_groups_join(i2s_groups *g, const i2s_groups *next, int64_t start, int64_t pos, int64_t stop, int meet) {
    const int64_t number = pos / g->unit;
    int o;
    if (pos % g->unit) {
        if (meet) {  /* also where the group began before this part too: then it is still the head's */
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

/* --- the kernels, one for each set ------------------------------------------------------------------------------------ */

/* The least of what each byte of a tile is apart from one that no packer writes: 0 where there is one. A byte is one if 13
 * times it, modulo 256, is 1 to 13; no two of the 13 end with the same four bits. */
I2S_INTO int i2s_digits_portable(const uint8_t *p, const uint8_t *mask, int n) {
    uint8_t least = 255;
    int i;
    for (i = 0; i < n; i++) {
        const uint8_t apart = (uint8_t)(13 * p[i] - 1) | mask[i];
        least = apart < least ? apart : least;
    }
    return least < 13;
}

/* What is seen in the scales of a tile, and in its bytes of four digits: `count` for each block. Scales are written in the
 * order of this machine. Special is what is in none of the four octaves from `first` on, 0, or not finite. */
enum { I2S_TILE_ODD = 1, I2S_TILE_SPECIAL = 2, I2S_TILE_ABOVE = 4 };
#define I2S_TILE(set, target)                                                                                           \
    I2S_INTO target int i2s_tile_##set(const uint16_t *head, const uint16_t *pair, int count, int swap, uint16_t first,  \
                                       uint16_t top, uint16_t *scales) {                                                \
        uint16_t special = 0, above = 0, odd = 0;                                                                       \
        int c;                                                                                                          \
        for (c = 0; c < I2S_GROUP_TILE; c++) scales[c] = swap ? (uint16_t)(head[c] << 8 | head[c] >> 8) : head[c];       \
        for (c = 0; c < I2S_GROUP_TILE; c++)                                                                            \
            special |= (uint16_t)(((uint16_t)(scales[c] - 1) >= 0x7BFF) | ((uint16_t)(scales[c] - first) > 0xFFF));      \
        for (c = 0; c < I2S_GROUP_TILE; c++) above |= (uint16_t)(scales[c] > top);                                      \
        for (c = 0; c < I2S_GROUP_TILE * count / 2; c++)                                                                \
            odd |= (uint16_t)((((pair[c] & 255) * 81 & 255) > 80) | (((pair[c] >> 8) * 81 & 255) > 80));                 \
        return (odd ? I2S_TILE_ODD : 0) | (special ? I2S_TILE_SPECIAL : 0) | (above ? I2S_TILE_ABOVE : 0);               \
    }                                                                                                                   \
    I2S_INTO target void i2s_tile_octaves_##set(const uint16_t *scales, uint16_t first, uint16_t near[4][I2S_GROUP_TILE]) {\
        int c, k;                                                                                                       \
        for (k = 0; k < 4; k++)                                                                                         \
            for (c = 0; c < I2S_GROUP_TILE; c++)                                                                        \
                near[k][c] = (uint16_t)(near[k][c] + ((uint16_t)(scales[c] - first) >> 10 == k));                        \
    }
I2S_TILE(portable, )

#define I2S_NAME(x) x##_portable
#define I2S_TARGET
#include "survey_groups_body.h"
#undef I2S_NAME
#undef I2S_TARGET

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#include "intrinsics.h"

#include "survey_gather.h"

/* By its lower four bits, the byte that no packer writes, as a signed number; where there is none, one with other bits. */
#define I2S_UNWRITTEN 1, 1, -78, 99, 20, -59, 7, 119, 40, -39, -118, 12, 60, -19, -98, 79

I2S_INTO __attribute__((target("avx2"))) int i2s_digits_avx2(const uint8_t *p, const uint8_t *mask, int n) {
    const __m256i table = _mm256_setr_epi8(I2S_UNWRITTEN, I2S_UNWRITTEN);
    __m256i least = _mm256_set1_epi8(-1);
    int i;
    for (i = 0; i < n; i += 32) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(p + i));
        const __m256i lower = _mm256_and_si256(v, _mm256_set1_epi8(15));
        const __m256i apart = _mm256_xor_si256(_mm256_shuffle_epi8(table, lower), v);
        least = _mm256_min_epu8(least, _mm256_or_si256(apart, _mm256_loadu_si256((const __m256i *)(mask + i))));
    }
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(least, _mm256_setzero_si256())) != 0;
}
I2S_TILE(avx2, __attribute__((target("avx2,popcnt"))))
#define I2S_NAME(x) x##_avx2
#define I2S_TARGET __attribute__((target("avx2,popcnt")))
#define I2S_GATHER i2s_gather_avx2
#include "survey_groups_body.h"
#undef I2S_GATHER
#undef I2S_NAME
#undef I2S_TARGET

/* The scales of a tile are one vector. */
I2S_INTO __attribute__((target("avx512f,avx512bw,avx512vl"))) int i2s_tile_avx512vl(
    const uint16_t *head, const uint16_t *pair, int count, int swap, uint16_t first, uint16_t top, uint16_t *scales) {
    const __m512i low = _mm512_set1_epi16(255), times = _mm512_set1_epi16(81), most = _mm512_set1_epi8(80);
    __m512i v = _mm512_loadu_si512(head);
    __mmask32 special;
    __mmask64 odd = 0;
    int c;
    if (swap) v = _mm512_or_si512(_mm512_slli_epi16(v, 8), _mm512_srli_epi16(v, 8));
    _mm512_storeu_si512(scales, v);
    special = _mm512_cmpge_epu16_mask(_mm512_sub_epi16(v, _mm512_set1_epi16(1)), _mm512_set1_epi16(0x7BFF));
    special |= _mm512_cmpgt_epu16_mask(_mm512_sub_epi16(v, _mm512_set1_epi16((short)first)), _mm512_set1_epi16(0xFFF));
    for (c = 0; c < I2S_GROUP_TILE * count / 2; c += 32) {
        const __m512i four = _mm512_loadu_si512(pair + c);
        const __m512i even = _mm512_mullo_epi16(four, times), upper = _mm512_mullo_epi16(_mm512_andnot_si512(low, four), times);
        odd |= _mm512_cmpgt_epu8_mask(_mm512_ternarylogic_epi32(low, even, upper, 0xCA), most);  /* low ? even : upper */
    }
    return (odd ? I2S_TILE_ODD : 0) | (special ? I2S_TILE_SPECIAL : 0) |
           (_mm512_cmpgt_epu16_mask(v, _mm512_set1_epi16((short)top)) ? I2S_TILE_ABOVE : 0);
}

I2S_INTO __attribute__((target("avx512f,avx512bw,avx512vl"))) void i2s_tile_octaves_avx512vl(
    const uint16_t *scales, uint16_t first, uint16_t near[4][I2S_GROUP_TILE]) {
    const __m512i v = _mm512_sub_epi16(_mm512_loadu_si512(scales), _mm512_set1_epi16((short)first));
    const __m512i octave = _mm512_srli_epi16(v, 10), one = _mm512_set1_epi16(1);
    int k;
    for (k = 0; k < 4; k++) {
        const __m512i held = _mm512_loadu_si512(near[k]);
        const __mmask32 here = _mm512_cmpeq_epi16_mask(octave, _mm512_set1_epi16((short)k));
        _mm512_storeu_si512(near[k], _mm512_mask_add_epi16(held, here, held, one));
    }
}

I2S_INTO __attribute__((target("avx512f,avx512bw,avx512vl"))) int i2s_digits_avx512vl(const uint8_t *p, const uint8_t *mask,
                                                                                   int n) {
    const __m512i table = _mm512_broadcast_i32x4(_mm_setr_epi8(I2S_UNWRITTEN));
    __m512i least = _mm512_set1_epi8(-1);
    int i;
    for (i = 0; i < n; i += 64) {
        const __m512i v = _mm512_loadu_si512(p + i);
        const __m512i lower = _mm512_and_si512(v, _mm512_set1_epi8(15));
        const __m512i apart = _mm512_ternarylogic_epi64(  /* (a ^ b) | c */
            _mm512_shuffle_epi8(table, lower), v, _mm512_loadu_si512(mask + i), 0xBE);
        least = _mm512_min_epu8(least, apart);
    }
    return _mm512_testn_epi8_mask(least, least) != 0;
}
#define I2S_NAME(x) x##_avx512vl
#define I2S_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,popcnt" I2S_BY_512)))
#define I2S_LOOKED(table, v) _mm512_shuffle_epi8(table, _mm512_and_si512(v, _mm512_set1_epi8(15)))
#include "survey_groups_body.h"
#undef I2S_LOOKED
#undef I2S_NAME
#undef I2S_TARGET

/* Where bytes are looked up among 64 (VBMI), by their lower six bits, nothing is cleared before. */
#define I2S_NAME(x) x##_avx512
#define I2S_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,popcnt" I2S_BY_512)))
#define I2S_LOOKED(table, v) _mm512_permutexvar_epi8(v, table)
#define i2s_look_again_avx512 i2s_look_again_avx512vl
#include "survey_tiles.h"
#undef I2S_LOOKED
#undef I2S_NAME
#undef I2S_TARGET
static void i2s_groups_avx512(i2s_groups *g, const uint8_t *p, int64_t count, int64_t number) {
    (g->kind == I2S_PTQ1 ? i2s_look_ptq1_avx512 : i2s_groups_avx512vl)(g, p, count, number);
}
#endif

#endif
