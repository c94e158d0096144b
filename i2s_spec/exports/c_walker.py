"""This module writes the part of the C header that walks a GGUF file: a struct and a reader for each record.

The readers are written field by field from the description of the schema; what surrounds them (the cursor that never
leaves its bytes, the order of the parts of a file) is text.
"""

from __future__ import annotations

from i2s_spec.exports.c_fixed import CURSOR, FILE
from i2s_spec.exports.description import Shape, fixed_offsets, records, value_shapes
from i2s_spec.schema import limits
from i2s_spec.schema.field import RecordStruct
from i2s_spec.schema.gguf import ALIGNMENT_KEY
from i2s_spec.schema.types import SMALLEST_VALUE, ValueType

_C_TYPES = {"u8": "uint8_t", "u32": "uint32_t", "i32": "int32_t", "u64": "uint64_t"}

#: Records that have a struct of their own, and its name.
_STRUCTS = {"Header": "gguf_header", "KeyValue": "gguf_key_value", "TensorInfo": "gguf_tensor_info"}


def text() -> str:
    """Constants, cursor, records, file."""
    known = {record.title: record for record in records()}
    sizes = [shape.size or 0 for _, shape in value_shapes().values()]
    constants = f"""\
/* ---- the container: chapter 2 ---- */

#define GGUF_MAX_DIMENSIONS {limits.MAX_DIMENSIONS}
#define GGUF_MAX_ARRAY_DEPTH {limits.MAX_ARRAY_DEPTH}
#define GGUF_MAX_ALIGNMENT {limits.NAMED["alignment"].default}u
#define GGUF_MAX_KEY_BYTES {limits.MAX_KEY_LENGTH}u
#define GGUF_MAX_NAME_BYTES {limits.MAX_NAME_LENGTH}u
#define GGUF_DEFAULT_ALIGNMENT {limits.DEFAULT_ALIGNMENT}
#define GGUF_SMALLEST_KEY_VALUE {limits.SMALLEST_KEY_VALUE}
#define GGUF_SMALLEST_TENSOR_INFO {limits.SMALLEST_TENSOR_INFO}
#define GGUF_ALIGNMENT_KEY "{ALIGNMENT_KEY.decode()}"

typedef enum gguf_value_type {{
{_value_types()}
    GGUF_VALUE_TYPES
}} gguf_value_type;

/* Bytes of a value of each type, 0 where they differ; and the fewest that one takes. */
static const uint8_t gguf_value_bytes[GGUF_VALUE_TYPES] = {{{", ".join(map(str, sizes))}}};
static const uint8_t gguf_smallest_value[GGUF_VALUE_TYPES] = {{{", ".join(map(str, SMALLEST_VALUE))}}};
"""
    structs = [_struct(known[title], name) for title, name in _STRUCTS.items()]
    readers = [_reader(known[title], name) for title, name in _STRUCTS.items()]
    return "\n".join([constants, *structs, CURSOR, *readers, FILE])


def _value_types() -> str:
    return "\n".join(f"    GGUF_{ValueType(number).name} = {number}," for number in value_shapes())


def _struct(record: RecordStruct, name: str) -> str:
    lines = []
    if name == "gguf_header":
        lines.append(_TEXT)
    lines += [f"/* {record.title}: clause {record.clause}. */", f"typedef struct {name} {{"]
    for field, shape, _ in fixed_offsets(record):
        lines += [f"    {member} /* {field.meaning} */" for member in _members(field.name, shape)]
    return "\n".join([*lines, f"}} {name};", ""])


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
    lines = [f"static inline i2s_status {name}_read(gguf_cursor *from, {name} *to)", "{", "    i2s_status status;"]
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
    return "\n".join([*lines, "    return I2S_OK;", "}", ""])


def _try(call: str) -> list[str]:
    return [f"    if ((status = {call}) != I2S_OK)", "        return status;"]


_TEXT = """\
/* Text of a file: not terminated, of any bytes. */
typedef struct gguf_text {
    const char *bytes;
    uint64_t length;
} gguf_text;
"""
