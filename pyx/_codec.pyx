# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: freethreading_compatible=True
"""The compiled payload kernels: thin calls into kernels.h, without the GIL.

Nothing is checked here: `i2s_spec.codec.native` compares every size with every buffer before it calls. `row` is the row of
the kernel table, as `kernel_sets` numbers them.
"""

from cpython.buffer cimport PyBUF_WRITE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from "kernels.h" nogil:
    unsigned i2s_cpu_needs(int (*available)() noexcept nogil)
    int i2s_cpu_owns()
    ctypedef struct i2s_kernel_set:
        const char *name
        int (*available)() noexcept nogil
        void (*unpack)(const uint8_t *, int64_t, int64_t, int, int, uint8_t *, int) noexcept nogil
        int (*pack)(const uint8_t *, int64_t, int64_t, int, int, uint8_t *, int) noexcept nogil
        void (*floats)(const uint8_t *, int64_t, int64_t, int, int, float, float *, int) noexcept nogil
        void (*blocks)(const uint8_t *, int64_t, int, int, const uint8_t *, uint8_t *, int) noexcept nogil
        void (*to_rows)(const uint8_t *, int64_t, int64_t, int64_t, int64_t, int, int, const uint8_t *, uint8_t *,
                        int) noexcept nogil
        void (*of_rows)(const uint8_t *, int64_t, int64_t, int64_t, int64_t, int, int, const uint8_t *, uint8_t *,
                        int) noexcept nogil
        int (*scan)(const uint8_t *, int64_t, int) noexcept nogil
        void (*histogram)(const uint8_t *, int64_t, uint64_t *) noexcept nogil
        uint64_t (*read)(const uint8_t *, int64_t) noexcept nogil
        void (*write)(uint8_t *, int64_t) noexcept nogil
    const i2s_kernel_set *i2s_kernels
    int I2S_KERNEL_SETS
    int I2S_PAST, I2S_UNFENCED

#: Bytes of rows that are checked for code 3 and then unpacked to floats while they are in the nearest cache.
cdef int64_t STRIP = 16384


def kernel_sets():
    """The kernel sets that were compiled, slowest first, and whether this processor can run each."""
    return [(i2s_kernels[i].name.decode("ascii"), bool(i2s_kernels[i].available())) for i in range(I2S_KERNEL_SETS)]


def kernel_needs():
    """The processor features that each set needs, as bits in the order of `_cpu.features()`."""
    return [i2s_cpu_needs(i2s_kernels[i].available) for i in range(I2S_KERNEL_SETS)]


cdef const uint8_t *start_of(const uint8_t[::1] data) noexcept nogil:
    return &data[0] if data.shape[0] else NULL


def owns():
    """Whether this processor writes prefetched lines faster than it streams past its cache."""
    return bool(i2s_cpu_owns())


def unpack(int row, const uint8_t[::1] src, int64_t blocks, int64_t group, bint lsb, int map, uint8_t[::1] dst, int way):
    """`blocks` runs of `group` bytes to one byte per element; `way` is how they are stored (`kernels.h`)."""
    cdef const uint8_t *s = start_of(src)
    cdef uint8_t *d = <uint8_t *>start_of(dst)
    if blocks:
        with nogil:
            i2s_kernels[row].unpack(s, blocks, group, lsb, map, d, way)


def pack(int row, const uint8_t[::1] src, int64_t blocks, int64_t group, bint lsb, int map, uint8_t[::1] dst, bint stream):
    """One byte an element to `blocks` runs of `group` bytes; True where a byte was no trit (or no code)."""
    cdef const uint8_t *s = start_of(src)
    cdef uint8_t *d = <uint8_t *>start_of(dst)
    cdef int bad = 0
    if blocks:
        with nogil:
            bad = i2s_kernels[row].pack(s, blocks, group, lsb, map, d, stream)
    return bool(bad)


def floats(int row, const uint8_t[::1] src, int64_t blocks, int64_t group, bint lsb, int map, float scale,
           float[::1] dst, int way):
    """`blocks` runs of `group` bytes to one float32 an element."""
    cdef const uint8_t *s = start_of(src)
    if blocks:
        with nogil:
            i2s_kernels[row].floats(s, blocks, group, lsb, map, scale, &dst[0], way)


