"""This module defines a file with edits that is not written yet: a source like any other, with a list of its changes.

It refers to ranges of the original and holds only the new bytes. So a file of any size is changed without a copy of it
in memory: it can be indexed, checked and edited again before it is written to disk.

    >>> from i2s_spec.gguf.source import BufferSource
    >>> edited = EditedSource(BufferSource(b"GGUF....")).edited([Edit(Span(4, 6, "version"), b"3")])
    >>> edited.read(0, edited.size)
    b'GGUF3..'
    >>> list(edited.changes())
    [Change(old=Span(start=4, stop=6, path='version'), new=Span(start=4, stop=5, path='version'), data=b'3')]
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.gguf.atomic_file import OutputFile, Target, refuse_source, refuse_taken, write_all
from i2s_spec.gguf.ranges import chunks
from i2s_spec.gguf.source import CHUNK, Buffer, Source
from i2s_spec.gguf.writer import Progress
from i2s_spec.schema import faults

#: With at least this many pieces, a read fetches the original's bytes at once.
MANY_PIECES: Final = 16

#: The buffer behind all short runs of zeros, so that a file full of padding is repaired with little memory.
_ZEROS: Final = memoryview(bytes(CHUNK))


def zeros(count: int) -> Buffer:
    """This number of zero bytes."""
    return _ZEROS[:count] if count <= len(_ZEROS) else bytes(count)


class Edit(NamedTuple):
    """New bytes that replace a span; with an empty span they are inserted, with no bytes the span is removed.

    `keys` and `tensors` say by how much the edit changes the numbers of key-values and tensor infos.
    """

    span: Span
    new: Buffer
    keys: int = 0
    tensors: int = 0

    @property
    def order(self) -> tuple[int, int]:
        return self.span.start, self.span.stop


class Change(NamedTuple):
    """A change in one place: the span in the original, and the span and the bytes that replace it."""

    old: Span
    new: Span
    data: Buffer


class _Piece(NamedTuple):
    """A piece of the edited file: bytes `start` to `stop` of the original unchanged, or `data` in their place."""

    start: int
    stop: int
    data: Buffer | None = None
    path: str = ""

    @property
    def size(self) -> int:
        return self.stop - self.start if self.data is None else len(self.data)

    def split(self, at: int) -> tuple[_Piece, _Piece]:
        """The first `at` bytes and the rest; for new bytes, the first part counts as the replacement."""
        start, stop, data, path = self
        if data is None:
            return _Piece(start, start + at), _Piece(start + at, stop)
        return _Piece(start, stop, data[:at], path), _Piece(stop, stop, data[at:], path)


class EditedSource:
    """A source with edits; it reads from the original, which stays open and belongs to the caller."""

    def __init__(self, origin: Source, pieces: tuple[_Piece, ...] | None = None) -> None:
        self.origin = origin
        self.name = origin.name
        self._pieces = (_Piece(0, origin.size),) if pieces is None else pieces
        #: The non-empty pieces, which are the only ones that are read: thousands of removed bytes leave as many empty
        #: pieces.
        self._held = [(piece, size) for piece in self._pieces if (size := piece.size)]
        self._ends = list(accumulate(size for _, size in self._held))
        self.size = self._ends[-1] if self._ends else 0

    @property
    def view(self) -> memoryview | None:
        return None

    def edited(self, edits: Iterable[Edit]) -> EditedSource:
        """The file with more edits, whose spans refer to this file.

        :raises ValueError: for edits that overlap or reach beyond the file
        """
        made: list[_Piece] = []
        rest = iter(self._pieces)
        piece = next(rest, None)
        at = 0  # where `piece` begins
        for edit in sorted(edits, key=lambda edit: edit.order):
            (start, stop, path), data = edit.span, edit.new
            if not at <= start <= stop <= self.size:
                raise ValueError(f"an edit of {edit.span} overlaps another one, or is outside the file")
            while piece is not None and (end := at + piece.size) <= start and (start < stop or end < start):
                made.append(piece)
                at = end
                piece = next(rest, None)
            if piece is not None and at < start:
                before, piece = piece.split(start - at)
                made.append(before)
                at = start
            first = last = made[-1].stop if piece is None and made else piece.start if piece is not None else 0
            while piece is not None and at < stop:
                if at + piece.size > stop:
                    gone, piece = piece.split(stop - at)
                    at, last = stop, gone.stop
                else:
                    at, last = at + piece.size, piece.stop
                    piece = next(rest, None)
            made.append(_Piece(first, max(first, last), data, path))
        if piece is not None:
            made.append(piece)
        made.extend(rest)
        return EditedSource(self.origin, tuple(piece for piece in made if piece.data is not None or piece.size))

    def changes(self) -> Iterator[Change]:
        """Every place where the file differs from the original, in order."""
        end = 0
        for piece in self._pieces:
            start, stop, data, path = piece
            if data is None:
                end += stop - start
                continue
            end += len(data)
            if data or start < stop:
                yield Change(Span(start, stop, path), Span(end - len(data), end, path), data)

    def parts(self) -> Iterator[Buffer]:
        """All bytes of the file, in parts of at most a MiB."""
        for piece in self._pieces:
            if piece.data is not None:
                yield piece.data
            else:
                yield from chunks(self.origin, piece.start, piece.stop, CHUNK)

    def read(self, start: int, length: int) -> bytes:
        buffer = bytearray(length)
        self.readinto(start, memoryview(buffer))
        return bytes(buffer)

    def readinto(self, start: int, buffer: memoryview) -> None:
        stop = start + buffer.nbytes
        if start < 0 or stop > self.size:
            reason = TrustedText("a range outside the file was requested")
            raise FormatError(faults.CHANGED, Span(max(start, 0), self.size), reason=reason)
        i, done = bisect_right(self._ends, start), 0
        base, near = self._near(i, bisect_right(self._ends, stop - 1)) if stop > start else (0, b"")
        while done < buffer.nbytes:
            piece, size = self._held[i]
            skip = start + done - (self._ends[i] - size)
            count = min(size - skip, buffer.nbytes - done)
            at = piece.start + skip
            if piece.data is not None:
                buffer[done : done + count] = piece.data[skip : skip + count]
            elif base <= at and at + count <= base + len(near):
                buffer[done : done + count] = near[at - base : at - base + count]
            else:
                self.origin.readinto(at, buffer[done : done + count])
            done += count
            i += 1

    def _near(self, first: int, last: int) -> tuple[int, bytes]:
        """If there are many small pieces: the original's bytes between them, read at once, and their position; else
        nothing."""
        inside = self._held[first + 1 : last] if last - first > MANY_PIECES else []
        start, stop = (inside[0][0].start, inside[-1][0].stop) if inside else (0, 0)
        return (start, self.origin.read(start, stop - start)) if 0 < stop - start <= CHUNK else (0, b"")

    def changed(self) -> str | None:
        return self.origin.changed()

    def close(self) -> None:
        """Do nothing: the caller closes the original."""


def write_edited(source: EditedSource, target: Target, force: bool = False, progress: Progress | None = None) -> int:
    """Write an edited file under another name, complete or not at all.

    :param force: replace a file of that name, but never the original
    :param progress: called now and then with (bytes written, bytes of the file)
    :returns: bytes of the file
    :raises FileExistsError: if the file exists and `force` is not given, and always for the original
    :raises FormatError: S903 if the original was written to meanwhile
    :raises OSError: as `OutputFile` does
    """
    refuse_source(target, source.origin)
    if not isinstance(target, str | os.PathLike):
        for part in source.parts():
            write_all(target, part)
        return source.size
    refuse_taken(target, force)
    done = 0
    with OutputFile(target, force=force, size=source.size) as output:
        for part in source.parts():
            output.write(part)
            done += len(part)
            if progress is not None:
                progress(done, source.size)
        reason = source.changed()
        if reason is not None:
            raise FormatError(faults.CHANGED, Span(0, source.size), reason=TrustedText(reason))
    return done
