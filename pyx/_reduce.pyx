# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: freethreading_compatible=True
"""The compiled sums in a fixed order: thin calls into reduce.h, without the GIL.

Nothing is checked here: `i2s_spec.model.reference.reductions` compares every shape before it calls. `row` is the row of the kernel
table that `kernel_set` gives; `start` and `stop` are the outputs to compute.
"""

from cpython.buffer cimport PyBUF_STRIDED_RO, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

import numpy as np

cdef extern from "reduce.h" nogil:
    unsigned i2s_cpu_needs(int (*available)() noexcept nogil)
    ctypedef struct i2s_reduce_set:
        const char *name
        int (*available)() noexcept nogil
        void (*products)(const double *, int64_t, int64_t, const void *, int, int64_t, int64_t, int64_t, int64_t, float *,
                         int64_t, double *) noexcept nogil
        void (*lanes)(const float *, int64_t, int64_t, const void *, int, int64_t, int64_t, int64_t, int64_t, float *,
                      int64_t, float *, int) noexcept nogil
    const i2s_reduce_set *i2s_reduce_sets
    int I2S_REDUCE_SETS
    int I2S_TOKENS
    int I2S_OUTPUTS
    void i2s_squares(const float *, int64_t, int64_t, int, double *) noexcept nogil
    void i2s_sums(const float *, int64_t, int64_t, double *) noexcept nogil

TOKENS = I2S_TOKENS
OUTPUTS = I2S_OUTPUTS


def kernel_sets():
    """The kernel sets that were compiled, slowest first, and whether this processor can run each."""
    return [(i2s_reduce_sets[i].name.decode("ascii"), bool(i2s_reduce_sets[i].available())) for i in range(I2S_REDUCE_SETS)]


def kernel_needs():
    """The processor features that each set needs, as bits in the order of `_cpu.features()`."""
    return [i2s_cpu_needs(i2s_reduce_sets[i].available) for i in range(I2S_REDUCE_SETS)]


def products(int row, const double[:, :, ::1] x, int64_t tokens, object w, int kind, int64_t row_step, int64_t column_step,
             int64_t start, int64_t stop, float[:, ::1] out):
    """Outputs `start` to `stop` of the products of tiled tokens with a matrix."""
    cdef int64_t columns = x.shape[1], rows = out.shape[1]
    cdef const double *tiles = &x[0, 0, 0] if columns else NULL
    cdef float *to = &out[0, 0]
    cdef Py_buffer matrix
    cdef double *scratch = <double *>malloc(sizeof(double) * (columns * (I2S_OUTPUTS + 1) + 8))
    if scratch == NULL:
        raise MemoryError
    try:
        PyObject_GetBuffer(w, &matrix, PyBUF_STRIDED_RO)
        with nogil:
            i2s_reduce_sets[row].products(tiles, tokens, columns, matrix.buf, kind, row_step, column_step, start, stop, to,
                                          rows, scratch)
        PyBuffer_Release(&matrix)
    finally:
        free(scratch)


def lanes(int row, const float[:, ::1] x, object w, int kind, int64_t row_step, int64_t column_step, int64_t start,
          int64_t stop, float[:, ::1] out, int vector):
    """Outputs `start` to `stop` of the products of tokens with a matrix, over the lanes of 4 vectors of 8 or 16."""
    cdef int64_t tokens = x.shape[0], columns = x.shape[1], rows = out.shape[1]
    cdef const float *of = &x[0, 0] if columns else NULL
    cdef float *to = &out[0, 0]
    cdef Py_buffer matrix
    cdef float *scratch = <float *>malloc(sizeof(float) * (columns + 8))
    if scratch == NULL:
        raise MemoryError
    try:
        PyObject_GetBuffer(w, &matrix, PyBUF_STRIDED_RO)
        with nogil:
            i2s_reduce_sets[row].lanes(of, tokens, columns, matrix.buf, kind, row_step, column_step, start, stop, to, rows,
                                       scratch, vector)
        PyBuffer_Release(&matrix)
    finally:
        free(scratch)


def squares(const float[:, ::1] x, bint rounded):
    """The sum of squares of each row, float64 [T]."""
    cdef int64_t tokens = x.shape[0], columns = x.shape[1]
    made = np.zeros(tokens, dtype=np.float64)
    cdef double[::1] out = made
    if tokens and columns:
        with nogil:
            i2s_squares(&x[0, 0], tokens, columns, rounded, &out[0])
    return made


def sums(const float[:, ::1] x):
    """The sum of each row, float64 [T]."""
    cdef int64_t tokens = x.shape[0], columns = x.shape[1]
    made = np.zeros(tokens, dtype=np.float64)
    cdef double[::1] out = made
    if tokens and columns:
        with nogil:
            i2s_sums(&x[0, 0], tokens, columns, &out[0])
    return made
