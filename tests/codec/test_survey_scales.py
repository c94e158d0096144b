"""The scales of blocks that are not ternary: the compiled survey equals its definition, and both equal ggml."""

from __future__ import annotations

from itertools import pairwise

import ggml_library
import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import _survey
from i2s_spec.codec.blocks import observe_groups
from i2s_spec.codec.observation import BLOCK, PayloadObservation, ScalePlaces
from i2s_spec.codec.reference import observe
from i2s_spec.inspect.survey_reader import FLOATS, look_at
from i2s_spec.schema.blocks import BLOCK_LAYOUTS, SCALES
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import BY_NAME, NUMBER_FORMS, TENSOR_TYPES

SETS = [name for name, available in _survey.kernel_sets() if available]
#: The types whose scales the survey looks at in this way.
TYPES = [name for name in SCALES if look_at(name, False).scales is not None]
#: The types of ggml with scales, and those of floats, but for F64: ggml rounds it to float32 before it looks at it.
OF_GGML = [name for name in (*FLOATS, *SCALES) if BY_NAME[name].family == "ggml" and name not in ("F64", "Q8_1")]

#: Special values of every form of a number, by its width: infinities, NaN, zeros, subnormal and largest numbers.
SPECIAL = (0, 1, 0x8000, 0x7C00, 0xFC00, 0x7C01, 0x7E00, 0x7BFF, 0x03FF, 0x7F80, 0xFFC0, 0xFF, 0xFE, 0x7F)


def payload(kind: str, blocks: int, seed: int, faults: int, order: ByteOrder = "little") -> bytes:
    """Random bytes with finite scales, of which some are then replaced by special values."""
    drawn, number = np.random.default_rng(seed), BY_NAME[kind]
    raw = drawn.integers(0, 256, (blocks, number.bytes), dtype=np.uint8)
    forms = [(scale.form, scale.offset) for scale in SCALES.get(kind, ())] or [(NUMBER_FORMS[kind], 0)]
    for form, offset in forms:
        top = np.frombuffer(form.mask_in(order == "big").to_bytes(form.bytes, "little"), dtype=np.uint8)
        raw[:, offset : offset + form.bytes] &= ~(top & -top)  # the lowest bit of each byte of the exponent
        for block in drawn.integers(0, blocks, faults):
            value = int(drawn.choice(SPECIAL)) << 8 * int(drawn.choice([0, form.bytes - 2 if form.bytes > 2 else 0]))
            if form.bytes > 2 and drawn.random() < 0.3:
                value = form.mask
            stored = (value & (1 << 8 * form.bytes) - 1).to_bytes(
                form.bytes, order if form.word == form.bytes else "little"
            )
            raw[block, offset : offset + form.bytes] = list(stored)
    return raw.tobytes()


def seen(name: str, data: bytes, edges: list[int], kind: str, order: ByteOrder) -> PayloadObservation:
    width, mask, scales, _ = look_at(kind, order == "big")
    parts = _survey.Parts(name)
    for start, stop in pairwise(edges):
        parts.add(start, start, stop - start, 0, width, mask, scales)
    parts.of_memory(data)
    while parts.work(BLOCK, 1):
        pass
    parts.join(0, len(parts))
    return PayloadObservation(*parts.found(0))


def test_types_with_scales_are_all_those_of_ggml() -> None:
    quantized = {kind.name for kind in TENSOR_TYPES if kind.family == "ggml" and not kind.is_plain}
    assert quantized <= set(SCALES)
    assert len(quantized) == 27


def test_no_scale_is_divided_by_a_block_of_the_survey() -> None:
    """What the kernel relies on; a swapped scale is one of the words of its type, where these are known."""
    for kind, scales in SCALES.items():
        number = BY_NAME[kind]
        assert len({scale.type for scale in scales}) == 1
        for scale in scales:
            assert BLOCK % scale.nbytes == 0
            if scale.per == "block":
                assert number.bytes % scale.nbytes == scale.offset % scale.nbytes == 0
            words = number.row_words if scale.per == "row" and not scale.apart else number.words
            if scale.form.word > 1 and words and not scale.apart:
                assert (scale.offset, scale.form.word) in words


@pytest.mark.parametrize("kind", TYPES)
@examples(40)
@given(
    blocks=st.integers(1, 400),
    seed=st.integers(0, 2**32),
    faults=st.sampled_from([0, 0, 1, 2, 9]),
    order=st.sampled_from(["little", "big"]),
    cuts=st.lists(st.integers(1, 8), max_size=3),
    name=st.sampled_from(SETS),
)
def test_scales_are_counted_however_the_payload_is_split(
    kind: str, blocks: int, seed: int, faults: int, order: ByteOrder, cuts: list[int], name: str
) -> None:
    data = payload(kind, blocks, seed, faults, order)
    edges = sorted({0, len(data), *(cut * BLOCK for cut in cuts if cut * BLOCK < len(data))})
    width, mask, scales, _ = look_at(kind, order == "big")
    assert seen(name, data, edges, kind, order) == observe(data, 0, width, mask, scales)
    if len(edges) > 2:  # a stretch that begins inside a block, as in a sample
        parts = _survey.Parts(name)
        parts.add(0, edges[1], len(data) - edges[1], 0, width, mask, scales)
        parts.of_memory(data[edges[1] :])
        parts.work(BLOCK, 1 << 20)
        found = PayloadObservation(*parts.found(0))
        assert found == observe(data[edges[1] :], edges[1], width, mask, scales)
        before = observe(data[: edges[1]], 0, width, mask, scales)
        assert found.non_finite + before.non_finite == observe(data, 0, width, mask, scales).non_finite


