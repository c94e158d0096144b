"""Errors as data, and the words that users read: spans, faults, exit codes, quoting, and how objects are displayed.

A `FormatError` joins a `Fault` (a declaration with a stable code), a `Span` (where: a range of bytes and the path of
the field), and the values that were found and wanted. Words are made from it only when somebody reads it, and whatever
came from a file is quoted then, so that no file can write to a terminal.

    >>> fault = Fault("G999", "too-short", "the file holds {got} bytes; at least {want} are needed")
    >>> print(FormatError(fault, Span(0, 4, "header"), got=4, want=24))
    G999 too-short at 0x0..0x4 (header): the file holds 4 bytes; at least 24 are needed

The other errors of the package, the exit codes of the command line, and counted nouns in sentences (`counted`,
`plural`) are here too. `line` and `table` show an object in an interpreter or a notebook:

>>> line("File", "a.gguf", "3 keys")
"<File 'a.gguf': 3 keys>"
>>> table("x", [("size", "1 < 2")])
'<div class="i2s"><p><strong>x</strong></p><table><tbody><tr><th>size</th><td>1 &lt; 2</td></tr></tbody></table></div>'
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

EXIT_FINDINGS, EXIT_USAGE, EXIT_INPUT, EXIT_BUG, EXIT_REMOTE = 1, 2, 3, 4, 5
EXIT_MEMORY, EXIT_UNFINISHED = 71, 75  # sysexits' numbers for a shortage, and for a temporary failure
EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 130, 141

#: What the exit codes of all verbs mean; over several files the worst counts: 4, 3, 1, 0. No input makes `EXIT_BUG`: every
#: fuzz harness asks for that.
EXIT_CODES: Final = {
    0: "nothing found that fails the run (`--fail-on`, usually errors)",
    EXIT_FINDINGS: "findings, differences, or a check that failed",
    EXIT_USAGE: "a wrong call",
    EXIT_INPUT: "input that cannot be read, or is not GGUF",
    EXIT_BUG: "a bug in i2s-spec",
    EXIT_REMOTE: "a server did not give the file: gated, missing, rate-limited, offline; another try may",
    EXIT_MEMORY: "not enough memory, open files or threads: nothing is known of the input",
    EXIT_UNFINISHED: "a run over many files ended early: repeat the command, and it continues",
    EXIT_INTERRUPTED: "interrupted with Ctrl-C",
    EXIT_BROKEN_PIPE: "the reader of the output has gone",
}

#: Longest piece of a file's own text that a message repeats, in characters.
QUOTE_LIMIT = 80


class Span(NamedTuple):
    """A half-open range of bytes, `start <= byte < stop`, and the schema path of the field that lies there."""

    start: int
    stop: int
    path: str = ""

    def __str__(self) -> str:
        where = f"0x{self.start:x}..0x{self.stop:x}"
        return f"{where} ({quote(self.path, bare=True)})" if self.path else where

    def as_dict(self) -> dict[str, Any]:
        """Return the span as plain data; the path is quoted."""
        return {"start": self.start, "stop": self.stop, "path": quote(self.path, bare=True)}


class TrustedText(str):
    """Text of this package inside a message: shown as they are, where text from a file would be quoted."""

    __slots__ = ()


class Fault(NamedTuple):
    """One distinct way to be wrong: a code that is never reused, a slug for people, and the sentence that says it.

    `message` is a `str.format` template over the values of the finding; it comes from this package, never from a file.
    """

    code: str
    slug: str
    message: str


class FormatError(ValueError):
    """The only exception that a reader raises: a fault, the bytes where it lies, and the values involved."""

    def __init__(self, fault: Fault, span: Span, got: Any = None, want: Any = None, **details: Any) -> None:
        super().__init__(fault, span, got, want, details)
        self.fault = fault
        self.span = span
        self.got = got
        self.want = want
        self.details = details
        #: The file that the bytes are of, where whoever opened it said so; a call may read several.
        self.file: str | None = None

    @property
    def code(self) -> str:
        return self.fault.code

    @property
    def message(self) -> str:
        return render(self.fault.message, got=self.got, want=self.want, **self.details)

    def __str__(self) -> str:
        where = f" at {self.span}" if self.span.stop or self.span.path else ""  # what cannot be read has no bytes
        return f"{self.fault.code} {self.fault.slug}{where}: {self.message}"

    def of_file(self, path: str | os.PathLike[str]) -> FormatError:
        """Return this error with the name of its file added, unless it has one already."""
        if self.file is None:
            self.file = os.fsdecode(path)
            self.add_note(f"in the file {quote(self.file, 4096)}")  # a traceback shows it below the message
        return self

    def __reduce__(self) -> tuple[Any, ...]:  # exceptions with keywords do not pickle by themselves
        return _rebuild, (self.fault, self.span, self.got, self.want, self.details)


class ReadOnWarning(UserWarning):
    """A file has a fault for which strict readers refuse it, and was read or run all the same; the text says how."""


class FileError(FormatError, OSError):
    """A file that the system does not open, as the `OSError` that it is, too: `errno`, `strerror` and `filename` are the
    system's. It is a `FileNotFoundError` or `PermissionError` where the system says so.
    """

    def __new__(cls, *_: Any, **__: Any) -> FileError:
        return OSError.__new__(cls)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_file, (
            type(self),
            (self.fault, self.span, self.details),
            (self.errno, self.strerror, self.filename),
        )


class MissingFileError(FileError, FileNotFoundError):
    """There is no file of that name."""


class ForbiddenFileError(FileError, PermissionError):
    """The file is there, and may not be read."""


def file_error(fault: Fault, error: OSError) -> FileError:
    """Return what the system reported when a file was to be opened, as a `FormatError` that has no bytes.

    :param fault: whose message has a `reason`
    """
    missing, forbidden = isinstance(error, FileNotFoundError), isinstance(error, PermissionError)
    kind = MissingFileError if missing else ForbiddenFileError if forbidden else FileError
    details = {"reason": TrustedText(error.strerror or type(error).__name__)}
    return _rebuild_file(kind, (fault, Span(0, 0), details), (error.errno, error.strerror, error.filename))


def _rebuild_file(
    kind: type[FileError], values: tuple[Fault, Span, dict[str, Any]], system: tuple[int | None, str | None, Any]
) -> FileError:
    fault, span, details = values
    made = kind(fault, span, **details)
    made.errno, made.strerror, made.filename = system
    return made


def _rebuild(fault: Fault, span: Span, got: Any, want: Any, details: dict[str, Any]) -> FormatError:
    return FormatError(fault, span, got, want, **details)


class SettingError(ValueError):
    """A setting of the caller's (an environment variable, an option) that cannot be followed."""


