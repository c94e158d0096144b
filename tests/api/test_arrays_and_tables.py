"""Interchange with other libraries: tensors as NumPy and DLPack arrays, reports as tables, all kinds of inputs."""

from __future__ import annotations

import io
import mmap
import sys
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from malformed_cases import broken

import i2s_spec as i2s
from i2s_spec.linter import report_data
from i2s_spec.testing.sample import ByteOrder, Draft

VALUES = np.arange(12, dtype=np.float32).reshape(3, 4) / 8


def plain(order: ByteOrder = "little") -> bytes:
    out = io.BytesIO()
    with i2s.Writer(out, byte_order=order) as writer:
        prefix = "<" if order == "little" else ">"
        writer.add_tensor("f", (3, 4), "F32", VALUES.astype(prefix + "f4").tobytes())
        halves = (VALUES.view(np.uint32) >> np.uint32(16)).astype(prefix + "u2")
        writer.add_tensor("b", (3, 4), "BF16", halves.tobytes())
    return out.getvalue()


@pytest.fixture(params=["buffer", "path", "big-endian"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> i2s.File:
    if request.param == "path":
        (tmp_path / "a.gguf").write_bytes(plain())
        return i2s.open(tmp_path / "a.gguf")
    return i2s.open(plain("big" if request.param == "big-endian" else "little"))


@pytest.mark.parametrize("name", ["f", "b"])
def test_numpy_takes_plain_tensors(file: i2s.File, name: str) -> None:
    tensor = file.tensors[name]
    assert np.array_equal(np.asarray(tensor), VALUES)
    assert (np.asarray(tensor) + 1).dtype.kind == "f"
    own = np.array(tensor)
    own += 1  # an array of the caller's own
    assert np.array_equal(np.asarray(tensor), VALUES)
    wide = np.asarray(tensor, dtype=np.float64)
    assert wide.dtype == np.float64
    assert np.array_equal(wide, VALUES)
    viewed = name == "f" and file.source.view is not None
    if viewed:
        assert np.shares_memory(np.asarray(tensor, copy=False), np.frombuffer(file.source.view, np.uint8))
        with pytest.raises(ValueError, match="takes a copy"):
            np.asarray(tensor, dtype=np.float64, copy=False)
    else:
        with pytest.raises(ValueError, match="has to be read"):
            np.asarray(tensor, copy=False)


@pytest.mark.parametrize("name", ["f", "b"])
def test_dlpack_takes_plain_tensors(file: i2s.File, name: str) -> None:
    got = np.from_dlpack(file.tensors[name])
    assert np.array_equal(got, VALUES)
    assert got.dtype.isnative
    with pytest.raises(BufferError, match="is read-only"):
        file.tensors[name].__dlpack__(copy=False)


def test_ternary_tensors_are_not_converted_to_arrays_implicitly() -> None:
    tensor = i2s.open(Draft().data).tensors["first.weight"]
    for take in (np.asarray, np.array, np.from_dlpack):
        with pytest.raises(TypeError, match=r"I2_S tensors have no plain elements.*trits\(\)"):
            take(tensor)  # type: ignore[operator]


@pytest.fixture(scope="module")
def reports() -> list[i2s.Report]:
    return [i2s.lint(broken("dup_key")), i2s.lint(Draft().data, select=["G"])]


def test_reports_as_tables(reports: list[i2s.Report]) -> None:
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    for report in reports:
        frame, table = report.to_pandas(), report.to_arrow()
        assert list(frame.columns) == table.column_names == list(report_data.COLUMNS)
        assert len(frame) == table.num_rows == len(report.findings)
        assert str(frame["start"].dtype) == "int64"
        assert table.schema.field("stop").type == arrow.int64()
        assert list(frame["code"]) == table["code"].to_pylist() == [each.code for each in report.findings]
    assert pandas.DataFrame(reports[0].to_arrow().to_pydict()).equals(
        pandas.DataFrame(report_data.columns(reports[0].findings))
    )


def test_tables_need_their_libraries(reports: list[i2s.Report], monkeypatch: pytest.MonkeyPatch) -> None:
    for library, method in (("pandas", reports[0].to_pandas), ("pyarrow", reports[0].to_arrow)):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(ImportError, match=f"the table needs {library}: pip install {library}"):
            method()


def origins(path: Path, stream: BinaryIO) -> dict[str, Any]:
    data = path.read_bytes()
    return {
        "str": str(path), "pathlib": path, "bytes": data, "bytearray": bytearray(data), "memoryview": memoryview(data),
        "numpy": np.frombuffer(data, np.uint8), "memmap": np.memmap(path, np.uint8, "r"), "file": stream,
        "mmap": mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), "BytesIO": io.BytesIO(data), "File": i2s.open(path),
    }  # fmt: skip


def test_every_kind_of_input_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    i2s.new(path, layers=1)
    with path.open("rb") as stream:
        every_form(tmp_path, path, origins(path, stream))


def every_form(tmp_path: Path, path: Path, given: dict[str, Any]) -> None:
    want = i2s.lint(path).findings
    header = i2s.golden.record(path, [1, 2], tmp_path / "golden")
    for name, origin in given.items():
        assert i2s.lint(origin).findings == want, name
        if name != "File":
            assert len(i2s.open(origin).tensors) == 13, name
        assert i2s.identify(origin).dialect == i2s.identify(path).dialect
        assert i2s.load_tokenizer(origin).size == 384, name
        assert i2s.load_model(origin).vocab_size == 384
        copies = [io.BytesIO() for _ in range(3)]
        i2s.rewrite(origin, copies[0])
        i2s.convert_endian(origin, copies[1], "big")
        i2s.fix(origin, copies[2])
        assert copies[0].getvalue() == path.read_bytes(), name
        assert i2s.open(copies[1].getvalue()).byte_order == "big"
    assert i2s.golden.record(given["bytes"], [1, 2], tmp_path / "other")["weights"] == header["weights"]
    i2s.rewrite(source_file=path, target=tmp_path / "b.gguf")
    assert (tmp_path / "b.gguf").read_bytes() == path.read_bytes()
    with pytest.raises(TypeError, match="source_file"):
        i2s.rewrite(target=tmp_path / "c.gguf")  # type: ignore[call-arg]
    with pytest.raises(FileExistsError):
        i2s.rewrite(path, path, force=True)
    assert i2s.open(given["File"]).name == str(path)


def test_a_reader_of_the_gguf_package_is_accepted(tmp_path: Path) -> None:
    """The package opens the file itself, so the file has no type 36."""
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "a.gguf"
    i2s.new(path, layers=1, type="TQ2_0")
    reader = gguf.GGUFReader(path)
    found = i2s.lint(reader)
    assert found.findings == i2s.lint(path).findings
    assert repr(found).startswith(f"<Report '{str(path)[:20]}")
    tensor = i2s.open(reader).tensors["blk.0.attn_q.weight"]
    theirs = next(each for each in reader.tensors if each.name == tensor.name)
    assert tensor.read() == theirs.data.tobytes()


def test_unsuitable_objects_are_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(Draft().data)
    with (tmp_path / "a.gguf").open(encoding="latin-1") as text, pytest.raises(TypeError, match="mode 'rb'"):
        i2s.lint(text)

    class Pipe(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return False

    with pytest.raises(ValueError, match="cannot seek"):
        i2s.open(Pipe())
    with pytest.raises(TypeError, match="from int: a path, contiguous bytes"):
        i2s.open(3)
    with pytest.raises(TypeError, match="from ndarray"):
        i2s.open(np.frombuffer(Draft().data, np.uint8)[::2])
