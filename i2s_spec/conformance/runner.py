"""Run an implementation on vectors: ask, compare, start again after a fault, and explain differences.

`run_cases` asks every case by an `Asker`: an adapter that speaks the protocol, or a program that gets file by file.
`smoke` checks a new adapter without vectors.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from i2s_spec.codec import native
from i2s_spec.codec.change_groups import pack_blocks
from i2s_spec.conformance import protocol
from i2s_spec.conformance.explanations import explained
from i2s_spec.conformance.protocol import (
    LINE_BYTES,
    VERSION,
    AdapterFault,
    AdapterProcess,
    Answer,
    Implementation,
    VectorCase,
)
from i2s_spec.conformance.protocol_terms import canonical_json
from i2s_spec.conformance.score import (
    CaseResult,
    RunResult,
    Status,
    answer_difference,
    centred,
    difference,
    digest_of,
    expected_bytes,
    expected_json,
    fields_difference,
    in_any_order,
)
from i2s_spec.errors import counted, quote
from i2s_spec.fuzzing.bounded_process import Bounds, Command, cause, run
from i2s_spec.schema.blocks import BLOCK_LAYOUTS

#: A run stops after this many consecutive faults.
GIVE_UP: Final = 5

#: A run asks no further case after this time, in seconds.
RUN_SECONDS: Final = 3600.0

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
        self._sound: dict[str, tuple[CaseResult, bool]] = {}  # cases that have been asked: whether they are accepted

    def run(self, case: VectorCase) -> CaseResult:
        """Return the result of a case; whatever an adapter does is a result.

        A refusal passes only where the case's sound twin is accepted, whatever is read from it.
        """
        result, _ = self._asked(case)
        if case.twin is None or result.status is not Status.PASS:
            return result
        twin, accepted = self._asked(case.twin)
        if accepted:
            return result
        if twin.status is Status.SKIPPED:
            return _result(case, Status.SKIPPED, f"its sound twin {twin.id} is skipped: {twin.message}")
        return _result(case, Status.FAIL, f"it does not accept the sound file either, {twin.id}: a refusal of everything "
                       "shows nothing", phase=result.phase)  # fmt: skip

    def _asked(self, case: VectorCase) -> tuple[CaseResult, bool]:
        """Return the result of a case by itself, and whether its input was accepted; no case is asked twice."""
        if case.id not in self._sound:
            self._sound[case.id] = self._ask(case)
        return self._sound[case.id]

    def _ask(self, case: VectorCase) -> tuple[CaseResult, bool]:
        if reason := _beyond(case, self.about):
            return _result(case, Status.SKIPPED, reason), False
        try:
            if not self._running:
                self._asker.start()
            self._running = True
            found = scored(self._asker, case)
        except AdapterFault as fault:
            self._running = False
            self.faults += 1
            message = str(fault).replace(f"{case.path.parent}/", "")
            return _result(case, Status.FAIL, message, fault=fault.kind), False
        self.faults = 0
        return found


def run_cases(
    asker: Asker,
    cases: Sequence[VectorCase],
    suite_version: str,
    command: Sequence[str] = (),
    progress: Callable[[int, CaseResult], None] = lambda count, result: None,
    seconds: float = RUN_SECONDS,
) -> RunResult:
    """Ask every case.

    :param progress: called after each case with the number of cases done
    :param seconds: after which no further case is asked
    :raises AdapterFault: where the adapter cannot be started at all
    """
    try:
        runner = CaseRunner(asker)
        run = RunResult(runner.about, suite_version, datetime.now(UTC).date().isoformat(), tuple(command))
        end = time.monotonic() + seconds
        for count, case in enumerate(cases, 1):
            if time.monotonic() > end and not run.given_up:
                run.given_up = (
                    f"the run stopped after {seconds:g} s, with {counted(len(cases) - count + 1, 'vector')} left"
                )
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
    """Say why no case applies to an implementation, with the features that it claims and no case has."""
    ops = {case.op for case in cases}
    if not ops & set(about.ops):
        return (
            f"no vector was asked: they are about {', '.join(sorted(ops))}, and the adapter does {', '.join(about.ops)}"
        )
    known = {feature for case in cases for feature in case.features}
    unknown = [quote(each, limit=40) for each in about.features or () if each not in known]
    words = f"; it claims {', '.join(unknown[:5])}, which none of them names" if unknown else ""
    lacks = Counter(feature for case in cases for feature in about.lacks(case))
    most = ", ".join(feature for feature, _ in lacks.most_common(3))
    return (
        f"no vector was asked: the adapter claims the features of none{words}; most of them need {most or 'a layout'}"
    )


def _beyond(case: VectorCase, about: Implementation) -> str:
    """Say why a case does not apply to an implementation; empty if it does."""
    if case.op not in about.ops:
        return f"the adapter does not do {case.op}"
    if lacks := about.lacks(case):
        return f"the adapter lacks {', '.join(lacks)}"
    layout = case.args.get("layout")
    if about.dialects is not None and layout and layout not in about.dialects:
        return f"the adapter does not read the layout {layout}"
    if about.most_bytes is not None and case.path.stat().st_size > about.most_bytes:
        return f"the input is larger than the {counted(about.most_bytes, 'byte')} that the adapter takes"
    return ""


def scored(asker: Asker, case: VectorCase) -> tuple[CaseResult, bool]:
    """Ask one case and compare; return the result, and whether the input was accepted, whatever was read from it.

    A digest that differs is followed by a request for the bytes.

    :raises AdapterFault: for everything that is not an answer
    """
    want = "digest" if case.method in _EXACT or not case.digest else "bytes"
    answer = asker.answer(case, want)
    return _scored(asker, case, answer), answer.kind == "result"


def _scored(asker: Asker, case: VectorCase, answer: Answer) -> CaseResult:
    """Return what an answer to a case is worth."""
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
    form = in_any_order if answer.fields.get("order") == "any" else lambda value: value
    json = expected_json(case) if answer.json is not None else None
    if json is not None:
        if found := answer_difference(case, form(json), form(answer.json)):
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
        if form is in_any_order:
            expected, data = (canonical_json(form(_loads(each))) for each in (expected, data))
        if answer.fields.get("shift") == "rows" and case.method in ("corr", "rank"):
            expected, data = centred(case, expected), centred(case, data)
        if data != expected and (message := difference(case, expected, data)):
            return _result(case, Status.FAIL, message, mistake=explained(case, expected, data))
    if found := fields_difference(case, answer.fields):
        return _result(case, Status.FAIL, found)
    return _result(case, Status.PASS)


def _loads(data: bytes) -> Any:
    """Parse JSON; of bytes that are none, return a text, which differs from all that is expected."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data[:80].decode("utf-8", "backslashreplace")


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


