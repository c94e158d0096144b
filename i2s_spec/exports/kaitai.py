"""The container and ternary tensors as a Kaitai Struct definition.

`kaitai-struct-compiler` makes parsers of it, and the Web IDE shows files by it. Tensors are found by their offsets; the
codes of an I2_S tensor are there under every layout, each computed by the layout's own formula when it is asked for.

The compiler accepts much that its targets then read wrongly or not at all, so the text keeps to a form that all read in
the same way:

- Each type that reads numbers decides its byte order itself, by the mark of the outermost type, whose order is fixed: an
  inherited order is lost in Rust and Go, and one that an instance of the same type decides has no effect in Python, Java
  and Go.
- Each length and count is bounded by the file, from below too, because Java, Lua and PHP have no unsigned 64 bits. What
  a bound cannot express is a size that no file has (`_root.beyond`), which is an error in every language.
- A cast follows each operator whose result is used: its type is otherwise `int`, of 32 bits in Java, C++ and Rust. So
  does one each literal of a choice, which in Go has the smallest type that holds it.
- No remainder of 64 bits (C++ computes it in 32), no literal from 2^31 on, no position of the stream in an instance
  (0 in Rust), no enum on a field (an unlisted number is lost), no value instance with a condition (0 in Go), no choice
  of a type by `switch-on` (neither C++ nor Rust compiles), and no name that a target reserves.
- Floats are read in both orders under a condition, numbers of 64 bits are also there as two halves (JavaScript).

`tests/exports/test_kaitai_form.py` checks the form, `test_kaitai.py` what parsers read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from i2s_spec.exports.javascript import by_parts, without_remainder
from i2s_spec.exports.json_form import Shape, fixed_offsets, records, value_shapes
from i2s_spec.schema import limits
from i2s_spec.schema.blocks import DIGITS_PER_BYTE, GROUP_LAYOUTS, BlockLayout
from i2s_spec.schema.container import ALIGNMENT_KEY
from i2s_spec.schema.dialect import CODE_MAPS, CODES_PER_BYTE, LAYOUTS, Layout
from i2s_spec.schema.faults import MAGIC
from i2s_spec.schema.field import RecordStruct
from i2s_spec.schema.types import I2_S, READINGS, TAIL_BYTES, ValueType

#: Kaitai's types of numbers. Those of four and eight bytes that are no integer of 32 bits have types of their own.
NUMBERS: Final = {
    "u8": "u1", "i8": "s1", "u16": "u2", "i16": "s2", "u32": "u4", "i32": "s4", "f32": "single", "bool": "u1",
    "u64": "u8", "i64": "eight_bytes", "f64": "eight_bytes",
}  # fmt: skip

#: The value of a code without a meaning, as in the C header.
NO_TRIT: Final = 127

#: Names of fields that a target reserves, and their names here.
_RENAMED: Final = {"type": "kind"}

#: The least and the greatest value of fields that count, choose or are checked before all else.
_BOUNDS: Final[dict[str, tuple[object, object]]] = {
    "version": (min(limits.VERSIONS), max(limits.VERSIONS)),
    "tensor_count": (0, "_root.file_size"),
    "key_count": (0, "_root.file_size"),
    "n_dims": (None, limits.MAX_DIMENSIONS),
    "KeyValue.type": (None, max(ValueType)),
}

_ORDER: Final = """\
    meta:
      endian:
        switch-on: _root.order_mark
        cases:
          0: be
          _: le
