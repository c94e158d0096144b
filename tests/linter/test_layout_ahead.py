"""The layout of a large file is determined while other threads read the payloads; the report is the same as without."""

from __future__ import annotations

from pathlib import Path

import pytest
from planted import planted, written

from i2s_spec.errors import FormatError
from i2s_spec.inspect import survey_reader
from i2s_spec.layout_inference import evidence
from i2s_spec.linter.analysis import layout
from i2s_spec.linter.engine import lint
from i2s_spec.linter.report_data import Report
from i2s_spec.schema.dialect import CANONICAL, CodeMap


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int | None]]:
    """Treat small files as large ones, and list the code map and number of layers of each search for the layout."""
    calls: list[tuple[str, int | None]] = []
    real = evidence.layout_evidence

    def noted(file: object, code_map: CodeMap, *, threads: int = 1, layers: int | None = None) -> object:
        calls.append((code_map.name, layers))
        return real(file, code_map, threads=threads, layers=layers)  # type: ignore[arg-type]

    monkeypatch.setattr(evidence, "layout_evidence", noted)
    monkeypatch.setattr(layout, "SMALL", 0)
    monkeypatch.setattr(survey_reader, "THREAD_BYTES", 1 << 10)
    return calls


def model(folder: Path, dialect: str) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(written(planted(1), dialect))
    return path


def both(path: Path, ignore: tuple[str, ...] = ()) -> Report:
    """The report of one thread and of two, which are equal."""
    one, two = (lint(path, payload="full", threads=threads, ignore=ignore) for threads in (1, 2))
    assert two == one
    return two


@pytest.mark.parametrize(
    ("dialect", "code"), [("interleave-128", None), ("interleave-64", "I213"), ("sequential-msb/zero-first", "I213")]
)
def test_the_report_is_that_of_one_thread(
    dialect: str, code: str | None, asked: list[tuple[str, int | None]], tmp_path: Path
) -> None:
    report = both(model(tmp_path, dialect))
    assert (code in {finding.code for finding in report.findings}) == (code is not None)
    code_map = dialect.partition("/")[2] or CANONICAL.code_map.name
    # With two threads, the layout is tested early with the canonical code map, and again if the codes have another one.
    again = [(code_map, layout.LAYERS)] if code_map != CANONICAL.code_map.name else []
    assert asked == [(code_map, layout.LAYERS), (CANONICAL.code_map.name, layout.LAYERS), *again]


def test_the_layout_is_not_determined_if_no_rule_needs_it(asked: list[tuple[str, int | None]], tmp_path: Path) -> None:
    both(model(tmp_path, "interleave-64"), ignore=("I213", "I214", "I215", "I216", "I217"))
    assert asked == []


@pytest.mark.parametrize("failure", [FormatError, ValueError])
def test_a_failure_ahead_of_time_is_reported_when_a_rule_asks(
    failure: type[Exception], asked: list[tuple[str, int | None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reported once, as with one thread."""

    def fails(*args: object, **options: object) -> None:
        if failure is FormatError:
            from i2s_spec.errors import Span, TrustedText
            from i2s_spec.schema import faults

            raise FormatError(faults.CHANGED, Span(0, 1), reason=TrustedText("a test says so"))
        raise failure("a test says so")

    monkeypatch.setattr(evidence, "layout_evidence", fails)
    report = both(model(tmp_path, "interleave-64"))
    if failure is FormatError:
        assert [finding.code for finding in report.findings].count("S903") == 1
    else:
        assert {bug.where for bug in report.bugs} > {"I213"}


def test_a_file_that_is_cut_while_its_layout_is_determined(
    asked: list[tuple[str, int | None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = model(tmp_path, "interleave-64")
    real = evidence.layout_evidence

    def cut(*args: object, **options: object) -> object:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size // 2)
        return real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(evidence, "layout_evidence", cut)
    report = lint(path, payload="full", threads=2)
    assert "S903" in {finding.code for finding in report.findings}
    assert not report.bugs
