"""This module holds the tasks for each reader of GGUF files, so that all of them do the same work.

`table` opens a file, decodes every scalar value (text too) and makes the whole tensor table: name, shape, type and
offset of each. `strings` does that and decodes every string of the two large arrays. Each returns what it read, in a
form that can be compared. Imports are inside the functions that need them, so that a child process loads only one
reader.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: The string arrays of a BPE vocabulary.
LISTS = ("tokenizer.ggml.tokens", "tokenizer.ggml.merges")


class Read(NamedTuple):
    """The result of a reader: scalar values by key, the tensor table, the string arrays if requested.

    `file` keeps the open file alive, so that closing it is not timed.
    """

    scalars: dict[str, Any]
    table: list[tuple[str, tuple[int, ...], int, int]]
    strings: tuple[Sequence[str], ...]
    file: object


def ours_table(path: Path) -> Read:
    """i2s_spec as it reads any file, by bounded reads."""
    from i2s_spec.gguf import reader

    return _ours(reader.open(path))


def ours_mapped_table(path: Path) -> Read:
    """i2s_spec with the file mapped into memory."""
    from i2s_spec.gguf import reader

    return _ours(reader.open(path, trusted=True))


def ours_strings(path: Path) -> Read:
    """i2s_spec, with all strings."""
    read = ours_table(path)
    metadata = read.file.metadata  # type: ignore[attr-defined]
    return read._replace(strings=tuple(metadata[key] for key in LISTS))


def _ours(file: Any) -> Read:
    metadata = file.metadata
    scalars = {entry.key: metadata.decode(entry) for entry in metadata.rows if entry.type != 9}
    table = [(tensor.name, tensor.shape, tensor.number, tensor.offset) for tensor in file.tensors.rows]
    return Read(scalars, table, (), file)


def gguf_table(path: Path) -> Read:
    """The reference reader of llama.cpp, PyPI `gguf`."""
    from gguf import GGUFReader, GGUFValueType

    file = GGUFReader(path)
    fields = [field for field in file.fields.values() if not field.name.startswith("GGUF.")]
    scalars = {field.name: field.contents() for field in fields if field.types[0] != GGUFValueType.ARRAY}
    base = file.data_offset
    table = [
        (tensor.name, tuple(map(int, reversed(tensor.shape))), int(tensor.tensor_type), int(tensor.data_offset - base))
        for tensor in file.tensors
    ]
    return Read(scalars, table, (), file)


def gguf_strings(path: Path) -> Read:
    """The same, with `contents()` of the two arrays, which makes `str` of their strings."""
    read = gguf_table(path)
    return read._replace(strings=gguf_lists(read))


def gguf_lists(read: Read) -> tuple[Sequence[str], ...]:
    """The string arrays of a file that `gguf_table` opened."""
    return tuple(read.file.fields[key].contents() for key in LISTS)  # type: ignore[attr-defined]


def digest(read: Read) -> dict[str, Any]:
    """A short summary of the result for comparison: counts and checksums."""
    lines = "".join(f"{name} {','.join(map(str, shape))} {kind} {at}\n" for name, shape, kind, at in read.table)
    text = "\n".join("\n".join(strings) for strings in read.strings)
    return {
        "scalars": len(read.scalars),
        "table": hashlib.sha256(lines.encode()).hexdigest(),
        "strings": hashlib.sha256(text.encode()).hexdigest() if read.strings else None,
    }
