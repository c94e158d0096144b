"""The scores of Grams under several orders, and those of heads that share a key head. Additions do not hold the GIL;
`grams.score` and `grams.shared` are the definitions."""

DEF MOST_HYPOTHESES = 64


def gram_scores(int row, const float[:, ::1] one, const float[:, ::1] first, const float[:, ::1] second,
                const int32_t[::1] places, const int64_t[::1] starts, const int64_t[::1] firsts,
                const int64_t[::1] numbers, int64_t values, double[:, ::1] found):
    """Write the scores of a matrix of correlations against two others under several orders, those of order h to the column
    `numbers[h]` of `found`. Compared are the rows and columns of `one` at `places` from `starts[h]` on, and those of the
    others from `firsts[h]` on, as many as all have. A score is NaN if these are fewer than `values`, or if one side is
    constant. All matrices are symmetric, with 0 on the diagonal; the others have the same shape."""
    cdef int64_t known = one.shape[0], others = first.shape[0], orders = numbers.shape[0], h, n, i
    cdef double sums[5]
    cdef double size[2]
    cdef double whole[2]
    cdef const float *at[2]
    cdef bint all_of, counted = False
    cdef int side
    if not 0 <= row < I2S_SCORES_SETS or not i2s_scores_sets[row].available():
        raise ValueError("no such kernel set")
    if (one.shape[1] != known or first.shape[1] != others or second.shape[0] != others or second.shape[1] != others
            or found.shape[0] != 2 or starts.shape[0] != orders + 1 or firsts.shape[0] != orders):
        raise ValueError("the matrices have another shape")
    for h in range(orders):
        if not 0 <= starts[h] <= starts[h + 1] <= places.shape[0] or firsts[h] < 0:
            raise ValueError("an order is not among the places")
        if not 0 <= numbers[h] < found.shape[1]:
            raise ValueError("a score has no column")
    for i in range(places.shape[0]):
        if not 0 <= places[i] < known:
            raise ValueError("a place is not in the matrix")
    with nogil:
        for h in range(orders):
            n = min(starts[h + 1] - starts[h], others - firsts[h])
            found[0, numbers[h]] = found[1, numbers[h]] = NAN
            if n < values or n < 2:
                continue
            all_of = n == known and n == others  # in any order: squares are the same
            for i in range(5):
                sums[i] = 0
            at[0], at[1] = &first[firsts[h], firsts[h]], &second[firsts[h], firsts[h]]
            i2s_scores_sets[row].grams(&one[0, 0], known, at, others, &places[starts[h]], n, not (all_of and counted), sums)
            for side in range(2):
                size[side] = whole[side] if all_of and counted else sums[2] * sums[3 + side]
                if all_of:
                    whole[side] = size[side]
                if size[side] > 0:
                    found[side, numbers[h]] = sums[side] / sqrt(size[side]) * sqrt(<double>n * <double>(n - 1) / 2)
            counted = counted or all_of


