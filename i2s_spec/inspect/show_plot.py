"""This module draws scales by layer and shares of codes of a file's I2_S tensors as text for a terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from i2s_spec.draw.sparkline import ASCII, BLOCKS, SHARE_ASCII, SHARE_BLOCKS, shares, sparkline
from i2s_spec.draw.terminal import Line, Piece
from i2s_spec.draw.text import float32_words, visible
from i2s_spec.errors import counted
from i2s_spec.gguf.reader import File
from i2s_spec.inspect.survey.reader import survey
from i2s_spec.inspect.survey.reading import Reading
from i2s_spec.inspect.survey.result import Survey

#: Kinds of tensors and layers that are drawn.
KINDS: Final = 64
LAYERS: Final = 4096

#: Columns of a strip of shares, and of a page whose width nobody says.
STRIP: Final = 32
WIDTH: Final = 100

_BLOCK: Final = re.compile(rb"^blk\.(\d{1,4})\.")


class TensorKind(NamedTuple):
    """Tensors of one kind: their scales by layer, those in no layer first, and their codes together."""

    name: str
    scales: dict[int, float]
    counts: list[int]


def plots(file: File, available: int | None = None, *, blocks: bool = True) -> Iterator[Line]:
    """The plots as lines; a sentence where no I2_S tensor could be read.

    :param available: columns of the terminal
    :param blocks: whether the stream can say block characters; otherwise the plots are ASCII
    :raises FormatError: where the file goes away meanwhile
    """
    seen = survey(file, Reading("sample"))
    kinds = [] if seen is None else _kinds(file, seen)
    if not kinds:
        yield [Piece("There is no I2_S tensor whose payload can be read.")]
        return
    width = max(len(kind.name) for kind in kinds)
    yield from _scales(kinds, width, (available or WIDTH) - width - 34, blocks)
    yield []
    signs = SHARE_BLOCKS if blocks else SHARE_ASCII
    part = "" if seen is None or all(row.complete for row in seen) else "a sample of "
    yield [
        Piece("Codes", "bold"),
        Piece(f"  {signs[0]} -1  {signs[1]} 0  {signs[2]} +1, shares of {part}all weights of a kind"),
    ]
    for kind in kinds:
        whole = max(1, sum(kind.counts))
        words = " ".join(f"{count / whole:6.1%}" for count in kind.counts[:3])
        odd = f"  {counted(kind.counts[3], 'time')} code 3" if kind.counts[3] else ""
        strip = shares(kind.counts, STRIP, blocks=blocks)
        yield [Piece(f"  {kind.name:<{width}}  ", "cyan"), Piece(f"{strip}  {words}"), Piece(odd, "red")]


def _kinds(file: File, seen: Survey) -> list[TensorKind]:
    found: dict[str, TensorKind] = {}
    tensors = list(file.tensors.values())
    for row in seen:
        tensor = tensors[row.row]
        name = file.index.tensor(row.row).name
        layer = int(met[1]) if (met := _BLOCK.match(name)) else -1
        word = visible(_BLOCK.sub(b"", name).removesuffix(b".weight"), 24, bare=True)
        if word not in found and len(found) == KINDS:
            continue
        kind = found.setdefault(word, TensorKind(word, {}, [0, 0, 0, 0]))
        if layer < LAYERS:
            kind.scales.setdefault(layer, float(tensor.scale()))
        kind.counts[:] = [a + b for a, b in zip(kind.counts, row.counts, strict=True)]
    return list(found.values())


def _scales(kinds: Sequence[TensorKind], width: int, room: int, blocks: bool) -> Iterator[Line]:
    layers = 1 + max(layer for kind in kinds for layer in kind.scales)
    signs = BLOCKS if blocks else ASCII
    step = max(1, -(-layers // max(8, room)))
    several = f", {counted(step, 'layer')} to a character" if step > 1 else ""
    yield [
        Piece("Scales", "bold"),
        Piece(f"  layers 0 to {layers - 1}{several}; {signs[0]} smallest, {signs[-1]} largest of each kind")
        if layers > 0 else Piece("  of tensors in no layer"),
    ]  # fmt: skip
    for kind in kinds:
        plain = [value for value in kind.scales.values() if math.isfinite(value)]
        low, high = min(plain, default=0.0), max(plain, default=0.0)
        line = sparkline(list(_by_step(kind, layers, step)), low, high, blocks=blocks)
        ends = float32_words(low) if low == high else f"{float32_words(low)} to {float32_words(high)}"
        ends = ends if plain else "none is finite"
        odd = len(kind.scales) - len(plain)
        left = f"  {odd} not finite" if odd and plain else ""
        yield [Piece(f"  {kind.name:<{width}}  ", "cyan"), Piece(f"{line}  {ends}"), Piece(left, "red")]


def _by_step(kind: TensorKind, layers: int, step: int) -> Iterator[float | None]:
    """The scales by layer, of several layers to a character the largest; what is not finite is never left out."""
    if layers <= 0:
        yield from kind.scales.values()
        return
    for first in range(0, layers, step):
        some = [kind.scales[layer] for layer in range(first, first + step) if layer in kind.scales]
        odd = [value for value in some if not math.isfinite(value)]
        yield odd[0] if odd else max(some, default=None)
