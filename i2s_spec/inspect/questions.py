"""Evidence, hypotheses and questions; what a hypothesis with given evidence is worth; and what is observed in a file.

The scale is ordinal, not a probability; nothing here adds numbers up:

    certain    it cannot be otherwise, short of forgery: a digest, a decoded reference, bytes that could come from
               nowhere else
    likely     something speaks for it that hardly anything else explains, and nothing of weight speaks against it
    possible   nothing of weight speaks against it, and nothing tells it from the others that are possible
    unlikely   something is in the file that it does not explain
    excluded   the file shows the contrary

A question is answered by the one hypothesis that is certain, or likely where no other is. Where several are left, the
answer is that the file does not tell. `Observed` is what the evidence is taken from.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import chain, islice, pairwise
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from i2s_spec.errors import Span
from i2s_spec.inspect.survey import ByteRun, TensorSurvey
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.faults import order_prefix
from i2s_spec.schema.types import I2_S, LEGACY_I2_S, SECOND_NUMBERS, TAIL_BYTES, padded

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.inspect.survey import StaleTails, Survey


class Weight(StrEnum):
    """How much one piece of evidence shows."""

    PROOF = "proof"
    STRONG = "strong"
    WEAK = "weak"


PROOF, STRONG, WEAK = Weight.PROOF, Weight.STRONG, Weight.WEAK

CERTAIN: Final = "certain"
LIKELY: Final = "likely"
POSSIBLE: Final = "possible"
UNLIKELY: Final = "unlikely"
EXCLUDED: Final = "excluded"

#: From the best to the worst.
CONFIDENCES: Final = (CERTAIN, LIKELY, POSSIBLE, UNLIKELY, EXCLUDED)

#: The confidence of a question that the file does not answer.
CANNOT_TELL: Final = "cannot tell"


class Evidence(NamedTuple):
    """One observation, as a sentence in which text from the file is escaped already, and where it was made."""

    text: str
    weight: Weight
    span: Span | None = None


class PossibleAnswer(NamedTuple):
    """A possible answer, and the evidence for it and against it."""

    name: str
    title: str
    favour: tuple[Evidence, ...] = ()
    against: tuple[Evidence, ...] = ()

    @property
    def confidence(self) -> str:
        """What the evidence makes of it; see the scale of this module."""
        against = {evidence.weight for evidence in self.against}
        favour = {evidence.weight for evidence in self.favour}
        if PROOF in against:
            return EXCLUDED
        if PROOF in favour:
            return CERTAIN
        if STRONG in against:
            return UNLIKELY
        return LIKELY if STRONG in favour else POSSIBLE

    @property
    def rank(self) -> int:
        """0 for certain, 4 for excluded."""
        return CONFIDENCES.index(self.confidence)


class Question(NamedTuple):
    """A question about the file, its hypotheses (the best first), and what would answer it if they do not."""

    name: str
    text: str
    hypotheses: tuple[PossibleAnswer, ...]
    would_tell: str = ""

    @property
    def answer(self) -> PossibleAnswer | None:
        """The hypothesis that stands alone, or None where the file does not tell."""
        ranks = [hypothesis.rank for hypothesis in self.hypotheses]
        if not ranks:
            return None
        best = min(ranks)
        alone = ranks.count(best) == 1
        if alone and best <= CONFIDENCES.index(LIKELY):
            return self.hypotheses[ranks.index(best)]
        return None

    @property
    def confidence(self) -> str:
        """Of the answer; `cannot tell` where there is none."""
        return self.answer.confidence if self.answer is not None else CANNOT_TELL

    @property
    def open(self) -> tuple[PossibleAnswer, ...]:
        """The hypotheses that are left where there is no answer: the best of them, if the file does not exclude all."""
        if not self.hypotheses:
            return ()
        best = min(hypothesis.rank for hypothesis in self.hypotheses)
        if best > CONFIDENCES.index(POSSIBLE):
            return ()
        return tuple(hypothesis for hypothesis in self.hypotheses if hypothesis.rank == best)

    def as_dict(self) -> dict[str, Any]:
        """Return the question as plain data."""
        return {
            "name": self.name,
            "question": self.text,
            "answer": self.answer.name if self.answer is not None else None,
            "confidence": self.confidence,
            "hypotheses": [
                {
                    "name": hypothesis.name,
                    "title": hypothesis.title,
                    "confidence": hypothesis.confidence,
                    "for": [_plain(evidence) for evidence in hypothesis.favour],
                    "against": [_plain(evidence) for evidence in hypothesis.against],
                }
                for hypothesis in self.hypotheses
            ],
            "would_tell": self.would_tell or None,
        }


def _plain(evidence: Evidence) -> dict[str, Any]:
    span = evidence.span
    where = None if span is None else {"start": span.start, "stop": span.stop, "path": span.path}
    return {"text": evidence.text, "weight": evidence.weight.value, "span": where}


class QuestionCase:
    """Collects the evidence for and against the hypotheses of a question."""

    def __init__(self, names: Sequence[tuple[str, str]]) -> None:
        self._titles = dict(names)
        self._favour: dict[str, list[Evidence]] = {name: [] for name in self._titles}
        self._against: dict[str, list[Evidence]] = {name: [] for name in self._titles}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._titles)

    def favour(self, name: str, text: str, weight: Weight, span: Span | None = None) -> None:
        """Add evidence for a hypothesis."""
        self._favour[name].append(Evidence(text, weight, span))

    def against(self, name: str, text: str, weight: Weight, span: Span | None = None) -> None:
        """Add evidence against a hypothesis."""
        self._against[name].append(Evidence(text, weight, span))

    def against_others(self, name: str, text: str, weight: Weight) -> None:
        """Add evidence against every hypothesis but one."""
        for other in self._titles:
            if other != name:
                self.against(other, text, weight)

    def question(self, name: str, text: str, would_tell: str = "") -> Question:
        """Return the question with its hypotheses, the best first; equals stay in the order in which they were
        named.
        """
        made = [
            PossibleAnswer(each, title, tuple(self._favour[each]), tuple(self._against[each]))
            for each, title in self._titles.items()
        ]
        return Question(name, text, tuple(sorted(made, key=lambda hypothesis: hypothesis.rank)), would_tell)


# --- observed --------------------------------------------------------------------------------------------------------
# What a file shows of its origin: order of keys, inventory, extents, codes, tails.

#: Keys and tensors that are examined, the first ones; no real file has as many.
MOST: Final = 10_000

#: Layers from which the two orders differ.
FEWEST_LAYERS: Final = 11

_LAYER: Final = re.compile(rb"blk\.(0|[1-9][0-9]{0,8})\.", re.ASCII)


class Observed:
    """The observations of one file; each is made once, when it is asked for.

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
        """Return the value of a key that is a number or a short text; None for all else."""
        index = self.file.index
        places = index.keys_named((key.encode("utf-8", "surrogateescape"),))
        if not places:
            return None
        entry = index.key(places[0])
        if entry.label.startswith("arr") or entry.count > 1 << 12:
            return None
        return self.file.metadata.decode(entry)

    def own(self, name: str) -> Any:
        """Return the value of a key of the architecture, such as `block_count`."""
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
        """How many tensors are of each type with a scale for each group, and of types that single programs gave a number."""
        index, tensors = self.file.index, self.file.tensors
        numbers = SECOND_NUMBERS | {layout.type.number for layout in GROUP_LAYOUTS.values()}
        found: Counter[str] = Counter()
        for i in range(min(index.tensors, MOST)):
            if (number := index.tensor(i).type) in numbers:
                kind, several = tensors.by_index(i).kind, tensors.number_reading(number)
                if several is not None and several.kinds:
                    found[several.names] += 1
                elif kind in GROUP_LAYOUTS:
                    found[kind] += 1
        return found

    # I2_S tensors

    def i2s(self) -> Iterator[tuple[int, bytes, tuple[int, ...], int, int | None]]:
        """Row, name, ne, offset and allotted bytes of every tensor of type 36, or of an older number and as long."""
        index = self.file.index
        for i in range(min(index.tensors, MOST)):
            info = index.tensor(i)
            name, ne, number, offset = info.name, info.ne, info.type, info.offset
            if number != I2_S.number and number not in LEGACY_I2_S:
                continue
            room = self.file.tensors.allotted_bytes(offset)
            ours = number == I2_S.number or self.file.tensors.is_legacy_i2s(number, ne, room or 0)
            if ours and ne and min(ne) > 0:
                yield i, name, ne, offset, room

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

        if self.survey is None:
            return ()
        tensor = self.file.index.tensor
        rows = ((i, name, ne, offset) for i, name, ne, offset, _ in self.i2s() if tensor(i).type != I2_S.number)
        return tuple(legacy_surveys(self.file, islice(rows, TENSORS)))

    def payloads(self) -> Iterator[TensorSurvey]:
        """Every I2_S tensor that was examined."""
        return chain(islice(self.survey or (), MOST), self._old)

    @cached_property
    def counts(self) -> tuple[int, int, int, int]:
        """How often each code was seen in all tensors that were examined."""
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
        from i2s_spec.inspect.survey import stale_tails

        return stale_tails(self.file, self.survey)

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """The scales of the tensors that were examined."""
        return tuple(tensor.scale for tensor in self.payloads())

    def scale_bits(self) -> Iterator[int]:
        """Return the scales as 32-bit words."""
        order = self.file.byte_order
        return (int.from_bytes(tensor.tail[:4], order) for tensor in self.payloads())


