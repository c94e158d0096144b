"""This module keeps keys and values: what attention needs of the tokens that came before.

A `Cache` belongs to one sequence. It grows as tokens come, up to its length; `cut` takes tokens back. What a forward pass
writes counts only once the pass is complete, so that an error half-way leaves the cache as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: Tokens that room is made for at first.
FIRST_ROOM: Final = 64

#: What is kept of each layer.
PARTS: Final = ("keys", "values")


class Cache:
    """The keys and values of one sequence.

    :param length: most tokens that it can hold
    :param keys: width of the keys of each layer, (heads, head dimension)
    :param values: the same of the values
    :param dtype: float32 or float16
    """

    def __init__(
        self, length: int, keys: Sequence[tuple[int, int]], values: Sequence[tuple[int, int]], dtype: Any
    ) -> None:
        self.length = length
        self.dtype = np.dtype(dtype)
        self.tokens: list[int] = []
        self._shapes = {"keys": tuple(keys), "values": tuple(values)}
        self._kept: dict[tuple[str, int], NDArray[Any]] = {}
        #: Numbers of a token's keys in each layer, and of its values.
        self.widths = tuple(tuple(heads * dim for heads, dim in self._shapes[part]) for part in PARTS)
        self._room = 0
        self._addresses: NDArray[np.uintp] = np.zeros(0, dtype=np.uintp)

    @property
    def used(self) -> int:
        """Tokens that it holds."""
        return len(self.tokens)

    @property
    def layers(self) -> int:
        return len(self._shapes["keys"])

    @property
    def nbytes(self) -> int:
        """Bytes that are allocated for keys and values."""
        return sum(each.nbytes for each in self._kept.values())

    def write(self, part: str, layer: int, rows: NDArray[Any]) -> NDArray[Any]:
        """Put rows [T, heads, dim] behind the tokens that count, and give those and these: [used + T, heads, dim]."""
        stop = self.used + len(rows)
        kept = self._roomy(part, layer, stop)
        with np.errstate(over="ignore"):  # what F16 has no number for becomes infinity there too
            kept[self.used : stop] = rows
        return kept[:stop]

    def _roomy(self, part: str, layer: int, stop: int) -> NDArray[Any]:
        """What is kept of a part, with room for `stop` tokens."""
        kept = self._kept.get((part, layer))
        if kept is None or len(kept) < stop:
            room = min(max(FIRST_ROOM, stop, 2 * (0 if kept is None else len(kept))), max(self.length, stop))
            grown = np.zeros((room, *self._shapes[part][layer]), dtype=self.dtype)
            if kept is not None:
                grown[: self.used] = kept[: self.used]
            self._kept[part, layer] = kept = grown
            self._room = 0
        return kept

    def reserve(self, count: int, widths: tuple[tuple[int, ...], ...]) -> NDArray[np.uintp]:
        """Make room for so many more tokens in every layer: where keys and values of each layer lie, uintp [2 * layers].

        :param widths: of a token's keys in each layer, and of its values
        :raises ValueError: for other widths than the cache was made for
        """
        if widths != self.widths:
            raise ValueError("the cache was made for other keys and values")
        stop = self.used + count
        if stop > self._room:
            every = [self._roomy(part, layer, stop) for layer in range(self.layers) for part in PARTS]
            self._room = min((len(each) for each in every), default=stop)
            places = [each.__array_interface__["data"][0] for each in every]
            self._addresses = np.array(places, dtype=np.uintp)
        return self._addresses

    def commit(self, tokens: Sequence[int]) -> None:
        """Count the tokens that every layer has written."""
        self.tokens.extend(tokens)

    def cut(self, used: int) -> None:
        """Forget all tokens but the first `used`.

        :raises ValueError: for more than there are, or fewer than none
        """
        if not 0 <= used <= self.used:
            raise ValueError(f"the cache holds {self.used:,} tokens; it cannot be cut to {used:,}")
        del self.tokens[used:]

    def matches(self, other: Cache) -> bool:
        """Whether the cache has the layers, widths and type of another."""
        return (self._shapes, self.dtype) == (other._shapes, other.dtype)

    def __repr__(self) -> str:
        return f"<Cache {self.used:,} of {self.length:,} tokens, {self.layers} layers, {self.dtype.name}>"
