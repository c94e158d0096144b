"""Mistakes that happen to models in practice: each mishap takes a sound model and breaks it in a known way.

`malformed` has one minimal file for each rule; mishaps apply to a whole model, for `i2s demo` and as documentation.

    >>> [mishap.name for mishap in mishaps()][:2]
    ['truncated', 'lfs-pointer']
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from i2s_spec.gguf.reader import File, Tensor
from i2s_spec.gguf.source import BufferSource
from i2s_spec.schema.types import TAIL_BYTES


class Mishap(NamedTuple):
    """A way in which models break: a file name, a description, the rule that finds it, and the function that breaks the
    file.

    `apply` takes the bytes of a sound file with I2_S tensors and gives those of the broken copy.
    """

    name: str
    story: str
    code: str
    apply: Callable[[bytes], bytes]


def mishaps() -> Iterator[Mishap]:
    """Yield every mishap, the most common first."""
    return iter(_MISHAPS)


def _index(model: bytes) -> File:
    return File(BufferSource(model))


def _i2s(file: File) -> list[Tensor]:
    return [tensor for tensor in file.tensors.rows if tensor.type is not None and tensor.type.name == "I2_S"]


def _truncated(model: bytes) -> bytes:
    return model[: len(model) * 2 // 3]


def _lfs_pointer(model: bytes) -> bytes:
    digest = hashlib.sha256(model).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(model)}\n".encode()


def _without_tail(model: bytes) -> bytes:
    """Drop the tail of the second to last I2_S tensor, and move the following bytes up."""
    file = _index(model)
    tensor = _i2s(file)[-2]
    cut = tensor.tail_span
    broken = bytearray(model[: cut.start] + model[cut.stop :])
    for other in file.tensors.rows:
        if other.offset > tensor.offset:
            at = other.info_span.stop - 8
            broken[at : at + 8] = struct.pack("<Q", other.offset - TAIL_BYTES)
    return bytes(broken)


def _renumbered(model: bytes) -> bytes:
    """Give every I2_S tensor the number that the type had before its release."""
    broken = bytearray(model)
    for tensor in _i2s(_index(model)):
        at = tensor.info_span.stop - 12
        broken[at : at + 4] = struct.pack("<i", 31)
    return bytes(broken)


def _foreign_scales(model: bytes) -> bytes:
    """Swap the bytes of every scale, but nothing else."""
    broken = bytearray(model)
    for tensor in _i2s(_index(model)):
        at = tensor.tail_span.start
        broken[at : at + 4] = broken[at : at + 4][::-1]
    return bytes(broken)


def _chunked(model: bytes) -> bytes:
    """Write a second tail after an I2_S tensor, as a quantizer with two threads does."""
    file = _index(model)
    tensor = _i2s(file)[0]
    cut = tensor.span.stop
    broken = bytearray(model[:cut] + model[cut - TAIL_BYTES - 7 : cut - 7] + model[cut:])
    for other in file.tensors.rows:
        if other.offset > tensor.offset:
            at = other.info_span.stop - 8
            broken[at : at + 8] = struct.pack("<Q", other.offset + TAIL_BYTES)
    return bytes(broken)


def _terminal_escape(model: bytes) -> bytes:
    """Overwrite the end of a tensor's name with the bytes that clear a terminal."""
    tensor = _index(model).tensors.by_index(0)
    at = tensor.info_span.start + 8 + len(tensor.raw_name) - 4
    return model[:at] + b"\x1b[2J" + model[at + 4 :]


def _overlapping(model: bytes) -> bytes:
    """Let a tensor point to the bytes of another one of the same size."""
    file = _index(model)
    first, second = _i2s(file)[:2]
    at = second.info_span.stop - 8
    return model[:at] + struct.pack("<Q", first.offset) + model[at + 8 :]


_MISHAPS = (
    Mishap("truncated", "A download stopped at two thirds.", "G401", _truncated),
    Mishap("lfs-pointer", "A repository was cloned without Git LFS.", "G003", _lfs_pointer),
    Mishap("no-tail", "A converter assumed n/4 bytes for an I2_S tensor and left out its tail.", "I105", _without_tail),
    Mishap("two-threads", "The quantizer ran with two threads, and each wrote its own tail.", "I108", _chunked),
    Mishap("old-number", "A pre-release file gives its I2_S tensors the type number 31.", "I111", _renumbered),
    Mishap(
        "scales-swapped", "A tool swapped the byte order of the scales but not of the file.", "I301", _foreign_scales
    ),
    Mishap("overlap", "Two tensors share bytes.", "G404", _overlapping),
    Mishap(
        "hostile-name", "A tensor's name contains control characters that clear the terminal.", "G305", _terminal_escape
    ),
)
