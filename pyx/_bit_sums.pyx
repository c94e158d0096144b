# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: freethreading_compatible=True
"""The compiled kernels of evidence, without the GIL: sums of bits, which `i2s_spec.layout_inference.profiles` defines, ranks of
profiles with their products, which `profiles` does, and Grams, which `grams` does."""

from cython cimport view
from libc.math cimport NAN, isnan, sqrt
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

cdef extern from "permuted.h" nogil:
    ctypedef struct i2s_scores_set:
        const char *name
        int (*available)() noexcept nogil
        int (*columns)(const uint32_t *, int64_t, const int32_t *, int, int64_t, int64_t, int64_t, const double *, int64_t,
                       int64_t, int64_t, int64_t, uint32_t *, uint32_t *, float *, double *, double *) noexcept nogil
        void (*grams)(const float *, int64_t, const float **, int64_t, const int32_t *, int64_t, int, double *) noexcept nogil
    const i2s_scores_set *i2s_scores_sets
    int I2S_SCORES_SETS
    int I2S_REPEATS
    int64_t i2s_float_ranks(const float *, int64_t, uint64_t *, double *) noexcept
    uint32_t i2s_largest(const uint32_t *, int64_t) noexcept
    int64_t i2s_ranks(const uint32_t *, int64_t, uint32_t *, double *) noexcept

cdef extern from "grams.h" nogil:
    ctypedef struct i2s_grams_set:
        const char *name
        int (*available)() noexcept nogil
        void (*trits)(const uint8_t *, int64_t, int64_t, int64_t, int, int, const int8_t *, int64_t, int8_t *,
                      uint8_t *) noexcept nogil
        void (*gram)(const int8_t *, int64_t, int64_t, int64_t, int32_t *, double *, float *) noexcept nogil
        void (*correlated)(const int8_t *, int64_t, int64_t, int64_t, int32_t *, double *, float *) noexcept nogil
        void (*correlations)(const float *, int64_t, double *, float *) noexcept nogil
    const i2s_grams_set *i2s_grams_sets
    int I2S_GRAMS_SETS
    int I2S_GRAM_LINE
    int I2S_GRAM_MOST

cdef extern from "read_at.h" nogil:
    int i2s_read_fully(int, uint8_t *, int64_t, int64_t) noexcept

cdef extern from "bit_sums.h" nogil:
    unsigned i2s_cpu_needs(int (*available)() noexcept nogil)
    ctypedef struct i2s_sums_set:
        const char *name
        int (*available)() noexcept nogil
        int (*sums)(const uint8_t *, int64_t, int64_t, int64_t, int, uint32_t *, uint32_t *, uint8_t *, int, int) noexcept nogil
    const i2s_sums_set *i2s_sums_sets
    void i2s_totals_of_columns(const uint32_t *, int64_t, uint32_t, int, uint32_t *) noexcept
    void i2s_totals_of_rows(const uint32_t *, int64_t, uint32_t, int, uint32_t *) noexcept
    int I2S_SUMS_SETS
    int I2S_PLANES
    int I2S_MOST_BYTES

#: Elements of the longest profile, and their greatest count.
cdef int64_t LONGEST = <int64_t>1 << 20


def kernel_sets():
    """The kernel sets that were compiled, slowest first, and whether this processor can run each."""
    return [(i2s_sums_sets[i].name.decode("ascii"), bool(i2s_sums_sets[i].available())) for i in range(I2S_SUMS_SETS)]


def kernel_needs():
    """The processor features that each set needs, as bits in the order of `_cpu.features()`."""
    return [i2s_cpu_needs(i2s_sums_sets[i].available) for i in range(I2S_SUMS_SETS)]


