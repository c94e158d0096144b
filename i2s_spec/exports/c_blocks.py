"""This module writes the part of the C header that decodes types with a scale for each group, from their declarations."""

from __future__ import annotations

from typing import Final

from i2s_spec.exports.formula import by_parts, in_c
from i2s_spec.schema.block_layout import DIGITS_PER_BYTE, FOURTH_CODE, GROUP_LAYOUTS, BlockLayout


def constant(layout: BlockLayout) -> str:
    """The name of a type in C: `I2S_BLOCK_Q2_0`."""
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
        f"static inline unsigned {name}(i2s_block_type type, unsigned k)",
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
static inline unsigned i2s_block_code(const uint8_t *block, unsigned k, i2s_block_type type)
{{
    static const unsigned powers[] = {{{", ".join(str(3**n) for n in range(DIGITS_PER_BYTE))}}};
    unsigned held = block[i2s_block_byte_of(type, k)], place = i2s_block_place_of(type, k);
    return i2s_block_layouts[type].digits ? (held * powers[place] & 255u) * 3u >> 8 : held >> place & 3u;
}}

/* A scale as single precision, which holds every half exactly; it need not be aligned. */
static inline float i2s_block_scale(const uint8_t *at, unsigned bytes, int big_endian)
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
static inline uint64_t i2s_block_tensor_bytes(i2s_block_type type, uint64_t rows, uint64_t cols)
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
static inline uint64_t i2s_block_groups(i2s_block_type type, uint64_t rows, uint64_t cols)
{{
    const i2s_block_layout *layout = &i2s_block_layouts[type];
    return layout->scale_per_row ? rows : rows * (cols / layout->elements);
}}

/* The weights of a whole tensor without their scales, row by row, and the scale of each group: `weights` takes
 * rows * cols of -1, 0, +1 and +2, `scales` as many as i2s_block_groups says. It stops at code {FOURTH_CODE} of a type that
 * reserves it: I2S_BAD_CODE, and its element in *where. */
static inline i2s_status i2s_block_decode(const void *data, size_t size, uint64_t rows, uint64_t cols,
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
