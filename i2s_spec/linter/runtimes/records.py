"""What is known of other programs from running them: records of runs, what they show, and citations of sources.

The table of runs, `records.json`, has what programs printed and computed for small files. `python tests/peers` in a
checkout writes it; `records.schema.json` describes it. Of runs that a signal ended, it has the number and the kind, and
their records say no more than that there was no answer. A fact that a run shows is cited as `run PROGRAM/FILE`.
`--runtimes` makes no statement about a program without a record or a source.

`records` gives the table; a `Reason` is the reason for a verdict, with its source, which `citation`
parses. `evidence` says what runs show about a file.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from i2s_spec.errors import Span, counted
from i2s_spec.linter.runtimes.forms import FileForm

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
