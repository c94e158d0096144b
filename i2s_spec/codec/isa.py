"""This module chooses the kernels: the best set that the processor can run, or the one that I2S_ISA names.

>>> kernel_sets()[0]
KernelSet(row=0, name='portable', available=True)
"""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

from i2s_spec.codec import _codec
from i2s_spec.errors import SettingError, quote

#: Environment variable that forces a set, for tests and for measuring.
VARIABLE = "I2S_ISA"

#: Sets that only some tables of kernels have, and what the others use in their place.
BENEATH = {"avxvnni": "avx2", "avx512vl": "avx512", "dotprod": "neon"}


class KernelSet(NamedTuple):
    """A compiled set of kernels: its row in the kernel table, its name, whether this processor can run it."""

    row: int
    name: str
    available: bool


@cache
def kernel_sets() -> tuple[KernelSet, ...]:
    """Every set that was compiled, the slowest first; `portable` is always there and can always run."""
    return tuple(KernelSet(row, name, available) for row, (name, available) in enumerate(_codec.kernel_sets()))


def chosen(sets: tuple[KernelSet, ...] | None = None) -> KernelSet:
    """The set in use: what I2S_ISA names, else the fastest that this processor can run.

    :param sets: of another table than the codec's, the slowest first
    :raises SettingError: where I2S_ISA names a set that was not compiled, or that this processor cannot run
    """
    sets = kernel_sets() if sets is None else sets
    name = os.environ.get(VARIABLE)
    if not name:
        return next(each for each in reversed(sets) if each.available)
    for wanted in (name, BENEATH.get(name)):
        for each in sets:
            if each.name == wanted:
                if not each.available:
                    raise SettingError(f"{VARIABLE} is {name}, which this processor cannot run")
                return each
    raise SettingError(f"{VARIABLE} is {quote(name)}; there are {', '.join(each.name for each in sets)}")
