"""Type numbers with several meanings or with none: one finding for each file, with a loader's reaction."""

from __future__ import annotations

import io
from typing import Any

import pytest

import i2s_spec as i2s
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.new import new
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.schema.types import BY_NAME


@pytest.fixture(scope="module")
def model() -> bytes:
    stream = io.BytesIO()
    new(stream, "llama", layers=2, embd=256, ff=512)
    return stream.getvalue()


def converted(model: bytes, to: str) -> bytes:
    target = io.BytesIO()
    convert_file(open_file(model), target, to=to)
    return target.getvalue()


def renumbered(data: bytes, before: str, number: int) -> bytes:
    """The file with another number on every tensor of a type."""
    changed = bytearray(data)
    for tensor in open_file(data).tensors.rows:
        if tensor.number == BY_NAME[before].number:
            span = tensor.info.type_span
            changed[span.start : span.stop] = number.to_bytes(4, "little")
    return bytes(changed)


def findings(data: bytes) -> list[Any]:
    return [finding for finding in i2s.lint(data).findings if finding.rule.severity != "note"]


@pytest.mark.parametrize("kind", ["Q2_0", "PQ2_0", "PTQ1_0", "TQ1_0", "TQ2_0", "IQ1_BN", "IQ2_BN"])
def test_files_of_every_ternary_type_are_sound(model: bytes, kind: str) -> None:
    data = converted(model, kind)
    assert findings(data) == []
    assert {tensor.type.name for tensor in open_file(data).tensors.rows if tensor.name.startswith("blk.0.ffn")} >= {
        kind
    }


def test_another_meaning_of_a_number_is_one_finding(model: bytes) -> None:
    """However many tensors have it: each type by itself, with the first tensor of it."""
    data = converted(model, "I2_SR")
    (finding,) = findings(data)
    assert finding.rule.code == "G318"
    rows = [row for row in open_file(data).tensors.rows if row.number == 40]
    assert finding.message == (
        f"tensor '{rows[0].name}' has type 40, read as 'I2_SR' by its size, as are {len(rows) - 1} more; "
        "others read 'NVFP4'"
    )
    assert finding.span.start == rows[0].info.type_span.start


def test_groups_of_128_are_one_finding_with_the_two_numbers_of_a_loader(model: bytes) -> None:
    data = renumbered(converted(model, "PQ2_0"), "PQ2_0", 42)
    (finding,) = findings(data)
    assert finding.rule.code == "G321"
    file = open_file(data)
    rows = list(file.tensors.rows)
    expected = 0
    for row in rows:
        if row.offset != expected:
            break
        size = BY_NAME["Q2_0"].nbytes(row.ne) if row.number == 42 else row.nbytes
        expected += -(-size // 32) * 32
    said = f"programs for groups of 64 stop at tensor '{row.name}', which has offset {row.offset}, expected {expected}"
    assert said in finding.message
    assert finding.message.startswith("tensors of type 42 (14) have groups of 128 weights, 34 bytes")
    assert "i2s convert --to Q2_0" in finding.message
    # The advised conversion gives a sound file with the same weights.
    repaired = converted(data, "Q2_0")
    assert findings(repaired) == []
    name = "blk.1.ffn_up.weight"
    assert (open_file(repaired).tensors[name].dequantize() == file.tensors[name].dequantize()).all()


def test_tensors_of_a_number_that_nobody_defines_are_one_finding(model: bytes) -> None:
    data = converted(model, "PQ2_0")
    (finding,) = findings(renumbered(data, "PQ2_0", 77))
    assert finding.rule.code == "G313"
    assert finding.message.endswith("has type 77, which no known ggml defines, and so have 13 others")
    (finding,) = findings(renumbered(data, "PQ2_0", 45))
    assert finding.message.endswith("; it is TQ3_1S to TurboQuant's forks")


def test_a_number_of_single_programs_is_one_finding_with_the_meaning_that_has_the_room(model: bytes) -> None:
    data = renumbered(converted(model, "PQ2_0"), "PQ2_0", 43)
    (finding,) = findings(data)
    assert finding.message == (
        "tensors of type 43 (14) are Q1_0_g128 of sky-is-green/prism-ml-llama.cpp, 34 bytes for 128 weights, the bytes of "
        "PQ2_0, in older files; other readers refuse the number"
    )
