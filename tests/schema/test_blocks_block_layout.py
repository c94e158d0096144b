"""Positions of codes in blocks: no bit is shared, none is outside, and all follow the loops of the original sources."""

from __future__ import annotations

import pytest

from i2s_spec.schema.blocks import BLOCK_LAYOUTS, DIGITS_PER_BYTE, BlockLayout, block_layout
from i2s_spec.schema.inventory import TERNARY_TYPES
from i2s_spec.schema.types import BY_NAME

LAYOUTS = list(BLOCK_LAYOUTS.values())


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_element_has_a_place_of_its_own(layout: BlockLayout) -> None:
    places = [layout.find(k) for k in range(layout.block)]
    assert len(set(places)) == layout.block
    last = (6, 2) if layout.coding == "bits" else (DIGITS_PER_BYTE - 1, 1)
    assert {place for _, place in places} <= set(range(0, last[0] + 1, last[1]))
    taken = {byte for byte, _ in places}
    own = range(layout.scale.offset, layout.scale.offset + layout.scale.nbytes) if layout.scale.per == "block" else ()
    assert taken | set(own) == set(range(layout.nbytes))
    assert not taken & set(own)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_scales_are_the_words_that_byte_order_concerns(layout: BlockLayout) -> None:
    scale, kind = layout.scale, layout.type
    if scale.per == "block":
        assert kind.words == ((scale.offset, scale.nbytes),)
        assert kind.row_bytes == 0
    else:
        assert (kind.words, kind.row_words) == ((), ((scale.offset, scale.nbytes),))
        assert kind.row_bytes == scale.nbytes
    assert layout.groups(3, 512) * layout.group_elements(512) == 3 * 512


def test_parts_cover_a_block() -> None:
    for layout in LAYOUTS:
        stops = [part.stop for part in layout.parts]
        assert stops == sorted(stops)
        assert stops[-1] == layout.block


def test_digits_in_the_order_of_the_sources_loops() -> None:
    """Element after element as the dequantizers of ggml, PrismML and ik_llama.cpp write them."""
    tq1 = [(m, n) for n in range(5) for m in range(32)]
    tq1 += [(32 + m, n) for n in range(5) for m in range(16)] + [(48 + m, n) for n in range(4) for m in range(4)]
    assert [BLOCK_LAYOUTS["TQ1_0"].find(k) for k in range(256)] == tq1
    ptq1 = [(m, n) for n in range(5) for m in range(16)]
    ptq1 += [(16 + m, n) for n in range(5) for m in range(8)] + [(24 + m, n) for n in range(4) for m in range(2)]
    assert [BLOCK_LAYOUTS["PTQ1_0"].find(k) for k in range(128)] == ptq1
    iq1: list[tuple[int, int]] = []
    for group in range(4):  # multiplied by 81, 27, 9, 3, 1 = 3 ** (4 - j)
        iq1 += [(3 * group + byte, 4 - j) for byte in range(3) for j in range(5)] + [(12, 4 - group)]
    assert [BLOCK_LAYOUTS["IQ1_BN"].find(k) for k in range(64)] == iq1


def test_pq2_0_is_q2_0_in_groups_of_128_under_another_number() -> None:
    old, new = BLOCK_LAYOUTS["Q2_0_G128"], BLOCK_LAYOUTS["PQ2_0"]
    assert (old.parts, old.scale, old.fourth) == (new.parts, new.scale, new.fourth)
    assert (BY_NAME["Q2_0_G128"].number, BY_NAME["PQ2_0"].number) == (42, 142)
    assert BY_NAME["Q2_0_G128"].nbytes((5120, 2)) == BY_NAME["PQ2_0"].nbytes((5120, 2)) == 2 * 40 * 34


def test_other_types_have_no_blocks() -> None:
    with pytest.raises(ValueError, match="I2_S does not pack weights in blocks"):
        block_layout("I2_S")


def test_every_ternary_type_of_blocks_has_a_layout() -> None:
    assert {layout.name for layout in LAYOUTS} == set(TERNARY_TYPES) - {"I2_S", "I2_SR", "TL1", "TL2"}
