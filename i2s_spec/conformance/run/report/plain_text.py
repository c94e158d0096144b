"""This module says how a run ended in text for a terminal, in Markdown, and as the JSON of a badge."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from i2s_spec.conformance.run.results import FAILURES, CaseResult, RunResult, Status, by_op
from i2s_spec.errors import counted, quote

#: Columns of a table, with their heads.
_COLUMNS: Final = (Status.PASS, Status.FAIL, Status.ERRORED, Status.SKIPPED, Status.NOTED, Status.NOT_RUN)


#: How many failures with the same explanation are reported together.
_SEVERAL: Final = 2


def title(run: RunResult) -> str:
    """Name and version of what was run."""
    return quote(f"{run.implementation.name} {run.implementation.version}".strip(), limit=200, bare=True)


def failures(run: RunResult) -> list[CaseResult]:
    """The results that make the run fail."""
    return [each for each in run.results if each.status in FAILURES and each.id not in run.known]


def text_report(run: RunResult) -> str:
    """A run for people: one line for each failure, a table by op, and a summary sentence."""
    return "\n".join(_lines(run)) + "\n"


def _lines(run: RunResult) -> Iterator[str]:
    for each in failures(run):
        if each.status is not Status.NOT_RUN:
            yield f"{each.id} {each.op}: {quote(each.text, limit=600, bare=True)}"
    for sentence in run.unexpected:
        yield f"known failures: {quote(sentence, limit=600, bare=True)}"
    if run.given_up:
        yield quote(run.given_up, limit=600, bare=True)
    heads = [status.value for status in _COLUMNS if run.counts[status.value]]
    yield f"{'':<12}" + "".join(f"{head:>9}" for head in heads)
    for op, counts in by_op(run.results).items():
        yield f"{op:<12}" + "".join(f"{counts[head]:>9,}" for head in heads)
    yield summary(run)


def summary(run: RunResult) -> str:
    """A run in one sentence."""
    counts = run.counts
    asked = len(run.results) - counts[Status.SKIPPED.value] - counts[Status.NOTED.value]
    known = f"; {counted(len(run.known), 'failure is', 'failures are')} known" if run.known else ""
    right, stated = run.phases
    phases = f"; {right:,} of {counted(stated, 'refusal')} name the right phase" if stated else ""
    mistakes = f"; {same}" if (same := common_mistake(run)) else ""
    passed = f"{title(run)}: {counts['pass']:,} of {counted(asked, 'vector')} passed"
    return f"{passed}{known}{phases}{mistakes}; suite {run.suite_version}"


def common_mistake(run: RunResult) -> str:
    """The known mistake that explains most of the failures, in a few words; empty where none explains two."""
    failed = [each for each in failures(run) if each.status is Status.FAIL]
    (mistake, count), *_ = Counter(each.mistake for each in failed if each.mistake).most_common(1) or [("", 0)]
    if count < _SEVERAL:
        return ""
    return (
        f"one mistake explains {count:,} of {counted(len(failed), 'failure')}: {quote(mistake, limit=200, bare=True)}"
    )


def markdown_report(runs: Sequence[RunResult]) -> str:
    """Runs as Markdown: a table of all, and the failures of each."""
    heads = ["implementation", *(status.value for status in _COLUMNS), "suite", "date"]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * len(_COLUMNS) + "|---|---|"]
    for run in runs:
        cells = [
            _cell(title(run)),
            *(str(run.counts[status.value]) for status in _COLUMNS),
            run.suite_version,
            run.date,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    for run in runs:
        failed = failures(run)
        if failed or run.unexpected or run.given_up:
            lines += ["", f"### {_cell(title(run))}", ""]
            lines += [f"{_cell(mistake[0].upper() + mistake[1:])}.", ""] if (mistake := common_mistake(run)) else []
            lines += [
                f"- `{each.id}` {each.op}: {_cell(each.text)}" for each in failed if each.status is not Status.NOT_RUN
            ]
            lines += [f"- {_cell(sentence)}" for sentence in (*run.unexpected, run.given_up) if sentence]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Text on one line, escaped for Markdown."""
    plain = quote(text, limit=600, bare=True)
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>|#" else char for char in plain)


def badge(run: RunResult) -> str:
    """The JSON that an endpoint badge reads."""
    counts = run.counts
    asked = len(run.results) - counts[Status.SKIPPED.value] - counts[Status.NOTED.value]
    colour = "brightgreen" if run.ok and counts["pass"] == asked else "yellow" if run.ok else "red"
    message = f"{counts['pass']} of {asked}" if asked else "not run"
    return json.dumps({"schemaVersion": 1, "label": "I2_S vectors", "message": message, "color": colour}) + "\n"
