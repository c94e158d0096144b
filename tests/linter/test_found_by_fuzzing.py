"""Failures that fuzzing found in the linter, its repairs, `sanitize` and the writer, reproduced from the valid sample."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest

from i2s_spec.cli import main
from i2s_spec.errors import EXIT_BUG, FormatError
from i2s_spec.gguf.encode import completed
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.engine import lint
from i2s_spec.linter.fix import fix
from i2s_spec.linter.sanitize import sanitize
from i2s_spec.schema.types import BY_NAME, I2_S, ValueType, padded
from i2s_spec.testing.sample import Draft, Model, array, i2s_bytes, key_value, tensor_info


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("size", range(8, 25))
def test_counts_have_spans_inside_the_file(version: int, size: int) -> None:
    data = (b"GGUF" + struct.pack("<I", version) + struct.pack("<I", 1 << 30) * 4)[:size]
    for finding in lint(data, runtimes=True).findings:
        assert 0 <= finding.span.start <= finding.span.stop <= size, finding


def test_counts_of_version_1_have_four_bytes() -> None:
    data = b"GGUF" + struct.pack("<III", 1, 0, 1 << 30) + bytes(64)
    spans = {finding.span[:2] for finding in lint(data, runtimes=True).findings if "promises" in finding.message}
    assert spans <= {(12, 16)}


@pytest.mark.parametrize("behind", [0, 4])
def test_bytes_after_an_incomplete_tensor_are_not_padding(behind: int) -> None:
    draft = Draft(last="f32")
    file = draft.records()
    file.tensor_infos = [tensor_info(b"first.weight", (9,), BY_NAME["F32"].number, 0),
                         tensor_info(b"second.weight", (9,), BY_NAME["F32"].number, 64)]  # fmt: skip
    file.data = bytes(behind)
    codes = {finding.code for finding in lint(draft.built(file)).findings}
    assert "G401" in codes
    assert not {"S903", "G406"} & codes


def misaligned(order: int) -> bytes:
    """A file that states an alignment of 64 and is laid out in steps of 32, with weights where the padding would be."""
    draft = Draft()
    file = draft.records()
    file.key_values.append(key_value(b"general.alignment", ValueType.UINT32, 64))
    file.key_values[1].value = b"n" * order
    file.tensor_infos = [tensor_info(name, (128, 4), I2_S.number, at)
                         for name, at in ((b"first.weight", 0), (b"second.weight", 160))]  # fmt: skip
    file.data = i2s_bytes(512) * 2
    return draft.built(file, 32)


def test_padding_is_not_cleared_where_the_alignment_is_disputed() -> None:
    """A safe repair changes no weight: what lies before the stated beginning of the data may be weights."""
    disputed = 0
    for order in range(64):
        data = misaligned(order)
        end = File(BufferSource(data)).infos_end
        assert end is not None
        start = padded(end, 32)
        codes = {finding.code for finding in lint(data).findings}
        once = io.BytesIO()
        made = fix(data, once, unsafe=False)
        written = once.getvalue() if made.written else data
        assert written[start:] == data[start:]
        if "G222" in codes and start != padded(end, 64):
            disputed += 1
            assert codes == {"G222"}  # the data before the stated start is known to be weights
            assert not made.actions
            both = io.BytesIO()
            fix(data, both, unsafe=True)
            repaired = File(BufferSource(both.getvalue()))
            assert repaired.data_start == start
            assert both.getvalue()[start:] == data[start:]
    assert disputed


def test_tensors_that_share_a_tail_are_not_swapped_twice() -> None:
    draft = Draft()
    file = draft.records()
    file.tensor_infos = [tensor_info(name, (128, 4), I2_S.number, 0) for name in (b"first.weight", b"second.weight")]
    file.data = i2s_bytes(512, 0.75, "big")
    data = draft.built(file)
    assert "I301" in {finding.code for finding in lint(data).findings}
    made = fix(data, io.BytesIO(), unsafe=True, select=["I301"])
    assert made.actions == ()
    assert "change those twice" in {declined.code: declined.why for declined in made.declined}["I301"]


def test_a_tail_that_cannot_be_told_from_codes_is_not_sanitised() -> None:
    draft = Draft()
    file = draft.records()
    file.tensor_infos = [tensor_info(b"first.weight", (8,), I2_S.number, 0)]
    file.data = b"\x15\x4a" + struct.pack("<f", 0.75) + bytes(range(28)) + bytes(30)
    with pytest.raises(FormatError) as caught:
        sanitize(draft.built(file), io.BytesIO(), keep_unknown=True)
    assert caught.value.code == "I109"


def test_a_file_without_a_name_has_no_baseline(tmp_path: Path) -> None:
    words = ["lint", "", "--baseline", str(tmp_path / "baseline.json"), "--write-baseline"]
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code != EXIT_BUG


@pytest.mark.parametrize("value", [5, [5], "text", [[1], [2]]])
def test_a_type_that_is_deeper_than_the_value_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=r"arr\[arr\[arr\[arr\]\]\] takes a list, not (u32|str)"):
        completed("arr[arr[arr[arr]]]", None, value)


def test_an_architecture_that_is_not_utf_8_is_checked() -> None:
    """The keys that its name would prefix were looked for as UTF-8."""
    data = Model("qwen3").built()
    at = data.index(b"general.architecture") + len(b"general.architecture") + 12
    assert data[at : at + 5] == b"qwen3"
    report = lint(data[:at] + b"\xf3" + data[at + 1 :])
    assert not report.bugs
    assert not report.ok


@pytest.mark.parametrize(
    ("key", "kind", "value"),
    [
        ("{arch}.attention.layer_norm_rms_epsilon", ValueType.FLOAT64, 1e-5),
        ("tokenizer.ggml.scores", ValueType.ARRAY, array(ValueType.BOOL, [False, 2])),
    ],
)
def test_numbers_of_another_type_are_repaired_or_declined(key: str, kind: ValueType, value: object) -> None:
    """The repair took a single number, and a list, for an array of integers."""
    data, once = Model("llama").drop(key).add(key, kind, value).built(), io.BytesIO()
    fix(data, once, unsafe=True)
    assert not lint(once.getvalue() or data).bugs
