"""The faults that stop a reader, each with its name and its message, and the container's rules about numbers.

The schema and the scanner raise these faults, and the linter's rules with the same codes are based on them. Faults that
leave a file readable are declared by the linter's rules instead.

`byte_order`, `counts`, `alignment` and `data_start` are the rules that the schema and the scanner share.
"""

from __future__ import annotations

from typing import Final, Literal

from i2s_spec.errors import EXIT_INPUT, EXIT_REMOTE, Fault, FormatError, Span, TrustedText
from i2s_spec.schema import limits
from i2s_spec.schema.types import ValueType, padded

# The file is something else than a GGUF file.
EMPTY_FILE: Final = Fault("G001", "empty-file", "the file is empty")
NOT_GGUF: Final = Fault("G002", "not-gguf", "this is not a GGUF file: it starts with {got}, not with {want}")
LFS_POINTER: Final = Fault(
    "G003",
    "lfs-pointer",
    "this is a Git LFS pointer, not the model: the real file ({size} bytes according to the pointer) was never downloaded",
)
HTML_PAGE: Final = Fault(
    "G004", "html-page", "this is an HTML page under a model's name: the download returned a web page"
)
ARCHIVE: Final = Fault("G005", "archive", "this is {kind}, not a GGUF file: unpack it first")
LEGACY_GGML: Final = Fault(
    "G006",
    "legacy-ggml",
    "this is a {kind} file from before GGUF: no loader of GGUF reads its format: reconvert the model",
)
SWAPPED_MAGIC: Final = Fault(
    "G007", "swapped-magic", "the magic is byte-swapped ({got}): the magic is 'GGUF' in either byte order"
)
OTHER_FORMAT: Final = Fault("G008", "other-format", "this is {kind}, not a GGUF file")
TEXT_DECODED: Final = Fault("G009", "text-decoded", "this file was read and written as text: {kind}")
UTF_16: Final = Fault(
    "G010", "utf-16", "this file was written as UTF-16 text ({kind}): each byte became two, and some may be lost"
)

# Header.
HEADER_TRUNCATED: Final = Fault(
    "G101", "header-truncated", "the file ends inside the header: {got:byte} of the {want} that a header takes"
)
VERSION_ZERO: Final = Fault("G102", "version-zero", "the version is 0; versions 2 and 3 exist")
VERSION_ONE: Final = Fault(
    "G103", "version-one", "GGUF version 1 (32-bit counts) is read by no loader of I2_S: reconvert the model"
)
VERSION_UNKNOWN: Final = Fault("G104", "version-unknown", "the version is {got}; versions 2 and 3 are known")
BYTE_ORDER_UNCLEAR: Final = Fault(
    "G105",
    "byte-order-unclear",
    "the version field is 0x{got_hex} in little-endian order and {swapped} in big-endian order: neither is a version",
)
KEY_COUNT: Final = Fault(
    "G108",
    "key-count",
    "the header promises {got:key-value}; the {room:byte that follows holds|bytes that follow hold} at most {want}",
)
TENSOR_COUNT: Final = Fault(
    "G109",
    "tensor-count",
    "the header promises {got:tensor}; the {room:byte that follows holds|bytes that follow hold} at most {want}",
)

# Key-values.
METADATA_TRUNCATED: Final = Fault(
    "G201", "metadata-truncated", "the file ends inside key-value {index} (bytes needed: {want}, left: {got})"
)
KEY_TOO_LONG: Final = Fault("G204", "key-too-long", "key {index} is {got:byte} long; the limit is {want}")
STRING_PAST_END: Final = Fault(
    "G209", "string-past-end", "a string of {got:byte} is declared where {want:byte is|bytes are} left in the file"
)
VALUE_TYPE_UNKNOWN: Final = Fault("G210", "value-type-unknown", "key {key} has value type {got}; types 0 to 12 exist")
ARRAY_TOO_DEEP: Final = Fault(
    "G212", "array-too-deep", "the array of key {key} is nested {got:level} deep; the limit is {want}"
)
ARRAY_PAST_END: Final = Fault(
    "G213",
    "array-past-end",
    "the array of key {key} declares {got:element}; the "
    "{room:byte that is left holds|bytes that are left hold} at most {want}",
)
ARRAY_TYPE_UNKNOWN: Final = Fault(
    "G214", "array-type-unknown", "the array of key {key} has element type {got}; types 0 to 12 exist"
)
ALIGNMENT_TYPE: Final = Fault("G217", "alignment-type", "general.alignment is of type {got}; it must be {want}")
ALIGNMENT_ZERO: Final = Fault("G218", "alignment-zero", "general.alignment is 0")
ALIGNMENT_NOT_POWER_OF_TWO: Final = Fault(
    "G219", "alignment-not-power-of-two", "general.alignment is {got}, which is not a power of two"
)

