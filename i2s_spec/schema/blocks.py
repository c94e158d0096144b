"""The types that are packed in blocks: where the scales of each are, and how the ternary ones store codes and digits.

`SCALES` has the scales of all types with any: of a block, or of a row. What else a block of a type that is not ternary
holds, small numbers of any value, is not declared here.

I2_S has one scale for a tensor, and `dialect` says where its codes are. `BLOCK_LAYOUTS` are the other ternary types.
Two formulas give the position of element `k` of a block: `byte_of`, counted from the first byte of the block, and
`place_of`. For *bits*, the latter is how far left the code is shifted in the byte. For *digits* it is n in

    code = (byte * 3**n mod 256) * 3 >> 8        so that a byte is ceil(N * 256 / 243), N = sum of code * 3**(4 - n)

and unused digits are 0. Every code stands for the weight code - 1, times the scale. Sizes and numbers of the types are
in `types`, the origins of the numbers in `type_registry`.

I2_SR is the only type whose scales are `apart`: all codes come first, as in I2_S, then a float32 for each row, then 32
bytes without meaning. It is in `GROUP_LAYOUTS`; `BLOCK_LAYOUTS` are the types in which every row is contiguous.

    >>> layout = BLOCK_LAYOUTS["Q2_0"]
    >>> [layout.find(k) for k in (0, 1, 5)]
    [(2, 0), (2, 2), (3, 2)]
    >>> BLOCK_LAYOUTS["PTQ1_0"].find(127)
    (25, 3)
    >>> [(scale.field, scale.type, scale.offset) for scale in SCALES["Q4_K"]]
    [('d', 'F16', 0), ('dmin', 'F16', 2)]

Sources: ggml `ggml-common.h`, `ggml-quants.c` (`dequantize_row_q2_0`, `_tq1_0`, `_tq2_0`, `_iq1_m`;
`ggml_validate_row_data` for the values that a scale may have); ik_llama.cpp
`iqk_quantize.cpp` (`dequantize_row_iq1_bn`, `_iq2_bn`); ggml-org/llama.cpp#29058 for PQ2_0 and PTQ1_0.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from i2s_spec.schema.dialect import CODES_PER_BYTE, Formula
from i2s_spec.schema.types import BY_NAME, I2_S_BLOCK, NUMBER_FORMS, NumberForm, TensorType

#: A digit of base 3: five of them are a number below 243.
DIGITS_PER_BYTE: Final = 5

#: The code that no trit has, and the weight that every known reader decodes from it.
FOURTH_CODE: Final = 3
FOURTH_WEIGHT: Final = 2


class BlockPart(NamedTuple):
    """Elements of a block up to `stop`; two formulas in `k` give their positions."""

    stop: int
    byte_of: Formula
    place_of: Formula


class GroupScale(NamedTuple):
    """The scale of a group, or another factor of its values: what it belongs to, its form, and its position there.

    With `apart` it is not in a block or before a row: the scales of all rows follow all codes of the tensor. `field` is
    ggml's name for it.
    """

    per: Literal["block", "row"]
    type: Literal["F16", "F32", "F16 in four words", "E8M0", "UE4M3"]
    offset: int
    apart: bool = False
    field: str = "d"

    @property
    def form(self) -> NumberForm:
        return NUMBER_FORMS[self.type]

    @property
    def nbytes(self) -> int:
        return self.form.bytes


class BlockLayout(NamedTuple):
    """How a type packs the elements of a block.

    :param name: the name of the type in `types`
    :param coding: two bits for a code, or digits of base 3
    :param parts: the positions of the codes
    :param scale: the scale of a block, or of a row before its blocks
    :param fourth: the meaning of code 3: a `weight` that files contain; `reserved`, which no quantizer writes; empty if
    digits leave no fourth code
    """

    name: str
    coding: Literal["bits", "digits"]
    parts: tuple[BlockPart, ...]
    scale: GroupScale
    fourth: Literal["weight", "reserved", ""]

    @property
    def type(self) -> TensorType:
        """The declaration of its sizes and its number."""
        return BY_NAME[self.name]

    @property
    def block(self) -> int:
        """Elements of a block."""
        return self.parts[-1].stop

    @property
    def nbytes(self) -> int:
        """Bytes of a block."""
        return self.block // CODES_PER_BYTE if self.scale.apart else self.type.bytes

    def group_bytes(self, cols: int) -> int:
        """Bytes from one scale to the next: of a block, or of a row of `cols` elements with its scale."""
        if self.scale.per == "block":
            return self.nbytes
        return self.type.row_bytes + cols // self.block * self.nbytes

    @property
    def front_bytes(self) -> int:
        """Bytes of a row besides its blocks."""
        return self.scale.nbytes if self.scale.apart else self.type.row_bytes

    def find(self, k: int) -> tuple[int, int]:
        """Return the values of `byte_of` and `place_of` for element `k` of a block."""
        part = next(part for part in self.parts if k < part.stop)
        return int(part.byte_of(k, 1, self.block)), int(part.place_of(k, 1, self.block))

    def groups(self, rows: int, cols: int) -> int:
        """How many scales a matrix has."""
        return rows if self.scale.per == "row" else rows * cols // self.block

    def group_elements(self, cols: int) -> int:
        """How many elements share a scale in a matrix with this number of columns."""
        return cols if self.scale.per == "row" else self.block

    def __str__(self) -> str:
        return self.name


def _part(stop: int, byte_of: str, place_of: str) -> BlockPart:
    return BlockPart(stop, Formula(byte_of), Formula(place_of))


_FRONT: Final = GroupScale("block", "F16", 0)

#: Every such type by its name.
BLOCK_LAYOUTS: Final = {
    layout.name: layout
    for layout in (
        BlockLayout("Q2_0", "bits", (_part(64, "2 + k // 4", "k % 4 * 2"),), _FRONT, "weight"),
        BlockLayout("Q2_0_G128", "bits", (_part(128, "2 + k // 4", "k % 4 * 2"),), _FRONT, "weight"),
        BlockLayout("PQ2_0", "bits", (_part(128, "2 + k // 4", "k % 4 * 2"),), _FRONT, "weight"),
        BlockLayout(
            "PTQ1_0",
            "digits",
            (
                _part(80, "k % 16", "k // 16"),
                _part(120, "16 + k % 8", "(k - 80) // 8"),
                _part(128, "24 + k % 2", "(k - 120) // 2"),
            ),
            GroupScale("block", "F16", 26),
            "",
        ),
        BlockLayout(
            "TQ1_0",
            "digits",
            (
                _part(160, "k % 32", "k // 32"),
                _part(240, "32 + k % 16", "(k - 160) // 16"),
                _part(256, "48 + k % 4", "(k - 240) // 4"),
            ),
            GroupScale("block", "F16", 52),
            "",
        ),
        BlockLayout(
            "TQ2_0",
            "bits",
            (_part(256, "k // 128 * 32 + k % 32", "k % 128 // 32 * 2"),),
            GroupScale("block", "F16", 64),
            "reserved",
        ),
        # Of every 16 elements, 15 fill three bytes, and the last is one of four digits of the following byte.
        BlockLayout(
            "IQ1_BN",
            "digits",
            (
                _part(
                    64,
                    "k // 16 * 3 + k % 16 // 5 + k % 16 // 15 * (9 - k // 16 * 3)",
                    "4 - k % 16 % 5 - k % 16 // 15 * (k // 16)",
                ),
            ),
            GroupScale("row", "F16", 0),
            "",
        ),
        BlockLayout(
            "IQ2_BN", "bits", (_part(64, "k % 16", "k // 16 * 2"),), GroupScale("row", "F32", 0), "reserved"
        ),
    )
}  # fmt: skip

#: The codes of I2_S with a scale for each row, by a fork of BitNet (type 40, where others have NVFP4).
ROW_SCALES_APART: Final = BlockLayout(
    "I2_SR",
    "bits",
    (_part(I2_S_BLOCK, "k % 32", "6 - k // 32 * 2"),),
    GroupScale("row", "F32", 0, apart=True),
    "reserved",
)

#: Every ternary type with a scale for each group by its name.
GROUP_LAYOUTS: Final = {**BLOCK_LAYOUTS, ROW_SCALES_APART.name: ROW_SCALES_APART}

_SECOND: Final = GroupScale("block", "F16", 2, field="m")

#: The scales of every type with scales in its blocks, before its rows or after its codes. I2_S, TL1 and TL2 have one in
#: the tail of a tensor.
SCALES: Final[dict[str, tuple[GroupScale, ...]]] = {
    **{name: (layout.scale,) for name, layout in GROUP_LAYOUTS.items()},
    **dict.fromkeys(
        ("Q4_0", "Q5_0", "Q8_0", "Q1_0", "IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS"),
        (_FRONT,),
    ),
    **dict.fromkeys(("Q4_1", "Q5_1"), (_FRONT, _SECOND)),
    "Q8_1": (_FRONT, _SECOND._replace(field="s")),
    "Q2_K": (_FRONT._replace(offset=80), _SECOND._replace(offset=82, field="dmin")),
    "Q3_K": (_FRONT._replace(offset=108),),
    **dict.fromkeys(("Q4_K", "Q5_K"), (_FRONT, _SECOND._replace(field="dmin"))),
    "Q6_K": (_FRONT._replace(offset=208),),
    "Q8_K": (GroupScale("block", "F32", 0),),
    "IQ1_M": (GroupScale("block", "F16 in four words", 48),),
    "MXFP4": (GroupScale("block", "E8M0", 0, field="e"),),
    "NVFP4": tuple(GroupScale("block", "UE4M3", part, field=f"d[{part}]") for part in range(4)),
}


def block_layout(type: str) -> BlockLayout:
    """Return the layout of a type.

    :raises ValueError: for a type that has none
    """
    if type not in GROUP_LAYOUTS:
        raise ValueError(
            f"{type} does not pack weights in blocks with scales; these types do: {', '.join(GROUP_LAYOUTS)}"
        )
    return GROUP_LAYOUTS[type]
