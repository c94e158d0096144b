"""Where the data section really begins, if that is not where the header puts it (clause 2.7).

If a writer aligns the data to 64 and does not say so, says 64 and aligns to 32, leaves out the padding before the data,
counts offsets from the start of the file, or puts other bytes before the first tensor, then all tensors are shifted by
the same number of bytes: one mistake, after which every reader finds noise at the ends of every tensor.

`shift_of` compares the *places* where the data could begin: the multiples of powers of two after the tensor infos, the
known mistakes, and those that the end of the file fits. Only bytes near the bounds of tensors belong to different
tensors in two readings, so only these are examined: a few hundred at up to `BOUNDS` bounds, whatever their types.

A reading explains them by what they would be: floats of a tensor by sign and exponent, scales of blocks likewise, codes
by bytes that are zero or hold code 3, padding by its zeros. Each kind of value, in tensors of one name (without the
number of the layer), has a distribution that is learned from the same bytes: the probability of a sequence is that of
drawing from an urn to which each value drawn returns with a copy. The logarithm of the quotient of both probabilities
is the evidence, in nats. A norm that begins with 32 bytes of float16 weights costs the wrong reading about 70.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import lgamma, log, prod
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.errors import counted
from i2s_spec.schema import limits
from i2s_spec.schema.blocks import GROUP_LAYOUTS, SCALES
from i2s_spec.schema.dialect import CODES_PER_BYTE
from i2s_spec.schema.faults import ByteOrder, order_prefix
from i2s_spec.schema.types import I2_S, READINGS, SCALE_BYTES, TensorType, padded

if TYPE_CHECKING:
    from i2s_spec.gguf.header import HeaderIndex
    from i2s_spec.gguf.placement import Placements

#: Bytes that are explained at once.
PIECE: Final = 512

#: Bounds of tensors that are examined, of all and of a file on a server; bytes on either side of each.
BOUNDS: Final = 24
BOUNDS_FETCHED: Final = 6
AROUND: Final = 256

#: The evidence of one piece counts no more than this, in nats; a place that so much speaks against is given up.
MOST: Final = 100.0
GIVE_UP: Final = 400.0
#: How many times more must speak for a place than against it: the scales of matrices differ, as those of layers do.
RATIO: Final = 2.0
#: The evidence that decides for a place that the end of the file fits, while it does not fit the stated one; and for any.
FITTING: Final = 8.0
ALONE: Final = 40.0
#: Fewest pieces that must speak for a place that the end of the file does not fit.
PIECES: Final = 3


class Shift(NamedTuple):
    """Where the first tensor begins, and where the header puts it; the offset that its info states.

    `alignment` is the one that puts it there, or 0 if none does.
    """

    begins: int
    stated: int
    offset: int
    alignment: int = 0

    @property
    def bytes(self) -> int:
        """How many bytes later than stated all tensors begin; negative if they begin earlier."""
        return self.begins - self.stated

    @property
    def words(self) -> str:
        """By how much all tensors are shifted, in words.

        >>> Shift(96, 64, 0).words
        '32 bytes later'
        """
        return f"{counted(abs(self.bytes), 'byte')} {'earlier' if self.bytes < 0 else 'later'}"

    @property
    def base(self) -> int:
        """The position that the offsets count from."""
        return self.begins - self.offset


class PlaceComparison(NamedTuple):
    """What speaks for another start of the data section and what against it, in nats, and how many pieces are for it."""

    gain: float
    loss: float
    pieces: int

    @property
    def evidence(self) -> float:
        return self.gain - self.loss

    def decides(self, least: float, pieces: int) -> bool:
        """Whether there is so much evidence, in so many pieces, and little that contradicts it."""
        return self.evidence >= least and self.pieces >= pieces and self.gain >= RATIO * self.loss


class FoundStart(NamedTuple):
    """The place that the weights show, and one that the end of the file fits and the weights do not exclude."""

    shift: Shift | None
    possible: Shift | None


_NOTHING: Final = FoundStart(None, None)


def shift_of(
    index: HeaderIndex, placements: Placements, is_contiguous: Callable[[int], bool], effective: int, fetched: bool
) -> FoundStart:
    """Where the data section of a file begins, if its bytes contradict the header. Reads some of them.

    :param placements: every tensor, in the order of the offsets
    :param is_contiguous: whether each tensor begins where the padded one before it ends, by an alignment
    :param effective: the alignment that the offsets use
    :param fetched: whether every byte comes from a server
    """
    end, stated, alignment = index.infos_end, index.data_start, index.alignment or limits.DEFAULT_ALIGNMENT
    size = index.source.size
    if not placements or end is None or stated is None or any(size is None for _, size in placements.sizes()):
        return _NOTHING
    first, last = placements[0].offset, placements.end
    aligned: dict[int, int] = {}
    for step in limits.ALIGNMENTS:
        if is_contiguous(step):
            aligned.setdefault(padded(end, step), step)
    steps = {alignment, effective, *aligned.values()}
    ends = {last, *(first + padded(last - first, step) for step in steps)}
    fits = {size - each for each in ends} if size - stated not in ends else set()
    starts = {padded(end, step) for step in limits.ALIGNMENTS if step >= alignment or step in aligned.values()}
    places = {
        *fits,
        *starts,
        end,
        stated + alignment,
        *((0,) if first else ()),
    }
    table = _Table(index, placements, BOUNDS_FETCHED if fetched else BOUNDS)
    best, possible = stated, stated
    usual = {*aligned, end, 0, stated + alignment}
    for base in sorted(places - {stated}, key=lambda base: (base not in aligned, base not in fits, abs(base - stated))):
        if base < 0 or base + first < end or (base not in fits and (fetched or base not in starts)):
            continue
        if stated + last <= size < base + last:
            continue  # the file holds all tensors, and would not
        found = table.compared(stated, base)
        if base in fits and base in aligned and index.alignment_key is not None:
            better = found.evidence > -FITTING  # the key is known to be copied by writers that align to 32
        elif base in fits and base in usual:
            better = found.decides(FITTING, 1)
        else:
            better = found.decides(ALONE, PIECES)
        if better and (best == stated or table.compared(best, base).evidence >= FITTING):
            best = base
        elif base in fits and found.evidence > -FITTING:
            possible = base
    shifts = [Shift(base + first, stated + first, first, aligned.get(base, 0)) for base in (best, possible)]
    return (
        FoundStart(*(shift if shift.bytes else None for shift in shifts))
        if best == stated
        else FoundStart(shifts[0], None)
    )


# --- the bytes near a bound, explained by a reading ------------------------------------------------------------------


class _Stream(NamedTuple):
    """Values of one kind that recur in a tensor: every `unit` bytes from `start` to `stop` of it, at `offset`.

    The kind is a type of floats, `scale` for a float32 that is one, or for bytes: `bits` (codes of two bits, of which one
    has no meaning), `bytes` or `rest` (behind a scale).
    """

    kind: str
    start: int
    stop: int
    unit: int
    offset: int
    width: int


class _Tensor(NamedTuple):
    """A tensor as `_Table` needs it: where it is, which tensors are like it, and what is in it."""

    start: int
    stop: int
    role: bytes
    streams: tuple[_Stream, ...]


class _Table:
    """The tensors of a file, by which the bytes of a window are explained."""

    def __init__(self, index: HeaderIndex, placements: Placements, most: int) -> None:
        self._index = index
        self._placements = placements
        self._offsets, self._ends = [], []
        for offset, size in placements.sizes():
            self._offsets.append(offset)
            self._ends.append(offset + (size or 0))
        self._made: dict[int, _Tensor] = {}
        self._bounds = self._chosen(most)

    def compared(self, stated: int, other: int) -> PlaceComparison:
        """Return the evidence for another start of the data section, and against it."""
        gain, loss, pieces = 0.0, 0.0, 0
        urns = _Urns(), _Urns()
        for start, stop in self._pieces(stated, other):
            data = self._index.source.read(start, stop - start)
            apart = self._explained(data, start, other, urns[1]) - self._explained(data, start, stated, urns[0])
            gain += max(0.0, min(apart, MOST))
            loss += max(0.0, min(-apart, MOST))
            pieces += apart > FITTING
            if loss - gain > GIVE_UP:
                break
        return PlaceComparison(gain, loss, pieces)

    def _chosen(self, most: int) -> list[int]:
        """Where some tensors begin, and where the last one ends: beside vectors first, which differ from what is beside
        them."""
        tensor, count = self._index.tensor, len(self._offsets)
        step = max(1, count // limits.MANY_TENSORS)
        between = range(1, count, step)
        vector = [len(tensor(self._placements[i].row).ne) == 1 for i in range(0, count, step)]
        beside = [i for place, i in enumerate(between) if vector[place] != vector[place + 1 : place + 2][0]]
        chosen = beside[:: max(1, -(-len(beside) // (most - 2)))]
        others = [i for i in between if i not in set(beside)]
        spare = most - 2 - len(chosen)
        chosen += others[:: max(1, -(-len(others) // spare))] if spare > 0 else []
        return [self._offsets[0], *(self._offsets[i] for i in chosen), self._placements.end]

    def _pieces(self, one: int, other: int) -> Iterator[tuple[int, int]]:
        """Yield the bytes around bounds of tensors in both readings, inside the file and after the tensor infos, in
        pieces.
        """
        low, high = min(one, other), max(one, other)
        least, end = self._index.infos_end or 0, self._index.source.size
        spans: list[tuple[int, int]] = []
        for bound in self._bounds:
            if high - low <= 2 * AROUND:
                spans.append((low + bound - AROUND, high + bound + AROUND))
            else:
                spans += ((place + bound - AROUND, place + bound + AROUND) for place in (low, high))
        reached = least
        for start, stop in sorted(spans):
            for at in range(max(start, reached), min(stop, end), PIECE):
                yield at, min(at + PIECE, stop, end)
            reached = max(reached, min(stop, end))

    def _explained(self, data: bytes, at: int, base: int, urns: _Urns) -> float:
        """Return the probability of some bytes as a logarithm, compared with random bytes, if the data begin at
        `base`.
        """
        start, stop = at - base, at - base + len(data)
        found, place = 0.0, start
        i = max(0, bisect_right(self._offsets, start) - 1)
        while place < stop:
            if i == len(self._offsets):
                whole = padded(self._ends[i - 1], limits.DEFAULT_ALIGNMENT)
                found += urns.padding("padding", data[place - start : max(place, whole) - start])
                return found + urns.padding("behind", data[max(place, whole) - start :])
            if place < self._offsets[i]:
                found += urns.padding("padding", data[place - start : self._offsets[i] - start])
                place = self._offsets[i]
                continue
            end = min(stop, self._ends[i], *self._offsets[i + 1 : i + 2])
            if place < end:
                found += urns.tensor(self._tensor(i), place, data[place - start : end - start], self._index.byte_order)
                place = end
            if place < stop:
                if i + 1 < len(self._offsets) and place < self._offsets[i + 1]:
                    gap = min(stop, self._offsets[i + 1])
                    found += urns.padding("padding", data[place - start : gap - start])
                    place = gap
                i += 1
        return found

    def _tensor(self, i: int) -> _Tensor:
        if i not in self._made:
            row, number, size = self._placements[i][1:]
            info = self._index.tensor(row)
            kinds = (I2_S, *READINGS.get(number, ())) if number in (30, 31) else READINGS.get(number, ())
            kind = next((kind for kind in kinds if kind.nbytes(info.ne) == size), None)
            role = re.sub(rb"\d+", b"#", info.name)
            streams = () if kind is None else _contents(kind, info.ne, size or 0)
            self._made[i] = _Tensor(self._offsets[i], self._ends[i], role, streams)
        return self._made[i]


_FLOATS: Final = {"F32": 4, "F16": 2, "BF16": 2}


@lru_cache(maxsize=256)
def _contents(kind: TensorType, ne: tuple[int, ...], size: int) -> tuple[_Stream, ...]:
    """Return the contents of a tensor: floats, or scales and codes."""
    if kind.name in _FLOATS:
        width = _FLOATS[kind.name]
        return (_Stream(kind.name, 0, size, width, 0, width),)
    if kind is I2_S or kind.name == "I2_SR":
        codes = prod(ne) // CODES_PER_BYTE
        scales = codes + SCALE_BYTES * (1 if kind is I2_S else prod(ne[1:]))
        return (
            _Stream("bits", 0, codes, 1, 0, 1),
            _Stream("scale", codes, scales, SCALE_BYTES, 0, SCALE_BYTES),
            _Stream("rest", scales, size, 1, 0, 1),
        )
    streams = [_Stream("bits" if kind.name == "TQ2_0" else "bytes", 0, size, 1, 0, 1)]
    for scale in SCALES.get(kind.name, ()):
        layout = GROUP_LAYOUTS.get(kind.name)
        unit = kind.bytes if layout is None else layout.group_bytes(ne[0])
        if scale.type in ("F16", "F32", "E8M0"):
            form = "scale" if scale.type == "F32" else scale.type
            streams.append(_Stream(form, 0, size, unit, scale.offset, scale.nbytes))
    return tuple(streams)


#: What is expected of values before any is seen, and how much that counts: as much as so many values.
_PRIOR: Final = 2.0
_LEAST: Final = 1e-7
#: Values of which fewer are expected never become likely, however many there are.
IMPLAUSIBLE: Final = 1e-4
_FORMS: Final = {
    "F32": ("I", 23, 127, 9, 32),
    "scale": ("I", 23, 127, 9, 32),
    "BF16": ("H", 7, 127, 9, 16),
    "F16": ("H", 7, 15, 9, 16),
}
_ZERO: Final = -1
#: The class of a float32 whose last bits are zero, as those have that were a float16 or a bfloat16, and these bits.
_SHORT: Final = 1 << 9
_SHORT_BITS: Final = 13
#: Bytes of codes in which one of the four is 3.
_HAS_3: Final = bytes(any(byte >> shift & 3 == 3 for shift in (0, 2, 4, 6)) for byte in range(256))


def _expected(kind: str, value: int) -> float:
    """Return the share of values of a class that trained weights, norms and scales may be expected to have."""
    if kind == "E8M0":
        return 0.95 / 41 if 100 <= value <= 140 else 0.05 / 215
    if value == _ZERO:
        return _LEAST if kind == "scale" else 0.03
    _, _, bias, bits, whole = _FORMS[kind]
    exponent = (value & _SHORT - 1) % (1 << bits - 1)
    if kind == "F16":  # three bits of the fraction count as well, so that all kinds show as many bits
        exponent >>= 3
        return _LEAST if exponent == 31 else 0.9 / 320 if exponent <= 19 else 0.05 / 176
    half = 0.5 if whole == 32 else 1.0
    if exponent == (1 << bits - 1) - 1:
        return _LEAST
    if kind == "scale":  # clause 6.2: those of trained models are positive, and from 1e-4 to 1e2
        return half * (0.97 / 22 if -14 <= exponent - bias <= 7 and not value >> bits - 1 & 1 else 0.03 / 490)
    return half * (0.93 / 54 if -20 <= exponent - bias <= 6 else 0.03 / 450)


def _by_chance(kind: str, value: int) -> float:
    """Return the share of a class among random bits."""
    if kind == "E8M0":
        return 1 / 256
    _, _, _, bits, whole = _FORMS[kind]
    if value == _ZERO:
        return 2.0**-whole
    return 2.0 ** -(bits + _SHORT_BITS if value & _SHORT and whole == 32 else bits)


class _Urns:
    """What one reading has found so far, of each kind of value."""

    def __init__(self) -> None:
        self._seen: dict[tuple[bytes | str, str, int], Counter[int]] = {}

    def _drawn(
        self, urn: tuple[bytes | str, str, int], values: Counter[int], expected: Mapping[int, tuple[float, float]]
    ) -> float:
        """Return the logarithm of the probability of some values, compared with chance; the urn has them afterwards.

        :param expected: of each value, the share that is expected and that of chance
        """
        seen, found, drawn = self._seen.setdefault(urn, Counter()), 0.0, 0
        before = sum(seen.values())
        for value, count in values.items():
            share, chance = expected[value]
            found -= count * log(chance)
            if share < IMPLAUSIBLE:
                found += count * log(share)
            elif count:
                known = seen[value] + _PRIOR * share
                found += lgamma(known + count) - lgamma(known)
                seen[value] += count
                drawn += count
        return found - lgamma(before + _PRIOR + drawn) + lgamma(before + _PRIOR)

    def padding(self, where: str, data: bytes) -> float:
        """Bytes that belong to no tensor: zeros between tensors, anything behind the last."""
        if not data:
            return 0.0
        zeros = data.count(0)
        share = 0.98 if where == "padding" else 0.5
        return self._drawn(
            (where, "", 0), Counter({0: zeros, 1: len(data) - zeros}), {0: (share, 1 / 256), 1: (1 - share, 255 / 256)}
        )

    def tensor(self, tensor: _Tensor, at: int, data: bytes, order: ByteOrder) -> float:
        """Return a part of a tensor, from a place in the data section on."""
        found, place = 0.0, at - tensor.start  # in the tensor
        for number, stream in enumerate(tensor.streams):
            kind, values = stream.kind, _values(stream, place, data, order)
            if kind in _BYTES:
                found += self._drawn((tensor.role, kind, number), values, _BYTES[kind])
            elif values:
                expected = {value: (_expected(kind, value), _by_chance(kind, value)) for value in values}
                found += self._drawn((tensor.role, kind, number), values, expected)
        return found


#: Bytes that are zero, that hold a code 3, and others: the share that is expected, and that of chance.
_BYTES: Final[dict[str, dict[int, tuple[float, float]]]] = {
    "bits": {0: (0.03, 1 / 256), 1: (0.01, 175 / 256), 2: (0.96, 80 / 256)},
    "bytes": {0: (0.05, 1 / 256), 1: (1.0, 1.0), 2: (0.95, 255 / 256)},
    "rest": {0: (0.5, 1 / 256), 1: (1.0, 1.0), 2: (0.5, 255 / 256)},
}


def _values(stream: _Stream, place: int, data: bytes, order: ByteOrder) -> Counter[int]:
    """Return the classes of the numbers of a stream that lie whole in a part of a tensor."""
    first = max(0, -(-(place - stream.start - stream.offset) // stream.unit))
    at = stream.start + first * stream.unit + stream.offset - place
    stop = min(len(data), stream.stop - place) - stream.width
    if at > stop:
        return Counter()
    count = (stop - at) // stream.unit + 1
    if stream.unit == stream.width:
        packed = data[at : at + count * stream.width]
    else:
        packed = b"".join(data[i : i + stream.width] for i in range(at, stop + 1, stream.unit))
    if stream.kind == "E8M0":
        return Counter(packed)
    if stream.kind in _BYTES:
        zeros, odd = packed.count(0), sum(packed.translate(_HAS_3)) if stream.kind == "bits" else 0
        return Counter({0: zeros, 1: odd, 2: count - zeros - odd})
    form, shift, _, _, whole = _FORMS[stream.kind]
    magnitude = (1 << whole - 1) - 1
    numbers = struct.unpack(f"{order_prefix(order)}{count}{form}", packed)
    if whole == 32:
        last = (1 << _SHORT_BITS) - 1
        return Counter(
            number >> shift | (0 if number & last else _SHORT) if number & magnitude else _ZERO for number in numbers
        )
    return Counter(number >> shift if number & magnitude else _ZERO for number in numbers)
