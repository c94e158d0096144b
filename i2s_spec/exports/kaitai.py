"""The container and ternary tensors as a Kaitai Struct definition.

`kaitai-struct-compiler` makes parsers of it in a dozen languages, and the Web IDE shows files by it. Byte order follows
the file; tensors are found by their offsets; the codes of an I2_S tensor are there under every layout, each computed by
the layout's own formula when it is asked for.
"""

from __future__ import annotations

import json
from typing import Final

from i2s_spec.exports.javascript import by_parts, in_c
from i2s_spec.exports.json_form import Shape, fixed_offsets, records, value_shapes
from i2s_spec.schema import limits
from i2s_spec.schema.blocks import DIGITS_PER_BYTE, GROUP_LAYOUTS, BlockLayout
from i2s_spec.schema.container import ALIGNMENT_KEY
from i2s_spec.schema.dialect import CODE_MAPS, CODES_PER_BYTE, LAYOUTS
from i2s_spec.schema.field import RecordStruct
from i2s_spec.schema.types import I2_S, READINGS, TAIL_BYTES, ValueType

#: Kaitai's names of number types.
NUMBERS = {
    "u8": "u1", "i8": "s1", "u16": "u2", "i16": "s2", "u32": "u4", "i32": "s4", "f32": "f4", "bool": "u1", "u64": "u8",
    "i64": "s8", "f64": "f8",
}  # fmt: skip


def text() -> str:
    """The definition, as YAML."""
    known = {record.title: record for record in records()}
    parts = [
        _HEAD,
        _record(known["Header"], "header"),
        _record(known["KeyValue"], "key_value", _KEY_VALUE_MORE),
        _VALUES,
        _value_cases(4),
        _TYPES_OF_VALUES,
        _value_cases(4),
        _record(known["TensorInfo"], "tensor_info", _TENSOR_INFO_MORE + instances()),
        _tensor(known["Tail"]),
        *(_layout(name) for name in LAYOUTS),
        types(),
        _enums(),
    ]
    return "".join(parts)


def snake(name: str) -> str:
    """A name of the schema in Kaitai's style.

    >>> snake("interleave-128")
    'interleave_128'
    """
    return name.replace("-", "_").lower()


def _record(record: RecordStruct, name: str, more: str = "") -> str:
    lines = [f"  {name}:", f"    doc: {record.title}, clause {record.clause}", "    seq:"]
    for field, shape, _ in fixed_offsets(record):
        lines += [f"      - id: {field.name}", *(f"        {each}" for each in _shape(shape))]
        if shape.kind == "choice":
            lines.append("        type: value(type)")
        lines.append(f"        doc: {json.dumps(field.meaning)}")
    return "\n".join(lines) + "\n" + more


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


def _value_cases(indent: int) -> str:
    lines = []
    for number, (label, shape) in value_shapes().items():
        kind = {"string": "text", "array": "array"}.get(shape.kind) or NUMBERS[label]
        lines.append(f"{' ' * (indent + 8)}{number}: {kind}")
    return "\n".join(lines) + "\n"


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
        f"        size: rows * cols / {CODES_PER_BYTE}",
        '        doc: "Two-bit codes, four to a byte."',
    ]
    for field, shape, _ in fixed_offsets(tail):
        lines += [f"      - id: {field.name}", *(f"        {each}" for each in _shape(shape))]
        lines.append(f"        doc: {json.dumps(field.meaning)}")
    lines.append("    instances:")
    for layout in LAYOUTS.values():
        lines += [
            f"      {snake(layout.name)}:",
            f"        doc: {json.dumps(f'Every element in the layout {layout.name}: {layout.known_as}.')}",
            f"        type: element_{snake(layout.name)}(_index)",
            "        repeat: expr",
            "        repeat-expr: rows * cols",
        ]
        if layout.row_block > 1:
            lines.append(f"        if: rows % {layout.row_block} == 0")
    return "\n".join(lines) + "\n"


def _layout(name: str) -> str:
    layout = LAYOUTS[name]
    rows = ["      rows:", "        value: _parent.as<i2s_tensor>.rows"]
    cols = ["      cols:", "        value: _parent.as<i2s_tensor>.cols"]
    lines = [
        f"  element_{snake(name)}:",
        "    params:",
        "      - id: k",
        "        type: u8",
        "    instances:",
        *(rows if "rows" in layout.byte_of.text + layout.shift_of.text else []),
        *(cols if "cols" in layout.byte_of.text + layout.shift_of.text else []),
        "      byte:",
        f"        value: {in_c(layout.byte_of.text)}",
        "      shift:",
        f"        value: {in_c(layout.shift_of.text)}",
        "      code:",
        "        value: (_parent.as<i2s_tensor>.payload[byte] >> shift) & 3",
    ]
    for each in CODE_MAPS.values():
        lines += [f"      {snake(each.name)}:", f"        value: {json.dumps(_trit(each.trits))}"]
        lines.append(f"        if: code != {each.unused}")
    return "\n".join(lines) + "\n"


