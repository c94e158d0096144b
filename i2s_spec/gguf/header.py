"""What is known of an open file: its header's index, the source that holds the rest, and the key-values.

One pass of the scanner notes where every key-value and every tensor info lies. `HeaderIndex` gives them by number, as
records whose fields have names and spans, and by name. `Metadata`, the key-values by name, and `tensor.Tensors` hold it
in place of the file.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, islice
from typing import Any

from i2s_spec.codec.buffers import numbers
from i2s_spec.errors import FormatError, Span, TrustedText, counted
from i2s_spec.gguf import _scanner
from i2s_spec.gguf._scanner import KeyValue, TensorInfo
from i2s_spec.gguf.source import Source
from i2s_spec.schema import faults, limits, types
from i2s_spec.schema.faults import ByteOrder, order_prefix
from i2s_spec.schema.types import ValueType, padded

__all__ = ["HeaderIndex", "KeyValue", "TensorInfo"]


class HeaderIndex:
    """The header of a file, and the source that its other bytes come from.

    `keys` and `tensors` are how many could be indexed; `key_count` and `tensor_count` how many the header says there are.
    `fault` is what stopped the scanner: what lies before it is sound. `passed` are faults that did not stop it: strict
    readers refuse the file for each, others read it.
    """

    def __init__(self, source: Source) -> None:
        notes = _scanner.scan(source)
        self.source = source
        self.fault: FormatError | None = notes.fault
        self.passed: tuple[FormatError, ...] = tuple(notes.passed)
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
        self._data_start: int | None = notes.data_start
        #: Called before `data_start` is used for the first time, to set it where the header errs.
        self.locate: Callable[[], object] | None = None
        #: What `type_numbers.number_reading` found, by number and start of the data section.
        self.number_readings: dict[tuple[int, int | None], Any] = {}
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
        if self.fault is not None and self.infos_end is not None:
            self._find_alignment(self.fault)

    @property
    def data_start(self) -> int | None:
        """First byte of the data section: where its contents show it if the header errs; None where nothing says."""
        if self.locate is not None:
            locate, self.locate = self.locate, None
            locate()
        return self._data_start

    @data_start.setter
    def data_start(self, start: int | None) -> None:
        self._data_start = start
        vars(self).pop("_starts", None)

    def _find_alignment(self, fault: FormatError) -> None:
        """Go on behind an impossible `general.alignment` where the offsets show what to read with."""
        assert self.alignment_key is not None
        assert self.infos_end is not None
        entry = self.key(self.alignment_key)
        value = Metadata(self).decode(entry) if entry.type != ValueType.ARRAY else None
        self.alignment = _alignment_of_offsets(self, value)
        if self.alignment is not None:
            self.data_start = faults.data_start(self.infos_end, self.alignment)
            self.fault, self.passed = None, (*self.passed, fault)

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
        """Yield the `extent` of every tensor, in the order of the table."""
        starts, after = self._starts, 0
        for i in range(self.tensors):
            offset = self.tensor(i).offset
            if after < len(starts) and starts[after] == offset:  # most begin where the extent of the one before ends
                after += 1
            else:
                after = bisect_right(starts, offset)
            yield after, starts[after] - offset if after < len(starts) else None


# --- metadata --------------------------------------------------------------------------------------------------------
# Where each key-value is, and its value, decoded when it is asked for.


class Metadata(Mapping[str, Any]):
    """The key-values of a file; values are decoded on access.

    Numbers come as `int`, `float` or `bool`, strings as `str` (bytes that are not UTF-8 as surrogate escapes), arrays of
    numbers as NumPy arrays, arrays of strings or booleans and nested arrays as lists.
    """

    def __init__(self, index: HeaderIndex) -> None:
        self._index = index

    def by_index(self, i: int) -> KeyValue:
        """Key-value `i` of the file, whether or not its key occurs twice."""
        return self._index.key(i)

    @property
    def rows(self) -> Iterator[KeyValue]:
        """Every key-value of the file, in order."""
        return map(self._index.key, range(self._index.keys))

    def entry(self, key: str) -> KeyValue:
        """Where and what the value of `key` is, without decoding it."""
        return self._index.key(self._index.key_places[key])

    def decode(self, entry: KeyValue, limit: int | None = None) -> Any:
        """Return the value of one entry; of an array of fixed-size elements at most the first `limit`."""
        source, order = self._index.source, self._index.byte_order
        start, stop = entry.value_start, entry.stop
        if entry.type == ValueType.STRING:
            return source.read(start, stop - start).decode("utf-8", "surrogateescape")
        if entry.type != ValueType.ARRAY:
            return _scalar(entry.type, source.read(start, stop - start), order)
        if not entry.count and entry.element not in _NUMPY_VALUES:
            return _empty(entry.element)
        if entry.element == ValueType.STRING:
            return _scanner.strings(source.read(start, stop - start), entry.count, order == "big")
        if entry.element == ValueType.ARRAY:
            return _nested(source.read(start, stop - start), entry.count, order)
        count = entry.count if limit is None else min(limit, entry.count)
        width = types.SMALLEST_VALUE[entry.element]
        data = source.read(start, count * width)
        if entry.element == ValueType.BOOL:
            return [byte != 0 for byte in data]
        import numpy as np

        array = np.frombuffer(data, dtype=order_prefix(order) + _NUMPY_VALUES[entry.element])
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def __getitem__(self, key: str) -> Any:
        place = self._index.key_places.get(key)
        if place is None:
            from i2s_spec.errors import MissingName

            raise MissingName("key", key, self)
        return self.decode(self._index.key(place))

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or `default` where the file does not have it."""
        place = self._index.key_places.get(key)
        return default if place is None else self.decode(self._index.key(place))

    def short(self, key: str) -> Any:
        """Return the value of a key that is a number or a short text; None for all else, and where the file does not
        have it.
        """
        if key not in self:
            return None
        entry = self.entry(key)
        return None if entry.type == ValueType.ARRAY or entry.count > _LONGEST_PREVIEW else self.decode(entry)

    def __iter__(self) -> Iterator[str]:
        return iter(self._index.key_places)

    def __len__(self) -> int:
        return len(self._index.key_places)

    def __contains__(self, key: object) -> bool:
        return key in self._index.key_places

    def __repr__(self) -> str:
        return f"<Metadata: {counted(self._index.keys, 'key')}>"

    def _repr_html_(self) -> str:
        """Return the first keys for a notebook: type, and the value of numbers and short texts."""
        from i2s_spec.errors import ROWS, table

        rows = ((entry.name, entry.label, self.preview(entry)) for entry in islice(self.rows, ROWS))
        return table(counted(self._index.keys, "key"), (), ("key", "type", "value"), rows, self._index.keys)

    def preview(self, entry: KeyValue) -> Any:
        """Return the value of an entry, or how large it is where it is an array or a long text."""
        if entry.type == ValueType.ARRAY:
            return counted(entry.count, "element")
        length = entry.stop - entry.value_start
        return self.decode(entry) if length <= _LONGEST_PREVIEW else counted(length, "byte")