"""


def text() -> str:
    """Return the definition, as YAML."""
    known = {record.title: record for record in records()}
    parts = [
        _HEAD,
        _record(known["Header"], "header"),
        _record(known["KeyValue"], "key_value", _KEY_VALUE_MORE),
        _values(),
        _record(known["TensorInfo"], "tensor_info", _dimensions() + _tensors()),
        _tensor(known["Tail"]),
        *(_layout(layout) for layout in LAYOUTS.values()),
        *(
            part
            for layout in GROUP_LAYOUTS.values()
            for part in (_block_tensor(layout), _row(layout), _block(layout), _element(layout))
        ),
        _NUMBERS,
        _enums(),
    ]
    return "".join(parts)


def snake(name: str) -> str:
    """Return a name of the schema in Kaitai's style.

    >>> snake("interleave-128")
    'interleave_128'
    """
    return name.replace("-", "_").lower()


def _record(record: RecordStruct, name: str, more: str = "") -> str:
    lines = [f"  {name}:", f"    doc: {record.title}, clause {record.clause}", _ORDER.rstrip("\n"), "    seq:"]
    for field, shape, _ in fixed_offsets(record):
        lines += [f"      - id: {_RENAMED.get(field.name, field.name)}", *(f"        {each}" for each in _shape(shape))]
        if shape.kind == "choice":
            lines.append(f"        type: value({_RENAMED.get(shape.count, shape.count)}, 0.as<u4>)")
        bounds = _BOUNDS.get(f"{record.title}.{field.name}") or _BOUNDS.get(field.name)
        if bounds is None and "u64" in (shape.number, shape.item.number if shape.item else ""):
            bounds = (0, None)
        if shape.kind in ("number", "repeat") and bounds is not None:
            lines += _valid(*bounds)
        lines.append(f"        doc: {json.dumps(field.meaning)}")
    return "\n".join(lines) + "\n" + more


def _valid(least: object, most: object) -> list[str]:
    held = [f"          {word}: {bound}" for word, bound in (("min", least), ("max", most)) if bound is not None]
    return ["        valid:", *held]


def _shape(shape: Shape) -> list[str]:
    match shape.kind:
        case "constant":
            return [f"contents: [{', '.join(map(hex, shape.value))}]"]
        case "number":
            return [f"type: {NUMBERS[shape.number]}"]
        case "string":
            return ["type: text"]
        case "bytes":
            return [f"size: {shape.size}"]
        case "repeat":
            assert shape.item is not None
            return [*_shape(shape.item), "repeat: expr", f"repeat-expr: {shape.count}"]
        case "choice":
            return []
    raise TypeError(f"Kaitai: no {shape.kind}")


def _values() -> str:
    """Return a value: an attribute for each type, of which one is there."""
    lines = []
    for number, (label, shape) in value_shapes().items():
        kind = {"string": "text", "array": "value_array((depth + 1).as<u4>)"}.get(shape.kind)
        kind = kind or ("eight_bytes" if label == "u64" else NUMBERS[label])
        lines += [f"      - id: as_{label}", f"        type: {kind}", f"        if: kind == {number}"]
        if kind == "eight_bytes":
            lines.append("        size: 8")
    return _VALUES.replace("@CASES@\n", "\n".join(lines) + "\n")


def _formula(text: str, number: str) -> str:
    """Return a formula of the schema whose result is a number of 32 or 64 bits.

    >>> _formula("k % 4 * 2", "u4")
    '((k - k / 4 * 4) * 2).as<u4>'
    """
    return f"({without_remainder(text)}).as<{number}>"


def _tensor(tail: RecordStruct) -> str:
    lines = [
        "  i2s_tensor:",
        f"    doc: {I2_S.name}, type {I2_S.number}; payload, then tail. Chapters 5 and 6.",
        "    params:",
        "      - id: rows",
        "        type: u8",
        "      - id: cols",
        "        type: u8",
        "    seq:",
        "      - id: payload",
        f"        size: ((rows * cols).as<u8> / {CODES_PER_BYTE}).as<u8>",
        '        doc: "Two-bit codes, four to a byte."',
    ]
    for field, shape, _ in fixed_offsets(tail):
        lines += [f"      - id: {field.name}", *(f"        {each}" for each in _shape(shape))]
        lines.append(f"        doc: {json.dumps(field.meaning)}")
    lines.append("    instances:")
    for layout in LAYOUTS.values():
        arguments = "".join(f", {name}" for name in _shape_names(layout))
        lines += [
            f"      {snake(layout.name)}:",
            f"        doc: {json.dumps(f'Every element in the layout {layout.name}: {layout.known_as}.')}",
            f"        type: element_{snake(layout.name)}(_index.as<u8>{arguments})",
            "        repeat: expr",
            "        repeat-expr: (rows * cols).as<u8>",
            f"        if: {_whole('(rows * cols).as<u8>', layout.block)}"
            + (f" and {_whole('rows', layout.row_block)}" if layout.row_block > 1 else ""),
        ]
    return "\n".join(lines) + "\n"


def _shape_names(layout: Layout) -> list[str]:
    """Which of rows and columns the place of an element depends on."""
    return [name for name in ("rows", "cols") if name in layout.byte_of + layout.shift_of]


def _whole(number: str, block: int) -> str:
    return f"{number} / {block} * {block} == {number}"


def _layout(layout: Layout) -> str:
    lines = [f"  element_{snake(layout.name)}:", "    params:"]
    for name in ["k", *_shape_names(layout)]:
        lines += [f"      - id: {name}", "        type: u8"]
    lines += [
        "    instances:",
        "      place:",
        '        doc: "Byte of the payload."',
        f"        value: {_formula(layout.byte_of, 'u8')}",
        "      shift:",
        f"        value: {_formula(layout.shift_of, 'u8')}",
        "      code:",
        "        value: (_parent.as<i2s_tensor>.payload[place] >> shift) & 3",
    ]
    for each in CODE_MAPS.values():
        lines += [f"      {snake(each.name)}:", f"        value: {json.dumps(_trit(each.trits))}"]
        lines.append(f'        doc: "{NO_TRIT} for code {each.unused}, which has no meaning."')
    return "\n".join(lines) + "\n"


def _trit(trits: tuple[int | None, ...]) -> str:
    return _choice("code", [NO_TRIT if trit is None else trit for trit in trits], "s4")


def _choice(chosen_by: str, values: Sequence[int], number: str) -> str:
    """One of some literals; each has a cast, because Go gives it the smallest type that holds it.

    >>> _choice("n", (1, 3, 9), "u4")
    '(n == 0 ? (1).as<u4> : (n == 1 ? (3).as<u4> : (9).as<u4>).as<u4>).as<u4>'
    """
    *first, last = (f"({value}).as<{number}>" for value in values)
    for i, value in reversed(list(enumerate(first))):
        last = f"({chosen_by} == {i} ? {value} : {last}).as<{number}>"
    return last


def _enums() -> str:
    lines = ["enums: # no field has one: a number that is not listed would be lost", "  tensor_type:"]
    for number, readings in READINGS.items():
        lines += [f"    {number}:", f"      id: {readings[0].name.lower()}"]
        if len(readings) > 1:
            lines.append(f"      doc: or {', '.join(each.name for each in readings[1:])}")
    return "\n".join(lines) + "\n"


_HEAD: Final = f"""\
# GGUF with I2_S tensors. Written by `i2s schema --format ksy` from the schema of the I2_S specification.
meta:
  id: gguf_i2s
  title: GGUF with I2_S tensors
  application:
    - llama.cpp
    - bitnet.cpp
  file-extension: gguf
  license: MIT
  endian: le # of the outermost type alone, which decides the order of all others
