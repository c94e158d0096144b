"""This module lays out the answers as text: each question with its answer, the evidence, and what else is possible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from i2s_spec.draw.terminal import Line, Piece
from i2s_spec.draw.text import exact_size_words, visible
from i2s_spec.errors import counted
from i2s_spec.inspect.identify.evidence import CANNOT_TELL, CERTAIN, LIKELY, Evidence, PossibleAnswer, Question
from i2s_spec.inspect.identify.identification import Identification

#: Pieces of evidence and of open hypotheses that are shown unless all are asked for.
SHOWN: Final = 3

_STYLES: Final = {CERTAIN: "green", LIKELY: "green", CANNOT_TELL: "yellow"}


def page(found: Identification, everything: bool = False) -> Iterator[Line]:
    """The lines of the page.

    :param everything: all hypotheses with all evidence, also what is unlikely or excluded
    """
    known = found.version is not None
    version = f"GGUF version {found.version}, {found.byte_order}-endian" if known else "GGUF, version unknown"
    yield [Piece(visible(found.path, 4096, bare=True), "bold"), Piece(f"  {version}")]
    counts = {"I2_S": found.i2s, **found.group_types}
    ternary = " and ".join(f"{count:,} of them {name}" for name, count in counts.items() if count)
    architecture = visible(found.architecture, 64, bare=True) or "no architecture"
    several = f"{counted(found.tensors, 'tensor')}, {ternary or 'none of them ternary'}"
    tensors = several if found.tensors else "no tensors"
    if found.fault is not None and not found.tensors:
        tensors = "the header cannot be read to its end"
    yield [Piece(f"  {architecture}, {exact_size_words(found.size)}, {tensors}")]
    if found.i2s:
        yield [Piece(f"  {_read(found)}", "dim")]
    if found.sha256 is not None:
        yield [Piece(f"  sha256 {found.sha256}", "dim")]
    for question in found.questions:
        yield []
        yield from _question(question, everything)
    if found.comparison is not None and found.comparison.decided is None:
        from i2s_spec.inspect.identify.reference import undecided

        yield []
        yield [Piece("Reference  ", "bold"), Piece(f"it decides nothing; these would: {undecided(found.comparison)}")]
    if found.dialect is not None:
        yield []
        yield [Piece("Dialect  ", "bold"), Piece(found.dialect)]


def _read(found: Identification) -> str:
    counts = ", ".join(f"{count:,}" for count in found.counts)
    if found.looked_at == "none":
        return "payloads were not read"
    how = "payloads were read whole" if found.looked_at == "full" else "payloads were sampled, small ones read whole"
    if not any(found.counts):
        return "no payload could be read"
    return f"{how}: codes 0 to 3 occur {counts} times"


def _question(question: Question, everything: bool) -> Iterator[Line]:
    answer = question.answer
    if answer is not None:
        message = f"{answer.name} ({answer.confidence}): {answer.title}"
    elif question.name == "release":
        message = "not a known one" if not question.open else "cannot tell"
    else:
        message = "cannot tell from the file"
    yield [Piece(question.text, "bold"), Piece("  "), Piece(message, _STYLES.get(question.confidence, ""))]
    if everything:
        for hypothesis in question.hypotheses:
            yield [Piece(f"  {hypothesis.name} ({hypothesis.confidence}): {hypothesis.title}")]
            yield from _evidence(hypothesis, None)
    elif answer is not None:
        yield from _evidence(answer, SHOWN)
    elif question.open:
        names = ", ".join(hypothesis.name for hypothesis in question.open)
        yield [Piece(f"  possible: {names}")]
        for hypothesis in question.open if len(question.open) <= SHOWN else ():
            yield from _evidence(hypothesis, 1, f"{hypothesis.name}: ")
    elif question.hypotheses:
        yield [Piece(f"  nothing fits; the nearest is {question.hypotheses[0].name}")]
        yield from _evidence(question.hypotheses[0], SHOWN)
    if answer is None and question.would_tell and (question.hypotheses or everything):
        yield [Piece(f"  what would decide: {question.would_tell}", "dim")]


def _evidence(hypothesis: PossibleAnswer, most: int | None, label: str = "") -> Iterator[Line]:
    for sign, style, retained in (("+", "green", hypothesis.favour), ("-", "red", hypothesis.against)):
        for evidence in _strongest(retained, most):
            yield [Piece(f"    {sign} ", style), Piece(f"{label}{evidence.text}")]
        left = 0 if most is None else len(retained) - most
        if left > 0 and not label:
            yield [Piece(f"    {sign} and {left} more; -v shows them", "dim")]


def _strongest(evidence: Sequence[Evidence], most: int | None) -> Sequence[Evidence]:
    if most is None:
        return evidence
    rank = ("proof", "strong", "weak")
    return sorted(evidence, key=lambda one: rank.index(one.weight.value))[:most]
