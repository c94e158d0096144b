"""A file that is no model: its keys and tensors by their full names, and a projector beside what llama.cpp's loader asks.

`own_records` gives the `OwnRecords` of an adapter, a projector or an importance matrix; values are read where they are
asked for. `projector_view` gives the encoders of a projector, each with its type, the keys and tensors that the loader
needs for it (`schema.kinds.projector_table`), and the width of its result. What the file does not decide is None: nothing
is reported of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

from i2s_spec.errors import Span, TrustedText
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.schema import kinds
from i2s_spec.schema.faults import KEY_COUNT_SPAN
from i2s_spec.schema.kinds import ProjectorEncoder


class NamedTensor(NamedTuple):
    """A tensor: its row in the table, its dimensions in ggml's order (padded to four), how many, and its type's number."""

    row: int
    ne: tuple[int, ...]
    dims: int
    type: int


class OwnRecords:
    """The keys and tensors of a file by their names; the first of each."""

    def __init__(self, subject: LintContext) -> None:
        self.subject = subject
        self._decode = architecture_view(subject).keys.decoded
        index = subject.file.index
        self.places = index.key_places
        self.tensors: dict[str, NamedTensor] = {}
        for name, i in index.tensor_places.items():
            info = index.tensor(i)
            self.tensors[name] = NamedTensor(i, (*info.ne, 1, 1, 1, 1)[:4], len(info.ne), info.type)

    def label(self, name: str) -> str:
        """Return the type of a key that exists, in the usual notation."""
        return self.subject.file.index.key(self.places[name]).label

    def value(self, name: str, label: str | None = None) -> Any:
        """Return the value of a key; None if it is missing, too long, or of another type than `label`.

        Arrays of numbers are tuples; arrays of texts give None.
        """
        if name not in self.places or (label is not None and self.label(name) != label):
            return None
        return self._decode(self.places[name])

    def value_span(self, name: str) -> Span:
        """Return the bytes of a value, or of the number of keys if there is none."""
        if name not in self.places:
            return KEY_COUNT_SPAN
        return self.subject.file.index.key(self.places[name]).value_span

    def name_span(self, name: str) -> Span:
        """Return the bytes of a tensor's name."""
        return self.subject.name_span(self.tensors[name].row)

    def ne_span(self, name: str) -> Span:
        """Return the bytes of a tensor's dimensions."""
        return self.subject.info_span(self.tensors[name].row, "ne")

    def of_another_type(self, wanted: dict[str, str]) -> Iterator[tuple[str, Span, TrustedText, TrustedText]]:
        """Yield the keys that have another type than the wanted one: name, bytes of the type, its type, the wanted
        type.
        """
        for name, i in self.places.items():
            want = wanted.get(name)
            entry = self.subject.file.index.key(i)
            if want is not None and entry.label != want:
                yield name, entry.type_span, TrustedText(entry.label), TrustedText(want)


@analysis
def own_records(subject: LintContext) -> OwnRecords:
    """Return the keys and tensors of a file by their full names."""
    return OwnRecords(subject)


# --- projectors ------------------------------------------------------------------------------------------------------


class Needed:
    """A tensor that the loader requires: its name, and the number of its block if it belongs to one."""

    def __init__(self, name: str, block: int | None = None) -> None:
        self.name = name
        self.block = block


