"""Which meaning of its type number the tensors of a file have, where single programs gave the number another one.

Decided for all tensors of a number together, since small ones have the room of several types: by the room up to the next
tensor, by what lies where each meaning has its scales, and by keys of the program. `tensor.Tensors` asks
`number_reading` for every tensor that it opens, so that no part of the package reads bytes in a meaning that they do not
have.

Contents are a bounded sample: `TENSORS` tensors, `BYTES` of each.
"""

from __future__ import annotations

import struct
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from i2s_spec.schema import limits, types
from i2s_spec.schema.faults import order_prefix
from i2s_spec.schema.program_types import Packing, ProgramType, of_number, of_type
from i2s_spec.schema.types import BY_NAME, I2_S, LEGACY_I2_S, TAIL_BYTES, TensorType, fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from i2s_spec.gguf.header import HeaderIndex

#: Tensors whose contents are examined, and bytes of each.
TENSORS: Final = 8
BYTES: Final = 2048
#: Blocks that contents must show before they outweigh the room, and what a meaning that they support has of them.
BLOCKS: Final = 8
MOST: Final = 0.9
#: Below this share of plausible scales, contents speak against a meaning.
FEW: Final = 0.8
#: Magnitudes of the scales of models, with a wide margin.
SCALES: Final = (1e-6, 1e3)

_TRITS: Final = (-1, 0, 1, 2)
#: Bytes of which one of the four codes of two bits is 3.
_WITH_3: Final = bytes(byte for byte in range(256) if byte & byte >> 1 & 0x55)
_Q2_0, _G128 = BY_NAME["Q2_0"], BY_NAME["Q2_0_G128"]
#: Where types of `schema.types` that share a number with others have codes and scales.
_PACKINGS: Final = {
    _Q2_0: Packing(64, 18, 2, 2, _TRITS, (0,), "F16"),
    _G128: Packing(128, 34, 2, 2, _TRITS, (0,), "F16"),
    BY_NAME["Q1_0"]: Packing(128, 18, 2, 1, (-1, 1), (0,), "F16"),
    BY_NAME["PTQ1_0"]: Packing(128, 28, 0, 0, (), (26,), "F16"),  # its codes are digits: only the scale is examined
}
#: Of one number, rooms are compared with contents in every file: programs laid out one size and wrote another.
_COMPARED: Final = {_Q2_0.number: (_Q2_0, _G128)}


class NumberReading(NamedTuple):
    """What a number means in a file."""

    number: int
    #: One type; or those between which nothing decides; or none: what `types.reading` says of each tensor.
    kinds: tuple[TensorType, ...] = ()
    #: What decided, or failed to.
    by: Literal["room", "content", "keys"] = "room"
    #: Whether the room of a tensor before another one shows the size of a block: no known meaning of another size has it.
    certain: bool = False

    @property
    def type(self) -> TensorType | None:
        """The one type."""
        return self.kinds[0] if len(self.kinds) == 1 else None

    @property
    def is_undecided(self) -> bool:
        return len(self.kinds) > 1

    @property
    def names(self) -> str:
        """The types in words, with the programs of those that single programs have."""
        found = (of_type(kind) for kind in self.kinds)
        names = [kind.name if each is None else str(each) for kind, each in zip(self.kinds, found, strict=True)]
        return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

    @property
    def why(self) -> str:
        """Why it is undecided."""
        if self.by == "content":
            return "their room and their contents do not agree on one"
        return "their room fits each, and nothing else in the file decides"


class _Group(NamedTuple):
    """Tensors of one shape and room: how many there are, and where the first of them begins."""

    ne: tuple[int, ...]
    room: int | None
    offset: int
    tensors: int


