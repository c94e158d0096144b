"""This module makes the vectors of ternary types with a scale for each group, and of TL1 and TL2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.blocks import block_native
from i2s_spec.codec.blocks.block_shape import blocks_of
from i2s_spec.codec.blocks.lookup_tables import Tiles, unpack_tl1, unpack_tl2
from i2s_spec.codec.tail import write_tail
from i2s_spec.conformance.vectors import chance
from i2s_spec.conformance.vectors.draft import Draft
from i2s_spec.conformance.vectors.i2s_payloads import float_bytes
from i2s_spec.schema.block_layout import BLOCK_LAYOUTS
from i2s_spec.schema.dialect import CANONICAL
from i2s_spec.schema.types import BY_NAME, TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The names of the types in vectors.
TYPE_NAMES: Final = {
    name: {"Q2_0_G128": "q2_0.g128"}.get(name, name.lower()) for name in BLOCK_LAYOUTS
}  # fmt: skip

#: The mistakes that a type invites, by how it is built.
_MISTAKES: Final[dict[str, tuple[str, ...]]] = {
    "Q2_0": ("q2_0-bits-reversed", "q2_0-d-last", "q2_0-64-as-128", "group-as-interleave"),
    "Q2_0_G128": ("q2_0-bits-reversed", "q2_0-d-last", "q2_0-128-as-64", "group-as-interleave"),
    "PQ2_0": ("q2_0-bits-reversed", "q2_0-d-last", "q2_0-128-as-64", "group-as-interleave"),
    "PTQ1_0": ("ptq1_0-sequential", "ptq1_0-qh-first", "ptq1_0-d-first", "digits-by-division", "digits-reversed"),
    "TQ1_0": ("tq1_0-sequential", "tq1_0-qh-first", "digits-by-division", "digits-reversed"),
    "TQ2_0": ("tq2_0-bits-reversed", "tq2_0-sequential", "tq2_0-d-first"),
    "IQ1_BN": ("iq1_bn-sequential", "digits-reversed", "scale-per-tensor"),
    "IQ2_BN": ("iq2_bn-sequential", "iq2_bn-bits-reversed", "scale-per-tensor"),
}

#: F16 scales, by their bits: ordinary, 1, the smallest normal and subnormal, the largest.
_SCALES: Final = (0x3A66, 0x3C00, 0x0400, 0x0001, 0x7BFF, 0x2E66, 0x1234, 0x0345)


def drafts() -> Iterator[Draft]:
    """Every vector of types with a scale for each group."""
    for type in BLOCK_LAYOUTS:
        yield from _of(type)
    yield from _tables()


def _of(type: str) -> Iterator[Draft]:
    layout = BLOCK_LAYOUTS[type]
    name, block = TYPE_NAMES[type], layout.block
    shape = (4, 3 * block) if block < 256 else (3, 2 * block)
    own = _MISTAKES[type]
    values = chance.trits(f"{name}/values", *shape)
    scales = _scales(type, shape, f"{name}/scales")
    data = block_native.pack(values, scales, type)
    comment = "Every block differs, and every scale."
    yield _decode(type, "differing", data, shape, comment, flags=(*own, "group-code-map", "transposed"))
    yield _dequant(type, "differing", data, shape, comment, flags=(*own, "group-scale-neighbour", "scale-per-tensor"))
    one = np.zeros((1, block), dtype=np.int8)
    one[0, 1], one[0, block // 2 + 1], one[0, block - 1] = 1, -1, 1
    yield _decode(type, "three-spots", block_native.pack(one, _scales(type, (1, block), "one"), type), (1, block),
                  f"Three weights other than 0: 1 is +1, {block // 2 + 1} is -1, {block - 1} is +1.", flags=own)  # fmt: skip
    for trit, word in ((-1, "minus"), (0, "zero"), (1, "plus")):
        same = np.full((1, block), trit, dtype=np.int8)
        yield _dequant(type, f"all-{word}", block_native.pack(same, _scales(type, (1, block), "same"), type), (1, block),
                       f"Every weight is {trit:+d} times the scale." if trit else "Every weight is 0, and the scale is not.",
                       flags=("group-code-map", "minus-zero"))  # fmt: skip
    if layout.scale.type == "F16":
        rows = len(_SCALES)
        several = chance.trits(f"{name}/several", rows, block)
        bits = np.array(_SCALES, dtype=np.uint16).view(np.float16)
        yield _dequant(type, "scales", block_native.pack(several, bits, type), (rows, block),
                       "F16 scales: ordinary, 1, the smallest normal, the smallest subnormal, the largest.",
                       flags=("f16-subnormal-flushed", "f16-as-bf16"))  # fmt: skip
    if layout.fourth == "weight":
        twos = values.copy()
        twos[chance.integers(f"{name}/twos", values.size, 5).reshape(shape) == 0] = 2
        data = block_native.pack(twos, scales, type)
        yield _dequant(type, "code-3", data, shape, "Code 3 is +2 times the scale.", flags=("code-three-weight",))
        yield _decode(type, "code-3", data, shape, "Code 3 is +2.", flags=("code-three-weight",))
    if layout.fourth == "reserved":
        bad = bytearray(block_native.pack(values, scales, type))
        places = [i for i in range(len(bad)) if i % layout.nbytes not in _scale_bytes(type)]
        bad[places[5]] |= 3
        made = _decode(
            type, "code-3", bytes(data), shape, "Code 3 once: no quantizer writes it.", flags=("code-three",)
        )
        yield replace(made, data=bytes(bad), expected=None, verdict="invalid", phase="payload", rule="B101",
                      requirement="R5.6-1", features=(*made.features, "strict.codes"))  # fmt: skip
    if layout.coding == "digits":
        raw = bytearray(block_native.pack(values, scales, type))
        places = [i for i in range(len(raw)) if i % layout.nbytes not in _scale_bytes(type)] if type != "IQ1_BN" else []
        for i, at in enumerate(places):
            raw[at] = i % 256
        if places:
            yield _decode(type, "every-byte", bytes(raw), shape, "Bytes of every value, those among them that no quantizer "
                          "writes: digits follow from the formula all the same.", flags=("digits-by-division",),
                          requirement="R5.6-3")  # fmt: skip


def _scale_bytes(type: str) -> range:
    """The bytes of a block that are its scale; empty for types with a scale for each row."""
    scale = BLOCK_LAYOUTS[type].scale
    return range(scale.offset, scale.offset + scale.nbytes) if scale.per == "block" else range(0)


def _scales(type: str, shape: tuple[int, int], seed: str) -> NDArray[Any]:
    layout = BLOCK_LAYOUTS[type]
    groups = blocks_of(shape, type).groups
    found = (chance.integers(seed, groups, 900) + 100).astype(np.float32) / np.float32(1024)
    return found.astype(np.float16) if layout.scale.type == "F16" else found


def _decode(
    type: str, name: str, data: bytes, shape: tuple[int, int], comment: str, *, flags: tuple[str, ...],
    requirement: str | None = None,
) -> Draft:  # fmt: skip
    values, _ = block_native.unpack(data, shape, type, unused_code="plus-two")
    return Draft(
        f"{TYPE_NAMES[type]}/decode/{name}", "decode", "5.6", data, comment, expected=values.tobytes(),
        args={"type": TYPE_NAMES[type], "shape": [shape[1], shape[0]]}, features=(f"type.{TYPE_NAMES[type]}",), flags=flags,
        requirement=requirement,
    )  # fmt: skip


def _dequant(
    type: str, name: str, data: bytes, shape: tuple[int, int], comment: str, *, flags: tuple[str, ...]
) -> Draft:
    weights = block_native.dequantize(data, shape, type, unused_code="plus-two")
    return Draft(
        f"{TYPE_NAMES[type]}/dequant/{name}", "dequant", "5.6", data, comment, expected=float_bytes(weights),
        args={"type": TYPE_NAMES[type], "shape": [shape[1], shape[0]]}, features=(f"type.{TYPE_NAMES[type]}",), flags=flags,
        compare={"class": "bits"},
    )  # fmt: skip


def _tables() -> Iterator[Draft]:
    """TL1 and TL2: how the tiles arrange bytes; no program unpacks them, so there are only a few vectors."""
    shape, tiles = (64, 128), Tiles(64, 64, 32)
    size = shape[0] * shape[1] // 4
    pairs = chance.integers("tl1", 2 * size, 9).astype(np.uint8)
    data = (pairs[::2] << 4 | pairs[1::2]).tobytes() + write_tail(0.75, CANONICAL.tail)
    trits, _ = unpack_tl1(data, shape, tiles)
    args = {"shape": [shape[1], shape[0]], "tiles": [*tiles]}
    yield Draft("tl1/decode/differing", "decode", "5.6", data, "Tiles of 64 rows and 64 columns, groups of 32 rows.",
                expected=trits.tobytes(), args={"type": "tl1", **args}, features=("type.tl1",),
                flags=("tl-tiles-ignored",))  # fmt: skip
    shape, tiles = (64, 192), Tiles(32, 96, 32)
    threes = chance.integers("tl2", shape[0] * shape[1] // 3, 14).astype(np.uint8)
    packed = (threes[::2] << 4 | threes[1::2]).tobytes()
    signs = chance.integers("tl2/signs", shape[0] * shape[1] // 24, 256).astype(np.uint8).tobytes()
    data = packed + signs
    data = data.ljust(BY_NAME["TL2"].nbytes((shape[1], shape[0])) - TAIL_BYTES, b"\0") + write_tail(
        0.75, CANONICAL.tail
    )
    trits, _ = unpack_tl2(data, shape, tiles)
    args = {"shape": [shape[1], shape[0]], "tiles": [*tiles]}
    yield Draft("tl2/decode/differing", "decode", "5.6", data, "Tiles of 32 rows and 96 columns: three weights are a number "
                "and a sign. "
                "No mutant reads TL2: the answer rests on the reference alone.",
                expected=trits.tobytes(), args={"type": "tl2", **args}, features=("type.tl2",),
                flags=())  # fmt: skip
