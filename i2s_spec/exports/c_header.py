"""The C header, which needs nothing but the C library: a decoder for every dialect, and a bounded walker over files.

The header is C99 and C++; every function is inline, unless `I2S_API` is defined, and takes bytes with their size. It
follows the definitions, not the machine: no vector code, no pointer casts, no byte order of its own. A runtime's fast
path can be held to it.
"""

from __future__ import annotations

from textwrap import dedent
from typing import Final

from i2s_spec.exports import c_blocks
from i2s_spec.exports.javascript import in_c
from i2s_spec.exports.json_form import Shape, fixed_offsets, records, value_shapes
from i2s_spec.schema import limits
from i2s_spec.schema.container import ALIGNMENT_KEY
from i2s_spec.schema.dialect import CODE_MAPS, CODES_PER_BYTE, LAYOUTS, TAILS, Layout
from i2s_spec.schema.field import RecordStruct
from i2s_spec.schema.types import I2_S, SCALE_BYTES, SMALLEST_VALUE, TAIL_BYTES, ValueType

#: The entry in the table of trits for the code that has no meaning.
NO_TRIT = 127


def text() -> str:
    """Return the header."""
    parts = [
        _HEAD,
        _constants(),
        _place(),
        _decoder(),
        c_blocks.text(),
        walker_text(),
        c_blocks.meanings_text(),
        _FOOT,
    ]
    return "\n".join(parts)


def constant(name: str) -> str:
    """Return the name of a layout, code map or tail as a C constant.

    >>> constant("interleave-128")
    'I2S_INTERLEAVE_128'
    """
    return "I2S_" + name.upper().replace("-", "_")


def _constants() -> str:
    parts = [
        f"""\
        #define I2S_TYPE {I2_S.number} /* ggml's number of the type */
        #define I2S_CODES_PER_BYTE {CODES_PER_BYTE}
        #define I2S_TAIL_BYTES {TAIL_BYTES} /* after the payload */
        #define I2S_SCALE_BYTES {SCALE_BYTES} /* the tail's first; the rest of it means nothing */
        #define I2S_NO_TRIT {NO_TRIT} /* the value of a code without a meaning */
        """
    ]
    for kind, entries in (("layout", LAYOUTS), ("code_map", CODE_MAPS), ("tail", TAILS)):
        lines = [f"    {constant(name)}, /* {entry.known_as} */" for name, entry in entries.items()]
        last = f"    I2S_{kind.upper()}S"
        parts.append("\n".join([f"typedef enum i2s_{kind} {{", *lines, last, f"}} i2s_{kind};", ""]))
    shown = [
        "    {" + ", ".join(str(NO_TRIT if trit is None else trit) for trit in each.trits) + "},"
        for each in CODE_MAPS.values()
    ]
    rows = "\n".join(shown)
    parts.append(f"static const int8_t i2s_trits[I2S_CODE_MAPS][4] = {{\n{rows}\n}};\n")
    return "\n".join(dedent(part) for part in parts)


def _place() -> str:
    """Return the place of the code of an element: one case for each layout."""
    return "\n".join([
        "/* Byte of the payload that holds the code of element k (flat, row by row); clause 5.5. */",
        _formula("uint64_t i2s_byte_of", [(layout, layout.byte_of.text) for layout in LAYOUTS.values()]),
        "/* How far left the code is shifted in that byte. */",
        _formula("unsigned i2s_shift_of", [(layout, layout.shift_of.text) for layout in LAYOUTS.values()], "(unsigned)"),
        "/* Whether a matrix can be packed in a layout: whole blocks, whole groups of rows; rows * cols does not wrap. */",
        "I2S_API int i2s_fits(i2s_layout layout, uint64_t rows, uint64_t cols)",
        "{",
        "    if (rows == 0 || cols == 0 || rows > UINT64_MAX / cols)",
        "        return 0;",
        "    switch (layout) {",
        *(
            f"    case {constant(layout.name)}: return rows * cols % {layout.block} == 0"
            + (f" && rows % {layout.row_block} == 0;" if layout.row_block > 1 else ";")
            for layout in LAYOUTS.values()
        ),
        "    default: return 0;",
        "    }",
        "}",
        "",
    ])  # fmt: skip


