"""Writing of a GGUF file: what is added is checked at once, what is written is streamed.

A writer is strict: what it writes breaks no rule of the container (clauses 2.2 to 2.7). Key-values are kept encoded;
tensor data may be given as a callable that makes it when its turn comes, so that a file of any size is written with a
MiB of memory. A path gets its file complete or not at all (see `i2s_spec.gguf.atomic_file`).

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from i2s_spec.errors import FormatError, Span, counted, quote
from i2s_spec.gguf import _scanner
from i2s_spec.gguf import encode as tensors
from i2s_spec.gguf import encode as values
from i2s_spec.gguf.atomic_file import OutputFile, Target, refuse_taken, write_all
from i2s_spec.gguf.encode import Kind, Planned
from i2s_spec.gguf.source import CHUNK, Buffer, BufferSource
from i2s_spec.schema import faults, limits
from i2s_spec.schema.faults import MAGIC, ByteOrder
from i2s_spec.schema.types import READINGS, TensorType, ValueType, common_reading, padded, reading

#: Called with the bytes written so far and the bytes of the whole file.
Progress = Callable[[int, int], object]

#: Bytes of pieces that are written together.
SMALL_WRITE: Final = 1 << 16

_ALIGNMENT: Final = b"general.alignment"


class Writer:
    """Builds a GGUF file; as a context manager, it writes the file if the block ends without an error.

    :param target: a path, or a binary stream, which is written from its current position and not restored on failure
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
        if byte_order not in ("little", "big"):
            raise ValueError(f"the byte order is {quote(str(byte_order))}; it must be 'little' or 'big'")
        if version not in limits.VERSIONS:
            raise ValueError(f"version {version} is not written; versions 2 and 3 are")
        if version == 2 and byte_order == "big":
            raise ValueError("version 2 is little-endian; big-endian files are version 3")
        self.version = version
        self.byte_order: ByteOrder = byte_order
        self._prefix = faults.order_prefix(byte_order)
        self._force = force
        self._progress = progress
        self._records: dict[bytes, bytes] = {}
        self._tensors: dict[bytes, Planned] = {}
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
        alignment = self.alignment
        return self._data_start() + sum(padded(tensor.nbytes, alignment) for tensor in self._tensors.values())

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
        :raises TypeError: for a value that does not match the type
        """
        self._require_open()
        name = values.checked_key(key)
        with _about("key", key):
            kinds = values.completed(type, element, value)
            data = values.encoded(value, kinds, self._prefix)
        length = struct.pack(self._prefix + "Q", len(name))
        self._add(name, kinds[0], data, length + name + struct.pack(self._prefix + "I", kinds[0]) + data)

    def add_raw(self, entry: Buffer) -> None:
        """Add a key-value as it stands in another file of the same byte order, byte for byte.

        Only the form is checked, so that the file stays readable; an unusual key or text is kept.

        :param entry: the whole record: length and bytes of the key, type, value
        :raises ValueError: where that is not exactly one well-formed record, or its key has a value already
        """
        self._require_open()
        record = bytes(entry)
        head = self._header(0, 1)
        index = _scanner.scan(BufferSource(head + record))
        if index.fault is not None:
            raise ValueError(f"this is not a well-formed key-value: {index.fault.message}") from index.fault
        if index.infos_end != len(head) + len(record):
            raise ValueError(
                f"{counted(len(head) + len(record) - (index.infos_end or 0), 'byte follows', 'bytes follow')} the key-value"
            )
        entry = index.key(0)
        self._add(entry.name, ValueType(entry.type), record[entry.value_start - len(head) :], record)

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
        encoded = tensors.checked_name(name)
        if encoded in self._tensors:
            raise ValueError(f"tensor {quote(name)} is there already")
        if len(self._tensors) >= limits.MAX_TENSORS:
            raise ValueError(f"a file holds at most {counted(limits.MAX_TENSORS, 'tensor')}")
        shape = tuple(operator.index(length) for length in shape)
        with _about("tensor", name):
            if hasattr(data, "__array__"):  # NumPy's own, and what it understands
                import numpy as np

                data = np.asarray(data)
            length = tensors.length(data)
            kind = tensors.tensor_type(type, shape[::-1], length if size is None else size)
            tensors.check_shape(shape, kind)
            chunks = tensors.chunks(data, kind, shape, self._prefix)
        tensor = Planned(encoded, shape[::-1], kind, kind.nbytes(shape[::-1]), chunks)
        for known in (size, length):
            if known is not None and known != tensor.nbytes:
                raise tensor.misfit(known)
        self._tensors[encoded] = tensor

    def commit(self) -> None:
        """Write the file; nothing can be added afterwards.

        :raises ValueError: where a callable gives other than the bytes that its tensor takes, and where a tensor would be
            read as another type of the same number, since both take the same room there
        :raises OSError: where the file cannot be written; then it is not there
        """
        self._require_open()
        self._open = False
        size = self.size
        if size >= limits.INT64_END:
            raise ValueError(f"the file would have {counted(size, 'byte')}; no file can")
        self._require_readings()
        if isinstance(self._target, str | os.PathLike):
            with OutputFile(self._target, force=self._force, size=size) as output:
                self._write(output.write, size)
        else:
            stream = self._target
            self._write(lambda piece: write_all(stream, piece), size)

    def discard(self) -> None:
        """Discard everything; nothing has been written."""
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
            raise ValueError(f"a file holds at most {counted(limits.MAX_KEYS - 1, 'key-value')}")
        if name == _ALIGNMENT:
            self._align(kind, int.from_bytes(value, self.byte_order))
        self._records[name] = record

    def _align(self, kind: ValueType, value: int) -> None:
        try:
            faults.alignment(kind, value, Span(0, 0, ""))
        except FormatError as error:
            raise ValueError(error.message) from None
        if value % 8:
            raise ValueError(f"general.alignment is {value}; it must be a multiple of 8")
        if self._alignment not in (None, value):
            raise ValueError(f"general.alignment is given as {self._alignment} and as {value}")
        self._alignment = value

    def _require_readings(self) -> None:
        """Refuse tensors that readers of the file would take for another type: one number may mean several (clause 2.6),
        and only the room up to the next tensor tells which."""
        shared: dict[int, list[Planned]] = {}
        for tensor in self._tensors.values():
            if len(readings := READINGS.get(tensor.type.number, ())) > 1 and tensor.type in readings:
                shared.setdefault(tensor.type.number, []).append(tensor)
        for number, alike in shared.items():
            extents = [(tensor.ne, padded(tensor.nbytes, self.alignment)) for tensor in alike]
            common = common_reading(number, extents, self.alignment)
            for tensor, (ne, size) in zip(alike, extents, strict=True):
                found = reading(number, ne, size, self.alignment, common)
                if found is not None and found.name != tensor.type.name:
                    raise ValueError(
                        f"tensor {quote(tensor.name)}: type {number} is {tensor.type.name} here, and the file would be read "
                        f"as if it were {found.name}: in {counted(size, 'byte')} both have room"
                    )

    def _header(self, tensors: int, keys: int) -> bytes:
        return MAGIC + struct.pack(self._prefix + "IQQ", self.version, tensors, keys)

    def _stored(self) -> list[bytes]:
        """Return the records of all key-values, with that of the alignment if it must be stated."""
        records = list(self._records.values())
        if self.alignment != limits.DEFAULT_ALIGNMENT and _ALIGNMENT not in self._records:
            value = struct.pack(self._prefix + "II", ValueType.UINT32, self.alignment)
            records.append(struct.pack(self._prefix + "Q", len(_ALIGNMENT)) + _ALIGNMENT + value)
        return records

    def _infos_end(self) -> int:
        infos = sum(len(t.name) + 24 + 8 * len(t.ne) for t in self._tensors.values())
        return faults.HEADER_BYTES + sum(map(len, self._stored())) + infos

    def _data_start(self) -> int:
        """Where the tensors begin; without tensors nothing is aligned, and the file ends with its last key-value."""
        return faults.data_start(self._infos_end(), self.alignment) if self._tensors else self._infos_end()

    def _write(self, write: Callable[[Buffer], None], size: int) -> None:
        done = reported = 0
        for piece in _joined(self._pieces()):
            write(piece)
            done += len(piece)
            if self._progress is not None and (done - reported >= CHUNK or done == size):
                reported = done
                self._progress(done, size)
        assert done == size

    def _pieces(self) -> Iterator[Buffer]:
        """Yield the bytes of the file, in order."""
        records = self._stored()
        yield self._header(len(self._tensors), len(records))
        yield from records
        offset, alignment = 0, self.alignment
        for tensor in self._tensors.values():
            yield tensor.info(offset, self._prefix)
            offset += padded(tensor.nbytes, alignment)
        yield bytes(self._data_start() - self._infos_end())
        for tensor in self._tensors.values():
            yield from tensor.pieces()
            yield bytes(-tensor.nbytes % alignment)


def _joined(pieces: Iterator[Buffer]) -> Iterator[Buffer]:
    """Yield the same bytes, the small pieces joined: files of very many small records have few writes."""
    held = bytearray()
    for piece in pieces:
        size = len(piece)
        if held and len(held) + size > SMALL_WRITE:
            yield held
            held = bytearray()
        if size > SMALL_WRITE:
            yield piece
        else:
            held += piece
    if held:
        yield held


@contextmanager
def _about(what: str, name: str) -> Iterator[None]:
    """Say in an error what it is about."""
    try:
        yield
    except (TypeError, ValueError) as error:
        sort = TypeError if isinstance(error, TypeError) else ValueError
        raise sort(f"{what} {quote(name)}: {error}") from error
