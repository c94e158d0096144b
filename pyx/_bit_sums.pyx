# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: freethreading_compatible=True
"""The compiled sums of bits, without the GIL; `i2s_spec.inspect.evidence.bit_sums` defines them."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc

cdef extern from "bit_sums.h" nogil:
    ctypedef struct i2s_sums_set:
        const char *name
        int (*available)() noexcept nogil
        void (*sums)(const uint8_t *, int64_t, int64_t, int64_t, uint32_t *, uint32_t *, uint8_t *) noexcept nogil
    const i2s_sums_set *i2s_sums_sets
    int I2S_SUMS_SETS
    int I2S_PLANES
    int I2S_MOST_BYTES


def kernel_sets():
    """The kernel sets that were compiled, slowest first, and whether this processor can run each."""
    return [(i2s_sums_sets[i].name.decode("ascii"), bool(i2s_sums_sets[i].available())) for i in range(I2S_SUMS_SETS)]


def add_bit_sums(int row, const uint8_t[::1] data, int64_t width, int64_t segment, uint32_t[:, ::1] columns,
                 uint32_t[:, ::1] segments):
    """Add the sums of whole rows of `width` bytes to `columns` [width, 8], and write those of each stretch of `segment`
    bytes to `segments` [bytes // segment, 8]."""
    cdef int64_t rows
    cdef uint8_t *scratch
    if not 0 <= row < I2S_SUMS_SETS or not i2s_sums_sets[row].available():
        raise ValueError("no such kernel set")
    if width < 1 or segment < 1 or width % segment or data.shape[0] % width:
        raise ValueError("the bytes are not whole rows of whole segments")
    rows = data.shape[0] // width
    if columns.shape[0] != width or columns.shape[1] != 8 or segments.shape[1] != 8:
        raise ValueError("the counters have another shape")
    if segments.shape[0] != rows * (width // segment):
        raise ValueError("the counters have another shape")
    if rows == 0:
        return
    scratch = <uint8_t *>malloc(I2S_PLANES * (width + I2S_MOST_BYTES))
    if scratch == NULL:
        raise MemoryError
    with nogil:
        i2s_sums_sets[row].sums(&data[0], rows, width, segment, &columns[0, 0], &segments[0, 0], scratch)
    free(scratch)
