"""Readers of containers that are wrong in one way each."""

from __future__ import annotations

from typing import Any, Final

from mutants.mutant import Mutant, method
from mutants.plain_container import PlainContainer
from mutants.plain_decoder import RefusedError


def _with(**methods: Any) -> type[PlainContainer]:
    """The plain reader with some methods replaced."""
    return type("Wrong", (PlainContainer,), {name: method(each) for name, each in methods.items()})


def _nothing(*_: Any) -> None:
    """A check that accepts everything."""


class AnyMagic(PlainContainer):
    """Any four bytes for the magic."""

    def magic(self) -> bytes:
        return self.data[:4]


class Length32(PlainContainer):
    """Lengths of arrays as 32 bits."""

    def array_length(self) -> int:
        return int(self.word("Q") & 0xFF)


class Narrow(PlainContainer):
    """u64 values read as i64."""

    def value_form(self, kind: int) -> tuple[str, str]:
        name, form = super().value_form(kind)
        return name, {"Q": "q", "B": "b", "H": "h"}.get(form, form)


class VersionThree(PlainContainer):
    """Only version 3 accepted."""

    def check_version(self, version: int) -> None:
        if version != 3:
            raise RefusedError("version")


class RefusesAll(PlainContainer):
    """Nothing is read."""

    def read(self) -> dict[str, Any]:
        raise RefusedError("everything")


class AcceptsAll(PlainContainer):
    """Nothing is looked at."""

    def read(self) -> dict[str, Any]:
        return {}


class Trims(PlainContainer):
    """Texts without the blanks and NUL at their ends."""

    def text(self) -> bytes:
        return super().text().strip(b" \t\r\n\0")


class EmptyOfText(PlainContainer):
    """An empty array taken for one of texts."""

    def element_name(self, kind: int, count: int) -> str:
        return super().element_name(kind, count) if count else "str"


class NoHyphen(PlainContainer):
    """Keys with a hyphen refused."""

    def check_key(self, key: bytes) -> None:
        super().check_key(key)
        if b"-" in key:
            raise RefusedError("key")


class No36(PlainContainer):
    """Type 36 refused."""

    def check_type(self, type: int) -> None:
        super().check_type(type)
        if type == 36:
            raise RefusedError("type")


def _sized(number: int, block: int, size: int) -> type[PlainContainer]:
    """Another size for a type, as a program had it."""

    class Sized(PlainContainer):
        def nbytes(self, type: int, elements: int) -> int:
            return elements // block * size if type == number else super().nbytes(type, elements)

    return Sized


def _swallowing(phase: str) -> type[PlainContainer]:
    """A reader that returns what it has, without an error, where one part of a file is wrong."""

    class Swallowing(PlainContainer):
        def read(self) -> dict[str, Any]:
            try:
                return super().read()
            except (RefusedError, ValueError, ZeroDivisionError):
                if self.phase != phase:
                    raise
                return {}

    return Swallowing


class Sliced(PlainContainer):
    """Missing bytes left out silently, as a Python slice does."""

    def take(self, count: int) -> bytes:
        found = self.data[self.at : self.at + max(count, 0)]
        self.at += len(found)
        return found.ljust(count, b"\0") if 0 <= count <= 16 else found

    def check_counts(self, tensors: int, keys: int) -> None:
        if keys > 1000 or tensors > 1000:
            super().check_counts(tensors, keys)

    def check_extent(self, at: int, nbytes: int) -> None:
        """Nothing is refused."""


class Wraps(PlainContainer):
    """Products and sums of 64 bits that wrap around."""

    def wrapped(self, number: int) -> int:
        return number & 0xFFFFFFFFFFFFFFFF

    def times(self, size: int, count: int) -> int:
        return size * count & 0xFFFFFFFFFFFFFFFF


#: Every reader of containers that is wrong, by the bug that it has.
MUTANTS: Final = (
    Mutant("any-magic", "accepts-bad-magic", AnyMagic),
    Mutant("any-version", "accepts-bad-header", _with(check_version=_nothing)),
    *(Mutant(f"swallows-{phase}", f"accepts-bad-{phase}", _swallowing(phase))
      for phase in ("magic", "header", "metadata", "info", "extent")),
    Mutant("version-3-only", "version-2-refused", VersionThree),
    Mutant("little-endian-only", "big-endian-refused", _with(swapped=lambda: "<")),
    Mutant("any-depth", "accepts-bad-metadata", _with(check_depth=_nothing)),
    Mutant("any-dimensions", "accepts-bad-info", _with(check_dimensions=_nothing)),
    Mutant("any-type", "accepts-bad-info", _with(check_type=_nothing)),
    Mutant("any-extent", "accepts-bad-extent", _with(check_extent=_nothing)),
    Mutant("wraps-products", "accepts-bad-info", Wraps),
    Mutant("wraps-sums", "accepts-bad-extent", Wraps),
    Mutant("slices-short", "accepts-bad-info", Sliced),
    Mutant("offsets-from-start", "offset-from-start", _with(from_where=lambda start: 0)),
    Mutant("alignment-32", "alignment-ignored", _with(alignment=lambda entries: 32)),
    Mutant("ne-reversed", "ne-reversed", _with(shown_ne=lambda ne: ne[::-1])),
    Mutant("values-signed", "value-type-confused", Narrow),
    Mutant("array-length-8", "array-length", Length32),
    Mutant("refuses-all", "refuses-everything", RefusesAll),
    *(Mutant(f"accepts-all-{phase}", f"accepts-bad-{phase}", AcceptsAll)
      for phase in ("magic", "header", "metadata", "info", "extent")),
    Mutant("refuses-36", "refuses-type-36", No36),
    Mutant("trims-texts", "text-trimmed", Trims),
    Mutant("empty-of-text", "empty-array-type", EmptyOfText),
    Mutant("no-hyphen", "key-hyphen", NoHyphen),
    *(Mutant(f"size-of-{number}", "type-size", _sized(number, block, size))
      for number, block, size in ((10, 256, 196), (11, 256, 100), (12, 256, 134), (13, 256, 144), (16, 1, 1), (17, 1, 2),
                                  (18, 1, 4), (20, 32, 68), (30, 256, 1), (39, 32, 34))),
    Mutant("tail-not-counted", "tail-forgotten", _with(tail_bytes=lambda tail: 0)),
)  # fmt: skip
