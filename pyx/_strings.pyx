# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: freethreading_compatible=True
"""The fast look at arrays of strings: one walk over their bytes that decodes nothing.

It is held to `i2s_spec.gguf.strings.definition`. The bytes come in parts, so that an array of any size needs no more
memory than one part and the table in which repeated strings are found; both are bounded.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memcmp, memcpy

cdef extern from *:
    """
    #include <stdint.h>
    #if defined(__SIZEOF_INT128__)
    static inline uint64_t fold(uint64_t a, uint64_t b) {
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    #else
    static inline uint64_t fold(uint64_t a, uint64_t b) {
        uint64_t al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
        uint64_t low = al * bl, middle = ah * bl + (low >> 32), other = al * bh + (middle & 0xffffffffu);
        return (low & 0xffffffffu | other << 32) ^ (ah * bh + (middle >> 32) + (other >> 32));
    }
    #endif
    """
    uint64_t fold(uint64_t a, uint64_t b) nogil


cdef inline uint64_t u64(const uint8_t *p, bint big) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(8):
        value = value << 8 | p[i if big else 7 - i]
    return value


cdef inline uint64_t digest(const uint8_t *p, int64_t length, uint64_t seed, uint64_t key) noexcept nogil:
    """A seeded hash: who does not know the seed cannot make strings that collide."""
    cdef uint64_t state = seed ^ <uint64_t>length, word
    while length >= 8:
        memcpy(&word, p, 8)
        state = fold(state ^ word, key)
        p += 8
        length -= 8
    if length:
        word = 0
        memcpy(&word, p, length)
        state = fold(state ^ word, key)
    return fold(state ^ key, seed | 1)


cdef inline bint digit(uint8_t c) noexcept nogil:
    return 0x30 <= c <= 0x39


cdef inline bint hexadecimal(uint8_t c) noexcept nogil:
    return 0x30 <= c <= 0x39 or 0x41 <= c <= 0x46 or 0x61 <= c <= 0x66


DEF NEEDLES = 64
DEF CANDIDATES = 16  # equal hashes of different strings hardly come about by chance: the first one is the answer

cdef int64_t FAR = <int64_t>1 << 61


cdef class Walk:
    """What was seen so far of one array of strings; `feed` goes on with the bytes that follow."""

    cdef readonly int64_t index        # strings that were passed over
    cdef readonly int64_t position     # where the next one begins
    cdef readonly int64_t empty, first_empty, longest, longest_at
    cdef readonly int64_t odd_pairs, first_odd_pair, numbered, first_numbered
    cdef readonly object byte_forms, needles
    cdef int64_t count, limit, kept_forms
    cdef bint big
    cdef uint64_t seed, key, mask
    cdef uint32_t *slots               # halves of hashes; 0 stands for an empty slot
    cdef list texts
    cdef const uint8_t *text[NEEDLES]
    cdef int64_t text_length[NEEDLES]
    cdef int texts_count

    def __cinit__(self, int64_t start, int64_t count, bint big, seed, int64_t limit, list texts, int64_t kept_forms):
        cdef uint64_t room = 64
        if len(texts) > NEEDLES:
            raise ValueError(f"at most {NEEDLES} texts are looked for at once")
        self.position, self.count, self.big, self.kept_forms = start, count, big, kept_forms
        self.seed, self.key = seed
        self.limit = min(limit, count)
        while room < <uint64_t>(2 * self.limit):
            room *= 2
        self.mask = room - 1
        self.slots = <uint32_t *>calloc(room, sizeof(uint32_t))
        if self.slots == NULL:
            raise MemoryError
        self.first_empty = self.first_odd_pair = self.first_numbered = self.longest_at = -1
        self.longest = -1
        self.byte_forms = []
        self.texts = texts
        self.needles = [-1] * len(texts)
        self.texts_count = len(texts)
        for i, text in enumerate(texts):
            self.text[i] = <const uint8_t *><bytes>text
            self.text_length[i] = len(text)

    def __dealloc__(self):
        free(self.slots)

    def feed(self, const uint8_t[::1] part, int64_t most):
        """Walk over the strings that lie whole in `part`, which begins at `position`; of longer ones than `most`, the
        content is not looked at. Returns the strings that seem to be there a second time: index and where each begins.
        """
        cdef const uint8_t *base = &part[0]
        cdef int64_t at = 0, size = part.shape[0]
        cdef uint64_t length
        cdef list candidates = []
        while self.index < self.count:
            if size - at < 8:
                break
            length = u64(base + at, self.big)
            if length > <uint64_t>most:
                # Its content need not be here: it is passed over, and only its length noted.
                if length > <uint64_t>FAR:
                    length = FAR
                self.note_length(<int64_t>length)
                self.odd_pair()
                self.index += 1
                self.position += 8 + <int64_t>length
                return candidates
            if <int64_t>length > size - at - 8:
                break
            self.look(base + at + 8, <int64_t>length, candidates)
            at += 8 + <int64_t>length
            self.position += 8 + <int64_t>length
            self.index += 1
        return candidates

    cdef void note_length(self, int64_t length) noexcept:
        if length > self.longest:
            self.longest = length
            self.longest_at = self.index

    cdef void odd_pair(self) noexcept:
        self.odd_pairs += 1
        if self.first_odd_pair < 0:
            self.first_odd_pair = self.index

    cdef int look(self, const uint8_t *p, int64_t length, list candidates) except -1:
        cdef const uint8_t *space
        cdef const uint8_t *last
        cdef uint64_t hash, slot
        cdef uint32_t tag
        cdef int i
        if length > self.longest:
            self.longest = length
            self.longest_at = self.index
        if length == 0:
            self.empty += 1
            if self.first_empty < 0:
                self.first_empty = self.index
        space = <const uint8_t *>memchr(p, 0x20, length) if length else NULL
        last = p + length - 1
        if space == NULL or space == p or space == last or memchr(space + 1, 0x20, last - space) != NULL:
            self.odd_pair()
        if length > 3 and (p[0] == 0x5B or p[0] == 0x3C):
            self.look_at_form(p, length)
        for i in range(self.texts_count):
            if self.text_length[i] == length and memcmp(self.text[i], p, length) == 0 and self.needles[i] < 0:
                self.needles[i] = self.index
        if length and self.index < self.limit:  # empty ones are counted
            hash = digest(p, length, self.seed, self.key)
            tag = <uint32_t>(hash >> 32) | 1
            slot = hash & self.mask
            while self.slots[slot] and self.slots[slot] != tag:
                slot = (slot + 1) & self.mask
            if self.slots[slot] == 0:
                self.slots[slot] = tag
            elif len(candidates) < CANDIDATES:
                candidates.append((self.index, self.position))
        return 0

    cdef int look_at_form(self, const uint8_t *p, int64_t length) except -1:
        if (
            (length > 4 and memcmp(p, b"[PAD", 4) == 0 and digit(p[4]))
            or (length > 6 and memcmp(p, b"<dummy", 6) == 0 and digit(p[6]))
        ):
            self.numbered += 1
            if self.first_numbered < 0:
                self.first_numbered = self.index
        elif (
            memcmp(p, b"<0x", 3) == 0
            and not (length == 6 and hexadecimal(p[3]) and hexadecimal(p[4]) and p[5] == 0x3E)
            and <int64_t>len(self.byte_forms) < self.kept_forms
        ):
            self.byte_forms.append(self.index)
        return 0


def first_outside(const uint8_t[::1] data, bint big, int32_t least, int32_t most):
    """The index of the first 32-bit integer of `data` that is below `least` or above `most`, or -1."""
    cdef int64_t count = data.shape[0] // 4, i
    cdef const uint8_t *p
    cdef int32_t value
    if count == 0:
        return -1
    p = &data[0]
    for i in range(count):
        if big:
            value = <int32_t>(<uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | p[3])
        else:
            value = <int32_t>(<uint32_t>p[3] << 24 | <uint32_t>p[2] << 16 | <uint32_t>p[1] << 8 | p[0])
        if value < least or value > most:
            return i
        p += 4
    return -1
