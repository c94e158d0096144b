"""This module is the report for people: the verdict first, what explains it, then a table."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Final

from i2s_spec.draw.table import Column, table
from i2s_spec.draw.terminal import Line, Piece, plain
from i2s_spec.golden.replay.result import Comparison
from i2s_spec.golden.report.words import TITLES, about, diagnosis_words, first_wrong, others, rows, title

_STYLES: Final = {"wrong": "bold red", "behind": "red", "flips": "yellow", "ok": "green"}


def styled(result: Comparison, width: int | None = None) -> Iterator[Line]:
    """The report as lines of styled pieces.

    :param width: of the terminal, if the table has to fit
    """
    yield [Piece(title(result), "bold green" if result.ok else "bold red")]
    yield []
    for what, words in about(result):
        yield [Piece(f"  {what:<14}", "dim"), Piece(words)]
    for note in result.notes:
        yield [Piece("  note          ", "dim"), Piece(note)]
    wrong = list(first_wrong(result))
    if wrong:
        yield []
        yield [Piece("  first wrong   ", "dim"), Piece(wrong[0])]
        yield from ([Piece(" " * 16), Piece(line)] for line in wrong[1:])
    for at, each in enumerate(result.diagnoses):
        yield [Piece("  explained by  " if not at else " " * 16, "dim"), Piece(diagnosis_words(each))]
    for at, line in enumerate(others(result)):
        yield [Piece("  wrong         " if not at else " " * 16, "dim"), Piece(line)]
    shown = list(rows(result))
    if shown:
        yield []
        columns = [Column(name, right=2 <= at <= 8, gives=at == 9) for at, name in enumerate(TITLES)]
        lines = table(columns, [row.cells for row in shown], width)
        yield next(lines)
        for row, pieces in zip(shown, lines, strict=True):
            yield [
                Piece(piece.text, piece.style or _STYLES.get(row.status, "")) if at == 2 else piece
                for at, piece in enumerate(pieces)
            ]
    if result.drift:
        yield []
        yield [Piece("  drift of the layers from the record (relative L2)", "bold")]
        top = max((far for _, far, _ in result.drift), default=0.0) or 1.0
        for layer, far, cosine in result.drift:
            bar = "#" * round(40 * min(1.0, far / top)) if isfinite(far) else "not finite"
            yield [Piece(f"  {layer:>4}  {far:<10.3g} {cosine:.6f}  "), Piece(bar, "cyan")]


def lines(result: Comparison) -> Iterator[str]:
    """The report as plain text."""
    return (plain(line) + "\n" for line in styled(result))
