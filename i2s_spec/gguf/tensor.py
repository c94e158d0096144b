"""The tensors of an open file: the table of their infos, and their bytes, read when asked for.

`Tensors` maps names to `Tensor`s, and decides what a type number means where it means several types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.gguf.header import HeaderIndex, TensorInfo
from i2s_spec.schema import faults, types
from i2s_spec.schema.dialect import parse
from i2s_spec.schema.types import TensorType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from i2s_spec.codec.encoding import Trits
    from i2s_spec.gguf.type_numbers import NumberReading
    from i2s_spec.schema.dialect import Dialect

T = TypeVar("T")

#: Types of weights that are numbers.
FLOATS = ("F32", "F16", "BF16")

#: Numbers whose tensors are compared with their contents, although they have the room of the first meaning, or may have
#: that of another one as well.
_COMPARED = frozenset({41, 42})


class Tensors(Mapping[str, "Tensor"]):
    """The tensors of a file by name, in the order of the tensor table."""

    def __init__(self, index: HeaderIndex) -> None:
        self._index = index
        self._common: dict[int, TensorType | None] = {}

    @property
    def index(self) -> HeaderIndex:
        """The header that they are in."""
        return self._index

    def allotted_bytes(self, offset: int) -> int | None:
        """Bytes from `offset` in the data section to where the next tensor begins, or to the end of the file."""
        return self._index.extent(offset)[1]

    def common_type(self, number: int) -> TensorType | None:
        """Return the type whose size most tensors of a number have, if it means several types; else its only type."""
        found = self.number_reading(number)
        if found is not None and found.kinds:
            return found.type
        readings = types.READINGS.get(number, ())
        if len(readings) < 2:
            return readings[0] if readings else None
        if number not in self._common:
            tensor = self._index.tensor
            each = ((tensor(i), size) for i, (_, size) in enumerate(self._index.extents()))
            alike = ((info.ne, size) for info, size in each if info.type == number)
            self._common[number] = types.common_reading(number, alike, self._index.alignment or types.TAIL_BYTES)
        return self._common[number]

    def number_reading(self, number: int) -> NumberReading | None:
        """Return what a number means in this file, if single programs gave it other meanings; None if all tensors have
        the room of the first meaning."""
        index = self._index
        if number not in types.SECOND_NUMBERS:
            return None
        known, start = index.number_readings, index.data_start
        if (number, start) not in known:
            first = types.READINGS.get(number, (None,))[0]
            if first is not None and number not in _COMPARED and self._all_fit(first):
                known[number, start] = None
            else:
                from i2s_spec.gguf.type_numbers import number_reading

                known[number, start] = number_reading(index, number)
        found: NumberReading | None = known[number, start]
        return found

    def _all_fit(self, kind: TensorType) -> bool:
        """Whether the room of every tensor of a number is that of one type."""
        index, alignment = self._index, self._index.alignment or types.TAIL_BYTES
        last: tuple[tuple[int, ...], int | None] = (), None
        for i, (_, room) in enumerate(index.extents()):
            info = index.tensor(i)
            if info.type == kind.number and (like := (info.ne, room)) != last:
                last = like
                if room is None or not types.fits(kind, info.ne, room, alignment):
                    return False
        return True

    def type_of(self, number: int, ne: tuple[int, ...], room: int | None) -> TensorType | None:
        """Return what a type number means for a tensor of this file, by its room and those of all tensors with the number.

        :param ne: its shape, in ggml's order
        :param room: bytes until the next tensor begins, or the data end
        :returns: None for an undefined number, and where several meanings fit and nothing decides (`number_reading`)
        """
        found = self.number_reading(number)
        if found is not None and found.kinds:
            return found.type
        readings = types.READINGS.get(number, ())
        if len(readings) < 2:
            return readings[0] if readings else None
        alignment = self._index.alignment or types.TAIL_BYTES
        return types.reading(number, ne, room, alignment, self.common_type(number))

    def is_legacy_i2s(self, number: int, ne: tuple[int, ...], room: int) -> bool:
        """Whether a tensor of type 30 or 31 has exactly the extent of an I2_S tensor, as in files older than type 36, and
        no other meaning of the number is known to fit."""
        if number not in types.LEGACY_I2_S or prod(ne) < types.I2_S_BLOCK:
            return False
        step = self._index.alignment or types.TAIL_BYTES
        if types.padded(types.I2_S.nbytes(ne), step) != types.padded(room, step):
            return False
        found = self.number_reading(number)
        return found is None or not found.kinds

    def room_needed(self, tensor: Tensor) -> int | None:
        """Most bytes from the start of a tensor that may belong to it: its size, if the rooms of the file leave no doubt
        about what its type number means; else the largest size under any known meaning of the number.

        :returns: None where not even that is known
        """
        found = self.number_reading(tensor.number)
        if tensor.type is not None and (found is None or found.certain):
            return None if tensor.ne and tensor.ne[0] % tensor.type.block else tensor.type.nbytes(tensor.ne)
        from i2s_spec.schema.program_types import largest_room

        return largest_room(tensor.number, tensor.ne)

    def by_index(self, i: int) -> Tensor:
        """Tensor info `i` of the file, whether or not its name occurs twice."""
        index, info = self._index, self._index.tensor(i)
        number = info.type
        if number not in types.SECOND_NUMBERS:
            readings = types.READINGS.get(number, ())
            if len(readings) < 2:
                return Tensor(index, info, readings[0] if readings else None)
        return Tensor(index, info, self.type_of(number, info.ne, self.allotted_bytes(info.offset)))

    @property
    def rows(self) -> Iterator[Tensor]:
        """Every tensor info of the file, in order."""
        return map(self.by_index, range(self._index.tensors))

    def __getitem__(self, name: str) -> Tensor:
        place = self._index.tensor_places.get(name)
        if place is None:
            from i2s_spec.errors import MissingName

            raise MissingName("tensor", name, self)
        return self.by_index(place)

    @overload
    def get(self, name: str, default: None = None, /) -> Tensor | None: ...
    @overload
    def get(self, name: str, default: Tensor | T, /) -> Tensor | T: ...
    def get(self, name: str, default: Any = None, /) -> Any:
        """Return a tensor by its name, or `default` where the file does not have it."""
        place = self._index.tensor_places.get(name)
        return default if place is None else self.by_index(place)

    def __iter__(self) -> Iterator[str]:
        return iter(self._index.tensor_places)

    def __len__(self) -> int:
        return len(self._index.tensor_places)

    def __contains__(self, name: object) -> bool:
        return name in self._index.tensor_places

    def __repr__(self) -> str:
        return f"<Tensors: {self._index.tensors:,}>"

    def _repr_html_(self) -> str:
        """Return the first tensors for a notebook."""
        from i2s_spec.errors import ROWS, table

        rows = ((each.raw_name, each.kind, each.shape, each.offset) for each in islice(self.rows, ROWS))
        number = self._index.tensors
        return table(counted(number, "tensor"), (), ("tensor", "type", "shape", "offset"), rows, number)


class Tensor:
    """One tensor of a file; its bytes are read on request.

    `ne` is ggml's shape (fastest first), `shape` NumPy's (the other way round). `type` is None for a number that ggml
    does not define; the size is then unknown. `offset` counts from the data section, `info_span` is the tensor info.
    """

    __slots__ = ("_index", "info", "ne", "number", "offset", "raw_name", "type")

    def __init__(self, index: HeaderIndex, info: TensorInfo, type: TensorType | None) -> None:
        self._index = index
        #: The record, with the spans of its fields.
        self.info = info
        self.raw_name = info.name
        self.ne = info.ne
        self.number = info.type
        self.type = type
        self.offset = info.offset

    @property
    def index(self) -> int:
        """Its place in the tensor table: 0 is the first."""
        return self.info.index

    @property
    def info_span(self) -> Span:
        """The bytes of the tensor info."""
        return self.info.span

    @property
    def name(self) -> str:
        return self.raw_name.decode("utf-8", "surrogateescape")

    @property
    def kind(self) -> str:
        """The name of its type, or `type 99` for a number that no ggml defines."""
        return self.type.name if self.type is not None else f"type {self.number}"

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

        :raises FormatError: G313 for an unknown type, G323 for one between whose meanings nothing decides, G315 where
            rows are not whole blocks
        """
        if self.type is None:
            self._refuse_undecided()
            raise FormatError(
                faults.TYPE_UNKNOWN, self.info.type_span, got=self.number, name=self.raw_name, others=TrustedText(""),
                meaning=TrustedText(""),
            )  # fmt: skip
        if self.ne and self.ne[0] % self.type.block:
            raise FormatError(
                faults.BLOCK_SPLIT, self.info.ne_span, got=self.ne[0], want=self.type.block, name=self.raw_name
            )
        return self.type.nbytes(self.ne)

    def _refuse_undecided(self) -> None:
        found = self._index.number_readings.get((self.number, self._index.data_start))
        if found is not None and found.is_undecided:
            raise FormatError(
                faults.MEANING_UNDECIDED, self.info.type_span, got=self.number, count=TrustedText(""),
                kinds=TrustedText(found.names), why=TrustedText(found.why),
            )  # fmt: skip

    @property
    def span(self) -> Span:
        """The bytes of the data in the file, whether or not the file has them."""
        start = (self._index.data_start or 0) + self.offset
        return Span(start, start + self.nbytes, f"data[{self.info.index}]")

    @property
    def payload_span(self) -> Span:
        """The data without the tail of I2_S and related types (clause 5.2)."""
        span = self.span
        return Span(span.start, max(span.start, span.stop - self._tail_bytes), f"{span.path}.payload")

    @property
    def tail_span(self) -> Span:
        """The 32 bytes after the payload of I2_S and related types, empty for other types (clause 6.1)."""
        span = self.span
        return Span(max(span.start, span.stop - self._tail_bytes), span.stop, f"{span.path}.tail")

    @property
    def _tail_bytes(self) -> int:
        return self.type.tail_bytes if self.type is not None else 0

    @property
    def payload(self) -> bytes:
        """The codes of an I2_S tensor as bytes; for other types all bytes."""
        return self._bytes(self.payload_span)

    @property
    def tail(self) -> bytes:
        """The 32 bytes after the payload of an I2_S tensor; for other types empty."""
        return self._bytes(self.tail_span)

    @property
    def _holds_trits(self) -> bool:
        from i2s_spec.schema.blocks import GROUP_LAYOUTS

        return self.kind == "I2_S" or self.kind in GROUP_LAYOUTS

    def read(self) -> bytes:
        """All bytes of the tensor, exactly `nbytes` of them.

        :raises FormatError: G401, G402 where the file does not hold them
        """
        return self._bytes(self.span)

    def array(self) -> np.ndarray[Any, Any]:
        """Return the values of a plain type, shaped [..., ne1, ne0].

        F32, F16, F64 and I8 to I64 come in the file's byte order, as a read-only view where the source is a buffer or a
        map; BF16, which NumPy lacks, comes as float32, exactly.

        :raises FormatError: as `read` does
        :raises TypeError: for a type that packs several elements together
        """
        import numpy as np

        name = self.type.name if self.type is not None else None
        if name not in types.NUMPY_TYPES and name != "BF16":
            more = "; trits() and dequantize() decode them" if self._holds_trits else ""
            raise TypeError(f"{self.kind} tensors have no plain elements; read() gives their bytes{more}")
        span = self.span
        self.require(span)
        view = self._index.source.view
        data = self._bytes(span) if view is None else view[span.start : span.stop]
        word = "u2" if name == "BF16" else types.NUMPY_TYPES[name]
        array: np.ndarray[Any, Any] = np.frombuffer(data, dtype=faults.order_prefix(self._index.byte_order) + word)
        if name == "BF16":
            from i2s_spec.codec.shape import from_bfloat16

            array = from_bfloat16(array)
        array = array.reshape(self.shape)
        array.flags.writeable = False
        return array

    def trits(
        self,
        dialect: str | Dialect = "canonical",
        *,
        unused_code: Literal["reject", "zero"] = "reject",
        threads: int = 1,
    ) -> NDArray[np.int8]:
        """Return the weights as -1, 0 and +1: int8 of `shape` (clause 5.5).

        :param dialect: how an I2_S tensor is packed, which the file does not say; other types that are exactly ternary
            (F32, F16, BF16, TQ1_0, TQ2_0) have none
        :param unused_code: whether the unused code is an error or 0
        :param threads: how many threads may decode
        :raises ValueError: for types and shapes that hold no trits, weights that are not ternary, and code 3
        :raises FormatError: as `read` does
        """
        return self.ternary(dialect, unused_code).whole(threads)[0]

    def scale(self, dialect: str | Dialect = "canonical") -> np.float32:
        """Return the weight that +1 stands for: for I2_S the float32 at the start of the tail (clause 6.1), else the
        one magnitude.

        :raises ValueError: as `trits` does, and for block types where there is more than one
        :raises FormatError: as `read` does
        """
        return self.ternary(dialect, "zero").scale

    def dequantize(
        self,
        dialect: str | Dialect = "canonical",
        *,
        unused_code: Literal["reject", "zero"] = "reject",
        threads: int = 1,
    ) -> NDArray[np.float32]:
        """Return the weights: float32 of `shape`. For I2_S, each is its trit times the scale (clause 6.2).

        F32, F16 and BF16 tensors need not be ternary. Other quantized types (Q4_K, IQ2_S ...) are decoded by the extra
        `[gguf]`. The parameters and errors are those of `trits`.

        :raises MissingExtra: for these types, without the extra
        """
        from i2s_spec.codec import quantized
        from i2s_spec.schema.blocks import GROUP_LAYOUTS
        from i2s_spec.schema.program_types import of_type

        name = self.type.name if self.type is not None else None
        if name == "I2_S":
            self.ternary(dialect, unused_code)  # says which tensor it is where its shape has no place in the layout
        if name in FLOATS:
            return self.array().astype("float32")
        if name == "I2_S" or name in GROUP_LAYOUTS:
            return quantized.dequantize_ternary(
                self.read(), self.shape, name, dialect, self._index.byte_order, unused_code, threads
            )
        if name in quantized.TYPES:
            return quantized.dequantize(self.read(), name, self._index.byte_order).reshape(self.shape)
        if (second := of_type(self.type)) is not None:
            weights = quantized.dequantize_packing(self.read(), second, self._index.byte_order)
            return weights[: self.elements].reshape(self.shape)
        trits, scale = self.ternary(dialect, unused_code).whole(threads)
        return trits * scale

    def ternary(self, dialect: str | Dialect = "canonical", unused_code: Literal["reject", "zero"] = "reject") -> Trits:
        """Return the trits and the scale, read on request.

        :param dialect: of I2_S, a name or a `Dialect`; the file does not say it
        :param unused_code: whether the unused code is an error or 0
        :raises ValueError: for a type that holds no trits, and for a shape that it cannot have; with the tensor's name
        :raises FormatError: where the file does not hold the tensor (clause 2.7)
        """
        from i2s_spec.codec.encoding import encoding_of

        index, span = self._index, self.span
        require_usual(self)
        self.require(span)
        dialect = parse(dialect)
        try:
            encoding = encoding_of(self.kind, self.shape, dialect, index.byte_order)
            return encoding.trits(index.source.read, span.start, unused_code)
        except ValueError as error:
            raise ValueError(f"tensor {quote(self.name)}: {error}") from None

    def require(self, span: Span) -> None:
        """Make sure that the file holds a part of the tensor, before anything is read or allocated for it.

        :param span: `span`, `payload_span` or `tail_span`
        :raises FormatError: G402 where it starts after the end of the file, G401 where only its end lies there (clause 2.7)
        """
        size = self._index.source.size
        if span.start > size:
            raise FormatError(
                faults.OFFSET_PAST_END, self.info.offset_span, got=span.start, want=size, name=self.raw_name
            ).of_file(self._index.source.name)
        if span.stop > size:
            error = FormatError(faults.TENSOR_PAST_END, span, got=span.stop, want=size, name=self.raw_name)
            raise error.of_file(self._index.source.name)

    def _bytes(self, span: Span) -> bytes:
        self.require(span)
        return self._index.source.read(span.start, span.stop - span.start)

    def __repr__(self) -> str:
        from i2s_spec.errors import line

        return line("Tensor", self.raw_name, f"{self.kind} {list(self.shape)}")

    def _repr_html_(self) -> str:
        """Return the tensor for a notebook: what the header says of it; no data are read."""
        from i2s_spec.errors import table

        facts: list[tuple[str, Any]] = [
            ("type", self.kind), ("shape", self.shape), ("elements", self.elements), ("offset", self.offset)
        ]  # fmt: skip
        try:
            facts.append(("bytes", self.nbytes))
        except FormatError as error:
            facts.append(("bytes", error.message))
        return table(self.name, facts)

    # NumPy, and other libraries that take arrays: https://numpy.org/doc/stable/user/basics.interoperability.html
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return the values of a plain type, as `np.asarray(tensor)` wants them: what `array` gives.

        :param copy: True for an array of the caller's own; False where only a view will do, which a buffer or a trusted
            file gives, and other files do not
        :raises TypeError: for a type that packs several elements together, such as I2_S
        :raises ValueError: for `copy=False` where there is no view
        """
        import numpy as np

        viewed = self._index.source.view is not None and self.kind != "BF16"
        if copy is False and not viewed:
            raise ValueError(f"tensor {quote(self.name)} has to be read, so that there is no array without a copy")
        values = self.array()
        if dtype is not None and np.dtype(dtype) != values.dtype:
            if copy is False:
                raise ValueError(f"tensor {quote(self.name)} is {values.dtype}: {np.dtype(dtype)} takes a copy")
            return values.astype(dtype)
        return values.copy() if copy else values

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the processor's memory."""
        return 1, 0  # kDLCPU

    def __dlpack__(self, *, copy: bool | None = None, **more: Any) -> Any:
        """Return the values of a plain type as a DLPack capsule, such as `torch.from_dlpack(tensor)` asks for.

        The capsule is of a copy in this machine's byte order, which its new owner may write to: a file is not.

        :param more: what NumPy's arrays take: `stream`, `max_version`, `dl_device`
        :raises TypeError: for a type that packs several elements together, such as I2_S
        :raises BufferError: for `copy=False`
        """
        if copy is False:
            raise BufferError(f"tensor {quote(self.name)} is read-only; DLPack gets a copy of it")
        values = self.array()
        return values.astype(values.dtype.newbyteorder("=")).__dlpack__(**more)


def require_usual(tensor: Tensor) -> None:
    """Refuse, by a ValueError, a tensor whose type number has the meaning of a single program in this file; only
    `Tensor.dequantize` decodes such tensors, and not all of them."""
    if tensor.number not in types.SECOND_NUMBERS or tensor.kind in FLOATS:
        return
    from i2s_spec.schema.program_types import of_type

    if (second := of_type(tensor.type)) is not None:
        more = "" if second.packing is None else "; --as float32 (dequantize) decodes its weights"
        raise ValueError(
            f"tensor {quote(tensor.name)}: type {tensor.number} is {second} in this file, {second.tell}{more}"
        )
