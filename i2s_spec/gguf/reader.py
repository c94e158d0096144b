"""This module defines how a GGUF file is read: `open` indexes its header, everything else is fetched when asked for.

Opening costs one linear pass over the header and keeps only where things are. Keys and tensors are then looked up by
name; values, strings and tensor bytes are read and decoded on access, each bounded by what the file holds.

    >>> from i2s_spec.gguf.writer import Writer
    >>> import io
    >>> out = io.BytesIO()
    >>> with Writer(out) as writer:
    ...     writer.add("general.architecture", "bitnet-b1.58")
    >>> file = open(out.getvalue())
    >>> file.metadata["general.architecture"]
    'bitnet-b1.58'
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, Any

from i2s_spec.errors import FormatError, Span
from i2s_spec.gguf import _scanner
from i2s_spec.gguf.source import Origin, Source, source_of
from i2s_spec.schema import faults, types
from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.types import TAIL_BYTES, TensorType, ValueType

if TYPE_CHECKING:
    import numpy as np


def open(origin: Origin, *, trusted: bool = False) -> File:
    """Open a GGUF file: index its header and nothing more.

    :param origin: a path, anything with the buffer protocol, a seekable binary stream, or a `Source`
    :param trusted: map the file into memory, so that arrays are views of it; only for files that nobody can shorten
    :raises FormatError: for whatever prevents indexing (clauses 2.2 to 2.7); all other faults are the linter's
    """
    file = File(source_of(origin, trusted))
    if file.fault is not None:
        file.close()
        raise file.fault
    return file


class File:
    """A GGUF file whose header has been indexed.

    `metadata` maps keys to values and `tensors` names to `Tensor`s, both in file order; where a key or a name occurs
    twice the first one counts, as for the loaders of the BitNet lineage. A `File` made directly (not by `open`) may
    carry a `fault`: then it holds what lies before it.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.index = _scanner.scan(source)
        self.fault: FormatError | None = self.index.fault
        self.byte_order: ByteOrder = self.index.byte_order or "little"
        self.version: int | None = self.index.version
        #: Bytes that tensors are aligned to; None where the header gives no usable value.
        self.alignment: int | None = self.index.alignment
        #: First byte of the data section; None where the header does not say.
        self.data_start: int | None = self.index.data_start
        #: End of the last tensor info.
        self.infos_end: int | None = self.index.infos_end
        self.metadata = Metadata(self)
        self.tensors = Tensors(self)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def size(self) -> int:
        """Size of the whole file in bytes."""
        return self.source.size

    def close(self) -> None:
        self.source.close()

    def forget(self) -> None:
        """Let go of the keys and tensors, which cannot be asked for any more: they and the file hold each other, and what
        was indexed would stay until the collector comes by."""
        vars(self.metadata).clear()
        vars(self.tensors).clear()

    def __enter__(self) -> File:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<File {self.name!r}: {len(self.metadata)} keys, {len(self.tensors)} tensors>"


class Entry:
    """One key-value as it stands in the file."""

    __slots__ = ("count", "element", "index", "name", "span", "type", "value_span")

    def __init__(
        self, index: int, name: bytes, type: int, element: int, count: int, span: Span, value_span: Span
    ) -> None:
        self.index = index
        self.name = name
        self.type = type
        #: Element type of an array, else -1.
        self.element = element
        #: Elements of an array, bytes of a string, 1 otherwise.
        self.count = count
        #: The whole record.
        self.span = span
        #: The value; of strings and arrays without their lengths and types.
        self.value_span = value_span

    @property
    def key(self) -> str:
        return self.name.decode("utf-8", "surrogateescape")

    @property
    def label(self) -> str:
        """The value's type as people write it: `u32`, `str`, `arr[str]`."""
        label = ValueType(self.type).label
        return f"{label}[{ValueType(self.element).label}]" if self.type == ValueType.ARRAY else label


