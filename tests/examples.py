"""The number of cases in quick and in thorough runs.

In the profile `thorough` Hypothesis tries as many examples as a test states, in `quick` a seventh of them. From a long
list of similar values a quick run takes a share: `share` for `parametrize`, `some` for a loop in a test. From
combinations of two lists, `pairs` takes as many as contain each value once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")

#: Whether thorough tests were requested; `conftest` sets this. Otherwise `share` does not even create them.
THOROUGH = True

#: A profile with this number of examples runs as many as `examples` states.
WHOLE = 100

settings.register_profile("quick", max_examples=WHOLE // 7, deadline=None)
settings.register_profile("thorough", max_examples=WHOLE, deadline=None)


def examples(count: int) -> settings:
    """Settings with this many examples, or the share of them that the profile in use has."""
    return settings(max_examples=max(1, count * settings().max_examples // WHOLE), deadline=None)


def some(values: Iterable[T], every: int = 6) -> list[T]:
    """Values for a loop in a test: one in so many in a quick run, all of them where thorough tests are asked for."""
    return list(values)[:: 1 if THOROUGH else every]


def share(values: Iterable[Any], every: int = 6) -> list[Any]:
    """Values for `parametrize`: one in so many is tried in every run, all of them in the thorough tier.

    A tuple has a value for each name; a value that is itself a tuple stands in another one.
    """
    thorough = pytest.mark.thorough
    return [
        pytest.param(*(each if type(each) is tuple else (each,)), marks=thorough if i % every else ())
        for i, each in enumerate(values)
        if THOROUGH or i % every == 0
    ]


def pairs(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """Combinations for `parametrize` with two names: every run tries each value at least once, the thorough tier all."""
    firsts, seconds = list(first), list(second)
    every_run = {(i % len(firsts), i % len(seconds)) for i in range(max(len(firsts), len(seconds)))}
    return [
        pytest.param(one, other, marks=() if (i, j) in every_run else pytest.mark.thorough)
        for i, one in enumerate(firsts)
        for j, other in enumerate(seconds)
        if THOROUGH or (i, j) in every_run
    ]
