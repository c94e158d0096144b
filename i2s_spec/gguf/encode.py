"""Values and tensors as bytes: the type of a value and its key-value, a tensor's info and the chunks of its data.

A value is checked against its type before any of it is written: a number that does not fit is refused, never cut, and
no NaN and no odd text is changed on its way (clause 2.5).
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from math import prod
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import counted, quote
from i2s_spec.gguf.header import StoredFloat, StoredInt, StoredList
from i2s_spec.gguf.source import CHUNK
from i2s_spec.schema import limits, types
from i2s_spec.schema.types import VALUE_FORMATS, VALUE_LABELS, TensorType, ValueType

if TYPE_CHECKING:
    import numpy as np

#: A value's type as callers give it: the type, its number, or its label.
Kind = ValueType | int | str

#: A value's type in full: `(ARRAY, ARRAY, STRING)` is an array of arrays of strings.
_Kinds = tuple[ValueType, ...]

_NUMPY: Final = {
    ValueType.UINT8: "u1", ValueType.INT8: "i1", ValueType.UINT16: "u2", ValueType.INT16: "i2", ValueType.UINT32: "u4",
    ValueType.INT32: "i4", ValueType.FLOAT32: "f4", ValueType.BOOL: "b1", ValueType.UINT64: "u8",
    ValueType.INT64: "i8", ValueType.FLOAT64: "f8",
}  # fmt: skip
_OF_NUMPY: Final = {dtype: kind for kind, dtype in _NUMPY.items()} | {"f2": ValueType.FLOAT32}
_FLOATS: Final = (ValueType.FLOAT32, ValueType.FLOAT64)


def checked_key(key: str) -> bytes:
    """Return the bytes of a key that the format has; ValueError or TypeError for others (clause 2.4)."""
    if not isinstance(key, str):
        raise TypeError(f"a key is text, not {type(key).__name__}")
    if not key or not key.isascii() or not key.isprintable():
        raise ValueError(f"key {quote(key)}: a key is made of printable ASCII characters, at least one")
    if len(key) > limits.MAX_KEY_LENGTH:
        raise ValueError(f"key {quote(key)} has {counted(len(key), 'byte')}; the limit is {limits.MAX_KEY_LENGTH:,}")
    return key.encode("ascii")


def _kinds(type: Kind) -> _Kinds:
    """Return the type that a caller means."""
    if not isinstance(type, str):
        try:
            return (ValueType(type),)
        except ValueError:
            raise ValueError(f"there is no value type {type}; types 0 to 12 exist") from None
    label, bracket, rest = type.partition("[")
    kind = ValueType(VALUE_LABELS.index(label)) if label in VALUE_LABELS else ValueType.__members__.get(label.upper())
    if kind is None or (bracket and (kind != ValueType.ARRAY or rest[-1:] != "]")):
        raise ValueError(f"{quote(type)} is not a value type; the types are {', '.join(VALUE_LABELS)}, arr[u8], ...")
    return (kind, *_kinds(rest[:-1])) if bracket else (kind,)


def completed(type: Kind | None, element: Kind | None, value: Any) -> _Kinds:
    """Return the type in full, as far as it is not given as it follows from the value (clause 2.5).

    :raises ValueError, TypeError: for a type that does not exist, and a value that has none or not this one
    """
    if type is None:
        kinds: _Kinds = () if element is None else (ValueType.ARRAY,)
    else:
        kinds = _kinds(type)
    if element is not None:
        if kinds != (ValueType.ARRAY,):
            raise ValueError("an element type is for arrays whose type does not say it")
        kinds += _kinds(element)
    if not kinds or kinds[-1] == ValueType.ARRAY:
        found = _inferred(value)
        if found[: len(kinds)] != kinds:
            raise TypeError(f"{full_label(kinds)} takes a list, not {found[min(len(kinds), len(found)) - 1].label}")
        kinds = found
    if len(kinds) - 1 > limits.MAX_ARRAY_DEPTH:
        raise ValueError(f"the array is nested {len(kinds) - 1} levels deep; the limit is {limits.MAX_ARRAY_DEPTH}")
    return kinds


def full_label(kinds: Sequence[ValueType]) -> str:
    """Return the label of a type in full: `arr[arr[u8]]`."""
    return "arr[" * (len(kinds) - 1) + kinds[-1].label + "]" * (len(kinds) - 1)


def _inferred(value: Any, depth: int = 0) -> _Kinds:
    """Return the type that follows from a value, or that it has in the file that it was read from."""
    if isinstance(value, StoredInt | StoredFloat) or (isinstance(value, StoredList) and not value):
        return value.stored_as
    if _is_numeric(value):
        return (*(ValueType.ARRAY,) * value.ndim, _OF_NUMPY[value.dtype.str[1:]])
    if _sort(type(value)) != "list":
        return _common((value,), depth)
    if depth > limits.MAX_ARRAY_DEPTH:  # a list may also hold itself
        raise ValueError(f"the array is nested more than {counted(limits.MAX_ARRAY_DEPTH, 'level')} deep")
    return (ValueType.ARRAY, *_common(value, depth + 1))


def _common(values: Sequence[Any], depth: int) -> _Kinds:
    """Return the narrowest type that holds all the values."""
    sorts = {_sort(kind) for kind in set(map(type, values))}
    if sorts == {"list"}:
        found = {_inferred(value, depth) for value in values if len(value) or isinstance(value, StoredList)}
        if len(found) == 1:
            return found.pop()
        return (ValueType.ARRAY, *_common([item for value in values for item in value], depth + 1))
    if not sorts:
        raise ValueError("an empty array does not say what it holds; give its element type")
    if sorts == {"text"}:
        return (ValueType.STRING,)
    if sorts == {"bool"}:
        return (ValueType.BOOL,)
    stored: set[_Kinds | None] = (
        {getattr(value, "stored_as", None) for value in values} if sorts <= {"int", "float"} else set()
    )
    if len(stored) == 1 and (kinds := stored.pop()) is not None:
        return kinds
    if sorts == {"int"}:
        least, most = int(min(values)), int(max(values))
        for kind in (ValueType.UINT32, ValueType.INT32, ValueType.UINT64, ValueType.INT64):
            low, high = _range(kind)
            if low <= least and most <= high:
                return (kind,)
        raise ValueError(f"no integer type holds {least if least == most else f'both {least} and {most}'}")
    if sorts <= {"int", "float"}:
        return (ValueType.FLOAT32,)
    raise TypeError(f"an array holds elements of one type, not {', '.join(sorted(sorts))}")


def _sort(kind: type) -> str:
    """Return the name of what values of a Python type become in a file."""
    if issubclass(kind, str | bytes | bytearray):
        return "text"
    if kind is bool or kind.__name__ in ("bool", "bool_"):
        return "bool"
    if issubclass(kind, Integral):
        return "int"
    if issubclass(kind, Real):
        return "float"
    if issubclass(kind, Sequence) or kind.__name__ == "ndarray":
        return "list"
    raise TypeError(f"GGUF has no type for {kind.__name__}")


def _is_numeric(value: Any) -> bool:
    """Whether a value is a NumPy scalar or array of numbers that GGUF has a type for."""
    return getattr(getattr(value, "dtype", None), "str", "")[1:] in _OF_NUMPY


def _range(kind: ValueType) -> tuple[int, int]:
    if kind == ValueType.BOOL:
        return 0, 1
    code = VALUE_FORMATS[kind]
    bits = 8 * struct.calcsize("=" + code)
    return (0, (1 << bits) - 1) if code.isupper() else (-(1 << bits - 1), (1 << bits - 1) - 1)


def encoded(value: Any, kinds: _Kinds, prefix: str) -> bytes:
    """Return the bytes of a value after its type (clause 2.5).

    :param prefix: `<` or `>`, the byte order as `struct` and NumPy write it
    :raises ValueError, TypeError: for a value that the type cannot hold
    """
    if kinds[0] == ValueType.ARRAY:
        count, items = _items(value, kinds[1:], prefix)
        return struct.pack(prefix + "IQ", kinds[1], count) + items
    if kinds[0] == ValueType.STRING:
        text = _text(value)
        return struct.pack(prefix + "Q", len(text)) + text
    if isinstance(value, bytes | bytearray):
        count, data = _raw(bytes(value), kinds[0])
        if count != 1:
            raise ValueError(f"{kinds[0].label} takes one number; the bytes hold {count:,}")
        return data
    if _is_numeric(value) and value.ndim == 0:
        return _cast(value.reshape(-1), kinds[0], prefix)
    return _packed((value,), kinds[0], prefix)


def _items(value: Any, kinds: _Kinds, prefix: str) -> tuple[int, bytes]:
    """Return number and bytes of an array's elements."""
    kind = kinds[0]
    if kind in VALUE_FORMATS:
        if isinstance(value, bytes | bytearray):
            return _raw(bytes(value), kind)
        if _is_numeric(value) and value.ndim == 1:
            return len(value), _cast(value, kind, prefix)
    if _sort(type(value)) != "list":
        raise TypeError(f"an array takes a list, not {type(value).__name__}")
    if kind == ValueType.ARRAY:
        return len(value), b"".join(encoded(item, kinds, prefix) for item in value)
    if kind == ValueType.STRING:
        length = struct.Struct(prefix + "Q").pack
        return len(value), b"".join([length(len(text)) + text for text in _texts(value)])
    return len(value), _packed(value, kind, prefix)


