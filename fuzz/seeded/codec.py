"""Seeded bugs in the codec: dialects, the definition, quantization, tails, remainders, and callers of the kernels."""

from __future__ import annotations

from typing import Final

from seeded.bug import Bug, seeded

# fmt: off
_DIALECT = seeded(
    "i2s_spec/schema/dialect.py",
    "schema/test_dialect.py codec/test_reference.py codec/test_vectors.py",
    ("layout-64-shift", "interleave-64 has its first element in the lowest bits",
     '"6 - k % 64 // 16 * 2"', '"k % 64 // 16 * 2"'),
    ("layout-128-lane", "the elements of a lane are neighbors in interleave-128",
     '"k // 128 * 32 + k % 32"', '"k // 128 * 32 + k % 128 // 4"'),
    ("layout-rows-step", "row-blocks-4 has four neighboring rows in a byte",
     '"k // cols % (rows // 4) * cols + k % cols"', '"k // cols // 4 * cols + k % cols"'),
    ("map-zero-first", "zero-first has -1 and +1 exchanged",
     'CodeMap("zero-first", (0, 1, -1, None)', 'CodeMap("zero-first", (0, -1, 1, None)'),
    ("tail-seven-copies", "replicated-8 repeats the scale seven times",
     'Tail("replicated-8", TAIL_BYTES // 4,', 'Tail("replicated-8", 7,'),
)

_REFERENCE = seeded(
    "i2s_spec/codec/reference.py",
    "codec/test_reference.py codec/test_remainder.py codec/test_shape.py",
    ("unused-count", "of unused codes one is counted in a window",
     "wrong += int(np.count_nonzero(bad))", "wrong += 1"),
    ("zero-without-sign", "zero times a negative scale is +0",
     "np.multiply(each[start:stop].astype(np.float32), scale, out=product[start:stop])",
     "product[start:stop] = each[start:stop].astype(np.float32) * scale + np.float32(0)"),
    ("scale-byte-order", "scales of big-endian files are read as little-endian",
     "scale = read_tail(tail, dialect.tail, byte_order)", "scale = read_tail(tail, dialect.tail)"),
)

_PAYLOAD = seeded(
    "i2s_spec/codec/reference.py",
    "codec/test_recode.py codec/test_reference.py codec/test_remainder.py codec/test_shape.py",
    ("trit-minus-two", "-2 is taken for +1", "bad = (part < -1) | (part > 1)", "bad = part > 1"),
    ("wrong-trit-place", "the place of a wrong value is counted from its window",
     "first = first if wrong else start + int(bad.argmax())", "first = first if wrong else int(bad.argmax())"),
    ("tail-behind-blocks", "the tail follows the whole blocks, not the payload",
     "(blocks, bytes(tensor.payload_bytes - len(blocks)), tail)",
     "(blocks, tail, bytes(tensor.payload_bytes - len(blocks)))"),
    ("plus-two-everywhere", "code 3 is +2 in maps that nobody reads so",
     'if unused_code == "plus-two" and code_map != _MINUS_ONE:',
     'if unused_code == "plus-two" and code_map.unused == 2:'),
    ("unused-becomes-zero", "the unused code becomes that of 0, and there is no way back",
     "[target.unused if trit is None", "[target.code_of(0) if trit is None"),
    ("histogram-field", "the lowest field of each byte is counted twice, the highest not at all",
     "for shift in (0, 2, 4, 6):", "for shift in (0, 0, 2, 4):"),
)

_RECODE = seeded(
    "i2s_spec/codec/reference.py",
    "codec/test_recode.py codec/test_reference.py codec/test_remainder.py",
    ("tail-turned", "the scale of a big-endian file is turned",
     "target.tail, byte_order)", "target.tail)"),
    ("lost-becomes-code-0", "what the source does not hold is code 0 in the target, which is -1",
     "codes = np.full(tensor.elements, target.code_map.code_of(0), dtype=np.uint8)",
     "codes = np.zeros(tensor.elements, dtype=np.uint8)"),
    ("scan-last", "a scan gives the first place in the last window",
     "int(here.argmax()) if first is None else first", "int(here.argmax())"),
)

