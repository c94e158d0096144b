"""This module defines the tensors of an open file: the table of their infos, and their bytes, read when asked for."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from i2s_spec.errors import FormatError, Span
from i2s_spec.schema import faults, types
from i2s_spec.schema.types import TAIL_BYTES, TensorType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from i2s_spec.codec.trits import Trits
    from i2s_spec.gguf.reader import File
    from i2s_spec.schema.dialect import Dialect


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
        return self.room_at(offset)[1]

    def room_at(self, offset: int) -> tuple[int, int | None]:
        """A number for an offset, and the room there: tensors that begin at the same byte have the same number, others
        others, up to how many there are."""
        starts = self._starts
        after = bisect_right(starts, offset)
        return after, starts[after] - offset if after < len(starts) else None

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

    def trits(
        self, dialect: str | Dialect = "canonical", *, code3: Literal["reject", "zero"] = "reject", threads: int = 1
    ) -> NDArray[np.int8]:
        """The weights as -1, 0 and +1: int8 of `shape` (clause 5.5).

        :param dialect: how an I2_S tensor is packed, which the file does not say; other types that are exactly ternary
            (F32, F16, BF16, TQ1_0, TQ2_0) have none
        :param code3: whether the code that stands for nothing is an error or 0
        :param threads: how many threads may decode
        :raises ValueError: for types and shapes that hold no trits, weights that are not ternary, and code 3
        :raises FormatError: as `read` does
        """
        return self._ternary(dialect, code3).whole(threads)[0]

    def scale(self, dialect: str | Dialect = "canonical") -> np.float32:
        """What +1 stands for: of I2_S the float32 at the start of the tail (clause 6.1), of other types the one magnitude.

        :raises ValueError: as `trits` does, and for block types where there is more than one
        :raises FormatError: as `read` does
        """
        return self._ternary(dialect, "zero").scale

    def dequantize(
        self, dialect: str | Dialect = "canonical", *, code3: Literal["reject", "zero"] = "reject", threads: int = 1
    ) -> NDArray[np.float32]:
        """The weights: float32 of `shape`. Of I2_S each is its trit times the scale (clause 6.2).

        F32, F16 and BF16 tensors need not be ternary. The parameters and errors are those of `trits`.
        """
        import numpy as np

        from i2s_spec.codec.native import dequantize

        name = self.type.name if self.type is not None else None
        if name == "I2_S":
            self._ternary(dialect, code3)  # says which tensor it is where its shape has no place in the layout
            order = self._file.byte_order
            return dequantize(self.read(), self.shape, dialect, byte_order=order, code3=code3, threads=threads)
        if name in {"F32", "F16", "BF16"}:
            return self.array().astype(np.float32)
        trits, scale = self._ternary(dialect, code3).whole(threads)
        return trits * scale

    def _ternary(self, dialect: str | Dialect, code3: Literal["reject", "zero"]) -> Trits:
        from i2s_spec.gguf.ternary import ternary

        return ternary(self._file, self, dialect, code3)

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
