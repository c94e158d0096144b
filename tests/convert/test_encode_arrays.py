"""Tensors as `.npy` files and back."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import model_bytes

from i2s_spec.codec import encoding as trits_module
from i2s_spec.codec.quantize import NotTernaryWarning
from i2s_spec.codec.reference import UnusedCodeError, dequantize, pack, unpack
from i2s_spec.convert.encode import decode_tensor, encode_array, read_npy, replace_tensor, write_npy
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file

ATTN, EMBD, NORM = "blk.0.attn_q.weight", "token_embd.weight", "blk.0.attn_norm.weight"


def opened(**options: Any) -> File:
    return open_file(model_bytes(**{"layers": 1, **options}))


@pytest.mark.parametrize("order", ["little", "big"])
def test_trits_weights_and_codes(order: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trits_module, "WINDOW", 1000)
    file = opened(byte_order=order)
    tensor = file.tensors[ATTN]
    trits, scale = unpack(tensor.read(), tensor.shape, byte_order=order)
    done = decode_tensor(file, ATTN, tmp_path / "t.npy", threads=2)
    assert (done.shape, done.dtype, done.scale) == (tensor.shape, "int8", float(scale))
    assert done.size == (tmp_path / "t.npy").stat().st_size
    found = np.load(tmp_path / "t.npy")
    assert found.dtype == np.int8
    assert np.array_equal(found, trits)
    decode_tensor(file, ATTN, tmp_path / "w.npy", form="float32")
    assert np.array_equal(np.load(tmp_path / "w.npy"), dequantize(tensor.read(), tensor.shape, byte_order=order))
    decode_tensor(file, ATTN, tmp_path / "c.npy", form="codes", dialect="interleave-128/zero-first")
    assert np.array_equal(np.load(tmp_path / "c.npy"), trits + 1)
    for name, dtype in ((EMBD, "f2"), (NORM, "f4")):
        decode_tensor(file, name, tmp_path / "f.npy", form="float32", force=True)
        expected = file.tensors[name].array()
        assert expected.dtype.str[1:] == dtype
        assert np.array_equal(np.load(tmp_path / "f.npy"), expected.astype(np.float32))


def test_unsuitable_tensors_are_refused(tmp_path: Path) -> None:
    file, path = opened(), tmp_path / "x.npy"
    for name, form, reason in (
        (EMBD, "trits", "not ternary"),
        (EMBD, "codes", "is F16; only I2_S has codes"),
        (ATTN, "nothing", "not one of trits, float32, codes"),
    ):
        with pytest.raises(ValueError, match=reason):
            decode_tensor(file, name, path, form=form)
    with pytest.raises(KeyError, match="no tensor 'x'"):
        decode_tensor(file, "x", path)
    assert list(tmp_path.iterdir()) == []
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        decode_tensor(file, ATTN, path)
    assert path.read_text() == "mine"


def test_codes_that_stand_for_nothing(tmp_path: Path) -> None:
    data = bytearray(opened().source.read(0, opened().size))
    data[opened().tensors[ATTN].span.start] |= 3 << 6
    file = open_file(bytes(data))
    with pytest.raises(UnusedCodeError):
        decode_tensor(file, ATTN, tmp_path / "x.npy")
    assert list(tmp_path.iterdir()) == []
    decode_tensor(file, ATTN, tmp_path / "x.npy", unused_code="zero")
    assert np.load(tmp_path / "x.npy")[0, 0] == 0
    decode_tensor(file, ATTN, tmp_path / "y.npy", form="codes")
    assert np.load(tmp_path / "y.npy")[0, 0] == 3


def test_arrays_become_i2_s() -> None:
    trits = np.random.default_rng(0).integers(-1, 2, (4, 128), dtype=np.int64)
    whole = pack(trits, 0.5, "interleave-64", byte_order="big")
    assert encode_array(trits, scale=0.5, dialect="interleave-64", byte_order="big") == whole
    weights = (trits * 0.5).astype(np.float32)
    assert encode_array(weights) == encode_array(weights, rule="hf-first") == pack(trits, 0.5)
    assert encode_array(np.asfortranarray(weights)) == pack(trits, 0.5)
    assert encode_array(trits.astype(np.float16), scale=0.25) == pack(trits, 0.25)
    with pytest.warns(NotTernaryWarning):
        encode_array(np.random.default_rng(0).standard_normal((1, 128)))
    for array, options, reason in (
        (trits, {}, "their scale must be given"),
        (trits, {"rule": "absmax", "scale": 1}, "holds trits already"),
        (weights, {"rule": "absmax", "scale": 1}, "only 'given' takes one"),
        (trits * 2, {"scale": 1}, "not -1, 0 or"),
        (trits[:, :100], {"scale": 1}, "leave 16 over"),
    ):
        with pytest.raises(ValueError, match=reason):
            encode_array(array, **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="complex128"):
        encode_array(trits * 1j)


@pytest.mark.parametrize("order", ["little", "big"])
def test_a_tensor_replaces_another(order: Any) -> None:
    file = opened(byte_order=order)
    shape = file.tensors[EMBD].shape
    trits = np.ones(shape, dtype=np.int8)
    out = io.BytesIO()
    size = replace_tensor(file, EMBD, trits, out, scale=3)
    assert size == len(out.getvalue())
    copy = open_file(out.getvalue())
    assert str(copy.tensors[EMBD].type) == "I2_S"
    found, scale = unpack(copy.tensors[EMBD].read(), shape, byte_order=order)
    assert (found.all(), scale) == (True, 3)
    for name in (ATTN, NORM):
        assert copy.tensors[name].read() == file.tensors[name].read()
    with pytest.raises(ValueError, match=r"the array has the shape \[2, 128\]"):
        replace_tensor(file, EMBD, trits[:2], io.BytesIO(), scale=1)
    with pytest.raises(KeyError, match="no tensor 'x'"):
        replace_tensor(file, "x", trits, io.BytesIO(), scale=1)


@pytest.mark.parametrize(
    "array",
    [np.arange(6, dtype=np.int8).reshape(2, 3), np.asfortranarray(np.ones((3, 2))), np.float32(1), np.zeros((0, 4))],
)
def test_npy_files_are_those_of_numpy(array: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", array)
    assert np.array_equal(read_npy(tmp_path / "a.npy"), array)
    array = np.asarray(array)
    write_npy(tmp_path / "b.npy", array.dtype, array.shape, [np.ascontiguousarray(array)])
    assert np.array_equal(np.load(tmp_path / "b.npy"), array)


def saved(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "header is wrong"),
        (b"nothing of the kind", "header is wrong"),
        (saved(np.ones(4))[:-1], "needs 32 bytes, but the file has 31"),
        (saved(np.array([{}, []], dtype=object)), "are not numbers"),
        (saved(np.zeros(2, dtype="i4,f4")), "are not numbers"),
        (saved(np.ones(4)).replace(b"(4,)", b"(-4,"), "header is wrong"),
        (saved(np.ones(4)).replace(b"(4,), ", b"(1<<9,"), "header is wrong"),
        (saved(np.ones(4)).replace(b"(4,), }   ", b"(4000000,)}"), "needs 32,000,000 bytes"),
        (saved(np.ones(4)).replace(b"(4,), ", b"(-4,),"), "its shape is invalid"),
        (saved(np.ones(4)).replace(b"\x93NUMPY\x01", b"\x93NUMPY\x09"), "header is wrong"),
    ],
)
def test_invalid_arrays_are_refused(data: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(FormatError, match=reason):
        read_npy(tmp_path / "x.npy")


def test_too_few_parts_leave_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"have 1 byte; an array of shape \[4\] has 4"):
        write_npy(tmp_path / "x.npy", np.dtype("int8"), (4,), [np.ones(1, dtype=np.int8)])
    assert list(tmp_path.iterdir()) == []