class EncoderView:
    """One encoder of a projector.

    `type` is the type that the loader takes for it, empty if no key names one; `key` the key that names it; `row` what the
    table says of the type, None for a type that the table does not know.
    """

    def __init__(self, encoder: ProjectorEncoder, records: OwnRecords) -> None:
        self.encoder = encoder
        self.records = records
        self.type, self.key = "", ""
        for key in ("clip.projector_type", f"{encoder.keys}.projector_type"):
            value = records.value(key, "str")
            if isinstance(value, str) and value:
                self.type, self.key = value, key
                break
        table = kinds.projector_table()["types"]
        row: dict[str, Any] | None = table.get(self.type)
        if row is not None and "replaced" in row:
            self.type = row["replaced"].get(encoder.name, self.type)
            row = table[self.type]
        self.row = row if row is None or "tensors" in row else None
        #: Whether the loader knows the name of the type and stops at it.
        self.is_refused = row is not None and "refused" in row

    def own(self, name: str) -> str:
        """Return a key of this encoder by the end of its name."""
        return f"{self.encoder.keys}.{name}"

    @cached_property
    def required(self) -> dict[str, str]:
        """The keys that the loader needs, with their types."""
        common = kinds.ENCODER_KEYS | kinds.ONE_ENCODER_KEYS[self.encoder.name]
        return {self.own(name): label for name, label in common.items()} | self._keys("keys")

    @cached_property
    def read(self) -> dict[str, str]:
        """The keys that the loader reads, with their types: those that it needs, and others."""
        optional = {self.own(name): label for name, label in kinds.ENCODER_OPTIONAL.items()}
        return kinds.PROJECTOR_OPTIONAL | optional | self._keys("optional") | self.required

    def _keys(self, part: str) -> dict[str, str]:
        """Return the keys of the type alone."""
        found: dict[str, str] = (self.row or {}).get(part, {})
        return found

    def number(self, key: str) -> int | None:
        """Return the value of a key that is a u32."""
        value = self.records.value(key, "u32")
        return value if isinstance(value, int) else None

    @property
    def blocks(self) -> int | None:
        """How many blocks the encoder has, by its key."""
        return self.number(self.own("block_count"))

    def _count(self, key: str) -> list[int] | None:
        """Return the numbers of a loop whose end a key gives; None if it does not."""
        key = key.replace("{m}", self.encoder.keys)
        if key.startswith("#"):
            items = self.records.value(key[1:])
            return list(range(len(items))) if isinstance(items, tuple) else []
        first = int(key.endswith("+1"))
        count = self.number(key.removesuffix("+1"))
        if count is None:
            return None
        count = min(
            count, len(self.records.tensors) + 1
        )  # more cannot all be there: the first that is missing is found
        return list(range(first, first + count))

    def needed(self) -> Iterator[Needed]:
        """Yield the tensors that the loader requires, in its order."""
        if self.row is None:
            return
        prefix, names = self.encoder.tensors, self.records.tensors
        if self.row.get("blocks", True):
            for i in self._count("{m}.block_count") or ():
                block = f"{prefix}.blk.{i}."
                experts = block + kinds.BLOCK_EXPERTS in names
                for name in kinds.BLOCK_TENSORS[: 1 if experts else None]:
                    yield Needed(block + name, i)
        for group in self.row["tensors"]:
            if "if" in group:
                key, value = group["if"]
                if key in self.records.places and self.number(key) != value:
                    continue
            loops = {letter: each if isinstance(each, list) else self._count(each)
                     for letter, each in group.get("for", {}).items()}  # fmt: skip
            if any(each is None for each in loops.values()):
                continue
            in_blocks = group.get("for", {}).get("i") == "{m}.block_count"
            for numbers in product(*(each or [] for each in loops.values())):
                at = dict(zip(loops, numbers, strict=True))
                for name in group["names"].split():
                    full = name.replace("{p}", prefix)
                    for letter, number in at.items():
                        full = full.replace("{" + letter + "}", str(number))
                    yield Needed(full, at["i"] if in_blocks else None)
        result = self.result
        if result is not None:
            yield Needed(result[0])

    @property
    def result(self) -> tuple[str, int] | None:
        """The tensor and its dimension that are the width of the result, which the loader asks for."""
        if self.type == "mlp" and "mm.3.weight" in self.records.tensors:  # the older form, with norms
            return "mm.3.bias", 0
        if self.row is None or "width" not in self.row:
            return None
        name, dimension = self.row["width"]
        return name.replace("{p}", self.encoder.tensors), dimension

    @property
    def width(self) -> int | None:
        """The width of the result: that of the text model's embedding."""
        tensors = self.records.tensors
        if self.type == "granite4_vision":  # one result for each layer that is taken
            layers, each = self._count("#clip.vision.feature_layer"), self.number(self.own("projection_dim"))
            return None if each is None or not layers else each * len(layers)
        if self.result is None or self.result[0] not in tensors:
            return None
        width = tensors[self.result[0]].ne[self.result[1]]
        if self.type == "qwen3vl_merger":  # and one more for each layer that is taken
            width *= 1 + sum(f"v.deepstack.{i}.fc1.weight" in tensors for i in self._count("{m}.block_count") or ())
        return width


class ProjectorView:
    """The encoders of a projector that the loader loads."""

    def __init__(self, subject: LintContext) -> None:
        self.records = own_records(subject)
        flags = [(each, self.records.value(each.flag, "bool")) for each in kinds.ENCODERS]
        self.encoders = [EncoderView(each, self.records) for each, flag in flags if flag is True]
        first = self.encoders[0] if self.encoders else None
        if first is not None and first.encoder.name == "vision" and first.type == kinds.WITHOUT_AUDIO:
            self.encoders = [each for each in self.encoders if each.encoder.name != "audio"]


@analysis
def projector_view(subject: LintContext) -> ProjectorView:
    """Return the encoders of a projector."""
    return ProjectorView(subject)
