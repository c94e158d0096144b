"""The text report: a line for each finding, the bytes of its span under it, the summary."""

from __future__ import annotations

import io
import pickle
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from examples import examples, share
from hypothesis import given
from hypothesis import strategies as st
from malformed_cases import SMALL, broken

from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.new import new
from i2s_spec.errors import Span
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource, source_of
from i2s_spec.inspect.survey import Reading
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.baseline import Baseline
from i2s_spec.linter.engine import excerpt_of, lint
from i2s_spec.linter.options import defaults
from i2s_spec.linter.paths import failed, skipped
from i2s_spec.linter.report import details_of, kind, make
from i2s_spec.linter.report.text import examined, proof, repeated
from i2s_spec.linter.report_data import Totals
from i2s_spec.linter.rule import every_file
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.schema import faults
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Draft, Model, key_value


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
    more = [int(line.split()[1].replace(",", "")) for line in lines if "more byte" in line]
    assert carets + sum(more) == (stop - start or (1 if start else 0))  # a finding about the whole file has no bytes
    assert all(char.isascii() and char.isprintable() for line in lines for char in line)


@pytest.mark.parametrize("name", share(SMALL))
def test_every_finding_has_a_line(name: str) -> None:
    report = lint(broken(name))
    concise = make("concise").file(report).splitlines()
    assert len(concise) == len(report.findings) + len(report.elided) + 1
    text = make("text").file(report).splitlines()
    lines = [re.sub(r" \[repairable[^]]*\]$", "", line) for line in text if not line.startswith("  ")]
    assert lines == concise


def test_statistics_count_findings_and_files() -> None:
    reports = [lint(broken(name)) for name in list(SMALL)[:12]] + [lint(Draft().data)]
    totals = Totals()
    form = make("statistics")
    for report in reports:
        totals.add(report.as_dict())
        assert form.file(report) == ""
    *lines, sums = form.end(totals).splitlines()
    assert sums.startswith("13 files: ")
    found = {}
    for line in lines:
        count, code, slug, files = re.fullmatch(r" *([\d,]+)  (\w+) ([\w-]+), in (\d+) files?", line).groups()  # type: ignore[union-attr]
        assert REGISTRY[code].slug == slug
        found[code] = (int(count.replace(",", "")), int(files))
    wanted: dict[str, tuple[int, int]] = {}
    for report in reports:
        codes = Counter(finding.code for finding in report.findings) + Counter(report.elided)
        for code, count in codes.items():
            before = wanted.get(code, (0, 0))
            wanted[code] = (before[0] + count, before[1] + 1)
    assert found == wanted
    counts = [count for count, _ in found.values()]
    assert counts == sorted(counts, reverse=True)


def test_statistics_of_a_sound_file_say_so() -> None:
    totals, form = Totals(), make("statistics")
    totals.add(lint(Model("bitnet-b1.58").built(), payload="none").as_dict())
    assert form.end(totals) == "1 file: 1 ok, 0 not\n"


def test_verdicts() -> None:
    sound = replace(lint(Draft().data), path="a.gguf")
    assert make("text").file(sound) == "a.gguf: no error in what was checked\n"  # its architecture is not known
    whole = lint(Model("bitnet-b1.58").built(), payload="none")
    assert make("text").file(replace(whole, path="b.gguf")).endswith("b.gguf: ok\n")
    assert make("text", quiet=True).file(sound) == ""
    file_report = failed("b.gguf", "MemoryError: ")
    text = make("text").file(file_report)
    assert "b.gguf: internal error: lint: MemoryError" in text
    assert text.endswith("b.gguf: not checked to the end\n")
    assert make("text").file(skipped(sound.as_dict(), "a pointer")) == "a.gguf: skipped: a pointer\n"


def asked_of(line: str) -> int:
    return int(re.search(r"; (\d+) rules checked", line)[1])  # type: ignore[index]