def _formula(head: str, cases: list[tuple[Layout, str]], cast: str = "") -> str:
    lines = [
        f"    case {constant(layout.name)}: return {cast + '(' if cast else ''}{in_c(formula)}{')' if cast else ''};"
        for layout, formula in cases
    ]
    return "\n".join([
        f"I2S_API {head}(i2s_layout layout, uint64_t k, uint64_t rows, uint64_t cols)",
        "{",
        "    (void)rows, (void)cols;",
        "    switch (layout) {",
        *lines,
        "    default: return 0;",
        "    }",
        "}",
        "",
    ])  # fmt: skip


def _decoder() -> str:
    return _DECODER


_HEAD = """\
/* i2s.h: I2_S tensors, ternary types with a scale for each group, and the GGUF files that they are in. Written by
 * `i2s schema --format c` from the schema of the I2_S specification, whose clauses the comments cite. Do not edit it;
 * generate it again.
 *
 * Nothing is allocated. Every function stays inside the bytes that it is given; if these are too few, it returns a status.
 * C99 and C++. Every function is `static inline`. For a library that other languages call, compile one file with
 * `#define I2S_API` before the include, in C++ `#define I2S_API extern "C"`; generators of bindings read the header with
 * -DI2S_API= . Callers allocate two structs: gguf_file_bytes and gguf_tensor_info_bytes return their sizes. Without a C
 * library, as on bare WebAssembly, memcpy, memset, memcmp and strlen are needed, and __multi3 of compiler-rt.
 *
 * SPDX-License-Identifier: MIT */
#ifndef I2S_H
#define I2S_H

#ifndef I2S_API
#define I2S_API static inline
#endif

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum i2s_status {
    I2S_OK,
    I2S_SHORT,     /* the bytes end inside a field, or a count cannot fit into those that are left */
    I2S_NOT_GGUF,  /* another magic or version */
    I2S_BAD_VALUE, /* a value that no reader accepts: a type, a number of dimensions, an alignment */
    I2S_BAD_SHAPE, /* a matrix that the layout cannot hold */
    I2S_BAD_SIZE,  /* not the bytes of such a matrix */
    I2S_BAD_CODE,  /* a code without a meaning */
    I2S_END        /* there is no other */
} i2s_status;
"""

