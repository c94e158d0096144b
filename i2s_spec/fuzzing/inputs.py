"""The files that a decoder is given, in their order: sound ones, the malformed catalogue, edges, random changes.

Input `i` of a campaign is the same whenever the seed and what was learned before are the same.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import Final, NamedTuple

from i2s_spec.convert.new import new
from i2s_spec.errors import quote
from i2s_spec.gguf.source import read_regular
from i2s_spec.schema import limits
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.types import BY_NAME, ValueType
from i2s_spec.testing.malformed import malformed
from i2s_spec.testing.mutations import laid_out
from i2s_spec.testing.mutator import crossover, edits, mutation
from i2s_spec.testing.sample import Draft, i2s_bytes, key_value, tensor_info

#: Larger files are no help in finding what is wrong with a reader, and slow.
MOST_BYTES: Final = 256 << 10
#: Changes by chance begin from files up to this size.
_SMALL: Final = 16 << 10
#: Every so many changes by chance, one edit of the systematic kind.
_SYSTEMATIC: Final = 4


class DecoderInput(NamedTuple):
    """A file for the decoder: where it comes from, what it is, its bytes."""

    stage: str
    what: str
    data: bytes


@cache
def sound() -> tuple[DecoderInput, ...]:
    """Return files that a decoder should accept, the plainest first."""
    plain = _plain
    made = [
        ("one F32 tensor", plain(("F32", (8, 2)))),
        ("one F16 tensor", plain(("F16", (32, 3)))),
        ("one I2_S tensor", plain(("I2_S", (128, 2)))),
        (
            "two I2_S tensors between floats",
            plain(("F32", (8,)), ("I2_S", (128, 4)), ("I2_S", (256, 2)), ("F16", (8,))),
        ),
        ("an alignment of 64", plain(("F32", (8, 2)), ("I2_S", (128, 2)), alignment=64)),
        ("an alignment of 8", plain(("F32", (3,)), ("F32", (2, 2)), alignment=8)),
        ("keys of every type, arrays, I2_S last", Draft().data),
        ("keys of every type, arrays, F32 last", Draft(last="f32").data),
        ("big-endian", Draft("big").data),
        ("version 2", Draft().number("header.version", 2)),
        ("no tensor", plain()),
    ]
    for name in ARCHITECTURES:
        target = io.BytesIO()
        new(target, name, layers=1, vocab=ARCHITECTURES[name].small_vocab)
        made.append((f"a model of {name}", target.getvalue()))
    return tuple(DecoderInput("sound", what, data) for what, data in made)


@cache
def catalogue() -> tuple[DecoderInput, ...]:
    """Return the malformed files, those that are not too large."""
    found = (case for case in malformed() if len(case.data) <= MOST_BYTES)
    return tuple(DecoderInput("malformed", f"{case.name} ({case.code})", case.data) for case in found)


class Inputs:
    """The inputs of a campaign; `learned` are files that got a new answer, in the order in which they did."""

    def __init__(self, seed: int, most_bytes: int = MOST_BYTES, seeds: Sequence[bytes] = ()) -> None:
        self.seed = seed
        self.most_bytes = most_bytes
        given = tuple(DecoderInput("given", f"file {i}", data) for i, data in enumerate(seeds))
        first = (*sound(), *given, *catalogue())
        self._first = tuple(made for made in first if len(made.data) <= most_bytes)
        self._small = tuple(made for made in self._first if len(made.data) <= _SMALL)
        self.learned: list[bytes] = []
        self._edits: list[DecoderInput] = []

    @property
    def known(self) -> int:
        """How many inputs come before chance begins."""
        return len(self._first)

    def at(self, index: int) -> DecoderInput:
        """Return input `index`, counted from 0."""
        if index < len(self._first):
            return self._first[index]
        index -= len(self._first)
        number, rest = divmod(index, _SYSTEMATIC)
        if rest == 0 and number < len(self._systematic()):
            return self._systematic()[number]
        return self._by_chance(index)

    def _systematic(self) -> list[DecoderInput]:
        """Return every single edit of two small files, in an order of the seed's."""
        if not self._edits:
            base = self._small[0].data, Draft().data
            self._edits = [DecoderInput("edge", f"{e.path}: {e.what}", e.data) for data in base for e in edits(data)]
            Random(f"{self.seed}/edits").shuffle(self._edits)
        return self._edits

    def _by_chance(self, index: int) -> DecoderInput:
        chance = Random(f"{self.seed}/{index}")
        if self.learned and chance.random() < 0.5:
            base, what = chance.choice(self.learned), "a file that had a new answer"
        else:
            chosen = chance.choice(self._small)
            base, what = chosen.data, chosen.what
        if chance.random() < 0.1:
            base = crossover(base, chance.choice(self._small).data, chance.getrandbits(32), self.most_bytes)
        edit = mutation(base, chance, self.most_bytes)
        return DecoderInput("chance", f"{what}: {edit.what}", edit.data)


def _plain(*tensors: tuple[str, tuple[int, ...]], alignment: int = 32) -> bytes:
    """Return a small file with tensors of ones, or of a pattern of codes, and one key."""
    file = Draft().records()
    file.key_values = [key_value(b"general.architecture", ValueType.STRING, b"sample")]
    if alignment != limits.DEFAULT_ALIGNMENT:
        file.key_values.append(key_value(b"general.alignment", ValueType.UINT32, alignment))
    file.tensor_infos, contents = [], []
    for i, (name, ne) in enumerate(tensors):
        kind = BY_NAME[name]
        size = kind.nbytes(ne)
        one = {"F32": b"\0\0\x80\x3f", "F16": b"\0\x3c"}.get(name)
        contents.append(i2s_bytes(4 * (size - 32)) if one is None else one * (size // len(one)))
        file.tensor_infos.append(tensor_info(f"t{i}.weight".encode(), ne, kind.number, 0))
    return laid_out(file, contents, alignment)


def files_under(paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the regular files that are named, and those right under folders that are named.

    :raises ValueError: for what is neither
    """
    for path in paths:
        inside = sorted(entry.path for entry in os.scandir(path) if entry.is_file()) if os.path.isdir(path) else [path]
        for name in inside:
            if not os.path.isfile(name):
                raise ValueError(f"{quote(name, limit=4096)} is neither a regular file nor a folder")
            yield name, read_regular(name, sys.maxsize)