def test_a_verdict_says_what_was_checked() -> None:
    def line(**keywords: Any) -> str:
        report = replace(lint(Draft().data, details=examined, **keywords), path="a.gguf")
        return make("text").file(report)

    assert re.fullmatch(
        r"a\.gguf: no error in what was checked: sample, 3 tensors \(2 I2_S, 1 F32\); 1\d\d rules checked, "
        r"all 864 bytes read; not checked: keys, tensors and shapes \(architecture 'sample' is not known\)\n",
        line(),
    )
    assert " rules checked, 509 bytes of 864 bytes read (header only); not checked: keys" in line(payload="none")
    asked, ignored = re.search(r"; (\d+) rules checked and (\d+) left out,", line(ignore=("S2",))).groups()  # type: ignore[union-attr]
    assert f"; {int(asked) + int(ignored)} rules checked," in line()
    # Only rules whose condition the file meets are counted, and those that the reader checks in every file.
    everything = [REGISTRY[code] for code in set(defaults().levels) - faults.REMOTE]
    subject = LintContext(File(source_of(Draft().data)), reading=Reading("full"))
    met = [rule for rule in everything if rule.when(subject) and (rule.check is not None or rule.when is every_file)]
    assert asked_of(line()) == len(met) < len(everything) - 50
    left = asked_of(line(ignore=("M9", "S103"))), asked_of(line())
    assert left[0] == left[1] - 1  # only S103 counts as left out, since M901 does not apply
    assert " and 1 left out," in line(ignore=("M9", "S103"))
    cut = make("text").file(lint(Draft().data[:200], details=examined))
    assert "rules checked, the header cannot be read to its end\n" in cut
    report = lint(b"<!DOCTYPE html>", details=examined)
    assert make("text").file(report).endswith(": 1 error\n")


def test_findings_are_counted_by_code() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values += [key_value(b"X%d" % i, ValueType.UINT8, 1) for i in range(5)]
    file.key_values[0].key = b"general.\x1b"
    report = replace(lint(draft.built(file), details=examined), path="a.gguf")
    text = make("text").file(report)
    assert re.search(r"\n  1 error: G206 [a-z-]+, repairable with --unsafe\n  5 notes: G207 [a-z-]+\n", text)
    assert text.count("[repairable with --unsafe]\n") == 1
    shown = len([line for line in text.splitlines() if re.match(r"  [0-9a-f]{4}  ", line)])
    quiet = make("text", quiet=True).file(report)
    assert shown < len([line for line in quiet.splitlines() if re.match(r"  [0-9a-f]{4}  ", line)])
    assert "repairable" not in quiet
    assert quiet.endswith("a.gguf: 1 error, 5 notes\n")
    single = make("text").file(lint(broken("dup_key")))
    assert "\n  1 warning" not in single


def test_findings_that_say_the_same_of_many_tensors_are_counted() -> None:
    out, other = io.BytesIO(), io.BytesIO()
    new(out, layers=2)
    convert_file(open_file(out.getvalue()), other, to="interleave-64")
    options = {"reference": out.getvalue(), "select": ("I401",)}
    report = replace(lint(other.getvalue(), **options), path="a.gguf")
    assert [finding.code for finding in report.findings] == ["I401"] * 14
    lines = make("text").file(report).splitlines()
    assert sum(": error: I401 " in line for line in lines) == 5
    assert "a.gguf: 9 more findings of I401 like these; --format concise lists them" in lines
    assert "a.gguf: 14 errors" in lines
    for every in (make("concise"), make("text", quiet=True)):
        assert every.file(report).count(": error: I401 ") == 14
    names = [f"I2_S tensor 'x{i}' has {i} bytes" for i in range(9)]
    said: list[dict[str, Any]] = [
        {"code": "I1", "message": name, "span": {"path": f"data[{i}]"}} for i, name in enumerate(names)
    ]
    assert repeated(said) == {5, 6, 7, 8}
    assert repeated(said[:7]) == set()  # two lines do not justify a third
    assert repeated([{**each, "span": {"path": "kv[1]"}} for each in said]) == set()  # keys are not merged
    assert repeated([{**each, "message": f"{each['message']}{'!' * i}"} for i, each in enumerate(said)]) == set()


def test_the_last_line_names_the_next_command() -> None:
    def end(*files: tuple[str, bytes], quiet: bool = False) -> str:
        text, totals = make("text", quiet=quiet), Totals()
        for path, data in files:
            report = replace(lint(data), path=path)
            text.file(report)
            totals.add(report.as_dict())
        return text.end(totals).splitlines()[-1] if not quiet else text.end(totals)

    odd = Draft().number("key_values[4].value", 2)
    assert end(("a b.gguf", odd)) == "next: i2s fix 'a b.gguf' --dry-run, i2s explain G215"
    assert end(("-q", odd)) == "next: i2s fix ./-q --dry-run, i2s explain G215"
    assert end(("a\n$(id).gguf", odd)) == "next: i2s fix FILE --dry-run, i2s explain G215"
    assert end(("a.gguf", b"")) == "next: i2s explain G001"
    assert (
        end(("a", odd), ("b", b""))
        == "next: i2s fix FILE --dry-run (has repairs for 1 of 2 findings), i2s explain G001"
    )
    assert end(("a", odd), quiet=True) == ""


