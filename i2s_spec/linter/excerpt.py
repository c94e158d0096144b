"""This module defines the excerpt of a finding: the bytes of the file that it is about, in rows as a dump shows them."""

from __future__ import annotations

from i2s_spec.errors import FormatError, Span
from i2s_spec.gguf.source import FetchingSource, Source
from i2s_spec.linter.rule import Excerpt

#: Bytes in a row of a dump; excerpts begin and end at multiples of it.
ROW = 16

#: Rows of a span that an excerpt shows.
ROWS = 3


def excerpt_of(source: Source, span: Span, *, fetched: bool = False) -> Excerpt | None:
    """The rows of sixteen bytes that the span lies in, at most three; the row before an empty span at the file's end.

    None where there is no byte to show, as for what is about the file as a whole, or where it can no longer be read.

    :param fetched: whether only bytes are shown that are here already, of a file on a server
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
