"""This module defines `identify`: one file in, the answers to a few questions about its origin out, each with its evidence.

Nothing is guessed from the machine that runs it, and nothing is answered that the file does not tell: then the question
stays open, with what is left of the hypotheses and what would decide between them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from i2s_spec.draw.text import json_string
from i2s_spec.errors import FormatError, counted, quote
from i2s_spec.gguf.ranges import chunks
from i2s_spec.gguf.regular_file import require_written
from i2s_spec.gguf.source import CHUNK, Origin, source_of
from i2s_spec.inspect.identify import origin as origins
from i2s_spec.inspect.identify import packer, packing
from i2s_spec.inspect.identify.evidence import Question
from i2s_spec.inspect.identify.observed import Observed
from i2s_spec.inspect.show import fault as fault_dict

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.inspect.evidence.layout_evidence import LayoutEvidence
    from i2s_spec.inspect.identify.reference import ReferenceMatches

SCHEMA_VERSION: Final = 1

#: Layers whose weights are asked where payloads are sampled.
SAMPLED_LAYERS: Final = 4

Progress = Callable[[int, int], object]


class Identification(NamedTuple):
    """The answers about one file: its questions, what they were answered from, and what stopped the reading, if any.

    `looked_at` says how much of the payloads was read: `full`, `sample` or `none`; `tensors` how many tensors and `i2s`
    how many of them are I2_S; `group_types` how many are of each type with a scale for each group; `comparison` how a
    tensor fits the reference, if one was given; `weights` what the weights tell of their layout, if they were asked.
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

    def question(self, name: str) -> Question:
        """One question by its name: release, converter, quantizer, code map, layout, tail or rotation."""
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
        from i2s_spec.display import line

        stopped = "" if self.fault is None else f"; stopped by {self.fault.code}"
        answers = ", ".join(f"{each.name} {_answer(each)}" for each in self.questions)
        return line("Identification", self.path, f"{answers or 'nothing was asked'}{stopped}")

    def _repr_html_(self) -> str:
        """The answers for a notebook, each with the first piece of its evidence."""
        from i2s_spec.display import table

        facts: list[tuple[str, Any]] = [
            ("architecture", self.architecture), ("size", counted(self.size, 'byte')), ("tensors", self.tensors),
            ("of these I2_S", self.i2s), ("payloads read", self.looked_at), ("dialect", self.dialect or "cannot tell"),
        ]  # fmt: skip
        if self.fault is not None:
            facts.append(("stopped by", str(self.fault)))
        rows = ((each.text, _answer(each), each.confidence, _evidence(each)) for each in self.questions)
        return table(self.path, facts, ("question", "answer", "confidence", "evidence"), rows, len(self.questions))

    def as_dict(self) -> dict[str, Any]:
        """The answers as plain data, as identify.schema.json describes it."""
        return {
            "schema_version": SCHEMA_VERSION,
            "path": json_string(self.path),
            "size": self.size,
            "version": self.version,
            "byte_order": self.byte_order,
            "architecture": json_string(self.architecture),
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
            "likelihood": None,  # `model.likelihood` makes it; nothing here runs a model
            "fault": None if self.fault is None else fault_dict(self.fault),
        }


def _answer(question: Question) -> str:
    if question.answer is not None:
        return question.answer.name
    return " or ".join(each.name for each in question.open) or "cannot tell"


def _evidence(question: Question) -> str:
    if question.answer is not None and question.answer.favour:
        return question.answer.favour[0].text
    return question.would_tell


def _weights(found: LayoutEvidence) -> dict[str, Any]:
    from i2s_spec.inspect.identify.weights import as_dict

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
    """Say where a GGUF file comes from and how it is packed, with the evidence.

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
    from i2s_spec.inspect.identify.weights import rotation
    from i2s_spec.inspect.survey.reader import survey
    from i2s_spec.inspect.survey.reading import Reading

    comparison = None
    if tensor is not None:
        from i2s_spec.inspect.identify.reference import compare, weigh

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
    release = origins.release(seen, digest)
    converter = origins.converter(seen)
    questions = [release, converter]
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
    )


def _asked(file: File, seen: Observed, payloads: str, threads: int) -> LayoutEvidence | None:
    """What the weights tell; of a sample, those of a few layers."""
    from i2s_spec.inspect.evidence.balance import likely_code_map
    from i2s_spec.inspect.evidence.layout_evidence import layout_evidence

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