#: Bytes of a text that a preview decodes.
_LONGEST_PREVIEW = 4096

_NUMPY_VALUES = {0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 10: "u8", 11: "i8", 12: "f8"}


class StoredInt(int):
    """An integer of a file whose type is not the one that a writer gives to such a number by itself: u8, i32, u64 ..."""

    stored_as: tuple[ValueType, ...]


class StoredFloat(float):
    """The same for f64."""

    stored_as: tuple[ValueType, ...]


class StoredList(list[Any]):
    """An empty array of a file, which does not show what it could hold."""

    stored_as: tuple[ValueType, ...]


def _scalar(kind: int, data: bytes, order: ByteOrder) -> int | float | bool:
    value: int | float = numbers(types.VALUE_FORMATS[kind], data, order)[0]
    if kind == ValueType.BOOL:
        return value != 0
    if kind in (ValueType.UINT32, ValueType.FLOAT32):
        return value
    found = StoredFloat(value) if kind == ValueType.FLOAT64 else StoredInt(value)
    found.stored_as = (ValueType(kind),)
    return found


def _empty(element: int) -> list[Any]:
    found = StoredList()
    found.stored_as = (ValueType.ARRAY, ValueType(element))
    return found


def _nested(data: bytes, count: int, order: ByteOrder) -> list[Any]:
    """Return the elements of an array of arrays, as deep as the scanner lets them nest; it has seen that they fill
    the bytes.
    """
    prefix = order_prefix(order)
    at = 0

    def array(kind: int, count: int, depth: int) -> list[Any]:
        nonlocal at
        items: list[Any] = [] if count else _empty(kind)
        for _ in range(count):
            if kind == ValueType.ARRAY and depth < limits.MAX_ARRAY_DEPTH:
                inner, inner_count = struct.unpack_from(prefix + "IQ", data, at)
                at += 12
                items.append(array(inner, inner_count, depth + 1))
            elif kind == ValueType.STRING:
                (length,) = struct.unpack_from(prefix + "Q", data, at)
                items.append(data[at + 8 : at + 8 + length].decode("utf-8", "surrogateescape"))
                at += 8 + length
            elif kind in types.VALUE_FORMATS:
                width = types.SMALLEST_VALUE[kind]
                if at + width > len(data):
                    raise _changed()
                items.append(_scalar(kind, data[at : at + width], order))
                at += width
            else:
                raise _changed()
        return items

    try:
        items = array(ValueType.ARRAY, count, 1)
    except struct.error as error:
        raise _changed() from error
    if at != len(data):
        raise _changed()
    return items


