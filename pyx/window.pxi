"""Numbers in bytes of either order, and the part of a source that is in memory."""

cdef int64_t FIRST_WINDOW = 1 << 16
cdef int64_t WINDOW = 1 << 18  # larger allocations take longer than more frequent reads


cdef inline uint32_t u32(const uint8_t *p, bint big) noexcept nogil:
    if big:
        return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]
    return (<uint32_t>p[3] << 24) | (<uint32_t>p[2] << 16) | (<uint32_t>p[1] << 8) | p[0]


cdef inline uint64_t u64(const uint8_t *p, bint big) noexcept nogil:
    if big:
        return (<uint64_t>u32(p, True) << 32) | u32(p + 4, True)
    return (<uint64_t>u32(p + 4, False) << 32) | u32(p, False)


cdef int64_t _later_step(source) except -1:
    """Bytes of a window after the first: fewer from a server, since bytes after the header are fetched in vain."""
    from i2s_spec.gguf.source import FetchingSource

    return FIRST_WINDOW if isinstance(source, FetchingSource) else WINDOW


cdef class Window:
    """The part of a source that is in memory at the moment; of a buffer, all of it."""

    cdef object source, holder
    cdef Bytes memory
    cdef const uint8_t *bytes
    cdef int64_t base, filled, capacity, step
    cdef readonly int64_t size
    cdef int64_t stop  # bytes after it are not read ahead
    cdef bint whole

    def __cinit__(self, source):
        self.source = source
        self.size = self.stop = source.size
        view = source.view
        self.whole = view is not None
        self.base = 0
        self.filled = 0
        self.capacity = 0
        self.step = FIRST_WINDOW
        if self.whole and self.size:
            self.memory = Bytes(view)
            self.bytes = self.memory.start
            self.filled = self.size

    cdef const uint8_t *at(self, int64_t start, int64_t length) except? NULL:
        """The address of `length` bytes at `start`; NULL, without an error, if the file ends before."""
        if start >= self.base and start + length <= self.base + self.filled:
            return self.bytes + (start - self.base)
        if length > self.size - start or self.whole:
            return NULL
        self.fill(start, length)
        return self.bytes

    cdef int fill(self, int64_t start, int64_t least) except -1:
        cdef int64_t wanted = self.step
        if self.filled == 0:
            self.step = _later_step(self.source)
        if wanted > self.stop - start:
            wanted = self.stop - start
        if wanted < least:
            wanted = least
        if self.holder is None or self.capacity < wanted:
            self.holder = bytearray(wanted)
            self.capacity = wanted
        if wanted > self.size - start:
            wanted = self.size - start
        self.source.readinto(start, memoryview(self.holder)[:wanted])
        self.memory = Bytes(self.holder)
        self.bytes = self.memory.start
        self.base = start
        self.filled = wanted
        return 0

    cdef int64_t ready(self, int64_t start) except -1:
        """The number of bytes in memory from `start` on; at least one, unless the file ends there."""
        if start >= self.size:
            return 0
        if start < self.base or start >= self.base + self.filled:
            self.fill(start, 1)
        return self.base + self.filled - start