# Tensor infos.
TENSOR_INFOS_TRUNCATED: Final = Fault(
    "G301",
    "tensor-infos-truncated",
    "the file ends inside tensor info {index} (bytes needed: {want}, left: {got})",
)
NAME_TOO_LONG: Final = Fault(
    "G302", "name-too-long", "the name of tensor {index} is {got:byte} long; the limit is {want}"
)
TOO_MANY_DIMENSIONS: Final = Fault(
    "G308", "too-many-dimensions", "tensor {name} declares {got:dimension}; at most {want} exist"
)

# Tensor data; these faults are raised when a tensor's bytes are read.
TENSOR_PAST_END: Final = Fault(
    "G401", "data-truncated", "the data of tensor {name} ends at byte {got}; the file ends at byte {want}"
)
OFFSET_PAST_END: Final = Fault(
    "G402", "offset-past-end", "tensor {name} starts at byte {got}; the file ends at byte {want}"
)
TYPE_UNKNOWN: Final = Fault(
    "G313", "type-unknown", "tensor {name} has type {got}, which no known ggml defines{others}{meaning}"
)
MEANING_UNDECIDED: Final = Fault(
    "G323",
    "meaning-undecided",
    "tensors of type {got}{count} may be {kinds}: {why}, and they are not decoded",
)
BLOCK_SPLIT: Final = Fault(
    "G315", "row-not-whole-blocks", "tensor {name} has rows of {got:element}; its type packs blocks of {want}"
)

# Limits, and errors of the system.
TOO_MANY_KEYS: Final = Fault("S101", "too-many-keys", "the file has {got:key-value}; the limit is {want}")
TOO_MANY_TENSORS: Final = Fault("S102", "too-many-tensors", "the file has {got:tensor}; the limit is {want}")
ALIGNMENT_TOO_LARGE: Final = Fault("S106", "alignment-too-large", "general.alignment is {got}; the limit is {want}")
UNREADABLE: Final = Fault("S901", "unreadable", "the file cannot be read: {reason}")
NOT_A_FILE: Final = Fault("S902", "not-a-regular-file", "this is {kind}, not a regular file")
CHANGED: Final = Fault("S903", "changed-while-read", "the file changed while it was read: {reason}")
LEADS_OUT: Final = Fault(
    "S904", "leads-out-of-the-folder", "this is a link that leads out of the folder it lies in; it was not followed"
)

# Files on servers: why their bytes cannot be read.
REMOTE_DENIED: Final = Fault("S911", "remote-denied", "the server refuses access to the file: {reason}")
REMOTE_MISSING: Final = Fault("S912", "remote-missing", "the server has no such file: {reason}")
REMOTE_RATE_LIMITED: Final = Fault("S913", "remote-rate-limited", "the server asks to wait: {reason}")
REMOTE_OFFLINE: Final = Fault("S914", "remote-offline", "the file is on a server, and i2s is offline: {reason}")
REMOTE_UNREACHABLE: Final = Fault("S915", "remote-unreachable", "the server cannot be reached: {reason}")
REMOTE_REFUSED: Final = Fault("S916", "remote-refused", "i2s does not follow the address: {reason}")
REMOTE_OVER_BUDGET: Final = Fault("S917", "remote-over-budget", "the limits for one remote file are exceeded: {reason}")
REMOTE_MISBEHAVES: Final = Fault("S918", "remote-misbehaves", "the server gives an invalid answer: {reason}")

