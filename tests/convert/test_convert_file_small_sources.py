"""Recoding small tensors of blocks and floats in one call gives the same results and errors as recoding each separately."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from examples import share

from i2s_spec.codec import blocks_native
from i2s_spec.codec import encoding as forms
from i2s_spec.codec.blocks import blocks_of
from i2s_spec.codec.encoding import ProofError
from i2s_spec.convert import groups, recodings
from i2s_spec.convert.convert_file import FLOATS, TYPES, convert_file
from i2s_spec.gguf.reader import File, open
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema.blocks import BLOCK_LAYOUTS
from i2s_spec.schema.faults import ByteOrder

SHAPES = ((1, 256), (4, 256), (2, 512), (256,), (2, 3, 256), (4, 1024), (8, 2048))


def model(
    kind: str, seed: int = 0, one: bool = True, shapes: Any = SHAPES, byte_order: ByteOrder = "little", count: int = 300
) -> File:
    """A file of small tensors of a type, in no order; with `one`, each has one scale, that some types round."""
    random, out = np.random.default_rng(seed), io.BytesIO()
    with Writer(out, byte_order=byte_order) as writer:
        writer.add("general.architecture", "llama")
        for i in range(count):
            shape = shapes[i % len(shapes)]
            trits = random.integers(-1, 2, shape).astype(np.int8)
            trits[..., : int(random.integers(0, 2)) * shape[-1] // 2] = 0
            if i % 17 == 0:
                trits[...] = 0
            scale = np.float32(random.random()) + np.float32(0.01)
            name = f"blk.{i * 7919 % 1000}.attn_q.weight"
            if kind in FLOATS:
                data = _floats(trits * scale, kind, byte_order)
            else:
                groups = blocks_of(shape, kind).groups
                each = scale if one else random.choice(np.array([scale, 0.25, 0.3], dtype=np.float32), groups)
                data = blocks_native.pack(trits, each, kind, byte_order=byte_order)
            writer.add_tensor(name, shape, kind, data)
    out.seek(0)
    return open(out)


def _floats(weights: np.ndarray[Any, Any], kind: str, order: ByteOrder) -> bytes:
    prefix = "<" if order == "little" else ">"
    if kind == "BF16":
        return (weights.astype(np.float32).view(np.uint32) >> 16).astype(prefix + "u2").tobytes()
    return weights.astype(prefix + {"F32": "f4", "F16": "f2"}[kind]).tobytes()


def answers(file: File, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Iterator[Any]:
    """The results of a conversion: with small tensors joined, and with each tensor converted separately."""
    for small in (1 << 12, 0):
        with monkeypatch.context() as patch:
            patch.setattr(recodings, "SMALL", small)
            patch.setattr(recodings, "SMALL_UNPACKED", small)
            out = io.BytesIO()
            try:
                yield convert_file(file, out, **options), out.getvalue()
            except ValueError as error:
                yield type(error), str(error)


def same(file: File, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    together, alone = answers(file, monkeypatch, **options)
    assert together == alone
    return together[0]


@pytest.mark.parametrize(
    ("source", "target"), share(product([each for each in TYPES if each != "I2_S"], [*TYPES, "rows-1x4"]), every=5)
)
def test_tensors_become_the_same_as_when_recoded_singly(
    source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source == target:
        return
    order: ByteOrder = "big" if len(source) % 2 and not {source[:2], target[:2]} & {"IQ"} else "little"
    wide = ((4, 256), (8, 512), (4, 1024)) if target == "rows-1x4" else SHAPES[:4] + SHAPES[5:]
    result = same(model(source, shapes=wide, byte_order=order, count=60), monkeypatch, to=target, byte_order="little")
    assert len(result.proofs) == 60


@pytest.mark.parametrize(
    ("source", "target"),
    share(product(BLOCK_LAYOUTS, ["Q2_0", "TQ2_0", "IQ2_BN", "IQ1_BN", "F16", "F32", "BF16", "I2_S"]), every=5),
)
def test_scales_of_groups_are_kept_as_for_a_single_tensor(
    source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source != target:
        same(model(source, one=False, count=40), monkeypatch, to=target)
        same(model(source, one=False, count=40), monkeypatch, to=target, fallback="F16")


@pytest.mark.parametrize("target", ["TQ2_0", "interleave-64"])
@pytest.mark.parametrize("source", ["F32", "BF16", "Q2_0"])
def test_tensors_fall_back_as_single_ones_do(source: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = ((2, 64), (4, 256), (1, 192), (2, 448))
    if source in FLOATS:
        shapes += ((3, 5), (1, 1))
    file = model(source, shapes=shapes)
    found = same(file, monkeypatch, to=target, fallback="F16")
    assert len({proof.target for proof in found.proofs}) == (1 if (source, target) == ("Q2_0", "interleave-64") else 2)
    if len({proof.target for proof in found.proofs}) > 1:
        assert same(file, monkeypatch, to=target) is ValueError


@pytest.mark.parametrize("target", ["Q2_0", "F16", "F32", "I2_S", "IQ2_BN"])
def test_errors_are_the_same_as_for_a_single_tensor(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, data in (
        ("TQ2_0", b"\xff" * 64 + b"\0\x3c"), ("TQ2_0", b"\x11" * 64 + b"\0\x7c"), ("TQ2_0", b"\x11" * 64 + b"\0\xbc"),
        ("TQ2_0", bytes(66)), ("TQ2_0", bytes(65) + b"\x80"), ("PQ2_0", b"\0\x3c" + b"\xff" * 32 + b"\0\x3c" + bytes(32)),
        ("F32", np.full(256, np.nan, dtype="<f4").tobytes()), ("F32", np.full(256, 1e-30, dtype="<f4").tobytes()),
        ("F32", np.arange(256, dtype="<f4").tobytes()), ("BF16", b"\x80\x7f" * 256), ("F16", b"\0\x80" * 256),
    ):  # fmt: skip
        out = io.BytesIO()
        with Writer(out) as writer:
            for i in range(5):
                good = (
                    blocks_native.pack(np.ones((1, 256), dtype=np.int8), 0.5, kind) if kind in BLOCK_LAYOUTS else None
                )
                plain = good or _floats(np.full(256, 0.5), kind, "little")
                writer.add_tensor(f"blk.{i}.attn_q.weight", (1, 256), kind, data if i == 3 else plain)
        file = open(io.BytesIO(out.getvalue()))
        if kind != target:
            same(file, monkeypatch, to=target)
            same(file, monkeypatch, to=target, unused_code="zero")
            same(file, monkeypatch, to=target, fallback="BF16")


def test_tensors_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(name: str, *rest: Any, function: Callable[..., Any]) -> Any:
        calls.append(name)
        return function(*rest)

    for name in ("regrouped", "group_weights", "encoded"):
        function = getattr(recodings, name)
        monkeypatch.setattr(recodings, name, partial(counted, name, function=function))
    monkeypatch.setattr(recodings, "recoding_of", None)  # must not be called
    for kind, target in (("TQ2_0", "Q2_0"), ("TQ2_0", "F16"), ("TQ2_0", "I2_S"), ("F32", "I2_S")):
        convert_file(model(kind, shapes=((1, 256), (2, 512))), io.BytesIO(), to=target)
    assert calls == ["regrouped"] * 2 + ["group_weights"] * 2 + ["encoded"] * 4


@pytest.mark.parametrize(
    ("source", "target", "module"),
    [("TQ2_0", "Q2_0", groups), ("TQ2_0", "F16", groups), ("F32", "I2_S", recodings)],
)
def test_changed_bytes_are_noticed(source: str, target: str, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = model(source, shapes=((1, 256),))
    if module is recodings:
        monkeypatch.setattr(module, "pack_trits", lambda trits, dialect: bytes(trits.size // 4))
    elif target == "F16":
        monkeypatch.setattr(module, "_words", lambda weights, kind: np.zeros(weights.size, np.uint16))
    else:
        kept = groups.convert
        monkeypatch.setattr(
            module, "convert", lambda *rest, **more: kept(*rest, **more)._replace(data=bytes(18 * 4 * 256))
        )
    with pytest.raises(ProofError, match="does not give back"):
        convert_file(file, io.BytesIO(), to=target)


def test_a_file_that_changes_between_passes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    file, kept = model("F32", shapes=((1, 256),), count=3), forms.joined_floats
    calls: list[int] = []

    def turned(*rest: Any) -> Any:
        calls.append(len(calls))
        joined = kept(*rest)
        return joined._replace(scales=joined.scales + 1) if len(calls) == 1 else joined

    with monkeypatch.context() as patch:
        patch.setattr(recodings, "joined_floats", turned)
        before = convert_file(file, io.BytesIO(), to="I2_S").proofs
    assert len(calls) == 2
    assert before == same(file, monkeypatch, to="I2_S").proofs
