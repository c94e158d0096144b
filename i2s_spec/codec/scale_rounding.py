"""The scale that a type stores for a given one, how far it is rounded, and the error of a proof that fails.

>>> rounding(1.2188547849655151, "TQ2_0")
Rounding(scale=1.2188547849655151, stored=1.21875)
>>> print(_)
scale 1.21885478 -> 1.21875 (-8.6e-05)
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from i2s_spec.codec.ternary_types import BLOCK_TYPES, half_scale, stored_scale
from i2s_spec.errors import counted


class ProofError(RuntimeError):
    """The written data differ from the data that were read: a bug in this package."""


class Rounding(NamedTuple):
    """A scale, and the scale that a type stores; of several scales the one that changed most."""

    scale: float
    stored: float
    scales: int = 1

    @property
    def relative(self) -> float:
        """The relative change."""
        return 0.0 if self.stored == self.scale or self.scale != self.scale else (self.stored - self.scale) / self.scale

    def __str__(self) -> str:
        if self.scales > 1:
            most = (
                f", most changed {self.scale:.9g} -> {self.stored:.9g} ({self.relative:+.1e})" if self.relative else ""
            )
            return f"{counted(self.scales, 'scale')} {'rounded' if most else 'kept'}{most}"
        if not self.relative:
            return f"scale {self.scale:.9g} kept"
        return f"scale {self.scale:.9g} -> {self.stored:.9g} ({self.relative:+.1e})"


def worst_of(*roundings: Rounding) -> Rounding:
    """The rounding with the largest relative change, the first of equals, with the number of all scales."""
    worst = max(roundings, key=lambda each: abs(each.relative))
    return worst._replace(scales=sum(each.scales for each in roundings))


#: The rounding if there are no scales.
NO_SCALES: Final = Rounding(0.0, 0.0, 0)


def rounding(scale: float | np.float32, type: str) -> Rounding:
    """The scale that a type stores.

    :param type: a type that can store trits
    :raises ValueError: for a scale that it cannot hold
    """
    value = np.float32(scale)
    if type in {"I2_S", "F32"}:
        if type == "F32" and not np.isfinite(value):
            raise ValueError(f"weights cannot be computed from a scale that is {value}")
        return Rounding(float(value), float(value))
    if type == "BF16":
        stored = _bfloat16(value)
        if not np.isfinite(stored) or (stored == 0 and value != 0):
            raise ValueError(f"the scale {value:.9g} has no bfloat16: it would become {stored}")
        return Rounding(float(value), float(stored))
    return Rounding(float(value), float(stored_scale(value, type) if type in BLOCK_TYPES else half_scale(value)))


def _bfloat16(value: np.float32) -> np.float32:
    """A float32 rounded to bfloat16, to nearest, ties to even."""
    bits = int(np.array([value]).view(np.uint32)[0])
    if bits & 0x7FFFFFFF > 0x7F800000:  # a NaN keeps its sign and stays a NaN
        return value
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return np.float32(np.array([rounded], dtype=np.uint32).view(np.float32)[0])
