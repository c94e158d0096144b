"""This module holds the keys of a file against those that are declared: which are there, and what their values are."""

import struct
from functools import cached_property
from typing import Any, Final

from i2s_spec.errors import Span
from i2s_spec.linter.subject import Subject
from i2s_spec.schema import keys
from i2s_spec.schema.architecture import ARCHITECTURES, Architecture
from i2s_spec.schema.keys import MAX_LAYERS, Key
from i2s_spec.schema.types import VALUE_FORMATS, ValueType

#: Longest text of a value that rules look at, and most elements of an array of numbers.
TEXT_BYTES: Final = 1 << 16
NUMBERS: Final = 4 * MAX_LAYERS


class DeclaredKeys:
    """The keys of one file beside the declarations of the architecture that it names."""

    def __init__(self, subject: Subject) -> None:
        self.file = subject.file
        self.has_uncounted = subject.uncounted is not None
        self.name = subject.architecture
        self.architecture: Architecture | None = ARCHITECTURES.get(self.name)

    @cached_property
    def keys(self) -> dict[str, Key]:
        """The declared keys by name; of a file of another architecture, those that all share."""
        if self.architecture is not None:
            return dict(self.architecture.keys)
        return {key.name: key for key in (*keys.GENERAL, *keys.TOKENIZER)}

    @cached_property
    def places(self) -> dict[str, int]:
        """Where the declared keys stand, the first of each; and the keys by which parts of files are told."""
        wanted = {name.encode(): name for name in (*self.keys, "split.no", "split.count")}
        places: dict[str, int] = {}
        index = self.file.index
        for i in range(index.keys):
            name = wanted.get(index.key(i)[1])
            if name is not None:
                places.setdefault(name, i)
        return places

    def label(self, i: int) -> str:
        """The type of a value as people write it."""
        _, _, kind, element, *_ = self.file.index.key(i)
        label = ValueType(kind).label
        return f"{label}[{ValueType(element).label}]" if kind == ValueType.ARRAY else label

    def has(self, name: str) -> bool:
        """Whether a declared key is there with a type that it may have."""
        i = self.places.get(name)
        key = self.keys.get(name)
        return i is not None and (key is None or self.label(i) in key.types)

    @cached_property
    def _values(self) -> dict[str, Any]:
        return {}

    def value(self, name: str) -> Any:
        """The value of a declared key; None where it is missing, of a wrong type, or too long to be looked at.

        Arrays of numbers come as tuples, arrays of strings not at all.
        """
        if name not in self._values:
            self._values[name] = self.decoded(self.places[name]) if self.has(name) else None
        return self._values[name]

    def own(self, suffix: str) -> Any:
        """The value of a key of the architecture, by its name without the prefix."""
        return self.value(f"{self.name}.{suffix}")

    def decoded(self, i: int) -> Any:
        """The value of a key by its place, as `value` gives it, whether or not it is declared."""
        _, _, kind, element, count, start, stop = self.file.index.key(i)
        if kind == ValueType.STRING and count > TEXT_BYTES:
            return None
        if kind != ValueType.ARRAY:
            return self.file.metadata.decode(self.file.metadata.row(i))
        if element not in VALUE_FORMATS or count > NUMBERS:
            return None
        mark = "<" if self.file.byte_order == "little" else ">"
        return struct.unpack(f"{mark}{count}{VALUE_FORMATS[element]}", self.file.source.read(start, stop - start))

    def value_span(self, name: str) -> Span:
        """The bytes of a value."""
        return self.file.metadata.row(self.places[name]).value_span

    def count(self, name: str) -> int | None:
        """How many elements an array has; None where it is missing or of a wrong type."""
        return self.file.index.key(self.places[name])[4] if self.has(name) else None
