"""A row of the table for a run on the test vectors: counts for each kind of vector, and the first failures.

The page "Who decodes what" shows these rows and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from i2s_spec.conformance.protocol import CaseFolder, VectorCase
from i2s_spec.conformance.report import read_ndjson
from i2s_spec.conformance.runner import ProtocolAsker, run_cases
from i2s_spec.conformance.score import CaseResult, RunResult, Status
from i2s_spec.fuzzing.bounded_process import Bounds

#: Limits for one answer: seconds (processors may be busy), and resident bytes.
BOUNDS: Final = Bounds(seconds=20.0, memory=2 << 30)

#: The most failures of one implementation that are kept in words.
LISTED: Final = 12

#: Operations on the payload of one tensor.
_TENSOR_OPS: Final = ("decode", "dequant", "quantize")
#: What a vector of a tensor is about, by the beginning of its features.
_KINDS: Final = ("layout.", "type.")


def run_on(command: list[str], suite: CaseFolder, cases: Iterable[VectorCase] | None = None) -> RunResult:
    """Run an adapter on vectors: all of the suite unless some are given."""
    chosen = suite.cases if cases is None else tuple(cases)
    return run_cases(ProtocolAsker(command, BOUNDS), chosen, suite.version)


def row(name: str, run: RunResult) -> dict[str, Any]:
    """The row of an implementation; what was not asked has no count.

    :param name: the implementation's name in `implementations`, or another one for the record of a contributor
    """
    about = run.implementation
    failed = [each for each in run.results if each.status in (Status.FAIL, Status.ERRORED)]
    scored = [each for each in run.results if each.status is Status.PASS or each in failed]
    return {
        "id": name, "name": about.name, "version": about.version, "source": about.source, "date": run.date,
        "suite_version": run.suite_version, "counts": {each.value: run.counts[each.value] for each in Status},
        "files": _files([each for each in run.results if each.op == "container" and each.status is not Status.SKIPPED]),
        "tensors": _tensors([each for each in scored if each.op in _TENSOR_OPS]),
        "models": _share(each.status is Status.PASS for each in scored if each.op == "forward"),
        "failures": [f"{each.id} {each.op}: {each.text}" for each in failed[:LISTED]],
    }  # fmt: skip


def _files(asked: list[CaseResult]) -> dict[str, list[Any]]:
    """Sound files that are taken, malformed ones that are refused, and the vectors at which the adapter ended."""
    if not asked:
        return {}
    right = (Status.PASS, Status.NOTED)
    return {
        "sound": _share(each.status in right for each in asked if each.verdict == "valid"),
        "malformed": _share(each.status is Status.PASS for each in asked if each.verdict == "invalid"),
        "ended": [each.id for each in asked if each.fault],
    }


def _tensors(asked: list[CaseResult]) -> dict[str, list[int]]:
    kinds = sorted({feature for each in asked for feature in each.features if feature.startswith(_KINDS)})
    return {kind: _share(each.status is Status.PASS for each in asked if kind in each.features) for kind in kinds}


def _share(right: Iterable[bool]) -> list[int]:
    """Right answers, and all."""
    found = list(right)
    return [sum(found), len(found)]


def from_record(path: Path) -> dict[str, Any]:
    """The row of a record as `i2s conform run --report ndjson=FILE` writes it, named after the file.

    :raises SettingError: for a file that is no complete record
    """
    return row(path.stem, read_ndjson(path))
