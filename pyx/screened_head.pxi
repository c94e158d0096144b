# Copying, scoring and reading the rows of a head of halves; `i2s_spec.model.screened_head` has the definition.

cdef extern from "screened_head.h" nogil:
    ctypedef struct i2s_head_copy:
        const uint8_t *weights
        int64_t rows, columns, pitch
        uint8_t *codes
        float *scale
        float *most
        float *error
        float *norm
    ctypedef struct i2s_head_token:
        const int16_t *codes
        const int8_t *high
        const int8_t *low
        int64_t sum
        double step, over, within, rest
    ctypedef struct i2s_head_set:
        const char *name
        int (*available)() noexcept nogil
    ctypedef struct i2s_head_job:
        const i2s_head_copy *copy
        const i2s_head_token *token
        const float *x
        int64_t tokens
        const i2s_head_set *set
        const i2s_fast_set *fast
        int64_t first, last
        float *estimate
        float *upper
        const int64_t *ids
    const i2s_head_set *i2s_head_sets
    int I2S_HEAD_SETS
    int I2S_HEAD_COLUMNS
    void i2s_head_make(i2s_head_job *, const i2s_matmul_interface *, int64_t) noexcept
    void i2s_head_scan(i2s_head_job *, const i2s_matmul_interface *, int64_t) noexcept
    void i2s_head_rows(i2s_head_job *, const i2s_matmul_interface *, int64_t) noexcept

#: Codes of a row, and of a token, are padded to a multiple of this.
HEAD_COLUMNS = I2S_HEAD_COLUMNS


def head_sets():
    """The sets of kernels for heads that were compiled, slowest first, and whether this processor can run each."""
    return [(i2s_head_sets[i].name.decode("ascii"), bool(i2s_head_sets[i].available())) for i in range(I2S_HEAD_SETS)]


cdef class HeadRows:
    """The rows of a head at an address, which the caller keeps alive, and their copy once there is room for it."""

    cdef i2s_head_copy copy
    cdef uint8_t[:, ::1] codes
    cdef float[:, ::1] bounds
    cdef int head, fast
    cdef int64_t threads

    def __init__(self, int head, int fast, int64_t threads, uintptr_t weights, int64_t rows, int64_t columns):
        self.head, self.fast, self.threads = head, fast, threads
        self.copy.weights, self.copy.rows, self.copy.columns = <const uint8_t *>weights, rows, columns

    def room(self, uint8_t[:, ::1] codes, float[:, ::1] bounds):
        """Memory for codes, and for scale, most, error and norm of each row."""
        self.codes, self.bounds = codes, bounds
        self.copy.pitch, self.copy.codes = codes.shape[1], &codes[0, 0]
        self.copy.scale, self.copy.most, self.copy.error, self.copy.norm = (
            &bounds[0, 0], &bounds[1, 0], &bounds[2, 0], &bounds[3, 0])

    def make(self, int64_t first, int64_t last):
        """Copy rows."""
        cdef i2s_head_job job
        memset(&job, 0, sizeof(job))
        job.copy, job.set, job.first, job.last = &self.copy, &i2s_head_sets[self.head], first, last
        with nogil:
            i2s_head_make(&job, _shared, self.threads)

    def scan(self, const float[:, ::1] x, list states, int64_t scored, float[:, ::1] estimate, float[:, ::1] upper):
        """Score the first rows for the states of tokens; the others are read: their logits are their estimates and their
        bounds."""
        cdef i2s_head_job job = self.job(x, estimate)
        cdef bytearray memory = bytearray(len(states) * sizeof(i2s_head_token))
        cdef i2s_head_token *token = <i2s_head_token *><char *>memory
        cdef const int16_t[::1] codes
        cdef const int8_t[::1] high, low
        for i in range(x.shape[0]):
            _, codes, high, low, token[i].step, token[i].over, token[i].within, token[i].rest = states[i]
            token[i].codes, token[i].high, token[i].low = &codes[0], &high[0], &low[0]
            token[i].sum = states[i].codes.sum(dtype="int64")
        job.token, job.last, job.upper = token, scored, &upper[0, 0]
        with nogil:
            i2s_head_scan(&job, _shared, self.threads)

    def whole(self, const float[:, ::1] x, float[:, ::1] out):
        """The logits of all rows, for the states of tokens."""
        cdef i2s_head_job job = self.job(x, out)
        with nogil:
            i2s_head_scan(&job, _shared, self.threads)

    def read(self, const float[:, ::1] x, const int64_t[::1] ids, float[:, ::1] out):
        """The logits of some rows for one state, with the bits that they have in the whole."""
        cdef i2s_head_job job = self.job(x, out)
        job.ids, job.last = &ids[0], ids.shape[0]
        with nogil:
            i2s_head_rows(&job, _shared, self.threads)

    cdef i2s_head_job job(self, const float[:, ::1] x, float[:, ::1] estimate):
        cdef i2s_head_job job
        memset(&job, 0, sizeof(job))
        job.copy, job.set, job.fast = &self.copy, &i2s_head_sets[self.head], i2s_fast_sets[self.fast]
        job.x, job.tokens, job.estimate = &x[0, 0], x.shape[0], &estimate[0, 0]
        return job
