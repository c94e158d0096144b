"""This module writes the container and ternary tensors as a pattern of ImHex, the hex editor.

The editor then shows the fields of a file beside its bytes, and of each byte of a payload its four trits. What no
pattern can lay over bytes, the place of an element under each layout, is there as functions.
"""

from __future__ import annotations

from i2s_spec.exports import hexpat_blocks
from i2s_spec.exports.description import Shape, fixed_offsets, records, value_shapes
from i2s_spec.exports.formula import in_c
from i2s_spec.schema import limits
from i2s_spec.schema.checks import MAGIC
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE, LAYOUTS
from i2s_spec.schema.field import RecordStruct
from i2s_spec.schema.gguf import ALIGNMENT_KEY
from i2s_spec.schema.i2s import SHIFTS
from i2s_spec.schema.types import I2_S, READINGS, TAIL_BYTES, ValueType

#: ImHex's names of number types.
NUMBERS = {
    "u8": "u8", "i8": "s8", "u16": "u16", "i16": "s16", "u32": "u32", "i32": "s32", "f32": "float", "bool": "u8",
    "u64": "u64", "i64": "s64", "f64": "double",
}  # fmt: skip


def text() -> str:
    """The pattern."""
    known = {record.title: record for record in records()}
    return "\n".join([
        _HEAD,
        _enum(),
        _struct(known["Header"], "Header"),
        _TEXT,
        f"struct Array {{\n    u32 type;\n    u64 count;\n{_cases('items[count]')}}};\n",
        _struct(known["KeyValue"], "KeyValue", _ALIGNMENT),
        _struct(known["TensorInfo"], "TensorInfo", _ELEMENTS),
        _functions(),
        _lane(),
        _struct(known["Tail"], "Tail"),
        hexpat_blocks.types(),
        _TABLES,
        hexpat_blocks.meanings(),
        _TENSOR.replace("@BLOCKS@", hexpat_blocks.tensors()),
    ])  # fmt: skip


def _enum() -> str:
    lines = [f"    {readings[0].name} = {number}," for number, readings in READINGS.items()]
    return "\n".join(["enum TensorType : s32 {", *lines, "};", ""])


def _struct(record: RecordStruct, name: str, more: str = "") -> str:
    lines = [f"// {record.title}: clause {record.clause}.", f"struct {name} {{"]
    for field, shape, _ in fixed_offsets(record):
        comment = f' [[comment("{field.meaning}")]]'.replace("'GGUF'", "GGUF")
        if shape.kind == "choice":
            lines.append(_cases("value").rstrip("\n"))
        else:
            lines.append(f"    {_member(name, field.name, shape)}{comment};")
    return "\n".join([*lines, more.rstrip("\n"), "};", ""] if more else [*lines, "};", ""])


def _member(record: str, name: str, shape: Shape) -> str:
    match shape.kind:
        case "constant":
            return f"char {name}[{shape.size}]"
        case "number":
            kind = "TensorType" if (record, name) == ("TensorInfo", "type") else NUMBERS[shape.number]
            return f"{kind} {name}"
        case "string":
            return f"Text {name}"
        case "bytes":
            return f"u8 {name}[{shape.size}]"
        case "repeat":
            assert shape.item is not None
            return f"{NUMBERS[shape.item.number]} {name}[{shape.count}]"
    raise TypeError(f"ImHex: no {shape.kind}")


def _cases(member: str) -> str:
    lines = ["    match (type) {"]
    for number, (label, shape) in value_shapes().items():
        kind = {"string": "Text", "array": "Array"}.get(shape.kind) or NUMBERS[label]
        lines.append(f"        ({number}): {kind} {member};")
    lines.append('        (_): std::error("no value has this type");')
    return "\n".join([*lines, "    }", ""])


def _functions() -> str:
    """Byte and shift of each layout, and the trits of the canonical code map."""
    parts = []
    for layout in LAYOUTS.values():
        name = layout.name.replace("-", "_")
        for what, formula in (("byte", layout.byte_of), ("shift", layout.shift_of)):
            parts += [
                f"fn {what}_of_{name}(u128 k, u128 rows, u128 cols) {{",
                f"    return {in_c(formula.text)};",
                "};",
                "",
            ]
    trits = CANONICAL.code_map.trits
    lines = [
        f'    if (code == {code}) return "{trit:+d}";' for code, trit in enumerate(trits) if trit is not None and trit
    ]
    zero = f'    if (code == {trits.index(0)}) return "0";'
    return "\n".join([*parts, "fn trit(u8 code) {", *lines, zero, '    return "undefined";', "};", ""])


def _lane() -> str:
    """The four codes of a byte, by their bits; ImHex counts fields from the lowest bit up."""
    lines = [f'    bits_{shift + 1}_{shift} : 2 [[format("trit")]];' for shift in reversed(SHIFTS)]
    return "\n".join(["// The codes in a byte of a payload: clause 5.3.", "bitfield Lane {", *lines, "};", ""])


_HEAD = f"""\
// GGUF with I2_S tensors. Written by `i2s schema --format hexpat` from the schema of the I2_S specification.
#pragma description GGUF with I2_S tensors
#pragma magic [ {MAGIC.hex(" ").upper()} ] @ 0x00
#pragma pattern_limit 1000000
#pragma array_limit 1000000
#pragma loop_limit 1000000

import std.core;
import std.io;
import std.mem;

// No flag says the byte order: a big-endian version has zeros in its first two bytes. Clause 2.3.
fn follow_the_order_of_the_file() {{
    if (std::mem::read_unsigned(4, 2, std::mem::Endian::Little) == 0)
        std::core::set_endian(std::mem::Endian::Big);
    else
        std::core::set_endian(std::mem::Endian::Little);
}};
follow_the_order_of_the_file();

u64 alignment = {limits.DEFAULT_ALIGNMENT};
bool alignment_said = false;
"""

_TEXT = """\
// A length and as many bytes, with no terminator: clause 2.4.
struct Text {
    u64 length;
    char text[length];
} [[format("shown")]];

fn shown(ref Text value) {
    return value.text;
};
"""

_ALIGNMENT = f"""\
    if (!alignment_said && type == {ValueType.UINT32.value} && key.text == "{ALIGNMENT_KEY.decode()}") {{
        alignment = value;
        alignment_said = true;
    }}
"""

_ELEMENTS = """\
    u64 cols = n_dims > 0 ? ne[0] : 1;
    u64 rows = (n_dims > 1 ? ne[1] : 1) * (n_dims > 2 ? ne[2] : 1) * (n_dims > 3 ? ne[3] : 1);
"""

_TABLES = f"""\
// Codes, then the tail: chapters 5 and 6.
struct I2S<auto n> {{
    Lane payload[n / {CODES_PER_BYTE}];
    Tail tail;
}};

Header header @ 0x00;
KeyValue key_values[header.key_count] @ $;
TensorInfo tensor_infos[header.tensor_count] @ $;
u64 data_start = ($ + alignment - 1) / alignment * alignment;
"""

_TENSOR = f"""\
// One for each tensor info; the data are laid over the file where its offset says.
struct Tensor {{
    u64 i = std::core::array_index();
    u64 rows = tensor_infos[i].rows;
    u64 cols = tensor_infos[i].cols;
    u64 start = data_start + tensor_infos[i].offset;
    if (tensor_infos[i].type == TensorType::{I2_S.name})
        I2S<rows * cols> data @ start;
@BLOCKS@}};
Tensor tensors[header.tensor_count] @ data_start [[comment("I2_S: n / {CODES_PER_BYTE} + {TAIL_BYTES} bytes each")]];
"""
