"""Small I2_S tensors that are read together have the same identities and differences as when read separately."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from examples import share
from small_models import model

from i2s_spec import pack
from i2s_spec.compare import hash
from i2s_spec.compare.diff import diff
from i2s_spec.compare.hash import hash as identity
from i2s_spec.gguf.reader import open
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema.faults import ByteOrder

DIALECTS = ("canonical", "interleave-64", "rows-1x4", "sequential-msb", "interleave-128/twos-complement")


def alone(monkeypatch: pytest.MonkeyPatch, call: Any) -> Any:
    """The result of a call that treats no tensor as small."""
    with monkeypatch.context() as patch:
        patch.setattr(hash, "SMALL", 0)
        patch.setattr(hash, "SMALL_FLOATS", 0)
        return call()


@pytest.mark.parametrize("dialect", share(DIALECTS, every=3))
@pytest.mark.parametrize("byte_order", ["little", "big"])
def test_small_tensors_have_the_same_hashes_together_and_alone(
    dialect: str, byte_order: ByteOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = model(1, byte_order)
    together, single = (
        identity(file, dialect, lineage=True),
        alone(monkeypatch, lambda: identity(file, dialect, lineage=True)),
    )
    assert together[:3] == single[:3]
    assert [each[:5] for each in together.tensors] == [each[:5] for each in single.tensors]
    for one, other in zip(together.tensors, single.tensors, strict=True):
        assert (one.zero_rows is None) == (other.zero_rows is None)
        assert one.zero_rows is None or np.array_equal(one.zero_rows, other.zero_rows)


@pytest.mark.parametrize("dialect", share(DIALECTS))
def test_differences_are_those_of_tensors_alone(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = model(1), model(2, "big", like=1)
    together = diff(a, b, dialect, "canonical")
    assert together == alone(monkeypatch, lambda: diff(a, b, dialect, "canonical"))
    assert together.tensors
    assert together.tails
    same = diff(a, a, dialect, dialect)
    assert same.same
    assert same == alone(monkeypatch, lambda: diff(a, a, dialect, dialect))


def test_tensors_equal_except_for_the_scale_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    for scale in (0.5, 0.25):
        out = io.BytesIO()
        with Writer(out) as writer:
            writer.add_tensor("a", (1, 128), "I2_S", pack(np.ones((1, 128), dtype=np.int8), np.float32(scale)))
        files.append(open(io.BytesIO(out.getvalue())))
    (change,) = diff(*files).tensors
    assert (change.trits, change.scale) == (None, (0.5, 0.25))
    assert diff(*files) == alone(monkeypatch, lambda: diff(*files))


def test_a_tail_that_the_dialect_does_not_have_is_refused() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add_tensor("a", (1, 128), "I2_S", bytes(32) + b"\0\0\0\1" + bytes(28))
    file = open(io.BytesIO(out.getvalue()))
    with pytest.raises(ValueError, match="repeats the scale"):
        identity(file, "interleave-128/offset-1/replicated-8")


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_identities_of_small_matrices_of_floats(
    kind: str, byte_order: ByteOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, out = np.random.default_rng(7), io.BytesIO()
    odd = (0.5, 2.0**-14, float("inf"), float("nan"), -0.0)
    with Writer(out, byte_order=byte_order) as writer:
        for i in range(300):
            weights = random.choice([-1, 0, 1], (2, 4 + i % 3 * 2)).astype(np.float32) * np.float32(random.random() + 1)
            weights *= i % 11 != 0
            if i % 4 == 0:
                weights[0, i % 4] = odd[i // 4 % len(odd)]
            bits = weights.view(np.uint32) >> np.uint32(16) if kind == "BF16" else weights
            dtype = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}[kind]
            writer.add_tensor(f"t{i}", weights.shape, kind, bits.astype(dtype))
    file = open(io.BytesIO(out.getvalue()))
    together = identity(file)
    assert together == alone(monkeypatch, lambda: identity(file))
    assert {each.kind for each in together.tensors} == {"ternary", kind}
