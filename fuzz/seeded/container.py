"""Seeded bugs in the container: sources of bytes, the reader's values and tensors, the writer."""

from __future__ import annotations

from typing import Final

from seeded.bug import Bug, seeded

# fmt: off
#: Tests of the writer.
WRITER: Final = "gguf/test_writer.py gguf/test_writer_values.py gguf/test_writer_laws.py"

_SOURCE = seeded(
    "i2s_spec/gguf/source.py", "gguf/test_sources.py gguf/test_scanner.py " + WRITER,
    ("source-negative-start", "a negative start reads from the end",
     "if start < 0 or length < 0 or start + length > source.size:", "if start + length > source.size:"),
    ("source-end-refused", "the last byte of a source cannot be read",
     "or start + length > source.size:", "or start + length >= source.size:"),
    ("file-short-read", "what follows a short read is read from the start again",
     "os.pread(self._fd, length - len(data), start + len(data))", "os.pread(self._fd, length - len(data), start)"),
    ("file-short-readinto", "the rest of a buffer is filled from the start of the range",
     "os.preadv(self._fd, [buffer[done:]], start + done)", "os.preadv(self._fd, [buffer[done:]], start)"),
    ("file-shrank-in-silence", "a file that became shorter leaves the rest of a buffer as it was",
     "if got == 0:\n                raise _shrank(start + done, self.size)", "if got == 0:\n                break"),
    ("file-times-in-seconds", "a file that was written to within a second seems unchanged",
     "if now.st_mtime_ns != self._stat.st_mtime_ns:", "if int(now.st_mtime) != int(self._stat.st_mtime):"),
    ("file-growth-ignored", "a file that grew is said to have been written to, no more",
     "if now.st_size != self._stat.st_size:", "if now.st_size < self._stat.st_size:"),
    ("fifo-opened", "a FIFO is taken for a file", '        (stat.S_ISFIFO, "a FIFO"),\n', ""),
    ("stream-not-rewound", "the start of a stream is read from wherever it stands",
     "self._stream.seek(start)\n", "_ = start and self._stream.seek(start)\n"),
    ("stream-shrank-elsewhere", "where a stream ends is counted wrong",
     "raise _shrank(start + length - left, self.size)", "raise _shrank(start + left, self.size)"),
    ("buffer-of-words", "a buffer of words is indexed by words",
     'self._view = memoryview(data).cast("B")', "self._view = memoryview(data)"),
    ("map-of-nothing", "an empty file cannot be mapped",
     "mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.size else None",
     "mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)"),
)

_RANGES = seeded(
    "i2s_spec/gguf/source.py", "gguf/test_sources.py gguf/test_scanner.py " + WRITER,
    ("chunks-past-stop", "the last chunk goes on behind the end of the range",
     "data = source.read(start, min(size, stop - start))", "data = source.read(start, min(size, source.size - start))"),
)

_KEY_VALUES = seeded(
    "i2s_spec/gguf/header.py", "gguf/test_reader_values.py " + WRITER + " inspect/test_show.py",
    ("key-limit-inclusive", "one element more than the limit is decoded",
     "min(limit, entry.count)", "min(limit + 1, entry.count)"),
    ("array-byte-order", "arrays of numbers are read as little-endian",
     'dtype=order_prefix(order) + _NUMPY_VALUES', 'dtype="<" + _NUMPY_VALUES'),
    ("bool-is-one", "a bool of another byte than 1 is false in arrays",
     "[byte != 0 for byte in data]", "[byte == 1 for byte in data]"),
    ("strings-byte-order", "lengths in arrays of strings are read as little-endian",
     'entry.count, order == "big")', "entry.count, False)"),
    ("nested-string-length", "the length of a nested string is taken for four bytes",
     "at += 8 + length", "at += 4 + length"),
    ("nested-byte-order", "numbers in nested arrays are read as little-endian",
     "_scalar(kind, data[at : at + width], order)", '_scalar(kind, data[at : at + width], "little")'),
)

