"""Whether an answer agrees with a vector, and where the two first differ; the results of a run, and known failures.

`difference`, `answer_difference` and `fields_difference` say in a sentence where an answer differs; a `CaseResult` states
how one vector ended, a `RunResult` the whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.conformance.protocol import Implementation, VectorCase
from i2s_spec.conformance.protocol_terms import OPERATIONS, Operation, canonical_json
from i2s_spec.errors import SettingError, counted, quote
from i2s_spec.gguf.atomic_file import OutputFile
from i2s_spec.gguf.source import read_regular

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: An operation that this version does not know answers with bytes.
_UNKNOWN: Final = Operation("u1")


def dtype_of(case: VectorCase) -> str:
    """Return the NumPy type of the elements of an answer."""
    if case.op == "bitlinear" and (case.method in ("rtol", "ulp", "bits") or case.args.get("accumulate") == "float"):
        return "<f4"
    return operation_of(case).element or "u1"


def operation_of(case: VectorCase) -> Operation:
    """Return what is declared of a case's operation."""
    return OPERATIONS.get(case.op, _UNKNOWN)


def expected_json(case: VectorCase) -> Any:
    """Return the value that a case expects where its answer is JSON, else None."""
    if case.digest and not operation_of(case).is_json:
        return None
    if case.json is None and case.answer is not None and operation_of(case).is_json:
        return json.loads(case.answer.read_bytes())
    return case.json


def expected_bytes(case: VectorCase) -> bytes | None:
    """Return the bytes that a case expects, if it has any; expected JSON in its canonical form."""
    if case.answer is not None:
        return case.answer.read_bytes()
    return canonical_json(case.json) if case.json is not None and not case.digest else None


def digest_of(data: bytes) -> str:
    """Return the SHA-256 in hexadecimal."""
    return sha256(data).hexdigest()


def json_difference(want: Any, got: Any, path: str = "$") -> str:
    """Say where two JSON values first differ; empty if they do not.

    >>> json_difference({"a": [1, 2]}, {"a": [1, 3]})
    '$.a[1] is 3; expected 2'
    """
    if isinstance(want, Mapping) and isinstance(got, Mapping):
        for key in sorted(want.keys() | got.keys()):
            place = f"{path}.{quote(str(key), limit=80, bare=True)}"
            if key not in got:
                return f"{place} is missing"
            if key not in want:
                return f"{place} should not be there"
            if found := json_difference(want[key], got[key], place):
                return found
        return ""
    if isinstance(want, list) and isinstance(got, list):
        for i, (one, other) in enumerate(zip(want, got, strict=False)):
            if found := json_difference(one, other, f"{path}[{i}]"):
                return found
        return (
            "" if len(want) == len(got) else f"{path} has {counted(len(got), 'entry', 'entries')}; expected {len(want)}"
        )
    if type(want) is type(got) and want == got:
        return ""
    return f"{path} is {_shown(got)}; expected {_shown(want)}"


def answer_difference(case: VectorCase, want: Any, got: Any) -> str:
    """Say where an answer in JSON first differs by more than the class of comparison allows; empty if it does not.

    Of class `prefix`, the ids of both are compared up to the first near tie, behind which programs that round otherwise
    go on with another token.
    """
    if case.method == "prefix":
        least = int(case.compare.get("least", 0))
        want, got = (_up_to(least, each) for each in (want, got))
    return json_difference(want, got)


def _up_to(count: int, answer: Any) -> Any:
    ids = answer.get("ids") if isinstance(answer, Mapping) else None
    return {"ids": ids[:count]} if isinstance(ids, list) else answer


def fields_difference(case: VectorCase, fields: Mapping[str, Any]) -> str:
    """Say where values that come with a digest differ; values that the answer leaves out do not count, except for
    activations."""
    if not isinstance(case.json, Mapping):
        return ""
    inner = fields.get("json")
    given = {**fields, **inner} if isinstance(inner, Mapping) else fields
    for key, value in case.json.items():
        if key not in given and case.op == "activation":
            return f"the answer lacks {key}"
        if key in given and (found := json_difference(value, given[key], key)):
            return found
    return ""