doc: |
  The container of ggml, and the ternary tensors of BitNet models in it (type {I2_S.number}).
doc-ref: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
seq:
  - id: file
    type: container
instances:
  order_mark:
    pos: {len(MAGIC)}
    type: u2
    doc: "The low half of the version where it is little-endian; 0 in a big-endian file."
  file_size:
    value: _io.size.as<u8>
  beyond:
    value: (_io.size.as<u8> + 1).as<u8>
    doc: "A size that the file does not have: where it is asked for, reading ends in an error."
types:
  container:
    seq:
      - id: header
        type: header
      - id: key_values
        type: key_value(_index.as<u8>)
        repeat: expr
        repeat-expr: header.key_count
      - id: tensor_infos
        type: tensor_info
        repeat: expr
        repeat-expr: header.tensor_count
      - id: infos_end
        type: position(_io.pos.as<u8>)
    instances:
      alignment:
        value: "(header.key_count == 0 ? {limits.DEFAULT_ALIGNMENT}.as<u4> : key_values.last.alignment_or_default.as<u4>).as<u8>"
      data_start:
        value: (((infos_end.at + alignment).as<u8> - 1).as<u8> / alignment * alignment).as<u8>
  position:
    params:
      - id: at
        type: u8
  text:
    doc: "A length and as many bytes, clause 2.4"
{_ORDER}\
    seq:
      - id: length
        type: u8
        valid:
          min: 0
          max: _root.file_size
      - id: text
        size: length
