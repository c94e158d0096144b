"""Rules about type numbers whose meaning a program changed."""

from collections.abc import Iterator
from typing import Final

from i2s_spec.errors import TrustedText, quote
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rule import Finding, rule
from i2s_spec.schema.types import BY_NAME, READINGS, padded

_OLD: Final = BY_NAME["Q2_0_G128"]


def with_type_42(subject: Subject) -> bool:
    """files with tensors of type 42"""
    return _OLD.number in subject.type_numbers


@rule("G321", "groups-of-128", "tensors of type 42 ({count}) have groups of 128 weights, {want:byte}, as PrismML wrote "
      "them before August 2026: programs for groups of 64 {stop}; i2s convert --to Q2_0 makes a file that they read",
      clause="2.6",
      when=with_type_42, command="i2s convert {path} OUT.gguf --to Q2_0",
      provenance=("PrismML-Eng/llama.cpp#167", "ggml-org/llama.cpp#25833", "ggml-org/llama.cpp#29058"))  # fmt: skip
def groups_of_128(subject: Subject) -> Iterator[Finding]:
    """Tensors of type 42 are packed in groups of 128 weights.

    Why: PrismML used the number 42 for its Q2_0 before llama.cpp did, with one scale for 128 weights. llama.cpp has
    used one scale for 64 weights since July 2026, and PrismML's own fork since August. Current programs compute larger
    sizes for these tensors and refuse the file with a message about the offset of a tensor. Only PrismML's branch
    prism-v5 loads it.

    Example: Ternary-Bonsai-27B-Q2_0.gguf, whose output_norm.weight has offset 337715200 where 357580800 is expected.

    Fix: `i2s convert FILE OUT --to Q2_0` writes each scale twice, which is exact. `--to PQ2_0` keeps the bytes under
    the number 142, for PrismML's fork.
    """
    rows = [tensor for tensor in subject.odd_tensors if tensor.type is _OLD]
    if not rows:
        return
    index = subject.file.index
    count = sum(index.tensor(i).type == _OLD.number for i in range(index.tensors))
    yield groups_of_128.at(
        subject.info_span(rows[0].index, "type"), got=_OLD.number, want=_OLD.bytes, count=count, stop=_stop(subject)
    )


def _stop(subject: Subject) -> TrustedText:
    """The error of a loader that assumes groups of 64, at the first tensor whose offset then differs."""
    index, step = subject.file.index, subject.effective_alignment
    expected = 0
    for i in range(index.tensors):
        info = index.tensor(i)
        ne, offset = info.ne, info.offset
        kind = next((kind for kind in READINGS.get(info.type, ()) if kind.family == "ggml"), None)
        if offset != expected:
            return TrustedText(f"stop at tensor {quote(info.name, 64)}, which has offset {offset}, expected {expected}")
        if kind is None or not ne or ne[0] % kind.block:
            break
        expected += padded(kind.nbytes(ne), step)
    return TrustedText("read past their end")