class Metadata(Mapping[str, Any]):
    """The key-values of a file; values are decoded on access.

    Numbers come as `int`, `float` or `bool`, strings as `str` (bytes that are not UTF-8 as surrogate escapes), arrays of
    numbers as NumPy arrays, arrays of strings or booleans and nested arrays as lists.
    """

    def __init__(self, file: File) -> None:
        self._file = file

    @cached_property
    def _places(self) -> dict[str, int]:
        places: dict[str, int] = {}
        for i in range(self._file.index.keys):
            places.setdefault(self._file.index.key(i)[1].decode("utf-8", "surrogateescape"), i)
        return places

    def row(self, i: int) -> Entry:
        """Key-value `i` of the file, whether or not its key occurs twice."""
        start, name, kind, element, count, value, stop = self._file.index.key(i)
        path = f"key_values[{i}]"
        return Entry(i, name, kind, element, count, Span(start, stop, path), Span(value, stop, f"{path}.value"))

    @property
    def rows(self) -> Iterator[Entry]:
        """Every key-value of the file, in order."""
        return map(self.row, range(self._file.index.keys))

    def entry(self, key: str) -> Entry:
        """Where and what the value of `key` is, without decoding it."""
        return self.row(self._places[key])

    def decode(self, entry: Entry, limit: int | None = None) -> Any:
        """The value of one entry; of an array of fixed-size elements at most the first `limit`."""
        source, order = self._file.source, self._file.byte_order
        start, stop = entry.value_span[:2]
        if entry.type == ValueType.STRING:
            return source.read(start, stop - start).decode("utf-8", "surrogateescape")
        if entry.type != ValueType.ARRAY:
            return _scalar(entry.type, source.read(start, stop - start), order)
        if entry.element == ValueType.STRING:
            return _scanner.strings(source.read(start, stop - start), entry.count, order == "big")
        if entry.element == ValueType.ARRAY:
            return _nested(source.read(start, stop - start), entry.count, order)
        count = entry.count if limit is None else min(limit, entry.count)
        width = struct.calcsize(types.VALUE_FORMATS[entry.element])
        data = source.read(start, count * width)
        if entry.element == ValueType.BOOL:
            return [byte != 0 for byte in data]
        import numpy as np

        array = np.frombuffer(data, dtype=("<" if order == "little" else ">") + _NUMPY_VALUES[entry.element])
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def __getitem__(self, key: str) -> Any:
        return self.decode(self.entry(key))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places


_NUMPY_VALUES = {0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 10: "u8", 11: "i8", 12: "f8"}


def _scalar(kind: int, data: bytes, order: ByteOrder) -> int | float | bool:
    value: int | float = struct.unpack(("<" if order == "little" else ">") + types.VALUE_FORMATS[kind], data)[0]
    return value != 0 if kind == ValueType.BOOL else value


def _nested(data: bytes, count: int, order: ByteOrder) -> list[Any]:
    """The elements of an array of arrays; the scanner has bounded how deep they nest."""
    mark = "<" if order == "little" else ">"
    at = 0

    def array(kind: int, count: int) -> list[Any]:
        nonlocal at
        items: list[Any] = []
        for _ in range(count):
            if kind == ValueType.ARRAY:
                inner, inner_count = struct.unpack_from(mark + "IQ", data, at)
                at += 12
                items.append(array(inner, inner_count))
            elif kind == ValueType.STRING:
                (length,) = struct.unpack_from(mark + "Q", data, at)
                items.append(data[at + 8 : at + 8 + length].decode("utf-8", "surrogateescape"))
                at += 8 + length
            else:
                width = struct.calcsize(types.VALUE_FORMATS[kind])
                items.append(_scalar(kind, data[at : at + width], order))
                at += width
        return items

    try:
        return array(ValueType.ARRAY, count)
    except struct.error as error:
        raise FormatError(faults.CHANGED, Span(0, 0), reason="a nested array no longer fits its bytes") from error


