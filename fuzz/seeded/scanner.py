"""Seeded bugs in the compiled reader: the scanner of headers, and the check of string arrays."""

from __future__ import annotations

from typing import Final

from seeded.bug import Bug, seeded

# fmt: off
_SCANNER = [
    *seeded(
        "pyx/_scanner.pyx", "gguf/test_scanner.py",
        ("scan-signed-length", "a length from 2^63 on is negative, and passes",
         "        if length > <uint64_t>left:", "        if <int64_t>length > left:"),
        ("scan-last-string", "a string that ends with the file is refused",
         "        if length > <uint64_t>left:", "        if length >= <uint64_t>left:"),
        ("scan-signed-skim", "a length from 2^63 on is passed over backwards",
         "    cdef int64_t todo = left[0]\n    cdef uint64_t length\n    while todo and p <= last:\n"
         "        length = u64(p, big)\n        if length > <uint64_t>(last - p):",
         "    cdef int64_t todo = left[0]\n    cdef uint64_t length\n    while todo and p <= last:\n"
         "        length = u64(p, big)\n        if <int64_t>length > last - p:"),
        ("scan-type-13", "value type 13 passes", "            if kind >= TYPES:", "            if kind > TYPES:"),
        ("scan-element-13", "element type 13 passes", "        if kind[0] >= TYPES:", "        if kind[0] > TYPES:"),
        ("scan-key-length", "a name of the longest length is refused", "        if length > limit:",
         "        if length >= limit:"),
        ("scan-depth", "arrays may nest one level deeper", "depth >= MAX_DEPTH:", "depth > MAX_DEPTH:"),
        ("scan-count-overflow", "a count times the size of an element overflows, and passes",
         "if declared > <uint64_t>(room // SMALLEST[kind[0]]):",
         "if declared * <uint64_t>SMALLEST[kind[0]] > <uint64_t>room:"),
        ("scan-inner-width", "nested numbers have the width of the outer element",
         "self.pos += left[depth - 1] * WIDTH[kinds[depth - 1]]", "self.pos += left[depth - 1] * WIDTH[note.element]"),
        ("scan-four-dims", "tensors of four dimensions are refused", "            if dims > MAX_DIMS:",
         "            if dims >= MAX_DIMS:"),
        ("scan-last-alignment", "of two alignments the last counts",
         "index.key(i).type_span)\n            break", "index.key(i).type_span)"),
        ("scan-alignment-order", "the alignment is read as little-endian",
         "int.from_bytes(source.read(start, 4), index.byte_order)", 'int.from_bytes(source.read(start, 4), "little")'),
    ),
    *seeded(
        "pyx/window.pxi", "gguf/test_scanner.py",
        ("scan-big-halves", "the halves of a big-endian number are exchanged",
         "(<uint64_t>u32(p, True) << 32) | u32(p + 4, True)", "(<uint64_t>u32(p + 4, True) << 32) | u32(p, True)"),
        ("scan-window-end", "the last bytes of a file cannot be had through the window",
         "if length > self.size - start or self.whole:", "if length >= self.size - start or self.whole:"),
        ("scan-window-clamp", "the window is filled beyond the end of the file",
         "        if wanted > self.size - start:\n            wanted = self.size - start\n", ""),
    ),
    *seeded(
        "pyx/header_notes.pxi", "gguf/test_scanner.py",
        ("ne-span-short", "the span of a shape begins with its count",
         "Span(note.start + 8 + note.length + 4, note.stop - 12,", "Span(note.start + 8 + note.length, note.stop - 12,"),
        ("span-of-name", "the span of a tensor's name begins with its length",
         'Span(note.start + 8, note.start + 8 + note.length, f"tensor_infos',
         'Span(note.start, note.start + 8 + note.length, f"tensor_infos'),
    ),
    *seeded(
        "pyx/header_values.pxi", "gguf/test_scanner.py",
        ("utf8-overlong", "overlong forms of two bytes pass for UTF-8", "elif 0xC2 <= b <= 0xDF:",
         "elif 0xC0 <= b <= 0xDF:"),
        ("utf8-surrogates", "surrogates pass for UTF-8", "state.high = 0x9F", "state.high = 0xBF"),
        ("utf8-cut", "a character that is cut off passes for UTF-8", "return state.more == 0", "return True"),
        ("strings-past-end", "the last string of an array goes on behind it",
         "if length > <uint64_t>(size - pos):", "if length > <uint64_t>size:"),
        ("odd-bool-place", "the place of an odd bool is counted from its window",
         "return start + done + i", "return start + i"),
        ("first-bad-string", "the index of a string that is not UTF-8 is counted from the end",
         "first = (count - left, start,", "first = (left, start,"),
    ),
]

_STRINGS = [
    *seeded(
        "pyx/_strings.pyx", "gguf/test_strings.py",
        ("look-compared", "one string more is compared than was asked for",
         "if self.index < self.limit:", "if self.index <= self.limit:"),
        ("look-pair-end", "a merge that ends with a space is a pair",
         "if spaces != 1 or p[0] == 0x20 or p[length - 1] == 0x20:", "if spaces != 1 or p[0] == 0x20:"),
        ("look-long-text", "a long text that is looked for is not found",
         "self.text_length[i] == length\n", "self.text_length[i] == (length & 63)\n"),
        ("look-byte-form", "a byte token may end as it likes",
         "hexadecimal(p[4]) and p[5] == 0x3E)", "hexadecimal(p[4]))"),
        ("first-outside-most", "the largest allowed integer is outside", "or value > most:", "or value >= most:"),
    ),
    *seeded(
        "pyx/text.h", "gguf/test_strings.py",
        ("look-overlong", "overlong forms of three bytes pass for UTF-8", "        if (c == 0xE0) least = 0xA0;\n", ""),
        ("look-carry", "a character cut off at the sixteenth byte passes for UTF-8",
         "seen->carry = behind >> 16;", "seen->carry = 0;"),
        ("look-spaces", "of sixteen bytes one space is counted",
         "some.space & (some.space - 1) || seen->spaces ? 3 : 1", "seen->spaces ? 3 : 1"),
    ),
    *seeded(
        "i2s_spec/gguf/strings.py", "gguf/test_strings.py",
        ("span-of-liar", "the span of a text goes beyond its array",
         "min(start + 8 + length, stop)", "start + 8 + length"),
        ("outside-of-part", "the place of an integer is counted from its part", "return done + at", "return at"),
    ),
]

BUGS: Final[list[Bug]] = [*_SCANNER, *_STRINGS]
