"""What earlier tokens leave: keys and values, which attention needs, and the states of gated delta nets.

A `Cache` belongs to one sequence. It grows with the tokens, up to its length; `cut` removes tokens. What a forward pass
writes counts only when the pass is complete, so an error during a pass leaves the cache unchanged. States are those after
the last token alone: with them, a cache can be cut only to its beginning, or to where a caller stored its `states`.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from i2s_spec.errors import SettingError, counted
from i2s_spec.gguf.source import HUGE_PAGE, zeros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from i2s_spec.model.numerics import NumericProfile
    from i2s_spec.schema.architectures import DeltaNet, Hyperparameters

#: Tokens for which memory is allocated at first.
FIRST_CAPACITY: Final = 64

#: Least bytes of a block of memory for arrays of several layers, and the alignment of arrays in it. Every token reads
#: all of them, so they lie in huge pages; an array of its own would leave most of one unused, and the system clears all
#: of it.
BLOCK: Final = 16 << 20
LINE: Final = 64
#: Bytes of an array that has memory of its own.
SMALL: Final = HUGE_PAGE // 4

#: States of a whole sequence, by name and layer.
States: TypeAlias = "dict[tuple[str, int], NDArray[np.float32]]"

#: The arrays that are stored for each layer.
PARTS: Final = ("keys", "values")


class Cache:
    """The keys and values of one sequence.

    :param length: the most tokens that it can hold
    :param keys: width of the keys of each layer, (heads, head dimension)
    :param values: the same for the values
    :param dtype: float32 or float16
    :param net: shapes of what each layer keeps of the whole sequence, by name; float32, and 0 before the first token
    """

    def __init__(
        self,
        length: int,
        keys: Sequence[tuple[int, int]],
        values: Sequence[tuple[int, int]],
        dtype: Any,
        net: Mapping[tuple[str, int], tuple[int, ...]] = MappingProxyType({}),
    ) -> None:
        self.length = length
        self.dtype = np.dtype(dtype)
        self.tokens: list[int] = []
        self._shapes = {"keys": tuple(keys), "values": tuple(values)}
        self._arrays: dict[tuple[str, int], NDArray[Any]] = {}
        self._net = dict(net)
        #: The states after the last counted token, and those of a pass that is not complete. Arrays are never changed.
        self.states: States = {}
        self._next: States = {}
        #: Numbers of a token's keys in each layer, and of its values.
        self.widths = tuple(tuple(heads * dim for heads, dim in self._shapes[part]) for part in PARTS)
        #: Tokens for which every array has memory, and where the arrays are, keys of each layer before its values.
        self._capacity = 0
        self._addresses: NDArray[np.uintp] = np.zeros(0, dtype=np.uintp)

    @property
    def used(self) -> int:
        """The number of tokens that it holds."""
        return len(self.tokens)

    @property
    def layers(self) -> int:
        return len(self._shapes["keys"])

    @property
    def nbytes(self) -> int:
        """Bytes that are allocated for keys, values and states."""
        return sum(each.nbytes for each in (*self._arrays.values(), *self.states.values()))

    def write(self, part: str, layer: int, rows: NDArray[Any]) -> NDArray[Any]:
        """Append rows [T, heads, dim] to those of the counted tokens; returns all of them: [used + T, heads, dim]."""
        stop = self.used + len(rows)
        array = self._with_capacity(part, layer, stop)
        with np.errstate(over="ignore"):  # values beyond F16 become infinity, as in the runtimes
            array[self.used : stop] = rows
        return array[:stop]

    def _with_capacity(self, part: str, layer: int, stop: int) -> NDArray[Any]:
        """Return the array of a part of a layer, with memory for `stop` tokens at least."""
        if stop > self._capacity:
            self._grow(min(max(FIRST_CAPACITY, stop, 2 * self._capacity), max(self.length, stop)))
        return self._arrays[part, layer]

    def _grow(self, capacity: int) -> None:
        """Grow every layer to so many tokens. Former memory is freed block by block."""
        shapes = [
            (part, layer, (capacity, *self._shapes[part][layer])) for layer in range(self.layers) for part in PARTS
        ]
        sizes = [-(-prod(shape) * self.dtype.itemsize // LINE) * LINE for _, _, shape in shapes]
        self._capacity = 0  # until all arrays are there
        block, at = np.zeros(0, dtype=np.uint8), 0
        for number, (part, layer, shape) in enumerate(shapes):
            if block.size - at < sizes[number]:
                block, at = _block(sizes[number:]), 0
            stop = at + prod(shape) * self.dtype.itemsize
            grown, at = block[at:stop].view(self.dtype).reshape(shape), at + sizes[number]
            if (part, layer) in self._arrays:
                grown[: self.used] = self._arrays[part, layer][: self.used]
            self._arrays[part, layer] = grown
        self._capacity = capacity
        places = [array.__array_interface__["data"][0] for array in self._arrays.values()]
        self._addresses = np.array(places, dtype=np.uintp)

    def make_room(self, count: int) -> None:
        """Allocate memory for this many more tokens at once, before parts of them are written."""
        if self.layers and self.used + count > self._capacity:
            self._with_capacity(PARTS[0], 0, self.used + count)

    def reserve(self, count: int, widths: tuple[tuple[int, ...], ...]) -> NDArray[np.uintp]:
        """Allocate memory for more tokens in every layer; returns the addresses of keys and values, uintp [2 * layers].

        :param widths: widths of a token's keys and values in each layer
        :raises ValueError: if the cache was made for other widths
        """
        if widths != self.widths:
            raise ValueError("the cache was made for keys and values of another size")
        self.make_room(count)
        return self._addresses

    def state(self, part: str, layer: int) -> NDArray[np.float32]:
        """Return the state of a layer after the counted tokens."""
        found = self.states.get((part, layer))
        return np.zeros(self._net[part, layer], dtype=np.float32) if found is None else found

    def replace_state(self, part: str, layer: int, value: NDArray[np.float32]) -> None:
        """Set the state of a layer after the tokens of this pass, which holds once they are counted."""
        self._next[part, layer] = value

    def commit(self, tokens: Sequence[int]) -> None:
        """Count the tokens that every layer has written."""
        self.tokens.extend(tokens)
        self.states, self._next = {**self.states, **self._next}, {}

    def reach(self, used: int) -> int:
        """Return the most tokens, `used` of those it holds or fewer, to which it can be cut."""
        return used if used == self.used or not self._net else 0

    def cut(self, used: int, states: States | None = None) -> None:
        """Remove all tokens after the first `used`.

        :param states: the states after those, which a cache with states needs unless they are all of its tokens, or none
        :raises ValueError: if `used` is negative or more than the cache holds, and if it has no states for it
        """
        if not 0 <= used <= self.used:
            raise ValueError(f"the cache holds {counted(self.used, 'token')}; it cannot be cut to {used:,}")
        if states is None and self.reach(used) != used:
            raise ValueError(f"the cache has the states after {counted(self.used, 'token')}, not those after {used:,}")
        if used != self.used:
            self.states = {} if states is None or not used else states
        self._next = {}
        del self.tokens[used:]

    def matches(self, other: Cache) -> bool:
        """Whether the cache has the layers, widths and type of another."""
        return (self._shapes, self._net, self.dtype) == (other._shapes, other._net, other.dtype)

    def __repr__(self) -> str:
        return (
            f"<Cache {self.used:,} of {counted(self.length, 'token')}, "
            f"{counted(self.layers, 'layer')}, {self.dtype.name}>"
        )


def _block(sizes: Sequence[int]) -> NDArray[np.uint8]:
    """Allocate memory for the first arrays, or for all: as many as fill a block.

    Small ones are alone: Python reuses their memory for the next cache, and huge pages would be cleared anew.
    """
    total = 0
    for size in sizes:
        total += size
        if total >= BLOCK or size < SMALL:
            break
    return np.frombuffer(zeros(total), dtype=np.uint8, count=total)


def cache_for(sizes: Hyperparameters, profile: NumericProfile, length: int | None = None) -> Cache:
    """Return an empty cache for a model.

    :param length: most tokens; the model's context unless it is given
    :raises SettingError: for more than the model's context, or fewer than 1
    """
    length = sizes.context if length is None else operator.index(length)
    if not 1 <= length <= sizes.context:
        raise SettingError(f"a cache of {counted(length, 'token')}; the model's context is 1 to {sizes.context:,}")
    layers = [sizes.at(i) for i in range(sizes.computed)]
    heads = [0 if sizes.has("delta", i) else h.heads_kv for i, h in enumerate(layers)]
    keys, values = (
        [(count, width) for count, width in zip(heads, widths, strict=True)]
        for widths in ([h.head_dim for h in layers], [h.value_dim for h in layers])
    )
    dtype = np.float16 if profile.cache == "f16" else np.float32
    return Cache(length, keys, values, dtype, _states_of(sizes.net))


def _states_of(net: DeltaNet) -> dict[tuple[str, int], tuple[int, ...]]:
    """Return the shapes of the states of gated delta nets."""
    shapes: dict[tuple[str, int], tuple[int, ...]] = {}
    for layer in (layer for layer, has in enumerate(net.layers) if has):
        shapes["rows", layer] = (net.kernel - 1, net.channels)
        shapes["states", layer] = (net.value_heads, net.width, net.width)
    return shapes