"""  # noqa: E501

_KEY_VALUE_MORE: Final = f"""\
      - id: alignment_check
        size: "(alignment_is_sound ? 0.as<u8> : _root.beyond.as<u8>).as<u8>"
    params:
      - id: index
        type: u8
    instances:
      is_alignment:
        value: "key.text == {list(ALIGNMENT_KEY)}"
      before:
        value: "(index == 0 ? 0.as<u4> : _parent.key_values[index - 1].alignment.as<u4>).as<u4>"
      number:
        value: "(kind == {ValueType.UINT32.value} ? value.as_u32.as<u4> : 0.as<u4>).as<u4>"
      alignment:
        doc: "The first general.alignment among the keys so far, or 0."
        value: "(before == 0 and is_alignment ? number.as<u4> : before.as<u4>).as<u4>"
      alignment_is_sound:
        doc: "A power of two; the check asks each key in turn, so that no chain of calls is as long as the list."
        value: "alignment == 0 ? not is_alignment : (alignment & (alignment - 1).as<u4>) == 0 and alignment <= {limits.NAMED["alignment"].default}"
      alignment_or_default:
        value: "(alignment == 0 ? {limits.DEFAULT_ALIGNMENT}.as<u4> : alignment.as<u4>).as<u4>"
"""  # noqa: E501

_VALUES: Final = f"""\
  value:
    doc: "A value: of its attributes, the one of its type is there. Clause 2.5"
{_ORDER}\
    params:
      - id: kind
        type: u4
      - id: depth
        type: u4
    seq:
@CASES@
  value_array:
{_ORDER}\
    params:
      - id: depth
        type: u4
    seq:
      - id: kind
        type: u4
        valid:
          max: {max(ValueType)}
      - id: depth_check
        size: "(kind == {ValueType.ARRAY.value} and depth >= {limits.MAX_ARRAY_DEPTH} ? _root.beyond.as<u8> : 0.as<u8>).as<u8>"
      - id: count
        type: u8
        valid:
          min: 0
          max: _root.file_size
      - id: items
        type: value(kind, depth)
        repeat: expr
        repeat-expr: count
"""  # noqa: E501

_NUMBERS: Final = f"""\
  single:
    doc: Single precision
    seq:
      - id: little
        type: f4le
        if: _root.order_mark != 0
      - id: big
        type: f4be
        if: _root.order_mark == 0
    instances:
      value:
        value: "(_root.order_mark == 0 ? big.as<f8> : little.as<f8>).as<f8>"
  eight_bytes:
    doc: The same eight bytes as three types, and as two halves for languages whose numbers do not have 64 bits.
{_ORDER}\
    seq:
      - id: halves
        type: u4
        repeat: expr
        repeat-expr: 2
    instances:
      as_u64:
        pos: 0
        type: u8
      as_i64:
        pos: 0
        type: s8
      little:
        pos: 0
        type: f8le
      big:
        pos: 0
        type: f8be
      as_f64:
        value: "(_root.order_mark == 0 ? big.as<f8> : little.as<f8>).as<f8>"
  half:
    doc: IEEE 754 half precision, which Kaitai does not have
{_ORDER}\
    seq:
      - id: bits
        type: u2
    instances:
      exponent:
        value: ((bits >> 10) & 31).as<u4>
      power:
        value: "(1 << (exponent == 0 ? 1.as<u4> : exponent.as<u4>).as<u4>).as<u4>"
      fraction:
        value: "(exponent == 0 ? (bits & 1023).as<u4> : ((bits & 1023) + 1024).as<u4>).as<u4>"
      finite:
        value: 1.0 * fraction.as<f8> * power.as<f8> / 33554432.0
      huge:
        doc: "Infinity, for which Kaitai has no literal."
        value: 1.0e300 * fraction.as<f8> * 1.0e300
      magnitude:
        value: "(exponent != 31 ? finite.as<f8> : (fraction == 1024 ? huge.as<f8> : (huge - huge).as<f8>).as<f8>).as<f8>"
      value:
        value: "(bits < 32768 ? 1.0 : -1.0) * magnitude"
