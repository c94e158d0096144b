"""What recorded runs show about a file: by its form, its types, and its architecture.

A run of a file of the same form shows what a program does with this one (`runs_of_form`). Where there is none, a run that
differs from another in one thing shows what that thing does; and if each attribute of the form was computed correctly
alone, a program is expected to compute them together. About all other files, runs show nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import quote
from i2s_spec.linter.analysis.context import analysis
from i2s_spec.linter.runtimes import records
from i2s_spec.linter.runtimes.forms import FileForm, form_of
from i2s_spec.linter.runtimes.records import RUN_PREFIX, Reason, RunRecord, printed
from i2s_spec.schema.runtimes import LOOKED_UP

if TYPE_CHECKING:
    from i2s_spec.linter.analysis.context import LintContext
    from i2s_spec.schema.runtimes import Runtime

FLOATS: Final = frozenset({"F32", "F16", "BF16", "F64"})


@analysis
def form(subject: LintContext) -> FileForm:
    """Return the form of the file."""
    return form_of(subject.file)


def runs_of(runtime: Runtime) -> list[RunRecord]:
    """Return the runs of the packages that are a runtime, or contain it."""
    return [run for run in records.records().values() if run.program in runtime.programs]


# --- by the form -----------------------------------------------------------------------------------------------------


def runs_of_form(runtime: Runtime, wanted: FileForm) -> list[Reason]:
    """Return what runs show about files of a form; empty if they show nothing."""
    if not wanted.matrices:
        return []
    runs = [run for run in runs_of(runtime) if run.file.form.architecture == wanted.architecture and run.result]
    same = [run for run in runs if run.file.form == wanted]
    if same:
        return _of_same(runtime, same)
    for found in (_by_difference(runs, wanted), _by_parts(runs, wanted), _by_architecture(runs, wanted)):
        if found is not None:
            return [found]
    return []


def _of_same(runtime: Runtime, runs: list[RunRecord]) -> list[Reason]:
    """Return the results of runs on files of one form, if they are the same."""
    results = {run.result for run in runs}
    if len(results) == 1 or results <= {"right", "ran"}:
        first = {run.program: run for run in reversed(runs)}
        return [_shown(run) for run in reversed(first.values())]
    texts = "; ".join(dict.fromkeys(run.text for run in runs))
    loads = all(run.loads for run in runs)
    return [Reason(f"not tried: files of this form differ: {texts}", runs[0].citation, "doubt" if loads else "unknown")]


def _shown(run: RunRecord) -> Reason:
    """Return the result of a run for another file of its form."""
    if run.result == "right" and not run.file.form.states_activation:
        assumed = "ReLU²" if run.best.against.endswith(".relu2") else "SiLU"
        text = f"expected, if the model was trained with {assumed}, which the file does not state: {run.text}"
        return Reason(text, run.citation, "likely")
    return Reason(run.text, run.citation, run.result)


def _by_difference(runs: list[RunRecord], wanted: FileForm) -> Reason | None:
    """Return a failed run that differs from a good one in one thing, which the file has, too."""
    for bad in runs:
        if bad.result not in ("wrong", "no"):
            continue
        good = (run for run in runs if run.result == "right" or (run.result and run.loads and not bad.loads))
        for cause in {cause for run in good for cause in _only_cause(bad.file.form, run.file.form)}:
            if cause in wanted.matrices or cause in wanted.attributes:
                return Reason(f"because of {_words(cause)}: {bad.text}", bad.citation, bad.result)
    return None


def _only_cause(bad: FileForm, good: FileForm) -> Iterable[str]:
    """Return the one thing that a form has and another has not: an attribute, or a type of matrices; none if there
    are several.
    """
    types = bad.matrices - good.matrices
    rest = {each for each in bad.attributes - good.attributes if not _is_of(each, types)}
    return types | rest if len(types | rest) == 1 else ()


def _is_of(attribute: str, types: Iterable[str]) -> bool:
    return attribute.startswith(tuple(f"matrices of {each} " for each in types))


def _words(cause: str) -> str:
    return cause if " " in cause else f"matrices of {cause}"


def _by_parts(runs: list[RunRecord], wanted: FileForm) -> Reason | None:
    """Look for good runs that together have each attribute of the form, each at most one feature more than all have."""
    right = [run for run in runs if run.result == "right" and run.file.form.features <= wanted.features]
    if not right:
        return None
    shared = frozenset.intersection(*(run.file.form.features for run in runs if run.loads))
    alone = [run for run in right if len(run.file.form.features - shared) <= 1]
    missing, used = set(wanted.attributes), []
    for run in sorted(alone, key=lambda run: -len(run.file.form.attributes & wanted.attributes)):
        if run.file.form.attributes & missing:
            missing -= run.file.form.attributes
            used.append(run)
    if missing or not any(not run.file.form.features - shared for run in alone):
        return None
    shown = ", ".join(run.id for run in used)
    text = f"expected, not run: each type, size and feature of the file was computed correctly in another one ({shown})"
    return Reason(text, used[0].citation, "likely")


def _by_architecture(runs: list[RunRecord], wanted: FileForm) -> Reason | None:
    """Return a run of the smallest file of an architecture, without comparison, if it has the same features."""
    for run in runs:
        if run.result == "ran" and wanted.features <= run.file.form.features:
            who = f"{run.program} {run.version}"
            text = f"{who} computed finite values for another file of this architecture, which nobody compared"
            return Reason(text, run.citation, "ran")
    return None


# --- programs whose source was not read ------------------------------------------------------------------------------
# Runs show which types and architectures they accept. If a program refused a file, other runs show the cause: it refuses
# a type if it loads a model of the same architecture in floats; it refuses an architecture if it loads another one in the
# same types. About a file of an architecture that was never examined, only runs of files of that architecture show
# anything.


def was_examined(subject: LintContext) -> bool:
    """Whether runtimes were examined for the architecture of a file; an undeclared one is only looked at by its types."""
    return subject.declared is None or subject.declared.prefix in LOOKED_UP


def says_something(source: str, subject: LintContext) -> bool:
    """Whether a citation says something about a file: a run does if it was of such an architecture, or this was examined."""
    if not source.startswith(RUN_PREFIX) or was_examined(subject):
        return True
    run = records.records()[source.removeprefix(RUN_PREFIX)]
    return run.file.form.architecture == form(subject).architecture


def _types(subject: LintContext) -> frozenset[str]:
    """Return the names of the types of a file's tensors; an unknown number is its own name."""
    kinds = {number: subject.file.tensors.common_type(number) for number in subject.type_numbers}
    return frozenset(str(number) if kind is None else kind.name for number, kind in kinds.items())


