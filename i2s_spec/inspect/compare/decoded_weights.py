"""This module compares ternary tensors that have no common scale: their trits, and the weights that these stand for."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from i2s_spec.codec.ternary_types import BLOCK_TYPES
from i2s_spec.codec.trits import WINDOW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.codec.trits import Trits


class Differing(NamedTuple):
    """How many trits and weights differ, with the first element of each; None where all are equal."""

    trits: tuple[int, int] | None
    weights: tuple[int, int] | None


def comparable(one: Trits, other: Trits) -> bool:
    """Whether both are I2_S or a type with a scale for each group, or row; floats would have to be exactly ternary."""
    return all(each.form.type == "I2_S" or each.form.type in BLOCK_TYPES for each in (one, other))


def differing(one: Trits, other: Trits) -> Differing:
    """Compare two tensors of as many elements, a window at a time.

    :raises ValueError: where one holds a code that stands for no trit, or a scale that is not a number
    :raises FormatError: where a file does not hold its tensor
    """
    unit = lcm(one.form.unit, other.form.unit)
    step = max(WINDOW // unit, 1) * unit
    counts, firsts = [0, 0], [0, 0]
    for start in range(0, one.form.elements, step):
        stop = min(start + step, one.form.elements)
        both: Any = zip(_window(one, start, stop), _window(other, start, stop), strict=True)
        for what, (ours, theirs) in enumerate(both):
            odd = ours != theirs
            if found := int(np.count_nonzero(odd)):
                if not counts[what]:
                    firsts[what] = start + int(odd.argmax())
                counts[what] += found
    trits, weights = ((count, first) if count else None for count, first in zip(counts, firsts, strict=True))
    return Differing(trits, weights)


def _window(tensor: Trits, start: int, stop: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The trits of a window, and its weights."""
    form = tensor.form
    data = tensor.fetch(form.byte(start), form.byte(stop))
    trits = form.decode(data, stop - start, tensor.unused).trits
    if form.type == "I2_S":
        with np.errstate(invalid="ignore"):  # 0 times an infinite scale
            return trits, trits * tensor.scale
    from i2s_spec.codec.blocks import block_native

    weights = block_native.dequantize(data, form.matrix(stop - start), form.type, byte_order=form.byte_order)
    return trits, weights.reshape(-1)
