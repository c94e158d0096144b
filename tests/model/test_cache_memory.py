"""The memory of a cache: arrays of all layers in few blocks, which grow together and hold what was written."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from test_forward import model_file

from i2s_spec.model import cache as cache_module
from i2s_spec.model.cache import BLOCK, FIRST_CAPACITY, LINE, PARTS, Cache
from i2s_spec.model.load import load_model

Rows = dict[tuple[str, int], Any]


def made(length: int, layers: int = 6, dtype: Any = np.float16) -> Cache:
    """A cache whose layers have different widths: 2 to 12 heads of 24 keys and 40 values."""
    heads = [2 * (i + 1) for i in range(layers)]
    return Cache(length, [(h, 24) for h in heads], [(h, 40) for h in heads], dtype)


def fill(cache: Cache, count: int, seed: int) -> Rows:
    """Write tokens to every array, and count them; returns the rows."""
    random, rows = np.random.Generator(np.random.PCG64(seed)), {}
    for layer in range(cache.layers):
        for part, width in zip(PARTS, (24, 40), strict=True):
            new = random.standard_normal((count, 2 * (layer + 1), width)).astype(cache.dtype)
            cache.write(part, layer, new)
            rows[part, layer] = new
    cache.commit([1] * count)
    return rows


def held(cache: Cache) -> Rows:
    """All rows that a cache holds."""
    return {(part, i): cache._arrays[part, i][: cache.used] for part in PARTS for i in range(cache.layers)}


def same(cache: Cache, *written: Rows) -> None:
    """The cache holds what was written, in order."""
    for key, rows in held(cache).items():
        assert rows.tobytes() == np.concatenate([each[key] for each in written]).tobytes()


@pytest.mark.parametrize(("block", "small"), [(1, 0), (5000, 0), (BLOCK, 0), (BLOCK, 20_000), (BLOCK, 1 << 30)])
def test_growth_keeps_what_was_written(monkeypatch: pytest.MonkeyPatch, block: int, small: int) -> None:
    monkeypatch.setattr(cache_module, "BLOCK", block)
    monkeypatch.setattr(cache_module, "SMALL", small)
    cache = made(1000, dtype=np.float32)
    written = [fill(cache, count, count) for count in (3, 61, 1, 200)]
    same(cache, *written)
    cache.cut(64)
    same(cache, *written[:2], fill(cache, 500, 5))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_arrays_share_blocks_and_no_line(monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    monkeypatch.setattr(cache_module, "SMALL", 0)
    cache = made(301, dtype=dtype)
    cache.make_room(301)
    spans = sorted((a.__array_interface__["data"][0], a.nbytes) for a in cache._arrays.values())
    assert all(start + size <= after for (start, size), (after, _) in pairwise(spans))
    assert all((start - spans[0][0]) % LINE == 0 for start, _ in spans)
    assert spans[-1][0] - spans[0][0] < sum(size + LINE for _, size in spans)


def test_addresses_are_those_of_the_arrays() -> None:
    cache = made(200)
    for count in (10, 90, 30):
        widths = cache.widths
        assert cache.reserve(count, widths).tolist() == [
            cache._arrays[part, i].__array_interface__["data"][0] for i in range(cache.layers) for part in PARTS
        ]
        cache.commit([1] * count)
    with pytest.raises(ValueError, match="another size"):
        cache.reserve(1, widths[::-1])


def test_room_that_was_made_is_not_made_again() -> None:
    cache = made(2000)
    cache.make_room(300)
    before = cache.reserve(100, cache.widths)
    cache.commit([1] * 100)
    assert cache.reserve(200, cache.widths) is before
    assert cache.nbytes == 300 * sum(map(sum, cache.widths)) * 2
    assert made(2000).nbytes == 0
    for length in (20, 1000):
        few = made(length)
        few.make_room(1)
        assert len(few._arrays["keys", 0]) == min(length, FIRST_CAPACITY)


def test_no_address_remains_of_a_growth_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays that were replaced before the failure must not be found at their former addresses."""
    monkeypatch.setattr(cache_module, "BLOCK", 1)
    cache = made(1000)
    written = fill(cache, 7, 1)
    left = [5]

    def limited(size: int) -> bytearray:
        left[0] -= 1
        if left[0] < 0:
            raise MemoryError
        return bytearray(size)

    monkeypatch.setattr(cache_module, "zeros", limited)
    with pytest.raises(MemoryError):
        cache.make_room(500)
    same(cache, written)
    left[0] = 1000
    addresses = cache.reserve(1, cache.widths).tolist()
    assert addresses == [
        cache._arrays[part, i].__array_interface__["data"][0] for i in range(cache.layers) for part in PARTS
    ]
    same(cache, written)


def test_a_prompt_in_parts_allocates_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(io.BytesIO(model_file("bitnet-b1.58")), "fast")
    grown: list[int] = []

    def grow(cache: Cache, capacity: int) -> None:
        grown.append(capacity)
        before(cache, capacity)

    before = Cache._grow
    monkeypatch.setattr(Cache, "_grow", grow)
    tokens = list(range(1, 91))
    parts = model.forward(tokens, cache=model.new_cache(90), together=40)
    assert grown == [90]
    assert parts.logits is not None
    assert model.forward(tokens, cache=model.new_cache(90)).cache.nbytes == parts.cache.nbytes
