/* One look at the bytes of a string, eight at a time: spaces, a seeded hash, and whether they are UTF-8. */
#ifndef I2S_TEXT_H
#define I2S_TEXT_H

#include <stdint.h>
#include <string.h>

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

/* Eight bytes of which the first is the lowest. */
static inline uint64_t i2s_word(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* Fewer than eight bytes, and zeros above them; `room` bytes may be read. */
static inline uint64_t i2s_rest(const uint8_t *p, int64_t length, int64_t room) {
    uint64_t word = 0;
    if (room >= 8) return i2s_word(p) & (((uint64_t)1 << 8 * length) - 1);
    for (int64_t i = 0; i < length; i++) word |= (uint64_t)p[i] << 8 * i;
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
    uint64_t hash;    /* who does not know seed and key cannot make strings that collide */
    uint64_t carry;   /* 0x80 where the last byte so far opens a character of two bytes */
    uint64_t other;   /* not zero where there is more than ASCII and sound characters of two bytes */
    uint64_t spaces;
} i2s_seen;

static inline void i2s_see(i2s_seen *seen, uint64_t word, uint64_t key, int hashed) {
    uint64_t high = word & I2S_HIGH, x = word ^ I2S_EACH(0x20);
    uint64_t space = ~(((x & ~I2S_HIGH) + ~I2S_HIGH) | x | ~I2S_HIGH);
    seen->spaces += (space >> 7) * I2S_EACH(1) >> 56;
    if (hashed) seen->hash = i2s_fold(seen->hash ^ word, key);
    if (high | seen->carry) {
        uint64_t opens = high & word << 1, goes_on = high & ~opens;
        uint64_t two = opens & ~(word << 2) & ((word & I2S_EACH(0x1E)) + ~I2S_HIGH); /* 0xC2 to 0xDF */
        seen->other |= (opens ^ two) | (goes_on ^ (opens << 8 | seen->carry));
        seen->carry = opens >> 56;
    }
}

/* Look at a string behind whose start `room` bytes may be read; whether it is UTF-8. */
static inline int i2s_look(const uint8_t *p, int64_t length, int64_t room, uint64_t seed, uint64_t key, int hashed,
                           i2s_seen *seen) {
    int64_t at = 0;
    seen->hash = seed ^ (uint64_t)length;
    seen->carry = seen->other = seen->spaces = 0;
    for (; length - at >= 8; at += 8) i2s_see(seen, i2s_word(p + at), key, hashed);
    if (at < length) i2s_see(seen, i2s_rest(p + at, length - at, room - at), key, hashed);
    if (hashed) seen->hash = i2s_fold(seen->hash ^ key, seed | 1);
    return !(seen->other | seen->carry) || i2s_is_utf8(p, length);
}

#endif
