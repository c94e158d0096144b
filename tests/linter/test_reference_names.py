"""`lint --reference` over the whole trained model: injected mistakes are named, and uncompared tensors are listed."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest

from i2s_spec.codec.reference import pack
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.trained import gguf_bytes, open_trained
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource
from i2s_spec.gguf.writer import Writer
from i2s_spec.linter.engine import lint

RIGHT = gguf_bytes()
UP, GATE, OUT = "blk.1.ffn_up.weight", "blk.1.ffn_gate.weight", "blk.1.attn_output.weight"
NORM, OTHER, EMBEDDING = "blk.1.ffn_norm.weight", "blk.2.ffn_norm.weight", "token_embd.weight"


def values(name: str) -> np.ndarray:
    with open_trained() as file:
        tensor = file.tensors[name]
        return np.array(tensor.trits() if tensor.type.name == "I2_S" else tensor.dequantize())


def planted(name: str, made: Any) -> bytes:
    """The trained model with other bytes, trits or floats in a tensor."""
    data = bytearray(RIGHT)
    with open_trained() as file:
        tensor = file.tensors[name]
        start = tensor.span.start
        if not isinstance(made, bytes):
            if made.dtype == np.int8:
                made = pack(np.ascontiguousarray(made), tensor.scale())
            else:
                made = made.astype({"F32": "<f4", "F16": "<f2"}[tensor.type.name]).tobytes()
    data[start : start + len(made)] = made
    return bytes(data)


def findings(data: bytes, reference: bytes = RIGHT) -> list[tuple[str, str]]:
    found = lint(data, select=("I4",), reference=reference, payload="full").findings
    return [(finding.code, finding.message) for finding in found]


def tensor_bytes(name: str) -> bytes:
    with open_trained() as file:
        span = file.tensors[name].span
        return RIGHT[span.start : span.stop]


KINDS = {
    "another": (UP, lambda: tensor_bytes(GATE), "I402", f"; it is '{GATE}'"),
    "transposed": (OUT, lambda: values(OUT).T, "I402", "; it is transposed"),
    "rows": (
        UP,
        lambda: values(UP)[np.random.default_rng(1).permutation(384)],
        "I402",
        "; its rows are in another order",
    ),
    "columns": (UP, lambda: np.roll(values(UP), 7, axis=1), "I402", "; its columns are moved on by 7"),
    "words": (
        UP,
        lambda: np.frombuffer(tensor_bytes(UP)[:-32], "<u4").byteswap().tobytes(),
        "I402",
        "; the bytes of its 32-bit words are swapped",
    ),
    "gains-exchanged": (NORM, lambda: values(OTHER), "I405", f"; it is '{OTHER}'"),
    "gains-less-1": (NORM, lambda: values(NORM) - 1, "I405", "; they are less by 1"),
    "embedding-moved": (
        EMBEDDING,
        lambda: np.roll(values(EMBEDDING), 1, axis=0),
        "I405",
        "; its rows are moved on by 1",
    ),
    "embedding-10": (EMBEDDING, lambda: values(EMBEDDING) * 10, "I405", "; they are 10 times as large"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_named(kind: str) -> None:
    name, make, code, words = KINDS[kind]
    ((found, message),) = findings(planted(name, make()))
    assert found == code
    assert f"tensor '{name}'" in message
    assert message.endswith(words)


def test_the_scale_of_another_tensor_is_named() -> None:
    with open_trained() as file:
        scale, at = file.tensors[GATE].scale(), file.tensors[UP].payload_span.stop
        data = RIGHT[:at] + struct.pack("<f", scale) + RIGHT[at + 4 :]
        close = abs(float(scale) / float(file.tensors[UP].scale()) - 1) < 1 / 128
    assert not close
    ((code, message),) = findings(data)
    assert code == "I403"
    assert message.endswith(f": it is that of '{GATE}'")


def test_the_same_model_has_no_finding() -> None:
    assert findings(RIGHT) == []


def test_noise_is_found_and_not_named() -> None:
    random = np.random.default_rng(1)
    noisy = values(NORM) * random.uniform(0.9, 1.1, 256).astype(np.float32)
    ((code, message),) = findings(planted(NORM, noisy))
    assert code == "I405"
    assert message.endswith("from value 0 on")
    one = values(NORM)
    one[17] = np.nan
    ((code, message),) = findings(planted(NORM, one))
    assert (code, "1 of 256 values" in message, "from value 17 on" in message) == ("I405", True, True)


def test_rounded_references_are_equal() -> None:
    """A reference in F16 or BF16 of gains in F32, and the other way round."""
    out = io.BytesIO()
    with open_trained() as file:
        gains = {name: values(name) for name, each in file.tensors.items() if each.type.name == "F32"}
        with Writer(out) as writer:
            writer.add("general.architecture", "bitnet-b1.58")
            for name, gain in gains.items():
                writer.add_tensor(name, gain.shape, "F16", gain.astype("<f2").tobytes())
    rounded = out.getvalue()
    codes = {code for code, _ in findings(RIGHT, rounded)}
    assert "I405" not in codes
    assert [code for code, _ in findings(planted(NORM, values(NORM) * 1.01), rounded)].count("I405") == 1


def test_tensors_that_are_not_compared_are_reported() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add("general.architecture", "bitnet-b1.58")
        writer.add_tensor(NORM, (128,), "F32", bytes(512))
        writer.add_tensor(UP, (384, 256), "I2_S", tensor_bytes(UP))
    found = dict(findings(RIGHT, out.getvalue()))
    assert found["I406"].startswith("18 of 18 tensors that are not I2_S could not be compared")
    assert found["I404"].startswith("27 of 28 I2_S tensors")


def test_a_big_endian_reference_tells_the_same() -> None:
    out = io.BytesIO()
    with open_file(BufferSource(RIGHT)) as file:
        convert_file(file, out, byte_order="big")
    assert findings(RIGHT, out.getvalue()) == []
    assert [code for code, _ in findings(planted(NORM, values(NORM) - 1), out.getvalue())] == ["I405"]
