"""This module reads ranges of a source: one in parts, many by few reads, of a server no more than a sample may cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from i2s_spec.gguf.source import CHUNK, FetchingSource, Source

#: Bytes between two ranges that are read with them.
NEAR = 1 << 12


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
    """The bytes from `start` to `stop`, at most `size` at a time."""
    while start < stop:
        data = source.read(start, min(size, stop - start))
        yield data
        start += len(data)


def read_spans(source: Source, spans: Sequence[tuple[int, int]]) -> list[bytes]:
    """The bytes of each (start, size), which the source holds, by few reads: of what lies together, in parts of a MiB."""
    data = [b""] * len(spans)
    near: list[int] = []
    first = end = 0

    def take() -> None:
        held = source.read(first, end - first)
        for i in near:
            start, size = spans[i]
            data[i] = held[start - first : start - first + size]

    for i in sorted(range(len(spans)), key=spans.__getitem__):
        start, size = spans[i]
        if near and (start > end + NEAR or start + size - first > CHUNK):
            take()
            near = []
        if not near:
            first = end = start
        near.append(i)
        end = max(end, start + size)
    if near:
        take()
    return data
