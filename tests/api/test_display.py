"""Objects in an interpreter and in a notebook: a line and a table, short and escaped whatever the file contains."""

from __future__ import annotations

import io
import pickle
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from malformed_cases import broken
from pace import units

import i2s_spec as i2s
from i2s_spec import errors
from i2s_spec.golden.result import Comparison, Diagnosis, TapResult
from i2s_spec.testing.sample import Draft

#: A name with escape sequences for a terminal, markup for a page and a line break.
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202e" + "n" * 200


def written(*tensors: tuple[str, tuple[int, ...]], **keys: Any) -> bytes:
    out = io.BytesIO()
    with i2s.Writer(out) as writer:
        for key, value in keys.items():
            writer.add(key.replace("__", "."), value)
        for name, shape in tensors:
            writer.add_tensor(name, shape, "F32", np.zeros(shape, np.float32).tobytes())
    return out.getvalue()


def safe(html: str) -> bool:
    """Whether the hostile name adds no markup and no control character, and the page is small and closes its tags."""
    tags = [html.count(f"<{tag}>") == html.count(f"</{tag}>") for tag in ("table", "tr", "td", "th", "p", "strong")]
    return all(tags) and "<img" not in html and "\x1b" not in html and "\u202e" not in html and len(html) < 30_000


@pytest.fixture(scope="module")
def report() -> i2s.Report:
    return i2s.lint(broken("dup_key"))


def test_lines_of_a_sound_file() -> None:
    file = i2s.open(Draft().data)
    assert repr(file) == "<File '<buffer>': 8 keys, 3 tensors>"
    assert repr(file.metadata) == "<Metadata: 8 keys>"
    assert repr(file.tensors) == "<Tensors: 3>"
    assert repr(file.tensors["first.weight"]) == "<Tensor 'first.weight': I2_S [4, 128]>"
    assert repr(i2s.lint(Draft().data, select=["G"])) == "<Report '<buffer>': no error in what was checked>"


def test_a_report_prints_one_line_for_each_finding(report: i2s.Report) -> None:
    assert repr(report).startswith("<Report '<buffer>': 1 error")
    first, *lines = str(report).splitlines()
    assert first == repr(report)
    assert len(lines) == len(report.findings)
    assert any(line.startswith("  <Finding error G203 duplicate-key at 0x") for line in lines)
    assert len(str(report)) < 2000
    many = replace(report, findings=report.findings[:1] * 100, elided={"G203": 900})
    assert str(many).splitlines()[-1] == "  and 980 more"
    assert repr(i2s.lint("no-such-file.gguf")) == "<Report 'no-such-file.gguf': not a readable GGUF file>"


def test_a_report_is_immutable_and_not_a_tuple(report: i2s.Report) -> None:
    assert not isinstance(report, tuple)
    with pytest.raises(TypeError):
        len(report)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        report.path = "b.gguf"  # type: ignore[misc]
    other = replace(report, path="b.gguf")
    assert (other.path, other.findings, report.path) == ("b.gguf", report.findings, "<buffer>")
    assert other != report
    assert replace(other, path=report.path) == report
    sound = i2s.lint(Draft().data)
    assert pickle.loads(pickle.dumps(sound)) == sound != other
    with pytest.raises(TypeError, match="nothing"):
        replace(report, nothing=1)


def test_html_tables_show_the_content_of_objects(report: i2s.Report, tmp_path: Path) -> None:
    file = i2s.open(Draft().data)
    assert "<td>first.weight</td><td>I2_S</td><td>(4, 128)</td>" in file._repr_html_()
    assert "<td>sample.numbers</td><td>arr[i16]</td><td>3 elements</td>" in file.metadata._repr_html_()
    assert "<th>bytes</th><td>160</td>" in file.tensors["first.weight"]._repr_html_()
    assert "<td>G203</td><td>error</td>" in report._repr_html_()
    finding = report.findings[0]
    assert f"<strong>{finding.severity.value} {finding.code}: " in finding._repr_html_()
    i2s.new(tmp_path / "a.gguf", layers=1)
    found = i2s.identify(tmp_path / "a.gguf")
    assert found.question("tail").answer is not None
    assert "tail first-float/zeros" in repr(found)
    assert "<th>dialect</th>" in found._repr_html_()
    assert len(repr(found)) < 400
    assert safe(found._repr_html_())


