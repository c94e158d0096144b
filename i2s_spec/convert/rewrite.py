"""Copies of a GGUF file with changes: keys and tensors set, renamed or dropped, and the file laid out anew.

Every copy with a new layout is made here: in another byte order (`convert_endian`), with other tensor data
(conversions), under another architecture, or with only the known parts (sanitizing).

Everything else is copied byte for byte, key-values from their records and tensors in parts of a MiB, so a file of any
size is rewritten with little memory. Gaps between tensors, and bytes after the last one, are not part of the content
and are not copied: the copy has the standard layout of the writer.

An `EditedSource` is a file with edits that is not written yet:

    >>> from i2s_spec.gguf.source import BufferSource
    >>> edited = EditedSource(BufferSource(b"GGUF....")).edited([Edit(Span(4, 6, "version"), b"3")])
    >>> edited.read(0, edited.size)
    b'GGUF3..'
    >>> list(edited.changes())
    [Change(old=Span(start=4, stop=6, path='version'), new=Span(start=4, stop=5, path='version'), data=b'3')]
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final, NamedTuple

from i2s_spec.errors import FormatError, Span, TrustedText, quote
from i2s_spec.gguf.atomic_file import OutputFile, Target, refuse_inputs, write_all
from i2s_spec.gguf.byte_order import swapped_data, swapped_record
from i2s_spec.gguf.encode import Kind
from i2s_spec.gguf.reader import File, KeyValue, Tensor, takes_file
from i2s_spec.gguf.source import CHUNK, Buffer, JoinedSource, Origin, Source, chunks
from i2s_spec.gguf.writer import Progress, Writer
from i2s_spec.schema import faults
from i2s_spec.schema.architectures import PREFIXES, declared_architecture
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.keys import FILE_TYPES, MODEL, OWN_FILE_TYPES, REQUIRED, file_type_of
from i2s_spec.schema.type_registry import file_types
from i2s_spec.schema.types import BY_NAME, ValueType

_ALIGNMENT = "general.alignment"


class Replacement(NamedTuple):
    """The replacement of a tensor's data: its type, and a function that makes its bytes, in the byte order of the copy.

    The bytes are made only when they are written, so tensors of any size are replaced with little memory.
    """

    type: str
    data: Callable[[], Iterator[bytes]]


class Value(NamedTuple):
    """A value for a key, with its type: see `Writer.add` for all three."""

    type: Kind | None
    value: Any
    element: Kind | None = None


@takes_file
def rewrite(
    source_file: Origin,
    target: Target,
    *,
    set: Mapping[str, Any] | None = None,
    rename: Mapping[str, str] | None = None,
    replace: Mapping[str, Replacement] | None = None,
    drop_keys: Collection[str] = (),
    drop_tensors: Collection[str] = (),
    rename_tensors: Mapping[str, str] | None = None,
    alignment: int | None = None,
    byte_order: ByteOrder | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> int:
    """Copy a file with changes; keys and tensors keep their order, new keys come last.

    Keys and tensors to drop, rename or replace are given by their names in the source; keys to set by their names in
    the copy.

    :param source_file: a `File`, or an argument of `open`
    :param set: values by key: a `Value`, or a bare value, which keeps the type of the key that it replaces
    :param rename: new names of keys
    :param replace: new data of tensors, whose names and shapes stay
    :param drop_keys: keys to leave out
    :param drop_tensors: tensors to leave out
    :param rename_tensors: new names of tensors
    :param alignment: the alignment of tensors, in bytes; `general.alignment` is set accordingly. By default the source's.
    :param byte_order: the byte order of the copy; if it differs from the source's, every word is swapped (see
    `convert_endian`)
    :param force: replace an existing file, but never the source itself
    :param progress: called now and then with (bytes written, bytes of the copy)
    :returns: bytes of the copy
    :raises FormatError: if the source has a fault, a kept tensor is incomplete or has a type of unknown size, or the
    source changes meanwhile
    :raises KeyError: for a key or tensor to drop, rename or replace that the source does not have
    :raises ValueError: if names would occur twice, kept tensors overlap, a type cannot hold a tensor's shape, or the
    writer refuses a kept or set value
    :raises FileExistsError: if the target is the source, also with `force`
    :raises OSError: as `OutputFile` does; after any error the target is unchanged
    """
    file: File = source_file
    if file.fault is not None:
        raise file.fault
    assert file.version is not None
    refuse_inputs(target, file.source)
    order: ByteOrder = byte_order or file.byte_order
    convert = _conversion(file, order)

    entries, tensors = list(file.metadata.rows), list(file.tensors.rows)
    keys = _renamed("key", [entry.key for entry in entries], rename or {}, drop_keys)
    names = _renamed("tensor", [tensor.name for tensor in tensors], rename_tensors or {}, drop_tensors)
    others = dict(replace or {})
    for name in others:
        if name not in file.tensors:
            raise KeyError(f"the file has no tensor {quote(name)}")
    retained = [(tensor, name) for tensor, name in zip(tensors, names, strict=True) if name is not None]
    check_extents(file, [tensor for tensor, _ in retained])
    values = dict(set or {})
    if alignment is not None and _ALIGNMENT in keys:
        values.setdefault(_ALIGNMENT, Value(ValueType.UINT32, alignment))

    version = 3 if order == "big" else file.version  # big-endian files begin with version 3 (clause 2.3)
    with Writer(
        target, version=version, byte_order=order, alignment=alignment, force=force, progress=progress
    ) as writer:
        for entry, key in zip(entries, keys, strict=True):
            if key is None:
                continue
            if key in values:
                _set(writer, key, values.pop(key), entry)
            else:
                writer.add_raw(convert.record(_record(file, entry, key)))
        for key, value in values.items():
            _set(writer, key, value)
        for tensor, name in retained:
            new = others.get(tensor.name)
            if new is not None:
                writer.add_tensor(name, tensor.shape, new.type, _copied(file, new.data))
                continue
            data = _copied(file, convert.data(tensor))
            writer.add_tensor(name, tensor.shape, tensor.type or tensor.number, data, size=tensor.nbytes)
        file.require_unchanged()
        return writer.size


class _Conversion(NamedTuple):
    """Converts the bytes of key-values and tensors for the copy."""

    record: Callable[[bytes], bytes]
    #: Gives the function that makes the bytes of a tensor; refuses a tensor whose bytes cannot be made.
    data: Callable[[Tensor], Callable[[], Iterator[bytes]]]


def _conversion(file: File, order: ByteOrder) -> _Conversion:
    if order != file.byte_order:
        return _Conversion(
            lambda record: swapped_record(record, file.byte_order),
            lambda tensor: swapped_data(file.source, tensor),
        )
    return _Conversion(
        lambda record: record, lambda tensor: lambda: chunks(file.source, tensor.span.start, tensor.span.stop)
    )


def _renamed(what: str, names: list[str], rename: Mapping[str, str], drop: Collection[str]) -> list[str | None]:
    """Return the names in the copy; None for parts that are left out."""
    if isinstance(drop, str):
        raise TypeError(f"{what}s to drop must be a list of names, not a single string")
    there = frozenset(names)
    for name in (*rename, *drop):
        if name not in there:
            raise KeyError(f"the file has no {what} {quote(name)}")
    for name in rename:
        if name in drop:
            raise ValueError(f"{what} {quote(name)} cannot be both renamed and dropped")
    left_out = frozenset(drop)
    seen: dict[str, str] = {}
    result: list[str | None] = []
    for name in names:
        if name in left_out:
            result.append(None)
            continue
        new = rename.get(name, name)
        if seen.get(new) == name:
            raise ValueError(
                f"{what} {quote(name)} occurs twice in the file, but a copy can have it only once: drop it"
            )
        if new in seen:
            raise ValueError(f"{what} {quote(new)} would occur twice in the copy")
        seen[new] = name
        result.append(new)
    return result


def _set(writer: Writer, key: str, value: Any, replaced: KeyValue | None = None) -> None:
    if not isinstance(value, Value):
        value = Value(None, value)
        if replaced is not None:
            element = ValueType(replaced.element) if replaced.type == ValueType.ARRAY else None
            value = Value(ValueType(replaced.type), value.value, element)
    writer.add(key, value.value, value.type, value.element)


def _record(file: File, entry: KeyValue, key: str) -> bytes:
    """Return a key-value with its bytes from the source, under its new name."""
    record = file.source.read(entry.span.start, entry.span.stop - entry.span.start)
    if key == entry.key:
        return record
    name = key.encode("utf-8", "surrogateescape")
    return len(name).to_bytes(8, file.byte_order) + name + record[8 + len(entry.name) :]


def check_extents(file: File, tensors: list[Tensor]) -> None:
    """Refuse tensors that are incomplete in the source, or that share bytes.

    Overlapping tensors would be copied one after another: a small file could ask for a copy of any size.
    """
    end = 0
    before = None
    for span, i in sorted((tensor.span, i) for i, tensor in enumerate(tensors)):
        tensor = tensors[i]
        tensor.require(span)
        if before is not None and span.start < end:
            raise ValueError(f"tensors {quote(before.name)} and {quote(tensor.name)} share bytes: drop one of them")
        end, before = span.stop, tensor


def _copied(file: File, data: Callable[[], Iterator[bytes]]) -> Callable[[], Iterator[bytes]]:
    """Yield the same bytes; after the last of them, check that the source has not changed."""

    def make() -> Iterator[bytes]:
        yield from data()
        file.require_unchanged()

    return make


@takes_file
def convert_endian(
    source_file: Origin, target: Target, byte_order: ByteOrder, force: bool = False, progress: Progress | None = None
) -> None:
    """Copy a file in the given byte order; a file that has it already is copied unchanged (clause 2.3).

    Converting there and back gives the same bytes if the file has the layout of our writer. Version 2 is always
    little-endian, so a big-endian copy gets version 3 and keeps it when it is converted back.

    :param source_file: a `File`, or what `open` takes
    :param byte_order: `little` or `big`
    :raises ValueError: if the positions of words in a tensor's type are not known (TL2, Q5_0, Q5_1, Q3_K, the IQ types
    of ggml); nothing is written then
    :raises FormatError, OSError: as `rewrite` does
    """
    rewrite(source_file, target, byte_order=byte_order, force=force, progress=progress)


# --- edits -----------------------------------------------------------------------------------------------------------
# A file with edits is a source like any other, with a list of its changes.
#
# It refers to ranges of the original and holds only the new bytes. So a file of any size is changed without a copy of
# it in memory: it can be indexed, checked and edited again before it is written to disk.

#: With at least this many pieces, a read fetches the original's bytes at once.
MANY_PIECES: Final = 16

#: The buffer behind all short runs of zeros, so that a file full of padding is repaired with little memory.
_ZEROS: Final = memoryview(bytes(CHUNK))


def zeros(count: int) -> Buffer:
    """Yield this number of zero bytes."""
    return _ZEROS[:count] if count <= len(_ZEROS) else bytes(count)


class Edit(NamedTuple):
    """New bytes that replace a span; with an empty span they are inserted, with no bytes the span is removed.

    `keys` and `tensors` say by how much the edit changes the numbers of key-values and tensor infos.
    """

    span: Span
    new: Buffer
    keys: int = 0
    tensors: int = 0

    @property
    def order(self) -> tuple[int, int]:
        return self.span.start, self.span.stop


class Change(NamedTuple):
    """A change in one place: the span in the original, and the span and the bytes that replace it."""

    old: Span
    new: Span
    data: Buffer


class _Piece(NamedTuple):
    """A piece of the edited file: bytes `start` to `stop` of the original unchanged, or `data` in their place."""

    start: int
    stop: int
    data: Buffer | None = None
    path: str = ""

    @property
    def size(self) -> int:
        return self.stop - self.start if self.data is None else len(self.data)

    def split(self, at: int) -> tuple[_Piece, _Piece]:
        """Return the first `at` bytes and the rest; for new bytes, the first part counts as the replacement."""
        start, stop, data, path = self
        if data is None:
            return _Piece(start, start + at), _Piece(start + at, stop)
        return _Piece(start, stop, data[:at], path), _Piece(stop, stop, data[at:], path)


class EditedSource:
    """A source with edits; it reads from the original, which stays open and belongs to the caller."""

    def __init__(self, origin: Source, pieces: tuple[_Piece, ...] | None = None) -> None:
        self.origin = origin
        self.name = origin.name
        self._pieces = (_Piece(0, origin.size),) if pieces is None else pieces
        #: The non-empty pieces, which are the only ones that are read: thousands of removed bytes leave as many empty
        #: pieces.
        self._held = [(piece, size) for piece in self._pieces if (size := piece.size)]
        self._ends = list(accumulate(size for _, size in self._held))
        self.size = self._ends[-1] if self._ends else 0

    @property
    def view(self) -> memoryview | None:
        return None

    def edited(self, edits: Iterable[Edit]) -> EditedSource:
        """Return the file with more edits, whose spans refer to this file.

        :raises ValueError: for edits that overlap or reach beyond the file
        """
        made: list[_Piece] = []
        rest = iter(self._pieces)
        piece = next(rest, None)
        at = 0  # where `piece` begins
        for edit in sorted(edits, key=lambda edit: edit.order):
            (start, stop, path), data = edit.span, edit.new
            if not at <= start <= stop <= self.size:
                raise ValueError(f"an edit of {edit.span} overlaps another one, or is outside the file")
            while piece is not None and (end := at + piece.size) <= start and (start < stop or end < start):
                made.append(piece)
                at = end
                piece = next(rest, None)
            if piece is not None and at < start:
                before, piece = piece.split(start - at)
                made.append(before)
                at = start
            first = last = made[-1].stop if piece is None and made else piece.start if piece is not None else 0
            while piece is not None and at < stop:
                if at + piece.size > stop:
                    gone, piece = piece.split(stop - at)
                    at, last = stop, gone.stop
                else:
                    at, last = at + piece.size, piece.stop
                    piece = next(rest, None)
            made.append(_Piece(first, max(first, last), data, path))
        if piece is not None:
            made.append(piece)
        made.extend(rest)
        return EditedSource(self.origin, tuple(piece for piece in made if piece.data is not None or piece.size))

    def changes(self) -> Iterator[Change]:
        """Yield every place where the file differs from the original, in order."""
        end = 0
        for piece in self._pieces:
            start, stop, data, path = piece
            if data is None:
                end += stop - start
                continue
            end += len(data)
            if data or start < stop:
                yield Change(Span(start, stop, path), Span(end - len(data), end, path), data)

    def parts(self) -> Iterator[Buffer | tuple[Source, int, int]]:
        """Yield the parts of the file in order: new bytes, and ranges of sources."""
        for piece in self._pieces:
            if piece.data is not None:
                yield piece.data
            elif isinstance(self.origin, JoinedSource):
                yield from self.origin.located(piece.start, piece.stop)
            else:
                yield self.origin, piece.start, piece.stop

    def read(self, start: int, length: int) -> bytes:
        buffer = bytearray(length)
        self.readinto(start, memoryview(buffer))
        return bytes(buffer)

    def readinto(self, start: int, buffer: memoryview) -> None:
        stop = start + buffer.nbytes
        if start < 0 or stop > self.size:
            reason = TrustedText("a range outside the file was requested")
            raise FormatError(faults.CHANGED, Span(max(start, 0), self.size), reason=reason)
        i, done = bisect_right(self._ends, start), 0
        base, near = self._near(i, bisect_right(self._ends, stop - 1)) if stop > start else (0, b"")
        while done < buffer.nbytes:
            piece, size = self._held[i]
            skip = start + done - (self._ends[i] - size)
            count = min(size - skip, buffer.nbytes - done)
            at = piece.start + skip
            if piece.data is not None:
                buffer[done : done + count] = piece.data[skip : skip + count]
            elif base <= at and at + count <= base + len(near):
                buffer[done : done + count] = near[at - base : at - base + count]
            else:
                self.origin.readinto(at, buffer[done : done + count])
            done += count
            i += 1

    def _near(self, first: int, last: int) -> tuple[int, bytes]:
        """Return the original's bytes between many small pieces, read at once, and their position; with few pieces
        nothing."""
        inside = self._held[first + 1 : last] if last - first > MANY_PIECES else []
        start, stop = (inside[0][0].start, inside[-1][0].stop) if inside else (0, 0)
        return (start, self.origin.read(start, stop - start)) if 0 < stop - start <= CHUNK else (0, b"")

    def changed(self) -> str | None:
        return self.origin.changed()

    def close(self) -> None:
        """Do nothing: the caller closes the original."""


def write_edited(
    source: EditedSource,
    target: Target,
    force: bool = False,
    progress: Progress | None = None,
    check: Callable[[], object] | None = None,
) -> int:
    """Write an edited file under another name, complete or not at all.

    :param force: replace a file of that name, but never the original
    :param progress: called now and then with (bytes written, bytes of the file)
    :param check: called before the file gets its name, which it does not get if this raises
    :returns: bytes of the file
    :raises FileExistsError: if the file exists and `force` is not given, and always for the original
    :raises FormatError: S903 if the original was written to meanwhile
    :raises OSError: as `OutputFile` does
    """
    inputs = source.origin.sources if isinstance(source.origin, JoinedSource) else (source.origin,)
    refuse_inputs(target, *inputs)
    if not isinstance(target, str | os.PathLike):
        if check is not None:
            check()
        for part in source.parts():
            for data in chunks(*part) if isinstance(part, tuple) else (part,):
                write_all(target, data)
        return source.size
    with OutputFile(target, force=force, size=source.size, inputs=inputs) as output:
        write_parts(source, output, progress)
        if check is not None:
            check()
    return source.size


def write_parts(source: EditedSource, output: OutputFile, progress: Progress | None = None) -> None:
    """Write an edited file into one that gets its name later; what is copied is read back and compared.

    :raises FormatError, OSError: as `write_edited` does
    """
    done = 0
    for part in source.parts():
        if not isinstance(part, tuple):
            output.write(part)
            done += len(part)
            continue
        for count in output.copy(*part):
            done += count
            if progress is not None:
                progress(done, source.size)
    reason = source.changed()
    if reason is not None:
        raise FormatError(faults.CHANGED, Span(0, source.size), reason=TrustedText(reason))


# --- key renames -----------------------------------------------------------------------------------------------------
# The keys that change when a file's tensors are converted, or when its architecture is renamed.
#
# Programs choose the graph by the name of the architecture. A file may get another name only if the tensors are the
# same: BitNet b1.58 2B-4T is `bitnet-25`, `bitnet-b1.58` and (in upstream llama.cpp) `bitnet`.

#: The allowed values of `<architecture>.hidden_activation`.
ACTIVATIONS: Final = next(key.values for key in MODEL if key.name.endswith(".hidden_activation"))

_FILE_TYPE, _QUANTIZATION = "general.file_type", "general.quantization_version"

_PAIRS: Final = {"neox": "the halves of a head", "norm": "neighboring rows of a head"}

#: The meanings of `general.file_type` on which the two lineages disagree.
_UPSTREAM: Final = {38: "MXFP4_MOE", 39: "NVFP4", 40: "Q1_0"}


def renamed_keys(file: File, former: str | None, arch: str | None) -> dict[str, str]:
    """Return new names of the keys to rename if the architecture is renamed from `former` to `arch`."""
    if arch is None or former in (None, arch):
        return {}
    return {key: arch + key[len(former) :] for key in file.metadata if key.startswith(f"{former}.")}


def changed_keys(
    file: File,
    former: str | None,
    arch: str | None,
    activation: str | None,
    types: Counter[str],
    converted: bool,
) -> tuple[dict[str, Any], tuple[int | None, int | None]]:
    """Return keys to set, and `general.file_type` before and after.

    :param former: the architecture in the file
    :param arch: its new name
    :param activation: the activation of the feed-forward network to store
    :param types: the types of the matrices in the copy, with their counts
    :param converted: whether tensors were converted
    :raises ValueError: for an architecture with other tensors, and an activation that does not exist
    """
    values: dict[str, Any] = {}
    if arch is not None:
        check_architecture(file, former, arch)
        values["general.architecture"] = Value(ValueType.STRING, arch)
    if activation is not None:
        if activation not in ACTIVATIONS:
            raise ValueError(f"{quote(activation)} is not an activation; there are: {', '.join(map(str, ACTIVATIONS))}")
        name = arch or former
        if name is None:
            raise ValueError("the file has no architecture to store an activation for")
        values[f"{name}.hidden_activation"] = Value(ValueType.STRING, activation)
    before = file.metadata.get(_FILE_TYPE)
    before = before if isinstance(before, int) else None
    after = before
    if converted and types:
        ((commonest, _),) = types.most_common(1)
        number = file_type_of(commonest)
        if before is not None and number is not None and number != before:
            after = number
            values[_FILE_TYPE] = Value(ValueType.UINT32, number)
        quantized = any(BY_NAME[name].is_quantized for name in types if name in BY_NAME)
        if quantized and _QUANTIZATION not in file.metadata:
            values[_QUANTIZATION] = Value(ValueType.UINT32, 2)
    return values, (before, after)


def stated_activation(file: File, former: str | None, arch: str | None) -> str | None:
    """Return the activation to store if the architecture is renamed and the new one means another (clause 9.6): what
    the former one means, so that the copy is the same model.

    :returns: None where the file states an activation, which is kept, or both mean the same
    """
    if arch is None or f"{former}.hidden_activation" in file.metadata:
        return None
    old, new = (declared_architecture(name, file.metadata, file.tensors) for name in (former, arch))
    return old.activation if old is not None and new is not None and old.activation != new.activation else None


def check_architecture(file: File, former: str | None, arch: str) -> None:
    """Refuse an architecture that has other tensors, or the same ones with their rows in another order.

    :raises ValueError: with the reason
    """
    pooling = {f"{arch}.pooling_type"} if f"{former}.pooling_type" in file.metadata else ()
    new = declared_architecture(arch, pooling, file.tensors)
    if new is None:
        raise ValueError(f"unknown architecture {quote(arch)}; there are: {', '.join(PREFIXES)}")
    if former is None:
        raise ValueError("the file has no architecture that could be renamed")
    old = declared_architecture(former, file.metadata, file.tensors)
    if old is not None and old.rope != new.rope:
        raise ValueError(
            f"{former} rotates {_PAIRS[old.rope]} and {arch} {_PAIRS[new.rope]}: the rows of attn_q and attn_k would "
            "have to be put in another order"
        )
    for tensor in file.tensors.values():
        if new.match(tensor.name) is None:
            raise ValueError(
                f"a file of architecture {arch} has no tensor {quote(tensor.name)}: loaders would refuse it"
            )
    for spec in new.inventory:
        name = spec.name.replace("{i}", "0")
        if spec.need == REQUIRED and not spec.when and name not in file.tensors:
            raise ValueError(f"a file of architecture {arch} needs tensor {name}, which this one does not have")


def file_type_words(number: int | None, kind: str | None = None) -> str:
    """Return the meaning of `general.file_type` in each lineage.

    :param kind: the type of most matrices of the file: if a fork has the number for it, that meaning applies
    """
    if number is None:
        return "none"
    if kind is not None and OWN_FILE_TYPES.get(kind) == number:
        whose = next(each.whose for each in file_types(number) if kind in each.tensors)
        return f"{number} ({kind} to {whose}, {FILE_TYPES[number]} to upstream llama.cpp)"
    name = FILE_TYPES.get(number, "unknown")
    upstream = f", {_UPSTREAM[number]} to upstream llama.cpp" if number in _UPSTREAM else ""
    return f"{number} ({name}{' to the BitNet forks' if upstream else ''}{upstream})"
