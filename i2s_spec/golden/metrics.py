"""How far a value is from another one, element by element and as a whole (clause 10.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]


class Measures(NamedTuple):
    """How far a value is off.

    :param relative: L2 norm of the difference over that of the wanted value, of the finite elements; infinite, and `largest`
        too, where an element is NaN or infinite and should not be
    :param cosine: of the angle between the two
    :param largest: magnitude of the largest difference, and `at`: its index
    :param ulp: most float32 numbers between a value and the wanted one
    :param over: share of elements that are further off than their limit; NaN counts
    :param not_finite: elements that are NaN or infinite and should not be
    :param elements: how many were compared
    """

    relative: float
    cosine: float
    largest: float
    at: tuple[int, ...]
    got: float
    want: float
    ulp: int
    over: float
    not_finite: int
    elements: int


def measure(got: NDArray[Any], want: NDArray[Any], limit: NDArray[np.float64] | float = 0.0) -> Measures:
    """Measure a value against the wanted one, of the same shape."""
    if not got.size:
        return Measures(0.0, 1.0, 0.0, (), 0.0, 0.0, 0, 0.0, 0, 0)
    if np.array_equal(got, want):  # most values of a correct runtime
        start = (0,) * got.ndim
        return Measures(0.0, 1.0, 0.0, start, float(got[start]), float(want[start]), 0, 0.0, 0, got.size)
    a, b = got.astype(np.float64), want.astype(np.float64)
    over = beyond(got, want, limit)
    both = np.isfinite(a) & np.isfinite(b)
    strange = int((~np.isfinite(a) & (a != b)).sum())
    with np.errstate(all="ignore"):
        difference = np.where(both, np.abs(a - b), 0.0)
    at = tuple(int(i) for i in np.unravel_index(int(difference.argmax()), a.shape))
    if not difference[at] and over.any():
        at = tuple(int(i) for i in np.argwhere(over)[0])
    if strange:  # the rest may be right, but the value is not so far off: it is not a number
        place = ~np.isfinite(a) & (a != b)
        at = tuple(int(i) for i in np.argwhere(place)[0])
        return Measures(
            np.inf,
            0.0,
            np.inf,
            at,
            float(a[at]),
            float(b[at]),
            distance(got, want),
            float(over.mean()),
            strange,
            a.size,
        )
    x, y = a[both], b[both]
    norms = length(x), length(y)
    relative = length(x - y) / norms[1] if norms[1] else (0.0 if not norms[0] else np.inf)
    cosine = (
        float(np.sum(x * y)) / (norms[0] * norms[1])
        if norms[0] and norms[1]
        else (1.0 if norms[0] == norms[1] else 0.0)
    )
    return Measures(
        relative, cosine, float(difference.max()), at, float(a[at]), float(b[at]), distance(got, want),
        float(over.mean()), strange, a.size,
    )  # fmt: skip


def length(x: NDArray[np.float64]) -> float:
    """Return the L2 norm of a vector: by a sum of NumPy's, since BLAS starts threads for each, which wait for busy
    processors.
    """
    return float(np.sqrt(np.sum(np.square(x))))


def beyond(got: NDArray[Any], want: NDArray[Any], limit: NDArray[np.float64] | float) -> Mask:
    """Return which elements are further off than their limit; NaN always is, and an infinity unless the same is wanted."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        within = np.abs(a - b) <= limit
    found: Mask = ~(within | (a == b))
    return found


def distance(got: NDArray[Any], want: NDArray[Any]) -> int:
    """Return the most numbers of float32 between an element and the wanted one; 2^32 - 1 at most."""
    if not got.size:
        return 0
    steps = []
    for value in (got, want):
        bits = np.ascontiguousarray(value, dtype=np.float32).view(np.int32).astype(np.int64)
        steps.append(np.where(bits < 0, -(bits & 0x7FFFFFFF), bits))
    finite = np.isfinite(got) & np.isfinite(want)
    return int(np.abs(steps[0] - steps[1])[finite].max()) if finite.any() else 0


def relative(got: NDArray[Any], want: NDArray[Any]) -> float:
    """Return the L2 norm of the difference over that of the wanted value; infinite where one is not finite and the
    other is."""
    if np.array_equal(got, want):
        return 0.0
    a, b = got.astype(np.float64).ravel(), want.astype(np.float64).ravel()
    strange = np.isfinite(a) != np.isfinite(b)
    if strange.any():
        return float("inf")
    finite = np.isfinite(a) & np.isfinite(b)
    size, far = length(b[finite]), length(a[finite] - b[finite])
    return far / size if size else (0.0 if not far else float("inf"))


def is_bfloat16(value: NDArray[Any]) -> bool:
    """Whether every element of a value is a bfloat16 (its lower 16 bits are 0) or an F16."""
    if value.dtype != np.float32 or value.size < 16:
        return False
    bits = np.ascontiguousarray(value).view(np.uint32)
    return is_float16(value) or (not (bits & 0xFFFF).any() and len(np.unique(bits)) > 8)


def is_float16(value: NDArray[Any]) -> bool:
    """Whether every element of a value is an F16, by chance 2^-13 each."""
    if value.dtype != np.float32 or value.size < 16:
        return False
    with np.errstate(over="ignore"):
        return bool(np.array_equal(value, value.astype(np.float16), equal_nan=True) and len(np.unique(value)) > 8)


def logit_measures(got: NDArray[np.float32], want: NDArray[np.float32]) -> tuple[float, float]:
    """Return, of logits [T, vocab], the share of rows with the same largest one, and the mean KL divergence from the wanted.

    Rows that are the same in both, not finite ones too, diverge by nothing.
    """
    with np.errstate(all="ignore"):
        p, q = _log_soft_max(want), _log_soft_max(got)
        divergence = np.maximum((np.exp(p) * (p - q)).sum(axis=-1), 0.0)  # which is 0 or more but for rounding
    alike = np.array([np.array_equal(a, b, equal_nan=True) for a, b in zip(got, want, strict=True)])
    divergence = np.where(alike, 0.0, divergence)
    same = float((got.argmax(axis=-1) == want.argmax(axis=-1)).mean())
    mean = float(divergence.mean())
    return same, mean if np.isfinite(mean) else float("inf")


def _log_soft_max(logits: NDArray[Any]) -> NDArray[np.float64]:
    wide = logits.astype(np.float64)
    wide = wide - wide.max(axis=-1, keepdims=True)
    found: NDArray[np.float64] = wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))
    return found
