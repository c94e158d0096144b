"""This module writes lines of styled pieces: plain text to a pipe or a file, on a terminal in color and cut to its width.

Text that comes from a file must have been escaped before it becomes a `Piece`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TextIO


class Piece(NamedTuple):
    """Text with one style of rich, such as `bold`, `dim`, `cyan`, `red`."""

    text: str
    style: str = ""


#: One line of output.
Line = Sequence[Piece]


def plain(line: Line) -> str:
    """A line without its styles and without trailing spaces."""
    return "".join(piece.text for piece in line).rstrip(" ")


def columns(stream: TextIO) -> int | None:
    """Width of the terminal to which a stream writes; None for anything else, where lines are never cut."""
    return shutil.get_terminal_size().columns if _is_terminal(stream) else None


def write(lines: Iterable[Line], stream: TextIO) -> None:
    """Write lines to a stream as they come; on a terminal with color (unless NO_COLOR is set) and cut to its width."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if _is_terminal(stream) and encoding.lower().startswith("utf"):
        from rich.console import Console
        from rich.text import Text

        console = Console(file=stream, highlight=False, markup=False, emoji=False)
        for line in lines:
            text = Text.assemble(*((piece.text, piece.style) for piece in line))
            console.print(text, no_wrap=True, overflow="ellipsis")
        return
    for line in lines:
        text_line = plain(line)
        if not text_line.isascii():  # a stream that cannot encode a character writes its number
            text_line = text_line.encode(encoding, "backslashreplace").decode(encoding)
        stream.write(text_line + "\n")


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"
