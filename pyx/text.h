/* One pass over the bytes of a string, eight at a time: spaces, a seeded hash, and whether they are UTF-8. */
#ifndef I2S_TEXT_H
#define I2S_TEXT_H

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#if defined(__GNUC__)
#define I2S_FETCH(p) __builtin_prefetch(p, 1)
#else
#define I2S_FETCH(p) ((void)(p))
#endif

#define I2S_EACH(byte) (0x0101010101010101u * (uint64_t)(byte))
#define I2S_HIGH I2S_EACH(0x80)

/* Both halves of a product, folded into one. */
#if defined(__SIZEOF_INT128__)
static inline uint64_t i2s_fold(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}
#else
static inline uint64_t i2s_fold(uint64_t a, uint64_t b) {
    uint64_t al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
    uint64_t low = al * bl, middle = ah * bl + (low >> 32), other = al * bh + (middle & 0xffffffffu);
    return ((low & 0xffffffffu) | other << 32) ^ (ah * bh + (middle >> 32) + (other >> 32));
}
#endif

/* Eight bytes, the first in the lowest bits. */
static inline uint64_t i2s_word(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* The length in front of a string. */
static inline uint64_t i2s_length(const uint8_t *p, int big) {
    uint64_t word = i2s_word(p);
    if (big) {
        word = (word >> 8 & 0x00FF00FF00FF00FFu) | (word & 0x00FF00FF00FF00FFu) << 8;
        word = (word >> 16 & 0x0000FFFF0000FFFFu) | (word & 0x0000FFFF0000FFFFu) << 16;
        word = word >> 32 | word << 32;
    }
    return word;
}

/* Table 3-7 of the Unicode standard, byte by byte. */
static int i2s_is_utf8(const uint8_t *p, int64_t length) {
    const uint8_t *end = p + length;
    while (p < end) {
        uint8_t c = *p++, least = 0x80, most = 0xBF;
        int behind;
        if (c < 0x80) continue;
        if (c < 0xC2 || c > 0xF4) return 0;
        behind = c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
        if (c == 0xE0) least = 0xA0;
        if (c == 0xED) most = 0x9F;
        if (c == 0xF0) least = 0x90;
        if (c == 0xF4) most = 0x8F;
        if (end - p < behind) return 0;
        for (; behind > 0; behind--, p++) {
            if (*p < least || *p > most) return 0;
            least = 0x80, most = 0xBF;
        }
    }
    return 1;
}

typedef struct {
    uint64_t hash;    /* without knowing seed and key, nobody can make strings that collide */
    uint64_t spaces;  /* none, one, or more than one */
    uint64_t carry;   /* 1 if the last byte so far begins a character of two bytes */
    uint64_t other;   /* nonzero if there is more than ASCII and valid characters of two bytes */
} i2s_seen;

/* A bit for each of sixteen bytes: space, not ASCII, continuation byte, and first byte of a two-byte character (0xC2 to
 * 0xDF). */
typedef struct {
    uint32_t space, high, behind, two;
    uint64_t first, second;
} i2s_sixteen;

#if defined(__SSE2__)
static inline i2s_sixteen i2s_sixteen_of(const uint8_t *p, int64_t length, int64_t room) {
    /* sixteen bytes from place 16 - n on keep n bytes */
    static const uint8_t kept[32] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    const __m128i zero = _mm_setzero_si128();
    i2s_sixteen seen;
    __m128i v;
    if (room >= 16) {
        v = _mm_loadu_si128((const __m128i *)p);
    } else {
        uint8_t copy[16] = {0};
        memcpy(copy, p, (size_t)length);
        v = _mm_loadu_si128((const __m128i *)copy);
    }
    v = _mm_and_si128(v, _mm_loadu_si128((const __m128i *)(kept + 16 - length)));
    seen.space = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8(0x20)));
    seen.high = (uint32_t)_mm_movemask_epi8(v);
    seen.behind = (uint32_t)_mm_movemask_epi8(_mm_cmplt_epi8(v, _mm_set1_epi8((char)0xC0)));
    /* from 0xC2 on it wraps to 0 to 0x1D */
    seen.two = (uint32_t)_mm_movemask_epi8(
        _mm_cmpeq_epi8(_mm_subs_epu8(_mm_sub_epi8(v, _mm_set1_epi8((char)0xC2)), _mm_set1_epi8(0x1D)), zero));
    seen.first = (uint64_t)_mm_cvtsi128_si64(v);
    seen.second = (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(v, v));
    return seen;
}
#else
/* The lowest bit of each byte whose highest bit is set, moved together. */
static inline uint32_t i2s_gathered(uint64_t marks) { return (uint32_t)((marks >> 7) * 0x0102040810204080u >> 56); }

static inline uint64_t i2s_bytes(const uint8_t *p, int64_t length) {
    uint64_t word = 0;
    if (length >= 8) return i2s_word(p);
    for (int64_t i = 0; i < length; i++) word |= (uint64_t)p[i] << 8 * i;
    return word;
}

