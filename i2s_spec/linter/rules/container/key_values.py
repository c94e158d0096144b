"""Rules about the types and values of key-values, and about the alignment."""

from collections.abc import Iterator

from i2s_spec.errors import Span
from i2s_spec.gguf import _scanner
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rule import BYTES_MISSING, NO_DATA_START, PLACE_UNKNOWN, WARNING, Finding, Fix, raised, rule
from i2s_spec.schema import faults
from i2s_spec.schema.types import ValueType

#: Bytes that are read at once to examine values of several keys.
_TOGETHER = 1 << 16

raised(
    faults.VALUE_TYPE_UNKNOWN,
    """A value has a type that does not exist.

    Why: the size of an unknown type is unknown, so nothing after the value can be located. Upstream refuses the file;
    the BitNet fork ends the process.

    Example: value type 99.

    Fix: use one of the types 0 to 12.
    """,
    clause="2.5",
    provenance=("llama.cpp tests/test-gguf.cpp KV_BAD_TYPE",),
    cwe=843,
    stops=PLACE_UNKNOWN,
)

raised(
    faults.ARRAY_TYPE_UNKNOWN,
    """An array has elements of a type that does not exist.

    Why: the size of an unknown type is unknown, so the end of the array cannot be located. Upstream refuses the file;
    the BitNet fork ends the process.

    Example: an array of element type 99.

    Fix: use one of the types 0 to 12.
    """,
    clause="2.5",
    cwe=843,
    stops=PLACE_UNKNOWN,
)

raised(
    faults.ARRAY_PAST_END,
    """An array has more elements than the rest of the file can hold.

    Why: the count is wrong, or the file was truncated. A reader that multiplies count and size can overflow; one that
    allocates or loops before it checks may never return.

    Example: an array of 2^63 bytes in a file of 64.

    Fix: write the number of elements that follow.
    """,
    clause="2.5",
    provenance=("CVE-2024-21825", "ggml-org/llama.cpp#27188"),
    cwe=835,
    stops=BYTES_MISSING,
)

raised(
    faults.ARRAY_TOO_DEEP,
    """Arrays are nested deeper than four levels.

    Why: the GGUF document allows nested arrays. In a few kilobytes, 20,000 levels overflow the stack of a recursive
    reader. No loader accepts even two levels.

    Example: an array of arrays, five levels deep.

    Fix: write flat arrays.
    """,
    clause="2.5",
    provenance=("huggingface/huggingface.js#2026",),
    cwe=674,
)

raised(
    faults.ALIGNMENT_TYPE,
    """general.alignment is not a u32.

    Why: loaders expect a u32 and refuse any other type; some end the process with an assertion.

    Example: general.alignment as an i32.

    Fix: write the value as a u32.
    """,
    clause="2.7",
    provenance=("ggml c2cdd2b2", "ggml-org/llama.cpp#26318", "llama.cpp tests/test-gguf.cpp KV_WRONG_TYPE_ALIGN"),
    cwe=617,
    fix=Fix.SAFE,
    stops=NO_DATA_START,
)

raised(
    faults.ALIGNMENT_ZERO,
    """general.alignment is 0.

    Why: readers divide by the alignment to find the data section. The BitNet fork and others crash at this division.

    Example: general.alignment = 0.

    Fix: write the alignment that the offsets were computed with, or remove the key if that is 32.
    """,
    clause="2.7",
    provenance=("CVE-2025-0317", "antirez/gguf-tools#28"),
    cwe=369,
    fix=Fix.UNSAFE,
    stops=NO_DATA_START,
)

raised(
    faults.ALIGNMENT_NOT_POWER_OF_TWO,
    """general.alignment is not a power of two.

    Why: the GGUF document requires only a multiple of 8, but loaders round with bit masks. Upstream refuses the file;
    the BitNet fork computes wrong positions.

    Example: general.alignment = 24.

    Fix: lay the tensors out again with an alignment of 32.
    """,
    clause="2.7",
    provenance=("llama.cpp tests/test-gguf.cpp KV_BAD_ALIGN", "ggml-org/llama.cpp#24997"),
    fix=Fix.UNSAFE,
)


