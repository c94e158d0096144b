"""This module defines how a GGUF file is written: what is added is checked at once, what is written is streamed.

A writer is strict: what it writes breaks no rule of the container (clauses 2.2 to 2.7). Key-values are kept encoded;
tensor data may be given as a callable that makes it when its turn comes, so that a file of any size is written with a
MiB of memory. A path gets its file complete or not at all (see `i2s_spec.gguf.output`).

    >>> import io
    >>> out = io.BytesIO()
    >>> with Writer(out) as writer:
    ...     writer.add("general.architecture", "bitnet-b1.58")
    ...     writer.add("tokenizer.ggml.token_type", [1, 1, 3], "arr[i32]")
    ...     writer.add_tensor("output_norm.weight", (2,), "F32", bytes(8))
    >>> len(out.getvalue())
    224
"""

from __future__ import annotations

import io
import operator
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import FormatError, Span, quote
from i2s_spec.gguf import _scanner
from i2s_spec.gguf.output import OutputFile, Target, refuse_taken, write_all
from i2s_spec.gguf.source import CHUNK, Buffer, BufferSource
from i2s_spec.schema import checks, limits, types
from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.magic import MAGIC
from i2s_spec.schema.types import VALUE_FORMATS, VALUE_LABELS, TensorType, ValueType, padded

if TYPE_CHECKING:
    import numpy as np

#: Called with the bytes written so far and the bytes of the whole file.
Progress = Callable[[int, int], object]

_ALIGNMENT: Final = b"general.alignment"
_MARKS: Final = {"little": "<", "big": ">"}
_INT64_END: Final = 1 << 63


