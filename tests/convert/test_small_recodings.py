"""Small I2_S tensors that are recoded together become what each becomes alone, with the same proofs and errors."""

from __future__ import annotations

import io
from typing import Any

import pytest
from small_models import SHAPES, model

from i2s_spec.convert.tensors import encode, small_recodings
from i2s_spec.convert.tensors.convert_file import Conversion, convert_file
from i2s_spec.gguf.reader import File
from i2s_spec.schema.checks import ByteOrder

#: Shapes that each pair of the dialects below has a place for, and that are one matrix.
SQUARE = ((4, 128), (8, 256), (4, 256), (16, 128))
BOTH = (*SQUARE, (1, 128), (128,), (2, 128), (1, 4, 128))
PAIRS = (
    ("canonical", "interleave-64", BOTH),
    ("interleave-64", "canonical", BOTH),
    ("canonical", "rows-1x4", SQUARE),
    ("rows-1x4", "canonical", SQUARE),
    ("rows-1x4", "interleave-64", SQUARE),
    ("sequential-msb", "interleave-128/zero-first/replicated-8", BOTH),
)


def converted(file: File, source: str, target: str, **options: Any) -> tuple[bytes, Conversion]:
    out = io.BytesIO()
    result = convert_file(file, out, to=target, source_dialect=source, **options)
    return out.getvalue(), result


@pytest.mark.parametrize(("source", "target", "shapes"), PAIRS)
@pytest.mark.parametrize("order", ["little", "big"])
def test_tensors_become_what_each_becomes_alone(
    source: str, target: str, shapes: Any, order: ByteOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = model(3, shapes=shapes)
    data, result = converted(file, source, target, byte_order=order)
    monkeypatch.setattr(small_recodings, "SMALL", 0)
    alone, expected = converted(file, source, target, byte_order=order)
    assert data == alone
    assert result == expected
    assert len(result.proofs) == sum(tensor.kind == "I2_S" for tensor in file.tensors.values())
    assert any(proof.unused for proof in result.proofs)


def test_patterns_choose_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    file = model(3, shapes=BOTH)
    chosen = ["t1*", "t9"]
    together = converted(file, "canonical", "interleave-64", tensors=chosen)
    monkeypatch.setattr(small_recodings, "SMALL", 0)
    assert together == converted(file, "canonical", "interleave-64", tensors=chosen)
    assert 0 < len(together[1].proofs) < len(file.tensors)


def test_a_shape_without_a_place_is_refused_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    file, out = model(3, shapes=SHAPES), io.BytesIO()
    with pytest.raises(ValueError, match="tensor") as together:
        convert_file(file, out, to="interleave-64")
    assert not out.getvalue()
    monkeypatch.setattr(small_recodings, "SMALL", 0)
    with pytest.raises(ValueError, match="tensor") as alone:
        convert_file(file, out, to="interleave-64")
    assert str(together.value) == str(alone.value)


def test_codes_that_were_not_kept_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(payload: Any, *rest: Any, **more: Any) -> bytes:
        return bytes(len(payload))

    monkeypatch.setattr(encode, "recode", wrong)
    with pytest.raises(encode.ProofError, match="does not give back"):
        converted(model(3, shapes=BOTH), "canonical", "interleave-64")