def _texts(values: Sequence[Any]) -> list[bytes]:
    """All of them: vocabularies have hundreds of thousands, nearly always of plain text."""
    if set(map(type, values)) <= {str}:
        with suppress(UnicodeEncodeError):
            return [value.encode("utf-8", "surrogateescape") for value in values]
    return list(map(_text, values))


def _text(value: Any) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ValueError(f"the text {quote(value)} has a lone surrogate, which UTF-8 cannot hold") from None
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    raise TypeError(f"str takes text, not {type(value).__name__}")


def _raw(data: bytes, kind: ValueType) -> tuple[int, bytes]:
    width = struct.calcsize("=" + VALUE_FORMATS[kind])
    if len(data) % width:
        raise ValueError(f"{counted(len(data), 'byte is', 'bytes are')} no whole number of {kind.label}")
    if kind == ValueType.BOOL and data.strip(b"\0\1"):
        raise ValueError("a bool is stored as the byte 0 or 1")
    return len(data) // width, data


def _packed(values: Sequence[Any], kind: ValueType, prefix: str) -> bytes:
    """Return the bytes of Python numbers."""
    sorts = {_sort(sort) for sort in set(map(type, values))}
    if kind == ValueType.BOOL:
        if sorts <= {"bool", "int"} and all(value in (0, 1) for value in values):
            return bytes(map(int, values))
        raise TypeError("bool takes True and False")
    words, allowed = ("numbers", {"int", "float"}) if kind in _FLOATS else ("integers", {"int"})
    if not sorts <= allowed:
        raise TypeError(f"{kind.label} takes {words}, not {', '.join(sorted(sorts - allowed))}")
    code = VALUE_FORMATS[kind]
    try:
        return struct.pack(f"{prefix}{len(values)}{code}", *values)
    except (struct.error, OverflowError):
        pass
    for value in values:
        try:
            struct.pack(prefix + code, value)
        except (struct.error, OverflowError):
            raise _unfit(value, kind) from None
    raise AssertionError("one of the values must not fit")


