"""The reader of GGUF headers in plain Python, where `pyx/_scanner.pyx` is not compiled (`codec._cpu`).

One linear pass records where everything is and decodes nothing. It accepts the same files as `schema.container.parse`
and meets the same fault first in the others, at the same bytes; it goes on behind keys that are too long. Of a source
that is not in memory it reads windows, so that it keeps only its notes.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.schema import faults, limits
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import SMALLEST_VALUE, ValueType

_WINDOW: Final = 1 << 18
_FIRST_WINDOW: Final = 1 << 16
_TYPES: Final = 13
_UINT32, _STRING, _ARRAY = 4, 8, 9
_KEY: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_.")
_NAME: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


class _Window:
    """The part of a source that is in memory at the moment; of a buffer, all of it."""

    def __init__(self, source: Any) -> None:
        self._source, self.size, self._step = source, source.size, _FIRST_WINDOW
        self.whole = source.view is not None
        self.base = 0
        self.data = memoryview(source.view if self.whole else b"").cast("B")

    def read(self, start: int, length: int) -> memoryview | None:
        """Return `length` bytes at `start`; None if the file ends before."""
        at = start - self.base
        if at < 0 or at + length > len(self.data):
            if length > self.size - start or self.whole:
                return None
            self._fill(start, length)
            at = 0
        return self.data[at : at + length]

    def ready(self, start: int) -> memoryview:
        """Return the bytes in memory from `start` on: at least one, unless the file ends there."""
        if start >= self.size:
            return memoryview(b"")
        if not self.base <= start < self.base + len(self.data):
            self._fill(start, 1)
        return self.data[start - self.base :]

    def _fill(self, start: int, least: int) -> None:
        from i2s_spec.gguf.source import FetchingSource

        size = min(max(self._step, least), self.size - start)
        if not isinstance(self._source, FetchingSource):  # bytes after the header would be fetched in vain
            self._step = _WINDOW
        buffer = bytearray(size)
        self._source.readinto(start, memoryview(buffer))
        self.base, self.data = start, memoryview(buffer)


class _KeyNote(NamedTuple):
    start: int
    name: bytes
    type: int
    element: int
    elements: int
    value: int
    stop: int


class _TensorNote(NamedTuple):
    start: int
    name: bytes
    ne: tuple[int, ...]
    type: int
    offset: int
    stop: int


class KeyValue:
    """The scanner's notes of one key-value in the file. Nothing is read or decoded here."""

    __slots__ = ("_note", "index")

    def __init__(self, index: int, note: _KeyNote) -> None:
        #: Its place in the file: 0 is the first.
        self.index, self._note = index, note

    @property
    def name(self) -> bytes:
        """The bytes of the key."""
        return self._note.name

    @property
    def key(self) -> str:
        """The key as text; bytes that are not UTF-8 become surrogate escapes."""
        return self._note.name.decode("utf-8", "surrogateescape")

    @property
    def type(self) -> int:
        """The number of the value's type."""
        return self._note.type

    @property
    def element(self) -> int:
        """Element type of an array, else -1."""
        return self._note.element

    @property
    def count(self) -> int:
        """Elements of an array, bytes of a string, 1 otherwise."""
        return self._note.elements

    @property
    def label(self) -> str:
        """The usual name of the value's type: `u32`, `str`, `arr[str]`."""
        label = ValueType(self.type).label
        return f"{label}[{ValueType(self.element).label}]" if self.type == _ARRAY else label

    @property
    def start(self) -> int:
        """First byte of the record."""
        return self._note.start

    @property
    def stop(self) -> int:
        """End of the record, which is the end of the value."""
        return self._note.stop

    @property
    def value_start(self) -> int:
        """First byte of the value; for strings and arrays, the byte after their lengths and types."""
        return self._note.value

    @property
    def span(self) -> Span:
        """The whole record."""
        return Span(self.start, self.stop, f"key_values[{self.index}]")

    @property
    def key_span(self) -> Span:
        """The bytes of the key, without their length."""
        return Span(self.start + 8, self.start + 8 + len(self.name), f"key_values[{self.index}].key")

    @property
    def type_span(self) -> Span:
        """The type of the value."""
        at = self.start + 8 + len(self.name)
        return Span(at, at + 4, f"key_values[{self.index}].type")

    @property
    def element_span(self) -> Span:
        """The element type of an array."""
        at = self.start + 8 + len(self.name) + 4
        return Span(at, at + 4, f"key_values[{self.index}].value.type")

    @property
    def value_span(self) -> Span:
        """The value; strings and arrays without their lengths and types."""
        return Span(self.value_start, self.stop, f"key_values[{self.index}].value")

    def __repr__(self) -> str:
        return f"<KeyValue {self.index} {self.key!r}: {self.label}>"