_DECODER = """\
/* Bytes of a tensor of n elements: codes, then the tail; clause 5.2. */
I2S_API uint64_t i2s_tensor_bytes(uint64_t n)
{
    return n / I2S_CODES_PER_BYTE + I2S_TAIL_BYTES;
}

/* Code (0 to 3) of element k. The payload holds rows * cols / 4 bytes, and k < rows * cols. */
I2S_API unsigned i2s_code(const uint8_t *payload, uint64_t k, uint64_t rows, uint64_t cols, i2s_layout layout)
{
    return payload[i2s_byte_of(layout, k, rows, cols)] >> i2s_shift_of(layout, k, rows, cols) & 3u;
}

/* The trits of a whole tensor, row by row. `data` is payload and tail, `size` exactly their bytes; `trits` takes
 * rows * cols of -1, 0, +1. It stops at a code without a meaning: I2S_BAD_CODE, and its element in *where. */
I2S_API i2s_status i2s_decode(const void *data, size_t size, uint64_t rows, uint64_t cols, i2s_layout layout,
                              i2s_code_map map, int8_t *trits, uint64_t *where)
{
    const uint8_t *payload = (const uint8_t *)data;
    uint64_t k;
    if ((unsigned)map >= I2S_CODE_MAPS || !i2s_fits(layout, rows, cols))
        return I2S_BAD_SHAPE;
    if (size != i2s_tensor_bytes(rows * cols))
        return I2S_BAD_SIZE;
    for (k = 0; k < rows * cols; k++) {
        trits[k] = i2s_trits[map][i2s_code(payload, k, rows, cols, layout)];
        if (trits[k] == I2S_NO_TRIT) {
            if (where)
                *where = k;
            return I2S_BAD_CODE;
        }
    }
    return I2S_OK;
}

/* Payload and tail of a tensor; what they leave unwritten is zeros. `size` is that of `data`. */
I2S_API i2s_status i2s_encode(const int8_t *trits, float scale, uint64_t rows, uint64_t cols, i2s_layout layout,
                              i2s_code_map map, i2s_tail tail, int big_endian, void *data, size_t size)
{
    static const unsigned copies[I2S_TAILS] = {@COPIES@};
    uint8_t *payload = (uint8_t *)data;
    uint32_t bits;
    uint64_t k;
    unsigned i, j;
    if ((unsigned)map >= I2S_CODE_MAPS || (unsigned)tail >= I2S_TAILS || !i2s_fits(layout, rows, cols))
        return I2S_BAD_SHAPE;
    if (size != i2s_tensor_bytes(rows * cols))
        return I2S_BAD_SIZE;
    memset(data, 0, size);
    for (k = 0; k < rows * cols; k++) {
        unsigned code = 0;
        while (code < 4 && i2s_trits[map][code] != trits[k])
            code++;
        if (code == 4 || trits[k] == I2S_NO_TRIT)
            return I2S_BAD_VALUE;
        payload[i2s_byte_of(layout, k, rows, cols)] |= (uint8_t)(code << i2s_shift_of(layout, k, rows, cols));
    }
    memcpy(&bits, &scale, sizeof bits);
    for (i = 0; i < copies[tail]; i++)
        for (j = 0; j < I2S_SCALE_BYTES; j++)
            payload[rows * cols / I2S_CODES_PER_BYTE + I2S_SCALE_BYTES * i + j] =
                (uint8_t)(bits >> 8 * (big_endian ? 3 - j : j));
    return I2S_OK;
}

/* The scale, from the first four bytes after the payload of n elements; it need not be aligned. Clause 6.1. */
I2S_API float i2s_scale(const void *data, uint64_t n, int big_endian)
{
    const uint8_t *at = (const uint8_t *)data + n / I2S_CODES_PER_BYTE;
    uint32_t bits = 0;
    float scale;
    int i;
    for (i = 0; i < I2S_SCALE_BYTES; i++)
        bits |= (uint32_t)at[i] << 8 * (big_endian ? 3 - i : i);
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}
""".replace("@COPIES@", ", ".join(str(each.copies) for each in TAILS.values()))

_FOOT = "#endif\n"


# --- fixed text ------------------------------------------------------------------------------------------------------
# What is not made from declarations: a cursor that never leaves its bytes, and the parts of a file in their order.

