"""What is known of other programs from running them: records of runs, what they show, and citations of sources.

The table of runs, `records.json`, has what programs printed and computed for small files. `python tests/peers` in a
checkout writes it; `records.schema.json` describes it. Of runs that a signal ended, it has the number and the kind, and
their records say no more than that there was no answer. A fact that a run shows is cited as `run PROGRAM/FILE`.
`--runtimes` makes no statement about a program without a record or a source.

`records` gives the table; a `Reason` is the reason for a verdict, with its source, which `citation`
parses. `reasons` says what runs show about a file, by its `FileForm`.

    >>> from i2s_spec.gguf.reader import open as open_file
    >>> from i2s_spec.convert.new import new
    >>> import io
    >>> buffer = io.BytesIO()
    >>> _ = new(buffer, "llama", type="TQ2_0", embd=512, ff=1024, heads=8, layers=1)
    >>> sorted(form_of(open_file(buffer)).attributes)
    ['a head of F16', 'a table of F16', 'matrices of TQ2_0 with rows from 512, in 256s']
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import Span, counted, quote
from i2s_spec.gguf.tensor import FLOATS
from i2s_spec.linter.analysis.context import analysis
from i2s_spec.schema import limits
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.runtimes import LOOKED_UP

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.linter.analysis.context import LintContext
    from i2s_spec.schema.runtimes import Runtime

# --- form of a file --------------------------------------------------------------------------------------------------
# What decides how a program computes a model, except for the weights themselves. Two files have the same form if they have
# the same architecture, the same types of matrices, table and head, rows of the same classes of sizes, and the same
# features that change the graph. A run of a program on one of them shows what it does with the other.

#: How attributes begin that are types and sizes; all others are features.
_PLAIN: Final = ("matrices of ", "a table of ", "a head of ")

_TABLE, _HEAD = b"token_embd.weight", b"output.weight"
_LAYER: Final = re.compile(rb"(?:enc|dec)?\.?blk\.\d+\.")

#: Features by the endings and parts of tensor names.
_NAMED: Final = (
    ("rotary factors", re.compile(rb"rope_(?:freqs|factors_\w+)\.weight$")),
    ("scales beside weights", re.compile(rb"(?<!input_)(?<!\.input)[._]scale$")),
    ("scales of activations", re.compile(rb"\.input_scale$")),
    ("experts", re.compile(rb"_exps\.")),
    ("layers for later tokens", re.compile(rb"\.nextn\.")),
    ("norms before projections", re.compile(rb"_norm_in\.weight$")),
    ("norms inside attention and feed-forward", re.compile(rb"_sub_norm\.weight$")),
    ("biases of projections", re.compile(rb"blk\.\d+\.(?:attn|ffn)_(?!norm)\w+\.bias$")),
)

#: Features by keys of the architecture whose value is not 0.
_KEYED: Final = (
    ("a window of attention", "attention.sliding_window"),
    ("experts", "expert_count"),
    ("layers for later tokens", "nextn_predict_layers"),
    ("pooling", "pooling_type"),
)


class FileForm(NamedTuple):
    """The form of a file: its architecture, and its attributes, in words."""

    architecture: str
    attributes: frozenset[str]

    @property
    def features(self) -> frozenset[str]:
        """The attributes that change the graph: all but types and sizes."""
        return frozenset(each for each in self.attributes if not each.startswith(_PLAIN))

    @property
    def matrices(self) -> frozenset[str]:
        """The types of its matrices."""
        return frozenset(each.split()[2] for each in self.attributes if each.startswith(_PLAIN[0]))

    @property
    def states_activation(self) -> bool:
        """Whether the activation of the feed-forward network is known: if models with several have this architecture, only
        where the file states it."""
        declared = ARCHITECTURES.get(self.architecture)
        several = declared is not None and declared.takes_activation
        return not several or any(each.startswith("activation ") for each in self.attributes)

    def with_matrices(self, former: str, other: str) -> FileForm:
        """Return the form of a copy with the matrices of one type in another."""
        begin = f"{_PLAIN[0]}{former} "
        rest = (each.removeprefix(begin) for each in self.attributes if each.startswith(begin))
        others = (each for each in self.attributes if not each.startswith(begin))
        return FileForm(self.architecture, frozenset((*others, *(f"{_PLAIN[0]}{other} {each}" for each in rest))))


def form_of(file: File) -> FileForm:
    """Return the form of a file whose header can be read."""
    index, tensors = file.index, file.tensors
    name = file.metadata.short("general.architecture")
    architecture = name if isinstance(name, str) else ""
    found: set[str] = set()
    seen: set[bytes] = set()
    for i in range(min(index.tensors, limits.MANY_TENSORS)):
        info = index.tensor(i)
        kind = tensors.common_type(info.type)
        type_name = kind.name if kind is not None else str(info.type)
        seen.add(info.name)
        found.update(word for word, form in _NAMED if form.search(info.name))
        if info.name == _TABLE:
            found.add(f"a table of {type_name}")
        elif info.name == _HEAD:
            found.add(f"a head of {type_name}")
        elif len(info.ne) > 1 and info.ne[0] > 1 and info.ne[1] > 1 and _LAYER.match(info.name):
            found.add(f"{_PLAIN[0]}{type_name} with rows {_class_of(type_name, info.ne[0])}")
    if _TABLE in seen and _HEAD not in seen:
        found.add("a tied head")
    return FileForm(architecture, frozenset(found | _of_keys(file, architecture)))


def _class_of(kind: str, columns: int) -> str:
    """Return the class of a size of rows: kernels of blocks differ by its magnitude, and by the multiple that it is
    of.
    """
    if kind in FLOATS:
        return "of any size"
    magnitude = "from 512" if columns >= 512 else "from 128 to 511" if columns >= 128 else "below 128"
    multiple = next((each for each in (256, 128, 64, 32) if columns % each == 0), None)
    return f"{magnitude}, in {multiple}s" if multiple is not None else f"{magnitude}, no multiples of 32"


def _of_keys(file: File, architecture: str) -> set[str]:
    found = {
        word for word, key in _KEYED if (value := file.metadata.short(f"{architecture}.{key}")) and value is not True
    }
    activation = file.metadata.short(f"{architecture}.hidden_activation")
    if isinstance(activation, str):
        found.add(f"activation {quote(activation, 16, bare=True)}")
    scaling, factor = (file.metadata.short(f"{architecture}.rope.scaling.{key}") for key in ("type", "factor"))
    if isinstance(scaling, str) and scaling != "none" and factor not in (None, 0, 1):
        found.add(f"rotary scaling {quote(scaling, 16, bare=True)}")
    width, heads, rotated, length = (
        file.metadata.short(f"{architecture}.{key}")
        for key in ("embedding_length", "attention.head_count", "rope.dimension_count", "attention.key_length")
    )
    if isinstance(rotated, int):
        head = length if isinstance(length, int) else None
        if head is None and isinstance(width, int) and isinstance(heads, int) and heads:
            head = width // heads
        if head is not None and rotated < head:
            found.add("rotary positions of a part of each head")
    if file.metadata.short(f"{architecture}.attention.causal") is False:
        found.add("attention to all tokens")
    if "prism.hadamard.version" in file.metadata or "prism.hadamard.block_size" in file.metadata:
        found.add("rotated weights")
    return found


# --- records ---------------------------------------------------------------------------------------------------------

RECORDS_FILE: Final = Path(__file__).with_name("records.json")
SCHEMA_VERSION: Final = 1

#: What precedes the id of a record in a citation.
RUN_PREFIX: Final = "run "


class TriedFile(NamedTuple):
    """A small file: the commands that make it, its SHA-256 and size, its architecture, types of tensors, and form."""

    name: str
    commands: tuple[str, ...]
    sha256: str
    bytes: int
    architecture: str
    types: frozenset[str]
    form: FileForm


class Computed(NamedTuple):
    """A comparison of a program's results with our forward pass of the file `against`, with these numerics.

    `correlation` is Pearson's, over all log-probabilities at all positions; `argmax` counts the positions with the same
    most likely token, out of `positions`; `relative` is the relative L2 of all logits, of a comparison by hand. What was
    not compared is None.
    """

    against: str
    numerics: str
    correlation: float | None = None
    argmax: int | None = None
    positions: int = 0
    relative: float | None = None

    @property
    def agrees(self) -> bool:
        """Whether the results agree with our forward pass, except for the rounding of the program's kernels.

        If activations are quantized in blocks with a scale each, logits change by 3 %. This can exchange two tokens
        with nearly the same probability, which is allowed at two positions of eight; generated tokens are all the same.
        """
        if self.relative is not None:
            return self.relative <= 0.05
        if self.correlation is None or self.argmax is None:
            return self.argmax == self.positions
        return self.correlation >= 0.999 and 4 * (self.positions - self.argmax) <= self.positions

    @property
    def text(self) -> str:
        """The comparison as part of a sentence."""
        if self.relative is not None:
            return f"logits within {self.relative:.1e} of our forward pass (relative L2, {self.numerics})"
        if self.correlation is None:
            return (
                f"the first {self.argmax} of {counted(self.positions, 'generated token')} are those of our forward pass"
            )
        return (
            f"correlation {self.correlation:.5f} with our forward pass, same most likely token at "
            f"{self.argmax} of {counted(self.positions, 'position')}"
        )


class RunRecord(NamedTuple):
    """One run of a program on a file.

    `end` is its exit status, in words; `printed` the relevant lines of its output, `shown` what it reports
    about a file that it reads. `decoded` says that its values were finite, of a run whose values were not compared;
    `taken` where a program was got that was run by hand.
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
    decoded: bool = False
    taken: str = ""

    @property
    def result(self) -> str:
        """What the run shows, as the effect of a `Reason`: `right`, `wrong`, `ran`, `no`; empty if it only loads the file,
        or reads its header.

        The activation of a model of architecture bitnet is not known unless the file states it: a program computes it
        rightly if its results are those of one.
        """
        if not self.loads:
            return "no"
        if self.computed:
            own = self.computed[:1] if self.file.form.states_activation else self.computed
            return "right" if any(one.agrees for one in own) else "wrong"
        return "ran" if self.decoded else ""

    @property
    def best(self) -> Computed:
        """The nearest of its comparisons."""
        return max(self.computed, key=_nearness)

    @property
    def text(self) -> str:
        """The result in words."""
        who = f"{self.program} {self.version}"
        if not self.loads:
            return f"{who} {'refuses' if self.printed else 'does not compute'} such a file: {printed(self)}"
        if self.computed:
            return f"{who} computed such a file: {self.best.text}"
        if self.decoded:
            return f"{who} computed finite values for such a file, which nobody compared"
        return f"{who} loaded such a file"

    @property
    def citation(self) -> str:
        """The citation of this run."""
        return RUN_PREFIX + self.id


