"""The part of the C header on types with a scale for each group: it decodes them, and finds them in a file.

`text` writes the table of types and the decoder from the declarations; `meanings_text` what decides between types that
share a number. `shared_numbers` and `block_size` serve ImHex's pattern too.
"""

from __future__ import annotations

from typing import Final

from i2s_spec.exports.javascript import by_parts, in_c
from i2s_spec.schema.blocks import DIGITS_PER_BYTE, FOURTH_CODE, GROUP_LAYOUTS, BlockLayout
from i2s_spec.schema.types import READINGS, TensorType, tl2_size


def constant(layout: BlockLayout) -> str:
    """Return the name of a type in C: `I2S_BLOCK_Q2_0`."""
    return f"I2S_BLOCK_{layout.name}"


def text() -> str:
    """Table of types, places of codes, decoder."""
    return "\n".join([_HEAD, _enum(), _TABLE, _rows(), _places(), _DECODER])


def _enum() -> str:
    lines = [f"    {constant(layout)}, /* number {layout.type.number} */" for layout in GROUP_LAYOUTS.values()]
    return "\n".join(["typedef enum i2s_block_type {", *lines, "    I2S_BLOCK_TYPES", "} i2s_block_type;", ""])


def _rows() -> str:
    """One initializer for each type, in the order of the members of `i2s_block_layout`."""
    lines = []
    for layout in GROUP_LAYOUTS.values():
        scale = layout.scale
        numbers = [
            layout.type.number, layout.block, layout.nbytes, layout.front_bytes, int(scale.per == "row"),
            int(scale.apart), scale.offset, scale.nbytes, int(layout.coding == "digits"),
            int(layout.fourth == "reserved"),
        ]  # fmt: skip
        lines.append(f'    {{"{layout.name}", {", ".join(map(str, numbers))}}},')
    return "\n".join(["static const i2s_block_layout i2s_block_layouts[I2S_BLOCK_TYPES] = {", *lines, "};", ""])


def _places() -> str:
    byte = [(layout, by_parts(layout, "byte_of", in_c)) for layout in GROUP_LAYOUTS.values()]
    place = [(layout, by_parts(layout, "place_of", in_c)) for layout in GROUP_LAYOUTS.values()]
    return "\n".join([
        "/* Byte of a block that holds the code of its element k; clause 5.6. */",
        _switch("i2s_block_byte_of", byte),
        "/* Which bits of that byte, or which digit of base 3, the first being the highest. */",
        _switch("i2s_block_place_of", place),
    ])  # fmt: skip


def _switch(name: str, cases: list[tuple[BlockLayout, str]]) -> str:
    return "\n".join([
        f"I2S_API unsigned {name}(i2s_block_type type, unsigned k)",
        "{",
        "    switch (type) {",
        *(f"    case {constant(layout)}: return {formula};" for layout, formula in cases),
        "    default: return 0;",
        "    }",
        "}",
        "",
    ])  # fmt: skip


_HEAD: Final = "/* ---- ternary types with a scale for each group: clause 5.6 ---- */\n"

_TABLE: Final = """\
/* How a type is packed: rows of blocks, and a scale in each block or in front of each row. Code c is weight c - 1. */
typedef struct i2s_block_layout {
    const char *name;
    uint32_t number;          /* ggml's; several types may have it */
    unsigned elements, bytes; /* of a block */
    unsigned row_bytes;       /* that a row has beside its blocks: in front of them, if not apart */
    unsigned scale_per_row;   /* or one in each block */
    unsigned scales_apart;    /* the scales of all rows are behind all blocks, then I2S_TAIL_BYTES that mean nothing */
    unsigned scale_offset;    /* in the block, or in what a row has beside its blocks */
    unsigned scale_bytes;     /* 2: IEEE half precision, 4: single */
    unsigned digits;          /* base 3, or two bits a code */
    unsigned reserved;        /* whether no quantizer writes code 3; where it does, that is weight +2 */
} i2s_block_layout;
"""