class Tensors(Mapping[str, "Tensor"]):
    """The tensors of a file by name, in the order of the tensor table."""

    def __init__(self, file: File) -> None:
        self._file = file

    @cached_property
    def _places(self) -> dict[str, int]:
        places: dict[str, int] = {}
        for i in range(self._file.index.tensors):
            places.setdefault(self._file.index.tensor(i)[1].decode("utf-8", "surrogateescape"), i)
        return places

    @cached_property
    def _starts(self) -> array[int]:
        """Where tensors begin, sorted, and where the data section ends: what tells the room that a tensor has."""
        index = self._file.index
        end = self._file.size - (self._file.data_start or 0)
        starts = sorted([max(end, 0), *(index.tensor(i)[4] for i in range(index.tensors))])
        return array("Q", (start for start, _ in groupby(starts)))

    def room(self, offset: int) -> int | None:
        """Bytes from `offset` in the data section to where the next tensor begins, or to the end of the file."""
        after = self.place(offset)
        return self._starts[after] - offset if after < len(self._starts) else None

    def place(self, offset: int) -> int:
        """A number for an offset: tensors that begin at the same byte have the same, others others, up to their number."""
        return bisect_right(self._starts, offset)

    def row(self, i: int) -> Tensor:
        """Tensor info `i` of the file, whether or not its name occurs twice."""
        start, name, ne, number, offset, stop = self._file.index.tensor(i)
        room = self.room(offset) if len(types.READINGS.get(number, ())) > 1 else None
        kind = types.reading(number, ne, room, self._file.alignment or types.TAIL_BYTES)
        return Tensor(self._file, i, name, ne, number, kind, offset, Span(start, stop, f"tensor_infos[{i}]"))

    @property
    def rows(self) -> Iterator[Tensor]:
        """Every tensor info of the file, in order."""
        return map(self.row, range(self._file.index.tensors))

    def __getitem__(self, name: str) -> Tensor:
        return self.row(self._places[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places


class Tensor:
    """One tensor of a file; its bytes are read when they are asked for.

    `ne` is ggml's shape (fastest first), `shape` NumPy's (the other way round). `type` is None for a number that no
    ggml defines; then the size is unknown. `offset` counts from the data section, `info_span` is the tensor info.
    """

    __slots__ = ("_file", "index", "info_span", "ne", "number", "offset", "raw_name", "type")

    def __init__(
        self,
        file: File,
        index: int,
        raw_name: bytes,
        ne: tuple[int, ...],
        number: int,
        type: TensorType | None,
        offset: int,
        info_span: Span,
    ) -> None:
        self._file = file
        self.index = index
        self.raw_name = raw_name
        self.ne = ne
        self.number = number
        self.type = type
        self.offset = offset
        self.info_span = info_span

    @property
    def name(self) -> str:
        return self.raw_name.decode("utf-8", "surrogateescape")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.ne[::-1]

    @property
    def elements(self) -> int:
        """Number of elements, in exact arithmetic."""
        return prod(self.ne)

    @property
    def nbytes(self) -> int:
        """Exact size of the data in bytes, for I2_S with its tail (clause 5.2).

        :raises FormatError: G313 for an unknown type, G315 where rows are not whole blocks
        """
        if self.type is None:
            raise FormatError(faults.TYPE_UNKNOWN, self._at("type"), got=self.number, name=self.raw_name)
        if self.ne and self.ne[0] % self.type.block:
            raise FormatError(
                faults.BLOCK_SPLIT, self._at("ne"), got=self.ne[0], want=self.type.block, name=self.raw_name
            )
        return self.type.nbytes(self.ne)

    @property
    def span(self) -> Span:
        """The bytes of the data in the file, whether or not the file has them."""
        start = (self._file.data_start or 0) + self.offset
        return Span(start, start + self.nbytes, f"data[{self.index}]")

    @property
    def payload_span(self) -> Span:
        """The data without the tail that I2_S and its kin have (clause 5.2)."""
        span = self.span
        return Span(span.start, max(span.start, span.stop - self._tail_bytes), f"{span.path}.payload")

    @property
    def tail_span(self) -> Span:
        """The 32 bytes behind the payload of I2_S and its kin, empty for other types (clause 6.1)."""
        span = self.span
        return Span(max(span.start, span.stop - self._tail_bytes), span.stop, f"{span.path}.tail")

    @property
    def _tail_bytes(self) -> int:
        return TAIL_BYTES if self.type is not None and self.type.size is not None else 0

    @property
    def payload(self) -> bytes:
        """The bytes of codes of an I2_S tensor; of other types all bytes."""
        return self._bytes(self.payload_span)

    @property
    def tail(self) -> bytes:
        """The 32 bytes behind the payload of an I2_S tensor; of other types nothing."""
        return self._bytes(self.tail_span)

    def read(self) -> bytes:
        """All bytes of the tensor, exactly `nbytes` of them.

        :raises FormatError: G401, G402 where the file does not hold them
        """
        return self._bytes(self.span)

    def array(self) -> np.ndarray[Any, Any]:
        """The values of a plain type, shaped [..., ne1, ne0].

        F32, F16, F64 and I8 to I64 come in the file's byte order, as a read-only view where the source is a buffer or a
        map; BF16, which NumPy lacks, comes as float32, exactly.

        :raises FormatError: as `read` does
        :raises TypeError: for a type whose elements are not numbers of their own
        """
        import numpy as np

        name = self.type.name if self.type is not None else None
        mark = "<" if self._file.byte_order == "little" else ">"
        dtype = "u2" if name == "BF16" else types.NUMPY_TYPES.get(name or "")
        span = self.span
        if dtype is None:
            raise TypeError(f"{name} tensors have no plain elements; read() gives their bytes")
        self.require(span)
        view = self._file.source.view
        data: bytes | memoryview = view[span.start : span.stop] if view is not None else self._bytes(span)
        array = np.frombuffer(data, dtype=mark + dtype)
        if name == "BF16":
            array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
        array = array.reshape(self.shape)
        array.flags.writeable = False
        return array

    def require(self, span: Span) -> None:
        """Make sure that the file holds a part of the tensor, before anything is read or allocated for it.

        :param span: `span`, `payload_span` or `tail_span`
        :raises FormatError: G402 where it starts behind the end of the file, G401 where only its end lies there (clause 2.7)
        """
        size = self._file.size
        if span.start > size:
            raise FormatError(faults.OFFSET_PAST_END, self._at("offset"), got=span.start, want=size, name=self.raw_name)
        if span.stop > size:
            raise FormatError(faults.TENSOR_PAST_END, span, got=span.stop, want=size, name=self.raw_name)

    def _bytes(self, span: Span) -> bytes:
        self.require(span)
        return self._file.source.read(span.start, span.stop - span.start)

    def _at(self, field: str) -> Span:
        """The span of one field of the tensor info."""
        end = self.info_span.stop
        stops = {"offset": (end - 8, end), "type": (end - 12, end - 8), "ne": (end - 12 - 8 * len(self.ne), end - 12)}
        start, stop = stops[field]
        return Span(start, stop, f"{self.info_span.path}.{field}")

    def __repr__(self) -> str:
        kind = self.type.name if self.type is not None else f"type {self.number}"
        return f"<Tensor {self.name!r}: {kind} {list(self.shape)}>"