def _nearness(one: Computed) -> float:
    """Return the larger, the nearer."""
    return -one.relative if one.relative is not None else one.correlation or one.argmax or 0


def table() -> dict[str, Any]:
    """Return the whole table, as it is in the file."""
    about: dict[str, Any] = json.loads(RECORDS_FILE.read_text(encoding="utf-8"))
    return about


@cache
def records() -> dict[str, RunRecord]:
    """Return all records, by their ids."""
    about = table()
    files = {
        each["name"]: TriedFile(
            each["name"], tuple(each["commands"]), each["sha256"], each["bytes"], each["architecture"],
            frozenset(each["types"]), FileForm(each["kind"], frozenset(each["form"])),
        )
        for each in about["files"]
    }  # fmt: skip
    return {
        each["id"]: RunRecord(
            each["id"], each["program"], each["version"], each["date"], files[each["file"]], each["loads"], each["end"],
            tuple(each.get("printed", ())), each.get("shown", ""),
            tuple(Computed(**one) for one in each.get("computed", ())), each.get("decoded", False), each.get("taken", ""),
        )
        for each in about["records"]
    }  # fmt: skip


def printed(run: RunRecord) -> str:
    """Return the first lines that a user of the program sees."""
    lines = run.printed or (run.end,)
    return "; ".join(dict.fromkeys((lines[0], lines[-1])))[:240]


