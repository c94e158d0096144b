# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: freethreading_compatible=True
"""The compiled side of profile `fast`: a program of steps that is run in one call, and its kernels one by one.

Nothing is checked here: `i2s_spec.model.fast_compile` makes steps from a graph whose shapes were checked when it was loaded, and
`i2s_spec.model.fast_operations` compares arrays before it calls a kernel.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uintptr_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

from i2s_spec.model import _matmul

cdef extern from "fast.h" nogil:
    unsigned i2s_cpu_needs(int (*available)() noexcept nogil)
    ctypedef struct i2s_matmul_set:
        void (*quantize)(const float *, int64_t, int8_t *, float *, int32_t *) noexcept nogil
    ctypedef struct i2s_matmul_interface:
        const i2s_matmul_set *sets
    ctypedef struct i2s_fast_set:
        const char *name
        int (*available)() noexcept nogil
        void (*dots)(int, const uint8_t *, int64_t, int64_t, int64_t, const float *, int64_t, int64_t, float *,
                     int64_t) noexcept nogil
        void (*activate)(int, const float *, const float *, int64_t, float *) noexcept nogil
        void (*norm)(const float *, const float *, int64_t, float, float *) noexcept nogil
        void (*halve)(const float *, int64_t, uint16_t *) noexcept nogil
        float (*soft_max)(float *, int64_t, float, float *) noexcept nogil
    ctypedef struct i2s_step:
        int32_t op, kind, late, layer
        int64_t in_ "in"
        int64_t in2, out, width, inner, heads, groups, value, first, count
        const void *weight
        const void *weight2
        float factor
    ctypedef struct i2s_matrix:
        const uint8_t *weights
        int64_t rows, out
        float scale
    ctypedef struct i2s_sequence:
        int64_t start, stop, past
    ctypedef struct i2s_pass:
        const i2s_fast_set *fast
        const i2s_matmul_set *ternary
        const i2s_matmul_interface *shared
        int64_t threads, tokens, chosen, sequences, layers
        const i2s_step *steps
        const i2s_matrix *matrices
        const i2s_sequence *sequence
        const int64_t *rows
        const int64_t *positions
        uint16_t **caches
        float *values
        float *result
        float *room
        float *partial
        int8_t *codes
        int8_t *arranged
        float *scales
        int32_t *sums
    const i2s_fast_set *const *i2s_fast_sets
    int I2S_FAST_SETS
    int64_t I2S_ROOM, I2S_PARTS, I2S_SPLIT
    int I2S_MOST_MATRICES, I2S_WIDEST
    int I2S_NORM, I2S_QUANTIZE, I2S_TERNARY, I2S_DENSE, I2S_ACTIVATE, I2S_ADD, I2S_MULTIPLY, I2S_BIAS, I2S_TIMES
    int I2S_ROPE, I2S_STORE_KV, I2S_ATTEND, I2S_SELECT_ROWS, I2S_HEAD
    int I2S_F32, I2S_F16, I2S_BF16, I2S_RELU, I2S_SQUARE, I2S_RELU2, I2S_SILU, I2S_GELU
    void i2s_fast_run(i2s_pass *, int64_t) noexcept

#: Steps, weight types and activation functions by their names.
OPS = {"norm": I2S_NORM, "quantize": I2S_QUANTIZE, "ternary": I2S_TERNARY, "dense": I2S_DENSE, "activate": I2S_ACTIVATE,
       "add": I2S_ADD, "multiply": I2S_MULTIPLY, "bias": I2S_BIAS, "times": I2S_TIMES, "rope": I2S_ROPE,
       "store_kv": I2S_STORE_KV, "attend": I2S_ATTEND, "select_rows": I2S_SELECT_ROWS, "head": I2S_HEAD}
TYPES = {"float32": I2S_F32, "float16": I2S_F16, "uint16": I2S_BF16}
ACTIVATIONS = {"relu": I2S_RELU, "square": I2S_SQUARE, "relu2": I2S_RELU2, "silu": I2S_SILU, "gelu": I2S_GELU}
#: Most matrices in a step, the widest head, floats of scratch memory for attention, keys of a token processed together.
MOST_MATRICES, WIDEST, ROOM, SPLIT = I2S_MOST_MATRICES, I2S_WIDEST, I2S_ROOM * I2S_PARTS, I2S_SPLIT

cdef const i2s_matmul_interface *_shared = <const i2s_matmul_interface *>PyCapsule_GetPointer(
    _matmul.interface, b"i2s_spec.model._matmul.interface")


def kernel_sets():
    """The kernel sets that were compiled, slowest first, and whether this processor can run each."""
    return [(i2s_fast_sets[i].name.decode("ascii"), bool(i2s_fast_sets[i].available())) for i in range(I2S_FAST_SETS)]


def kernel_needs():
    """The processor features that each set needs, as bits in the order of `_cpu.features()`."""
    return [i2s_cpu_needs(i2s_fast_sets[i].available) for i in range(I2S_FAST_SETS)]


cdef class Program:
    """Steps and matrices, and the pointers that a run needs."""

    cdef i2s_step *steps
    cdef i2s_matrix *matrices
    cdef readonly int64_t count
    cdef int64_t found

    def __dealloc__(self):
        free(self.steps)
        free(self.matrices)

    def add(self, int op, *, int64_t x=-1, int64_t x2=-1, int64_t out=0, int64_t width=0, int64_t inner=0, int64_t heads=0,
            int64_t groups=0, int64_t value=0, int64_t first=0, int64_t count=0, uintptr_t weight=0, uintptr_t weight2=0,
            float factor=0, int kind=0, bint late=False, int layer=0):
        """A step; fast_pass.h lists the fields of each. Weights are addresses, which the caller keeps alive."""
        cdef i2s_step *more = <i2s_step *>realloc(self.steps, (self.count + 1) * sizeof(i2s_step))
        cdef i2s_step *s
        if more == NULL:
            raise MemoryError
        self.steps = more
        s = &more[self.count]
        memset(s, 0, sizeof(i2s_step))
        s.op, s.kind, s.late, s.layer = op, kind, late, layer
        s.in_, s.in2, s.out, s.width, s.inner, s.heads, s.groups, s.value = x, x2, out, width, inner, heads, groups, value
        s.first, s.count, s.factor = first, count, factor
        s.weight, s.weight2 = <const void *>weight, <const void *>weight2
        self.count += 1

    def matrix(self, uintptr_t weights, int64_t rows, int64_t out, float scale):
        """Add a ternary matrix; returns its number, for a step."""
        cdef i2s_matrix *more = <i2s_matrix *>realloc(self.matrices, (self.found + 1) * sizeof(i2s_matrix))
        if more == NULL:
            raise MemoryError
        self.matrices = more
        more[self.found].weights, more[self.found].rows = <const uint8_t *>weights, rows
        more[self.found].out, more[self.found].scale = out, scale
        self.found += 1
        return self.found - 1

    def tables(self, int64_t step, uintptr_t cosine, uintptr_t sine):
        """Replace the tables of a rotation."""
        self.steps[step].weight, self.steps[step].weight2 = <const void *>cosine, <const void *>sine

    def run(self, int fast, int ternary, int64_t threads, int64_t layers, int64_t[:, ::1] sequences,
            const int64_t[::1] rows, const int64_t[::1] positions, const uintptr_t[::1] caches, float[::1] values,
            float[:, ::1] result, float[::1] room, float[::1] partial, int8_t[::1] codes, int8_t[::1] arranged,
            float[::1] scales, int32_t[::1] sums, bint whole=True):
        """Run all steps over the tokens of all sequences (start, stop, past), of which `rows` remain after the selection of rows.
        Unless the whole is wanted, the last step is left out."""
        cdef i2s_pass p
        memset(&p, 0, sizeof(p))
        p.fast, p.ternary, p.shared = i2s_fast_sets[fast], &_shared.sets[ternary], _shared
        p.threads, p.tokens, p.chosen = threads, positions.shape[0], rows.shape[0]
        p.sequences, p.layers = sequences.shape[0], layers
        p.steps, p.matrices = self.steps, self.matrices
        p.sequence = <const i2s_sequence *>&sequences[0, 0]
        p.rows = &rows[0] if rows.shape[0] else NULL
        p.positions = &positions[0]
        p.caches = <uint16_t **><uintptr_t>&caches[0] if caches.shape[0] else NULL
        p.values, p.room, p.partial = &values[0], &room[0], &partial[0]
        p.result = &result[0, 0] if result.shape[0] and result.shape[1] else NULL
        p.codes, p.arranged, p.scales, p.sums = &codes[0], &arranged[0], &scales[0], &sums[0]
        with nogil:
            i2s_fast_run(&p, self.count if whole else self.count - 1)


def dots(int fast, int kind, uintptr_t w, int64_t rows, int64_t pitch, const float[:, ::1] x, float[:, ::1] out):
    """out[t, r] = the sum of row r of the weights, `pitch` bytes apart, times token t."""
    if rows and x.shape[0]:
        with nogil:
            i2s_fast_sets[fast].dots(kind, <const uint8_t *>w, rows, pitch, x.shape[1], &x[0, 0], x.shape[1], x.shape[0],
                                     &out[0, 0], rows)


def activate(int fast, int kind, const float[::1] x, float[::1] out):
    """out = the activation of x."""
    if x.shape[0]:
        i2s_fast_sets[fast].activate(kind, &x[0], NULL, x.shape[0], &out[0])


def norm(int fast, const float[:, ::1] x, float eps, float[:, ::1] out):
    """Each row divided by the root of the mean of its squares plus eps."""
    cdef int64_t i
    for i in range(x.shape[0] if x.shape[1] else 0):
        i2s_fast_sets[fast].norm(&x[i, 0], NULL, x.shape[1], eps, &out[i, 0])


def halve(int fast, const float[::1] x, uint16_t[::1] out):
    """Rounded to half precision, as bits."""
    if x.shape[0]:
        i2s_fast_sets[fast].halve(&x[0], x.shape[0], &out[0])


include "screened_head.pxi"
