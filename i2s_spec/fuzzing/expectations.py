"""What a decoder owes: which files it must accept, which it must reject, and what is wrong with how a run ended.

The linter's verdict is not the answer by itself. Readers are lax in different ways, and many errors of the linter are
matters of agreement (a duplicate key, a gap). A decoder *must reject* a file only where the bytes that it would have to
read cannot be there or cannot be found: a length that passes the end, a type whose size nobody knows, an alignment that
says nothing. It *must accept* a file in which the linter finds no error and no warning, and which needs nothing that
the decoder does not claim to support. Everything else is its own business, as long as it ends.

    >>> from i2s_spec.testing.sample import Draft
    >>> expected_answer(Draft().data, DecoderPolicy()).answer.value
    'accept'
    >>> expected_answer(Draft().data[:-40], DecoderPolicy()).code
    'G401'

`verdict` compares the end of a run with that; `signature` and `answer` say which runs count as the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from i2s_spec.errors import quote
from i2s_spec.fuzzing.bounded_process import Outcome
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import Finding, Severity
from i2s_spec.linter.rules import REGISTRY, all_rules
from i2s_spec.schema import limits
from i2s_spec.schema.architectures import PREFIXES
from i2s_spec.schema.types import I2_S, READINGS


class Expectation(StrEnum):
    """What a decoder owes to a file."""

    ACCEPT = "accept"
    REJECT = "reject"
    EITHER = "either"


class ReadDepth(StrEnum):
    """How far a decoder reads: metadata and tensor table; the tensors too; or a whole model, which it builds."""

    HEADER = "header"
    TENSORS = "tensors"
    MODEL = "model"


#: What a decoder may claim to support; files that need something else are its own business.
SUPPORTS: Final = {
    "i2s": "tensors of type 36",
    "alignment": "alignments other than 32",
    "version-2": "files of version 2",
    "big-endian": "files in big-endian order",
    "every-type": "types other than F32, F16, Q8_0 and I2_S",
    "empty": "files without tensors or without data",
}
USUAL_SUPPORT: Final = frozenset({"i2s", "alignment"})

_USUAL_TYPES: Final = frozenset({"F32", "F16", "Q8_0", "I2_S"})

Condition = Callable[[Finding, File, "DecoderPolicy"], bool]


class Obligation(NamedTuple):
    """Why a file with a finding cannot be read: in words, and when that is so."""

    reason: str
    holds: Condition


def _always(finding: Finding, file: File, policy: DecoderPolicy) -> bool:
    return True


def _of_known_size(finding: Finding, file: File, policy: DecoderPolicy) -> bool:
    """Whether the finding is on a tensor whose size every reader computes alike."""
    row = re.search(r"\[(\d+)\]", finding.span.path)
    if row is None or int(row[1]) >= file.index.tensors:
        return False
    number = file.tensors.by_index(int(row[1])).number
    if number == I2_S.number:
        return "i2s" in policy.supports
    readings = READINGS.get(number, ())
    return len(readings) == 1 and readings[0].family == "ggml"


def _dimensions_past_end(finding: Finding, file: File, policy: DecoderPolicy) -> bool:
    return isinstance(finding.got, int) and 8 * finding.got > file.size - finding.span.stop


def _no_type_ever(finding: Finding, file: File, policy: DecoderPolicy) -> bool:
    return isinstance(finding.got, int) and not 0 <= finding.got < 1 << 16


#: When each case of `Stops` holds.
_CASES: Final[dict[str, Condition]] = {
    "always": _always,
    "known size": _of_known_size,
    "past the end": _dimensions_past_end,
    "never a type": _no_type_ever,
}


def _obligations(part: str) -> dict[str, Obligation]:
    """Return the rules after which a reader cannot read a part of the file on, however it is written."""
    stops = {rule.code: rule.stops for rule in all_rules() if rule.stops is not None}
    return {code: Obligation(stop.reason, _CASES[stop.case]) for code, stop in stops.items() if stop.part == part}


#: Codes after which no reader can read on: every reference loader refuses these.
OF_HEADER: Final = _obligations("header")

#: Codes after which the bytes of a tensor cannot be reached: owed by a decoder that reads tensors.
OF_TENSORS: Final = _obligations("tensors")


@dataclass(frozen=True)
class DecoderPolicy:
    """What a decoder is held to.

    :param reads: how far it reads
    :param supports: names of `SUPPORTS`
    :param profile: of the linter, for what must be accepted
    :param also: codes that it must reject besides
    :param spared: codes that it need not reject
    """

    reads: ReadDepth = ReadDepth.TENSORS
    supports: frozenset[str] = USUAL_SUPPORT
    profile: str = "default"
    also: frozenset[str] = field(default=frozenset())
    spared: frozenset[str] = field(default=frozenset())

    def __post_init__(self) -> None:
        for name in self.supports - SUPPORTS.keys():
            raise ValueError(f"nothing is called {quote(name)} that a decoder could support: {', '.join(SUPPORTS)}")
        known = {rule.code for rule in all_rules()}
        for code in (self.also | self.spared) - known:
            raise ValueError(f"no rule has the code {quote(code)}; `i2s rules` lists them all")

    @property
    def obligations(self) -> dict[str, Obligation]:
        """Every code that can oblige to reject, with the reason."""
        codes = dict(OF_HEADER)
        if self.reads is not ReadDepth.HEADER:
            codes.update(OF_TENSORS)
        codes.update((code, Obligation("it was asked for", _always)) for code in sorted(self.also))
        return {code: obligation for code, obligation in codes.items() if code not in self.spared}


class ExpectedAnswer(NamedTuple):
    """What a decoder owes to a file, the rule that says so (the first error where none does), and why."""

    answer: Expectation
    code: str | None
    reason: str

    @property
    def slug(self) -> str | None:
        return REGISTRY[self.code].slug if self.code else None

    @property
    def clause(self) -> str | None:
        return REGISTRY[self.code].clause if self.code else None


def expected_answer(data: bytes, policy: DecoderPolicy) -> ExpectedAnswer:
    """Return what a decoder owes to these bytes."""
    report = lint(data, profile=policy.profile)
    errors = [finding for finding in report.findings if finding.severity is Severity.ERROR]
    obligations = policy.obligations
    file = File(BufferSource(data))
    for finding in report.findings:
        obligation = obligations.get(finding.code)
        if obligation is not None and obligation.holds(finding, file, policy):
            return ExpectedAnswer(Expectation.REJECT, finding.code, f"{obligation.reason}: {finding.message}")
    if errors:
        return ExpectedAnswer(Expectation.EITHER, errors[0].code, errors[0].message)
    warning = next((finding for finding in report.findings if finding.severity is Severity.WARNING), None)
    if warning is not None or report.bugs:
        return ExpectedAnswer(Expectation.EITHER, warning.code if warning else None, warning.message if warning else "")
    lacking = sorted(needs(file) - policy.supports)
    if lacking:
        return ExpectedAnswer(
            Expectation.EITHER, None, f"it needs what the decoder does not claim: {', '.join(lacking)}"
        )
    if policy.reads is ReadDepth.MODEL and not _is_model(file):
        return ExpectedAnswer(Expectation.EITHER, None, "it is no model")
    return ExpectedAnswer(Expectation.ACCEPT, None, "nothing is wrong with it")


def needs(file: File) -> set[str]:
    """Return what a decoder must support to read a file that can be indexed."""
    found = set()
    if file.byte_order == "big":
        found.add("big-endian")
    if file.version == 2:
        found.add("version-2")
    if file.alignment != limits.DEFAULT_ALIGNMENT:
        found.add("alignment")
    kinds = {tensor.type.name for tensor in file.tensors.rows if tensor.type is not None}
    if "I2_S" in kinds:
        found.add("i2s")
    if kinds - _USUAL_TYPES:
        found.add("every-type")
    if not file.index.tensors or not file.index.keys:
        found.add("empty")
    return found


def _is_model(file: File) -> bool:
    return file.metadata.get("general.architecture") in PREFIXES and file.index.tensors > 0


# --- verdict ---------------------------------------------------------------------------------------------------------


class Kind(StrEnum):
    """What can be wrong, the worst first."""

    CRASH = "crash"
    HANG = "hang"
    MEMORY = "memory"
    ACCEPTS = "accepts"
    REJECTS = "rejects"


#: Each kind in words.
MEANING: Final = {
    Kind.CRASH: "ended by a signal, or by a status that means neither yes nor no",
    Kind.HANG: "did not end in time",
    Kind.MEMORY: "took more memory than it may",
    Kind.ACCEPTS: "accepted what must be rejected",
    Kind.REJECTS: "rejected what must be accepted",
}


def alike(kind: Kind | None, other: Kind | None) -> bool:
    """Whether two runs ended in one way: a program that loops and allocates meets now this bound first, now that."""
    bounds = {Kind.HANG, Kind.MEMORY}
    return kind is other or {kind, other} == bounds


@dataclass(frozen=True)
class Statuses:
    """What the exit statuses of a decoder mean; without `reject`, every other status is a rejection."""

    accept: frozenset[int] = frozenset({0})
    reject: frozenset[int] | None = None

    def __post_init__(self) -> None:
        if not self.accept or (self.reject is not None and self.accept & self.reject):
            raise ValueError("a status must mean yes, and none may mean both yes and no")

    def accepted(self, outcome: Outcome) -> bool | None:
        """Whether the decoder said yes; None where it said nothing."""
        if outcome.status is None or outcome.hung or outcome.out_of_memory:
            return None
        if outcome.status in self.accept:
            return True
        return False if self.reject is None or outcome.status in self.reject else None


def verdict(outcome: Outcome, expectation: ExpectedAnswer, statuses: Statuses) -> Kind | None:
    """Return what is wrong with the end of a run on a file to which `expectation` is owed; None where nothing is."""
    if outcome.out_of_memory:
        return Kind.MEMORY
    if outcome.hung:
        return Kind.HANG
    accepted = statuses.accepted(outcome)
    if accepted is None:
        return Kind.CRASH
    if accepted and expectation.answer is Expectation.REJECT:
        return Kind.ACCEPTS
    if not accepted and expectation.answer is Expectation.ACCEPT:
        return Kind.REJECTS
    return None


def signature(kind: Kind, outcome: Outcome, expectation: ExpectedAnswer) -> str:
    """Return by what two finds count as the same: the kind, how a crash ended and its last line, else the rule."""
    if kind is Kind.CRASH:
        return f"{kind} {outcome.name} {shape_of(outcome.stderr_tail)}".rstrip()
    return f"{kind} {expectation.code or 'sound'}"


def answer(outcome: Outcome) -> str:
    """Return by what two answers of a decoder count as the same: a new one makes its file worth keeping."""
    return f"{outcome.name} {shape_of(outcome.stderr_tail)}"


def shape_of(stderr_tail: str) -> str:
    """Return the last line of what was said, without what differs from file to file: numbers, addresses, quoted
    text, paths.
    """
    lines = [line.strip() for line in stderr_tail.splitlines() if line.strip()]
    if not lines:
        return ""
    line = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "''", lines[-1])
    line = re.sub(r"\S*/\S+", "/", line)
    line = re.sub(r"0[xX][0-9a-fA-F]+|\d+", "0", line)
    return "".join(char if char.isprintable() else "?" for char in line)[:160]
