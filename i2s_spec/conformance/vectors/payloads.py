"""The vectors of ternary payloads: I2_S, types with a scale for each group, TL1 and TL2.

Those of I2_S (`drafts`) show layouts, code maps, bytes, remainders, scales and tails.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec import blocks_native, native
from i2s_spec.codec.blocks import blocks_of
from i2s_spec.codec.lookup_tables import Tiles, unpack_tl1, unpack_tl2
from i2s_spec.codec.observation import write_tail
from i2s_spec.codec.shape import UndefinedElementsWarning
from i2s_spec.conformance.vectors import vector
from i2s_spec.conformance.vectors.vector import LAYOUT_NAMES, Draft
from i2s_spec.schema.blocks import BLOCK_LAYOUTS
from i2s_spec.schema.dialect import CANONICAL, CODE_MAPS, Dialect, parse
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import BY_NAME, TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ORDERS: Final = ("bit-order", "group-stride", "layout-as-sequential")
_BLOCKS: Final = ("scale-first-row", "scale-in-blocks", "codes-four-values")
_CODES: Final = ("code-map", "sign-swapped", "signed-shift")

#: float32 scales that readers treat differently, by name: bits, what is special, and the bugs that they show.
_SCALES: Final[tuple[tuple[str, int, str, tuple[str, ...]], ...]] = (
    ("one", 0x3F800000, "A scale of 1: weights are the trits themselves.", ()),
    ("no-half", 0x3F4CCCCD, "0.8 is no F16 number: a scale that was rounded to F16 shows in the last bits.",
     ("scale-as-f16", "scale-as-bf16", "scale-ignored", "scale-reciprocal", "scale-twice", "scale-place", "scale-in-front",
      "scale-byte-order", "tail-forgotten", *_BLOCKS)),
    ("bf16-neighbour", 0x3F808001, "The bits differ from those of bfloat16 1.0039 in the last place.", ("scale-as-bf16",)),
    ("smallest-normal", 0x00800000, "The smallest normal float32.", ("scale-as-f16",)),
    ("subnormal", 0x00345678, "A subnormal scale: programs that flush these to zero give zeros.", ("subnormal-flushed",)),
    ("smallest", 0x00000001, "The smallest float32 there is.", ("subnormal-flushed",)),
    ("largest", 0x7F7FFFFF, "The largest float32: twice it is infinite.", ("scale-as-f16",)),
)  # fmt: skip

#: Scales that a file must not hold (clause 6.2); readers treat them differently.
_BAD_SCALES: Final[tuple[tuple[str, int, str, str], ...]] = (
    ("nan", 0x7FC00000, "I302", "A NaN: every weight is NaN to who accepts it, those of code 1 too."),
    ("nan-payload", 0x7F812345, "I302", "A signalling NaN with bits of its own."),
    ("infinity", 0x7F800000, "I303", "Infinity times 0 is NaN."),
    ("negative", 0xBF400000, "I305", "A negative scale: 0 times it is -0.0."),
    ("minus-zero", 0x80000000, "I304", "A scale of -0.0: 0 with another bit pattern."),
    ("zero", 0x00000000, "I304", "A scale of 0 with codes that are not 0."),
)  # fmt: skip


def drafts() -> Iterator[Draft]:
    """Yield every vector of I2_S payloads."""
    yield from _layouts()
    yield from _bytes()
    yield from _shapes()
    yield from _code_maps()
    yield from _scales()
    yield from _tails()
    yield from _refused()


def decode(
    name: str,
    trits: NDArray[np.int8],
    comment: str,
    *,
    dialect: str | Dialect = CANONICAL,
    scale: float = 0.75,
    flags: tuple[str, ...] = (),
    clause: str = "5.3",
    requirement: str | None = None,
) -> Draft:
    """Return a vector that asks for the trits of a payload that holds them."""
    dialect = parse(dialect)
    with warnings.catch_warnings():  # some vectors test an incomplete last block
        warnings.simplefilter("ignore", UndefinedElementsWarning)
        data = native.pack(trits, scale, dialect, strict=False)
    return Draft(
        f"i2_s/decode/{name}", "decode", clause, data, comment, expected=trits.tobytes(),
        args=arguments(trits.shape, dialect), features=features(dialect), flags=flags, requirement=requirement,
    )  # fmt: skip


def dequant(
    name: str,
    data: bytes,
    shape: tuple[int, int],
    comment: str,
    *,
    dialect: str | Dialect = CANONICAL,
    byte_order: ByteOrder = "little",
    flags: tuple[str, ...] = (),
    clause: str = "6.2",
    requirement: str | None = "R6.2-3",
) -> Draft:
    """Return a vector that asks for the weights of a payload."""
    dialect = parse(dialect)
    weights = native.dequantize(data, shape, dialect, byte_order=byte_order)
    more = {"byte_order": "big"} if byte_order == "big" else {}
    return Draft(
        f"i2_s/dequant/{name}", "dequant", clause, data, comment, expected=float_bytes(weights),
        args=arguments(shape, dialect) | more, compare={"class": "bits"},
        features=(*features(dialect), *(("big-endian",) if more else ())), flags=flags, requirement=requirement,
    )  # fmt: skip


def arguments(shape: tuple[int, ...], dialect: Dialect = CANONICAL) -> dict[str, Any]:
    """Return what a decoder is told about a payload: canonical values are left out, except the layout."""
    rows, cols = shape
    found = {"type": "i2_s", "shape": [cols, rows], "layout": LAYOUT_NAMES[dialect.layout.name]}
    if dialect.code_map != CANONICAL.code_map:
        found["codes"] = dialect.code_map.name
    if dialect.tail != CANONICAL.tail:
        found["tail"] = dialect.tail.name
    return found


def features(dialect: Dialect = CANONICAL) -> tuple[str, ...]:
    """Return the features that a decoder needs for a dialect."""
    found = ["type.i2_s", f"layout.{LAYOUT_NAMES[dialect.layout.name]}"]
    if dialect.code_map != CANONICAL.code_map:
        found.append(f"codes.{dialect.code_map.name}")
    if dialect.tail != CANONICAL.tail:
        found.append(f"tail.{dialect.tail.name}")
    return tuple(found)


def float_bytes(values: NDArray[np.float32]) -> bytes:
    """Return floats as little-endian bytes; every NaN has the bits 7fc00000."""
    bits = values.astype("<f4").view("<u4").copy()
    bits[np.isnan(values)] = 0x7FC00000
    return bits.tobytes()


def _layouts() -> Iterator[Draft]:
    for layout, name in LAYOUT_NAMES.items():
        canonical = layout == CANONICAL.layout.name
        comment = "Rows and groups all differ, so that no other order of reading passes by luck."
        flags = (*_ORDERS, *_CODES, f"layout-not-{name}", "transposed", "offset-by-one",
                 "offset-by-a-group", "unsigned-trits", "nibbles-swapped", "rows-as-ne0", "codes-four-values",
                 "absolute-values")  # fmt: skip
        yield decode(f"{name}/differing", vector.trits(f"{name}/differing", 8, 384), comment, dialect=layout, flags=flags,
                     clause="5.3" if canonical else "5.5", requirement="R5.5-1")  # fmt: skip
        one = np.zeros((4, 128), dtype=np.int8)
        one[0, 1], one[1, 37], one[2, 66], one[3, 127] = 1, -1, 1, -1
        yield decode(f"{name}/four-spots", one, "Four weights other than 0, one in each group of 32: (0, 1) +1, (1, 37) -1, "
                     "(2, 66) +1, (3, 127) -1.", dialect=layout, flags=("bit-order", "group-stride"),
                     clause="5.3" if canonical else "5.5")  # fmt: skip
        ramp = (np.arange(512).reshape(4, 128) ** 2 + 3 * np.arange(512).reshape(4, 128)) % 3 - 1
        yield dequant(f"{name}/weights", native.pack(ramp, 0.8, layout), (4, 128), "The same order, as weights.",
                      dialect=layout, flags=(f"layout-not-{name}", "scale-ignored", *_BLOCKS))  # fmt: skip


def _bytes() -> Iterator[Draft]:
    sound = bytes(byte for byte in range(256) if all(byte >> shift & 3 < 3 for shift in (0, 2, 4, 6)))
    data = (sound + sound[: -len(sound) % 32] + b"\x55" * 32)[:128]
    trits, _ = native.unpack(data + write_tail(1.0, CANONICAL.tail), (4, 128))
    yield decode("every-byte", trits, "Each of the 81 bytes without code 3 occurs.", scale=1.0, clause="5.4",
                 flags=("signed-shift", "code-map", "unsigned-trits", "bit-order"))  # fmt: skip
    yield decode("zero-bytes", np.full((1, 256), -1, dtype=np.int8), "Bytes of 0 are weights of -1, not missing ones.",
                 clause="5.4", requirement="R5.4-2", flags=("zero-byte-as-zero",))  # fmt: skip
    yield decode("bytes-of-55", np.zeros((1, 256), dtype=np.int8), "Bytes of 55 are weights of 0.", clause="5.4",
                 flags=("code-map",))  # fmt: skip
    yield decode("bytes-of-aa", np.ones((1, 256), dtype=np.int8), "Bytes of aa are weights of +1; as signed bytes they are "
                 "negative.", clause="5.4", flags=("signed-shift", "code-map", "sign-swapped"))  # fmt: skip


def _shapes() -> Iterator[Draft]:
    for rows, cols, word in (
        (1, 128, "The smallest tensor: one block."),
        (1, 1024, "One long row."),
        (128, 128, "A square: rows and columns can be exchanged without an error."),
        (2, 256, "ne is [256, 2]: rows are the second number."),
        (5, 128, "An odd number of rows."),
        (3, 640, "Rows of five blocks."),
    ):
        yield decode(f"shape/{rows}x{cols}", vector.trits(f"shape/{rows}x{cols}", rows, cols), word,
                     flags=("transposed", "last-block-dropped"), requirement="R5.3-2")  # fmt: skip
    trits = vector.trits("rows-of-64", 4, 64)
    yield replace(decode("shape/rows-of-64", trits, "Rows of 64: a block spans two rows. A file must not have it (R5.3-2); "
                         "whole tensors still decode.", requirement="R5.3-2"),
                  verdict="either", rule="I103", flags=("blocks-restart-at-rows",))  # fmt: skip
    trits = vector.trits("rows-of-192", 4, 192)
    yield replace(decode("shape/rows-of-192", trits, "Rows of one and a half blocks: who starts blocks anew at each row "
                         "reads every other row wrong.", requirement="R5.3-2"),
                  features=("type.i2_s", "layout.x86-128", "rows.partial"), rule="I103",
                  flags=("blocks-restart-at-rows",))  # fmt: skip
    for elements, rule in ((132, "I102"), (130, "I101"), (192, "I102")):
        data = bytes([0x55]) * (elements // 4) + write_tail(1.0, CANONICAL.tail)
        yield Draft(f"i2_s/decode/remainder-{elements}", "decode", "5.3", data, f"{elements} elements are not whole blocks: "
                    "no two programs read the rest alike.", args=arguments((1, elements)),
                    features=("type.i2_s", "layout.x86-128", "strict.shapes"), flags=("remainder-accepted",),
                    twin="i2_s/decode/bytes-of-55", verdict="invalid", phase="info", rule=rule,
                    requirement="R5.3-1" if rule == "I102" else "R5.2-1")  # fmt: skip


def _code_maps() -> Iterator[Draft]:
    for name in CODE_MAPS:
        if name == CANONICAL.code_map.name:
            continue
        trits = vector.trits(f"codes/{name}", 2, 256)
        yield decode(f"codes/{name}", trits, "Another code map; the file does not say it, the caller does.",
                     dialect=f"interleave-128/{name}", clause="5.5", requirement="R5.5-1",
                     flags=("code-map-ignored",))  # fmt: skip


def _scales() -> Iterator[Draft]:
    trits = vector.trits("scales", 2, 128)
    for name, bits, comment, flags in _SCALES:
        made = dequant(f"scale/{name}", _with_scale(trits, bits), (2, 128), comment, flags=flags)
        yield replace(made, features=(*made.features, "subnormals")) if "subnormal-flushed" in flags else made
    for name, bits, rule, comment in _BAD_SCALES:
        made = dequant(f"scale/{name}", _with_scale(trits, bits), (2, 128), comment, requirement="R6.2-2")
        yield replace(made, verdict="either", rule=rule, compare={"class": "exact"})
        yield replace(made, name=f"i2_s/dequant/scale/{name}/refused", expected=None, verdict="invalid", phase="payload",
                      rule=rule, compare={"class": "exact"}, features=(*made.features, "strict.scales"),
                      twin="i2_s/dequant/scale/one",
                      flags=("scale-not-checked",), comment=f"{comment} Who checks scales refuses it.")  # fmt: skip
    zeros = np.zeros((1, 128), dtype=np.int8)
    yield dequant("scale/zero-of-zeros", native.pack(zeros, 0.0), (1, 128), "A tensor of zeros may have the scale 0: no "
                  "NaN, no division.", flags=("scale-reciprocal", "minus-zero"), requirement="R6.2-2")  # fmt: skip
    yield dequant("zeros-are-plus-zero", native.pack(zeros, 0.75), (1, 128), "0 times a positive scale is +0.0.",
                  flags=("minus-zero",))  # fmt: skip


def _tails() -> Iterator[Draft]:
    trits = vector.trits("tails", 2, 128)
    payload = native.pack(trits, 0.8)[:-TAIL_BYTES]
    scale = struct.pack("<f", 0.8)
    old = vector.integers("old memory", 28, 256).astype(np.uint8).tobytes()
    yield dequant("tail/old-memory", payload + scale + old, (2, 128), "The other 28 bytes are old memory, as "
                  "llama-quantize leaves them.", clause="6.1", requirement="R6.1-3",
                  flags=("tail-averaged", "tail-last-float", "tail-compared", "scale-place"))  # fmt: skip
    yield dequant("tail/other-floats", payload + scale + struct.pack("<7f", *range(1, 8)), (2, 128), "Seven other floats "
                  "after the scale.", clause="6.1", requirement="R6.1-3",
                  flags=("tail-averaged", "tail-last-float", "scale-per-row"))  # fmt: skip
    yield dequant("tail/nan-behind", payload + scale + b"\xff" * 28, (2, 128), "The other 28 bytes are ff: NaN as floats.",
                  clause="6.1", requirement="R6.1-3", flags=("tail-averaged", "tail-compared"))  # fmt: skip
    replicated = "interleave-128/offset-1/replicated-8"
    yield dequant("tail/replicated", native.pack(trits, 0.8, replicated), (2, 128), "The scale eight times.",
                  dialect=replicated, clause="5.5")  # fmt: skip
    five = vector.trits("unaligned", 4, 5)
    yield dequant("tail/unaligned", native.pack(five, 0.8, "rows-1x4"), (4, 5), "The scale begins at byte 5: its address is "
                  "no multiple of 4.", dialect="rows-1x4", clause="6.1", requirement="R6.1-5",
                  flags=("scale-rounded-up",))  # fmt: skip
    big = native.pack(trits, 0.8, byte_order="big")
    yield dequant("tail/big-endian", big, (2, 128), "Of a big-endian file: the scale is swapped, the payload is not.",
                  byte_order="big", requirement="R6.2-1", flags=("scale-byte-order", "payload-swapped"))  # fmt: skip
    for cut, word in ((32, "the whole tail"), (28, "all of the tail but the scale"), (1, "the last byte")):
        yield Draft(f"i2_s/dequant/tail/without-{cut}", "dequant", "6.1", (payload + scale + bytes(28))[:-cut],
                    f"The data lacks {word}.", args=arguments((2, 128)), features=(*features(), "strict.extent"),
                    flags=("tail-forgotten",), verdict="invalid", phase="extent", requirement="R6.1-1", rule="I104",
                    twin="i2_s/dequant/tail/old-memory", compare={"class": "bits"})  # fmt: skip


def _refused() -> Iterator[Draft]:
    for name, at, shift in (("first", 0, 6), ("middle", 17, 2), ("last", 63, 0)):
        data = bytearray(native.pack(np.zeros((2, 128), dtype=np.int8), 1.0))
        data[at] = data[at] & ~(3 << shift) | 3 << shift
        made = Draft(f"i2_s/decode/code-3/{name}", "decode", "5.4", bytes(data), f"Code 3 once, in byte {at}.",
                     args=arguments((2, 128)), features=(*features(), "strict.codes"), requirement="R5.4-1", rule="I201",
                     flags=("code-three",), verdict="invalid", phase="payload", twin="i2_s/decode/bytes-of-55")  # fmt: skip
        yield made
    yield replace(made, name="i2_s/decode/code-3/survived", verdict="survive", phase=None, twin=None, features=features(),
                  flags=(), comment="Code 3 once, to programs that do not check: any answer but a crash.")  # fmt: skip


def _with_scale(trits: NDArray[np.int8], bits: int) -> bytes:
    payload: bytes = native.pack(trits, 1.0)[:-TAIL_BYTES]
    return payload + struct.pack("<I", bits) + bytes(TAIL_BYTES - 4)


# --- types with a scale for each group -------------------------------------------------------------------------------

#: The names of the types in vectors.
TYPE_NAMES: Final = {
    name: {"Q2_0_G128": "q2_0.g128"}.get(name, name.lower()) for name in BLOCK_LAYOUTS
}  # fmt: skip

#: The mistakes that digits of base 3 invite.
_DIGITS: Final = ("digits-by-division", "digits-reversed", "digits-not-cut")

#: The mistakes that a type invites, by how it is built.
_MISTAKES: Final[dict[str, tuple[str, ...]]] = {
    "Q2_0": ("q2_0-bits-reversed", "q2_0-d-last", "q2_0-64-as-128", "group-as-interleave"),
    "Q2_0_G128": ("q2_0-bits-reversed", "q2_0-d-last", "q2_0-128-as-64", "group-as-interleave"),
    "PQ2_0": ("q2_0-bits-reversed", "q2_0-d-last", "q2_0-128-as-64", "group-as-interleave"),
    "PTQ1_0": ("ptq1_0-sequential", "ptq1_0-qh-first", "ptq1_0-d-first", *_DIGITS),
    "TQ1_0": ("tq1_0-sequential", "tq1_0-qh-first", *_DIGITS),
    "TQ2_0": ("tq2_0-bits-reversed", "tq2_0-sequential", "tq2_0-d-first"),
    "IQ1_BN": ("iq1_bn-sequential", "digits-reversed", "digits-not-cut", "scale-per-tensor"),
    "IQ2_BN": ("iq2_bn-sequential", "iq2_bn-bits-reversed", "scale-per-tensor"),
}

#: F16 scales, by their bits: ordinary, 1, the smallest normal and subnormal, the largest.
_GROUP_SCALES: Final = (0x3A66, 0x3C00, 0x0400, 0x0001, 0x7BFF, 0x2E66, 0x1234, 0x0345)


def group_drafts() -> Iterator[Draft]:
    """Yield every vector of types with a scale for each group."""
    for type in BLOCK_LAYOUTS:
        yield from _of(type)
    yield from _tables()


def _of(type: str) -> Iterator[Draft]:
    layout = BLOCK_LAYOUTS[type]
    name, block = TYPE_NAMES[type], layout.block
    shape = (4, 3 * block) if block < 256 else (3, 2 * block)
    own = _MISTAKES[type]
    values = vector.trits(f"{name}/values", *shape)
    scales = _group_scales(type, shape, f"{name}/scales")
    data = blocks_native.pack(values, scales, type)
    comment = "Every block differs, and every scale."
    yield _decode(type, "differing", data, shape, comment, flags=(*own, "group-code-map", "transposed"))
    yield _dequant(type, "differing", data, shape, comment, flags=(*own, "group-scale-neighbour", "scale-per-tensor"))
    one = np.zeros((1, block), dtype=np.int8)
    one[0, 1], one[0, block // 2 + 1], one[0, block - 1] = 1, -1, 1
    yield _decode(type, "three-spots", blocks_native.pack(one, _group_scales(type, (1, block), "one"), type), (1, block),
                  f"Three weights other than 0: 1 is +1, {block // 2 + 1} is -1, {block - 1} is +1.", flags=own)  # fmt: skip
    for trit, word in ((-1, "minus"), (0, "zero"), (1, "plus")):
        same = np.full((1, block), trit, dtype=np.int8)
        packed = blocks_native.pack(same, _group_scales(type, (1, block), "same"), type)
        yield _dequant(type, f"all-{word}", packed, (1, block),
                       f"Every weight is {trit:+d} times the scale." if trit else "Every weight is 0, and the scale is not.",
                       flags=("group-code-map", "minus-zero"))  # fmt: skip
    if layout.scale.type == "F16":
        rows = len(_GROUP_SCALES)
        several = vector.trits(f"{name}/several", rows, block)
        bits = np.array(_GROUP_SCALES, dtype=np.uint16).view(np.float16)
        yield _dequant(type, "scales", blocks_native.pack(several, bits, type), (rows, block),
                       "F16 scales: ordinary, 1, the smallest normal, the smallest subnormal, the largest.",
                       flags=("f16-subnormal-flushed", "f16-as-bf16"))  # fmt: skip
    if layout.fourth == "weight":
        twos = values.copy()
        twos[vector.integers(f"{name}/twos", values.size, 5).reshape(shape) == 0] = 2
        data = blocks_native.pack(twos, scales, type)
        for made in (
            _dequant(type, "code-3", data, shape, "Code 3 is +2 times the scale.", flags=("code-three-weight",)),
            _decode(type, "code-3", data, shape, "Code 3 is +2.", flags=("code-three-weight",)),
        ):
            yield replace(made, features=(*made.features, "codes.plus-two"))
    if layout.fourth == "reserved":
        bad = bytearray(blocks_native.pack(values, scales, type))
        places = [i for i in range(len(bad)) if i % layout.nbytes not in _scale_bytes(type)]
        bad[places[5]] |= 3
        made = _decode(
            type, "code-3", bytes(data), shape, "Code 3 once: no quantizer writes it.", flags=("code-three",)
        )
        yield replace(made, data=bytes(bad), expected=None, verdict="invalid", phase="payload", rule="B101",
                      twin=f"{name}/decode/differing",
                      requirement="R5.6-1", features=(*made.features, "strict.codes"))  # fmt: skip
    if layout.coding == "digits":
        raw = bytearray(blocks_native.pack(values, scales, type))
        places = [i for i in range(len(raw)) if i % layout.nbytes not in _scale_bytes(type)] if type != "IQ1_BN" else []
        for i, at in enumerate(places):
            raw[at] = i % 256
        if places:
            yield _decode(type, "every-byte", bytes(raw), shape, "Bytes of every value, those among them that no quantizer "
                          "writes: digits follow from the formula all the same.", flags=("digits-by-division",),
                          requirement="R5.6-3")  # fmt: skip


def _scale_bytes(type: str) -> range:
    """Return the bytes of a block that are its scale; empty for types with a scale for each row."""
    scale = BLOCK_LAYOUTS[type].scale
    return range(scale.offset, scale.offset + scale.nbytes) if scale.per == "block" else range(0)


def _group_scales(type: str, shape: tuple[int, int], seed: str) -> NDArray[Any]:
    layout = BLOCK_LAYOUTS[type]
    groups = blocks_of(shape, type).groups
    found = (vector.integers(seed, groups, 900) + 100).astype(np.float32) / np.float32(1024)
    return found.astype(np.float16) if layout.scale.type == "F16" else found


def _decode(
    type: str, name: str, data: bytes, shape: tuple[int, int], comment: str, *, flags: tuple[str, ...],
    requirement: str | None = None,
) -> Draft:  # fmt: skip
    values, _ = blocks_native.unpack(data, shape, type, unused_code="plus-two")
    return Draft(
        f"{TYPE_NAMES[type]}/decode/{name}", "decode", "5.6", data, comment, expected=values.tobytes(),
        args={"type": TYPE_NAMES[type], "shape": [shape[1], shape[0]]}, features=(f"type.{TYPE_NAMES[type]}",), flags=flags,
        requirement=requirement,
    )  # fmt: skip


def _dequant(
    type: str, name: str, data: bytes, shape: tuple[int, int], comment: str, *, flags: tuple[str, ...]
) -> Draft:
    weights = blocks_native.dequantize(data, shape, type, unused_code="plus-two")
    return Draft(
        f"{TYPE_NAMES[type]}/dequant/{name}", "dequant", "5.6", data, comment, expected=float_bytes(weights),
        args={"type": TYPE_NAMES[type], "shape": [shape[1], shape[0]]}, features=(f"type.{TYPE_NAMES[type]}",), flags=flags,
        compare={"class": "bits"},
    )  # fmt: skip


def _tables() -> Iterator[Draft]:
    """Yield vectors of TL1 and TL2, of how the tiles arrange bytes; no program unpacks them, so there are only a few."""
    shape, tiles = (64, 128), Tiles(64, 64, 32)
    size = shape[0] * shape[1] // 4
    pairs = vector.integers("tl1", 2 * size, 9).astype(np.uint8)
    data = (pairs[::2] << 4 | pairs[1::2]).tobytes() + write_tail(0.75, CANONICAL.tail)
    trits, _ = unpack_tl1(data, shape, tiles)
    args = {"shape": [shape[1], shape[0]], "tiles": [*tiles]}
    yield Draft("tl1/decode/differing", "decode", "5.6", data, "Tiles of 64 rows and 64 columns, groups of 32 rows.",
                expected=trits.tobytes(), args={"type": "tl1", **args}, features=("type.tl1",),
                flags=("tl-tiles-ignored",))  # fmt: skip
    shape, tiles = (64, 192), Tiles(32, 96, 32)
    threes = vector.integers("tl2", shape[0] * shape[1] // 3, 14).astype(np.uint8)
    packed = (threes[::2] << 4 | threes[1::2]).tobytes()
    signs = vector.integers("tl2/signs", shape[0] * shape[1] // 24, 256).astype(np.uint8).tobytes()
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
