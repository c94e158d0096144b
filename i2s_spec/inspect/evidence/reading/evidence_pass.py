"""This module reads the payloads of a file by several threads: it counts every matrix, and makes all comparisons.

Threads take one matrix after another; who counts the last one of a layer compares the profiles of this layer. All of that
is compiled and holds no lock. The caller's thread makes the comparisons of Grams first, while others count already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from i2s_spec.gguf.source import FileSource
from i2s_spec.inspect.evidence.comparisons import (
    MatrixComparison,
    gram_comparisons,
    profile_comparisons,
    written_grams,
    zero_channel_comparisons,
)
from i2s_spec.inspect.evidence.counted import Counted, count, room
from i2s_spec.inspect.evidence.grams import GramReader
from i2s_spec.inspect.evidence.reading.comparison_plan import Key, Plan, of_rows

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.inspect.evidence.roles import Roles
    from i2s_spec.schema.dialect import CodeMap

#: Weights of the layers whose Grams are compared, about; two layers at least.
GRAM_WEIGHTS: Final = 1 << 24
#: Bytes of payloads for each thread at least: for fewer one is faster.
THREAD_BYTES: Final = 1 << 20
#: Matrices that a thread counts before it looks whether another one failed, or somebody interrupts.
AT_ONCE: Final = 7


class EvidencePass:
    """One pass over the payloads.

    :param found: the matrices and gains of the file
    :param code_map: what the codes stand for
    """

    def __init__(self, file: File, found: Roles, code_map: CodeMap) -> None:
        self._source, self._found, self._code_map = file.source, found, code_map
        self._plan = Plan(found)
        self._pass = self._plan.compiled(code_map)
        self._stopped = False

    def run(self, threads: int) -> tuple[dict[Key, Counted], list[MatrixComparison]]:
        """With so many threads, the caller's among them: the counts, and the comparisons in the order of the file."""
        size = sum(matrix.rows * matrix.cols // 4 for matrix in self._found.matrices.values())
        threads = min(threads, len(self._found.matrices), size // THREAD_BYTES)
        if threads < 2:
            grams = self.grams()
            self._work()
        else:
            from concurrent.futures import ThreadPoolExecutor  # and what it imports: only for large files

            with ThreadPoolExecutor(threads - 1) as pool:
                helpers = [pool.submit(self._work) for _ in range(threads - 1)]
                try:
                    grams = self.grams()
                    self._work()
                    for helper in helpers:
                        helper.result()
                finally:
                    self._stopped = True
        counts = {key: self._counted(key) for key in self._found.matrices}
        made = list(profile_comparisons(self._found, counts)) if self._plan.too_large else self._plan.comparisons()
        return counts, [*made, *zero_channel_comparisons(self._found, counts), *grams]

    def grams(self) -> list[MatrixComparison]:
        """The comparisons of Grams, of a few layers."""
        few, reader = _few(self._found), GramReader(self._source, self._code_map)
        written = written_grams(reader, few)
        return [comparison for key in few.matrices for comparison in gram_comparisons(reader, few, written, key)]

    def _work(self) -> None:
        """Count and compare until nothing is left, or somebody failed."""
        buffer, scratch = room(self._pass.step), room(self._pass.room)
        descriptor = self._source.fileno() if type(self._source) is FileSource else -1
        try:
            while not self._stopped:
                number = self._pass.take() if descriptor < 0 else self._pass.work(descriptor, buffer, scratch, AT_ONCE)
                if number >= 0:  # what could not be read is read again, to be told
                    self._count(self._plan.keys[number], buffer)
                    self._pass.counted(number, scratch)
                elif descriptor < 0 or number < -1:
                    return
        except BaseException:
            self._stopped = True
            raise

    def _count(self, key: Key, buffer: memoryview) -> None:
        matrix = self._found.matrices[key]
        count(self._source, matrix.start, matrix.rows, matrix.cols, self._code_map, buffer, of_rows(matrix),
              self._plan.target(key))  # fmt: skip

    def _counted(self, key: Key) -> Counted:
        matrix = self._found.matrices[key]
        return Counted(self._plan.target(key), matrix.rows, matrix.cols)


def _few(found: Roles) -> Roles:
    """The layers whose Grams are compared: as many as are cheap, two at least, evenly spread."""
    layers = found.layers
    weights = sum(matrix.rows * matrix.cols for matrix in found.matrices.values())
    many = max(2, len(layers) * GRAM_WEIGHTS // weights)
    if many >= len(layers):
        return found
    chosen = {layers[i * (len(layers) - 1) // (many - 1)] for i in range(many)}
    return found._replace(matrices={key: each for key, each in found.matrices.items() if key[0] in chosen})
