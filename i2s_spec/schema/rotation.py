"""The rotation that PrismML's models fold into their weights, as metadata declares it (section 3.8).

Bonsai 2 models hold W' = W D H, in blocks along the rows, where H is the normalized Walsh-Hadamard matrix in
Sylvester's order and D the diagonal of signs. Before each product with a weight of `weight_names`, a program applies

    x' = H (s * x)                 block by block; H is its own inverse

In the tables in `inverse_weight_names`, rows are rotated; after the lookup, a row z becomes h = s * (H z). There is a
vector of signs for each width; without one (`identity`) all signs are +1. A program that does not know the keys loads
such a file and computes something else. `codec.float_passes` computes the transform.

Sources: PrismML-Eng/llama.cpp #119, #120, #121; ggml-org/llama.cpp#29058; the metadata of Ternary-Bonsai-2-27B.

    >>> rotation = Rotation(4, ("blk.0.ffn_up.weight",), (), {8: (1, -1, 1, 1, 1, 1, -1, 1)})
    >>> rotation.signs_of(8)[:2], rotation.rotates("blk.0.ffn_up.weight")
    ((1, -1), True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from i2s_spec.errors import counted, quote
from i2s_spec.schema.keys import EXPECTED, OPTIONAL, REQUIRED, Key

#: The prefix of these keys.
PREFIX: Final = "prism.hadamard."

#: The allowed values.
VERSION: Final = 1
TRANSFORM: Final = "normalized-sylvester-walsh-hadamard"
AXIS: Final = "input-last-dimension"
SIGN_MODES: Final = ("identity", "explicit")

_GRAPH: Final = ("graph",)
_INTS: Final = ("arr[i32]", "arr[i8]", "arr[u32]", "arr[i64]")

#: Every key, and whether it is required in a file that has any of them.
KEYS: Final[tuple[Key, ...]] = (
    Key(f"{PREFIX}version", ("u32",), REQUIRED, _GRAPH, "The version of these keys.", "3.8", values=(VERSION,)),
    Key(f"{PREFIX}block_size", ("u32",), REQUIRED, _GRAPH, "Elements of a row that are rotated together.", "3.8", least=2,
        note="a power of two that divides every row; 1,024 in all published files"),
    Key(f"{PREFIX}transform", ("str",), REQUIRED, _GRAPH, "The kind of the matrix H.", "3.8", values=(TRANSFORM,)),
    Key(f"{PREFIX}axis", ("str",), REQUIRED, _GRAPH, "The rotated dimension.", "3.8", values=(AXIS,)),
    Key(f"{PREFIX}sign_mode", ("str",), REQUIRED, _GRAPH, "Whether there are vectors of signs.", "3.8", values=SIGN_MODES),
    Key(f"{PREFIX}weight_names", ("arr[str]",), REQUIRED, _GRAPH, "Weights whose input is rotated.", "3.8"),
    Key(f"{PREFIX}inverse_weight_names", ("arr[str]",), OPTIONAL, _GRAPH, "Tables whose rows are rotated.", "3.8"),
    Key(f"{PREFIX}sign_widths", ("arr[u32]", "arr[i32]", "arr[i64]"), EXPECTED, _GRAPH,
        "The widths that have a vector of signs, with `explicit`.", "3.8", least=1),
    Key(f"{PREFIX}sign_values", _INTS, EXPECTED, _GRAPH, "Those vectors, one after another, with `explicit`.", "3.8",
        values=(-1, 1)),
    Key(f"{PREFIX}gdn_v_grouped", ("bool",), OPTIONAL, _GRAPH,
        "Whether the columns of a rotated ssm_out are grouped by key head, not tiled.", "3.8", default=False,
        note="rotation mixes columns, so they cannot be reordered after it"),
)  # fmt: skip


class RotationError(ValueError):
    """The keys of a rotation are invalid: `key` without its prefix, and why."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(key, why)
        self.key, self.why = key, why

    def __str__(self) -> str:
        return f"{PREFIX}{self.key} {self.why}"