class Writer:
    """A GGUF file in the making; as a context manager it writes the file where the block ends, nothing where it fails.

    :param target: a path, or a binary stream, which is written from its position on and not taken back on failure
    :param version: 3, or 2, which is the same in bytes but is defined for little-endian files only (clause 2.3)
    :param byte_order: `little` or `big`, of everything in the file
    :param alignment: of tensors, in bytes; one other than 32 is stored as `general.alignment` (clause 2.7)
    :param force: replace an existing file
    :param progress: called now and then with (bytes written, bytes of the file)
    :raises FileExistsError: where the path is taken and `force` is not given
    :raises ValueError: for a version, byte order or alignment that GGUF does not have
    """

    def __init__(
        self,
        target: Target,
        *,
        version: int = 3,
        byte_order: ByteOrder = "little",
        alignment: int | None = None,
        force: bool = False,
        progress: Progress | None = None,
    ) -> None:
        if byte_order not in _MARKS:
            raise ValueError(f"the byte order is {quote(str(byte_order))}; it must be 'little' or 'big'")
        if version not in limits.VERSIONS:
            raise ValueError(f"version {version} is not written; versions 2 and 3 are")
        if version == 2 and byte_order == "big":
            raise ValueError("version 2 is little-endian; big-endian files are version 3")
        self.version = version
        self.byte_order: ByteOrder = byte_order
        self._mark = _MARKS[byte_order]
        self._force = force
        self._progress = progress
        self._records: dict[bytes, bytes] = {}
        self._tensors: dict[bytes, _Planned] = {}
        self._alignment: int | None = None
        self._open = True
        if alignment is not None:
            self._align(ValueType.UINT32, operator.index(alignment))
        if isinstance(target, str | os.PathLike):
            refuse_taken(target, force)
        elif not hasattr(target, "write") or isinstance(target, io.TextIOBase):
            raise TypeError(f"a GGUF file is written to a path or a binary stream, not to {type(target).__name__}")
        self._target = target

    @property
    def alignment(self) -> int:
        """Bytes that tensors are aligned to."""
        return limits.DEFAULT_ALIGNMENT if self._alignment is None else self._alignment

    @property
    def size(self) -> int:
        """Bytes of the file if it were written now."""
        return self._data_start() + sum(padded(tensor.nbytes, self.alignment) for tensor in self._tensors.values())

    def add(self, key: str, value: Any, type: Kind | None = None, element: Kind | None = None) -> None:
        """Add a key-value (clauses 2.4, 2.5).

        A type that is not given follows from the value: bool, str (or bytes), int (u32 where it fits, else i32, u64 or
        i64), float (f32), sequences (an array of what fits all its elements); NumPy values keep their own type. Strings
        are written as UTF-8, surrogate escapes as the bytes they stand for. `bytes` for a number, or an array of
        numbers, are its bytes in the file's byte order.

        :param key: ASCII, at most 65,535 characters
        :param type: a `ValueType` or its label, for arrays also as `arr[str]` or `arr[arr[u8]]`
        :param element: type of an array's elements, if `type` does not say it
        :raises ValueError: for a second value of a key, and for a number that the type cannot hold
        :raises TypeError: for a value that is not of the type's sort
        """
        self._require_open()
        name = _checked_key(key)
        with _about("key", key):
            kinds = _completed(type, element, value)
            data = _encoded(value, kinds, self._mark)
        length = struct.pack(self._mark + "Q", len(name))
        self._add(name, kinds[0], data, length + name + struct.pack(self._mark + "I", kinds[0]) + data)

    def add_raw(self, entry: Buffer) -> None:
        """Add a key-value as it stands in another file of the same byte order, byte for byte.

        Only what makes the file readable is checked; a key or text that is odd there stays so.

        :param entry: the whole record: length and bytes of the key, type, value
        :raises ValueError: where that is not exactly one well-formed record, or its key has a value already
        """
        self._require_open()
        record = bytes(entry)
        head = self._header(0, 1)
        index = _scanner.scan(BufferSource(head + record))
        if index.fault is not None:
            raise ValueError(f"this is no well-formed key-value: {index.fault.message}") from index.fault
        if index.infos_end != len(head) + len(record):
            raise ValueError(f"{len(head) + len(record) - (index.infos_end or 0):,} bytes follow the key-value")
        _, name, kind, _, _, value, _ = index.key(0)
        self._add(name, ValueType(kind), record[value - len(head) :], record)

    def add_tensor(
        self,
        name: str,
        shape: Sequence[int],
        type: TensorType | str | int,
        data: Any = None,
        size: int | None = None,
    ) -> None:
        """Add a tensor (clauses 2.6, 2.7); tensors are laid out in the order in which they are added.

        :param name: 1 to 63 bytes of UTF-8 without control characters
        :param shape: one to four lengths in NumPy's order, [..., ne1, ne0]
        :param type: a `TensorType`, its name or its number; where forks gave one number to several types, `size` or the
            data's length tells which is meant
        :param data: bytes-like, in the file's byte order; or an array: of the type's own dtype (of uint16 for BF16), in
            either byte order, or of uint8, taken as bytes; or a callable that returns an iterable of bytes-likes, made
            and written one after another; or None, for zeros. It is read when the file is written.
        :param size: bytes of the data, to be compared with what shape and type take
        :raises ValueError: for a second tensor of the name, a shape that the type does not have, and data of another
            size than shape and type take (clause 5.2 for I2_S): of a callable when its turn comes
        :raises TypeError: for data of another sort
        """
        self._require_open()
        encoded = _checked_name(name)
        if encoded in self._tensors:
            raise ValueError(f"tensor {quote(name)} is there already")
        if len(self._tensors) >= limits.MAX_TENSORS:
            raise ValueError(f"a file holds at most {limits.MAX_TENSORS:,} tensors")
        shape = tuple(operator.index(length) for length in shape)
        with _about("tensor", name):
            if hasattr(data, "__array__"):  # NumPy's own, and what it understands
                import numpy as np

                data = np.asarray(data)
            length = _length(data)
            kind = _tensor_type(type, shape[::-1], length if size is None else size)
            _check_shape(shape, kind)
            chunks = _chunks(data, kind, shape, self._mark)
        tensor = _Planned(encoded, shape[::-1], kind, kind.nbytes(shape[::-1]), chunks)
        for known in (size, length):
            if known is not None and known != tensor.nbytes:
                raise tensor.misfit(known)
        self._tensors[encoded] = tensor

    def commit(self) -> None:
        """Write the file; nothing can be added afterwards.

        :raises ValueError: where a callable gives other than the bytes that its tensor takes
        :raises OSError: where the file cannot be written; then it is not there
        """
        self._require_open()
        self._open = False
        size = self.size
        if size >= _INT64_END:
            raise ValueError(f"the file would have {size:,} bytes; no file can")
        if isinstance(self._target, str | os.PathLike):
            with OutputFile(self._target, force=self._force, size=size) as output:
                self._write(output.write, size)
        else:
            stream = self._target
            self._write(lambda piece: write_all(stream, piece), size)

    def discard(self) -> None:
        """Forget everything; nothing has been written."""
        self._open = False
        self._records.clear()
        self._tensors.clear()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self.discard()
        elif self._open:
            self.commit()

    def _require_open(self) -> None:
        if not self._open:
            raise ValueError("this file has been written or given up; nothing can be added")

    def _add(self, name: bytes, kind: ValueType, value: bytes, record: bytes) -> None:
        if name in self._records:
            raise ValueError(f"key {quote(name)} has a value already")
        if len(self._records) >= limits.MAX_KEYS - 1:  # one is left for general.alignment
            raise ValueError(f"a file holds at most {limits.MAX_KEYS - 1:,} key-values")
        if name == _ALIGNMENT:
            self._align(kind, int.from_bytes(value, self.byte_order))
        self._records[name] = record

    def _align(self, kind: ValueType, value: int) -> None:
        try:
            checks.alignment(kind, value, Span(0, 0, ""))
        except FormatError as error:
            raise ValueError(error.message) from None
        if value % 8:
            raise ValueError(f"general.alignment is {value}; it must be a multiple of 8")
        if self._alignment not in (None, value):
            raise ValueError(f"general.alignment is given as {self._alignment} and as {value}")
        self._alignment = value

    def _header(self, tensors: int, keys: int) -> bytes:
        return MAGIC + struct.pack(self._mark + "IQQ", self.version, tensors, keys)

    def _stored(self) -> list[bytes]:
        """The records of all key-values, with that of the alignment where it must be said."""
        records = list(self._records.values())
        if self.alignment != limits.DEFAULT_ALIGNMENT and _ALIGNMENT not in self._records:
            value = struct.pack(self._mark + "II", ValueType.UINT32, self.alignment)
            records.append(struct.pack(self._mark + "Q", len(_ALIGNMENT)) + _ALIGNMENT + value)
        return records

    def _infos_end(self) -> int:
        infos = sum(len(t.name) + 24 + 8 * len(t.ne) for t in self._tensors.values())
        return checks.HEADER_BYTES + sum(map(len, self._stored())) + infos

    def _data_start(self) -> int:
        """Where the tensors begin; without tensors nothing is aligned, and the file ends with its last key-value."""
        return checks.data_start(self._infos_end(), self.alignment) if self._tensors else self._infos_end()

    def _write(self, write: Callable[[Buffer], None], size: int) -> None:
        done = told = 0
        for piece in self._pieces():
            if not piece:
                continue
            write(piece)
            done += len(piece)
            if self._progress is not None and (done - told >= CHUNK or done == size):
                told = done
                self._progress(done, size)
        assert done == size

    def _pieces(self) -> Iterator[Buffer]:
        """The bytes of the file, in order."""
        records = self._stored()
        yield self._header(len(self._tensors), len(records))
        yield from records
        offset = 0
        for tensor in self._tensors.values():
            yield tensor.info(offset, self._mark)
            offset += padded(tensor.nbytes, self.alignment)
        yield bytes(self._data_start() - self._infos_end())
        for tensor in self._tensors.values():
            yield from tensor.pieces()
            yield bytes(-tensor.nbytes % self.alignment)


