"""How the bytes of a tensor hold trits and their scale, for every type that can hold them.

    I2_S            codes in a dialect; the scale is in the tail
    Q2_0, TQ1_0 ... codes in blocks, with a scale for each block or row: ternary if those of all groups that are not 0
                    are the same
    F32, F16, BF16  floats: ternary if all that are not 0 have the same magnitude, which is the scale

A tensor is ternary only if that is exactly so: nothing is rounded to be made to fit. Elements are those of the
flattened tensor, row-major. A `TernaryEncoding` decodes a stretch of bytes:

    >>> TernaryEncoding("BF16", (2, 2)).decode(bytes.fromhex("003f 00bf 0000 0080"), 4)
    Decoded(trits=array([ 1, -1,  0,  0], dtype=int8), scales=array([0.5], dtype=float32))

`Trits` reads a whole tensor, a window at a time:

    >>> data = bytes.fromhex("003f 00bf 0000 0080")
    >>> Trits(TernaryEncoding("BF16", (2, 2)), lambda start, stop: data[start:stop]).whole()
    (array([[ 1, -1],
           [ 0,  0]], dtype=int8), np.float32(0.5))

`rounding` says what scale a type stores for a given one:

    >>> rounding(1.2188547849655151, "TQ2_0")
    Rounding(scale=1.2188547849655151, stored=1.21875, scales=1)
    >>> print(_)
    scale 1.21885478 -> 1.21875 (-8.6e-05)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import chain
from math import lcm, prod
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

import numpy as np

from i2s_spec.codec import _floats, blocks_native
from i2s_spec.codec.change_groups import (
    BLOCK_TYPES,
    NotTernaryError,
    half_scale,
    scales_in_use,
    stored_scale,
    unpack_blocks,
)
from i2s_spec.codec.isa import KernelSet, chosen, table
from i2s_spec.codec.kernels import in_order
from i2s_spec.codec.native import unpack_trits
from i2s_spec.codec.observation import read_tail
from i2s_spec.codec.reference import UnusedCodeError
from i2s_spec.codec.shape import FLOAT_WORDS, widened
from i2s_spec.errors import counted
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE, Dialect
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import BY_NAME, TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bits of a word without the sign, and of an infinity.
_MAGNITUDE: Final = {"F32": (0x7FFFFFFF, 0x7F800000), "F16": (0x7FFF, 0x7C00), "BF16": (0x7FFF, 0x7F80)}

#: Types that trits can be read from.
TERNARY_TYPES: Final = ("I2_S", *BLOCK_TYPES, *FLOAT_WORDS)


@cache
def kernel_sets() -> tuple[KernelSet, ...]:
    """Every set of kernels for float words that was compiled, the slowest first; `portable` is always there."""
    return table(_floats.kernel_sets())


class Decoded(NamedTuple):
    """What the bytes of a window say: int8 trits, and the different scales of those that are not 0 (none for I2_S)."""

    trits: NDArray[np.int8]
    scales: NDArray[np.float32]


@dataclass(frozen=True)
class TernaryEncoding:
    """How the bytes of a tensor hold trits.

    :param type: one of `TERNARY_TYPES`
    :param shape: of the tensor, in NumPy's order
    :param dialect: of I2_S
    :param byte_order: of the file
    :raises ValueError: for another type, and a shape that the type or the layout has no place for (clause 5.3)
    """

    type: str
    shape: tuple[int, ...]
    dialect: Dialect = CANONICAL
    byte_order: ByteOrder = "little"

    def __post_init__(self) -> None:
        if self.type not in TERNARY_TYPES:
            raise ValueError(f"{self.type} tensors hold no trits; {', '.join(TERNARY_TYPES)} can")
        if not self.shape or min(self.shape) < 1:
            raise ValueError(f"the shape {list(self.shape)} holds no elements")
        if self.type == "I2_S":
            if self.slices > 1:
                raise ValueError(
                    f"a tensor of shape {list(self.shape)} is {counted(self.slices, 'slice')}, and "
                    f"programs disagree whether each "
                    "has a tail of its own or all share one: every slice must be a tensor"
                )
            if not self.dialect.layout.in_gguf:
                raise ValueError(f"{self.dialect.layout} is a layout of checkpoints; it does not occur in GGUF files")
            self.dialect.layout.check(self.rows, self.cols)
        elif self.type in BLOCK_TYPES and self.cols % (block := BLOCK_TYPES[self.type].block):
            raise ValueError(f"{self.type} packs rows in blocks of {block}; rows of {self.cols:,} are not whole blocks")

    @cached_property
    def rows(self) -> int:
        """Rows of the matrix that the tensor is, or that all its slices are."""
        return prod(self.shape[:-1])

    @property
    def cols(self) -> int:
        return self.shape[-1]

    @property
    def slices(self) -> int:
        """Matrices that the tensor consists of."""
        return prod(self.shape[:-2])

    @cached_property
    def elements(self) -> int:
        return prod(self.shape)

    @cached_property
    def unit(self) -> int:
        """Elements that windows are multiples of, so that each has bytes of its own."""
        if self.type == "I2_S":
            layout = self.dialect.layout
            return layout.row_block * self.cols if layout.row_block > 1 else layout.block
        if self.type in BLOCK_TYPES:
            return self.cols if self._has_row_scales else BLOCK_TYPES[self.type].block
        return 1

    def byte(self, element: int) -> int:
        """Where the bytes of a window that begins with this element begin.

        Of a type whose scales are apart these count as if each row had its own beside its codes, as
        `blocks_native.fetching` gives them.
        """
        if self.type == "I2_S":
            return element // CODES_PER_BYTE
        kind = BY_NAME[self.type]
        if self._has_row_scales:
            layout = BLOCK_TYPES[self.type]
            return element // self.cols * (self.cols // layout.block * layout.nbytes + layout.front_bytes)
        return element // kind.block * kind.bytes

    def matrix(self, count: int) -> tuple[int, int]:
        """Return the shape that a window of so many elements has for the codec: whole rows where the layout packs
        those.
        """
        if self._has_row_scales or (self.type == "I2_S" and self.dialect.layout.row_block > 1):
            return count // self.cols, self.cols
        return 1, count

    @property
    def has_scales_apart(self) -> bool:
        """Whether the scales are behind all codes, so that windows have to be put together."""
        return self.type in BLOCK_TYPES and BLOCK_TYPES[self.type].scale.apart

    @property
    def _has_row_scales(self) -> bool:
        return self.type in BLOCK_TYPES and BLOCK_TYPES[self.type].scale.per == "row"

    def trits(
        self, read: Callable[[int, int], bytes], start: int, unused: Literal["reject", "zero"] = "reject"
    ) -> Trits:
        """Return the trits of the tensor whose bytes begin at `start`.

        :param read: the bytes of a file, by where they begin and how many they are
        :param unused: whether the unused code is an error or 0
        """
        if self.has_scales_apart:
            layout = BLOCK_TYPES[self.type]
            joined = blocks_native.fetching(layout, self.rows, self.cols, lambda at, size: read(start + at, size))
            return Trits(self, joined, unused)
        return Trits(self, lambda first, stop: read(start + first, stop - first), unused)

    def decode(self, data: bytes, count: int, unused: Literal["reject", "zero"] = "reject") -> Decoded:
        """Return the trits of a window, from its bytes (for I2_S without the tail).

        :param count: elements of the window
        :param unused: whether the unused code is an error or 0
        :raises UnusedCodeError: for such a code
        :raises NotTernaryError: for +2 times the scale, and for scales that are not numbers
        """
        if self.type == "I2_S":
            trits = unpack_trits(data, self.matrix(count), self.dialect, unused)
            return Decoded(trits.reshape(-1), np.empty(0, dtype=np.float32))
        if self.type in BLOCK_TYPES:
            trits, scales = unpack_blocks(data, self.matrix(count), self.type, self.byte_order)
            used = scales_in_use(trits, scales)
            if not np.isfinite(used).all():
                raise _not_numbers()
            return Decoded(trits.reshape(-1), used)
        words = self._little_endian(data)
        trits = np.empty(count, dtype=np.int8)
        _floats.cut(chosen(kernel_sets()).row, _floats.KINDS[self.type], words, 1, trits)
        return Decoded(trits, self._magnitudes(words, count))

    def scales(self, data: bytes, count: int, unused: Literal["reject", "zero"] = "reject") -> NDArray[np.float32]:
        """Return the scales that `decode` gives, with its parameters and errors; of floats without their trits."""
        if self.type in FLOAT_WORDS:
            return self._magnitudes(self._little_endian(data), count)
        return self.decode(data, count, unused).scales

    def _little_endian(self, data: bytes) -> Any:
        """Return words of floats in the byte order that kernels take."""
        if self.byte_order == "little":
            return data
        return np.frombuffer(data, dtype=FLOAT_WORDS[self.type]).byteswap().view(np.uint8)

    def _magnitudes(self, words: Any, count: int) -> NDArray[np.float32]:
        """Return the different magnitudes of words of floats, other than 0, sorted."""
        without_sign, infinity = _MAGNITUDE[self.type]
        form = FLOAT_WORDS[self.type]
        only = _floats.only(chosen(kernel_sets()).row, _floats.KINDS[self.type], words, count)
        if only >= 0:
            bits = np.array([only] if only else [], dtype=form)
        else:
            all_bits = np.frombuffer(words, dtype="<" + form).astype(form, copy=False)
            bits = np.unique(all_bits & all_bits.dtype.type(without_sign))
            bits = bits[bits != 0]
            only = int(bits[-1])
        if only >= infinity:
            raise _not_numbers()
        return widened(bits, self.type)


@lru_cache(maxsize=256)
def encoding_of(type: str, shape: tuple[int, ...], dialect: Dialect, byte_order: ByteOrder) -> TernaryEncoding:
    """Return the encoding of tensors of one form, which are many in some files; parameters and errors are the class's."""
    return TernaryEncoding(type, shape, dialect, byte_order)


