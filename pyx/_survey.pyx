# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, binding=False, auto_pickle=False
# cython: freethreading_compatible=True
"""The compiled survey: a list of parts of payloads, which threads take from it and examine without the GIL.

What is found in a part is defined by `i2s_spec.codec.reference`.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

include "bytes_of.pxi"

cdef extern from "survey.h" nogil:
    unsigned i2s_cpu_needs(int (*available)() noexcept nogil)
    ctypedef struct i2s_survey_set:
        const char *name
        int (*available)() noexcept nogil
    const i2s_survey_set *i2s_survey_sets
    int I2S_SURVEY_SETS
    int I2S_BLOCK
    int I2S_LEAST_RUN
    int I2S_BLOCK_KINDS
    int I2S_OCTAVES
    int I2S_GROUP_TILE
    ctypedef struct i2s_groups:
        int32_t kind, swap
        int64_t unit
        uint64_t odd, scales, infinite, negative, lost
        int64_t first_odd, first_infinite, first_negative, first_lost, first_largest
        uint32_t largest
        uint64_t *octaves
    void i2s_groups_init() noexcept
    ctypedef struct i2s_part:
        int64_t at, pos, size, seen, first_unused, non_finite, first_non_finite, head, last, run_at, run
        int32_t tail_bytes, width, unit, scale_bytes
        int32_t *scales
        uint64_t mask, lows, highs, boths, digest
        uint8_t head_value, last_value, run_value, open
        uint8_t *tail
        i2s_groups *groups
    ctypedef struct i2s_survey_list:
        i2s_part *parts
        int64_t count, next, done, failed
        const i2s_survey_set *set
        int fd, sparse, stop
        const uint8_t *memory
    void i2s_part_begin(i2s_part *) noexcept
    void i2s_part_feed(i2s_part *, const i2s_survey_set *, const uint8_t *, int64_t) noexcept
    void i2s_part_join(i2s_part *, const i2s_part *) noexcept
    ctypedef struct i2s_read_buffer:
        uint8_t *start
        int64_t room, span, at
    void i2s_read_sizes(i2s_read_buffer *, int64_t, int64_t) noexcept
    int i2s_survey_work(i2s_survey_list *, i2s_read_buffer *, int64_t) noexcept
    void i2s_survey_stop(i2s_survey_list *) noexcept
    int64_t i2s_survey_done(const i2s_survey_list *) noexcept
    int64_t i2s_survey_failed(const i2s_survey_list *) noexcept
    int i2s_survey_probe(i2s_survey_list *, i2s_read_buffer *) noexcept

#: Larger offsets occur in no file. Sums of two smaller ones and a tail do not overflow.
cdef int64_t FAR = <int64_t>1 << 61

i2s_groups_init()


cdef bint sound_scales(const i2s_part *part) noexcept nogil:
    """Whether no scale is divided by a multiple of 8 bytes, and all lie in a block."""
    cdef int k
    if part.width != 1 or part.tail_bytes or part.scale_bytes not in (1, 2, 4, 8) or part.scales[0] < 0:
        return False
    if part.unit < part.scale_bytes or part.unit % part.scale_bytes:
        return False
    for k in range(2):
        if part.scales[k] > part.unit - part.scale_bytes or (part.scales[k] >= 0 and part.scales[k] % part.scale_bytes):
            return False
    return True


BLOCK = I2S_BLOCK
TILE = I2S_GROUP_TILE
LEAST_RUN = I2S_LEAST_RUN


def kernel_sets():
    """The kernel sets that were compiled, slowest first, and whether this processor can run each."""
    return [(i2s_survey_sets[i].name.decode("ascii"), bool(i2s_survey_sets[i].available()))
            for i in range(I2S_SURVEY_SETS)]


def kernel_needs():
    """The processor features that each set needs, as bits in the order of `_cpu.features()`."""
    return [i2s_cpu_needs(i2s_survey_sets[i].available) for i in range(I2S_SURVEY_SETS)]


cdef class Buffer:
    """A read buffer for one thread at a time: `turns` places of `room` bytes, used in turn. Without `turns`, both are chosen
    for the fastest reads on this processor, with at least `room` bytes."""

    cdef i2s_read_buffer place
    cdef void *held

    def __cinit__(self, int64_t room, int64_t turns=0):
        if not (0 < room <= 1 << 26 and 0 <= turns <= 16):
            raise ValueError("no such buffer")
        if room % I2S_BLOCK:
            raise ValueError("the buffer must be whole blocks")
        i2s_read_sizes(&self.place, room, turns)
        self.held = malloc(self.place.span + 4096)
        if self.held == NULL:
            raise MemoryError
        self.place.start = <uint8_t *>((<size_t>self.held + 4095) // 4096 * 4096)

    def __dealloc__(self):
        free(self.held)


cdef class Parts:
    """A list of parts; `of_file` or `of_memory` sets their source once, or `feed` passes the bytes of each.

    Threads may share a list: any number of them may be in `work` at a time. Methods that change the list or its source raise
    a RuntimeError while a thread is in `work`, and `work` raises one while such a method runs.
    """

    cdef i2s_survey_list list
    cdef int64_t room
    cdef int64_t workers  # threads that read; -1 while one thread has exclusive access to the parts
    cdef Bytes held

    def __cinit__(self, str set):
        cdef int i, row = 0
        memset(&self.list, 0, sizeof(self.list))
        self.list.fd = -1
        self.list.failed = -1
        for i in range(I2S_SURVEY_SETS):
            if i2s_survey_sets[i].name.decode("ascii") == set:
                row = i
        self.list.set = &i2s_survey_sets[row]

    def __dealloc__(self):
        cdef int64_t i
        for i in range(self.list.count):
            free(self.list.parts[i].groups)
        free(self.list.parts)

    def __len__(self):
        return self.list.count

    @cython.critical_section
    cdef int enter(self) except -1:
        """One more thread reads."""
        if self.workers < 0:
            raise RuntimeError("the parts are being changed by another thread")
        self.workers += 1
        return 0

    @cython.critical_section
    cdef int leave(self) except -1:
        self.workers -= 1
        return 0

    @cython.critical_section
    cdef int claim(self) except -1:
        """Take exclusive access to the parts for this thread."""
        if self.workers:
            raise RuntimeError("the parts are being read by another thread")
        self.workers = -1
        return 0

    @cython.critical_section
    cdef int unclaim(self) except -1:
        self.workers = 0
        return 0

    cdef int require_idle(self) except -1:
        if self.workers:
            raise RuntimeError("the parts are being read by another thread")
        return 0

    @cython.critical_section
    def add(self, int64_t at, int64_t pos, int64_t size, int tail_bytes=0, int width=0, uint64_t mask=0, object scales=None):
        """Append a part: its offset in the file, its offset in the payload (a multiple of `BLOCK`), its size, and the
        bytes of the tail that follow it. `width` is 0 for codes, the bytes of a float whose exponent has the bits `mask`,
        or 1 for other types; those may have `scales`, as `i2s_spec.codec.observation.ScalePlaces` says, with that `mask`."""
        self.append(at, pos, size, tail_bytes, width, mask, scales)

    cdef int append(
        self, int64_t at, int64_t pos, int64_t size, int tail_bytes, int width, uint64_t mask, object scales
    ) except -1:
        cdef i2s_part *grown
        cdef int64_t room
        if not (0 <= at < FAR and 0 <= pos < FAR and 0 <= size < FAR):
            raise ValueError("no such part")
        if pos % I2S_BLOCK or not 0 <= tail_bytes <= 32 or width not in (0, 1, 2, 4, 8):
            raise ValueError("no such part")
        self.require_idle()
        if self.list.memory != NULL and at + size + tail_bytes > self.held.size:
            raise ValueError("a part lies outside the buffer")
        if self.list.count == self.room:
            room = max(16, self.room * 3 // 2)
            grown = <i2s_part *>realloc(self.list.parts, room * sizeof(i2s_part))
            if grown == NULL:
                raise MemoryError
            self.list.parts, self.room = grown, room
        cdef i2s_part *part = &self.list.parts[self.list.count]
        memset(part, 0, sizeof(i2s_part))
        part.at, part.pos, part.size = at, pos, size
        part.tail_bytes, part.width, part.mask = tail_bytes, width, mask
        if scales is not None:
            part.unit, part.scale_bytes, part.scales[0], part.scales[1] = scales
            if not sound_scales(part):
                raise ValueError("no such scales")
        i2s_part_begin(part)
        self.list.count += 1
        return 0

    @cython.critical_section
    def add_pieces(
        self, int64_t at, int64_t size, int64_t step, int tail_bytes=0, int width=0, uint64_t mask=0, object scales=None
    ):
        """Append the parts of a payload of `size` bytes, `step` bytes each, with the tail after the last; returns their number."""
        cdef int64_t pos = 0
        if not (0 < size < FAR and 0 < step < FAR):
            raise ValueError("no such part")
        while pos < size:
            self.append(at + pos, pos, min(step, size - pos), tail_bytes if size - pos <= step else 0, width, mask, scales)
            pos += step
        return (size + step - 1) // step

    @cython.critical_section
    def of_groups(self, int kind, int64_t unit, bint swap=False, bint octaves=True):
        """Declare that the part added last has a scale for each group: its type as a number of `kernel_kinds`, the bytes
        of a group, whether scales are big-endian, and whether they are sorted by octave."""
        cdef i2s_part *part
        cdef i2s_groups *groups
        self.require_idle()
        if not (self.list.count and 0 <= kind < I2S_BLOCK_KINDS and 0 < unit < FAR):
            raise ValueError("no such groups")
        part = &self.list.parts[self.list.count - 1]
        if part.groups != NULL or part.width != 1 or part.tail_bytes:
            raise ValueError("not a part of groups")
        groups = <i2s_groups *>calloc(1, sizeof(i2s_groups) + (I2S_OCTAVES * sizeof(uint64_t) if octaves else 0))
        if groups == NULL:
            raise MemoryError
        groups.kind, groups.unit, groups.swap = kind, unit, swap
        groups.octaves = <uint64_t *>(groups + 1) if octaves else NULL
        part.groups = groups
        i2s_part_begin(part)

    @cython.critical_section
    def of_file(self, int fd, bint sparse=False):
        """Read parts from this descriptor; with `sparse`, parts in holes of the file are not read."""
        self.require_idle()
        self.list.fd, self.list.sparse = fd, sparse

    @cython.critical_section
    def of_memory(self, data):
        """Read parts from this buffer."""
        cdef Bytes held = Bytes(data)
        cdef int64_t i
        self.require_idle()
        for i in range(self.list.count):
            if self.list.parts[i].at + self.list.parts[i].size + self.list.parts[i].tail_bytes > held.size:
                raise ValueError("a part lies outside the buffer")
        self.held, self.list.memory = held, held.start if held.size else NULL

    @cython.critical_section
    def release(self):
        """Release the buffer or the descriptor; the findings stay."""
        self.require_idle()
        self.held, self.list.memory, self.list.fd = None, NULL, -1

    def feed(self, int64_t number, data, tail):
        """Pass the bytes of one part: whole blocks except at the end, and the tail with the last bytes."""
        cdef Bytes codes = Bytes(data), behind = Bytes(tail)
        if not 0 <= number < self.list.count or behind.size > 32:
            raise IndexError(number)
        cdef i2s_part *part = &self.list.parts[number]
        cdef int64_t n = codes.size, i
        if behind.size > part.tail_bytes:
            raise ValueError("too many bytes of a tail")
        if n and (part.seen % I2S_BLOCK or part.seen + n > part.size):
            raise ValueError("too many bytes, or some behind the last block")
        self.claim()
        if n:
            with nogil:
                i2s_part_feed(part, self.list.set, codes.start, n)
        for i in range(behind.size):
            part.tail[i] = behind.start[i]
        self.list.done, self.list.next = self.list.done + n + behind.size, self.list.count
        self.unclaim()

    def work(self, room, int64_t budget):
        """Take parts and read them, until about `budget` bytes were read; False once there is nothing more to take.
        `room` is how many bytes are read at a time, a multiple of `BLOCK`, or a `Buffer` for as many."""
        cdef Buffer buffer = room if isinstance(room, Buffer) else Buffer(room)
        cdef int more
        if self.list.fd < 0 and self.list.memory == NULL and self.list.next < self.list.count:
            raise ValueError("nothing to read from")
        self.enter()
        with nogil:
            more = i2s_survey_work(&self.list, &buffer.place, budget)
        self.leave()
        return bool(more)

    def probe(self, Buffer buffer not None):
        """Read all remaining parts without examining them: the probe with which benchmarks are compared."""
        cdef int good
        if self.list.fd < 0:
            raise ValueError("nothing to read from")
        self.enter()
        with nogil:
            good = i2s_survey_probe(&self.list, &buffer.place)
        self.leave()
        return bool(good)

    def stop(self):
        """Ask every thread to stop."""
        i2s_survey_stop(&self.list)

    @cython.critical_section
    def again(self):
        """Make all parts available again."""
        self.require_idle()
        self.list.next = self.list.done = self.list.stop = 0
        self.list.failed = -1

    @property
    def done(self):
        """Bytes that were read so far."""
        return i2s_survey_done(&self.list)

    @property
    def failed(self):
        """The offset in the file at which a read returned nothing or failed, or -1."""
        return i2s_survey_failed(&self.list)

    def join(self, int64_t first, int64_t count):
        """Merge the findings of `count` parts of one payload, in order, into the first of them."""
        cdef int64_t i
        if first < 0 or count < 1 or first + count > self.list.count:
            raise IndexError(first)
        self.claim()
        with nogil:
            for i in range(first + 1, first + count):
                i2s_part_join(&self.list.parts[first], &self.list.parts[i])
        self.unclaim()

    @cython.critical_section
    def found(self, int64_t number):
        """The findings in a part, with the names of `i2s_spec.codec.observation.PayloadObservation`."""
        if not 0 <= number < self.list.count:
            raise IndexError(number)
        cdef i2s_part *p = &self.list.parts[number]
        return (
            p.seen,
            (4 * p.seen - p.lows - p.highs + p.boths, p.lows - p.boths, p.highs - p.boths, p.boths),
            p.first_unused, p.run_at, p.run, p.run_value, p.last, p.last_value if p.open else -1,
            p.digest, p.non_finite, p.first_non_finite,
        )

    @cython.critical_section
    def counts(self, int64_t number):
        """How often each code was seen in a part, as in `found`."""
        if not 0 <= number < self.list.count:
            raise IndexError(number)
        cdef i2s_part *p = &self.list.parts[number]
        return 4 * p.seen - p.lows - p.highs + p.boths, p.lows - p.boths, p.highs - p.boths, p.boths

    @cython.critical_section
    def fingerprint(self, int64_t number):
        """The number of bytes seen of a part, and their fingerprint, as in `found`."""
        if not 0 <= number < self.list.count:
            raise IndexError(number)
        return self.list.parts[number].seen, self.list.parts[number].digest

    @cython.critical_section
    def groups(self, int64_t number):
        """The findings in the groups of a part, with the names of `i2s_spec.codec.observation.Groups`, or None."""
        if not 0 <= number < self.list.count:
            raise IndexError(number)
        cdef i2s_groups *g = self.list.parts[number].groups
        cdef int i
        if g == NULL:
            return None
        return (
            g.odd, g.first_odd, g.scales, g.infinite, g.first_infinite, g.negative, g.first_negative, g.lost, g.first_lost,
            g.largest, g.first_largest,
            tuple([g.octaves[i] for i in range(I2S_OCTAVES)]) if g.octaves != NULL else (),
        )

    @cython.critical_section
    def tail(self, int64_t number):
        """The tail after a part."""
        if not 0 <= number < self.list.count:
            raise IndexError(number)
        cdef i2s_part *p = &self.list.parts[number]
        return PyBytes_FromStringAndSize(<const char *>p.tail, p.tail_bytes)

    @cython.critical_section
    def where(self, int64_t number):
        """Where a part begins in the file and in its payload, and its size."""
        if not 0 <= number < self.list.count:
            raise IndexError(number)
        cdef i2s_part *p = &self.list.parts[number]
        return p.at, p.pos, p.size

    @cython.critical_section
    def width(self, int64_t number):
        """Bytes of one float in a part, 1 for other types, 0 for codes."""
        if not 0 <= number < self.list.count:
            raise IndexError(number)
        return self.list.parts[number].width

    @cython.critical_section
    def tail_bytes(self, int64_t number):
        """Bytes of tail after a part."""
        if not 0 <= number < self.list.count:
            raise IndexError(number)
        return self.list.parts[number].tail_bytes