cdef void sum_over_heads(const float[:, ::1] products, const int32_t *places, int64_t width, int64_t share, int64_t n,
                         float *found) noexcept nogil:
    """The result of `shared_gram` for n channels."""
    cdef int64_t group = share * width, i, j, head, of_row, i_at, j_at
    cdef const float *row
    cdef float *to
    for i in range(n):
        i_at = i // width * group + i % width
        to = found + i * n
        for head in range(share):
            row = &products[places[i_at + head * width], 0]
            for of_row in range(n // width):
                j_at = of_row * group + head * width
                for j in range(width):
                    to[of_row * width + j] = (to[of_row * width + j] if head else 0) + row[places[j_at + j]]


def shared_gram(const float[:, ::1] products, const int32_t[::1] places, int64_t width, int64_t share, float[:, ::1] found):
    """Write sums of products of columns, in the order of `places`, over the heads that share a key head: for channel i of
    group a and channel j of group b, the products of the first heads, of the second heads and so on. A group has `share` heads of
    `width` columns; `found` is [groups * width, groups * width]."""
    cdef int64_t n = found.shape[0], i
    if width < 1 or share < 1 or n % width or found.shape[1] != n or n // width > places.shape[0] // (share * width):
        raise ValueError("the sums have another shape")
    if products.shape[0] != products.shape[1]:
        raise ValueError("the matrices have another shape")
    for i in range(places.shape[0]):
        if not 0 <= places[i] < products.shape[0]:
            raise ValueError("a place is not in the matrix")
    if n:
        with nogil:
            sum_over_heads(products, &places[0], width, share, n, &found[0, 0])


def squares(const double[::1] found, const uint8_t[::1] grams, const uint8_t[::1] in_rows, double[::1] squared):
    """Write the squares of scores, three rows for each comparison, from two: the scores where rows of partners stay where they
    are, where they do not, and either as the hypothesis has its own (`in_rows`). What is not a number counts nothing, and
    neither does a negative score of a comparison of `grams`."""
    cdef int64_t hypotheses = in_rows.shape[0], comparisons = grams.shape[0], i, k, side
    cdef double score
    cdef double *to
    if found.shape[0] != 2 * hypotheses * comparisons or squared.shape[0] != 3 * hypotheses * comparisons:
        raise ValueError("the scores have another shape")
    for i in range(comparisons):
        to = &squared[3 * hypotheses * i]
        for side in range(2):
            for k in range(hypotheses):
                score = found[(2 * i + side) * hypotheses + k]
                to[side * hypotheses + k] = 0 if isnan(score) or (grams[i] and score < 0) else score * score
        for k in range(hypotheses):
            to[2 * hypotheses + k] = to[k] if in_rows[k] else to[hypotheses + k]


def sums_of_squares(const double[::1] squared, numbers, sides, int64_t hypotheses):
    """The sums of the rows `sides` of the comparisons `numbers`, which `squares` wrote: a float for each hypothesis."""
    cdef int64_t number, side, k, rows = squared.shape[0] // hypotheses if hypotheses > 0 else 0
    cdef double sums[MOST_HYPOTHESES]
    if not 0 < hypotheses <= MOST_HYPOTHESES or squared.shape[0] % hypotheses:
        raise ValueError("the scores have another shape")
    for k in range(hypotheses):
        sums[k] = 0
    for number, side in zip(numbers, sides):
        if number < 0 or not 0 <= side < 3 or number >= rows // 3:
            raise ValueError("there is no such comparison")
        for k in range(hypotheses):
            sums[k] += squared[(3 * number + side) * hypotheses + k]
    return [sums[k] for k in range(hypotheses)]


def shared_scores(int row, int gram_row, const float[:, ::1] products, const float[:, ::1] first, const float[:, ::1] second,
                  const int32_t[::1] places, const int64_t[::1] starts, const int64_t[::1] firsts,
                  const int64_t[::1] numbers, int64_t width, int64_t share, int64_t values, double[:, ::1] found):
    """Write the scores of the results of `shared_gram` for products under each of several orders, as correlations; the other
    parameters are those of `gram_scores`. A score is NaN also if an order does not begin with the first channel."""
    cdef int64_t known = products.shape[0], others = first.shape[0], orders = numbers.shape[0], most = 0, h, i, n, channels
    cdef double sums[5]
    cdef double *inverse
    cdef float *grouped
    cdef float *correlated
    cdef int32_t *in_order
    cdef const float *at[2]
    cdef int side
    if not 0 <= row < I2S_SCORES_SETS or not i2s_scores_sets[row].available():
        raise ValueError("no such kernel set")
    if not 0 <= gram_row < I2S_GRAMS_SETS or not i2s_grams_sets[gram_row].available():
        raise ValueError("no such kernel set")
    if width < 1 or share < 1 or width > known or share > known:
        raise ValueError("the sums have another shape")
    if (products.shape[1] != known or first.shape[1] != others or second.shape[0] != others or second.shape[1] != others
            or found.shape[0] != 2 or starts.shape[0] != orders + 1 or firsts.shape[0] != orders):
        raise ValueError("the matrices have another shape")
    for h in range(orders):
        if not 0 <= starts[h] <= starts[h + 1] <= places.shape[0]:
            raise ValueError("an order is not among the places")
        if not 0 <= numbers[h] < found.shape[1]:
            raise ValueError("a score has no column")
        most = max(most, (starts[h + 1] - starts[h]) // (width * share) * width)
    for i in range(places.shape[0]):
        if not 0 <= places[i] < known:
            raise ValueError("a place is not in the matrix")
    inverse = <double *>malloc(<size_t>most * (2 * <size_t>most * sizeof(float) + sizeof(double) + sizeof(int32_t)) + 1)
    if inverse == NULL:
        raise MemoryError
    grouped = <float *>(inverse + most)
    correlated = grouped + most * most
    in_order = <int32_t *>(correlated + most * most)
    with nogil:
        for i in range(most):
            in_order[i] = <int32_t>i
        for h in range(orders):
            found[0, numbers[h]] = found[1, numbers[h]] = NAN
            channels = (starts[h + 1] - starts[h]) // (width * share) * width
            n = min(channels, others)
            if firsts[h] or channels < values or n < values or n < 2:
                continue
            sum_over_heads(products, &places[starts[h]], width, share, channels, grouped)
            i2s_grams_sets[gram_row].correlations(grouped, channels, inverse, correlated)
            for i in range(5):
                sums[i] = 0
            at[0], at[1] = &first[0, 0], &second[0, 0]
            i2s_scores_sets[row].grams(correlated, channels, at, others, in_order, n, True, sums)
            for side in range(2):
                if sums[2] * sums[3 + side] > 0:
                    found[side, numbers[h]] = sums[side] / sqrt(sums[2] * sums[3 + side]) * sqrt(<double>n * <double>(n - 1) / 2)
    free(inverse)
