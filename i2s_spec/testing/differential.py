"""Compare fast paths with their slow twins, for tests, fuzzing, and development.

`scanner_against_schema` reads bytes in both ways; `Vanishing` is a source that changes while it is read.
"""

from __future__ import annotations

import io
import math
from typing import Any

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.gguf.header import HeaderIndex
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource, StreamSource
from i2s_spec.schema import container, faults
from i2s_spec.schema.types import ValueType


def scanner_against_schema(data: bytes) -> str | None:
    """Check that the scanner accepts what the schema accepts, with the same content, and refuses everything else with
    the same fault.

    :returns: the code of the fault, or None if both accept
    :raises AssertionError: if the twins differ
    """
    try:
        parsed, fault = container.parse(data), None
    except FormatError as error:
        parsed, fault = None, error
    for source in (BufferSource(data), StreamSource(io.BytesIO(data))):
        file = File(source)
        # The schema stops at the first fault. `file.fault` may name the cause instead, which needs the whole file.
        found = file.passed[0] if file.passed else file.index.fault
        if fault is not None:
            assert found is not None
            assert found.fault == fault.fault
            assert found.span[:2] == fault.span[:2]
            assert (found.got, found.want) == (fault.got, fault.want)
            assert found.message == fault.message
        else:
            assert found is None, found
            _same_content(file, parsed)
    return fault.code if fault is not None else None


def _same_content(file: File, parsed: Any) -> None:
    assert file.byte_order == parsed.byte_order
    assert file.version == parsed.header.version
    assert file.alignment is not None
    stated = HeaderIndex(file.source).data_start  # before the contents are asked
    assert stated is not None
    for entry, pair in zip(file.metadata.rows, parsed.key_values, strict=True):
        assert (entry.name, entry.type) == (pair.key, pair.type)
        assert _plain(file.metadata.decode(entry)) == _plain(_schema_value(pair.type, pair.value))
    for tensor, info in zip(file.tensors.rows, parsed.tensor_infos, strict=True):
        assert tensor.raw_name == info.name
        assert (list(tensor.ne), tensor.number, tensor.offset) == (info.ne, info.type, info.offset)
    assert min(stated, file.size) == file.size - len(parsed.data)


def _schema_value(kind: int, value: Any) -> Any:
    if kind == ValueType.ARRAY:
        return [_schema_value(value.type, item) for item in value["items"]]
    if kind == ValueType.STRING:
        return value.decode("utf-8", "surrogateescape")
    return bool(value) if kind == ValueType.BOOL else value


def _plain(value: Any) -> Any:
    """Return a value in a comparable form: arrays as lists, NaN as a word."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return "nan" if isinstance(value, float) and math.isnan(value) else value


# --- a source that changes -------------------------------------------------------------------------------------------
# As when a download is restarted.


class Vanishing(BufferSource):
    """A source that can be read a limited number of times; then each read raises S903, as for a changed file.

    :param reads: how often it can be read

    ``told`` is whether ``changed()`` has said so.
    """

    def __init__(self, data: bytes, reads: int) -> None:
        super().__init__(data)
        self.reads = reads
        self.reported = False

    @property
    def view(self) -> None:
        """None: everything is to be read."""
        return None

    def read(self, start: int, length: int) -> bytes:
        self._count()
        return super().read(start, length)

    def readinto(self, start: int, buffer: memoryview) -> None:
        self._count()
        super().readinto(start, buffer)

    def changed(self) -> str | None:
        """Return the check that the linter makes at its end."""
        self.reported = self.reads < 0
        return "it has gone" if self.reported else None

    def _count(self) -> None:
        self.reads -= 1
        if self.reads < 0:
            raise FormatError(faults.CHANGED, Span(0, self.size), reason=TrustedText("it has gone"))
