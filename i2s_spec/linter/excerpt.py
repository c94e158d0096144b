"""This module defines the excerpt of a finding: the bytes of its span, in rows of a hex dump."""

from __future__ import annotations

from i2s_spec.errors import FormatError, Span
from i2s_spec.gguf.source import FetchingSource, Source
from i2s_spec.linter.rule import Excerpt

#: Bytes in a row of a dump; excerpts begin and end at multiples of it.
ROW = 16

#: Most rows of an excerpt.
ROWS = 3


def excerpt_of(source: Source, span: Span, *, fetched: bool = False) -> Excerpt | None:
    """The rows of sixteen bytes that contain the span, at most three; for an empty span at the file's end, the row before.

    None if there is no byte to show, as for a finding about the whole file, or if the file can no longer be read.

    :param fetched: whether to show only bytes that were fetched already, for a file on a server
    """
    if span.stop == 0:
        return None
    start = min(span.start, max(source.size - 1, 0)) // ROW * ROW
    stop = min(max(span.stop, span.start + 1), start + ROW * ROWS)
    stop = min((stop + ROW - 1) // ROW * ROW, source.size)
    if stop <= start or (fetched and isinstance(source, FetchingSource) and not source.holds(start, stop)):
        return None
    try:
        return Excerpt(start, source.read(start, stop - start))
    except FormatError:
        return None
