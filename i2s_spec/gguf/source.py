"""Sources of bytes: a file by bounded reads, a buffer, a seekable stream, or a map; and ranges of them.

A `Source` has a size that was fixed when it was opened and serves exact ranges of it. A file is never mapped unless the
caller says that it is trusted: a map of a file that shrinks kills the process, a bounded read gives an error. Nothing
but regular files is opened; a FIFO or a device would block or never end.

`read_regular` reads a small file whole, `open_below` and `read_below` take a file out of a stranger's folder, `chunks`
reads a range, and `huge_pages` gives memory to read into:

    >>> len(huge_pages(3)) >= 3
    True
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from threading import Lock
from typing import Any, BinaryIO, Final, Protocol, cast, runtime_checkable

from i2s_spec.errors import FormatError, Span, TooManyFiles, TrustedText, counted, file_error, is_too_many_files, quote
from i2s_spec.schema import faults

__all__ = ["BufferSource", "FileSource", "MapSource", "Source", "StreamSource", "source_of"]

#: Anything with the buffer protocol; Python names it only from 3.12 on.
Buffer = Any

#: What a file can be opened from: a path, a `Source`, a seekable binary stream, or a buffer.
Origin = Any

#: Of `os.open`. O_NONBLOCK: opening a FIFO must not wait for its writer; it is refused then.
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

#: How much `chunks` and copies read at a time.
CHUNK = 1 << 20


@runtime_checkable
class Source(Protocol):
    """What a reader needs: a size, and the bytes of any range inside it.

    `name` is for messages only. `read` and `readinto` give exactly what was asked for, or raise `FormatError`.
    `view` is the whole input as a buffer where that costs nothing, else None.
    """

    name: str
    size: int

    @property
    def view(self) -> memoryview | None: ...

    def read(self, start: int, length: int) -> bytes: ...

    def readinto(self, start: int, buffer: memoryview) -> None: ...

    def changed(self) -> str | None:
        """Why what was read may not belong together any more, or None."""

    def close(self) -> None: ...


@runtime_checkable
class FetchingSource(Source, Protocol):
    """A source that fetches from a server: who knows what it will read says so, since a request costs more than bytes."""

    def expect(self, ranges: Iterable[tuple[int, int]], if_together: bool = False) -> None:
        """Announce ranges that will be read: they are asked for together when the first of them is needed.

        :param if_together: these may be read: they are left out where each would be a request of its own
        """

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Ask for ranges now, in as few requests as possible."""

    def far_ranges(self, ranges: Sequence[tuple[int, int]]) -> int | None:
        """How many ranges that lie apart a sample may ask for, beside the first and the last of these, which are fetched.

        None where that needs no bound: a request takes many of them.
        """

    def holds(self, start: int, stop: int) -> bool:
        """Whether reading this range would ask for nothing."""


class BufferSource:
    """Bytes that are in memory already: anything with the buffer protocol."""

    def __init__(self, data: Buffer, name: str = "<buffer>") -> None:
        self._view: memoryview | None = memoryview(data).cast("B")
        self.name = name
        self.size = self._view.nbytes

    @property
    def view(self) -> memoryview | None:
        return self._opened()

    def _opened(self) -> memoryview:
        if self._view is None:
            raise _closed(self)
        return self._view

    def read(self, start: int, length: int) -> bytes:
        _inside(self, start, length)
        return bytes(self._opened()[start : start + length])

    def readinto(self, start: int, buffer: memoryview) -> None:
        _inside(self, start, buffer.nbytes)
        buffer[:] = self._opened()[start : start + buffer.nbytes]

    def changed(self) -> str | None:
        return None

    def close(self) -> None:
        self._view = None


