"""Where the data section begins, by the bytes where tensors meet: places that other alignments give, and sound files."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from builders import model_bytes
from malformed_cases import broken

from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.engine import lint
from i2s_spec.linter.fix import fix
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.runtimes.verdicts import verdicts
from i2s_spec.schema.types import padded


def errors(data: bytes) -> set[str]:
    return {finding.code for finding in lint(data).findings if finding.severity is Severity.ERROR}


def stated(data: bytes) -> tuple[int, int]:
    """Where the tensor infos end, and where the data section of a sound file begins."""
    file = File(BufferSource(data))
    assert file.infos_end is not None
    assert file.data_start is not None
    return file.infos_end, file.data_start


def contents(data: bytes) -> dict[bytes, bytes]:
    file = File(BufferSource(data))
    return {t.raw_name: data[t.span.start : t.span.stop] for t in file.tensors.values()}


def repaired(data: bytes) -> bytes:
    out = io.BytesIO()
    fix(data, out, unsafe=True)
    return out.getvalue()


def laid_out(data: bytes, alignment: int) -> bytes:
    """The tensors with offsets and a data section by another alignment, and a header that does not say so."""
    end, _ = stated(data)
    held, head, body = contents(data), bytearray(data[:end]), b""
    for tensor in File(BufferSource(data)).tensors.rows:
        body += bytes(-len(body) % alignment)
        head[tensor.info_span.stop - 8 : tensor.info_span.stop] = struct.pack("<Q", len(body))
        body += held[tensor.raw_name]
    return bytes(head) + bytes(padded(end, alignment) - end) + body + bytes(-len(body) % alignment)


@pytest.mark.parametrize("alignment", [64, 256, 1024])
@pytest.mark.parametrize("kind", ["I2_S", "F16", "TQ1_0"])
def test_offsets_of_another_alignment_are_one_error(kind: str, alignment: int) -> None:
    """Sizes of I2_S tensors are no multiples of 64: there is padding between them that the header does not explain."""
    sound = model_bytes("llama", **({} if kind == "I2_S" else {"type": kind}))
    moved = laid_out(sound, alignment)
    if moved == sound:
        pytest.skip("the same in both alignments")
    assert errors(moved) == {"G222"}
    assert contents(repaired(moved)) == contents(sound)
    assert errors(repaired(moved)) == set()
    subject = LintContext(File(BufferSource(moved)))
    right = [each.title for each in verdicts(subject) if each.computes == "correctly"]
    assert subject.shift is None or not right


@pytest.mark.parametrize("behind", [b"", b"\x13" * 32, b"\x13" * 64, bytes(64), bytes(range(1, 101))])
@pytest.mark.parametrize("kind", ["F16", "BF16", "F32", "TQ2_0", "Q2_0"])
def test_a_key_that_is_not_followed_is_named_whatever_follows(kind: str, behind: bytes) -> None:
    sound = model_bytes("llama", type=kind, alignment=64)
    end, start = stated(sound)
    if padded(end, 32) == start:
        sound = model_bytes("qwen3-lm", type=kind, alignment=64)
        end, start = stated(sound)
    if padded(end, 32) == start:
        pytest.skip("the same in both alignments")
    moved = sound[:end] + bytes(padded(end, 32) - end) + sound[start:] + behind
    assert errors(moved) == {"G222"}
    assert contents(repaired(moved)) == contents(sound)
    assert len(repaired(moved)) <= len(sound)  # what follows is cut, once it is known where the weights end


@pytest.mark.parametrize("order", ["little", "big"])
def test_either_byte_order(order: str) -> None:
    sound = model_bytes("llama", type="F16", byte_order=order)
    end, start = stated(sound)
    moved = sound[:end] + bytes(padded(start + 1, 256) - end) + sound[start:]
    assert errors(moved) & {"G222", "G414"}
    assert contents(repaired(moved)) == contents(sound)


def _norms(data: bytes, change: object) -> bytes:
    """The same file with other norms."""
    moved = bytearray(data)
    for tensor in File(BufferSource(data)).tensors.rows:
        if len(tensor.ne) == 1:
            values = change(np.frombuffer(data[tensor.span.start : tensor.span.stop], "<f4"))  # type: ignore[operator]
            moved[tensor.span.start : tensor.span.stop] = values.astype("<f4").tobytes()
    return bytes(moved)


@pytest.mark.parametrize("behind", [b"", b"\x11" * 32, bytes(32), bytes(64), bytes(range(1, 101)), b"\x11" * 4064])
@pytest.mark.parametrize(
    "norms",
    [
        np.zeros_like,
        np.ones_like,
        lambda values: values - 1,
        lambda values: np.where(np.arange(len(values)) < 8, 1e4, values),
        lambda values: np.where(np.arange(len(values)) < 8, 0, values),
        lambda values: -values,
        lambda values: values * np.float32(1e-12),
    ],
)
def test_unusual_norms_are_no_shift(norms: object, behind: bytes) -> None:
    data = _norms(model_bytes("llama", type="F16"), norms)
    section = File(BufferSource(data + behind)).data_section
    assert section.shift is None


def test_gaps_and_order_are_errors_unless_they_follow_from_an_overlap() -> None:
    assert errors(broken("gap")) == {"P101"}
    assert errors(broken("out_of_order")) >= {"P102"}
    assert errors(broken("overlap")) == {"G404"}


def test_the_evidence_reads_little_of_files_with_many_tensors() -> None:
    """A hostile file costs no more: a bounded number of places, of bounds, and of bytes at each."""
    read = 0

    class Counting(BufferSource):
        def read(self, start: int, size: int) -> bytes:
            nonlocal read
            read += size
            return super().read(start, size)

    data = model_bytes("llama", type="F16", layers=40, vocab=512)
    source = Counting(data[:-100] + bytes(range(200)))
    file = File(source)
    read = 0
    assert file.data_section.shift is None
    assert read < 2 << 20
