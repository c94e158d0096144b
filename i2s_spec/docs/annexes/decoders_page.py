"""The page "Who decodes what", from the table of runs on the test vectors (`linter.runtimes.run_records.decoders`).

A cell is made of results and of nothing else: what was not asked is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from i2s_spec.docs.runtimes import table
from i2s_spec.linter.runtimes.run_records import DecoderRun, decoders

#: Last line of the page; it is never edited.
MARK: Final = (
    "<!-- Written by i2s_spec.docs.annexes.decoders_page from records of runs: run `python tests/peers vectors`. -->\n"
)

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
)

_INTRODUCTION: Final = """\
# Who decodes what

This page shows the answers of programs to the test vectors, each through an adapter of at most 80 lines
(`tests/peers/adapters/`). `python tests/peers vectors` runs them again. A cell gives the number of right answers and the
number of vectors that were run. **An empty cell was not run**: the program has no function for it, or its adapter does
not call it. An empty cell does not say whether something works.

To add a row, write an adapter ([tutorial](tutorials/decoder.md)) and send the record that
`i2s conform run --report ndjson=NAME.ndjson -- COMMAND` writes.
"""


def page() -> str:
    """The whole page."""
    found = sorted(decoders(), key=lambda run: (not run.source, run.name.lower()))
    parts = [_INTRODUCTION]
    for own, title in ((False, "Programs of others"), (True, "Written from this specification")):
        chosen = [run for run in found if (not run.source) == own]
        parts += [
            f"## {title}\n",
            *(_files(chosen) if not own else ()),
            "### Tensors and models\n" if not own else "",
            _tensors(chosen),
        ]
    parts.append("## Evidence\n")
    parts += [text for run in found for text in _evidence(run)]
    return "\n".join([*(part for part in parts if part), MARK])


def _files(found: list[DecoderRun]) -> Iterator[str]:
    """What becomes of whole files."""
    yield "### Files\n"
    yield "Sound files that are taken, malformed ones that are refused, and those at which a program crashed or did not end."
    yield "What a program read from a file that it takes was not compared. Some of these read headers only.\n"
    rows = [
        [_link(run), _share(run.files["sound"]), _share(run.files["malformed"]), str(len(run.files["ended"]))]
        for run in found if run.files
    ]  # fmt: skip
    yield table(["program", "sound files taken", "malformed files refused", "crashed or hung"], rows)


def _tensors(found: list[DecoderRun]) -> str:
    """What becomes of payloads, and of models."""
    rows = [
        [_link(run), *(_cell(run, feature) for _, feature in _COLUMNS), _share(run.models)]
        for run in found if run.tensors or run.models[1]
    ]  # fmt: skip
    return table(["implementation", *(head for head, _ in _COLUMNS), "forward pass"], rows)


def _cell(run: DecoderRun, feature: str) -> str:
    """Right answers and vectors asked of one feature, or of all that begin with it."""
    names = [each for each in run.tensors if each == feature or (feature.endswith("-") and each.startswith(feature))]
    return _share([sum(run.tensors[name][i] for name in names) for i in (0, 1)])


def _share(pair: Sequence[int]) -> str:
    right, count = pair
    return f"{right} of {count}" if count else ""


def _link(run: DecoderRun) -> str:
    return f"[{_plain(run.name)}](#{_anchor(run)})"


def _anchor(run: DecoderRun) -> str:
    return "run-" + "".join(char if char.isalnum() else "-" for char in run.name.lower())


def _evidence(run: DecoderRun) -> Iterator[str]:
    """Version, date, and the first differences."""
    yield f"### {_plain(run.name)} {{ #{_anchor(run)} }}\n"
    source = f"{run.source}, " if run.source else f"version {run.version}, " if run.version else ""
    failed = run.counts["fail"] + run.counts["errored"]
    yield (
        f"{_plain(source)}run {run.date} with suite {run.suite_version}: {run.counts['pass']} passed, "
        f"{failed} failed, {run.counts['skipped']} were not for it, {run.counts['noted']} were only noted.\n"
    )
    lines = [f"- `{name}` {_plain(text)}" for name, _, text in (each.partition(" ") for each in run.failures)]
    if failed > len(run.failures):
        lines.append(f"- and {failed - len(run.failures)} more")
    if lines:
        yield "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Text of a program that Markdown and HTML leave as it is."""
    return "".join(f"\\{char}" if char in "\\`*_[]#" else {"<": "&lt;", "&": "&amp;"}.get(char, char) for char in text)
