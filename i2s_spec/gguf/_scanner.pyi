from collections.abc import Iterable
from typing import Any

from i2s_spec.errors import FormatError
from i2s_spec.schema.checks import ByteOrder

class Index:
    keys: int
    tensors: int
    fault: FormatError | None
    byte_order: ByteOrder | None
    version: int | None
    tensor_count: int | None
    key_count: int | None
    infos_end: int | None
    alignment: int | None
    data_start: int | None
    alignment_key: int | None
    def key(self, i: int) -> tuple[int, bytes, int, int, int, int, int]: ...
    def tensor(self, i: int) -> tuple[int, bytes, tuple[int, ...], int, int, int]: ...

def scan(source: Any) -> Index: ...
def strings(data: bytes | memoryview, count: int, big: bool) -> list[str]: ...
def invalid_utf8(source: Any, spans: Iterable[tuple[int, int]]) -> list[int]: ...
def invalid_utf8_in_array(
    source: Any, start: int, stop: int, count: int, big: bool
) -> tuple[int, tuple[int, int, int] | None]: ...
def first_odd_bool(source: Any, start: int, count: int) -> int: ...
def first_nonzero(source: Any, start: int, stop: int) -> int: ...