def planes_size(int64_t width, int64_t segment):
    """Bytes of the planes of rows of `width` bytes in segments of `segment` bytes."""
    return I2S_PLANES * (segment + I2S_MOST_BYTES) * (width // segment)


def add_bit_sums(int row, const uint8_t[::1] data, int64_t width, int64_t segment, bint either, uint32_t[:, ::1] columns,
                 uint32_t[:, ::1] segments, int64_t first, uint8_t[::1] planes, int held, bint last):
    """Add the sums of whole rows of `width` bytes to `columns` [4, width], and write those of each segment of `segment`
    bytes to `segments` [segments, 4], from the segment `first` on, unless that is None.

    `planes` keeps a part of the sums between calls. The return value is the largest count in it, which the next call takes
    as `held`. At first, and again after the `last` rows, `planes` is zeros and `held` is 0: all sums are in `columns`."""
    cdef int64_t rows
    if not 0 <= row < I2S_SUMS_SETS or not i2s_sums_sets[row].available():
        raise ValueError("no such kernel set")
    if width < 1 or segment < 1 or width % segment or data.shape[0] % width:
        raise ValueError("the bytes are not whole rows of whole segments")
    rows = data.shape[0] // width
    if columns.shape[0] != 4 or columns.shape[1] != width or planes.shape[0] < planes_size(width, segment):
        raise ValueError("the counters have another shape")
    if segments is not None and (segments.shape[1] != 4 or first < 0
                                 or first > segments.shape[0] - rows * (width // segment)):
        raise ValueError("the counters have another shape")
    if not 0 <= held < 256:
        raise ValueError("planes do not hold that")
    if rows == 0:
        return held
    with nogil:
        held = i2s_sums_sets[row].sums(&data[0], rows, width, segment, either, &columns[0, 0],
                                       NULL if segments is None else &segments[0, 0] + 4 * first, &planes[0], held, last)
    return held


cdef int64_t counting_room(int64_t height, int64_t cols) noexcept nogil:
    """Bytes of scratch memory that the counts of a matrix take."""
    return 16 * cols + I2S_PLANES * (cols // 4 + I2S_MOST_BYTES) * 4 + 4 * height * 4 + 3 * 64


cdef bint counted_file(int row, int descriptor, int64_t start, int64_t height, int64_t cols, uint8_t *buffer, int64_t step,
                       bint either, bint others, uint32_t *columns, uint32_t *rows, uint8_t *scratch) noexcept nogil:
    """`count_file` with scratch memory of `counting_room` bytes at a multiple of 64; `rows` may be NULL."""
    cdef int64_t groups = height // 4, segment = cols // 4, size = groups * cols, at = 0, now
    cdef int64_t of_pairs = (16 * cols + 63) // 64 * 64, of_planes = I2S_PLANES * (segment + I2S_MOST_BYTES) * 4
    cdef uint32_t *pairs = <uint32_t *>scratch
    cdef uint8_t *planes = scratch + of_pairs
    cdef uint32_t *stretches = <uint32_t *>(planes + (of_planes + 63) // 64 * 64)
    cdef uint32_t *along = NULL if rows == NULL else stretches
    cdef int held = 0
    memset(scratch, 0, of_pairs + of_planes)
    while at < size:
        now = step if step < size - at else size - at
        if not i2s_read_fully(descriptor, buffer, now, start + at):
            return False
        held = i2s_sums_sets[row].sums(buffer, now // cols, cols, segment, either, pairs, along, planes, held, at + now == size)
        if along != NULL:
            along += now // segment * 4
        at += now
    i2s_totals_of_columns(pairs, cols, <uint32_t>height, others, columns)
    if rows != NULL:
        i2s_totals_of_rows(stretches, groups, <uint32_t>cols, others, rows)
    return True


def count_file(int row, int descriptor, int64_t start, int64_t height, uint8_t[::1] buffer, int64_t step, bint either,
               bint others, uint32_t[:, ::1] columns, uint32_t[:, ::1] rows):
    """The counts of a matrix of a file: of `height` rows, which are read `step` bytes at a time, to `columns` [2, cols] and
    `rows` [2, height], or None, in the form of `totals`. False if the file ends before the matrix does."""
    cdef int64_t cols = columns.shape[1]
    cdef uint8_t *scratch
    cdef bint there, counted = rows is not None
    if not 0 <= row < I2S_SUMS_SETS or not i2s_sums_sets[row].available():
        raise ValueError("no such kernel set")
    if cols < 4 or cols % 4 or height < 4 or height % 4 or step < cols or step % cols:
        raise ValueError("the bytes are not whole rows of whole segments")
    if columns.shape[0] != 2 or (counted and (rows.shape[0] != 2 or rows.shape[1] != height)):
        raise ValueError("the counts have another shape")
    if start < 0 or buffer.shape[0] < min(step, height // 4 * cols):
        raise ValueError("the buffer is too small")
    scratch = <uint8_t *>malloc(<size_t>counting_room(height, cols))
    if scratch == NULL:
        raise MemoryError
    with nogil:
        there = counted_file(row, descriptor, start, height, cols, &buffer[0], step, either, others, &columns[0, 0],
                             &rows[0, 0] if counted else NULL, scratch)
    free(scratch)
    return there


def ranks(const uint32_t[::1] counts, double[::1] found):
    """Write the ranks of counts, with mean 0; equal counts share a rank. Returns the number of different counts, or -1 if
    there are more than 2^20 counts, or one is larger than that."""
    cdef int64_t n = counts.shape[0], different
    cdef uint32_t most
    cdef uint32_t *seen
    if found.shape[0] != n:
        raise ValueError("the ranks have another shape")
    if n == 0:
        return 0
    most = i2s_largest(&counts[0], n)
    if n > LONGEST or most >= LONGEST:
        return -1
    seen = <uint32_t *>malloc(4 * (<size_t>most + 1) * sizeof(uint32_t))
    if seen == NULL:
        raise MemoryError
    with nogil:
        different = i2s_ranks(&counts[0], n, seen, &found[0])
    free(seen)
    return different


def score_sets():
    """The sets of kernels for scores, slowest first, and whether this processor can run each."""
    return [(i2s_scores_sets[i].name.decode("ascii"), bool(i2s_scores_sets[i].available())) for i in range(I2S_SCORES_SETS)]


def column_scores(int row, const uint32_t[:, ::1] bases, const int32_t[:, ::1] places, int64_t split,
                  const double[:, ::1] others, int64_t share, int64_t width, int64_t values, double[:, ::1] found):
    """Write the scores of profiles, whose ranks are in `others`, against columns in the order of each row of `places`; returns
    whether every profile has at least `values` different values. `bases` has the counts of places for the first `split`
    orders and for the others; `share` heads of `width` columns each are summed. Places are given for all columns, or for
    the first block: other blocks repeat them, shifted by the block, modulo the width. Places must be valid column numbers;
    this is not checked."""
    cdef int64_t n = bases.shape[1], orders = places.shape[0]
    cdef bint repeat = places.shape[1] == I2S_REPEATS and n % I2S_REPEATS == 0
    cdef size_t most
    cdef uint32_t *seen
    cdef uint32_t *counts
    cdef float *kept
    cdef double *squares
    cdef bint right
    if not 0 <= row < I2S_SCORES_SETS or not i2s_scores_sets[row].available():
        raise ValueError("no such kernel set")
    if share < 1 or share > LONGEST or width < 1 or width > LONGEST or n < 1 or n > LONGEST or n % share or (
            share > 1 and n % (share * width)):
        raise ValueError("the columns are not whole groups of heads")
    if (bases.shape[0] != 2 or (places.shape[1] != n and not repeat) or others.shape[1] * share != n
            or found.shape[0] != others.shape[0] or found.shape[1] != orders or not 0 <= split <= orders):
        raise ValueError("the profiles have another shape")
    if orders == 0 or others.shape[0] == 0:
        return True
    most = share * <size_t>i2s_largest(&bases[0, 0], 2 * n)
    if most >= <size_t>LONGEST:
        raise ValueError("a count is too large")
    seen = <uint32_t *>malloc((4 * (most + 1) + <size_t>n) * sizeof(uint32_t))
    kept = <float *>malloc((2 + <size_t>others.shape[0]) * <size_t>n * sizeof(float))
    squares = <double *>malloc(<size_t>others.shape[0] * sizeof(double))
    if seen == NULL or kept == NULL or squares == NULL:
        free(seen)
        free(kept)
        free(squares)
        raise MemoryError
    counts = seen + 4 * (most + 1)
    with nogil:
        right = i2s_scores_sets[row].columns(&bases[0, 0], n, &places[0, 0], repeat, orders, 0, split, &others[0, 0],
                                             others.shape[0], share, width, values, seen, counts, kept, squares, &found[0, 0])
        if right:
            right = i2s_scores_sets[row].columns(&bases[1, 0], n, &places[0, 0], repeat, orders, split, orders, &others[0, 0],
                                                 others.shape[0], share, width, values, seen, counts, kept, squares,
                                                 &found[0, 0])
    free(seen)
    free(kept)
    free(squares)
    return right


def totals(const uint32_t[:, ::1] pairs, const uint32_t[:, ::1] stretches, uint32_t height, bint others,
           uint32_t[:, ::1] columns, uint32_t[:, ::1] rows):
    """Convert sums of bits, by columns and segments, to counts of places and of rows: first for bytes of four columns of a
    row, then for bytes of four rows. With `others`, the counts are of the bits that are not set in `height` rows.
    `stretches` and `rows` may be None."""
    cdef int64_t cols = columns.shape[1]
    if pairs.shape[0] != 4 or columns.shape[0] != 2 or pairs.shape[1] != cols or cols % 4 or cols == 0:
        raise ValueError("the counts have another shape")
    if (stretches is None) != (rows is None):
        raise ValueError("the counts have another shape")
    if rows is not None and (stretches.shape[1] != 4 or rows.shape[0] != 2 or stretches.shape[0] != rows.shape[1]
                             or rows.shape[1] % 4 or rows.shape[1] == 0):
        raise ValueError("the counts have another shape")
    with nogil:
        i2s_totals_of_columns(&pairs[0, 0], cols, height, others, &columns[0, 0])
        if rows is not None:
            i2s_totals_of_rows(&stretches[0, 0], rows.shape[1] // 4, <uint32_t>cols, others, &rows[0, 0])


def float_ranks(const float[::1] values, double[::1] found):
    """Write the ranks of floats, as `ranks` does; returns the number of different values, or 0 if one is not finite."""
    cdef int64_t n = values.shape[0], different
    cdef uint64_t *keys
    if found.shape[0] != n or n > LONGEST:
        raise ValueError("the ranks have another shape")
    if n == 0:
        return 0
    keys = <uint64_t *>malloc(2 * n * sizeof(uint64_t))
    if keys == NULL:
        raise MemoryError
    with nogil:
        different = i2s_float_ranks(&values[0], n, keys, &found[0])
    free(keys)
    return different


def count_score(const uint32_t[::1] one, const uint32_t[::1] other, int64_t values):
    """The score of two profiles of counts; None if one has fewer than `values` different values.

    Ranks are multiples of a half, so that their products are exact, and the order of additions does not matter."""
    cdef int64_t n = one.shape[0], i, different = 0
    cdef double product = 0, first = 0, second = 0
    cdef uint32_t *seen
    cdef double *ranked
    if other.shape[0] != n or n > LONGEST:
        raise ValueError("the profiles have another shape")
    if n < 2:
        return None
    i = max(i2s_largest(&one[0], n), i2s_largest(&other[0], n))
    if i >= LONGEST:
        raise ValueError("a count is too large")
    ranked = <double *>malloc(2 * n * sizeof(double))
    seen = <uint32_t *>malloc(4 * (<size_t>i + 1) * sizeof(uint32_t))
    if ranked == NULL or seen == NULL:
        free(ranked)
        free(seen)
        raise MemoryError
    with nogil:
        different = i2s_ranks(&one[0], n, seen, ranked)
        different = min(different, i2s_ranks(&other[0], n, seen, ranked + n))
        for i in range(n):
            product += ranked[i] * ranked[n + i]
            first += ranked[i] * ranked[i]
            second += ranked[n + i] * ranked[n + i]
    free(ranked)
    free(seen)
    return product / (sqrt(first * second) / sqrt(<double>(n - 1))) if different >= values else None


def has_zero(const uint32_t[::1] counts):
    """Whether a count is 0."""
    cdef int64_t i
    for i in range(counts.shape[0]):
        if counts[i] == 0:
            return True
    return False


def zeros_alike(const uint32_t[::1] gate, const uint32_t[::1] up, const uint32_t[::1] base, const int32_t[:, ::1] places,
                int64_t first, int64_t stop):
    """How many counts are 0 in `gate` and `up`, in one of them, and in `base`; and for each order from `first` to `stop` a
    list that says how many of the first are 0 in `base` as well, read in that order. `places` has the first block of each
    order, which other blocks repeat, shifted by the block, modulo the width."""
    cdef int64_t n = base.shape[0], rows = 0, either = 0, columns = 0, order, i, both
    if gate.shape[0] != n or up.shape[0] != n or places.shape[1] != I2S_REPEATS or n % I2S_REPEATS:
        raise ValueError("the counts have another shape")
    if not 0 <= first <= stop <= places.shape[0]:
        raise ValueError("an order is not among the places")
    for i in range(n):
        rows += gate[i] == 0 and up[i] == 0
        either += gate[i] == 0 or up[i] == 0
        columns += base[i] == 0
    found = []
    for order in range(first, stop):
        both = 0
        for i in range(I2S_REPEATS):
            if places[order, i] < 0:
                raise ValueError("a place is not in the matrix")
        if rows and columns:
            for i in range(n):
                if gate[i] == 0 and up[i] == 0:
                    both += base[(places[order, i % I2S_REPEATS] + i // I2S_REPEATS * I2S_REPEATS) % n] == 0
        found.append(both)
    return rows, either, columns, found


def unwritten(str kind, *shape):
    """Memory for numbers of a kind (B: bytes, f: floats) in a shape; what it holds is not defined."""
    return memoryview(view.array(shape=shape, itemsize={"B": 1, "f": 4}[kind], format=kind))


def line_offset(const uint8_t[::1] data):
    """The first byte at a multiple of a cache line."""
    cdef size_t line = I2S_GRAM_LINE
    return <int64_t>((line - <size_t>&data[0] % line) % line) if data.shape[0] else 0


include "grams.pxi"
include "gram_scores.pxi"
include "evidence_pass.pxi"