class TensorInfo:
    """The scanner's notes of one tensor info in the file."""

    __slots__ = ("_note", "index")

    def __init__(self, index: int, note: _TensorNote) -> None:
        #: Its place in the tensor table: 0 is the first.
        self.index, self._note = index, note

    @property
    def name(self) -> bytes:
        """The bytes of the name."""
        return self._note.name

    @property
    def ne(self) -> tuple[int, ...]:
        """The shape in ggml's order (fastest first), unsigned as stored."""
        return self._note.ne

    @property
    def type(self) -> int:
        """The number of the tensor's type."""
        return self._note.type

    @property
    def offset(self) -> int:
        """Where the data begin, counted from the start of the data section."""
        return self._note.offset

    @property
    def start(self) -> int:
        """First byte of the record."""
        return self._note.start

    @property
    def stop(self) -> int:
        """End of the record."""
        return self._note.stop

    @property
    def span(self) -> Span:
        """The whole record."""
        return Span(self.start, self.stop, f"tensor_infos[{self.index}]")

    @property
    def name_span(self) -> Span:
        """The bytes of the name, without their length."""
        return Span(self.start + 8, self.start + 8 + len(self.name), f"tensor_infos[{self.index}].name")

    @property
    def n_dims_span(self) -> Span:
        """The number of dimensions."""
        at = self.start + 8 + len(self.name)
        return Span(at, at + 4, f"tensor_infos[{self.index}].n_dims")

    @property
    def ne_span(self) -> Span:
        """All dimensions."""
        return Span(self.start + 8 + len(self.name) + 4, self.stop - 12, f"tensor_infos[{self.index}].ne")

    @property
    def type_span(self) -> Span:
        """The type."""
        return Span(self.stop - 12, self.stop - 8, f"tensor_infos[{self.index}].type")

    @property
    def offset_span(self) -> Span:
        """The offset."""
        return Span(self.stop - 8, self.stop, f"tensor_infos[{self.index}].offset")

    def dimension_span(self, which: int) -> Span:
        """Return the span of one dimension, counted in ggml's order."""
        at = self.ne_span[0] + 8 * which
        return Span(at, at + 8, f"tensor_infos[{self.index}].ne[{which}]")

    def __repr__(self) -> str:
        return f"<TensorInfo {self.index} {self.name!r}>"