# --- legacy ----------------------------------------------------------------------------------------------------------
# I2_S tensors that carry a number from before the release, which surveys take for other types.

#: Tensors that are examined, and bytes of each payload.
TENSORS: Final = 64
BYTES: Final = 1 << 20


def legacy_surveys(file: File, rows: Iterator[tuple[int, bytes, tuple[int, ...], int]]) -> Iterator[TensorSurvey]:
    """Survey some tensors that have the room of I2_S: the beginnings of their payloads, and their tails.

    :param rows: row, name, ne and offset of each
    """
    for row, name, ne, offset in rows:
        from i2s_spec.codec.native import count_codes  # only for such files: it imports NumPy

        start, size = (file.data_start or 0) + offset, prod(ne) // 4
        if prod(ne) % 4 or start + size + TAIL_BYTES > file.size:
            continue
        read = min(size, BYTES)
        payload = file.source.read(start, read)
        tail = file.source.read(start + size, TAIL_BYTES)
        counts = count_codes(payload)
        kind: Literal["zero", "replicated", "stale"]
        kind = "zero" if not any(tail[4:]) else "replicated" if tail == tail[:4] * 8 else "stale"
        (scale,) = struct.unpack(order_prefix(file.byte_order) + "f", tail[:4])
        last: ByteRun | None = None
        if read == size and payload:
            length = len(payload) - len(payload.rstrip(payload[-1:]))
            last = ByteRun(size - length, length, payload[-1])
        yield TensorSurvey(
            row, name, ne, start, size, read, read == size, counts, None, None, last, None, scale, tail, kind
        )  # fmt: skip
