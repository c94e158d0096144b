"""This module predicts the objections of a runtime's GGUF reader to types, sizes and positions of tensors, by its own
tables."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import Span, counted, quote
from i2s_spec.linter.analysis.lenient_records import SeenTensor
from i2s_spec.linter.runtimes.lenient_header import Header
from i2s_spec.linter.runtimes.reason import Reason
from i2s_spec.linter.runtimes.tried import not_tried, refused_type, says_something
from i2s_spec.schema.limits import INT64_END
from i2s_spec.schema.programs.runtimes import RETIRED_SLOTS, Runtime
from i2s_spec.schema.types import READINGS, TensorType, padded

if TYPE_CHECKING:
    from i2s_spec.linter.analysis.subject import Subject

_UINT64_END: Final = 1 << 64


def placed(subject: Subject, runtime: Runtime, header: Header, alignment: int) -> Iterator[Reason]:
    """The objections of the reader to types, sizes and positions."""
    policy, source = runtime.container, runtime.source
    data_start = padded(header.end, alignment) if alignment > 0 else header.end
    expected, size = 0, subject.file.size
    if policy.in_order and header.tensors and data_start > size:
        yield Reason("the data section begins beyond the end of the file", source, "no", Span(size, size, "data"))
    for tensor in header.tensors:
        if tensor.number not in runtime.types:
            outcome = policy.retired_type if tensor.number in RETIRED_SLOTS else policy.unknown_type
            if outcome != "yes":
                at = _field(tensor, 12, "type")
                refusal = runtime.refusal if tensor.number == 36 and runtime.refusal is not None else None
                stated = refusal.text if refusal is not None else f"it does not know tensor type {tensor.number}"
                run = refused_type(runtime, subject, _name(subject, tensor.number))
                if refusal is not None and not says_something(refusal.source, subject):
                    if run is None:
                        yield not_tried(subject, runtime.kind == "engine")
                        continue
                    refusal = None
                by = refusal.source if refusal is not None else run.citation if run is not None else source
                yield Reason(f"{shown(tensor)} has type {tensor.number}: {stated}", by, outcome, at)
            continue
        kind = _kind(tensor, runtime)
        if kind is None or not (policy.in_order or policy.in_file or policy.mapped):
            continue
        block, nbytes = kind
        row = tensor.ne[0] if tensor.ne else 1
        if row % block and policy.split_block != "yes":
            at = _field(tensor, 12, "type")
            yield Reason(
                f"{shown(tensor)} has rows of {counted(row, 'element')}, and its type has blocks of {block}",
                source,
                policy.split_block,
                at,
            )
        if policy.in_order:
            if tensor.offset != expected:
                text = f"{shown(tensor)} begins at {tensor.offset:,} of the data section; it must begin at {expected:,}"
                yield Reason(text, source, "no", _field(tensor, 8, "offset"))
            expected += padded(nbytes, alignment)
            if expected >= INT64_END:
                yield Reason("the sizes of the tensors overflow", source, "no", _field(tensor, 8, "offset"))
        if policy.in_file and data_start + tensor.offset + nbytes > size:
            yield Reason(
                f"{shown(tensor)} reaches beyond the end of the file", source, "no", _field(tensor, 8, "offset")
            )
        if policy.mapped:
            start = (data_start + tensor.offset) % _UINT64_END
            if nbytes and start + nbytes > size:
                yield Reason(
                    f"{shown(tensor)} reaches beyond the end of the file", source, "no", _field(tensor, 8, "offset")
                )


def _name(subject: Subject, number: int) -> str:
    kind = subject.file.tensors.common_type(number)
    return kind.name if kind is not None else str(number)


def _field(tensor: SeenTensor, before_end: int, name: str) -> Span:
    """The type (12 bytes before the end of a tensor info) or the offset (8)."""
    start = max(tensor.span.start, tensor.span.stop - before_end)
    return Span(start, min(start + (4 if name == "type" else 8), tensor.span.stop), f"{tensor.span.path}.{name}")


def shown(tensor: SeenTensor) -> str:
    """The name of a tensor, as messages show it."""
    return quote(tensor.name, 64)


@lru_cache(maxsize=256)
def _meant(number: int, bitnet: bool) -> TensorType | None:
    """The meaning of a type number in the BitNet forks, or in all other programs."""
    readings = READINGS.get(number)
    if not readings:
        return None
    chosen = next((kind for kind in readings if (kind.family == "BitNet") == bitnet), readings[0])
    return chosen if bitnet or chosen.family == "ggml" else None


def _kind(tensor: SeenTensor, runtime: Runtime) -> tuple[int, int] | None:
    """Elements of a block, and size of a tensor in bytes, by the runtime's own table; None if that is not known."""
    chosen = _meant(tensor.number, 36 in runtime.types)
    if chosen is None:
        return None
    for number, elements, nbytes in runtime.block_bytes:
        if tensor.number == number:
            return elements, prod(tensor.ne) // elements * nbytes
    return chosen.block, chosen.nbytes(tensor.ne)