#: The cursor, and what it reads apart from records.
CURSOR: Final = """\
/* The position of a walk, which never reads at or beyond `end`. */
typedef struct gguf_cursor {
    const uint8_t *at, *end;
    int big_endian;
} gguf_cursor;

I2S_API uint64_t gguf_left(const gguf_cursor *from)
{
    return (uint64_t)(from->end - from->at);
}

I2S_API i2s_status gguf_number(gguf_cursor *from, unsigned bytes, uint64_t *to)
{
    unsigned i;
    if (gguf_left(from) < bytes)
        return I2S_SHORT;
    *to = 0;
    for (i = 0; i < bytes; i++)
        *to |= (uint64_t)from->at[i] << 8 * (from->big_endian ? bytes - 1 - i : i);
    from->at += bytes;
    return I2S_OK;
}

I2S_API i2s_status gguf_u32(gguf_cursor *from, uint32_t *to)
{
    uint64_t wide = 0;
    i2s_status status = gguf_number(from, 4, &wide);
    *to = (uint32_t)wide;
    return status;
}

I2S_API i2s_status gguf_u64(gguf_cursor *from, uint64_t *to)
{
    return gguf_number(from, 8, to);
}

/* A length and as many bytes; clause 2.4. */
I2S_API i2s_status gguf_string(gguf_cursor *from, gguf_text *to, uint64_t most)
{
    i2s_status status = gguf_u64(from, &to->length);
    if (status != I2S_OK)
        return status;
    if (to->length > gguf_left(from))
        return I2S_SHORT;
    if (to->length > most)
        return I2S_BAD_VALUE;
    to->bytes = (const char *)from->at;
    from->at += to->length;
    return I2S_OK;
}

I2S_API int gguf_is(gguf_text text, const char *name)
{
    return text.length == strlen(name) && memcmp(text.bytes, name, text.length) == 0;
}

/* Skip a value; nested arrays are followed down to the maximum depth. Clause 2.5. */
I2S_API i2s_status gguf_skip(gguf_cursor *from, uint32_t type, unsigned depth)
{
    uint64_t count = 1;
    gguf_text text;
    i2s_status status;
    if (type >= GGUF_VALUE_TYPES)
        return I2S_BAD_VALUE;
    if (type == GGUF_STRING)
        return gguf_string(from, &text, UINT64_MAX);
    if (type == GGUF_ARRAY) {
        if (depth == GGUF_MAX_ARRAY_DEPTH)
            return I2S_BAD_VALUE;
        if ((status = gguf_u32(from, &type)) != I2S_OK || (status = gguf_u64(from, &count)) != I2S_OK)
            return status;
        if (type >= GGUF_VALUE_TYPES)
            return I2S_BAD_VALUE;
        if (type == GGUF_ARRAY && depth + 1 == GGUF_MAX_ARRAY_DEPTH)
            return I2S_BAD_VALUE;
        if (count > gguf_left(from) / gguf_smallest_value[type])
            return I2S_SHORT;
        if (gguf_value_bytes[type] == 0) {
            for (; count > 0; count--)
                if ((status = gguf_skip(from, type, depth + 1)) != I2S_OK)
                    return status;
            return I2S_OK;
        }
    }
    if (count > gguf_left(from) / gguf_value_bytes[type])
        return I2S_SHORT;
    from->at += count * gguf_value_bytes[type];
    return I2S_OK;
}
"""