class RecordError(SettingError):
    """A file that this package writes, such as a record or a list, and that cannot be read: it is missing, or none."""


class Unfinished(RuntimeError):
    """A run over many files that ended early; what it did is kept, and the same call goes on from there."""


class TooManyFiles(MemoryError):
    """The process may open no further file, so that nothing is known of the input: no fault of the one that it met."""

    def __init__(self) -> None:
        super().__init__("too many files are open at once (ulimit -n allows more)")


def is_too_many_files(error: BaseException) -> bool:
    """Whether an error is about the number of open files, of this process or of the system."""
    return isinstance(error, TooManyFiles) or getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE)


class MissingExtra(ImportError):
    """A feature was asked for whose optional dependency is not installed."""

    def __init__(self, feature: str, extra: str, missing: str | None = None) -> None:
        """Name the feature, its extra and, if others of that may be there, the module that is missing."""
        what = f" (there is no module {missing})" if missing else ""
        super().__init__(f"{feature} needs the extra [{extra}]{what}: {how_to_install(extra)}")


def how_to_install(extra: str) -> str:
    """Return what brings an extra: the package is in no index, so that it takes a checkout of the project.

    >>> how_to_install("chat")
    "pip install -e '.[chat]' in a checkout of i2s-spec"
    """
    return f"pip install -e '.[{extra}]' in a checkout of i2s-spec"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number and the words that follow it, in the form that they have after that number.

    :param one: the words after 1
    :param many: the words after other numbers; `one` with an s, unless given

    >>> counted(1, "key"), counted(2_000, "key"), counted(2, "matrix is", "matrices are")
    ('1 key', '2,000 keys', '2 matrices are')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def all_of(number: int, one: str, many: str = "") -> str:
    """Name all things of a number, as `counted` says it.

    >>> all_of(1, "tensor is", "tensors are"), all_of(2, "tensor is", "tensors are")
    ('the one tensor is', 'all 2 tensors are')
    """
    return f"the one {one}" if number == 1 else f"all {counted(number, one, many)}"