class Rotation(NamedTuple):
    """A rotation that a file declares.

    :param block: elements of a row that are rotated together
    :param weights: names of the weights whose input is rotated
    :param tables: names of the tables whose rows are rotated
    :param signs: -1 or +1 for each element, by width; empty where all are +1
    :param grouped: whether the columns of a rotated `ssm_out` are in the order of value heads in which those with one key
    head are neighbors; those of the file's other tensors are tiled (clause 9.12)
    """

    block: int
    weights: tuple[str, ...]
    tables: tuple[str, ...] = ()
    signs: Mapping[int, tuple[int, ...]] = MappingProxyType({})
    grouped: bool = False

    def rotates(self, name: str) -> bool:
        """Whether the input of a weight is rotated."""
        return name in self.weights

    def signs_of(self, width: int) -> tuple[int, ...] | None:
        """Return the signs for rows of a width; None if all are +1.

        :raises RotationError: if other widths have signs and this one has none
        """
        if not self.signs:
            return None
        if width not in self.signs:
            raise RotationError("sign_widths", f"has no signs for rows of {counted(width, 'element')}")
        return self.signs[width]

    def require_width(self, width: int) -> None:
        """Refuse rows that are not whole blocks.

        :raises RotationError: for such rows
        """
        if width % self.block:
            raise RotationError(
                "block_size", f"is {self.block:,}, which does not divide rows of {counted(width, 'element')}"
            )


def declared(metadata: Mapping[str, Any]) -> Rotation | None:
    """Return the rotation that metadata declares; None if it has none of the keys.

    :raises RotationError: if keys are missing or invalid
    """
    if not any(name.startswith(PREFIX) for name in metadata):
        return None
    found = {key.name.removeprefix(PREFIX): metadata.get(key.name) for key in KEYS}
    for key in KEYS:
        name = key.name.removeprefix(PREFIX)
        if key.need == REQUIRED and found[name] is None:
            raise RotationError(name, "is missing")
        if key.values and isinstance(found[name], str | int) and found[name] not in key.values:
            known = ", ".join(str(value) for value in key.values)
            raise RotationError(name, f"is {quote(str(found[name]))}; known are {known}")
    block = found["block_size"]
    if not isinstance(block, int) or block < 2 or block & (block - 1):
        raise RotationError("block_size", f"is {quote(str(block))}, which is not a power of two")
    names = tuple(str(name) for name in found["weight_names"] or ())
    tables = tuple(str(name) for name in found["inverse_weight_names"] or ())
    signs = _signs(found) if found["sign_mode"] == "explicit" else {}
    return Rotation(block, names, tables, signs, found["gdn_v_grouped"] is True)


def _signs(found: Mapping[str, Any]) -> dict[int, tuple[int, ...]]:
    """Return the vector of signs of each width."""
    widths, values = found["sign_widths"], found["sign_values"]
    for name, value in (("sign_widths", widths), ("sign_values", values)):
        if value is None or not len(value):
            raise RotationError(name, "is missing, and sign_mode is explicit")
    _require_signs(values)
    widths = [int(width) for width in widths]
    if min(widths) < 1 or len(set(widths)) < len(widths):
        raise RotationError("sign_widths", f"is {widths}: widths must be positive and different")
    if sum(widths) != len(values):
        raise RotationError(
            "sign_values", f"has {counted(len(values), 'sign')}, and the widths add up to {sum(widths):,}"
        )
    signs, at = {}, 0
    for width in widths:
        signs[width] = tuple(int(value) for value in values[at : at + width])
        at += width
    return signs


def _require_signs(values: Sequence[Any]) -> None:
    odd = next((i for i, value in enumerate(values) if value not in (-1, 1)), None)
    if odd is not None:
        raise RotationError("sign_values", f"has {quote(str(values[odd]))} at {odd:,}; signs must be -1 or +1")
