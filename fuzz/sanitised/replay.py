"""The program that valgrind watches: all functions of the compiled scanner, on every file of a folder.

Every value is used, because memcheck reports uninitialized bytes only where a decision depends on them. NumPy is not
imported, which would take a minute under memcheck.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from i2s_spec.errors import FormatError
from i2s_spec.gguf import _scanner
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource, FileSource, Source
from i2s_spec.gguf.strings import first_outside, look, span_of
from i2s_spec.schema.types import ValueType

TEXTS = [b"", b"a", b"<s>", b"<|end_of_text|>", b"general.architecture"]


def asked(source: Source) -> Iterator[Any]:
    """All results of the scanner for a file, with all its strings, bools and integers."""
    file = File(source)
    big = file.byte_order == "big"
    yield file.fault and file.fault.message
    yield [(each.raw_name, each.ne, each.number, each.offset) for each in file.tensors.rows]
    strings = []
    for entry in file.metadata.rows:
        start, stop = entry.value_span[:2]
        yield entry.name, entry.type, entry.element, entry.count, entry.span
        if entry.type == ValueType.STRING:
            strings.append((start, stop - start))
        elif entry.element == ValueType.STRING:
            yield file.metadata.decode(entry)
            yield _scanner.invalid_utf8_in_array(source, start, stop, entry.count, big)
            yield look(source, start, stop, entry.count, big, TEXTS), entry.count > 0
            yield span_of(source, start, stop, big, entry.count - 1) if entry.count else None
        elif entry.element == ValueType.BOOL:
            yield _scanner.first_odd_bool(source, start, entry.count)
        elif entry.element == ValueType.INT32:
            yield first_outside(source, start, entry.count, big, 0, 6)
    yield _scanner.invalid_utf8(source, strings)
    end = min(file.data_start or 0, source.size)
    yield _scanner.first_nonzero(source, end, source.size), _scanner.first_nonzero(source, 0, end)


def main(folder: Path) -> None:
    """Process each file twice, in memory and through a window; the results must be equal."""
    for path in sorted(folder.iterdir()):
        answers = []
        for source in (BufferSource(path.read_bytes()), FileSource(path)):
            try:
                answers.append(repr(list(asked(source))))
            except FormatError as error:
                answers.append(error.message)
            source.close()
        assert answers[0] == answers[1], path.name
    assert "numpy" not in sys.modules


if __name__ == "__main__":
    main(Path(sys.argv[1]))
