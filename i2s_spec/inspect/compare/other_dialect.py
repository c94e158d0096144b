"""This module finds out whether two files hold the same weights once one of them is read in another dialect.

No file states how its I2_S tensors are packed. Where trits differ, the first such tensor is read in every dialect; if one of
them explains it, the files are compared once more in that dialect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from i2s_spec.errors import FormatError
from i2s_spec.inspect.compare.diff import CHANGED, Difference, difference
from i2s_spec.inspect.identify.reference import matched, rows_compared
from i2s_spec.schema.dialect import Dialect, parse
from i2s_spec.schema.types import I2_S

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File, Tensor


class OtherDialect(NamedTuple):
    """The file (`a` or `b`) that holds the weights of the other one in a dialect, and how many tensors differ even so."""

    side: str
    dialect: str
    left: int


def other_dialect(
    a: File,
    b: File,
    found: Difference,
    dialect_a: str | Dialect = "canonical",
    dialect_b: str | Dialect = "canonical",
    threads: int = 1,
) -> OtherDialect | None:
    """What one of two files must be packed as for fewer of its trits to differ; None where no dialect explains it.

    :param found: their difference, read in `dialect_a` and `dialect_b`
    :param threads: how many threads decode
    :raises FormatError: where a file changes meanwhile
    """
    read = {"a": (a, parse(dialect_a)), "b": (b, parse(dialect_b))}
    differ = sum(change.trits is not None for change in found.tensors)
    for change in found.tensors:
        name = change.name.decode("utf-8", "surrogateescape")
        ours, theirs = a.tensors[name], b.tensors[name]
        if change.trits is None or change.trits[0] <= CHANGED * ours.elements:
            continue
        for side, odd, right in (("b", theirs, ours), ("a", ours, theirs)):
            file, packed = read[side]
            other, known = read["a" if side == "b" else "b"]
            trits = _trits(other, right, known) if odd.type is I2_S else None
            if trits is None:
                continue
            match = matched(file, odd, trits[: rows_compared(odd)], None)
            best = match.decided
            if best is None or (best.dialect.layout, best.dialect.code_map) == (packed.layout, packed.code_map):
                continue
            wanted = Dialect(best.dialect.layout, best.dialect.code_map, packed.tail)
            dialects = {"a": dialect_a, "b": dialect_b, side: wanted}
            again = difference(a, b, dialects["a"], dialects["b"], threads)
            left = sum(change.trits is not None for change in again.tensors)
            return OtherDialect(side, str(wanted), left) if left < differ else None
        return None  # the first tensor of which most differs decides
    return None


def _trits(file: File, tensor: Tensor, dialect: Dialect) -> NDArray[np.int8] | None:
    """The trits of a tensor as rows; None where it holds none."""
    try:
        trits = tensor.trits(dialect) if tensor.type is I2_S else None
    except (FormatError, ValueError):
        file.require_unchanged()
        return None
    return None if trits is None else trits.reshape(-1, tensor.shape[-1])
