# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: freethreading_compatible=True
"""The fast reader of GGUF headers: one linear pass that notes where everything is and decodes nothing.

It is held to `i2s_spec.schema.gguf.parse`: the same files are accepted with the same content, the others are refused
with the same fault at the same bytes. It reads through a window of at most 1 MiB, so that its memory is what it notes
of each key and tensor, never the header itself, and it keeps a small stack of its own instead of recursing.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy

import struct

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.schema import checks, faults, limits
from i2s_spec.schema.magic import HEAD, not_gguf
from i2s_spec.schema.types import SMALLEST_VALUE, VALUE_FORMATS, ValueType

DEF TYPES = 13
DEF STRING = 8
DEF ARRAY = 9
DEF UINT32 = 4

cdef int64_t SMALLEST[TYPES]
cdef int64_t WIDTH[TYPES]
for _number in range(TYPES):
    SMALLEST[_number] = SMALLEST_VALUE[_number]
    WIDTH[_number] = struct.calcsize("=" + VALUE_FORMATS[_number]) if _number in VALUE_FORMATS else 0

cdef int64_t MAX_KEY = limits.MAX_KEY_LENGTH
cdef int64_t MAX_NAME = limits.MAX_NAME_LENGTH
cdef uint32_t MAX_DIMS = limits.MAX_DIMENSIONS
cdef int MAX_DEPTH = limits.MAX_ARRAY_DEPTH
DEF STACK = 16  # room on the stack of array levels; the depth limit is smaller

cdef int64_t FIRST_WINDOW = 1 << 16
cdef int64_t WINDOW = 1 << 20


cdef struct KeyNote:
    int64_t start      # of the record
    int64_t name       # offset in the blob of names
    int64_t value      # first byte of the value (of an array: its first element)
    int64_t stop       # end of the record
    int64_t count      # elements of an array, bytes of a string, 1 otherwise
    int32_t length     # of the name
    int32_t type
    int32_t element    # element type of an array, else -1


cdef struct TensorNote:
    int64_t start
    int64_t stop
    int64_t name
    int32_t length
    int32_t dims
    int32_t type
    uint64_t ne[4]
    uint64_t offset


cdef inline uint32_t u32(const uint8_t *p, bint big) noexcept nogil:
    if big:
        return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]
    return (<uint32_t>p[3] << 24) | (<uint32_t>p[2] << 16) | (<uint32_t>p[1] << 8) | p[0]


cdef inline uint64_t u64(const uint8_t *p, bint big) noexcept nogil:
    if big:
        return (<uint64_t>u32(p, True) << 32) | u32(p + 4, True)
    return (<uint64_t>u32(p + 4, False) << 32) | u32(p, False)


cdef int64_t skim_strings(const uint8_t *start, int64_t room, bint big, int64_t *left) noexcept nogil:
    """Pass over at most `left` strings that lie whole in `room` bytes: how many bytes they take; `left` counts down."""
    cdef const uint8_t *p = start
    cdef const uint8_t *last = start + room - 8
    cdef int64_t todo = left[0]
    cdef uint64_t length
    while todo and p <= last:
        length = u64(p, big)
        if length > <uint64_t>(last - p):
            break
        p += 8 + length
        todo -= 1
    left[0] = todo
    return p - start


cdef class Window:
    """The part of a source that is in memory at the moment; of a buffer, all of it."""

    cdef object source, holder
    cdef const uint8_t[::1] memory
    cdef const uint8_t *bytes
    cdef int64_t base, filled, capacity
    cdef readonly int64_t size
    cdef bint whole

    def __cinit__(self, source):
        self.source = source
        self.size = source.size
        view = source.view
        self.whole = view is not None
        self.base = 0
        self.filled = 0
        self.capacity = 0
        if self.whole and self.size:
            self.memory = view
            self.bytes = &self.memory[0]
            self.filled = self.size

    cdef const uint8_t *at(self, int64_t start, int64_t length) except? NULL:
        """The address of `length` bytes at `start`; NULL, without an error, where the file ends before."""
        if start >= self.base and start + length <= self.base + self.filled:
            return self.bytes + (start - self.base)
        if length > self.size - start or self.whole:
            return NULL
        self.fill(start, length)
        return self.bytes

    cdef int fill(self, int64_t start, int64_t least) except -1:
        cdef int64_t wanted = FIRST_WINDOW if self.filled == 0 else WINDOW
        if wanted < least:
            wanted = least
        if self.holder is None or self.capacity < wanted:
            self.holder = bytearray(wanted)
            self.capacity = wanted
        if wanted > self.size - start:
            wanted = self.size - start
        self.source.readinto(start, memoryview(self.holder)[:wanted])
        self.memory = self.holder
        self.bytes = &self.memory[0]
        self.base = start
        self.filled = wanted
        return 0

    cdef int64_t ready(self, int64_t start) except -1:
        """How many bytes from `start` on are in memory; at least one where the file has one."""
        if start >= self.size:
            return 0
        if start < self.base or start >= self.base + self.filled:
            self.fill(start, 1)
        return self.base + self.filled - start


cdef class Index:
    """What one pass over a header notes: where each key-value and each tensor info lies, and what stopped the pass.

    `fault` is the `FormatError` that ended it, or None; up to there the index is sound.
    """

    cdef KeyNote *key_notes
    cdef TensorNote *tensor_notes
    cdef uint8_t *names
    cdef int64_t key_room, tensor_room, names_used, names_room
    cdef readonly Py_ssize_t keys, tensors
    cdef readonly object fault, byte_order, version, tensor_count, key_count
    cdef readonly object infos_end, alignment, data_start, alignment_key

    def __cinit__(self):
        self.key_notes = NULL
        self.tensor_notes = NULL
        self.names = NULL

    def __dealloc__(self):
        free(self.key_notes)
        free(self.tensor_notes)
        free(self.names)

    cdef int64_t keep(self, const uint8_t *text, int64_t length) except -1:
        """Keep a name; its offset in the blob."""
        cdef int64_t at = self.names_used
        cdef void *grown
        if at + length > self.names_room:
            self.names_room = 2 * (at + length) + 1024
            grown = realloc(self.names, self.names_room)
            if grown == NULL:
                raise MemoryError
            self.names = <uint8_t *>grown
        memcpy(self.names + at, text, length)
        self.names_used = at + length
        return at

    cdef KeyNote *new_key(self) except NULL:
        cdef void *grown
        if self.keys == self.key_room:
            self.key_room = 2 * self.key_room + 64
            grown = realloc(self.key_notes, self.key_room * sizeof(KeyNote))
            if grown == NULL:
                raise MemoryError
            self.key_notes = <KeyNote *>grown
        return &self.key_notes[self.keys]

    cdef TensorNote *new_tensor(self) except NULL:
        cdef void *grown
        if self.tensors == self.tensor_room:
            self.tensor_room = 2 * self.tensor_room + 64
            grown = realloc(self.tensor_notes, self.tensor_room * sizeof(TensorNote))
            if grown == NULL:
                raise MemoryError
            self.tensor_notes = <TensorNote *>grown
        return &self.tensor_notes[self.tensors]

    cdef bytes text(self, int64_t at, int32_t length):
        return PyBytes_FromStringAndSize(<char *>self.names + at, length)

    def key(self, Py_ssize_t i):
        """Key-value `i`."""
        if not 0 <= i < self.keys:
            raise IndexError(i)
        cdef KeyValue record = KeyValue.__new__(KeyValue)
        record.notes = self
        record.index = i
        return record

    def tensor(self, Py_ssize_t i):
        """Tensor info `i`."""
        if not 0 <= i < self.tensors:
            raise IndexError(i)
        cdef TensorInfo record = TensorInfo.__new__(TensorInfo)
        record.notes = self
        record.index = i
        return record

    # What there is to look at among very many: the numbers of few rows, without a Python object for each of the others.

    def keys_of(self, int type):
        """The key-values of a value type, and the arrays of it."""
        cdef Py_ssize_t i
        return [i for i in range(self.keys) if self.key_notes[i].type == type or self.key_notes[i].element == type]

    def keys_named(self, wanted):
        """The key-values whose name is one of a set or a dictionary of names."""
        cdef Py_ssize_t i
        cdef KeyNote *n
        cdef uint64_t lengths = 0
        cdef list found = []
        for name in wanted:
            lengths |= <uint64_t>1 << (<uint64_t>len(name) & 63)
        for i in range(self.keys):
            n = &self.key_notes[i]
            if lengths >> (n.length & 63) & 1 and PyBytes_FromStringAndSize(<char *>self.names + n.name, n.length) in wanted:
                found.append(i)
        return found

    def odd_keys(self):
        """The key-values whose name is not plainly of lower_snake_case segments between dots; hyphens are looked at again."""
        cdef Py_ssize_t i
        return [i for i in range(self.keys) if not plain_key(self.names + self.key_notes[i].name, self.key_notes[i].length)]

    def odd_tensors(self):
        """The tensor infos whose name is not 1 to 63 letters, digits, dots, hyphens and underscores, or ends in `_scale`."""
        cdef Py_ssize_t i
        return [i for i in range(self.tensors)
                if not plain_name(self.names + self.tensor_notes[i].name, self.tensor_notes[i].length)]

    def all_differ(self, bint tensors):
        """Whether no name of a key, or of a tensor, occurs twice, as far as their hashes tell: True is certain."""
        cdef Py_ssize_t i, count = self.tensors if tensors else self.keys
        cdef uint64_t *hashes = <uint64_t *>malloc((count + 1) * sizeof(uint64_t))
        cdef bint differ = True
        if hashes == NULL:
            raise MemoryError
        with nogil:
            for i in range(count):
                if tensors:
                    hashes[i] = hash_of(self.names + self.tensor_notes[i].name, self.tensor_notes[i].length)
                else:
                    hashes[i] = hash_of(self.names + self.key_notes[i].name, self.key_notes[i].length)
            qsort(hashes, count, sizeof(uint64_t), by_size)
            for i in range(1, count):
                if hashes[i - 1] == hashes[i]:
                    differ = False
                    break
        free(hashes)
        return differ


@cython.final
@cython.freelist(16)
cdef class KeyValue:
    """One key-value as it stands in the file: what the scanner noted of it. Nothing is read or decoded here."""

    cdef Index notes
    #: Its place in the file: 0 is the first.
    cdef readonly Py_ssize_t index

    @property
    def name(self):
        """The bytes of the key."""
        cdef KeyNote *note = &self.notes.key_notes[self.index]
        return self.notes.text(note.name, note.length)

    @property
    def key(self):
        """The key as text; bytes that are not UTF-8 become surrogate escapes."""
        return self.name.decode("utf-8", "surrogateescape")

    @property
    def type(self):
        """The number of the value's type."""
        return self.notes.key_notes[self.index].type

    @property
    def element(self):
        """Element type of an array, else -1."""
        return self.notes.key_notes[self.index].element

    @property
    def count(self):
        """Elements of an array, bytes of a string, 1 otherwise."""
        return self.notes.key_notes[self.index].count

    @property
    def label(self):
        """The value's type as people write it: `u32`, `str`, `arr[str]`."""
        label = ValueType(self.type).label
        return f"{label}[{ValueType(self.element).label}]" if self.type == ARRAY else label

    @property
    def start(self):
        """First byte of the record."""
        return self.notes.key_notes[self.index].start

    @property
    def stop(self):
        """End of the record, which is the end of the value."""
        return self.notes.key_notes[self.index].stop

    @property
    def value_start(self):
        """First byte of the value; of strings and arrays, behind their lengths and types."""
        return self.notes.key_notes[self.index].value

    @property
    def span(self):
        """The whole record."""
        return Span(self.start, self.stop, f"key_values[{self.index}]")

    @property
    def key_span(self):
        """The bytes of the key, without their length."""
        cdef KeyNote *note = &self.notes.key_notes[self.index]
        return Span(note.start + 8, note.start + 8 + note.length, f"key_values[{self.index}].key")

    @property
    def type_span(self):
        """The type of the value."""
        cdef KeyNote *note = &self.notes.key_notes[self.index]
        cdef int64_t at = note.start + 8 + note.length
        return Span(at, at + 4, f"key_values[{self.index}].type")

    @property
    def element_span(self):
        """The element type of an array."""
        cdef KeyNote *note = &self.notes.key_notes[self.index]
        cdef int64_t at = note.start + 8 + note.length + 4
        return Span(at, at + 4, f"key_values[{self.index}].value.type")

    @property
    def value_span(self):
        """The value; of strings and arrays without their lengths and types."""
        return Span(self.value_start, self.stop, f"key_values[{self.index}].value")

    def __repr__(self):
        return f"<KeyValue {self.index} {self.key!r}: {self.label}>"


