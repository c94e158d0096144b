"""The container and ternary tensors as a pattern of ImHex, the hex editor.

The editor then shows the fields of a file beside its bytes. Payloads and blocks are arrays of bytes: a pattern for each
code would exceed every limit of the editor. The codes of one block are shown as weights, that of the tensor that an input
variable names. What no pattern can lay over bytes, the place of an element under each layout, is there as functions.
"""

from __future__ import annotations

from typing import Final

from i2s_spec.exports.c_header import block_size, shared_numbers
from i2s_spec.exports.javascript import by_parts, in_c
from i2s_spec.exports.json_form import Shape, fixed_offsets, records, value_shapes
from i2s_spec.schema import limits
from i2s_spec.schema.blocks import DIGITS_PER_BYTE, FOURTH_CODE, GROUP_LAYOUTS, BlockLayout
from i2s_spec.schema.container import ALIGNMENT_KEY
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE, LAYOUTS
from i2s_spec.schema.faults import MAGIC
from i2s_spec.schema.field import RecordStruct
from i2s_spec.schema.i2s import SHIFTS
from i2s_spec.schema.types import I2_S, I2_S_BLOCK, READINGS, TAIL_BYTES, ValueType

#: Patterns that the editor may make, and items of an array. A string takes three patterns, so the vocabulary and the merges
#: of Llama 3 need 1.2 million.
PATTERN_LIMIT: Final = 4_000_000

#: ImHex's names of number types.
NUMBERS = {
    "u8": "u8", "i8": "s8", "u16": "u16", "i16": "s16", "u32": "u32", "i32": "s32", "f32": "float", "bool": "u8",
    "u64": "u64", "i64": "s64", "f64": "double",
}  # fmt: skip


#: What is checked after a field, because the pattern could not go on or would show something else: a fault, and its words.
_CHECKS: Final = {
    ("Header", "magic"): (f'magic != "{MAGIC.decode()}"', "this is no GGUF file"),
    ("Header", "version"): (
        f"version < {min(limits.VERSIONS)} || version > {max(limits.VERSIONS)}",
        "no reader knows this version",
    ),
    ("TensorInfo", "n_dims"): (f"n_dims > {limits.MAX_DIMENSIONS}", "a tensor has at most four dimensions"),
    ("TensorInfo", "offset"): ("offset > std::mem::size()", "this offset is behind the end of the file"),
}


