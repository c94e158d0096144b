"""This module decides the types of the weights of a synthetic model, and whether a rotation is folded into them."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from i2s_spec.errors import quote
from i2s_spec.schema.architectures.keys import Key, file_type_of
from i2s_spec.schema.architectures.rotation import AXIS, KEYS, PREFIX, TRANSFORM, VERSION, Rotation
from i2s_spec.schema.block_layout import GROUP_LAYOUTS

if TYPE_CHECKING:
    from i2s_spec.convert.synthetic.recipes import Size
    from i2s_spec.schema.architectures.architecture import Placed
    from i2s_spec.schema.architectures.inventory import TensorSpec

#: Types that projections can have, the usual one first.
FLOATS: Final = ("F32", "F16", "BF16")
TYPES: Final = ("I2_S", *GROUP_LAYOUTS, *FLOATS)

#: The block of the published rotated models, and the largest block here.
BLOCK: Final = 1024


class WeightKinds:
    """The types of a model's tensors, and its rotation once the tensors are known.

    :param type: the type of the projections, one of `TYPES`. With F32, nothing in the file is rounded: tables are F32
    as well
    :param seed: the seed of the signs of a rotation; None for no rotation
    :raises ValueError: for another type
    """

    def __init__(self, type: str = TYPES[0], seed: int | None = None) -> None:
        if type not in TYPES:
            raise ValueError(f"{quote(type)} is not a type for projections; there are: {', '.join(TYPES)}")
        self.type = type
        self.seed = seed
        self.rotation: Rotation | None = None

    def grown(self, usual: Size, chosen: dict[str, Any]) -> Size:
        """The sizes of a recipe with the chosen changes; the widths of the recipe grow to whole blocks.

        :raises ValueError: for a chosen width that is not a multiple of the type's block
        """
        block = GROUP_LAYOUTS[self.type].block if self.type in GROUP_LAYOUTS else 1
        for name in ("embd", "ff"):
            if chosen.get(name, block) % block:
                raise ValueError(f"{name} is {chosen[name]:,}; rows of {self.type} must be multiples of {block}")
        widths = {name: -(-getattr(usual, name) // block) * block for name in ("embd", "ff")}
        return usual._replace(**{**widths, **chosen})

    def type_of(self, spec: TensorSpec) -> str:
        """The type of a tensor."""
        if spec.usual == "I2_S":
            return self.type
        return "F32" if self.type == "F32" and spec.role in ("embedding", "head") else spec.usual

    def resolve(self, tensors: Iterable[Placed]) -> int:
        """Choose the rotation of a model with these tensors; returns its general.file_type.

        All projections are rotated, and embedding and head if they are separate: version 1 of the keys cannot describe
        a table that is both.
        """
        if self.seed is not None:
            tensors = list(tensors)
            both = [each for each in tensors if each.spec.role in ("embedding", "head")]
            tables = [each for each in both if each.spec.role == "embedding"] if len(both) > 1 else []
            heads = [each for each in both if each.spec.role == "head"] if tables else []
            folded = [each for each in tensors if each.spec.role == "projection"] + heads
            self.rotation = _rotation(self.seed, folded, tables)
        number = file_type_of(self.type.removesuffix("_G128"))
        assert number is not None
        return number

    def rotation_keys(self) -> dict[Key, Any]:
        """The keys of the rotation, in the order of their declaration, with their values."""
        rotation = self.rotation
        if rotation is None:
            return {}
        found = {
            "version": VERSION,
            "block_size": rotation.block,
            "transform": TRANSFORM,
            "axis": AXIS,
            "sign_mode": "explicit",
            "weight_names": rotation.weights,
            "inverse_weight_names": rotation.tables,
            "sign_widths": tuple(rotation.signs),
            "sign_values": tuple(sign for signs in rotation.signs.values() for sign in signs),
        }
        return {key: found[name] for key in KEYS if found.get(name := key.name.removeprefix(PREFIX))}


def _rotation(seed: int, folded: list[Placed], tables: list[Placed]) -> Rotation:
    """A rotation with the largest block that all rows allow, and random signs for every width."""
    import numpy as np

    widths = sorted({each.ne[0] for each in (*folded, *tables)})
    most = gcd(*widths)
    signs = {}
    for width in widths:
        bits = np.random.PCG64([seed, crc32(f"signs {width}".encode())]).random_raw(width) & np.uint64(1)
        signs[width] = tuple((1 - 2 * bits.astype(np.int64)).tolist())
    names = [each.name for each in folded]
    return Rotation(min(BLOCK, most & -most), tuple(names), tuple(each.name for each in tables), signs)
