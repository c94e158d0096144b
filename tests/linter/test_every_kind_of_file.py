"""Rules on payloads fire in every kind of file: whatever else is in it, and whatever architecture it names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from malformed_cases import SMALL

import i2s_spec as i2s
from i2s_spec.inspect.survey import Reading
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.analysis.payload_stats import examined_types
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.schema import container
from i2s_spec.schema.blocks import SCALES
from i2s_spec.schema.types import BY_NAME, NUMBER_FORMS, ValueType, padded
from i2s_spec.testing.malformed import Case
from i2s_spec.testing.sample import Draft, Model, block_bytes, i2s_bytes, key_value, tensor_info

ARCHITECTURE = b"general.architecture"
FLOATS = ("F16", "BF16", "F32", "F64")


def with_architecture(name: bytes | None) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        file.key_values = [pair for pair in file.key_values if pair.key != ARCHITECTURE]
        if name is not None:
            file.key_values.insert(0, key_value(ARCHITECTURE, ValueType.STRING, name))

    return change


def with_tensor(kind: str, content: bytes, ne: tuple[int, ...], name: bytes = b"more.weight") -> Callable[[Any], None]:
    """One more tensor, after all others."""

    def change(file: Any) -> None:
        at = padded(len(file.data), 32)
        file.tensor_infos.append(tensor_info(name, ne, BY_NAME[kind].number, at))
        file.data = file.data.ljust(at, b"\0") + content.ljust(padded(len(content), 32), b"\0")

    return change


#: What may be different about a file, without a fault of its own payloads.
KINDS: dict[str, Callable[[Any], None]] = {
    "of qwen2": with_architecture(b"qwen2"),
    "of an unknown architecture": with_architecture(b"foo"),
    "of llama": with_architecture(b"llama"),
    "without an architecture": with_architecture(None),
    "with I2_S": with_tensor("I2_S", i2s_bytes(512, 0.75, "little"), (128, 4)),
    "with BF16": with_tensor("BF16", bytes(64), (8, 4)),
    "with TQ2_0": with_tensor("TQ2_0", block_bytes(b"more.weight", (256, 2), "TQ2_0"), (256, 2)),
    "with Q4_K": with_tensor("Q4_K", bytes(144), (256,)),
}


def changed(data: bytes, kind: str) -> bytes:
    """A file after a change of its kind."""
    file = container.parse(data)
    KINDS[kind](file)
    return Draft().built(file)


def codes(data: bytes) -> set[str]:
    return {finding.code for finding in i2s.lint(data).findings}


#: One case for each rule on payloads and each type; larger models are their own kinds of files.
CASES = {
    case.name: case
    for case in SMALL.values()
    if REGISTRY[case.code].payload
    and case.code[0] in "BGI"
    and case.code not in ("I213", "I214", "I215", "I216", "I217")
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_on_payloads_fires_whatever_else_is_in_the_file(kind: str) -> None:
    missed = [
        case.name for case in CASES.values() if fits(case, kind) and case.code not in codes(changed(case.data, kind))
    ]
    assert missed == []
    assert len(CASES) > 50


def fits(case: Case, kind: str) -> bool:
    """Whether a change of the kind leaves the fault as it is: some are about the end of a file, or about all scales."""
    if case.code in ("G410", "G414") or case.name == "trunc_data":
        return kind.startswith(("of", "without"))
    return not (kind == "with I2_S" and case.code in ("I313", "I314"))


def tensor_of(kind: str, at: int, content: bytes) -> Callable[[Any], None]:
    """A tensor of zeros but for some bytes."""
    number = BY_NAME[kind]
    ne = (number.block * 8, 8)
    data = bytearray(number.nbytes(ne))
    data[at : at + len(content)] = content
    return with_tensor(kind, bytes(data), ne, b"odd.weight")


def alone(change: Callable[[Any], None], kind: str) -> bytes:
    """A file with one tensor, in a file of a kind."""
    draft = Draft()
    file = draft.records()
    file.tensor_infos, file.data = [], b""
    change(file)
    return changed(draft.built(file), kind)


@pytest.mark.parametrize("kind", KINDS)
def test_floats_that_are_not_finite_are_found_in_every_kind_of_file(kind: str) -> None:
    for name in FLOATS:
        form = NUMBER_FORMS[name]
        for value, odd in ((form.mask, True), (form.mask | 1, True), (form.mask - 1 & form.mask, False)):
            change = tensor_of(name, 7 * form.bytes, value.to_bytes(form.bytes, "little"))
            assert ("G413" in codes(alone(change, kind))) is odd, (name, value)


@pytest.mark.requirement("R5.7-1")
@pytest.mark.parametrize("kind", KINDS)
def test_scales_that_are_not_finite_are_found_in_every_kind_of_file(kind: str) -> None:
    for name, scales in SCALES.items():
        number = BY_NAME[name]
        if number.name == "Q2_0_G128" or number.size is not None:  # another file decides which type it is
            continue
        for scale in scales:
            at = 5 * (number.bytes if scale.per == "block" else number.nbytes((number.block * 8,))) + scale.offset
            for value in (scale.form.mask, 0):
                change = tensor_of(name, at, value.to_bytes(scale.nbytes, "little"))
                found = codes(alone(change, kind))
                assert ("B201" in found) is (value > 0), (name, scale, found)


def finding(data: bytes, code: str) -> Any:
    (found,) = (each for each in i2s.lint(data).findings if each.code == code)
    return found


@pytest.mark.parametrize(
    ("name", "ne", "words"),
    [
        (b"blk.1.ffn_down_exps.weight", (512, 4, 3), "the first is dmin of block 18, in row 1 of expert 2"),
        (b"blk.1.position.weight", (512, 4, 3), "the first is dmin of block 18, in row 1 of matrix 2"),
        (b"blk.1.ffn_down.weight", (512, 12), "the first is dmin of block 18, in row 9"),
        (b"blk.1.ffn_down.weight", (512, 12, 1), "the first is dmin of block 18, in row 9"),
    ],
)
def test_a_scale_is_named_by_its_block_its_row_and_its_expert(name: bytes, ne: tuple[int, ...], words: str) -> None:
    data = bytearray(24 * 84)
    data[18 * 84 + 82 : 18 * 84 + 84] = b"\0\xfe"
    data[20 * 84 + 80 : 20 * 84 + 84] = b"\0\x7c\1\x7c"
    raw = alone(with_tensor("Q2_K", bytes(data), ne, name), "of qwen2")
    found = finding(raw, "B201")
    assert found.message == (
        f"Q2_K tensor '{name.decode()}' has 3 scales that are infinite or NaN, 6.25 % of all; {words}"
    )
    start = i2s.open(raw).tensors[name.decode()].span.start
    assert (found.span.start, found.span.stop) == (start + 18 * 84, start + 19 * 84)


def test_a_sample_looks_at_scales_of_every_type() -> None:
    """Windows of a sample begin inside blocks; a fault in the first and in the last is found."""
    ne = (256, 20_000)
    for at in (0, 19_999):
        data = bytearray(210 * ne[1])
        data[210 * at + 208 : 210 * at + 210] = b"\0\x7e"
        raw = alone(with_tensor("Q6_K", bytes(data), ne, b"token_embd.weight"), "of qwen2")
        (found,) = (each for each in i2s.lint(raw, payload="sample").findings if each.code == "B201")
        assert f"d of block {at:,}, in row {at:,}" in found.message


@pytest.mark.requirement("R2.6-11")
def test_matrices_of_integers_are_no_weights() -> None:
    def made(kind: str, ne: tuple[int, ...], name: bytes) -> bytes:
        return alone(with_tensor(kind, bytes(BY_NAME[kind].nbytes(ne)), ne, name), "of qwen2")

    for kind in ("Q8_1", "Q8_K", "I8", "I16", "I32", "I64", "F64"):
        ne = (256, 4)
        assert "G415" in codes(made(kind, ne, b"blk.0.ffn_down.weight"))
        assert "G415" not in codes(made(kind, ne, b"position_ids"))
        assert "G415" not in codes(made(kind, (256,), b"blk.0.norm.weight"))
    assert "G415" not in codes(made("I32", (256, 4), b"blk.0.ffn_gate_tid2eid.weight"))


def test_types_whose_contents_were_examined() -> None:
    draft = Draft()
    file = draft.records()
    for kind in ("Q4_K", "NVFP4", "I32", "F16"):
        tensor_of(kind, 0, b"")(file)
        file.tensor_infos[-1].name = kind.encode()
    file.tensor_infos.append(tensor_info(b"unknown", (8,), 99, len(file.data)))
    file.data += bytes(32)
    data = draft.built(file)
    read = LintContext(i2s.open(data), reading=Reading("full"))
    assert examined_types(read) == (("F32", "I2_S", "Q4_K", "F16"), ("NVFP4", "I32"), ("type 99",), 1)
    assert examined_types(LintContext(i2s.open(data), reading=Reading("none"))) is None


def test_no_runtime_computes_correctly_what_is_not_finite() -> None:
    for kind, code, at in (("Q2_0", "B201", 36), ("F16", "G413", 36)):
        model = Model("llama")
        for place in list(model.tensors):
            if place.number == BY_NAME["I2_S"].number:
                model.like(place.name.decode(), place.ne, kind)
        tensor = model.tensor("blk.0.ffn_up.weight")
        for broken in (False, True):
            if broken:
                tensor.data = tensor.data[:at] + b"\0\x7e" + tensor.data[at + 2 :]
            report = i2s.lint(model.built(), runtimes=True)
            assert (code in {finding.code for finding in report.findings}) is broken
            reasons = {reason.text for verdict in report.runtimes for reason in verdict.reasons}
            assert any("'blk.0.ffn_up.weight' are infinite or NaN" in text for text in reasons) is broken
