"""Safetensors files, read and written: a JSON header with the position of each tensor, then their bytes.

A file is `u64 length of the header, header, data`, all little-endian; offsets count from the start of the data. Tensors
are read in ranges and written as they are made, so files of any size take little memory. The usual library holds the
whole file that it writes, and its NumPy interface does not support BF16, in which checkpoints store scales.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple, TypeGuard

from i2s_spec.codec.shape import is_shape
from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.gguf.atomic_file import OutputFile, refuse_taken
from i2s_spec.gguf.source import CHUNK, Source, open_below, require_unchanged, source_of
from i2s_spec.schema import faults

#: Longest header that the format allows.
MOST_HEADER: Final = 100_000_000

#: Bytes of an element of each type.
WIDTHS: Final = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2,
    "F8_E5M2": 1, "F8_E4M3": 1, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip


class Stored(NamedTuple):
    """A tensor of a checkpoint: type, shape, and where its bytes are."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int
    source: Source

    @property
    def nbytes(self) -> int:
        return self.stop - self.start

    def read(self, start: int = 0, stop: int | None = None) -> bytes:
        """Return its bytes, or a range of them."""
        stop = self.nbytes if stop is None else stop
        return self.source.read(self.start + start, stop - start)

    def readinto(self, start: int, buffer: memoryview) -> None:
        """Fill a buffer with its bytes from a position on."""
        if start + buffer.nbytes > self.nbytes:
            raise ValueError(f"tensor {quote(self.name)} has {counted(self.nbytes, 'byte')}")
        self.source.readinto(self.start + start, buffer)


class Checkpoint(Mapping[str, Stored]):
    """The tensors of one or more safetensors files, by name.

    At the end of a `with` block without an error, it is checked whether a file changed.

    :param paths: a file, a folder (all `*.safetensors` in it), or several files; sources are closed with the others
    :raises FormatError: H101, H102 for a file that is not safetensors; S901, S902 for a file that cannot be read; S903
    at the end of a block, if a file changed
    """

    def __init__(self, paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str] | Source]) -> None:
        self.sources: list[Source] = []
        #: The texts of each file's header that are no tensors, by the file's name.
        self.metadata: dict[str, Any] = {}
        self._tensors: dict[str, Stored] = {}
        try:
            for path in _files(paths):
                source = source_of(path)
                self.sources.append(source)
                for tensor in _tensors(source, self.metadata):
                    if tensor.name in self._tensors:
                        raise _malformed(source, f"tensor {quote(tensor.name)} is in another file too")
                    self._tensors[tensor.name] = tensor
        except BaseException:
            self.close()
            raise

    def require_unchanged(self) -> None:
        """Raise if a file changed since it was opened: tensors of different versions are not one model (12.4-2).

        :raises FormatError: S903, with the name of the file
        """
        for source in self.sources:
            require_unchanged(source)

    def unchanged(self, data: Callable[[], Iterator[bytes]]) -> Callable[[], Iterator[bytes]]:
        """Yield the same bytes; after the last of them, check that no file changed: otherwise the output gets no
        name.
        """

        def make() -> Iterator[bytes]:
            yield from data()
            self.require_unchanged()

        return make

    def close(self) -> None:
        for source in self.sources:
            source.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            if exc[0] is None:
                self.require_unchanged()
        finally:
            self.close()

    def __getitem__(self, name: str) -> Stored:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def _files(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str] | Source],
) -> Iterable[str | os.PathLike[str] | Source]:
    if not isinstance(paths, str | os.PathLike):
        return paths
    if not os.path.isdir(paths):
        return [paths]
    found = sorted(name for name in os.listdir(os.fsdecode(paths)) if name.endswith(".safetensors"))
    if not found:
        raise FileNotFoundError(2, "the folder has no *.safetensors", os.fspath(paths))
    return (open_below(paths, name) for name in found)


def _tensors(source: Source, metadata: dict[str, Any]) -> Iterator[Stored]:
    """Yield the tensors in the header of a file; each must be inside the file. `metadata` gets its other texts."""
    if source.size < 8:
        raise _malformed(source, f"it has {counted(source.size, 'byte')}, but the length of the header alone takes 8")
    length = int.from_bytes(source.read(0, 8), "little")
    if length > min(MOST_HEADER, source.size - 8):
        raise _malformed(
            source,
            f"the header would have {counted(length, 'byte')}, and {min(MOST_HEADER, source.size - 8):,} are possible",
        )
    try:
        header = json.loads(source.read(8, length), object_pairs_hook=unique_names)
    except (ValueError, RecursionError) as error:
        raise _malformed(source, f"its header is not JSON ({type(error).__name__})") from None
    if not isinstance(header, dict):
        raise _malformed(source, "its header is not a JSON object")
    metadata[os.fsdecode(source.name)] = header.pop("__metadata__", None)
    base = 8 + length
    found = [_tensor(source, name, about, base) for name, about in header.items()]
    _check_places(source, found, base)
    yield from found


