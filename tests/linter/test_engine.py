"""The engine: whatever the input is, a report; the world outside the file; bounds."""

from __future__ import annotations

import io
import os
import pickle
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from i2s_spec.gguf.source import BufferSource, FileSource
from i2s_spec.linter import engine
from i2s_spec.linter.engine import lint, summary
from i2s_spec.linter.rule import Severity
from i2s_spec.schema.types import BY_NAME, ValueType
from i2s_spec.testing.malformed import malformed
from i2s_spec.testing.sample import Draft, key_value


def codes(report: engine.Report) -> set[str]:
    return {finding.code for finding in report.findings}


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


class Shrinking(BufferSource):
    """A source that is cut short after a number of reads, as a file under a download is."""

    def __init__(self, data: bytes, reads: int) -> None:
        super().__init__(data)
        self.reads = reads

    @property
    def view(self) -> None:
        return None

    def read(self, start: int, length: int) -> bytes:
        self._count()
        return super().read(start, length)

    def readinto(self, start: int, buffer: memoryview) -> None:
        self._count()
        super().readinto(start, buffer)

    def _count(self) -> None:
        self.reads -= 1
        if self.reads < 0:
            from i2s_spec.gguf.source import _shrank

            raise _shrank(10, self.size)

    def changed(self) -> str | None:
        return "it was cut" if self.reads < 0 else None


@pytest.mark.parametrize("reads", range(12))
def test_file_that_shrinks_while_it_is_read(reads: int) -> None:
    report = lint(Shrinking(Draft().data, reads))
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
    assert codes(lint(path)) == {"G412", "G411"}


def test_all_parts_of_a_split_model(tmp_path: Path) -> None:
    part = next(case.data for case in malformed() if case.name == "split_alone")
    name = "model-{:05d}-of-00003.gguf"
    first = tmp_path / name.format(1)
    first.write_bytes(part)
    assert "2 of the others" in lint(first).findings[0].message
    for number in (2, 3):
        shutil.copy(first, tmp_path / name.format(number))
    assert lint(first).ok
    assert "says part 2 of 3" in lint(tmp_path / name.format(2)).findings[0].message
    assert "not of the form" in lint(Path(shutil.copy(first, tmp_path / "other.gguf"))).findings[0].message


def test_split_names_in_metadata_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_for: list[str] = []
    monkeypatch.setattr(os.path, "isfile", lambda path: looked_for.append(str(path)) or False)
    part = next(case.data for case in malformed() if case.name == "split_alone")
    path = tmp_path / "model-00001-of-00003.gguf"
    path.write_bytes(part)
    lint(path)
    assert all(Path(name).parent == tmp_path for name in looked_for)


def test_findings_are_bounded_and_counted() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values += [key_value(b"X%d" % i, ValueType.UINT8, 1) for i in range(500)]
    report = lint(draft.built(file))
    assert len(report.findings) == engine.KEPT_PER_RULE
    assert report.elided == {"G207": 400}
    assert report.count(Severity.NOTE) == 500


@given(st.binary(max_size=300))
@settings(max_examples=200)
def test_any_bytes_get_a_report(data: bytes) -> None:
    for prefix in (b"", b"GGUF\3\0\0\0"):
        report = lint(prefix + data)
        assert report.findings or report.ok
        assert engine.finding_dict(report.findings[0]) if report.findings else True


@pytest.mark.parametrize("step", [1])
def test_every_prefix_gets_a_report(step: int) -> None:
    data = Draft().data
    for length in range(0, len(data), step):
        report = lint(data[:length])
        assert not report.ok, length


def test_same_verdict_from_path_buffer_and_stream(tmp_path: Path) -> None:
    for case in malformed():
        if len(case.data) > 100_000 or case.name.startswith("split"):
            continue
        path = tmp_path / "case.gguf"
        path.write_bytes(case.data)
        expected = lint(case.data)
        for origin in (path, io.BytesIO(case.data), memoryview(case.data), bytearray(case.data)):
            assert lint(origin).findings == expected.findings, case.name


def test_report_as_data_is_plain(tmp_path: Path) -> None:
    import json

    for case in malformed():
        if len(case.data) < 100_000:
            text = json.dumps(lint(case.data).as_dict(), allow_nan=False)
            assert text.isascii()
            assert pickle.loads(pickle.dumps(lint(case.data).as_dict())) == lint(case.data).as_dict()


def test_summary_counts() -> None:
    cases = {case.name: case for case in malformed() if len(case.data) < 100_000}
    reports = [lint(cases[name].data) for name in ("html", "gap", "dup_key")] + [lint(Draft().data)]
    assert summary(reports) == {"files": 4, "ok": 2, "unreadable": 1, "errors": 2, "warnings": 1, "notes": 0}
    assert [report.exit_code() for report in reports] == [3, 0, 1, 0]
    assert [report.exit_code(Severity.WARNING) for report in reports] == [3, 1, 1, 0]
    assert [report.exit_code(None) for report in reports] == [3, 0, 0, 0]


def test_unknown_profile() -> None:
    with pytest.raises(ValueError, match="there are: default"):
        lint(b"", profile="none")
