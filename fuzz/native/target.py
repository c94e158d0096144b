"""The requests of `scanner.c` to the scanner: to index the bytes, and then to return every record."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from i2s_spec.errors import FormatError
from i2s_spec.gguf import _scanner, strings
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource, Source
from i2s_spec.schema.types import ValueType

#: Number of records requested from the first one on, and again at the end.
MOST = 64


def one_input(data: bytes) -> None:
    """Raises if an answer contradicts the bytes."""
    check(BufferSource(data), data)


def check(source: Source, data: bytes) -> None:
    """The same for any source of these bytes."""
    notes = _scanner.scan(source)
    assert notes.fault is None or 0 <= notes.fault.span.start <= notes.fault.span.stop, notes.fault
    last = 0
    for i in _some(notes.keys):
        key = notes.key(i)
        assert last <= key.start < key.stop <= len(data)
        assert data[key.key_span.start : key.key_span.stop].endswith(key.name)
        last = key.stop
    for i in _some(notes.tensors):
        tensor = notes.tensor(i)
        assert last <= tensor.start < tensor.stop <= len(data)
        assert data[tensor.name_span.start : tensor.name_span.stop].endswith(tensor.name)
        last = tensor.stop
    for kind in ValueType:
        assert all(kind in (key.type, key.element) for key in map(notes.key, notes.keys_of(kind)))
    assert set(notes.odd_keys()) <= set(range(notes.keys))
    assert set(notes.odd_tensors()) <= set(range(notes.tensors))
    named = {notes.key(i).name for i in _some(notes.keys)}
    assert len(notes.keys_named(named)) >= len(named)
    assert notes.all_differ(True) or notes.tensors > 1
    assert notes.all_differ(False) or notes.keys > 1
    file, big = File(source), notes.byte_order == "big"
    for i in _some(notes.keys):
        entry = file.metadata.by_index(i)
        _asked(lambda: file.metadata.decode(entry, 100))  # noqa: B023 - called at once
        if entry.type != ValueType.ARRAY:
            continue
        start, stop = entry.value_span.start, entry.value_span.stop
        if entry.element == ValueType.STRING:
            for count in {entry.count, entry.count + 1, max(0, entry.count - 1)}:
                _asked(lambda: _scanner.strings(data[start:stop], count, big))  # noqa: B023
                _asked(lambda: _scanner.invalid_utf8_in_array(source, start, stop, count, big))  # noqa: B023
                _asked(lambda: strings.examine(source, start, stop, count, big, (b"a", b"")))  # noqa: B023
        if entry.element == ValueType.BOOL:
            _scanner.first_odd_bool(source, start, stop - start)
    names = [notes.tensor(i).name for i in _some(notes.tensors)]
    places = [
        (notes.tensor(i).name_span.stop - len(name), len(name))
        for i, name in zip(_some(notes.tensors), names, strict=True)
    ]
    assert _scanner.invalid_utf8(source, places) == [i for i, name in enumerate(names) if not _is_utf8(name)]
    _scanner.first_nonzero(source, min(1, len(data)), len(data))


def _some(count: int) -> list[int]:
    return [*range(min(count, MOST)), *range(max(MOST, count - MOST), count)]


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _asked(question: Callable[[], object]) -> None:
    """Make a request that may be refused."""
    with contextlib.suppress(FormatError, ValueError):
        question()
