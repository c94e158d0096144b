# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, binding=False, auto_pickle=False
# cython: freethreading_compatible=True
"""The fast check of arrays of strings: one walk over their bytes that decodes nothing.

It has to agree with `i2s_spec.gguf.strings.definition`. The bytes come in parts, so that an array of any size needs no
more memory than one part and the table in which repeated strings are found; both are bounded.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from i2s_spec.gguf.source import zeros

include "bytes_of.pxi"

cdef extern from "text.h" nogil:
    ctypedef struct Seen "i2s_seen":
        uint64_t hash, spaces
    uint64_t i2s_length(const uint8_t *p, bint big)
    bint i2s_look(const uint8_t *p, int64_t length, int64_t room, uint64_t seed, uint64_t key, Seen *seen)
    bint i2s_look_alone(const uint8_t *p, int64_t length, int64_t room, Seen *seen)
    void I2S_FETCH(const void *p)
    bint i2s_enter(uint32_t *slots, uint64_t mask, uint64_t hash)


DEF NEEDLES = 64
DEF MARKER = 64  # bytes of the longest string that is kept as a marker
DEF BLOOM = 64  # words; a power of two
DEF WAITING = 16  # a power of two
DEF CANDIDATES = 16  # different strings almost never have equal hashes by chance: the first one is the answer


cdef inline bint digit(uint8_t c) noexcept nogil:
    return 0x30 <= c <= 0x39


cdef inline uint64_t bloom_word(uint64_t hash) noexcept nogil:
    return hash >> 32 & (BLOOM - 1)


cdef inline uint64_t bloom_bit(uint64_t hash) noexcept nogil:
    return <uint64_t>1 << (hash >> 40 & 63)


cdef inline bint hexadecimal(uint8_t c) noexcept nogil:
    return 0x30 <= c <= 0x39 or 0x41 <= c <= 0x46 or 0x61 <= c <= 0x66


cdef int64_t FAR = <int64_t>1 << 61

cdef struct Waiting:
    uint64_t hash
    int64_t index, position


@cython.final
cdef class Walk:
    """The findings so far in one array of strings; `feed` continues with the bytes that follow, for one thread at a time."""

    cdef readonly int64_t index        # strings passed so far
    cdef readonly int64_t position     # where the next one begins
    cdef readonly int64_t empty, first_empty, longest, longest_at
    cdef readonly int64_t odd_pairs, first_odd_pair, numbered, first_numbered
    cdef readonly bint is_utf8         # every string was checked, and is UTF-8
    cdef readonly int64_t markers      # strings of the form <|...|>
    cdef readonly object byte_forms, needles, marked
    cdef int64_t count, limit, kept_forms, kept_marked
    cdef bint big
    cdef uint64_t seed, key, mask
    cdef uint64_t bloom[BLOOM]         # bits chosen by the hashes of the texts: other strings rarely hit one
    cdef Bytes table
    cdef uint32_t *slots               # the same
    cdef Waiting waiting[WAITING]      # strings whose slots are being fetched, since the table is in no near cache
    cdef uint64_t arrived, entered
    cdef list texts
    cdef const uint8_t *text[NEEDLES]
    cdef int64_t text_length[NEEDLES]
    cdef uint64_t text_hash[NEEDLES]
    cdef int texts_count
    cdef bint fed  # a thread is in `feed`

    def __cinit__(self, int64_t start, int64_t count, bint big, seed, int64_t limit, list texts, int64_t kept_forms,
                  int64_t kept_marked=0):
        cdef uint64_t room = 64
        cdef Seen seen
        if len(texts) > NEEDLES:
            raise ValueError(f"at most {NEEDLES} texts are looked for at once")
        self.position, self.count, self.big = start, count, big
        self.kept_forms, self.kept_marked = kept_forms, kept_marked
        self.seed, self.key = seed
        self.limit = min(limit, count)
        while 5 * room < <uint64_t>(8 * self.limit):  # it is full to five eighths at most
            room *= 2
        self.mask = room - 1
        self.table = Bytes(zeros(sizeof(uint32_t) * room), True)
        self.slots = <uint32_t *>self.table.start
        self.first_empty = self.first_odd_pair = self.first_numbered = self.longest_at = -1
        self.longest = -1
        self.byte_forms, self.marked = [], {}
        self.texts = texts = list(texts)  # this list, which has no other owner, keeps their bytes alive
        self.needles = [-1] * len(texts)
        self.texts_count = len(texts)
        for i, text in enumerate(texts):
            self.text[i] = <const uint8_t *><bytes>text
            self.text_length[i] = len(text)
            i2s_look(self.text[i], self.text_length[i], self.text_length[i], self.seed, self.key, &seen)
            self.text_hash[i] = seen.hash
            self.bloom[bloom_word(seen.hash)] |= bloom_bit(seen.hash)
        self.is_utf8 = True

    def feed(self, part, int64_t most):
        """Walk over the strings that lie whole in `part`, which begins at `position`; the content of strings longer than
        `most` is skipped. Returns the index and the position of strings that seem to be duplicates.

        :raises RuntimeError: while another thread feeds
        """
        self.begin()
        try:
            return self.walked(Bytes(part), most)
        finally:
            self.end()

    @cython.critical_section
    cdef int begin(self) except -1:
        if self.fed:
            raise RuntimeError("another thread feeds this walk")
        self.fed = True
        return 0

    @cython.critical_section
    cdef int end(self) except -1:
        self.fed = False
        return 0

    cdef list walked(self, Bytes part, int64_t most):
        cdef const uint8_t *base = part.start
        cdef int64_t at = 0, size = part.size
        cdef uint64_t length
        cdef list candidates = []
        cdef bint compared = self.limit > 0 or self.texts_count > 0
        while self.index < self.count:
            if size - at < 8:
                break
            length = i2s_length(base + at, self.big)
            if length > <uint64_t>most:
                # Its content need not be in memory: it is skipped, and only its length is recorded.
                if length > <uint64_t>FAR:
                    length = FAR
                self.note_length(<int64_t>length)
                self.odd_pair()
                self.is_utf8 = False
                self.index += 1
                self.position += 8 + <int64_t>length
                break
            if <int64_t>length > size - at - 8:
                break
            if compared:
                self.look(base + at + 8, <int64_t>length, size - at - 8, candidates)
            else:
                self.look_alone(base + at + 8, <int64_t>length, size - at - 8)
            at += 8 + <int64_t>length
            self.position += 8 + <int64_t>length
            self.index += 1
        while self.entered < self.arrived:
            self.enter(candidates)
        return candidates

    cdef void note_length(self, int64_t length) noexcept:
        if length > self.longest:
            self.longest = length
            self.longest_at = self.index

    cdef void odd_pair(self) noexcept:
        self.odd_pairs += 1
        if self.first_odd_pair < 0:
            self.first_odd_pair = self.index

    cdef inline int look_alone(self, const uint8_t *p, int64_t length, int64_t room) except -1:
        """`look` without comparing strings with each other or with texts, since the hash takes longest."""
        cdef Seen seen
        if length > self.longest:
            self.longest = length
            self.longest_at = self.index
        if not i2s_look_alone(p, length, room, &seen):
            self.is_utf8 = False
        self.note_pair(p, length, seen.spaces)
        if length > 3 and (p[0] == 0x5B or p[0] == 0x3C):
            self.look_at_form(p, length)
        return 0

    cdef inline void note_pair(self, const uint8_t *p, int64_t length, uint64_t spaces) noexcept:
        """Count strings that are not two parts with one space between them, and empty strings."""
        if spaces != 1 or p[0] == 0x20 or p[length - 1] == 0x20:
            self.odd_pair()
        if length == 0:
            self.empty += 1
            if self.first_empty < 0:
                self.first_empty = self.index

    cdef inline int look(self, const uint8_t *p, int64_t length, int64_t room, list candidates) except -1:
        cdef Seen seen
        cdef Waiting *place
        cdef int i
        if length > self.longest:
            self.longest = length
            self.longest_at = self.index
        if not i2s_look(p, length, room, self.seed, self.key, &seen):
            self.is_utf8 = False
        self.note_pair(p, length, seen.spaces)
        if self.bloom[bloom_word(seen.hash)] & bloom_bit(seen.hash):
            for i in range(self.texts_count):
                if (
                    self.text_hash[i] == seen.hash and self.text_length[i] == length
                    and memcmp(self.text[i], p, length) == 0 and self.needles[i] < 0
                ):
                    self.needles[i] = self.index
        if length == 0:
            return 0
        if length > 3 and (p[0] == 0x5B or p[0] == 0x3C):
            self.look_at_form(p, length)
        if self.index < self.limit:
            if self.arrived - self.entered == WAITING:
                self.enter(candidates)
            place = &self.waiting[self.arrived % WAITING]
            place.hash, place.index, place.position = seen.hash, self.index, self.position
            I2S_FETCH(&self.slots[seen.hash & self.mask])
            self.arrived += 1
        return 0

    cdef inline int enter(self, list candidates) except -1:
        """Put the longest-waiting string into the table."""
        cdef Waiting *one = &self.waiting[self.entered % WAITING]
        self.entered += 1
        if i2s_enter(self.slots, self.mask, one.hash) and len(candidates) < CANDIDATES:
            candidates.append((one.index, one.position))
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
        elif p[1] == 0x7C and p[0] == 0x3C and p[length - 2] == 0x7C and p[length - 1] == 0x3E:
            self.markers += 1
            if length <= MARKER and <int64_t>len(self.marked) < self.kept_marked:
                self.marked.setdefault(PyBytes_FromStringAndSize(<const char *>p, length), self.index)
        return 0


DEF AHEAD = 16  # a power of two
DEF JOINED = 65536 + 16  # the longest string that is looked at, and room to read

cdef uint64_t MADE = 1  # of an entry's hash: an applicable merge makes this result


cdef struct Merge:
    uint64_t left, right, result  # the hashes of its parts, 0 for a single character; and of what it makes
    int64_t index


cdef inline bint one_character(const uint8_t *p, int64_t length) noexcept nogil:
    """Whether bytes have the length that the first of them announces in UTF-8, or there is only one."""
    return length == 1 or length == (2 if 0xC0 <= p[0] < 0xE0 else 3 if 0xE0 <= p[0] < 0xF0 else 4 if p[0] >= 0xF0 else 1)


@cython.final
cdef class Merges:
    """The results of the merges so far, and whether applicable merges make them; `feed` continues with the bytes that
    follow, for one thread at a time."""

    cdef readonly int64_t index        # merges passed so far
    cdef readonly int64_t position     # where the next one begins
    cdef readonly int64_t results, made
    cdef int64_t count
    cdef bint big
    cdef uint64_t seed, key, mask
    cdef Bytes hashes_held, firsts_held
    cdef uint64_t *hashes              # an open table, 0 for an empty place
    cdef uint32_t *firsts              # the first merge with the result
    cdef Merge waiting[AHEAD]          # merges whose places are being fetched, since the table is in no near cache
    cdef uint64_t arrived, entered
    cdef uint8_t joined[JOINED]
    cdef bint fed

    def __cinit__(self, int64_t start, int64_t count, bint big, seed):
        self.position, self.count, self.big = start, count, big
        self.seed, self.key = seed
        self.allocate(1 << 12)

    cdef int allocate(self, uint64_t room) except -1:
        # Not huge pages, which would be mostly empty while the table grows.
        self.hashes_held = Bytes(bytearray(sizeof(uint64_t) * room), True)
        self.firsts_held = Bytes(bytearray(sizeof(uint32_t) * room), True)
        self.hashes, self.firsts = <uint64_t *>self.hashes_held.start, <uint32_t *>self.firsts_held.start
        self.mask = room - 1
        return 0

    cdef int grow(self) except -1:
        cdef Bytes hashes = self.hashes_held, firsts = self.firsts_held
        cdef const uint64_t *old = self.hashes
        cdef const uint32_t *old_firsts = self.firsts
        cdef uint64_t room = self.mask + 1, i, at
        self.allocate(2 * room)
        for i in range(room):
            if old[i]:
                at = self.place(old[i])
                self.hashes[at], self.firsts[at] = old[i], old_firsts[i]
        return 0

    cdef inline uint64_t place(self, uint64_t hash) noexcept nogil:
        """Where a hash is, or the empty place for it."""
        cdef uint64_t at = hash >> 1 & self.mask
        while self.hashes[at] and (self.hashes[at] ^ hash) > MADE:
            at = (at + 1) & self.mask
        return at

    cdef inline uint64_t hash_of(self, const uint8_t *p, int64_t length, int64_t room) noexcept nogil:
        """The hash of a string without its lowest bit, never 0."""
        cdef Seen seen
        i2s_look(p, length, room, self.seed, self.key, &seen)
        return (seen.hash & ~MADE) or 2

    def feed(self, part, int64_t most):
        """Walk over the merges that lie whole in `part`, which begins at `position`; strings longer than `most`, at most
        65,536 bytes, are skipped.

        :raises RuntimeError: while another thread feeds
        """
        self.begin()
        try:
            self.walked(Bytes(part), most)
        finally:
            self.end()

    @cython.critical_section
    cdef int begin(self) except -1:
        if self.fed:
            raise RuntimeError("another thread feeds this walk")
        self.fed = True
        return 0

    @cython.critical_section
    cdef int end(self) except -1:
        self.fed = False
        return 0

    cdef int walked(self, Bytes part, int64_t most) except -1:
        cdef const uint8_t *base = part.start
        cdef int64_t at = 0, size = part.size
        cdef uint64_t length
        while self.index < self.count and size - at >= 8:
            length = i2s_length(base + at, self.big)
            if length > <uint64_t>most:
                self.position += 8 + <int64_t>min(length, <uint64_t>FAR)
                self.index += 1
                break
            if <int64_t>length > size - at - 8:
                break
            self.look(base + at + 8, <int64_t>length, size - at - 8)
            at += 8 + <int64_t>length
            self.position += 8 + <int64_t>length
            self.index += 1
        while self.entered < self.arrived:
            self.enter()
        return 0

    cdef inline int look(self, const uint8_t *p, int64_t length, int64_t room) except -1:
        cdef const uint8_t *space
        cdef const uint8_t *right
        cdef int64_t before, behind
        cdef Merge *one
        space = <const uint8_t *>memchr(p, 0x20, length)
        if space == NULL:
            return 0
        before, right = space - p, space + 1
        behind = length - before - 1
        if before == 0 or behind == 0 or memchr(right, 0x20, behind) != NULL:
            return 0
        if self.arrived - self.entered == AHEAD:
            self.enter()
        memcpy(self.joined, p, before)
        memcpy(self.joined + before, right, behind)
        one = &self.waiting[self.arrived % AHEAD]
        one.index = self.index
        one.left = 0 if one_character(p, before) else self.hash_of(p, before, room)
        one.right = 0 if one_character(right, behind) else self.hash_of(right, behind, room - before - 1)
        one.result = self.hash_of(self.joined, length - 1, JOINED)
        I2S_FETCH(&self.hashes[one.left >> 1 & self.mask])
        I2S_FETCH(&self.hashes[one.right >> 1 & self.mask])
        I2S_FETCH(&self.hashes[one.result >> 1 & self.mask])
        self.arrived += 1
        return 0

    cdef inline int enter(self) except -1:
        """Put the result of the longest-waiting merge into the table."""
        cdef Merge *one = &self.waiting[self.entered % AHEAD]
        cdef uint64_t at, made
        self.entered += 1
        made = MADE
        if one.left and self.hashes[self.place(one.left)] == 0 or one.right and self.hashes[self.place(one.right)] == 0:
            made = 0
        at = self.place(one.result)
        if self.hashes[at] == 0:
            if 8 * self.results >= <int64_t>(5 * (self.mask + 1)):
                self.grow()
                at = self.place(one.result)
            self.hashes[at], self.firsts[at] = one.result, <uint32_t>one.index
            self.results += 1
        if made and not self.hashes[at] & MADE:
            self.hashes[at] |= MADE
            self.made += 1
        return 0

    def first_unmade(self):
        """The first merge with a result that no applicable merge makes, or -1."""
        cdef uint64_t i
        cdef int64_t first = -1
        for i in range(self.mask + 1):
            if self.hashes[i] and not self.hashes[i] & MADE and (first < 0 or self.firsts[i] < first):
                first = self.firsts[i]
        return first


def first_outside(data, bint big, int32_t least, int32_t most):
    """The index of the first 32-bit integer of `data` that is below `least` or above `most`, or -1."""
    cdef Bytes held = Bytes(data)
    cdef int64_t count = held.size // 4, i
    cdef const uint8_t *p
    cdef int32_t value
    if count == 0:
        return -1
    p = held.start
    for i in range(count):
        if big:
            value = <int32_t>(<uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | p[3])
        else:
            value = <int32_t>(<uint32_t>p[3] << 24 | <uint32_t>p[2] << 16 | <uint32_t>p[1] << 8 | p[0])
        if value < least or value > most:
            return i
        p += 4
    return -1


def count_equal(data, bint big, int32_t wanted):
    """How many of the 32-bit integers of `data` are `wanted`."""
    cdef Bytes held = Bytes(data)
    cdef int64_t count = held.size // 4, i, found = 0
    cdef const uint8_t *p
    cdef uint32_t value, sought = <uint32_t>wanted
    if count == 0:
        return 0
    if big:  # compared as it lies there
        sought = sought << 24 | (sought & 0xFF00) << 8 | (sought >> 8 & 0xFF00) | sought >> 24
    p = held.start
    for i in range(count):
        value = <uint32_t>p[3] << 24 | <uint32_t>p[2] << 16 | <uint32_t>p[1] << 8 | p[0]
        found += value == sought
        p += 4
    return found