_TENSOR_INFOS = seeded(
    "i2s_spec/gguf/tensor.py", "gguf/test_reader_tensors.py " + WRITER + " inspect/test_show.py",
    ("room-alignment", "rooms are compared with sizes padded to 32, whatever the alignment",
     "alignment, common = index.alignment or types.TAIL_BYTES, ", "alignment, common = types.TAIL_BYTES, "),
    ("rows-of-partial-blocks", "rows that split a block pass where the whole tensor is whole blocks",
     "if self.ne and self.ne[0] % self.type.block:", "if self.ne and self.elements % self.type.block:"),
    ("data-start-unaligned", "offsets are counted from the last tensor info, not from the data section",
     "start = (self._index.data_start or 0) + self.offset", "start = (self._index.infos_end or 0) + self.offset"),
    ("tail-is-four-bytes", "the payload has 28 bytes of the tail at its end",
     'max(span.start, span.stop - self._tail_bytes), f"{span.path}.payload")',
     'max(span.start, span.stop - min(4, self._tail_bytes)), f"{span.path}.payload")'),
    ("tail-of-i2s-only", "the kin of I2_S have no tail",
     "self.type is not None and self.type.size is not None else 0",
     'self.type is not None and self.type.name == "I2_S" else 0'),
    ("tensor-ends-with-file", "a tensor that ends with the file is refused",
     "if span.stop > size:", "if span.stop >= size:"),
    ("offset-at-end", "a tensor that begins where the file ends has a wrong offset",
     "if span.start > size:", "if span.start >= size:"),
)

_TENSOR_VALUES = seeded(
    "i2s_spec/gguf/tensor_values.py", "gguf/test_reader_tensors.py " + WRITER,
    ("array-order-of-machine", "tensors of big-endian files are read as this machine reads",
     "prefix = order_prefix(byte_order)", 'prefix = "="'),
)

_INDEX = seeded(
    "i2s_spec/gguf/header.py", "gguf/test_reader_values.py gguf/test_reader_tensors.py " + WRITER,
    ("key-last-counts", "of a key that occurs twice the last value counts",
     "places.setdefault(self.key(i).key, i)", "places[self.key(i).key] = i"),
    ("name-last-counts", "of a name that occurs twice the last tensor counts",
     'places.setdefault(self.tensor(i).name.decode("utf-8", "surrogateescape"), i)',
     'places[self.tensor(i).name.decode("utf-8", "surrogateescape")] = i'),
    ("room-of-the-last", "the extent of the last tensor has no end",
     "starts = sorted([max(end, 0), *(self", "starts = sorted([*(self"),
    ("room-of-itself", "the next tensor is the tensor itself",
     "starts = self._starts\n        after = bisect_right(starts, offset)",
     "starts = self._starts\n        after = bisect_right(starts, offset - 1)"),
)

_VALUES = seeded(
    "i2s_spec/gguf/encode.py", WRITER,
    ("value-least-refused", "the least signed integer is refused",
     "else (-(1 << bits - 1), (1 << bits - 1) - 1)", "else (1 - (1 << bits - 1), (1 << bits - 1) - 1)"),
    ("value-no-u64", "integers from 2^63 on have no type",
     "(ValueType.UINT32, ValueType.INT32, ValueType.UINT64, ValueType.INT64)",
     "(ValueType.UINT32, ValueType.INT32, ValueType.INT64)"),
    ("value-depth", "arrays may nest one level less", "if len(kinds) - 1 > limits", "if len(kinds) > limits"),
    ("value-bool-two", "a bool may be 2",
     'if sorts <= {"bool", "int"} and all(value in (0, 1) for value in values):', 'if sorts <= {"bool", "int"}:'),
    ("value-overflow", "a float64 beyond float32 becomes an infinity in silence",
     "lost = np.isinf(cast) & np.isfinite(array)", "lost = np.isnan(cast) & np.isfinite(array)"),
    ("value-raw-bool", "of raw bools only the first byte is looked at",
     'and data.strip(b"\\0\\1"):', 'and data[:1].strip(b"\\0\\1"):'),
    ("value-length-in-characters", "a string's length is counted in characters",
     'return struct.pack(prefix + "Q", len(text)) + text', 'return struct.pack(prefix + "Q", len(value)) + text'),
    ("value-key-length", "a key of the longest length is refused",
     "if len(key) > limits.MAX_KEY_LENGTH:", "if len(key) >= limits.MAX_KEY_LENGTH:"),
    ("value-surrogates", "bytes that are no UTF-8 are written as other bytes",
     'return value.encode("utf-8", "surrogateescape")', 'return value.encode("utf-8", "surrogatepass")'),
)

