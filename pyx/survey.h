/* Examines the parts of payloads, each byte once: counts, the first code 3, runs, a fingerprint, and floats or scales
 * that are not finite.
 *
 * A part is a range of one payload that begins at a multiple of I2S_BLOCK. `i2s_part_feed` takes its bytes in order, in
 * pieces that are multiples of I2S_BLOCK except for the last; `i2s_part_join` merges two neighbors, so that a payload
 * may be divided and its parts be read by several threads. `i2s_survey_work` takes parts from a list until none is
 * left.
 */
#ifndef I2S_SURVEY_H
#define I2S_SURVEY_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE  /* SEEK_DATA */
#endif
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <io.h>
#include <windows.h>
#undef near  /* empty macros of 16-bit times */
#undef far
#else
#include <unistd.h>
#endif

#include "carry_save.h"
#include "cpu.h"
#include "read_at.h"

#define I2S_TAIL 32

#if defined(__BYTE_ORDER__) && defined(__ORDER_BIG_ENDIAN__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define I2S_BIG_ENDIAN 1
#else
#define I2S_BIG_ENDIAN 0
#endif

#include "survey_groups.h"
#include "survey_kernels.h"

typedef struct {
    /* what to read: the offset in the file, the offset in the payload, the number of bytes, and whether the tail
     * follows */
    int64_t at, pos, size;
    int32_t tail_bytes;
    /* 0 for codes; for floats the bytes of each, and their exponent mask in this machine's byte order; 1 for others */
    int32_t width;
    uint64_t mask;
    /* for blocks that are not ternary: bytes of a block, or 0; bytes of a scale, whose exponent mask is then `mask` as a
     * little-endian number; and where its scales are, the second one at -1 if there is none */
    int32_t unit, scale_bytes, scales[2];
    /* the findings; positions count from the start of the payload, -1 is none */
    int64_t seen;
    uint64_t lows, highs, boths, digest;
    int64_t first_unused;
    int64_t non_finite, first_non_finite;
    int64_t head, last, run_at, run;  /* bytes of the first run, start of the last one; the longest one and its start */
    uint8_t head_value, last_value, run_value;
    uint8_t open;  /* the last byte of the part was seen, so its last run may continue */
    uint8_t tail[I2S_TAIL];
    i2s_groups *groups;  /* of a type with a scale for each group, else NULL */
} i2s_part;

#define I2S_GOLDEN 0x9E3779B97F4A7C15u

static inline uint64_t i2s_mix(uint64_t h) {
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBu;
    return h ^ (h >> 31);
}

/* A whole block adds a term made of its sums and its position. Counts of codes are at most 4,096: four fit a word. */
static inline uint64_t i2s_block_digest(const uint64_t sums[4], uint64_t place) {
    return i2s_mix(sums[0] * 0xD6E8FEB86659FD93u + sums[1] * 0xA0761D6478BD642Fu + sums[2] * 0xE7037ED1A0B428DBu +
                   sums[3] * 0x8EBC6AF09C88C6E3u + (place + 1) * I2S_GOLDEN);
}

/* The bytes after the last whole block add each of their words, the last one padded with zeros. */
static uint64_t i2s_rest_digest(const uint8_t *p, int64_t n, uint64_t place) {
    uint64_t h = 0, number = place * (I2S_BLOCK / 8) + 1;
    int64_t i;
    for (i = 0; i < n; i += 8, number++) {
        uint64_t v = 0;
        memcpy(&v, p + i, (size_t)(n - i < 8 ? n - i : 8));
#if I2S_BIG_ENDIAN
        v = __builtin_bswap64(v);
#endif
        h += i2s_mix(v + number * I2S_GOLDEN);
    }
    return h;
}

/* How many bytes from p on have the value of *p's neighbour `value`, at most n. */
static int64_t i2s_same(const uint8_t *p, int64_t n, uint8_t value) {
    const uint64_t all = value * 0x0101010101010101u;
    int64_t i = 0;
    if (n == 0 || p[0] != value) return 0;
    while (i + 8 <= n && i2s_word_at(p + i) == all) i += 8;
    while (i < n && p[i] == value) i++;
    return i;
}