_QUANTIZE = seeded(
    "i2s_spec/codec/quantize.py", "codec/test_quantize.py codec/test_vectors.py",
    ("zero-in-float32", "float32(1e-6) is no zero, because it is compared as float32",
     "trits[np.abs(wide) < ZERO_BELOW] = 0", "trits[np.abs(part) < np.float32(ZERO_BELOW)] = 0"),
    ("nan-is-plus", "a NaN becomes +1",
     "np.where(wide * np.float64(scale) > 0, np.int8(1), np.int8(-1))",
     "np.where(wide * np.float64(scale) < 0, np.int8(-1), np.int8(1))"),
    ("half-away", "half is rounded away from zero", "(quotients > np.float32(0.5))", "(quotients >= np.float32(0.5))"),
    ("first-inclusive", "1e-6 itself is a scale",
     "(beyond := part > np.float32(ZERO_BELOW))", "(beyond := part >= np.float32(ZERO_BELOW))"),
    ("mean-of-nan", "the mean of a tensor with NaN is the smallest scale",
     "if mean < np.float32(SMALLEST_SCALE) else mean", "if not mean >= np.float32(SMALLEST_SCALE) else mean"),
    ("largest-of-nan", "the largest of a tensor with NaN is NaN",
     "largest = np.fmax(largest, np.fmax.reduce(weights.magnitudes(start, stop)))",
     "largest = np.maximum(largest, np.maximum.reduce(weights.magnitudes(start, stop)))"),
    ("hf-reciprocal", "hf-first multiplies by a reciprocal",
     "lambda part, scale: _cut(part / scale)", "lambda part, scale: _cut(part * (np.float32(1) / scale))"),
    ("mean-divides", "embedding-mean divides by the scale",
     "lambda part, scale: _cut(part * (np.float32(1) / scale))", "lambda part, scale: _cut(part / scale)"),
    ("masters-of-nan", "masters with NaN are quantized by the smallest scale",
     "np.maximum(mean, np.float32(SMALLEST_SCALE))", "np.fmax(mean, np.float32(SMALLEST_SCALE))"),
)

_MEAN = seeded(
    "i2s_spec/codec/quantize.py", "codec/test_mean.py codec/test_reference.py",
    ("mean-halves", "halves do not begin at multiples of eight",
     "middle = start + half - half % 8", "middle = start + half"),
    ("mean-lanes", "vectors are added in pairs",
     "((vectors[0] + vectors[1]) + vectors[2]) + vectors[3]", "(vectors[0] + vectors[1]) + (vectors[2] + vectors[3])"),
    ("mean-levels", "sums cascade over one level too few", "for _ in range(1, _LEVELS - 1):",
     "for _ in range(2, _LEVELS - 1):"),
)

_TAIL = seeded(
    "i2s_spec/codec/observation.py", "codec/test_tail.py codec/test_reference.py",
    ("replicated-by-two", "two copies of the scale make a tail replicated",
     "if data == data[:SCALE_BYTES] * (TAIL_BYTES // SCALE_BYTES) else",
     "if data[: 2 * SCALE_BYTES] == data[:SCALE_BYTES] * 2 else"),
    ("last-copy", "the last copy of the scale is not compared",
     "for number in range(1, tail.copies):", "for number in range(1, tail.copies - 1):"),
    ("tail-byte-order", "scales are written as little-endian",
     ".astype(_FLOAT32[byte_order]).tobytes()", '.astype(_FLOAT32["little"]).tobytes()'),
    ("scale-rounds-to-infinity", "a scale halfway behind the largest float32 becomes an infinity",
     "abs(value) >= _FLOAT32_END:", "abs(value) > _FLOAT32_END:"),
    ("scale-largest", "what rounds to the largest float32 is refused",
     "_FLOAT32_END = (2 - 2**-24) * 2.0**127", "_FLOAT32_END = (2 - 2**-23) * 2.0**127"),
)

_REMAINDER = seeded(
    "i2s_spec/codec/shape.py", "codec/test_remainder.py codec/test_shape.py codec/test_vectors.py",
    ("blocks-in-each-row", "blocks are counted in each row",
     "whole = rows * cols // layout.block * layout.block", "whole = rows * (cols // layout.block * layout.block)"),
    ("row-in-fours", "rows of whole bytes pass for rows of whole blocks",
     "layout.row_block == 1 and cols % layout.block else None", "layout.row_block == 1 and cols % 4 else None"),
    ("lost-last-row", "the last element that is lost is said to be one further on",
     "divmod(self.stop - 1, self.cols)", "divmod(self.stop, self.cols)"),
    ("checkpoint-blocks", "row-blocks-4 is written without the rows that are no group",
     "if strict or not layout.in_gguf:", "if strict:"),
)

_READERS = seeded(
    "i2s_spec/codec/native.py", "codec/test_remainder.py codec/test_shape.py codec/test_vectors.py",
    ("address-of-row", "a row is looked for at whole bytes of rows",
     "byte = address * run // CODES_PER_BYTE + layout", "byte = address * (run // CODES_PER_BYTE) + layout"),
)