def test_the_baseline_is_counted(tmp_path: Path) -> None:
    report = replace(lint(broken("dup_key")), path=str(tmp_path / "a.gguf"))
    place = str(tmp_path / "baseline.json")
    baseline = Baseline(place, defaults().levels)
    baseline.apply(report.path, report.as_dict(), write=True)
    baseline.write()
    left = Baseline.read(place, defaults().levels).apply(report.path, report.as_dict())
    assert make("text").file(left).endswith("a.gguf: no error in what was checked; 1 more in the baseline\n")


def test_formats_of_one_run_get_their_own_details() -> None:
    forms = [kind("text"), kind("html"), kind("json")]
    report = lint(Draft().data, details=pickle.loads(pickle.dumps(details_of(forms))))
    assert "rules checked" in make("text").file(report)
    page = make("html")
    assert "<svg" in page.begin() + page.file(report) + page.end(Totals())
    assert "details" not in make("json").file(report)
    assert details_of([kind("json"), kind("junit")]) is None


def test_suppressed_findings_are_mentioned() -> None:
    report = lint(broken("dup_key"), suppressed={"G2": "a reason"})
    assert "1 finding of G203 suppressed: a reason\n" in make("text").file(report)
    assert make("text", quiet=True).file(report) == ""


def test_summary_of_many() -> None:
    totals = Totals()
    for name in ("dup_key", "pad_not_zero", "html"):
        totals.add(lint(broken(name)).as_dict())
    assert make("text").end(totals) == "3 files: 1 ok (1 of them checked in part), 2 not; 2 errors, 1 warning\n"
    assert make("text", quiet=True).end(totals) == ""
    assert make("text").end(Totals()) == ""
    last = make("github").end(totals)
    assert last == "i2s: 3 files: 1 ok (1 of them checked in part), 1 unreadable, 2 errors, 1 warning, 0 notes\n"


def test_a_skipped_file_is_not_ok() -> None:
    totals = Totals()
    totals.add(skipped(lint(Draft().data).as_dict(), "a pointer"))
    totals.add(lint(broken("dup_key")).as_dict())
    assert make("text").end(totals).startswith("2 files: 0 ok, 1 not, 1 skipped")
    assert make("github").end(totals).startswith("i2s: 2 files: 0 ok, ")
    assert '"message":"0 of 1 ok"' in make("shields").end(totals)


def test_colours_only_where_asked() -> None:
    report = lint(broken("dup_key"))
    assert "\x1b[" in make("text", colour=True).file(report)
    assert "\x1b" not in make("text").file(report)


def test_runtimes_are_a_table() -> None:
    report = lint(Draft().data, runtimes=True)
    listed = sum(finding.code == "P201" for finding in report.findings)
    assert listed > 0
    assert f", {listed} in the table" in make("text").file(report).splitlines()[-1]
    lines = make("text").file(replace(report, path="a.gguf")).splitlines()
    at = next(i for i, line in enumerate(lines) if line.split()[:3] == ["runtime", "loads", "computes"])
    assert len(lines) == at + 1 + len(report.runtimes) + 1
    assert "P201" not in "".join(lines)  # the table shows it
    assert "P201" in make("text", quiet=True).file(report)
    for columns in (30, 60, 200):
        text = make("text")
        text.columns = columns
        told = text.file(replace(report, path="a.gguf")).splitlines()
        assert max(map(len, told[:-1])) <= max(40, columns)
        assert all(verdict.title.split()[0] in "".join(told) for verdict in report.runtimes)
    assert "| runtime | loads | computes | devices | why |\n|---|---|---|---|---|\n" in make("markdown").file(report)
    assert "title=runtimes::" in make("github").file(report)
    junit = make("junit")
    assert junit.begin() + junit.file(report) == ""  # the first element has the totals, so it is written at the end
    assert "bitnet.cpp" in junit.end(Totals())
    assert len(report.as_dict()["runtimes"]) == len(report.runtimes)


def test_bytes_fit_a_narrow_terminal() -> None:
    """Rows of 16 bytes where they fit, of 8 where they would be wrapped; the carets stand under the bytes."""
    report = replace(lint(b"GGUG" + Draft().data[4:]), path="a.gguf")
    shown = {}
    for columns in (None, 60, 80):
        text = make("text")
        text.columns = columns
        dumped = [line for line in text.file(report).splitlines() if line.startswith("  ")]
        shown[columns] = [line for line in dumped if "|" in line or "^" in line]
    assert shown[None] == shown[80] != shown[60]
    assert max(map(len, shown[60])) <= 60
    for lines in shown.values():
        row, carets = lines[:2]
        marked = carets.replace("~", "^")
        assert row[marked.index("^") : marked.rindex("^") + 1] == "47 47 55 47"
