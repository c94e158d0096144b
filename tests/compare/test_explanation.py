"""Explanations of wrong tensors: each kind, injected into the trained model, is named, and no other tensor is."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec.reference import pack
from i2s_spec.compare.diff import diff
from i2s_spec.compare.diff_text import document, lines
from i2s_spec.compare.explanation import _distorted, explanation
from i2s_spec.compare.tensor_rows import Rows, flat_rows, rows_of
from i2s_spec.convert.trained import gguf_bytes, open_trained
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource

RIGHT = gguf_bytes()
UP, GATE, DOWN, OUT = (f"blk.1.{name}.weight" for name in ("ffn_up", "ffn_gate", "ffn_down", "attn_output"))
NORM, OTHER = "blk.1.ffn_norm.weight", "blk.2.ffn_norm.weight"


def values(name: str) -> np.ndarray:
    with open_trained() as file:
        tensor = file.tensors[name]
        return np.array(tensor.dequantize() if "norm" in name or "embd" in name else tensor.trits())


def planted(name: str, array: np.ndarray, raw: Any = None) -> bytes:
    """The trained model with other numbers in a tensor."""
    data = bytearray(RIGHT)
    with open_trained() as file:
        tensor = file.tensors[name]
        span = tensor.span
        if array.dtype == np.int8:
            made = pack(np.ascontiguousarray(array), tensor.scale())
        else:
            made = array.astype("<f4" if tensor.type.name == "F32" else "<f2").tobytes()
    made = raw(bytes(made)) if raw is not None else made
    data[span.start : span.start + len(made)] = made
    return bytes(data)


def words_swapped(data: bytes) -> bytes:
    payload = np.frombuffer(data[:-32], dtype="<u4").byteswap().tobytes()
    return payload + data[-32:]


def permuted(count: int) -> np.ndarray:
    return np.random.default_rng(5).permutation(count)


KINDS = {
    "exchanged": (UP, lambda: planted(UP, values(GATE)), f"it is '{GATE}'"),
    "of-another-layer": (UP, lambda: planted(UP, values("blk.3.ffn_up.weight")), "it is 'blk.3.ffn_up.weight'"),
    "words": (UP, lambda: planted(UP, values(UP), words_swapped), "the bytes of its 32-bit words are swapped"),
    "square": (OUT, lambda: planted(OUT, values(OUT).T), "it is transposed"),
    "oblong": (DOWN, lambda: planted(DOWN, values(DOWN).T.reshape(values(DOWN).shape)), "it is transposed"),
    "signs": (UP, lambda: planted(UP, -values(UP)), "all signs are inverted"),
    "rows": (UP, lambda: planted(UP, values(UP)[permuted(384)]), "its rows are in another order"),
    "rows-moved": (UP, lambda: planted(UP, np.roll(values(UP), 3, axis=0)), "its rows are moved on by 3"),
    "columns": (UP, lambda: planted(UP, values(UP)[:, permuted(256)]), "its columns are in another order"),
    "gains": (NORM, lambda: planted(NORM, values(OTHER)), f"it is '{OTHER}'"),
    "gains-less-1": (NORM, lambda: planted(NORM, values(NORM) - 1), "they are less by 1"),
    "gains-10": (NORM, lambda: planted(NORM, values(NORM) * 10), "they are 10 times as large"),
    "embedding-moved": (
        "token_embd.weight",
        lambda: planted("token_embd.weight", np.roll(values("token_embd.weight"), 1, axis=0)),
        "its rows are moved on by 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_named(kind: str) -> None:
    name, make, words = KINDS[kind]
    with open_file(BufferSource(make())) as file, open_trained() as right:
        found = diff(right, file)
    (change,) = found.tensors
    assert change.name.decode() == name
    assert change.how == words
    assert next(iter(lines(found))).endswith(f"; {words}")
    assert document(found, "a", "b")["tensors"][0]["how"] == words


def test_noise_and_fine_tunes_have_no_explanation() -> None:
    random = np.random.default_rng(2)
    for made in (
        planted(UP, random.integers(-1, 2, (384, 256)).astype(np.int8)),
        planted(NORM, random.standard_normal(256).astype(np.float32)),
    ):
        with open_file(BufferSource(made)) as file, open_trained() as right:
            (change,) = diff(right, file).tensors
        assert change.how is None
    trits = values(UP)
    trits[:2] = -trits[:2]
    with open_file(BufferSource(planted(UP, trits))) as file, open_trained() as right:
        (change,) = diff(right, file).tensors
    assert change.how is None


def test_constant_tensors_have_no_explanation() -> None:
    ones = np.ones((8, 32), dtype=np.float32)
    rows = rows_from(ones)
    assert explanation(rows_from(np.zeros_like(ones)), rows, lambda: [("same", rows_from(np.zeros_like(ones)))]) == ""


def rows_from(array: np.ndarray) -> Rows:
    return flat_rows(
        array.shape, 1, lambda start, stop: array.reshape(-1)[start:stop], 0.0 if array.dtype == np.int8 else 1e-6
    )


def test_of_two_tensors_that_are_alike_none_is_named() -> None:
    random = np.random.default_rng(1)
    right, wrong = (random.integers(-1, 2, (32, 64)).astype(np.int8) for _ in range(2))
    others = [("one", rows_from(wrong)), ("two", rows_from(wrong))]
    assert explanation(rows_from(wrong), rows_from(right), lambda: others[:1]) == "it is 'one'"
    assert explanation(rows_from(wrong), rows_from(right), lambda: others) == ""


@examples(40)
@given(st.integers(1, 5), st.integers(1, 40), st.integers(1, 16), st.data())
def test_rows_are_read_alike_wherever_they_are_cut(rows: int, cols: int, unit: int, data: st.DataObject) -> None:
    array = np.arange(rows * cols, dtype=np.float32).reshape(rows, cols)
    asked = []

    def fetch(start: int, stop: int) -> np.ndarray:
        asked.append((start, stop))
        return array.reshape(-1)[start:stop]

    made = flat_rows(array.shape, unit, fetch, 0.0)
    start = data.draw(st.integers(0, rows - 1))
    stop = data.draw(st.integers(start + 1, rows))
    assert made.read(start, stop).tolist() == array[start:stop].tolist()
    assert all(low % unit == 0 and (high % unit == 0 or high == rows * cols) for low, high in asked)


@pytest.mark.parametrize("dialect", ["canonical", "interleave-64", "rows-1x4/zero-first"])
def test_rows_of_a_file(dialect: str) -> None:
    from i2s_spec.convert.trained import write_trained

    out = io.BytesIO()
    write_trained(out, dialect=None if dialect == "canonical" else dialect)
    with open_file(BufferSource(out.getvalue())) as file:
        rows = rows_of(file, file.tensors[UP], dialect)
        assert (rows.rows, rows.cols, rows.tolerance) == (384, 256, 0.0)
        assert np.array_equal(np.concatenate([part for _, part in rows.windows()]), values(UP))
        gains = rows_of(file, file.tensors[NORM])
        assert gains.cols == 1
        assert np.array_equal(gains.read(0, 256)[:, 0], values(NORM))


def test_signalling_nans_cause_no_warning() -> None:
    odd = np.full(64, 0x7F800001, dtype=np.uint32).view(np.float32)
    assert _distorted(odd, np.ones(64, dtype=np.float32), 1e-6) == ""