def _check_places(source: Source, tensors: list[Stored], base: int) -> None:
    """Check that each byte of the data belongs to exactly one tensor, as the format requires."""
    end, before = base, ""
    for tensor in sorted(tensors, key=lambda each: (each.start, each.stop)):
        if tensor.start < end and tensor.nbytes:
            raise _refused(tensor.name, base, f"begins at byte {tensor.start:,}, inside tensor {quote(before)}")
        if tensor.start > end:
            raise _malformed(source, f"bytes {end:,} to {tensor.start:,} belong to no tensor")
        end, before = max(end, tensor.stop), tensor.name
    if end < source.size:
        raise _malformed(source, f"bytes {end:,} to {source.size:,} belong to no tensor")


def _refused(name: str, base: int, reason: str) -> FormatError:
    return FormatError(
        faults.CHECKPOINT_TENSOR_MALFORMED, Span(8, base, "header"), name=name, reason=TrustedText(reason)
    )


def _tensor(source: Source, name: str, about: Any, base: int) -> Stored:
    def refuse(reason: str) -> FormatError:
        return _refused(name, base, reason)

    if not isinstance(about, dict):
        raise refuse("is not described by an object")
    dtype, shape, offsets = about.get("dtype"), about.get("shape"), about.get("data_offsets")
    if not isinstance(dtype, str) or not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise refuse("has no valid type, shape or offsets")
    start, stop = base + offsets[0], base + offsets[1]
    if not start <= stop <= source.size:
        raise refuse(f"lies at bytes {start:,} to {stop:,} of {source.size:,}")
    if start == stop and all(shape) and dtype not in WIDTHS:
        raise refuse(f"is an empty entry: it has the dtype {quote(dtype)} and no bytes")
    if dtype in WIDTHS and prod(shape) * WIDTHS[dtype] != stop - start:
        raise refuse(f"takes {counted(prod(shape) * WIDTHS[dtype], 'byte')}, and has {stop - start:,}")
    return Stored(name, dtype, tuple(shape), start, stop, source)


def _are_sizes(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and is_shape(value)


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object of JSON, for `json.loads`.

    :raises ValueError: for a name that occurs twice
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _malformed(source: Source, reason: str) -> FormatError:
    return FormatError(faults.CHECKPOINT_MALFORMED, Span(0, min(source.size, 8)), reason=TrustedText(reason))


class NewTensor(NamedTuple):
    """A tensor to write: its type, its shape, and a function that makes its bytes, little-endian."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: Callable[[], Iterable[bytes]]

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * WIDTHS[self.dtype]


def write_checkpoint(
    path: str | os.PathLike[str],
    tensors: Iterable[NewTensor],
    *,
    metadata: Mapping[str, str] | None = None,
    force: bool = False,
    progress: Callable[[int, int], object] | None = None,
    before_end: Callable[[], object] = lambda: None,
) -> int:
    """Write a safetensors file, complete or not at all.

    Wide types come first, so that every tensor is aligned to its elements.

    :param metadata: text to store in the header; transformers requires `format: pt`
    :param force: replace an existing file
    :param progress: called now and then with (bytes written, bytes of the file)
    :param before_end: called when all is written, before the file gets its name; if it raises, no file is left
    :returns: bytes of the file
    :raises ValueError: if a name occurs twice, or a tensor's data has a wrong size
    :raises OSError: as `OutputFile` does
    """
    refuse_taken(path, force)
    ordered = sorted(tensors, key=lambda tensor: (-WIDTHS[tensor.dtype], tensor.name))
    header: dict[str, Any] = {"__metadata__": dict(metadata or {"format": "pt"})}
    end = 0
    for tensor in ordered:
        if tensor.name in header:
            raise ValueError(f"tensor {quote(tensor.name)} is given twice")
        header[tensor.name] = {
            "dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [end, end + tensor.nbytes]
        }  # fmt: skip
        end += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    size = 8 + len(text) + end
    with OutputFile(path, force=force, size=size) as output:
        output.write(len(text).to_bytes(8, "little") + text)
        done = reported = 8 + len(text)
        for tensor in ordered:
            stop = done + tensor.nbytes
            for chunk in tensor.data():
                output.write(chunk)
                done += len(chunk)
                if progress is not None and (done - reported >= CHUNK or done == size):
                    reported = done
                    progress(done, size)
            if done != stop:
                found = counted(done - stop + tensor.nbytes, "byte")
                raise ValueError(f"tensor {quote(tensor.name)} has {found} of data, not {tensor.nbytes:,}")
        before_end()
    return size
