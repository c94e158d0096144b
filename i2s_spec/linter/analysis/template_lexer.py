"""The lexer of Jinja templates: their source as text and code, and the code as tokens, split as Jinja does it.

Blanks, letters and digits are those of Unicode, as in Jinja. It needs linear time for any source, and keeps only
`NamedTuple`s of its results. Nothing is evaluated. Positions are characters.

    >>> [part.kind for part in cut("Hello {{ name }}{# nobody #}!")]
    ['text', 'expression', 'text']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple


class Token(NamedTuple):
    """A token of code: its kind (`text`, `number`, `name` or `sign`) and its characters; for a text, its value."""

    kind: str
    start: int
    stop: int
    value: str


class Part(NamedTuple):
    """A part of a template: `text` that is output, an `expression` or a `statement`, with its tokens."""

    kind: str
    start: int
    stop: int
    tokens: tuple[Token, ...] = ()

    @property
    def word(self) -> str:
        """The keyword of a statement."""
        return self.tokens[0].value if self.kind == "statement" and self.tokens else ""


class Hazard(NamedTuple):
    """A hazard in a template: its kind, its position, and what it is, in words.

    The kinds: `reach`, `loop`, `broken`, `trigger`, `unseen`, `mark`, `gate` and `idiom`.
    """

    kind: str
    start: int
    stop: int
    what: str


#: What opens a comment, an expression or a statement.
_OPENS: Final = ("{#", "{{", "{%")
#: Signs of two characters; every other sign is one.
_DOUBLE_SIGNS: Final = frozenset({"**", "//", "==", "!=", "<=", ">="})
_OCTAL: Final = "01234567"
_HEXADECIMAL: Final = "0123456789abcdefABCDEF"
#: What an escape of one character stands for, and how many hexadecimal digits follow one that has some.
_PLAIN_ESCAPES: Final = {
    "\n": "", "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_ESCAPE_DIGITS: Final = {"x": 2, "u": 4, "U": 8}
#: Characters of a name that an escape may give.
_LONGEST_CHARACTER_NAME: Final = 100
_RAW: Final = re.compile(r"\{%[-+]?\s*raw\s*-?%\}")
_RAW_END: Final = re.compile(r"\{%[-+]?\s*endraw\s*[-+]?%\}")


class Broken(Exception):
    """The source ends inside a piece of code or inside a text; gives the position."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at
        self.what = what


def cut(source: str) -> Iterator[Part]:
    """Yield a template's text and code in order; comments are left out.

    :raises Broken: if the source ends inside a piece of code
    """
    if source.endswith(("\r", "\n")):  # Jinja drops one line end at the end of a template
        source = source[: -2 if source.endswith("\r\n") else -1]
    at, has_raw = 0, "raw" in source
    while True:
        start = _opened(source, at)
        if start > at:
            yield Part("text", at, start)
        if start == len(source):
            return
        if source.startswith("{#", start):
            at = source.find("#}", start + 2) + 2
            if at < 2 and source[start + 2 :] in ("", "-", "+"):
                return  # Jinja does not treat an opening mark that is followed only by its trim sign as a comment
            if at < 2:
                raise Broken(start, "a comment that does not end")
            continue
        raw = _RAW.match(source, start) if has_raw else None
        part = _code(source, start, "expression" if source.startswith("{{", start) else "statement")
        yield part
        at = part.stop
        if raw is not None:
            at = raw.end()
            end = _RAW_END.search(source, at)
            if end is None and at == len(source):
                return  # Jinja does not require an end for an empty raw block either
            if end is None:
                raise Broken(start, "a raw block that does not end")
            if end.start() > at:
                yield Part("text", at, end.start())
            at = end.end()


def _code(source: str, start: int, kind: str) -> Part:
    """Return the expression or statement that opens at `start`."""
    end, signs = ("}}", "-") if kind == "expression" else ("%}", "-+")
    at, depth = start + 2, 0
    if source[at : at + 1] in ("-", "+"):
        at += 1
    tokens: list[Token] = []
    while at < len(source):
        if not depth and source.startswith(end, at):
            return Part(kind, start, at + 2, tuple(tokens))
        if not depth and source[at] in signs and source.startswith(end, at + 1):
            return Part(kind, start, at + 3, tuple(tokens))
        name, stop = _token(source, at)
        value = source[at:stop]
        if value in ("'", '"'):
            raise Broken(at, "a text that does not end")
        if name == "text":
            value = _unescaped(value[1:-1])
        elif name == "sign":
            depth += value in "([{"
            depth = max(0, depth - (value in ")]}"))
        if name != "space":
            tokens.append(Token(name, at, stop, value))
        at = stop
    raise Broken(start, "a piece of code that does not end")


def _opened(source: str, at: int) -> int:
    """Return where the next comment, expression or statement opens; the end of the source where none does."""
    while (at := source.find("{", at)) >= 0:
        if source.startswith(_OPENS, at):
            return at
        at += 1
    return len(source)