def test_a_comparison_shows_its_wrong_taps() -> None:
    wrong = TapResult("ffn_out-0", "wrong", limit="1e-3", diagnoses=(Diagnosis("silu", f"SiLU {HOSTILE}", "exactly"),))
    made = Comparison(
        "op-replay", "golden", HOSTILE, "npz", "x", verdict="WRONG <b>", taps=[TapResult("l_out-0", "ok"), wrong]
    )
    assert repr(made).endswith(": not ok, 2 tensors, op-replay; WRONG <b>>")
    assert "\x1b" not in repr(made)
    page = made._repr_html_()
    assert safe(page)
    assert "<td>ffn_out-0</td><td>wrong</td><td>SiLU &lt;img" in page
    assert "<td>l_out-0</td>" not in page


def test_text_from_a_file_is_not_read_as_markup() -> None:
    data = written(("t" * 3, (2, 2)), general__architecture=HOSTILE, general__name=HOSTILE).replace(b"ttt", b"<b>")
    file = i2s.open(data)
    for shown in (file, file.metadata, file.tensors, *file.tensors.values(), i2s.lint(data), i2s.identify(data)):
        html = shown._repr_html_()
        assert safe(html), html
        assert "<b>" not in html
        assert "\x1b" not in repr(shown)
        assert len(repr(shown)) < 1000
    assert "&lt;img src=x" in file._repr_html_()


def test_a_huge_file_has_a_small_page() -> None:
    out = io.BytesIO()
    count = 100_000
    with i2s.Writer(out) as writer:
        for number in range(count):
            writer.add_tensor(f"blk.{number}.weight", (1,), "F32", b"\0\0\0\0")
    file = i2s.open(out.getvalue())
    shown: list[str] = []
    assert units(lambda: shown.extend((file._repr_html_(), repr(file)))) < 5  # a page of all rows would take 17
    page, name = shown
    assert "100,000 tensors" in name
    assert page.count("<tr>") < 40
    assert f"and {count - errors.ROWS:,} more" in page
    assert len(page) < 10_000


def test_closed_and_damaged_files_have_a_page_too(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(Draft().data)
    with i2s.open(path) as file:
        pass
    assert "cannot be read any more" in file._repr_html_()
    with pytest.raises(ValueError, match=r"a\.gguf' is closed"):
        file.tensors["first.weight"].read()
    with pytest.raises(ValueError, match=r"a\.gguf' is closed"):
        file.source.readinto(0, memoryview(bytearray(4)))
    from i2s_spec.gguf.reader import File
    from i2s_spec.gguf.source import source_of

    damaged = File(source_of(Draft().data[:400]))
    assert damaged.fault is not None
    assert f"stopped by {damaged.fault.code}" in repr(damaged)
    assert "<th>stopped by</th>" in damaged._repr_html_()


def test_an_unknown_name_gets_suggestions() -> None:
    file = i2s.open(Draft().data)
    with pytest.raises(KeyError, match=r"no tensor 'first.wieght'; near it are 'first.weight'") as raised:
        file.tensors["first.wieght"]
    again = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value)
    with pytest.raises(KeyError, match=r"no key 'sample.number'; near it are 'sample.numbers'"):
        file.metadata["sample.number"]
    with pytest.raises(KeyError, match="names of a tensor are str, not int"):
        file.tensors[0]  # type: ignore[index]
    assert file.tensors.get("nothing") is None
    assert file.metadata.get("nothing", 3) == 3
    assert file.metadata.get("general.architecture") == "sample"
    assert file.tensors.get("first.weight").name == "first.weight"  # type: ignore[union-attr]


def test_a_model_and_its_result_are_shown_in_one_line(tmp_path: Path) -> None:
    i2s.new(tmp_path / "a.gguf", layers=1)
    with i2s.load_model(tmp_path / "a.gguf") as model:
        assert repr(model).endswith("bitnet-b1.58, 1 layer, interleave-128, bitnet-golden-1>")
        result = model.forward([1, 2, 3])
    assert repr(result) == f"<Result: logits [3, {model.vocab_size}], 0 taps, 3 tokens>"
    assert len(repr(model)) < 200


def test_a_traceback_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(i2s.FormatError) as raised:
        i2s.open(tmp_path / "none.gguf")
    assert "".join(traceback.format_exception(raised.value)).rstrip().endswith(f"in the file '{tmp_path}/none.gguf'")
    assert isinstance(raised.value.__cause__, FileNotFoundError)
    assert raised.value.of_file("other").__notes__ == [f"in the file '{tmp_path}/none.gguf'"]
