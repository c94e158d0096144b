"""This module makes test files for readers that do not know type 36: the same files, with F32 tensors instead of I2_S.

An I2_S tensor of n elements takes n/4 + 32 bytes, which n/16 + 8 elements of F32 take, too. So the type and the dimensions
of its tensor info are replaced in place: every length, offset and count stays, and with them a fault of the container.
"""

from __future__ import annotations

from math import prod

from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import Severity
from i2s_spec.schema.types import BY_NAME, I2_S, TAIL_BYTES

_F32_BYTES = BY_NAME["F32"].bytes
_ELEMENTS_OF_A_BYTE = 4
_WORD = 8


def without_i2s(data: bytes) -> bytes | None:
    """A file with F32 tensors of the same bytes; the file itself where its header shows no I2_S tensor.

    None where that cannot be: a size is no whole number of floats.
    """
    index = File(BufferSource(data)).index
    changed = bytearray(data)
    for info in map(index.tensor, range(index.tensors)):
        if info.type != I2_S.number:
            continue
        size = prod(info.ne) // _ELEMENTS_OF_A_BYTE + TAIL_BYTES
        if prod(info.ne) % _ELEMENTS_OF_A_BYTE or size % _F32_BYTES:
            return None
        for which in range(len(info.ne)):
            at = info.ne_span.start + _WORD * which
            changed[at : at + _WORD] = (1 if which else size // _F32_BYTES).to_bytes(_WORD, index.byte_order)
        number = BY_NAME["F32"].number.to_bytes(4, index.byte_order)
        changed[info.type_span.start : info.type_span.stop] = number
    return bytes(changed) if changed != data else data


def same_fault(data: bytes, twin: bytes, code: str, path: str) -> bool:
    """Whether a file has the fault of another one, in the same field, and no error that the other has not."""
    if twin is data:
        return True
    found = lint(twin).findings
    errors = {finding.code for finding in found if finding.severity is Severity.ERROR}
    known = {finding.code for finding in lint(data).findings if finding.severity is Severity.ERROR}
    return errors <= known and any(finding.code == code and finding.span.path == path for finding in found)
