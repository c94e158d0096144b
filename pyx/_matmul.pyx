# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: freethreading_compatible=True
"""The compiled integer core of BitLinear: thin calls into matmul.h, without the GIL.

Nothing is checked here: `i2s_spec.model.reference.matmul` compares every size with every buffer before it calls. `row` is the row of
the kernel table, as `kernel_sets` numbers them.
"""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport INT64_MAX, int8_t, int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, malloc

cdef extern from "matmul.h" nogil:
    ctypedef struct i2s_matmul_many_kernel:
        const i2s_matmul_many_kernel *fewer
        int64_t (*from_ "from")() noexcept nogil
        int64_t *forced
    unsigned i2s_cpu_needs(int (*available)() noexcept nogil)
    ctypedef struct i2s_matmul_set:
        const char *name
        int (*available)() noexcept nogil
        void (*quantize)(const float *, int64_t, int8_t *, float *, int32_t *) noexcept nogil
        int64_t (*peak)(int64_t) noexcept nogil
        int64_t (*masked)(int64_t, int64_t) noexcept nogil
        const i2s_matmul_many_kernel *many
    ctypedef struct i2s_matmul_job:
        const i2s_matmul_set *set
        const uint8_t *weights
        int64_t rows
        int64_t blocks
        int64_t tokens
        const int8_t *codes
        int8_t *arranged
        int32_t *out
        const float *scales
        const int32_t *sums
        float weight_scale
        int look
        int unused
    ctypedef struct i2s_quantize_job:
        const i2s_matmul_set *set
        const float *x
        int64_t tokens
        int64_t columns
        int64_t part
        int8_t *codes
        float *scales
        int32_t *sums
    ctypedef struct i2s_probe_job:
        int64_t (*peak)(int64_t) noexcept nogil
        int64_t (*masked)(int64_t, int64_t) noexcept nogil
        int64_t rounds
        int64_t tokens
        const uint8_t *data
        int64_t bytes
        int64_t repeats
        int64_t ahead
        int second
    const i2s_matmul_set *i2s_matmul_sets
    int I2S_MATMUL_SETS
    int64_t I2S_MM_LONGEST
    int64_t i2s_matmul_scratch(const i2s_matmul_job *) noexcept
    void i2s_matmul_run(i2s_matmul_job *, int64_t) noexcept
    void i2s_matmul_offsets(const int8_t *, int64_t, int64_t, int32_t *) noexcept
    void i2s_quantize_run(i2s_quantize_job *, int64_t) noexcept
    void i2s_probe_run(i2s_probe_job *, int64_t) noexcept


def kernel_sets():
    """The kernel sets that were compiled, slowest first, and whether this processor can run each."""
    return [(i2s_matmul_sets[i].name.decode("ascii"), bool(i2s_matmul_sets[i].available())) for i in range(I2S_MATMUL_SETS)]


def panels_from(int row):
    """The least number of tokens for which a set uses panels or its next kernel for several tokens; None if it has none,
    or never uses them on this processor."""
    cdef const i2s_matmul_many_kernel *many = i2s_matmul_sets[row].many
    cdef int64_t tokens = INT64_MAX
    while many != NULL:
        tokens = min(tokens, many.from_())
        many = many.fewer
    return None if tokens == INT64_MAX else tokens


def force_panels(int row, int64_t tokens, fewer=None):
    """Make a set use panels from this number of tokens on, in this process, and its other kernel for several tokens from
    `fewer` on (by default the same number); -1 leaves the choice to the processor. For tests and benchmarks."""
    cdef const i2s_matmul_many_kernel *many = i2s_matmul_sets[row].many
    if many == NULL:
        raise ValueError("this set has no panels")
    many.forced[0] = tokens
    if many.fewer != NULL:
        many.fewer.forced[0] = tokens if fewer is None else fewer
    elif fewer is not None:
        raise ValueError("this set has one kernel for several tokens")


def kernel_needs():
    """The processor features that each set needs, as bits in the order of `_cpu.features()`."""
    return [i2s_cpu_needs(i2s_matmul_sets[i].available) for i in range(I2S_MATMUL_SETS)]


