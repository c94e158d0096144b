"""This module finds, for a broken copy, the sound files that are most like it.

Broken copies are made by many functions, and none of them says what it began with. What two files share are whole
records: key-values, byte for byte, and tensors of the same name, shape and type.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from operator import eq
from typing import Final

from i2s_spec.errors import FormatError
from i2s_spec.fuzzing.inputs import sound
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.engine import lint
from i2s_spec.schema.architectures.architecture import ARCHITECTURES
from i2s_spec.testing.sample import Draft, Model

#: Layers of the models among the sound files; the last is that of a published one.
LAYERS: Final = (1, 2, 3, 30)

#: Records of a file that are compared, and bytes at its start: what has very many records has little else in it.
COMPARED: Final = 1000

_Record = tuple[bytes, ...]


@cache
def _pool() -> tuple[tuple[bytes, frozenset[_Record]], ...]:
    """Every sound file with its records, the plainest first."""
    files = [Draft().data, Draft(last="f32").data, Draft("big").data]
    files += [Model(name, layers=layers).built() for layers in LAYERS for name in ARCHITECTURES]
    files += [made.data for made in sound()]
    return tuple((data, records(data)) for data in files)


def likest(data: bytes, code: str) -> Iterator[bytes]:
    """Sound files of which no rule `code` complains, those that are most like a broken one first."""
    mine = records(data)

    def likeness(entry: tuple[bytes, frozenset[_Record]]) -> tuple[float, int]:
        other, theirs = entry
        return len(mine & theirs) / max(len(mine | theirs), 1), sum(map(eq, data[:COMPARED], other))

    for other, _ in sorted(_pool(), key=likeness, reverse=True):
        if code not in _codes(other):
            yield other


@cache
def _codes(data: bytes) -> frozenset[str]:
    return frozenset(finding.code for finding in lint(data).findings)


def records(data: bytes) -> frozenset[_Record]:
    """What a file can be recognized by, as far as its header can be read."""
    file = opened(data)
    if file is None:
        return frozenset()
    index, found = file.index, set[_Record]()
    for i in range(min(index.keys, COMPARED)):
        entry = index.key(i)
        found.add((b"key", entry.name, data[entry.start : entry.stop]))
    for i in range(min(index.tensors, COMPARED)):
        info = index.tensor(i)
        found.add((b"tensor", info.name, repr((info.ne, info.type)).encode()))
    return frozenset(found)


def opened(data: bytes) -> File | None:
    """A file, perhaps with a fault; None for what is not a GGUF file."""
    try:
        return File(BufferSource(data))
    except FormatError:
        return None
