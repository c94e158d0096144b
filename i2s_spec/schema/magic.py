"""Recognition of files that do not start with the GGUF magic (clause 2.2): what they are, as the fault to raise."""

from __future__ import annotations

import re
from typing import Final

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.schema import faults
from i2s_spec.schema.faults import MAGIC

_LEGACY: Final = {b"lmgg": "ggml", b"fmgg": "ggmf", b"tjgg": "ggjt", b"algg": "ggla", b"nsgg": "ggsn"}
_LEGACY_FORWARD: Final = {magic[::-1]: name for magic, name in _LEGACY.items()}

_ARCHIVES: Final = (
    (b"PK\x03\x04", "a zip archive (PyTorch checkpoints are zip archives too)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x28\xb5\x2f\xfd", "a zstandard archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-zip archive"),
    (b"Rar!", "a rar archive"),
)

_OTHERS: Final = (
    (b"\x80\x02", "a Python pickle (an old PyTorch checkpoint)"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"%PDF-", "a PDF document"),
    (b"\x7fELF", "an ELF program"),
    (b"MZ", "a Windows program"),
    (b"#!", "a script"),
    (b"{", "JSON text"),
)

_UTF_16: Final = (
    (b"\xff\xfe", "utf-16-le", "little-endian, with a byte order mark"),
    (b"\xfe\xff", "utf-16-be", "big-endian, with a byte order mark"),
    (b"", "utf-16-le", "little-endian, without a byte order mark"),
    (b"", "utf-16-be", "big-endian, without a byte order mark"),
)

#: Formats that can hide behind a GGUF file or between its tensors; each signature is at least four bytes long.
EMBEDDABLE: Final = (
    (b"GGUF", "a second GGUF file"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "a zip end record"),
    (b"\x7fELF", "an ELF program"),
    (b"%PDF-", "a PDF document"),
    (b"\x28\xb5\x2f\xfd", "a zstandard archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-zip archive"),
    (b"Rar!", "a rar archive"),
    (b"\x1f\x8b\x08\x00", "a gzip archive"),
)


def not_gguf(head: bytes, size: int) -> FormatError | None:
    """Return the fault of a file whose first bytes are `head` (`faults.HEAD` of them) and whose size is `size`; None
    for GGUF.
    """
    if size == 0:
        return FormatError(faults.EMPTY_FILE, Span(0, 0, "header"))
    start = head[:4]
    if start == MAGIC or (size < 4 and MAGIC.startswith(start)):
        return None
    span = Span(0, min(size, 4), "header.magic")
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()

    for mark, encoding, kind in _UTF_16:
        if head.startswith(mark + MAGIC.decode().encode(encoding)):
            return FormatError(faults.UTF_16, span, got=start, want=MAGIC, kind=TrustedText(kind))
    if head.startswith(b"\xef\xbb\xbf" + MAGIC):
        kind = "it begins with a UTF-8 byte order mark"
        return FormatError(faults.TEXT_DECODED, span, got=start, want=MAGIC, kind=TrustedText(kind))
    if start == MAGIC[::-1]:
        return FormatError(faults.SWAPPED_MAGIC, span, got=start, want=MAGIC)
    if text.startswith(b"version https://git-lfs"):
        declared = re.search(rb"\nsize (\d{1,20})", head)
        size_stated = int(declared[1]) if declared else TrustedText("unknown")
        return FormatError(faults.LFS_POINTER, Span(0, min(size, len(head)), "header.magic"), size=size_stated)
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<?xml")):
        return FormatError(faults.HTML_PAGE, span, got=start)
    for magics in (_LEGACY, _LEGACY_FORWARD):
        if start in magics:
            return FormatError(faults.LEGACY_GGML, span, got=start, kind=TrustedText(magics[start]))
    if head[257:262] == b"ustar":
        return FormatError(faults.ARCHIVE, span, got=start, kind=TrustedText("a tar archive"))
    for magic, kind in _ARCHIVES:
        if head.startswith(magic):
            return FormatError(faults.ARCHIVE, span, got=start, kind=TrustedText(kind))
    if len(head) > 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= size - 8:
        return FormatError(faults.OTHER_FORMAT, span, got=start, kind=TrustedText("a safetensors file"))
    for magic, kind in _OTHERS:
        if head.startswith(magic):
            return FormatError(faults.OTHER_FORMAT, span, got=start, kind=TrustedText(kind))
    return FormatError(faults.NOT_GGUF, span, got=start, want=MAGIC)
