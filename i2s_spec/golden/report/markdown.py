"""This module is the report for comments on pull requests and issues: GitHub's Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from i2s_spec.golden.replay.result import Comparison
from i2s_spec.golden.report.words import TITLES, about, diagnosis_words, first_wrong, others, rows, title


def lines(result: Comparison) -> Iterator[str]:
    """The report; everything that Markdown or HTML could take for its own is escaped."""
    yield f"## {'✅' if result.ok else '❌'} {_text(title(result))}\n\n"
    for what, words in about(result):
        yield f"- **{_text(what)}**: {_text(words)}\n"
    for note in result.notes:
        yield f"- {_text(note)}\n"
    wrong = list(first_wrong(result))
    if wrong or result.diagnoses:
        yield "\n### The first wrong tap\n\n"
        yield from (f"- {_text(line)}\n" for line in wrong)
        yield from (f"- explained {_text(diagnosis_words(each))}\n" for each in result.diagnoses)
    more = list(others(result))
    if more:
        yield "\n### Wrong on their own inputs\n\n"
        yield from (f"- {_text(line)}\n" for line in more)
    shown = list(rows(result))
    if shown:
        yield "\n<details><summary>All taps</summary>\n\n"
        yield "| " + " | ".join(map(_text, TITLES)) + " |\n"
        yield "|" + "---|" * len(TITLES) + "\n"
        yield from ("| " + " | ".join(map(_text, row.cells)) + " |\n" for row in shown)
        yield "\n</details>\n"
    if result.drift:
        yield "\n| layer | relative L2 | cosine |\n|---|---|---|\n"
        yield from (f"| {layer} | {far:.3g} | {cosine:.6f} |\n" for layer, far, cosine in result.drift)


def _text(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "\\`*_[]|#~@!":
        escaped = escaped.replace(mark, "\\" + mark if mark not in "@#" else f"&#{ord(mark)};")
    return escaped
