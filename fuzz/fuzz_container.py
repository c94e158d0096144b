"""The container: scanner and schema accept the same files with the same content, and refuse the others with the same
error.

Every later request to an open file is answered, or refused with a span inside the file; a buffer, a file, a map and a
stream give the same answers; truncating an open file is detected.
"""

from __future__ import annotations

import atexit
import io
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from harness import SIXTHS, broken, changed, replayed, require_answers, search, sentence

from i2s_spec.errors import FormatError, ReadOnWarning
from i2s_spec.gguf import strings
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource, FileSource, MapSource, Source, StreamSource, chunks, source_of
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.differential import scanner_against_schema

#: Files up to this size are also read from the disk, with every request.
READ_UP_TO = 20_000


def one_input(data: bytes) -> None:
    """Check the properties for any bytes; every exception is a failure."""
    scanner_against_schema(data)
    require_answers(data, "show in.gguf", "dump in.gguf --format json", "identify in.gguf --json", in__gguf=data)
    if len(data) <= READ_UP_TO:
        path = _place()
        path.write_bytes(data)
        wanted = _all_of(BufferSource(data), len(data))
        sources: list[Source] = [FileSource(path), MapSource(path), StreamSource(io.BytesIO(data))]
        for source in sources:
            assert _all_of(source, len(data)) == wanted
            assert source.changed() is None
            source.close()
        _cut_while_open(path, data)
        for fill in (b"\0", b"\xff", data[::-1]):
            _overwritten_while_open(path, data, (fill * len(data))[: len(data)])
        _opened_anyhow(path, data)


