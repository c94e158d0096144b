"""The verdicts on runtimes: for each, whether it loads this file, whether it computes correctly, and why.

    loads     yes; no; with option (needs another command first); vocabulary only (the file has nothing else); crash (it
              crashes, or never returns); not tried
    computes  correctly; wrongly; depends on the machine; not tried; empty if it does not load the file, or only reads
              headers

Every reason cites its source (`records.citation`): a record of a run, a thread, a line of source, recorded behavior.
Without a source, the verdict is `not tried`, and nothing is claimed. Verdicts are about the file as it is; the dialect,
which no file states, is canonical unless the caller names another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from i2s_spec.inspect.kind import RecognisedKind
from i2s_spec.linter.analysis.context import Subject, analysis
from i2s_spec.linter.runtimes import compute_checks, header_checks, loader_checks, records
from i2s_spec.linter.runtimes.header_checks import Headers
from i2s_spec.linter.runtimes.records import Reason, citation
from i2s_spec.schema.dialect import CANONICAL, Dialect, parse
from i2s_spec.schema.runtimes import RUNTIME, RUNTIMES, Runtime

YES: Final = "yes"
NO: Final = "no"
WITH_OPTION: Final = "with option"
VOCABULARY: Final = "vocabulary only"
CRASH: Final = "crash"
NOT_TRIED: Final = "not tried"

CORRECTLY: Final = "correctly"
WRONGLY: Final = "wrongly"
DEPENDS: Final = "depends on the machine"
NOTHING: Final = "-"

#: The verdict on loading for each effect of a reason, the worst last.
_LOADS: Final = {"vocabulary": VOCABULARY, "option": WITH_OPTION, "unknown": NOT_TRIED, "no": NO, "crash": CRASH}
_COMPUTES: Final = {"doubt": NOT_TRIED, "cpu": DEPENDS, "wrong": WRONGLY}

#: Effects, the most severe first.
_WEIGHTS: Final = ("crash", "no", "unknown", "option", "vocabulary", "wrong", "cpu", "doubt", "note")

#: The titles of the table's columns.
COLUMNS: Final = ("runtime", "loads", "computes", "why")


class Verdict(NamedTuple):
    """The verdict of one runtime on a file; the decisive reasons come first."""

    runtime: str
    title: str
    loads: str
    computes: str
    reasons: tuple[Reason, ...]

    def as_dict(self) -> dict[str, Any]:
        """The verdict as plain data; text from the file is escaped."""
        return {
            "runtime": self.runtime,
            "title": self.title,
            "loads": self.loads,
            "computes": self.computes,
            "reasons": [
                {
                    "text": reason.text,
                    "source": reason.source,
                    "citation": citation(reason.source),
                    "effect": reason.effect,
                    "span": None if reason.span is None else reason.span._asdict(),
                }
                for reason in self.reasons
            ],
        }


def verdicts(subject: Subject, dialect: str | Dialect = "canonical") -> tuple[Verdict, ...]:
    """The verdicts of all declared runtimes on a file.

    :param dialect: how its I2_S tensors are packed, if that is known
    :raises FormatError: if the file can no longer be read
    :raises ValueError: for a dialect that does not exist
    """
    packed = parse(dialect)
    return canonical_verdicts(subject) if packed == CANONICAL else _verdicts(subject, packed)


@analysis
def canonical_verdicts(subject: Subject) -> tuple[Verdict, ...]:
    """The verdicts of all declared runtimes on a file whose I2_S tensors are canonical."""
    return _verdicts(subject, CANONICAL)


def _verdicts(subject: Subject, packed: Dialect) -> tuple[Verdict, ...]:
    headers = Headers(subject)
    made: dict[str, Verdict] = {}
    other = _other_kind(subject)
    for runtime in RUNTIMES:
        if other is not None and (runtime.recorded or runtime.kind != "reader"):
            # Runs and sources are about models: they say nothing about a file that is used in another way.
            made[runtime.name] = _worst(runtime, [Reason(other.not_tried, "", "unknown")])
            continue
        made[runtime.name] = (
            _front(runtime, made[runtime.of])
            if runtime.kind == "front"
            else _verdict(subject, runtime, headers, packed)
        )
    return tuple(made.values())


def _other_kind(subject: Subject) -> RecognisedKind | None:
    """The kind of a file that is used in another way than a model."""
    return subject.kind if subject.kind is not None and subject.kind.is_beside else None


def _second_meanings(subject: Subject, runtime: Runtime) -> list[Reason]:
    """Type numbers with the meaning of a single program: no record is of such a file."""
    if runtime.kind == "reader":
        return []
    return [
        Reason(f"not tried: type {number}, which is {each.names} in this file", "", "doubt",
               subject.info_span(subject.first_of_type(number), "type"))
        for number, each in subject.second_readings.items()
    ]  # fmt: skip


def _verdict(subject: Subject, runtime: Runtime, headers: Headers, dialect: Dialect) -> Verdict:
    second = _second_meanings(subject, runtime)
    if runtime.recorded:
        return _worst(runtime, [*_elsewhere(subject), *records.reasons(subject, runtime), *second])
    found = [*header_checks.reasons(subject, runtime, headers), *second]
    stopped = any(reason.effect in _LOADS for reason in found)
    if runtime.kind == "reader":
        shown = runtime.fact("lists")
        if not stopped and shown is not None and subject.has_i2s:
            if records.says_something(shown.source, subject):
                found.append(Reason(shown.text, shown.source, "note"))
            else:
                found += records.reasons(subject, runtime)
        elif not found and _other_kind(subject) is None and subject.file.fault is None:
            found = [reason for reason in records.reasons(subject, runtime) if reason.effect == "note"]
        return _worst(runtime, found)
    if not stopped and subject.file.fault is None:
        found += loader_checks.reasons(subject, runtime)
        stopped = any(reason.effect in _LOADS for reason in found)
        architecture = subject.declared
        if not stopped and architecture is not None:
            found += compute_checks.reasons(subject, runtime, architecture, dialect)
    elif not stopped:
        text = "not tried: the header has a fault that this reader ignores"
        found.append(Reason(text, runtime.source, "unknown"))
    return _worst(runtime, found)


def _elsewhere(subject: Subject) -> Iterator[Reason]:
    """Why runs of other files say nothing about a file: its tensors are not where the header puts them, or not all there."""
    if subject.placements.end > subject.data_size:
        yield Reason("not tried: tensors reach beyond the end of the file", "", "unknown")
    elif subject.shift is not None:
        yield Reason(f"not tried: all tensors lie {subject.shift.words} than the header says", "", "doubt")


def _worst(runtime: Runtime, found: list[Reason]) -> Verdict:
    """The verdict on loading and computing, by the worst reason."""
    if not found:
        found = [Reason("nothing in its source contradicts the file", runtime.source, "note")]
    effects = {reason.effect for reason in found}
    loads = next((word for effect, word in reversed(_LOADS.items()) if effect in effects), YES)
    computes = next((word for effect, word in reversed(_COMPUTES.items()) if effect in effects), CORRECTLY)
    if runtime.kind == "reader" or loads in (NO, CRASH, VOCABULARY):
        computes = NOTHING
    elif loads == NOT_TRIED:
        computes = NOT_TRIED
    ordered = tuple(sorted(found, key=lambda reason: _WEIGHTS.index(reason.effect)))
    return Verdict(runtime.name, runtime.title, loads, computes, ordered)


def _front(runtime: Runtime, engine: Verdict) -> Verdict:
    """The verdict of a front end: that of its engine, with its own error message."""
    reasons = engine.reasons
    if engine.loads == VOCABULARY:  # a front end needs a model
        text = "the file has a vocabulary and no tensors: there is no model in it"
        return Verdict(runtime.name, runtime.title, NO, NOTHING, (Reason(text, engine.reasons[0].source, "no"),))
    refusal = RUNTIME[runtime.of].refusal
    if engine.loads not in (NO, CRASH):
        text = f"it is built on {runtime.of}; it was not run itself, and this verdict is that of {runtime.of}"
        reasons = (Reason(text, runtime.source, "note"), *reasons)
    elif refusal is not None and runtime.refusal is not None and reasons and reasons[0].source == refusal.source:
        first = engine.reasons[0]
        text = f"{first.text}; {runtime.refusal.text}"
        reasons = (first._replace(text=text, source=runtime.refusal.source), *engine.reasons[1:])
    return Verdict(runtime.name, runtime.title, engine.loads, engine.computes, reasons)


def table(verdicts: Iterable[Verdict | Mapping[str, Any]]) -> list[list[str]]:
    """The verdicts as rows of plain text, the first with the names of the columns; no rows if there are no verdicts.

    :param verdicts: verdicts, or their `as_dict` form
    """
    rows = []
    for verdict in verdicts:
        about = verdict.as_dict() if isinstance(verdict, Verdict) else verdict
        why = [f"{each['text']} ({each['source']})" if each["source"] else each["text"] for each in about["reasons"]]
        first = why[0] if why else ""
        more = f"; and {len(why) - 1} more" if len(why) > 1 else ""
        rows.append([about["title"], about["loads"], about["computes"], first + more])
    return [list(COLUMNS), *rows] if rows else []
