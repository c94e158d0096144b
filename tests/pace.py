"""Processor time in a unit that is measured at the same moment: no test compares seconds, and none assumes a processor.

A unit is the processor time of a fixed piece of work, done just before and just after. On a slower or shared processor
the unit is longer too. On a fast machine of 2024 a unit is about 8 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any


def unit() -> float:
    """Processor time of a fixed piece of work: objects are made, hashed and sorted."""
    start = process_time()
    sorted(hash((i, str(i))) for i in range(25_000))
    return process_time() - start


def units(call: Callable[[], Any]) -> float:
    """How many units of processor time a call takes, children apart; the slower of the units around it counts."""
    before, start = unit(), process_time()
    call()
    used = process_time() - start
    return used / max(before, unit(), 1e-3)