# Tensors.


class _Planned(NamedTuple):
    """A tensor as it will be written."""

    name: bytes
    ne: tuple[int, ...]
    type: TensorType
    nbytes: int
    chunks: Callable[[], Iterable[Any]]

    def info(self, offset: int, mark: str) -> bytes:
        head = struct.pack(mark + "Q", len(self.name)) + self.name
        return head + struct.pack(f"{mark}I{len(self.ne)}QiQ", len(self.ne), *self.ne, self.type.number, offset)

    def pieces(self) -> Iterator[memoryview]:
        """The data, with an error before the first byte too many and after the last of too few."""
        done = 0
        chunks = self.chunks()
        for chunk in (chunks,) if isinstance(chunks, bytes | bytearray | memoryview) else chunks:
            view = memoryview(chunk)
            if view.itemsize != 1:
                raise TypeError(f"tensor {quote(self.name)}: chunks are bytes, not words of {view.itemsize} bytes")
            done += view.nbytes
            if done > self.nbytes:
                raise self.misfit(done, "or more ")
            if view.nbytes:
                yield view.cast("B")
        if done < self.nbytes:
            raise self.misfit(done)

    def misfit(self, got: int, more: str = "") -> ValueError:
        takes = f"{self.type.name} of shape {list(self.ne[::-1])} takes {self.nbytes:,}"
        return ValueError(f"tensor {quote(self.name)}: the data has {got:,} bytes {more}and {takes}")