static void i2s_part_begin(i2s_part *part) {
    part->seen = 0;
    part->lows = part->highs = part->boths = part->digest = 0;
    part->first_unused = part->first_non_finite = part->run_at = -1;
    part->non_finite = 0;
    part->head = part->run = 0;
    part->last = part->pos;
    part->head_value = part->last_value = part->run_value = part->open = 0;
    memset(part->tail, 0, I2S_TAIL);
    if (part->groups) i2s_groups_begin(part->groups);
}

static inline void i2s_part_run(i2s_part *part, int64_t at, int64_t length, uint8_t value) {
    if (length >= I2S_LEAST_RUN && length > part->run) {
        part->run_at = at;
        part->run = length;
        part->run_value = value;
    }
}

/* The runs in the n bytes that follow those seen so far. */
static void i2s_part_runs(i2s_part *part, const uint8_t *p, int64_t n, int constant) {
    const int64_t pos = part->pos + part->seen;
    int64_t i = 0, q;
    /* the open run continues, or ends */
    if (part->seen) {
        i = i2s_same(p, n, part->last_value);
        if (part->head == part->seen) part->head += i;
        if (i) i2s_part_run(part, part->last, pos + i - part->last, part->last_value);
        if (i == n) return;
    } else {
        part->head = i2s_same(p, n, p[0]);
        part->head_value = p[0];
    }
    /* long runs inside: each has 32 equal bytes at a multiple of 32 */
    for (q = constant ? (i + 31) / 32 * 32 : n; q + 32 <= n;) {
        const uint8_t value = p[q];
        int64_t from = q, to;
        if (i2s_word_at(p + q) != value * 0x0101010101010101u || i2s_same(p + q, 32, value) != 32) {
            q += 32;
            continue;
        }
        while (from > i && p[from - 1] == value) from--;
        to = q + i2s_same(p + q, n - q, value);
        i2s_part_run(part, pos + from, to - from, value);
        q = (to + 31) / 32 * 32;
    }
    /* the run that is open at the end */
    part->last_value = p[n - 1];
    for (q = n - 1; q > i && p[q - 1] == part->last_value; q--) {}
    part->last = pos + q;
    i2s_part_run(part, part->last, n - q, part->last_value);
}

/* The number of codes with both bits set, if there are any, and the first byte with one. */
static void i2s_part_unused(i2s_part *part, const uint8_t *p, int64_t n, int64_t pos) {
    int64_t i;
    for (i = 0; i < n; i++) {
        const uint8_t both = p[i] & (p[i] >> 1) & 0x55;
        if (both && part->first_unused < 0) part->first_unused = pos + i;
        part->boths += (uint64_t)((both & 1) + ((both >> 2) & 1) + ((both >> 4) & 1) + (both >> 6));
    }
}

/* The number of floats that are not finite, if there are any, and the first one. */
static void i2s_part_odd(i2s_part *part, const uint8_t *p, int64_t n, int64_t pos) {
    const int width = part->width;
    int64_t i;
    for (i = 0; i + width <= n; i += width) {
        uint64_t v = 0;
#if I2S_BIG_ENDIAN
        memcpy((uint8_t *)&v + 8 - width, p + i, (size_t)width);
#else
        memcpy(&v, p + i, (size_t)width);
#endif
        if ((v & part->mask) != part->mask) continue;
        if (part->non_finite++ == 0) part->first_non_finite = pos + i;
    }
}

/* Whether some scale in n bytes is not finite: every `unit` bytes, from `first` on. */
#define I2S_SCALES_ODD(bits)                                                                                            \
    static int i2s_scales_odd_##bits(const uint8_t *p, int64_t n, int64_t first, int64_t unit, uint64_t mask) {         \
        const uint##bits##_t m = (uint##bits##_t)mask;                                                                  \
        int odd = 0;                                                                                                    \
        int64_t i;                                                                                                      \
        for (i = first; i + bits / 8 <= n; i += unit) {                                                                 \
            uint##bits##_t v;                                                                                           \
            memcpy(&v, p + i, bits / 8);                                                                                \
            odd |= (v & m) == m;                                                                                        \
        }                                                                                                               \
        return odd;                                                                                                     \
    }