@cython.final
@cython.freelist(16)
cdef class TensorInfo:
    """One tensor info as it stands in the file: what the scanner noted of it."""

    cdef Index notes
    #: Its place in the tensor table: 0 is the first.
    cdef readonly Py_ssize_t index

    @property
    def name(self):
        """The bytes of the name."""
        cdef TensorNote *note = &self.notes.tensor_notes[self.index]
        return self.notes.text(note.name, note.length)

    @property
    def ne(self):
        """The shape in ggml's order (fastest first), unsigned as stored."""
        cdef TensorNote *note = &self.notes.tensor_notes[self.index]
        return tuple([note.ne[d] for d in range(note.dims)])

    @property
    def type(self):
        """The number of the tensor's type."""
        return self.notes.tensor_notes[self.index].type

    @property
    def offset(self):
        """Where the data begin, counted from the start of the data section."""
        return self.notes.tensor_notes[self.index].offset

    @property
    def start(self):
        """First byte of the record."""
        return self.notes.tensor_notes[self.index].start

    @property
    def stop(self):
        """End of the record."""
        return self.notes.tensor_notes[self.index].stop

    @property
    def span(self):
        """The whole record."""
        return Span(self.start, self.stop, f"tensor_infos[{self.index}]")

    @property
    def name_span(self):
        """The bytes of the name, without their length."""
        cdef TensorNote *note = &self.notes.tensor_notes[self.index]
        return Span(note.start + 8, note.start + 8 + note.length, f"tensor_infos[{self.index}].name")

    @property
    def n_dims_span(self):
        """The number of dimensions."""
        cdef TensorNote *note = &self.notes.tensor_notes[self.index]
        cdef int64_t at = note.start + 8 + note.length
        return Span(at, at + 4, f"tensor_infos[{self.index}].n_dims")

    @property
    def ne_span(self):
        """All dimensions."""
        cdef TensorNote *note = &self.notes.tensor_notes[self.index]
        return Span(note.start + 8 + note.length + 4, note.stop - 12, f"tensor_infos[{self.index}].ne")

    @property
    def type_span(self):
        """The type."""
        return Span(self.stop - 12, self.stop - 8, f"tensor_infos[{self.index}].type")

    @property
    def offset_span(self):
        """The offset."""
        return Span(self.stop - 8, self.stop, f"tensor_infos[{self.index}].offset")

    def dimension_span(self, Py_ssize_t which):
        """One dimension, counted in ggml's order."""
        cdef int64_t at = self.ne_span[0] + 8 * which
        return Span(at, at + 8, f"tensor_infos[{self.index}].ne[{which}]")

    def __repr__(self):
        return f"<TensorInfo {self.index} {self.name!r}>"


