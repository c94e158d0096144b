"""This module defines how a tensor becomes bytes: its name, type and shape are checked, its data is made in parts.

Data may be bytes, an array or a callable; whichever it is, what comes out are chunks of bytes, counted against those
that type and shape take (clauses 2.6, 2.7; 5.2 for I2_S).
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from i2s_spec.errors import counted, quote
from i2s_spec.gguf.encoding.encode_value import unsigned
from i2s_spec.gguf.source import CHUNK
from i2s_spec.schema import limits, types
from i2s_spec.schema.types import TensorType

if TYPE_CHECKING:
    import numpy as np


class Planned(NamedTuple):
    """A tensor as it will be written."""

    name: bytes
    ne: tuple[int, ...]
    type: TensorType
    nbytes: int
    chunks: Callable[[], Iterable[Any]]

    def info(self, offset: int, prefix: str) -> bytes:
        head = struct.pack(prefix + "Q", len(self.name)) + self.name
        return head + struct.pack(f"{prefix}I{len(self.ne)}QiQ", len(self.ne), *self.ne, self.type.number, offset)

    def pieces(self) -> Iterator[memoryview]:
        """The data, with an error before the first byte too many and after the last of too few."""
        done = 0
        chunks = self.chunks()
        for chunk in (chunks,) if isinstance(chunks, bytes | bytearray | memoryview) else chunks:
            view = memoryview(chunk)
            if view.itemsize != 1:
                raise TypeError(
                    f"tensor {quote(self.name)}: chunks are bytes, not words of {counted(view.itemsize, 'byte')}"
                )
            done += view.nbytes
            if done > self.nbytes:
                raise self.misfit(done, "or more ")
            if view.nbytes:
                yield view.cast("B")
        if done < self.nbytes:
            raise self.misfit(done)

    def misfit(self, got: int, more: str = "") -> ValueError:
        takes = f"{self.type.name} of shape {list(self.ne[::-1])} takes {self.nbytes:,}"
        return ValueError(f"tensor {quote(self.name)}: the data has {counted(got, 'byte')} {more}and {takes}")


def checked_name(name: str) -> bytes:
    """The bytes of a name that a tensor can have; ValueError or TypeError for others (clause 2.6)."""
    if not isinstance(name, str):
        raise TypeError(f"a tensor's name is text, not {type(name).__name__}")
    try:
        encoded = name.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"tensor {quote(name)}: the name is not valid Unicode") from None
    if not 1 <= len(encoded) <= limits.TENSOR_NAME_BYTES:
        most = limits.TENSOR_NAME_BYTES
        raise ValueError(
            f"tensor {quote(name)}: the name has {counted(len(encoded), 'byte')}; it must have 1 to {most}"
        )
    if not name.isprintable() and any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in name):
        raise ValueError(f"tensor {quote(name)}: the name has a control character")
    return encoded


def tensor_type(type: TensorType | str | int, ne: tuple[int, ...], size: int | None) -> TensorType:
    """The type that a caller means; `size`, in bytes, tells between the types of one number. ValueError for none."""
    if isinstance(type, TensorType):
        return type
    if isinstance(type, str):
        if type.upper() not in types.BY_NAME:
            raise ValueError(f"{quote(type)} is not a tensor type")
        return types.BY_NAME[type.upper()]
    found = types.reading(operator.index(type), ne, size, alignment=1)
    if found is None:
        raise ValueError(f"no tensor type has the number {type}")
    return found


def check_shape(shape: tuple[int, ...], kind: TensorType) -> None:
    """Refuse, by a ValueError, a shape [..., ne1, ne0] that a tensor of the type cannot have (clause 2.6)."""
    if not 1 <= len(shape) <= limits.MAX_DIMENSIONS:
        raise ValueError(f"it has {counted(len(shape), 'dimension')}; 1 to {limits.MAX_DIMENSIONS} are possible")
    if min(shape) < 1:
        raise ValueError(f"its shape is {list(shape)}; every length must be at least 1")
    if prod(shape) >= limits.INT64_END:
        raise ValueError(
            f"its shape {list(shape)} has {counted(prod(shape), 'element')}; there must be fewer than 2^63"
        )
    if shape[-1] % kind.block:
        raise ValueError(f"its rows have {counted(shape[-1], 'element')}; {kind.name} packs blocks of {kind.block}")


def length(data: Any) -> int | None:
    """Bytes of tensor data, where that is known before it is made."""
    if data is None or callable(data):
        return None
    if hasattr(data, "dtype"):
        return int(data.nbytes)
    try:
        return memoryview(data).nbytes
    except TypeError:
        raise TypeError(f"tensor data is bytes, an array or a callable, not {type(data).__name__}") from None


def chunks(data: Any, kind: TensorType, shape: tuple[int, ...], prefix: str) -> Callable[[], Iterable[Any]]:
    """What makes the bytes of a tensor of shape [..., ne1, ne0]; TypeError or ValueError for an array that is not it."""
    if data is None:
        return lambda: _zeros(kind.nbytes(shape[::-1]))
    if callable(data):
        made: Callable[[], Iterable[Any]] = data
        return made
    if not hasattr(data, "dtype"):
        view = memoryview(data)
        if view.itemsize == 1 and view.c_contiguous:
            flat = view.cast("B")
            return lambda: (flat[at : at + CHUNK] for at in range(0, flat.nbytes, CHUNK))
        import numpy as np

        data = np.asarray(view)

    dtype = data.dtype
    if dtype.str[1:] != "u1" and not (dtype.str[1:] == "i1" and kind.is_quantized):
        own = "u2" if kind.name == "BF16" else types.NUMPY_TYPES.get(kind.name)
        if dtype.str[1:] != own and not (kind.name == "BF16" and dtype.name == "bfloat16"):
            raise TypeError(f"the data is of dtype {dtype}; {kind.name} takes {own or 'u1'}, or bytes")
        if data.ndim > 1 and data.shape != shape:
            raise ValueError(f"the data has the shape {list(data.shape)}, not {list(shape)}")
    return lambda: _words(data, prefix)


def _words(array: np.ndarray[Any, Any], prefix: str) -> Iterator[memoryview]:
    """The words of an array in the byte order asked for; as integers, so that no NaN is touched."""
    import numpy as np

    width = array.dtype.itemsize
    flat = np.ascontiguousarray(array).reshape(-1).view(unsigned(array))
    for at in range(0, flat.size, step := CHUNK // width):
        part = flat[at : at + step].astype(f"{prefix}u{width}", copy=False)
        yield part.view(np.uint8).data


def _zeros(size: int) -> Iterator[bytes]:
    for at in range(0, size, CHUNK):
        yield bytes(min(CHUNK, size - at))
