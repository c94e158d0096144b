"""The pages on answers of programs to the test vectors, from `tests/peers/decoders.json` and `wrong_answers.json` alone.

page          who decodes what: counts, with the version and the date of each run; what was not asked is empty
wrong_page    known wrong answers of other programs, a paragraph for each in words
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from i2s_site.checkout import root
from i2s_site.runtimes import table
from i2s_spec.conformance.protocol_terms import OPERATIONS

#: Columns of tensors: head, and the features of a vector that belong there.
_COLUMNS: Final = (
    ("I2_S x86-128", "layout.x86-128"),
    ("I2_S arm-64", "layout.arm-64"),
    ("I2_S rows-1x4", "layout.rows-1x4"),
    ("I2_S sequential", "layout.sequential-"),
    ("TQ1_0", "type.tq1_0"),
    ("TQ2_0", "type.tq2_0"),
    ("Q2_0", "type.q2_0"),
    ("Q2_0 of 128", "type.q2_0.g128"),
    ("PQ2_0", "type.pq2_0"),
    ("PTQ1_0", "type.ptq1_0"),
    ("IQ1_BN", "type.iq1_bn"),
    ("IQ2_BN", "type.iq2_bn"),
)

_INTRODUCTION: Final = """\
# Who decodes what

This page shows the answers of programs to the test vectors, each through an adapter of at most 80 lines. `python
tests/peers vectors` runs those again whose packages can be installed. A cell gives the number of right answers and the
number of vectors that were run, with the version of the program, the day of the run, and the version of the suite.
**An empty cell was not run**: the program has no function for it, or its adapter does not call it. An empty cell does not
say whether something works.

To add a row, write an adapter ([tutorial](tutorials/decoder.md)) and send the record that
`i2s conform run --report ndjson=NAME.ndjson -- COMMAND` writes. What is wrong in a program, in words, is on the page
[Known wrong answers of other programs](wrong-answers.md).
"""

_FILES: Final = """\
### Files

A refusal counts only beside its sound twin: a pair is a malformed file and the sound one of which it is a change, and is
right where the program takes the one and refuses the other. Refusals of files whose sound twin is refused too count
nothing; the last column has their number. A program that refuses every file with a tensor of type 36 has no such type,
and is asked only for pairs without it. What a reader that validates nothing else reads from a sound file was compared
where its adapter answers with the content.
"""

_WRONG: Final = """\
# Known wrong answers of other programs

