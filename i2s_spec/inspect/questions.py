"""This module collects what is to be seen in a file about its origin: order of keys, inventory, extents, codes, tails."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, islice, pairwise
from math import prod
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.schema.block_layout import GROUP_LAYOUTS
from i2s_spec.schema.types import I2_S, TAIL_BYTES, padded

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.inspect.leftovers import StaleTails
    from i2s_spec.inspect.survey.result import Survey
    from i2s_spec.inspect.survey.tensor_survey import TensorSurvey

#: Keys and tensors that are looked at, the first ones; no real file has as many.
MOST: Final = 10_000

#: Layers from which the two orders differ.
FEWEST_LAYERS: Final = 11

_LAYER: Final = re.compile(rb"blk\.(0|[1-9][0-9]{0,8})\.", re.ASCII)

#: Numbers that I2_S had before its release.
_LEGACY: Final = (30, 31)


class Observed:
    """One file as a detective sees it; each observation is made when it is asked for, and once.

    :param survey: what is in the payloads, or None where they were not read
    """

    def __init__(self, file: File, survey: Survey | None) -> None:
        self.file = file
        self.survey = survey

    # keys

    @cached_property
    def architecture(self) -> str:
        """The value of `general.architecture`; empty where there is none of use."""
        value = self.value("general.architecture")
        return value if isinstance(value, str) and len(value) <= 64 else ""

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys in the order of the file, with `{a}` where the architecture's name stands."""
        names = (self.file.index.key(i).name for i in range(min(self.file.index.keys, MOST)))
        prefix = f"{self.architecture}." if self.architecture else None
        found = []
        for raw in names:
            name = raw.decode("utf-8", "surrogateescape")
            found.append("{a}." + name[len(prefix) :] if prefix and name.startswith(prefix) else name)
        return tuple(found)

    def value(self, key: str) -> Any:
        """The value of a key that is a number or a short text; None for all else."""
        index = self.file.index
        places = index.keys_named((key.encode("utf-8", "surrogateescape"),))
        if not places:
            return None
        entry = index.key(places[0])
        if entry.label.startswith("arr") or entry.count > 1 << 12:
            return None
        return self.file.metadata.decode(entry)

    def own(self, name: str) -> Any:
        """The value of a key of the architecture, such as `block_count`."""
        return self.value(f"{self.architecture}.{name}") if self.architecture else None

    # inventory

    @cached_property
    def types(self) -> Counter[str]:
        """How many tensors there are of each type."""
        return Counter(
            tensor.type.name if tensor.type is not None else f"type {tensor.number}"
            for tensor in islice(self.file.tensors.rows, MOST)
        )

    @cached_property
    def names(self) -> frozenset[bytes]:
        return frozenset(self.file.index.tensor(i).name for i in range(min(self.file.index.tensors, MOST)))

    @cached_property
    def layer_order(self) -> str:
        """`text` where layers come as 0, 1, 10, 11, 2, `number` as 0, 1, 2, 10; empty where that does not show."""
        seen: list[bytes] = []
        if self.file.index.tensors < FEWEST_LAYERS:
            return ""
        for i in range(min(self.file.index.tensors, MOST)):
            found = _LAYER.match(self.file.index.tensor(i).name)
            if found and (not seen or seen[-1] != found[1]):
                seen.append(found[1])
        if len(set(seen)) != len(seen) or len(seen) < FEWEST_LAYERS:
            return ""
        if all(one < other for one, other in pairwise(seen)):
            return "text"
        return "number" if all(int(one) < int(other) for one, other in pairwise(seen)) else ""

    @cached_property
    def norm_types(self) -> frozenset[str]:
        """Types of the tensors of one dimension."""
        return frozenset(
            tensor.type.name
            for tensor in islice(self.file.tensors.rows, MOST)
            if tensor.type is not None and prod(tensor.ne) == max(tensor.ne, default=0)
        )

    @cached_property
    def group_types(self) -> Counter[str]:
        """How many tensors are of each type with a scale for each group."""
        index, numbers = self.file.index, {layout.type.number for layout in GROUP_LAYOUTS.values()}
        mine = (i for i in range(min(index.tensors, MOST)) if index.tensor(i).type in numbers)
        kinds = (self.file.tensors.by_index(i).kind for i in mine)
        return Counter(kind for kind in kinds if kind in GROUP_LAYOUTS)

    # I2_S tensors

    def i2s(self) -> Iterator[tuple[int, bytes, tuple[int, ...], int, int | None]]:
        """Row, name, ne, offset and allotted bytes of every tensor of type 36, or of an older number and as long."""
        index = self.file.index
        for i in range(min(index.tensors, MOST)):
            info = index.tensor(i)
            name, ne, number, offset = info.name, info.ne, info.type, info.offset
            ours = number == I2_S.number or (number in _LEGACY and self._has_i2s_extent(ne, offset))
            if ours and ne and min(ne) > 0:
                yield i, name, ne, offset, self.file.tensors.allotted_bytes(offset)

    def _has_i2s_extent(self, ne: tuple[int, ...], offset: int) -> bool:
        return (
            bool(ne)
            and prod(ne) >= 128
            and self._step(I2_S.nbytes(ne)) == self._step(self.file.tensors.allotted_bytes(offset) or 0)
        )

    def _step(self, size: int) -> int:
        return padded(size, self.file.alignment or TAIL_BYTES)

    @cached_property
    def numbers(self) -> Counter[int]:
        """Type numbers under which I2_S tensors are there."""
        index = self.file.index
        return Counter(index.tensor(i).type for i, *_ in self.i2s())

    @cached_property
    def extents(self) -> Counter[str]:
        """How many I2_S tensors have how many bytes until the next tensor begins.

        `exact` n/4 + 32; `unpacked` n; `bare` n/4; `scale` n/4 + 4; `blocks` whole blocks, then 32; `chunks` more than
        one tail; `end` the last tensor, with more after it; `odd` anything else.
        """
        return Counter(self._extent(ne, size) for _, _, ne, _, size in self.i2s())

    def _extent(self, ne: tuple[int, ...], allotted: int | None) -> str:
        n = prod(ne)
        if allotted is None:
            return "odd"
        if allotted in (n // 4 + TAIL_BYTES, self._step(n // 4 + TAIL_BYTES)):
            return "exact"
        for name, size in (
            ("unpacked", n), ("bare", n // 4), ("scale", n // 4 + 4), ("blocks", -(-n // 128) * 32 + TAIL_BYTES)
        ):  # fmt: skip
            if allotted == self._step(size):
                return name
        more = allotted - n // 4
        return "chunks" if more > TAIL_BYTES and more % TAIL_BYTES == 0 and more // TAIL_BYTES <= ne[-1] else "odd"

    # payloads

    @cached_property
    def _old(self) -> tuple[TensorSurvey, ...]:
        """What is in tensors with a number from before the release."""
        from i2s_spec.inspect.identify.legacy import TENSORS, legacy_surveys

        if self.survey is None:
            return ()
        tensor = self.file.index.tensor
        rows = ((i, name, ne, offset) for i, name, ne, offset, _ in self.i2s() if tensor(i).type != I2_S.number)
        return tuple(legacy_surveys(self.file, islice(rows, TENSORS)))

    def payloads(self) -> Iterator[TensorSurvey]:
        """Every I2_S tensor that was looked into."""
        return chain(islice(self.survey or (), MOST), self._old)

    @cached_property
    def counts(self) -> tuple[int, int, int, int]:
        """How often each code was seen in all tensors that were looked at."""
        totals = [0, 0, 0, 0]
        for tensor in self.payloads():
            for code in range(4):
                totals[code] += tensor.counts[code]
        return totals[0], totals[1], totals[2], totals[3]

    @cached_property
    def tails(self) -> Counter[str]:
        """How many tails are `zero`, `replicated`, `stale`."""
        return Counter(tensor.tail_class for tensor in self.payloads())

    @cached_property
    def stale_tails(self) -> StaleTails:
        """Which tails hold leftovers, and of which tensor."""
        from i2s_spec.inspect.leftovers import stale_tails

        return stale_tails(self.file, self.survey)

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """The scales of the tensors that were looked at."""
        return tuple(tensor.scale for tensor in self.payloads())

    def scale_bits(self) -> Iterator[int]:
        """The scales as 32-bit words."""
        order = self.file.byte_order
        return (int.from_bytes(tensor.tail[:4], order) for tensor in self.payloads())
