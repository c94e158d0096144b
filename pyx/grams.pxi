"""Grams of weights, and their correlations."""


def gram_sets():
    """The sets of kernels for Grams, slowest first, and whether this processor can run each."""
    return [(i2s_grams_sets[i].name.decode("ascii"), bool(i2s_grams_sets[i].available())) for i in range(I2S_GRAMS_SETS)]


def gram(int row, const uint8_t[::1] data, int64_t stride, int64_t n, bint down, bint mixed, const int8_t[::1] table,
         float[:, ::1] found, bint correlated=False):
    """Write the products of all pairs of columns (each minus its mean) of n bytes in every row of `stride`, or of rows; or
    their correlations, as `correlations` does.

    `table` has the trit of each code. With `mixed`, a byte holds four rows, else four columns; the four parts of a row are
    then in another order than the columns, which does not matter for rows."""
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
    # One allocation, aligned to a line: with several large ones, pages would be returned to the system every time.
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


def add_products(const float[:, ::1] one, const float[:, ::1] other, float[:, ::1] found):
    """The sums of two square matrices, of as many first rows and columns as `found` has."""
    cdef int64_t n = found.shape[0], i, j
    if (found.shape[1] != n or one.shape[0] != one.shape[1] or other.shape[0] != other.shape[1] or one.shape[0] < n
            or other.shape[0] < n):
        raise ValueError("the matrices have another shape")
    with nogil:
        for i in range(n):
            for j in range(n):
                found[i, j] = one[i, j] + other[i, j]
