"""This module walks the data of a file on a server: what the walk will show is asked for together, before it begins.

A server of single ranges would take a request for every tensor. There a dump of the whole structure shows as many scales
as a sample may cost (`--remote-limit sample=N`), evenly spread, and says of the rest that it was not read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from i2s_spec.gguf.ranges import affordable
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import FetchingSource
from i2s_spec.inspect.dump.data_walk import data_nodes
from i2s_spec.schema.field import FieldNode
from i2s_spec.schema.types import TAIL_BYTES
from i2s_spec.schema.walk import Elided, Read, Scope, is_leaf

#: Bytes of the widest line.
LINE: Final = 32

UNREAD: Final = "bytes, not read: they would be a request of their own"


def affordable_nodes(file: File, read: Read, scope: Scope) -> Iterator[FieldNode]:
    """The nodes of the data section that the scope covers, as `data_nodes` gives them.

    :raises FormatError: where the server does not give what is asked for
    """
    source = file.source
    if not isinstance(source, FetchingSource) or scope.limit is None or scope.records is None or scope.deep:
        yield from data_nodes(file, read, scope)
        return
    from i2s_spec.remote.range_source import NEAR, merged

    def shown(node: FieldNode) -> tuple[int, int]:
        """The bytes that a leaf takes: all for its value, else those of its lines."""
        if not is_leaf(node) or isinstance(node.value, Elided):
            return node.start, node.start
        stop = node.stop if _has_value(node) else min(node.stop, node.start + LINE * (scope.limit or 0))
        return node.start, min(stop, file.size)

    nodes = list(data_nodes(file, _nothing, scope))
    spans = merged(map(shown, nodes), NEAR)
    # Scales and padding tell more than the first numbers of a tensor.
    starts = [start for start, _ in spans]
    first = sorted(
        {bisect_right(starts, node.start) - 1 for node in nodes if _has_value(node) and node.start < file.size}
    )
    valued = [spans[place] for place in first]
    if len(affordable(source, valued)) == len(valued):
        source.prefetch(valued)
        left = [span for span in spans if not source.holds(*span)]
        if len(affordable(source, left)) == len(left):
            source.prefetch(left)
            yield from data_nodes(file, read, scope)
            return

    def held(start: int, length: int) -> bytes:
        return read(start, length) if source.holds(start, start + length) else _nothing(start, length)

    for node in data_nodes(file, held, scope):
        start, stop = shown(node)
        is_here = start >= stop or source.holds(start, stop)
        yield node if is_here else node._replace(value=Elided(node.stop - node.start, UNREAD))


def _has_value(node: FieldNode) -> bool:
    """Whether all bytes of a leaf are read for what it says."""
    return node.value is not None and is_leaf(node) and not isinstance(node.value, Elided)


def _nothing(start: int, length: int) -> bytes:
    """What stands for bytes that are not here; nobody is shown them, and no field of the data section is longer."""
    return bytes(min(length, TAIL_BYTES))
