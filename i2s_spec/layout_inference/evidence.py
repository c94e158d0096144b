"""The layout of a file, decided by its weights: `layout_evidence` reads, compares and decides.

Comparisons of profiles take every layer, Grams a few (`EvidencePass`). Then each tensor is decided by itself
(`decide_all`): a file some of whose tensors are laid out otherwise is mixed, and these are named. `pair_order` tells
which rows of queries and keys are rotated together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.codec.buffers import as_kind, packed, zeros
from i2s_spec.gguf import source as huge_pages
from i2s_spec.gguf.source import FileSource
from i2s_spec.layout_inference import _bit_sums, profiles
from i2s_spec.layout_inference.comparisons import (
    NO_SCORES,
    SOURCES,
    MatrixComparison,
    gram_comparisons,
    heads_that_share,
    profile_comparisons,
    written_grams,
    zero_channel_comparisons,
)
from i2s_spec.layout_inference.counts import Counted, count, counted_bits, counts_size, room, step_of
from i2s_spec.layout_inference.grams import GramReader
from i2s_spec.layout_inference.hypotheses import (
    HYPOTHESES,
    RATIO,
    Decision,
    Hypothesis,
    decide,
    fitting,
    named,
    orders,
    quantile,
)
from i2s_spec.layout_inference.profiles import sum_kernel_row
from i2s_spec.layout_inference.roles import GAINS, WRITERS, Matrix, Roles, roles
from i2s_spec.schema.dialect import CANONICAL

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.schema.dialect import CodeMap

#: How many times the quantile of chance a tensor's sum is that agrees with its layer beyond doubt.
AGREES: Final = 4.0


class TensorEvidence(NamedTuple):
    """What is decided of one tensor."""

    matrix: Matrix
    decision: Decision


class LayoutEvidence(NamedTuple):
    """The evidence of a file: its comparisons, what they decide of it together and of each tensor.

    `profiles` and `grams` are what each of the two statistics decides alone. `layers` says how many layers were examined.
    """

    comparisons: tuple[MatrixComparison, ...]
    whole: Decision
    profiles: Decision
    grams: Decision
    tensors: tuple[TensorEvidence, ...]
    layers: int
    roles: Roles
    counts: dict[tuple[int, str], Counted]

    @property
    def mixed(self) -> bool:
        """Whether tensors are decided that are not laid out alike."""
        return len({tensor.decision.name for tensor in self.tensors if tensor.decision.name is not None}) > 1

    @property
    def decided(self) -> Hypothesis | None:
        """How the tensors of the file are laid out; None where that is undecided or they differ."""
        name = None if self.mixed else self.whole.name
        return next((each for each in HYPOTHESES if each.name == name), None)

    def otherwise(self, name: str) -> list[TensorEvidence]:
        """Return the tensors that are decided for something else than the hypothesis of this name."""
        return [tensor for tensor in self.tensors if tensor.decision.name not in (None, name)]

    def strangers(self) -> list[TensorEvidence]:
        """Return the tensors that agree with their layer in no way that is considered, where most others of their
        role do.

        These are two at least, and reach `AGREES` times what chance gives; a role with tensors between that and chance has
        no strangers, since their layers may have learned more or less.
        """
        by_role: dict[str, list[TensorEvidence]] = {}
        for tensor in self.tensors:
            if tensor.decision.name in (None, self.usual):
                by_role.setdefault(tensor.matrix.role, []).append(tensor)
        found: list[TensorEvidence] = []
        for tensors in by_role.values():
            chance = [quantile(tensor.decision.freedom) for tensor in tensors]
            sums = [tensor.decision.sums for tensor in tensors]
            weak = [max(each.values()) < wanted for each, wanted in zip(sums, chance, strict=True)]
            strong = [
                self.usual is not None and each.get(self.usual, 0.0) >= AGREES * wanted
                for each, wanted in zip(sums, chance, strict=True)
            ]
            if sum(strong) >= max(2, sum(weak)) and sum(strong) + sum(weak) == len(tensors):
                found += [tensor for tensor, alone in zip(tensors, weak, strict=True) if alone]
        return found

    @property
    def usual(self) -> str | None:
        """The hypothesis that most of the decided tensors have; that of the file where no tensor is decided."""
        names = Counter(tensor.decision.name for tensor in self.tensors if tensor.decision.name is not None)
        return max(names, key=names.__getitem__) if names else self.whole.name


def layout_evidence(
    file: File, code_map: CodeMap, *, threads: int = 1, layers: int | None = None
) -> LayoutEvidence | None:
    """Find out which layout the weights of a file show; None for a file without suitable matrices.

    :param code_map: what the codes stand for
    :param threads: how many threads count
    :param layers: how many layers are examined, evenly spread; None for all
    :raises FormatError: where the file cannot be read any more
    """
    found = roles(file, layers)
    if not found.matrices:
        return None
    counts, comparisons = EvidencePass(file, found, code_map).run(threads)
    decided = decide_all(found, comparisons)
    tensors = tuple(TensorEvidence(found.matrices[key], decision) for key, decision in decided.tensors.items())
    whole, profiles, grams = decided.whole, decided.profiles, decided.grams
    return LayoutEvidence(tuple(comparisons), whole, profiles, grams, tensors, len(found.layers), found, counts)


# --- comparison plan -------------------------------------------------------------------------------------------------
# Which profiles of a file are compared, in tables that `_bit_sums.Pass` follows without Python.
#
# `comparisons.profile_comparisons` defines what they are and what is found; a test checks that both are equal.

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
        """Return the compiled pass that counts and compares as planned.

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
            sum_kernel_row(), profiles.score_kernel_row(), *counted_bits(code_map), profiles.VALUES,
            _table(matrices), _table(self._profiles), packed("q", self._profile_ends), _table(self._asked),
            packed("q", self._asked_ends), _table(uses), packed("q", [number for each in read for number in each.numbers]),
            _joined("i", [each.first for each in read]), self.counts, _joined("f", self._gains), self._scores, self._made,
            zeros("q", len(self.layers)),
        )  # fmt: skip

    def comparisons(self) -> list[MatrixComparison]:
        """Return the comparisons that were made, in the order of the file."""
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
        """Plan the comparisons of the matrices of a layer."""
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


