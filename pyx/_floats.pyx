# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: freethreading_compatible=True
"""The compiled passes over float words: thin calls into floats.h, without the GIL.

Nothing is checked here: `i2s_spec.codec.float_passes` compares sizes before it calls. `row` is the row of
the kernel table that `kernel_sets` gives; words are bytes.
"""

from libc.stdint cimport int8_t, int64_t, uint8_t, uint32_t

cdef extern from "floats.h" nogil:
    unsigned i2s_cpu_needs(int (*available)() noexcept nogil)
    ctypedef struct i2s_floats_set:
        const char *name
        int (*available)() noexcept nogil
        int (*sums)(int, const uint8_t *, int64_t, int64_t, float *) noexcept nogil
        void (*cut)(int, const uint8_t *, int64_t, uint32_t, int8_t *) noexcept nogil
        int (*change)(int, const uint8_t *, int64_t, int, uint8_t *) noexcept nogil
        int64_t (*only)(int, const uint8_t *, int64_t) noexcept nogil
    const i2s_floats_set *i2s_floats_sets
    int I2S_FLOATS_SETS
    int I2S_COLUMNS
    int I2S_WORDS_F32, I2S_WORDS_F16, I2S_WORDS_BF16

COLUMNS = I2S_COLUMNS
KINDS = {"F32": I2S_WORDS_F32, "F16": I2S_WORDS_F16, "BF16": I2S_WORDS_BF16}


def kernel_sets():
    """The kernel sets that were compiled, slowest first, and whether this processor can run each."""
    return [(i2s_floats_sets[i].name.decode("ascii"), bool(i2s_floats_sets[i].available())) for i in range(I2S_FLOATS_SETS)]


def kernel_needs():
    """The processor features that each set needs, as bits in the order of `_cpu.features()`."""
    return [i2s_cpu_needs(i2s_floats_sets[i].available) for i in range(I2S_FLOATS_SETS)]


def sums(int row, int kind, const uint8_t[::1] words, int64_t rows, float[:, ::1] out):
    """Sums of magnitudes in columns, a number of rows at a time; whether infinities or NaN are among them."""
    cdef int64_t runs = out.shape[0]
    cdef int odd = 0
    if runs and rows:
        with nogil:
            odd = i2s_floats_sets[row].sums(kind, &words[0], runs, rows, &out[0, 0])
    return bool(odd)


def cut(int row, int kind, const uint8_t[::1] words, uint32_t least, int8_t[::1] out):
    """A trit for each word."""
    if out.shape[0]:
        with nogil:
            i2s_floats_sets[row].cut(kind, &words[0], out.shape[0], least, &out[0])


def change(int row, int kind, const uint8_t[::1] words, int64_t count, int to, uint8_t[::1] out):
    """Words of another type; whether infinities or NaN are among them."""
    cdef int odd = 0
    if count:
        with nogil:
            odd = i2s_floats_sets[row].change(kind, &words[0], count, to, &out[0])
    return bool(odd)


def only(int row, int kind, const uint8_t[::1] words, int64_t count):
    """The bits of the magnitude that all words other than 0 have; 0 where all are 0, -1 where there are several."""
    cdef int64_t found = 0
    if count:
        with nogil:
            found = i2s_floats_sets[row].only(kind, &words[0], count)
    return found
