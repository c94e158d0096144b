"""The GGUF container: header, key-values, tensor infos, data section (chapter 2).

Every field is declared once, with its construct, name, meaning and clause. `parse` reads a whole file into records and
`build` writes them back: `build(parse(x)) == x` for every well-formed file, in either byte order. This is the
definition of the fast scanner, and tests compare both; a reader that must be fast or must not load the file uses
`i2s_spec.gguf`.

A walk (`header_nodes`, `key_nodes`, `info_nodes`, `value_nodes`) goes through a single record field by field and reads
only the bytes that it shows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from sys import maxsize
from typing import Any, Final, NamedTuple

from construct import Const, Construct, Container, Switch

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.schema import faults, limits
from i2s_spec.schema import faults as checks
from i2s_spec.schema.faults import HEAD, MAGIC, ByteOrder, order_prefix
from i2s_spec.schema.field import Field, FieldNode, GgufString, Many, ParseState, RecordStruct, Word, joined, reading
from i2s_spec.schema.magic import not_gguf
from i2s_spec.schema.types import SMALLEST_VALUE, VALUE_FORMATS, ValueType

ALIGNMENT_KEY = b"general.alignment"


class _Checked(Word):
    """A u32 or u64 whose value is checked before it is used."""

    def __init__(self, order: str, code: str, check: Any) -> None:
        super().__init__(order, code)
        self.check = check

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        start = stream.tell()
        value: int = super()._parse(stream, context, path)
        self.check(value, Span(start, stream.tell(), path), context)
        return value


class ArrayValue(Construct):  # type: ignore[misc]
    """An array value (clause 2.5): element type, count, elements; may nest up to the depth limit."""

    def __init__(self, order: str) -> None:
        super().__init__()
        self.order = order
        self.type = Word(order, "I")
        self.count = Word(order, "Q")

    def _parse(self, stream: Any, context: Any, path: str) -> Container:
        state = reading(context)
        key = state.name
        state.depth += 1

        start = stream.tell()
        kind = self.type._parsereport(stream, context, joined(path, "type"))
        span = Span(start, start + 4, joined(path, "type"))
        if kind >= len(SMALLEST_VALUE):
            raise FormatError(faults.ARRAY_TYPE_UNKNOWN, span, got=kind, key=key)
        if kind == ValueType.ARRAY and state.depth >= limits.MAX_ARRAY_DEPTH:
            got = state.depth + 1
            raise FormatError(faults.ARRAY_TOO_DEEP, span, got=got, want=limits.MAX_ARRAY_DEPTH, key=key)

        start = stream.tell()
        count = self.count._parsereport(stream, context, joined(path, "count"))
        span = Span(start, start + 8, joined(path, "count"))
        room = state.size - stream.tell()
        if count > (most := room // SMALLEST_VALUE[kind]):
            raise FormatError(faults.ARRAY_PAST_END, span, got=count, want=most, room=room, key=key)
        if state.trace is not None:
            state.trace.append(FieldNode(joined(path, "type"), span.start - 4, span.start, kind, None))
            state.trace.append(FieldNode(joined(path, "count"), span.start, span.stop, count, None))

        element = values(self.order)[kind]
        items = Many(lambda _: count, element)._parsereport(stream, context, joined(path, "items"))
        state.depth -= 1
        return Container(type=kind, count=count, items=items)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        self.type._build(obj.type, stream, context, path)
        self.count._build(obj.count, stream, context, path)
        element = values(self.order)[obj.type]
        Many(lambda _: obj.count, element)._build(obj["items"], stream, context, joined(path, "items"))
        return obj


@cache
def values(order: str) -> dict[int, Construct]:
    """Return the construct of a value of each type."""
    table: dict[int, Construct] = {number: Word(order, code) for number, code in VALUE_FORMATS.items()}
    table[ValueType.STRING] = GgufString(Word(order, "Q"))
    table[ValueType.ARRAY] = ArrayValue(order)
    return table


def _check_value_type(value: int, span: Span, context: Any) -> None:
    state = reading(context)
    state.name = context.key
    if context.key == ALIGNMENT_KEY and state.alignment is None:
        state.alignment = span
    if value >= len(SMALLEST_VALUE):
        raise FormatError(faults.VALUE_TYPE_UNKNOWN, span, got=value, key=context.key)


def _check_dimensions(value: int, span: Span, context: Any) -> None:
    if value > limits.MAX_DIMENSIONS:
        raise FormatError(faults.TOO_MANY_DIMENSIONS, span, got=value, want=limits.MAX_DIMENSIONS, name=context.name)


def _enter_key_value(state: ParseState, index: int) -> None:
    state.fault, state.index, state.depth = faults.METADATA_TRUNCATED, index, 0


def _enter_tensor_info(state: ParseState, index: int) -> None:
    state.fault, state.index = faults.TENSOR_INFOS_TRUNCATED, index


@cache
def header(order: str) -> RecordStruct:
    """Return the 24 bytes that a file starts with."""
    return RecordStruct(
        "Header",
        "2.2",
        Field("magic", Const(MAGIC), "The four bytes 'GGUF', the same in either byte order.", "2.2"),
        Field("version", Word(order, "I"), "Version of the container: 3, or 2 with the same layout.", "2.3"),
        Field("tensor_count", Word(order, "Q"), "Number of tensor infos.", "2.2"),
        Field("key_count", Word(order, "Q"), "Number of key-values.", "2.2"),
    )


@cache
def key_value(order: str) -> RecordStruct:
    """One metadata entry."""
    length = Word(order, "Q")
    key = GgufString(length, limits.MAX_KEY_LENGTH, faults.KEY_TOO_LONG)
    value_type = _Checked(order, "I", _check_value_type)
    return RecordStruct(
        "KeyValue",
        "2.4",
        Field("key", key, "ASCII name: lower_snake_case segments joined by dots, at most 65,535 bytes.", "2.4"),
        Field("type", value_type, "Type of the value, 0 to 12.", "2.5"),
        Field("value", Switch(lambda this: this.type, values(order)), "The value itself.", "2.5"),
    )


@cache
def tensor_info(order: str) -> RecordStruct:
    """One row of the tensor table."""
    name = GgufString(Word(order, "Q"), limits.MAX_NAME_LENGTH, faults.NAME_TOO_LONG)
    ne = Many(lambda this: this.n_dims, Word(order, "Q"))
    return RecordStruct(
        "TensorInfo",
        "2.6",
        Field("name", name, "UTF-8 name, unique in the file, at most 63 bytes.", "2.6"),
        Field("n_dims", _Checked(order, "I", _check_dimensions), "Number of dimensions, 1 to 4.", "2.6"),
        Field("ne", ne, "Elements along each dimension, the fastest (ne0) first.", "2.6"),
        Field("type", Word(order, "i"), "ggml type number; 36 is I2_S.", "2.6"),
        Field("offset", Word(order, "Q"), "First byte of the data, counted from the data section.", "2.7"),
    )


class RestOfFile(Construct):  # type: ignore[misc]
    """Bytes up to a position from the context, or to the end of the file if that comes first."""

    def __init__(self, stop: Any) -> None:
        super().__init__()
        self.stop = stop

    def _parse(self, stream: Any, context: Any, path: str) -> bytes:
        stop = min(self.stop(context, stream.tell()), reading(context).size)
        data: bytes = stream.read(max(0, stop - stream.tell()))
        return data

    def _build(self, obj: bytes, stream: Any, context: Any, path: str) -> bytes:
        stream.write(obj)
        return obj


@cache
def container(order: str) -> RecordStruct:
    """Return a whole file."""
    return RecordStruct(
        "File",
        "2.1",
        Field("header", header(order), "Magic, version and counts.", "2.2"),
        Field(
            "key_values",
            Many(lambda this: this.header.key_count, key_value(order), _enter_key_value),
            "The metadata.",
            "2.4",
        ),
        Field(
            "tensor_infos",
            Many(lambda this: this.header.tensor_count, tensor_info(order), _enter_tensor_info),
            "The tensor table.",
            "2.6",
        ),
        Field(
            "padding",
            RestOfFile(lambda this, end: checks.data_start(end, _alignment(this))),
            "Zero bytes up to the data section.",
            "2.7",
        ),
        Field(
            "data", RestOfFile(lambda this, end: reading(this).size), "The tensors' bytes, each tensor aligned.", "2.7"
        ),
    )


def _alignment(file: Any) -> int:
    """Return the alignment of a file whose key-values were parsed; the first `general.alignment` counts."""
    for pair in file.key_values:
        if pair.key == ALIGNMENT_KEY:
            span = reading(file).alignment
            assert span is not None
            return checks.alignment(pair.type, pair.value, span)
    return limits.DEFAULT_ALIGNMENT


def parse(data: bytes, trace: list[FieldNode] | None = None) -> Container:
    """Parse a whole GGUF file by its definition.

    :param data: the file
    :param trace: a list that receives a `FieldNode` for every field, in the order of the file, if given
    :returns: `header`, `key_values`, `tensor_infos`, `padding`, `data`, and `byte_order`; names, keys and strings are
        bytes, tensor types and offsets are raw numbers
    :raises FormatError: for faults that prevent indexing; the linter reports all others
    """
    error = not_gguf(data[:HEAD], len(data))
    if error is not None:
        raise error
    checks.header_size(len(data))
    order, _ = checks.byte_order(int.from_bytes(data[4:8], "little"))
    tensors, keys = (int.from_bytes(data[at : at + 8], order) for at in (8, 16))
    checks.counts(tensors, keys, len(data))

    state = ParseState(len(data), trace)
    file = container(order).parse_stream(BytesIO(data), reading=state)
    file.byte_order = order
    return file


def build(file: Container) -> bytes:
    """Return the bytes of a file in the form that `parse` gives; counts and lengths are written unchanged."""
    stream = BytesIO()
    container(file.byte_order).build_stream(file, stream)
    return stream.getvalue()


# --- walk ------------------------------------------------------------------------------------------------------------
# A walk can stop early in long arrays and texts, and skips the rest. It yields `FieldNode`s in the order of the file:
# one at the start of each record and array (its value is an `Opened`), and one for each field in it. Each skipped part
# is one node, too (`Elided`), so that every byte is in exactly one leaf.

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
    """Return the nodes of one record whose bytes begin at `start`; if `data` ends too early, those before the end."""
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
    """Return the fields of the header, in a file that starts with the magic."""
    return record_nodes(header(order), read(0, stop), 0, "header")


def key_nodes(read: Read, order: ByteOrder, start: int, stop: int, path: str) -> list[FieldNode]:
    """Key and type of the key-value between `start` and `stop`; the value follows them."""
    whole, (length,) = key_value(order), struct.unpack(order_prefix(order) + "Q", read(start, 8))
    if length > limits.MAX_KEY_LENGTH:  # only the scanner goes past such a key
        end = start + 8 + length
        (kind,) = struct.unpack(order_prefix(order) + "I", read(end, 4))
        text = _text(read, order, start, end, f"{path}.key", whole.fields[0])
        return [*text, FieldNode(f"{path}.type", end, end + 4, kind, whole.fields[1])]
    head = RecordStruct(whole.title, whole.clause, *whole.fields[:2])
    return record_nodes(head, read(start, min(stop - start, LONGEST_HEAD)), start, path)


def info_nodes(read: Read, order: ByteOrder, start: int, stop: int, path: str) -> list[FieldNode]:
    """Return the tensor info between `start` and `stop`."""
    return record_nodes(tensor_info(order), read(start, min(stop - start, LONGEST_HEAD)), start, path)


def value_nodes(
    read: Read, order: ByteOrder, kind: int, start: int, stop: int, path: str, scope: Scope
) -> Iterator[FieldNode]:
    """Yield the value of a key-value of type `kind`, from `start` to `stop`."""
    field = key_value(order).fields[2]
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
    """Yield the elements of an array whose first is at `start`; returns how far the walk came, in bytes and in
    elements.

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
    """Yield a string from `start` to `stop`: its length and its text."""
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