@rule("G211", "nested-array", "the value of key {key} is an array of arrays, which no loader accepts", clause="2.5",
      cwe=674)  # fmt: skip
def nested_array(subject: Subject) -> Iterator[Finding]:
    """A value is an array of arrays.

    Why: the GGUF document allows it, but no loader accepts it: upstream reports an invalid type, and the BitNet fork
    and ik_llama.cpp end the process.

    Example: a key of type array with element type 9.

    Fix: write a flat array and its shape.
    """
    for i in subject.file.index.keys_of(ValueType.ARRAY):
        entry = subject.file.index.key(i)
        if entry.element == ValueType.ARRAY:
            yield nested_array.at(entry.element_span, got=entry.element, key=entry.name)


@rule("G215", "odd-bool", "a boolean of key {key} is {got}; only 0 and 1 are defined", severity=WARNING, clause="2.5",
      fix=Fix.SAFE)  # fmt: skip
def odd_bool(subject: Subject) -> Iterator[Finding]:
    """A boolean is neither 0 nor 1.

    Why: loaders in C take any other byte as true. Readers in languages with a strict boolean type may behave otherwise.

    Example: tokenizer.ggml.add_bos_token = 2.

    Fix: write 1.
    """
    source, index = subject.file.source, subject.file.index
    window, base, end = b"", 0, index.infos_end or source.size
    for i in index.keys_of(ValueType.BOOL):
        entry = index.key(i)
        start, stop = entry.value_start, entry.value_start + entry.count
        if entry.count > _TOGETHER:
            at = _scanner.first_odd_bool(source, start, entry.count)
        else:  # many keys may have one each: one read for each would dominate the time
            if not base <= start <= stop <= base + len(window):
                base, window = start, source.read(start, max(stop, min(start + _TOGETHER, end)) - start)
            rest = window[start - base : stop - base].lstrip(b"\0\1")
            at = stop - len(rest) if rest else -1
        if at >= 0:
            got = source.read(at, 1)[0]
            yield odd_bool.at(Span(at, at + 1, f"key_values[{i}].value"), got=got, want=1, key=entry.name)


@rule("G220", "alignment-not-multiple-of-eight", "general.alignment is {got}; it must be a multiple of 8", clause="2.7",
      fix=Fix.UNSAFE)  # fmt: skip
def alignment_not_multiple_of_eight(subject: Subject) -> Iterator[Finding]:
    """general.alignment is 1, 2 or 4.

    Why: the GGUF document requires a multiple of 8. Loaders accept any power of two, but readers that access 64-bit
    numbers in place fail.

    Example: general.alignment = 4.

    Fix: lay the tensors out again with an alignment of 32.
    """
    i = subject.file.index.alignment_key
    alignment = subject.file.alignment
    if i is not None and alignment is not None and alignment % 8:
        yield alignment_not_multiple_of_eight.at(subject.file.index.key(i).value_span, got=alignment, want=8)


@rule("G222", "alignment-not-honoured",
      "general.alignment is {got}, but the offsets of the tensors were computed with an alignment of {want}", clause="2.7",
      fix=Fix.UNSAFE, ambiguous=True)  # fmt: skip
def alignment_not_honoured(subject: Subject) -> Iterator[Finding]:
    """general.alignment differs from the alignment that the offsets were computed with.

    Why: llama-quantize copies the key from its input but still pads to 32 bytes. Readers then compute another start of
    the data section than the writer.

    Example: a file with general.alignment = 64 that was quantized to I2_S.

    Fix: remove the key if the data section begins at a multiple of 32.
    """
    if subject.ignores_alignment and (subject.file.alignment or 0) % 8 == 0:  # otherwise another rule reports the value
        i = subject.file.index.alignment_key
        assert i is not None
        span = subject.file.index.key(i).value_span
        yield alignment_not_honoured.at(span, got=subject.file.alignment, want=subject.effective_alignment)