def number_reading(index: HeaderIndex, number: int) -> NumberReading:
    """Find out what a type number means in a file, by all of its tensors."""
    groups = _groups(index, number)
    if not groups:
        return NumberReading(number)
    alignment = index.alignment or TAIL_BYTES
    usual = (*types.READINGS.get(number, ()), *((I2_S,) if number in LEGACY_I2_S else ()))
    seconds = of_number(number)

    def fit(kind: TensorType, group: _Group) -> bool:
        second = of_type(kind)
        if group.room is None or (second is not None and not second.takes(group.ne)):
            return False
        return fits(kind, group.ne, group.room, alignment)

    def count(kind: TensorType) -> int:
        return sum(group.tensors for group in groups if fit(kind, group))

    end = index.source.size - (index.data_start or 0)
    inner = [group for group in groups if group.room is not None and group.offset + group.room < end]
    every = [*usual, *(each.type for each in seconds)]

    def certain(kinds: Sequence[TensorType]) -> bool:
        """Whether a room is that of one of these types, and of no other of another size."""
        for group in inner:
            sizes = {kind.nbytes(group.ne) for kind in kinds if fit(kind, group)}
            if sizes and all(kind.nbytes(group.ne) in sizes for kind in every if fit(kind, group)):
                return True
        return False

    total = sum(group.tensors for group in groups)
    counts = {each: count(each.type) for each in seconds}
    if usual and all(any(fit(kind, group) for kind in usual) for group in groups):
        rivals = [each for each, n in counts.items() if n == total and each.packing is not None]
        found = _by_content(index, number, groups, rivals, fitted=True)
        return found._replace(certain=certain(found.kinds or usual))
    most, before = max(counts.values(), default=0), max(map(count, usual), default=0)
    if most > before and 2 * most >= total:
        best = [each for each, n in counts.items() if n == most]
        found = _of_best(index, number, groups, best)
    else:
        found = _by_content(index, number, groups, [each for each in seconds if each.packing is not None])
    return found._replace(certain=certain(found.kinds or usual))


def _groups(index: HeaderIndex, number: int) -> list[_Group]:
    """Return the tensors of a number, the largest first."""
    found: dict[tuple[tuple[int, ...], int | None], tuple[int, int]] = {}
    for i, (_, room) in enumerate(index.extents()):
        info = index.tensor(i)
        ne = info.ne
        if info.type == number and 0 < len(ne) <= limits.MAX_DIMENSIONS and min(ne) and prod(ne) < limits.INT64_END:
            first, count = found.get((ne, room), (info.offset, 0))
            found[ne, room] = first, count + 1
    groups = [_Group(ne, room, first, count) for (ne, room), (first, count) in found.items()]
    return sorted(groups, key=lambda group: -prod(group.ne))


def _of_best(index: HeaderIndex, number: int, groups: list[_Group], best: list[ProgramType]) -> NumberReading:
    """One of the meanings that have the room of most tensors: by what is in them, else by keys of its program."""
    likely = [each for each in best if _pooled(index, ((group, each) for group in groups)).share >= FEW] or best
    if len(likely) == 1:
        return NumberReading(number, (likely[0].type,), "room" if len(best) == 1 else "content")
    marked = [each for each in likely if each.marked_by(index.key_places)]
    return NumberReading(number, tuple(each.type for each in (marked if len(marked) == 1 else likely)), "keys")


# --- contents --------------------------------------------------------------------------------------------------------

Meaning = ProgramType | TensorType


class _Score(NamedTuple):
    """How many scales are plausible where a meaning has them, and how many are not; whether a code occurs that weights do
    not have, or bytes other than 0 follow the data."""

    good: int = 0
    bad: int = 0
    reserved: bool = False
    padding: bool = False

    @property
    def blocks(self) -> int:
        return self.good + self.bad

    @property
    def share(self) -> float:
        return self.good / self.blocks if self.blocks else 1.0

    @property
    def flaws(self) -> int:
        return self.reserved + self.padding