def _trit(trits: tuple[int | None, ...]) -> str:
    """The trit of `code`; the code without a meaning never reaches this expression."""
    known = [(code, trit) for code, trit in enumerate(trits) if trit is not None]
    expression = str(known[-1][1])
    for code, trit in reversed(known[:-1]):
        expression = f"code == {code} ? {trit} : {expression}"
    return expression


def _enums() -> str:
    lines = ["enums:", "  tensor_type:"]
    for number, readings in READINGS.items():
        lines += [f"    {number}:", f"      id: {readings[0].name.lower()}"]
        if len(readings) > 1:
            lines.append(f"      doc: or {', '.join(each.name for each in readings[1:])}")
    return "\n".join(lines) + "\n"


_HEAD = f"""\
# GGUF with I2_S tensors. Written by `i2s schema --format ksy` from the schema of the I2_S specification.
meta:
  id: gguf_i2s
  title: GGUF with I2_S tensors
  application:
    - llama.cpp
    - bitnet.cpp
  file-extension: gguf
  license: MIT
  endian:
    switch-on: order_mark
    cases:
      0: be
      _: le
doc: |
  The container of ggml, and the ternary tensors of BitNet models in it (type {I2_S.number}).
doc-ref: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
seq:
  - id: header
    type: header
  - id: key_values
    type: key_value(_index)
    repeat: expr
    repeat-expr: header.key_count
  - id: tensor_infos
    type: tensor_info
    repeat: expr
    repeat-expr: header.tensor_count
  - id: infos_end_mark
    size: 0
    if: infos_end >= 0
instances:
  order_mark:
    pos: 4
    type: u2le
    doc: "The low half of the version where it is little-endian; 0 in a big-endian file."
  infos_end:
    value: _io.pos
  alignment:
    value: "header.key_count == 0 ? {limits.DEFAULT_ALIGNMENT} : key_values.last.alignment_or_default"
  data_start:
    value: (infos_end + alignment - 1) / alignment * alignment
types:
  text:
    seq:
      - id: length
        type: u8
      - id: text
        size: length
"""

_KEY_VALUE_MORE = f"""\
      - id: alignment_mark
        size: 0
        if: alignment >= 0
    params:
      - id: index
        type: u8
    instances:
      is_alignment:
        value: "key.length == {len(ALIGNMENT_KEY)} and type == {ValueType.UINT32.value} and key.text == {list(ALIGNMENT_KEY)}"
      before:
        value: "index == 0 ? 0.as<u4> : _parent.key_values[index - 1].alignment.as<u4>"
      alignment:
        doc: "The first general.alignment among the keys so far, or 0."
        value: "before != 0 ? before : (is_alignment ? value.value.as<u4> : 0.as<u4>)"
      alignment_or_default:
        value: "alignment == 0 ? {limits.DEFAULT_ALIGNMENT} : alignment"
"""  # noqa: E501

_VALUES = """\
  value:
    params:
      - id: type
        type: u4
    seq:
      - id: value
        type:
          switch-on: type
          cases:
"""

_TYPES_OF_VALUES = """\
  array:
    seq:
      - id: type
        type: u4
      - id: count
        type: u8
      - id: items
        repeat: expr
        repeat-expr: count
        type:
          switch-on: type
          cases:
"""

_TENSOR_INFO_MORE = f"""\
    instances:
      cols:
        value: "n_dims > 0 ? ne[0] : 1"
      rows:
        value: "(n_dims > 1 ? ne[1] : 1) * (n_dims > 2 ? ne[2] : 1) * (n_dims > 3 ? ne[3] : 1)"
      i2s:
        doc: "The tensor, if its type is I2_S."
        io: _root._io
        pos: _root.data_start + offset
        size: rows * cols / {CODES_PER_BYTE} + {TAIL_BYTES}
        type: i2s_tensor(rows, cols)
        if: type == {I2_S.number}
"""


# --- types with a scale for each group -------------------------------------------------------------------------------
# Kaitai has no half precision, so a half is computed from its bits; an infinity or NaN, which Kaitai has no literal
# for, is left out, and its bits are still there. Which of the types that share a number a file means is told by the
# room of its tensors (clause 2.6), and of a tensor so small that several fit, by the others of the file: each of the
# types is an instance, and nothing is read before it is asked for.


