"""This module says what runs show about programs whose source was not read: which types and architectures they accept.

If a program refused a file, other runs show the cause: it refuses a type if it loads a model of the same architecture
in floats; it refuses an architecture if it loads another one in the same types. About a file of an architecture that was
never examined, only runs of files of that architecture show anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import quote
from i2s_spec.linter.runtimes.reason import Reason
from i2s_spec.linter.runtimes.run_records import RUN_PREFIX, RunRecord, records
from i2s_spec.schema.programs.runtimes import LOOKED_UP

if TYPE_CHECKING:
    from i2s_spec.linter.analysis.subject import Subject
    from i2s_spec.schema.programs.runtimes import Runtime

_FLOATS: Final = frozenset({"F32", "F16", "BF16", "F64"})


def runs_of(runtime: Runtime, subject: Subject) -> list[RunRecord]:
    """The runs of the packages that are a runtime, or contain it, which may show something about a file."""
    runs = [run for run in records().values() if run.program in runtime.programs]
    return runs if was_examined(subject) else [run for run in runs if _same_architecture(run, subject)]


def was_examined(subject: Subject) -> bool:
    """Whether runtimes were examined for the architecture of a file; an undeclared one is only looked at by its types."""
    return subject.declared is None or subject.declared.prefix in LOOKED_UP


def _same_architecture(run: RunRecord, subject: Subject) -> bool:
    return subject.declared is not None and run.file.architecture == subject.declared.name


def says_something(source: str, subject: Subject) -> bool:
    """Whether a citation says something about a file: a run does if it was of such an architecture, or this was examined."""
    if not source.startswith(RUN_PREFIX) or was_examined(subject):
        return True
    return _same_architecture(records()[source.removeprefix(RUN_PREFIX)], subject)


def packed_types(subject: Subject) -> frozenset[str]:
    """The names of the types of a file's tensors, without float types; an unknown number is its own name."""
    return _types(subject) - _FLOATS


def _types(subject: Subject) -> frozenset[str]:
    tensors, index = subject.file.tensors, subject.file.index
    numbers = {index.tensor(i).type for i in range(index.tensors)}
    kinds = {number: tensors.common_type(number) for number in numbers}
    return frozenset(str(number) if kind is None else kind.name for number, kind in kinds.items())


def refused_type(runtime: Runtime, subject: Subject, name: str) -> RunRecord | None:
    """A run that shows that a runtime refuses a type of tensors: it loads the same architecture in floats."""
    runs = runs_of(runtime, subject)
    loaded = {run.file.architecture for run in runs if run.loads and not run.file.types - _FLOATS}
    for run in runs:
        if not run.loads and run.file.types - _FLOATS == {name} and run.file.architecture in loaded:
            return run
    return None


def _refused_architecture(runtime: Runtime, name: str) -> RunRecord | None:
    """A run that shows that a runtime refuses an architecture: it loads another one in the same types of floats."""
    runs = [run for run in records().values() if run.program in runtime.programs]
    if any(run.loads and run.file.architecture == name for run in runs):
        return None
    loaded = {run.file.types for run in runs if run.loads and not run.file.types - _FLOATS}
    for run in runs:
        if not run.loads and run.file.architecture == name and run.file.types in loaded:
            return run
    return None


def reasons(subject: Subject, runtime: Runtime) -> Iterator[Reason]:
    """What runs show about a file; that it was not tried, if they show nothing."""
    fault = subject.file.fault
    if fault is not None:
        yield Reason(f"not tried: a header with a fault ({fault.code})", "", "unknown", fault.span)
        return
    types, engine = _types(subject), runtime.kind == "engine"
    for name in sorted(types - _FLOATS):
        run = refused_type(runtime, subject, name)
        if run is not None:
            yield Reason(f"it refuses {name}: {_printed(run)}", run.citation, "no")
            return
    architecture = subject.architecture if engine else ""
    run = _refused_architecture(runtime, architecture) if engine else None
    if run is not None:
        yield Reason(f"it refuses the architecture: {_printed(run)}", run.citation, "no")
        return
    alike = [run for run in runs_of(runtime, subject) if types and types <= run.file.types
             and architecture in ("", run.file.architecture)]  # fmt: skip
    refused = next((run for run in alike if not run.loads and run.file.types == types), None)
    whole = next((run for run in alike if run.loads), None)
    if whole is not None and refused is not None:
        text = f"not tried: it loaded one file with these types, and refused another ({_printed(refused)})"
        yield Reason(text, refused.citation, "unknown")
        return
    if whole is None:
        yield not_tried(subject, engine)
        return
    shown = f": {whole.shown}" if whole.shown else ""
    yield Reason(f"it loaded such a file{shown}", whole.citation, "note")
    if engine:
        yield Reason("not tried: what it computes", "", "doubt")


def not_tried(subject: Subject, engine: bool) -> Reason:
    """That nobody tried such a file, with its types, and with its architecture if that matters."""
    words = ", ".join(sorted(_types(subject))) or "a file without tensors"
    known = not engine and was_examined(subject)
    more = "" if known else f" in a model of architecture {quote(subject.architecture, 64)}"
    return Reason(f"not tried: {words}{more}", "", "unknown")


def _printed(run: RunRecord) -> str:
    """The first lines that a user of the program sees."""
    lines = run.printed or (run.end,)
    return "; ".join(dict.fromkeys((lines[0], lines[-1])))[:240]
