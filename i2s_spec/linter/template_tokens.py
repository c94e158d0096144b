"""This module cuts the source of a Jinja template into text and code, and the code into tokens, as Jinja cuts it.

It needs linear time whatever the source is, and keeps no more than `NamedTuple`s of what it found. Nothing is evaluated.

    >>> [part.kind for part in cut(b"Hello {{ name }}{# nobody #}!")]
    ['text', 'expression', 'text']
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple


class Token(NamedTuple):
    """A piece of code: `text`, `number`, `name` or `sign`, and its bytes; of a text what it stands for."""

    kind: str
    start: int
    stop: int
    value: bytes


class Part(NamedTuple):
    """A stretch of a template: `text` that is given out, an `expression` or a `statement`, with its tokens."""

    kind: str
    start: int
    stop: int
    tokens: tuple[Token, ...] = ()

    @property
    def word(self) -> bytes:
        """The keyword of a statement."""
        return self.tokens[0].value if self.kind == "statement" and self.tokens else b""


class Hazard(NamedTuple):
    """A place in a template: `reach`, `loop`, `broken` or `trigger`; its bytes; what stands there, in words."""

    kind: str
    start: int
    stop: int
    what: str


_OPEN: Final = re.compile(rb"\{[{%#]")
_TOKEN: Final = re.compile(
    rb"""(?P<space>\s+)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<name>[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*)
    |(?P<sign>\*\*|//|[=!<>]=|.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([0-7]{1,3})|(.))", re.DOTALL)
_RAW_END: Final = re.compile(rb"\{%[-+]?\s*endraw\s*[-+]?%\}")


class Broken(Exception):
    """The source ends inside a piece of code, or inside a text: where."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at
        self.what = what


def cut(source: bytes) -> Iterator[Part]:
    """A template's text and code in order; comments are left out.

    :raises Broken: where the source ends inside a piece of code
    """
    at = 0
    while True:
        opened = _OPEN.search(source, at)
        start = opened.start() if opened else len(source)
        if start > at:
            yield Part("text", at, start)
        if opened is None:
            return
        if opened[0] == b"{#":
            at = source.find(b"#}", start + 2) + 2
            if at < 2 and start + 2 == len(source):
                return  # to Jinja, a mark with nothing behind it is no comment
            if at < 2:
                raise Broken(start, "a comment that does not end")
            continue
        part = _code(source, start, "expression" if opened[0] == b"{{" else "statement")
        yield part
        at = part.stop
        if part.word == b"raw":
            end = _RAW_END.search(source, at)
            if end is None:
                raise Broken(start, "a raw block that does not end")
            if end.start() > at:
                yield Part("text", at, end.start())
            at = end.end()


def _code(source: bytes, start: int, kind: str) -> Part:
    """The expression or statement that opens at `start`."""
    end = b"}}" if kind == "expression" else b"%}"
    at, depth = start + 2, 0
    if source[at : at + 1] in (b"-", b"+"):
        at += 1
    tokens: list[Token] = []
    while at < len(source):
        if not depth and source[at : at + 2] == end:
            return Part(kind, start, at + 2, tuple(tokens))
        if not depth and source[at : at + 1] in b"-+" and source[at + 1 : at + 3] == end:
            return Part(kind, start, at + 3, tuple(tokens))
        match = _TOKEN.match(source, at)
        assert match is not None, "every byte is a sign at least"
        name, value = match.lastgroup or "", match[0]
        if value in (b"'", b'"'):
            raise Broken(at, "a text that does not end")
        if name == "text":
            value = _unescaped(value[1:-1])
        elif name == "sign":
            depth += value in b"([{"
            depth = max(0, depth - (value in b")]}"))
        if name != "space":
            tokens.append(Token(name, at, match.end(), value))
        at = match.end()
    raise Broken(start, "a piece of code that does not end")


def _unescaped(text: bytes) -> bytes:
    """What a text stands for."""

    def plain(match: re.Match[bytes]) -> bytes:
        two, four, octal, other = match.groups()
        if other is not None:
            return bytes(other)
        number = int(two or four or octal, 8 if octal else 16)
        return chr(number).encode("utf-8", "surrogatepass")

    return _ESCAPE.sub(plain, text) if b"\\" in text else text