class FileSource:
    """A regular file, read by offset; size and times of change are those of the moment it was opened.

    :param name: for messages, where that is not the path
    """

    def __init__(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        self._fd = -1
        self.path = os.fspath(path)
        self.name = name or self.path
        try:
            self._fd = _opened(path)
        except OSError as error:
            raise file_error(faults.UNREADABLE, error).of_file(path) from error
        try:
            self._stat = os.fstat(self._fd)
            _refuse_special(self._fd, self._stat)
        except FormatError as error:
            self.close()
            error.of_file(path)
            raise
        except BaseException:
            self.close()
            raise
        self.size = self._stat.st_size

    @property
    def view(self) -> memoryview | None:
        return None

    def fileno(self) -> int:
        return self._fd

    def read(self, start: int, length: int) -> bytes:
        _inside(self, start, length)
        try:
            data = os.pread(self._fd, length, start)
            while len(data) < length:  # a signal or the 2 GiB limit of one call
                more = os.pread(self._fd, length - len(data), start + len(data))
                if not more:
                    raise _shrank(start + len(data), self.size)
                data += more
        except OSError as error:
            raise self._failed(error) from error
        return data

    def readinto(self, start: int, buffer: memoryview) -> None:
        _inside(self, start, buffer.nbytes)
        done = 0
        while done < buffer.nbytes:
            try:
                got = os.preadv(self._fd, [buffer[done:]], start + done)
            except OSError as error:
                raise self._failed(error) from error
            if got == 0:
                raise _shrank(start + done, self.size)
            done += got

    def changed(self) -> str | None:
        now = os.fstat(self._fd)
        if now.st_size != self._stat.st_size:
            return f"its size went from {self._stat.st_size:,} to {counted(now.st_size, 'byte')}"
        if now.st_mtime_ns != self._stat.st_mtime_ns:
            return "it was written to"
        # Who writes can set the time of the last write, but not that of the last change of the file's state. A name that the
        # file gained or lost changes the state too: its own copy may have taken its place, and no byte of it is another.
        if now.st_ctime_ns != self._stat.st_ctime_ns and now.st_nlink == self._stat.st_nlink:
            return "its state was changed"
        return None

    def _failed(self, error: OSError) -> ValueError:
        """Return the error of a failed read: a closed file is not a bad file."""
        return _closed(self) if self._fd < 0 else _unreadable(error)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if os is not None:  # as it is where the interpreter ends
            self.close()


class SeekingSource(FileSource):
    """A regular file where the system has no reading at an offset, as Windows: each read seeks while other threads wait."""

    def __init__(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        self._lock = Lock()
        super().__init__(path, name)

    def read(self, start: int, length: int) -> bytes:
        _inside(self, start, length)
        data = bytearray(length)
        self.readinto(start, memoryview(data))
        return bytes(data)

    def readinto(self, start: int, buffer: memoryview) -> None:
        _inside(self, start, buffer.nbytes)
        done = 0
        try:
            with self._lock:
                os.lseek(self._fd, start, os.SEEK_SET)
                while done < buffer.nbytes:
                    part = os.read(self._fd, min(buffer.nbytes - done, CHUNK))
                    if not part:
                        raise _shrank(start + done, self.size)
                    buffer[done : done + len(part)] = part
                    done += len(part)
        except OSError as error:
            raise _unreadable(error) from error


#: What reads a path on this system.
PathSource: type[FileSource] = FileSource if hasattr(os, "preadv") else SeekingSource


class StreamSource:
    """A seekable binary stream; its position is left wherever the last read ended.

    Threads may read from one source: each seeks and reads while the others wait.
    """

    def __init__(self, stream: BinaryIO, name: str | None = None) -> None:
        self._stream = stream
        self._lock = Lock()
        self.name = name or str(getattr(stream, "name", "<stream>"))
        self.size = stream.seek(0, os.SEEK_END)

    @property
    def view(self) -> memoryview | None:
        return None

    def read(self, start: int, length: int) -> bytes:
        _inside(self, start, length)
        parts: list[bytes] = []
        left = length
        with self._lock:
            self._stream.seek(start)
            while left:
                part = self._stream.read(min(left, CHUNK))
                if not part:
                    raise _shrank(start + length - left, self.size)
                parts.append(part)
                left -= len(part)
        return b"".join(parts)

    def readinto(self, start: int, buffer: memoryview) -> None:
        buffer[:] = self.read(start, buffer.nbytes)

    def changed(self) -> str | None:
        with self._lock:
            size = self._stream.seek(0, os.SEEK_END)
        return None if size == self.size else f"its size went from {self.size:,} to {counted(size, 'byte')}"

    def close(self) -> None:
        """Leave the stream open: it belongs to its opener."""


class MapSource(BufferSource):
    """A file mapped into memory: only for a file that no other process truncates meanwhile."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        file = FileSource(path)
        try:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.size else None
        finally:
            file.close()
        super().__init__(self._map if self._map is not None else b"", os.fspath(path))

    def close(self) -> None:
        super().close()
        if self._map is not None:
            with suppress(BufferError):  # an array still looks into the map; it goes with the last of them
                self._map.close()


class JoinedSource:
    """Sources one after another, as if they were one file: the parts of a split model. They belong to the caller.

    >>> joined = JoinedSource([BufferSource(b"abc"), BufferSource(b"de")])
    >>> joined.read(1, 3), [(source.name, start, stop) for source, start, stop in joined.located(1, 4)]
    (b'bcd', [('<buffer>', 1, 3), ('<buffer>', 0, 1)])
    """

    view = None

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = tuple(sources)
        self.name = self.sources[0].name
        #: Where each begins, and where the last one ends.
        self.starts = [0, *accumulate(source.size for source in self.sources)]
        self.size = self.starts[-1]

    def located(self, start: int, stop: int) -> Iterator[tuple[Source, int, int]]:
        """Yield the ranges of the sources that make up a range."""
        i = bisect_right(self.starts, start) - 1
        while start < stop:
            base, end = self.starts[i], min(self.starts[i + 1], stop)
            if start < end:
                yield self.sources[i], start - base, end - base
            start, i = end, i + 1

    def read(self, start: int, length: int) -> bytes:
        _inside(self, start, length)
        return b"".join(source.read(first, end - first) for source, first, end in self.located(start, start + length))

    def readinto(self, start: int, buffer: memoryview) -> None:
        _inside(self, start, buffer.nbytes)
        done = 0
        for source, first, end in self.located(start, start + buffer.nbytes):
            source.readinto(first, buffer[done : done + end - first])
            done += end - first

    def changed(self) -> str | None:
        return next((reason for source in self.sources if (reason := source.changed()) is not None), None)

    def close(self) -> None:
        """Do nothing: the caller closes the sources."""


def source_of(origin: Origin, trusted: bool = False) -> Source:
    """Return the source for whatever a caller has: a path, an address of a server, a buffer, a seekable binary
    stream, a `File`, or a `Source` already.

    `gguf.GGUFReader` objects are buffers too: what they mapped is read.

    :param trusted: map the file instead of reading it; only for files that no other process can truncate
    :raises FormatError: S901, S902 where the path cannot be opened or is not a regular file; S911 to S918 for addresses
    :raises MissingExtra: for an address, where the extra [remote] is not installed
    """
    if is_address(origin):
        from i2s_spec.remote.open import open_remote

        found = open_remote(origin)
        return FileSource(found, origin) if isinstance(found, str) else found
    if isinstance(origin, str | os.PathLike):
        return MapSource(origin) if trusted else PathSource(origin)
    if isinstance(origin, BufferSource | FileSource | StreamSource):
        return origin
    try:
        return BufferSource(origin)
    except (TypeError, ValueError):  # no buffer, or one with gaps
        pass
    if isinstance(origin, Source):
        return origin
    if isinstance(held := getattr(origin, "source", None), Source):  # a `File`
        return held
    if hasattr(origin, "seek") and hasattr(origin, "read"):
        return StreamSource(_binary(origin))
    # gguf's reader has the whole file as an array; that package is not loaded to ask.
    if any(kind.__name__ == "GGUFReader" for kind in type(origin).__mro__) and hasattr(origin, "data"):
        return BufferSource(origin.data, str(getattr(origin.data, "filename", None) or "<GGUFReader>"))
    raise TypeError(
        f"cannot read a GGUF file from {type(origin).__qualname__}: a path, contiguous bytes, "
        "a seekable binary stream, a File or a gguf.GGUFReader are taken"
    )


def _binary(stream: Any) -> BinaryIO:
    """Return a stream that gives bytes and can seek.

    :raises TypeError: for a stream of text
    :raises ValueError: for one that cannot seek, such as a pipe
    """
    if isinstance(stream, io.TextIOBase):
        raise TypeError("the stream gives text: open the file with mode 'rb'")
    if not getattr(stream, "seekable", lambda: True)():
        raise ValueError("the stream cannot seek: read it whole, and give the bytes")
    return cast(BinaryIO, stream)


def is_address(origin: Origin) -> bool:
    """Whether a name is an address of a server, such as `hf://org/repo/file.gguf`; a file that is called so has `./` before
    its name."""
    if not isinstance(origin, str) or "://" not in origin:
        return False
    from i2s_spec.remote.addresses import is_remote

    return is_remote(origin)


def require_unchanged(source: Source) -> None:
    """Raise where a source changed since it was opened: what was read of it may not belong together (12.4-2).

    :raises FormatError: S903, with the name of the file
    """
    reason = source.changed()
    if reason is not None:
        raise FormatError(faults.CHANGED, Span(0, source.size), reason=TrustedText(reason)).of_file(source.name)


def _closed(source: Source) -> ValueError:
    return ValueError(f"{quote(source.name, 4096)} is closed")


def _inside(source: Source, start: int, length: int) -> None:
    if start < 0 or length < 0 or start + length > source.size:
        span = Span(min(max(start, 0), source.size), source.size)
        raise FormatError(faults.CHANGED, span, reason=TrustedText("a range outside the file was asked for"))


def _refuse_special(fd: int, status: os.stat_result) -> None:
    kind = kind_of(status) or _made_up(fd, status)
    if kind is not None:
        raise FormatError(faults.NOT_A_FILE, Span(0, 0), kind=TrustedText(kind))


def kind_of(status: os.stat_result) -> str | None:
    """Name the kind of a file that is not a regular one; None for a regular file."""
    kinds = (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
    )
    return next((kind for is_kind, kind in kinds if is_kind(status.st_mode)), None)


def _made_up(fd: int, status: os.stat_result) -> str | None:
    """Name the kind of a file whose bytes the system makes when they are read, as in /proc, with a size of 0."""
    if status.st_size:
        return None
    try:
        some = os.read(fd, 1)
        os.lseek(fd, 0, os.SEEK_SET)
    except OSError:  # some of these wait
        return None
    return "a file that the system makes up, of size 0 and not empty" if some else None


def _unreadable(error: OSError) -> FormatError:
    return FormatError(faults.UNREADABLE, Span(0, 0), reason=TrustedText(error.strerror or type(error).__name__))


def _shrank(at: int, size: int) -> FormatError:
    reason = TrustedText(f"it ends at byte {at:,} now, and had {counted(size, 'byte')} when it was opened")
    return FormatError(faults.CHANGED, Span(at, size), reason=reason)


# --- regular file ----------------------------------------------------------------------------------------------------
# Files that are read whole: regular ones, of a bounded size, which are more than holes.


def _opened(path: str | os.PathLike[str]) -> int:
    """Return a descriptor of a file; a shortage of descriptors is not a fault of the file.

    :raises TooManyFiles: where no further file can be opened
    """
    try:
        return os.open(path, FLAGS)
    except OSError as error:
        if is_too_many_files(error):
            raise TooManyFiles from None
        raise


def open_regular(path: str | os.PathLike[str], most: int | None = None) -> BinaryIO:
    """Return a regular file, to be read; nothing else is opened: a FIFO would wait for its writer, a device may
    never end.

    :param most: bytes that it may have
    :raises OSError: where it cannot be opened, is not a regular file, or is larger; with the name
    """
    name = os.fspath(path)
    fd = _opened(path)
    try:
        status = os.fstat(fd)
        kind = kind_of(status) or _made_up(fd, status)
        if kind is not None:
            raise OSError(errno.EINVAL, f"it is {kind}, and no file", name)
        if most is not None and status.st_size > most:
            raise OSError(errno.EFBIG, f"it has {counted(status.st_size, 'byte')}, and {most:,} at most are read", name)
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """All bytes of a regular file.

    :raises OSError: as `open_regular` does
    """
    with open_regular(path, most) as file:
        data = file.read(min(most, max(os.fstat(file.fileno()).st_size, 1 << 16)))  # `read` takes that much memory
    if data is None:  # some files of /proc are called regular, and wait
        raise OSError(errno.EAGAIN, "it has nothing to read now", os.fspath(path))
    return data


# --- a stranger's folder ---------------------------------------------------------------------------------------------
# A folder from a clone or an archive may hold links to anything that the user can read. What a search, a listing or a
# fixed name finds in such a folder is opened only here; a file that the user names is opened wherever it is.


def below(folder: str | os.PathLike[str], name: str, *also: str | os.PathLike[str]) -> str:
    """Return the path, without links, of what lies in a stranger's folder: links may lead only to what is below it.

    The hub's cache is a folder of links, `snapshots/COMMIT/NAME -> ../../blobs/DIGEST`, which may be followed.

    :param name: the path from the folder on
    :param also: folders that links may lead to as well
    :raises FormatError: S904 for a link that leads elsewhere, S901 for one that leads nowhere; with the name
    """
    path = os.path.join(os.fsdecode(folder), name)
    try:
        real, root = os.path.realpath(path, strict=True), os.path.realpath(folder, strict=True)
    except OSError as error:
        raise file_error(faults.UNREADABLE, error).of_file(path) from error
    roots = [root, *(os.path.realpath(each) for each in also)]
    place = root
    while (parent := os.path.dirname(place)) != place:
        if os.path.basename(parent) == "snapshots":
            roots.append(os.path.join(os.path.dirname(parent), "blobs"))
        place = parent
    if not any(real == each or real.startswith(os.path.join(each, "")) for each in roots):
        raise FormatError(faults.LEADS_OUT, Span(0, 0)).of_file(path)
    return real


def open_below(folder: str | os.PathLike[str], name: str, *also: str | os.PathLike[str]) -> FileSource:
    """Return a regular file of a stranger's folder; every reader of such a folder opens its files with this.

    :raises FormatError: S901, S902, and S904 as `below`; with the name
    """
    path = below(folder, name, *also)
    return PathSource(path, os.path.join(os.fsdecode(folder), name))


def read_below(folder: str | os.PathLike[str], name: str, most: int) -> bytes:
    """All bytes of a file of a stranger's folder.

    :raises FormatError: as `open_below` does, and S903
    :raises OSError: for one of more bytes than `most`; with the name
    """
    source = open_below(folder, name)
    try:
        if source.size > most:
            words = f"it has {counted(source.size, 'byte')}, and {most:,} at most are read"
            raise OSError(errno.EFBIG, words, source.name)
        return source.read(0, source.size)
    finally:
        source.close()


#: A file is read whole unless more than so many bytes of it lie in holes, and more than so many times what was written.
MOST_UNWRITTEN, UNWRITTEN_SHARE = 1 << 34, 64


def require_written(source: Source) -> None:
    """Refuse to read a file whole that consists of holes: a few bytes on the disk can stand for any number.

    :raises ValueError: for such a file
    """
    number = getattr(getattr(source, "origin", source), "fileno", None)  # a file with edits has that of the original
    written = getattr(os.fstat(number()), "st_blocks", None) if number is not None else None
    if written is None or source.size - 512 * written <= max(MOST_UNWRITTEN, UNWRITTEN_SHARE * 512 * written):
        return
    raise ValueError(
        f"only {512 * written:,} of {counted(source.size, 'byte')} were ever written; the file is not read whole"
    )


# --- ranges ----------------------------------------------------------------------------------------------------------
# One range in parts, and of a server no more than a sample may cost.


def affordable(source: Source, ranges: Sequence[tuple[int, int]]) -> Sequence[int]:
    """Numbers of the ranges that may be read of these, which lie apart: all; of a server that gives one range at a time as
    many as a sample may cost, the first, the last and some between them, evenly spread. Those are fetched.

    :raises FormatError: where they cannot be had
    """
    if not ranges or not isinstance(source, FetchingSource):
        return range(len(ranges))
    more = source.far_ranges(ranges)
    if more is None or 2 + more >= len(ranges):
        return range(len(ranges))
    chosen = [number * (len(ranges) - 1) // (1 + more) for number in range(2 + more)]
    source.prefetch(ranges[number] for number in chosen)
    return chosen


def chunks(source: Source, start: int, stop: int, size: int = CHUNK) -> Iterator[bytes]:
    """Yield the bytes from `start` to `stop`, at most `size` at a time."""
    while start < stop:
        data = source.read(start, min(size, stop - start))
        yield data
        start += len(data)


# --- huge pages ------------------------------------------------------------------------------------------------------
# Zeroed memory that lies in huge pages, where the system has any.
#
# Being given a small page takes longer than filling it, and addresses in many small pages take long to look up.

#: Bytes of a huge page.
HUGE_PAGE: Final = 2 << 20


def huge_pages(size: int) -> mmap.mmap:
    """At least so many zeros, whole huge pages of them where they begin at one, which newer kernels see to.

    :raises MemoryError: where there are not so many
    """
    # Shared memory, which is the default, has pages of its own kind.
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    try:
        memory = mmap.mmap(-1, -(-size // HUGE_PAGE) * HUGE_PAGE, **private)
    except OSError as error:
        raise MemoryError(f"there is no memory for {counted(size, 'byte')}") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def zeros(size: int) -> mmap.mmap | bytearray:
    """At least so many zeros, in huge pages where there are enough of them."""
    return bytearray(size) if size < HUGE_PAGE // 4 else huge_pages(size)
