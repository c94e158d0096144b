"""A header as another reader sees it: keys and tensor infos with their bytes, and why it stopped.

If our own reader found no fault, its index has everything (`indexed`). If it did, `lenient_header` continues as lenient
readers do: they accept version 1, zeros for bytes that the file lacks, nested arrays, invalid alignments. How a reader
continues is declared (`schema.runtimes.Container`); the walk is bounded in bytes, records and strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import Span, counted
from i2s_spec.linter.analysis.context import MOST_BYTES, LenientRecords, SeenTensor, Stop, StopWalkError
from i2s_spec.schema.types import SMALLEST_VALUE, VALUE_FORMATS, ValueType

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.schema.runtimes import Container

#: Most strings in arrays of a damaged header that are walked.
MOST_STRINGS: Final = 1 << 20

_WIDTHS: Final = {kind: SMALLEST_VALUE[kind] for kind in VALUE_FORMATS}


#: Bytes of memory that ggml's reader needs for a key, a tensor info, a tensor and a string.
_KEY_BYTES: Final = 48
_TENSOR_BYTES: Final = 88
_TENSOR_OVERHEAD: Final = 368
_STRING_BYTES: Final = 16


class SeenKey(NamedTuple):
    """A key-value: its name, its bytes, type, element type (-1 for none), length, its value if it is a number, depth."""

    name: bytes
    span: Span
    type: int
    element: int
    length: int
    value: Any
    depth: int


class Header(NamedTuple):
    """A header as one reader sees it; `end` is where its tensor infos end."""

    version: int
    big: bool
    keys: list[SeenKey]
    tensors: list[SeenTensor]
    end: int
    stop: Stop | None


def indexed(file: File) -> Header:
    """Return the header of a file in which our reader found no fault."""
    return Header(file.version or 0, file.byte_order == "big", list(_keys(file)), list(_tensors(file)),
                  file.infos_end or 24, None)  # fmt: skip


def _keys(file: File) -> Iterator[SeenKey]:
    for i in range(file.index.keys):
        entry = file.index.key(i)
        name, kind, element = entry.name, entry.type, entry.element
        value = file.metadata.decode(entry) if name == b"general.alignment" else None
        depth = 2 if element == ValueType.ARRAY else 1 if kind == ValueType.ARRAY else 0
        yield SeenKey(name, entry.span, kind, element, entry.count, value, depth)


def _tensors(file: File) -> Iterator[SeenTensor]:
    for i in range(file.index.tensors):
        info = file.index.tensor(i)
        yield SeenTensor(info.name, info.span, info.ne, info.type, info.offset)


def lenient_header(file: File, policy: Container) -> Header:
    """Return the header as seen by a reader that stops only where its policy says.

    :param file: a file with a fault; its magic must be right
    """
    walk = _Walk(file, policy)
    try:
        walk.run()
        stop = None
    except StopWalkError as stopped:
        stop = stopped.stop
    at = walk.records
    return Header(at.version, at.big, walk.keys, walk.tensors, at.at, stop)


class _Walk:
    """One pass over the bytes of a header, with a budget."""

    def __init__(self, file: File, policy: Container) -> None:
        self.size = file.size
        self.magic = file.source.read(0, min(file.size, 4))
        self.policy = policy
        self.records = LenientRecords(file.source.read(0, min(file.size, MOST_BYTES)), policy, file.size)
        self.strings_left = MOST_STRINGS
        self.keys: list[SeenKey] = []
        self.tensors: list[SeenTensor] = []

    def run(self) -> None:
        if self.magic != b"GGUF":
            raise StopWalkError("no", "it does not begin with GGUF", Span(0, min(4, self.size), "header.magic"))
        self.records.at = 4
        self._version()
        wide = self.records.word
        tensors, keys = self.records.number(wide, "header.tensor_count"), self.records.number(wide, "header.key_count")
        for what, count, most, start in (
            ("tensors", tensors, self.policy.tensors, 8),
            ("keys", keys, self.policy.keys, 8 + wide),
        ):
            if most is not None and count > most:
                span = Span(min(start, self.size), min(start + wide, self.size), "header")
                raise StopWalkError("no", f"it stops at {most:,} {what}; the header promises {count:,}", span)
        self._announced(tensors, keys)
        for i in range(keys):
            self.records.spend()
            self.keys.append(self._key(f"key_values[{i}]"))
        self.records.allocated(tensors, _TENSOR_BYTES, "tensor infos", "header.tensor_count")
        for i in range(tensors):
            self.records.spend()
            self.tensors.append(self.records.tensor(f"tensor_infos[{i}]"))

    def _announced(self, tensors: int, keys: int) -> None:
        """Check an announced count as a reader that allocates memory first does: whether so many records could exist."""
        if self.policy.allocates is not None:
            for count, width, path in (
                (tensors, _TENSOR_OVERHEAD, "header.tensor_count"),
                (keys, _KEY_BYTES, "header.key_count"),
            ):
                if count >= ((1 << 63) - 1) // width:
                    self.records.stop("no", f"it refuses a count of {count:,}", path)
        self.records.allocated(keys, _KEY_BYTES, "keys", "header.key_count")

    def _version(self) -> None:
        span = Span(4, min(8, self.size), "header.version")
        version = self.records.number(4, "header.version")
        if version & 0xFFFF == 0 and version:
            if self.policy.big_endian != "yes":
                text = "it reads little-endian files only, and this one is big-endian, or its version is damaged"
                raise StopWalkError(self.policy.big_endian, text, span)
            self.records.big = True
            version = int.from_bytes(version.to_bytes(4, "little"), "big")
        self.records.version = version
        if version == 1 and not self.policy.version_1:
            raise StopWalkError("no", "it no longer reads GGUF version 1", span)
        if self.policy.versions and version not in self.policy.versions:
            raise StopWalkError("no", f"it does not know GGUF version {version:,}", span)

    def _key(self, path: str) -> SeenKey:
        start = self.records.at
        name = self.records.string(path)
        kind = self.records.number(4, path)
        if kind > 12:
            text = f"it does not know the value type {kind:,}"
            self.records.stop(self.policy.value_type, text, f"{path}.type")
        element, count, depth = -1, 1, 0
        value: Any = None
        if kind == ValueType.STRING:
            text_value = self.records.string(path)
            count = len(text_value)
            value = text_value if len(text_value) < 32 else None
        elif kind == ValueType.ARRAY:
            element, count, depth = self._array(path)
        else:
            raw = self.records.number(_WIDTHS[kind], path)
            value = raw if kind not in (6, 12) else None
            if kind in (1, 3, 5, 11) and value is not None and value >> (8 * _WIDTHS[kind] - 1):
                value -= 1 << 8 * _WIDTHS[kind]
        return SeenKey(name, self.records.span(start, path), kind, element, count, value, depth)

    def _array(self, path: str) -> tuple[int, int, int]:
        """Return an array and its nested arrays, without recursion: element type, count and depth."""
        first: tuple[int, int] | None = None
        deepest, pending = 1, [(1, 1)]  # (depth, number of arrays that still follow at this depth)
        while pending:
            depth, arrays = pending.pop()
            if arrays > 1:
                pending.append((depth, arrays - 1))
            self.records.spend()
            deepest = max(deepest, depth)
            most = self.policy.array_depth
            if most is not None and depth > most:
                self.records.stop("no", f"it reads nested arrays only up to a depth of {most}", path)
            element, count = self.records.number(4, path), self.records.number(self.records.word, path)
            first = first or (element, count)
            if self.policy.array_items is not None and count > self.policy.array_items:
                text = f"it accepts arrays of at most {counted(self.policy.array_items, 'element')}; this one has {count:,}"
                self.records.stop("no", text, path)
            if element > 12 and (count or self.policy.end != "short"):
                text = f"it does not know the element type {element:,}"
                self.records.stop(self.policy.value_type, text, path)
            if element != ValueType.ARRAY:
                width = _STRING_BYTES if element == ValueType.STRING else _WIDTHS.get(element, 1)
                self.records.allocated(count, width, "elements of an array", path)
            if element == ValueType.ARRAY:
                if self.policy.nested_array != "yes":
                    self.records.stop(self.policy.nested_array, "it does not accept arrays of arrays", path)
                if count:
                    pending.append((depth + 1, count))
            elif element == ValueType.STRING:
                self._strings(count, path)
            elif count:
                self._skip(element, count, path)
        assert first is not None
        return *first, deepest

    def _strings(self, count: int, path: str) -> None:
        """Read an array of strings."""
        self.strings_left -= min(count, max(0, self.records.remaining) // 8 + 1)
        if self.strings_left < 0:
            self.records.stop("unknown", "after its fault, the header is too long to be read further", path)
        for _ in range(count):
            if self.records.remaining <= 0 and self.policy.end == "zeros":
                return self._skip(ValueType.UINT64, count, path)  # endless empty strings follow
            self.records.string(path)
        return None

    def _skip(self, element: int, count: int, path: str) -> None:
        """Pass over an array of numbers; readers differ if the file ends inside it."""
        width = _WIDTHS[element]
        room = max(0, self.records.remaining)
        if count * width > room:
            if self.policy.end == "no":
                self.records.stop("no", "an array reaches beyond the end of the file", path)
            if self.policy.end == "short":
                if room % width:
                    self.records.stop("no", "the file ends inside an array", path)
                if count > 100_000_000:
                    text = (
                        f"it reads {counted(count, 'element that is', 'elements that are')} not "
                        f"there, one by one: it never returns"
                    )
                    self.records.stop("crash", text, path)
                self.records.at += room
                return
        self.records.at += count * width
