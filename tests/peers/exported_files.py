"""Sound and malformed files for parsers of the exported definitions, and the lines that such a parser is to print."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from block_files import TYPES, file_of_blocks
from construct import Container

from i2s_spec.codec import blocks
from i2s_spec.codec.reference import unpack
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import open as opened
from i2s_spec.schema import container
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, Dialect, parse
from i2s_spec.schema.types import I2_S, ValueType
from i2s_spec.testing.malformed import malformed
from i2s_spec.testing.sample import ByteOrder, Draft, array, i2s_bytes, key_value, tensor_info

ORDERS: Final[tuple[ByteOrder, ...]] = ("little", "big")

#: The value of a code without a meaning in the exports.
NO_TRIT: Final = 127


def sound_files() -> dict[str, bytes]:
    """Files whose every field is compared, by name."""
    files = {}
    for order in ORDERS:
        files[f"I2_S {order}"] = Draft(order).data
        files[f"values {order}"] = _values(order)
        files[f"block types {order}"] = _block_types(order)
        files[f"shapes {order}"] = _file([], [((cols, rows), 36) for cols, rows in _SHAPES], order)
    many = [key_value(b"sample.%d" % i, ValueType.STRING, b"text" * (i % 5)) for i in range(500)]
    files["500 keys and 200 tensors"] = _file(many, [((i % 7 + 1, i % 3 + 1), 0) for i in range(200)])
    files["alignment last"] = _file([*many[:3], _alignment(1024)], [((128, 4), 36), ((4,), 0)], alignment=1024)
    files["alignment twice"] = _file([_alignment(64), _alignment(3)], [((4,), 0)], alignment=64)
    files["version 2"] = _file([], [((128,), 36)], version=2)
    files["nothing in it"] = _file([], [])
    return files


#: Columns and rows for which some layouts fit and others do not.
_SHAPES: Final = ((128, 4), (64, 3), (64, 8), (4, 4), (160, 12), (256, 1))


#: Cases of the corpus that break limits of lengths other than the file's end, which the definition does not check.
UNCHECKED: Final = frozenset({"key_too_long", "name_huge"})


def malformed_files() -> dict[str, bytes]:
    """Files at which every parser has to stop with an error."""
    files = {}
    for order in ORDERS:
        draft = Draft(order)
        for number in (1 << 63, (1 << 64) - 4, (1 << 32) + 4):
            for path in ("header.tensor_count", "header.key_count", "key_values[0].key.length"):
                files[f"{path} = {number} {order}"] = draft.number(path, number)
            files[f"count = {number} {order}"] = _file([_array(ValueType.UINT8, [1], number)], [], order)
            files[f"count of strings = {number} {order}"] = _file([_array(ValueType.STRING, [b"a"], number)], [], order)
        for rows in (1 << 62, 1 << 60, 1 << 40):
            files[f"{rows} rows {order}"] = _file([], [((256, rows), 36)], order)
            files[f"{rows} rows of blocks {order}"] = _file([], [((256, rows), 35)], order)
        for offset in ((1 << 64) - 128, (1 << 64) - 96, (1 << 64) - 64, 1 << 63, 1 << 40):
            files[f"offset {offset} {order}"] = _file([], [((128,), 36)], order, offset=offset)
    for size in (4, 23, 24, 60, 200):
        files[f"{size} bytes"] = Draft().data[:size]
    files["cut tensor"] = Draft().data[:-40]
    for case in malformed():
        if case.code[0] == "G" and not case.large and case.name not in UNCHECKED and _is_refused(case.data):
            files[case.name] = case.data
    return files


def _is_refused(data: bytes) -> bool:
    try:
        container.parse(data)
    except FormatError:
        return True
    return False


def _alignment(value: int) -> Container:
    return key_value(container.ALIGNMENT_KEY, ValueType.UINT32, value)


def _array(kind: ValueType, items: list[Any], count: int | None = None) -> Container:
    held = array(kind, items)
    pair = key_value(b"sample.array", ValueType.ARRAY, held)
    if count is not None:
        pair.value = Container(type=kind, count=count, items=held["items"])
    return pair


_EXTREMES: Final[dict[ValueType, list[Any]]] = {
    ValueType.UINT8: [0, 127, 128, 255],
    ValueType.INT8: [-128, -1, 0, 127],
    ValueType.UINT16: [0, 65_535],
    ValueType.INT16: [-32_768, 32_767],
    ValueType.UINT32: [0, 1 << 31, (1 << 32) - 1],
    ValueType.INT32: [-(1 << 31), (1 << 31) - 1],
    ValueType.FLOAT32: [0.0, -0.0, 0.10000000149011612, float("inf"), float("-inf"), float("nan")],
    ValueType.BOOL: [0, 1],
    ValueType.STRING: [b"", b"text", "\u2603".encode(), b"\xff\x00"],
    ValueType.UINT64: [0, (1 << 53) + 1, (1 << 63) + 1, (1 << 64) - 1],
    ValueType.INT64: [0, -1, -(1 << 31) - 1, -(1 << 53) - 1, -(1 << 63), (1 << 63) - 1],
    ValueType.FLOAT64: [1e300, -1e-300, float("inf"), 5e-324],
}


def _values(order: ByteOrder) -> bytes:
    pairs = [
        key_value(f"sample.{kind.label}.{i}".encode(), kind, value)
        for kind, values in _EXTREMES.items()
        for i, value in enumerate(values)
    ]
    pairs += [_array(kind, values) for kind, values in _EXTREMES.items()]
    pairs += [_array(kind, []) for kind in _EXTREMES]
    inner = array(ValueType.ARRAY, [array(ValueType.UINT8, [1, 2]), array(ValueType.STRING, [b"deep"])])
    pairs.append(_array(ValueType.ARRAY, [inner, array(ValueType.ARRAY, [])]))
    return _file(pairs, [], order)


def _block_types(order: ByteOrder) -> bytes:
    """Every type, and of the first tensor scales of every kind."""
    data = bytearray(file_of_blocks(TYPES, order))
    with opened(bytes(data)) as file:
        start = file.tensors["Q2_0.2"].span.start
    for i, half in enumerate([0x0000, 0x8000, 0x0001, 0x83FF, 0x7BFF, 0x7C00, 0xFC00, 0x7E01]):
        data[start + 18 * i : start + 18 * i + 2] = half.to_bytes(2, order)
    return bytes(data)


def _file(
    pairs: list[Container],
    shapes: list[tuple[tuple[int, ...], int]],
    order: ByteOrder = "little",
    alignment: int = 32,
    version: int = 3,
    offset: int | None = None,
) -> bytes:
    """A file with tensors F32 and I2_S of these shapes; one whose data would be large has 64 bytes."""
    random = np.random.default_rng(len(shapes))
    infos, data = [], b""
    for i, (ne, number) in enumerate(shapes):
        infos.append(tensor_info(b"tensor.%d" % i, ne, number, len(data) if offset is None else offset))
        elements = min(ne[0] * (ne[1] if len(ne) > 1 else 1), 4096)
        content = i2s_bytes(elements, 0.75, order)
        if number == 36:
            content = random.integers(0, 256, elements // 4, np.uint8).tobytes() + content[elements // 4 :]
        data += content + bytes(-len(content) % alignment)
    file = Container(
        header=Container(magic=b"GGUF", version=version, tensor_count=len(infos), key_count=len(pairs)),
        key_values=pairs, tensor_infos=infos, padding=b"", data=b"", byte_order=order,
    )  # fmt: skip
    head = container.build(file)
    return head + bytes(-len(head) % alignment) + data


# --- what a parser is to print ---------------------------------------------------------------------------------------


def expected(data: bytes) -> list[str]:
    """The lines for a file: header, keys with their values, tensors, codes and scales, by our reader and definitions."""
    parsed = container.parse(data)
    with opened(data) as file:
        lines = [f"file {file.version} {file.alignment} {file.data_start}"]
        lines += [f"key {pair.key.hex()} {pair.type} {_text(pair.type, pair.value)}" for pair in parsed.key_values]
        for info in parsed.tensor_infos:
            lines.append(f"tensor {info.name.hex()} {info.type} {info.offset} {','.join(map(str, info.ne))}")
            ne = tuple(info.ne)
            lines += _codes(data, file.data_start + info.offset, ne[::-1], info.type, file.byte_order)
    return lines


def expected_fields(data: bytes) -> list[str]:
    """The lines of fields alone, with text instead of hex digits; text that is not UTF-8 as Latin-1."""
    parsed = container.parse(data)
    return fields_of({
        "header": parsed.header,
        "key_values": [
            {"key": _held(pair.key), "type": pair.type, "value": _held_value(pair.type, pair.value)}
            for pair in parsed.key_values
        ],
        "tensor_infos": [{**info, "name": _held(info.name)} for info in parsed.tensor_infos],
    })  # fmt: skip


def fields_of(found: dict[str, Any]) -> list[str]:
    """The lines of the fields of a file; strings and arrays are objects as the pattern has them."""
    header = found["header"]
    lines = [f"file {header['version']} {header['tensor_count']} {header['key_count']}"]
    lines += [
        f"key {pair['key']['text']!r} {pair['type']} {_shown(pair['type'], pair['value'])}"
        for pair in found["key_values"]
    ]
    for info in found["tensor_infos"]:
        lines.append(f"tensor {info['name']['text']!r} {info['type']} {info['offset']} {list(info['ne'])}")
    return lines


def _shown(kind: int, value: Any) -> str:
    if kind == ValueType.STRING:
        return repr(value["text"])
    if kind == ValueType.ARRAY:
        return f"[{value['type']} {' '.join(_shown(value['type'], each) for each in value['items'])}]"
    return _bits(value) if kind in (ValueType.FLOAT32, ValueType.FLOAT64) else str(int(value))


def _held(text: bytes) -> dict[str, Any]:
    try:
        return {"text": text.decode()}
    except UnicodeDecodeError:
        return {"text": text.decode("latin-1")}


def _held_value(kind: int, value: Any) -> Any:
    if kind == ValueType.STRING:
        return _held(value)
    if kind == ValueType.ARRAY:
        return {"type": value.type, "items": [_held_value(value.type, each) for each in value["items"]]}
    return value


def _bits(number: float) -> str:
    return "nan" if math.isnan(number) else struct.pack(">d", number).hex()


def _mixed(numbers: Iterable[int]) -> int:
    mix = 0
    for number in numbers:
        mix = (mix * 31 + number + 1) % 1_000_003
    return mix


def _text(kind: int, value: Any) -> str:
    if kind in (ValueType.FLOAT32, ValueType.FLOAT64):
        return _bits(value)
    if kind == ValueType.STRING:
        return "'" + bytes(value).hex()
    if kind == ValueType.ARRAY:
        return f"[{value.type}{''.join(' ' + _text(value.type, each) for each in value['items'])}]"
    return str(int(value))


def _codes(data: bytes, start: int, shape: tuple[int, ...], number: int, order: str) -> Iterator[str]:
    if number == I2_S.number:
        yield from _i2s(data, start, shape, order)
    for name, layout in GROUP_LAYOUTS.items():
        if layout.type.number == number and shape[-1] % layout.block == 0:
            held = data[start : start + layout.type.nbytes(shape[::-1])]
            values, scales = blocks.unpack(held, shape, name, byte_order=order)  # type: ignore[arg-type]
            parts = (part for value in values.reshape(-1).tolist() for part in (value + 1, value))
            shown = ",".join(_bits(scale) for scale in scales.tolist())
            yield f"{name.replace('_', '').lower()} {_mixed(parts)} {shown}"


def _i2s(data: bytes, start: int, shape: tuple[int, ...], order: str) -> Iterator[str]:
    rows, cols = int(np.prod(shape[:-1])), shape[-1]
    size = rows * cols // 4
    tail = data[start + size : start + size + 32]
    (scale,) = struct.unpack(("<" if order == "little" else ">") + "f", tail[:4])
    yield f"i2s {data[start : start + size].hex()} {_bits(scale)} {tail[4:].hex()}"
    payload, k = np.frombuffer(data, np.uint8)[start : start + size], np.arange(rows * cols)
    for layout in LAYOUTS.values():
        try:
            layout.check(rows, cols)
        except ValueError:
            continue
        codes = payload[layout.byte_of(k, rows, cols)] >> layout.shift_of(k, rows, cols).astype(np.uint8) & 3
        trits = [[NO_TRIT if trit is None else trit for trit in each.trits] for each in CODE_MAPS.values()]
        parts = (part for code in codes.tolist() for part in (code, *(each[code] for each in trits)))
        yield f"{layout.name.replace('-', '')} {_mixed(parts)}"


def _checksum(trits: np.ndarray) -> str:
    total = 2166136261
    for byte in trits.ravel().view(np.uint8).tolist():
        total = (total ^ byte) * 16777619 & 0xFFFFFFFF
    return f"{total:08x}"


def expected_walk(origin: Path | bytes) -> list[str]:
    """The lines of `tests/exports/walk.c`: what our reader and the definition of the codec find, in every dialect."""
    lines = []
    with opened(origin) as file:
        lines.append(f"version {file.version} alignment {file.alignment} data {file.data_start}")
        for tensor in file.tensors.values():
            line = f"{tensor.name} {tensor.number} {tensor.offset}"
            if tensor.number == 36:
                data = tensor.read()
                (scale,) = struct.unpack(("<" if file.byte_order == "little" else ">") + "f", tensor.tail[:4])
                line += _matrix(data, tensor.elements // tensor.shape[-1], tensor.shape[-1], scale)
            lines.append(line)
    return lines


def _matrix(data: bytes, rows: int, cols: int, scale: float) -> str:
    said = f" {rows} {cols} {scale:.9g}"
    for layout in LAYOUTS.values():
        for code_map in CODE_MAPS.values():
            payload = np.frombuffer(data, np.uint8)[: rows * cols // 4]
            k = np.arange(rows * cols)
            try:
                layout.check(rows, cols)
            except ValueError:
                said += " shape"
                continue
            codes = payload[layout.byte_of(k, rows, cols)] >> layout.shift_of(k, rows, cols).astype(np.uint8) & 3
            if (codes == code_map.unused).any():
                said += f" code@{int(np.argmax(codes == code_map.unused))}"
                continue
            trits, _ = unpack(data, (rows, cols), Dialect(layout, code_map, parse("canonical").tail))
            said += f" {_checksum(np.asarray(trits))}"
    return said


def write(folder: Path, files: dict[str, bytes]) -> list[Path]:
    """Write files under numbers, in the order of their names."""
    paths = []
    for i, data in enumerate(files.values()):
        paths.append(folder / f"{i:03}.gguf")
        paths[-1].write_bytes(data)
    return paths
