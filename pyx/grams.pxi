"""Grams of weights, their correlations, and how well two matrices of correlations agree."""

def gram_scores(int row, const float[:, ::1] one, const float[:, ::1] first, const float[:, ::1] second,
                const int32_t[::1] places, const int64_t[::1] starts, const int64_t[::1] firsts, int64_t values,
                double[:, ::1] found):
    """The scores of a matrix of correlations against two others under several orders, to `found` [2, orders]: of the rows and
    columns of `one` that order h has in `places` from `starts[h]` on, and those of either other from `firsts[h]` on, as many
    as all have. Not a number where these are fewer than `values`, or one side is constant. All are symmetric, with 0 on the
    diagonal; the others have one shape."""
    cdef int64_t known = one.shape[0], others = first.shape[0], orders = found.shape[1], h, n, i
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
    for i in range(places.shape[0]):
        if not 0 <= places[i] < known:
            raise ValueError("a place is not in the matrix")
    with nogil:
        for h in range(orders):
            n = min(starts[h + 1] - starts[h], others - firsts[h])
            found[0, h] = found[1, h] = NAN
            if n < values or n < 2:
                continue
            all_of = n == known and n == others  # in whatever order: squares are the same in each
            for i in range(5):
                sums[i] = 0
            at[0], at[1] = &first[firsts[h], firsts[h]], &second[firsts[h], firsts[h]]
            i2s_scores_sets[row].grams(&one[0, 0], known, at, others, &places[starts[h]], n, not (all_of and counted), sums)
            for side in range(2):
                size[side] = whole[side] if all_of and counted else sums[2] * sums[3 + side]
                if all_of:
                    whole[side] = size[side]
                if size[side] > 0:
                    found[side, h] = sums[side] / sqrt(size[side]) * sqrt(<double>n * <double>(n - 1) / 2)
            counted = counted or all_of


def shared_gram(const float[:, ::1] products, const int32_t[::1] places, int64_t width, int64_t share, float[:, ::1] found):
    """Of products of columns, taken in the order of `places`, the sums over the heads that share a key head: of channel i of
    group a with channel j of group b, those of the first heads, of the second ones and so on. A group has `share` heads of
    `width` columns; `found` is [groups * width, groups * width]."""
    cdef int64_t n = found.shape[0], group = share * width, i, j, head, of_row, i_at, j_at
    cdef const float *row
    cdef float *to
    if width < 1 or share < 1 or n % width or found.shape[1] != n or n // width > places.shape[0] // group:
        raise ValueError("the sums have another shape")
    if products.shape[0] != products.shape[1]:
        raise ValueError("the matrices have another shape")
    for i in range(places.shape[0]):
        if not 0 <= places[i] < products.shape[0]:
            raise ValueError("a place is not in the matrix")
    with nogil:
        for i in range(n):
            i_at = i // width * group + i % width
            to = &found[i, 0]
            for head in range(share):
                row = &products[places[i_at + head * width], 0]
                for of_row in range(n // width):
                    j_at = of_row * group + head * width
                    for j in range(width):
                        to[of_row * width + j] = (to[of_row * width + j] if head else 0) + row[places[j_at + j]]


def gram_sets():
    """The sets of kernels for Grams, slowest first, and whether this processor can run each."""
    return [(i2s_grams_sets[i].name.decode("ascii"), bool(i2s_grams_sets[i].available())) for i in range(I2S_GRAMS_SETS)]


def gram(int row, const uint8_t[::1] data, int64_t stride, int64_t n, bint down, bint mixed, const int8_t[::1] table,
         float[:, ::1] found, bint correlated=False):
    """The products with each other, each less its mean, of the columns of n bytes in every row of `stride`, or of the rows;
    or their correlations, as `correlations` has them.

    `table` has the trit of each code. Where `mixed`, a byte holds four rows, else four columns; a row then has its four
    parts in another order than the columns, which does not matter for rows."""
    cdef int64_t rows, vectors, length, room, of_trits, of_products
    cdef uint8_t *memory
    cdef uint8_t *trits
    cdef uint8_t *turned
    if not 0 <= row < I2S_GRAMS_SETS or not i2s_grams_sets[row].available():
        raise ValueError("no such kernel set")
    if n < 1 or stride < n or data.shape[0] < stride or data.shape[0] % stride or table.shape[0] != 4:
        raise ValueError("the bytes are not whole rows")
    for trit in table:
        if not -1 <= trit <= 1:
            raise ValueError("that is not a trit")
    rows = data.shape[0] // stride
    if rows > I2S_GRAM_MOST or n > I2S_GRAM_MOST:
        raise ValueError("more than can be compared")
    vectors, length = n if down else rows, rows if down else n
    if down != mixed:
        vectors *= 4
    else:
        length *= 4
    room = (length + I2S_GRAM_LINE - 1) // I2S_GRAM_LINE * I2S_GRAM_LINE
    if vectors % 4 or room > I2S_GRAM_MOST or found.shape[0] != vectors or found.shape[1] != vectors:
        raise ValueError("the products have another shape")
    of_trits, of_products = vectors * room, (4 * vectors * vectors + I2S_GRAM_LINE - 1) // I2S_GRAM_LINE * I2S_GRAM_LINE
    # One piece, at a whole line: of several large ones, pages would go back to the system every time.
    memory = <uint8_t *>malloc(<size_t>(I2S_GRAM_LINE + of_trits + of_products + 32 * vectors + rows * n))
    if memory == NULL:
        raise MemoryError
    trits = memory + (I2S_GRAM_LINE - <int64_t>(<size_t>memory % I2S_GRAM_LINE)) % I2S_GRAM_LINE
    turned = trits + of_trits + of_products + 32 * vectors
    with nogil:
        i2s_grams_sets[row].trits(&data[0], rows, stride, n, down, mixed, &table[0], room, <int8_t *>trits, turned)
        if correlated:
            i2s_grams_sets[row].correlated(<int8_t *>trits, vectors, length, room, <int32_t *>(trits + of_trits),
                                           <double *>(trits + of_trits + of_products), &found[0, 0])
        else:
            i2s_grams_sets[row].gram(<int8_t *>trits, vectors, length, room, <int32_t *>(trits + of_trits),
                                     <double *>(trits + of_trits + of_products), &found[0, 0])
    free(memory)


def correlations(int row, const float[:, ::1] products, float[:, ::1] found):
    """Products of vectors, less their means, as correlations."""
    cdef int64_t n = products.shape[0]
    cdef double *inverse
    if not 0 <= row < I2S_GRAMS_SETS or not i2s_grams_sets[row].available():
        raise ValueError("no such kernel set")
    if products.shape[1] != n or found.shape[0] != n or found.shape[1] != n:
        raise ValueError("the matrices have another shape")
    if n == 0:
        return
    inverse = <double *>malloc(n * sizeof(double))
    if inverse == NULL:
        raise MemoryError
    with nogil:
        i2s_grams_sets[row].correlations(&products[0, 0], n, inverse, &found[0, 0])
    free(inverse)