I2S_SCALES_ODD(8)
I2S_SCALES_ODD(16)
I2S_SCALES_ODD(32)
I2S_SCALES_ODD(64)

/* The scales in at most a block of bytes that are not finite. None is divided: the sizes of blocks and the places of
 * scales are multiples of a scale's size. */
static void i2s_part_scales(i2s_part *part, const uint8_t *p, int64_t n, int64_t pos) {
    const int64_t inside = pos % part->unit;
    const int width = part->scale_bytes;
    uint64_t mask = part->mask;
    int field;
#if I2S_BIG_ENDIAN
    mask = __builtin_bswap64(mask) >> (64 - 8 * width);
#endif
    for (field = 0; field < 2 && part->scales[field] >= 0; field++) {
        const int64_t first = (part->scales[field] - inside + part->unit) % part->unit;
        int64_t i;
        const int odd = width == 1   ? i2s_scales_odd_8(p, n, first, part->unit, mask)
                        : width == 2 ? i2s_scales_odd_16(p, n, first, part->unit, mask)
                        : width == 4 ? i2s_scales_odd_32(p, n, first, part->unit, mask)
                                     : i2s_scales_odd_64(p, n, first, part->unit, mask);
        if (!odd) continue;
        for (i = first; i + width <= n; i += part->unit) {
            uint64_t v = 0;
#if I2S_BIG_ENDIAN
            memcpy((uint8_t *)&v + 8 - width, p + i, (size_t)width);
#else
            memcpy(&v, p + i, (size_t)width);
#endif
            if ((v & mask) != mask) continue;
            part->non_finite++;
            if (part->first_non_finite < 0 || pos + i < part->first_non_finite) part->first_non_finite = pos + i;
        }
    }
}

static void i2s_part_block(i2s_part *part, const i2s_survey_set *set, const uint8_t *p, int64_t n) {
    const int64_t pos = part->pos + part->seen;
    const uint64_t place = (uint64_t)(pos / I2S_BLOCK);
    const uint8_t *block = p;
    uint8_t filled[I2S_BLOCK];
    uint64_t sums[8];
    int seen;
    if (n < I2S_BLOCK) {  /* zero padding changes no count, and adds no float that is not finite */
        memcpy(filled, p, (size_t)n);
        memset(filled + n, 0, (size_t)(I2S_BLOCK - n));
        block = filled;
    }
    if (part->width == 0) {
        seen = set->codes(block, sums);
        part->lows += sums[0] + sums[1] + sums[2] + sums[3];
        part->highs += sums[4] + sums[5] + sums[6] + sums[7];
        sums[0] += sums[1] << 32;
        sums[1] = sums[2] + (sums[3] << 32);
        sums[2] = sums[4] + (sums[5] << 32);
        sums[3] = sums[6] + (sums[7] << 32);
    } else {
        seen = part->width == 1   ? set->words(block, sums)
               : part->width == 2 ? set->floats_2(block, sums, part->mask)
               : part->width == 4 ? set->floats_4(block, sums, part->mask)
                                  : set->floats_8(block, sums, part->mask);
    }
    part->digest += n == I2S_BLOCK ? i2s_block_digest(sums, place) : i2s_rest_digest(p, n, place);
    if (seen & I2S_SEEN_BOTH) i2s_part_unused(part, p, n, pos);
    if (seen & I2S_SEEN_ODD) i2s_part_odd(part, p, n, pos);
    if (part->unit) i2s_part_scales(part, p, n, pos);
    i2s_part_runs(part, p, n, n < I2S_BLOCK || seen & I2S_SEEN_RUN);
    part->seen += n;
    part->open = 1;
}

/* Bytes that stay in a first-level cache of 48 KB, and mostly in one of 32 KB: a step of Q2_0 is 36 KB. */
#define I2S_NEAR 40960

