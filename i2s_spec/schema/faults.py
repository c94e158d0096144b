"""This module declares the faults that stop a reader, each with its name and its message.

The schema and the scanner raise them, and the linter's rules with the same codes are based on them. Faults that leave a
file readable are declared by the linter's rules instead.
"""

from __future__ import annotations

from typing import Final

from i2s_spec.errors import EXIT_INPUT, EXIT_REMOTE, Fault

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
    "this is a {kind} file from before GGUF: its format is no longer loaded and must be reconverted",
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
    "G103", "version-one", "GGUF version 1 (32-bit counts) is no longer read by any loader: reconvert the model"
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
    )
)

#: Codes after which nothing more can be read from an input.
GONE: Final = REMOTE | {CHANGED.code, UNREADABLE.code}


def exit_code_of(code: str) -> int:
    """The exit code of the command line for a fault that stops the reading of an input."""
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