def refused_type(runtime: Runtime, subject: LintContext, name: str) -> RunRecord | None:
    """Return a run that shows that a runtime refuses a type of tensors: it loads the same architecture in floats."""
    own = form(subject).architecture
    runs = [run for run in runs_of(runtime) if was_examined(subject) or run.file.form.architecture == own]
    loaded = {run.file.form.architecture for run in runs if run.loads and not run.file.types - FLOATS}
    for run in runs:
        if not run.loads and run.file.types - FLOATS == {name} and run.file.form.architecture in loaded:
            return run
    return None


def _refused_architecture(runtime: Runtime, name: str) -> RunRecord | None:
    """Return a run that shows that a runtime refuses an architecture: it loads another one in the same types of
    floats.
    """
    runs = runs_of(runtime)
    if any(run.loads and run.file.form.architecture == name for run in runs):
        return None
    loaded = {run.file.types for run in runs if run.loads and not run.file.types - FLOATS}
    for run in runs:
        if not run.loads and run.file.form.architecture == name and run.file.types in loaded:
            return run
    return None


def reasons(subject: LintContext, runtime: Runtime) -> Iterator[Reason]:
    """Yield what runs show about a file; that it was not tried, if they show nothing."""
    fault = subject.file.fault
    if fault is not None:
        yield Reason(f"not tried: a header with a fault ({fault.code})", "", "unknown", fault.span)
        return
    engine, types = runtime.kind == "engine", _types(subject)
    shown = runs_of_form(runtime, form(subject)) if engine else []
    if shown:
        yield from shown
        return
    for name in sorted(types - FLOATS):
        run = refused_type(runtime, subject, name)
        if run is not None:
            yield Reason(f"it refuses {name}: {printed(run)}", run.citation, "no")
            return
    run = _refused_architecture(runtime, form(subject).architecture) if engine else None
    if run is not None:
        yield Reason(f"it refuses the architecture: {printed(run)}", run.citation, "no")
        return
    alike = [run for run in runs_of(runtime) if types and run.file.types == types]
    if engine:
        alike = [run for run in alike if run.file.form == form(subject)]
    refused, whole = (next((run for run in alike if run.loads == loads), None) for loads in (False, True))
    if whole is None or not (was_examined(subject) or engine):
        yield not_tried(subject, engine)
    elif refused is not None:
        text = f"not tried: it loaded one file with these types, and refused another ({printed(refused)})"
        yield Reason(text, refused.citation, "unknown")
    else:
        yield Reason("it loaded a file with these types", whole.citation, "note")
        if engine:
            yield Reason("not tried: what it computes", "", "doubt")


def not_tried(subject: LintContext, engine: bool) -> Reason:
    """Return the reason that nobody tried such a file, with its types, and with its architecture if that matters."""
    words = ", ".join(sorted(_types(subject))) or "a file without tensors"
    known = not engine and was_examined(subject)
    more = "" if known else f" in a model of architecture {quote(subject.architecture, 64)}"
    return Reason(f"not tried: {words}{more}", "", "unknown")


def not_computed(subject: LintContext) -> Reason:
    """Return the reason that nobody compared what a program computes for such a file."""
    found = form(subject)
    kinds = ", ".join(sorted(found.matrices)) or "a file without matrices"
    features = f" and {', '.join(sorted(found.features))}" if found.features else ""
    return Reason(
        f"not tried: {kinds} in a model of architecture {quote(found.architecture, 64)}{features}", "", "doubt"
    )
