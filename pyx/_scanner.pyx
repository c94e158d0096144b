# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True, binding=False, auto_pickle=False
# cython: freethreading_compatible=True
"""The fast reader of GGUF headers: one linear pass that records where everything is and decodes nothing.

It has to agree with `i2s_spec.schema.container.parse`: it accepts the same files with the same content, and meets the same fault
first in the others, at the same bytes; it goes on behind keys that are too long. It reads through a window of at most 256 KiB, so it keeps only its notes of each key
and tensor in memory, never the header itself, and it uses a small stack instead of recursion.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.schema import faults, limits
from i2s_spec.schema.types import SMALLEST_VALUE, VALUE_FORMATS, ValueType

DEF TYPES = 13
DEF STRING = 8
DEF ARRAY = 9
DEF UINT32 = 4

cdef int64_t SMALLEST[TYPES]
cdef int64_t WIDTH[TYPES]
for _number in range(TYPES):
    SMALLEST[_number] = SMALLEST_VALUE[_number]
    WIDTH[_number] = SMALLEST[_number] if _number in VALUE_FORMATS else 0

cdef int64_t MAX_KEY = limits.MAX_KEY_LENGTH
cdef int64_t MAX_LONG_KEYS = limits.MAX_LONG_KEYS
cdef int64_t MAX_NAME = limits.MAX_NAME_LENGTH
cdef uint32_t MAX_DIMS = limits.MAX_DIMENSIONS
cdef int MAX_DEPTH = limits.MAX_ARRAY_DEPTH
DEF STACK = 16  # room on the stack of array levels; the depth limit is smaller

include "bytes_of.pxi"
include "window.pxi"
include "header_notes.pxi"
include "header_values.pxi"


cdef int64_t skim_strings(const uint8_t *start, int64_t room, bint big, int64_t *left) noexcept nogil:
    """Skip at most `left` strings that lie whole in `room` bytes; returns how many bytes they take and decreases `left`."""
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


cdef class _Scan:
    cdef Window window
    cdef Index index
    cdef int64_t pos, long_keys
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
        """The length of the string that starts here, checked against the bytes that are left."""
        cdef uint64_t length = u64(self.word(8, fault, item, path), self.big)
        cdef int64_t left = self.window.size - self.pos
        if length > <uint64_t>left:
            span = Span(self.pos - 8, self.pos, path.format(item))
            raise FormatError(faults.STRING_PAST_END, span, got=length, want=left)
        return <int64_t>length

    cdef int64_t text(self, int64_t limit, object too_long, object fault, Py_ssize_t item, str path) except -1:
        """Keep the name that starts here; returns its length."""
        cdef int64_t length = self.length(fault, item, path)
        if length > limit:
            span = Span(self.pos - 8, self.pos, path.format(item))
            error = FormatError(too_long, span, got=length, want=limit, index=item)
            if too_long is not faults.KEY_TOO_LONG or length > MAX_LONG_KEYS - self.long_keys:
                raise error
            self.long_keys += length  # loaders read such a key, so the rest of the header is worth reading
            self.index.passed.append(error)
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
        """Skip the strings of an array that lie whole in the window; `length` handles the special cases."""
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
    head = source.read(0, min(size, faults.HEAD))
    if head[:4] != faults.MAGIC:
        from i2s_spec.schema.magic import not_gguf

        error = not_gguf(head, size)
        if error is not None:
            raise error
    faults.header_size(size)
    index.byte_order, index.version = faults.byte_order(int.from_bytes(head[4:8], "little"))
    index.tensor_count = int.from_bytes(head[8:16], index.byte_order)
    index.key_count = int.from_bytes(head[16:24], index.byte_order)
    faults.counts(index.tensor_count, index.key_count, size)

    scan.window = Window(source)
    scan.big = index.byte_order == "big"
    scan.pos = faults.HEADER_BYTES
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
            index.alignment = faults.alignment(kind, value, index.key(i).type_span)
            break
    index.data_start = faults.data_start(scan.pos, index.alignment)