@cache
def _place() -> Path:
    folder = tempfile.mkdtemp(prefix="i2s-container-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / "input.gguf"


def _asked(function: Callable[[], Any], size: int) -> Any:
    """The result of a request in a comparable form: the answer or the refusal."""
    try:
        answer = function()
    except (FormatError, TypeError, ValueError) as error:
        outside = isinstance(error, FormatError) and not 0 <= error.span.start <= error.span.stop
        if outside or "range outside" in str(error):
            raise
        sentence(error)
        return type(error).__name__, str(error)
    return answer.tobytes() if hasattr(answer, "tobytes") else repr(answer)


def _all_of(source: Source, size: int) -> list[Any]:
    """The answers to all requests to a file."""
    file = File(source)
    answers: list[Any] = [
        str(file.fault),
        repr(file).removeprefix(f"<File {file.name!r}"),
        list(file.metadata),
        len(file.tensors),
    ]
    for entry in file.metadata.rows:
        answers += [entry.label, entry.key in file.metadata, _asked(partial(file.metadata.decode, entry), size)]
        answers.append(_asked(partial(file.metadata.decode, entry, 2), size))
        if entry.element == ValueType.STRING:
            answers.append(_asked(partial(_looked_at, file, entry), size))
        if entry.element in (ValueType.UINT32, ValueType.INT32) and size < 1 << 16:
            found = strings.first_outside(source, entry.value_span.start, entry.count, file.byte_order == "big", 0, 9)
            values = file.metadata.decode(entry).astype("i4")
            assert found == next((i for i, value in enumerate(values) if not 0 <= value <= 9), -1)
    for name in list(file.tensors)[:8]:
        tensor = file.tensors[name]
        answers += [repr(tensor), tensor.elements]
        asks: tuple[Callable[[Any], Any], ...] = (
            lambda t: t.nbytes, lambda t: t.read(), lambda t: t.payload, lambda t: t.tail, lambda t: t.array(),
            lambda t: t.scale(), lambda t: t.trits(), lambda t: t.dequantize(),
            lambda t: t.trits("interleave-64", unused_code="zero"),
        )  # fmt: skip
        for ask in asks:
            answers.append(_asked(partial(ask, tensor), size))
    return answers


def _looked_at(file: File, entry: Any) -> strings.Strings:
    """An array of strings, read in one pass and with all strings in memory."""
    span = entry.value_span
    held = [text.encode("utf-8", "surrogateescape") for text in file.metadata.decode(entry)]
    texts = [*dict.fromkeys(held[::3]), b"<unk>"][:9]
    for index in range(0, len(held), 7):
        start, stop = strings.span_of(file.source, span.start, span.stop, file.byte_order == "big", index)
        assert file.source.read(start, stop - start) == held[index]
    seen = strings.examine(file.source, span.start, span.stop, entry.count, file.byte_order == "big", texts)
    wanted = strings.examine_definition(held, texts)
    assert seen == wanted, (seen, wanted)
    return seen


def _cut_while_open(path: Path, data: bytes) -> None:
    """Truncated after or inside its header, an open file is never read beyond its end."""
    source = FileSource(path)
    file = File(source)
    with path.open("r+b") as stream:
        stream.truncate(len(data) * 2 // 3)
    for entry in file.metadata.rows:
        _asked(partial(file.metadata.decode, entry), len(data))
        if entry.element == ValueType.STRING:
            _asked(partial(_looked_at, file, entry), len(data))
        span, big = entry.value_span, file.byte_order == "big"
        if entry.element == ValueType.STRING:
            _asked(partial(strings.examine, source, span.start, span.stop, entry.count, big), len(data))
    with suppress(FormatError):  # where the tensors lie may show in their bytes only
        for tensor in list(file.tensors.rows)[:8]:
            _asked(tensor.read, len(data))
    for start, length in ((-1, 2), (0, len(data) + 1), (0, -1)):
        with suppress(FormatError):
            raise AssertionError(source.read(start, length))
    assert source.changed() is not None or not data
    source.close()


def _overwritten_while_open(path: Path, data: bytes, other: bytes) -> None:
    """Overwritten while open, a file gives its new bytes or reports the change."""
    path.write_bytes(data)
    source = FileSource(path)
    file = File(source)
    path.write_bytes(other)
    os.utime(path, ns=(0, 0))
    for entry in file.metadata.rows:
        _asked(partial(file.metadata.decode, entry), len(data))
        if entry.element == ValueType.STRING:
            span, big = entry.value_span, file.byte_order == "big"
            _asked(partial(strings.examine, source, span.start, span.stop, entry.count, big), len(data))
            for at in (0, entry.count // 2, max(entry.count - 1, 0)):
                _asked(partial(strings.span_of, source, span.start, span.stop, big, at), len(data))
    assert source.changed() is not None
    source.close()
    source.close()


class _Other:
    """A source written by a user."""

    def __init__(self, data: bytes) -> None:
        self._held = BufferSource(data)
        self.name, self.size, self.view = "theirs", len(data), None
        self.read, self.readinto, self.changed, self.close = (
            self._held.read, self._held.readinto, self._held.changed, self._held.close
        )  # fmt: skip


class _Stingy(io.BytesIO):
    """A stream that returns a third of the requested bytes, and ends too early."""

    def read(self, size: int | None = -1, /) -> bytes:
        at = self.tell()
        return b"" if at > len(self.getvalue()) // 2 else super().read(max(1, (size or 0) // 3))


def _opened_anyhow(path: Path, data: bytes) -> None:
    """Every way of opening a file gives the same result."""
    path.write_bytes(data)
    wanted = str(File(BufferSource(data)).fault)
    makes: tuple[Callable[[], Any], ...] = (
        lambda: path, lambda: str(path), lambda: data, lambda: bytearray(data), lambda: io.BytesIO(data),
        lambda: _Other(data), lambda: BufferSource(data),
    )  # fmt: skip
    for make in makes:
        for trusted in (False, True):
            source = source_of(make(), trusted)
            assert str(File(source).fault) == wanted
            assert b"".join(chunks(source, 0, source.size, 100)) == data
            source.close()
    for refused in (7, None, path.parent, "/dev/null", path.parent / "nowhere"):
        _asked(partial(source_of, refused), len(data))
    _asked(lambda: str(File(_stingy(data)).fault), len(data))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReadOnWarning)
            open_file(io.BytesIO(data)).close()
    except FormatError as error:
        if str(error) != wanted:
            raise


def _stingy(data: bytes) -> Source:
    return StreamSource(_Stingy(data))


@replayed("container")
def test_corpus(path: Path) -> None:
    one_input(path.read_bytes())


@SIXTHS
def test_malformed_files(sixth: int) -> None:
    for data in broken(100_000)[sixth::6]:
        one_input(data)


@SIXTHS
def test_changed_files(sixth: int) -> None:
    for data in changed(400)[sixth::6]:
        one_input(data)


if __name__ == "__main__":
    search(one_input)
