"""This module copies a GGUF file with changes: keys and tensors set, renamed or dropped, and the file laid out anew.

Every copy with a new layout is made here: in another byte order, with other tensor data (conversions), under another
architecture, or with only the known parts (sanitizing).

Everything else is copied byte for byte, key-values from their records and tensors in parts of a MiB, so a file of any
size is rewritten with little memory. Gaps between tensors, and bytes after the last one, are not part of the content
and are not copied: the copy has the standard layout of the writer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from i2s_spec.errors import FormatError, Span, TrustedText, quote
from i2s_spec.gguf.atomic_file import Target, refuse_source
from i2s_spec.gguf.byte_order import swapped_data, swapped_record
from i2s_spec.gguf.encoding.encode_value import Kind
from i2s_spec.gguf.ranges import chunks
from i2s_spec.gguf.reader import File, KeyValue, Tensor, takes_file
from i2s_spec.gguf.source import Origin
from i2s_spec.gguf.writer import Progress, Writer
from i2s_spec.schema import faults
from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.types import ValueType

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
    refuse_source(target, file.source)
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
        require_unchanged(file)
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
    """The names in the copy; None for parts that are left out."""
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
    """A key-value with its bytes from the source, under its new name."""
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
    """The same bytes; after the last of them, check that the source has not changed."""

    def make() -> Iterator[bytes]:
        yield from data()
        require_unchanged(file)

    return make


def require_unchanged(file: File) -> None:
    """Check that a file has not changed since it was opened.

    :raises FormatError: S903 if the file was written to
    """
    reason = file.source.changed()
    if reason is not None:
        raise FormatError(faults.CHANGED, Span(0, file.size), reason=TrustedText(reason))


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