def centred(case: VectorCase, data: bytes) -> bytes:
    """Return rows of logits less their means, so that log-probabilities, which differ from logits by one number per row,
    agree with them."""
    columns = int(case.compare.get("columns") or 0)
    values = np.frombuffer(data[: len(data) // 4 * 4], "<f4").astype(np.float64)
    if not columns or values.size % columns:
        return data
    rows = values.reshape(-1, columns)
    return bytes((rows - rows.mean(axis=1, keepdims=True)).astype("<f4").tobytes())


def difference(case: VectorCase, want: bytes, got: bytes) -> str:
    """Say where an answer first differs by more than the class of comparison allows; empty if it does not."""
    if got == want:
        return ""
    if operation_of(case).is_json:
        return _json_texts_difference(case, want, got)
    dtype = np.dtype(dtype_of(case))
    if len(got) != len(want):
        return f"the answer has {counted(len(got), 'byte')}; expected {len(want):,}"
    if dtype.itemsize > 1 and len(want) % dtype.itemsize:
        return _elements(case, np.frombuffer(want, "u1"), np.frombuffer(got, "u1"), None)
    expected, actual = np.frombuffer(want, dtype), np.frombuffer(got, dtype)
    if dtype.kind != "f" or case.method in ("bits", "exact"):
        return _elements(case, expected, actual, None)
    with np.errstate(all="ignore"):  # an answer may be any bytes
        if case.method in ("rank", "corr"):
            return _like(case, expected, actual)
        return _elements(case, expected, actual, _within(case, expected, actual))


def _json_texts_difference(case: VectorCase, want: bytes, got: bytes) -> str:
    """Say where the contents of two JSON texts differ, or why the answer is none."""
    try:
        answer = json.loads(got)
    except (ValueError, RecursionError):
        return f"the answer to `{case.op}` is not JSON; it has {counted(len(got), 'byte')}"
    found = answer_difference(case, json.loads(want), answer)
    if found or case.method == "prefix":
        return found
    return (
        f"the answer has {counted(len(got), 'byte')}, and the same content as the {len(want):,} of its canonical form"
    )


def in_any_order(value: Any) -> Any:
    """Return the content of a container as readers have it that keep keys and tensors in a map: sorted by name; an
    object of entries by their key counts as a list of them."""
    if not isinstance(value, Mapping):
        return value
    found = dict(value)
    for part, name in (("kv", "key"), ("tensors", "name")):
        entries = found.get(part)
        if isinstance(entries, Mapping):
            entries = [{name: key, **entry} for key, entry in entries.items() if isinstance(entry, Mapping)]
        if isinstance(entries, list) and all(isinstance(each, Mapping) for each in entries):
            found[part] = sorted(entries, key=lambda entry: str(entry.get(name)))
    return found


def _within(case: VectorCase, want: NDArray[Any], got: NDArray[Any]) -> Any:
    """Return which elements are close enough by `ulp` or `rtol`; NaN is close to NaN."""
    both_nan = np.isnan(want) & np.isnan(got)
    if case.method == "ulp":
        limit = int(case.compare.get("ulp", case.compare.get("n", 1)))
        return both_nan | (np.abs(_ordered(want) - _ordered(got)) <= limit)
    rtol, atol = float(case.compare.get("rtol", 1e-5)), float(case.compare.get("atol", 0.0))
    with np.errstate(all="ignore"):
        return both_nan | (want == got) | (np.abs(want - got) <= atol + rtol * np.abs(want))


def _ordered(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return floats as integers in the same order; neighboring floats differ by one."""
    bits = values.view("<i4").astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _like(case: VectorCase, want: NDArray[Any], got: NDArray[Any]) -> str:
    """Check that all values correlate, and that the largest of the last `columns` is among the largest of the answer."""
    if not np.isfinite(got).all():
        return f"value {int(np.flatnonzero(~np.isfinite(got))[0]):,} is not finite"
    if case.method == "corr":
        least = float(case.compare.get("corr", 0.0))
        spread = min(float(np.ptp(want)), float(np.ptp(got)))
        found = float(np.corrcoef(want.astype(np.float64), got.astype(np.float64))[0, 1]) if spread else 0.0
        if found < least:
            return f"the values correlate with {found:.6f}; expected at least {least:g}"
    rank = int(case.compare.get("rank", 0 if case.method == "corr" else 1))
    columns = int(case.compare.get("columns") or want.size)
    largest = int(want[-columns:].argmax())
    top = np.argsort(-got[-columns:], kind="stable")[:rank].tolist()
    if rank and largest not in top:
        return f"the largest of the last {counted(columns, 'value')} is that of {top[0]}; expected {largest}"
    return ""


def _elements(case: VectorCase, want: NDArray[Any], got: NDArray[Any], near: Any) -> str:
    """Return the first element that differs, and how many do."""
    if near is None:
        near = (want.view(f"u{want.itemsize}") if want.itemsize > 1 else want) == (
            got.view(f"u{got.itemsize}") if got.itemsize > 1 else got
        )
        if want.dtype.kind == "f" and case.method != "exact":
            near |= np.isnan(want) & np.isnan(got)  # every NaN equals every other
    wrong = np.flatnonzero(~near)
    if not wrong.size:
        return ""
    k = int(wrong[0])
    count = f"{wrong.size:,} of {want.size:,} differ"
    return f"{_place(case, k, want.size)} is {_number(got[k])}; expected {_number(want[k])}; {count}"


def _place(case: VectorCase, k: int, count: int) -> str:
    shape = [int(n) for n in case.args.get("shape", ())]
    total = 1
    for n in shape:
        total *= n
    if case.op in ("decode", "dequant") and len(shape) > 1 and total == count:
        return f"row {k // shape[0]:,}, column {k % shape[0]:,}"
    return f"{'byte' if dtype_of(case) == 'u1' else 'element'} {k:,}"


def _number(value: Any) -> str:
    if value.dtype.kind != "f":
        return str(int(value)) if value.dtype.kind == "i" else f"0x{int(value):02x}"
    return f"{float(value)!r} (0x{int(value.view('u4')):08x})"


def _shown(value: Any) -> str:
    return quote(json.dumps(value, ensure_ascii=True), limit=80, bare=True)


# --- results ---------------------------------------------------------------------------------------------------------


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
    """Count each status for each op."""
    found: dict[str, Counter[str]] = {}
    for each in results:
        found.setdefault(each.op, Counter())[each.status.value] += 1
    return found


# --- known failures --------------------------------------------------------------------------------------------------
# With a list of them, a run fails only for new failures and for an outdated list. A line is `ID  # the beginning of the
# message`. A listed vector that passes, is skipped, fails with another message or is not in the suite makes the run
# fail, so that the list stays true.

#: How much of a message is written to a list: its first figures, not what depends on the machine.
_PREFIX: Final = 100
#: No list is larger, in bytes.
_LARGEST: Final = 1 << 24


def read_list(path: str | Path) -> dict[str, str]:
    """Return the messages of a list by id; a missing file counts as an empty list.

    :raises SettingError: for a line that is not an entry, and for an id that occurs twice
    """
    found: dict[str, str] = {}
    try:
        lines = read_regular(path, _LARGEST).decode("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise SettingError(f"the list of known failures is not UTF-8 at byte {error.start:,}") from None
    for number, line in enumerate(lines, 1):
        id_, _, message = (part.strip() for part in line.partition("#"))
        if not id_:
            continue
        if len(id_.split()) != 1 or id_ in found:
            raise SettingError(
                f"line {number} of the list of known failures: {quote(line, limit=80)} is not `ID  # message`"
            )
        found[id_] = message
    return found


def apply(run: RunResult, known: dict[str, str], whole: bool) -> None:
    """Mark the failures that a list expects, and note where it is out of date.

    :param whole: whether all vectors were run; if not, listed vectors that were not run are not reported
    """
    results = {result.id: result for result in run.results}
    for id_, message in known.items():
        result = results.get(id_)
        if result is None:
            if whole:
                run.unexpected.append(f"{id_} is a known failure, and no vector has this id")
        elif result.status not in FAILURES:
            how = "passes" if result.status is Status.PASS else f"is {result.status}"
            run.unexpected.append(f"{id_} is a known failure, and {how}")
        elif not result.text.startswith(message):
            run.unexpected.append(f"{id_} is a known failure with another message: {result.text}")
        else:
            run.known.add(id_)


def write_list(run: RunResult, path: str | Path) -> int:
    """Write the failures of a run as the list; returns their number."""
    failed = [result for result in run.results if result.status in FAILURES]
    lines = [
        f"# Known failures of {quote(run.implementation.name, bare=True)}; `i2s conform run --fix` writes this list."
    ]
    lines += [f"{result.id}  # {_prefix(result)}" for result in failed]
    with OutputFile(path, force=True) as output:
        output.write(("\n".join(lines) + "\n").encode("utf-8"))
    return len(failed)


def _prefix(result: CaseResult) -> str:
    return result.text[:_PREFIX].replace("\n", " ").strip()