# --- askers ----------------------------------------------------------------------------------------------------------
# By the protocol, or file by file.

#: The ops that a program without the protocol can answer.
SIMPLE_OPS: Final = ("container", "verdict")


class Asker(Protocol):
    """Something that answers cases."""

    def start(self) -> Implementation:
        """Begin, or begin again after a fault."""
        ...

    def answer(self, case: VectorCase, want: str) -> Answer:
        """Return the answer to a case; `want` is `digest` or `bytes`."""
        ...

    def close(self) -> None:
        """End the processes that run."""
        ...


class ProtocolAsker:
    """An adapter that speaks `i2s-cp/1`; it is started again after a fault.

    :param words: the program and its arguments
    """

    def __init__(self, words: Sequence[str], bounds: Bounds) -> None:
        self._words = tuple(words)
        self._bounds = bounds
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # from the start to `close`
        self._process: AdapterProcess | None = None
        self._seq = 0
        self._layout: tuple[str, bool] = ("", True)

    def start(self) -> Implementation:
        """Start the process and the conversation.

        :raises AdapterFault: where it cannot be started, or is no adapter
        """
        self._end()
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="i2s-conform-")
        self._process = AdapterProcess(self._words, self._bounds)
        self._layout = ("", True)
        try:
            return protocol.start(self._process)
        except BaseException:
            self._end()
            raise

    def answer(self, case: VectorCase, want: str) -> Answer:
        """Ask; the dialect is agreed on before the first case of another layout.

        :raises AdapterFault: for everything that is not an answer; the process has then been ended
        """
        process = self._process
        if process is None or self._folder is None:
            raise AdapterFault("start", "the adapter does not run any more")
        layout = str(case.args.get("layout") or "")
        try:
            if layout and layout != self._layout[0]:
                self._layout = (layout, protocol.dialect(process, layout))
            if layout and not self._layout[1]:
                return Answer("skipped", message=f"the adapter does not read the layout {layout}")
            self._seq += 1
            output = Path(self._folder.name) / "output"
            output.unlink(missing_ok=True)
            return protocol.run_case(process, self._seq, case, want, output)
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        """Ask the process to stop."""
        if self._process is not None:
            self._process.stop()
        self._process = None
        if self._folder is not None:
            self._folder.cleanup()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._process = None


