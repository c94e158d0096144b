"""Rules about unusual sizes and counts: legal, but bounded here and worth a finding."""

from collections.abc import Iterator

from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rule import WARNING, Finding, Fix, raised, rule
from i2s_spec.schema import faults, limits
from i2s_spec.schema.checks import KEY_COUNT_SPAN, TENSOR_COUNT_SPAN

raised(
    faults.TOO_MANY_KEYS,
    """The file has more key-values than any reader should accept.

    Why: the key-values exist, but no model needs so many, and readers that take quadratic time never finish. i2s stops
    at 1,048,576.

    Example: 2,000,000 keys in a file of 30 MB.

    Fix: put lists into arrays.
    """,
    clause="12.2",
    cwe=770,
)

raised(
    faults.TOO_MANY_TENSORS,
    """The file has more tensors than any reader should accept.

    Why: the tensors exist, but no model needs so many, and readers that take quadratic time never finish. i2s stops at
    1,048,576.

    Example: 2,000,000 tensors of one element each.

    Fix: join tensors.
    """,
    clause="12.2",
    cwe=770,
)

raised(
    faults.ALIGNMENT_TOO_LARGE,
    """general.alignment is larger than 1 MiB.

    Why: the padding grows with the alignment, sums of padded sizes can overflow, and the data section of a tiny file
    begins gigabytes after its header.

    Example: general.alignment = 2^31.

    Fix: lay the tensors out again with an alignment of 32.
    """,
    clause="12.2",
    provenance=("ggml-org/llama.cpp#24759",),
    cwe=190,
)


@rule("S103", "many-keys", "the file has {got:key-value}; more than {want} is unusual", severity=WARNING, clause="12.2",
      cwe=407)  # fmt: skip
def many_keys(subject: Subject) -> Iterator[Finding]:
    """The file has an unusual number of key-values.

    Why: readers that compare keys pair by pair to find duplicates take minutes or hours: for 200,000 keys in 4 MB,
    common readers need more than a minute.

    Example: 200,000 keys.

    Fix: put lists into arrays.
    """
    count = subject.file.index.key_count or 0
    if limits.MANY_KEYS < count <= limits.MAX_KEYS:
        yield many_keys.at(KEY_COUNT_SPAN, got=count, want=limits.MANY_KEYS)


@rule("S104", "many-tensors", "the file has {got:tensor}; more than {want} is unusual", severity=WARNING, clause="12.2",
      cwe=407)  # fmt: skip
def many_tensors(subject: Subject) -> Iterator[Finding]:
    """The file has an unusual number of tensors.

    Why: readers that compare names pair by pair to find duplicates take minutes or hours: for 100,000 tensors in 4 MB,
    common readers need more than a minute.

    Example: 100,000 tensors of one element.

    Fix: join tensors.
    """
    count = subject.file.index.tensor_count or 0
    if limits.MANY_TENSORS < count <= limits.MAX_TENSORS:
        yield many_tensors.at(TENSOR_COUNT_SPAN, got=count, want=limits.MANY_TENSORS)


@rule("S105", "large-alignment", "general.alignment is {got}; more than {want} is unusual", severity=WARNING,
      clause="12.2", fix=Fix.UNSAFE)  # fmt: skip
def large_alignment(subject: Subject) -> Iterator[Finding]:
    """general.alignment is unusually large.

    Why: 32 is enough for every processor, and memory pages have 4 KiB to 64 KiB. A larger alignment only adds padding,
    in which data can be hidden.

    Example: general.alignment = 262,144.

    Fix: lay the tensors out again with an alignment of 32.
    """
    i, alignment = subject.file.index.alignment_key, subject.file.alignment
    if i is not None and alignment is not None and alignment > limits.USUAL_ALIGNMENT:
        span = subject.file.index.key(i).value_span
        yield large_alignment.at(span, got=alignment, want=limits.USUAL_ALIGNMENT)
