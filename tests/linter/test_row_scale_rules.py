"""Rules on codes and scales of I2_SR, whose scales follow all codes: exact positions in either byte order."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.codec import blocks
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.linter.analysis import payload_stats

ROWS, COLS = 96, 256
PAYLOAD = ROWS * COLS // 4


@pytest.fixture(autouse=True)
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small parts, so that codes and scales are read in several of them."""
    monkeypatch.setattr(payload_stats, "_READ", 160)


def file_of(scales: np.ndarray[Any, Any], order: Any = "little", codes: dict[int, int] | None = None) -> bytes:
    """A file whose second tensor is I2_SR, with other bytes of codes at some places."""
    values = np.random.default_rng(2).integers(-1, 2, (ROWS, COLS), dtype=np.int8)
    data = bytearray(blocks.pack(values, scales.astype(np.float32), "I2_SR", byte_order=order))
    for at, byte in (codes or {}).items():
        data[at] = byte
    stream = io.BytesIO()
    with Writer(stream, byte_order=order) as writer:
        writer.add("general.architecture", "llama")
        writer.add_tensor("a", (4,), "F32", np.ones(4, np.float32))
        writer.add_tensor("t", (ROWS, COLS), "I2_SR", bytes(data))
    return stream.getvalue()


def found(data: bytes, **options: Any) -> list[Any]:
    return [finding for finding in i2s.lint(data, **options).findings if finding.rule.code.startswith("B")]


def usual() -> np.ndarray[Any, Any]:
    return np.random.default_rng(4).uniform(0.5, 2, ROWS)


@pytest.mark.parametrize("order", ["little", "big"])
def test_sound_tensors_are_silent(order: Any) -> None:
    assert not found(file_of(usual(), order))
    scales = usual()
    scales[7] = 0  # a row of zeros
    assert not found(file_of(scales, order))


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize(("value", "code"), [(np.nan, "B201"), (-np.inf, "B201"), (-1.0, "B202"), (1e9, "B204")])
def test_an_odd_scale_is_named_by_its_row(value: float, code: str, order: Any) -> None:
    scales = usual()
    scales[77] = value
    data = file_of(scales, order)
    (finding,) = found(data)
    start = open_file(data).tensors["t"].span.start + PAYLOAD + 4 * 77
    assert finding.rule.code == code
    assert (finding.span.start, finding.span.stop, finding.span.path) == (start, start + 4, "data[1].scales[77]")
    assert ("row 77" if code == "B201" else "group 77") in finding.message
    assert not found(data, payload="none")


def test_reserved_codes_are_counted() -> None:
    data = file_of(usual(), codes={3001: 0xFF, 3005: 0x57})
    (finding,) = found(data)
    start = open_file(data).tensors["t"].span.start + 3001 // 32 * 32
    assert (finding.rule.code, finding.span.start, finding.span.stop) == ("B101", start, start + 32)
    assert "5 weights of code 3, 0.0203 % of all; the first is in byte 3,001 of its payload" in finding.message
