"""This module minimizes an input: it removes records, then ranges, then single bytes."""

from __future__ import annotations

import time
from collections.abc import Callable

from i2s_spec.fuzzing.minimize import minimised


def smallest(data: bytes, happens: Callable[[bytes], bool], runs: int = 3000, seconds: float = 60.0) -> bytes:
    """A small input on which the same happens; the same one each time, if the time suffices.

    The method of `i2s fuzz` comes first: it knows records, but it stops at ranges of four bytes, since a run of another
    decoder takes long. A harness is fast, so every byte is tried.

    :param happens: whether the same happens on an input; not called on `data`
    :param runs: maximum number of inputs to try
    :param seconds: time limit
    """
    until = time.monotonic() + seconds
    tried: dict[bytes, bool] = {data: True}

    def also(other: bytes) -> bool:
        if other not in tried:
            if len(tried) > runs or time.monotonic() >= until:
                return False
            tried[other] = happens(other)
        return tried[other]

    best = minimised(data, also, runs=runs, seconds=seconds)
    before = None
    while best != before:
        before = best
        best = _plain(_fewer(best, also), also)
    return best


def _fewer(data: bytes, happens: Callable[[bytes], bool]) -> bytes:
    """Remove ranges, from half of the input down to one byte, from the end."""
    step = max(1, len(data) // 2)
    while step:
        at = len(data) - step
        while at > -step and data:
            start = max(0, at)
            shorter = data[:start] + data[at + step :]
            if happens(shorter):
                data = shorter
            at -= step
        step //= 2
    return data


def _plain(data: bytes, happens: Callable[[bytes], bool]) -> bytes:
    """Set bytes that do not matter to zero."""
    for at, byte in enumerate(data):
        if byte and happens(plain := data[:at] + b"\0" + data[at + 1 :]):
            data = plain
    return data