_DECODER: Final = f"""\
/* Code (0 to 3) of element k of a block; digit n of byte b is (b * 3^n mod 256) * 3 / 256. */
I2S_API unsigned i2s_block_code(const uint8_t *block, unsigned k, i2s_block_type type)
{{
    static const unsigned powers[] = {{{", ".join(str(3**n) for n in range(DIGITS_PER_BYTE))}}};
    unsigned held = block[i2s_block_byte_of(type, k)], place = i2s_block_place_of(type, k);
    return i2s_block_layouts[type].digits ? (held * powers[place] & 255u) * 3u >> 8 : held >> place & 3u;
}}

/* A scale as single precision, which holds every half exactly; it need not be aligned. */
I2S_API float i2s_block_scale(const uint8_t *at, unsigned bytes, int big_endian)
{{
    uint32_t bits = 0, low, exponent;
    float scale;
    unsigned i;
    for (i = 0; i < bytes; i++)
        bits |= (uint32_t)at[i] << 8 * (big_endian ? bytes - 1 - i : i);
    if (bytes == 2) {{
        exponent = bits >> 10 & 31u;
        low = bits & 1023u;
        bits = (bits & 0x8000u) << 16;
        if (exponent == 31)
            bits |= 0x7f800000u | low << 13;
        else if (exponent != 0)
            bits |= (exponent + 112) << 23 | low << 13;
        else if (low != 0) {{ /* subnormal: shifted until its highest bit is the one that is not stored */
            for (exponent = 113; !(low & 1024u); exponent--)
                low <<= 1;
            bits |= exponent << 23 | (low & 1023u) << 13;
        }}
    }}
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}}

/* Bytes of a matrix, 0 where it cannot be packed: rows are whole blocks. */
I2S_API uint64_t i2s_block_tensor_bytes(i2s_block_type type, uint64_t rows, uint64_t cols)
{{
    const i2s_block_layout *layout;
    uint64_t row, tail;
    if ((unsigned)type >= I2S_BLOCK_TYPES || rows == 0 || cols == 0)
        return 0;
    layout = &i2s_block_layouts[type];
    if (cols % layout->elements != 0 || cols / layout->elements > UINT32_MAX)
        return 0;
    row = layout->row_bytes + cols / layout->elements * layout->bytes;
    tail = layout->scales_apart ? I2S_TAIL_BYTES : 0;
    return rows > (UINT64_MAX - tail) / row || rows > UINT64_MAX / cols ? 0 : rows * row + tail;
}}

/* How many scales a matrix has: one a row, or one a block. */
I2S_API uint64_t i2s_block_groups(i2s_block_type type, uint64_t rows, uint64_t cols)
{{
    const i2s_block_layout *layout = &i2s_block_layouts[type];
    return layout->scale_per_row ? rows : rows * (cols / layout->elements);
}}

/* The weights of a whole tensor without their scales, row by row, and the scale of each group: `weights` takes
 * rows * cols of -1, 0, +1 and +2, `scales` as many as i2s_block_groups says. It stops at code {FOURTH_CODE} of a type that
 * reserves it: I2S_BAD_CODE, and its element in *where. */
I2S_API i2s_status i2s_block_decode(const void *data, size_t size, uint64_t rows, uint64_t cols,
                                    i2s_block_type type, int big_endian, int8_t *weights, float *scales,
                                    uint64_t *where)
{{
    const uint8_t *at = (const uint8_t *)data, *beside;
    const i2s_block_layout *layout;
    uint64_t row, block, done = 0;
    unsigned k, code;
    if (i2s_block_tensor_bytes(type, rows, cols) == 0)
        return I2S_BAD_SHAPE;
    if (size != i2s_block_tensor_bytes(type, rows, cols))
        return I2S_BAD_SIZE;
    layout = &i2s_block_layouts[type];
    beside = at + rows * (cols / layout->elements) * layout->bytes; /* where the scales are, if apart */
    for (row = 0; row < rows; row++) {{
        if (!layout->scales_apart) {{
            beside = at;
            at += layout->row_bytes;
        }}
        if (layout->scale_per_row)
            *scales++ = i2s_block_scale(beside + layout->scale_offset, layout->scale_bytes, big_endian);
        beside += layout->row_bytes;
        for (block = 0; block < cols / layout->elements; block++) {{
            if (!layout->scale_per_row)
                *scales++ = i2s_block_scale(at + layout->scale_offset, layout->scale_bytes, big_endian);
            for (k = 0; k < layout->elements; k++) {{
                code = i2s_block_code(at, k, type);
                if (code == {FOURTH_CODE} && layout->reserved) {{
                    if (where)
                        *where = done;
                    return I2S_BAD_CODE;
                }}
                weights[done++] = (int8_t)((int)code - 1);
            }}
            at += layout->bytes;
        }}
    }}
    return I2S_OK;
}}
"""


