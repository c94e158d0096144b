"""This module has what the modules of a start need of `functools`, and counts without `collections`.

Together these two and what they bring take a third as long as starting Python. The parts that are compiled are Python's
own; type checkers read `functools` itself.

    >>> tally("banana")
    {'b': 1, 'a': 3, 'n': 2}
"""

from __future__ import annotations

from i2s_spec.light_typing import TYPE_CHECKING, Iterable, TypeVar

__all__ = ["cache", "cached_property", "lru_cache", "partial", "tally", "wraps"]

T = TypeVar("T")

if TYPE_CHECKING:
    from functools import cache, cached_property, lru_cache, partial, wraps
else:
    from _functools import _lru_cache_wrapper, partial

    class cached_property:  # noqa: N801 - as `functools` names it
        """As `functools.cached_property`, which takes no lock since Python 3.12 either."""

        def __init__(self, func):
            self.func = func
            self.attrname = None
            self.__doc__ = func.__doc__
            self.__module__ = func.__module__

        def __set_name__(self, owner, name):
            self.attrname = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value

    def wraps(wrapped):
        """As `functools.wraps`, of functions."""

        def decorate(wrapper):
            for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__", "__type_params__"):
                if hasattr(wrapped, name):
                    setattr(wrapper, name, getattr(wrapped, name))
            wrapper.__dict__.update(wrapped.__dict__)
            wrapper.__wrapped__ = wrapped
            return wrapper

        return decorate

    def _cache_info(*numbers):
        """What a cache has done, as `functools` says it, which few ask."""
        from functools import _CacheInfo

        return _CacheInfo(*numbers)

    def lru_cache(maxsize):
        """As `functools.lru_cache`, with a size."""

        def decorate(function):
            cached = wraps(function)(_lru_cache_wrapper(function, maxsize, False, _cache_info))
            cached.cache_parameters = lambda: {"maxsize": maxsize, "typed": False}
            return cached

        return decorate

    cache = lru_cache(None)


def tally(items: Iterable[T]) -> dict[T, int]:
    """How often each item is there, in the order of their first places."""
    counts: dict[T, int] = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return counts