class _Value(str):
    """A value of a message. A template that writes `{got:byte}` or `{got:matrix is|matrices are}` has the words after the
    number, as `counted` forms them.
    """

    __slots__ = ("number",)
    number: int | None

    def __format__(self, words: str) -> str:
        if not words:
            return str(self)
        one, _, many = words.partition("|")
        return counted(self.number, one, many) if self.number is not None else f"{self!s} {many or one + 's'}"


def render(template: str, **values: Any) -> str:
    """Fill a message template; integers get digit groups, text and bytes are quoted with `quote`.

    >>> render("{got:byte}, {want:byte is|bytes are} left", got=1, want=2_000)
    '1 byte, 2,000 bytes are left'
    """
    return template.format(**{name: _value(value) for name, value in values.items()})


def _value(value: Any) -> _Value:
    made = _Value(_shown(value))
    made.number = value if isinstance(value, int) else None
    return made


def plural(template: str) -> str:
    """Return a message template as people read it: each `{got:byte}` as `{got} bytes`.

    >>> plural("{got:byte}, {want:byte is|bytes are} left in {path}")
    '{got} bytes, {want} bytes are left in {path}'
    """
    parts = template.split("{")
    for i, part in enumerate(parts[1:], 1):
        inside, closed, after = part.partition("}")
        name, _, words = inside.partition(":")
        one, _, many = words.partition("|")
        parts[i] = f"{name}}} {many or one + 's'}{after}" if closed and words else part
    return "{".join(parts)


def _shown(value: Any) -> str:
    if isinstance(value, TrustedText | bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, str | bytes):
        return quote(value)
    if isinstance(value, tuple | list):
        return "(" + ", ".join(_shown(item) for item in value) + ")"
    return str(value)


def quote(text: str | bytes, limit: int = QUOTE_LIMIT, bare: bool = False) -> str:
    """Write text of unknown origin as one printable line: controls, bidi marks, surrogates and odd bytes become escapes.

    What a terminal, a log or a reader could take for something else than text is written as `\\xNN` or `\\uNNNN`;
    beyond `limit` characters the rest is counted, not shown. With `bare` there are no quotation marks around it.

    >>> print(quote("\\x1b[31mred"))
    '\\x1b[31mred'
    """
    length, unit, cut = len(text), "characters", len(text) > limit
    if isinstance(text, bytes):
        unit, whole = "bytes", len(text) <= 4 * limit
        text = text[: 4 * limit].decode("utf-8", "surrogateescape")
        cut = not whole or len(text) > limit
    shown = text[:limit]
    if not shown.isprintable() or "\\" in shown:
        shown = "".join(c if c.isprintable() and c != "\\" else _escaped(c) for c in shown)
    if not bare:
        shown = "'" + shown.replace("'", "\\'") + "'"
    return f"{shown}… ({length:,} {unit})" if cut else shown


def _escaped(char: str) -> str:
    number = ord(char)
    if char == "\\":
        return "\\\\"
    if 0xDC80 <= number <= 0xDCFF:  # a byte that is not UTF-8, kept by surrogateescape
        return f"\\x{number - 0xDC00:02x}"
    if number <= 0xFF:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


# --- display ---------------------------------------------------------------------------------------------------------
# A line and a table are small whatever the object holds, and safe: text from a file is quoted, then escaped. A table
# has its style in itself and takes the colors of the notebook, light or dark.

#: Rows of a table that are shown; how many there are beside them is said.
ROWS: Final = 20

#: Characters of one cell, and of a name in a line.
CELL: Final = 120
NAME: Final = 120


def line(kind: str, name: str | bytes, words: str) -> str:
    """Return an object in one line: its class, the name that it goes by, and what it is in a few words."""
    return f"<{kind} {quote(name, NAME)}: {words}>"


def table(
    title: str,
    facts: Iterable[tuple[str, Any]] = (),
    head: Sequence[str] = (),
    rows: Iterable[Sequence[Any]] = (),
    total: int | None = None,
) -> str:
    """Return an object as HTML: facts as names and values, then rows, of which the first `ROWS` are shown.

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
    from html import escape

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
