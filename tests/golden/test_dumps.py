"""Dumps in every form give the same values; hostile dumps are refused in bounded time and memory."""

from __future__ import annotations

import io
import json
import pickle
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from i2s_spec.errors import FormatError, SettingError
from i2s_spec.golden import compare
from i2s_spec.golden.dumps import read_dump
from i2s_spec.model.forward import Model

Taps = dict[str, Any]


def as_npz(path: Path, taps: Taps) -> Path:
    np.savez(path / "taps.npz", **taps)
    return path / "taps.npz"


def as_compressed(path: Path, taps: Taps) -> Path:
    np.savez_compressed(path / "taps.npz", **taps)
    return path / "taps.npz"


def as_npy(path: Path, taps: Taps) -> Path:
    for name, value in taps.items():
        np.save(path / f"{name}.npy", value)
    return path


def as_bin(path: Path, taps: Taps) -> Path:
    for name, value in taps.items():
        value.astype("<f4").tofile(path / f"{name}.bin")
    return path


def as_safetensors(path: Path, taps: Taps) -> Path:
    safetensors = pytest.importorskip("safetensors.numpy")
    safetensors.save_file({name: np.ascontiguousarray(value) for name, value in taps.items()}, path / "x.safetensors")
    return path / "x.safetensors"


FORMS = [as_npz, as_compressed, as_npy, as_bin, as_safetensors]


@pytest.mark.parametrize("write", FORMS)
@pytest.mark.parametrize("architecture", ["bitnet-b1.58", "gemma3"])
def test_every_form_is_compared(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], taps_of: Callable[[str], Taps], tmp_path: Path,
    write: Callable[[Path, Taps], Path], architecture: str,
) -> None:  # fmt: skip
    taps = taps_of(architecture)
    result = compare(golden_of(architecture), write(tmp_path, taps), model=model_of(architecture))
    assert result.ok, result.verdict
    assert result.counted("ok") == len(taps)


def test_a_single_npy_is_the_logits(
    golden_of: Callable[[str], Path], taps_of: Callable[[str], Taps], tmp_path: Path
) -> None:
    np.save(tmp_path / "logits.npy", taps_of("llama")["result_output"])
    result = compare(golden_of("llama"), tmp_path / "logits.npy")
    assert result.ok
    assert result.whole is not None
    assert result.whole.relative == 0


def test_bfloat16(tmp_path: Path) -> None:
    value = np.arange(12, dtype=np.float32).reshape(3, 4)
    bits = (value.view(np.uint32) >> 16).astype("<u2").tobytes()
    head = json.dumps({"x": {"dtype": "BF16", "shape": [3, 4], "data_offsets": [0, 24]}}).encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + bits)
    assert np.array_equal(read_dump(tmp_path / "a.safetensors")["x"].value, value)


@pytest.mark.parametrize("kind", [np.float64, np.float16, ">f4"])
def test_other_floats_become_float32(tmp_path: Path, kind: Any) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([1.5, -2.0], dtype=kind))
    value = read_dump(tmp_path / "x.npz")["x"].value
    assert value.dtype == np.float32
    assert value.tolist() == [1.5, -2.0]


