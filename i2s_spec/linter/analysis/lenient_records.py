"""This module reads numbers, strings and tensor infos of a GGUF header as a lenient reader does, within a budget.

What our own reader refuses is read on as a policy says. `runtimes.lenient_header` reads whole headers by it, as each
program sees them; `uncounted_infos` reads the tensor infos that no count announces.
"""

from __future__ import annotations

from i2s_spec.errors import Span, counted
from i2s_spec.light_typing import Final, Literal, NamedTuple, NoReturn, Protocol

#: Bytes that are walked, and records: keys, tensor infos, their dimensions, arrays.
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
    """Why a walk ended early: what the reader does then (`no`, `crash`, `unknown`), in words, and where."""

    outcome: str
    text: str
    span: Span


class StopWalkError(Exception):
    """A reader that follows the policy stops here."""

    def __init__(self, outcome: str, text: str, span: Span) -> None:
        super().__init__(text)
        self.stop = Stop(outcome, text, span)


class LenientRecords:
    """A place in a window of a file, and what is read from there on.

    :param data: the bytes of the file from `start` on; what lies behind them counts as missing
    :param size: of the file, in bytes
    :param version: of GGUF; in version 1 lengths and counts have 32 bits
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
        """Bytes of a length or a count."""
        return 4 if self.version == 1 else 8

    @property
    def remaining(self) -> int:
        """Bytes of the window from here on; negative where a reader has gone on behind it."""
        return self._start + len(self._data) - self.at

    def span(self, start: int, path: str) -> Span:
        """The bytes from a place up to here, as far as the file has them."""
        return Span(min(start, self._size), min(self.at, self._size), path)

    def stop(self, outcome: str, text: str, path: str = "") -> NoReturn:
        """End the walk at this place.

        :raises StopWalkError: always
        """
        raise StopWalkError(outcome, text, Span(min(self.at, self._size), self._size, path))

    def spend(self, count: int = 1) -> None:
        """Count records.

        :raises StopWalkError: where the budget of records or bytes is used up
        """
        self._left -= count
        if self._left < 0 or self.at - self._start >= MOST_BYTES:
            self.stop("unknown", "the header is too long to be followed after its fault")

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
        """A length and as many bytes, or those of them that the file has."""
        length = self.number(self.word, path)
        most = self._policy.string_bytes
        if most is not None and length > most:
            self.stop("no", f"it takes strings of at most {counted(most, 'byte')}; this one has {length:,}", path)
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
        """Have room for what is announced, where the reader allocates it before it has read it.

        :raises StopWalkError: where it refuses the number, or dies of it
        """
        most = self._policy.allocates
        if most is None or count * width <= most:
            return
        if count >= _SIZE_MAX // width:
            self.stop("no", f"it refuses {count:,} {what}: their size is not a number of 64 bits", path)
        self.stop(
            "crash", f"it allocates {count:,} {what} before it reads them, and aborts where there is no room", path
        )

    def tensor(self, path: str) -> SeenTensor:
        """A tensor info; its type number is signed, as readers take it."""
        start = self.at
        name = self.string(path)
        dimensions = self.number(4, path)
        most = self._policy.dimensions
        if most is not None and dimensions > most:
            text = f"it takes tensors of at most {counted(most, 'dimension')}; {dimensions:,} are declared"
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
        """The next bytes, or those of them that the window has."""
        start = self.at - self._start
        return self._data[start : start + length]