def product(int row, const uint8_t[::1] payload, int64_t rows, const int8_t[:, ::1] codes, int32_t[:, ::1] out,
            int64_t threads, const float[::1] scales=None, const int32_t[::1] sums=None, float weight_scale=1.0,
            int64_t repeats=1, bint trits=False, bint look=False):
    """out[t, r] = the sum of weight code times activation code; with `trits` of trit times activation code; with `scales`
    and `sums` the bits of the resulting float.

    `codes` has whole blocks of columns. `repeats` is how often the product is computed, to measure kernels without calls.
    With `look`, True says that code 3 occurs among the weights.
    """
    cdef i2s_matmul_job job
    cdef int8_t *scratch
    cdef int64_t offsets
    if rows == 0 or codes.shape[0] == 0:
        return False
    job.blocks = codes.shape[1] // 128
    job.set = &i2s_matmul_sets[row if job.blocks <= I2S_MM_LONGEST else 0]
    job.weights = &payload[0]
    job.rows = rows
    job.tokens = codes.shape[0]
    job.codes = &codes[0, 0]
    job.out = &out[0, 0]
    job.scales = NULL if scales is None else &scales[0]
    job.sums = NULL if sums is None else &sums[0]
    job.weight_scale = weight_scale
    job.look = look
    job.unused = 0
    offsets = (4 * job.tokens + 63) & ~63 if trits else 0
    scratch = <int8_t *>malloc(offsets + i2s_matmul_scratch(&job) + 64)
    if scratch == NULL:
        raise MemoryError
    job.arranged = <int8_t *>((<uintptr_t>scratch + 63) & ~<uintptr_t>63) + offsets
    with nogil:
        if trits:
            job.sums = <const int32_t *>(job.arranged - offsets)
            i2s_matmul_offsets(job.codes, job.tokens, codes.shape[1], <int32_t *>(job.arranged - offsets))
        for _ in range(repeats):
            i2s_matmul_run(&job, threads)
        free(scratch)
    return job.unused != 0


def linear(int row, const uint8_t[::1] payload, int64_t rows, const float[:, ::1] x, float[:, ::1] out, int64_t threads,
           float weight_scale, bint look=False):
    """`quantize` and `product` in one call, for tokens with whole blocks of columns; returns what `product` does."""
    cdef i2s_quantize_job made
    cdef i2s_matmul_job job
    cdef int8_t *memory
    cdef int8_t *scratch
    cdef int64_t tokens = x.shape[0], sizes
    if rows == 0 or tokens == 0:
        return False
    made.set = &i2s_matmul_sets[row]
    made.x = &x[0, 0]
    made.tokens = tokens
    made.columns = x.shape[1]
    job.blocks = x.shape[1] // 128
    job.set = &i2s_matmul_sets[row if job.blocks <= I2S_MM_LONGEST else 0]
    job.weights = &payload[0]
    job.rows = rows
    job.tokens = tokens
    job.out = <int32_t *>&out[0, 0]
    job.weight_scale = weight_scale
    job.look = look
    sizes = (4 * tokens + 63) & ~63
    memory = <int8_t *>malloc(2 * sizes + tokens * x.shape[1] + i2s_matmul_scratch(&job) + 64)
    if memory == NULL:
        raise MemoryError
    scratch = <int8_t *>((<uintptr_t>memory + 63) & ~<uintptr_t>63)
    made.scales = <float *>scratch
    made.sums = <int32_t *>(scratch + sizes)
    made.codes = scratch + 2 * sizes
    job.scales = made.scales
    job.sums = made.sums
    job.codes = made.codes
    job.arranged = made.codes + tokens * x.shape[1]
    with nogil:
        i2s_quantize_run(&made, threads)
        i2s_matmul_run(&job, threads)
        free(memory)
    return job.unused != 0


def quantize(int row, const float[:, ::1] x, int8_t[:, ::1] codes, float[::1] scales, int32_t[::1] sums, int64_t threads):
    """Quantize each token to int8 codes, with their scale and their sum; a token has at least one column."""
    cdef i2s_quantize_job job
    if x.shape[0] == 0:
        return
    job.set = &i2s_matmul_sets[row]
    job.x = &x[0, 0]
    job.tokens = x.shape[0]
    job.columns = x.shape[1]
    job.codes = &codes[0, 0]
    job.scales = &scales[0]
    job.sums = &sums[0]
    with nogil:
        i2s_quantize_run(&job, threads)


