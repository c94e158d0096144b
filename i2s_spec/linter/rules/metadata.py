"""Rules about metadata keys of the architectures that the schema declares."""

from collections.abc import Iterator

from i2s_spec.errors import Span, Words
from i2s_spec.linter.rule import Finding, Fix, rule
from i2s_spec.linter.subject import Subject
from i2s_spec.schema.architecture import ARCHITECTURES
from i2s_spec.schema.hyperparameters import KEY_TYPE
from i2s_spec.schema.types import ValueType


@rule(KEY_TYPE, clause="3.1", sources="M06 M07 M25 K05 K06 K11 K15", fix=Fix.UNSAFE, cwe=843,
      provenance=("ggml-org/llama.cpp#26690",))  # fmt: skip
def key_type(subject: Subject) -> Iterator[Finding]:
    """A key has another type than loaders ask for.

    Why: loaders compare types strictly: most keys of a wrong type end in a refusal, general.file_type ends the process
    of the BitNet fork, and arrays of the tokenizer are read through a pointer whatever they hold.

    Example: llama.vocab_size as an i32, or tokenizer.ggml.tokens as one string.

    Fix: write the key with the type of the specification; the value may need to be converted.
    """
    architecture = ARCHITECTURES.get(subject.architecture)
    if architecture is None:
        return
    wanted = {key.name.encode(): key.types for key in architecture.keys.values() if key.name != "general.alignment"}
    for i, name in subject.key_names():
        allowed = wanted.get(name)
        if allowed is None:
            continue
        start, _, kind, element, *_ = subject.file.index.key(i)
        label = ValueType(kind).label + (f"[{ValueType(element).label}]" if kind == ValueType.ARRAY else "")
        if label not in allowed:
            at = start + 8 + len(name)
            span = Span(at, at + 4, f"key_values[{i}].type")
            yield key_type.at(span, got=Words(f"a value of type {label}"), want=Words(" or ".join(allowed)), key=name)
