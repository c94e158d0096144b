"""The JUnit report, read by an independent parser."""

from __future__ import annotations

from dataclasses import replace

import pytest
from malformed_cases import SMALL, broken

from i2s_spec.linter.engine import lint
from i2s_spec.linter.paths import failed, skipped
from i2s_spec.linter.report import make
from i2s_spec.linter.report_data import Totals
from i2s_spec.linter.rule import Severity
from i2s_spec.testing.sample import Draft

junitparser = pytest.importorskip("junitparser")


def suites(*file_report: object, fail_on: Severity | None = Severity.ERROR) -> list:  # type: ignore[type-arg]
    form = make("junit", fail_on=fail_on)
    text = form.begin() + "".join(form.file(each) for each in file_report) + form.end(Totals())  # type: ignore[arg-type]
    return list(junitparser.JUnitXml.fromstring(text.encode()))


def result(case: object) -> str:
    kinds = [type(each).__name__ for each in case.result]  # type: ignore[attr-defined]
    return kinds[0] if kinds else "passed"


def test_each_finding_is_a_case() -> None:
    for name, copy in SMALL.items():
        report = replace(lint(copy.data), path=f"{name}.gguf")
        (suite,) = suites(report)
        assert suite.name == f"{name}.gguf"
        assert suite.tests == max(1, len(report.findings)) == len(list(suite))
        assert (suite.failures + suite.errors > 0) == (not report.ok)
        for case, finding in zip(suite, report.findings, strict=False):
            assert case.classname == f"{name}.gguf"
            assert case.name.startswith(f"{finding.code} {finding.rule.slug}")


def test_failures_depend_on_fail_on() -> None:
    padding = lint(broken("pad_not_zero"))
    for fail_on, expected in ((Severity.ERROR, "passed"), (Severity.WARNING, "Failure"), (None, "passed")):
        (suite,) = suites(padding, fail_on=fail_on)
        assert [result(case) for case in suite] == [expected]
    assert "0x" in next(iter(suites(padding)[0])).system_out


def test_errors_skips_and_passes() -> None:
    pointer = lint(broken("lfs_pointer")).as_dict()
    found = suites(lint(Draft().data), lint(broken("html")), failed("x", "KeyError: 1"), skipped(pointer, "a pointer"))
    assert [[result(case) for case in suite] for suite in found] == [["passed"], ["Error"], ["Error"], ["Skipped"]]
    assert [(suite.tests, suite.failures, suite.errors, suite.skipped) for suite in found] == [
        (1, 0, 0, 0), (1, 0, 1, 0), (1, 0, 1, 0), (1, 0, 0, 1),
    ]  # fmt: skip


def test_the_first_element_counts_the_cases_of_all() -> None:
    form = make("junit")
    text = form.begin() + form.file(lint(Draft().data)) + form.file(lint(broken("html"))) + form.end(Totals())
    whole = junitparser.JUnitXml.fromstring(text.encode())
    assert (whole.tests, whole.failures, whole.errors, whole.skipped) == (2, 0, 1, 0)
