"""This module defines what is known of an open file: its header's index, and the source that holds the rest.

One pass of the scanner notes where every key-value and every tensor info lies. `HeaderIndex` gives them by number, as
records whose fields have names and spans, and by name. The key-values and tensors of a file hold it in place of the file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import groupby

from i2s_spec.errors import FormatError
from i2s_spec.gguf import _scanner
from i2s_spec.gguf._scanner import KeyValue, TensorInfo
from i2s_spec.gguf.source import Source
from i2s_spec.schema.checks import ByteOrder

__all__ = ["HeaderIndex", "KeyValue", "TensorInfo"]


class HeaderIndex:
    """The header of a file, and the source that its other bytes come from.

    `keys` and `tensors` are how many could be indexed; `key_count` and `tensor_count` how many the header says there are.
    `fault` is what stopped the scanner: what lies before it is sound.
    """

    def __init__(self, source: Source) -> None:
        notes = _scanner.scan(source)
        self.source = source
        self.fault: FormatError | None = notes.fault
        self.byte_order: ByteOrder = notes.byte_order or "little"
        self.version: int | None = notes.version
        self.keys: int = notes.keys
        self.tensors: int = notes.tensors
        self.key_count: int | None = notes.key_count
        self.tensor_count: int | None = notes.tensor_count
        #: Bytes that tensors are aligned to; None where the header gives no usable value.
        self.alignment: int | None = notes.alignment
        #: Which key-value gives the alignment.
        self.alignment_key: int | None = notes.alignment_key
        #: End of the last tensor info.
        self.infos_end: int | None = notes.infos_end
        #: First byte of the data section; None where the header does not say. The linter moves it where the header errs.
        self.data_start: int | None = notes.data_start
        #: Key-value `i`, from 0.
        self.key: Callable[[int], KeyValue] = notes.key
        #: Tensor info `i`, from 0.
        self.tensor: Callable[[int], TensorInfo] = notes.tensor
        #: What the scanner finds in its notes without making records: see `_scanner`.
        self.keys_of = notes.keys_of
        self.keys_named = notes.keys_named
        self.odd_keys = notes.odd_keys
        self.odd_tensors = notes.odd_tensors
        self.all_differ = notes.all_differ

    @cached_property
    def key_places(self) -> dict[str, int]:
        """The number of each key; of one that occurs twice, the first."""
        places: dict[str, int] = {}
        for i in range(self.keys):
            places.setdefault(self.key(i).key, i)
        return places

    @cached_property
    def tensor_places(self) -> dict[str, int]:
        """The number of each tensor's name; of one that occurs twice, the first."""
        places: dict[str, int] = {}
        for i in range(self.tensors):
            places.setdefault(self.tensor(i).name.decode("utf-8", "surrogateescape"), i)
        return places

    @cached_property
    def _starts(self) -> Sequence[int]:
        """Where tensors begin, sorted, without repetition, and where the data section ends."""
        end = self.source.size - (self.data_start or 0)
        starts = sorted([max(end, 0), *(self.tensor(i).offset for i in range(self.tensors))])
        return array("Q", (start for start, _ in groupby(starts)))

    def extent(self, offset: int) -> tuple[int, int | None]:
        """Where an offset stands among the distinct offsets of tensors, and the bytes up to the next of them or to the
        end of the file; None after the end."""
        starts = self._starts
        after = bisect_right(starts, offset)
        return after, starts[after] - offset if after < len(starts) else None

    def extents(self) -> Iterator[tuple[int, int | None]]:
        """What `extent` says of the offset of every tensor, in the order of the table."""
        starts, after = self._starts, 0
        for i in range(self.tensors):
            offset = self.tensor(i).offset
            if after < len(starts) and starts[after] == offset:  # most begin where the extent of the one before ends
                after += 1
            else:
                after = bisect_right(starts, offset)
            yield after, starts[after] - offset if after < len(starts) else None
