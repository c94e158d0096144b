"""The notes of the pass over a header on each key and tensor, and the records that are made from them on demand."""

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


cdef class Index:
    """The notes of one pass over a header: where each key-value and each tensor info lies, and what stopped the pass.

    `fault` is the `FormatError` that ended the pass, or None; the index is sound up to that point. `passed` are the
    faults before it that did not end it.
    """

    cdef KeyNote *key_notes
    cdef TensorNote *tensor_notes
    cdef uint8_t *names
    cdef int64_t key_room, tensor_room, names_used, names_room
    cdef readonly Py_ssize_t keys, tensors
    cdef readonly object fault, byte_order, version, tensor_count, key_count
    cdef readonly object infos_end, alignment, data_start, alignment_key
    cdef readonly list passed

    def __cinit__(self):
        self.passed = []
        self.key_notes = NULL
        self.tensor_notes = NULL
        self.names = NULL

    def __dealloc__(self):
        free(self.key_notes)
        free(self.tensor_notes)
        free(self.names)

    cdef int64_t keep(self, const uint8_t *text, int64_t length) except -1:
        """Keep a name; returns its offset in the blob."""
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

    # The few rows to look at among very many, by number, without a Python object for each of the others.

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
        """The key-values whose name is not clearly lower_snake_case segments with dots; those with hyphens are checked again."""
        cdef Py_ssize_t i
        return [i for i in range(self.keys) if not plain_key(self.names + self.key_notes[i].name, self.key_notes[i].length)]

    def odd_tensors(self):
        """The tensor infos whose name is not 1 to 63 letters, digits, dots, hyphens and underscores, or ends in `_scale`."""
        cdef Py_ssize_t i
        return [i for i in range(self.tensors)
                if not plain_name(self.names + self.tensor_notes[i].name, self.tensor_notes[i].length)]

    def all_differ(self, bint tensors):
        """Whether no name of a key, or of a tensor, occurs twice, judged by their hashes; True is certain."""
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
    """The scanner's notes of one key-value in the file. Nothing is read or decoded here."""

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
        """The usual name of the value's type: `u32`, `str`, `arr[str]`."""
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
        """First byte of the value; for strings and arrays, the byte after their lengths and types."""
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
        """The value; strings and arrays without their lengths and types."""
        return Span(self.value_start, self.stop, f"key_values[{self.index}].value")

    def __repr__(self):
        return f"<KeyValue {self.index} {self.key!r}: {self.label}>"


@cython.final
@cython.freelist(16)
cdef class TensorInfo:
    """The scanner's notes of one tensor info in the file."""

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