/* The most bytes up to `room` that are whole tiles of groups, or `room`: a divided tile is examined group by group. */
static int64_t i2s_part_room(const i2s_part *part, int64_t room) {
    const int64_t tile = part->groups ? I2S_GROUP_TILE * part->groups->unit : 1;
    int64_t step = I2S_BLOCK;
    while (step <= room && step % tile) step += I2S_BLOCK;
    return step <= room ? room / step * step : room;
}

/* The next n bytes of a part. Bytes of groups are examined twice, as groups and as bytes: the second time while they
 * are in the first-level cache, if whole tiles fit into it. */
static void i2s_part_feed(i2s_part *part, const i2s_survey_set *set, const uint8_t *p, int64_t n) {
    const int64_t near = part->groups ? i2s_part_room(part, I2S_NEAR) : n, step = near < I2S_NEAR ? near : n;
    int64_t from, i;
    for (from = 0; from < n; from += step) {
        const int64_t stop = n - from < step ? n : from + step;
        if (part->groups) i2s_groups_feed(part->groups, set->groups, p + from, stop - from, part->pos + part->seen, part->pos);
        for (i = from; i < stop; i += I2S_BLOCK) i2s_part_block(part, set, p + i, stop - i < I2S_BLOCK ? stop - i : I2S_BLOCK);
    }
}

/* Add the findings of `next`, which follows `part`; runs are joined if no byte lies between them. */
static void i2s_part_join(i2s_part *part, const i2s_part *next) {
    const int meet = part->open && part->pos + part->size == next->pos;
    memcpy(part->tail, next->tail, I2S_TAIL);
    part->tail_bytes = next->tail_bytes;
    if (next->size == 0) return;
    if (next->seen == 0) {
        part->open = 0;
        part->size = next->pos + next->size - part->pos;
        return;
    }
    part->lows += next->lows;
    part->highs += next->highs;
    part->boths += next->boths;
    part->digest += next->digest;
    if (part->groups && next->groups)
        i2s_groups_join(part->groups, next->groups, part->pos, next->pos, next->pos + next->seen, meet);
    if (part->first_unused < 0) part->first_unused = next->first_unused;
    if (part->first_non_finite < 0) part->first_non_finite = next->first_non_finite;
    part->non_finite += next->non_finite;
    if (meet && part->last_value == next->head_value) {
        i2s_part_run(part, part->last, next->pos + next->head - part->last, part->last_value);
        if (next->head < next->size) part->last = next->last;
    } else {
        part->last = next->last;
    }
    part->last_value = next->last_value;
    i2s_part_run(part, next->run_at, next->run, next->run_value);
    part->seen += next->seen;
    part->open = next->open;
    part->size = next->pos + next->size - part->pos;
}

/* --- reading ------------------------------------------------------------------------------------------------------- */

typedef struct {
    i2s_part *parts;
    int64_t count;
    const i2s_survey_set *set;
    int fd;                /* the file, or -1: then all bytes are at `memory` */
    int sparse;            /* the file has holes, which are not read */
    const uint8_t *memory;
    int64_t next;          /* the first part that nobody has taken */
    int64_t done;          /* bytes that were read so far */
    int64_t failed;        /* where a read returned nothing or an error, or -1 */
    int stop;
} i2s_survey_list;

#define I2S_LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)

/* State that threads share. */
static inline void i2s_survey_stop(i2s_survey_list *list) { __atomic_store_n(&list->stop, 1, __ATOMIC_RELAXED); }
static inline int64_t i2s_survey_done(const i2s_survey_list *list) { return I2S_LOAD(list->done); }
static inline int64_t i2s_survey_failed(const i2s_survey_list *list) { return I2S_LOAD(list->failed); }

/* Whether a range of the file is a hole. */
static int i2s_is_hole(int fd, int64_t at, int64_t size) {
#ifdef SEEK_DATA
    const off_t data = lseek(fd, (off_t)at, SEEK_DATA);
    return data < 0 ? errno == ENXIO : (int64_t)data >= at + size;
#else
    (void)fd, (void)at, (void)size;
    return 0;
#endif
}

