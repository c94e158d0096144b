"""Read the weights of a file in the background, while the file is checked and the graph is built.

Data that is read for every token should be in few huge pages and begin at cache lines: reading is then as fast as the
memory. A memory map of the file has neither. So the tensors that are used as they are in the file are read once into one
block of anonymous memory; the others are converted anyway, when they are needed. Of a map that the caller trusts, the
pages are looked up once, so that the first pass does not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.gguf.source import MapSource, huge_pages
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CANONICAL

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.schema.dialect import Dialect

#: Bytes that are read at a time: long enough that threads seldom wait for the interpreter.
PIECE: Final = 32 << 20
#: Most tensors that are read ahead; of more, each is read when it is needed.
MOST_TENSORS: Final = 1 << 16
#: Bytes of the smallest page of memory.
PAGE: Final = 4 << 10
#: Alignment of tensors, in bytes.
CACHE_LINE: Final = 64

#: Called with (bytes that were read, bytes in all).
Progress = Callable[[int, int], object]


class ReadAhead:
    """The tensors of a file that are being read.

    A local file is read at once, before it was checked, if there are threads for it: never more bytes than it has. A
    source that is fetched, or that has one position, is read by `finish`, and so is one for which no thread could be
    started. Of a file in memory, or in a map, nothing is copied.

    :param dialect: the dialect in which I2_S tensors are read
    :param threads: how many threads may work
    """

    def __init__(self, file: File, dialect: Dialect, threads: int) -> None:
        self._source, self._size = file.source, 0
        self._places: list[tuple[Tensor, int]] = []
        #: What is read at a time: where it begins in the file and in memory, and its bytes.
        self._pieces: list[tuple[int, int, int]] = []
        for tensor in _as_they_are(file, dialect):
            self._places.append((tensor, self._size))
            for at in range(0, tensor.nbytes, PIECE):
                self._pieces.append((tensor.span.start + at, self._size + at, min(PIECE, tensor.nbytes - at)))
            self._size += -(-tensor.nbytes // CACHE_LINE) * CACHE_LINE
        self._memory = memoryview(b"")
        self._pool: ThreadPoolExecutor | None = None
        self._reads: list[Future[int]] = []
        if threads > 1 and self._pieces and (hasattr(file.source, "fileno") or isinstance(file.source, MapSource)):
            self._start(threads)

    def finish(self, progress: Progress | None = None) -> dict[str, NDArray[np.uint8]]:
        """Return the bytes of each tensor by its name, when all are read.

        :raises FormatError: if the file cannot be read
        :raises MemoryError: if there is not enough memory for the tensors
        """
        import numpy as np

        self._allocate()
        done, total = 0, sum(tensor.nbytes for tensor, _ in self._places)
        for number, piece in enumerate(self._pieces):
            done += self._reads[number].result() if self._reads else self._read(*piece)
            if progress is not None:
                progress(done, total)
        self.close()
        if self._source.view is not None:
            return {}
        whole = np.frombuffer(self._memory, dtype=np.uint8)
        return {tensor.name: whole[at : at + tensor.nbytes] for tensor, at in self._places}

    def close(self) -> None:
        """End the reading."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _allocate(self) -> None:
        if self._pieces and not self._memory and self._source.view is None:
            self._memory = memoryview(huge_pages(self._size))

    def _start(self, threads: int) -> None:
        self._allocate()
        self._pool = ThreadPoolExecutor(threads, "read-ahead")
        try:
            self._reads = [self._pool.submit(self._read, *piece) for piece in self._pieces]
        except BaseException as error:
            self.close()
            if not isinstance(error, RuntimeError):  # which says that no thread can be started
                raise

    def _read(self, start: int, place: int, size: int) -> int:
        if (view := self._source.view) is None:
            self._source.readinto(start, self._memory[place : place + size])
        else:
            import numpy as np

            np.frombuffer(view[start : start + size], dtype=np.uint8)[::PAGE].max()  # other threads run meanwhile
        return size


def _as_they_are(file: File, dialect: Any) -> list[Tensor]:
    """Return the tensors whose bytes are used as they are in the file; none where the file cannot hold them all, or is in
    memory already."""
    in_memory = file.source.view is not None and not isinstance(file.source, MapSource)
    if in_memory or file.byte_order != "little" or file.index.tensors > MOST_TENSORS:
        return []
    usual = (dialect.layout, dialect.code_map) == (CANONICAL.layout, CANONICAL.code_map)
    found = []
    for tensor in file.tensors.values():
        kind = None if tensor.type is None else tensor.type.name
        if kind is not None and tensor.nbytes and (usual if kind == "I2_S" else kind not in GROUP_LAYOUTS):
            found.append(tensor)
    inside = all(tensor.span.stop <= file.source.size for tensor in found)
    return found if inside and sum(tensor.nbytes for tensor in found) <= file.source.size else []
