"""This module defines a file of a web server or a hub as a source: resolved once, pinned, and read in ranges that are
checked.

The address after redirects is used until it answers 401, 403 or 410, because signatures in such addresses expire. Then
the first address is requested again. All answers must have the size, the ETag and, on hubs, the commit of the first
one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.remote.multipart import CONTENT_RANGE, boundary_of, read_parts
from i2s_spec.remote.range_source import FIRST, Range, RangeSource, Usage
from i2s_spec.remote.transport import CONNECTIONS, Transport, UnreadAnswer, fault_of, misbehaves
from i2s_spec.schema import faults

#: Most ranges of one request: their list stays below the 8 kB that servers accept as a header, and below Apache's limit
#: of 200.
MOST_RANGES = 190

#: Longest ETag; longer ones are ignored.
LONGEST_ETAG = 512

#: How often a body that ended early is requested again.
TRIES = 3

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
    :raises FormatError: S903 if the file changes, S911 to S918
    """

    def __init__(
        self,
        name: str,
        url: str,
        transport: Transport,
        pin: Callable[[Mapping[str, str]], tuple[str, str | None]] | None = None,
        missing: Callable[[Iterable[str]], int | None] | None = None,
    ) -> None:
        self._transport = transport
        self._neighbours = missing
        self.many_at_once = True
        try:
            with transport.get(url, {"Range": f"bytes=0-{FIRST - 1}"}, (416,)) as answer:
                first, version = (url, None) if pin is None else pin(answer.first)
                self._first_url, self._url = first, first if answer.url == url else answer.url
                self._pinned = self._pin(answer)
                super().__init__(name, self._pinned.size, version or self._pinned.etag, transport.policy.sample)
                self.etag = etag_of(answer)
                head = bytearray(min(FIRST, self.size))
                if head and transport.read(answer.body, memoryview(head)) != len(head):
                    head = bytearray()  # it is requested again, like every other range
            self._keep(0, bytes(head))
            self._run = 0, len(head)
        except BaseException:
            transport.close()
            raise

    @property
    def usage(self) -> Usage:
        return Usage(self._transport.requests, self._transport.bytes)

    def neighbours_missing(self, names: Iterable[str]) -> int | None:
        return None if self._neighbours is None else self._neighbours(names)

    def close(self) -> None:
        self._transport.close()

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
                done += self._transport.read(answer.body, buffer[done:])
            tries += 1
            if done < buffer.nbytes and tries == TRIES:
                raise misbehaves(self._url, "ends its answer before the range that it announced")

    def _several(self, ranges: Sequence[Range]) -> list[bytes]:
        """Many ranges in one request; a server without support gives the first or none, and is not asked for that again."""
        with self._asked(ranges) as answer:
            boundary = boundary_of(answer.headers.get("Content-Type", ""))
            if answer.status == 206 and boundary is not None:
                self._check_version(answer)
                try:
                    return read_parts(
                        lambda buffer: self._transport.read(answer.body, buffer), boundary, ranges, self.size
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
                    if self._transport.read(answer.body, memoryview(data)) == len(data):
                        return [bytes(data)]
        self.many_at_once = False
        return []

    # --- requests ---

    def _asked(self, ranges: Sequence[Range]) -> _Asking:
        return _Asking(self, ranges)

    def request(self, ranges: Sequence[Range]) -> tuple[str, dict[str, str]]:
        """Address and headers of a request for ranges."""
        spans = ",".join(f"{start}-{stop - 1}" for start, stop in ranges)
        return self._url, {"Range": f"bytes={spans}", **self._pinned.condition}

    def expired(self, asked: str, answer: UnreadAnswer) -> bool:
        """Whether an answer says that the address after redirects has expired; if so, it is dropped.

        :param asked: the requested address; other threads may have another one by now
        """
        if answer.status not in _EXPIRED or asked == self._first_url or answer.url != asked:
            return False
        if self._url == asked:
            self._url = self._first_url
        return True

    def moved(self, answer: UnreadAnswer) -> None:
        """Store the address to which the first one redirects now."""
        self._url = answer.url

    @property
    def transport(self) -> Transport:
        """The object that makes the requests."""
        return self._transport

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


class _Asking:
    """A request for ranges as a context manager: an expired address is resolved once more."""

    def __init__(self, source: HttpSource, ranges: Sequence[Range]) -> None:
        self._source = source
        self._ranges = ranges

    def __enter__(self) -> UnreadAnswer:
        source = self._source
        while True:
            url, headers = source.request(self._ranges)
            several = _REFUSED if len(self._ranges) > 1 else ()
            self._context = source.transport.get(url, headers, (*_EXPIRED, 412, 416, *several))
            answer = self._context.__enter__()
            if source.expired(url, answer):
                self._context.__exit__(None, None, None)
                continue
            try:
                if answer.status in _EXPIRED:
                    raise fault_of(answer)
                if answer.status in (412, 416) and answer.status not in several:
                    raise _changed(source.size, f"the server answers {answer.status} where its bytes were asked for")
            except FormatError:
                self._context.__exit__(None, None, None)
                raise
            source.moved(answer)
            return answer

    def __exit__(self, *exc: object) -> None:
        self._context.__exit__(None, None, None)


def etag_of(answer: UnreadAnswer) -> str | None:
    """A text that changes with the content: the hub's identity of the content, an ETag, or the time of the last change."""
    found = answer.first.get("X-Linked-Etag") or answer.headers.get("ETag") or answer.headers.get("Last-Modified")
    return found if found and len(found) <= LONGEST_ETAG else None


def _changed(size: int, words: str) -> FormatError:
    return FormatError(faults.CHANGED, Span(0, size), reason=TrustedText(words))