def types() -> str:
    """The types: for each layout a tensor, a row, a block and an element, and half precision."""
    return "".join(
        part
        for layout in GROUP_LAYOUTS.values()
        for part in (_block_tensor(layout), _row(layout), _block(layout), _element(layout))
    ) + _HALF.format(powers=", ".join(_power(exponent) for exponent in range(_EXPONENTS)))


def instances() -> str:
    """The instances of a tensor info: the tensor under each type that its number can mean."""
    lines = []
    for layout in GROUP_LAYOUTS.values():
        kind, others = layout.type, [each.name for each in READINGS[layout.type.number] if each is not layout.type]
        doc = f"The tensor, if its type is {layout}."
        if others:
            doc += (
                f" {kind.number} may also be {' or '.join(others)}: the bytes up to the next tensor decide (R2.6-10)."
            )
            doc += " If several types fit, it is the type of most tensors of the file."
        lines += [
            f"      {layout.name.lower()}:",
            f"        doc: {json.dumps(doc)}",
            "        io: _root._io",
            "        pos: _root.data_start + offset",
            f"        size: rows * ({_row_bytes(layout)}){f' + {TAIL_BYTES}' if layout.scale.apart else ''}",
            f"        type: {layout.name.lower()}_tensor(rows, cols)",
            f"        if: type == {kind.number} and n_dims > 0 and cols % {layout.block} == 0",
        ]
    return "\n".join(lines) + "\n"


def _row_bytes(layout: BlockLayout) -> str:
    front = f"{layout.front_bytes} + " if layout.front_bytes else ""
    return f"{front}cols / {layout.block} * {layout.nbytes}"


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
    return "half" if layout.scale.type == "F16" else "f4"


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
        repeat-expr: cols / {layout.block}
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
        type: {name}_element(_index)
        repeat: expr
        repeat-expr: {layout.block}
"""


def _around_scale(layout: BlockLayout, name: str, size: int) -> str:
    """The scale in `size` bytes, and in a field called `name` the other bytes, which are all on one side of it."""
    scale = layout.scale
    lines = ["      - id: scale", f"        type: {_number(layout)}"]
    rest = [f"      - id: {name}", f"        size: {size - scale.nbytes}"] if size > scale.nbytes else []
    if rest and scale.offset not in (0, size - scale.nbytes):
        raise ValueError(f"{layout} has a scale amid its codes, which this export cannot say")
    return "\n".join([*lines, *rest] if scale.offset == 0 else [*rest, *lines]) + "\n"


def _element(layout: BlockLayout) -> str:
    """The code of an element, taken from the codes of its block."""
    first = layout.scale.nbytes if layout.scale.per == "block" and layout.scale.offset == 0 else 0
    held = f"_parent.as<{layout.name.lower()}_block>.codes[byte{f' - {first}' if first else ''}]"
    code = f"({held} >> place) & 3"
    power = ""
    if layout.coding == "digits":
        powers = str(3 ** (DIGITS_PER_BYTE - 1))
        for n in reversed(range(DIGITS_PER_BYTE - 1)):
            powers = f"place == {n} ? {3**n} : {powers if powers.isdigit() else f'({powers})'}"
        power = f"      power:\n        value: {json.dumps(powers)}\n"
        code = f"({held} * power % 256 * 3) >> 8"
    return f"""\
  {layout.name.lower()}_element:
    params:
      - id: k
        type: u4
    instances:
      byte:
        doc: "From the start of the block."
        value: {json.dumps(by_parts(layout, "byte_of", in_c))}
      place:
        value: {json.dumps(by_parts(layout, "place_of", in_c))}
{power}      code:
        value: {json.dumps(code)}
      weight:
        value: code - 1
"""


#: Exponents of half precision that numbers have; the last exponent is for infinities and NaN.
_EXPONENTS: Final = 31


def _power(exponent: int) -> str:
    """The exact value of a fraction at an exponent."""
    return repr(2.0 ** (max(exponent, 1) - 25))


_HALF: Final = """\
  half:
    doc: IEEE 754 half precision
    seq:
      - id: bits
        type: u2
    instances:
      exponent:
        value: (bits >> 10) & 31
      fraction:
        value: "exponent == 0 ? bits & 1023 : (bits & 1023) + 1024"
      value:
        doc: "Not present for infinities and NaN."
        value: "(bits < 32768 ? 1.0 : -1.0) * fraction * [{powers}][exponent]"
        if: exponent != 31
"""