_WRITER = seeded(
    "i2s_spec/gguf/writer.py", WRITER,
    ("writer-pads-to-32", "tensors are padded to 32 bytes, whatever the alignment",
     "yield bytes(-tensor.nbytes % self.alignment)", "yield bytes(-tensor.nbytes % limits.DEFAULT_ALIGNMENT)"),
    ("writer-offset-unaligned", "offsets are not aligned",
     "            offset += padded(tensor.nbytes, self.alignment)", "            offset += tensor.nbytes"),
    ("writer-alignment-of-four", "an alignment that is not a multiple of 8 is accepted", "if value % 8:", "if value % 2:"),
    ("writer-two-alignments", "of two alignments the second counts",
     "if self._alignment not in (None, value):", "if self._alignment is not None and value < self._alignment:"),
    ("writer-alignment-unsaid", "an alignment is not stored in a file without tensors",
     "if self.alignment != limits.DEFAULT_ALIGNMENT and _ALIGNMENT not in self._records:",
     "if self.alignment != limits.DEFAULT_ALIGNMENT and self._tensors and _ALIGNMENT not in self._records:"),
    ("writer-shape-order", "shapes are stored in NumPy's order",
     "Planned(encoded, shape[::-1], kind, kind", "Planned(encoded, shape, kind, kind"),
    ("writer-too-much-data", "data longer than the tensor are noticed only when they are written",
     "if known is not None and known != tensor.nbytes:", "if known is not None and known < tensor.nbytes:"),
    ("writer-raw-trailing", "bytes behind a raw key-value become part of the file",
     "if index.infos_end != len(head) + len(record):", "if (index.infos_end or 0) > len(head) + len(record):"),
    ("writer-alignment-order", "general.alignment is read as little-endian",
     "self._align(kind, int.from_bytes(value, self.byte_order))", 'self._align(kind, int.from_bytes(value, "little"))'),
)

_TENSORS = seeded(
    "i2s_spec/gguf/encode.py", WRITER,
    ("tensor-data-byte-order", "arrays are written as little-endian",
     'astype(f"{prefix}u{width}", copy=False)', 'astype(f"<u{width}", copy=False)'),
    ("tensor-name-in-characters", "a name's length is counted in characters",
     "if not 1 <= len(encoded) <= limits", "if not 1 <= len(name) <= limits"),
    ("tensor-name-controls", "control characters from 0x80 on are accepted in names",
     "0x7F <= ord(char) < 0xA0", "ord(char) == 0x7F"),
    ("tensor-2-to-63", "a tensor of 2^63 elements is accepted", "if prod(shape) >= limits.INT64_END:",
     "if prod(shape) > limits.INT64_END:"),
    ("tensor-too-few-bytes", "a callable may give too few bytes",
     "        if done < self.nbytes:\n            raise self.misfit(done)",
     "        if not done < self.nbytes:\n            return"),
)

_CAUSES = [
    *seeded(
        "i2s_spec/gguf/strings.py", "linter/test_one_fault_one_code.py",
        ("decoded-any-character", "a damaged file with a vocabulary of other scripts was text",
         "kind = _REPLACED if replaced * _SHARE >= beyond else _LATIN_1", "kind = _REPLACED if beyond else _LATIN_1"),
        ("decoded-latin-1-as-replaced", "controls of Latin-1 are not counted",
         'controls += sum(1 for character in text if "\\x80" <= character <= "\\x9f")', "controls += 0"),
    ),
    *seeded(
        "i2s_spec/linter/analysis/context.py", "linter/test_one_fault_one_code.py",
        ("shift-of-a-cut-file", "a file that ends early is shifted, whatever its scales say",
         "return _plausible(file, shift.base, scales, _SCALES) and not _plausible(file, stated, scales, _SCALES)",
         "return True"),
        ("shift-without-offset", "offsets that begin with another number are counted twice",
         "return self.begins - self.offset", "return self.begins"),
    ),
]

BUGS: Final[list[Bug]] = [*_SOURCE, *_RANGES, *_KEY_VALUES, *_INDEX, *_TENSOR_INFOS,
                          *_TENSOR_VALUES, *_VALUES, *_WRITER, *_TENSORS, *_CAUSES]
