"""Element-wise operations replayed from what a dump shows of their inputs: no model, no numerics, no drift (10.4).

A sum, a product, an activation or the weights of a norm take each element by itself: of the numbers that a text shows,
each must follow from the numbers shown of its inputs, in any layer and whatever happened before, within their last
digits. Where a runtime does several such operations in one node, they are replayed together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.golden.shown import ROUNDED, Pair, largest_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.golden.fitting import WantedValues

#: What a value may be off by, as a share of it: some roundings of float32, or one of bfloat16.
ROUNDING: Final = 4 * 2.0**-24
BFLOAT16_ROUNDING: Final = 2.0**-7

#: How far SiLU may be off, as a share of the largest: approximations of e^x in float32.
SILU_ERROR: Final = 2e-6

#: How far GELU may be off, as a share of the largest: a table of F16.
GELU_TABLE: Final = 1e-3

#: Operations that are replayed together: a gate is an activation of two operations and a product.
DEPTH: Final = 3

#: Operations whose inputs are two tensors of one shape.
_OF_TWO: Final = ("add", "multiply")


class KnownElements(NamedTuple):
    """Elements that a dump shows, or that follow from those, float64, and how far off each may be.

    :param scaled: whether they are known but for a factor of each row
    """

    value: NDArray[np.float64]
    room: NDArray[np.float64]
    scaled: bool = False


def expected(
    name: str, pairs: Mapping[str, Pair], reference: WantedValues, bfloat16: bool = False, scaled: bool = False
) -> KnownElements | None:
    """Compute a tensor from its shown inputs, at the places where it is shown; None where that cannot be known.

    :param pairs: the tensors that are shown, by name
    :param bfloat16: whether the dump's values are bfloat16
    :param scaled: whether a norm follows from its input, too, which gives it but for a factor of each row
    """
    like = pairs[name]
    found = _replayed(name, like, pairs, reference, bfloat16, scaled, DEPTH)
    if found is None or not np.isfinite(like.got).all():
        return None
    value, room = found.value, found.room
    if found.scaled:
        factor = _row_factors(like.got.astype(np.float64), value)
        value, room = factor * value, 2 * np.abs(factor) * room + ROUNDED * like.resolution
    rounding = BFLOAT16_ROUNDING if bfloat16 else ROUNDING
    return KnownElements(value, room + ROUNDED * like.resolution + rounding * np.abs(value))


def _row_factors(got: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factor of each row of one value that makes it another one, 1 where it is 0."""
    squares = (value * value).sum(axis=-1, keepdims=True)
    return np.where(squares > 0, (got * value).sum(axis=-1, keepdims=True) / np.where(squares > 0, squares, 1.0), 1.0)


def _known(
    name: str, like: Pair, pairs: Mapping[str, Pair], reference: WantedValues, bfloat16: bool, scaled: bool, depth: int
) -> KnownElements | None:
    """Return the elements of a tensor at the places of another one: as they are shown, or as their inputs give them."""
    pair = pairs.get(name)
    if pair is None:
        return _replayed(name, like, pairs, reference, bfloat16, scaled, depth - 1) if depth > 1 else None
    if pair.got.shape != like.got.shape or not _same_places(pair, like):
        return None
    value = pair.got.astype(np.float64)
    rounding = BFLOAT16_ROUNDING * np.abs(value) if bfloat16 else 0.0
    return KnownElements(value, np.full(value.shape, ROUNDED * pair.resolution) + rounding)


def _same_places(one: Pair, other: Pair) -> bool:
    if one.places is None or other.places is None:
        return one.places is other.places
    return len(one.places) == len(other.places) and all(map(np.array_equal, one.places, other.places))


def _replayed(
    name: str, like: Pair, pairs: Mapping[str, Pair], reference: WantedValues, bfloat16: bool, scaled: bool, depth: int
) -> KnownElements | None:
    """Compute an element-wise operation from its inputs; None for other operations, and where an input is not known."""
    op, inputs = reference.record.op(name), reference.inputs(name)
    if op in _OF_TWO and len(inputs) == 2:
        a, b = (_known(each, like, pairs, reference, bfloat16, False, depth) for each in inputs)
        if a is None or b is None:
            return None
        if op == "add":
            lost = ROUNDING * (np.abs(a.value) + np.abs(b.value))
            return KnownElements(a.value + b.value, a.room + b.room + lost)
        return KnownElements(a.value * b.value, np.abs(a.value) * b.room + np.abs(b.value) * a.room + a.room * b.room)
    if len(inputs) != 1:
        return None
    factors = _factors(name, inputs[0], like, reference) if op in ("norm_weight", "multiply_by") else None
    if factors is None and op not in ("relu", "square", "silu", "gelu") and not (op == "norm" and scaled):
        return None
    x = _known(inputs[0], like, pairs, reference, bfloat16, scaled and op == "norm_weight", depth)
    if x is None:
        return None
    value, room, _ = x
    if op == "norm":
        return KnownElements(value, room, True)
    if factors is not None:
        known = np.isfinite(factors)  # a column that is 0 in every token tells no factor
        factors = np.where(known, factors, 0.0)
        lost = ROUNDING * np.abs(value * factors)
        return KnownElements(value * factors, np.where(known, room * np.abs(factors) + lost, np.inf), x.scaled)
    if op == "relu":
        return KnownElements(np.maximum(value, 0.0), room)
    if op == "square":
        return KnownElements(value * value, 2 * np.abs(value) * room + room * room)
    with np.errstate(over="ignore"):
        if op == "silu":
            found = value / (1 + np.exp(-value))
            return KnownElements(found, 1.1 * room + SILU_ERROR * largest_of(found))
        bent = np.tanh(np.sqrt(2 / np.pi) * (value + 0.044715 * value**3))
    return KnownElements(0.5 * value * (1 + bent), 1.13 * room + GELU_TABLE * largest_of(value))


def _factors(name: str, entering: str, like: Pair, reference: WantedValues) -> NDArray[Any] | None:
    """Return the factor of each shown column: the quotient of what the reference has, where its input is largest."""
    before, after = reference.value(entering), reference.value(name)
    if before is None or after is None or before.shape != after.shape or not before.ndim:
        return None
    a, b = (each.reshape(-1, each.shape[-1]).astype(np.float64) for each in (before, after))
    row, column = np.abs(a).argmax(axis=0), np.arange(a.shape[1])
    with np.errstate(all="ignore"):
        found = b[row, column] / a[row, column]
    found = found if like.places is None else found[like.places[-1]]
    return found if np.isfinite(found).any() else None
