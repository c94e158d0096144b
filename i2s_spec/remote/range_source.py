"""This module defines a source whose bytes come in ranges: near ranges are requested together, and results are cached.

The reader walks a header in small windows and then reads single ranges. A walk from the start is read ahead: two
mebibytes at first (most headers are smaller), then steps of a tenth of what was read, so that little is read beyond the
end of the header; a walk from another position uses steps that double. Announced ranges (`expect`) are requested
together as soon as the first of them is needed.
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

#: Bytes of the first request, the least and the most bytes that are read ahead, and the share that may be read in vain:
#: a tenth.
FIRST = 1 << 21
LEAST_STEP = 7 << 17
MOST_STEP = 1 << 24
SHARE = 10

#: Bytes that a read at another position adds.
BLOCK = 1 << 12

#: After this many of the optional ranges were read, all of them are assumed to be needed.
AFTER = 5

#: Two ranges with a smaller gap are joined: a request costs more than these bytes.
NEAR = 1 << 12

#: A larger read is not cached.
MOST_COPIED = 1 << 23

#: The size of the cache, and the position from which cached bytes may be dropped.
MOST_STORED = 1 << 26
HEAD = 1 << 25


class Usage(NamedTuple):
    """The cost of reading a file: requests, and bytes of content."""

    requests: int
    bytes: int


class RangeSource(ABC):
    """A `Source` over ranges; several threads may read from it, one at a time.

    `version` is the server's name of this version: an ETag, a commit, or None if it gives none. `etag` changes with the
    content; on a hub, not with every commit. `many_at_once` says whether a request can have many ranges, as far as that
    is known, and `sample` how many requests a sample makes if it cannot.
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
        """The cost so far."""

    @abstractmethod
    def fetch(self, ranges: Sequence[Range], optional: Collection[Range] = ()) -> list[bytes]:
        """The bytes of disjoint ranges, in order.

        :param optional: ranges that are not worth a separate request: such a range may be left out
        :raises FormatError: if they cannot be read
        """

    @abstractmethod
    def fetch_into(self, start: int, buffer: memoryview) -> None:
        """The same for one range, into a buffer."""

    @abstractmethod
    def neighbours_missing(self, names: Iterable[str]) -> int | None:
        """How many files with these names are missing in the same folder; None if that is not known."""

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
        """Announce ranges that will be read: they are requested together when the first of them is needed.

        :param if_together: the ranges are optional: if each would need a separate request, they are not requested until
        `AFTER` of them were needed
        """
        with self._lock:
            self._if_together, self._times = if_together, 0
            self._expected = merged((max(0, a), min(b, self.size)) for a, b in ranges)

    def prefetch(self, ranges: Iterable[Range]) -> None:
        """Request ranges now, with as few requests as possible.

        :raises FormatError: if they cannot be read
        """
        with self._lock:
            self._get([gap for a, b in ranges for gap in self._missing(max(0, a), min(b, self.size))])

    def holds(self, start: int, stop: int) -> bool:
        """Whether reading this range needs no request."""
        with self._lock:
            return not self._missing(max(0, start), min(stop, self.size))

    def far_ranges(self, ranges: Sequence[Range]) -> int | None:
        """How many separate ranges a sample may request, besides the first and the last of these, which are fetched.

        None if no limit is needed: a request can have many ranges, or all but one of these are cached.

        :raises FormatError: if they cannot be read
        """
        with self._lock:
            missing = merged((gap for a, b in ranges for gap in self._missing(max(0, a), min(b, self.size))), NEAR)
            if len(missing) < 2:
                return None
            self._get([missing[0], missing[-1]])
            if self.many_at_once:
                return None
            self._expected = []  # each would be a request
            return max(0, self._sample - self.usage.requests)

    def _checked(self, start: int, length: int) -> int:
        if start < 0 or length < 0 or start + length > self.size:
            span = Span(min(max(start, 0), self.size), self.size)
            raise FormatError(faults.CHANGED, span, reason=TrustedText("a range outside the file was requested"))
        return length

    # --- the cache ---

    def _keep(self, start: int, data: bytes) -> None:
        if data and start not in self._pieces:
            insort(self._starts, start)
            self._pieces[start] = data
            self._order.append(start)

    def _missing(self, start: int, stop: int) -> list[Range]:
        """The parts of a range that are not cached."""
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
        """Drop the oldest pieces; the head of the file stays, because rules read it again."""
        total = sum(map(len, self._pieces.values())) if len(self._pieces) > 1 else 0
        for start in list(self._order) if total > MOST_STORED else ():
            if start >= HEAD:
                total -= len(self._pieces.pop(start))
                self._starts.remove(start)
                self._order.remove(start)
            if total <= MOST_STORED:
                break

    # --- what to request ---

    def _planned(self, missing: list[Range]) -> tuple[list[Range], list[Range]]:
        """The ranges to request for missing parts: these, and what is likely to be needed next; then optional ranges
        that cause no further request."""
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
        # A range that was merged from both begins no later than the needed one, and ends after its beginning.
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
