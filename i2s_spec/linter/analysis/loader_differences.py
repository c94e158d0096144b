"""How a file differs from what llama.cpp's loader asks of its architecture: each difference once, for rules and runtimes.

`schema.llama_cpp` has the demands of all architectures; here they are held against one file. Declarations of forks
(`schema.architectures`) are laid over them: a tensor that a declared architecture has is not unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from math import prod
from typing import Any, Final, NamedTuple

from i2s_spec.errors import Span, counted, quote
from i2s_spec.gguf.header import Metadata
from i2s_spec.linter.analysis.architecture_view import ArchitectureView, Row, layer_of, stripped
from i2s_spec.schema import llama_cpp
from i2s_spec.schema.expressions import UnknownValue, compiled
from i2s_spec.schema.keys import GENERAL, READ_BY_LOADERS, TOKENIZER, TOKENIZER_MODEL
from i2s_spec.schema.llama_cpp import (
    Demands,
    KeyContents,
    KeyRow,
    LoaderArchitecture,
    LoaderCondition,
    Table,
    takes,
    types_taken,
)

#: Operations of ggml that take F32 only on one side; and those whose weights may have any type but a few.
_FLOAT_ONLY: Final = frozenset({"MUL", "ADD", "ROPE", "SSM_CONV", "SCALE"})
_NOT_IN: Final = {
    "MUL_MAT": frozenset({"F64", "I8", "I16", "I32", "I64", "Q8_1", "Q8_K"}),
    "MUL_MAT_ID": frozenset({"F64", "I8", "I16", "I32", "I64", "Q8_1", "Q8_K"}),
    "GET_ROWS": frozenset({"F64", "I8", "I16", "I64", "Q8_1", "Q8_K"}),
}  # fmt: skip

#: Tables of vectors, whose rows are looked up; tables of numbers may be I32.
_EMBEDDING: Final = re.compile(r"(?:token_embd|position_embd|token_types|embed_tokens)\.weight\Z")


class WrongKey(NamedTuple):
    """A key that the loader refuses: its row in the file, what it holds, and what the loader takes."""

    i: int
    name: str
    got: str
    want: str


class WrongLength(NamedTuple):
    """An array of another length than the loader takes."""

    i: int
    name: str
    got: int
    want: int


class Contradiction(NamedTuple):
    """A condition on the metadata that does not hold: in words, the keys in it, and whether it is checked only at the first
    token."""

    words: str
    keys: tuple[str, ...]
    at_first_token: bool


class Missing(NamedTuple):
    """A tensor that the loader requires, with its shape if that is known, and the layer of its name."""

    name: str
    ne: tuple[int, ...] | None
    layer: int | None


class WrongShape(NamedTuple):
    """A tensor of another shape than the loader takes; `by_vocabulary` says that it depends on the number of tokens."""

    i: int
    name: str
    got: tuple[int, ...]
    want: tuple[tuple[int, ...], ...]
    by_vocabulary: bool


class WrongType(NamedTuple):
    """A tensor whose type ggml's operation for it does not take."""

    i: int
    name: str
    got: str
    operation: str
    want: str


class _Contents:
    """What the demands are evaluated on: keys and tensors of a file."""

    def __init__(self, known: ArchitectureView) -> None:
        self._known = known
        self._metadata = known.file.metadata
        self._values: dict[str, KeyContents | None] = {}
        self.tokens = known.tokens

    def value(self, key: str) -> KeyContents | None:
        if key not in self._values:
            self._values[key] = self._read(key)
        return self._values[key]

    def _read(self, key: str) -> KeyContents | None:
        if key not in self._metadata:
            return None
        entry = self._metadata.entry(key)
        value: Any = None
        if not entry.label.startswith(("arr[str]", "arr[arr")):
            value = self._known.keys.decoded(entry.index)
        return KeyContents(entry.label, entry.count, value)

    def ne(self, tensor: str) -> tuple[int, ...] | None:
        row = self._known.present.get(tensor)
        return None if row is None else row.ne


