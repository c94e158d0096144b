"""This module compares the keys of a file with the declared ones: which exist, and their values."""

from functools import cached_property
from typing import Any, Final

from i2s_spec.codec.buffers import numbers
from i2s_spec.errors import Span
from i2s_spec.gguf.reader import File
from i2s_spec.schema.architectures import keys
from i2s_spec.schema.architectures.architecture import Architecture
from i2s_spec.schema.architectures.keys import MAX_LAYERS, Key
from i2s_spec.schema.types import VALUE_FORMATS, ValueType

#: Longest text value that rules examine, and most elements of an array of numbers.
TEXT_BYTES: Final = 1 << 16
NUMBERS: Final = 4 * MAX_LAYERS


class DeclaredKeys:
    """The keys of one file with the declarations of an architecture.

    :param prefix: the value of general.architecture, declared or not; empty if the file has none
    :param architecture: its declaration, if there is one
    """

    def __init__(self, file: File, prefix: str, architecture: Architecture | None) -> None:
        self.file = file
        self.prefix = prefix
        self.architecture = architecture

    @cached_property
    def declared(self) -> dict[str, Key]:
        """The declared keys by name; for an architecture that is not declared, the keys that all share."""
        if self.architecture is not None:
            return dict(self.architecture.keys)
        return {key.name: key for key in (*keys.GENERAL, *keys.TOKENIZER)}

    @cached_property
    def places(self) -> dict[str, int]:
        """The rows of the declared keys, the first of each; and of the keys about split files."""
        wanted = {name.encode(): name for name in (*self.declared, "split.no", "split.count")}
        places: dict[str, int] = {}
        index = self.file.index
        for i in index.keys_named(wanted):
            places.setdefault(wanted[index.key(i).name], i)
        return places

    def label(self, i: int) -> str:
        """The type of a value in the usual notation."""
        return self.file.index.key(i).label

    def has(self, name: str) -> bool:
        """Whether a declared key exists with an allowed type."""
        i = self.places.get(name)
        key = self.declared.get(name)
        return i is not None and (key is None or self.label(i) in key.types)

    @cached_property
    def _values(self) -> dict[str, Any]:
        return {}

    def value(self, name: str) -> Any:
        """The value of a declared key; None if it is missing, has a wrong type, or is too long to be examined.

        Arrays of numbers are tuples; arrays of strings give None.
        """
        if name not in self._values:
            self._values[name] = self.decoded(self.places[name]) if self.has(name) else None
        return self._values[name]

    def own(self, suffix: str) -> Any:
        """The value of a key of the architecture, by its name without the prefix."""
        return self.value(f"{self.prefix}.{suffix}")

    def decoded(self, i: int) -> Any:
        """The value of a key by its row, as `value` gives it, whether or not it is declared."""
        entry = self.file.index.key(i)
        element, count, start = entry.element, entry.count, entry.value_start
        if entry.type == ValueType.STRING and count > TEXT_BYTES:
            return None
        if entry.type != ValueType.ARRAY:
            return self.file.metadata.decode(entry)
        if element not in VALUE_FORMATS or count > NUMBERS:
            return None
        data = self.file.source.read(start, entry.stop - start)
        return tuple(numbers(VALUE_FORMATS[element], data, self.file.byte_order))

    def value_span(self, name: str) -> Span:
        """The bytes of a value."""
        return self.file.metadata.by_index(self.places[name]).value_span

    def count(self, name: str) -> int | None:
        """The number of elements of an array; None if it is missing or has a wrong type."""
        return self.file.index.key(self.places[name]).count if self.has(name) else None