# --- reasons of verdicts ---------------------------------------------------------------------------------------------


class Reason(NamedTuple):
    """The reason for a verdict: a sentence, its source, the place in the file, and its effect.

    `effect` is `no`, `crash`, `option`, `vocabulary`, `unknown` (about loading), `right`, `likely`, `cpu`, `ran`, `doubt`,
    `wrong` (about computing), or `note`. The source is a citation as `citation` defines it; the reason that something was
    not tried has none. `check` names a check of loaders: the source for the statement that a runtime makes this check is
    declared there.
    """

    text: str
    source: str
    effect: str
    span: Span | None = None
    check: str = ""


# --- citations -------------------------------------------------------------------------------------------------------
# The source of a fact about a runtime, as data:
#
# run PROGRAM/FILE                        a record of a run
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
    """Return the parsed citation: `kind`, and the fields of that kind; None for an empty source, if something was
    not tried.

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
        "computed": [{name: value for name, value in one._asdict().items() if value is not None} for one in record.computed],
    }  # fmt: skip


# --- evidence --------------------------------------------------------------------------------------------------------
# What recorded runs show about a file: by its form, its types, and its architecture.
#
# A run of a file of the same form shows what a program does with this one (`runs_of_form`). Where there is none, a run that
# differs from another in one thing shows what that thing does; and if each attribute of the form was computed correctly
# alone, a program is expected to compute them together. About all other files, runs show nothing.

_FLOATS: Final = frozenset({"F32", "F16", "BF16", "F64"})


@analysis
def form(subject: LintContext) -> FileForm:
    """Return the form of the file."""
    return form_of(subject.file)


def runs_of(runtime: Runtime) -> list[RunRecord]:
    """Return the runs of the packages that are a runtime, or contain it."""
    return _runs_of_programs(runtime.programs)


@cache
def _runs_of_programs(names: tuple[str, ...]) -> list[RunRecord]:
    return [run for run in records().values() if run.program in names]


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
    run = records()[source.removeprefix(RUN_PREFIX)]
    return run.file.form.architecture == form(subject).architecture


def _types(subject: LintContext) -> frozenset[str]:
    """Return the names of the types of a file's tensors; an unknown number is its own name."""
    kinds = {number: subject.file.tensors.common_type(number) for number in subject.type_numbers}
    return frozenset(str(number) if kind is None else kind.name for number, kind in kinds.items())


def refused_type(runtime: Runtime, subject: LintContext, name: str) -> RunRecord | None:
    """Return a run that shows that a runtime refuses a type of tensors: it loads the same architecture in floats."""
    own = form(subject).architecture
    runs = [run for run in runs_of(runtime) if was_examined(subject) or run.file.form.architecture == own]
    loaded = {run.file.form.architecture for run in runs if run.loads and not run.file.types - _FLOATS}
    for run in runs:
        if not run.loads and run.file.types - _FLOATS == {name} and run.file.form.architecture in loaded:
            return run
    return None


def _refused_architecture(runtime: Runtime, name: str) -> RunRecord | None:
    """Return a run that shows that a runtime refuses an architecture: it loads another one in the same types of
    floats.
    """
    runs = runs_of(runtime)
    if any(run.loads and run.file.form.architecture == name for run in runs):
        return None
    loaded = {run.file.types for run in runs if run.loads and not run.file.types - _FLOATS}
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
    for name in sorted(types - _FLOATS):
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
