"""Named limits: their defaults, and other values while a file is checked."""

from __future__ import annotations

import threading

import pytest

from i2s_spec.errors import FormatError
from i2s_spec.schema import faults, limits


def test_every_bound_that_can_be_set_is_an_attribute() -> None:
    for limit in limits.NAMED.values():
        assert getattr(limits, limit.attribute) == limit.default
        assert limit.beyond
    with pytest.raises(AttributeError, match="no attribute 'MAX_NOTHING'"):
        limits.MAX_NOTHING  # noqa: B018


def test_bounds_hold_inside_and_in_this_thread_only() -> None:
    seen = []
    with limits.using({"keys": 3}):
        with limits.using({"tensors": 2}):
            assert (limits.MAX_KEYS, limits.MAX_TENSORS) == (3, 2)
            with pytest.raises(FormatError, match="S102"):
                faults.counts(3, 0, 10_000)
            other = threading.Thread(target=lambda: seen.append(limits.MAX_KEYS))
            other.start()
            other.join()
        assert limits.MAX_TENSORS == 1_048_576
    assert seen == [1_048_576]
    faults.counts(3, 0, 10_000)


def test_bounds_are_as_before_after_a_failure() -> None:
    with pytest.raises(KeyError), limits.using({"keys": 3}):
        raise KeyError
    assert limits.MAX_KEYS == 1_048_576


@pytest.mark.parametrize(
    "values", [{"nothing": 1}, {"keys": 0}, {"keys": -1}, {"keys": True}, {"keys": 1.5}, {"keys": 1 << 63}]
)
def test_invalid_limits_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="limit"), limits.using(values):
        pytest.fail("taken")
