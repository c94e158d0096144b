"""This module states what a run found: a result for each vector, and the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from i2s_spec.conformance.run.protocol import Implementation


class Status(StrEnum):
    """How a vector ended."""

    PASS = "pass"
    FAIL = "fail"
    #: the adapter does not do this, and says so
    SKIPPED = "skipped"
    #: the adapter says that it failed itself
    ERRORED = "errored"
    #: both answers are right; which it was is recorded
    NOTED = "noted"
    #: the run had stopped before
    NOT_RUN = "not run"


#: The statuses that make a run fail.
FAILURES = (Status.FAIL, Status.ERRORED, Status.NOT_RUN)


@dataclass(frozen=True)
class CaseResult:
    """How one vector ended.

    :param message: for people to read: the first difference, or why there is no answer
    :param mistake: the known mistake that gives this answer
    :param fault: the kind of `AdapterFault`, where that is what happened
    :param verdict: the vector's: `valid`, `invalid`, `either` or `survive`
    :param phase: the phase in which it was refused, as the adapter says; it is scored separately
    :param phase_right: whether that is the vector's phase, where both give one
    """

    id: str
    op: str
    status: Status
    message: str = ""
    mistake: str = ""
    fault: str = ""
    phase: str = ""
    phase_right: bool | None = None
    features: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    clause: str = ""
    verdict: str = ""

    @property
    def text(self) -> str:
        """Message and mistake in one line."""
        return f"{self.message}: {self.mistake}" if self.mistake and self.message else self.message or self.mistake


@dataclass
class RunResult:
    """A whole run of one implementation."""

    implementation: Implementation
    suite_version: str
    date: str
    command: tuple[str, ...] = ()
    results: list[CaseResult] = field(default_factory=list)
    #: why the run was stopped, in one sentence; empty where it came to its end
    given_up: str = ""
    #: names and sentences of failures that a list expects or no longer expects
    unexpected: list[str] = field(default_factory=list)
    #: failures that a list expects
    known: set[str] = field(default_factory=set)

    @property
    def counts(self) -> Counter[str]:
        """Results by status."""
        return Counter(result.status.value for result in self.results)

    @property
    def ok(self) -> bool:
        """Whether every failure is a listed one, and no list is out of date."""
        failed = any(each.status in FAILURES and each.id not in self.known for each in self.results)
        return not failed and not self.unexpected and not self.given_up

    @property
    def phases(self) -> tuple[int, int]:
        """The number of refusals in the right phase, and of all refusals with a known phase."""
        stated = [each.phase_right for each in self.results if each.phase_right is not None]
        return sum(stated), len(stated)


def by_op(results: Iterable[CaseResult]) -> dict[str, Counter[str]]:
    """Counts of each status for each op."""
    found: dict[str, Counter[str]] = {}
    for each in results:
        found.setdefault(each.op, Counter())[each.status.value] += 1
    return found