class SimpleAsker:
    """A program that reads a GGUF file on its standard input and writes what is in it as canonical JSON.

    An exit status other than 0 means that it rejects the file.
    """

    def __init__(self, words: Sequence[str], bounds: Bounds) -> None:
        self._words = tuple(words)
        self._bounds = bounds

    def start(self) -> Implementation:
        """Check that there is such a program; nothing runs yet.

        :raises AdapterFault: where there is no such program
        """
        try:
            self._command = Command(self._words, stdin=True)
        except ValueError as error:
            raise AdapterFault("start", str(error)) from None
        return Implementation(Path(self._words[0]).name, ops=SIMPLE_OPS)

    def answer(self, case: VectorCase, want: str) -> Answer:
        """Run the program on the file.

        :raises AdapterFault: where it crashes, hangs, uses too much memory, or writes what is not JSON
        """
        with tempfile.TemporaryFile() as stdout:
            outcome = run(self._command, case.path, self._bounds, stdout)
            last = cause(outcome.stderr_tail)
            if outcome.out_of_memory:
                raise AdapterFault("memory", f"the program uses more than {self._bounds.memory >> 20:,} MiB of memory")
            if outcome.hung:
                raise AdapterFault("timeout", f"the program did not end within {self._bounds.seconds:g} s")
            if outcome.name == "SIGXFSZ":
                raise AdapterFault("output", "the program wrote output without end")
            if outcome.signal is not None:
                tail = f"; its error output ends: {quote(last, limit=200, bare=True)}" if last else ""
                raise AdapterFault("crash", f"the program was ended by {outcome.name}{tail}")
            if outcome.status:
                return Answer("rejected", verdict="invalid", message=last[:400])
            if case.op == "verdict":
                return Answer("result", verdict="valid")
            stdout.seek(0)
            data = stdout.read(LINE_BYTES + 1)
        if len(data) > LINE_BYTES:
            raise AdapterFault("output", f"the program wrote more than {LINE_BYTES >> 20} MiB for one file")
        try:
            return Answer("result", json=json.loads(data))
        except (ValueError, RecursionError) as error:
            shown = quote(data[:80].decode("utf-8", "backslashreplace"), limit=80)
            why = getattr(error, "msg", None) or type(error).__name__
            raise AdapterFault("protocol", f"the output is not JSON ({why}): {shown}") from None

    def close(self) -> None:
        """There is nothing to end."""


# --- smoke test ------------------------------------------------------------------------------------------------------
# Three checks of an adapter, each reported in a sentence: whether it answers, whether the order of bits is right, and
# whether it finds the scale. It needs no vectors, so it is the first thing to try with a new adapter.

#: Two rows, so that a transposed matrix is seen; whole blocks of every type.
_SHAPE: Final = (2, 512)
#: The weight of +1: exact in every float format, and not the value that a forgotten scale would give.
_SCALE: Final = 0.75


#: The message for a program that was started and did not answer as an adapter.
_NO_ADAPTER: Final = (
    " That is not how an adapter of i2s-cp/1 begins: it reads lines of JSON from its standard input, of which the first is "
    f'{{"cmd":"start","version":{VERSION}}}, and answers each with one line. spec/tutorials/decoder.md shows one; a program '
    "that reads a GGUF file on its standard input is run by i2s conform run --simple."
)