class LoaderView:
    """One file against the demands of llama.cpp's loader on its architecture."""

    def __init__(self, known: ArchitectureView, architecture: LoaderArchitecture, table: Table) -> None:
        self.table = table
        self.architecture = architecture
        self.known = known
        self._contents = _Contents(known)
        self._demands = Demands(architecture, self._contents, known.tokenizer or None)
        self._demands.unusable.update(each.name for each in self.wrong_keys)
        self._demands.unusable.update(each.name for each in self.wrong_lengths)

    # --- keys ---

    @cached_property
    def keys(self) -> dict[str, KeyRow]:
        """The keys that the loader reads, by name."""
        return {key.name: key for key in self._demands.keys_read()}

    @cached_property
    def missing_keys(self) -> list[str]:
        """Required keys that the file does not have."""
        return [
            key.name
            for key in self.keys.values()
            if self._contents.value(key.name) is None
            and (required := self._demands.evaluate(key.required)) is not UnknownValue
            and required
        ]

    @cached_property
    def wrong_keys(self) -> list[WrongKey]:
        """Keys whose type the loader does not take."""
        found = []
        for key in self.keys.values():
            value = self._contents.value(key.name)
            if value is not None and not takes(key, value):
                entry = self.known.file.metadata.entry(key.name)
                found.append(WrongKey(entry.index, key.name, value.label, " or ".join(types_taken(key))))
        return found

    @cached_property
    def wrong_lengths(self) -> list[WrongLength]:
        """Arrays whose length is not the one that the loader takes."""
        found = []
        for key in self.keys.values():
            value = self._contents.value(key.name)
            if value is None or key.length is None or not value.label.startswith("arr") or not takes(key, value):
                continue
            want = self._demands.evaluate(key.length)
            if want is not UnknownValue and value.length != want:
                entry = self.known.file.metadata.entry(key.name)
                found.append(WrongLength(entry.index, key.name, value.length, int(want)))
        return found

    def number(self, key: str) -> Any:
        """Return the value of a key that is no array; None if there is none, or it is not looked at."""
        value = self._contents.value(key)
        return None if value is None or value.label.startswith("arr") else value.value

    @cached_property
    def contradictions(self) -> list[Contradiction]:
        """Conditions on the metadata that do not hold: those of the loader, and two of the graph that it builds."""
        found = [
            Contradiction(*self._words(each), at_first_token=each.at_first_token) for each in self._demands.broken()
        ]
        return [*found, *self._of_graph()]

    def _words(self, condition: LoaderCondition) -> tuple[str, tuple[str, ...]]:
        words = llama_cpp.in_words(condition.holds.text)
        keys = dict.fromkeys(re.findall(r"'~([\w.]+)'", f"{condition.holds.text} {condition.guard.text}"))
        return words, tuple(f"{self.architecture.name}.{key}" for key in keys)

    def _of_graph(self) -> Iterator[Contradiction]:
        """Yield the broken conditions of the graph, for the tensors whose shape the loader takes."""
        sizes = ("rope.dimension_count", "attention.key_length", "attention.head_count", "embedding_length")
        keys = tuple(f"{self.architecture.name}.{name}" for name in sizes)
        misshapen = {each.name for each in self.wrong_shapes}
        shapes = ((row.name, row.ne) for row in self.known.rows if row.name not in misshapen)
        for words in self._demands.broken_in_graph(shapes):
            yield Contradiction(words, keys, at_first_token=True)

    # --- tensors ---

    @cached_property
    def _compared(self) -> tuple[list[Missing], list[Row], list[WrongShape]]:
        missing: list[Missing] = []
        shapes: list[WrongShape] = []
        taken: set[str] = set()
        there, demands = self.known.present, self._demands
        for demand in demands.tensors():
            at = there.get(demand.name)
            if at is None:
                flags = demands.flags(demand) if demand.certain else None
                if flags is not None and not flags & llama_cpp.OPTIONAL:
                    ne = next(iter(demands.shapes(demand)), None)
                    missing.append(Missing(demand.name, ne, layer_of(demand.name)))
                continue
            taken.add(demand.name)
            flags = demands.flags(demand) if demand.certain else None
            wanted = demands.shapes(demand) if flags is not None else []
            if wanted and flags is not None:
                self.shapes_known.add(demand.name)
                if not any(_fits(at.ne, each, flags) for each in wanted):
                    by_vocabulary = "n_vocab" in demand.row.shapes.names and len(at.ne) == len(wanted[0])
                    shapes.append(WrongShape(at.i, demand.name, at.ne, tuple(wanted), by_vocabulary))
        rest = [row for name, row in there.items() if name not in taken]
        patterns = demands.uncertain_names if rest else []
        unknown = [row for row in rest if not self._taken_elsewhere(row, patterns, shapes)]
        named: dict[str, Missing] = {}
        for each in missing:  # rows that exclude each other may ask for the same tensor
            named.setdefault(each.name, each)
        return list(named.values()), unknown, list({each.name: each for each in shapes}.values())

    def _taken_elsewhere(self, row: Row, patterns: list[re.Pattern[str]], shapes: list[WrongShape]) -> bool:
        """Whether a name is taken although no row asks for it: scales of weights, rows that are not resolved, and what forks
        that are declared have."""
        if any(pattern.fullmatch(row.name) for pattern in patterns):
            return True
        scale = self.table.scale_of(row.name)
        if scale is not None and f"{scale[0]}.weight" in self.known.present:
            want = self._demands.evaluate(compiled(scale[1]))
            if want is not UnknownValue and not _fits(row.ne, (int(want),), 0):
                shapes.append(WrongShape(row.i, row.name, row.ne, ((int(want),),), False))
            return True
        return self.known.declares(row)

    @cached_property
    def shapes_known(self) -> set[str]:
        """Names of the tensors whose shape was compared; complete once `wrong_shapes` was asked for."""
        return set()

    @property
    def missing(self) -> list[Missing]:
        """Required tensors that the file does not have."""
        return self._compared[0]

    @property
    def unknown(self) -> list[Row]:
        """The tensors that neither the loader nor a declared fork knows in this architecture."""
        return self._compared[1]

    @property
    def wrong_shapes(self) -> list[WrongShape]:
        """Tensors of another shape than the loader takes."""
        return self._compared[2]

    @cached_property
    def wrong_types(self) -> list[WrongType]:
        """Tensors whose type the operation that uses them does not take."""
        return list(self._wrong_types())

    def _wrong_types(self) -> Iterator[WrongType]:
        for row in self.known.rows:
            kind, name = row.type, row.name
            if not kind or kind == "F32":
                continue
            used = self.table.operation(name)
            if used in _FLOAT_ONLY:
                yield WrongType(row.i, name, kind, used, "F32")
            elif used is not None and (kind in _NOT_IN.get(used, ()) or (kind == "I32" and _EMBEDDING.search(name))):
                yield WrongType(row.i, name, kind, used, "floats or a quantized type of weights")

    # --- what stops the loader ---

    @cached_property
    def vocabulary_faults(self) -> list[tuple[str, str]]:
        """What is wrong with the vocabulary's keys, as the loader says it: the key, and why."""
        keys, table = self.known.keys, self.table
        found = []
        for key in (*GENERAL, *TOKENIZER):
            if (
                key.name not in keys.places
                or key.name == "general.alignment"
                or not READ_BY_LOADERS.intersection(key.readers)
            ):
                continue
            label = keys.entry(key.name).label
            if label not in (*key.types, *key.tolerated):
                found.append((key.name, f"is {label}, and {' or '.join(key.types)} is needed"))
        model, pre = self.known.tokenizer, keys.value("tokenizer.ggml.pre")
        if model and model not in table.tokenizers:
            return [*found, (TOKENIZER_MODEL, f"is {quote(model, 40)}: unknown tokenizer")]
        found += [(name, "is missing") for name in table.vocabulary_keys(model, pre) if name not in keys.places]
        if model in table.with_merges and isinstance(pre, str) and pre and pre not in table.pre_tokenizers:
            found.append(("tokenizer.ggml.pre", f"is {quote(pre, 40)}: unknown pre-tokenizer type"))
        return found

    def refusal(self) -> tuple[str, Span | None, bool] | None:
        """Return why the loader refuses the file, by its first such check: in words, where, and whether it only stops at the
        first token; None if nothing stops it."""
        return next(self._refusals(), None)

    def _refusals(self) -> Iterator[tuple[str, Span | None, bool]]:
        metadata, index = self.known.file.metadata, self.known.file.index
        for name in self.missing_keys:
            yield f"key not found in model: {name}", None, False
        for wrong in self.wrong_keys:
            yield (
                f"key {wrong.name} has type {wrong.got}, and {wrong.want} is needed",
                index.key(wrong.i).type_span,
                False,
            )
        for length in self.wrong_lengths:
            words = f"key {length.name} has {counted(length.got, 'element')}, and {length.want:,} are needed"
            yield words, index.key(length.i).value_span, False
        for each in self.contradictions:
            if not each.at_first_token:
                yield f"{each.words} does not hold", _first_span(metadata, each.keys), False
        for name, why in self.vocabulary_faults:
            yield f"the loader stops at the vocabulary: {name} {why}", _first_span(metadata, (name,)), False
        for missing in self.missing:
            yield f"tensor {quote(missing.name, 64)} is not found", None, False
        for shape in self.wrong_shapes:
            got, want = (", ".join(map(str, ne)) for ne in (shape.got, shape.want[0]))
            words = f"tensor {quote(shape.name, 64)} has wrong shape; expected {want}, got {got}"
            yield words, index.tensor(shape.i).ne_span if shape.i >= 0 else None, False
        for row in self.unknown:
            words = f"wrong number of tensors: it does not know {quote(row.name, 64)}"
            yield words, index.tensor(row.i).name_span if row.i >= 0 else None, False
        for kind in self.wrong_types:
            words = f"tensor {quote(kind.name, 64)} is {kind.got}, which ggml's {kind.operation} does not take"
            yield words, index.tensor(kind.i).type_span if kind.i >= 0 else None, True
        for each in self.contradictions:
            if each.at_first_token:
                yield f"{each.words} does not hold", _first_span(metadata, each.keys), True


def _first_span(metadata: Metadata, keys: Iterable[str]) -> Span | None:
    """Return the value of the first of some keys that the file has."""
    return next((metadata.entry(key).value_span for key in keys if key in metadata), None)


def _fits(got: tuple[int, ...], want: tuple[int, ...], flags: int) -> bool:
    """Whether a shape is taken for another; trailing dimensions of 1 do not count."""
    if flags & llama_cpp.ELEMENTS_ONLY:
        return prod(got) == prod(want)
    return stripped(got) == stripped(want)