@contextmanager
def _about(what: str, name: str) -> Iterator[None]:
    """Say in an error what it is about."""
    try:
        yield
    except (TypeError, ValueError) as error:
        sort = TypeError if isinstance(error, TypeError) else ValueError
        raise sort(f"{what} {quote(name)}: {error}") from error


def _checked_key(key: str) -> bytes:
    if not isinstance(key, str):
        raise TypeError(f"a key is text, not {type(key).__name__}")
    if not key or not key.isascii() or not key.isprintable():
        raise ValueError(f"key {quote(key)}: a key is made of printable ASCII characters, at least one")
    if len(key) > limits.MAX_KEY_LENGTH:
        raise ValueError(f"key {quote(key)} has {len(key):,} bytes; the limit is {limits.MAX_KEY_LENGTH:,}")
    return key.encode("ascii")


def _checked_name(name: str) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"a tensor's name is text, not {type(name).__name__}")
    try:
        encoded = name.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"tensor {quote(name)}: the name is not valid Unicode") from None
    if not 1 <= len(encoded) <= limits.TENSOR_NAME_BYTES:
        most = limits.TENSOR_NAME_BYTES
        raise ValueError(f"tensor {quote(name)}: the name has {len(encoded):,} bytes; it must have 1 to {most}")
    if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in name):
        raise ValueError(f"tensor {quote(name)}: the name has a control character")
    return encoded


def _tensor_type(type: TensorType | str | int, ne: tuple[int, ...], size: int | None) -> TensorType:
    if isinstance(type, TensorType):
        return type
    if isinstance(type, str):
        if type.upper() not in types.BY_NAME:
            raise ValueError(f"{quote(type)} is no tensor type")
        return types.BY_NAME[type.upper()]
    found = types.reading(operator.index(type), ne, size, alignment=1)
    if found is None:
        raise ValueError(f"no tensor type has the number {type}")
    return found


def _check_shape(shape: tuple[int, ...], kind: TensorType) -> None:
    if not 1 <= len(shape) <= limits.MAX_DIMENSIONS:
        raise ValueError(f"it has {len(shape)} dimensions; 1 to {limits.MAX_DIMENSIONS} are possible")
    if min(shape) < 1:
        raise ValueError(f"its shape is {list(shape)}; every length must be at least 1")
    if prod(shape) >= _INT64_END:
        raise ValueError(f"its shape {list(shape)} has {prod(shape):,} elements; there must be fewer than 2^63")
    if shape[-1] % kind.block:
        raise ValueError(f"its rows have {shape[-1]:,} elements; {kind.name} packs blocks of {kind.block}")


def _length(data: Any) -> int | None:
    """Bytes of tensor data, where that is known before it is made."""
    if data is None or callable(data):
        return None
    if hasattr(data, "dtype"):
        return int(data.nbytes)
    try:
        return memoryview(data).nbytes
    except TypeError:
        raise TypeError(f"tensor data is bytes, an array or a callable, not {type(data).__name__}") from None


def _chunks(data: Any, kind: TensorType, shape: tuple[int, ...], mark: str) -> Callable[[], Iterable[Any]]:
    """What makes the bytes of a tensor."""
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
    return lambda: _words(data, mark)


