"""This module walks a damaged header as lenient readers do: past faults that stop ours, with what the file gives instead.

Others take version 1, zeros for what the file lacks, arrays in arrays, alignments that are none. How a reader goes on is
declared (`schema.runtimes.Container`); the walk itself is bounded in bytes, records and strings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import Span
from i2s_spec.linter.headers import Header, SeenKey, SeenTensor, Stop
from i2s_spec.schema.types import SMALLEST_VALUE, VALUE_FORMATS, ValueType

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.schema.runtimes import Container

#: Bytes of a damaged header that are walked, keys and tensor infos, and strings in arrays.
MOST_BYTES: Final = 16 << 20
MOST_RECORDS: Final = 1 << 14
MOST_STRINGS: Final = 1 << 20

_WIDTHS: Final = {kind: SMALLEST_VALUE[kind] for kind in VALUE_FORMATS}


class _StopWalkError(Exception):
    def __init__(self, outcome: str, text: str, span: Span) -> None:
        super().__init__(text)
        self.stop = Stop(outcome, text, span)


def walked(file: File, policy: Container) -> Header:
    """The header as a reader sees it that stops only at what its policy says.

    :param file: one with a fault; its magic must be right
    """
    walk = _Walk(file, policy)
    try:
        walk.run()
        stop = None
    except _StopWalkError as stopped:
        stop = stopped.stop
    return Header(walk.version, walk.big, walk.keys, walk.tensors, walk.at, stop)


class _Walk:
    """One pass over the bytes of a header, with a budget."""

    def __init__(self, file: File, policy: Container) -> None:
        self.size = file.size
        self.data = file.source.read(0, min(file.size, MOST_BYTES))
        self.policy = policy
        self.at = 0
        self.left = MOST_RECORDS
        self.strings_left = MOST_STRINGS
        self.version = 0
        self.big = False
        self.keys: list[SeenKey] = []
        self.tensors: list[SeenTensor] = []

    def run(self) -> None:
        if len(self.data) < 4 or self.data[:4] != b"GGUF":
            raise _StopWalkError("no", "it does not begin with GGUF", Span(0, min(4, self.size), "header.magic"))
        self.at = 4
        self._version()
        wide = 4 if self.version == 1 else 8
        tensors, keys = self.number(wide, "header.tensor_count"), self.number(wide, "header.key_count")
        for what, count, most, start in (
            ("tensors", tensors, self.policy.tensors, 8),
            ("keys", keys, self.policy.keys, 8 + wide),
        ):
            if most is not None and count > most:
                span = Span(min(start, self.size), min(start + wide, self.size), "header")
                raise _StopWalkError("no", f"it stops at {most:,} {what}; the header promises {count:,}", span)
        for i in range(keys):
            self._spend()
            self.keys.append(self._key(f"key_values[{i}]"))
        for i in range(tensors):
            self._spend()
            self.tensors.append(self._tensor(f"tensor_infos[{i}]"))

    def _version(self) -> None:
        span = Span(4, min(8, self.size), "header.version")
        version = self.number(4, "header.version")
        if version & 0xFFFF == 0 and version:
            if self.policy.big_endian != "yes":
                text = "it reads little-endian files only, and this one is big-endian, or its version is damaged"
                raise _StopWalkError(self.policy.big_endian, text, span)
            self.big = True
            version = int.from_bytes(version.to_bytes(4, "little"), "big")
        self.version = version
        if version == 1 and not self.policy.version_1:
            raise _StopWalkError("no", "it no longer reads GGUF version 1", span)
        if self.policy.versions and version not in self.policy.versions:
            raise _StopWalkError("no", f"it does not know GGUF version {version:,}", span)

    def _spend(self, count: int = 1) -> None:
        self.left -= count
        if self.left < 0 or self.at >= MOST_BYTES:
            raise _StopWalkError("unknown", "the header is too long to be followed behind its fault", self._here())

    def _here(self, path: str = "") -> Span:
        return Span(min(self.at, self.size), self.size, path)

    def number(self, width: int, path: str) -> int:
        piece = self.data[self.at : self.at + width]
        if len(piece) < width:
            if self.policy.end != "zeros":
                raise _StopWalkError("no", "the file ends inside the header", self._here(path))
            piece = piece.ljust(width, b"\0")
        self.at += width
        return int.from_bytes(piece, "big" if self.big else "little")

    def string(self, path: str) -> bytes:
        length = self.number(4 if self.version == 1 else 8, path)
        most = self.policy.string_bytes
        if most is not None and length > most:
            raise _StopWalkError(
                "no", f"it takes strings of at most {most:,} bytes; this one has {length:,}", self._here(path)
            )
        piece = self.data[self.at : self.at + length]
        if len(piece) < length:
            if self.policy.end == "no":
                raise _StopWalkError("no", "a string reaches beyond the end of the file", self._here(path))
            if self.policy.end == "short":
                self.at = max(self.at, len(self.data))
                return piece
            if length > 1_500_000:
                raise _StopWalkError("unknown", "a string reaches far beyond the end of the file", self._here(path))
        self.at += length
        return piece

    def _key(self, path: str) -> SeenKey:
        start = self.at
        name = self.string(path)
        kind = self.number(4, path)
        if kind > 12:
            text = f"it does not know the value type {kind:,}"
            raise _StopWalkError(self.policy.value_type, text, self._here(f"{path}.type"))
        element, count, depth = -1, 1, 0
        value: Any = None
        if kind == ValueType.STRING:
            text_value = self.string(path)
            count = len(text_value)
            value = text_value if len(text_value) < 32 else None
        elif kind == ValueType.ARRAY:
            element, count, depth = self._array(path)
        else:
            raw = self.number(_WIDTHS[kind], path)
            value = raw if kind not in (6, 12) else None
            if kind in (1, 3, 5, 11) and value is not None and value >> (8 * _WIDTHS[kind] - 1):
                value -= 1 << 8 * _WIDTHS[kind]
        return SeenKey(
            name, Span(min(start, self.size), min(self.at, self.size), path), kind, element, count, value, depth
        )

    def _array(self, path: str) -> tuple[int, int, int]:
        """An array and those in it, without recursion; its element type, count and depth."""
        first: tuple[int, int] | None = None
        deepest, pending = 1, [(1, 1)]  # (depth, arrays that are still to come at it)
        while pending:
            depth, arrays = pending.pop()
            if arrays > 1:
                pending.append((depth, arrays - 1))
            self._spend()
            deepest = max(deepest, depth)
            most = self.policy.array_depth
            if most is not None and depth > most:
                raise _StopWalkError("no", f"it follows arrays in arrays {most} deep", self._here(path))
            element, count = self.number(4, path), self.number(4 if self.version == 1 else 8, path)
            first = first or (element, count)
            if self.policy.array_items is not None and count > self.policy.array_items:
                text = f"it takes arrays of at most {self.policy.array_items:,} elements; this one has {count:,}"
                raise _StopWalkError("no", text, self._here(path))
            if element > 12 and (count or self.policy.end != "short"):
                text = f"it does not know the element type {element:,}"
                raise _StopWalkError(self.policy.value_type, text, self._here(path))
            if element == ValueType.ARRAY:
                if self.policy.nested_array != "yes":
                    raise _StopWalkError(
                        self.policy.nested_array, "it does not take arrays of arrays", self._here(path)
                    )
                if count:
                    pending.append((depth + 1, count))
            elif element == ValueType.STRING:
                self._strings(count, path)
            elif count:
                self._skip(element, count, path)
        assert first is not None
        return *first, deepest

    def _strings(self, count: int, path: str) -> None:
        """An array of strings."""
        self.strings_left -= min(count, max(0, len(self.data) - self.at) // 8 + 1)
        if self.strings_left < 0:
            raise _StopWalkError("unknown", "the header is too long to be followed behind its fault", self._here(path))
        for _ in range(count):
            if self.at >= len(self.data) and self.policy.end == "zeros":
                return self._skip(ValueType.UINT64, count, path)  # what follows are empty strings without end
            self.string(path)
        return None

    def _skip(self, element: int, count: int, path: str) -> None:
        """An array of numbers; where the file ends in it, each reader has its own way."""
        width = _WIDTHS[element]
        room = max(0, len(self.data) - self.at)
        if count * width > room:
            if self.policy.end == "no":
                raise _StopWalkError("no", "an array reaches beyond the end of the file", self._here(path))
            if self.policy.end == "short":
                if room % width:
                    raise _StopWalkError("no", "the file ends inside an array", self._here(path))
                if count > 100_000_000:
                    text = f"it reads {count:,} elements that are not there, one by one: it never returns"
                    raise _StopWalkError("crash", text, self._here(path))
                self.at += room
                return
        self.at += count * width

    def _tensor(self, path: str) -> SeenTensor:
        start = self.at
        name = self.string(path)
        dimensions = self.number(4, path)
        most = self.policy.dimensions
        if most is not None and dimensions > most:
            text = f"it takes tensors of at most {most} dimensions; {dimensions:,} are declared"
            raise _StopWalkError(self.policy.too_many_dimensions, text, self._here(f"{path}.n_dims"))
        width = 4 if self.version == 1 else 8
        if self.policy.end != "zeros" and dimensions * width > len(self.data) - self.at:
            raise _StopWalkError("no", f"{dimensions:,} dimensions are declared, and the file ends", self._here(path))
        self._spend(dimensions)
        ne = tuple(self.number(width, path) for _ in range(dimensions))
        number, offset = self.number(4, path), self.number(8, path)
        number -= (number >> 31) << 32
        return SeenTensor(name, Span(min(start, self.size), min(self.at, self.size), path), ne, number, offset)
