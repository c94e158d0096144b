"""The verdicts on runtimes: for each, whether it loads this file, whether it computes correctly, and why.

    loads     yes; no; with option (needs another command first); vocabulary only (the file has nothing else); crash (it
              crashes, or never returns); not tried
    computes  correctly (a run of a file of this form agreed with our forward pass); expected (each type, size and feature
              did so alone, or not all weights of this file were read); not compared (it ran such a file); wrongly;
              depends on the machine; not tried; empty if it does not load the file, or only reads headers
    devices   where llama.cpp computes it (`devices`)

Every reason cites its source (`records.citation`): a record of a run, a thread, a line of source, recorded behavior.
Without a source, the verdict is `not tried`, and nothing is claimed. Verdicts are about the file as it is; the dialect,
which no file states, is canonical unless the caller names another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import Span, quote
from i2s_spec.inspect.kind import RecognisedKind
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.linter.runtimes import compute_checks, devices, header_checks, loader_checks, records
from i2s_spec.linter.runtimes.header_checks import Headers
from i2s_spec.linter.runtimes.records import Reason, citation
from i2s_spec.schema import limits
from i2s_spec.schema.dialect import CANONICAL, Dialect, parse
from i2s_spec.schema.runtimes import RUNTIME, RUNTIMES, Runtime

if TYPE_CHECKING:
    from i2s_spec.linter.rule import Finding

YES: Final = "yes"
NO: Final = "no"
WITH_OPTION: Final = "with option"
VOCABULARY: Final = "vocabulary only"
CRASH: Final = "crash"
NOT_TRIED: Final = "not tried"

CORRECTLY: Final = "correctly"
EXPECTED: Final = "expected"
NOT_COMPARED: Final = "not compared"
WRONGLY: Final = "wrongly"
DEPENDS: Final = "depends on the machine"
NOTHING: Final = "-"

#: The verdict on loading for each effect of a reason, the worst last; and on computing.
LOADS: Final = {"vocabulary": VOCABULARY, "option": WITH_OPTION, "unknown": NOT_TRIED, "no": NO, "crash": CRASH}
COMPUTES: Final = {
    "right": CORRECTLY, "likely": EXPECTED, "cpu": DEPENDS, "ran": NOT_COMPARED, "doubt": NOT_TRIED, "wrong": WRONGLY,
}  # fmt: skip

#: Effects, the most severe first.
_WEIGHTS: Final = (*reversed(LOADS), *reversed(COMPUTES), "note")

#: The titles of the table's columns.
COLUMNS: Final = ("runtime", "loads", "computes", "devices", "why")


class Verdict(NamedTuple):
    """The verdict of one runtime on a file; the decisive reasons come first."""

    runtime: str
    title: str
    loads: str
    computes: str
    reasons: tuple[Reason, ...]
    devices: tuple[tuple[str, str], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as plain data; text from the file is escaped."""
        return {
            "runtime": self.runtime,
            "title": self.title,
            "loads": self.loads,
            "computes": self.computes,
            "devices": dict(self.devices),
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


def verdicts(subject: LintContext, dialect: str | Dialect = "canonical", *, unread: str = "") -> tuple[Verdict, ...]:
    """Return the verdicts of all declared runtimes on a file; none says yes below an error of `subject.errors`.

    :param dialect: how its I2_S tensors are packed, if that is known
    :param unread: says that weights were not read, if so: then none says that they are computed correctly
    :raises FormatError: if the file can no longer be read
    :raises ValueError: for a dialect that does not exist
    """
    packed = parse(dialect)
    found = canonical_verdicts(subject) if packed == CANONICAL else _verdicts(subject, packed)
    if unread:
        found = tuple(_unread(verdict, unread) for verdict in found)
    return tuple(_below(verdict, subject.errors) for verdict in found) if subject.errors else found


@analysis
def canonical_verdicts(subject: LintContext) -> tuple[Verdict, ...]:
    """Return the verdicts of all declared runtimes on a file whose I2_S tensors are canonical."""
    return _verdicts(subject, CANONICAL)


def _verdicts(subject: LintContext, packed: Dialect) -> tuple[Verdict, ...]:
    made = VerdictByName(subject, packed)
    return tuple(made[runtime.name] for runtime in RUNTIMES)


class VerdictByName(dict[str, Verdict]):
    """The verdicts on a file by the names of runtimes, each made when it is first asked for; errors are not considered."""

    def __init__(self, subject: LintContext, packed: Dialect = CANONICAL) -> None:
        super().__init__()
        self._subject = subject
        self._packed = packed
        self._headers = Headers(subject)
        self._other = _other_kind(subject)

    def __missing__(self, name: str) -> Verdict:
        runtime = RUNTIME[name]
        if self._other is not None and (runtime.recorded or runtime.kind != "reader"):
            # Runs and sources are about models: they say nothing about a file that is used in another way.
            made = _worst(runtime, [Reason(self._other.not_tried, "", "unknown")])
        elif runtime.kind == "front":
            made = _front(self._subject, runtime, self[runtime.of] if runtime.of else None)
        else:
            made = _verdict(self._subject, runtime, self._headers, self._packed)
        self[name] = made
        return made


def _other_kind(subject: LintContext) -> RecognisedKind | None:
    """Return the kind of a file that is used in another way than a model."""
    return subject.kind if subject.kind is not None and subject.kind.is_beside else None


def _second_meanings(subject: LintContext, runtime: Runtime) -> list[Reason]:
    """Return the type numbers with the meaning of a single program: no record is of such a file."""
    if runtime.kind == "reader":
        return []
    return [
        Reason(f"not tried: type {number}, which is {each.names} in this file", "", "doubt",
               subject.info_span(subject.first_of_type(number), "type"))
        for number, each in subject.second_readings.items()
    ]  # fmt: skip


def _verdict(subject: LintContext, runtime: Runtime, headers: Headers, dialect: Dialect) -> Verdict:
    second = _second_meanings(subject, runtime)
    if runtime.recorded:
        found = [*_elsewhere(subject), *records.reasons(subject, runtime), *second]
        odd = loader_checks.unsound(subject) if runtime.kind == "engine" and not _stops(found) else None
        if odd is not None:
            text = f"not tried: all files that were run are sound, and of this one: {odd.text}"
            return _worst(runtime, [Reason(text, "", "unknown", odd.span)])
        if runtime.after and any(reason.effect in ("right", "likely") for reason in found):
            found.append(Reason(f"it reads the checkpoint that `{runtime.after}` writes", runtime.source, "option"))
        return _worst(runtime, found)
    found = [*header_checks.reasons(subject, runtime, headers), *second]
    stopped = _stops(found)
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
        stopped = _stops(found)
        architecture = subject.declared
        if not stopped and architecture is not None:
            found += compute_checks.reasons(subject, runtime, architecture, dialect)
        elif not stopped:
            shown_by_runs = records.runs_of_form(runtime, records.form(subject))
            found += shown_by_runs or [records.not_computed(subject)]
    elif not stopped:
        text = "not tried: the header has a fault that this reader ignores"
        found.append(Reason(text, runtime.source, "unknown"))
    verdict = _worst(runtime, found)
    if not runtime.on_devices or subject.file.fault is not None:
        return verdict
    form = records.form(subject)
    notes = tuple(devices.advice(form, runtime)) if verdict.loads == YES else ()
    where = devices.columns(form, verdict.loads, verdict.computes)
    return verdict._replace(reasons=(*verdict.reasons, *notes), devices=where)


def _stops(found: Iterable[Reason]) -> bool:
    """Whether a program does not load the file as it is."""
    return any(reason.effect in LOADS for reason in found)


def _elsewhere(subject: LintContext) -> Iterator[Reason]:
    """Yield why runs of other files say nothing about this one: tensors are not where the header puts them, or missing."""
    if subject.placements.end > subject.data_size:
        yield Reason("not tried: tensors reach beyond the end of the file", "", "unknown")
    elif subject.shift is not None:
        yield Reason(f"not tried: all tensors lie {subject.shift.words} than the header says", "", "doubt")


def _worst(runtime: Runtime, found: list[Reason]) -> Verdict:
    """Return the verdict on loading and computing, by the worst reason."""
    if not found:
        found = [Reason("nothing in its source contradicts the file", runtime.source, "note")]
    effects = {reason.effect for reason in found}
    loads = next((word for effect, word in reversed(LOADS.items()) if effect in effects), YES)
    computes = next((word for effect, word in reversed(COMPUTES.items()) if effect in effects), NOT_TRIED)
    if runtime.kind == "reader" or loads in (NO, CRASH, VOCABULARY):
        computes = NOTHING
    elif loads == NOT_TRIED:
        computes = NOT_TRIED
    ordered = tuple(sorted(found, key=lambda reason: _WEIGHTS.index(reason.effect)))
    return Verdict(runtime.name, runtime.title, loads, computes, ordered)


def _front(subject: LintContext, runtime: Runtime, engine: Verdict | None) -> Verdict:
    """Return the verdict of a front end: that of its own reader first; then it fails where its engine does, with its
    own words. That its engine computes a file says nothing about it, because it was not run."""
    own = _refused_by_reader(subject, runtime)
    if own is not None:
        return _worst(runtime, [own])
    if subject.file.fault is None and loader_checks.is_vocabulary(subject):  # a front end needs a model
        text = "the file has a vocabulary and no tensors: there is no model in it"
        return _worst(runtime, [Reason(text, runtime.source, "no")])
    if engine is None:
        fact = runtime.fact("engines")
        assert fact is not None
        return _worst(runtime, [Reason(f"not tried: {fact.text}", fact.source, "unknown")])
    if engine.loads not in (NO, CRASH):
        text = f"not tried: it was not run with such a file; {runtime.of}, on which it is built: {engine.loads}"
        text += f", {engine.computes}" if engine.computes != NOTHING else ""
        return _worst(runtime, [Reason(text, runtime.source, "unknown")])
    refusal, first = RUNTIME[runtime.of].refusal, engine.reasons[0]
    if refusal is not None and runtime.refusal is not None and first.source == refusal.source:
        first = first._replace(text=f"{first.text}; {runtime.refusal.text}", source=runtime.refusal.source)
    return Verdict(runtime.name, runtime.title, engine.loads, engine.computes, (first, *engine.reasons[1:]))


def _refused_by_reader(subject: LintContext, runtime: Runtime) -> Reason | None:
    """Return the first tensor of a type that the reader of a front end does not take."""
    index, refusal = subject.file.index, runtime.refusal
    if not runtime.types or refusal is None:
        return None
    for i in range(min(index.tensors, limits.MANY_TENSORS)):
        info = index.tensor(i)
        if info.type not in runtime.types:
            text = f"{quote(info.name, 64)} has type {info.type}: {refusal.text}"
            return Reason(text, refusal.source, "no", subject.info_span(i, "type"))
    return None


def _unread(verdict: Verdict, words: str) -> Verdict:
    """Return a verdict on a file that may have faults in weights that were not read."""
    if verdict.computes != CORRECTLY:
        return verdict
    reasons = (
        each._replace(text=f"{each.text}; {words}", effect="likely") if each.effect == "right" else each
        for each in verdict.reasons
    )
    return verdict._replace(computes=EXPECTED, reasons=tuple(reasons))


# --- errors ----------------------------------------------------------------------------------------------------------

# Recorded runs are of files without errors, so they say nothing about a file with one: no verdict says yes below an error,
# unless a reason of it is about the same bytes. The verdict of a program that only reads headers remains if its treatment
# of faults was examined.

#: The families of rules that are about what engines use: container, payload, metadata, tokenizer.
_USED: Final = ("G", "I", "B", "M", "A", "T")


def _below(verdict: Verdict, errors: Iterable[Finding]) -> Verdict:
    runtime = RUNTIME[verdict.runtime]
    if verdict.loads not in (YES, WITH_OPTION) or (runtime.kind == "reader" and runtime.container.known):
        return verdict
    for error in errors:
        if not error.code.startswith("G" if runtime.kind == "reader" else _USED):
            continue
        if not any(_meets(reason.span, error.span) for reason in verdict.reasons):
            text = f"not tried: no file with an error was run, and this one has {error.code} {error.rule.slug}"
            computes = NOTHING if runtime.kind == "reader" else NOT_TRIED
            reasons = (Reason(text, "", "unknown", error.span), *verdict.reasons)
            return verdict._replace(loads=NOT_TRIED, computes=computes, reasons=reasons, devices=())
    return verdict


def _meets(one: Span | None, other: Span) -> bool:
    return (
        one is not None and one.start < max(other.stop, other.start + 1) and other.start < max(one.stop, one.start + 1)
    )


def table(verdicts: Iterable[Verdict | Mapping[str, Any]]) -> list[list[str]]:
    """Return the verdicts as rows of plain text, the first with the names of the columns; no rows if there are no
    verdicts.

    :param verdicts: verdicts, or their `as_dict` form
    """
    rows = []
    for verdict in verdicts:
        about = verdict.as_dict() if isinstance(verdict, Verdict) else verdict
        why = [f"{each['text']} ({each['source']})" if each["source"] else each["text"] for each in about["reasons"]]
        first = why[0] if why else ""
        more = f"; and {len(why) - 1} more" if len(why) > 1 else ""
        where = "; ".join(f"{device}: {what}" for device, what in about["devices"].items())
        rows.append([about["title"], about["loads"], about["computes"], where, first + more])
    return [list(COLUMNS), *rows] if rows else []
