"""Compute shaders in WGSL: decode, dequantise, the product with codes of activations, and these codes.

The text is a definition to copy from: one element or one sum for each invocation, and integers wherever the specification
has them, so that every device gives the same bits. The only operations on floats are products of a scale and a weight,
and of an activation and its factor, which WGSL rounds correctly; a device may flush subnormal numbers. Divisions are not
correctly rounded in WGSL, so the factor 127 / amax comes from the host.
"""

from __future__ import annotations

from typing import Final

from i2s_spec.exports.javascript import in_c
from i2s_spec.schema.blocks import DIGITS_PER_BYTE, FOURTH_CODE, GROUP_LAYOUTS, BlockLayout, BlockPart
from i2s_spec.schema.dialect import CODE_MAPS, CODES_PER_BYTE, LAYOUTS
from i2s_spec.schema.types import I2_S, TAIL_BYTES

#: The value of a code without a meaning, as in the C header.
NO_TRIT: Final = 127

#: The number that stands for I2_S among the types of the shaders; those with a scale for each group follow.
I2S: Final = 0


def text() -> str:
    """Return the shaders."""
    return "\n".join([_HEAD, _constants(), _READ, _places(), _trits(), _blocks(), _ELEMENT, _SHADERS])


def block_number(layout: BlockLayout) -> int:
    """Return the number of a type with a scale for each group in `shape.kind`."""
    return list(GROUP_LAYOUTS).index(layout.name) + 1


def _constants() -> str:
    lines = [f"const I2S_NO_TRIT = {NO_TRIT}; // the value of a code without a meaning", f"const I2S_KIND = {I2S}u;"]
    lines += [
        f"const I2S_KIND_{layout.name} = {block_number(layout)}u; // type {layout.type.number}"
        for layout in GROUP_LAYOUTS.values()
    ]
    for what, names in (("LAYOUT", LAYOUTS), ("CODE_MAP", CODE_MAPS)):
        lines += [f"const I2S_{what}_{name.upper().replace('-', '_')} = {i}u;" for i, name in enumerate(names)]
    return "\n".join([*lines, ""])


def _switch(head: str, on: str, cases: dict[int, str]) -> str:
    lines = [f"    case {number}u: {{ {body} }}" for number, body in cases.items()]
    return "\n".join([f"fn {head} {{", f"  switch {on} {{", *lines, "    default: { return 0u; }", "  }", "}", ""])


def _places() -> str:
    byte = {i: f"return {in_c(each.byte_of.text)};" for i, each in enumerate(LAYOUTS.values())}
    shift = {i: f"return {in_c(each.shift_of.text)};" for i, each in enumerate(LAYOUTS.values())}
    parameters = "(order: u32, k: u32, rows: u32, cols: u32) -> u32"
    return "\n".join([
        "// Byte of the payload that holds the code of element k (flat, row by row), and its shift there: clause 5.5.",
        _switch(f"i2s_byte_of{parameters}", "order", byte),
        _switch(f"i2s_shift_of{parameters}", "order", shift),
    ])  # fmt: skip


def packed_trits() -> dict[int, int]:
    """Return the trits of each code map, by its place: two bits for each code, the trit + 1, or 3 for none."""
    return {
        i: sum((3 if trit is None else trit + 1) << 2 * code for code, trit in enumerate(each.trits))
        for i, each in enumerate(CODE_MAPS.values())
    }


def _trits() -> str:
    packed = {i: f"return {trits}u;" for i, trits in packed_trits().items()}
    return "\n".join([
        "// The trits of the codes 0 to 3, plus 1, two bits each; 3 for the code without a meaning: clause 5.4.",
        _switch("i2s_trits_of(code_map: u32) -> u32", "code_map", packed),
        "fn i2s_trit(code_map: u32, code: u32) -> i32 {",
        "  let held = (i2s_trits_of(code_map) >> (2u * code)) & 3u;",
        "  return select(i32(held) - 1, I2S_NO_TRIT, held == 3u);",
        "}",
        "",
    ])  # fmt: skip


