"""This module reads the weights of a model into memory before they are used, in the order of their use.

Data that is read for every token should be in few huge pages and begin at cache lines: reading is then as fast as the
memory. A memory map of the file has neither, and its pages may not be loaded. So the tensors are read once, with all
allowed threads, into one block of anonymous memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.gguf.huge_pages import HUGE_PAGE, huge_pages
from i2s_spec.schema.block_layout import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CANONICAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import Tensor
    from i2s_spec.model.graph.graph import Graph
    from i2s_spec.model.weights import ModelWeights

#: Bytes that are read at a time.
PIECE: Final = 8 << 20
#: Alignment of tensors, in bytes.
LINE: Final = 64

#: Called with (bytes that were read, bytes in all).
Progress = Callable[[int, int], object]


def preload(weights: ModelWeights, graph: Graph, threads: int = 1, progress: Progress | None = None) -> None:
    """Read the tensors of a graph that are used unchanged, as they are in the file.

    For a file in memory nothing is done. Tensors in another dialect or byte order are converted anyway, when they are
    needed.

    :raises FormatError: if the file does not hold a tensor, or cannot be read
    """
    source = weights.file.source
    if source.view is not None or weights.file.byte_order != "little":
        return
    names = dict.fromkeys(name for node in graph for name in node.weights)
    tensors = [weights.tensor(name) for name in names]
    tensors = [each for each in tensors if _as_it_is(each, weights)]
    spans = [each.span for each in tensors]
    for tensor, span in zip(tensors, spans, strict=True):
        tensor.require(span)
    sizes = [span.stop - span.start for span in spans]
    starts = np.cumsum([0, *(-(-size // LINE) * LINE for size in sizes)]).tolist()
    if not starts[-1]:
        return
    memory = pages(starts[-1])
    places = [memory[start : start + size] for start, size in zip(starts, sizes, strict=False)]

    def read(piece: tuple[int, NDArray[np.uint8]]) -> int:
        start, into = piece
        source.readinto(start, into.data)
        return into.size

    alone = not hasattr(source, "fileno")  # other sources keep a file position, or are remote
    done, total = 0, sum(sizes)
    with ThreadPoolExecutor(1 if alone else threads) as pool:
        for count in pool.map(read, _pieces([span.start for span in spans], places)):
            done += count
            if progress is not None:
                progress(done, total)
    for tensor, place in zip(tensors, places, strict=True):
        weights.preloaded[tensor.name] = place


def pages(size: int) -> NDArray[np.uint8]:
    """Memory that begins at a huge page and consists of huge pages, if the system has them."""
    whole = np.frombuffer(huge_pages(size + HUGE_PAGE), dtype=np.uint8)
    skip = -int(whole.__array_interface__["data"][0]) % HUGE_PAGE
    return whole[skip : skip + size]


def _as_it_is(tensor: Tensor, weights: ModelWeights) -> bool:
    kind = None if tensor.type is None else tensor.type.name
    if kind != "I2_S":
        return kind not in GROUP_LAYOUTS
    dialect: Any = weights.dialect
    return (dialect.layout, dialect.code_map) == (CANONICAL.layout, CANONICAL.code_map)


def _pieces(starts: list[int], places: list[NDArray[np.uint8]]) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    for start, place in zip(starts, places, strict=True):
        for at in range(0, place.size, PIECE):
            yield start + at, place[at : at + PIECE]
