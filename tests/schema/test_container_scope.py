"""The extent of a scope, byte by byte."""

from __future__ import annotations

from itertools import product

import pytest

from i2s_spec.schema.container import Scope


@pytest.mark.parametrize(("first", "behind"), [(0, 5), (4, 8), (5, 6), (8, 20)])
def test_fields(first: int, behind: int) -> None:
    scope = Scope(start=first, stop=behind)
    for start, stop in product(range(12), repeat=2):
        if start < stop:
            assert scope.covers(start, stop) == bool(set(range(start, stop)) & set(range(first, behind)))
        if start == stop:  # an empty field is covered if its position is
            assert scope.covers(start, stop) == (first <= start < behind)


@pytest.mark.parametrize("width", [1, 2, 3, 8])
@pytest.mark.parametrize("limit", [None, 0, 1, 3])
def test_items_of_an_array(width: int, limit: int | None) -> None:
    for at, count, first, length in product((0, 5, 16), (0, 1, 4), range(0, 30, 1), (1, 2, 9, 40)):
        scope = Scope(limit=limit, start=first, stop=first + length)
        wanted = [i for i in range(count) if scope.covers(at + i * width, at + (i + 1) * width)]
        begin, end = scope.chosen(at, width, count)
        assert list(range(begin, end)) == wanted[:limit]