def _blocks() -> str:
    layouts = GROUP_LAYOUTS.values()
    place = {
        block_number(each): (
            f"return I2sPlace({each.block}u, {each.nbytes}u, {0 if each.scale.apart else each.front_bytes}u, "
            f"{each.scale.offset}u, {each.scale.nbytes}u, {_flag(each.scale.per == 'row')}, {_flag(each.scale.apart)}, "
            f"{_flag(each.coding == 'digits')}, {_flag(each.fourth == 'reserved')});"
        )
        for each in layouts
    }
    lines = [f"    case {number}u: {{ {body} }}" for number, body in place.items()]
    none = "return I2sPlace(1u, 1u, 0u, 0u, 0u, false, false, false, false);"
    return "\n".join([
        "// How a type with a scale for each group is packed: clause 5.6.",
        "struct I2sPlace {",
        "  elements: u32, bytes: u32, // of a block",
        "  front: u32, // bytes of a row in front of its blocks",
        "  scale: u32, scale_bytes: u32, // where the scale is: in the block, or in front of the row",
        "  per_row: bool, apart: bool, // apart: the scales of all rows follow all blocks",
        "  digits: bool, // base 3, or two bits a code",
        f"  reserved: bool, // whether code {FOURTH_CODE} has no meaning",
        "}",
        "",
        "fn i2s_place(kind: u32) -> I2sPlace {",
        "  switch kind {",
        *lines,
        f"    default: {{ {none} }}",
        "  }",
        "}",
        "",
        "// Byte of a block that holds the code of its element k, and which bits or which digit of it.",
        _switch(
            "i2s_block_byte_of(kind: u32, k: u32) -> u32",
            "kind",
            {block_number(each): _parts(each, "byte_of") for each in layouts},
        ),
        _switch(
            "i2s_block_place_of(kind: u32, k: u32) -> u32",
            "kind",
            {block_number(each): _parts(each, "place_of") for each in layouts},
        ),
    ])  # fmt: skip


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _parts(layout: BlockLayout, what: str) -> str:
    *before, last = layout.parts

    def formula(part: BlockPart) -> str:
        return in_c((part.byte_of if what == "byte_of" else part.place_of).text)

    return " ".join(
        [*(f"if k < {part.stop}u {{ return {formula(part)}; }}" for part in before), f"return {formula(last)};"]
    )


_HEAD: Final = f"""\
// i2s.wgsl: I2_S tensors (type {I2_S.number}) and ternary types with a scale for each group. Written by
// `i2s schema --format wgsl` from the schema of the I2_S specification, whose clauses the comments cite. Do not edit it;
// generate it again. SPDX-License-Identifier: MIT
//
// A tensor is at most 2^32 - 1 bytes; larger ones are bound in parts of whole rows. Sums of a row of up to 2^24 columns
// fit into 32 bits.

struct I2sShape {{
  rows: u32,
  cols: u32,
  tokens: u32,
  kind: u32, // of the constants I2S_KIND
  order: u32, // layout of I2_S
  code_map: u32,
  big_endian: u32,
  padding: u32,
}}

@group(0) @binding(0) var<uniform> shape: I2sShape;
// The bytes of a tensor as they are in the file, in words, the lowest byte first.
@group(0) @binding(1) var<storage, read> bytes_of_tensor: array<u32>;
// For `product` the codes of activations, int8, four to a word, token by token; for `codes` float32 activations, then a
// factor for each token.
@group(0) @binding(2) var<storage, read> activations: array<u32>;
// int32, of `dequantise` float32.
@group(0) @binding(3) var<storage, read_write> result: array<u32>;
"""

_READ: Final = """\
fn i2s_byte(at: u32) -> u32 {
  return (bytes_of_tensor[at / 4u] >> (at % 4u * 8u)) & 255u;
}

fn i2s_number(at: u32, count: u32) -> u32 {
  var bits = 0u;
  for (var i = 0u; i < count; i++) {
    bits |= i2s_byte(at + i) << (8u * select(i, count - 1u - i, shape.big_endian != 0u));
  }
  return bits;
}

// A scale of two or four bytes as float32, which holds every half exactly.
fn i2s_scale(at: u32, count: u32) -> f32 {
  let bits = i2s_number(at, count);
  if count == 4u {
    return bitcast<f32>(bits);
  }
  let sign = (bits & 0x8000u) << 16u;
  let exponent = (bits >> 10u) & 31u;
  var low = bits & 1023u;
  if exponent == 31u {
    return bitcast<f32>(sign | 0x7f800000u | (low << 13u));
  }
  if exponent != 0u {
    return bitcast<f32>(sign | ((exponent + 112u) << 23u) | (low << 13u));
  }
  if low == 0u {
    return bitcast<f32>(sign);
  }
  let shift = countLeadingZeros(low) - 21u; // until the highest bit is the one that is not stored
  return bitcast<f32>(sign | ((113u - shift) << 23u) | (((low << shift) & 1023u) << 13u));
}
"""