def _changed() -> FormatError:
    return FormatError(faults.CHANGED, Span(0, 0), reason=TrustedText("a nested array no longer fills its bytes"))


# --- an impossible alignment -----------------------------------------------------------------------------------------
# Such a header says nothing of where tensors lie; their offsets and the end of the file may.


def _alignment_of_offsets(index: HeaderIndex, value: object) -> int | None:
    """Return the alignment to read a file with whose `general.alignment` is unusable; None where its offsets
    contradict it.

    Programs that do not refuse such a file take the value, if it is a power of two of another integer type, or 32.

    :param value: what the key holds, of whatever type
    """
    stated = value if isinstance(value, int) and not isinstance(value, bool) else 0
    usable = 8 <= stated <= limits.MAX_ALIGNMENT and stated & (stated - 1) == 0
    steps = dict.fromkeys((*((stated,) if usable else ()), limits.DEFAULT_ALIGNMENT))
    best = max(steps, key=lambda step: _agreement(index, step, step))
    agreement = _agreement(index, best, best)
    if not usable and stated > 0:
        agreement *= max(_agreement(index, step, stated) for step in (stated, best)) <= agreement
    return best if agreement else None


def _agreement(index: HeaderIndex, step: int, before: int) -> int:
    """Rate an alignment of offsets, together with one of the start of the data: 2 if offsets and the end of the file
    follow from them, 1 if the offsets are multiples of the first, else 0."""
    expected = end = 0
    exact = True
    for info in map(index.tensor, range(index.tensors)):
        if info.offset % step:
            return 0
        size = _size(info.type, info.ne)
        exact = exact and size is not None and info.offset == expected
        if exact and size is not None:
            end = info.offset + size
            expected = padded(end, step)
    assert index.infos_end is not None
    start = padded(index.infos_end, before)
    return 2 if exact and index.source.size in (start + end, start + expected) else 1


def _size(number: int, ne: tuple[int, ...]) -> int | None:
    """Bytes of a tensor whose number has one meaning; None where that or its shape does not tell."""
    readings = types.READINGS.get(number, ())
    if len(readings) != 1 or not ne or ne[0] % readings[0].block:
        return None
    return readings[0].nbytes(ne)
