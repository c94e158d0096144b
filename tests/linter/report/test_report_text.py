"""Reports for people: a line for each finding, the bytes of its span under it, the verdict."""

from __future__ import annotations

from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from malformed_cases import SMALL, broken

from i2s_spec.errors import Span
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.batch.lint_path import failed, skipped
from i2s_spec.linter.engine import lint
from i2s_spec.linter.report import make
from i2s_spec.linter.report.proof import proof
from i2s_spec.linter.report_data import Totals, excerpt_of
from i2s_spec.testing.sample import Draft


def drawn(data: bytes, start: int, stop: int) -> list[str]:
    excerpt = excerpt_of(BufferSource(data), Span(start, stop))
    held = None if excerpt is None else {"start": excerpt.start, "hex": excerpt.data.hex()}
    finding: dict[str, Any] = {"span": {"start": start, "stop": stop}, "bytes": held}
    return list(proof(finding, len(data)))


def test_carets_stand_under_the_bytes() -> None:
    assert drawn(bytes(range(0x40, 0x70)), 0x0E, 0x11) == [
        "0000  40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f  |@ABCDEFGHIJKLMNO|",
        "                                                ^^~^^",
        "0010  50 51 52 53 54 55 56 57 58 59 5a 5b 5c 5d 5e 5f  |PQRSTUVWXYZ[\\]^_|",
        "      ^^",
    ]


def test_long_spans_are_cut() -> None:
    lines = drawn(bytes(100_000), 16, 90_000)
    assert len(lines) == 7
    assert lines[-1] == "        ... 89,936 more bytes"


def test_an_empty_span_at_the_end_points_behind_the_last_byte() -> None:
    assert drawn(b"GGUF", 4, 4) == [
        "0000  47 47 55 46                                      |GGUF            |",
        "                  ^^",
    ]
    assert drawn(bytes(16), 16, 16)[1] == " " * (6 + 48) + "^^"
    assert drawn(b"", 0, 0) == []


@given(st.integers(0, 200), st.data())
@examples(60)
def test_as_many_carets_as_bytes(size: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    lines = drawn(bytes(size), start, stop)
    carets = sum(line.count("^^") for line in lines if "|" not in line)
    more = [int(line.split()[1].replace(",", "")) for line in lines if "more bytes" in line]
    assert carets + sum(more) == (stop - start or (1 if start else 0))  # nothing at 0: about the file as a whole
    assert all(char.isascii() and char.isprintable() for line in lines for char in line)


@pytest.mark.parametrize("name", SMALL)
def test_every_finding_has_a_line(name: str) -> None:
    report = lint(broken(name))
    concise = make("concise").file(report).splitlines()
    assert len(concise) == len(report.findings) + len(report.elided) + 1
    text = make("text").file(report).splitlines()
    assert [line for line in text if not line.startswith("  ")] == concise


def test_verdicts() -> None:
    sound = lint(Draft().data)._replace(path="a.gguf")
    assert make("text").file(sound) == "a.gguf: ok\n"
    assert make("text", quiet=True).file(sound) == ""
    file_report = failed("b.gguf", "MemoryError: ")
    text = make("text").file(file_report)
    assert "b.gguf: internal error: lint: MemoryError" in text
    assert text.endswith("b.gguf: not checked to the end\n")
    assert make("text").file(skipped(sound.as_dict(), "a pointer")) == "a.gguf: skipped: a pointer\n"


def test_excused_findings_are_mentioned() -> None:
    report = lint(broken("dup_key"), suppressed={"G2": "a reason"})
    assert "1 finding of G203 suppressed: a reason\n" in make("text").file(report)
    assert make("text", quiet=True).file(report) == ""


def test_summary_of_many() -> None:
    totals = Totals()
    for name in ("dup_key", "gap", "html"):
        totals.add(lint(broken(name)).as_dict())
    assert make("text").end(totals) == "3 files: 1 ok, 2 not; 2 errors, 1 warning\n"
    assert make("text", quiet=True).end(totals) == ""
    assert make("text").end(Totals()) == ""


def test_colours_only_where_asked() -> None:
    report = lint(broken("dup_key"))
    assert "\x1b[" in make("text", colour=True).file(report)
    assert "\x1b" not in make("text").file(report)


def test_runtimes_are_a_table() -> None:
    report = lint(Draft().data, runtimes=True)
    lines = make("text").file(report._replace(path="a.gguf")).splitlines()
    at = next(i for i, line in enumerate(lines) if line.split()[:3] == ["runtime", "loads", "computes"])
    assert len(lines) == at + 1 + len(report.runtimes) + 1
    assert "| runtime | loads | computes | why |\n|---|---|---|---|\n" in make("markdown").file(report)
    assert "title=runtimes::" in make("github").file(report)
    assert "bitnet.cpp" in make("junit").file(report)
    assert len(report.as_dict()["runtimes"]) == len(report.runtimes)
