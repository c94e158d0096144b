"""This module writes the page "Who decodes what" from the records of runs in `conformance/results/`.

A record is lines of JSON as `i2s conform run --report ndjson=FILE` writes it. A cell is made of results and of nothing
else: what was not asked is empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from i2s_spec.docs.checkout import root
from i2s_spec.docs.runtimes import table

#: Last line of the page; it is never edited.
MARK: Final = (
    "<!-- Written by i2s_spec.docs.annexes.decoders_page from records of runs: run `python -m conformance make`. -->\n"
)

#: The most failures that are listed of one implementation.
_LISTED: Final = 12

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
_TENSOR_OPS: Final = ("decode", "dequant", "quantize")

_INTRODUCTION: Final = """\
# Who decodes what

This page shows the answers of programs to the test vectors, each through an adapter of at most 80 lines
(`conformance/adapters/`). `python -m conformance make` runs them again. A cell gives the number of right answers and the
number of vectors that were run. **An empty cell was not run**: the program has no function for it, or its adapter does
not call it. An empty cell does not say whether something works.

To add a row, write an adapter ([tutorial](tutorials/decoder.md)) and send the record that
`i2s conform run --report ndjson=NAME.ndjson -- COMMAND` writes.
"""


class _Record(NamedTuple):
    header: dict[str, Any]
    results: list[dict[str, Any]]

    @property
    def name(self) -> str:
        return str(self.header["implementation"]["name"])

    @property
    def own(self) -> bool:
        """Whether it is an adapter from the text, and no program of others."""
        return "source" not in self.header["implementation"]

    @property
    def failed(self) -> list[dict[str, Any]]:
        return [each for each in self.results if each["status"] in ("fail", "errored")]


def page() -> str:
    """The whole page."""
    found = records()
    parts = [_INTRODUCTION]
    for own, title in ((False, "Programs of others"), (True, "Written from this specification")):
        chosen = [record for record in found if record.own == own]
        parts += [
            f"## {title}\n",
            *(_files(chosen) if not own else ()),
            "### Tensors and models\n" if not own else "",
            _tensors(chosen),
        ]
    parts.append("## Evidence\n")
    parts += [text for record in found for text in _evidence(record)]
    return "\n".join([*(part for part in parts if part), MARK])


def records() -> list[_Record]:
    """The records, programs of others first.

    :raises SettingError: where there is no checkout
    """
    found: list[_Record] = []
    for path in (root() / "conformance" / "results").glob("*.ndjson"):
        header, *rest = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        found.append(_Record(header, [line for line in rest if line["record"] == "result"]))
    return sorted(found, key=lambda record: (record.own, record.name.lower()))


def _files(found: list[_Record]) -> Iterator[str]:
    """What becomes of whole files."""
    yield "### Files\n"
    yield "Sound files that are taken, malformed ones that are refused, and those at which a program crashed or did not end."
    yield "What a program read from a file that it takes was not compared. Some of these read headers only.\n"
    rows = []
    for record in found:
        asked = [each for each in record.results if each["op"] == "container" and each["status"] != "skipped"]
        if asked:
            sound = [each for each in asked if each["verdict"] == "valid"]
            bad = [each for each in asked if each["verdict"] == "invalid"]
            taken = sum(each["status"] in ("pass", "noted") for each in sound)
            refused = sum(each["status"] == "pass" for each in bad)
            ended = sum("fault" in each for each in asked)
            rows.append([_link(record), _share(taken, len(sound)), _share(refused, len(bad)), str(ended)])
    yield table(["program", "sound files taken", "malformed files refused", "crashed or hung"], rows)


def _tensors(found: list[_Record]) -> str:
    """What becomes of payloads, and of models."""
    rows = []
    for record in found:
        scored = [each for each in record.results if each["status"] in ("pass", "fail", "errored")]
        asked = [each for each in scored if each["op"] in _TENSOR_OPS]
        models = [each for each in scored if each["op"] == "forward"]
        if asked or models:
            computed = _share(sum(each["status"] == "pass" for each in models), len(models))
            rows.append([_link(record), *(_cell(asked, feature) for _, feature in _COLUMNS), computed])
    return table(["implementation", *(head for head, _ in _COLUMNS), "forward pass"], rows)


def _cell(asked: list[dict[str, Any]], feature: str) -> str:
    """Right answers and vectors asked of one feature."""

    def has(features: list[str]) -> bool:
        return any(each.startswith(feature) if feature.endswith("-") else each == feature for each in features)

    chosen = [each for each in asked if has(each.get("features", []))]
    return _share(sum(each["status"] == "pass" for each in chosen), len(chosen))


def _share(right: int, count: int) -> str:
    return f"{right} of {count}" if count else ""


def _link(record: _Record) -> str:
    return f"[{_plain(record.name)}](#{_anchor(record)})"


def _anchor(record: _Record) -> str:
    return "run-" + "".join(char if char.isalnum() else "-" for char in record.name.lower())


def _evidence(record: _Record) -> Iterator[str]:
    """Version, date, and the first differences."""
    about = record.header["implementation"]
    version = f" {about['version']}" if about.get("version") and record.name != about["version"] else ""
    yield f"### {_plain(record.name)} {{ #{_anchor(record)} }}\n"
    source = f"{about['source']}, " if "source" in about else f"version{version}, " if version else ""
    counts = [
        sum(each["status"] == word for each in record.results)
        for word in ("pass", "fail", "errored", "skipped", "noted")
    ]
    yield (
        f"{_plain(source)}run {record.header['date']} with suite {record.header['suite_version']}: {counts[0]} passed, "
        f"{counts[1] + counts[2]} failed, {counts[3]} were not for it, {counts[4]} were only noted.\n"
    )
    lines = [f"- `{each['id']}` {each['op']}: {_plain(_text(each))}" for each in record.failed[:_LISTED]]
    if len(record.failed) > _LISTED:
        lines.append(f"- and {len(record.failed) - _LISTED} more, in the record")
    if lines:
        yield "\n".join(lines) + "\n"


def _text(result: dict[str, Any]) -> str:
    return ": ".join(result[key] for key in ("message", "mistake") if key in result)


def _plain(text: str) -> str:
    """Text of a program that Markdown and HTML leave as it is."""
    return "".join(f"\\{char}" if char in "\\`*_[]#" else {"<": "&lt;", "&": "&amp;"}.get(char, char) for char in text)
