"""This module says what is wrong with how a decoder ended on a file, if anything is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from i2s_spec.fuzzing.child import Outcome
from i2s_spec.fuzzing.oracle import Expectation, ExpectedAnswer


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
    """What is wrong with the end of a run on a file to which `expectation` is owed; None where nothing is."""
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
    """By what two finds count as the same: the kind, how a crash ended and what it said, else the rule."""
    if kind is Kind.CRASH:
        return f"{kind} {outcome.name} {shape_of(outcome.stderr_tail)}".rstrip()
    return f"{kind} {expectation.code or 'sound'}"


def answer(outcome: Outcome) -> str:
    """By what two answers of a decoder count as the same: a new one makes its file worth keeping."""
    return f"{outcome.name} {shape_of(outcome.stderr_tail)}"


def shape_of(stderr_tail: str) -> str:
    """The last line of what was said, without what differs from file to file: numbers, addresses, quoted text, paths."""
    lines = [line.strip() for line in stderr_tail.splitlines() if line.strip()]
    if not lines:
        return ""
    line = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "''", lines[-1])
    line = re.sub(r"\S*/\S+", "/", line)
    line = re.sub(r"0[xX][0-9a-fA-F]+|\d+", "0", line)
    return "".join(char if char.isprintable() else "?" for char in line)[:160]
