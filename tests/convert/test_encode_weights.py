"""Trits and a scale stored as every type, and how each type stores the scale."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import numpy as np
import pytest
from examples import examples, share
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import encoding as trits_module
from i2s_spec.codec.encoding import ProofError, TernaryEncoding, Trits, rounding
from i2s_spec.codec.reference import dequantize, pack, unpack
from i2s_spec.convert import encode as module
from i2s_spec.convert.encode import TARGETS, Encoder, Recoding
from i2s_spec.schema.dialect import LAYOUTS, parse

DIALECTS = [name for name, layout in LAYOUTS.items() if layout.in_gguf]
SHAPE = (8, 512)


def random_trits(seed: int = 0) -> np.ndarray[Any, np.dtype[np.int8]]:
    return np.random.default_rng(seed).integers(-1, 2, SHAPE, dtype=np.int8)


def reader(encoding: TernaryEncoding, data: bytes, **options: Any) -> Trits:
    return encoding.trits(lambda at, size: data[at : at + size], 0, **options)


def recoded(source: Trits, encoding: TernaryEncoding, threads: int = 1) -> bytes:
    return b"".join(Recoding(source, encoding, threads))


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trits_module, "WINDOW", 700)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize(
    ("orders", "one", "other"),
    share(itertools.product([("little", "big"), ("big", "little")], TARGETS, TARGETS), every=5),
)
def test_every_type_becomes_every_other(one: str, other: str, orders: tuple[Any, Any]) -> None:
    trits, scale = random_trits(), np.float32(0.625)  # a scale that all types represent exactly
    first = TernaryEncoding(one, SHAPE, parse("rows-1x4"), orders[0])
    second = TernaryEncoding(other, SHAPE, parse("interleave-64/offset-2"), orders[1])
    encoder = Encoder(first, scale)
    data = b"".join(encoder.proved(part) for part in np.split(trits.reshape(-1), 2)) + encoder.tail()
    found, stored = reader(second, recoded(reader(first, data), second, threads=2)).whole()
    assert np.array_equal(found, trits)
    assert stored == scale


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize(("one", "other"), list(itertools.product(DIALECTS, DIALECTS)))
def test_dialects_keep_unused_codes(one: str, other: str) -> None:
    data = bytearray(pack(random_trits(), 0.1, one))
    data[100] |= 3 << 4
    first, second = TernaryEncoding("I2_S", SHAPE, parse(one)), TernaryEncoding("I2_S", SHAPE, parse(other))
    recoding = Recoding(reader(first, bytes(data)), second)
    result = b"".join(recoding)
    assert recoding.unused == 1
    assert recoded(reader(second, result), first) == bytes(data)
    assert np.array_equal(
        unpack(result, SHAPE, other, unused_code="zero")[0], unpack(bytes(data), SHAPE, one, unused_code="zero")[0]
    )
    whole = recoded(reader(first, bytes(data), unused="zero"), second)
    assert unpack(whole, SHAPE, other)[1] == np.float32(0.1)  # no unused code remains


@pytest.mark.parametrize("bits", [0x7FC12345, 0xFF800000, 0x80000000, 0x00000001])
def test_dialects_keep_every_bit_of_the_scale(bits: int) -> None:
    data = pack(random_trits(), 1.0)[:-32] + struct.pack("<I", bits) + bytes(range(28))
    result = recoded(
        reader(TernaryEncoding("I2_S", SHAPE), data), TernaryEncoding("I2_S", SHAPE, parse("interleave-64"), "big")
    )
    assert result[-32:] == struct.pack(">I", bits) + bytes(28)


@examples(60)
@given(st.floats(2.0**-14, 60000, width=32), st.sampled_from(["F32", "F16", "BF16"]))
def test_weights_are_the_product_rounded_once(scale: float, type: str) -> None:
    trits = random_trits(1)
    data = recoded(reader(TernaryEncoding("I2_S", SHAPE), pack(trits, scale)), TernaryEncoding(type, SHAPE))
    weights = dequantize(pack(trits, scale), SHAPE)
    if type == "BF16":
        double = weights.astype(np.float64)  # to 8 significant bits, ties to even
        exponent = np.floor(np.log2(np.abs(double), where=double != 0, out=np.zeros_like(double)))
        unit = np.exp2(exponent - 7)
        expected = (np.rint(double / unit) * unit).astype(np.float32)
        found = (np.frombuffer(data, dtype="<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
    else:
        dtype = np.dtype({"F32": "<f4", "F16": "<f2"}[type])
        expected, found = weights.astype(dtype), np.frombuffer(data, dtype=dtype)
    assert np.array_equal(found.reshape(SHAPE), expected)
    assert rounding(scale, type).stored == float(np.abs(expected).max())


def test_a_negative_scale_is_kept_by_types_that_hold_it() -> None:
    trits = random_trits()
    source = reader(TernaryEncoding("I2_S", SHAPE), pack(trits, -0.5))
    found, scale = reader(TernaryEncoding("TQ1_0", SHAPE), recoded(source, TernaryEncoding("TQ1_0", SHAPE))).whole()
    assert (np.array_equal(found, trits), scale) == (True, -0.5)


@pytest.mark.parametrize(
    ("scale", "type", "reason"),
    [
        (np.inf, "F32", "cannot be computed"),
        (np.nan, "TQ1_0", "no float16"),
        (1e5, "F16", "no float16"),
        (3.4e38, "BF16", "no bfloat16"),
        (1e-45, "BF16", "no bfloat16"),
        (1e-9, "TQ2_0", "no float16"),
    ],
)
def test_scales_that_a_type_lacks_are_refused_before_anything_is_made(scale: float, type: str, reason: str) -> None:
    source = reader(TernaryEncoding("I2_S", SHAPE), pack(random_trits(), scale))
    with pytest.raises(ValueError, match=reason):
        Recoding(source, TernaryEncoding(type, SHAPE))


def test_a_scale_of_0_loses_trits_only_in_floats() -> None:
    source = reader(TernaryEncoding("I2_S", SHAPE), pack(random_trits(), 0.0))
    with pytest.raises(ValueError, match="would store 0 for every trit"):
        recoded(source, TernaryEncoding("F16", SHAPE))
    found, scale = reader(TernaryEncoding("TQ2_0", SHAPE), recoded(source, TernaryEncoding("TQ2_0", SHAPE))).whole()
    assert np.array_equal(found, random_trits())
    assert scale == 0


@pytest.mark.requirement("R8.5-1")
def test_rows_that_begin_inside_a_block_are_refused() -> None:
    data = np.ones((2, 192), dtype=np.float32).tobytes()
    source = reader(TernaryEncoding("F32", (2, 192)), data)
    with pytest.raises(ValueError, match=r"rows of 192 elements are not whole blocks of 128"):
        Recoding(source, TernaryEncoding("I2_S", (2, 192)))
    assert len(recoded(source, TernaryEncoding("I2_S", (2, 192), parse("interleave-64")))) == 96 + 32


def test_the_proof_finds_wrong_output(monkeypatch: pytest.MonkeyPatch) -> None:
    source = reader(TernaryEncoding("I2_S", SHAPE), pack(random_trits(), 0.5))
    real = module.pack_blocks
    monkeypatch.setattr(module, "pack_blocks", lambda trits, *rest: real(-trits, *rest))
    with pytest.raises(ProofError, match="TQ2_0 does not give back the trits"):
        recoded(source, TernaryEncoding("TQ2_0", SHAPE))
    monkeypatch.setattr(module, "pack_blocks", lambda trits, scale, *rest: real(trits, scale * 2, *rest))
    with pytest.raises(ProofError, match="gives back the scale"):
        recoded(source, TernaryEncoding("TQ2_0", SHAPE))
    monkeypatch.setattr(module, "recode", lambda data, *rest: data)
    with pytest.raises(ProofError, match="interleave-64 does not give back"):
        recoded(source, TernaryEncoding("I2_S", SHAPE, parse("interleave-64")))


def test_a_code_that_is_lost_on_the_way_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(pack(np.zeros(SHAPE, dtype=np.int8), 0.5))
    data[7] |= 3
    source = reader(TernaryEncoding("I2_S", SHAPE), bytes(data))
    monkeypatch.setattr(module, "recode", lambda data, *rest: b"\x55" * len(data))
    with pytest.raises(ProofError, match="interleave-64 does not give back"):
        recoded(source, TernaryEncoding("I2_S", SHAPE, parse("interleave-64")))


def test_roundings_are_reported_exactly() -> None:
    assert str(rounding(np.float32(1.2188547849655151), "TQ2_0")) == "scale 1.21885478 -> 1.21875 (-8.6e-05)"
    assert str(rounding(0.5, "BF16")) == "scale 0.5 kept"
    assert rounding(1 + 2**-8, "BF16").stored == 1  # a tie
    assert rounding(1 + 3 * 2**-8, "BF16").stored == 1 + 2**-6
    assert rounding(float("nan"), "I2_S").relative == 0
