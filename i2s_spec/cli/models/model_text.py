"""Text that a model wrote, on its way out: harmless on a terminal, exact in a pipe.

A model's tokens come from an untrusted file, so its text could move the cursor, set the clipboard or turn the reading
direction. On a terminal everything that acts is shown as an escape (`\\x1b`, `\\u202e`); line feeds, tabs and whatever
emoji and scripts need to join are left alone. In a pipe or a file the text is exact, as other tools' output is: it is
data there, and an escape in it would be a lie. The log of a CI run is read by a program that obeys lines which begin
with `::` or `##`: there, in a pipe, those are escaped too. `--raw` and `--escape` choose one of the two.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from contextlib import suppress
from typing import Final, TextIO

#: Controls but line feed and tab, directions and overrides, line and paragraph separators, annotations, tags, surrogates.
_ACTING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


#: Variables by which CI systems say that they read what a program prints as commands.
_OBEYING: Final = ("GITHUB_ACTIONS", "TF_BUILD", "GITEA_ACTIONS", "FORGEJO_ACTIONS")
#: What commands to them begin with, where a line does.
_COMMAND: Final = re.compile(r"(?m)^([ \t]*)([:#])")
_BLANK: Final = re.compile(r"[ \t]*\Z")


def is_ci_log(stream: TextIO) -> bool:
    """Whether what is written to a stream goes into the log of a CI run that obeys lines in it."""
    if not any(os.environ.get(name) for name in _OBEYING):
        return False
    with suppress(OSError, ValueError):
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    return False


def harmless(text: str) -> str:
    """Text in which nothing acts on a terminal, line by line as it was.

    >>> print(harmless("a\\x1b[2Jb"))
    a\\x1b[2Jb
    """
    return _ACTING.sub(lambda match: _escape(ord(match[0])), text)


def _escape(number: int) -> str:
    if number <= 0xFF:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _as_number(match: re.Match[str]) -> str:
    return match[1] + _escape(ord(match[2]))


class ModelText:
    """Writes a model's text to a stream as it comes.

    :param escaped: whether it is made harmless; None for where the stream is a terminal, or the log of a CI run
    """

    def __init__(self, stream: TextIO | None = None, escaped: bool | None = None) -> None:
        self._stream = stream or sys.stdout
        self._disobeyed = escaped is not False and is_ci_log(self._stream)
        self._escaped = self._stream.isatty() or self._disobeyed if escaped is None else escaped
        self._begins = True  # whether there are only blanks on the line so far
        self._encoding = getattr(self._stream, "encoding", None) or "utf-8"
        #: Whether something was written that a new line should end.
        self.open_line = False

    def write(self, text: str) -> None:
        """Write a piece of text at once."""
        if not text:
            return
        shown = harmless(text) if self._escaped else text
        if self._disobeyed:
            shown = self._without_commands(shown)
        if not shown.isascii():  # a stream that cannot say a character says its number
            shown = shown.encode(self._encoding, "backslashreplace").decode(self._encoding)
        self._stream.write(shown)
        self._stream.flush()
        self.open_line = not shown.endswith("\n")

    def _without_commands(self, text: str) -> str:
        """Text of which no line begins as a command does; the beginning of the line may have been written before."""
        first, end, rest = text.partition("\n")
        begun = first if not self._begins else _COMMAND.sub(_as_number, first, count=1)
        shown = begun + end + _COMMAND.sub(_as_number, rest)
        last = text.rpartition("\n")[2]
        self._begins = (self._begins or "\n" in text) and _BLANK.match(last) is not None
        return shown

    def end_line(self) -> None:
        """End the line, if one is open."""
        if self.open_line:
            self._stream.write("\n")
            self._stream.flush()
            self.open_line, self._begins = False, True
