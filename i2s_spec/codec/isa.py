"""The choice of kernels: the best set that the processor can run, or the one that I2S_ISA names.

There are several tables of kernels (the codec, float words, the survey, products, sums, profile `fast`), and each
chooses by what its own sets ask of the processor. Where I2S_ISA names a set that a table lacks, or cannot run, it takes
the next one below.

    >>> kernel_sets()[0]
    KernelSet(row=0, name='portable', available=True)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

from i2s_spec.codec import _cpu
from i2s_spec.errors import SettingError, quote

#: Environment variable that forces a set, for tests and for measuring.
VARIABLE = "I2S_ISA"
#: Environment variable that hides features of the processor, for tests; `cpu.h` reads it.
HIDE = "I2S_HIDE"


class KernelSet(NamedTuple):
    """A compiled set of kernels: its row in the kernel table, its name, whether this processor can run it."""

    row: int
    name: str
    available: bool


def table(rows: Iterable[tuple[str, bool]]) -> tuple[KernelSet, ...]:
    """Return the sets of a table of kernels, from their names and whether this processor can run each; the slowest
    first.
    """
    return tuple(KernelSet(row, name, available) for row, (name, available) in enumerate(rows))


@cache
def kernel_sets() -> tuple[KernelSet, ...]:
    """Every set of the codec that was compiled, the slowest first; `portable` is always there and can always run."""
    from i2s_spec.codec import _codec  # what only reads headers, or surveys, does without it

    return table(_codec.kernel_sets())


@cache
def names() -> tuple[tuple[str, bool], ...]:
    """Every name that sets have in any table, the slowest first, and whether this processor can run one of that name."""
    return tuple(_cpu.kernel_names())


def check() -> None:
    """Check the settings before anything is computed with them.

    :raises SettingError: where I2S_ISA names a set that was not compiled, or that this processor can run in no table; where
        I2S_HIDE names an unknown feature
    """
    known = _cpu.features()
    for feature in filter(None, os.environ.get(HIDE, "").split(",")):
        if feature not in known:
            raise SettingError(f"{HIDE} has {quote(feature)}; there are {', '.join(known)}")
    name = _cpu.asked()
    if name:
        _beneath(name, names())


def chosen(sets: tuple[KernelSet, ...] | None = None) -> KernelSet:
    """Return the set in use: what I2S_ISA names or the next one below it, else the fastest; one that this processor
    can run.

    :param sets: of another table than the codec's, the slowest first
    :raises SettingError: where I2S_ISA names a set that was not compiled, or that this processor can run in no table
    """
    return _chosen(kernel_sets() if sets is None else sets, _cpu.asked())


def row_of(sets: Callable[[], tuple[KernelSet, ...]]) -> int:
    """Return the row of the set in use, of the table that a function gives: `chosen` for who asks often.

    :raises SettingError: as `chosen` does
    """
    return _row_of(sets, _cpu.asked())


@cache
def _row_of(sets: Callable[[], tuple[KernelSet, ...]], name: str) -> int:
    return _chosen(sets(), name).row


@cache
def _chosen(sets: tuple[KernelSet, ...], name: str) -> KernelSet:
    if not name:
        return next(each for each in reversed(sets) if each.available)
    allowed = _beneath(name, names())
    return next(each for each in reversed(sets) if each.available and each.name in allowed)


def _beneath(name: str, all_names: tuple[tuple[str, bool], ...]) -> list[str]:
    """Return the names up to this one."""
    known = [each for each, _ in all_names]
    if name not in known:
        raise SettingError(f"{VARIABLE} is {quote(name)}; there are {', '.join(known)}")
    if not dict(all_names)[name]:
        raise SettingError(f"{VARIABLE} is {name}, which this processor cannot run")
    return known[: known.index(name) + 1]