def text() -> str:
    """Return the pattern."""
    known = {record.title: record for record in records()}
    return "\n".join([
        _HEAD,
        _enum(),
        _struct(known["Header"], "Header"),
        _TEXT,
        _ARRAY.replace("@CASES@\n", _cases("items[count]")),
        _struct(known["KeyValue"], "KeyValue", _ALIGNMENT),
        _struct(known["TensorInfo"], "TensorInfo", _ELEMENTS),
        _functions(),
        _lane(),
        _struct(known["Tail"], "Tail"),
        types(),
        _TABLES,
        meanings(),
        _TENSOR.replace("@BLOCKS@", tensors()),
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
        if check := _CHECKS.get((name, field.name)):
            lines += [f"    if ({check[0]})", f'        std::error("{check[1]}");']
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
                f"    return {in_c(formula)};",
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
    """Return the four codes of a byte, by their bits; ImHex counts fields from the lowest bit up."""
    lines = [f'    bits_{shift + 1}_{shift} : 2 [[format("trit")]];' for shift in reversed(SHIFTS)]
    return "\n".join(["// The codes in a byte of a payload: clause 5.3.", "bitfield Lane {", *lines, "};", ""])


#: Bytes of a block of I2_S in the canonical layout.
_BLOCK_BYTES: Final = I2_S_BLOCK // CODES_PER_BYTE

_HEAD = f"""\
// GGUF with I2_S tensors. Written by `i2s schema --format hexpat` from the schema of the I2_S specification.
#pragma description GGUF with I2_S tensors
#pragma magic [ {MAGIC.hex(" ").upper()} ] @ 0x00
#pragma pattern_limit {PATTERN_LIMIT}
#pragma array_limit {PATTERN_LIMIT}
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

// Settings: the tensor whose codes are shown, 1 for the first and 0 for none, and which of its blocks, 0 for the first.
u64 shown_tensor in;
u64 shown_block in;
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

_ARRAY = f"""\
u32 depth = 0;

struct Array {{
    u32 type;
    u64 count;
    if (type == {ValueType.ARRAY.value} && depth + 1 >= {limits.MAX_ARRAY_DEPTH})
        std::error("arrays are nested too deep");
    depth = depth + 1;
@CASES@
    depth = depth - 1;
}};
"""

_ALIGNMENT = f"""\
    if (!alignment_said && key.text == "{ALIGNMENT_KEY.decode()}") {{
        if (type != {ValueType.UINT32.value})
            std::error("general.alignment is a u32");
        if (value == 0 || (value & (value - 1)) != 0 || value > {limits.NAMED["alignment"].default})
            std::error("general.alignment is a power of two");
        alignment = value;
        alignment_said = true;
    }}
"""

_ELEMENTS = """\
    u128 cols = n_dims > 0 ? ne[0] : 1;
    u128 rows = (n_dims > 1 ? ne[1] : 1) * (n_dims > 2 ? ne[2] : 1) * (n_dims > 3 ? ne[3] : 1);
"""

_TABLES = f"""\
// Codes, then the tail: chapters 5 and 6.
struct I2S<auto n> {{
    u8 payload[n / {CODES_PER_BYTE}];
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
    u128 rows = tensor_infos[i].rows;
    u128 cols = tensor_infos[i].cols;
    u64 start = data_start + tensor_infos[i].offset;
    bool is_shown = i + 1 == shown_tensor;
    if (tensor_infos[i].type == TensorType::{I2_S.name}) {{
        I2S<rows * cols> data @ start;
        if (is_shown && (shown_block + 1) * {_BLOCK_BYTES} <= rows * cols / {CODES_PER_BYTE})
            Lane block[{_BLOCK_BYTES}] @ start + shown_block * {_BLOCK_BYTES};
    }}
@BLOCKS@}};

// A file without tensors may end before its data section; a condition cannot place anything outside of a struct.
Tensor tensors[header.tensor_count] @ header.tensor_count > 0 ? data_start : 0;
"""


# --- types with a scale for each group -------------------------------------------------------------------------------
# The block that is shown has its scale, and of each byte of codes the weights without it. Where the code of an element is,
# and which weight it stands for, functions say.

#: Bits of the exponent of half precision, from the highest down, and the final divisor of its fraction.
_EXPONENT_BITS: Final = (16, 8, 4, 2, 1)
_HALF_UNIT: Final = 25


def types() -> str:
    """Half precision, the codes of a byte, and for each type a block and the places of its codes."""
    return "\n".join([_HALF, _codes(), *(_type(layout) for layout in GROUP_LAYOUTS.values())])


def tensors() -> str:
    """Return the members of a tensor: its bytes, under the type that its number means, and one block, with its
    scale.
    """
    lines: list[str] = []
    for layout in GROUP_LAYOUTS.values():
        number, scale = layout.type.number, layout.scale
        conditions = [f"tensor_infos[i].type == TensorType::{READINGS[number][0]}", f"cols % {layout.block} == 0"]
        if number in shared_numbers():
            conditions.append(f"meaning_of(i) == {_MEANINGS.index(layout.type)}")
        row = f"cols / {layout.block} * {layout.nbytes}"
        place = f"start + shown_block * {layout.nbytes}"
        data = f"u8 data[rows * ({row})] @ start;"
        of_row: list[str] = []
        if scale.apart:
            data = f"Apart_{layout}<rows, cols> data @ start;"
        elif scale.per == "row":
            row = f"{layout.front_bytes} + {row}"
            data = f"u8 data[rows * ({row})] @ start;"
            first = f"start + shown_block / (cols / {layout.block}) * ({row})"
            of_row = [_scale(layout, place=first)]
            place = f"{first} + {layout.front_bytes} + shown_block % (cols / {layout.block}) * {layout.nbytes}"
        lines += [
            f"    {'else ' if lines else ''}if ({' && '.join(conditions)}) {{",
            f"        {data}",
            f"        if (is_shown && shown_block < rows * (cols / {layout.block})) {{",
            *(f"            {each}" for each in of_row),
            f"            Block_{layout} block @ {place};",
            "        }",
            "    }",
        ]
    return "\n".join(lines) + "\n"


def _scale(layout: BlockLayout, count: str = "", place: str = "") -> str:
    """Return the declaration of a scale, or of several, at a place."""
    where = f" @ {place}" if place else ""
    if layout.scale.type == "F32":
        return f"float scale{'s' if count else ''}{count}{where};"
    return f'u16 scale{"s" if count else ""}{count}{where} [[format("half")]];'


def _codes() -> str:
    """Return the codes in a byte: pairs of bits from the lowest up, or digits."""
    words = [f'    if (code == {code}) return "{code - 1:+d}";' for code in range(FOURTH_CODE + 1) if code != 1]
    lanes = [f'    bits_{shift + 1}_{shift} : 2 [[format("weight")]];' for shift in (0, 2, 4, 6)]
    powers = str(3 ** (DIGITS_PER_BYTE - 1))
    for n in reversed(range(DIGITS_PER_BYTE - 1)):
        powers = f"place == {n} ? {3**n} : {powers if powers.isdigit() else f'({powers})'}"
    digits = ' + " " + '.join(f"weight(digit(byte.held, {n}))" for n in range(DIGITS_PER_BYTE))
    return "\n".join([
        "// A code as the weight that it stands for, without the scale: clause 5.6.",
        "fn weight(u8 code) {", *words, '    return "0";', "};", "",
        "bitfield Pairs {", *lanes, "};", "",
        "fn digit(u128 held, u128 place) {", f"    u128 power = {powers};",
        "    return held * power % 256 * 3 / 256;", "};", "",
        "fn pair(u128 held, u128 place) {", "    return (held >> place) & 3;", "};", "",
        "// Five digits of base 3, the highest first.",
        "struct Digits {", "    u8 held;", '} [[format("digits")]];', "",
        "fn digits(ref Digits byte) {", f"    return {digits};", "};", "",
    ])  # fmt: skip


def _type(layout: BlockLayout) -> str:
    scale, name = layout.scale, layout.name
    kind = "Pairs" if layout.coding == "bits" else "Digits"
    size = layout.nbytes - (scale.nbytes if scale.per == "block" else 0)
    members, apart = [f"    {kind} codes[{size}];"], list[str]()
    if scale.apart:
        apart = [
            f"struct Apart_{name}<auto rows, auto cols> {{",
            f"    u8 codes[rows * (cols / {layout.block}) * {layout.nbytes}];",
            f"    {_scale(layout, '[rows]')}", f"    u8 unused[{TAIL_BYTES}];", "};", "",
        ]  # fmt: skip
    elif scale.per == "row":
        if scale.nbytes != layout.front_bytes:
            raise ValueError(f"{layout} has more than a scale in front of a row, which this export cannot say")
    elif scale.offset in (0, size):
        members.insert(0 if scale.offset == 0 else 1, f"    {_scale(layout)}")
    else:
        raise ValueError(f"{layout} has a scale amid its codes, which this export cannot say")
    read = "pair" if layout.coding == "bits" else "digit"
    return "\n".join([
        f"// {name}, type {layout.type.number}: {layout.block} weights in {layout.nbytes} bytes.",
        f"struct Block_{name} {{", *members, "};", "",
        *apart,
        f"// Of element k of a block: its byte, {'the shift of its code' if read == 'pair' else 'its digit'}, its code.",
        f"fn byte_of_{name}(u128 k) {{", f"    return {by_parts(layout, 'byte_of', in_c)};", "};", "",
        f"fn place_of_{name}(u128 k) {{", f"    return {by_parts(layout, 'place_of', in_c)};", "};", "",
        f"fn code_of_{name}(u128 address, u128 k) {{",
        f"    u8 held = std::mem::read_unsigned(address + byte_of_{name}(k), 1);",
        f"    return {read}(held, place_of_{name}(k));",
        "};", "",
    ])  # fmt: skip


def _half() -> str:
    steps = [
        f"    if (exponent / {bit} % 2 == 1)\n        value = value * {2.0**bit};" for bit in _EXPONENT_BITS
    ]  # fmt: skip
    return "\n".join([
        "// Half precision: what a float16 stands for.",
        "fn half(u128 bits) {",
        "    u128 exponent = bits / 1024 % 32;",
        "    double value = bits % 1024;",
        "    if (exponent == 31)",
        '        return value > 0 ? "NaN" : (bits < 32768 ? "infinity" : "-infinity");',
        "    if (exponent > 0)",
        "        value = value + 1024;",
        "    else",
        "        exponent = 1;",
        *steps,
        f"    value = value / {2.0**_HALF_UNIT};",
        "    return bits < 32768 ? value : 0.0 - value;",
        "};",
        "",
    ])  # fmt: skip


_HALF: Final = _half()

#: Every type whose number several types share.
_MEANINGS: Final = [kind for kinds in shared_numbers().values() for kind in kinds]


def meanings() -> str:
    """Return the code that decides between types that share a number; it comes after the tensor infos."""
    sizes = []
    for i, kind in enumerate(_MEANINGS):
        block, size = block_size(kind)
        bytes_of = f"rows * (cols / {block} * {size})"
        if kind.name in GROUP_LAYOUTS:
            layout = GROUP_LAYOUTS[kind.name]
            block, tail = layout.block, f" + {TAIL_BYTES}" if layout.scale.apart else ""
            front = f"{layout.front_bytes} + " if layout.front_bytes else ""
            bytes_of = f"rows * ({front}cols / {block} * {layout.nbytes}){tail}"
        elif not block:
            block, bytes_of = 1, "bytes_of_TL2(cols, tensor_infos[i].n_dims > 1 ? tensor_infos[i].ne[1] : 1)"
        sizes.append(f"    if (meaning == {i}) // {kind}, {kind.number}")
        sizes.append(f"        return {f'cols % {block} == 0 ? {bytes_of} : 0' if block > 1 else bytes_of};")
    ranges, first = [], 0
    for number, kinds in shared_numbers().items():
        ranges += [
            f"    if (tensor_infos[i].type == TensorType::{READINGS[number][0]})",
            f"        return chosen(i, {first}, {first + len(kinds) - 1});",
        ]
        first += len(kinds)
    return _ROOM.replace("@SIZES@", "\n".join(sizes)).replace("@RANGES@", "\n".join(ranges))


#: The number that stands for no meaning.
_NONE: Final = 99

_ROOM: Final = f"""\
// TL2: five bits for three weights, four for two of the last 256 columns.
fn bytes_of_TL2(u128 cols, u128 rows) {{
    u128 threes = (cols < 256 ? 256 - cols : cols - 256) * rows / 3 * 5 / 8;
    u128 size = cols < 256 ? rows * 64 - threes : rows * 64 + threes;
    return (size + 31) / 32 * 32 + {TAIL_BYTES};
}};

// Bytes of a tensor under one meaning of its number; 0 where its rows are not whole blocks.
fn bytes_as(u128 i, u128 meaning) {{
    u128 cols = tensor_infos[i].cols;
    u128 rows = tensor_infos[i].rows;
@SIZES@
    return 0;
}};

// Whether a tensor has exactly the bytes of a meaning, padded or not, until the next one begins: clause 2.6.
fn fits(u128 i, u128 meaning, u128 room) {{
    u128 bytes = bytes_as(i, meaning);
    return bytes > 0 && (room == bytes || room == (bytes + alignment - 1) / alignment * alignment);
}};

fn room_of(u128 i) {{
    u128 room = std::mem::size() - data_start - tensor_infos[i].offset;
    for (u128 j = 0, j < header.tensor_count, j = j + 1) {{
        if (tensor_infos[j].offset > tensor_infos[i].offset && tensor_infos[j].offset - tensor_infos[i].offset < room)
            room = tensor_infos[j].offset - tensor_infos[i].offset;
    }}
    return room;
}};

// How many tensors of a number fit a meaning of it; 0 where tensors are not in the order of their offsets.
fn votes(u128 same, u128 meaning) {{
    u128 count = 0;
    for (u128 j = 0, j < header.tensor_count, j = j + 1) {{
        u128 end = std::mem::size() - data_start;
        if (j + 1 < header.tensor_count)
            end = tensor_infos[j + 1].offset;
        if (end <= tensor_infos[j].offset)
            return 0;
        if (tensor_infos[j].type == tensor_infos[same].type && fits(j, meaning, end - tensor_infos[j].offset))
            count = count + 1;
    }}
    return count;
}};

// The meaning from `first` to `last` that fits a tensor. If several fit, it is the one that fits most tensors of the file,
// or the first of these.
fn chosen(u128 i, u128 first, u128 last) {{
    u128 room = room_of(i);
    u128 found = {_NONE};
    u128 fitting = 0;
    for (u128 m = first, m <= last, m = m + 1) {{
        if (fits(i, m, room)) {{
            fitting = fitting + 1;
            if (fitting == 1)
                found = m;
        }}
    }}
    if (fitting < 2)
        return found;
    u128 common = first;
    u128 most = votes(i, first);
    for (u128 m = first + 1, m <= last, m = m + 1) {{
        u128 count = votes(i, m);
        if (count > most) {{
            common = m;
            most = count;
        }}
    }}
    return fits(i, common, room) ? common : found;
}};

fn meaning_of(u128 i) {{
@RANGES@
    return {_NONE};
}};
"""
