from collections.abc import Collection, Iterable
from typing import Any

from i2s_spec.errors import FormatError, Span
from i2s_spec.schema.faults import ByteOrder

class KeyValue:
    index: int
    name: bytes
    key: str
    type: int
    element: int
    count: int
    label: str
    start: int
    stop: int
    value_start: int
    span: Span
    key_span: Span
    type_span: Span
    element_span: Span
    value_span: Span

class TensorInfo:
    index: int
    name: bytes
    ne: tuple[int, ...]
    type: int
    offset: int
    start: int
    stop: int
    span: Span
    name_span: Span
    n_dims_span: Span
    ne_span: Span
    type_span: Span
    offset_span: Span
    def dimension_span(self, which: int) -> Span: ...

class Index:
    keys: int
    tensors: int
    fault: FormatError | None
    passed: list[FormatError]
    byte_order: ByteOrder | None
    version: int | None
    tensor_count: int | None
    key_count: int | None
    infos_end: int | None
    alignment: int | None
    data_start: int | None
    alignment_key: int | None
    def key(self, i: int) -> KeyValue: ...
    def tensor(self, i: int) -> TensorInfo: ...
    def keys_of(self, type: int) -> list[int]: ...
    def keys_named(self, wanted: Collection[bytes]) -> list[int]: ...
    def odd_keys(self) -> list[int]: ...
    def odd_tensors(self) -> list[int]: ...
    def all_differ(self, tensors: bool) -> bool: ...

def scan(source: Any) -> Index: ...
def strings(data: bytes | memoryview, count: int, big: bool) -> list[str]: ...
def invalid_utf8(source: Any, spans: Iterable[tuple[int, int]]) -> list[int]: ...
def invalid_utf8_in_array(
    source: Any, start: int, stop: int, count: int, big: bool
) -> tuple[int, tuple[int, int, int] | None]: ...
def first_odd_bool(source: Any, start: int, count: int) -> int: ...
def first_nonzero(source: Any, start: int, stop: int) -> int: ...
