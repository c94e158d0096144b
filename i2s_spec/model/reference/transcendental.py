"""Exp, cosine and sine, and the activations based on them, in float64, with equal results on every machine.

The results of a C library or NumPy for these functions differ in the last bit between processors. Here they are
polynomials of additions, multiplications and divisions, which IEEE 754 rounds the same everywhere; NumPy runs each as a
separate operation, so nothing is fused. The error is below 1 ulp of float64, and 2^-52 for cosine and sine. Rounded
once to float32, results are correctly rounded except for about one in 10^8, where the float64 is that close to a tie.

    >>> exp(np.array([1.0, -800.0])).astype(np.float32).tolist()
    [2.7182817459106445, 0.0]
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache
from math import factorial
from typing import TYPE_CHECKING, Final

import numpy as np

from i2s_spec.errors import SettingError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Doubles = NDArray[np.float64]

#: Digits of the constants, far more than float64 can hold.
_PI: Final = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
_LN2: Final = Decimal("0.693147180559945309417232121458176568075500134360255254120680009")


def _parts(value: Decimal, bits: int) -> tuple[float, float, float]:
    """Return a constant as a sum of three floats of which the first two have so few bits that small multiples are
    exact.
    """
    with localcontext() as context:
        context.prec = 70
        parts = []
        for _ in range(2):
            exponent = np.frexp(float(value))[1]
            unit = Decimal(2) ** (int(exponent) - bits)
            part = (value / unit).to_integral_value() * unit
            parts.append(float(part))
            value -= part
        return parts[0], parts[1], float(value)


_LN2_PARTS: Final = _parts(_LN2, 32)
_QUARTER: Final = _parts(_PI / 2, 32)
_PER_LN2: Final = float(1 / _LN2)
_PER_QUARTER: Final = float(2 / _PI)

_EXP: Final = [1 / factorial(n) for n in range(14)]
_SIN: Final = [(-1) ** n / factorial(2 * n + 1) for n in range(9)]
_COS: Final = [(-1) ** n / factorial(2 * n) for n in range(10)]

#: Largest angle for which reduction by multiples of pi/2 is exact enough: positions beyond a million are refused.
LARGEST_ANGLE: Final = float(1 << 20)


def _polynomial(coefficients: list[float], x: Doubles) -> Doubles:
    """Evaluate a polynomial by Horner's rule, highest power first, two roundings a step."""
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total *= x
        total += coefficient
    return total


def exp(x: Doubles) -> Doubles:
    """e to the power of x: 2^n times a polynomial of degree 13 in x - n ln 2.

    :param x: float64; NaN gives NaN
    """
    with np.errstate(all="ignore"):
        x = np.clip(x, -800.0, 800.0)  # beyond these, the results are 0 and infinity
        n = np.rint(np.where(np.isnan(x), 0.0, x) * _PER_LN2)
        high, middle, low = _LN2_PARTS
        wide = x - n * high  # exact
        r = wide - n * middle
        rest = ((wide - r) - n * middle) - n * low
        whole = 1.0 + r
        lost = (r - (whole - 1.0)) + rest
        # 1 + r + r^2 (1/2 + r (...)), so that nearly all rounding is in the last addition
        result: Doubles = np.ldexp(whole + (lost + r * r * _polynomial(_EXP[2:], r)), n.astype(np.int32))
        return result


def cos_sin(angle: Doubles) -> tuple[Doubles, Doubles]:
    """Return cosine and sine: polynomials of degree 18 and 17 in the angle less a multiple of pi/2.

    :param angle: float64, radians
    :raises SettingError: for angles beyond `LARGEST_ANGLE`
    """
    if angle.size and not np.abs(angle).max() <= LARGEST_ANGLE:
        raise SettingError(f"an angle is beyond {LARGEST_ANGLE:,.0f} radians; no model has such positions")
    n = np.rint(angle * _PER_QUARTER)
    high, middle, low = _QUARTER
    r = ((angle - n * high) - n * middle) - n * low
    square = r * r
    cosine, sine = _polynomial(_COS, square), r * _polynomial(_SIN, square)
    quadrant = n.astype(np.int64) & 3
    swap = (quadrant & 1).astype(bool)
    c, s = np.where(swap, sine, cosine), np.where(swap, cosine, sine)
    c = np.where((quadrant == 1) | (quadrant == 2), -c, c)
    return c, np.where(quadrant >= 2, -s, s)


@lru_cache(maxsize=64)  # every layer of a model needs the same values, and each takes many multiplications of 50 digits
def power(base: float, exponents: tuple[tuple[int, int], ...]) -> Doubles:
    """Raise a base to each exponent, numerator / denominator, with 50 digits, and round correctly to float64.

    :returns: a read-only array, because it is shared
    """
    with localcontext() as context:
        context.prec = 50
        b = Decimal(base)
        made = np.array([float(b ** (Decimal(n) / Decimal(d))) for n, d in exponents])
    made.flags.writeable = False
    return made


def silu(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """x / (1 + exp(-x)) in float64, rounded once."""
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        return (wide / (1.0 + exp(-wide))).astype(np.float32)


def sigmoid(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 / (1 + exp(-x)) in float64, rounded once."""
    with np.errstate(all="ignore"):
        result: NDArray[np.float32] = (1.0 / (1.0 + exp(-x.astype(np.float64)))).astype(np.float32)
        return result


#: The series of 2 artanh(z), for |z| up to 1/3.
_ARTANH: Final = [2 / (2 * n + 1) for n in range(18)]


def softplus(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """log(1 + exp(x)) in float64, rounded once; the larger of x and 0, plus 2 artanh(z) with z = u / (2 + u) and u =
    exp(-|x|)."""
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        u = exp(-np.abs(wide))
        z = u / (2.0 + u)
        result: NDArray[np.float32] = (np.maximum(wide, 0.0) + z * _polynomial(_ARTANH, z * z)).astype(np.float32)
        return result


#: sqrt(2 / pi) and the cubic coefficient of the tanh form of GELU.
_GELU: Final = float((2 / _PI).sqrt())
_CUBIC: Final = 0.044715


def gelu(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) in float64, rounded once; computed as x / (1 + exp(-2 ...))."""
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        inner = _GELU * (wide + _CUBIC * (wide * wide * wide))
        result: NDArray[np.float32] = (wide / (1.0 + exp(-2.0 * inner))).astype(np.float32)
        return np.where(np.isneginf(x), np.float32(-0.0), result)
