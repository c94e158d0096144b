"""The pass of evidence: threads take one matrix after another and count it; the thread that counts the last matrix of a
layer compares the profiles of this layer. Nothing here holds the GIL; `comparisons.profile_comparisons` is the definition."""

cdef extern from *:
    """
    static int64_t i2s_fetch_add(int64_t *number, int64_t by) { return __atomic_fetch_add(number, by, __ATOMIC_ACQ_REL); }
    """
    int64_t i2s_fetch_add(int64_t *, int64_t) noexcept nogil

#: Rows of the tables of `reading.comparison_plan`.
cdef struct MatrixRow:
    int64_t start, height, width, step, counts_at, of_rows, layer

cdef struct ProfileRow:
    int64_t is_counts, at, length

cdef struct AskedRow:
    int64_t matrix, first_use, stop_use, share, head, first_order, orders, split

cdef struct UseRow:
    int64_t profile[2]

#: Scratch memory is allocated in multiples of this.
cdef int64_t LINE_BYTES = 64


cdef struct Scratch:
    uint8_t *at


cdef inline void *taken(Scratch *scratch, int64_t size) noexcept nogil:
    """The next piece of scratch memory."""
    cdef void *found = scratch.at
    scratch.at += (size + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES
    return found


cdef int64_t rows_in(const int64_t[::1] flat, size_t size) except -1:
    """The number of rows, of `size` bytes each, in a flat table."""
    cdef int64_t fields = size // sizeof(int64_t)
    if flat.shape[0] % fields:
        raise ValueError("the tables have another shape")
    return flat.shape[0] // fields


cdef const void *first_of(const int64_t[::1] flat):
    return &flat[0] if flat.shape[0] else NULL


cdef inline int64_t lines(int64_t size) noexcept nogil:
    return (size + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES


cdef class Pass:
    """The state that threads share while they count and compare. Tables are flat buffers, row after row.

    :param matrices: int64, rows of `MatrixRow`: where a payload begins, its rows and columns, the bytes that are read at
        once, where its counts go, whether rows are counted, and which layer it is of; matrices of a layer beside each other
    :param profiles: int64, rows of `ProfileRow`: of `counts` or of `gains`, where it begins, and how long it is
    :param profile_ends: int64 [layers + 1]: the profiles of each layer
    :param asked: int64, rows of `AskedRow`: a matrix whose columns are compared with what uses, by which orders
    :param asked_ends: int64 [layers + 1], likewise
    :param uses: int64, rows of `UseRow`: a profile for each way to read its rows, or one and -1
    :param numbers: int64 [orders]: which of the hypotheses each order is
    :param places: int32, a block of each order
    :param counts: uint32, of all matrices
    :param gains: float32, all that are compared
    :param found: float64, for each use two rows of as many as there are hypotheses, not a number yet
    :param made: uint8 [uses], 0 yet: whether a comparison is made
    :param left: int64 [layers]
    :raises ValueError: where a table has entries that do not fit
    """
    cdef int sums, scores
    cdef bint either, others
    cdef int64_t next, values
    # The buffers, and the rows in them.
    cdef const int64_t[::1] of_matrices, of_profiles, of_asked, of_uses
    cdef int64_t matrix_count, profile_count, asked_count, use_count, order_count, hypotheses
    cdef const MatrixRow *matrices
    cdef const ProfileRow *profiles
    cdef const AskedRow *asked
    cdef const UseRow *uses
    cdef const int64_t[::1] profile_ends, asked_ends, numbers
    cdef const int32_t[::1] places
    cdef uint32_t[::1] counts
    cdef const float[::1] gains
    cdef double[::1] found
    cdef uint8_t[::1] made
    cdef int64_t[::1] left
    cdef readonly int64_t room
    cdef readonly int64_t step

    def __init__(self, int sums, int scores, bint either, bint others, int64_t values, matrices, profiles, profile_ends, asked,
                 asked_ends, uses, numbers, places, counts, gains, found, made, left):
        if not 0 <= sums < I2S_SUMS_SETS or not i2s_sums_sets[sums].available():
            raise ValueError("no such kernel set")
        if not 0 <= scores < I2S_SCORES_SETS or not i2s_scores_sets[scores].available():
            raise ValueError("no such kernel set")
        self.sums, self.scores, self.either, self.others, self.values = sums, scores, either, others, values
        self.of_matrices, self.of_profiles, self.of_asked, self.of_uses = matrices, profiles, asked, uses
        self.profile_ends, self.asked_ends, self.numbers, self.places = profile_ends, asked_ends, numbers, places
        self.counts, self.gains, self.found, self.made, self.left = counts, gains, found, made, left
        self.next = 0
        self.matrix_count = rows_in(self.of_matrices, sizeof(MatrixRow))
        self.profile_count = rows_in(self.of_profiles, sizeof(ProfileRow))
        self.asked_count = rows_in(self.of_asked, sizeof(AskedRow))
        self.use_count = rows_in(self.of_uses, sizeof(UseRow))
        self.order_count = self.numbers.shape[0]
        self.matrices = <const MatrixRow *>first_of(self.of_matrices)
        self.profiles = <const ProfileRow *>first_of(self.of_profiles)
        self.asked = <const AskedRow *>first_of(self.of_asked)
        self.uses = <const UseRow *>first_of(self.of_uses)
        self.hypotheses = self.found.shape[0] // (2 * self.use_count) if self.use_count else 0
        if (self.places.shape[0] != self.order_count * I2S_REPEATS or self.made.shape[0] != self.use_count
                or self.found.shape[0] != 2 * self.use_count * self.hypotheses):
            raise ValueError("the tables have another shape")
        self._check()

    cdef _check(self):
        cdef int64_t layers = self.left.shape[0], i, k, most = 0, rows, cols, use, share, order
        for i in range(layers):
            self.left[i] = 0
        self.step = 0
        for i in range(self.matrix_count):
            rows, cols = self.matrices[i].height, self.matrices[i].width
            if not 0 < rows <= LONGEST or not 0 < cols <= LONGEST or rows % 4 or cols % I2S_REPEATS:
                raise ValueError("a matrix has no whole groups of rows and blocks")
            if self.matrices[i].start < 0 or self.matrices[i].step < cols or self.matrices[i].step % cols:
                raise ValueError("the bytes are not whole rows of whole segments")
            self._within(self.matrices[i].counts_at, 2 * (cols + (rows if self.matrices[i].of_rows else 0)),
                         self.counts.shape[0])
            self._within(self.matrices[i].layer, 1, layers)
            self.left[self.matrices[i].layer] += 1
            self.step = max(self.step, self.matrices[i].step)
            most = max(most, counting_room(rows, cols))
        for i in range(self.profile_count):
            if not 0 < self.profiles[i].length <= LONGEST:
                raise ValueError("a profile is too long")
            self._within(self.profiles[i].at, self.profiles[i].length,
                         self.counts.shape[0] if self.profiles[i].is_counts else self.gains.shape[0])
        for order in range(self.order_count):
            self._within(self.numbers[order], 1, self.hypotheses)
        self._ends(self.profile_ends, layers, self.profile_count)
        self._ends(self.asked_ends, layers, self.asked_count)
        for i in range(self.asked_count):
            self._within(self.asked[i].matrix, 1, self.matrix_count)
            self._within(self.asked[i].first_use, self.asked[i].stop_use - self.asked[i].first_use, self.use_count)
            self._within(self.asked[i].first_order, self.asked[i].orders, self.order_count)
            self._within(self.asked[i].split, 0, self.asked[i].orders)
            rows, cols = self.matrices[self.asked[i].matrix].height, self.matrices[self.asked[i].matrix].width
            share = self.asked[i].share
            if share < 1 or share * rows >= LONGEST or not 0 < self.asked[i].head <= cols or cols % share or (
                    share > 1 and cols % (share * self.asked[i].head)):
                raise ValueError("the columns are not whole groups of heads")
            for order in range(self.asked[i].first_order, self.asked[i].first_order + self.asked[i].orders):
                for k in range(I2S_REPEATS):
                    self._within(self.places[order * I2S_REPEATS + k], 1, cols)
            for use in range(self.asked[i].first_use, self.asked[i].stop_use):
                for k in range(2):
                    if k == 0 or self.uses[use].profile[k] >= 0:
                        self._within(self.uses[use].profile[k], 1, self.profile_count)
                        if self.profiles[self.uses[use].profile[k]].length * share != cols:
                            raise ValueError("a profile has another length")
        for i in range(layers):
            most = max(most, self._comparing_room(i))
        self.room = most

    cdef _ends(self, const int64_t[::1] ends, int64_t layers, int64_t size):
        cdef int64_t i
        if ends.shape[0] != layers + 1 or ends[0] or ends[layers] != size:
            raise ValueError("layers are not beside each other")
        for i in range(layers):
            if ends[i] > ends[i + 1]:
                raise ValueError("layers are not beside each other")

    cdef _within(self, int64_t at, int64_t size, int64_t stop):
        if not (0 <= at <= stop and 0 <= size <= stop - at):
            raise ValueError("a table points beyond another")

    cdef int64_t _comparing_room(self, int64_t layer):
        """Bytes of scratch memory that the comparison of a layer takes."""
        cdef int64_t size = lines(8 * self.profile_count), n, many, i, longest = 0, counted = 0, most = 0
        for i in range(self.profile_ends[layer], self.profile_ends[layer + 1]):
            size += lines(8 * self.profiles[i].length)
            longest = max(longest, self.profiles[i].length)
        for i in range(self.matrix_count):  # a row has at most as many as there are columns
            if self.matrices[i].layer == layer:
                counted = max(counted, self.matrices[i].width)
        for i in range(self.asked_ends[layer], self.asked_ends[layer + 1]):
            n = self.matrices[self.asked[i].matrix].width
            many = 2 * (self.asked[i].stop_use - self.asked[i].first_use)
            counted = max(counted, self.asked[i].share * self.matrices[self.asked[i].matrix].height)
            most = max(most, lines(8 * many * n) + lines(4 * n) + lines(4 * (2 + many) * n) + lines(8 * many)
                       + lines(8 * many * self.asked[i].orders))
        return size + lines(16 * longest) + lines(16 * (counted + 1)) + most

    def work(self, int descriptor, uint8_t[::1] buffer, uint8_t[::1] scratch, int64_t most):
        """Count up to `most` matrices, and compare layers that are complete.

        :param descriptor: file descriptor
        :param buffer: `step` bytes, to read into
        :param scratch: `room` bytes
        :returns: the number of a matrix that could not be read; -1 if matrices may remain, -2 if none remain
        """
        cdef int64_t matrix, answer = -1
        if buffer.shape[0] < self.step or scratch.shape[0] < self.room:
            raise ValueError("the buffer is too small")
        with nogil:
            while most > 0:
                matrix = i2s_fetch_add(&self.next, 1)
                if matrix >= self.matrix_count:
                    answer = -2
                    break
                if not self._count(matrix, descriptor, &buffer[0], &scratch[0]):
                    answer = matrix
                    break
                self._counted(matrix, &scratch[0])
                most -= 1
        return answer

    def take(self):
        """The number of the next matrix, for a caller that counts it in another way; -1 if none remains."""
        cdef int64_t matrix = i2s_fetch_add(&self.next, 1)
        return matrix if matrix < self.matrix_count else -1

    def counted(self, int64_t matrix, uint8_t[::1] scratch):
        """Mark a matrix from `take` as counted, and compare its layer if this was the last one."""
        if not 0 <= matrix < self.matrix_count or scratch.shape[0] < self.room:
            raise ValueError("the buffer is too small")
        with nogil:
            self._counted(matrix, &scratch[0])

    cdef bint _count(self, int64_t i, int descriptor, uint8_t *buffer, uint8_t *scratch) noexcept nogil:
        cdef uint32_t *columns = &self.counts[self.matrices[i].counts_at]
        return counted_file(self.sums, descriptor, self.matrices[i].start, self.matrices[i].height, self.matrices[i].width,
                            buffer, self.matrices[i].step, self.either, self.others, columns,
                            columns + 2 * self.matrices[i].width if self.matrices[i].of_rows else NULL, scratch)

    cdef void _counted(self, int64_t i, uint8_t *scratch) noexcept nogil:
        if i2s_fetch_add(&self.left[self.matrices[i].layer], -1) == 1:
            self._compare(self.matrices[i].layer, scratch)

    cdef void _compare(self, int64_t layer, uint8_t *memory) noexcept nogil:
        """Rank the profiles of a layer, each once, and compare them."""
        cdef Scratch scratch, again
        cdef int64_t first = self.profile_ends[layer], stop = self.profile_ends[layer + 1], longest = 0, counted = 0, i, n
        cdef double **ranked
        cdef uint64_t *keys
        cdef uint32_t *seen
        cdef int64_t different
        scratch.at = memory
        ranked = <double **>taken(&scratch, 8 * (stop - first))
        for i in range(first, stop):
            longest = max(longest, self.profiles[i].length)
        keys = <uint64_t *>taken(&scratch, 16 * longest)
        for i in range(self.matrix_count):
            if self.matrices[i].layer == layer:
                counted = max(counted, self.matrices[i].width)
        for i in range(self.asked_ends[layer], self.asked_ends[layer + 1]):
            counted = max(counted, self.asked[i].share * self.matrices[self.asked[i].matrix].height)
        seen = <uint32_t *>taken(&scratch, 16 * (counted + 1))
        for i in range(first, stop):
            n = self.profiles[i].length
            ranked[i - first] = <double *>taken(&scratch, 8 * n)
            different = 0
            if not self.profiles[i].is_counts:
                different = i2s_float_ranks(&self.gains[self.profiles[i].at], n, keys, ranked[i - first])
            elif i2s_largest(&self.counts[self.profiles[i].at], n) <= counted:
                different = i2s_ranks(&self.counts[self.profiles[i].at], n, seen, ranked[i - first])
            if different < self.values:
                ranked[i - first] = NULL
        for i in range(self.asked_ends[layer], self.asked_ends[layer + 1]):
            again = scratch
            self._ask(i, first, ranked, seen, &again)

    cdef void _ask(self, int64_t i, int64_t first, double **ranked, uint32_t *seen, Scratch *scratch) noexcept nogil:
        """The scores of the columns of one matrix against all profiles that have ranks."""
        cdef int64_t n = self.matrices[self.asked[i].matrix].width, orders = self.asked[i].orders, many = 0, use, side, h, number
        cdef int64_t length = n // self.asked[i].share, start = self.asked[i].first_use, stop = self.asked[i].stop_use
        cdef int64_t split = self.asked[i].split, at = 0
        cdef const uint32_t *base = &self.counts[self.matrices[self.asked[i].matrix].counts_at]
        cdef const int32_t *places
        cdef double *others = <double *>taken(scratch, 16 * (stop - start) * length)
        cdef uint32_t *counts = <uint32_t *>taken(scratch, 4 * n)
        cdef float *kept = <float *>taken(scratch, 4 * (2 + 2 * (stop - start)) * n)
        cdef double *squares = <double *>taken(scratch, 16 * (stop - start))
        cdef double *scores = <double *>taken(scratch, 16 * (stop - start) * orders)
        cdef double score
        if orders == 0 or i2s_largest(base, 2 * n) > self.matrices[self.asked[i].matrix].height:
            return
        places = &self.places[self.asked[i].first_order * I2S_REPEATS]
        for use in range(start, stop):
            self.made[use] = ranked[self.uses[use].profile[0] - first] != NULL and (
                self.uses[use].profile[1] < 0 or ranked[self.uses[use].profile[1] - first] != NULL)
            if not self.made[use]:
                continue
            for side in range(2):
                if self.uses[use].profile[side] >= 0:
                    memcpy(others + many * length, ranked[self.uses[use].profile[side] - first], 8 * <size_t>length)
                    many += 1
        if many == 0:
            return
        if not (i2s_scores_sets[self.scores].columns(base, n, places, True, orders, 0, split, others, many, self.asked[i].share,
                                                     self.asked[i].head, self.values, seen, counts, kept, squares, scores)
                and i2s_scores_sets[self.scores].columns(base + n, n, places, True, orders, split, orders, others, many,
                                                         self.asked[i].share, self.asked[i].head, self.values, seen, counts,
                                                         kept, squares, scores)):
            for use in range(start, stop):
                self.made[use] = False
            return
        for use in range(start, stop):
            if not self.made[use]:
                continue
            for side in range(2):
                if side and self.uses[use].profile[1] >= 0:
                    at += orders
                for h in range(orders):
                    number = self.numbers[self.asked[i].first_order + h]
                    self.found[(2 * use + side) * self.hypotheses + number] = scores[at + h]
            at += orders