"""


# --- tensor infos ----------------------------------------------------------------------------------------------------
# Products of dimensions wrap in most languages, so whether a tensor can be in the file is computed in doubles first.
# The room of tensors shows which of the types that share a number a file means (clause 2.6), and of a tensor so
# small that several fit, by the others of the file: each of the types is an instance, read only when it is asked for.


def _dimensions() -> str:
    names = ["cols", *(f"extent_{i}" for i in range(1, limits.MAX_DIMENSIONS))]
    lines = ["    instances:"]
    for i, name in enumerate(names):
        lines += [f"      {name}:", f'        value: "(n_dims > {i} ? ne[{i}].as<u8> : 1.as<u8>).as<u8>"']
    rows = names[1]
    for name in names[2:]:
        rows = f"({rows} * {name}).as<u8>"
    product = " * ".join(f"{name}.as<f8>" for name in names)
    return (
        "\n".join([
            *lines,
            "      rows:",
            f"        value: {rows}",
            "      fits:",
            '        doc: "Whether the file has a bit for each element, and ends behind the offset."',
            f"        value: 1.0 * {product} <= 8.0 * _root.file_size.as<f8> "
            "and 1.0 * offset.as<f8> <= 1.0 * _root.file_size.as<f8>",
            "      start:",
            '        value: "(fits ? (_root.file.data_start + offset).as<u8> : 0.as<u8>).as<u8>"',
        ])
        + "\n"
    )  # fmt: skip


def _tensors() -> str:
    """Return the instances of a tensor info: the tensor under each type that its number can mean."""
    size = f"((rows * cols).as<u8> / {CODES_PER_BYTE}).as<u8> + {TAIL_BYTES}"
    lines = _tensor_instance("i2s", I2_S.number, "The tensor, if its type is I2_S.", size, "")
    for layout in GROUP_LAYOUTS.values():
        kind, others = layout.type, [each.name for each in READINGS[layout.type.number] if each is not layout.type]
        doc = f"The tensor, if its type is {layout}."
        if others:
            doc += (
                f" {kind.number} may also be {' or '.join(others)}: the bytes up to the next tensor decide (R2.6-10)."
            )
            doc += " If several types fit, it is the type of most tensors of the file."
        row = f"(cols / {layout.block} * {layout.nbytes}).as<u8>"
        if layout.front_bytes:
            row = f"({row} + {layout.front_bytes}).as<u8>"
        size = f"(rows * {row}).as<u8>" + (f" + {TAIL_BYTES}" if layout.scale.apart else "")
        condition = f" and cols > 0 and {_whole('cols', layout.block)}"
        lines += _tensor_instance(layout.name.lower(), kind.number, doc, size, condition)
    return "\n".join(lines) + "\n"


def _tensor_instance(name: str, number: int, doc: str, size: str, condition: str) -> list[str]:
    return [
        f"      {name}:",
        f"        doc: {json.dumps(doc)}",
        "        io: _root._io",
        "        pos: start",
        f"        size: {json.dumps(f'(fits ? ({size}).as<u8> : _root.beyond.as<u8>).as<u8>')}",
        f"        type: {name}_tensor(rows, cols)",
        f"        if: kind == {number}{condition}",
    ]


# --- types with a scale for each group -------------------------------------------------------------------------------


def _block_tensor(layout: BlockLayout) -> str:
    name, apart = layout.name.lower(), layout.scale.apart
    what = "rows of blocks, then a scale for each row, then bytes that mean nothing" if apart else "rows of blocks"
    return f"""\
  {name}_tensor:
    doc: "{layout}, type {layout.type.number}: {what}. Clause 5.6."
    params:
      - id: rows
        type: u8
      - id: cols
        type: u8
    seq:
      - id: each_row
        type: {name}_row(cols)
        repeat: expr
        repeat-expr: rows