#: Codes that say that a server did not give the bytes (exit code 5); nothing is known about the file.
REMOTE: Final = frozenset(
    fault.code
    for fault in (
        REMOTE_DENIED,
        REMOTE_MISSING,
        REMOTE_RATE_LIMITED,
        REMOTE_OFFLINE,
        REMOTE_UNREACHABLE,
        REMOTE_REFUSED,
        REMOTE_OVER_BUDGET,
        REMOTE_MISBEHAVES,
    )
)

#: Codes after which the input is not a GGUF file, or could not be read at all (exit code 3, or 5 for those of `REMOTE`).
NO_INPUT: Final = REMOTE | frozenset(
    fault.code
    for fault in (
        EMPTY_FILE,
        NOT_GGUF,
        LFS_POINTER,
        HTML_PAGE,
        ARCHIVE,
        LEGACY_GGML,
        SWAPPED_MAGIC,
        OTHER_FORMAT,
        TEXT_DECODED,
        UTF_16,
        UNREADABLE,
        NOT_A_FILE,
        LEADS_OUT,
    )
)

#: What makes `general.alignment` unusable; its file is read on where the offsets show another one.
ALIGNMENTS: Final = (ALIGNMENT_TYPE, ALIGNMENT_ZERO, ALIGNMENT_NOT_POWER_OF_TWO, ALIGNMENT_TOO_LARGE)

#: Codes after which nothing more can be read from an input.
GONE: Final = REMOTE | {CHANGED.code, UNREADABLE.code}


def exit_code_of(code: str) -> int:
    """Return the exit code of the command line for a fault that stops the reading of an input."""
    return EXIT_REMOTE if code in REMOTE else EXIT_INPUT


# Files of other formats that conversions read.
CHECKPOINT_MALFORMED: Final = Fault("H101", "checkpoint-malformed", "this is not a safetensors file: {reason}")
CHECKPOINT_TENSOR_MALFORMED: Final = Fault(
    "H102", "checkpoint-tensor-malformed", "tensor {name} of the checkpoint {reason}"
)
CHECKPOINT_REFUSED: Final = Fault("H104", "checkpoint-refused", "the checkpoint cannot be used: {reason}")
RECEIPT_MALFORMED: Final = Fault("H105", "receipt-malformed", "the receipt cannot be used: {reason}")
NPY_MALFORMED: Final = Fault("H103", "npy-malformed", "the .npy file cannot be read: {reason}")

# Faults that stop a program that uses a model: in its vocabulary, its template, its results.
TOKENIZER_UNSUPPORTED: Final = Fault(
    "T901", "tokenizer-unsupported", "tokenizer.ggml.model is {got}; supported are {want}"
)
TOKENIZER_TOO_LARGE: Final = Fault("T905", "tokenizer-too-large", "the key {key} has {got} {unit}; the limit is {want}")
MERGE_OF_NO_TOKENS: Final = Fault("T907", "merge-of-no-tokens", "merge {index} is {got}: {want}")
SCORE_NOT_A_NUMBER: Final = Fault("T908", "score-not-a-number", "the score of token {index}, {token}, is not a number")
PRE_UNSUPPORTED: Final = Fault("T909", "pre-unsupported", "tokenizer.ggml.pre is {got}; supported are {want}")
TEMPLATE_FAILED: Final = Fault("T951", "chat-template-failed", "the chat template cannot be rendered: {got}")
LOGITS_NOT_FINITE: Final = Fault(
    "M901",
    "logits-not-finite",
    "the model computes {got} as the logit of token {token}: a weight or a scale of the file is not finite or far too large",
)


# --- checks ----------------------------------------------------------------------------------------------------------
# The rules are about numbers, rather than bytes. Each function takes values that were read, and either returns a result
# or raises the `FormatError` of the specification.

ByteOrder = Literal["little", "big"]


def order_prefix(order: str) -> Literal["<", ">"]:
    """Return the prefix for a byte order in formats of `struct` and dtypes of NumPy."""
    return "<" if order == "little" else ">"


#: The first bytes of a file, and how many of them `magic.not_gguf` looks at in a file that has others.
MAGIC: Final = b"GGUF"
HEAD: Final = 1024

