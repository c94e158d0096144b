# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: freethreading_compatible=True
"""The compiled kernels of evidence, without the GIL: sums of bits, which `i2s_spec.inspect.evidence.bit_sums` defines, and ranks
of profiles with their products, which `i2s_spec.inspect.evidence.profiles` does."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc

cdef extern from "permuted.h" nogil:
    double i2s_permuted_product(const double *, const double *, const int32_t *, int64_t) noexcept
    void i2s_gram_row(const float *, const float *, const int32_t *, int64_t, double *) noexcept

cdef extern from "bit_sums.h" nogil:
    ctypedef struct i2s_sums_set:
        const char *name
        int (*available)() noexcept nogil
        void (*sums)(const uint8_t *, int64_t, int64_t, int64_t, int, uint32_t *, uint32_t *, int64_t, uint8_t *) noexcept nogil
    const i2s_sums_set *i2s_sums_sets
    int I2S_SUMS_SETS
    int I2S_PLANES
    int I2S_MOST_BYTES


def kernel_sets():
    """The kernel sets that were compiled, slowest first, and whether this processor can run each."""
    return [(i2s_sums_sets[i].name.decode("ascii"), bool(i2s_sums_sets[i].available())) for i in range(I2S_SUMS_SETS)]


def add_bit_sums(int row, const uint8_t[::1] data, int64_t width, int64_t segment, bint either, uint32_t[:, ::1] columns,
                 uint32_t[:, ::1] segments, int64_t first):
    """Add the sums of whole rows of `width` bytes to `columns` [4, width], and write those of each stretch of `segment`
    bytes to `segments` [4, stretches], from the stretch `first` on."""
    cdef int64_t rows
    cdef uint8_t *scratch
    if not 0 <= row < I2S_SUMS_SETS or not i2s_sums_sets[row].available():
        raise ValueError("no such kernel set")
    if width < 1 or segment < 1 or width % segment or data.shape[0] % width:
        raise ValueError("the bytes are not whole rows of whole segments")
    rows = data.shape[0] // width
    if columns.shape[0] != 4 or columns.shape[1] != width or segments.shape[0] != 4:
        raise ValueError("the counters have another shape")
    if first < 0 or first > segments.shape[1] - rows * (width // segment):
        raise ValueError("the counters have another shape")
    if rows == 0:
        return
    scratch = <uint8_t *>malloc(2 * I2S_PLANES * (width + I2S_MOST_BYTES))
    if scratch == NULL:
        raise MemoryError
    with nogil:
        i2s_sums_sets[row].sums(&data[0], rows, width, segment, either, &columns[0, 0], &segments[0, 0] + first,
                                segments.shape[1], scratch)
    free(scratch)


def ranks(const uint32_t[::1] counts, uint32_t most, double[::1] found):
    """The ranks of counts that are `most` at most, with mean 0, equals sharing one; how many different counts there are."""
    cdef int64_t n = counts.shape[0], i, different = 0
    cdef uint32_t value
    cdef double before = 0
    cdef double *middle
    if found.shape[0] != n:
        raise ValueError("the ranks have another shape")
    middle = <double *>calloc(<size_t>most + 1, sizeof(double))
    if middle == NULL:
        raise MemoryError
    with nogil:
        for i in range(n):
            if counts[i] > most:
                different = -1
                break
            middle[counts[i]] += 1
        if different == 0:
            for value in range(most + 1):
                if middle[value] > 0:
                    different += 1
                    before += middle[value]
                    middle[value] = before - (middle[value] + 1) / 2 - <double>(n - 1) / 2
            for i in range(n):
                found[i] = middle[counts[i]]
    free(middle)
    if different < 0:
        raise ValueError("a count is larger than the largest")
    return different


def ranks_in_order(const float[::1] values, const int64_t[::1] order, double[::1] found):
    """The ranks of values, as `ranks` has them; `order` sorts them."""
    cdef int64_t n = values.shape[0], start = 0, stop, i, different = 0
    if order.shape[0] != n or found.shape[0] != n:
        raise ValueError("the ranks have another shape")
    with nogil:
        while start < n:
            stop = start + 1
            while stop < n and values[order[stop]] == values[order[start]]:
                stop += 1
            for i in range(start, stop):
                found[order[i]] = <double>(start + stop - n) / 2
            different += 1
            start = stop
    return different


def products(const double[::1] one, const double[::1] other, const int32_t[:, ::1] places, double[::1] found):
    """The scalar products of a vector with permutations of another one: of each row of `places` one."""
    cdef int64_t n = one.shape[0], i
    if other.shape[0] != n or places.shape[1] != n or places.shape[0] != found.shape[0]:
        raise ValueError("the vectors have another shape")
    if n == 0:
        return
    with nogil:
        for i in range(places.shape[0]):
            found[i] = i2s_permuted_product(&one[0], &other[0], &places[i, 0], n)


def gram_products(const float[:, ::1] one, const float[:, ::1] other, const int32_t[::1] places, int64_t first):
    """Three sums over the rows and columns of `places` in `one` and those from `first` on in `other`: of the products of
    their elements, and of the squares of either."""
    cdef int64_t n = places.shape[0], i
    cdef double found[3]
    if one.shape[0] != one.shape[1] or other.shape[0] != other.shape[1] or not 0 <= first <= other.shape[0] - n:
        raise ValueError("the matrices have another shape")
    for i in range(n):
        if not 0 <= places[i] < one.shape[0]:
            raise ValueError("a place is not in the matrix")
    found[0] = found[1] = found[2] = 0
    with nogil:
        for i in range(n):
            i2s_gram_row(&one[places[i], 0], &other[first + i, first], &places[0], n, found)
    return found[0], found[1], found[2]
