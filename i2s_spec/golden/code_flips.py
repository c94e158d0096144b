"""Explain integer sums: from a plain float dump, which codes must have flipped, and whether that is all (10.4).

The output of a projection stands for a sum: y s / w, y being the output, s the activation scale that the input gives
and w the weight scale, is an integer but for the rounding of y. Where it is another integer than the input's codes
give, codes differ; two correct quantizers may differ where the product of an activation and its scale lies on a
rounding boundary, and only there, by one step. Which of those codes flipped is solved for; where no choice of them
gives the sums, they are wrong.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.golden.recording import is_ambiguous
from i2s_spec.schema.dialect import CANONICAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.weights import Ternary

#: How far y s / w may be from an integer to be one: this, or this share of it.
WHOLE: Final = 0.01
WHOLE_RTOL: Final = 2.0**-21

#: Ambiguous codes of a token that are solved for; with fewer rows than codes, those of which all choices are tried.
MOST_AMBIGUOUS: Final = 512
MOST_TRIED: Final = 10


class Flips(NamedTuple):
    """What became of codes.

    :param explained: codes that flipped at a rounding boundary
    :param unexplained: sums (or codes) that no such flip explains
    :param ambiguous: codes that lie at a boundary
    :param fractional: outputs that stand for no integer: activations were quantized in another way, or not at all
    :param first: index of the first unexplained one, and what it is and should be
    """

    explained: int
    unexplained: int
    ambiguous: int
    fractional: int = 0
    first: tuple[int, ...] | None = None
    got: int | None = None
    want: int | None = None


class Outputs(NamedTuple):
    """A projection: its outputs, and what its input gives.

    :param y: float32 [T, N], the candidate's
    :param x: float32 [T, K], its input; `scale` float32 [T], `codes` int8 [T, K] and `acc` int32 [T, N] are made of it
    """

    y: NDArray[np.float32]
    x: NDArray[np.float32]
    scale: NDArray[np.float32]
    codes: NDArray[np.int8]
    acc: NDArray[np.int32]
    matrix: Ternary


def explain(out: Outputs, off: NDArray[np.bool_], rtol: float) -> tuple[Flips, NDArray[np.float64] | None]:
    """Explain outputs that are off by flipped codes.

    :param off: which outputs are too far off
    :param rtol: how far off the input may be, as a share of it
    :returns: what became of codes; and the sums of tokens whose flips are explained, other rows 0, or None without any
    """
    tokens = np.flatnonzero(off.any(axis=1))
    known = np.zeros(out.acc.shape, dtype=np.float64)
    explained = fractional = ambiguous = 0
    wrong: list[tuple[int, int, float]] = []
    unexplained = 0
    for token in tokens:
        with np.errstate(all="ignore"):
            exact = out.y[token].astype(np.float64) * np.float64(out.scale[token]) / np.float64(out.matrix.scale)
            nearest = np.rint(exact)
            room = np.maximum(WHOLE, (WHOLE_RTOL + 2 * rtol) * np.abs(nearest))
            broken = ~(np.abs(exact - nearest) <= room)
        delta = nearest - out.acc[token]
        if broken.any():
            fractional += int(broken.sum())
        near = _near(out.x[token], out.scale[token], rtol)
        ambiguous += len(near)
        count = 0 if broken.any() else _flipped(out, int(token), near, delta)
        if count:
            explained += count
            known[token] = nearest
        else:
            bad = ~(delta == 0) | broken
            unexplained += int(bad.sum())
            if bad.any() and not wrong:
                at = int(bad.argmax())
                wrong.append((int(token), at, float(nearest[at])))
    if not wrong:
        return Flips(explained, unexplained, ambiguous, fractional), known if explained else None
    place, value = wrong[0][:2], wrong[0][2]
    got = int(value) if np.isfinite(value) and abs(value) < 2**62 else None
    flips = Flips(explained, unexplained, ambiguous, fractional, place, got, int(out.acc[place]))
    return flips, known if explained else None


def explain_codes(
    got: NDArray[Any], want: NDArray[np.int8], x: NDArray[np.float32], scale: NDArray[np.float32], rtol: float
) -> tuple[Flips, NDArray[np.int8]]:
    """Explain codes that differ; return the wanted codes with those flips in them, too."""
    near = np.zeros(want.shape, dtype=np.bool_)
    if scale.ndim == 1:  # with groups, codes are exact or wrong
        with np.errstate(all="ignore"):
            products = x.astype(np.float64) * scale.astype(np.float64)[:, None]
            near = is_ambiguous(products, rtol)
    differ = got != want
    fine = differ & near & (np.abs(got.astype(np.int64) - want) <= 1)
    bad = differ & ~fine
    patched = np.where(fine, got, want).astype(want.dtype)
    first = tuple(int(i) for i in np.argwhere(bad)[0]) if bad.any() else None
    pair = (None, None) if first is None else (int(got[first]), int(want[first]))
    return Flips(int(fine.sum()), int(bad.sum()), int(near.sum()), 0, first, *pair), patched


def _near(x: NDArray[np.float32], scale: np.float32, rtol: float) -> NDArray[np.int64]:
    with np.errstate(all="ignore"):
        products = x.astype(np.float64) * np.float64(scale)
        return np.flatnonzero(is_ambiguous(products, rtol))


def _flipped(out: Outputs, token: int, near: NDArray[np.int64], delta: NDArray[np.float64]) -> int:
    """How many of the ambiguous codes, each a step off, explain the differences of one token's sums; 0 where none do."""
    if not 0 < len(near) <= MOST_AMBIGUOUS or not np.isfinite(delta).all():
        return 0
    products = out.x[token, near].astype(np.float64) * np.float64(out.scale[token])
    steps = np.where(products > out.codes[token, near], 1.0, -1.0)  # to the other side of the boundary
    columns = _columns(out.matrix, near).astype(np.float64) * steps
    if len(near) <= MOST_TRIED:
        choices = sorted(product((0.0, 1.0), repeat=len(near)), key=sum)
        return next((int(sum(each)) for each in choices if np.array_equal(columns @ np.array(each), delta)), 0)
    rows = min(len(columns), 8 * len(near) + 64)
    solved = np.rint(np.linalg.lstsq(columns[:rows], delta[:rows], rcond=None)[0])
    if not ((solved == 0) | (solved == 1)).all() or not np.array_equal(columns @ solved, delta):
        return 0
    return int(solved.sum())


def _columns(matrix: Ternary, columns: NDArray[np.int64]) -> NDArray[np.int8]:
    """Return some columns of a ternary matrix, int8 [rows, columns]."""
    k = np.arange(matrix.rows)[:, None] * matrix.columns + columns[None, :]
    layout = CANONICAL.layout
    byte, shift = layout.byte_of(k, matrix.rows, matrix.columns), layout.shift_of(k, matrix.rows, matrix.columns)
    trits: NDArray[np.int8] = (matrix.payload[byte] >> shift.astype(np.uint8) & 3).astype(np.int8) - np.int8(1)
    return trits
