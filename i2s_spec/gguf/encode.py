"""This module defines how a value becomes the bytes of a key-value: the type that is meant, and the value in it.

A value is checked against its type before any of it is written: a number that does not fit is refused, never cut, and
no NaN and no odd text is changed on its way (clause 2.5).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import counted, quote
from i2s_spec.schema import limits
from i2s_spec.schema.types import VALUE_FORMATS, VALUE_LABELS, ValueType

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
    """The bytes of a key that the format has; ValueError or TypeError for others (clause 2.4)."""
    if not isinstance(key, str):
        raise TypeError(f"a key is text, not {type(key).__name__}")
    if not key or not key.isascii() or not key.isprintable():
        raise ValueError(f"key {quote(key)}: a key is made of printable ASCII characters, at least one")
    if len(key) > limits.MAX_KEY_LENGTH:
        raise ValueError(f"key {quote(key)} has {counted(len(key), 'byte')}; the limit is {limits.MAX_KEY_LENGTH:,}")
    return key.encode("ascii")


def _kinds(type: Kind) -> _Kinds:
    """The type that a caller means."""
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
    """The type in full, as far as it is not given as it follows from the value (clause 2.5).

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
            raise TypeError(f"{_label(kinds)} takes a list, not {found[min(len(kinds), len(found)) - 1].label}")
        kinds = found
    if len(kinds) - 1 > limits.MAX_ARRAY_DEPTH:
        raise ValueError(f"the array is nested {len(kinds) - 1} levels deep; the limit is {limits.MAX_ARRAY_DEPTH}")
    return kinds


def _label(kinds: _Kinds) -> str:
    return "arr[" * (len(kinds) - 1) + kinds[-1].label + "]" * (len(kinds) - 1)


def _inferred(value: Any, depth: int = 0) -> _Kinds:
    """The type that follows from a value."""
    if _is_numeric(value):
        return (*(ValueType.ARRAY,) * value.ndim, _OF_NUMPY[value.dtype.str[1:]])
    if _sort(type(value)) != "list":
        return _common((value,), depth)
    if depth > limits.MAX_ARRAY_DEPTH:  # a list may also hold itself
        raise ValueError(f"the array is nested more than {counted(limits.MAX_ARRAY_DEPTH, 'level')} deep")
    return (ValueType.ARRAY, *_common(value, depth + 1))


def _common(values: Sequence[Any], depth: int) -> _Kinds:
    """The narrowest type that holds all the values."""
    sorts = {_sort(kind) for kind in set(map(type, values))}
    if sorts == {"list"}:
        found = {_inferred(value, depth) for value in values if len(value)}
        if len(found) == 1:
            return found.pop()
        return (ValueType.ARRAY, *_common([item for value in values for item in value], depth + 1))
    if not sorts:
        raise ValueError("an empty array does not say what it holds; give its element type")
    if sorts == {"text"}:
        return (ValueType.STRING,)
    if sorts == {"bool"}:
        return (ValueType.BOOL,)
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
    """What a Python type stands for in a file."""
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
    """The bytes of a value after its type (clause 2.5).

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
    """Number and bytes of an array's elements."""
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
    """The bytes of Python numbers."""
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
    """The bytes of a NumPy array's numbers, converted where every one of them fits."""
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
    """The unsigned integers of an array's width and byte order."""
    import numpy as np

    return np.dtype(f"u{array.dtype.itemsize}").newbyteorder(array.dtype.byteorder)
