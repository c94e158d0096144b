"""This module walks records of the container field by field, and can stop early in long arrays and texts.

The schema's own parser reads a whole file; a walk reads only the bytes that it shows, and skips the rest. It yields
`FieldNode`s in the order of the file: one at the start of each record and array (its value is an `Opened`), and one for
each field in it. Each skipped part is one node, too (`Elided`), so that every byte is in exactly one leaf.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from sys import maxsize
from typing import Final, NamedTuple

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.schema import faults, gguf, limits
from i2s_spec.schema.checks import ByteOrder, order_prefix
from i2s_spec.schema.field import Field, FieldNode, ParseState, RecordStruct, Word
from i2s_spec.schema.types import SMALLEST_VALUE, VALUE_FORMATS, ValueType

#: Reads bytes: (start, length) -> exactly `length` bytes.
Read = Callable[[int, int], bytes]

#: Most bytes of a long text in a node's value.
HEAD_BYTES: Final = 4096

#: Most bytes of a record before the value of a key-value, or to the end of a tensor info.
LONGEST_HEAD: Final = 8 + max(limits.MAX_KEY_LENGTH, limits.MAX_NAME_LENGTH) + 4 + 8 * limits.MAX_DIMENSIONS + 12


class Opened(NamedTuple):
    """The value of a node whose parts follow: a title (text of a file, or `TrustedText`), the number of parts, a remark."""

    title: bytes | TrustedText
    parts: int | None = None
    note: str = ""


class Elided(NamedTuple):
    """The value of a node for `left` skipped items; None if their number is not known."""

    left: int | None
    what: str


class Head(bytes):
    """The first bytes of a text that is `length` bytes long."""

    length: int

    def __new__(cls, data: bytes, length: int) -> Head:
        head = super().__new__(cls, data)
        head.length = length
        return head


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a walk: between which bytes, and how far into long arrays and texts (None: without limit).

    `limit` bounds the elements of one array or tensor, `records` the records of one section; with `deep`, the data of a
    tensor are walked element by element too.
    """

    limit: int | None = None
    records: int | None = None
    start: int = 0
    stop: int = maxsize
    deep: bool = False

    def covers(self, start: int, stop: int) -> bool:
        """Whether any byte from `start` to `stop` is in the scope; an empty field counts by its position."""
        return start < self.stop and (stop > self.start or start == stop == self.start)

    def chosen(self, start: int, width: int, count: int) -> tuple[int, int]:
        """Which of `count` items of `width` bytes, from `start` on, are in the scope: the first and one past the last."""
        first = min(count, max(0, (self.start - start) // width))
        last = max(first, min(count, -(-(self.stop - start) // width)))
        return first, last if self.limit is None else min(last, first + self.limit)


def is_leaf(node: FieldNode) -> bool:
    """Whether a node covers its bytes itself, rather than the nodes that follow."""
    return not isinstance(node.value, Opened)


def record_nodes(record: RecordStruct, data: bytes, start: int, path: str) -> list[FieldNode]:
    """The nodes of one record whose bytes begin at `start`; if `data` ends too early, those before the end."""
    trace: list[FieldNode] = []
    with suppress(FormatError):  # the scanner has reported the fault already; only the nodes before it are needed
        record.parse_stream(BytesIO(data), reading=ParseState(len(data), trace))
    nodes: list[FieldNode] = []
    for met in trace:
        node = met._replace(path=f"{path}.{met.path}", start=start + met.start, stop=start + met.stop)
        parts = [i for i, known in enumerate(nodes) if known.path.startswith((f"{node.path}.", f"{node.path}["))]
        if not parts:
            nodes.append(node)
        elif nodes[parts[-1]].path == f"{node.path}.text":  # a string is only its length and its text
            nodes[parts[-1]] = nodes[parts[-1]]._replace(field=node.field)
        else:
            nodes.insert(parts[0], node._replace(value=Opened(TrustedText(""), len(parts))))
    return nodes


def header_nodes(read: Read, order: ByteOrder, stop: int) -> list[FieldNode]:
    """The fields of the header, in a file that starts with the magic."""
    return record_nodes(gguf.header(order), read(0, stop), 0, "header")


def key_nodes(read: Read, order: ByteOrder, start: int, stop: int, path: str) -> list[FieldNode]:
    """Key and type of the key-value between `start` and `stop`; the value follows them."""
    whole = gguf.key_value(order)
    head = RecordStruct(whole.title, whole.clause, *whole.fields[:2])
    return record_nodes(head, read(start, min(stop - start, LONGEST_HEAD)), start, path)


def info_nodes(read: Read, order: ByteOrder, start: int, stop: int, path: str) -> list[FieldNode]:
    """The tensor info between `start` and `stop`."""
    return record_nodes(gguf.tensor_info(order), read(start, min(stop - start, LONGEST_HEAD)), start, path)


def value_nodes(
    read: Read, order: ByteOrder, kind: int, start: int, stop: int, path: str, scope: Scope
) -> Iterator[FieldNode]:
    """The value of a key-value of type `kind`, from `start` to `stop`."""
    field = gguf.key_value(order).fields[2]
    if kind == ValueType.STRING:
        yield from _text(read, order, start, stop, path, field)
    elif kind != ValueType.ARRAY:
        yield from numbers(read, Word(order, VALUE_FORMATS[kind]), start, None, path, scope, field)
    else:
        element, count = _array_head(read, order, start)
        yield FieldNode(path, start, stop, Opened(_array_label(element), count), field)
        yield from _array_head_nodes(element, count, start, path)
        at, walked = yield from _items(read, order, element, count, start + 12, stop, path, scope)
        if walked < count:
            left = Elided(count - walked if element != ValueType.ARRAY else None, "elements")
            yield FieldNode(f"{path}.items[{walked}..{count}]", at, stop, left, None)


def numbers(
    read: Read, word: Word, start: int, count: int | None, path: str, scope: Scope, field: Field | None = None
) -> Iterator[FieldNode]:
    """`count` numbers of fixed width from `start` on; those in the scope are separate nodes. With None, one number."""
    width, unpack = word.length, struct.Struct(word.fmtstr)
    if count is None:
        yield FieldNode(path, start, start + width, unpack.unpack(read(start, width))[0], field)
        return
    first, last = scope.chosen(start, width, count)
    if first:
        yield FieldNode(f"{path}[0..{first}]", start, start + first * width, Elided(first, "elements"), field)
    step = HEAD_BYTES // width
    for base in range(first, last, step):
        data = read(start + base * width, min(step, last - base) * width)
        for i, (value,) in enumerate(unpack.iter_unpack(data), base):
            at = start + i * width
            yield FieldNode(f"{path}[{i}]", at, at + width, value, field)
    if last < count:
        at, stop = start + last * width, start + count * width
        yield FieldNode(f"{path}[{last}..{count}]", at, stop, Elided(count - last, "elements"), field)


def _items(
    read: Read, order: ByteOrder, kind: int, count: int, start: int, stop: int, path: str, scope: Scope
) -> Generator[FieldNode, None, tuple[int, int]]:
    """The elements of an array whose first is at `start`; returns how far the walk came, in bytes and in elements.

    The index does not hold the ends of nested arrays, so a nested array that is not walked to its end ends the walk.
    """
    path = f"{path}.items"
    if kind in VALUE_FORMATS:
        word = Word(order, VALUE_FORMATS[kind])
        yield from numbers(read, word, start, count, path, scope)
        return start + count * word.length, count

    at = start
    skipped = 0  # strings before the scope: one node for all of them, as soon as another node follows
    for i in range(count):
        beyond = at >= min(stop, scope.stop) or (scope.limit is not None and i - skipped >= scope.limit)
        if kind == ValueType.STRING and not beyond:
            end = at + 8 + struct.unpack(order_prefix(order) + "Q", read(at, 8))[0]
            if end > stop:
                raise _changed(at)
            if end <= scope.start and i == skipped:
                skipped, at = i + 1, end
                continue
        if skipped and i == skipped:
            yield FieldNode(f"{path}[0..{skipped}]", start, at, Elided(skipped, "elements"), None)
        if beyond:
            return at, i
        if kind == ValueType.STRING:
            yield from _text(read, order, at, end, f"{path}[{i}]", None)
            at = end
        else:
            inner, inner_count = _array_head(read, order, at)
            # the end is not known yet, so the span is empty
            yield FieldNode(f"{path}[{i}]", at, at, Opened(_array_label(inner), inner_count), None)
            yield from _array_head_nodes(inner, inner_count, at, f"{path}[{i}]")
            at, walked = yield from _items(read, order, inner, inner_count, at + 12, stop, f"{path}[{i}]", scope)
            if walked < inner_count:
                return at, i
    if skipped and skipped == count:
        yield FieldNode(f"{path}[0..{skipped}]", start, at, Elided(skipped, "elements"), None)
    return at, count


def _text(read: Read, order: ByteOrder, start: int, stop: int, path: str, field: Field | None) -> Iterator[FieldNode]:
    """A string from `start` to `stop`: its length and its text."""
    length = stop - start - 8
    yield FieldNode(
        f"{path}.length", start, start + 8, struct.unpack(order_prefix(order) + "Q", read(start, 8))[0], None
    )
    data = read(start + 8, min(length, HEAD_BYTES))
    yield FieldNode(f"{path}.text", start + 8, stop, data if len(data) == length else Head(data, length), field)


def _array_head(read: Read, order: ByteOrder, start: int) -> tuple[int, int]:
    kind, count = struct.unpack(order_prefix(order) + "IQ", read(start, 12))
    if kind >= len(SMALLEST_VALUE):
        raise _changed(start)
    return kind, count


def _array_head_nodes(kind: int, count: int, start: int, path: str) -> Iterator[FieldNode]:
    yield FieldNode(f"{path}.type", start, start + 4, kind, None)
    yield FieldNode(f"{path}.count", start + 4, start + 12, count, None)


def _array_label(kind: int) -> TrustedText:
    return TrustedText(f"arr[{ValueType(kind).label}]")


def _changed(at: int) -> FormatError:
    return FormatError(
        faults.CHANGED, Span(at, at), reason=TrustedText("an array no longer has the elements that it had")
    )
