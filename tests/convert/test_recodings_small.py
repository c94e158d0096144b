"""Recoding small I2_S tensors in one call gives the same results, proofs and errors as recoding each separately."""

from __future__ import annotations

import io
from itertools import product
from typing import Any

import numpy as np
import pytest
from examples import share
from small_models import SHAPES, model

from i2s_spec.codec import blocks_native
from i2s_spec.convert import encode, recodings
from i2s_spec.convert.convert_file import FLOATS, TYPES, Conversion, convert_file
from i2s_spec.gguf.reader import File, open
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema.faults import ByteOrder

#: Single matrices of shapes that each pair of the dialects below supports.
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


def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat no tensor as small from here on."""
    monkeypatch.setattr(recodings, "SMALL", 0)
    monkeypatch.setattr(recodings, "SMALL_UNPACKED", 0)


@pytest.mark.parametrize(("source", "target", "shapes"), share(PAIRS, every=5))
@pytest.mark.parametrize("order", ["little", "big"])
def test_tensors_become_the_same_as_when_recoded_singly(
    source: str, target: str, shapes: Any, order: ByteOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = model(3, shapes=shapes)
    data, result = converted(file, source, target, byte_order=order)
    alone(monkeypatch)
    assert (data, result) == converted(file, source, target, byte_order=order)
    assert len(result.proofs) == sum(tensor.kind == "I2_S" for tensor in file.tensors.values())
    assert any(proof.unused for proof in result.proofs)


def test_patterns_choose_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    file = model(3, shapes=BOTH)
    chosen = ["t1*", "t9"]
    together = converted(file, "canonical", "interleave-64", tensors=chosen)
    alone(monkeypatch)
    assert together == converted(file, "canonical", "interleave-64", tensors=chosen)
    assert 0 < len(together[1].proofs) < len(file.tensors)


def test_an_impossible_shape_is_refused_as_for_a_single_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    file, out = model(3, shapes=SHAPES), io.BytesIO()
    with pytest.raises(ValueError, match="tensor") as together:
        convert_file(file, out, to="interleave-64")
    assert not out.getvalue()
    alone(monkeypatch)
    with pytest.raises(ValueError, match="tensor") as single:
        convert_file(file, out, to="interleave-64")
    assert str(together.value) == str(single.value)


@pytest.mark.parametrize(
    ("kind", "source"), share(product([each for each in TYPES if each != "I2_S"], ["canonical", "rows-1x4"]), every=9)
)
def test_other_types_hold_the_same_as_when_recoded_singly(
    kind: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = (
        ((4, 256), (8, 256), (4, 512), (4, 2048))
        if source != "canonical"
        else ((1, 256), (3, 256), (2, 512), (4, 1024))
    )
    order: ByteOrder = "little" if kind.startswith("IQ") else "big"
    for clean, unused in ((True, "reject"), (True, "zero"), (False, "zero")):
        if not clean and kind in FLOATS:
            continue  # scales are negative in this file
        file = model(5, "big" if clean else "little", shapes=shapes, clean=clean)
        data, result = converted(file, source, kind, unused_code=unused, byte_order=order)
        with monkeypatch.context() as patch:
            alone(patch)
            assert (data, result) == converted(file, source, kind, unused_code=unused, byte_order=order)
        assert {proof.target for proof in result.proofs} == {kind}
        assert any(proof.rounding.relative for proof in result.proofs) == (kind not in ("F32", "IQ2_BN", "I2_SR"))


@pytest.mark.parametrize("kind", ["Q2_0", "F32"])
def test_errors_are_the_same_as_for_a_single_tensor(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in (model(5, shapes=((1, 256),)), broken(0.0), broken(float("nan")), broken(-1.0), broken(1e-30)):
        answers = []
        for small in (1 << 12, 0):
            monkeypatch.setattr(recodings, "SMALL_UNPACKED", small)
            out = io.BytesIO()
            try:
                answers.append((str(convert_file(file, out, to=kind)), out.getvalue()))
            except ValueError as error:
                answers.append((str(error), b""))
        assert answers[0] == answers[1]


def broken(scale: float) -> File:
    """Two tensors, the second with a scale that types may not hold."""
    out = io.BytesIO()
    with Writer(out) as writer:
        for name, each in (("a", 1.0), ("b", scale)):
            writer.add_tensor(name, (1, 256), "I2_S", b"\x18" * 64 + np.float32(each).tobytes() + bytes(28))
    return open(io.BytesIO(out.getvalue()))


def test_changed_blocks_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recodings, "rounding", lambda scale, kind: encode.Rounding(float(scale), 0.125))
    monkeypatch.setattr(blocks_native, "unpack", lambda data, shape, *rest, **more: (np.zeros(shape), np.zeros(1)))
    with pytest.raises(encode.ProofError, match="does not give back"):
        converted(model(5, shapes=((1, 256),), clean=True), "canonical", "Q2_0")


def test_changed_codes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(payload: Any, *rest: Any, **more: Any) -> bytes:
        return bytes(len(payload))

    monkeypatch.setattr(encode, "recode", wrong)
    with pytest.raises(encode.ProofError, match="does not give back"):
        converted(model(3, shapes=BOTH), "canonical", "interleave-64")
