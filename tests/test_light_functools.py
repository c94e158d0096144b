"""`light_functools` gives what `functools` gives, to the modules that start without it."""

from __future__ import annotations

import functools
import inspect
import pickle
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec import light_functools


@pytest.mark.parametrize("kind", [functools, light_functools])
def test_a_property_is_computed_once(kind: Any) -> None:
    class Thing:
        calls = 0

        @kind.cached_property
        def value(self) -> int:
            """A number."""
            self.calls += 1
            return self.calls

    thing = Thing()
    assert (thing.value, thing.value, thing.calls, vars(thing)["value"]) == (1, 1, 1, 1)
    del thing.value
    assert thing.value == 2
    assert (Thing.value.__doc__, Thing.value.attrname) == ("A number.", "value")


def add(one: int, other: int = 1) -> int:
    """The sum."""
    return one + other


@pytest.mark.parametrize("kind", [functools, light_functools])
def test_a_function_looks_like_the_one_that_it_wraps(kind: Any) -> None:
    @kind.wraps(add)
    def call(*args: int) -> int:
        return add(*args)

    assert (call(1, 2), call.__name__, call.__doc__, call.__module__) == (3, "add", "The sum.", __name__)
    assert call.__wrapped__ is add
    assert inspect.signature(call) == inspect.signature(add)
    assert call.__annotations__ == add.__annotations__


@pytest.mark.parametrize("kind", [functools, light_functools])
def test_results_are_remembered_up_to_a_number(kind: Any) -> None:
    cached = kind.lru_cache(maxsize=2)(add)
    assert [cached(1), cached(2), cached(1), cached(3), cached(1, other=5)] == [2, 3, 2, 4, 6]
    assert tuple(cached.cache_info()) == (1, 4, 2, 2)
    assert cached.cache_parameters() == {"maxsize": 2, "typed": False}
    assert (cached.__name__, cached.__wrapped__) == ("add", add)
    cached.cache_clear()
    assert cached.cache_info().currsize == 0
    assert kind.cache(add)(1) == 2


def test_partial_calls_are_those_of_functools() -> None:
    assert light_functools.partial is functools.partial
    assert pickle.loads(pickle.dumps(light_functools.partial(add, 2)))(3) == 5


@given(st.lists(st.sampled_from("abc")))
def test_items_are_counted(items: list[str]) -> None:
    assert list(light_functools.tally(items).items()) == list(Counter(items).items())
