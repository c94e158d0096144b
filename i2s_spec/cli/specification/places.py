"""This module shows places of sound files: the one that a place of a broken copy stands for, its bytes and its value.

A place is found by its path in the schema; where the path leads into a record that has a name, in the record of that
name. Where the sound file has no such record, others are asked for the key; where none has it, the place is the first of
the same kind. What is shown has the form of a finding: byte range, path, value, and the bytes with carets below them.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from i2s_spec.cli.specification.sound import likest, opened
from i2s_spec.draw.text import float32_words
from i2s_spec.errors import FormatError, Span, quote
from i2s_spec.gguf.reader import File
from i2s_spec.inspect.dump.labels import NodeLabels
from i2s_spec.inspect.dump.selector import Unknown, target
from i2s_spec.linter.excerpt import ROW, ROWS, excerpt_of
from i2s_spec.linter.report.proof import proof
from i2s_spec.schema.checks import order_prefix
from i2s_spec.schema.field import FieldNode
from i2s_spec.schema.i2s import codes_of
from i2s_spec.schema.types import I2_S
from i2s_spec.schema.walk import Opened, is_leaf

#: Scales of a file that are listed.
SHOWN_SCALES: Final = 6

_PATH: Final = re.compile(r"(key_values|tensor_infos|data)\[(\d+)\](.*)")
_NUMBERS: Final = re.compile(r"\[\d+\]")


class Place(NamedTuple):
    """A place in a sound file: its path there, its bytes, the lines that show it; whether it is the same field."""

    path: str
    data: bytes
    lines: tuple[str, ...]
    same: bool
    file: bytes

    @property
    def is_large(self) -> bool:
        """Whether there is more of it than the lines show."""
        return len(self.data) > ROW * ROWS


def place_of(data: bytes, path: str, code: str, name: str) -> Place | None:
    """The place in a sound file that a path of a broken one stands for; None where there is none.

    :param code: the rule that is broken, and is not in the sound file
    :param name: what the sound file is called in the lines
    """
    wanted = _record_name(data, path)
    files = likest(data, code)
    first = next(files)
    if (place := _in_record(first, path, wanted, name)) is not None:
        return place
    if wanted is not None and path.startswith("key_values[") and not path.endswith("].key"):
        for other in files:
            if (place := _in_record(other, path, wanted, name)) is not None:
                return place
    return _of_the_kind(first, path, name)


def place_in(data: bytes, path: str, name: str) -> Place | None:
    """The place of a path in one certain file."""
    return _shown(data, path, name, same=True)


def field_of(data: bytes, path: str, place: Place, name: str) -> Place | None:
    """Of what a path of a broken file leads to, the first field that has another value in the file of a place."""
    wanted = _record_name(data, path)
    for field, (start, stop) in _leaves(data, path).items():
        found = _in_record(place.file, field, wanted, name)
        if found is not None and found.data != data[start:stop]:
            if not field.endswith(".length"):
                return found
            return _in_record(place.file, field.removesuffix(".length") + ".text", wanted, name) or found
    return None


def bytes_at(data: bytes, path: str) -> bytes | None:
    """The bytes at a path of a file; None where it cannot be gone to."""
    place = place_in(data, path, "")
    return None if place is None else place.data


def record_of(path: str) -> str:
    """The record that a path leads into, or the path itself.

    >>> record_of("tensor_infos[2].ne")
    'tensor_infos[2]'
    """
    met = _PATH.fullmatch(path)
    return path if met is None else f"{met[1]}[{met[2]}]"


def weights(data: bytes, path: str) -> str:
    """What is in the payload that a path leads to, or all scales where it leads to one; empty for other paths."""
    met, file = _PATH.fullmatch(path), opened(data)
    if met is None or met[1] != "data" or file is None or file.fault is not None:
        return ""
    try:
        if met[3] == ".tail.scale":
            prefix = order_prefix(file.byte_order)
            tensors = (tensor for tensor in file.tensors.rows if tensor.number == I2_S.number)
            scales = [struct.unpack(f"{prefix}f", tensor.tail[:4])[0] for tensor in islice(tensors, SHOWN_SCALES)]
            return f"scales: {', '.join(map(float32_words, scales))}"
        tensor = file.tensors.by_index(int(met[2]))
        if met[3] or tensor.number != I2_S.number:
            return ""
        counts = [0, 0, 0, 0]
        for byte, times in Counter(bytes(tensor.payload)).items():
            for code in codes_of(byte):
                counts[code] += times
    except FormatError:
        return ""  # a tensor that is not all there
    return "codes 0, 1, 2, 3: " + ", ".join(f"{count:,}" for count in counts) + " times"


def _in_record(data: bytes, path: str, wanted: bytes | None, name: str) -> Place | None:
    """The place at the same path; of a record with a name, in the record of that name."""
    met = _PATH.fullmatch(path)
    if met is not None and wanted is not None and met[3] not in (".key", ".name"):  # else the name itself is wrong
        names = _names(data, met[1])
        if wanted not in names:
            return None
        path = f"{met[1]}[{names.index(wanted)}]{met[3]}"
    return _shown(data, path, name, same=True)


def _of_the_kind(data: bytes, path: str, name: str) -> Place | None:
    """The first place whose path differs in numbers only; of tensors one of type I2_S, if there is one."""
    met, file = _PATH.fullmatch(path), opened(data)
    if met is None or file is None:
        return None
    order = list(range(len(_names(data, met[1]))))
    if met[1] != "key_values":
        order.sort(key=lambda i: file.index.tensor(i).type != I2_S.number)
    for i in order:
        place = _shown(data, f"{met[1]}[{i}]{_NUMBERS.sub('[0]', met[3])}", name, same=False)
        if place is not None:
            return place
    return None


def _names(data: bytes, table: str) -> list[bytes]:
    file = opened(data)
    if file is None:
        return []
    index = file.index
    if table == "key_values":
        return [index.key(i).name for i in range(index.keys)]
    return [index.tensor(i).name for i in range(index.tensors)]


def _record_name(data: bytes, path: str) -> bytes | None:
    """The name of the key or tensor that a path leads into; None where it leads to neither, or that cannot be read."""
    met, file = _PATH.fullmatch(path), opened(data)
    if met is None or file is None:
        return None
    number, index = int(met[2]), file.index
    if met[1] == "key_values":
        return index.key(number).name if number < index.keys else None
    return index.tensor(number).name if number < index.tensors else None


def _leaves(data: bytes, path: str) -> dict[str, tuple[int, int]]:
    """The fields at a path and below it, and where they are."""
    file = opened(data)
    try:
        nodes = list(target(file, path, None, True).nodes) if file is not None else []
    except Unknown:
        return {}
    return {node.path: (node.start, node.stop) for node in nodes if is_leaf(node) and _leads(path, node.path)}


def _leads(path: str, node: str) -> bool:
    """Whether a node is the one at a path, or in it."""
    return node.startswith(path) and node[len(path) : len(path) + 1] in ("", ".", "[")


def _shown(data: bytes, path: str, name: str, same: bool) -> Place | None:
    file = opened(data)
    if file is None:
        return None
    try:
        nodes = [node for node in target(file, path, None, True).nodes if _leads(path, node.path)]
    except Unknown:
        return None
    labels = NodeLabels(file)
    for node in nodes:
        labels.note(node)
    exact = [node for node in nodes if node.path in (path, f"{path}.text")]
    node = exact[-1] if exact else nodes[0]
    span = Span(node.start, node.stop, path)
    message = f"{name}:0x{span.start:x}..0x{span.stop:x}: {_words(data, path, labels.value(node)[0], node)}"
    rows = _bytes(file, span, ROW if record_of(path) == path else ROW * ROWS)
    return Place(path, data[span.start : span.stop], (message, *(f"  {line}" for line in rows)), same, data)


def _bytes(file: File, span: Span, most: int) -> Iterator[str]:
    """The first bytes of a span, as they stand below a finding."""
    excerpt = excerpt_of(file.source, span)
    shown = None if excerpt is None else {"start": excerpt.start, "hex": excerpt.data[:most].hex()}
    return proof({"bytes": shown, "span": {"start": span.start, "stop": span.stop}}, file.size)


def _words(data: bytes, path: str, words: str, node: FieldNode) -> str:
    """A path with its value; with the name of its record, where the value is not that."""
    if isinstance(node.value, Opened):
        return f"{path} {words}".rstrip() + f" ({node.stop - node.start:,} bytes)"
    record = _record_name(data, path)
    inside = record is not None and not re.search(r"\.(?:key|name)(?:\.text)?$", path)
    owner = f" of {quote(record)}" if record is not None and inside else ""
    return f"{path}{owner}: {words}" if words else f"{path}{owner}"
