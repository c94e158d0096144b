"""Keys and tensors of a file that is no model, by their full names: adapters, projectors, importance matrices.

`own_records` gives the `OwnRecords` of a file. Values are read where they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from i2s_spec.errors import Span, TrustedText
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.schema.faults import KEY_COUNT_SPAN


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
