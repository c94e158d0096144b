"""Answers about the origin of a file, each with its evidence: `identify` as data, `page` as text.

Nothing is guessed from the machine that runs it, and nothing is answered that the file does not tell: then the question
stays open, with what is left of the hypotheses and what would decide between them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from i2s_spec.draw.terminal import Line, Piece
from i2s_spec.draw.text import exact_size_words, json_string, visible
from i2s_spec.errors import FormatError, counted, quote
from i2s_spec.gguf.source import CHUNK, Origin, chunks, require_written, source_of
from i2s_spec.inspect import origin as origins
from i2s_spec.inspect import packing
from i2s_spec.inspect import packing as packer
from i2s_spec.inspect.kind import kind_of
from i2s_spec.inspect.questions import CANNOT_TELL, CERTAIN, LIKELY, Evidence, Observed, PossibleAnswer, Question
from i2s_spec.inspect.show import fault as fault_dict

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.inspect.kind import RecognisedKind
    from i2s_spec.inspect.match_dialect import ReferenceMatches
    from i2s_spec.layout_inference.evidence import LayoutEvidence

SCHEMA_VERSION: Final = 1

#: Layers whose weights are asked where payloads are sampled.
SAMPLED_LAYERS: Final = 4

Progress = Callable[[int, int], object]


class Identification(NamedTuple):
    """The answers about one file: its questions, what they were answered from, and what stopped the reading, if any.

    `looked_at` says how much of the payloads was read: `full`, `sample` or `none`; `tensors` how many tensors and `i2s`
    how many of them are I2_S; `group_types` how many are of each type with a scale for each group; `comparison` how a
    tensor fits the reference, if one was given; `weights` what the weights tell of their layout, if they were asked;
    `kind` what the file is, None if its header cannot be read to its end.
    """

    path: str
    size: int
    version: int | None
    byte_order: str
    architecture: str
    tensors: int
    i2s: int
    counts: tuple[int, int, int, int]
    looked_at: str
    sha256: str | None
    questions: tuple[Question, ...]
    comparison: ReferenceMatches | None
    weights: LayoutEvidence | None
    fault: FormatError | None
    group_types: Mapping[str, int]
    kind: RecognisedKind | None = None
    #: Faults that the reading went past.
    passed: tuple[FormatError, ...] = ()

    def question(self, name: str) -> Question:
        """One question by its name: release, converter, writer, quantizer, code map, layout, tail, rotation."""
        return next(question for question in self.questions if question.name == name)

    @property
    def dialect(self) -> str | None:
        """The dialect, where layout, code map and tail are answered; else None."""
        answers = [question.answer for question in self.questions if question.name in ("layout", "code map", "tail")]
        if len(answers) < 3 or any(answer is None for answer in answers):
            return None
        code_map, layout, tail = (answer.name for answer in answers if answer is not None)
        if tail == "replicated-8":
            return f"{layout}/{code_map}/{tail}"
        return f"{layout}/{code_map}" if code_map != "offset-1" else layout

    def __repr__(self) -> str:
        from i2s_spec.errors import line

        stopped = "" if self.fault is None else f"; stopped by {self.fault.code}"
        answers = ", ".join(f"{each.name} {_answer(each)}" for each in self.questions)
        return line("Identification", self.path, f"{answers or 'nothing was asked'}{stopped}")

    def _repr_html_(self) -> str:
        """Return the answers for a notebook, each with the first piece of its evidence."""
        from i2s_spec.errors import table

        facts: list[tuple[str, Any]] = [
            ("architecture", self.architecture), ("size", counted(self.size, 'byte')), ("tensors", self.tensors),
            ("of these I2_S", self.i2s), ("payloads read", self.looked_at), ("dialect", self.dialect or "cannot tell"),
        ]  # fmt: skip
        if self.fault is not None:
            facts.append(("stopped by", str(self.fault)))
        rows = ((each.text, _answer(each), each.confidence, _summary(each)) for each in self.questions)
        return table(self.path, facts, ("question", "answer", "confidence", "evidence"), rows, len(self.questions))

    def as_dict(self) -> dict[str, Any]:
        """Return the answers as plain data, as identify.schema.json describes it."""
        return {
            "schema_version": SCHEMA_VERSION,
            "path": json_string(self.path),
            "size": self.size,
            "version": self.version,
            "byte_order": self.byte_order,
            "architecture": json_string(self.architecture),
            "kind": None if self.kind is None else self.kind.as_dict(),
            "tensors": self.tensors,
            "i2s_tensors": self.i2s,
            "group_types": dict(self.group_types),
            "codes": list(self.counts),
            "payloads": self.looked_at,
            "sha256": self.sha256,
            "dialect": self.dialect,
            "questions": [question.as_dict() for question in self.questions],
            "reference": None if self.comparison is None else _comparison(self.comparison),
            "weights": None if self.weights is None else _weights(self.weights),
            "likelihood": None,  # `model.text` makes it; nothing here runs a model
            "fault": None if self.fault is None else fault_dict(self.fault),
            "passed": [fault_dict(error) for error in self.passed],
        }


def _answer(question: Question) -> str:
    if question.answer is not None:
        return question.answer.name
    return " or ".join(each.name for each in question.open) or "cannot tell"


def _summary(question: Question) -> str:
    if question.answer is not None and question.answer.favour:
        return question.answer.favour[0].text
    return question.would_tell


def _weights(found: LayoutEvidence) -> dict[str, Any]:
    from i2s_spec.inspect.packing import as_dict

    return as_dict(found)


def _comparison(comparison: ReferenceMatches) -> dict[str, Any]:
    best = comparison.decided
    return {
        "tensor": json_string(comparison.tensor),
        "decides": None if best is None else str(best.dialect),
        "scale_ratio": comparison.matches[0].scale_ratio if comparison.matches else None,
        "matches": [
            {"dialect": str(match.dialect), "share": match.share, "elements": match.compared}
            for match in comparison.matches
        ],
    }


def identify(
    origin: Origin,
    *,
    payloads: Literal["full", "sample", "none"] = "sample",
    sha256: bool = False,
    reference: Any = None,
    tensor: str | None = None,
    threads: int = 1,
    progress: Progress | None = None,
) -> Identification:
    """Find out where a GGUF file comes from and how it is packed, with the evidence.

    :param origin: a path, a buffer, a seekable stream, a `Source`, or a `File`
    :param payloads: how much of the I2_S payloads is read; `sample` is a bounded part of each
    :param sha256: compute the digest of the whole file and compare it with those of the known releases
    :param reference: an array of the true weights of `tensor`, in its shape: trits or floats
    :param tensor: the name of the tensor that `reference` holds
    :param threads: how many threads read payloads
    :param progress: called now and then with (bytes read, bytes to read)
    :raises FormatError: for a file that cannot be read or is not GGUF; the result for a damaged file has its `fault`
    :raises ValueError: for a reference without a tensor, or of another shape
    :raises TypeError: for a reference that is not numeric
    :raises KeyError: for a tensor that the file does not have
    """
    from i2s_spec.gguf.reader import File
    from i2s_spec.schema import faults

    if (reference is None) != (tensor is None):
        raise ValueError("a reference and the name of its tensor belong together")
    file = origin if isinstance(origin, File) else File(source_of(origin))
    try:
        if file.fault is not None and file.fault.code in faults.NO_INPUT:
            raise file.fault
        return _identify(file, payloads, sha256, reference, tensor, threads, progress)
    finally:
        if isinstance(origin, str | os.PathLike):
            file.close()


def _identify(
    file: File,
    payloads: Literal["full", "sample", "none"],
    sha256: bool,
    reference: Any,
    tensor: str | None,
    threads: int,
    progress: Progress | None,
) -> Identification:
    from i2s_spec.inspect.packing import rotation
    from i2s_spec.inspect.survey import Reading
    from i2s_spec.inspect.survey_reader import survey

    comparison = None
    if tensor is not None:
        from i2s_spec.inspect.match_dialect import compare, weigh

        if tensor not in file.tensors:
            raise KeyError(f"the file has no tensor {quote(tensor)}")
        comparison = compare(file, file.tensors[tensor], reference)

    digest = _digest(file, progress) if sha256 else None

    def reported(done: int, total: int) -> None:
        if progress is not None:
            progress(done, total)

    reading = Reading(payloads, threads, None if progress is None else reported)
    found = survey(file, reading) if file.fault is None else None
    seen = Observed(file, found)
    kind = kind_of(file)
    release = origins.release(seen, digest)
    converter = origins.converter(seen)
    # What converters of models leave in a file says nothing of another kind of file.
    questions = [release, converter] if kind is None or not kind.is_beside else []
    if questions and (last := origins.writer(seen)) is not None:
        questions.append(last)
    i2s = sum(seen.extents.values())
    weights = None
    if i2s:
        quantizer = packer.quantizer(seen, converter.answer.name if converter.answer is not None else None)
        if found is not None and payloads != "none":
            weights = _asked(file, seen, payloads, threads)
        packed = [packing.code_map(seen, quantizer), packing.layout(seen, release, quantizer, weights)]
        if comparison is not None:
            packed = [weigh(question, comparison) for question in packed]
        questions += [quantizer, *packed, packing.tail(seen)]
        if weights is not None and (rotated := rotation(weights)) is not None:
            questions.append(rotated)
    return Identification(
        file.name,
        file.size,
        file.version,
        file.byte_order,
        seen.architecture,
        file.index.tensors,
        i2s,
        seen.counts,
        payloads if found is not None else "none",
        digest,
        tuple(questions),
        comparison,
        weights,
        file.fault,
        seen.group_types,
        kind,
        file.passed,
    )


def _asked(file: File, seen: Observed, payloads: str, threads: int) -> LayoutEvidence | None:
    """Examine which layout the weights show; of a sample, those of a few layers."""
    from i2s_spec.layout_inference.counts import likely_code_map
    from i2s_spec.layout_inference.evidence import layout_evidence

    layers = None if payloads == "full" else SAMPLED_LAYERS
    return layout_evidence(file, likely_code_map(seen.counts), threads=threads, layers=layers)


def _digest(file: File, progress: Progress | None) -> str:
    require_written(file.source)
    whole, done = hashlib.sha256(), 0
    for chunk in chunks(file.source, 0, file.size, CHUNK):
        whole.update(chunk)
        done += len(chunk)
        if progress is not None:
            progress(done, file.size)
    return whole.hexdigest()


# --- page ------------------------------------------------------------------------------------------------------------
# Each question with its answer, the evidence, and what else is possible.

#: Pieces of evidence and of open hypotheses that are shown unless all are asked for.
SHOWN: Final = 3

_STYLES: Final = {CERTAIN: "green", LIKELY: "green", CANNOT_TELL: "yellow"}


def page(found: Identification, everything: bool = False) -> Iterator[Line]:
    """Yield the lines of the page.

    :param everything: all hypotheses with all evidence, also what is unlikely or excluded
    """
    known = found.version is not None
    version = f"GGUF version {found.version}, {found.byte_order}-endian" if known else "GGUF, version unknown"
    named = found.kind if found.kind is not None and found.kind.is_special else None
    title = f"{named.title}; {version}" if named is not None else version
    yield [Piece(visible(found.path, 4096, bare=True), "bold"), Piece(f"  {title}")]
    if named is not None:
        yield [Piece(f"  {named.use}")]
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
        from i2s_spec.inspect.match_dialect import undecided

        yield []
        yield [Piece("Reference  ", "bold"), Piece(f"it decides nothing; these would: {undecided(found.comparison)}")]
    if found.dialect is not None:
        yield []
        yield [Piece("Dialect  ", "bold"), Piece(found.dialect)]


def _read(found: Identification) -> str:
    counts = ", ".join(f"{count:,}" for count in found.counts)
    if found.looked_at == "none":
        return "payloads were not read" + ("" if found.fault is None else f", because of {found.fault.code}")
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