class Index:
    """The notes of one pass over a header: where each key-value and each tensor info lies, and what stopped the pass.

    `fault` is the `FormatError` that ended the pass, or None; the index is sound up to that point. `passed` are the
    faults before it that did not end it.
    """

    def __init__(self, keys: list[_KeyNote], tensors: list[_TensorNote]) -> None:
        self._keys, self._tensors = keys, tensors
        self.fault: FormatError | None = None
        self.passed: list[FormatError] = []
        self.byte_order: ByteOrder | None = None
        self.version: int | None = None
        self.tensor_count: int | None = None
        self.key_count: int | None = None
        self.infos_end: int | None = None
        self.alignment: int | None = None
        self.data_start: int | None = None
        self.alignment_key: int | None = None

    @property
    def keys(self) -> int:
        """The number of key-values."""
        return len(self._keys)

    @property
    def tensors(self) -> int:
        """The number of tensor infos."""
        return len(self._tensors)

    def key(self, i: int) -> KeyValue:
        """Return key-value `i`."""
        if not 0 <= i < len(self._keys):
            raise IndexError(i)
        return KeyValue(i, self._keys[i])

    def tensor(self, i: int) -> TensorInfo:
        """Return tensor info `i`."""
        if not 0 <= i < len(self._tensors):
            raise IndexError(i)
        return TensorInfo(i, self._tensors[i])

    def keys_of(self, type: int) -> list[int]:
        """Return the key-values of a value type, and the arrays of it."""
        return [i for i, note in enumerate(self._keys) if type in (note.type, note.element)]

    def keys_named(self, wanted: Collection[bytes]) -> list[int]:
        """Return the key-values whose name is one of a set or a dictionary of names."""
        return [i for i, note in enumerate(self._keys) if note.name in wanted]

    def odd_keys(self) -> list[int]:
        """Return the key-values whose name is not clearly lower_snake_case segments with dots."""
        return [i for i, note in enumerate(self._keys) if not _is_plain_key(note.name)]

    def odd_tensors(self) -> list[int]:
        """Return the tensor infos whose name is not 1 to 63 letters, digits, dots, hyphens and underscores, or ends in
        `_scale`."""
        return [
            i for i, note in enumerate(self._tensors)
            if not (0 < len(note.name) < 64 and _NAME.issuperset(note.name)) or note.name.endswith(b"_scale")
        ]  # fmt: skip

    def all_differ(self, tensors: bool) -> bool:
        """Return whether no name of a key, or of a tensor, occurs twice."""
        names = [note.name for note in (self._tensors if tensors else self._keys)]
        return len(set(names)) == len(names)


def _is_plain_key(name: bytes) -> bool:
    return _KEY.issuperset(name) and all(name.split(b"."))