def _cast(array: np.ndarray[Any, Any], kind: ValueType, prefix: str) -> bytes:
    """Return the bytes of a NumPy array's numbers, converted where every one of them fits."""
    import numpy as np

    own, want = array.dtype.str[1:], _NUMPY[kind]
    if own == want:  # moved as integers, so that no NaN is touched
        bits = np.ascontiguousarray(array).view(unsigned(array))
        return bits.astype(f"{prefix}{bits.dtype.str[1:]}", copy=False).tobytes()
    if own[0] not in {"f": "iuf", "b": "iu"}.get(want[0], "iu"):
        raise TypeError(f"{kind.label} does not take an array of {array.dtype}")
    if want[0] != "f" and array.size:
        low, high = _range(kind)
        for value in (int(array.min()), int(array.max())):
            if not low <= value <= high:
                raise _unfit(value, kind)
    with np.errstate(all="ignore"):
        cast = array.astype(prefix + want)
    if want[0] == "f":
        lost = np.isinf(cast) & np.isfinite(array)
        if lost.any():
            raise _unfit(array[lost.argmax()], kind)
    return cast.tobytes()


def _unfit(value: Any, kind: ValueType) -> ValueError:
    if kind in _FLOATS:
        return ValueError(f"{value} is beyond the largest {kind.label}")
    low, high = _range(kind)
    return ValueError(f"{value} does not fit {kind.label}, which holds {low} to {high}")


def unsigned(array: np.ndarray[Any, Any]) -> np.dtype[Any]:
    """Return the unsigned integers of an array's width and byte order."""
    import numpy as np

    return np.dtype(f"u{array.dtype.itemsize}").newbyteorder(array.dtype.byteorder)


# --- encode tensor ---------------------------------------------------------------------------------------------------
# Tensors: name, type and shape are checked, data is made in parts.
#
# Data may be bytes, an array or a callable; whichever it is, what comes out are chunks of bytes, counted against those
# that type and shape take (clauses 2.6, 2.7; 5.2 for I2_S).


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
        """Yield the data, with an error before the first byte too many and after the last of too few."""
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
    """Return the bytes of a name that a tensor can have; ValueError or TypeError for others (clause 2.6)."""
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
    """Return the type that a caller means; `size`, in bytes, tells between the types of one number. ValueError for
    none.
    """
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
    """Return a function that yields the bytes of a tensor.

    :param shape: [..., ne1, ne0]
    :raises TypeError: for an array of another type
    :raises ValueError: for an array of another shape"""
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
    """Yield the words of an array in the byte order asked for; as integers, so that no NaN is touched."""
    import numpy as np

    width = array.dtype.itemsize
    flat = np.ascontiguousarray(array).reshape(-1).view(unsigned(array))
    for at in range(0, flat.size, step := CHUNK // width):
        part = flat[at : at + step].astype(f"{prefix}u{width}", copy=False)
        yield part.view(np.uint8).data


def _zeros(size: int) -> Iterator[bytes]:
    for at in range(0, size, CHUNK):
        yield bytes(min(CHUNK, size - at))
