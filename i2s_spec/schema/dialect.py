"""How ternary weights of I2_S are stored: layouts, code maps and tails, and the dialects that they form.

A *layout* gives the byte and the bit position of the code of an element, a *code map* the trit of each code, a *tail*
the bytes after the payload. The three together are a `Dialect`. Each is declared once; the codecs, the tables of the
specification and the exports are derived from these objects. A file does not state its layout; trained weights show it
(clause 7.7), random ones do not: then choose by the program that wrote it, never by the machine that reads it (clause
5.5).

    >>> str(parse("interleave-64"))
    'interleave-64'
    >>> parse("canonical") is CANONICAL
    True
    >>> CANONICAL.layout.byte_of(130, 1, 256), CANONICAL.layout.shift_of(130, 1, 256)
    (34, 6)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from i2s_spec.errors import counted, quote
from i2s_spec.schema.types import I2_S_BLOCK, TAIL_BYTES

#: Codes are two bits wide, so four share a byte.
CODES_PER_BYTE: Final = 4


class Formula(str):
    """Arithmetic over `k` (flat index, row-major), `rows` and `cols`: the text is the declaration, and is also executed.

    It accepts Python integers and NumPy integer arrays.
    """

    __slots__ = ()

    def __call__(self, k: Any, rows: int, cols: int) -> Any:
        return _compiled(self)(k, rows, cols)


@cache
def _compiled(text: str) -> Callable[[Any, int, int], Any]:
    """Return the function of a formula; the texts are trusted, because they are declared in this package."""
    function: Callable[[Any, int, int], Any] = eval(f"lambda k, rows, cols: {text}", {"__builtins__": {}})
    return function


class Layout(NamedTuple):
    """Where the code of each element lies (clause 5.5).

    :param byte_of: byte of the payload that holds the code of element `k`
    :param shift_of: how far left the code is shifted in that byte: 6, 4, 2 or 0
    :param block: elements of a block; only whole blocks can be packed
    :param row_block: rows of a group; only whole groups can be packed
    :param known_as: the programs that write or read it
    :param in_gguf: whether it occurs inside GGUF files
    """

    name: str
    byte_of: Formula
    shift_of: Formula
    block: int
    known_as: str
    row_block: int = 1
    in_gguf: bool = True

    def check(self, rows: int, cols: int) -> None:
        """Refuse a shape that the layout cannot hold.

        :raises ValueError: unless rows * cols is a multiple of `block` and rows of `row_block`
        """
        if rows % self.row_block:
            raise ValueError(
                f"{self} packs rows in groups of {self.row_block}; {counted(rows, 'row is', 'rows are')} not whole groups"
            )
        if over := rows * cols % self.block:
            n = f"{rows:,} x {cols:,} = {counted(rows * cols, 'element')}"
            raise ValueError(f"{self} packs elements in blocks of {self.block}; {n} leave {over} over")

    def __str__(self) -> str:
        return self.name


class CodeMap(NamedTuple):
    """The trit of each of the codes 0 to 3; None for the unused code (clauses 5.4, 5.5)."""

    name: str
    trits: tuple[int | None, int | None, int | None, int | None]
    known_as: str

    def code_of(self, trit: int) -> int:
        """Return the code of -1, 0 or +1."""
        return self.trits.index(trit)

    @property
    def unused(self) -> int:
        """The code that has no meaning."""
        return self.trits.index(None)

    def __str__(self) -> str:
        return self.name


class Tail(NamedTuple):
    """The 32 bytes after the payload: the float32 scale, `copies` times, then bytes without meaning (clause 6.1)."""

    name: str
    copies: int
    known_as: str

    def __str__(self) -> str:
        return self.name


_T = TypeVar("_T", Layout, CodeMap, Tail)


def _by_name(*entries: _T) -> Mapping[str, _T]:
    return {entry.name: entry for entry in entries}


#: Every layout; the first is the canonical one.
LAYOUTS: Final = _by_name(
    Layout(
        "interleave-128",
        byte_of=Formula("k // 128 * 32 + k % 32"),
        shift_of=Formula("6 - k % 128 // 32 * 2"),
        block=I2_S_BLOCK,
        known_as="the file format; x86 kernels, both Python converters, every release before November 2025",
    ),
    Layout(
        "interleave-64",
        byte_of=Formula("k // 64 * 16 + k % 16"),
        shift_of=Formula("6 - k % 64 // 16 * 2"),
        block=64,
        known_as="files quantized by an ARM build since November 2025",
    ),
    Layout(
        "rows-1x4",
        byte_of=Formula("k // cols // 4 * cols + k % cols"),
        shift_of=Formula("6 - k // cols % 4 * 2"),
        block=4,
        row_block=4,
        known_as="files quantized by an x86 build without ACT_PARALLEL, which reads them wrong itself",
    ),
    Layout(
        "sequential-msb",
        byte_of=Formula("k // 4"),
        shift_of=Formula("6 - k % 4 * 2"),
        block=4,
        known_as="two development forks",
    ),
    Layout(
        "sequential-lsb",
        byte_of=Formula("k // 4"),
        shift_of=Formula("k % 4 * 2"),
        block=4,
        known_as="NeoGPU and SKaiNET, in files of a form of their own (I317)",
    ),
    Layout(
        "row-blocks-4",
        byte_of=Formula("k // cols % (rows // 4) * cols + k % cols"),
        shift_of=Formula("k // cols // (rows // 4) * 2"),
        block=4,
        row_block=4,
        in_gguf=False,
        known_as="Hugging Face's packed uint8 checkpoints",
    ),
)

#: Every code map; the first is the canonical one.
CODE_MAPS: Final = _by_name(
    CodeMap("offset-1", (-1, 0, 1, None), "every released quantizer and converter"),
    CodeMap("zero-first", (0, 1, -1, None), "an error in documentation that readers implement"),
    CodeMap("twos-complement", (0, 1, None, -1), "pre-release files of June to August 2024"),
    CodeMap("offset-2", (None, -1, 0, 1), "T-MAC tensors"),
)

#: Every tail; the first is the canonical one.
TAILS: Final = _by_name(
    Tail("first-float", 1, "one float32 and 28 bytes without meaning; this package writes zeros"),
    Tail("replicated-8", TAIL_BYTES // 4, "June 2024 files and T-MAC tensors"),
)


class Dialect(NamedTuple):
    """One way to write a ternary tensor: a layout, a code map and a tail."""

    layout: Layout
    code_map: CodeMap
    tail: Tail

    @property
    def name(self) -> str:
        """`layout[/code map[/tail]]` without canonical parts at its end."""
        if self.tail != CANONICAL.tail:
            return f"{self.layout}/{self.code_map}/{self.tail}"
        return f"{self.layout}/{self.code_map}" if self.code_map != CANONICAL.code_map else self.layout.name

    def __str__(self) -> str:
        return self.name


CANONICAL: Final = Dialect(next(iter(LAYOUTS.values())), next(iter(CODE_MAPS.values())), next(iter(TAILS.values())))

#: Other names of whole dialects.
ALIASES: Final = {"canonical": CANONICAL}


def parse(dialect: str | Dialect) -> Dialect:
    """Return the dialect with a name such as `interleave-64` or `interleave-128/offset-1/replicated-8`.

    Omitted parts are canonical. A `Dialect` is returned unchanged, so that functions may accept either.

    :raises ValueError: for an unknown layout, code map or tail
    """
    if isinstance(dialect, Dialect):
        return dialect
    if dialect in ALIASES:
        return ALIASES[dialect]
    layout, *rest = dialect.split("/")
    if layout not in LAYOUTS:
        _unknown("layout", layout, [*LAYOUTS, *ALIASES])
    code_map = rest[0] if rest else CANONICAL.code_map.name
    if code_map not in CODE_MAPS:
        _unknown("code map", code_map, CODE_MAPS)
    tail = rest[1] if len(rest) > 1 else CANONICAL.tail.name
    if tail not in TAILS:
        _unknown("tail", tail, TAILS)
    if len(rest) > 2:
        raise ValueError(
            f"a dialect is named layout[/code map[/tail]]; {quote(dialect)} has {counted(len(rest) + 1, 'part')}"
        )
    if (layout, code_map, tail) == (CANONICAL.layout.name, CANONICAL.code_map.name, CANONICAL.tail.name):
        return CANONICAL
    return Dialect(LAYOUTS[layout], CODE_MAPS[code_map], TAILS[tail])


def _unknown(what: str, name: str, known: Any) -> NoReturn:
    raise ValueError(f"no {what} is called {quote(name)}; there are {', '.join(known)}")
