"""Repairs of where tensors lie: alignments, padding, and bytes outside tensors."""

from __future__ import annotations

import struct

import pytest
from malformed_cases import broken
from repairs import check_repairs, fixed_bytes, header_codes, weights, with_gap

from i2s_spec.gguf.reader import open as open_file
from i2s_spec.linter.fix import fix
from i2s_spec.schema.types import BY_NAME, ValueType
from i2s_spec.testing.sample import Draft, Model, i2s_bytes, key_value


def test_large_alignments_are_reduced() -> None:
    data = broken("align_2p17")
    assert fixed_bytes(data)[0] == data
    out, fixed = fixed_bytes(data, unsafe=True)
    assert [action.code for action in fixed.actions] == ["S105", "G407"]
    assert weights(out) == weights(data)
    assert len(out) < len(data)
    assert "S105" not in header_codes(out)


def _laid_out(alignment: int, stated: int, kind: ValueType = ValueType.UINT32) -> bytes:
    """Two tensors laid out with one alignment in a file that states another."""
    draft = Draft()
    file = draft.records()
    step = -(-160 // alignment) * alignment
    file.tensor_infos = file.tensor_infos[1:]
    for i, info in enumerate(file.tensor_infos):
        info.offset = i * step
    file.data = i2s_bytes(512).ljust(step, b"\0") + i2s_bytes(512, 1.25).ljust(step, b"\0")
    file.key_values.append(key_value(b"general.alignment", kind, stated))
    return draft.built(file, alignment)


@pytest.mark.parametrize(
    ("alignment", "stated"), [(64, 0), (128, 0), (24, 24), (48, 48), (32, 24), (4, 4), (32, 64), (128, 24)]
)
def test_alignments_are_found_from_offsets(alignment: int, stated: int) -> None:
    data = _laid_out(alignment, stated)
    out, fixed = fixed_bytes(data, unsafe=True)
    assert header_codes(out) == set(), [*fixed.actions, *fixed.declined]
    file = open_file(out)
    assert [struct.unpack("<f", tensor.tail[:4])[0] for tensor in file.tensors.values()] == [
        0.75,
        1.25,
    ]
    assert file.metadata["general.alignment"] == 32
    check_repairs(data, unsafe=True)


@pytest.mark.parametrize(
    "kind", [ValueType.INT32, ValueType.UINT64, ValueType.INT64, ValueType.UINT16, ValueType.UINT8]
)
@pytest.mark.parametrize("alignment", [32, 64])
def test_the_type_of_the_alignment_is_safe_where_offsets_confirm_it(kind: ValueType, alignment: int) -> None:
    out, fixed = fixed_bytes(_laid_out(alignment, alignment, kind))
    assert [(action.code, action.safe) for action in fixed.actions] == [("G217", True)]
    assert out == _laid_out(alignment, alignment)


def test_an_alignment_that_offsets_contradict_is_left_alone() -> None:
    data = _laid_out(32, 64, ValueType.INT32)
    fixed = fix(data)
    assert fixed.actions == ()
    assert "no usual alignment explains" in fixed.declined[0].why


def test_tensors_of_uncertain_size_are_not_moved() -> None:
    data = bytearray(with_gap(Model("llama").built()))
    file = open_file(bytes(data))
    victim = next(tensor for tensor in file.tensors.rows if tensor.type is BY_NAME["I2_S"])
    following = sorted((tensor.offset, tensor) for tensor in file.tensors.rows if tensor.offset > victim.offset)[0][1]
    at = following.info_span.stop - 8
    data[at : at + 8] = struct.pack("<Q", following.offset - 32)
    fixed = fix(bytes(data), unsafe=True)
    assert "P101" in {each.code for each in fixed.declined}


def test_only_zeros_after_the_last_tensor_are_removed_safely() -> None:
    sound = Draft().data
    assert fixed_bytes(sound + bytes(77))[0] == sound
    fixed = fix(sound + b"x" * 77)
    assert fixed.actions == ()
    assert [action.code for action in fixed.withheld] == ["G407"]