def _token(source: str, at: int) -> tuple[str, int]:
    """Return the kind of the token at a place, or `space` for blanks, and where it ends. A text that does not end is
    a sign.
    """
    first = source[at]
    if first.isspace():
        return "space", _end(source, at, str.isspace)
    if first in "'\"" and (stop := _text_end(source, at)):
        return "text", stop
    if first.isdecimal() and (stop := _float_end(source, at) or _integer_end(source, at)):
        return "number", stop
    if _is_of_name(first):
        return "name", _end(source, at, _is_of_name)
    return "sign", at + (2 if source[at : at + 2] in _DOUBLE_SIGNS else 1)


def _is_of_name(character: str) -> bool:
    return character.isalnum() or character == "_"


def _end(source: str, at: int, fits: Callable[[str], bool]) -> int:
    """Return where characters of one sort end."""
    while at < len(source) and fits(source[at]):
        at += 1
    return at


def _text_end(source: str, at: int) -> int:
    """Return where the text ends that a quote begins; 0 if it does not. A backslash takes the next character with it."""
    quote, end, at = source[at], at, at + 1
    while True:
        if end < at and (end := source.find(quote, at)) < 0:
            return 0
        slash = source.find("\\", at, end)
        if slash < 0:
            return end + 1
        at = slash + 2


# A whole number may have a prefix, a fraction comes with digits on both sides of its point; what follows is a new token.


def _float_end(source: str, at: int) -> int:
    """Return where a number ends that has a fraction or an exponent; 0 where there is neither, and after a point."""
    if source[at - 1] == ".":
        return 0
    whole = _digits_end(source, at)
    fraction = _digits_end(source, whole + 1) if source.startswith(".", whole) else 0
    at = fraction or whole
    if source.startswith(("e", "E"), at):
        at += 2 if source.startswith(("+", "-"), at + 1) else 1
        return _digits_end(source, at) or fraction
    return fraction


def _digits_end(source: str, at: int) -> int:
    """Return where decimal digits end, with single `_` between them; 0 where there are none."""
    end = 0
    while at < len(source) and source[at].isdecimal():
        end = at + 1
        at = end + source.startswith("_", end)
    return end


def _integer_end(source: str, at: int) -> int:
    """Return where a whole number ends; 0 where a digit begins none."""
    if source[at] != "0":
        return _run_end(source, at + 1, str.isdecimal) if source[at] in "123456789" else 0
    for prefixes, fits in _PREFIXES:
        if source.startswith(prefixes, at + 1) and (stop := _run_end(source, at + 2, fits)) > at + 2:
            return stop
    return _run_end(source, at + 1, "0".__contains__)


def _is_hexadecimal(character: str) -> bool:
    return character in _HEXADECIMAL or character.isdecimal()


_PREFIXES: Final = (
    (("b", "B"), "01".__contains__), (("o", "O"), _OCTAL.__contains__), (("x", "X"), _is_hexadecimal)
)  # fmt: skip


def _run_end(source: str, at: int, fits: Callable[[str], bool]) -> int:
    """Return where digits of one sort end, each of which may have `_` before it."""
    while (next_digit := at + source.startswith("_", at)) < len(source) and fits(source[next_digit]):
        at = next_digit + 1
    return at


def _unescaped(text: str) -> str:
    """Return the text that a literal stands for: escapes are those of Python, and each line end is one character."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    made: list[str] = []
    at = 0
    while (slash := text.find("\\", at)) >= 0:
        stop, character = _escape(text, slash)
        made += text[at:slash], character
        at = stop
    return "".join((*made, text[at:])) if made else text


def _escape(text: str, at: int) -> tuple[int, str]:
    """Return where an escape ends, and what it stands for; one that Python refuses, for itself."""
    kind = text[at + 1 : at + 2]
    plain = _PLAIN_ESCAPES.get(kind)
    if plain is not None:
        return at + 2, plain
    if kind == "N":
        return _named_character(text, at)
    size = _ESCAPE_DIGITS.get(kind, 0)
    digits = text[at + 2 : at + 2 + size] if size else text[at + 1 : at + 4]
    valid = len(digits) - len(digits.lstrip(_HEXADECIMAL if size else _OCTAL))
    if valid < (size or 1):
        return at + 1, "\\"
    stop = at + 2 + size if size else at + 1 + valid
    number = int(digits[:valid], 16 if size else 8)
    return stop, chr(number) if number < 0x110000 else text[at:stop]


def _named_character(text: str, at: int) -> tuple[int, str]:
    """Return the same of the name of a character in braces."""
    close = text.find("}", at + 3, at + 4 + _LONGEST_CHARACTER_NAME)
    if not text.startswith("{", at + 2) or close <= at + 3:
        return at + 1, "\\"
    import unicodedata

    try:
        return close + 1, unicodedata.lookup(text[at + 3 : close])
    except KeyError:
        return close + 1, text[at : close + 1]
