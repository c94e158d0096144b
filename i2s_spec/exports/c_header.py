"""This module writes a C header that needs nothing but the C library: a decoder for every dialect, and a bounded walker.

The header is C99 and C++; every function is inline and takes bytes with their size. It follows the definitions, not the
machine: no vector code, no pointer casts, no byte order of its own. A runtime's fast path can be held to it.
"""

from __future__ import annotations

from textwrap import dedent

from i2s_spec.exports import c_blocks, c_meanings, c_walker
from i2s_spec.exports.formula import in_c
from i2s_spec.schema.dialect import CODE_MAPS, CODES_PER_BYTE, LAYOUTS, TAILS, Layout
from i2s_spec.schema.types import I2_S, SCALE_BYTES, TAIL_BYTES

#: The entry in the table of trits for the code that has no meaning.
NO_TRIT = 127


def text() -> str:
    """The header."""
    parts = [_HEAD, _constants(), _place(), _decoder(), c_blocks.text(), c_walker.text(), c_meanings.text(), _FOOT]
    return "\n".join(parts)


def constant(name: str) -> str:
    """The name of a layout, code map or tail as a C constant.

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
    """The place of the code of an element: one case for each layout."""
    return "\n".join([
        "/* Byte of the payload that holds the code of element k (flat, row by row); clause 5.5. */",
        _formula("uint64_t i2s_byte_of", [(layout, layout.byte_of.text) for layout in LAYOUTS.values()]),
        "/* How far left the code is shifted in that byte. */",
        _formula("unsigned i2s_shift_of", [(layout, layout.shift_of.text) for layout in LAYOUTS.values()], "(unsigned)"),
        "/* Whether a matrix can be packed in a layout: whole blocks, whole groups of rows; rows * cols does not wrap. */",
        "static inline int i2s_fits(i2s_layout layout, uint64_t rows, uint64_t cols)",
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
        f"static inline {head}(i2s_layout layout, uint64_t k, uint64_t rows, uint64_t cols)",
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
 * C99 and C++. SPDX-License-Identifier: MIT */
#ifndef I2S_H
#define I2S_H

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
static inline uint64_t i2s_tensor_bytes(uint64_t n)
{
    return n / I2S_CODES_PER_BYTE + I2S_TAIL_BYTES;
}

/* Code (0 to 3) of element k. The payload holds rows * cols / 4 bytes, and k < rows * cols. */
static inline unsigned i2s_code(const uint8_t *payload, uint64_t k, uint64_t rows, uint64_t cols, i2s_layout layout)
{
    return payload[i2s_byte_of(layout, k, rows, cols)] >> i2s_shift_of(layout, k, rows, cols) & 3u;
}

/* The trits of a whole tensor, row by row. `data` is payload and tail, `size` exactly their bytes; `trits` takes
 * rows * cols of -1, 0, +1. It stops at a code without a meaning: I2S_BAD_CODE, and its element in *where. */
static inline i2s_status i2s_decode(const void *data, size_t size, uint64_t rows, uint64_t cols, i2s_layout layout,
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
static inline i2s_status i2s_encode(const int8_t *trits, float scale, uint64_t rows, uint64_t cols, i2s_layout layout,
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
static inline float i2s_scale(const void *data, uint64_t n, int big_endian)
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
