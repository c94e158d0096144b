"""This module decides the layout of a file by its weights: `layout_evidence` reads, compares and decides.

Comparisons of profiles take every layer, Grams a few (`reading`). Then each tensor is asked by itself (`decisions`): a file
some of whose tensors are laid out otherwise is mixed, and these are named.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.inspect.evidence.comparisons import MatrixComparison
from i2s_spec.inspect.evidence.counted import Counted
from i2s_spec.inspect.evidence.decision import Decision, quantile
from i2s_spec.inspect.evidence.decisions import decide_all
from i2s_spec.inspect.evidence.hypotheses import HYPOTHESES, Hypothesis
from i2s_spec.inspect.evidence.reading.evidence_pass import EvidencePass
from i2s_spec.inspect.evidence.roles import Matrix, Roles, roles

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

    `profiles` and `grams` are what each of the two statistics decides alone. `layers` says how many layers were looked at.
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
        """The tensors that are decided for something else than the hypothesis of this name."""
        return [tensor for tensor in self.tensors if tensor.decision.name not in (None, name)]

    def strangers(self) -> list[TensorEvidence]:
        """The tensors that agree with their layer in no way that is considered, where most others of their role do.

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
    """Ask the weights of a file how they are laid out; None for a file that has no matrices to ask.

    :param code_map: what the codes stand for
    :param threads: how many threads count
    :param layers: how many layers are looked at, evenly spread; None for all
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