def probe_multiplications(int row, int64_t rounds, int64_t threads, int64_t tokens=0):
    """Do a set's widest multiplications, `rounds` times twelve in each thread; returns how many products, 0 without a probe.

    With `tokens`, a round masks weights as often as a kernel must, and has twelve multiplications for each token.
    """
    cdef i2s_probe_job job
    cdef int64_t each
    job.peak = i2s_matmul_sets[row].peak
    job.masked = i2s_matmul_sets[row].masked
    job.rounds = rounds
    job.tokens = tokens
    each = job.masked(1, tokens) if tokens > 0 else job.peak(1)
    with nogil:
        i2s_probe_run(&job, threads)
    return each * rounds * threads


def probe_reading(const uint8_t[::1] data, int64_t repeats, int64_t threads, int64_t ahead=4096, bint second=False):
    """Read every byte `repeats` times, divided among threads, and do almost nothing with it.

    Lines are prefetched `ahead` bytes, or not at all if that is 0; with `second` into the second-level cache.
    """
    cdef i2s_probe_job job
    job.peak = NULL
    job.data = &data[0]
    job.bytes = data.shape[0]
    job.repeats = repeats
    job.ahead, job.second = ahead, second
    with nogil:
        i2s_probe_run(&job, threads)


cdef extern from "lookup.h" nogil:
    ctypedef struct i2s_lookup_set:
        const char *name
        int (*available)() noexcept nogil
        void (*product)(const uint8_t *, int64_t, int64_t, const uint8_t *, int32_t *) noexcept nogil
    const i2s_lookup_set *i2s_lookup_sets
    int I2S_LOOKUP_SETS
    void i2s_lookup_arrange(const uint8_t *, int64_t, int64_t, uint8_t *) noexcept
    void i2s_lookup_tables(const int8_t *, int64_t, uint8_t *) noexcept


def lookup_sets():
    """The kernel sets that use look-ups, in the form of `kernel_sets`."""
    return [(i2s_lookup_sets[i].name.decode("ascii"), bool(i2s_lookup_sets[i].available())) for i in range(I2S_LOOKUP_SETS)]


def lookup_arrange(const uint8_t[::1] payload, int64_t rows, int64_t row_bytes, uint8_t[::1] arranged):
    """Arrange rows side by side in groups of 32; `arranged` holds whole groups."""
    if rows > 0 and row_bytes > 0:
        with nogil:
            i2s_lookup_arrange(&payload[0], rows, row_bytes, &arranged[0])


def lookup_tables(const int8_t[::1] codes, uint8_t[::1] tables):
    """The tables of one token, 64 bytes for each byte of a row."""
    if codes.shape[0] > 0:
        with nogil:
            i2s_lookup_tables(&codes[0], codes.shape[0] // 128, &tables[0])


def lookup_product(int row, const uint8_t[::1] arranged, const uint8_t[::1] tables, int32_t[::1] out, int64_t repeats=1):
    """The sums of one token, for whole groups of 32 rows: out[r] = the sum of the table entries of its pairs."""
    cdef int64_t row_bytes = tables.shape[0] // 64
    if out.shape[0] > 0 and row_bytes > 0:
        with nogil:
            for _ in range(repeats):
                i2s_lookup_sets[row].product(&arranged[0], out.shape[0] // 32, row_bytes, &tables[0], &out[0])


def address(const uint8_t[::1] data):
    """The address of a buffer."""
    return <size_t>&data[0] if data.shape[0] else 0


cdef extern from "matmul_interface.h" nogil:
    ctypedef struct i2s_matmul_interface:
        pass
    void i2s_matmul_offer(i2s_matmul_interface *) noexcept

cdef i2s_matmul_interface _offered
i2s_matmul_offer(&_offered)
#: What other extensions take to use these kernels and threads.
interface = PyCapsule_New(&_offered, b"i2s_spec.model._matmul.interface", NULL)
