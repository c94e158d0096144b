"""This module runs an implementation on vectors: asks, compares, starts again after a fault, and explains differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from i2s_spec.conformance.run.adapter_process import AdapterFault
from i2s_spec.conformance.run.askers import Asker
from i2s_spec.conformance.run.byte_mistakes import explained
from i2s_spec.conformance.run.cases import VectorCase
from i2s_spec.conformance.run.protocol import Answer, Implementation
from i2s_spec.conformance.run.results import CaseResult, RunResult, Status
from i2s_spec.conformance.run.scoring import (
    centred,
    difference,
    digest_of,
    expected_bytes,
    expected_json,
    fields_difference,
    json_difference,
)
from i2s_spec.errors import counted, quote

#: A run stops after this many consecutive faults.
GIVE_UP: Final = 5

#: Classes of comparison that accept no other bytes than the expected ones.
_EXACT: Final = ("exact", "bits")


class CaseRunner:
    """Asks cases one after the other; an adapter that failed is restarted for the next case.

    :raises AdapterFault: where the adapter cannot be started at all
    """

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self.about = asker.start()
        self._running = True
        #: consecutive faults
        self.faults = 0

    def run(self, case: VectorCase) -> CaseResult:
        """The result of a case; whatever an adapter does is a result."""
        if reason := _beyond(case, self.about):
            return _result(case, Status.SKIPPED, reason)
        try:
            if not self._running:
                self._asker.start()
            self._running = True
            result = score(self._asker, case)
        except AdapterFault as fault:
            self._running = False
            self.faults += 1
            message = str(fault).replace(f"{case.path.parent}/", "")
            return _result(case, Status.FAIL, message, fault=fault.kind)
        self.faults = 0
        return result


def run_cases(
    asker: Asker,
    cases: Sequence[VectorCase],
    suite_version: str,
    command: Sequence[str] = (),
    progress: Callable[[int, CaseResult], None] = lambda count, result: None,
) -> RunResult:
    """Ask every case.

    :param progress: called after each case with the number of cases done
    :raises AdapterFault: where the adapter cannot be started at all
    """
    try:
        runner = CaseRunner(asker)
        run = RunResult(runner.about, suite_version, datetime.now(UTC).date().isoformat(), tuple(command))
        for count, case in enumerate(cases, 1):
            result = _result(case, Status.NOT_RUN, run.given_up) if run.given_up else runner.run(case)
            if runner.faults >= GIVE_UP and not run.given_up:
                run.given_up = f"the run stopped after {GIVE_UP} consecutive faults; the last: {result.message}"
            run.results.append(result)
            progress(count, result)
        if all(result.status is Status.SKIPPED for result in run.results):
            run.given_up = _nothing_asked(cases, runner.about)
        return run
    finally:
        asker.close()


def _nothing_asked(cases: Sequence[VectorCase], about: Implementation) -> str:
    """Why no case applies to an implementation, with the features that it claims and no case has."""
    ops = {case.op for case in cases}
    if not ops & set(about.ops):
        return (
            f"no vector was asked: they are about {', '.join(sorted(ops))}, and the adapter does {', '.join(about.ops)}"
        )
    known = {feature for case in cases for feature in case.features}
    unknown = [quote(each, limit=40) for each in about.features or () if each not in known]
    words = f"; it claims {', '.join(unknown[:5])}, which none of them names" if unknown else ""
    lacks = Counter(feature for case in cases for feature in case.features if feature not in (about.features or ()))
    most = ", ".join(feature for feature, _ in lacks.most_common(3))
    return (
        f"no vector was asked: the adapter claims the features of none{words}; most of them need {most or 'a layout'}"
    )


def _beyond(case: VectorCase, about: Implementation) -> str:
    """Why a case does not apply to an implementation, or an empty string."""
    if case.op not in about.ops:
        return f"the adapter does not do {case.op}"
    if about.features is not None and (lacks := [each for each in case.features if each not in about.features]):
        return f"the adapter lacks {', '.join(lacks)}"
    layout = case.args.get("layout")
    if about.dialects is not None and layout and layout not in about.dialects:
        return f"the adapter does not read the layout {layout}"
    if about.most_bytes is not None and case.path.stat().st_size > about.most_bytes:
        return f"the input is larger than the {counted(about.most_bytes, 'byte')} that the adapter takes"
    return ""


def score(asker: Asker, case: VectorCase) -> CaseResult:
    """Ask one case and compare; a digest that differs is followed by a request for the bytes.

    :raises AdapterFault: for everything that is not an answer
    """
    want = "digest" if case.method in _EXACT or not case.digest else "bytes"
    answer = asker.answer(case, want)
    if answer.kind == "skipped":
        link = f" ({answer.issue_url})" if answer.issue_url else ""
        return _result(case, Status.SKIPPED, (answer.message or "the adapter skips it") + link)
    if answer.kind == "errored":
        return _result(case, Status.ERRORED, answer.message or "the adapter failed, and does not say why")
    if case.verdict == "survive":
        return _result(case, Status.PASS, phase=answer.phase)
    if case.verdict == "either":
        word = "rejects" if answer.kind == "rejected" else "accepts"
        return _result(
            case, Status.NOTED, f"{word} it{f': {answer.message}' if answer.message else ''}", phase=answer.phase
        )
    if case.verdict == "invalid":
        if answer.kind == "rejected":
            right = answer.phase == case.phase if answer.phase and case.phase else None
            return _result(case, Status.PASS, phase=answer.phase, phase_right=right)
        return _result(case, Status.FAIL, f"it accepts what is invalid{f' ({case.comment})' if case.comment else ''}")
    if answer.kind == "rejected":
        return _result(
            case,
            Status.FAIL,
            f"it rejects what is valid: {answer.message or 'it does not say why'}",
            phase=answer.phase,
        )
    if answer.verdict:
        if case.op == "verdict":
            return _result(case, Status.PASS)
        return _result(case, Status.NOTED, "accepts it; what it read there was not compared")
    return _compared(asker, case, answer)


def _compared(asker: Asker, case: VectorCase, answer: Answer) -> CaseResult:
    """Compare an answer that has a value with the expected value."""
    json = expected_json(case) if answer.json is not None else None
    if json is not None:
        if found := json_difference(json, answer.json):
            return _result(case, Status.FAIL, found)
        return _result(case, Status.PASS)
    wanted = case.digest or digest_of(expected_bytes(case) or b"")
    digest = answer.digest or (digest_of(answer.data) if answer.data is not None else "")
    if digest != wanted:
        data = answer.data
        if data is None:
            second = asker.answer(case, "bytes")
            data = second.data
            if data is not None and digest_of(data) != digest:
                return _result(case, Status.FAIL, "the digest is not that of the bytes that the adapter then gives")
        expected = expected_bytes(case)
        if data is None or expected is None:
            return _result(case, Status.FAIL, f"the digest is {digest[:16]}…; expected {wanted[:16]}…")
        if answer.fields.get("shift") == "rows" and case.method in ("corr", "rank"):
            expected, data = centred(case, expected), centred(case, data)
        if message := difference(case, expected, data):
            return _result(case, Status.FAIL, message, mistake=explained(case, expected, data))
    if found := fields_difference(case, answer.fields):
        return _result(case, Status.FAIL, found)
    return _result(case, Status.PASS)


def _result(
    case: VectorCase,
    status: Status,
    message: str = "",
    *,
    mistake: str = "",
    fault: str = "",
    phase: str = "",
    phase_right: bool | None = None,
) -> CaseResult:
    return CaseResult(
        case.id,
        case.op,
        status,
        message,
        mistake,
        fault,
        phase,
        phase_right,
        case.features,
        case.flags,
        case.clause,
        case.verdict,
    )
