"""This module defines evidence, hypotheses and questions, and how much a hypothesis with given evidence is worth.

The scale is ordinal, not a probability; nothing here adds numbers up:

    certain    it cannot be otherwise, short of forgery: a digest, a decoded reference, bytes that could come from
               nowhere else
    likely     something speaks for it that hardly anything else explains, and nothing of weight speaks against it
    possible   nothing of weight speaks against it, and nothing tells it from the others that are possible
    unlikely   something is in the file that it does not explain
    excluded   the file shows the contrary

A question is answered by the one hypothesis that is certain, or likely where no other is. Where several are left, the
answer is that the file does not tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from i2s_spec.errors import Span


class Weight(StrEnum):
    """How much one piece of evidence shows."""

    PROOF = "proof"
    STRONG = "strong"
    WEAK = "weak"


PROOF, STRONG, WEAK = Weight.PROOF, Weight.STRONG, Weight.WEAK

CERTAIN: Final = "certain"
LIKELY: Final = "likely"
POSSIBLE: Final = "possible"
UNLIKELY: Final = "unlikely"
EXCLUDED: Final = "excluded"

#: From the best to the worst.
CONFIDENCES: Final = (CERTAIN, LIKELY, POSSIBLE, UNLIKELY, EXCLUDED)

#: The confidence of a question that the file does not answer.
CANNOT_TELL: Final = "cannot tell"


class Evidence(NamedTuple):
    """One observation, as a sentence in which text from the file is escaped already, and where it was made."""

    text: str
    weight: Weight
    span: Span | None = None


class PossibleAnswer(NamedTuple):
    """One possible answer, and what speaks for it and against it."""

    name: str
    title: str
    favour: tuple[Evidence, ...] = ()
    against: tuple[Evidence, ...] = ()

    @property
    def confidence(self) -> str:
        """What the evidence makes of it; see the scale of this module."""
        against = {evidence.weight for evidence in self.against}
        favour = {evidence.weight for evidence in self.favour}
        if PROOF in against:
            return EXCLUDED
        if PROOF in favour:
            return CERTAIN
        if STRONG in against:
            return UNLIKELY
        return LIKELY if STRONG in favour else POSSIBLE

    @property
    def rank(self) -> int:
        """0 for certain, 4 for excluded."""
        return CONFIDENCES.index(self.confidence)


class Question(NamedTuple):
    """What is asked of the file, the hypotheses (the best first), and what would answer it where they do not."""

    name: str
    text: str
    hypotheses: tuple[PossibleAnswer, ...]
    would_tell: str = ""

    @property
    def answer(self) -> PossibleAnswer | None:
        """The hypothesis that stands alone, or None where the file does not tell."""
        ranks = [hypothesis.rank for hypothesis in self.hypotheses]
        if not ranks:
            return None
        best = min(ranks)
        alone = ranks.count(best) == 1
        if alone and best <= CONFIDENCES.index(LIKELY):
            return self.hypotheses[ranks.index(best)]
        return None

    @property
    def confidence(self) -> str:
        """Of the answer; `cannot tell` where there is none."""
        return self.answer.confidence if self.answer is not None else CANNOT_TELL

    @property
    def open(self) -> tuple[PossibleAnswer, ...]:
        """The hypotheses that are left where there is no answer: the best of them, if the file does not exclude all."""
        if not self.hypotheses:
            return ()
        best = min(hypothesis.rank for hypothesis in self.hypotheses)
        if best > CONFIDENCES.index(POSSIBLE):
            return ()
        return tuple(hypothesis for hypothesis in self.hypotheses if hypothesis.rank == best)

    def as_dict(self) -> dict[str, Any]:
        """The question as plain data."""
        return {
            "name": self.name,
            "question": self.text,
            "answer": self.answer.name if self.answer is not None else None,
            "confidence": self.confidence,
            "hypotheses": [
                {
                    "name": hypothesis.name,
                    "title": hypothesis.title,
                    "confidence": hypothesis.confidence,
                    "for": [_plain(evidence) for evidence in hypothesis.favour],
                    "against": [_plain(evidence) for evidence in hypothesis.against],
                }
                for hypothesis in self.hypotheses
            ],
            "would_tell": self.would_tell or None,
        }


def _plain(evidence: Evidence) -> dict[str, Any]:
    span = evidence.span
    where = None if span is None else {"start": span.start, "stop": span.stop, "path": span.path}
    return {"text": evidence.text, "weight": evidence.weight.value, "span": where}


class QuestionCase:
    """Collects what speaks for and against the hypotheses of one question."""

    def __init__(self, names: Sequence[tuple[str, str]]) -> None:
        self._titles = dict(names)
        self._favour: dict[str, list[Evidence]] = {name: [] for name in self._titles}
        self._against: dict[str, list[Evidence]] = {name: [] for name in self._titles}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._titles)

    def favour(self, name: str, text: str, weight: Weight, span: Span | None = None) -> None:
        """Something speaks for a hypothesis."""
        self._favour[name].append(Evidence(text, weight, span))

    def against(self, name: str, text: str, weight: Weight, span: Span | None = None) -> None:
        """Something speaks against a hypothesis."""
        self._against[name].append(Evidence(text, weight, span))

    def question(self, name: str, text: str, would_tell: str = "") -> Question:
        """The question with its hypotheses, the best first; equals stay in the order in which they were named."""
        made = [
            PossibleAnswer(each, title, tuple(self._favour[each]), tuple(self._against[each]))
            for each, title in self._titles.items()
        ]
        return Question(name, text, tuple(sorted(made, key=lambda hypothesis: hypothesis.rank)), would_tell)