class Sentence(NamedTuple):
    """One of the three checks: its subject, whether it passed (None where it was not asked), and the sentence."""

    subject: str
    well: bool | None
    text: str


def smoke(words: Sequence[str], bounds: Bounds) -> Iterator[Sentence]:
    """Yield the three sentences, each as soon as it is known; only the first where the adapter does not answer."""
    asker = ProtocolAsker(words, bounds)
    try:
        try:
            about = asker.start()
        except AdapterFault as fault:
            yield Sentence("alive", False, f"{fault}.{'' if shutil.which(words[0]) is None else _NO_ADAPTER}")
            return
        named = f"{about.name} {about.version}".strip()
        yield Sentence("alive", True, f"{named} answers, and does {', '.join(about.ops)}.")
        with tempfile.TemporaryDirectory(prefix="i2s-smoke-") as folder:
            yield _order(asker, about, Path(folder))
            yield _scale(asker, about, Path(folder))
    finally:
        asker.close()


def _type(about: Implementation) -> str | None:
    """Return a type that the adapter reads: I2_S if it does."""
    if about.features is None or "type.i2_s" in about.features:
        return "I2_S"
    named = (each.removeprefix("type.").upper() for each in about.features if each.startswith("type."))
    return next((each for each in named if each in BLOCK_LAYOUTS), None)


def _case(about: Implementation, folder: Path, op: str) -> VectorCase | None:
    """Return a tensor of random trits, and what it decodes to."""
    type_ = _type(about)
    if type_ is None or op not in about.ops:
        return None
    trits = np.random.default_rng(1).integers(-1, 2, _SHAPE).astype(np.int8)
    data = native.pack(trits, _SCALE) if type_ == "I2_S" else pack_blocks(trits, _SCALE, type_)
    answer = trits if op == "decode" else trits.astype("<f4") * np.float32(_SCALE) + np.float32(0)
    path, expected = folder / f"{op}.in", folder / f"{op}.out"
    path.write_bytes(data)
    expected.write_bytes(answer.tobytes())
    args: dict[str, object] = {"type": type_.lower(), "shape": [_SHAPE[1], _SHAPE[0]]}
    if type_ == "I2_S":
        args["layout"] = "x86-128"
    return VectorCase(f"smoke-{op}", op, path, args=args, digest=digest_of(answer.tobytes()), answer=expected,
                      compare={"class": "bits" if op == "dequant" else "exact"})  # fmt: skip


def _asked(asker: ProtocolAsker, case: VectorCase) -> CaseResult:
    try:
        return scored(asker, case)[0]
    except AdapterFault as fault:
        with suppress(AdapterFault):
            asker.start()
        return CaseResult(case.id, case.op, Status.FAIL, str(fault))


def _order(asker: ProtocolAsker, about: Implementation, folder: Path) -> Sentence:
    case = _case(about, folder, "decode") or _case(about, folder, "dequant")
    if case is None:
        return Sentence(
            "order", None, "The order of bits was not asked for: the adapter does neither decode nor dequant."
        )
    result = _asked(asker, case)
    if result.status is not Status.PASS and "the trits are right" not in result.mistake:
        return Sentence("order", False, f"The order of bits is wrong, or nothing was decoded: {result.text}.")
    return Sentence(
        "order",
        True,
        f"The order of bits is right: {_SHAPE[0]} rows of {_SHAPE[1]} trits came back as they were packed.",
    )


def _scale(asker: ProtocolAsker, about: Implementation, folder: Path) -> Sentence:
    case = _case(about, folder, "dequant")
    where = "in the 32 bytes after the codes" if _type(about) == "I2_S" else "of each block"
    if case is None:
        return Sentence("scale", None, "The scale was not asked for: the adapter does not do dequant.")
    result = _asked(asker, replace(case, compare={"class": "ulp", "ulp": 0}))
    if result.status is not Status.PASS:
        return Sentence("scale", False, f"The scale {where} was not applied as it should be: {result.text}.")
    return Sentence("scale", True, f"The scale {where} was found: +1 became {_SCALE}.")
