"""A file of a web server or a hub as a source: resolved once, pinned, and read in ranges that are checked.

RangeSource          any source whose bytes come in ranges: near ranges are requested together, results are cached
HttpSource           such a source over HTTP: the pinned file
read_parts           an answer with several ranges, as web servers such as Starlette 1.10 give it; buckets give one
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.remote.transport import CONNECTIONS, TRIES, Transport, UnreadAnswer, Usage, fault_of, misbehaves
from i2s_spec.schema import faults

# --- range source ----------------------------------------------------------------------------------------------------
# The reader walks a header in small windows and then reads single ranges. A walk from the start is read ahead: two
# mebibytes at first (most headers are smaller), then steps of a tenth of what was read, so that little is read beyond
# the end of the header; a walk from another position uses steps that double. Announced ranges (`expect`) are requested
# together as soon as the first of them is needed.

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
        #: The address without what does not name the file, such as a query.
        self.address = name
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
        """Return the bytes of disjoint ranges, in order.

        :param optional: ranges that are not worth a separate request: such a range may be left out
        :raises FormatError: if they cannot be read
        """

    @abstractmethod
    def fetch_into(self, start: int, buffer: memoryview) -> None:
        """Read one range into a buffer, as `fetch` does."""

    @abstractmethod
    def neighbours_missing(self, names: Iterable[str]) -> int | None:
        """Return how many files with these names are missing in the same folder; None if that is not known."""

    def address_beside(self, name: str) -> str:
        """Return the address of another file in the same folder."""
        return f"{self.address.rpartition('/')[0]}/{name}"

    @abstractmethod
    def close(self) -> None: ...

    def changed(self) -> str | None:
        """Return None: every answer is compared with the first one."""
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
        """Return how many separate ranges a sample may request, besides the first and the last of these, which are fetched.

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
        """Return the parts of a range that are not cached."""
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
        """Return the ranges to request for missing parts: these, and what is likely to be needed next; then optional
        ranges that cause no further request."""
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
    """Return ranges in order, those that touch or have less than `near` bytes between them as one.

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


# --- http source -----------------------------------------------------------------------------------------------------
# The address after redirects is used until it answers 401, 403 or 410, because signatures in such addresses expire.
# Then the first address is requested again. All answers must have the size, the ETag and, on hubs, the commit of the
# first one.

#: Most ranges of one request: their list stays below the 8 kB that servers accept as a header, and below Apache's limit
#: of 200.
MOST_RANGES = 190

#: Longest ETag; longer ones are ignored.
LONGEST_ETAG = 512

_EXPIRED = (401, 403, 410)

#: Statuses of servers that accept no list of ranges: bad request, range not satisfiable, not implemented.
_REFUSED = (400, 416, 501)


class Pinned(NamedTuple):
    """The facts about the file in the first answer."""

    size: int
    etag: str | None
    modified: str | None

    @property
    def condition(self) -> dict[str, str]:
        """The header that makes a server answer with the whole file if it has changed."""
        strong = self.etag is not None and not self.etag.startswith("W/")
        value = self.etag if strong else None
        return {"If-Range": value} if value else {}


class HttpSource(RangeSource):
    """A file that is read from a web server.

    :param url: the first address
    :param pin: a function that gives, from the headers of the first hop, an address of exactly this version, and its
    name; its exceptions are passed on
    :param missing: answers `neighbours_missing`
    :param beside: answers `address_beside`
    :raises FormatError: S903 if the file changes, S911 to S918
    """

    def __init__(
        self,
        name: str,
        url: str,
        transport: Transport,
        pin: Callable[[Mapping[str, str]], tuple[str, str | None]] | None = None,
        missing: Callable[[Iterable[str]], int | None] | None = None,
        beside: Callable[[str], str] | None = None,
    ) -> None:
        self.transport = transport
        self._neighbours = missing
        self._beside = beside
        self.many_at_once = True
        try:
            with transport.get(url, {"Range": f"bytes=0-{FIRST - 1}"}, (416,)) as answer:
                first, version = (url, None) if pin is None else pin(answer.first)
                self._first_url, self._url = first, first if answer.url == url else answer.url
                self._pinned = self._pin(answer)
                super().__init__(name, self._pinned.size, version or self._pinned.etag, transport.policy.sample)
                self.etag = etag_of(answer)
                head = bytearray(min(FIRST, self.size))
                if head and self._read_range(answer, memoryview(head)) != len(head):
                    head = bytearray()  # it is requested again, like every other range
            self._keep(0, bytes(head))
            self._run = 0, len(head)
        except BaseException:
            transport.close()
            raise

    @property
    def usage(self) -> Usage:
        return Usage(self.transport.requests, self.transport.bytes)

    def neighbours_missing(self, names: Iterable[str]) -> int | None:
        return None if self._neighbours is None else self._neighbours(names)

    def address_beside(self, name: str) -> str:
        return super().address_beside(name) if self._beside is None else self._beside(name)

    def close(self) -> None:
        self.transport.close()

    def fetch(self, ranges: Sequence[Range], optional: Collection[Range] = ()) -> list[bytes]:
        found: list[bytes] = []
        while self.many_at_once and len(ranges) - len(found) > 1:
            found += self._several(ranges[len(found) : len(found) + MOST_RANGES])
        left = ranges[len(found) :]
        if self.many_at_once:
            return found + [self._one(each) for each in left]
        single = dict.fromkeys(left, b"")
        asked = [each for each in left if each not in optional]
        if len(asked) < 2:
            single.update((each, self._one(each)) for each in asked)
            return found + list(single.values())
        failed: list[Range] = []

        def one(span: Range) -> bytes:
            """Stop all requests after a fault: results are examined in order, and the first one may come last."""
            if failed:
                return b""
            try:
                return self._one(span)
            except BaseException:
                failed.append(span)
                raise

        # One after another, each range would take a round trip.
        with ThreadPoolExecutor(min(CONNECTIONS, len(asked)), "i2s ranges") as threads:
            try:
                single.update(zip(asked, threads.map(one, asked), strict=True))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        return found + list(single.values())

    def _one(self, span: Range) -> bytes:
        data = bytearray(span[1] - span[0])
        self.fetch_into(span[0], memoryview(data))
        return bytes(data)

    def fetch_into(self, start: int, buffer: memoryview) -> None:
        done, tries = 0, 0
        while done < buffer.nbytes:
            span = start + done, start + buffer.nbytes
            with self._asked([span]) as answer:
                self._check(answer, span)
                done += self._read_range(answer, buffer[done:])
            tries += 1
            if done < buffer.nbytes and tries == TRIES:
                raise misbehaves(self._url, "ends its answer before the range that it announced")

    def _read_range(self, answer: UnreadAnswer, buffer: memoryview) -> int:
        """Read the body of one range; returns the number of bytes."""
        return self.transport.read(answer.body, buffer)

    def _several(self, ranges: Sequence[Range]) -> list[bytes]:
        """Read many ranges in one request; a server without support gives the first or none, and is not asked again."""
        with self._asked(ranges) as answer:
            boundary = boundary_of(answer.headers.get("Content-Type", ""))
            if answer.status == 206 and boundary is not None:
                self._check_version(answer)
                try:
                    return read_parts(
                        lambda buffer: self.transport.read(answer.body, buffer), boundary, ranges, self.size
                    )
                except ValueError as error:
                    if isinstance(error, FormatError):
                        raise
                    # some servers join or split ranges: requested one at a time, they are checked as well
            elif answer.status in (200, 206):
                self._check_version(answer)
                self.many_at_once = False
                if answer.status == 206 and self._is_range(answer, ranges[0]):
                    data = bytearray(ranges[0][1] - ranges[0][0])
                    if self.transport.read(answer.body, memoryview(data)) == len(data):
                        return [bytes(data)]
        self.many_at_once = False
        return []

    # --- requests ---

    @contextmanager
    def _asked(self, ranges: Sequence[Range]) -> Iterator[UnreadAnswer]:
        """Request ranges; an address after redirects that has expired is resolved once more."""
        spans = ",".join(f"{start}-{stop - 1}" for start, stop in ranges)
        headers = {"Range": f"bytes={spans}", **self._pinned.condition}
        changed = (412,) if len(ranges) > 1 else (412, 416)  # a server may refuse a list of ranges
        accepted = (*_EXPIRED, 412, *(_REFUSED if len(ranges) > 1 else (416,)))
        while True:
            url = self._url
            with self.transport.get(url, headers, accepted) as answer:
                if answer.status in _EXPIRED and url != self._first_url and answer.url == url:
                    if self._url == url:  # another thread may have resolved it by now
                        self._url = self._first_url
                    continue
                if answer.status in _EXPIRED:
                    raise fault_of(answer)
                if answer.status in changed:
                    raise _changed(self.size, f"the server answers {answer.status} where its bytes were asked for")
                self._url = answer.url
                yield answer
                return

    # --- answers ---

    def _pin(self, answer: UnreadAnswer) -> Pinned:
        """Read the facts about the file from the first answer."""
        self._check_encoding(answer)
        etag, modified = (answer.headers.get(name) or None for name in ("ETag", "Last-Modified"))
        content_range = answer.headers.get("Content-Range", "")
        if answer.status == 416:
            if content_range.strip() == "bytes */0":
                return Pinned(0, etag, modified)
            raise misbehaves(answer.url, "has no bytes from the first on, and does not say that the file is empty")
        if answer.status == 200:
            if answer.headers.get("Content-Length") == "0":
                return Pinned(0, etag, modified)
            raise misbehaves(answer.url, "answers 200 with the whole file where a range was asked for")
        found = CONTENT_RANGE.fullmatch(content_range)
        if answer.status != 206 or found is None:
            words = f"answers {answer.status} with the Content-Range {quote(content_range)}"
            raise misbehaves(answer.url, words)
        size = int(found["size"])
        if not 0 < size < 1 << 62:
            raise misbehaves(answer.url, f"says that the file has {counted(size, 'byte')}")
        self._check_range(answer, (0, min(FIRST, size)), size)
        return Pinned(size, etag, modified)

    def _check(self, answer: UnreadAnswer, span: Range) -> None:
        """Check that an answer is the requested range of the opened file."""
        self._check_version(answer)
        if answer.status == 200:
            raise misbehaves(answer.url, "answers 200 with the whole file where a range was asked for")
        if answer.status != 206:
            raise misbehaves(answer.url, f"answers {answer.status} where a range was asked for")
        self._check_encoding(answer)
        self._check_range(answer, span, self.size)

    def _check_version(self, answer: UnreadAnswer) -> None:
        etag = answer.headers.get("ETag") or None
        if etag is not None and self._pinned.etag is not None and etag != self._pinned.etag:
            raise _changed(self.size, f"its ETag was {quote(self._pinned.etag)} and is {quote(etag)}")
        modified = answer.headers.get("Last-Modified") or None
        if self._pinned.etag is None and modified is not None and modified != self._pinned.modified is not None:
            raise _changed(self.size, f"it was written at {quote(modified)}")
        found = CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if found is not None and int(found["size"]) != self.size:
            raise _changed(self.size, f"it had {counted(self.size, 'byte')} and has {int(found['size']):,}")

    def _check_range(self, answer: UnreadAnswer, span: Range, size: int) -> None:
        content_range = answer.headers.get("Content-Range", "")
        found = CONTENT_RANGE.fullmatch(content_range)
        wanted = f"bytes {span[0]}-{span[1] - 1}/{size}"
        if found is None or (int(found["first"]), int(found["last"]) + 1, int(found["size"])) != (*span, size):
            raise misbehaves(answer.url, f"answers with the Content-Range {quote(content_range)}, not {quote(wanted)}")
        length = answer.headers.get("Content-Length")
        if length is not None and length != str(span[1] - span[0]):
            raise misbehaves(answer.url, f"announces {quote(length)} bytes for a range of {span[1] - span[0]:,}")

    def _is_range(self, answer: UnreadAnswer, span: Range) -> bool:
        """Check that an answer is exactly this range."""
        try:
            self._check_encoding(answer)
            self._check_range(answer, span, self.size)
        except FormatError:
            return False
        return True

    def _check_encoding(self, answer: UnreadAnswer) -> None:
        encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise misbehaves(answer.url, f"sends bytes in the encoding {quote(encoding)}, which was not accepted")


def etag_of(answer: UnreadAnswer) -> str | None:
    """Return a text that changes with the content: the hub's identity of the content, an ETag, or the time of the
    last change.
    """
    found = answer.first.get("X-Linked-Etag") or answer.headers.get("ETag") or answer.headers.get("Last-Modified")
    return found if found and len(found) <= LONGEST_ETAG else None


def _changed(size: int, words: str) -> FormatError:
    return FormatError(faults.CHANGED, Span(0, size), reason=TrustedText(words))


# --- multipart -------------------------------------------------------------------------------------------------------
# An answer with several ranges (multipart/byteranges, RFC 9110 section 14.6), part by part.
#
# A part is accepted only if its Content-Range is exactly a requested range that has not come yet; all requested ranges
# must come, and nothing else. The size of a part's headers is limited.

#: `bytes 0-99/1234`
CONTENT_RANGE = re.compile(r"bytes (?P<first>\d{1,19})-(?P<last>\d{1,19})/(?P<size>\d{1,19})")

_BOUNDARY = re.compile(r'(?i)multipart/byteranges\s*;\s*boundary="?(?P<boundary>[^";\s]{1,70})"?\s*')

#: Most bytes of the lines before the content of a part.
MOST_HEADERS = 2048


def boundary_of(content_type: str) -> bytes | None:
    """Return the boundary between parts, or None if the answer has no parts."""
    found = _BOUNDARY.fullmatch(content_type[:300])
    return found["boundary"].encode("ascii", "replace") if found is not None else None


def read_parts(
    read: Callable[[memoryview], int], boundary: bytes, ranges: Sequence[tuple[int, int]], size: int
) -> list[bytes]:
    """Return the content of each range.

    :param read: fills a buffer from the answer, and returns how many bytes came
    :param ranges: the requested ranges
    :param size: the size of the whole file, which every part must state
    :raises ValueError: if the answer is anything else, with a sentence about it
    """
    place = {span: number for number, span in enumerate(ranges)}
    found: list[bytes | None] = [None] * len(ranges)
    delimiter = b"--" + boundary
    for _ in ranges:
        span = _span_of(_head(read, delimiter), size)
        number = place.get(span)
        if number is None or found[number] is not None:
            raise ValueError("sends a part that was not asked for")
        data = bytearray(span[1] - span[0])
        if read(memoryview(data)) != len(data):
            raise ValueError("sends a part that is too short")
        found[number] = bytes(data)
    end = b"\r\n" + delimiter + b"--"
    tail = bytearray(len(end))
    if read(memoryview(tail)) != len(end) or tail != end:
        raise ValueError("does not end its parts")
    return [part for part in found if part is not None]


def _head(read: Callable[[memoryview], int], delimiter: bytes) -> bytes:
    """Return the lines before the content of a part; they are read byte by byte, because content follows directly."""
    lines, byte = bytearray(), bytearray(1)
    while not lines.endswith(b"\r\n\r\n") or lines == b"\r\n\r\n":
        if len(lines) >= MOST_HEADERS or read(memoryview(byte)) != 1:
            raise ValueError("sends parts without an end of their headers")
        lines += byte
    text = bytes(lines).lstrip(b"\r\n")
    if not text.startswith(delimiter + b"\r\n"):
        raise ValueError("does not separate its parts by the announced boundary")
    return text


def _span_of(head: bytes, size: int) -> tuple[int, int]:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-range":
            found = CONTENT_RANGE.fullmatch(value.strip().decode("latin-1"))
            if found is not None and int(found["size"]) == size:
                return int(found["first"]), int(found["last"]) + 1
    raise ValueError("sends a part without a valid Content-Range")