def _by_content(
    index: HeaderIndex, number: int, groups: list[_Group], rivals: list[ProgramType], fitted: bool = False
) -> NumberReading:
    """Whether contents show that tensors have another meaning than `types.reading` gives them.

    :param rivals: second meanings to compare
    :param fitted: whether the rooms are those of meanings that `types` declares; then a rival has to be better
    """
    others: list[Meaning] = [*rivals, *_COMPARED.get(number, ())]
    if not others:
        return NumberReading(number)
    alignment = index.alignment or TAIL_BYTES
    common = types.common_reading(number, ((group.ne, group.room) for group in groups), alignment)

    def usual(group: _Group) -> TensorType | None:
        room = group.room
        if number in LEGACY_I2_S and room is not None and fits(I2_S, group.ne, room, alignment):
            return I2_S
        return types.reading(number, group.ne, room, alignment, common)

    shown = [group for group in groups if group.room][:TENSORS]
    kinds = {kind for group in shown if (kind := usual(group)) is not None}
    if not kinds <= {*_PACKINGS, I2_S} and fitted:
        return NumberReading(number)
    mine = _pooled(index, ((group, usual(group)) for group in shown))
    if mine.share >= MOST and not (rivals and fitted):
        return NumberReading(number)
    good = [
        (each, score)
        for each in others
        if {_kind(each)} != kinds
        and (score := _pooled(index, ((group, each) for group in shown))).blocks
        and score.share >= MOST
    ]
    if not good:
        return NumberReading(number)
    best, score = max(good, key=lambda pair: (-pair[1].flaws, pair[1].share, pair[1].blocks))
    if mine.share >= MOST:
        if isinstance(best, TensorType) or not mine.blocks or mine.flaws < score.flaws:
            return NumberReading(number)
        if best.marked_by(index.key_places):
            return NumberReading(number, (best.type,), "keys")
        if mine.flaws == score.flaws or score.blocks < BLOCKS:
            return NumberReading(number, (*_ordered(kinds), best.type), "room")
        return NumberReading(number, (best.type,), "content")
    if mine.share > FEW:
        few = (*_ordered(kinds), best.type) if isinstance(best, ProgramType) and fitted else ()
        return NumberReading(number, few, "content")
    if isinstance(best, TensorType) and score.blocks < BLOCKS:
        return NumberReading(number)
    kind = _kind(best)
    inside = all(group.room is not None and group.ne[0] % kind.block == 0 and kind.nbytes(group.ne) <= group.room
                 for group in groups)  # fmt: skip
    if inside and score.blocks >= BLOCKS:
        return NumberReading(number, (kind,), "content")
    return NumberReading(number, (*_ordered(kinds), kind), "content")


def _ordered(kinds: Iterable[TensorType]) -> list[TensorType]:
    return sorted(kinds, key=lambda kind: kind.name)


def _kind(meaning: Meaning) -> TensorType:
    return meaning if isinstance(meaning, TensorType) else meaning.type


def _pooled(index: HeaderIndex, read_as: Iterable[tuple[_Group, Meaning | None]]) -> _Score:
    """Return the contents of the first tensor of some groups, each read in a meaning, together."""
    good = bad = 0
    reserved = padding = False
    for group, meaning in islice(read_as, TENSORS):
        each = _Score() if meaning is None else _score(index, group, meaning)
        good, bad = good + each.good, bad + each.bad
        reserved, padding = reserved or each.reserved, padding or each.padding
    return _Score(good, bad, reserved, padding)


def _score(index: HeaderIndex, group: _Group, meaning: Meaning) -> _Score:
    """Return the contents of one tensor, read in one meaning."""
    kind = _kind(meaning)
    start, room = (index.data_start or 0) + group.offset, min(group.room or 0, index.source.size)
    order = order_prefix(index.byte_order)
    if kind is I2_S:
        size = I2_S.nbytes(group.ne)
        at = size - TAIL_BYTES
        if start + at + 4 > index.source.size:
            return _Score()
        (scale,) = struct.unpack(order + "f", index.source.read(start + at, 4))
        return _Score(1) if SCALES[0] <= scale <= SCALES[1] else _Score(0, 1)
    packing = _PACKINGS.get(kind) if isinstance(meaning, TensorType) else meaning.packing
    if packing is None or group.ne[0] % kind.block:
        return _Score()
    size = kind.nbytes(group.ne)
    length = min(size, room, BYTES, index.source.size - start) // packing.bytes * packing.bytes
    if length <= 0:
        return _Score()
    data = index.source.read(start, length)
    good = bad = 0
    reserved = False
    for at in range(0, length, packing.bytes):
        block = data[at : at + packing.bytes]
        if not any(block):
            continue
        codes = block[packing.codes : packing.codes + packing.block * packing.bits // 8]
        zeros = packing.bits == 2 and not codes.strip(b"\x55")
        for place in packing.scales:
            scale = _scale(block, place, packing.form, order)
            if scale == 0 and zeros:
                continue
            good, bad = (good + 1, bad) if SCALES[0] <= scale <= SCALES[1] else (good, bad + 1)
        reserved = reserved or (packing.bits == 2 and len(codes.translate(None, _WITH_3)) < len(codes))
    rest = min(room - size, BYTES, index.source.size - start - size)
    padding = rest > 0 and any(index.source.read(start + size, rest))
    return _Score(good, bad, reserved, padding)


def _scale(block: bytes, place: int, form: str, order: str) -> float:
    word = block[place : place + 2]
    if form == "F16":
        return float(struct.unpack(order + "e", word)[0])
    high = word if order == ">" else word[::-1]
    return float(struct.unpack(">f", high + b"\0\0")[0])
