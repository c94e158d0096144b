"""Rules about the header: version, byte order and counts."""

from collections.abc import Iterator

from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rule import BYTES_MISSING, NOTE, Finding, Stops, raised, rule
from i2s_spec.schema import faults
from i2s_spec.schema.checks import VERSION_SPAN

raised(
    faults.HEADER_TRUNCATED,
    """The file ends inside the header.

    Why: magic, version and two counts take 24 bytes. A parser that reads the counts without looking at the size reads
    beyond its buffer.

    Example: a file of the four bytes 'GGUF'.

    Fix: fetch or write the file again.
    """,
    clause="2.2",
    provenance=("CVE-2024-39720", "llama.cpp tests/test-gguf.cpp HEADER_EMPTY"),
    cwe=125,
    stops=Stops("header", "the header is not whole"),
)

raised(
    faults.VERSION_ZERO,
    """The version is 0.

    Why: no such version exists. Upstream refuses it; the BitNet fork reads on and misparses the file.

    Example: a version field of four zero bytes.

    Fix: write version 3.
    """,
    clause="2.3",
    provenance=("llama.cpp tests/test-gguf.cpp HEADER_BAD_VERSION_0",),
)

raised(
    faults.VERSION_ONE,
    """The version is 1.

    Why: version 1 had 32-bit counts and lengths; every loader refuses it by name.

    Example: a file converted in August 2023.

    Fix: convert the original checkpoint again.
    """,
    clause="2.3",
    provenance=("llama.cpp tests/test-gguf.cpp HEADER_BAD_VERSION_1",),
)

raised(
    faults.VERSION_UNKNOWN,
    """The version is newer than any known version.

    Why: the rest of the file may have another layout. Upstream refuses the file; the BitNet fork does not check the
    version and may misparse it.

    Example: version 4.

    Fix: if the rest of the file has the form of version 3, write 3.
    """,
    clause="2.3",
    provenance=("llama.cpp tests/test-gguf.cpp HEADER_BAD_VERSION_FUTURE",),
)

raised(
    faults.BYTE_ORDER_UNCLEAR,
    """The version is valid in neither byte order.

    Why: a file does not state its byte order; readers infer it from the version, whose low 16 bits are zero in the
    wrong order. Here they are zero, but the byte-swapped number is not a known version either.

    Example: a version field of 00 00 00 09.

    Fix: write version 3 in the byte order of the rest of the file.
    """,
    clause="2.3",
)

raised(
    faults.KEY_COUNT,
    """The header counts more key-values than the file can hold.

    Why: the smallest key-value takes 13 bytes. A reader that trusts the count can be made to allocate any amount of
    memory, or its multiplication overflows 64 bits.

    Example: a key count of 2^64 - 1 in a file of 64 bytes.

    Fix: write the number of key-values that follow.
    """,
    clause="2.2",
    provenance=("CVE-2024-23605", "llama.cpp tests/test-gguf.cpp HEADER_BAD_N_KV"),
    cwe=770,
    stops=BYTES_MISSING,
)

raised(
    faults.TENSOR_COUNT,
    """The header counts more tensors than the file can hold.

    Why: the smallest tensor info takes 24 bytes. A reader that trusts the count can be made to allocate any amount of
    memory, or its multiplication overflows 64 bits.

    Example: a tensor count of 2^32 - 1 in a file of 64 bytes.

    Fix: write the number of tensor infos that follow.
    """,
    clause="2.2",
    provenance=("CVE-2024-21836", "llama.cpp tests/test-gguf.cpp HEADER_BAD_N_TENSORS", "ggml-org/llama.cpp#15711"),
    cwe=770,
    stops=BYTES_MISSING,
)


@rule("G106", "big-endian", "the file is big-endian; few loaders read it", severity=NOTE, clause="2.3")
def big_endian(subject: Subject) -> Iterator[Finding]:
    """The file is big-endian.

    Why: version 3 allows it, and only the version field shows it. Loaders on little-endian machines refuse such a file.
    The float32 scale of every I2_S tensor must be big-endian too.

    Example: a version field of 00 00 00 03.

    Fix: convert the file to little-endian if it is meant for common machines.
    """
    if subject.file.version is not None and subject.file.byte_order == "big":
        yield big_endian.at(VERSION_SPAN, got="big", want="little")


@rule("G107", "version-two", "the file has version {got}", severity=NOTE, clause="2.3")
def version_two(subject: Subject) -> Iterator[Finding]:
    """The file has version 2.

    Why: it has the same layout as version 3, and every loader accepts it. Only big-endian files need version 3.

    Example: a file written before October 2023.

    Fix: nothing has to be done.
    """
    if subject.file.version == 2:
        yield version_two.at(VERSION_SPAN, got=2, want=3)