class _Scan:
    """A pass over a header, which notes keys and tensors."""

    def __init__(
        self, index: Index, keys: list[_KeyNote], tensors: list[_TensorNote], source: Any, order: ByteOrder
    ) -> None:
        self.index, self.keys, self.tensors, self.window, self.order = index, keys, tensors, _Window(source), order
        self.pos, self._long_keys = faults.HEADER_BYTES, 0
        self._length = struct.Struct(">Q" if order == "big" else "<Q").unpack_from

    def word(self, width: int, fault: Any, item: int, path: str) -> int:
        """Read an unsigned integer."""
        found = self.window.read(self.pos, width)
        if found is None:
            size = self.window.size
            raise FormatError(fault, Span(self.pos, size, path), got=size - self.pos, want=width, index=item)
        self.pos += width
        return int.from_bytes(found, self.order)

    def length(self, fault: Any, item: int, path: str) -> int:
        """Read the length of the string that starts here, checked against the bytes that are left."""
        length = self.word(8, fault, item, path)
        left = self.window.size - self.pos
        if length > left:
            raise FormatError(faults.STRING_PAST_END, Span(self.pos - 8, self.pos, path), got=length, want=left)
        return length

    def text(self, limit: int, too_long: Any, fault: Any, item: int, path: str) -> bytes:
        """Read the name that starts here."""
        length = self.length(fault, item, path)
        if length > limit:
            error = FormatError(too_long, Span(self.pos - 8, self.pos, path), got=length, want=limit, index=item)
            if too_long is not faults.KEY_TOO_LONG or length > limits.MAX_LONG_KEYS - self._long_keys:
                raise error
            self._long_keys += length  # loaders read such a key, so the rest of the header is worth reading
            self.index.passed.append(error)
        found = bytes(self.window.read(self.pos, length) or b"")
        self.pos += length
        return found

    def key_values(self, count: int) -> None:
        cut = faults.METADATA_TRUNCATED
        for i in range(count):
            start, path = self.pos, f"key_values[{i}]"
            name = self.text(limits.MAX_KEY_LENGTH, faults.KEY_TOO_LONG, cut, i, f"{path}.key.length")
            kind = self.word(4, cut, i, f"{path}.type")
            if kind >= _TYPES:
                span = Span(self.pos - 4, self.pos, f"{path}.type")
                raise FormatError(faults.VALUE_TYPE_UNKNOWN, span, got=kind, key=name)
            element, elements, value = -1, 1, self.pos
            if kind == _STRING:
                elements = self.length(cut, i, f"{path}.value.length")
                value = self.pos
                self.pos += elements
            elif kind == _ARRAY:
                element, elements = self.array_head(name, i, 1)
                value = self.pos
                self.array(name, i, element, elements)
            else:
                self.word(SMALLEST_VALUE[kind], cut, i, f"{path}.value")
            self.keys.append(_KeyNote(start, name, kind, element, elements, value, self.pos))

    def array(self, name: bytes, item: int, element: int, count: int) -> None:
        """Skip the elements of an array."""
        levels = [[element, count]]
        while levels:
            kind, left = level = levels[-1]
            if left == 0:
                levels.pop()
            elif kind == _ARRAY:
                level[1] -= 1
                levels.append([*self.array_head(name, item, len(levels) + 1)])
            elif kind == _STRING:
                level[1] = self.skim(left)
                if level[1]:  # at the end of the window, or at a fault
                    length = self.length(faults.METADATA_TRUNCATED, item, f"key_values[{item}].value")
                    self.pos += length
                    level[1] -= 1
            else:
                self.pos += left * SMALLEST_VALUE[kind]
                level[1] = 0

    def skim(self, left: int) -> int:
        """Skip the strings of an array that lie whole in the window; return how many are left."""
        data, at, unpack = self.window.data, self.pos - self.window.base, self._length
        last = len(data) - 8
        if at < 0:
            return left
        while left and at <= last:
            (length,) = unpack(data, at)
            if length > last - at:
                break
            at += 8 + length
            left -= 1
        self.pos = self.window.base + at
        return left

    def array_head(self, name: bytes, item: int, depth: int) -> tuple[int, int]:
        """Read the element type of an array and how many elements it has."""
        path = f"key_values[{item}].value"
        kind = self.word(4, faults.METADATA_TRUNCATED, item, f"{path}.type")
        span = Span(self.pos - 4, self.pos, f"{path}.type")
        if kind >= _TYPES:
            raise FormatError(faults.ARRAY_TYPE_UNKNOWN, span, got=kind, key=name)
        if kind == _ARRAY and depth >= limits.MAX_ARRAY_DEPTH:
            raise FormatError(faults.ARRAY_TOO_DEEP, span, got=depth + 1, want=limits.MAX_ARRAY_DEPTH, key=name)
        count = self.word(8, faults.METADATA_TRUNCATED, item, f"{path}.count")
        room = self.window.size - self.pos
        most = room // SMALLEST_VALUE[kind]
        if count > most:
            span = Span(self.pos - 8, self.pos, f"{path}.count")
            raise FormatError(faults.ARRAY_PAST_END, span, got=count, want=most, room=room, key=name)
        return kind, count

    def tensor_infos(self, count: int) -> None:
        cut = faults.TENSOR_INFOS_TRUNCATED
        for i in range(count):
            start, path = self.pos, f"tensor_infos[{i}]"
            name = self.text(limits.MAX_NAME_LENGTH, faults.NAME_TOO_LONG, cut, i, f"{path}.name.length")
            dims = self.word(4, cut, i, f"{path}.n_dims")
            if dims > limits.MAX_DIMENSIONS:
                span = Span(self.pos - 4, self.pos, f"{path}.n_dims")
                raise FormatError(faults.TOO_MANY_DIMENSIONS, span, got=dims, want=limits.MAX_DIMENSIONS, name=name)
            ne = tuple([self.word(8, cut, i, f"{path}.ne") for _ in range(dims)])
            kind = self.word(4, cut, i, f"{path}.type")
            kind -= kind >> 31 << 32  # of int32
            offset = self.word(8, cut, i, f"{path}.offset")
            self.tensors.append(_TensorNote(start, name, ne, kind, offset, self.pos))


def scan(source: Any) -> Index:
    """Index the header of a GGUF file in one pass.

    :returns: an `Index` whatever the bytes are; its `fault` says what stopped the pass, if anything did
    """
    keys: list[_KeyNote] = []
    tensors: list[_TensorNote] = []
    index = Index(keys, tensors)
    try:
        _scan(index, keys, tensors, source)
    except FormatError as error:
        index.fault = error
    return index