# --- shared numbers --------------------------------------------------------------------------------------------------
# The type of a number that several types share follows from the tensor's size, as in `schema.types.reading`; so all
# types of such a number are in a table, also those that the header does not decode.

#: A type whose size is not a number of bytes per block has 0 for both in the table.
OWN_SIZE: Final = tl2_size


def shared_numbers() -> dict[int, tuple[TensorType, ...]]:
    """All types of each number that a type with a scale for each group shares with another type, in order."""
    numbers = {layout.type.number for layout in GROUP_LAYOUTS.values()}
    return {number: READINGS[number] for number in sorted(numbers) if len(READINGS[number]) > 1}


def meanings_text() -> str:
    """Return the table, and the function that finds a tensor; they come after the walk over files."""
    lines = []
    for number, kinds in shared_numbers().items():
        for kind in kinds:
            mine = constant(GROUP_LAYOUTS[kind.name]) if kind.name in GROUP_LAYOUTS else "I2S_BLOCK_TYPES"
            lines.append(f"    {{{number}, {mine}, {', '.join(map(str, block_size(kind)))}}}, /* {kind} */")
    return "\n".join([_MEANINGS_HEAD, *lines, _REST])


def block_size(kind: TensorType) -> tuple[int, int]:
    """Elements and bytes of a block of a type; zeros where its layout or a special rule gives the size."""
    if kind.name in GROUP_LAYOUTS or kind.size is OWN_SIZE:
        return 0, 0
    if kind.size is not None or kind.row_bytes:
        raise ValueError(f"{kind} has a size that no export can say")
    return kind.block, kind.bytes


_MEANINGS_HEAD: Final = """\
/* The types of each number that several types share, the likeliest first. I2S_BLOCK_TYPES stands for a type that is not
 * decoded here: `elements` of a row take `bytes`, or both are 0 for TL2, which has a rule of its own. */
typedef struct i2s_meaning {
    uint32_t number;
    i2s_block_type type;
    unsigned elements, bytes;
} i2s_meaning;

static const i2s_meaning i2s_meanings[] = {"""