# --- evidence pass ---------------------------------------------------------------------------------------------------
# One pass over the payloads of a file by several threads: it counts every matrix, and makes all comparisons.
#
# Threads take one matrix after another; who counts the last one of a layer compares the profiles of this layer. All of
# that is compiled and holds no lock. The caller's thread makes the comparisons of Grams first, while others count
# already.

#: Weights of the layers whose Grams are compared, about; two layers at least.
GRAM_WEIGHTS: Final = 1 << 24
#: Bytes of payloads for each thread at least: for fewer one is faster.
THREAD_BYTES: Final = 1 << 20
#: Matrices that a thread counts before it checks for a failure in another one, or an interrupt.
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
        """Return the comparisons of Grams, of a few layers."""
        few, reader = _few(self._found), GramReader(self._source, self._code_map)
        written = written_grams(reader, few)
        return [comparison for key in few.matrices for comparison in gram_comparisons(reader, few, written, key)]

    def _work(self) -> None:
        """Count and compare until nothing is left, or another thread failed."""
        buffer, scratch = room(self._pass.step), room(self._pass.room)
        descriptor = self._source.fileno() if type(self._source) is FileSource else -1
        try:
            while not self._stopped:
                number = self._pass.take() if descriptor < 0 else self._pass.work(descriptor, buffer, scratch, AT_ONCE)
                if number >= 0:  # a read that failed is repeated, to raise its error
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
    """Return the layers whose Grams are compared: as many as are cheap, two at least, evenly spread."""
    layers = found.layers
    weights = sum(matrix.rows * matrix.cols for matrix in found.matrices.values())
    many = max(2, len(layers) * GRAM_WEIGHTS // weights)
    if many >= len(layers):
        return found
    chosen = {layers[i * (len(layers) - 1) // (many - 1)] for i in range(many)}
    return found._replace(matrices={key: each for key, each in found.matrices.items() if key[0] in chosen})


# --- pairs -----------------------------------------------------------------------------------------------------------
# Which rows of queries and keys are rotated together, by the density of rows.
#
# Rotation mixes two rows of a head, so that training treats them alike: they have about as many weights that are not 0.
# Files of some architectures have the two in the halves of a head (rows j and j + d/2, `neox`), those of others beside
# each other (rows 2j and 2j + 1, `norm`), and converters permute them. The score is the rank correlation between the
# counts of the first and of the second rows of all pairs, as for other profiles.
#
# Density also changes slowly along a head. Rows beside each other are alike in either order; rows half a head apart
# only where they are rotated together. So `neox` needs its own sum alone to exceed what chance gives, and `norm` needs
# that sum to be twice the other as well.

#: Matrices whose rows are rotated, and whether they have key heads.
ROTATED: Final = {"attn_q": False, "attn_k": True}


class PairOrder(NamedTuple):
    """The sums of squared scores of rows in the halves of heads and beside each other, and how many scores each has."""

    halves: float
    neighbors: float
    comparisons: int

    @property
    def wanted(self) -> float:
        """What a sum must exceed."""
        return quantile(self.comparisons) if self.comparisons else 0.0

    @property
    def order(self) -> str | None:
        """`neox`, `norm`, or None where that is undecided."""
        if not self.comparisons:
            return None
        if self.halves >= self.wanted:
            return "neox"
        return "norm" if self.neighbors >= max(self.wanted, RATIO * self.halves) else None


def pair_order(found: LayoutEvidence) -> PairOrder:
    """Return the order of rows in the queries and keys of a file, read in the layout that was decided, or
    canonically.
    """
    each = found.decided or named(CANONICAL.layout.name)
    return order_of_rows(
        (counted.rows_base(each.in_rows), found.roles.key_heads if ROTATED[role] else found.roles.heads)
        for (_, role), counted in found.counts.items()
        if role in ROTATED
    )


def order_of_rows(matrices: Iterable[tuple[memoryview[Any], int]]) -> PairOrder:
    """Return the order that matrices of queries and keys show.

    :param matrices: of each, a number for every row that grows with its weights (uint32, below 2^20), and the number
        of its heads
    """
    sums = [0.0, 0.0]
    many = 0
    for rows, heads in matrices:
        if not heads or not len(rows) or len(rows) % (2 * heads):
            continue
        scores = [profiles.count_score(*pairs) for pairs in (_halves(rows, heads), (_every(rows), _every(rows[1:])))]
        if None in scores:
            continue
        many += 1
        sums = [total + max(0.0, score or 0.0) ** 2 for total, score in zip(sums, scores, strict=True)]
    return PairOrder(sums[0], sums[1], many)


def _halves(rows: memoryview[Any], heads: int) -> Iterator[memoryview[Any]]:
    """Yield the counts of the first half of each head's rows, and those of the second."""
    half = len(rows) // heads // 2
    for first in (0, half):
        parts = (rows[start : start + half].tobytes() for start in range(first, len(rows), 2 * half))
        yield as_kind(b"".join(parts), "I")


def _every(rows: memoryview[Any]) -> memoryview[Any]:
    """Every second count."""
    return as_kind(rows[::2].tobytes(), "I")


# --- decisions -------------------------------------------------------------------------------------------------------
# Of a file as a whole, and of each tensor. Tensors are decided one by one, while their partners are read as the file, or
# they themselves, were decided.

_NAMES: Final = [each.name for each in HYPOTHESES]
_NONE: Final = dict.fromkeys(_NAMES, 0.0)
_IN_ROWS: Final = {each.name: each.in_rows for each in HYPOTHESES}

#: Where `_Squares` has the scores for partners that are read as the hypothesis reads its own.
_AS_OWN: Final = 2

#: How often tensors are asked again with their partners read as these were decided.
ROUNDS: Final = 3


class Decisions(NamedTuple):
    """What is decided of all comparisons together, of profiles and Grams alone, and of each matrix by layer and role."""

    whole: Decision
    profiles: Decision
    grams: Decision
    tensors: dict[tuple[int, str], Decision]


def decide_all(found: Roles, comparisons: Sequence[MatrixComparison]) -> Decisions:
    """Decide from comparisons that are made."""
    squares = _Squares(comparisons)
    every = range(len(comparisons))
    profiles = squares.decide([number for number in every if not comparisons[number].gram])
    grams = squares.decide([number for number in every if comparisons[number].gram])
    whole = _agreed(squares.decide(every), profiles, grams)
    by_matrix: dict[tuple[int, str], list[int]] = {}
    for number, one in enumerate(comparisons):
        by_matrix.setdefault(one.matrix.key, []).append(number)
    if not by_matrix:
        return Decisions(whole, profiles, grams, {})
    assumed = next((each.in_rows for each in HYPOTHESES if each.name == whole.best), True)
    sides = dict.fromkeys(found.matrices, assumed)
    decisions = squares.by_matrix(by_matrix, sides)
    for _ in range(ROUNDS - 1):
        again = {**sides, **{key: _IN_ROWS.get(one.name or "", assumed) for key, one in decisions.items()}}
        if again == sides:
            break
        sides = again
        decisions = squares.by_matrix(by_matrix, sides)
    return Decisions(whole, profiles, grams, dict(_confirmed(whole, decisions, by_matrix, squares)))


def _agreed(whole: Decision, *parts: Decision) -> Decision:
    """Return the decision, if each of the two statistics that was made says the same, by however little.

    What is not random and not trained, such as a payload that was half written, may have an order of its own in one of
    them; it does not have the same one in gains and in Grams.
    """
    agree = all(part.best == whole.name for part in parts if part.freedom)
    return whole if agree else whole._replace(name=None)


def _confirmed(
    whole: Decision,
    decisions: dict[tuple[int, str], Decision],
    by_matrix: dict[tuple[int, str], list[int]],
    squares: _Squares,
) -> Iterator[tuple[tuple[int, str], Decision]]:
    """Yield the decisions on tensors; none for those of one layout together whose profiles speak for another one.

    In a file that is decided the profiles of a few tensors, which may be no more than noise, must do so by a margin.
    """
    groups: dict[str | None, list[int]] = {}
    for key, decision in decisions.items():
        of_profiles = (number for number in by_matrix[key] if not squares.comparisons[number].gram)
        groups.setdefault(decision.name, []).extend(of_profiles)
    profiles = {name: squares.decide(group) for name, group in groups.items()}
    for key, decision in decisions.items():
        of_group = profiles[decision.name]
        if decision.name is None or (whole.name is not None and of_group.name is None):
            yield key, decision
        else:
            yield key, _agreed(decision, of_group)


class _Squares:
    """Comparisons, and their scores squared, three rows for each (`squares_reference`): by how partners are read.

    Partners are read in rows, mixed, or (`_AS_OWN`) as the hypothesis reads its own. Channels that are written alike are
    read alike, never oppositely: a Gram that correlates negatively counts nothing.
    """

    def __init__(self, comparisons: Sequence[MatrixComparison]) -> None:
        self.comparisons = comparisons
        self._squares = zeros("d", 3 * len(_NAMES) * len(comparisons))
        found = packed("d", [score for one in comparisons for row in one.found for score in row])
        grams = bytes(one.gram for one in comparisons)
        _bit_sums.squares(found, grams, bytes(_IN_ROWS.values()), self._squares)

    def decide(self, numbers: Sequence[int]) -> Decision:
        """Decide from comparisons together, partners being read as the hypothesis reads its own."""
        if not numbers:
            return decide(_NONE, 0)
        return self._decided(numbers, [_AS_OWN] * len(numbers))

    def by_matrix(
        self, groups: dict[tuple[int, str], list[int]], sides: dict[tuple[int, str], bool]
    ) -> dict[tuple[int, str], Decision]:
        """Return the decision on each matrix.

        :param groups: the numbers of its comparisons
        :param sides: how the rows of partners are read; those of one that is not here as the hypothesis reads its own
        """
        return {
            key: self._decided(numbers, [self._side(number, sides) for number in numbers])
            for key, numbers in groups.items()
        }

    def _side(self, number: int, sides: dict[tuple[int, str], bool]) -> int:
        seen = [sides[key] for key in self.comparisons[number].partners if key in sides]
        if not seen:
            return _AS_OWN
        return 0 if 2 * sum(seen) >= len(seen) else 1

    def _decided(self, numbers: Sequence[int], sides: Sequence[int]) -> Decision:
        sums = _bit_sums.sums_of_squares(self._squares, numbers, sides, len(_NAMES))
        shapes = {(self.comparisons[number].matrix.rows, self.comparisons[number].matrix.cols) for number in numbers}
        fits = [all(each) for each in zip(*(fitting(*shape) for shape in shapes), strict=True)]
        return decide({name: total for name, total, fit in zip(_NAMES, sums, fits, strict=True) if fit}, len(numbers))


def squares_reference(found: list[list[float]], gram: bool) -> tuple[list[float], list[float], list[float]]:
    """Squares of the scores of a comparison: where rows of partners stay, where not, and as the hypothesis has its own."""
    first, second = ([0.0 if isnan(score) or (gram and score < 0) else score * score for score in row] for row in found)
    return first, second, [a if in_rows else b for in_rows, a, b in zip(_IN_ROWS.values(), first, second, strict=True)]
