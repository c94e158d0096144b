"""The C header, which needs nothing but the C library: a decoder for every dialect, and a bounded walker over files.

The header is C99 and C++; every function is inline, unless `I2S_API` is defined, and takes bytes with their size. It
follows the definitions, not the machine: no vector code, no pointer casts, no byte order of its own. A runtime's fast
path can be held to it. It also decodes the types with a scale for each group, and finds them in a file.

`i2s.h.in` is the header with holes, `@NAME@`, for what follows from the declarations: numbers, tables, the places of
codes, and a struct and a reader for each record of a GGUF file. `filled` fills such texts, those of WGSL and CUDA too;
`shared_numbers` and `block_size` serve ImHex's pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from i2s_spec.exports.javascript import by_parts, in_c
from i2s_spec.exports.json_form import Shape, fixed_offsets, records, value_shapes
from i2s_spec.schema import limits
from i2s_spec.schema.blocks import DIGITS_PER_BYTE, FOURTH_CODE, FOURTH_WEIGHT, GROUP_LAYOUTS, BlockLayout
from i2s_spec.schema.container import ALIGNMENT_KEY
from i2s_spec.schema.dialect import CODE_MAPS, CODES_PER_BYTE, LAYOUTS, TAILS
from i2s_spec.schema.field import RecordStruct
from i2s_spec.schema.types import (
    I2_S,
    READINGS,
    SCALE_BYTES,
    SMALLEST_VALUE,
    TAIL_BYTES,
    TensorType,
    ValueType,
    tl2_size,
)

#: The entry in the table of trits for the code that has no meaning.
NO_TRIT: Final = 127

#: Holes that are numbers of the specification, in whichever language.
NUMBERS: Final = {
    "I2S_TYPE": I2_S.number,
    "CODES_PER_BYTE": CODES_PER_BYTE,
    "TAIL_BYTES": TAIL_BYTES,
    "SCALE_BYTES": SCALE_BYTES,
    "NO_TRIT": NO_TRIT,
    "FOURTH_CODE": FOURTH_CODE,
    "FOURTH_WEIGHT": FOURTH_WEIGHT,
    "LAST_DIGIT": DIGITS_PER_BYTE - 1,
    "MAX_DIMENSIONS": limits.MAX_DIMENSIONS,
    "MAX_ARRAY_DEPTH": limits.MAX_ARRAY_DEPTH,
    "MAX_ALIGNMENT": limits.NAMED["alignment"].default,
    "MAX_KEY_LENGTH": limits.MAX_KEY_LENGTH,
    "MAX_NAME_LENGTH": limits.MAX_NAME_LENGTH,
    "DEFAULT_ALIGNMENT": limits.DEFAULT_ALIGNMENT,
    "SMALLEST_KEY_VALUE": limits.SMALLEST_KEY_VALUE,
    "SMALLEST_TENSOR_INFO": limits.SMALLEST_TENSOR_INFO,
}

#: A type whose size is not a number of bytes per block has 0 for both in the table of meanings.
OWN_SIZE: Final = tl2_size


def text() -> str:
    """Return the header."""
    return filled("i2s.h.in", _dialects() | _blocks() | _container())


def filled(name: str, holes: Mapping[str, str]) -> str:
    """Return a text of this folder with its holes filled.

    :param holes: what comes in place of `@NAME@`, beside the numbers of the specification
    """
    template = Path(__file__).with_name(name).read_text(encoding="utf-8")
    numbers = {name: str(number) for name, number in NUMBERS.items()}
    return re.sub(r"@([A-Z][A-Z0-9_]*)@", lambda match: (numbers | dict(holes))[match[1]], template)


def constant(name: str) -> str:
    """Return the name of a layout, code map or tail as a C constant.

    >>> constant("interleave-128")
    'I2S_INTERLEAVE_128'
    """
    return "I2S_" + name.upper().replace("-", "_")


def listed(numbers: Iterable[int]) -> str:
    """Return numbers as the members of an initializer."""
    return ", ".join(map(str, numbers))


def _cases(results: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"    case {name}: return {result};" for name, result in results)


# --- dialects --------------------------------------------------------------------------------------------------------


def _dialects() -> dict[str, str]:
    """Return the holes for layouts, code maps and tails; the places of codes have a case for each layout."""
    holes = {
        kind: "\n".join(f"    {constant(name)}, /* {entry.known_as} */" for name, entry in entries.items())
        for kind, entries in (("LAYOUTS", LAYOUTS), ("CODE_MAPS", CODE_MAPS), ("TAILS", TAILS))
    }
    layouts = [(constant(name), layout) for name, layout in LAYOUTS.items()]
    fits = [
        f"rows * cols % {layout.block} == 0" + (f" && rows % {layout.row_block} == 0" if layout.row_block > 1 else "")
        for _, layout in layouts
    ]
    trits = ([NO_TRIT if trit is None else trit for trit in each.trits] for each in CODE_MAPS.values())
    return holes | {
        "TRITS": "\n".join(f"    {{{listed(each)}}}," for each in trits),
        "BYTE_OF": _cases((name, in_c(layout.byte_of)) for name, layout in layouts),
        "SHIFT_OF": _cases((name, f"(unsigned)({in_c(layout.shift_of)})") for name, layout in layouts),
        "FITS": _cases((name, each) for (name, _), each in zip(layouts, fits, strict=True)),
        "COPIES": listed(each.copies for each in TAILS.values()),
    }


# --- types with a scale for each group -------------------------------------------------------------------------------
# The type of a number that several types share follows from the tensor's size, as in `schema.types.reading`; so all
# types of such a number are in a table, also those that the header does not decode.


def _blocks() -> dict[str, str]:
    """Return the holes for the types with a scale for each group, in the order of `i2s_block_type`."""
    kinds = [(f"I2S_BLOCK_{layout.name}", layout) for layout in GROUP_LAYOUTS.values()]
    meanings = [
        f"    {{{number}, {f'I2S_BLOCK_{kind.name}' if kind.name in GROUP_LAYOUTS else 'I2S_BLOCK_TYPES'}, "
        f"{listed(block_size(kind))}}}, /* {kind} */"
        for number, kinds_of_number in shared_numbers().items()
        for kind in kinds_of_number
    ]
    return {
        "BLOCK_TYPES": "\n".join(f"    {name}, /* number {layout.type.number} */" for name, layout in kinds),
        "BLOCK_LAYOUTS": "\n".join(f'    {{"{layout.name}", {listed(_members_of(layout))}}},' for _, layout in kinds),
        "BLOCK_BYTE_OF": _cases((name, by_parts(layout, "byte_of", in_c)) for name, layout in kinds),
        "BLOCK_PLACE_OF": _cases((name, by_parts(layout, "place_of", in_c)) for name, layout in kinds),
        "POWERS": listed(3**n for n in range(DIGITS_PER_BYTE)),
        "MEANINGS": "\n".join(meanings),
    }


def _members_of(layout: BlockLayout) -> tuple[int, ...]:
    """Return the members of `i2s_block_layout` after the name."""
    scale = layout.scale
    return (
        layout.type.number, layout.block, layout.nbytes, layout.front_bytes, int(scale.per == "row"), int(scale.apart),
        scale.offset, scale.nbytes, int(layout.coding == "digits"), int(layout.fourth == "reserved"),
    )  # fmt: skip


def shared_numbers() -> dict[int, tuple[TensorType, ...]]:
    """Return all types of each number that a type with a scale for each group shares with another type, in order."""
    numbers = {layout.type.number for layout in GROUP_LAYOUTS.values()}
    return {number: READINGS[number] for number in sorted(numbers) if len(READINGS[number]) > 1}


def block_size(kind: TensorType) -> tuple[int, int]:
    """Return elements and bytes of a block of a type; zeros if its layout or a special rule gives the size."""
    if kind.name in GROUP_LAYOUTS or kind.size is OWN_SIZE:
        return 0, 0
    if kind.size is not None or kind.row_bytes:
        raise ValueError(f"{kind} has a size that no export can say")
    return kind.block, kind.bytes


# --- container -------------------------------------------------------------------------------------------------------
# A struct and a reader for each record of a GGUF file, written field by field from the description of the schema.

_C_TYPES = {"u8": "uint8_t", "u32": "uint32_t", "i32": "int32_t", "u64": "uint64_t"}

#: Records that have a struct of their own, and its name.
_STRUCTS = {"Header": "gguf_header", "KeyValue": "gguf_key_value", "TensorInfo": "gguf_tensor_info"}


def _container() -> dict[str, str]:
    """Return the holes for the key of the alignment, types of values, records and their readers."""
    known = {record.title: record for record in records()}
    return {
        "ALIGNMENT_KEY": ALIGNMENT_KEY.decode(),
        "VALUE_TYPES": "\n".join(f"    GGUF_{ValueType(number).name} = {number}," for number in value_shapes()),
        "VALUE_BYTES": listed(shape.size or 0 for _, shape in value_shapes().values()),
        "SMALLEST_VALUES": listed(SMALLEST_VALUE),
        "RECORDS": "\n\n".join(_struct(known[title], name) for title, name in _STRUCTS.items()),
        "READERS": "\n\n".join(_reader(known[title], name) for title, name in _STRUCTS.items()),
    }


def _struct(record: RecordStruct, name: str) -> str:
    lines = [f"/* {record.title}: clause {record.clause}. */", f"typedef struct {name} {{"]
    for field, shape, _ in fixed_offsets(record):
        lines += [f"    {member} /* {field.meaning} */" for member in _members(field.name, shape)]
    return "\n".join([*lines, f"}} {name};"])


def _members(name: str, shape: Shape) -> list[str]:
    if shape.kind == "number":
        return [f"{_C_TYPES[shape.number]} {name};"]
    if shape.kind == "string":
        return [f"gguf_text {name};"]
    if shape.kind == "repeat" and shape.item is not None:
        return [f"{_C_TYPES[shape.item.number]} {name}[GGUF_MAX_DIMENSIONS];"]
    if shape.kind == "choice":
        return [f"const uint8_t *{name};", f"uint64_t {name}_bytes;"]
    if shape.kind == "constant":
        return []
    raise TypeError(f"C: {name} is a {shape.kind}")


def _reader(record: RecordStruct, name: str) -> str:
    lines = [f"I2S_API i2s_status {name}_read(gguf_cursor *from, {name} *to)", "{", "    i2s_status status;"]
    for field, shape, _ in fixed_offsets(record):
        at = f"to->{field.name}"
        match shape.kind:
            case "constant":
                literal = "".join(f"\\x{byte:02x}" for byte in shape.value)
                lines += [f"    if (gguf_left(from) < {shape.size})", "        return I2S_SHORT;"]
                lines += [f'    if (memcmp(from->at, "{literal}", {shape.size}) != 0)', "        return I2S_NOT_GGUF;"]
                lines.append(f"    from->at += {shape.size};")
            case "number":
                cast = "(uint32_t *)&" if shape.number == "i32" else "&"
                lines += _try(f"gguf_{shape.number.replace('i', 'u')}(from, {cast}{at})")
            case "string":
                most = "GGUF_MAX_KEY_BYTES" if field.name == "key" else "GGUF_MAX_NAME_BYTES"
                lines += _try(f"gguf_string(from, &{at}, {most})")
            case "repeat":
                assert shape.item is not None
                lines += [f"    if (to->{shape.count} > GGUF_MAX_DIMENSIONS)", "        return I2S_BAD_VALUE;"]
                lines += ["    for (uint32_t i = 0; i < GGUF_MAX_DIMENSIONS; i++)", f"        {at}[i] = 1;"]
                lines += [f"    for (uint32_t i = 0; i < to->{shape.count}; i++)"]
                lines += [f"        if ((status = gguf_{shape.item.number}(from, &{at}[i])) != I2S_OK)"]
                lines += ["            return status;"]
            case "choice":
                lines.append(f"    {at} = from->at;")
                lines += _try(f"gguf_skip(from, to->{shape.count}, 0)")
                lines.append(f"    {at}_bytes = (uint64_t)(from->at - {at});")
            case _:
                raise TypeError(f"C: {field.name} is a {shape.kind}")
    return "\n".join([*lines, "    return I2S_OK;", "}"])


def _try(call: str) -> list[str]:
    return [f"    if ((status = {call}) != I2S_OK)", "        return status;"]
