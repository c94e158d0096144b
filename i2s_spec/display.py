"""This module defines how objects appear where somebody works with them: a line in an interpreter, a table in a notebook.

Both are small whatever the object holds, and safe: text from a file is quoted, then escaped. A table has its style in
itself and takes the colors of the notebook, light or dark.

    >>> line("File", "a.gguf", "3 keys")
    "<File 'a.gguf': 3 keys>"
    >>> table("x", [("size", "1 < 2")])
    '<div class="i2s"><p><strong>x</strong></p><table><tbody><tr><th>size</th><td>1 &lt; 2</td></tr></tbody></table></div>'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import Any, Final

from i2s_spec.errors import quote

#: Rows of a table that are shown; how many there are beside them is said.
ROWS: Final = 20

#: Characters of one cell, and of a name in a line.
CELL: Final = 120
NAME: Final = 120


def line(kind: str, name: str | bytes, words: str) -> str:
    """An object in one line: its class, the name that it goes by, and what it is in a few words."""
    return f"<{kind} {quote(name, NAME)}: {words}>"


def table(
    title: str,
    facts: Iterable[tuple[str, Any]] = (),
    head: Sequence[str] = (),
    rows: Iterable[Sequence[Any]] = (),
    total: int | None = None,
) -> str:
    """An object as HTML: facts as names and values, then rows, of which the first `ROWS` are shown.

    :param title: plain text
    :param facts: each a name and a value
    :param head: the names of the columns
    :param rows: cells; no more than `ROWS` rows are taken from it
    :param total: how many rows there are
    """
    parts = [f"<p><strong>{_cell(title)}</strong></p>"]
    named = "".join(f"<tr><th>{_cell(name)}</th><td>{_cell(value)}</td></tr>" for name, value in facts)
    if named:
        parts.append(f"<table><tbody>{named}</tbody></table>")
    shown = [f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in islice(rows, ROWS)]
    if shown:
        names = "".join(f"<th>{_cell(name)}</th>" for name in head)
        parts.append(f"<table><thead><tr>{names}</tr></thead><tbody>{''.join(shown)}</tbody></table>")
    if total is not None and total > len(shown):
        parts.append(f"<p>and {total - len(shown):,} more</p>")
    return f'<div class="i2s">{"".join(parts)}</div>'


def _cell(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return escape(quote(value if isinstance(value, str | bytes) else str(value), CELL, bare=True))


class MissingName(KeyError):
    """A name that a file does not have; the message says which ones are near, when somebody reads it."""

    #: Names that are compared.
    COMPARED: Final = 20_000

    def __init__(self, kind: str, name: Any, names: Iterable[str]) -> None:
        super().__init__(name)
        self._kind = kind
        self._names = names

    def __str__(self) -> str:
        from difflib import get_close_matches

        name = self.args[0]
        if not isinstance(name, str):
            return f"names of a {self._kind} are str, not {type(name).__name__}"
        near = get_close_matches(name[:256], [each[:256] for each in islice(self._names, self.COMPARED)])
        hint = f"; near it are {', '.join(quote(each) for each in near)}" if near else ""
        return f"the file has no {self._kind} {quote(name)}{hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        return MissingName, (self._kind, self.args[0], list(islice(self._names, self.COMPARED)))