#: A file as a whole, and its tensors.
FILE: Final = """\
/* A file in memory: how far its parts reach, and where the next tensor info is. */
typedef struct gguf_file {
    const uint8_t *bytes;
    uint64_t size;
    gguf_header header;
    gguf_cursor key_values, tensor_infos; /* where they begin */
    gguf_cursor next;
    uint64_t left; /* tensor infos that gguf_next has not given */
    uint64_t alignment, data_start;
} gguf_file;

/* Bytes of the structs that a caller allocates; no member need be initialised. */
I2S_API size_t gguf_file_bytes(void)
{
    return sizeof(gguf_file);
}

I2S_API size_t gguf_tensor_info_bytes(void)
{
    return sizeof(gguf_tensor_info);
}

/* Read everything before the data section. `bytes` must stay as long as the file is used. */
I2S_API i2s_status gguf_open(const void *bytes, size_t size, gguf_file *file)
{
    gguf_cursor from;
    gguf_key_value pair;
    gguf_tensor_info info;
    uint64_t i, alignment = 0, room;
    uint32_t version;
    i2s_status status;

    from.at = (const uint8_t *)bytes;
    from.end = from.at + size;
    from.big_endian = 0;
    file->bytes = from.at;
    file->size = size;
    if ((status = gguf_header_read(&from, &file->header)) != I2S_OK)
        return status;
    if (file->header.version != 0 && (file->header.version & 0xffff) == 0) { /* clause 2.3 */
        from.at = file->bytes;
        from.big_endian = 1;
        if ((status = gguf_header_read(&from, &file->header)) != I2S_OK)
            return status;
    }
    version = file->header.version;
    if (version != 2 && version != 3)
        return I2S_NOT_GGUF;
    room = gguf_left(&from);
    if (file->header.key_count > room / GGUF_SMALLEST_KEY_VALUE ||
        file->header.tensor_count > room / GGUF_SMALLEST_TENSOR_INFO)
        return I2S_SHORT;

    file->key_values = from;
    for (i = 0; i < file->header.key_count; i++) {
        if ((status = gguf_key_value_read(&from, &pair)) != I2S_OK)
            return status;
        if (alignment == 0 && gguf_is(pair.key, GGUF_ALIGNMENT_KEY)) { /* the first counts; clause 2.7 */
            gguf_cursor value = from;
            value.at = pair.value;
            if (pair.type != GGUF_UINT32 || gguf_number(&value, 4, &alignment) != I2S_OK)
                return I2S_BAD_VALUE;
            if (alignment == 0 || alignment > GGUF_MAX_ALIGNMENT || (alignment & (alignment - 1)) != 0)
                return I2S_BAD_VALUE;
        }
    }
    file->alignment = alignment ? alignment : GGUF_DEFAULT_ALIGNMENT;

    file->tensor_infos = file->next = from;
    file->left = file->header.tensor_count;
    for (i = 0; i < file->header.tensor_count; i++)
        if ((status = gguf_tensor_info_read(&from, &info)) != I2S_OK)
            return status;
    file->data_start = (uint64_t)(from.at - file->bytes);
    file->data_start += (file->alignment - file->data_start % file->alignment) % file->alignment;
    return I2S_OK;
}

/* The tensor infos in order; I2S_END after the last. */
I2S_API i2s_status gguf_next(gguf_file *file, gguf_tensor_info *info)
{
    if (file->left == 0)
        return I2S_END;
    file->left--;
    return gguf_tensor_info_read(&file->next, info);
}

/* The tensor of a name; it does not matter how far gguf_next has come. */
I2S_API i2s_status gguf_find(const gguf_file *file, const char *name, gguf_tensor_info *info)
{
    gguf_cursor from = file->tensor_infos;
    uint64_t i;
    i2s_status status;
    for (i = 0; i < file->header.tensor_count; i++) {
        if ((status = gguf_tensor_info_read(&from, info)) != I2S_OK)
            return status;
        if (gguf_is(info->name, name))
            return I2S_OK;
    }
    return I2S_END;
}

/* The bytes of an I2_S tensor, and its matrix: `cols` is ne0, `rows` everything else. */
I2S_API i2s_status i2s_find(const gguf_file *file, const gguf_tensor_info *info, const uint8_t **data,
                            size_t *size, uint64_t *rows, uint64_t *cols)
{
    uint64_t bytes, n = 1;
    uint32_t i;
    if (info->type != I2S_TYPE || info->n_dims == 0)
        return I2S_BAD_VALUE;
    for (i = 0; i < info->n_dims; i++) {
        if (info->ne[i] == 0 || n > UINT64_MAX / info->ne[i])
            return I2S_BAD_SHAPE;
        n *= info->ne[i];
    }
    bytes = i2s_tensor_bytes(n);
    if (file->data_start > file->size || info->offset > file->size - file->data_start ||
        bytes > file->size - file->data_start - info->offset)
        return I2S_SHORT;
    *data = file->bytes + file->data_start + info->offset;
    *size = (size_t)bytes;
    *cols = info->ne[0];
    *rows = n / info->ne[0];
    return I2S_OK;
}
"""


# --- walker ----------------------------------------------------------------------------------------------------------
# A struct and a reader for each record of a GGUF file, written field by field from the description of the schema.

_C_TYPES = {"u8": "uint8_t", "u32": "uint32_t", "i32": "int32_t", "u64": "uint64_t"}

#: Records that have a struct of their own, and its name.
_STRUCTS = {"Header": "gguf_header", "KeyValue": "gguf_key_value", "TensorInfo": "gguf_tensor_info"}


def walker_text() -> str:
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
