"""This module splits the source of a Jinja template into text and code, and the code into tokens, as Jinja does it.

Blanks, letters and digits are those of Unicode, as in Jinja. It needs linear time for any source, and keeps only
`NamedTuple`s of its results. Nothing is evaluated. Positions are characters.

    >>> [part.kind for part in cut("Hello {{ name }}{# nobody #}!")]
    ['text', 'expression', 'text']
"""

from __future__ import annotations

from collections.abc import Iterator

from i2s_spec.light_typing import TYPE_CHECKING, Final, NamedTuple
from i2s_spec.pattern import pattern

if TYPE_CHECKING:
    import re


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
    """A hazard in a template: its kind (`reach`, `loop`, `broken` or `trigger`), its position, and what it is, in words."""

    kind: str
    start: int
    stop: int
    what: str


_OPEN: Final = pattern(r"\{[{%#]")
#: An integer may have a prefix; a fraction has digits on both sides of its point. Anything else begins a new token.
_TOKEN: Final = pattern(
    r"""(?xs)(?P<space>\s+)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>(?<!\.)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?[eE][+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)
        |0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[\da-fA-F])+|[1-9](?:_?\d)*|0(?:_?0)*)
    |(?P<name>\w+)
    |(?P<sign>\*\*|//|[=!<>]=|.)""",
)
_ESCAPE: Final = pattern(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|N\{([^}]{1,100})\}|([\nabfnrtv\\'\"]))"
)
_PLAIN_ESCAPES: Final = {
    "\n": "", "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_LINE_END: Final = pattern(r"\r\n|\r|\n")
_RAW: Final = pattern(r"\{%[-+]?\s*raw\s*-?%\}")
_RAW_END: Final = pattern(r"\{%[-+]?\s*endraw\s*[-+]?%\}")


class Broken(Exception):
    """The source ends inside a piece of code or inside a text; gives the position."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at
        self.what = what


def cut(source: str) -> Iterator[Part]:
    """A template's text and code in order; comments are left out.

    :raises Broken: if the source ends inside a piece of code
    """
    if source.endswith(("\r", "\n")):  # Jinja drops one line end at the end of a template
        source = source[: -2 if source.endswith("\r\n") else -1]
    at, has_raw = 0, "raw" in source
    while True:
        opened = _OPEN.search(source, at)
        start = opened.start() if opened else len(source)
        if start > at:
            yield Part("text", at, start)
        if opened is None:
            return
        if opened[0] == "{#":
            at = source.find("#}", start + 2) + 2
            if at < 2 and source[start + 2 :] in ("", "-", "+"):
                return  # Jinja does not treat an opening mark that is followed only by its trim sign as a comment
            if at < 2:
                raise Broken(start, "a comment that does not end")
            continue
        raw = _RAW.match(source, start) if has_raw else None
        part = _code(source, start, "expression" if opened[0] == "{{" else "statement")
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
    """The expression or statement that opens at `start`."""
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
        match = _TOKEN.match(source, at)
        assert match is not None, "every character is at least a sign"
        name, value = match.lastgroup or "", match[0]
        if value in ("'", '"'):
            raise Broken(at, "a text that does not end")
        if name == "text":
            value = _unescaped(value[1:-1])
        elif name == "sign":
            depth += value in "([{"
            depth = max(0, depth - (value in ")]}"))
        if name != "space":
            tokens.append(Token(name, at, match.end(), value))
        at = match.end()
    raise Broken(start, "a piece of code that does not end")


def _unescaped(text: str) -> str:
    """The value of a text: escapes are those of Python, and each line end is one character."""
    if "\r" in text:
        text = _LINE_END.sub("\n", text)
    return _ESCAPE.sub(_plain, text) if "\\" in text else text


def _plain(match: re.Match[str]) -> str:
    """The value of an escape; an escape that Python refuses stays as it is."""
    two, four, eight, octal, name, other = match.groups()
    if other is not None:
        return _PLAIN_ESCAPES.get(other, other)
    if name is not None:
        import unicodedata

        try:
            return unicodedata.lookup(name)
        except KeyError:
            return match[0]
    number = int(two or four or eight or octal, 8 if octal else 16)
    return chr(number) if number < 0x110000 else match[0]