def _words(array: np.ndarray[Any, Any], mark: str) -> Iterator[memoryview]:
    """The words of an array in the byte order asked for; as integers, so that no NaN is touched."""
    import numpy as np

    width = array.dtype.itemsize
    flat = np.ascontiguousarray(array).reshape(-1).view(_unsigned(array))
    for at in range(0, flat.size, step := CHUNK // width):
        part = flat[at : at + step].astype(f"{mark}u{width}", copy=False)
        yield part.view(np.uint8).data


def _unsigned(array: np.ndarray[Any, Any]) -> np.dtype[Any]:
    """The unsigned integers of an array's width and byte order."""
    import numpy as np

    return np.dtype(f"u{array.dtype.itemsize}").newbyteorder(array.dtype.byteorder)


def _zeros(size: int) -> Iterator[bytes]:
    for at in range(0, size, CHUNK):
        yield bytes(min(CHUNK, size - at))


# Values.

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
        raise ValueError(f"{quote(type)} is no value type; the types are {', '.join(VALUE_LABELS)}, arr[u8], ...")
    return (kind, *_kinds(rest[:-1])) if bracket else (kind,)


def _completed(type: Kind | None, element: Kind | None, value: Any) -> _Kinds:
    """The type in full, as far as it is not given as it follows from the value."""
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
            raise TypeError(f"{_label(kinds)} takes a list, not {found[len(kinds) - 1].label}")
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
        raise ValueError(f"the array is nested more than {limits.MAX_ARRAY_DEPTH} levels deep")
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


def _encoded(value: Any, kinds: _Kinds, mark: str) -> bytes:
    """The bytes of a value behind its type."""
    if kinds[0] == ValueType.ARRAY:
        count, items = _items(value, kinds[1:], mark)
        return struct.pack(mark + "IQ", kinds[1], count) + items
    if kinds[0] == ValueType.STRING:
        text = _text(value)
        return struct.pack(mark + "Q", len(text)) + text
    if isinstance(value, bytes | bytearray):
        count, data = _raw(bytes(value), kinds[0])
        if count != 1:
            raise ValueError(f"{kinds[0].label} takes one number; the bytes hold {count:,}")
        return data
    if _is_numeric(value) and value.ndim == 0:
        return _cast(value.reshape(-1), kinds[0], mark)
    return _packed((value,), kinds[0], mark)


def _items(value: Any, kinds: _Kinds, mark: str) -> tuple[int, bytes]:
    """Number and bytes of an array's elements."""
    kind = kinds[0]
    if kind in VALUE_FORMATS:
        if isinstance(value, bytes | bytearray):
            return _raw(bytes(value), kind)
        if _is_numeric(value) and value.ndim == 1:
            return len(value), _cast(value, kind, mark)
    if _sort(type(value)) != "list":
        raise TypeError(f"an array takes a list, not {type(value).__name__}")
    if kind == ValueType.ARRAY:
        return len(value), b"".join(_encoded(item, kinds, mark) for item in value)
    if kind == ValueType.STRING:
        length = struct.Struct(mark + "Q").pack
        return len(value), b"".join(part for text in map(_text, value) for part in (length(len(text)), text))
    return len(value), _packed(value, kind, mark)


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
        raise ValueError(f"{len(data):,} bytes are no whole number of {kind.label}")
    if kind == ValueType.BOOL and data.strip(b"\0\1"):
        raise ValueError("a bool is stored as the byte 0 or 1")
    return len(data) // width, data


def _packed(values: Sequence[Any], kind: ValueType, mark: str) -> bytes:
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
        return struct.pack(f"{mark}{len(values)}{code}", *values)
    except (struct.error, OverflowError):
        pass
    for value in values:
        try:
            struct.pack(mark + code, value)
        except (struct.error, OverflowError):
            raise _unfit(value, kind) from None
    raise AssertionError("one of the values must not fit")


def _cast(array: np.ndarray[Any, Any], kind: ValueType, mark: str) -> bytes:
    """The bytes of a NumPy array's numbers, converted where every one of them fits."""
    import numpy as np

    own, want = array.dtype.str[1:], _NUMPY[kind]
    if own == want:  # moved as integers, so that no NaN is touched
        bits = np.ascontiguousarray(array).view(_unsigned(array))
        return bits.astype(f"{mark}{bits.dtype.str[1:]}", copy=False).tobytes()
    if own[0] not in {"f": "iuf", "b": "iu"}.get(want[0], "iu"):
        raise TypeError(f"{kind.label} does not take an array of {array.dtype}")
    if want[0] != "f" and array.size:
        low, high = _range(kind)
        for value in (int(array.min()), int(array.max())):
            if not low <= value <= high:
                raise _unfit(value, kind)
    with np.errstate(all="ignore"):
        cast = array.astype(mark + want)
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