def _not_numbers() -> NotTernaryError:
    return NotTernaryError("the weights are not ternary: infinities or NaN are among them")


# --- trits -----------------------------------------------------------------------------------------------------------
# Where all weights are 0, types other than I2_S have the scale 0.

_Result = TypeVar("_Result")

#: Elements that are worked on at a time, unless a layout has larger units.
WINDOW: Final = 1 << 20

#: Different magnitudes that are counted before a tensor is given up.
MOST_MAGNITUDES: Final = 1000


class Trits:
    """The trits and the scale of a tensor; nothing is read before it is asked for.

    :param encoding: how the bytes hold them
    :param fetch: gives the bytes from one place in the tensor to another
    :param unused: whether the unused code is an error or 0
    """

    def __init__(
        self,
        encoding: TernaryEncoding,
        fetch: Callable[[int, int], bytes],
        unused: Literal["reject", "zero"] = "reject",
    ) -> None:
        self.encoding = encoding
        self.fetch = fetch
        self.unused = unused

    @cached_property
    def scale(self) -> np.float32:
        """What +1 stands for, float32; of types other than I2_S all bytes are read to find it.

        :raises NotTernaryError: where there is more than one
        """
        form = self.encoding
        if form.type == "I2_S":
            start = form.byte(form.elements)
            return read_tail(self.fetch(start, start + TAIL_BYTES), form.dialect.tail, form.byte_order)
        if self._only_scale is None:
            raise _too_many(form, self._scales(MOST_MAGNITUDES))
        return np.float32(self._only_scale)

    def has_one_scale(self) -> bool:
        """Whether there is a scale; looks no further than the second one.

        :raises NotTernaryError: for infinities and NaN
        """
        return self.encoding.type == "I2_S" or self._only_scale is not None

    @cached_property
    def _only_scale(self) -> float | None:
        """The only scale of a type other than I2_S, 0 where all weights are 0; None where there are several."""
        found = self._scales(1)
        return None if len(found) > 1 else next(iter(found), 0.0)

    def _scales(self, most: int) -> set[float]:
        """Return the different scales, up to the end of the window in which there are more than `most`."""
        found: set[float] = set()
        for window in self._fetched():
            found.update(self._placed(self.encoding.scales, *window).tolist())
            if len(found) > most:
                break
        return found

    def windows(self, unit: int = 1) -> Iterator[tuple[int, int]]:
        """Ranges of elements that cover the tensor: about a million, in whole units of the encoding and of `unit`."""
        unit = lcm(self.encoding.unit, unit)
        step = max(WINDOW // unit, 1) * unit
        starts = range(0, self.encoding.elements, step)
        return zip(starts, chain(starts[1:], (self.encoding.elements,)), strict=True)

    def mapped(
        self, function: Callable[[NDArray[np.int8]], _Result], threads: int = 1, unit: int = 1
    ) -> Iterator[_Result]:
        """Yield the results of a function for the trits of each window, flat, in order.

        :param threads: how many threads decode, and call the function
        :param unit: elements that every window but the last is a multiple of
        :raises NotTernaryError: where the scale is not the same throughout
        :raises UnusedCodeError: where the unused code occurs, unless it is 0
        """
        scale = self.scale

        def work(part: tuple[int, int, bytes]) -> _Result:
            decoded = self._placed(self.encoding.decode, *part)
            require_scale(decoded.scales, scale)
            return function(decoded.trits)

        try:
            yield from in_order(work, self._fetched(unit), threads)
        except UnusedCodeError as error:
            raise self._counted(error) from None

    def parts(self, threads: int = 1) -> Iterator[NDArray[np.int8]]:
        """Return the trits of each window, flat; see `mapped`."""
        return self.mapped(lambda trits: trits, threads)

    def whole(self, threads: int = 1) -> tuple[NDArray[np.int8], np.float32]:
        """All trits, int8 of the tensor's shape, and the scale."""
        encoding, scale = self.encoding, self.scale
        if encoding.type == "I2_S":
            data = self.fetch(0, encoding.byte(encoding.elements))
            unpacked = unpack_trits(
                data, (encoding.rows, encoding.cols), encoding.dialect, self.unused, threads=threads
            )
            return unpacked.reshape(encoding.shape), scale
        trits = np.empty(encoding.elements, dtype=np.int8)
        at = 0
        for part in self.parts(threads):
            trits[at : at + part.size] = part
            at += part.size
        return trits.reshape(encoding.shape), scale

    def payload(self, unit: int = 1) -> Iterator[bytes]:
        """Return the bytes of each window, as they are; of I2_S without the tail."""
        return map(itemgetter(2), self._fetched(unit))

    def _fetched(self, unit: int = 1) -> Iterator[tuple[int, int, bytes]]:
        """Where each window begins and ends, and its bytes, of I2_S without the tail."""
        for start, stop in self.windows(unit):
            yield start, stop, self.fetch(self.encoding.byte(start), self.encoding.byte(stop))

    def _placed(
        self, function: Callable[[bytes, int, Literal["reject", "zero"]], _Result], start: int, stop: int, data: bytes
    ) -> _Result:
        """Return the result of a function for a window; unused codes are placed in the tensor, not in the window."""
        try:
            return function(data, stop - start, self.unused)
        except UnusedCodeError as error:
            first = start + error.first
            raise UnusedCodeError(error.code, error.code_map, error.count, first, self.encoding.cols) from None

    def _counted(self, error: UnusedCodeError) -> UnusedCodeError:
        """Return the same error, with what comes in all windows."""
        count = 0
        for window in self._fetched():
            try:
                self._placed(self.encoding.decode, *window)
            except UnusedCodeError as one:
                count += one.count
        return UnusedCodeError(error.code, error.code_map, count, error.first, error.cols)


def require_scale(scales: NDArray[np.float32], scale: np.float32) -> None:
    """Refuse a window with another scale than that of its tensor."""
    if scales.size and (scales != scale).any():
        raise NotTernaryError(f"the scale was {scale:.9g} at first, and now there is {scales[scales != scale][0]:.9g}")


def _too_many(encoding: TernaryEncoding, found: set[float]) -> NotTernaryError:
    count = f"{len(found):,}" if len(found) <= MOST_MAGNITUDES else f"more than {MOST_MAGNITUDES:,}"
    if encoding.type in BLOCK_TYPES:
        per = BLOCK_TYPES[encoding.type].scale.per
        return NotTernaryError(
            f"there are {count} {per} scales, from {min(found):.6g} to {max(found):.6g}, "
            f"where one for all weights is wanted"
        )
    return NotTernaryError(
        f"the weights are not ternary: there are {count} magnitudes other than 0, from {min(found):.6g} to "
        f"{max(found):.6g}, where one would be -s, 0 and +s"
    )


# --- scale rounding --------------------------------------------------------------------------------------------------
# The scale that a type stores for a given one, how far it is rounded, and the error of a proof that fails.


class ProofError(RuntimeError):
    """The written data differ from the data that were read: a bug in this package."""


class Rounding(NamedTuple):
    """A scale, and the scale that a type stores; of several scales the one that changed most."""

    scale: float
    stored: float
    scales: int = 1

    @property
    def relative(self) -> float:
        """The relative change."""
        return 0.0 if self.stored == self.scale or self.scale != self.scale else (self.stored - self.scale) / self.scale

    def __str__(self) -> str:
        if self.scales > 1:
            most = (
                f", most changed {self.scale:.9g} -> {self.stored:.9g} ({self.relative:+.1e})" if self.relative else ""
            )
            return f"{counted(self.scales, 'scale')} {'rounded' if most else 'kept'}{most}"
        if not self.relative:
            return f"scale {self.scale:.9g} kept"
        return f"scale {self.scale:.9g} -> {self.stored:.9g} ({self.relative:+.1e})"


def worst_of(*roundings: Rounding) -> Rounding:
    """Return the rounding with the largest relative change, the first of equals, with the number of all scales."""
    worst = max(roundings, key=lambda each: abs(each.relative))
    return worst._replace(scales=sum(each.scales for each in roundings))


#: The rounding if there are no scales.
NO_SCALES: Final = Rounding(0.0, 0.0, 0)


def rounding(scale: float | np.float32, type: str) -> Rounding:
    """Return the scale that a type stores.

    :param type: a type that can store trits
    :raises ValueError: for a scale that it cannot hold
    """
    value = np.float32(scale)
    if type in {"I2_S", "F32"}:
        if type == "F32" and not np.isfinite(value):
            raise ValueError(f"weights cannot be computed from a scale that is {value}")
        return Rounding(float(value), float(value))
    if type == "BF16":
        stored = _bfloat16(value)
        if not np.isfinite(stored) or (stored == 0 and value != 0):
            raise ValueError(f"the scale {value:.9g} has no bfloat16: it would become {stored}")
        return Rounding(float(value), float(stored))
    return Rounding(float(value), float(stored_scale(value, type) if type in BLOCK_TYPES else half_scale(value)))


def _bfloat16(value: np.float32) -> np.float32:
    """Return a float32 rounded to bfloat16, to nearest, ties to even."""
    bits = int(np.array([value]).view(np.uint32)[0])
    if bits & 0x7FFFFFFF > 0x7F800000:  # a NaN keeps its sign and stays a NaN
        return value
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return np.float32(np.array([rounded], dtype=np.uint32).view(np.float32)[0])