def row_floats(int row, const uint8_t[::1] src, int map, const float[::1] scales, float[::1] dst, int way):
    """Rows of whole blocks of interleave-128 to float32, with one scale per row; True where a code is 3."""
    cdef const uint8_t *s = start_of(src)
    cdef int64_t rows = scales.shape[0], n = src.shape[0] // rows, r, strip = max(1, STRIP // n)
    cdef int seen = 0, unfenced = I2S_UNFENCED if way == I2S_PAST else way
    with nogil:
        for r in range(rows):
            if r % strip == 0:
                seen |= i2s_kernels[row].scan(s + r * n, min(strip, rows - r) * n, 3)
            i2s_kernels[row].floats(s + r * n, n // 32, 32, 0, map, scales[r], &dst[4 * r * n],
                                    way if r == rows - 1 else unfenced)
    return bool(seen)


def blocks(int row, const uint8_t[::1] src, int64_t count, int source, int target, const uint8_t[::1] remap,
           uint8_t[::1] dst, bint stream):
    """`count` blocks of 32 bytes from one layout to another; `remap` is empty or eight coefficients."""
    cdef const uint8_t *s = start_of(src)
    cdef uint8_t *d = <uint8_t *>start_of(dst)
    cdef const uint8_t *m = start_of(remap)
    if count:
        with nogil:
            i2s_kernels[row].blocks(s, count, source, target, m, d, stream)


def to_rows(int row, const uint8_t[::1] src, int64_t first, int64_t last, int64_t cols, int64_t step, bint lsb, int target,
            const uint8_t[::1] remap, uint8_t[::1] dst, bint stream):
    """Groups `first` to `last` of four rows that share bytes, `cols` bytes a group, to rows of blocks."""
    cdef const uint8_t *s = start_of(src)
    cdef uint8_t *d = <uint8_t *>start_of(dst)
    cdef const uint8_t *m = start_of(remap)
    with nogil:
        i2s_kernels[row].to_rows(s, first, last, cols, step, lsb, target, m, d, stream)


def of_rows(int row, const uint8_t[::1] src, int64_t first, int64_t last, int64_t cols, int64_t step, bint lsb, int source,
            const uint8_t[::1] remap, uint8_t[::1] dst, bint stream):
    """Rows of blocks to groups `first` to `last` of four rows that share bytes."""
    cdef const uint8_t *s = start_of(src)
    cdef uint8_t *d = <uint8_t *>start_of(dst)
    cdef const uint8_t *m = start_of(remap)
    with nogil:
        i2s_kernels[row].of_rows(s, first, last, cols, step, lsb, source, m, d, stream)


def scan(int row, const uint8_t[::1] src, int code):
    """Whether a code occurs at all."""
    cdef const uint8_t *s = start_of(src)
    cdef int64_t n = src.shape[0]
    cdef int found
    with nogil:
        found = i2s_kernels[row].scan(s, n, code)
    return bool(found)


def histogram(int row, const uint8_t[::1] src):
    """How often each of the codes 0 to 3 occurs."""
    cdef const uint8_t *s = start_of(src)
    cdef int64_t n = src.shape[0]
    cdef uint64_t count[4]
    with nogil:
        i2s_kernels[row].histogram(s, n, count)
    return count[0], count[1], count[2], count[3]


def fresh_bytes(Py_ssize_t n):
    """An uninitialized bytes object of `n` bytes, and a view for writing it."""
    made = PyBytes_FromStringAndSize(NULL, n)
    return made, PyMemoryView_FromMemory(PyBytes_AS_STRING(made), n, PyBUF_WRITE)


def address(const uint8_t[::1] data):
    """The address of a buffer; streaming stores need a multiple of 16."""
    return <size_t>start_of(data)


def read(int row, const uint8_t[::1] src):
    """Read every byte with almost no computation: the probe with which benchmarks are compared."""
    cdef const uint8_t *s = start_of(src)
    cdef int64_t n = src.shape[0]
    cdef uint64_t found
    with nogil:
        found = i2s_kernels[row].read(s, n)
    return found


def write(int row, uint8_t[::1] dst):
    """Write every byte and compute nothing: the probe for benchmarks whose results stay in the cache."""
    cdef uint8_t *d = <uint8_t *>start_of(dst)
    cdef int64_t n = dst.shape[0]
    if n:
        with nogil:
            i2s_kernels[row].write(d, n)
