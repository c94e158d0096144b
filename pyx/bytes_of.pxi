"""The bytes of an object with the buffer protocol. A typed memoryview would do, but each extension that has one loads all
of Cython's code for them when it is imported."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer


@cython.final
cdef class Bytes:
    """The bytes of a contiguous buffer, which stay where they are as long as this object lives.

    :raises BufferError: for other buffers
    """

    cdef Py_buffer view
    cdef uint8_t *start  # not to be written to unless that was asked for
    cdef int64_t size

    def __cinit__(self, data, bint writable=False):
        PyObject_GetBuffer(data, &self.view, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        self.start = <uint8_t *>self.view.buf
        self.size = self.view.len

    def __dealloc__(self):
        PyBuffer_Release(&self.view)
