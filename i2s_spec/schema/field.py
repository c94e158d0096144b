"""The classes of the schema: fields, records, and counts that are checked first.

A `Field` declares one field: its construct, its name, its meaning, and its clause. A `RecordStruct` is a construct
Struct of fields. Parser, builder, dump, field tables, mutators and exports are all derived from these objects; nothing
about a field is declared anywhere else.

Two additions to construct make it safe for hostile files: `Word`, `GgufString` and `Many` compare every size and count
with the remaining bytes before anything is read or allocated, and raise `FormatError` with the span of the wrong field;
and a parse can be traced, so that the bytes of every field are known.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from typing import Any, NamedTuple

from construct import Construct, Container, FormatField, Struct, Subconstruct

from i2s_spec.errors import Fault, FormatError, Span
from i2s_spec.schema import faults
from i2s_spec.schema.faults import order_prefix


class FieldNode(NamedTuple):
    """A field of a file, with its span and value."""

    path: str
    start: int
    stop: int
    value: Any
    field: Field | None


@dataclass
class ParseState:
    """The state of one parse: the length of the file, the fault for a short read at this point, and the trace, if any."""

    size: int
    trace: list[FieldNode] | None = None
    fault: Fault = faults.HEADER_TRUNCATED
    index: int = 0
    name: bytes = b""
    depth: int = 0
    alignment: Span | None = None  # the span of the type of the first general.alignment

    def need(self, width: int, start: int, path: str) -> None:
        """Refuse a read of `width` bytes at `start` beyond the end of the file."""
        left = self.size - start
        if width > left:
            raise FormatError(self.fault, Span(start, self.size, path), got=left, want=width, index=self.index)


def reading(context: Any) -> ParseState:
    """Return the `ParseState` of the parse that `context` belongs to."""
    found: ParseState = context["_params"]["reading"]  # by key: attribute access of a Container takes twice as long
    return found


def joined(path: str, name: str) -> str:
    """Return the path of a field inside a record, without construct's own roots such as `(parsing)`."""
    return name if path.startswith("(") else f"{path}.{name}"


class Field(Subconstruct):  # type: ignore[misc]  # construct has no type hints
    """One field: construct, name, meaning, clause. If a trace is kept, parsing records its bytes.

    It parses and builds like its construct.

    :param name: the field's name in parsed objects, messages and tables
    :param subcon: how its bytes are read and written
    :param meaning: one sentence for readers
    :param clause: the clause of the specification that states it
    """

    def __init__(self, name: str, subcon: Construct, meaning: str, clause: str) -> None:
        super().__init__(subcon)
        self.name = name
        self.meaning = meaning
        self.clause = clause

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        state = reading(context)
        path = joined(path, self.name)
        start = stream.tell()
        value = self.subcon._parsereport(stream, context, path)
        if state.trace is not None:
            state.trace.append(FieldNode(path, start, stream.tell(), value, self))
        return value

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        return self.subcon._build(obj, stream, context, joined(path, self.name))


class RecordStruct(Struct):  # type: ignore[misc]
    """A construct Struct of fields, with a title and the clause that describes it as a whole."""

    def __init__(self, title: str, clause: str, *fields: Field) -> None:
        super().__init__(*fields)
        self.title = title
        self.clause = clause
        self.fields = fields

    def _parse(self, stream: Any, context: Any, path: str) -> Container:
        """Like construct, but the context holds only the earlier fields and the state of the parse, which is faster:
        tests compare the scanner with hundreds of thousands of parses."""
        record, seen = Container(), Container(_=context, _params=context["_params"])
        for field in self.fields:
            record[field.name] = seen[field.name] = field._parsereport(stream, seen, path)
        return record


class Word(FormatField):  # type: ignore[misc]
    """A number of fixed width; if the file ends inside it, the fault of its record is raised.

    :param order: `little` or `big`
    :param code: the `struct` letter
    """

    def __init__(self, order: str, code: str) -> None:
        super().__init__(order_prefix(order), {"I": "L", "i": "l"}.get(code, code))
        self.code = code
        self.unpack = struct.Struct(self.fmtstr).unpack

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        reading(context).need(self.length, stream.tell(), path)
        raw = stream.read(self.length)
        (value,) = self.unpack(raw)
        return NaN32(raw) if self.code == "f" and isnan(value) else value

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        if isinstance(obj, NaN32):
            stream.write(obj.raw)
            return obj
        return super()._build(obj, stream, context, path)


class NaN32(float):
    """A float32 NaN that keeps its four bytes: converting it to a Python float would set its quiet bit."""

    def __new__(cls, raw: bytes) -> NaN32:
        value = super().__new__(cls, "nan")
        value.raw = raw
        return value

    raw: bytes


class GgufString(Construct):  # type: ignore[misc]
    """A GGUF string (clause 2.4): a u64 length and that many bytes, as `bytes`.

    :param length: the construct of the length
    :param limit: longest length allowed, or None
    :param too_long: the fault of a longer one
    :raises FormatError: if the length exceeds the rest of the file, or the limit
    """

    def __init__(self, length: Word, limit: int | None = None, too_long: Fault | None = None) -> None:
        super().__init__()
        self.length = length
        self.limit = limit
        self.too_long = too_long

    def _parse(self, stream: Any, context: Any, path: str) -> bytes:
        state = reading(context)
        start = stream.tell()
        length = self.length._parsereport(stream, context, joined(path, "length"))
        span = Span(start, start + 8, joined(path, "length"))
        if length > (left := state.size - start - 8):
            raise FormatError(faults.STRING_PAST_END, span, got=length, want=left)
        if self.limit is not None and length > self.limit:
            assert self.too_long is not None
            raise FormatError(self.too_long, span, got=length, want=self.limit, index=state.index)
        text: bytes = stream.read(length)
        if state.trace is not None:
            state.trace.append(FieldNode(joined(path, "length"), start, start + 8, length, None))
            state.trace.append(FieldNode(joined(path, "text"), start + 8, start + 8 + length, text, None))
        return text

    def _build(self, obj: bytes, stream: Any, context: Any, path: str) -> bytes:
        self.length._build(len(obj), stream, context, path)
        stream.write(obj)
        return obj


class Many(Subconstruct):  # type: ignore[misc]
    """The number of items that `count` gives; each item's path contains its index.

    :param count: a function from the context to the number of items, which was compared with the remaining bytes before
    :param enter: called with the state before each item, to set the fault for a short read
    """

    def __init__(
        self, count: Callable[[Any], int], subcon: Construct, enter: Callable[[ParseState, int], None] | None = None
    ) -> None:
        super().__init__(subcon)
        self.count = count
        self.enter = enter

    def _parse(self, stream: Any, context: Any, path: str) -> list[Any]:
        state = reading(context)
        items = []
        for index in range(self.count(context)):
            if self.enter is not None:
                self.enter(state, index)
            start = stream.tell()
            item = self.subcon._parsereport(stream, context, f"{path}[{index}]")
            if state.trace is not None:
                state.trace.append(FieldNode(f"{path}[{index}]", start, stream.tell(), item, None))
            items.append(item)
        return items

    def _build(self, obj: list[Any], stream: Any, context: Any, path: str) -> list[Any]:
        for index, item in enumerate(obj):
            self.subcon._build(item, stream, context, f"{path}[{index}]")
        return obj
