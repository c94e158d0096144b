"""This module declares the GGUF container: header, key-values, tensor infos, data section (chapter 2).

Every field is declared once, with its construct, name, meaning and clause. `parse` reads a whole file into records and
`build` writes them back: `build(parse(x)) == x` for every well-formed file, in either byte order. It is the definition
of the fast scanner, and tests compare both; a reader that must be fast or must not load the file uses `i2s_spec.gguf`.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import Any

from construct import Const, Construct, Container, Switch

from i2s_spec.errors import FormatError, Span
from i2s_spec.schema import checks, faults, limits
from i2s_spec.schema.checks import HEAD, MAGIC
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
    """The construct of a value of each type."""
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
    """The 24 bytes that a file starts with."""
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
    """A whole file."""
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
    """The alignment of a file whose key-values were parsed; the first `general.alignment` counts."""
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
    """The bytes of a file in the form that `parse` gives; counts and lengths are written unchanged."""
    stream = BytesIO()
    container(file.byte_order).build_stream(file, stream)
    return stream.getvalue()
