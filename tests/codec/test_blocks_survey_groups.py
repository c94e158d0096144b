"""The survey of groups equals its definition, with every instruction set, however the payload is split."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import _survey
from i2s_spec.codec import blocks as block_reference
from i2s_spec.codec.blocks import blocks_of, observe_groups
from i2s_spec.codec.observation import BLOCK, KINDS, TILE, Groups
from i2s_spec.schema.blocks import BLOCK_LAYOUTS, block_layout
from i2s_spec.schema.faults import ByteOrder

SETS = [name for name, available in _survey.kernel_sets() if available]
TYPES = list(BLOCK_LAYOUTS)


def payload(kind: str, rows: int, cols: int, seed: int, order: ByteOrder, faults: int) -> bytes:
    """A sound payload of random weights, in which some bytes and some scales are then replaced by random ones."""
    drawn = np.random.default_rng(seed)
    tensor = blocks_of((rows, cols), kind)
    scales = np.exp2(drawn.uniform(-9, -6, tensor.groups)).astype(np.float16).astype(np.float32)
    values = drawn.integers(-1, 2, (rows, cols), dtype=np.int8)
    if seed % 3 == 0:
        values[drawn.integers(0, rows)] = 0
    raw = np.frombuffer(block_reference.pack(values, scales, kind, byte_order=order), dtype=np.uint8).copy()
    layout = block_layout(kind)
    stored = tensor.scale_bytes(raw)
    specials = [0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0x0001, 0x8001, 0x3C00, 0xBC00, 0x7BFF]
    for _ in range(faults):
        raw[drawn.integers(0, raw.size)] = drawn.choice(
            [0, 0x55, 1, 60, 127, 128, 129, 237, 255, drawn.integers(0, 256)]
        )
        bits = int(drawn.choice(specials)) << (16 if layout.scale.type == "F32" and drawn.random() < 0.9 else 0)
        stored[drawn.integers(0, tensor.groups)] = list(bits.to_bytes(layout.scale.nbytes, order))
    return raw.tobytes()


def parts_of(name: str, kind: str, cols: int, data: bytes, edges: list[int], order: ByteOrder) -> _survey.Parts:
    parts = _survey.Parts(name)
    for start, stop in pairwise(edges):
        parts.add(start, start, stop - start, 0, 1)
        parts.of_groups(KINDS[kind], block_layout(kind).group_bytes(cols), order == "big")
    parts.of_memory(data)
    return parts


def seen(parts: _survey.Parts) -> Groups:
    parts.join(0, len(parts))
    found = parts.groups(0)
    assert found is not None
    return Groups(*found)


def test_the_tile_is_that_of_the_kernels() -> None:
    assert _survey.TILE == TILE


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", SETS)
@examples(24)
@given(
    rows=st.integers(1, 70),
    blocks=st.integers(1, 6),
    seed=st.integers(0, 2**32),
    faults=st.sampled_from([0, 0, 1, 2, 40]),
    order=st.sampled_from(["little", "big"]),
    cuts=st.lists(st.integers(1, 8), max_size=3),
)
def test_groups_are_counted_however_the_payload_is_split(
    kind: str, name: str, rows: int, blocks: int, seed: int, faults: int, order: ByteOrder, cuts: list[int]
) -> None:
    cols = blocks * block_layout(kind).block
    data = payload(kind, rows, cols, seed, order, faults)
    edges = sorted({0, len(data), *(cut * BLOCK for cut in cuts if cut * BLOCK < len(data))})
    parts = parts_of(name, kind, cols, data, edges, order)
    while parts.work(BLOCK if seed % 2 else 1 << 18, 1):
        pass
    assert seen(parts) == observe_groups(data, kind, cols, byte_order=order)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", SETS)
def test_every_byte_at_every_place_of_a_group(kind: str, name: str) -> None:
    """Each value of each byte of a block: unusual bytes are found, and ordinary ones are not taken for them."""
    layout = block_layout(kind)
    unit = layout.group_bytes(layout.block)
    sound = np.frombuffer(block_reference.pack(np.zeros((TILE, layout.block), np.int8), 1.0, kind), dtype=np.uint8)
    for column in range(unit):
        data = np.tile(sound.reshape(TILE, unit), (256 // TILE, 1))
        data[:, column] = np.arange(256)
        raw = data.tobytes()
        parts = parts_of(name, kind, layout.block, raw, [0, len(raw)], "little")
        parts.work(1 << 18, 1)
        assert seen(parts) == observe_groups(raw, kind, layout.block), column


@pytest.mark.parametrize("name", SETS)
def test_one_fault_in_a_sound_tile_is_seen(name: str) -> None:
    """In a payload of many sound tiles, a fault anywhere in one."""
    for kind in TYPES:
        layout, rows = block_layout(kind), 96
        sound = bytearray(payload(kind, rows, layout.block, 1, "little", 0))
        unit = layout.group_bytes(layout.block)
        assert Groups(*observe_groups(bytes(sound), kind, layout.block)).odd == 0
        for at in (0, 5 * unit + 1, 37 * unit + unit // 2, rows * unit - 1, rows * unit - unit):
            broken = bytearray(sound)
            broken[at] = 0xFF
            parts = parts_of(name, kind, layout.block, bytes(broken), [0, len(broken)], "little")
            parts.work(1 << 18, 1)
            assert seen(parts) == observe_groups(bytes(broken), kind, layout.block)


@pytest.mark.parametrize("name", SETS)
def test_small_scales_before_any_others(name: str) -> None:
    """Scales in the four lowest octaves, from the first tile on, and later others: kernels that count four octaves at once
    have not chosen them yet."""
    for kind in TYPES:
        layout, rows = block_layout(kind), 5 * TILE + 3
        values = np.zeros((rows, layout.block), np.int8)
        for bits in (1, 0x3FF, 0x400, 0xBFE, 0xFFF, 0x1000, 0x7BFF):
            halves = np.full(rows, bits, np.uint16)
            halves[3 * TILE :: 5] = 0x2C01
            scales = halves.view(np.float16).astype("f4" if layout.scale.type == "F32" else "f2")
            data = block_reference.pack(values, scales, kind)
            parts = parts_of(name, kind, layout.block, data, [0, len(data)], "little")
            parts.work(1 << 18, 1)
            assert seen(parts) == observe_groups(data, kind, layout.block), (kind, hex(bits))


def test_a_range_that_begins_inside_a_group() -> None:
    """As in a sample: the codes of a group that is cut are checked, its scale is not."""
    longer = payload("PTQ1_0", 256, 256, 3, "little", 80)
    for name in SETS:
        parts = _survey.Parts(name)
        parts.add(0, BLOCK, len(longer) - BLOCK, 0, 1)
        parts.of_groups(KINDS["PTQ1_0"], 28)
        parts.of_memory(longer[BLOCK:])
        parts.work(1 << 18, 1)
        found = parts.groups(0)
        assert found == observe_groups(longer[BLOCK:], "PTQ1_0", 256, pos=BLOCK)


def test_unknown_kinds_of_groups_are_refused() -> None:
    parts = _survey.Parts("portable")
    with pytest.raises(ValueError, match="no such groups"):
        parts.of_groups(5, 28)
    parts.add(0, 0, 100, 0, 1)
    for kind, unit in ((7, 28), (-1, 28), (5, 0)):
        with pytest.raises(ValueError, match="no such groups"):
            parts.of_groups(kind, unit)
    assert parts.groups(0) is None
    parts.of_groups(5, 28, False, False)
    with pytest.raises(ValueError, match="not a part of groups"):
        parts.of_groups(5, 28)
    parts.of_memory(bytes(100))
    parts.work(1 << 18, 1)
    found = parts.groups(0)
    assert found is not None
    assert found[-1] == ()
    with pytest.raises(IndexError):
        parts.groups(1)
    codes = _survey.Parts("portable")
    codes.add(0, 0, 100)
    with pytest.raises(ValueError, match="not a part of groups"):
        codes.of_groups(5, 28)
