"""This module lays out tables: aligned columns of plain text, as wide as their contents or as a terminal allows.

Cells are text that is escaped already; their widths are counted in columns of a terminal.

    >>> from i2s_spec.draw.terminal import plain
    >>> columns = (Column("name"), Column("bytes", right=True))
    >>> for line in table(columns, [("a.weight", "12"), ("b", "4,096")]): print(plain(line))
      name      bytes
      a.weight     12
      b         4,096
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from i2s_spec.draw.terminal import Line, Piece
from i2s_spec.draw.text import cut, width

#: Smallest width to which a column is shortened.
NARROWEST: Final = 16

_GAP: Final = "  "


class Column(NamedTuple):
    """One column: its title, whether it is aligned to the right, and whether it is shortened if a line is too long.

    A column is shortened by leaving out the middle of its cells; in the last column, the end.
    """

    title: str
    right: bool = False
    gives: bool = False
    style: str = ""


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], available: int | None = None, indent: int = 2
) -> Iterator[Line]:
    """The lines of a table, its titles first.

    :param rows: cells that are escaped already; a row of one cell is a remark across all columns
    :param available: columns of the terminal, if the table must fit
    """
    retained = list(rows)
    widths = [width(column.title) for column in columns]
    for row in retained:
        if len(row) > 1:
            widths = [max(known, width(cell)) for known, cell in zip(widths, row, strict=True)]
    if available is not None:
        over = indent + sum(widths) + len(_GAP) * (len(widths) - 1) - available
        for i in reversed(range(len(columns))):
            if columns[i].gives and over > 0:
                narrowed = max(min(widths[i], NARROWEST), widths[i] - over)
                over -= widths[i] - narrowed
                widths[i] = narrowed

    yield _line([column.title for column in columns], columns, widths, indent, "bold")
    for row in retained:
        yield [Piece(" " * indent + row[0], "dim")] if len(row) == 1 else _line(row, columns, widths, indent)


def _line(
    cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int], indent: int, style: str | None = None
) -> Line:
    pieces = [Piece(" " * indent)]
    for i, (cell, column) in enumerate(zip(cells, columns, strict=True)):
        last = i == len(columns) - 1
        text = cut(cell, widths[i], middle=not last) if width(cell) > widths[i] else cell
        space = " " * (widths[i] - width(text))
        shown = space + text if column.right else text if last else text + space
        pieces.append(Piece((_GAP if i else "") + shown, column.style if style is None else style))
    return pieces