_REST: Final = """\
};
#define I2S_MEANINGS (sizeof i2s_meanings / sizeof *i2s_meanings)

/* Bytes of a tensor under one meaning of its number, 0 where it cannot be packed. */
I2S_API uint64_t i2s_meaning_bytes(const i2s_meaning *as, const gguf_tensor_info *info)
{
    uint64_t cols = info->ne[0], rows = 1, row;
    uint32_t i;
    for (i = 1; i < info->n_dims; i++) {
        if (info->ne[i] == 0 || rows > UINT64_MAX / info->ne[i])
            return 0;
        rows *= info->ne[i];
    }
    if (as->type != I2S_BLOCK_TYPES)
        return i2s_block_tensor_bytes(as->type, rows, cols);
    if (as->elements == 0) { /* TL2, clause 2.6: five bits for three weights, four for two of the last 256 columns */
        rows = info->n_dims > 1 ? info->ne[1] : 1;
        if (cols == 0 || rows > UINT32_MAX || cols > UINT32_MAX || (cols > 256 && rows > UINT64_MAX / 5 / (cols - 256)))
            return 0;
        row = (cols < 256 ? 256 - cols : cols - 256) * rows / 3 * 5 / 8;
        row = cols < 256 ? rows * 64 - row : rows * 64 + row;
        return (row + 31) / 32 * 32 + I2S_TAIL_BYTES;
    }
    if (cols == 0 || cols % as->elements != 0 || cols / as->elements > UINT32_MAX)
        return 0;
    row = cols / as->elements * as->bytes;
    return rows > UINT64_MAX / row ? 0 : rows * row;
}

/* Whether a tensor has exactly so many bytes, padded or not, until the next one begins. */
I2S_API int i2s_meaning_fits(const gguf_file *file, const i2s_meaning *as, const gguf_tensor_info *info,
                             uint64_t room)
{
    uint64_t bytes = i2s_meaning_bytes(as, info);
    return bytes != 0 && (room == bytes || room - bytes == (file->alignment - bytes % file->alignment) % file->alignment);
}

/* Bytes of the data section from an offset on. */
I2S_API uint64_t i2s_bytes_from(const gguf_file *file, uint64_t offset)
{
    if (file->data_start > file->size || offset > file->size - file->data_start)
        return 0;
    return file->size - file->data_start - offset;
}

/* The meaning of a number that fits most tensors of a file, the first of several; it applies to all of them.
 * The tensors must be in the order of their offsets, as ggml's loader demands; else it is the first of the table. */
I2S_API size_t i2s_common_meaning(const gguf_file *file, uint32_t number)
{
    gguf_cursor from = file->tensor_infos;
    gguf_tensor_info info, next;
    uint64_t votes[I2S_MEANINGS] = {0}, i, room;
    size_t each, most = 0;
    while (most < I2S_MEANINGS && i2s_meanings[most].number != number)
        most++;
    if (most == I2S_MEANINGS || gguf_tensor_info_read(&from, &info) != I2S_OK)
        return most;
    for (i = 1; i <= file->header.tensor_count; i++, info = next) {
        room = i2s_bytes_from(file, info.offset);
        next = info;
        if (i < file->header.tensor_count) {
            if (gguf_tensor_info_read(&from, &next) != I2S_OK || next.offset <= info.offset)
                return most;
            room = next.offset - info.offset;
        }
        for (each = 0; each < I2S_MEANINGS && (uint32_t)info.type == number; each++)
            if (i2s_meanings[each].number == number && i2s_meaning_fits(file, &i2s_meanings[each], &info, room))
                votes[each]++;
    }
    for (each = most + 1; each < I2S_MEANINGS && i2s_meanings[each].number == number; each++)
        if (votes[each] > votes[most])
            most = each;
    return most;
}

/* The type of a tensor, its bytes and its matrix: `cols` is ne0, `rows` everything else. A number that several types
 * share means the type with which the tensor, padded or not, ends where the next one begins (clause 2.6). If several fit, it
 * is the one that fits most tensors of the file, or the first that fits. I2S_BAD_SIZE if no type fits, I2S_BAD_VALUE for a
 * tensor of any other type. Only for such a number are all tensor infos read. */
I2S_API i2s_status i2s_block_find(const gguf_file *file, const gguf_tensor_info *info, i2s_block_type *type,
                                  const uint8_t **data, size_t *size, uint64_t *rows, uint64_t *cols)
{
    gguf_cursor from = file->tensor_infos;
    gguf_tensor_info other;
    uint64_t left, room, bytes, n = 1, i;
    size_t each, common, fitting = 0, chosen = I2S_MEANINGS;
    int found = I2S_BLOCK_TYPES, shared = 0;
    if (info->n_dims == 0 || info->type < 0)
        return I2S_BAD_VALUE;
    for (each = 0; each < I2S_BLOCK_TYPES; each++)
        if (i2s_block_layouts[each].number == (uint32_t)info->type)
            found = (int)each;
    if (found == I2S_BLOCK_TYPES)
        return I2S_BAD_VALUE;
    for (i = 1; i < info->n_dims; i++) {
        if (info->ne[i] == 0 || n > UINT64_MAX / info->ne[i])
            return I2S_BAD_SHAPE;
        n *= info->ne[i];
    }
    left = room = i2s_bytes_from(file, info->offset);
    for (each = 0; each < I2S_MEANINGS; each++)
        shared |= i2s_meanings[each].number == (uint32_t)info->type;
    if (shared) {
        for (i = 0; i < file->header.tensor_count && gguf_tensor_info_read(&from, &other) == I2S_OK; i++)
            if (other.offset > info->offset && other.offset - info->offset < room)
                room = other.offset - info->offset;
        for (each = I2S_MEANINGS; each-- > 0;)
            if (i2s_meanings[each].number == (uint32_t)info->type &&
                i2s_meaning_fits(file, &i2s_meanings[each], info, room)) {
                chosen = each;
                fitting++;
            }
        if (fitting == 0)
            return I2S_BAD_SIZE;
        if (fitting > 1) {
            common = i2s_common_meaning(file, (uint32_t)info->type);
            if (i2s_meaning_fits(file, &i2s_meanings[common], info, room))
                chosen = common;
        }
        found = i2s_meanings[chosen].type;
        if (found == I2S_BLOCK_TYPES)
            return I2S_BAD_VALUE;
    }
    bytes = i2s_block_tensor_bytes((i2s_block_type)found, n, info->ne[0]);
    if (bytes == 0)
        return I2S_BAD_SHAPE;
    if (bytes > left)
        return I2S_SHORT;
    *type = (i2s_block_type)found;
    *data = file->bytes + file->data_start + info->offset;
    *size = (size_t)bytes;
    *cols = info->ne[0];
    *rows = n;
    return I2S_OK;
}
"""