_CALLS = seeded(
    "i2s_spec/codec/kernels.py", "codec/test_native.py codec/test_recode.py",
    ("split-remainder", "what is left over after the threads' equal parts is not done",
     "starts = range(0, count, step)", "starts = range(0, count - count % step, step)"),
    ("rest-of-recode", "less than 128 elements at the end are not transcoded between layouts",
     "if whole * BLOCK_BYTES < payload.size:", "if whole * BLOCK_BYTES < payload.size and of == to:"),
    ("rest-of-long-run", "the end of one long run is not transcoded",
     "if of == to and of.group > payload.size:", "if of == to and of.group < payload.size:"),
    ("remap-bits", "coefficients of low and high bit are exchanged",
     "coefficients += [zero, zero ^ high, zero ^ low,", "coefficients += [zero, zero ^ low, zero ^ high,"),
    ("row-blocks-step", "rows that share bytes are neighbors in every layout",
     "step = rows // 4 if not shared.in_gguf else 1", "step = 1"),
    ("shared-lsb", "the order of fields is that of the source", "lsb = (of if shared is source else to).lsb",
     "lsb = of.lsb"),
    ("columns-of-32", "rows of 32 columns are taken for whole blocks",
     "kind is not None and cols % BLOCK == 0:", "kind is not None and cols % BLOCK_BYTES == 0:"),
    ("bad-in-all", "a wrong trit is noticed only if every thread has one", "return not any(bad)",
     "return not all(bad)"),
    ("occurs-in-all", "a code occurs only if every thread has found it", "return any(found)", "return all(found)"),
)

_NATIVE = seeded(
    "i2s_spec/codec/native.py", "codec/test_native.py codec/test_remainder.py",
    ("scan-place", "the first unused code is looked for in the first megabyte only",
     "return Scan(count, start + int(here.argmax()))", "return Scan(count, int(here.argmax()))"),
)

_PAYLOAD_NATIVE = seeded(
    "i2s_spec/codec/native.py", "codec/test_native.py codec/test_payload.py codec/test_remainder.py",
    ("zero-policy", "with unused_code=zero the kernels make +2 of code 3",
     'return unused_code == "plus-two" or not', 'return unused_code != "reject" or not'),
    ("transcode-in-place", "a tensor is transcoded into its own bytes",
     "if np.may_share_memory(view, raw):", "if view is raw:"),
    ("out-too-large", "a result may be larger than what is written into it",
     "if view_of_out.size != nbytes:", "if view_of_out.size < nbytes:"),
    ("wide-trits", "-257 as int16 is taken for -1",
     "if array.size and (int(array.min()) < -1 or int(array.max()) > 1):", "if array.size and int(array.max()) > 1:"),
    ("out-with-gaps", "an array with gaps is given back as it was",
     "if not out.flags.c_contiguous or not out.flags.writeable:", "if not out.flags.writeable:"),
)

_OTHERS = [
    *seeded(
        "i2s_spec/codec/isa.py", "codec/test_native.py",
        ("fastest-set", "the fastest kernels are taken whether or not the processor has them",
         "return next(each for each in reversed(sets) if each.available)",
         "return next(each for each in reversed(sets))"),
    ),
    *seeded(
        "i2s_spec/codec/encoding.py", "codec/test_trits.py convert/test_arrays.py convert/test_conversion.py",
        ("infinite-weights", "infinite weights are ternary", "if int(found.max()) >= infinity:",
         "if int(found.max()) > infinity:"),
        ("row-unit", "windows of rows-1x4 are single blocks",
         "return layout.row_block * self.cols if layout.row_block > 1 else layout.block", "return layout.block"),
    ),
    *seeded(
        "i2s_spec/codec/encoding.py", "codec/test_trits.py convert/test_arrays.py",
        ("window-place", "the place of an unused code is counted from its window",
         "first = start + error.first", "first = error.first"),
        ("window-count", "unused codes are counted in the last window only", "count += one.count", "count = one.count"),
    ),
    *seeded(
        "i2s_spec/codec/blocks.py", "codec/test_ternary_types.py",
        ("tq1-rounds-down", "five digits are packed without rounding up",
         "(number * 256 + 242) // 243", "number * 256 // 243"),
    ),
    *seeded(
        "i2s_spec/codec/change_groups.py", "codec/test_ternary_types.py",
        ("tq-scale-of-zeros", "the scale of a block of zeros counts",
         "return np.unique(scales[used])", "return np.unique(scales)"),
    ),
]

BUGS: Final[list[Bug]] = [
    *_DIALECT, *_REFERENCE, *_PAYLOAD, *_RECODE, *_QUANTIZE, *_MEAN, *_TAIL, *_REMAINDER, *_READERS, *_CALLS, *_NATIVE,
    *_PAYLOAD_NATIVE, *_OTHERS,
]
