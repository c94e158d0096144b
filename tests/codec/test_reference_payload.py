"""Payloads: tensors are codes plus a tail, and the compiled twin equals the definition."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import native, reference
from i2s_spec.codec import native as payload_native
from i2s_spec.codec import reference as payload
from i2s_spec.codec.observation import write_tail
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, TAILS, Dialect

DIALECTS = [Dialect(*parts) for parts in itertools.product(LAYOUTS.values(), CODE_MAPS.values(), TAILS.values())]
SHAPES = [(1, 128), (3, 128), (4, 128), (8, 32), (16, 4), (4, 640), (2, 192), (4, 33), (1, 4)]


def outcome(call: Any, *args: Any, **options: Any) -> Any:
    """What a call gives, or how it fails, in a form that compares."""
    try:
        result = call(*args, **options)
    except ValueError as error:
        return type(error), str(error)
    return (result.dtype, result.shape, result.tobytes()) if isinstance(result, np.ndarray) else result


@given(
    shape=st.sampled_from(SHAPES), dialect=st.sampled_from(DIALECTS), scale=st.floats(width=32),
    order=st.sampled_from(["little", "big"]), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@examples(100)
def test_a_tensor_is_codes_and_a_tail(shape: Any, dialect: Dialect, scale: float, order: Any, seed: int) -> None:
    try:
        native.pack(np.zeros(shape, np.int8), scale, dialect)
    except ValueError:  # a shape that the layout cannot hold, or rows that begin inside a block
        return
    trits = np.random.default_rng(seed).integers(-1, 2, shape, dtype=np.int8)
    codes = payload.codes_of_trits(trits, dialect.code_map).reshape(shape)
    tail = write_tail(scale, dialect.tail, order)
    for base, codec in ((payload, reference), (payload_native, native)):
        whole = codec.pack(trits, scale, dialect, byte_order=order)  # type: ignore[attr-defined]
        assert whole == base.pack_codes(codes, dialect.layout) + tail  # type: ignore[attr-defined]
        assert whole == base.pack_trits(trits, dialect) + tail  # type: ignore[attr-defined]
        content = whole[: -len(tail)]
        assert (base.unpack_codes(content, shape, dialect.layout) == codes).all()  # type: ignore[attr-defined]
        back, _ = codec.unpack(whole, shape, dialect, byte_order=order)  # type: ignore[attr-defined]
        assert (base.unpack_trits(content, shape, dialect) == back).all()  # type: ignore[attr-defined]


@given(
    shape=st.sampled_from(SHAPES), dialect=st.sampled_from(DIALECTS), target=st.sampled_from(DIALECTS),
    policy=st.sampled_from(["reject", "zero", "plus-two", "other"]), most=st.sampled_from([2, 3, 3, 4]),
    short=st.sampled_from([0, 0, 0, 1, -1]), threads=st.sampled_from([1, 3]), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@examples(200)
def test_both_codecs_give_the_same_result(
    shape: Any, dialect: Dialect, target: Dialect, policy: Any, most: int, short: int, threads: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(0, most, shape, dtype=np.uint8, endpoint=True)
    raw = random.integers(0, 256, max(shape[0] * shape[1] // 4 + short, 0), dtype=np.uint8).tobytes()
    trits = random.integers(-1, most, shape)
    for name, arguments in (
        ("pack_codes", (codes, dialect.layout)),
        ("unpack_codes", (raw, shape, dialect.layout)),
        ("pack_trits", (trits, dialect)),
        ("pack_trits", (np.sign(trits), dialect)),
        ("unpack_trits", (raw, shape, dialect, policy)),
        ("recode", (raw, shape, dialect, target)),
        ("count_codes", (raw,)),
    ):
        expected = outcome(getattr(payload, name), *arguments)
        assert outcome(getattr(payload_native, name), *arguments, threads=threads) == expected


def test_results_are_written_where_they_belong() -> None:
    layout = LAYOUTS["interleave-128"]
    codes = np.arange(256, dtype=np.uint8).reshape(2, 128) % 3
    room = bytearray(64)
    assert payload_native.pack_codes(codes, layout, out=room) is room
    assert room == payload.pack_codes(codes, layout)
    array = np.empty((2, 128), np.uint8)
    assert payload_native.unpack_codes(room, (2, 128), layout, out=array) is array
    assert (array == codes).all()
    with pytest.raises(ValueError, match="the result takes 64 bytes; out has 63"):
        payload_native.pack_codes(codes, layout, out=bytearray(63))
    with pytest.raises(ValueError, match="its own bytes"):
        payload_native.recode(room, (2, 128), DIALECTS[0], DIALECTS[1], out=room)
