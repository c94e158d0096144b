"""This module defines a file under repair: findings by rule, records by number, and edits that change one of them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

from i2s_spec.convert.container.edits import Edit
from i2s_spec.errors import Span, quote
from i2s_spec.gguf.encoding.encode_value import Kind, completed, encoded
from i2s_spec.gguf.header_index import TensorInfo
from i2s_spec.gguf.reader import File, KeyValue, Tensor
from i2s_spec.gguf.source import Source
from i2s_spec.inspect.survey.reading import Reading
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.repair.tensor_bytes import TensorBytes
from i2s_spec.linter.rule import REGISTRY, Finding, finding_of
from i2s_spec.schema.checks import order_prefix
from i2s_spec.schema.dialect import Dialect
from i2s_spec.schema.types import ValueType

#: Most findings of one rule that are repaired; if there are more, none of them is. No model has as many tensors or
#: keys, and a small file could ask for a plan of a million repairs.
MOST_REPAIRED: Final = 10_000

_INDEX: Final = re.compile(r"(?:key_values|tensor_infos|padding|gap|data)\[(\d+)\]")


class ExtraRepairs(NamedTuple):
    """What a caller wants beyond the repairs of findings."""

    #: Stale bytes after the scales are overwritten with zeros.
    scrub_tail: bool = False
    #: The dialect of the I2_S tensors; they are converted to the canonical one.
    dialect: Dialect | None = None


NO_EXTRA_REPAIRS: Final = ExtraRepairs()


class TooManyFindings(Exception):
    """A rule has more than `MOST_REPAIRED` findings; `at` is the first."""

    def __init__(self, code: str, at: Span) -> None:
        super().__init__(
            f"{code} has more than {MOST_REPAIRED:,} findings: the whole file is wrong, not single records"
        )
        self.at = at


class Workspace:
    """A file under repair. Each pass has its own workspace, so all edits of a pass refer to the same bytes.

    :param path: of the original, which rules about split files ask for
    """

    def __init__(self, source: Source, path: str | None = None, extra: ExtraRepairs = NO_EXTRA_REPAIRS) -> None:
        self.source = source
        self.file = File(source)
        # Stale tails are recognized by the payloads of other tensors.
        self.subject = Subject(self.file, path, Reading("full" if extra.scrub_tail else "none"))
        self.extra = extra
        self.prefix = order_prefix(self.file.byte_order)

    def findings(self, code: str) -> Iterator[Finding]:
        """The findings of a rule.

        :raises TooManyFindings: after the first `MOST_REPAIRED` of them, if there are more
        """
        rule = REGISTRY[code]
        if rule.check is not None:
            first: Finding | None = None
            for count, finding in enumerate(rule.findings(self.subject)):
                first = first or finding
                if count == MOST_REPAIRED:
                    raise TooManyFindings(code, first.span)
                yield finding
        elif self.file.fault is not None and self.file.fault.code == code:
            yield finding_of(self.file.fault)

    @property
    def whole(self) -> bool:
        """Whether all records of the header are known, so that records may be added or removed."""
        index = self.file.index
        all_read = index.infos_end is not None and index.tensors == index.tensor_count
        return all_read and self.subject.uncounted is None

    @cached_property
    def tensor_bytes(self) -> TensorBytes:
        """Which bytes tensors may hold."""
        return TensorBytes(self.file)

    # Key-values.

    def entry(self, finding: Finding) -> KeyValue:
        """The key-value that a finding is about."""
        return self.file.metadata.by_index(number_of(finding.span))

    def without_key(self, entry: KeyValue) -> Edit:
        """The removal of a key-value."""
        return Edit(entry.span, b"", keys=-1)

    def with_value(self, entry: KeyValue, value: Any, kind: Kind) -> Edit:
        """A new value for a key, with its type.

        :raises ValueError, TypeError: for a value that the type cannot hold
        """
        typed, start = self._typed(value, kind), entry.span.start + 8 + len(entry.name)
        if entry.type not in (ValueType.STRING, ValueType.ARRAY) and typed[:4] == self.u32(entry.type):
            return Edit(entry.value_span, typed[4:])
        return Edit(Span(start, entry.span.stop, entry.span.path), typed)

    def with_key(self, entry: KeyValue, key: str) -> Edit:
        """A new name for a key."""
        name = key.encode("utf-8", "surrogateescape")
        span = Span(entry.span.start, entry.span.start + 8 + len(entry.name), f"{entry.span.path}.key")
        return Edit(span, struct.pack(self.prefix + "Q", len(name)) + name)

    def new_key(self, key: str, value: Any, kind: Kind) -> Edit:
        """A key-value after the last one."""
        name = key.encode("ascii")
        index = self.file.index
        at = index.key(index.keys - 1).stop if index.keys else 24
        record = struct.pack(self.prefix + "Q", len(name)) + name + self._typed(value, kind)
        return Edit(Span(at, at, f"key_values[+].{key}"), record, keys=1)

    def _typed(self, value: Any, kind: Kind) -> bytes:
        kinds = completed(kind, None, value)
        return struct.pack(self.prefix + "I", kinds[0]) + encoded(value, kinds, self.prefix)

    def u32(self, value: int) -> bytes:
        return struct.pack(self.prefix + "I", value)

    # Tensor infos.

    @cached_property
    def tensor_names(self) -> frozenset[bytes]:
        """The names of all tensor infos that could be read; they stay the same during a pass."""
        return frozenset(name for _, name in self.subject.tensor_names())

    def info(self, finding: Finding) -> TensorInfo:
        """The tensor info that a finding is about."""
        return self.file.index.tensor(number_of(finding.span))

    def tensor(self, finding: Finding) -> Tensor:
        """The tensor that a finding is about."""
        return self.file.tensors.by_index(number_of(finding.span))

    def with_name(self, tensor: Tensor, name: bytes) -> Edit:
        """A new name for a tensor."""
        start = tensor.info_span.start
        span = Span(start, start + 8 + len(tensor.raw_name), f"{tensor.info_span.path}.name")
        return Edit(span, struct.pack(self.prefix + "Q", len(name)) + name)

    def without_tensor(self, info: TensorInfo) -> Edit:
        """The removal of a tensor from the table; its bytes then belong to no tensor."""
        return Edit(info.span, b"", tensors=-1)

    def with_offset(self, row: int, offset: int) -> Edit:
        """A new offset for a tensor."""
        return Edit(self.subject.info_span(row, "offset"), struct.pack(self.prefix + "Q", offset))


def number_of(span: Span) -> int:
    """The number of the record that contains a span."""
    match = _INDEX.match(span.path)
    if match is None:
        raise ValueError(f"{quote(span.path)} is in no numbered record")
    return int(match[1])
