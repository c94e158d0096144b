"""This module copies a GGUF file with the data of some tensors replaced, everything else byte for byte.

The new data is made when its turn comes, so that a file of any size is written with little memory; see `rewrite`, whose
laws about what is copied hold here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from i2s_spec.convert.rewrite import _check_extents, _conversion, _copied, _record, _require_unchanged, _set
from i2s_spec.errors import quote
from i2s_spec.gguf.output import Target, refuse_source
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.writer import Progress, Writer
from i2s_spec.schema.checks import ByteOrder


class Replacement(NamedTuple):
    """What takes the place of a tensor's data: its type, and what makes its bytes, in the byte order of the copy."""

    type: str
    data: Callable[[], Iterator[bytes]]


def copy_replacing(
    file: File,
    target: Target,
    replacements: Mapping[str, Replacement],
    *,
    set: Mapping[str, Any] | None = None,
    rename: Callable[[str], str] = lambda key: key,
    byte_order: ByteOrder | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> int:
    """Copy a file with other data in some tensors; names, shapes and order stay.

    :param replacements: by the names of tensors
    :param set: values by key, under the names of the copy, as for `rewrite`; new keys come last
    :param rename: gives each key its name in the copy
    :param byte_order: of the copy; without it, the source's
    :param force: replace an existing file, the source itself too
    :param progress: called now and then with (bytes written, bytes of the copy)
    :returns: bytes of the copy
    :raises KeyError: for the name of a tensor that is not there
    :raises ValueError: where names occur twice, tensors overlap, or a type has no place for a tensor's shape
    :raises FormatError, OSError: as `rewrite` does; after any error the target is as it was
    """
    if file.fault is not None:
        raise file.fault
    assert file.version is not None
    refuse_source(target, file.source, force)
    for name in replacements:
        if name not in file.tensors:
            raise KeyError(f"the file has no tensor {quote(name)}")
    order: ByteOrder = byte_order or file.byte_order
    convert = _conversion(file, order)
    tensors = list(file.tensors.rows)
    _check_extents(file, tensors)
    values = dict(set or {})

    version = 3 if order == "big" else file.version  # big-endian files begin with version 3 (clause 2.3)
    with Writer(target, version=version, byte_order=order, force=force, progress=progress) as writer:
        for entry in file.metadata.rows:
            key = rename(entry.key)
            if key in values:
                _set(writer, key, values.pop(key), entry)
            else:
                writer.add_raw(convert.record(_record(file, entry, key)))
        for key, value in values.items():
            _set(writer, key, value)
        for tensor in tensors:
            new = replacements.get(tensor.name)
            if new is None:
                data = _copied(file, convert.data(tensor))
                writer.add_tensor(tensor.name, tensor.shape, tensor.type or tensor.number, data, size=tensor.nbytes)
            else:
                writer.add_tensor(tensor.name, tensor.shape, new.type, _copied(file, new.data))
        _require_unchanged(file)
        return writer.size