def header(shape: str, descr: str = "'<f4'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


HOSTILE = {
    "shape of 2^60": header("(1152921504606846976,)") + bytes(16),
    "negative shape": header("(-4,)") + bytes(16),
    "product that overflows": header("(4294967296, 4294967296, 4294967296)") + bytes(16),
    "objects": header("(1,)", "'|O'") + pickle.dumps([1]),
    "records": header("(1,)", "[('a', '<f4')]") + bytes(4),
    "text": header("(1,)", "'<U4'") + bytes(16),
    "code": header("__import__('os').system('false')") + bytes(16),
    "deep": header("(" * 3000 + ")" * 3000) + bytes(16),
    "cut": header("(100,)") + bytes(16),
    "long header": b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFFF),
    "other version": b"\x93NUMPY\x09\x00" + bytes(20),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("form", ["npz", "folder", "npy"])
def test_hostile_arrays(golden_of: Callable[[str], Path], tmp_path: Path, data: bytes, form: str) -> None:
    path = tmp_path / "dump"
    if form == "npz":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inp_embd.npy", data)
    elif form == "npy":
        path.write_bytes(data)
    else:
        path.mkdir()
        (path / "inp_embd.npy").write_bytes(data)
    with pytest.raises(FormatError) as error:
        compare(golden_of("bitnet-b1.58"), path)
    assert error.value.code == "H103"


def test_a_zip_bomb_takes_no_memory(golden_of: Callable[[str], Path], tmp_path: Path) -> None:
    """A tap of 256 MB of zeros in 1 MB: its shape is not the record's, so that it is never read."""
    count = 1 << 26
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("inp_embd.npy", "w", force_zip64=True) as file,
    ):
        file.write(header(f"({count},)"))
        for _ in range(count * 4 >> 24):
            file.write(bytes(1 << 24))
    tracemalloc.start()
    result = compare(golden_of("bitnet-b1.58"), tmp_path / "bomb.npz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20
    assert result["inp_embd"].status == "shape"
    assert not result.ok


@pytest.mark.parametrize(
    "data", [b"", b"PK\x03\x04" + bytes(40), b"\0" * 64, b"not a dump\n" * 4, b"\xff" * 100, b"12345678{"], ids=range(6)
)
def test_invalid_dumps_are_refused(golden_of: Callable[[str], Path], tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises((SettingError, FormatError)):
        compare(golden_of("bitnet-b1.58"), tmp_path / "x")


def test_missing_records_and_dumps_are_refused(golden_of: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        compare(golden_of("bitnet-b1.58"), tmp_path / "nothing")
    with pytest.raises(SettingError, match="neither a record nor"):
        compare(golden_of("bitnet-b1.58"), tmp_path)
    with pytest.raises(SettingError, match="not a record"):
        compare(tmp_path, golden_of("bitnet-b1.58"))


def test_taps_are_selected_by_a_prefix(
    golden_of: Callable[[str], Path], taps_of: Callable[[str], Taps], tmp_path: Path
) -> None:
    taps = taps_of("llama")
    np.savez(tmp_path / "x.npz", **{f"s0/{name}": value for name, value in taps.items()}, **{"s1/inp_embd": np.ones(3)})
    result = compare(golden_of("llama"), tmp_path / "x.npz", prefix="s0/")
    assert result.ok
    assert not result.counted("missing", "extra")
    with pytest.raises(SettingError, match=r"no tap of .* begins with 's7/'"):
        compare(golden_of("llama"), tmp_path / "x.npz", prefix="s7/")


def test_names_with_control_characters_are_escaped(
    golden_of: Callable[[str], Path], taps_of: Callable[[str], Taps], tmp_path: Path
) -> None:
    from i2s_spec.golden.report import FORMATS, report

    evil = "\x1b]52;c;aGk=\x07<script>alert(1)</script>|`"
    np.savez(tmp_path / "x.npz", **{"inp_embd": taps_of("llama")["inp_embd"], evil: np.ones(3)})
    result = compare(golden_of("llama"), tmp_path / "x.npz")
    assert result.counted("extra") == 1
    for form in FORMATS:
        text = "".join(report(result, form))
        assert "\x1b" not in text
        assert "<script>" not in text or form in ("json", "text")


def test_a_flipped_bit_of_the_record_is_found(
    model_of: Callable[[str], Model], golden_of: Callable[[str], Path], tmp_path: Path
) -> None:
    import shutil

    shutil.copytree(golden_of("llama"), tmp_path / "golden")
    file = tmp_path / "golden" / "taps.safetensors"
    data = bytearray(file.read_bytes())
    data[-1000] ^= 1
    file.write_bytes(data)
    with pytest.raises(SettingError, match="the record is damaged"):
        compare(tmp_path / "golden", golden_of("llama"))


@pytest.mark.parametrize("change", ["huge", "words", "missing"])
def test_hostile_headers(golden_of: Callable[[str], Path], tmp_path: Path, change: str) -> None:
    import shutil

    shutil.copytree(golden_of("llama"), tmp_path / "golden")
    about = json.loads((tmp_path / "golden" / "golden.json").read_text())
    tap = about["taps"]["inp_embd"]
    if change == "huge":
        tap["shape"] = [1 << 40, 1 << 40]
    elif change == "words":
        tap["shape"] = "all"
    else:
        del tap["shape"]
    (tmp_path / "golden" / "golden.json").write_text(json.dumps(about))
    with pytest.raises(SettingError):
        compare(tmp_path / "golden", golden_of("llama"))


def test_a_dump_that_is_read_while_it_is_written(tmp_path: Path) -> None:
    file = io.BytesIO()
    np.savez(file, x=np.ones(100))
    (tmp_path / "x.npz").write_bytes(file.getvalue()[:-40])
    with pytest.raises(FormatError):
        read_dump(tmp_path / "x.npz")