""" + (_BEHIND.format(type=_number(layout)) if apart else "")


def _number(layout: BlockLayout) -> str:
    return "half" if layout.scale.type == "F16" else "single"


_BEHIND: Final = f"""\
      - id: scales
        type: {{type}}
        repeat: expr
        repeat-expr: rows
      - id: unused
        size: {TAIL_BYTES}
"""


def _row(layout: BlockLayout) -> str:
    name, scale = layout.name.lower(), layout.scale
    in_front = scale.per == "row" and not scale.apart
    front = _around_scale(layout, "front", layout.front_bytes) if in_front else ""
    return f"""\
  {name}_row:
    params:
      - id: cols
        type: u8
    seq:
{front}      - id: blocks
        type: {name}_block
        repeat: expr
        repeat-expr: (cols / {layout.block}).as<u8>
"""


def _block(layout: BlockLayout) -> str:
    name = layout.name.lower()
    if layout.scale.per == "block":
        seq = _around_scale(layout, "codes", layout.nbytes)
    else:
        seq = f"      - id: codes\n        size: {layout.nbytes}\n"
    return f"""\
  {name}_block:
    seq:
{seq}    instances:
      weights:
        doc: "Each element in order: its code, and its weight without the scale."
        type: {name}_element(_index.as<u4>)
        repeat: expr
        repeat-expr: {layout.block}
"""


def _around_scale(layout: BlockLayout, name: str, size: int) -> str:
    """Return the scale in `size` bytes, and in a field called `name` the other bytes, which are all on one side of
    it.
    """
    scale = layout.scale
    lines = ["      - id: scale", f"        type: {_number(layout)}"]
    rest = [f"      - id: {name}", f"        size: {size - scale.nbytes}"] if size > scale.nbytes else []
    if rest and scale.offset not in (0, size - scale.nbytes):
        raise ValueError(f"{layout} has a scale amid its codes, which this export cannot say")
    return "\n".join([*lines, *rest] if scale.offset == 0 else [*rest, *lines]) + "\n"


def _element(layout: BlockLayout) -> str:
    """Return the code of an element, taken from the codes of its block."""
    first = layout.scale.nbytes if layout.scale.per == "block" and layout.scale.offset == 0 else 0
    at = f"(at - {first}).as<u4>" if first else "at"
    code, power = "(held >> place) & 3", ""
    if layout.coding == "digits":
        powers = _choice("place", [3**n for n in range(DIGITS_PER_BYTE)], "u4")
        power = f"      power:\n        value: {json.dumps(powers)}\n"
        code = "(((held * power).as<u4> & 255).as<u4> * 3).as<u4> >> 8"

    def place(what: str) -> str:
        return json.dumps(
            by_parts(layout, "byte_of" if what == "at" else "place_of", lambda text: _formula(text, "u4"))
        )

    return f"""\
  {layout.name.lower()}_element:
    params:
      - id: k
        type: u4
    instances:
      at:
        doc: "Byte, from the start of the block."
        value: {place("at")}
      place:
        value: {place("place")}
      held:
        value: _parent.as<{layout.name.lower()}_block>.codes[{at}].as<u4>
{power}      code:
        value: ({code}).as<u4>
      weight:
        value: (code.as<s4> - 1).as<s4>
"""