@pytest.mark.requirement("R5.7-2")
@pytest.mark.parametrize("kind", TYPES)
def test_byte_order_changes_nothing(kind: str) -> None:
    """What a little-endian file holds, with the words of its scales swapped, is the same in a big-endian one."""
    number, raw = BY_NAME[kind], np.frombuffer(payload(kind, 300, 5, 40), dtype=np.uint8).reshape(300, -1).copy()
    little, big = look_at(kind, False), look_at(kind, True)
    one = observe(raw.tobytes(), 0, little.width, little.mask, little.scales)
    for scale in SCALES[kind]:
        for at in range(scale.offset, scale.offset + scale.nbytes, scale.form.word):
            raw[:, at : at + scale.form.word] = raw[:, at : at + scale.form.word][:, ::-1]
    other = observe(raw.tobytes(), 0, big.width, big.mask, big.scales)
    assert one.non_finite > 0
    assert (one.non_finite, one.first_non_finite) == (other.non_finite, other.first_non_finite)
    assert one.first_non_finite % number.bytes in {scale.offset for scale in SCALES[kind]}


def infinite(kind: str, data: bytes) -> int:
    """How many numbers are not finite, by the definition."""
    if kind in BLOCK_LAYOUTS:
        return observe_groups(data, kind, BLOCK_LAYOUTS[kind].block).infinite
    width, mask, scales, _ = look_at(kind, False)
    return observe(data, 0, width, mask, scales).non_finite


@pytest.mark.skipif(ggml_library.missing() is not None, reason=str(ggml_library.missing()))
@pytest.mark.parametrize("kind", OF_GGML)
@examples(60)
@given(blocks=st.integers(1, 40), seed=st.integers(0, 2**32), faults=st.sampled_from([0, 1, 1, 3]), sound=st.booleans())
def test_verdicts_are_those_of_ggml(kind: str, blocks: int, seed: int, faults: int, sound: bool) -> None:
    """`ggml_validate_row_data`, which llama.cpp's --check-tensors calls; `sound` is false for random bytes throughout."""
    drawn = np.random.default_rng(seed)
    data = payload(kind, blocks, seed, faults) if sound else drawn.bytes(blocks * BY_NAME[kind].bytes)
    assert ggml_library.is_valid(data, BY_NAME[kind].number) == (infinite(kind, data) == 0)


@pytest.mark.skipif(ggml_library.missing() is not None, reason=str(ggml_library.missing()))
@pytest.mark.parametrize("kind", OF_GGML)
def test_each_scale_alone_is_refused_by_ggml(kind: str) -> None:
    """An infinity and a NaN in each scale of the last of three blocks; zero and the smallest number are taken."""
    number = BY_NAME[kind]
    for form, offset in [(s.form, s.offset) for s in SCALES.get(kind, ())] or [(NUMBER_FORMS[kind], 0)]:
        for value in (form.mask, form.mask | 1, form.mask | form.mask << 1 & (1 << 8 * form.bytes) - 1, 0, 1):
            data = bytearray(3 * number.bytes)
            at = 2 * number.bytes + offset
            data[at : at + form.bytes] = value.to_bytes(form.bytes, "little")
            odd = bool(form.mask) and value & form.mask == form.mask
            assert ggml_library.is_valid(bytes(data), number.number) is not odd
            assert (infinite(kind, bytes(data)) > 0) is odd


@pytest.mark.skipif(ggml_library.missing() is not None, reason=str(ggml_library.missing()))
def test_ggml_refuses_q8_1_whatever_it_holds() -> None:
    assert not ggml_library.is_valid(bytes(36), BY_NAME["Q8_1"].number)


def test_scales_that_cannot_be_are_refused() -> None:
    parts = _survey.Parts("portable")
    for wrong in ((18, 3, 0, -1), (18, 2, -1, -1), (18, 2, 18, -1), (18, 2, 0, 17), (17, 2, 0, -1), (0, 2, 0, -1)):
        with pytest.raises(ValueError, match="no such scales"):
            parts.add(0, 0, 100, 0, 1, 0x7C00, ScalePlaces(*wrong))
    with pytest.raises(ValueError, match="no such scales"):
        parts.add(0, 0, 100, 0, 2, 0x7C00, ScalePlaces(18, 2, 0, -1))
    assert len(parts) == 0
