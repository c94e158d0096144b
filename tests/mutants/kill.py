"""Run every mutant against the suite: which vectors it fails, and whether one of them names its bug.

A mutant that survives is a bug that the suite does not find; a vector that no mutant fails needs a reason to be in the
suite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from i2s_spec.conformance.vectors import vector as ledger
from i2s_spec.conformance.vectors.all_vectors import SUITE_VERSION, drafts, suite_of
from i2s_spec.conformance.vectors.vector import Suite, Vector
from mutants import wrong_containers, wrong_groups, wrong_models, wrong_numbers, wrong_payloads
from mutants.answers import DecoderAnswer, NotAskedError, asked, passes
from mutants.plain_container import PlainContainer
from mutants.plain_numbers import PlainNumbers


class Killed(NamedTuple):
    """A mutant, the vectors that it fails, and those of them whose flags name its bug."""

    name: str
    flag: str
    kind: str
    failed: tuple[Vector, ...]

    @property
    def named(self) -> tuple[Vector, ...]:
        return tuple(vector for vector in self.failed if self.flag in vector.flags)


#: Operations on whole files other than `container`.
_FILES = ("forward", "generate", "tokenize", "verdict")


def results(vectors: Suite, flagged: bool = False) -> tuple[Killed, ...]:
    """Every mutant with the vectors of a suite that it fails; a mistake that makes no difference to any model of the
    suite is left out.

    :param flagged: ask a mutant only the vectors with the flag of its bug, which is enough for `named` and `proven`
    """
    return (*_plain(vectors, flagged), *_of_files(vectors, flagged))


def proven(vectors: Suite, killed: Iterable[Killed]) -> dict[str, tuple[str, ...]]:
    """By the id of each vector: its flags for whose bug a mutant fails it."""
    found = {(vector.id, each.flag) for each in killed for vector in each.failed}
    return {each.id: tuple(flag for flag in dict.fromkeys(each.flags) if (each.id, flag) in found) for each in vectors}


def registered(version: str = SUITE_VERSION) -> list[ledger.LedgerLine]:
    """The ledger with the ids of new vectors, and with the flags that mutants prove.

    :raises ValueError: where a published vector has changed
    """
    lines = ledger.updated(drafts(), ledger.read(), version)
    vectors = suite_of({line.name: line for line in lines}, declared=True)
    flags = proven(vectors, results(vectors))
    return [line._replace(flags=",".join(flags.get(line.id, ())) or "-") for line in lines]


def right_failures(vectors: Suite) -> list[Vector]:
    """The vectors that the plain decoder, which has no mistake, fails; the list is empty if the suite is right."""

    def answer(vector: Vector) -> DecoderAnswer | None:
        return wrong_models.right_answer(vector) if vector.op in _FILES else _asked(_right(vector), vector)

    return [vector for vector in vectors if _fails(answer, vector, vectors)]


def unused(vectors: Suite, killed: Iterable[Killed]) -> list[Vector]:
    """The vectors with a definite answer that no mutant fails; one that refuses everything fails only what is sound."""
    used = {
        vector.id for each in killed for vector in each.failed
        if each.flag != "refuses-everything" or vector.verdict == "valid"
    }  # fmt: skip
    return [vector for vector in vectors if vector.id not in used and vector.verdict in ("valid", "invalid")]


def _right(vector: Vector) -> Any:
    return PlainContainer if vector.op == "container" else PlainNumbers()


def _asked(decoder: Any, vector: Vector) -> DecoderAnswer | None:
    try:
        return asked(decoder, vector)
    except NotAskedError:
        return None


def _plain(vectors: Suite, flagged: bool) -> Iterator[Killed]:
    containers = [vector for vector in vectors if vector.op == "container"]
    numbers = [vector for vector in vectors if vector.op not in (*_FILES, "container")]
    for mutant in wrong_containers.MUTANTS:
        failed = [
            each
            for each in _about(mutant.flag, containers, flagged)
            if _fails(partial(_asked, mutant.decoder), each, vectors)
        ]
        yield Killed(mutant.name, mutant.flag, "container", tuple(failed))
    for mutant in (*wrong_payloads.MUTANTS, *wrong_groups.MUTANTS, *wrong_numbers.MUTANTS):
        decoder = mutant.decoder()
        failed = [
            each for each in _about(mutant.flag, numbers, flagged) if _fails(partial(_asked, decoder), each, vectors)
        ]
        yield Killed(mutant.name, mutant.flag, "numbers", tuple(failed))


def _about(flag: str, vectors: list[Vector], flagged: bool) -> list[Vector]:
    """All vectors, or those with a flag."""
    return [each for each in vectors if flag in each.flags] if flagged else vectors


def _fails(answer: Callable[[Vector], DecoderAnswer | None], vector: Vector, suite: Suite) -> bool:
    """Whether a program fails a vector; a refusal counts only where the sound twin is accepted."""
    found = answer(vector)
    if found is None or not passes(vector, found):
        return found is not None
    twin = answer(suite[vector.twin]) if vector.twin is not None and vector.verdict == "invalid" else None
    return twin is not None and twin.refused


def _of_files(suite: Suite, flagged: bool) -> Iterator[Killed]:
    by_op = {op: [vector for vector in suite if vector.op == op] for op in _FILES}
    for mutant in wrong_models.all_mutants():
        asked_any, failed = False, []
        vectors = by_op[mutant.op]
        if mutant.op in (
            "forward",
            "generate",
        ):  # whole forward passes are slow: only files with a vector about the bug
            files = {vector.input_blob.sha256 for vector in vectors if mutant.flag in vector.flags}
            vectors = [vector for vector in vectors if vector.input_blob.sha256 in files]
        for vector in _about(mutant.flag, vectors, flagged):
            asked_any = asked_any or mutant.answer(vector) is not None
            if _fails(mutant.answer, vector, suite):
                failed.append(vector)
        if asked_any:
            yield Killed(mutant.name, mutant.flag, mutant.op, tuple(failed))
