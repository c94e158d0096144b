"""What a writer takes at the very edge, and in the other byte order."""

from __future__ import annotations

import io
from typing import Any

import pytest

import i2s_spec as i2s
from i2s_spec.gguf.writer import Writer


def test_the_longest_key() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add("k" * 65_535, 7)
        with pytest.raises(ValueError, match="65,536"):
            writer.add("k" * 65_536, 7)
    assert i2s.open(out.getvalue()).metadata["k" * 65_535] == 7


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("by_key", [False, True])
def test_alignment_by_key_and_by_parameter(order: Any, by_key: bool) -> None:
    out = io.BytesIO()
    with Writer(out, byte_order=order, alignment=None if by_key else 4096) as writer:
        if by_key:
            writer.add("general.alignment", 4096, "u32")
        assert writer.alignment == 4096
        writer.add_tensor("a", (3,), "F32", bytes(12))
        writer.add_tensor("b", (3,), "F32", bytes(range(12)))
    file = i2s.open(out.getvalue())
    assert (file.alignment, file.metadata["general.alignment"]) == (4096, 4096)
    assert [tensor.offset for tensor in file.tensors.values()] == [0, 4096]
    assert file.tensors["b"].read() == bytes(range(12))
    assert len(out.getvalue()) == 3 * 4096


@pytest.mark.parametrize("other", [64, 256])
def test_two_alignments(other: int) -> None:
    writer = Writer(io.BytesIO(), alignment=128)
    with pytest.raises(ValueError, match=f"given as 128 and as {other}"):
        writer.add("general.alignment", other, "u32")
    writer.add("general.alignment", 128, "u32")


@pytest.mark.parametrize("tensors", [False, True])
def test_an_alignment_is_stored_with_or_without_tensors(tensors: bool) -> None:
    out = io.BytesIO()
    with Writer(out, alignment=64) as writer:
        if tensors:
            writer.add_tensor("a", (4,), "I8", bytes(4))
    assert i2s.open(out.getvalue()).metadata["general.alignment"] == 64