def _scan(index: Index, keys: list[_KeyNote], tensors: list[_TensorNote], source: Any) -> None:
    size = source.size
    head = bytes(source.read(0, min(size, faults.HEAD)))
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
    found = _Scan(index, keys, tensors, source, index.byte_order)
    found.key_values(index.key_count)
    found.tensor_infos(index.tensor_count)
    index.infos_end = found.pos
    index.alignment = limits.DEFAULT_ALIGNMENT
    for i in index.keys_named((b"general.alignment",))[:1]:
        entry = index.key(i)
        index.alignment_key, index.alignment = i, None
        data = source.read(entry.value_start, 4) if entry.type == _UINT32 else None
        value = None if data is None else int.from_bytes(data, index.byte_order)
        index.alignment = faults.alignment(entry.type, value, entry.type_span)
    index.data_start = faults.data_start(found.pos, index.alignment)


def strings(data: bytes | memoryview, count: int, big: bool) -> list[str]:
    """Decode `count` GGUF strings that fill `data` exactly; bytes that are not UTF-8 become surrogate escapes."""
    raw, pos, found, length_at = bytes(data), 0, [], struct.Struct(">Q" if big else "<Q").unpack_from
    for _ in range(count):
        if len(raw) - pos < 8:
            raise _changed(pos)
        (length,) = length_at(raw, pos)
        pos += 8
        if length > len(raw) - pos:
            raise _changed(pos)
        found.append(raw[pos : pos + length].decode("utf-8", "surrogateescape"))
        pos += length
    return found


def _changed(pos: int) -> FormatError:
    reason = TrustedText("an array no longer has the strings that it had when the file was opened")
    return FormatError(faults.CHANGED, Span(pos, pos), reason=reason)


def _is_utf8(window: _Window, start: int, length: int) -> bool:
    from codecs import getincrementaldecoder

    decoder, stop = getincrementaldecoder("utf-8")(), start + length
    while start < stop:
        part = window.ready(start)[: stop - start]
        if not part:
            raise _changed(start)
        start += len(part)
        try:
            decoder.decode(bytes(part), final=start == stop)
        except UnicodeDecodeError:
            return False
    return True


def invalid_utf8(source: Any, spans: Iterable[tuple[int, int]]) -> list[int]:
    """Check strings given as (start, length); return the positions in `spans` of those that are not UTF-8."""
    window = _Window(source)
    return [i for i, (start, length) in enumerate(spans) if not _is_utf8(window, start, length)]


def invalid_utf8_in_array(
    source: Any, start: int, stop: int, count: int, big: bool
) -> tuple[int, tuple[int, int, int] | None]:
    """Check an array of strings between `start` and `stop`: how many are not UTF-8, and the index and span of the first."""
    window, bad, first = _Window(source), 0, None
    for number in range(count):
        if not window.ready(start):
            raise _changed(start)
        word = window.read(start, 8)
        if word is None:
            raise _changed(start)
        length = int.from_bytes(word, "big" if big else "little")
        start += 8
        if length > max(0, stop - start):
            raise _changed(start)
        if not _is_utf8(window, start, length):
            bad += 1
            first = first or (number, start, start + length)
        start += length
    return bad, first


def _first_of(source: Any, start: int, stop: int, allowed: bytes) -> int:
    """Return the first byte between two places that is not among those allowed, or -1."""
    while start < stop:
        size = min(_WINDOW, stop - start, source.size - start)
        if size <= 0:
            raise _changed(start)
        part = bytes(source.read(start, size))
        rest = part.lstrip(allowed)
        if rest:
            return start + len(part) - len(rest)
        start += size
    return -1


def first_odd_bool(source: Any, start: int, count: int) -> int:
    """Return the first of `count` bytes at `start` that is neither 0 nor 1, or -1."""
    return _first_of(source, start, start + count, b"\x00\x01")


def first_nonzero(source: Any, start: int, stop: int) -> int:
    """Return the first byte between `start` and `stop` that is not zero, or -1."""
    return _first_of(source, start, stop, b"\x00")
