"""This module brings a candidate's values into the shape of the record's: axes, rows, padding (clause 10.4).

Runtimes lay the same numbers out in different ways: with ggml's order of dimensions, heads first, all in one row, with
columns that are only there to fill a block, or with the rows of the last tokens only. What was done is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.errors import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Columns that a runtime may add to scores to fill a block.
MOST_PADDING: Final = 256


class Shaped(NamedTuple):
    """A value in the shape of the record.

    :param value: rows that are not known are NaN, or 0 where the value holds integers
    :param rows: how many of the last rows are known; None for all
    :param how: what was done to it, for people; empty where nothing was
    """

    value: NDArray[Any]
    rows: int | None = None
    how: str = ""


def could_fit(shape: tuple[int, ...], want: tuple[int, ...]) -> bool:
    """Whether a value of one shape can be brought into another: decided before its bytes are read."""
    size, wanted = prod(shape), prod(want)
    if size == wanted:
        return True
    if not wanted or not size:
        return False
    width = wanted // want[0] if want else 1
    if (
        size < wanted
        and len(want) > 1
        and (prod(_plain(shape)[1:]) == width or (size % width == 0 and len(_plain(shape)) < 2))
    ):
        return True
    return _padding(_plain(shape), want) is not None


def readings(value: NDArray[Any], want: tuple[int, ...]) -> Iterator[Shaped]:
    """Every way to read a value as one of the wanted shape, the likeliest first."""
    shape = _plain(value.shape)
    plain = _plain(want)
    value = value.reshape(shape)
    if shape == plain:
        yield Shaped(value.reshape(want))
        return
    if value.size == prod(want):
        if len(shape) > 1 and shape == plain[::-1]:
            yield Shaped(value.T.reshape(want), how="transposed")
            yield Shaped(value.reshape(want), how="dimensions in ggml's order")
        elif len(shape) == 3 and shape[1] == want[0] and shape[0] != want[0]:
            yield Shaped(value.transpose(1, 0, 2).reshape(want), how="heads first")
        elif len(plain) == 2 and shape == plain[::-1]:
            yield Shaped(value.T.reshape(want), how="transposed")
        else:
            if len(shape) == 3 and len(want) == 2 and (shape[2] * shape[1], shape[0]) != want and shape[-1] == want[0]:
                yield Shaped(value.reshape(-1, want[0]).T.reshape(want), how="transposed")
            yield Shaped(value.reshape(want), how="" if len(shape) != 1 or len(plain) == 1 else "flat")
        return
    width = prod(want) // want[0] if want and want[0] else 0
    if len(want) > 1 and width and value.size < prod(want) and value.size % width == 0 and could_fit(shape, want):
        rows = value.size // width
        last = np.zeros(want, dtype=value.dtype) if value.dtype.kind in "iu" else np.full(want, np.nan, value.dtype)
        last[want[0] - rows :] = value.reshape(rows, *want[1:])
        yield Shaped(last, rows, f"the last {counted(rows, 'row')} only" if rows > 1 else "the last row only")
        return
    order = _padding(shape, want)
    if order is not None:
        turned = value.transpose(order)
        yield Shaped(np.ascontiguousarray(turned[..., : want[-1]]), how="padded columns cut")


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without dimensions of one."""
    return tuple(side for side in shape if side != 1)


def _padding(shape: tuple[int, ...], want: tuple[int, ...]) -> tuple[int, ...] | None:
    """The order of axes in which a value has the wanted shape and some columns more; None if there is no such order."""
    if len(want) != 3 or len(shape) != 3:
        return None
    for order in ((0, 1, 2), (2, 1, 0)):
        turned = tuple(shape[axis] for axis in order)
        if turned[:2] == want[:2] and want[2] < turned[2] <= max(want[2] + MOST_PADDING, 2 * want[2]):
            return order
    return None
