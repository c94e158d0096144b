"""This module defines a source whose bytes come in ranges: what is near is asked for together, what came is kept.

The reader walks a header in small windows and then asks here and there. A walk from the start is read ahead: two mebibytes
at first (most headers are smaller), then steps of a tenth of what was read, so that little is read beyond the end of a
header; a walk from another place by steps that double. Ranges that somebody announced (`expect`) are asked for together,
as soon as the first of them is needed.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.schema import faults

#: Bytes from `start` up to `stop`.
Range = tuple[int, int]

#: What the first request asks for, the least and the most that a walk is read ahead by, and the share of it that may turn
#: out to be too much: a tenth.
FIRST = 1 << 21
LEAST_STEP = 7 << 17
MOST_STEP = 1 << 24
SHARE = 10

#: What a read at another place takes along.
BLOCK = 1 << 12

#: Whoever has read so many of the ranges that he might read is taken to read them all.
AFTER = 5

#: Two ranges with less than this between them are one: a request costs more than these bytes.
NEAR = 1 << 12

#: A larger read goes straight to whoever asked, and is not kept.
MOST_COPIED = 1 << 23

#: How much is kept; and where the part of a file begins that is given up for it.
MOST_STORED = 1 << 26
HEAD = 1 << 25


class Usage(NamedTuple):
    """What reading a file has cost: requests, and bytes of content."""

    requests: int
    bytes: int


class RangeSource(ABC):
    """A `Source` over ranges; threads may read from one, each waits for the others.

    `version` is what the server calls this content: an ETag, a commit, or None where it gives nothing. `etag` changes when
    the content does: of a hub not with every commit. `many_at_once` says whether a request takes many ranges, as far as that
    is known, and `sample` how many requests a sample takes where it does not.
    """

    etag: str | None = None
    many_at_once = False

    def __init__(self, name: str, size: int, version: str | None, sample: int) -> None:
        self.name = name
        self.size = size
        self.version = version
        self._sample = sample
        self._lock = threading.RLock()
        self._starts: list[int] = []
        self._pieces: dict[int, bytes] = {}
        self._order: list[int] = []
        self._run: Range = (0, 0)
        self._expected: list[Range] = []
        self._if_together, self._times = False, 0

    @property
    def view(self) -> memoryview | None:
        return None

    @property
    @abstractmethod
    def usage(self) -> Usage:
        """What it has cost up to now."""

    @abstractmethod
    def fetch(self, ranges: Sequence[Range], optional: Collection[Range] = ()) -> list[bytes]:
        """The bytes of ranges that do not touch each other, in order.

        :param optional: those of them that are not worth a request: nothing is given for one that would take its own
        :raises FormatError: where they cannot be had
        """

    @abstractmethod
    def fetch_into(self, start: int, buffer: memoryview) -> None:
        """The same for one range, into a buffer."""

    @abstractmethod
    def neighbours_missing(self, names: Iterable[str]) -> int | None:
        """How many files of these names are not in the same folder; None where that is not known."""

    @abstractmethod
    def close(self) -> None: ...

    def changed(self) -> str | None:
        """None: every answer is compared with the first one."""
        return None

    def read(self, start: int, length: int) -> bytes:
        data = bytearray(self._checked(start, length))
        self.readinto(start, memoryview(data))
        return bytes(data)

    def readinto(self, start: int, buffer: memoryview) -> None:
        stop = start + self._checked(start, buffer.nbytes)
        with self._lock:
            missing = self._missing(start, stop)
            if missing and stop - start > MOST_COPIED:
                for gap_start, gap_stop in missing:
                    self.fetch_into(gap_start, buffer[gap_start - start : gap_stop - start])
                self._run = (start, stop) if start != self._run[1] else (self._run[0], stop)
            elif missing:
                self._get(*self._planned(missing))
            self._copy(start, stop, buffer)
            self._forget()

    def expect(self, ranges: Iterable[Range], if_together: bool = False) -> None:
        """Announce ranges that will be read: they are asked for together when the first of them is needed.

        :param if_together: these may be read: where each would be a request of its own, they are left out until `AFTER` of
            them were needed
        """
        with self._lock:
            self._if_together, self._times = if_together, 0
            self._expected = merged((max(0, a), min(b, self.size)) for a, b in ranges)

    def prefetch(self, ranges: Iterable[Range]) -> None:
        """Ask for ranges now, in as few requests as possible.

        :raises FormatError: where they cannot be had
        """
        with self._lock:
            self._get([gap for a, b in ranges for gap in self._missing(max(0, a), min(b, self.size))])

    def holds(self, start: int, stop: int) -> bool:
        """Whether reading this range would ask for nothing."""
        with self._lock:
            return not self._missing(max(0, start), min(stop, self.size))

    def far_ranges(self, ranges: Sequence[Range]) -> int | None:
        """How many ranges that lie apart a sample may ask for, beside the first and the last of these, which are fetched.

        None where that needs no bound: a request takes many ranges, or all but one of these are here.

        :raises FormatError: where they cannot be had
        """
        with self._lock:
            missing = merged((gap for a, b in ranges for gap in self._missing(max(0, a), min(b, self.size))), NEAR)
            if len(missing) < 2:
                return None
            self._get([missing[0], missing[-1]])
            if self.many_at_once:
                return None
            self._expected = []  # they would be as many requests
            return max(0, self._sample - self.usage.requests)

    def _checked(self, start: int, length: int) -> int:
        if start < 0 or length < 0 or start + length > self.size:
            span = Span(min(max(start, 0), self.size), self.size)
            raise FormatError(faults.CHANGED, span, reason=TrustedText("a range outside the file was asked for"))
        return length

    # --- what is here ---

    def _keep(self, start: int, data: bytes) -> None:
        if data and start not in self._pieces:
            insort(self._starts, start)
            self._pieces[start] = data
            self._order.append(start)

    def _missing(self, start: int, stop: int) -> list[Range]:
        """The parts of a range that are not here."""
        gaps = []
        at = bisect_right(self._starts, start) - 1
        for piece in self._starts[max(at, 0) :]:
            if piece >= stop:
                break
            if piece > start:
                gaps.append((start, piece))
            start = max(start, piece + len(self._pieces[piece]))
        if start < stop:
            gaps.append((start, stop))
        return gaps

    def _copy(self, start: int, stop: int, buffer: memoryview) -> None:
        at = bisect_right(self._starts, start) - 1
        for piece in self._starts[max(at, 0) :]:
            if piece >= stop:
                break
            data = self._pieces[piece]
            a, b = max(start, piece), min(stop, piece + len(data))
            if a < b:
                buffer[a - start : b - start] = data[a - piece : b - piece]

    def _forget(self) -> None:
        """Give up the oldest pieces; the head of the file stays, since rules come back to it."""
        total = sum(map(len, self._pieces.values())) if len(self._pieces) > 1 else 0
        for start in list(self._order) if total > MOST_STORED else ():
            if start >= HEAD:
                total -= len(self._pieces.pop(start))
                self._starts.remove(start)
                self._order.remove(start)
            if total <= MOST_STORED:
                break

    # --- what to ask for ---

    def _planned(self, missing: list[Range]) -> tuple[list[Range], list[Range]]:
        """What is asked for, where these parts are missing: they, and what is likely to be wanted next; then what is
        taken along where that is no request more."""
        start, stop = missing[-1]
        if any(a < stop and start < b for a, b in self._expected):
            more = [gap for a, b in self._expected for gap in self._missing(a, b)]
            self._times += 1
            if self._if_together and self._times < AFTER:
                return missing, more if self._times == 1 else []
            self._expected = []
            return [*missing, *more], []
        begin, end = self._run
        if start == 0:
            ahead = FIRST
        elif start != end:
            begin, ahead = start, BLOCK
        elif begin == 0:
            ahead = max(LEAST_STEP, start // SHARE)
        else:
            ahead = 2 * (end - begin)
        self._run = begin, min(self.size, max(stop, start + min(ahead, MOST_STEP)))
        return [*missing[:-1], *self._missing(start, self._run[1])], []

    def _get(self, wanted: Iterable[Range], more: Iterable[Range] = ()) -> None:
        needed = merged(wanted, NEAR)
        ranges = merged([*needed, *more], NEAR)
        starts = [start for start, _ in needed]
        # A range that was merged of both begins no later than the needed one, and ends behind its beginning.
        optional = {each for each in ranges if bisect_left(starts, each[0]) == bisect_left(starts, each[1])}
        if ranges:
            for (start, stop), data in zip(ranges, self.fetch(ranges, optional), strict=True):
                for a, b in self._missing(start, stop) if data else ():
                    self._keep(a, data[a - start : b - start])


def merged(ranges: Iterable[Range], near: int = 0) -> list[Range]:
    """Ranges in order, those that touch or have less than `near` bytes between them as one.

    >>> merged([(10, 20), (0, 4), (22, 30)], near=4)
    [(0, 4), (10, 30)]
    """
    made: list[Range] = []
    for start, stop in sorted(ranges):
        if start >= stop:
            continue
        if made and start - made[-1][1] < max(near, 1):
            made[-1] = made[-1][0], max(stop, made[-1][1])
        else:
            made.append((start, stop))
    return made
