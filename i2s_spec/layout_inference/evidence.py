"""This module plans which profiles of a file are compared, in tables that `_bit_sums.Pass` follows without Python.

`comparisons.profile_comparisons` defines what they are and what is found; a test checks that both are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from i2s_spec.codec.buffers import as_kind, packed, zeros
from i2s_spec.gguf import huge_pages
from i2s_spec.inspect.evidence import _bit_sums, profiles
from i2s_spec.inspect.evidence.bit_sums import kernel_row
from i2s_spec.inspect.evidence.comparisons import NO_SCORES, SOURCES, MatrixComparison, heads_that_share
from i2s_spec.inspect.evidence.counted import counted_bits, counts_size, step_of
from i2s_spec.inspect.evidence.hypotheses import HYPOTHESES, orders
from i2s_spec.inspect.evidence.roles import GAINS, WRITERS

if TYPE_CHECKING:
    from i2s_spec.inspect.evidence.roles import Matrix, Roles
    from i2s_spec.schema.dialect import CodeMap

Key = tuple[int, str]


class _Use(NamedTuple):
    """A comparison that is planned: what it is called, its partners, and one profile for both sides or one for each."""

    text: str
    partners: tuple[Key, ...]
    profiles: tuple[int, ...]


class Plan:
    """What is counted and compared of the matrices of a file.

    :param found: the matrices and gains of the file
    """

    def __init__(self, found: Roles) -> None:
        self._found = found
        self.layers: dict[int, list[Key]] = {}
        for key in found.matrices:
            self.layers.setdefault(key[0], []).append(key)
        self.keys = [key for keys in self.layers.values() for key in keys]
        self._number = {key: number for number, key in enumerate(self.keys)}
        shapes = [found.matrices[key] for key in self.keys]
        sizes = [counts_size(each.rows, each.cols, of_rows(each)) for each in shapes]
        # All counts are in one piece of memory: many small ones take the system milliseconds to hand out.
        self._at = [0]
        for size in sizes:
            self._at.append(self._at[-1] + size)
        self.counts = as_kind(huge_pages.zeros(4 * self._at[-1]), "I")[: self._at[-1]]
        self._share = heads_that_share(found)
        #: Whether counts that are summed over heads are too large for the compiled code.
        self.too_large = any(
            max(1, self._share) * each.rows >= profiles.COUNTS for each in shapes if each.role == "attn_output"
        )
        self._profiles: list[tuple[int, int, int]] = []
        self._gains: list[memoryview[Any]] = []
        self._gains_size = 0
        self._asked: list[tuple[int, ...]] = []
        self._uses: list[tuple[Matrix, _Use]] = []
        self._orders: dict[tuple[int, int], int] = {}
        self._first_of_orders = 0
        self._profile_ends, self._asked_ends = [0], [0]
        for keys in self.layers.values():
            if not self.too_large:
                self._plan(keys)
            self._profile_ends.append(len(self._profiles))
            self._asked_ends.append(len(self._asked))
        self._scores = as_kind(bytearray(NO_SCORES * len(self._uses)), "d")
        self._made = zeros("B", len(self._uses))

    def target(self, key: Key) -> memoryview[Any]:
        """Where the counts of a matrix are."""
        number = self._number[key]
        return self.counts[self._at[number] : self._at[number + 1]]

    def compiled(self, code_map: CodeMap) -> _bit_sums.Pass:
        """What counts and compares as planned.

        :param code_map: what the codes stand for
        """
        layers = {layer: number for number, layer in enumerate(self.layers)}
        matrices = [
            (each.start, each.rows, each.cols, step_of(each.cols), at, of_rows(each), layers[each.layer])
            for at, each in zip(self._at, (self._found.matrices[key] for key in self.keys), strict=False)
        ]
        read = [orders(*shape) for shape in self._orders]
        uses = [(use.profiles[0], use.profiles[1] if len(use.profiles) > 1 else -1) for _, use in self._uses]
        return _bit_sums.Pass(
            kernel_row(), profiles.kernel_row(), *counted_bits(code_map), profiles.VALUES,
            _table(matrices), _table(self._profiles), packed("q", self._profile_ends), _table(self._asked),
            packed("q", self._asked_ends), _table(uses), packed("q", [number for each in read for number in each.numbers]),
            _joined("i", [each.first for each in read]), self.counts, _joined("f", self._gains), self._scores, self._made,
            zeros("q", len(self.layers)),
        )  # fmt: skip

    def comparisons(self) -> list[MatrixComparison]:
        """The comparisons that were made, in the order of the file."""
        place = {key: number for number, key in enumerate(self._found.matrices)}
        scores: list[Any] = self._scores.tolist()
        many = len(HYPOTHESES)
        rows = [scores[at : at + many] for at in range(0, len(scores), many)]
        made = [
            MatrixComparison(matrix, use.text, False, use.partners, rows[2 * number : 2 * number + 2])
            for number, (matrix, use) in enumerate(self._uses)
            if self._made[number]
        ]
        return sorted(made, key=lambda comparison: place[comparison.matrix.key])

    def _plan(self, keys: list[Key]) -> None:
        """The comparisons of the matrices of a layer."""
        ranked: dict[tuple[str, int], int] = {}
        for key in keys:
            matrix, (layer, role) = self._found.matrices[key], key
            uses: list[_Use] = []
            for name in GAINS[role]:
                gain = self._found.gains.get((layer, name))
                if gain is None or len(gain) != matrix.cols:
                    continue
                if (name, 0) not in ranked:
                    ranked[name, 0] = self._profile(0, self._gains_size, len(gain))
                    self._gains.append(gain)
                    self._gains_size += len(gain)
                uses.append(_Use(f"{name} ~ columns of {role}", (), (ranked[name, 0],)))
            share = self._share if role == "attn_output" else 1
            width = matrix.cols // max(1, self._found.heads) if share > 1 else 1
            of_sources: list[_Use] = []
            for name in SOURCES.get(role, ()):
                source = self._found.matrices.get((layer, name))
                if source is None or source.rows * share != matrix.cols:
                    continue
                if share > 1 and (width <= 0 or matrix.cols % (share * width)):
                    continue
                at = self._at[self._number[source.key]] + 2 * source.cols
                sides = self._profile(1, at, source.rows), self._profile(1, at + source.rows, source.rows)
                of_sources.append(_Use(f"rows of {name} ~ columns of {role}", ((layer, name),), sides))
            if share == 1:  # the same columns, which are ranked once
                self._ask(matrix, uses + of_sources, 1, 1)
            else:
                self._ask(matrix, uses, 1, 1)
                self._ask(matrix, of_sources, share, width)

    def _profile(self, of_counts: int, at: int, length: int) -> int:
        self._profiles.append((of_counts, at, length))
        return len(self._profiles) - 1

    def _ask(self, matrix: Matrix, uses: list[_Use], share: int, width: int) -> None:
        if not uses:
            return
        shape = matrix.rows, matrix.cols
        read = orders(*shape)
        if shape not in self._orders:
            self._orders[shape] = self._first_of_orders
            self._first_of_orders += len(read.names)
        first = len(self._uses)
        self._uses += [(matrix, use) for use in uses]
        self._asked.append((
            self._number[matrix.key], first, len(self._uses), share, width, self._orders[shape], len(read.names), read.split
        ))  # fmt: skip


def of_rows(matrix: Matrix) -> bool:
    """Whether rows are counted: of what writes the hidden state they say nothing."""
    return matrix.role not in WRITERS


def _table(rows: Sequence[tuple[int, ...]]) -> memoryview[Any]:
    """Rows one after the other."""
    return packed("q", [number for row in rows for number in row])


def _joined(kind: str, parts: list[memoryview[Any]]) -> memoryview[Any]:
    return as_kind(b"".join(parts), kind)