This page says in words what was seen to be wrong in versions of other programs, so that their authors can mend it and
their users know of it. Each paragraph rests on a run of that version on the day it names; newer versions may be right.
A refusal that is documented is listed as such. Where a program was ended by a file, neither the file nor the message is
published, here or elsewhere.
"""


#: The id of a vector, at the beginning of a line.
_VECTOR: Final = re.compile(r"^I2S-\d+")


class Run(NamedTuple):
    """A run of an implementation on the test vectors, as counts: a pair is the number of right answers and of all.

    :param source: package and version, empty for an adapter that was written from the text
    :param operations: a pair for each operation that is asked without a twin
    :param files: `sound` files that are taken, pairs of `container` and `verdict`, refusals `alone`, and whether it has
        `type_36`; empty unless it reads files
    :param tensors: a pair for each layout and type, by the feature of the vectors
    :param ended: how many vectors it did not answer, by kind
    :param failed: wrong answers, :param failures: the most frequent of them as operation and first difference, of tensors
        and models after the id of the vector
    """

    id: str
    name: str
    version: str
    source: str
    date: str
    suite_version: str
    operations: dict[str, list[int]]
    files: dict[str, Any]
    tensors: dict[str, list[int]]
    ended: dict[str, int]
    failed: int
    failures: list[str]


class Wrong(NamedTuple):
    """A wrong answer: the id of its row, what it is about, and a paragraph."""

    id: str
    about: str
    text: str


def runs() -> list[Run]:
    """Return the rows of the table, in its order."""
    return [Run(**each) for each in json.loads(_text("decoders.json"))]


def wrong_answers() -> list[Wrong]:
    """Return the paragraphs, in the order of the file."""
    return [Wrong(*each) for each in json.loads(_text("wrong_answers.json"))]


def _text(name: str) -> str:
    return (root() / "tests" / "peers" / name).read_text(encoding="utf-8")


def page() -> str:
    """Who decodes what."""
    found = sorted(runs(), key=lambda run: run.name.lower())
    others = [run for run in found if run.source]
    parts = [
        _INTRODUCTION,
        "## Programs of others\n",
        _FILES,
        _files([run for run in others if run.files]),
        "### Types of tensors\n",
        _tensors(others),
        "### Other operations\n",
        _operations(others),
        "## Written from this specification\n",
        _tensors([run for run in found if not run.source]),
        "## Evidence\n",
        *(text for run in (*others, *(run for run in found if not run.source)) for text in _evidence(run)),
    ]
    return "\n".join(parts)


def _head(run: Run) -> list[str]:
    """Return the first cells of each row: who, in which version, when, and what was asked."""
    return [f"[{_plain(run.name)}](#{_anchor(run)})", _plain(run.version), run.date, run.suite_version]


_HEAD: Final = ("program", "version", "run", "suite")


def _files(found: list[Run]) -> str:
    """Describe what becomes of whole files, the best reader first."""

    def rank(run: Run) -> tuple[float, int, int]:
        right, asked = run.files.get("container") or run.files.get("verdict") or (0, 0)
        return -right / max(asked, 1), -asked, -run.files["sound"][0]

    rows = [
        [
            *_head(run), "yes" if run.files["type_36"] else "no", _share(run.files["sound"]),
            *(_share(run.files.get(op, (0, 0))) for op in ("container", "verdict")), str(run.files.get("alone", "")),
        ]
        for run in sorted(found, key=rank)
    ]  # fmt: skip
    heads = (
        "type 36",
        "sound files taken",
        "pairs of `container`",
        "pairs of `verdict`",
        "refusals that count nothing",
    )
    return table([*_HEAD, *heads], rows)


def _tensors(found: list[Run]) -> str:
    rows = [[*_head(run), *(_cell(run, feature) for _, feature in _COLUMNS)] for run in found if run.tensors]
    return table([*_HEAD, *(head for head, _ in _COLUMNS)], rows)


def _operations(found: list[Run]) -> str:
    chosen = [op for op in OPERATIONS if any(op in run.operations for run in found)]
    rows = [
        [*_head(run), *(_share(run.operations.get(op, (0, 0))) for op in chosen)] for run in found if run.operations
    ]
    return table([*_HEAD, *(f"`{op}`" for op in chosen)], rows)


def _cell(run: Run, feature: str) -> str:
    """Right answers and vectors asked of one feature, or of all that begin with it."""
    names = [each for each in run.tensors if each == feature or (feature.endswith("-") and each.startswith(feature))]
    return _share([sum(run.tensors[name][i] for name in names) for i in (0, 1)])


def _share(pair: Sequence[int]) -> str:
    right, count = pair
    return f"{right} of {count}" if count else ""


def _anchor(run: Run) -> str:
    return "run-" + run.id


def _code(found: re.Match[str]) -> str:
    return f"`{found[0]}`"


def _evidence(run: Run) -> Iterator[str]:
    """Version, date, and the first differences."""
    yield f"### {_plain(run.name)} {{ #{_anchor(run)} }}\n"
    where = f"{run.source}, " if run.source else f"version {run.version}, "
    ended = "".join(f"; {count} without an answer: it {kind}" for kind, count in run.ended.items())
    wrong = f"{run.failed} answers were wrong" if run.failed != 1 else "one answer was wrong"
    yield f"{_plain(where)}run {run.date} with suite {run.suite_version}: {wrong}{ended}.\n"
    lines = [f"- {_VECTOR.sub(_code, _plain(each))}" for each in run.failures]
    if lines:
        yield "\n".join(lines) + "\n"


def wrong_page() -> str:
    """Known wrong answers, program by program."""
    by_id = {run.id: run for run in runs()}
    found = wrong_answers()
    parts = [_WRONG]
    for id_ in sorted({each.id for each in found}, key=lambda id_: by_id[id_].name.lower()):
        run = by_id[id_]
        parts.append(f"## {_plain(run.name)} {_plain(run.version)}\n")
        parts.append(f"{_plain(run.source)}, run {run.date} ([its answers](decoders.md#{_anchor(run)})).\n")
        parts += [f"**{_plain(each.about)}.** {each.text}\n" for each in found if each.id == id_]
    return "\n".join(parts)


def _plain(text: str) -> str:
    """Text of a program that Markdown and HTML leave as it is."""
    return "".join(f"\\{char}" if char in "\\`*_[]#" else {"<": "&lt;", "&": "&amp;"}.get(char, char) for char in text)
