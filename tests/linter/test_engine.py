"""The engine: any input gives a report; conditions outside the file; limits."""

from __future__ import annotations

import io
import os
import pickle
import shutil
from pathlib import Path

import pytest
from examples import examples, share, some
from finding_codes import codes
from hypothesis import given
from hypothesis import strategies as st
from malformed_cases import CASES, SMALL, broken

from i2s_spec.gguf.source import FileSource
from i2s_spec.linter import engine
from i2s_spec.linter.engine import lint
from i2s_spec.linter.report_data import Totals, finding_dict
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.schema import limits
from i2s_spec.schema.types import BY_NAME, ValueType
from i2s_spec.testing.differential import Vanishing
from i2s_spec.testing.sample import Draft, key_value


def test_missing_file(tmp_path: Path) -> None:
    report = lint(tmp_path / "missing.gguf")
    assert codes(report) == {"S901"}
    assert report.exit_code() == 3
    assert "No such file" in report.findings[0].message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_forbidden_file(tmp_path: Path) -> None:
    path = tmp_path / "forbidden.gguf"
    path.write_bytes(b"GGUF")
    path.chmod(0)
    assert codes(lint(path)) == {"S901"}


def test_fifo_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    report = lint(tmp_path / "fifo")
    assert codes(report) == {"S902"}
    assert "a FIFO" in report.findings[0].message


@pytest.mark.parametrize(("path", "kind"), [("/dev/zero", "a character device"), (".", "a directory")])
def test_special_files(path: str, kind: str) -> None:
    report = lint(path)
    assert codes(report) == {"S902"}
    assert kind in report.findings[0].message
    assert report.exit_code() == 3


@pytest.mark.parametrize("reads", range(12))
def test_file_that_shrinks_while_it_is_read(reads: int) -> None:
    report = lint(Vanishing(Draft().data, reads))
    assert "S903" in codes(report) or report.ok


def test_file_that_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(Draft().data)
    original = FileSource.changed

    def touched(self: FileSource) -> str | None:
        os.utime(path, ns=(1, 1))
        return original(self)

    monkeypatch.setattr(FileSource, "changed", touched)
    report = lint(path)
    assert codes(report) == {"S903"}
    assert not report.ok


def test_file_that_is_truncated_under_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(Draft().data)
    source = FileSource(path)
    os.truncate(path, 100)
    assert codes(lint(source)) == {"S903"}
    source.close()


