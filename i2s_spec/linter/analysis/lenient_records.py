"""This module reads numbers, strings and tensor infos of a GGUF header as a lenient reader does, within a budget.

It continues where our own reader refuses, as a policy says. `runtimes.lenient_header` uses it to read whole headers as
each program does; `uncounted_infos` uses it to read the tensor infos that the header does not count.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, NoReturn, Protocol

from i2s_spec.errors import Span, counted

#: Most bytes and most records that are walked; records are keys, tensor infos, their dimensions, arrays.
MOST_BYTES: Final = 16 << 20
MOST_RECORDS: Final = 1 << 14

_SIZE_MAX: Final = (1 << 64) - 1


class RecordPolicy(Protocol):
    """What a reader does with strings and tensor infos; `schema.programs.runtimes.Container` explains the fields."""

    @property
    def end(self) -> Literal["no", "zeros", "short"]: ...
    @property
    def string_bytes(self) -> int | None: ...
    @property
    def dimensions(self) -> int | None: ...
    @property
    def too_many_dimensions(self) -> str: ...
    @property
    def allocates(self) -> int | None: ...


class SeenTensor(NamedTuple):
    """A tensor info, and its bytes."""

    name: bytes
    span: Span
    ne: tuple[int, ...]
    number: int
    offset: int


class Stop(NamedTuple):
    """Why a walk ended early: what the reader does (`no`, `crash`, `unknown`), the reason in words, and the place."""

    outcome: str
    text: str
    span: Span


class StopWalkError(Exception):
    """A reader that follows the policy stops here."""

    def __init__(self, outcome: str, text: str, span: Span) -> None:
        super().__init__(text)
        self.stop = Stop(outcome, text, span)


class LenientRecords:
    """A position in a window of a file, from which records are read.

    :param data: the bytes of the file from `start` on; bytes after them count as missing
    :param size: the size of the file in bytes
    :param version: the version of GGUF; in version 1 lengths and counts have 32 bits
    :param big: whether numbers are big-endian
    """

    def __init__(
        self, data: bytes, policy: RecordPolicy, size: int, start: int = 0, version: int = 0, big: bool = False
    ) -> None:
        self.at = start
        self.version = version
        self.big = big
        self._data = data
        self._policy = policy
        self._size = size
        self._start = start
        self._left = MOST_RECORDS

    @property
    def word(self) -> int:
        """The number of bytes of a length or a count."""
        return 4 if self.version == 1 else 8

    @property
    def remaining(self) -> int:
        """Bytes of the window from here on; negative if the reader is past its end."""
        return self._start + len(self._data) - self.at

    def span(self, start: int, path: str) -> Span:
        """The span from a place to here, cut at the end of the file."""
        return Span(min(start, self._size), min(self.at, self._size), path)

    def stop(self, outcome: str, text: str, path: str = "") -> NoReturn:
        """End the walk at this place.

        :raises StopWalkError: always
        """
        raise StopWalkError(outcome, text, Span(min(self.at, self._size), self._size, path))

    def spend(self, count: int = 1) -> None:
        """Count records.

        :raises StopWalkError: if the budget of records or bytes is used up
        """
        self._left -= count
        if self._left < 0 or self.at - self._start >= MOST_BYTES:
            self.stop("unknown", "after its fault, the header is too long to be read further")

    def number(self, width: int, path: str) -> int:
        """An unsigned number of some bytes."""
        piece = self._piece(width)
        if len(piece) < width:
            if self._policy.end != "zeros":
                self.stop("no", "the file ends inside the header", path)
            piece = piece.ljust(width, b"\0")
        self.at += width
        return int.from_bytes(piece, "big" if self.big else "little")

    def string(self, path: str) -> bytes:
        """A length and that many bytes, or as many of them as the file has."""
        length = self.number(self.word, path)
        most = self._policy.string_bytes
        if most is not None and length > most:
            self.stop("no", f"it accepts strings of at most {counted(most, 'byte')}; this one has {length:,}", path)
        self.allocated(length, 1, "bytes of text", path)
        piece = self._piece(length)
        if len(piece) < length:
            if self._policy.end == "no":
                self.stop("no", "a string reaches beyond the end of the file", path)
            if self._policy.end == "short":
                self.at += max(0, self.remaining)
                return piece
            if length > 1_500_000:
                self.stop("unknown", "a string reaches far beyond the end of the file", path)
        self.at += length
        return piece

    def allocated(self, count: int, width: int, what: str, path: str) -> None:
        """Check an announced count that the reader allocates memory for before it reads the records.

        :raises StopWalkError: if the reader refuses the count or crashes
        """
        most = self._policy.allocates
        if most is None or count * width <= most:
            return
        if count >= _SIZE_MAX // width:
            self.stop("no", f"it refuses {count:,} {what}: their size overflows 64 bits", path)
        self.stop(
            "crash", f"it allocates memory for {count:,} {what} before it reads them, and aborts if that fails", path
        )

    def tensor(self, path: str) -> SeenTensor:
        """A tensor info; its type number is signed, as readers take it."""
        start = self.at
        name = self.string(path)
        dimensions = self.number(4, path)
        most = self._policy.dimensions
        if most is not None and dimensions > most:
            text = f"it accepts tensors of at most {counted(most, 'dimension')}; {dimensions:,} are declared"
            self.stop(self._policy.too_many_dimensions, text, f"{path}.n_dims")
        if self._policy.end != "zeros" and dimensions * self.word > self.remaining:
            self.stop(
                "no", f"{counted(dimensions, 'dimension is', 'dimensions are')} declared, and the file ends", path
            )
        self.spend(dimensions)
        ne = tuple(self.number(self.word, path) for _ in range(dimensions))
        number, offset = self.number(4, path), self.number(8, path)
        number -= (number >> 31) << 32
        return SeenTensor(name, self.span(start, path), ne, number, offset)

    def _piece(self, length: int) -> bytes:
        """The next bytes, or as many of them as the window has."""
        start = self.at - self._start
        return self._data[start : start + length]
