"""Weights of quantized types that are not ternary: decoded as ggml does, compared with those of other types."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import ggml_library
import numpy as np
import pytest
from one_process import i2s

import i2s_spec
from i2s_spec.codec import quantized
from i2s_spec.compare.diff import diff
from i2s_spec.compare.diff_text import document, lines
from i2s_spec.errors import MissingExtra
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema.blocks import SCALES
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import BY_NAME

gguf_quants = pytest.importorskip("gguf.quants")
#: The types that the installed package decodes.
DECODED = [name for name in quantized.TYPES if name in {kind.name for kind in gguf_quants._type_traits}]


def blocks(kind: str, count: int = 24, seed: int = 3) -> bytes:
    """Random blocks whose scales are finite and of usual size."""
    drawn, number = np.random.default_rng(seed), BY_NAME[kind]
    raw = drawn.integers(0, 256, (count, number.bytes), dtype=np.uint8)
    for scale in SCALES[kind]:
        at = scale.offset
        if scale.type == "F16":
            raw[:, at : at + 2] = drawn.uniform(0.001, 0.1, count).astype("<f2")[:, None].view(np.uint8)
        elif scale.type == "F16 in four words":
            raw[:, at + 1 : at + 8 : 2] = raw[:, at + 1 : at + 8 : 2] & 15 | np.array(
                [0x50, 0x10, 0x80, 0x20], np.uint8
            )
        else:
            raw[:, at] = drawn.integers(100, 120, count)
    return raw.tobytes()


def file_of(
    kind: str, data: bytes | np.ndarray[Any, Any], shape: tuple[int, ...], order: ByteOrder = "little"
) -> bytes:
    target = io.BytesIO()
    with Writer(target, byte_order=order) as writer:
        writer.add_tensor("t", shape, kind, data)
    return target.getvalue()


def shape_of(kind: str, count: int = 24) -> tuple[int, int]:
    return 4, count // 4 * BY_NAME[kind].block


@pytest.mark.skipif(ggml_library.missing() is not None, reason=str(ggml_library.missing()))
@pytest.mark.parametrize("kind", DECODED)
def test_weights_are_those_of_ggml(kind: str) -> None:
    data = blocks(kind)
    wanted = ggml_library.dequantize(data, BY_NAME[kind].number, 24 * BY_NAME[kind].block)
    assert np.abs(wanted).max() > 0
    np.testing.assert_allclose(quantized.dequantize(data, kind), wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", DECODED)
def test_a_window_at_a_time(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, shape = blocks(kind), shape_of(kind)
    path = tmp_path / "m.gguf"
    path.write_bytes(file_of(kind, data, shape))
    whole = i2s_spec.open(path).tensors["t"].dequantize()
    assert whole.shape == shape
    assert np.array_equal(whole.reshape(-1), quantized.dequantize(data, kind))
    monkeypatch.setattr(quantized, "WINDOW", 5 * BY_NAME[kind].block)
    done = i2s(tmp_path, "decode", "m.gguf", "t", "t.npy", "--as", "float32")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "t.npy"), whole)
    (tmp_path / "f.gguf").write_bytes(file_of("F32", whole, shape))
    done = i2s(tmp_path, "diff", "m.gguf", "f.gguf")
    assert f"type {kind} -> F32 (weights equal)" in done.stdout
    whole[2, 5] += 1
    (tmp_path / "f.gguf").write_bytes(file_of("F32", whole, shape))
    done = i2s(tmp_path, "diff", "m.gguf", "f.gguf")
    assert f"type {kind} -> F32; 1 weight differs, first at element {2 * shape[1] + 5:,} (2, 5)" in done.stdout


def test_trits_of_such_a_type_are_refused_with_what_helps(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(file_of("Q4_K", blocks("Q4_K"), shape_of("Q4_K")))
    done = i2s(tmp_path, "decode", "m.gguf", "t", "t.npy")
    assert done.returncode != 0
    assert "tensor 't': Q4_K holds no trits; --as float32 decodes its weights" in done.stderr


def test_big_endian_blocks_with_known_words() -> None:
    data = np.frombuffer(blocks("Q4_K"), dtype=np.uint8).reshape(24, 144).copy()
    little = quantized.dequantize(data.tobytes(), "Q4_K")
    data[:, :4] = data[:, [1, 0, 3, 2]]
    assert np.array_equal(quantized.dequantize(data.tobytes(), "Q4_K", "big"), little)
    with pytest.raises(ValueError, match="which words of Q5_0 are big-endian"):
        quantized.dequantize(blocks("Q5_0"), "Q5_0", "big")


def test_ternary_weights_and_others() -> None:
    """TQ2_0 against Q8_0 with the same weights; then with others, and with NaN in both."""
    trits = np.random.default_rng(1).integers(-1, 2, (4, 256), dtype=np.int8)
    ternary = file_of("TQ2_0", i2s_spec.codec.blocks.pack(trits, 0.5, "TQ2_0"), (4, 256))
    raw = np.zeros((32, 34), np.uint8)
    raw[:, 1] = 0x38  # 0.5
    raw[:, 2:] = trits.reshape(32, 32).view(np.uint8)
    same = diff(open_file(ternary), open_file(file_of("Q8_0", raw.tobytes(), (4, 256))))
    (change,) = same.tensors
    assert (change.what, change.weights, change.type) == ("values", None, ("TQ2_0", "Q8_0"))
    raw[9, 2:4] += 1
    changed = diff(open_file(ternary), open_file(file_of("Q8_0", raw.tobytes(), (4, 256))))
    (change,) = changed.tensors
    assert change.weights == (2, 9 * 32)
    assert document(changed, "a", "b")["tensors"][0]["weights"] == {"count": 2, "first": 288}
    nan = np.full((4, 256), np.nan, np.float32)
    raw[:, 1] = 0x7E
    both = diff(open_file(file_of("F32", nan, (4, 256))), open_file(file_of("Q8_0", raw.tobytes(), (4, 256))))
    assert both.tensors[0].weights is None


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    data = blocks("Q8_0")
    one = open_file(file_of("Q8_0", data, shape_of("Q8_0")))
    with pytest.raises(MissingExtra, match=r"^decoding Q8_0 needs the extra \[gguf\]"):
        one.tensors["t"].dequantize()
    found = diff(one, open_file(file_of("F16", np.zeros(shape_of("Q8_0"), np.float16), shape_of("Q8_0"))))
    line = next(line for line in lines(found) if line.startswith("~ tensor"))
    assert line.startswith("~ tensor t: type Q8_0 -> F16 (data not compared); decoding Q8_0 needs the extra [gguf]")


def test_types_that_the_package_does_not_decode() -> None:
    with pytest.raises(ValueError, match="does not decode Q1_0"):
        quantized.dequantize(bytes(18), "Q1_0")
    q1 = open_file(file_of("Q1_0", bytes(18 * 4), (4, 128)))
    found = diff(q1, open_file(file_of("F16", np.zeros((4, 128), np.float16), (4, 128))))
    assert found.tensors[0].what == "nothing"
