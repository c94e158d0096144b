"""The table of runs of other programs: what they printed and computed for small files, and their answers to the vectors.

`python tests/peers` in a checkout writes it to `records.json`; `records.schema.json` describes it. A fact that a run
shows is cited as `run PROGRAM/FILE`. `--runtimes` makes no statement about a program without a record or a source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import Span, counted, quote
from i2s_spec.schema.runtimes import LOOKED_UP

if TYPE_CHECKING:
    from i2s_spec.linter.analysis.context import Subject
    from i2s_spec.schema.runtimes import Runtime

RECORDS_FILE: Final = Path(__file__).with_name("records.json")
SCHEMA_VERSION: Final = 1

#: What precedes the id of a record in a citation.
RUN_PREFIX: Final = "run "


class TriedFile(NamedTuple):
    """A small file: the `i2s` commands that make it, its SHA-256 and size, its architecture and types of tensors."""

    name: str
    commands: tuple[str, ...]
    sha256: str
    bytes: int
    architecture: str
    types: frozenset[str]


class Computed(NamedTuple):
    """A comparison of a program's results with our forward pass of the file `against`, with these numerics.

    `correlation` is Pearson's, over all log-probabilities at all positions; `argmax` counts the positions with the same
    most likely token, out of `positions`.
    """

    against: str
    numerics: str
    correlation: float
    argmax: int
    positions: int

    @property
    def agrees(self) -> bool:
        """Whether the results agree with our forward pass, except for the rounding of the program's kernels.

        If activations are quantized in blocks with a scale each, logits change by 3 %. This can exchange two tokens
        with nearly the same probability, which is allowed at one position of eight.
        """
        return self.correlation >= 0.999 and 8 * (self.positions - self.argmax) <= self.positions

    @property
    def text(self) -> str:
        """The comparison as part of a sentence."""
        return (
            f"correlation {self.correlation:.5f} with our forward pass, same most likely token at "
            f"{self.argmax} of {counted(self.positions, 'position')}"
        )


class RunRecord(NamedTuple):
    """One run of a program on a file.

    `end` is its exit status or signal, in words; `printed` the relevant lines of its output, `shown` what it reports
    about a file that it reads.
    """

    id: str
    program: str
    version: str
    date: str
    file: TriedFile
    loads: bool
    end: str
    printed: tuple[str, ...]
    shown: str
    computed: tuple[Computed, ...]

    @property
    def citation(self) -> str:
        """The citation of this run."""
        return RUN_PREFIX + self.id


class DecoderRun(NamedTuple):
    """A run of an implementation on the test vectors, as counts: a pair is the number of right answers and of all.

    :param source: package and version, empty for an adapter that was written from the text
    :param counts: vectors by the name of their status
    :param files: `sound` and `malformed` files as pairs, and `ended`, ids of vectors at which it crashed or hung; empty
        unless it reads files
    :param tensors: a pair for each layout and type, by the feature of the vectors
    :param models: the pair for forward passes
    :param failures: the first failures, each as id, operation and first difference
    """

    id: str
    name: str
    version: str
    source: str
    date: str
    suite_version: str
    counts: dict[str, int]
    files: dict[str, list[Any]]
    tensors: dict[str, list[int]]
    models: list[int]
    failures: list[str]


def _table() -> dict[str, Any]:
    about: dict[str, Any] = json.loads(RECORDS_FILE.read_text(encoding="utf-8"))
    return about


def decoders() -> list[DecoderRun]:
    """The runs on test vectors, in the order of the file."""
    return [DecoderRun(**each) for each in _table()["decoders"]]


@cache
def records() -> dict[str, RunRecord]:
    """All records, by their ids."""
    about = _table()
    files = {
        each["name"]: TriedFile(
            each["name"], tuple(each["commands"]), each["sha256"], each["bytes"], each["architecture"],
            frozenset(each["types"]),
        )
        for each in about["files"]
    }  # fmt: skip
    return {
        each["id"]: RunRecord(
            each["id"], each["program"], each["version"], each["date"], files[each["file"]], each["loads"], each["end"],
            tuple(each["printed"]), each["shown"], tuple(Computed(**one) for one in each["computed"]),
        )
        for each in about["records"]
    }  # fmt: skip


# --- tried -----------------------------------------------------------------------------------------------------------
# What runs show about programs whose source was not read: which types and architectures they accept.
#
# If a program refused a file, other runs show the cause: it refuses a type if it loads a model of the same architecture
# in floats; it refuses an architecture if it loads another one in the same types. About a file of an architecture that was
# never examined, only runs of files of that architecture show anything.

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


# --- reason ----------------------------------------------------------------------------------------------------------
# A reason: why a runtime loads, refuses or miscomputes a file, and the source of that statement.


class Reason(NamedTuple):
    """The reason for a verdict: a sentence, its source, the place in the file, and its effect.

    `effect` is `no`, `crash`, `option`, `vocabulary`, `unknown` (about loading), `wrong`, `cpu`, `doubt` (about
    computing), or `note`. The source is a citation as `citation` defines it; the reason that something was not tried
    has none. `check` names a check of loaders: the source for the statement that a runtime makes this check is declared
    there.
    """

    text: str
    source: str
    effect: str
    span: Span | None = None
    check: str = ""


# --- citation --------------------------------------------------------------------------------------------------------
# Parses citations: the source of a fact about a runtime, as data.
#
# run PROGRAM/FILE                        a record of a run (`run_records`)
# OWNER/REPOSITORY#N, ... discussion N    a thread of a public repository
# OWNER/REPOSITORY@COMMIT:PATH[:LINE]     a place in public source
# PACKAGE VERSION PATH[:LINE]             a place in a published package
# tests/oracle/PATH                       bytes, numbers or messages that a program built from source gave

_FORMS: Final = (
    ("thread", r"(?P<repository>[\w.-]+/[\w.-]+)(?:#| discussion )(?P<number>\d+)"),
    ("source", r"(?P<repository>[\w.-]+/[\w.-]+)@(?P<commit>[0-9a-f]{7,40}):(?P<path>[^: ]+)(?::(?P<line>\d+))?"),
    ("package", r"(?P<package>[@\w./-]+) (?P<version>\d[\w.]*) (?P<path>[^: ]+)(?::(?P<line>\d+))?"),
    ("vectors", r"(?P<path>tests/oracle/[^: ]+)"),
)


def citation(source: str) -> dict[str, Any] | None:
    """The parsed citation: `kind`, and the fields of that kind; None for an empty source, if something was not tried.

    :raises ValueError: for a source of another form, or a run without a record
    """
    if not source:
        return None
    if source.startswith(RUN_PREFIX):
        try:
            return _run(records()[source.removeprefix(RUN_PREFIX)])
        except KeyError:
            raise ValueError(f"there is no record of {source!r}") from None
    for kind, form in _FORMS:
        found = re.fullmatch(form, source)
        if found is not None:
            parts = {name: value for name, value in found.groupdict().items() if value is not None}
            return {"kind": kind} | {
                name: int(value) if name in ("number", "line") else value for name, value in parts.items()
            }
    raise ValueError(f"{source!r} is not a citation")


def _run(record: RunRecord) -> dict[str, Any]:
    return {
        "kind": "run", "record": record.id, "program": record.program, "version": record.version, "date": record.date,
        "commands": list(record.file.commands), "sha256": record.file.sha256, "loads": record.loads, "end": record.end,
        "printed": list(record.printed), "shown": record.shown,
        "computed": [one._asdict() for one in record.computed],
    }  # fmt: skip
