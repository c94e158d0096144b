from __future__ import annotations

import math
import struct
import sys
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec.observation import classify, float32_scale, read_tail, write_tail
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.schema.dialect import TAILS

FIRST, REPLICATED = TAILS["first-float"], TAILS["replicated-8"]
words = st.binary(min_size=4, max_size=4)


@given(word=words)
def test_written_tails_are_classified(word: bytes) -> None:
    scale = read_tail(word.ljust(32, b"\1"), FIRST)
    assert classify(write_tail(scale, FIRST)) == "zero"
    assert classify(write_tail(scale, REPLICATED)) == ("replicated" if any(word) else "zero")


@pytest.mark.requirement("R6.1-3")
@given(word=words, rest=st.binary(min_size=28, max_size=28))
def test_everything_else_is_stale_and_read_all_the_same(word: bytes, rest: bytes) -> None:
    tail = word + rest
    kind = classify(tail)
    assert kind in {"zero", "replicated", "stale"}
    assert (kind == "zero") == (rest == bytes(28))
    assert (kind == "replicated") == (rest == word * 7 and any(rest))
    assert read_tail(tail, FIRST).tobytes() == np.frombuffer(word, "<f4").astype("=f4").tobytes()


def test_copies_are_compared_bit_by_bit() -> None:
    """-0.0 is not 0.0, and a NaN is itself; the byte order of the file is no matter."""
    assert classify(struct.pack("<8f", *[-0.0] * 8)) == "replicated"
    assert classify(struct.pack("<8f", 0.0, *[-0.0] * 7)) == "stale"
    assert classify(struct.pack("<8f", *[math.nan] * 8)) == "replicated"
    assert classify(struct.pack(">8f", *[0.75] * 8)) == "replicated"
    assert classify(struct.pack("<8f", *[0.75] * 7, 0.5)) == "stale"


@pytest.mark.requirement("R6.1-5")
@examples(40)
@given(word=words, order=st.sampled_from(["little", "big"]), copies=st.sampled_from([FIRST, REPLICATED]),
       offset=st.integers(0, 7))  # fmt: skip
def test_every_bit_of_a_scale_survives_at_any_address(word: bytes, order: Any, copies: Any, offset: int) -> None:
    native = np.frombuffer(word, "=f4")[0]
    tail = write_tail(native, copies, order)
    stored = word if (order == "little") == (sys.byteorder == "little") else word[::-1]
    assert tail == (stored * copies.copies).ljust(32, b"\0")
    view = memoryview(bytes(offset) + tail)[offset:]
    assert read_tail(view, copies, order).tobytes() == word


@pytest.mark.parametrize("size", [0, 4, 31, 33])
def test_tails_of_another_size_are_refused(size: int) -> None:
    for call in (classify, lambda tail: read_tail(tail, FIRST)):
        with pytest.raises(ValueError, match=f"a tail has 32 bytes; there are {size}"):
            call(bytes(size))


def test_buffers() -> None:
    floats = np.full(8, 0.75, "<f4")
    assert classify(floats) == "replicated"
    assert classify(floats.view(np.uint8).reshape(4, 8)) == "replicated"
    assert read_tail(bytearray(floats.tobytes()), REPLICATED) == 0.75
    with pytest.raises(TypeError):
        classify("x" * 32)


@pytest.mark.parametrize(("given_", "stored"), [(0.1, np.float32(0.1)), (1e-60, 0.0), (math.inf, math.inf), (3, 3.0)])
def test_scales_are_rounded_once(given_: float, stored: float) -> None:
    assert float32_scale(given_) == stored
    with pytest.raises(ValueError, match="beyond what a float32 holds"):
        float32_scale(3.5e38)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bitnet-b1.58.packed.i2_s.direct.gguf", {"zero"}),
        ("bitnet-b1.58.i2_s.via_llama_quantize.gguf", {"stale"}),
    ],
)
def test_tails_of_real_writers(shared: Any, name: str, expected: set[str]) -> None:
    """BitNet's converters write zeros, llama-quantize what lay in its buffer."""
    with open_file(shared / "vectors/gguf" / name) as file:
        kinds = [
            classify(file.source.read(tensor.span.stop - 32, 32))
            for tensor in file.tensors.values()
            if tensor.type is not None and tensor.type.name == "I2_S"
        ]
    assert len(kinds) == 14
    assert expected <= set(kinds)
    assert "replicated" not in kinds
