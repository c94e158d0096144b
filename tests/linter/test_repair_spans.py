"""No repair without `--unsafe` changes a byte that may belong to a tensor, even with overlaps and unknown types."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from examples import examples
from hypothesis import event, given
from hypothesis import strategies as st

from i2s_spec.compare.hash import hash as identity
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.linter.fix import Fixed, fix
from i2s_spec.schema.types import BY_NAME, I2_S, READINGS
from i2s_spec.testing.sample import Draft, tensor_info

#: An unassigned type number.
UNKNOWN = 99
F32, F16, Q8_0 = (BY_NAME[name].number for name in ("F32", "F16", "Q8_0"))


class Info(NamedTuple):
    """A tensor info: ggml's shape, a type number, an offset."""

    ne: tuple[int, ...]
    number: int
    offset: int


def laid(infos: Sequence[Info], data: bytes) -> bytes:
    """A file with tensors wherever they are said to be."""
    records = Draft().records()
    records.tensor_infos = [
        tensor_info(f"t{i}.weight".encode(), info.ne, info.number, info.offset) for i, info in enumerate(infos)
    ]
    records.data = data
    return Draft().built(records)


def fixed(data: bytes, **options: bool) -> tuple[bytes, Fixed]:
    out = io.BytesIO()
    done = fix(data, out, **options)
    return out.getvalue(), done


def section(data: bytes) -> bytes:
    start = open_file(data).data_start
    assert start is not None
    return data[start:]


def stale(elements: int, scale: float = 0.75) -> bytes:
    """An I2_S tensor whose tail holds something after the scale."""
    return b"\x15" * (elements // 4) + struct.pack("<f", scale) + bytes(range(1, 29))


#: Tensors beside an overlap for which the file has no hash of its weights.
NO_IDENTITY = {
    "unknown type": Info((4,), UNKNOWN, 256),
    "past the end": Info((1 << 20,), F32, 256),
    "row of half a block": Info((33,), Q8_0, 256),
    "offset that wraps": Info((4,), F32, (1 << 64) - 32),
    "nothing": Info((4,), F32, 256),
}


@pytest.mark.parametrize("beside", NO_IDENTITY)
def test_a_tail_in_which_another_tensor_lies_is_not_scrubbed(beside: str) -> None:
    infos = [Info((128,), F16, 0), Info((128, 4), I2_S.number, 32), NO_IDENTITY[beside]]
    data = laid(infos, b"\1" * 32 + stale(512) + b"\2" * 128)
    out, done = fixed(data, scrub_tail=True)
    assert section(out)[:256] == section(data)[:256]
    assert not {"I310", "I311"} & {action.code for action in done.actions}


def test_a_tail_without_overlap_is_scrubbed() -> None:
    data = laid([Info((128, 4), I2_S.number, 0), Info((8,), F32, 160)], stale(512) + bytes(range(1, 33)))
    out, done = fixed(data, scrub_tail=True)
    assert section(out)[132:160] == bytes(28)
    assert {action.code for action in done.actions} == {"I310"}
    assert done.weights.unchanged


def test_slices_keep_their_tail() -> None:
    """Programs disagree where the tails of slices are, so that it is not known what the last bytes mean."""
    data = laid([Info((128, 2, 2), I2_S.number, 0)], stale(512))
    out, done = fixed(data, scrub_tail=True)
    assert section(out) == section(data)
    assert done.actions == ()


def test_bytes_of_an_unknown_type_are_not_cleared_as_padding() -> None:
    infos = [Info((4,), UNKNOWN, 0), Info((3,), F32, 0), Info((4,), F32, 32)]
    data = laid(infos, b"\7" * 48)
    out, done = fixed(data)
    assert section(out)[:48] == section(data)[:48]
    assert [each.code for each in done.declined] == ["G406"]
    assert "unknown" in done.declined[0].why


def test_padding_before_a_tensor_of_unknown_type_becomes_zeros() -> None:
    data = laid([Info((3,), F32, 0), Info((4,), UNKNOWN, 32)], b"\7" * 48)
    out, done = fixed(data)
    assert section(out)[:48] == b"\7" * 12 + bytes(20) + b"\7" * 16
    assert [action.code for action in done.actions] == ["G406"]
    assert not done.weights.touched


def test_an_end_that_may_be_of_an_unknown_type_stays() -> None:
    data = laid([Info((4,), UNKNOWN, 0), Info((8,), F32, 32)], b"\7" * 64 + bytes(64))
    out, _ = fixed(data)
    assert section(out)[:128] == section(data)[:128]


def held(data: bytes, size: int) -> bytearray:
    """By the definition, byte by byte: 1 for bytes of the data section that a tensor may use, tails aside."""
    file = open_file(data)
    mask = bytearray(size)
    for tensor in file.tensors.rows:
        readings = [kind for kind in READINGS.get(tensor.number, ()) if tensor.ne[0] % kind.block == 0]
        end = max((tensor.offset + kind.nbytes(tensor.ne) for kind in readings), default=size)
        if tensor.number == I2_S.number and tensor.ne[0] % 128 == 0 and len(tensor.ne) < 3:
            end -= 28
        for at in range(tensor.offset, min(end, size)):
            mask[at] = 1
    return mask


NUMBERS = st.sampled_from([F32, F16, Q8_0, I2_S.number, I2_S.number, UNKNOWN, 30, 31, 39, 40, 42])
SHAPES = st.sampled_from([(3,), (8,), (33,), (64,), (128, 1), (128, 2), (100, 4), (128, 1, 2), (1,)])
OFFSETS = st.one_of(st.sampled_from([0, 32, 64, 96, 128]), st.integers(0, 300), st.just(2**64 - 32))
INFOS = st.lists(st.builds(Info, SHAPES, NUMBERS, OFFSETS), min_size=1, max_size=5)
IN_ORDER = st.lists(st.tuples(SHAPES, NUMBERS), min_size=1, max_size=4)


@pytest.mark.filterwarnings("ignore::i2s_spec.errors.ReadOnWarning")  # bytes behind tensors may be weights
@given(INFOS, st.binary(min_size=0, max_size=40), st.integers(0, 9), st.integers(0, 70), st.booleans())
@examples(300)
def test_no_byte_of_a_tensor_is_changed(infos: list[Info], pattern: bytes, units: int, zeros: int, scrub: bool) -> None:
    data = laid(infos, (pattern * (units + 1)) + bytes(zeros))
    out, done = fixed(data, scrub_tail=scrub)
    if not done.written:
        return
    before, after = section(data), section(out)
    assert open_file(out).tensors.keys() == open_file(data).tensors.keys()
    mask = held(data, len(before))
    for at, kept in enumerate(mask):
        if kept:
            assert at < len(after)
            assert after[at] == before[at], (at, [action.does for action in done.actions])
    event(f"actions: {sorted({action.code for action in done.actions})}")
    event(f"declined: {sorted({each.code for each in done.declined})}")


@given(IN_ORDER, st.integers(1, 255), st.booleans())
@examples(100)
def test_identity_holds_where_there_is_one(kinds: list[tuple[tuple[int, ...], int]], byte: int, scrub: bool) -> None:
    infos, end = [], 0
    for ne, number in kinds:
        infos.append(Info(ne, number, end))
        size = READINGS[number][0].nbytes(ne) if number in READINGS else 32
        end += -(-size // 32) * 32
    data = laid(infos, bytes([byte % 3 * 85 or 21]) * end)
    out, done = fixed(data, scrub_tail=scrub)
    if done.weights.before is not None:
        assert identity(open_file(out)).weights == identity(open_file(data)).weights