static inline i2s_sixteen i2s_sixteen_of(const uint8_t *p, int64_t length, int64_t room) {
    i2s_sixteen seen = {0, 0, 0, 0, 0, 0};
    (void)room;
    for (int half = 0; half < 2; half++) {
        const uint64_t word = length > 8 * half ? i2s_bytes(p + 8 * half, length - 8 * half) : 0;
        const uint64_t high = word & I2S_HIGH, x = word ^ I2S_EACH(0x20);
        const uint64_t space = ~(((x & ~I2S_HIGH) + ~I2S_HIGH) | x | ~I2S_HIGH), behind = high & ~(word << 1);
        const uint64_t two = high & word << 1 & ~(word << 2) & ((word & I2S_EACH(0x1E)) + ~I2S_HIGH);
        seen.space |= i2s_gathered(space) << 8 * half;
        seen.high |= i2s_gathered(high) << 8 * half;
        seen.behind |= i2s_gathered(behind) << 8 * half;
        seen.two |= i2s_gathered(two) << 8 * half;
        if (half) seen.second = word;
        else seen.first = word;
    }
    return seen;
}
#endif

static inline void i2s_see(i2s_seen *seen, const uint8_t *p, int64_t length, int64_t room, int hashed, uint64_t key) {
    const i2s_sixteen some = i2s_sixteen_of(p, length, room);
    const uint64_t behind = (uint64_t)some.two << 1 | seen->carry;
    seen->spaces |= some.space ? some.space & (some.space - 1) || seen->spaces ? 3 : 1 : 0;
    seen->other |= (some.high ^ some.behind ^ some.two) | (some.behind ^ (behind & 0xFFFF));
    seen->carry = behind >> 16;
    if (hashed) seen->hash = i2s_fold(seen->hash ^ some.first, some.second ^ key);
}

/* Process a string after whose start `room` bytes may be read; returns whether it is UTF-8. Nearly all strings have at
 * most sixteen bytes: for these there are no branches to mispredict. `hashed` is a constant; if it is 0, there is no
 * hash. */
static inline int i2s_look_at(const uint8_t *p, int64_t length, int64_t room, int hashed, uint64_t seed, uint64_t key,
                              i2s_seen *seen) {
    int64_t at = 0;
    seen->hash = seed;
    seen->carry = seen->other = seen->spaces = 0;
    for (; length - at > 16; at += 16) i2s_see(seen, p + at, 16, room - at, hashed, key);
    i2s_see(seen, p + at, length - at, room - at, hashed, key);
    /* the length is added last: before, a first byte could cancel it */
    if (hashed) seen->hash = i2s_fold(seen->hash ^ key, (seed | 1) + 2 * (uint64_t)length);
    return !(seen->other | seen->carry) || i2s_is_utf8(p, length);
}

static inline int i2s_look(const uint8_t *p, int64_t length, int64_t room, uint64_t seed, uint64_t key, i2s_seen *seen) {
    return i2s_look_at(p, length, room, 1, seed, key, seen);
}

/* The same for a string that is not compared with others. */
static inline int i2s_look_alone(const uint8_t *p, int64_t length, int64_t room, i2s_seen *seen) {
    return i2s_look_at(p, length, room, 0, 0, 0, seen);
}

/* A table of tags (halves of hashes) in buckets of eight that occupy one cache line; 0 is an empty place. Inserts a
 * tag; returns whether it was there. At least one place must be empty. */
#define I2S_BUCKET 8
static inline int i2s_enter(uint32_t *slots, uint64_t mask, uint64_t hash) {
    const uint32_t tag = (uint32_t)(hash >> 32) | 1;
    for (uint64_t at = hash & mask & ~(uint64_t)(I2S_BUCKET - 1);; at = (at + I2S_BUCKET) & mask) {
        uint32_t *bucket = slots + at;
#if defined(__SSE2__)
        const __m128i a = _mm_loadu_si128((const __m128i *)bucket), b = _mm_loadu_si128((const __m128i *)bucket + 1);
        const __m128i wanted = _mm_set1_epi32((int)tag), zero = _mm_setzero_si128();
        const __m128i here = _mm_or_si128(_mm_cmpeq_epi32(a, wanted), _mm_cmpeq_epi32(b, wanted));
        const __m128i empty = _mm_packs_epi32(_mm_cmpeq_epi32(a, zero), _mm_cmpeq_epi32(b, zero));
        const unsigned places = (unsigned)_mm_movemask_epi8(empty);
        if (_mm_movemask_epi8(here)) return 1;
        if (places) {
            bucket[__builtin_ctz(places) / 2] = tag;
            return 0;
        }
#else
        for (int i = 0; i < I2S_BUCKET; i++) {
            if (bucket[i] == tag) return 1;
            if (bucket[i] == 0) {
                bucket[i] = tag;
                return 0;
            }
        }
#endif
    }
}

#endif