_ELEMENT: Final = f"""\
// The first byte of the row and of the block of element k.
fn i2s_row_at(place: I2sPlace, k: u32) -> u32 {{
  return k / shape.cols * (place.front + shape.cols / place.elements * place.bytes);
}}

fn i2s_block_at(place: I2sPlace, k: u32) -> u32 {{
  return i2s_row_at(place, k) + place.front + k % shape.cols / place.elements * place.bytes;
}}

// The weight of element k without its scale; I2S_NO_TRIT for a code without a meaning.
fn i2s_weight(k: u32) -> i32 {{
  if shape.kind == I2S_KIND {{
    let held = i2s_byte(i2s_byte_of(shape.order, k, shape.rows, shape.cols));
    return i2s_trit(shape.code_map, (held >> i2s_shift_of(shape.order, k, shape.rows, shape.cols)) & 3u);
  }}
  let place = i2s_place(shape.kind);
  let inside = k % shape.cols % place.elements;
  let held = i2s_byte(i2s_block_at(place, k) + i2s_block_byte_of(shape.kind, inside));
  let bits = i2s_block_place_of(shape.kind, inside);
  var code = 0u;
  if place.digits {{
    var digit = held;
    for (var i = 0u; i < min(bits, {DIGITS_PER_BYTE - 1}u); i++) {{
      digit = (digit * 3u) & 255u;
    }}
    code = (digit * 3u) >> 8u;
  }} else {{
    code = (held >> bits) & 3u;
  }}
  return select(i32(code) - 1, I2S_NO_TRIT, code == {FOURTH_CODE}u && place.reserved);
}}

fn i2s_scale_of(k: u32) -> f32 {{
  if shape.kind == I2S_KIND {{
    return i2s_scale(shape.rows * shape.cols / {CODES_PER_BYTE}u, 4u);
  }}
  let place = i2s_place(shape.kind);
  if place.apart {{
    let codes = shape.rows * (shape.cols / place.elements * place.bytes);
    return i2s_scale(codes + k / shape.cols * place.scale_bytes, place.scale_bytes);
  }}
  let at = select(i2s_block_at(place, k), i2s_row_at(place, k), place.per_row);
  return i2s_scale(at + place.scale, place.scale_bytes);
}}
"""

_SHADERS: Final = f"""\
// The invocation's number in a grid of two dimensions, of which one can have 65,535 workgroups.
fn i2s_index(id: vec3<u32>, groups: vec3<u32>) -> u32 {{
  return id.y * groups.x * 64u + id.x;
}}

// The weight of each element as int32. A tensor of I2_S has {TAIL_BYTES} bytes after its payload.
@compute @workgroup_size(64)
fn decode(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {{
  let k = i2s_index(id, groups);
  if k < shape.rows * shape.cols {{
    result[k] = bitcast<u32>(i2s_weight(k));
  }}
}}

// The weight of each element times its scale as float32.
@compute @workgroup_size(64)
fn dequantise(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {{
  let k = i2s_index(id, groups);
  if k < shape.rows * shape.cols {{
    result[k] = bitcast<u32>(f32(i2s_weight(k)) * i2s_scale_of(k));
  }}
}}

// For each token and row the sum of weights times codes, without scales: clause 9.8.
@compute @workgroup_size(64)
fn product(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {{
  let at = i2s_index(id, groups);
  if at >= shape.tokens * shape.rows {{
    return;
  }}
  let token = at / shape.rows;
  let row = at % shape.rows;
  var sum = 0;
  for (var i = 0u; i < shape.cols; i++) {{
    let place = token * shape.cols + i;
    let code = extractBits(bitcast<i32>(activations[place / 4u]), place % 4u * 8u, 8u);
    sum += i2s_weight(row * shape.cols + i) * code;
  }}
  result[at] = bitcast<u32>(sum);
}}

// The codes of activations as int32: half to even, from -128 to 127, and 0 where the product is no number. The factor of a
// token is 127 / amax, divided in float64 and rounded to float32 on the host: clause 9.8.
@compute @workgroup_size(64)
fn codes(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {{
  let at = i2s_index(id, groups);
  if at >= shape.tokens * shape.cols {{
    return;
  }}
  let factor = bitcast<f32>(activations[shape.tokens * shape.cols + at / shape.cols]);
  let scaled = bitcast<f32>(activations[at]) * factor;
  let held = select(clamp(round(scaled), -128.0, 127.0), 0.0, (bitcast<u32>(scaled) & 0x7fffffffu) > 0x7f800000u);
  result[at] = bitcast<u32>(i32(held));
}}
"""
