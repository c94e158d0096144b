"""Spans of findings, exact to the byte, and values just inside and just outside the limits of rules."""

from __future__ import annotations

import struct

import pytest
from builders import sample_with

import i2s_spec as i2s
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.report_data import Report
from i2s_spec.linter.rule import Finding, Severity
from i2s_spec.schema.types import BY_NAME
from i2s_spec.testing.sample import Draft, i2s_bytes

Info = tuple[bytes, tuple[int, ...], int, int]
I2_S, I8 = BY_NAME["I2_S"].number, BY_NAME["I8"].number


def found(report: Report, code: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.code == code]


def shown(data: bytes, finding: Finding) -> bytes:
    return data[finding.span.start : finding.span.stop]


def test_spans_are_the_bytes_of_their_fields() -> None:
    data = sample_with(
        [(b"bad\x01name", (8,), I8, 0), (b"odd", (129, 3), I2_S, 32), (b"what", (4,), 99, 192)], bytes(256)
    )
    report = i2s.lint(data)
    by_path = {finding.span.path: shown(data, finding) for finding in report.findings}
    assert by_path["tensor_infos[0].name"] == b"bad\x01name"
    assert by_path["tensor_infos[1].ne"] == struct.pack("<QQ", 129, 3)
    assert by_path["tensor_infos[2].type"] == struct.pack("<i", 99)
    subject = LintContext(File(BufferSource(data)))
    for i, (name, ne, number, offset) in enumerate(
        [(b"bad\x01name", (8,), I8, 0), (b"odd", (129, 3), I2_S, 32), (b"what", (4,), 99, 192)]
    ):
        wanted = {
            "n_dims": struct.pack("<I", len(ne)), "ne": struct.pack(f"<{len(ne)}Q", *ne),
            "type": struct.pack("<i", number), "offset": struct.pack("<Q", offset),
        }  # fmt: skip
        assert data[slice(*subject.name_span(i)[:2])] == name
        assert {field: data[slice(*subject.info_span(i, field)[:2])] for field in wanted} == wanted
    assert data[slice(*subject.key_span(0)[:2])] == b"general.architecture"


def test_a_span_ends_with_the_file() -> None:
    data = Draft().data[:-200]
    (cut,) = found(i2s.lint(data), "G401")
    assert cut.span.stop == len(data)
    assert cut.span.start < cut.span.stop


@pytest.mark.parametrize("length", [0, 3, 16, 23, 24, 30])
def test_something_is_shown_where_a_file_ends_too_early(length: int) -> None:
    data = Draft().data[:length]
    for finding in i2s.lint(data).findings:
        if not data:
            assert finding.excerpt is None
            continue
        assert finding.excerpt is not None
        start, shown = finding.excerpt
        assert shown == data[start : start + len(shown)]
        assert start % 16 == 0
        assert 1 <= len(shown) <= 48


def test_an_excerpt_is_three_rows() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values[1].key = b"general name " * 20
    data = draft.built(file)
    wide = [finding for finding in i2s.lint(data).findings if finding.span.stop - finding.span.start > 100]
    assert wide
    for finding in wide:
        assert finding.excerpt is not None
        assert (finding.excerpt.start, len(finding.excerpt.data)) == (finding.span.start // 16 * 16, 48)


def test_findings_at_the_level_of_fail_on_count() -> None:
    report = i2s.lint(Draft().data + bytes(7))
    worst = max(finding.severity.rank for finding in report.findings)
    assert [level for level in Severity if report.exit_code(level)] == [
        level for level in Severity if level.rank <= worst
    ]
    assert report.exit_code(Severity("warning")) == 1
    assert report.exit_code(None) == 0


def test_findings_are_in_the_order_of_the_bytes() -> None:
    data = sample_with(
        [(b"bad\x01name", (8,), I8, 0), (b"odd", (129, 3), I2_S, 32), (b"what", (4,), 99, 192)], bytes(256)
    )
    report = i2s.lint(bytes(data) + b"more")
    spans = [finding.span[:2] for finding in report.findings]
    assert spans == sorted(spans)
    assert [finding.code for finding in report.findings] != sorted(finding.code for finding in report.findings)


def test_adjacent_tensors_do_not_overlap_and_nested_ones_do() -> None:
    sound = sample_with([(b"a", (32,), I8, 0), (b"b", (32,), I8, 32), (b"c", (32,), I8, 64)], bytes(96))
    assert not found(i2s.lint(sound), "G404")
    inside = sample_with([(b"large", (128,), I8, 0), (b"one", (32,), I8, 32), (b"two", (32,), I8, 96)], bytes(128))
    both = found(i2s.lint(inside), "G404")
    assert [(finding.got, finding.want) for finding in both] == [(32, 128), (96, 128)]
    assert [finding.details["name"] for finding in both] == [b"one", b"two"]
    assert all(finding.details["other"] == b"large" for finding in both)


@pytest.mark.parametrize("left", [0, 1, 4, 31])
def test_a_file_that_ends_inside_its_last_tail(left: int) -> None:
    payload = i2s_bytes(512)[:-32]
    report = i2s.lint(sample_with([(b"a.weight", (128, 4), I2_S, 0)], payload + bytes(left)))
    (finding,) = found(report, "I104")
    assert (finding.got, finding.want) == (left, 32)
    assert not found(report, "G401")


@pytest.mark.parametrize("left", [0, 4, 28])
def test_a_tensor_that_begins_inside_a_tail(left: int) -> None:
    payload = i2s_bytes(512)[:-32]
    infos = [(b"a.weight", (128, 4), I2_S, 0), (b"b.weight", (8,), I8, 128 + left)]
    report = i2s.lint(sample_with(infos, payload + bytes(left) + bytes(32)))
    (finding,) = found(report, "I105")
    assert (finding.got, finding.want) == (left, 32)
    assert not found(report, "G404")


def test_most_scales_must_be_in_the_other_order() -> None:
    """One of two may be chance; two of three are not."""
    good, turned = i2s_bytes(512, 0.75), i2s_bytes(512, 0.75, "big")
    for scales, wrong in (([good, turned], False), ([good, turned, turned], True), ([turned], True), ([good], False)):
        infos = [(b"%d.weight" % i, (128, 4), I2_S, 160 * i) for i in range(len(scales))]
        report = i2s.lint(sample_with(infos, b"".join(scales)))
        assert bool(found(report, "I301")) == wrong


@pytest.mark.parametrize("name", ["MXFP4", "TL2", "NVFP4", "I2_SR"])
def test_the_space_of_the_last_tensor_ends_with_the_data(name: str) -> None:
    """The size determines the meaning of the number, and is counted in the data section."""
    kind, ne = BY_NAME[name], (512, 7)
    file = File(BufferSource(sample_with([(b"a", ne, kind.number, 0)], bytes(kind.nbytes(ne)))))
    assert file.data_start
    (placement,) = LintContext(file).placements
    assert placement.size == kind.nbytes(ne)