cdef bint plain_key(const uint8_t *p, int64_t n) noexcept nogil:
    cdef int64_t i
    cdef uint8_t b, before = b"."
    for i in range(n):
        b = p[i]
        if b == b".":
            if before == b".":
                return False
        elif not (b"a" <= b <= b"z" or b"0" <= b <= b"9" or b == b"_"):
            return False
        before = b
    return before != b"."


cdef bint plain_name(const uint8_t *p, int64_t n) noexcept nogil:
    cdef int64_t i
    cdef uint8_t b
    if not 0 < n < 64 or (n >= 6 and memcmp(p + n - 6, <const char *>b"_scale", 6) == 0):
        return False
    for i in range(n):
        b = p[i]
        if not (b"a" <= b <= b"z" or b"A" <= b <= b"Z" or b"0" <= b <= b"9" or b == b"_" or b == b"." or b == b"-"):
            return False
    return True


cdef uint64_t hash_of(const uint8_t *p, int64_t n) noexcept nogil:
    cdef uint64_t found = <uint64_t>0x9E3779B97F4A7C15 ^ <uint64_t>n, word
    while n > 0:
        word = 0
        memcpy(&word, p, 8 if n > 8 else n)
        found = (found ^ word) * <uint64_t>0xD6E8FEB86659FD93
        found ^= found >> 32
        p += 8
        n -= 8
    return found