/* The buffer of a thread: at most `room` bytes at once, in turn through the `span` bytes from `start` on, a multiple of
 * it. */
typedef struct {
    uint8_t *start;
    int64_t room, span, at;
} i2s_read_buffer;

/* The sizes of a buffer: `room` at once in `turns` places or, if `turns` is 0, the sizes with which the processor reads
 * fastest. Two times 1 MiB instead of 256 KiB exceed the second-level cache of 1 MiB, and need fewer system calls. */
static inline void i2s_read_sizes(i2s_read_buffer *buffer, int64_t room, int64_t turns) {
    const int beyond = !turns && i2s_cpu_reads_beyond_second();
    buffer->room = beyond ? 4 * room : room;
    buffer->span = buffer->room * (turns ? turns : beyond ? 2 : 1);
}

/* The place for the next n bytes. */
static inline uint8_t *i2s_read_place(i2s_read_buffer *buffer, int64_t n) {
    uint8_t *place;
    if (buffer->at + n > buffer->span) buffer->at = 0;
    place = buffer->start + buffer->at;
    buffer->at += (n + I2S_BLOCK - 1) / I2S_BLOCK * I2S_BLOCK;  /* no vector load crosses a cache line */
    return place;
}

static void i2s_survey_part(i2s_survey_list *list, i2s_part *part, i2s_read_buffer *buffer) {
    const int64_t room = i2s_part_room(part, buffer->room), all = part->size + part->tail_bytes;
    int64_t at = 0;
    i2s_part_begin(part);
    if (list->sparse && i2s_is_hole(list->fd, part->at, part->size)) {
        at = part->size;  /* without the tail */
        __atomic_fetch_add(&list->done, at, __ATOMIC_RELAXED);
    }
    while (at < all && !I2S_LOAD(list->stop)) {
        const int64_t n = all - at < room ? all - at : room;
        const int64_t codes = part->size - at < n ? (part->size > at ? part->size - at : 0) : n;
        const uint8_t *p = list->memory ? list->memory + part->at + at : i2s_read_place(buffer, n);
        if (!list->memory && !i2s_read_fully(list->fd, (uint8_t *)p, n, part->at + at)) {
            __atomic_store_n(&list->failed, part->at + at, __ATOMIC_RELAXED);
            __atomic_store_n(&list->stop, 1, __ATOMIC_RELAXED);
            return;
        }
        if (codes) i2s_part_feed(part, list->set, p, codes);
        if (codes < n) memcpy(part->tail + (at + codes - part->size), p + codes, (size_t)(n - codes));
        at += n;
        __atomic_fetch_add(&list->done, n, __ATOMIC_RELAXED);
    }
}

/* Take parts until none is left, or until so many bytes were read that the caller wants to check for interrupts. The
 * buffer's room is a multiple of I2S_BLOCK. The result is not 0 if there may be more to do. */
static int i2s_survey_work(i2s_survey_list *list, i2s_read_buffer *buffer, int64_t budget) {
    while (budget > 0) {
        int64_t i;
        if (I2S_LOAD(list->stop)) return 0;
        i = __atomic_fetch_add(&list->next, 1, __ATOMIC_RELAXED);
        if (i >= list->count) return 0;
        i2s_survey_part(list, &list->parts[i], buffer);
        budget -= list->parts[i].size + 4096;
    }
    return 1;
}

/* The probe for benchmarks: the same bytes by the same reads, without examining them. */
static int i2s_survey_probe(i2s_survey_list *list, i2s_read_buffer *buffer) {
    for (;;) {
        const int64_t i = __atomic_fetch_add(&list->next, 1, __ATOMIC_RELAXED);
        int64_t at = 0, all;
        if (i >= list->count) return 1;
        all = list->parts[i].size + list->parts[i].tail_bytes;
        while (at < all) {
            const int64_t n = all - at < buffer->room ? all - at : buffer->room;
            if (!i2s_read_fully(list->fd, i2s_read_place(buffer, n), n, list->parts[i].at + at)) return 0;
            at += n;
        }
    }
}

#endif