def test_hole_in_a_sparse_file(tmp_path: Path) -> None:
    draft = Draft()
    file = draft.records()
    size = 3 << 20
    file.tensor_infos = file.tensor_infos[:1]
    file.tensor_infos[0].update({"ne": [size // 4], "n_dims": 1, "type": BY_NAME["F32"].number})
    file.data = b""
    head = draft.built(file)
    path = tmp_path / "sparse.gguf"
    with path.open("wb") as out:
        out.write(head + b"\1" * (1 << 20))
        out.seek(len(head) + size - (1 << 19))
        out.write(b"\1" * (1 << 19))
    if path.stat().st_blocks * 512 >= len(head) + size:
        pytest.skip("this file system keeps no holes")
    assert {"G412"} <= codes(lint(path)) <= {"G412", "G411"}


def test_all_parts_of_a_split_model(tmp_path: Path) -> None:
    part = broken("split_alone")
    name = "model-{:05d}-of-00003.gguf"
    first = tmp_path / name.format(1)
    first.write_bytes(part)
    assert "2 of the other parts" in lint(first).findings[0].message
    for number in (2, 3):
        shutil.copy(first, tmp_path / name.format(number))
    assert "says that it is part 1" in lint(first).findings[0].message
    assert "says part 2 of 3" in lint(tmp_path / name.format(2)).findings[0].message
    assert "not of the form" in lint(Path(shutil.copy(first, tmp_path / "other.gguf"))).findings[0].message


@pytest.mark.requirement("R2.8-4")
def test_split_names_in_metadata_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_for: list[str] = []
    monkeypatch.setattr(os.path, "isfile", lambda path: looked_for.append(str(path)) or False)
    part = broken("split_alone")
    path = tmp_path / "model-00001-of-00003.gguf"
    path.write_bytes(part)
    lint(path)
    assert all(Path(name).parent == tmp_path for name in looked_for)


def test_findings_are_bounded_and_counted() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values += [key_value(b"X%d" % i, ValueType.UINT8, 1) for i in range(500)]
    report = lint(draft.built(file))
    assert len(report.findings) == limits.FINDINGS_PER_RULE == 100
    assert report.elided == {"G207": 400}
    assert report.count(Severity.NOTE) == 500


@given(st.binary(max_size=300))
@examples(200)
def test_any_bytes_get_a_report(data: bytes) -> None:
    for prefix in (b"", b"GGUF\3\0\0\0"):
        report = lint(prefix + data)
        assert report.findings or report.ok
        assert finding_dict(report.findings[0]) if report.findings else True


@pytest.mark.parametrize("step", [1])
def test_every_prefix_gets_a_report(step: int) -> None:
    data = Draft().data
    for length in range(0, len(data), step):
        report = lint(data[:length])
        assert not report.ok, length


def test_same_verdict_from_path_buffer_and_stream(tmp_path: Path) -> None:
    for case in some(SMALL.values()):
        if case.name.startswith("split"):
            continue
        path = tmp_path / "case.gguf"
        path.write_bytes(case.data)
        expected = lint(case.data).as_dict()["findings"]  # as data, because NaN is not equal to itself
        for origin in (path, io.BytesIO(case.data), memoryview(case.data), bytearray(case.data)):
            assert lint(origin).as_dict()["findings"] == expected, case.name


def test_report_as_data_is_plain(tmp_path: Path) -> None:
    import json

    for case in some(SMALL.values()):
        document = lint(case.data).as_dict()
        assert json.dumps(document, allow_nan=False).isascii()
        assert pickle.loads(pickle.dumps(document)) == document


def test_totals_count() -> None:
    reports = [lint(broken(name)) for name in ("html", "pad_not_zero", "dup_key")] + [lint(Draft().data)]
    totals = Totals()
    for report in reports:
        totals.add(report.as_dict())
    counts = totals.as_dict()
    assert [counts[name] for name in ("files", "ok", "unreadable", "errors")] == [4, 2, 1, 2]
    assert totals.codes == {"G004": 1, "G406": 1, "G203": 1}
    assert totals.exit_code == 3
    assert [report.exit_code() for report in reports] == [3, 0, 1, 0]
    assert [report.exit_code(Severity.WARNING) for report in reports] == [3, 1, 1, 0]
    assert [report.exit_code(None) for report in reports] == [3, 0, 0, 0]


def test_severity_counts_where_findings_are_elided() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values += [key_value(b"X%d" % i, ValueType.UINT8, 1) for i in range(150)]
    report = lint(draft.built(file), severity={"G207": "error"})
    assert report.count(Severity.ERROR) == 150
    assert not report.ok
    assert {finding.severity for finding in report.findings} == {Severity.ERROR}


def test_suppressed_findings_are_counted_not_listed() -> None:
    report = lint(broken("dup_key"), suppressed={"G203": "the tool that reads it takes the first one"})
    assert report.findings == ()
    assert report.ok
    assert [tuple(suppressed) for suppressed in report.suppressed] == [
        ("G203", 1, "the tool that reads it takes the first one")
    ]


def test_findings_about_unreadable_files_cannot_be_suppressed() -> None:
    html = broken("html")
    for report in (lint(html, suppressed={"G": "no"}), lint(html, ignore=["G"]), lint(html, select=["I"])):
        assert codes(report) == {"G004"}
        assert report.exit_code() == 3


def test_limits_hold_for_one_call() -> None:
    data = Draft().data
    tensors = lint(data, limits={"tensors": 2})
    assert codes(tensors) == {"S102"}
    assert tensors.findings[0].want == 2
    assert codes(lint(data, limits={"keys": 1})) == {"S101"}
    assert codes(lint(data, limits={"usual-tensors": 1})) == {"S104"}
    assert lint(data).ok


@pytest.mark.parametrize(("keys", "limits"), share([(2_000, {"usual-keys": 1_000}), (70_000, {})]))
def test_a_raised_limit_is_raised(keys: int, limits: dict[str, int]) -> None:
    """A given limit, and the default one."""
    draft = Draft()
    file = draft.records()
    file.key_values += [key_value(b"x%d" % i, ValueType.UINT8, 1) for i in range(keys)]
    data = draft.built(file)
    assert codes(lint(data, limits=limits)) == {"S103"}
    assert lint(data, limits={"usual-keys": 80_000}).findings == ()


def test_findings_limit() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values += [key_value(b"X%d" % i, ValueType.UINT8, 1) for i in range(20)]
    report = lint(draft.built(file), limits={"findings": 5})
    assert (len(report.findings), report.elided) == (5, {"G207": 15})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"profile": "none"}, "there are: default"),
        ({"select": ["X9"]}, "no rule has a code"),
        ({"severity": {"G": "fatal"}}, "unknown severity"),
        ({"limits": {"nothing": 1}}, "unknown limit 'nothing'; there are: keys"),
        ({"limits": {"keys": 0}}, "at least 1"),
        ({"limits": {"keys": True}}, "at least 1"),
        ({"payload": "some"}, "unknown reading"),
        ({"threads": 0}, "at least 1"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lint(b"", **options)


def test_excerpts_hold_the_bytes_of_the_span() -> None:
    for case in SMALL.values():
        for finding in lint(case.data).findings:
            if not case.data:
                assert finding.excerpt is None
                continue
            assert finding.excerpt is not None
            start, data = finding.excerpt
            assert start % 16 == 0
            assert data == case.data[start : start + len(data)]
            assert 0 < len(data) <= 48
            shown = min(finding.span.stop, start + 48)
            assert start <= finding.span.start
            assert shown <= start + len(data)


def test_a_rule_that_fails_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(subject: object) -> None:
        raise KeyError("\x1b[2J")

    monkeypatch.setitem(REGISTRY, "G106", REGISTRY["G106"]._replace(check=failing))
    engine._in_order.cache_clear()
    data = broken("dup_key")
    report = lint(data)
    assert codes(report) == {"G203"}
    assert not report.ok
    assert report.exit_code() == 4
    assert [bug.where for bug in report.bugs] == ["G106"]
    assert "\x1b" not in str(report.as_dict())
    monkeypatch.setenv("I2S_DEBUG", "1")
    with pytest.raises(KeyError):
        lint(data)
    engine._in_order.cache_clear()


def test_details_are_made_while_the_file_is_open(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(Draft().data)
    report = lint(path, details=lambda subject: {"head": subject.file.source.read(0, 4).decode()})
    assert report.details == {"head": "GGUF"}
    assert report.as_dict()["details"] == {"head": "GGUF"}
    assert "details" not in lint(path).as_dict()


def test_header_only_leaves_out_rules_on_payloads() -> None:
    payload = {code for code, rule in REGISTRY.items() if rule.payload}
    for case in CASES.values():
        if case.code in payload and not case.large:
            assert case.code not in codes(lint(case.data, payload="none"))


def test_uri_can_be_decoded_to_the_path() -> None:
    from urllib.parse import unquote_to_bytes, urlsplit

    from i2s_spec.linter.report_data import uri_of

    for path in ("a b.gguf", "dir/ä#?%.gguf", "/tmp/\udcff:x.gguf", "c:d.gguf"):
        uri = uri_of(path)
        assert uri.isascii()
        assert unquote_to_bytes(urlsplit(uri).path) == os.fsencode(path)
        assert urlsplit(uri).scheme == ("file" if path.startswith("/") else "")