cdef int by_size(const void *a, const void *b) noexcept nogil:
    cdef uint64_t one = (<const uint64_t *>a)[0], other = (<const uint64_t *>b)[0]
    return (one > other) - (one < other)


cdef class _Scan:
    cdef Window window
    cdef Index index
    cdef int64_t pos
    cdef bint big

    cdef const uint8_t *word(self, int64_t width, object fault, Py_ssize_t item, str path) except NULL:
        cdef const uint8_t *p = self.window.at(self.pos, width)
        if p == NULL:
            left = self.window.size - self.pos
            span = Span(self.pos, self.window.size, path.format(item))
            raise FormatError(fault, span, got=left, want=width, index=item)
        self.pos += width
        return p

    cdef int64_t length(self, object fault, Py_ssize_t item, str path) except -1:
        """The length of the string that starts here, after comparing it with what is left."""
        cdef uint64_t length = u64(self.word(8, fault, item, path), self.big)
        cdef int64_t left = self.window.size - self.pos
        if length > <uint64_t>left:
            span = Span(self.pos - 8, self.pos, path.format(item))
            raise FormatError(faults.STRING_PAST_END, span, got=length, want=left)
        return <int64_t>length

    cdef int64_t text(self, int64_t limit, object too_long, object fault, Py_ssize_t item, str path) except -1:
        """Keep the name that starts here; its length."""
        cdef int64_t length = self.length(fault, item, path)
        if length > limit:
            span = Span(self.pos - 8, self.pos, path.format(item))
            raise FormatError(too_long, span, got=length, want=limit, index=item)
        if length:
            self.index.keep(self.window.at(self.pos, length), length)
            self.pos += length
        return length

    cdef int key_values(self, Py_ssize_t count) except -1:
        cdef Py_ssize_t i
        cdef KeyNote *note
        cdef uint32_t kind
        cdef int64_t name
        for i in range(count):
            note = self.index.new_key()
            note.start = self.pos
            name = self.index.names_used
            note.length = self.text(MAX_KEY, faults.KEY_TOO_LONG, faults.METADATA_TRUNCATED, i,
                                    "key_values[{}].key.length")
            note.name = name
            kind = u32(self.word(4, faults.METADATA_TRUNCATED, i, "key_values[{}].type"), self.big)
            if kind >= TYPES:
                span = Span(self.pos - 4, self.pos, f"key_values[{i}].type")
                raise FormatError(faults.VALUE_TYPE_UNKNOWN, span, got=kind, key=self.key_bytes(note))
            note.type = kind
            note.element = -1
            note.value = self.pos
            note.count = 1
            if kind == STRING:
                note.count = self.length(faults.METADATA_TRUNCATED, i, "key_values[{}].value.length")
                note.value = self.pos
                self.pos += note.count
            elif kind == ARRAY:
                self.array(note, i)
            else:
                self.word(WIDTH[kind], faults.METADATA_TRUNCATED, i, "key_values[{}].value")
            note.stop = self.pos
            self.index.keys += 1
        return 0

    cdef bytes key_bytes(self, KeyNote *note):
        return PyBytes_FromStringAndSize(<char *>self.index.names + note.name, note.length)

    cdef int array(self, KeyNote *note, Py_ssize_t item) except -1:
        cdef int64_t left[STACK]
        cdef uint32_t kinds[STACK]
        cdef int depth = 0
        cdef int64_t length, end = self.window.size
        cdef const uint8_t *p
        self.array_head(note, item, 1, &kinds[0], &left[0])
        note.element = kinds[0]
        note.count = left[0]
        note.value = self.pos
        depth = 1
        while depth:
            if left[depth - 1] == 0:
                depth -= 1
            elif kinds[depth - 1] == ARRAY:
                left[depth - 1] -= 1
                self.array_head(note, item, depth + 1, &kinds[depth], &left[depth])
                depth += 1
            elif kinds[depth - 1] == STRING:
                self.skim(&left[depth - 1])
                if left[depth - 1]:  # at the end of the window, or at a fault
                    length = self.length(faults.METADATA_TRUNCATED, item, "key_values[{}].value")
                    self.pos += length
                    left[depth - 1] -= 1
            else:
                self.pos += left[depth - 1] * WIDTH[kinds[depth - 1]]
                left[depth - 1] = 0
        return 0

    cdef void skim(self, int64_t *left) noexcept:
        """Pass over the strings of an array as far as they lie in the window whole; what is special is left to `length`."""
        cdef Window window = self.window
        cdef int64_t room = window.base + window.filled - self.pos
        cdef const uint8_t *p
        if self.pos < window.base or room <= 8:
            return
        p = window.bytes + (self.pos - window.base)
        self.pos += skim_strings(p, room, self.big, left)

    cdef int array_head(self, KeyNote *note, Py_ssize_t item, int depth, uint32_t *kind, int64_t *count) except -1:
        kind[0] = u32(self.word(4, faults.METADATA_TRUNCATED, item, "key_values[{}].value.type"), self.big)
        span = None
        if kind[0] >= TYPES:
            span = Span(self.pos - 4, self.pos, f"key_values[{item}].value.type")
            raise FormatError(faults.ARRAY_TYPE_UNKNOWN, span, got=kind[0], key=self.key_bytes(note))
        if kind[0] == ARRAY and depth >= MAX_DEPTH:
            span = Span(self.pos - 4, self.pos, f"key_values[{item}].value.type")
            raise FormatError(faults.ARRAY_TOO_DEEP, span, got=depth + 1, want=MAX_DEPTH, key=self.key_bytes(note))
        cdef uint64_t declared = u64(self.word(8, faults.METADATA_TRUNCATED, item, "key_values[{}].value.count"), self.big)
        cdef int64_t room = self.window.size - self.pos
        if declared > <uint64_t>(room // SMALLEST[kind[0]]):
            span = Span(self.pos - 8, self.pos, f"key_values[{item}].value.count")
            most = room // SMALLEST[kind[0]]
            raise FormatError(faults.ARRAY_PAST_END, span, got=declared, want=most, room=room, key=self.key_bytes(note))
        count[0] = <int64_t>declared
        return 0

    cdef int tensor_infos(self, Py_ssize_t count) except -1:
        cdef Py_ssize_t i
        cdef TensorNote *note
        cdef uint32_t dims, d
        cdef int64_t name
        fault = faults.TENSOR_INFOS_TRUNCATED
        for i in range(count):
            note = self.index.new_tensor()
            note.start = self.pos
            name = self.index.names_used
            note.length = self.text(MAX_NAME, faults.NAME_TOO_LONG, fault, i, "tensor_infos[{}].name.length")
            note.name = name
            dims = u32(self.word(4, fault, i, "tensor_infos[{}].n_dims"), self.big)
            if dims > MAX_DIMS:
                span = Span(self.pos - 4, self.pos, f"tensor_infos[{i}].n_dims")
                shown = PyBytes_FromStringAndSize(<char *>self.index.names + note.name, note.length)
                raise FormatError(faults.TOO_MANY_DIMENSIONS, span, got=dims, want=MAX_DIMS, name=shown)
            note.dims = dims
            for d in range(dims):
                note.ne[d] = u64(self.word(8, fault, i, "tensor_infos[{}].ne"), self.big)
            note.type = <int32_t>u32(self.word(4, fault, i, "tensor_infos[{}].type"), self.big)
            note.offset = u64(self.word(8, fault, i, "tensor_infos[{}].offset"), self.big)
            note.stop = self.pos
            self.index.tensors += 1
        return 0


def scan(source):
    """Index the header of a GGUF file in one pass.

    Returns an `Index` whatever the bytes are; its `fault` says what stopped the pass, if anything did.
    """
    cdef _Scan scan = _Scan()
    cdef Index index = Index()
    scan.index = index
    try:
        _scan(scan, source)
    except FormatError as error:
        index.fault = error
    return index


cdef _scan(_Scan scan, source):
    cdef Index index = scan.index
    size = source.size
    head = source.read(0, min(size, HEAD))
    error = not_gguf(head, size)
    if error is not None:
        raise error
    checks.header_size(size)
    index.byte_order, index.version = checks.byte_order(int.from_bytes(head[4:8], "little"))
    index.tensor_count = int.from_bytes(head[8:16], index.byte_order)
    index.key_count = int.from_bytes(head[16:24], index.byte_order)
    checks.counts(index.tensor_count, index.key_count, size)

    scan.window = Window(source)
    scan.big = index.byte_order == "big"
    scan.pos = checks.HEADER_BYTES
    scan.key_values(index.key_count)
    scan.tensor_infos(index.tensor_count)
    index.infos_end = scan.pos

    index.alignment = limits.DEFAULT_ALIGNMENT
    cdef Py_ssize_t i
    for i in range(index.keys):
        if index.key_notes[i].length == 17 and index.key(i).name == b"general.alignment":
            index.alignment_key = i
            index.alignment = None
            kind, start = index.key_notes[i].type, index.key_notes[i].value
            value = int.from_bytes(source.read(start, 4), index.byte_order) if kind == UINT32 else None
            index.alignment = checks.alignment(kind, value, index.key(i).type_span)
            break
    index.data_start = checks.data_start(scan.pos, index.alignment)


def strings(const uint8_t[::1] data, Py_ssize_t count, bint big):
    """Decode `count` GGUF strings that fill `data` exactly; bytes that are not UTF-8 become surrogate escapes."""
    cdef Py_ssize_t pos = 0, i, size = data.shape[0]
    cdef uint64_t length
    cdef const uint8_t *p = &data[0] if size else NULL
    cdef list out = [None] * count
    for i in range(count):
        if size - pos < 8:
            raise _changed(pos)
        length = u64(p + pos, big)
        pos += 8
        if length > <uint64_t>(size - pos):
            raise _changed(pos)
        out[i] = PyUnicode_DecodeUTF8(<char *>p + pos, <Py_ssize_t>length, "surrogateescape")
        pos += <Py_ssize_t>length
    return out


def _changed(pos):
    reason = TrustedText("an array no longer has the strings that it had when the file was opened")
    return FormatError(faults.CHANGED, Span(pos, pos), reason=reason)


cdef struct Utf8:
    int more           # continuation bytes that must follow
    uint8_t low, high  # bounds of the next one


cdef bint feed(Utf8 *state, const uint8_t *p, int64_t n) noexcept nogil:
    """Advance over `n` bytes; False where they cannot be UTF-8 (RFC 3629: no overlong forms, no surrogates)."""
    cdef int64_t i = 0
    cdef uint64_t eight
    cdef uint8_t b
    while i < n:
        if state.more == 0:
            while i + 8 <= n:
                memcpy(&eight, p + i, 8)
                if eight & <uint64_t>0x8080808080808080:
                    break
                i += 8
            if i == n:
                return True
            b = p[i]
            i += 1
            state.low = 0x80
            state.high = 0xBF
            if b < 0x80:
                continue
            elif 0xC2 <= b <= 0xDF:
                state.more = 1
            elif 0xE0 <= b <= 0xEF:
                state.more = 2
                if b == 0xE0:
                    state.low = 0xA0
                elif b == 0xED:
                    state.high = 0x9F
            elif 0xF0 <= b <= 0xF4:
                state.more = 3
                if b == 0xF0:
                    state.low = 0x90
                elif b == 0xF4:
                    state.high = 0x8F
            else:
                return False
        else:
            b = p[i]
            i += 1
            if b < state.low or b > state.high:
                return False
            state.low = 0x80
            state.high = 0xBF
            state.more -= 1
    return True


cdef bint valid(Window window, int64_t start, int64_t length) except -1:
    cdef Utf8 state
    cdef int64_t part
    cdef const uint8_t *p
    state.more = 0
    while length:
        part = window.ready(start)
        if part == 0:
            raise _changed(start)
        if part > length:
            part = length
        p = window.at(start, part)
        if not feed(&state, p, part):
            return False
        start += part
        length -= part
    return state.more == 0


def invalid_utf8(source, spans):
    """Look at strings given as (start, length): the positions in `spans` of those that are not UTF-8."""
    cdef Window window = Window(source)
    return [i for i, (start, length) in enumerate(spans) if not valid(window, start, length)]


cdef int64_t sound_strings(const uint8_t *start, int64_t room, bint big, Py_ssize_t *left) noexcept nogil:
    """Pass over at most `left` strings that lie whole in `room` bytes and are UTF-8: how many bytes they take."""
    cdef const uint8_t *p = start
    cdef const uint8_t *last = start + room - 8
    cdef Py_ssize_t todo = left[0]
    cdef uint64_t length
    cdef Utf8 state
    while todo and p <= last:
        length = u64(p, big)
        if length > <uint64_t>(last - p):
            break
        state.more = 0
        if not feed(&state, p + 8, <int64_t>length) or state.more:
            break
        p += 8 + length
        todo -= 1
    left[0] = todo
    return p - start


def invalid_utf8_in_array(source, int64_t start, int64_t stop, Py_ssize_t count, bint big):
    """Look at an array of strings between `start` and `stop`: how many are not UTF-8, the first's index and span."""
    cdef Window window = Window(source)
    cdef Py_ssize_t bad = 0, left = count
    cdef uint64_t length
    cdef int64_t ready
    cdef const uint8_t *p
    first = None
    while left:
        ready = window.ready(start)
        if ready > stop - start:
            ready = stop - start
        if ready > 8:
            start += sound_strings(window.at(start, 1), ready, big, &left)
            if not left:
                break
        # One that is wrong, or that the window cuts.
        p = window.at(start, 8)
        if p == NULL:
            raise _changed(start)
        length = u64(p, big)
        start += 8
        if length > <uint64_t>(stop - start if stop > start else 0):
            raise _changed(start)
        if not valid(window, start, <int64_t>length):
            bad += 1
            if first is None:
                first = (count - left, start, start + <int64_t>length)
        start += <int64_t>length
        left -= 1
    return bad, first


def first_odd_bool(source, int64_t start, int64_t count):
    """The first of `count` bytes at `start` that is neither 0 nor 1, or -1."""
    cdef Window window = Window(source)
    cdef int64_t part, i, done = 0
    cdef const uint8_t *p
    while done < count:
        part = window.ready(start + done)
        if part == 0:
            raise _changed(start + done)
        if part > count - done:
            part = count - done
        p = window.at(start + done, part)
        for i in range(part):
            if p[i] > 1:
                return start + done + i
        done += part
    return -1


def first_nonzero(source, int64_t start, int64_t stop):
    """The first byte between `start` and `stop` that is not zero, or -1."""
    cdef Window window = Window(source)
    cdef int64_t part, i
    cdef const uint8_t *p
    while start < stop:
        part = window.ready(start)
        if part == 0:
            raise _changed(start)
        if part > stop - start:
            part = stop - start
        p = window.at(start, part)
        for i in range(part):
            if p[i]:
                return start + i
        start += part
    return -1
