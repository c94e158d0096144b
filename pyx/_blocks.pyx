# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: freethreading_compatible=True
"""The compiled kernels of the block types: thin calls into blocks.h, without the GIL.

Nothing is checked here: `i2s_spec.codec.blocks_native` compares every size with every buffer before it calls.
"""

from libc.stdint cimport int8_t, int64_t, uint8_t, uint64_t

cdef extern from "blocks.h" nogil:
    unsigned i2s_cpu_needs(int (*available)() noexcept nogil)
    ctypedef struct i2s_block:
        int elements, bytes, scale
    ctypedef struct i2s_block_set:
        const char *name
        int (*available)() noexcept nogil
        int (*unpack)(int, const uint8_t *, int64_t, int64_t, int, int8_t *, int, int, float *) noexcept nogil
        int (*pack)(int, const int8_t *, int64_t, int64_t, int, const uint8_t *, int, int, uint8_t *, int) noexcept nogil
        int (*floats)(int, const uint8_t *, int64_t, int64_t, int, int, float *, int) noexcept nogil
        void (*count)(int, const uint8_t *, int64_t, int64_t, int, uint64_t *) noexcept nogil
    const i2s_block_set *i2s_block_sets
    const i2s_block *i2s_block_kinds
    void i2s_block_scales(int, const uint8_t *, int64_t, int, float *) noexcept nogil
    int I2S_BLOCK_SETS
    int I2S_BLOCK_KINDS


def kernel_sets():
    """The kernel sets that were compiled, slowest first, and whether this processor can run each."""
    return [(i2s_block_sets[i].name.decode("ascii"), bool(i2s_block_sets[i].available())) for i in range(I2S_BLOCK_SETS)]


def kernel_needs():
    """The processor features that each set needs, as bits in the order of `_cpu.features()`."""
    return [i2s_cpu_needs(i2s_block_sets[i].available) for i in range(I2S_BLOCK_SETS)]


def kinds():
    """Elements and bytes of a block, and the place of its scale (-1: a row has it), of each kind."""
    return [(i2s_block_kinds[i].elements, i2s_block_kinds[i].bytes, i2s_block_kinds[i].scale) for i in range(I2S_BLOCK_KINDS)]


cdef const uint8_t *start_of(const uint8_t[::1] data) noexcept nogil:
    return &data[0] if data.shape[0] else NULL


def unpack(int row, int kind, const uint8_t[::1] src, int64_t rows, int64_t blocks, int front, int8_t[::1] dst, bint stream,
           bint swap, float[::1] scales):
    """Rows of blocks to one int8 an element, code - 1, and the scales of blocks, if `scales` has room; True where a code is 3."""
    cdef const uint8_t *s = start_of(src)
    cdef float *each = &scales[0] if scales.shape[0] else NULL
    cdef int seen
    with nogil:
        seen = i2s_block_sets[row].unpack(kind, s, rows, blocks, front, &dst[0], stream, swap, each)
    return bool(seen)


def pack(int row, int kind, const int8_t[::1] src, int64_t rows, int64_t blocks, int front, const uint8_t[::1] scales, int each,
         int most, uint8_t[::1] dst, bint stream):
    """One int8 an element to rows of blocks, with scales `each` bytes apart, 0 for one of all; True where a value has no code."""
    cdef const uint8_t *d = start_of(scales)
    cdef int bad
    with nogil:
        bad = i2s_block_sets[row].pack(kind, &src[0], rows, blocks, front, d, each, most, &dst[0], stream)
    return bool(bad)


def floats(int row, int kind, const uint8_t[::1] src, int64_t rows, int64_t blocks, int front, bint swap, float[::1] dst,
           bint stream):
    """Rows of blocks to one float32 an element; True where a code is 3."""
    cdef const uint8_t *s = start_of(src)
    cdef int seen
    with nogil:
        seen = i2s_block_sets[row].floats(kind, s, rows, blocks, front, swap, &dst[0], stream)
    return bool(seen)


def count(int row, int kind, const uint8_t[::1] src, int64_t rows, int64_t blocks, int front):
    """How often bit 0, bit 1 and both bits of a code are set."""
    cdef const uint8_t *s = start_of(src)
    cdef uint64_t found[3]
    with nogil:
        i2s_block_sets[row].count(kind, s, rows, blocks, front, found)
    return found[0], found[1], found[2]


def scales(int kind, const uint8_t[::1] src, int64_t blocks, bint swap, float[::1] dst):
    """The scale of each block, float32."""
    cdef const uint8_t *s = start_of(src)
    with nogil:
        i2s_block_scales(kind, s, blocks, swap, &dst[0])
