"""This module says what a node is: its label in the tree and its value in words."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from i2s_spec.draw.text import float32_words, visible
from i2s_spec.errors import FormatError, TrustedText, counted
from i2s_spec.gguf.reader import File
from i2s_spec.inspect.dump.block_codes import BlockColumns
from i2s_spec.inspect.dump.codes import Columns
from i2s_spec.inspect.show import type_name
from i2s_spec.schema.block_layout import BLOCK_LAYOUTS
from i2s_spec.schema.field import FieldNode
from i2s_spec.schema.types import ValueType
from i2s_spec.schema.walk import Elided, Head, Opened

#: Characters of a text that are shown.
TEXT: Final = 48

_TABLES: Final = ("key_values", "tensor_infos", "data")
_PAYLOAD: Final = re.compile(r"data\[(\d+)\]\.(?:payload|(?:rows\[\d+\]\.)?blocks\[\d+\]\.codes)(?:\[(\d+)\])?")
_INFO: Final = re.compile(r"tensor_infos\[(\d+)\]\.(type|offset|ne)")
_VALUE: Final = re.compile(r"key_values\[(\d+)\]\.value(\.items\[\d+\])*")


class NodeLabels:
    """How the nodes of one file are said."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.tensor = lru_cache(4)(file.tensors.by_index)
        self.columns = lru_cache(4)(self._columns)
        self._types = lru_cache(4)(self._value_types)
        self._inner_type = -1  # of the array inside an array that was met last

    def note(self, node: FieldNode) -> None:
        """Take note of a node that is to be said: what comes after it may depend on it."""
        if node.path.endswith(".type") and ".items[" in node.path:
            self._inner_type = node.value

    def label(self, parent: FieldNode | None, node: FieldNode) -> str:
        """The name of a node, without the path of the record that it is in."""
        if parent is None or (parent.path in _TABLES and node.path[len(parent.path)] == "["):
            return node.path
        label = node.path[len(parent.path) :].lstrip(".")
        if label.startswith("[") and isinstance(parent.value, Opened) and not parent.value.title:
            label = parent.path.rpartition(".")[2] + label
        code = self.code(node)
        return label if code is None else self.columns(code[0]).label(label)

    def value(self, node: FieldNode) -> tuple[str, str]:
        """The value of a node in words, and the style that they have on a terminal."""
        value = node.value
        if value is None:
            return "", ""
        if isinstance(value, Opened):
            title = str(value.title) if isinstance(value.title, TrustedText) else visible(value.title, TEXT)
            parts = "" if value.parts is None else counted(value.parts, "element") if title else f"({value.parts:,})"
            words = self._meaning(node).lstrip() or " ".join(filter(None, (title, parts, value.note)))
            return words, "bold" if title else ""
        if isinstance(value, Elided):
            return "" if value.left is None else f"… {value.left:,} {value.what}", "dim"
        if isinstance(value, FormatError):
            return _fault(value), "bold red"
        if isinstance(value, TrustedText):
            return value, ""
        if isinstance(value, Head):
            return visible(value[:TEXT], 4 * TEXT) + f"… ({counted(value.length, 'byte')})", "green"
        if isinstance(value, bytes):
            return visible(value, TEXT), "green"
        code = self.code(node)
        if code is not None:
            return self.columns(code[0]).line(code[1], value), ""
        return self._number(node) + self._meaning(node), "yellow"

    def below(self, node: FieldNode) -> str | None:
        """What is said in a line of its own below a node: the fault that lies in it, or what the columns are."""
        error = self.file.fault
        if isinstance(node.value, Opened):
            match = _PAYLOAD.fullmatch(node.path)
            return self.columns(int(match[1])).heading() if match and node.value.note else None
        if error is None or node.value is error or isinstance(node.value, Elided):
            return None
        inside = node.start <= error.span.start < error.span.stop <= node.stop
        return _fault(error) if inside else None

    def code(self, node: FieldNode) -> tuple[int, int] | None:
        """Tensor, and byte from its start, of a node that is one byte of codes, else None."""
        if not isinstance(node.value, int) or not node.path.startswith("data["):
            return None
        match = _PAYLOAD.fullmatch(node.path)
        if match is None or match[2] is None:
            return None
        i = int(match[1])
        return i, node.start - (self.file.data_start or 0) - self.tensor(i).offset

    def _columns(self, i: int) -> Columns | BlockColumns:
        kind, shape = self.tensor(i).kind, self.tensor(i).shape
        return BlockColumns(BLOCK_LAYOUTS[kind], shape) if kind in BLOCK_LAYOUTS else Columns(shape)

    def room(self, node: FieldNode) -> int:
        """Columns that a node's line takes if it is a byte of codes, or is followed by their heading; else 0."""
        match = _PAYLOAD.fullmatch(node.path)
        return self.columns(int(match[1])).room if match else 0

    def is_bool(self, node: FieldNode) -> bool:
        """Whether a number is the value of a boolean, or an element of an array of them."""
        match = _VALUE.fullmatch(node.path)
        if match is None or int(match[1]) >= self.file.index.keys:
            return False
        kind, element = self._types(int(match[1]))
        if kind == ValueType.ARRAY:
            kind = self._inner_type if element == ValueType.ARRAY else element
        return kind == ValueType.BOOL

    def _value_types(self, i: int) -> tuple[int, int]:
        entry = self.file.metadata.by_index(i)
        return entry.type, entry.element

    def _number(self, node: FieldNode) -> str:
        value = node.value
        if isinstance(value, float):
            width = node.stop - node.start
            return float32_words(value) if width == 4 else f"{value:.5g}" if width == 2 else repr(value)
        if self.is_bool(node):
            return ("true" if value else "false") + (f" (the byte is {value})" if value not in (0, 1) else "")
        return str(value)

    def _meaning(self, node: FieldNode) -> str:
        """What a number stands for, where another table says that."""
        path, value = node.path, node.value
        if path.startswith("key_values[") and path.endswith(".type"):
            return f" ({ValueType(value).label})" if 0 <= value < len(ValueType) else ""
        match = _INFO.fullmatch(path)
        if match is None or int(match[1]) >= self.file.index.tensors:
            return ""
        tensor = self.tensor(int(match[1]))
        if match[2] == "type":
            return f" ({type_name(tensor) or 'no known type'})"
        if match[2] == "offset":
            return "" if self.file.data_start is None else f" (at 0x{self.file.data_start + tensor.offset:x})"
        return f" (shape {' x '.join(map(str, tensor.shape))})" if len(tensor.ne) > 1 else ""


def _fault(error: FormatError) -> str:
    return f"! {error.code} {error.fault.slug}: {error.message}"