HEADER_BYTES = 24

#: The positions of the three numbers of the header.
VERSION_SPAN = Span(4, 8, "header.version")
VERSION_SPAN = Span(4, 8, "header.version")
TENSOR_COUNT_SPAN = Span(8, 16, "header.tensor_count")
KEY_COUNT_SPAN = Span(16, 24, "header.key_count")


def header_size(size: int) -> None:
    """Refuse a file shorter than a header (clause 2.2)."""
    if size < HEADER_BYTES:
        raise FormatError(HEADER_TRUNCATED, Span(0, size, "header"), got=size, want=HEADER_BYTES)


def byte_order(version: int) -> tuple[ByteOrder, int]:
    """Byte order and version of a file whose version field, read as little-endian, is `version` (clause 2.3).

    No flag states the byte order. A little-endian version is small, so its low 16 bits are not 0; those of a big-endian
    one are.
    """
    if version == 0:
        raise FormatError(VERSION_ZERO, VERSION_SPAN, got=0, want=limits.VERSIONS)
    order: ByteOrder = "little"
    if version & 0xFFFF == 0:
        order, version = "big", int.from_bytes(version.to_bytes(4, "little"), "big")
    if version == 1:
        raise FormatError(VERSION_ONE, VERSION_SPAN, got=1, want=limits.VERSIONS)
    if version not in limits.VERSIONS:
        if order == "big":
            little = int.from_bytes(version.to_bytes(4, "big"), "little")
            raise FormatError(
                BYTE_ORDER_UNCLEAR, VERSION_SPAN, got=little, want=limits.VERSIONS,
                got_hex=TrustedText(f"{little:08x}"), swapped=version,
            )  # fmt: skip
        raise FormatError(VERSION_UNKNOWN, VERSION_SPAN, got=version, want=limits.VERSIONS)
    return order, version


def counts(tensors: int, keys: int, size: int) -> None:
    """Refuse counts that the bytes after the header cannot hold, or that exceed the limits (clauses 2.2, 12.2)."""
    room = size - HEADER_BYTES
    if keys > (most := room // limits.SMALLEST_KEY_VALUE):
        raise FormatError(KEY_COUNT, KEY_COUNT_SPAN, got=keys, want=most, room=room)
    if tensors > (most := room // limits.SMALLEST_TENSOR_INFO):
        raise FormatError(TENSOR_COUNT, TENSOR_COUNT_SPAN, got=tensors, want=most, room=room)
    if keys > limits.MAX_KEYS:
        raise FormatError(TOO_MANY_KEYS, KEY_COUNT_SPAN, got=keys, want=limits.MAX_KEYS)
    if tensors > limits.MAX_TENSORS:
        raise FormatError(TOO_MANY_TENSORS, TENSOR_COUNT_SPAN, got=tensors, want=limits.MAX_TENSORS)


def alignment(value_type: int, value: object, type_span: Span) -> int:
    """Return the alignment that `general.alignment` sets: a u32, a power of two, at most the limit (clause 2.7).

    `type_span` is the span of the value's type; the value follows it.
    """
    value_span = Span(type_span.stop, type_span.stop + 4, type_span.path.removesuffix(".type") + ".value")
    if value_type != ValueType.UINT32 or not isinstance(value, int):
        got = ValueType(value_type).label
        raise FormatError(ALIGNMENT_TYPE, type_span, got=TrustedText(got), want=TrustedText("u32"))
    if value == 0:
        raise FormatError(ALIGNMENT_ZERO, value_span, got=0, want=limits.DEFAULT_ALIGNMENT)
    if value & (value - 1):
        raise FormatError(ALIGNMENT_NOT_POWER_OF_TWO, value_span, got=value)
    if value > limits.MAX_ALIGNMENT:
        raise FormatError(ALIGNMENT_TOO_LARGE, value_span, got=value, want=limits.MAX_ALIGNMENT)
    return value


def data_start(end_of_infos: int, alignment: int) -> int:
    """Where the data section begins: the first multiple of the alignment at or after the last tensor info (clause 2.7)."""
    return padded(end_of_infos, alignment)
