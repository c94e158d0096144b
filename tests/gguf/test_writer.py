"""The writer writes what was added, in a form that the schema and the reference reader accept."""

from __future__ import annotations

import array
import errno
import io
import shutil
import struct
import tracemalloc
from collections import namedtuple
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_files import ORDERS, written

import i2s_spec as i2s
from i2s_spec.convert.rewrite import rewrite
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema import limits, types
from i2s_spec.schema.types import padded
from i2s_spec.testing.sample import Draft, tensor_info

MIB = 1 << 20


def test_the_layout_of_a_small_file() -> None:
    def fill(writer: Writer) -> None:
        writer.add("k", 1, "u8")
        writer.add_tensor("a", (1, 3), "F32", np.array([[1, 2, 3]], np.float32))
        writer.add_tensor("b", (2, 32), "Q8_0", bytes(range(68)))

    data = written(fill)
    infos = struct.pack("<Q1sIQQiQ", 1, b"a", 2, 3, 1, 0, 0) + struct.pack("<Q1sIQQiQ", 1, b"b", 2, 32, 2, 8, 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 1) + struct.pack("<Q1sIB", 1, b"k", 0, 1) + infos
    start = padded(len(head), 32)
    assert data == (
        head.ljust(start, b"\0") + struct.pack("<3f", 1, 2, 3).ljust(32, b"\0") + bytes(range(68)).ljust(96, b"\0")
    )


def test_a_file_without_tensors_ends_with_its_metadata() -> None:
    assert written(lambda writer: None) == b"GGUF" + struct.pack("<IQQ", 3, 0, 0)
    assert len(written(lambda writer: writer.add("k", 1, "u8"))) == 24 + 14


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("alignment", [None, 8, 16, 32, 64, 4096, limits.MAX_ALIGNMENT])
def test_alignment(alignment: int | None, order: Any) -> None:
    def fill(writer: Writer) -> None:
        writer.add("first", 1)
        for i in range(3):
            writer.add_tensor(f"t{i}", (5,), "I8", bytes([i + 1]) * 5)

    file = open_file(written(fill, alignment=alignment, byte_order=order))
    assert file.alignment == (alignment or 32)
    assert list(file.metadata) == ["first"] + (["general.alignment"] if alignment not in (None, 32) else [])
    assert all(tensor.span.start % (alignment or 32) == 0 for tensor in file.tensors.rows)
    assert [tensor.read() for tensor in file.tensors.rows] == [bytes([i + 1]) * 5 for i in range(3)]
    assert file.size % (alignment or 32) == 0


def test_the_alignment_key_sets_the_alignment() -> None:
    def fill(writer: Writer) -> None:
        writer.add("general.alignment", 64)
        writer.add("last", 1)
        writer.add_tensor("t", (1,), "I8", b"x")

    for options in ({}, {"alignment": 64}):
        file = open_file(written(fill, **options))
        assert list(file.metadata) == ["general.alignment", "last"]
        assert file.metadata.entry("general.alignment").label == "u32"
        assert file.size % 64 == 0
    with pytest.raises(ValueError, match=r"general.alignment is given as 128 and as 64"):
        written(fill, alignment=128)


@pytest.mark.parametrize("alignment", [0, 1, 2, 4, 12, 33, 1 << 21, -8])
def test_alignments_that_cannot_be_are_refused(alignment: int) -> None:
    with pytest.raises(ValueError, match=r"general.alignment is"):
        Writer(io.BytesIO(), alignment=alignment)
    with pytest.raises(ValueError, match="alignment"), Writer(io.BytesIO()) as writer:
        writer.add("general.alignment", alignment)
    with pytest.raises(ValueError, match=r"general.alignment is of type u64"), Writer(io.BytesIO()) as writer:
        writer.add("general.alignment", 32, "u64")


@pytest.mark.parametrize("kind", types.TENSOR_TYPES, ids=lambda kind: f"{kind.number}-{kind.name}")
@pytest.mark.parametrize("order", ORDERS)
def test_every_type_has_its_exact_size(kind: types.TensorType, order: Any) -> None:
    ne = (512, 6)
    size = kind.nbytes(ne)
    body = np.random.default_rng(kind.number).integers(0, 256, size, np.uint8).tobytes()

    def fill(writer: Writer) -> None:
        writer.add_tensor("before", (1,), "I8", b"x")
        writer.add_tensor("t", ne[::-1], kind, body)
        writer.add_tensor("number", ne[::-1], kind.number, body)
        for wrong in (body[:-1], body + b"x", b""):
            with pytest.raises(ValueError, match=rf"tensor 'w': the data has {len(wrong):,} bytes and .* {size:,}"):
                writer.add_tensor("w", ne[::-1], kind, wrong)
        with pytest.raises(ValueError, match="tensor 'w': the data has 7 bytes"):
            writer.add_tensor("w", ne[::-1], kind, body, size=7)

    file = open_file(written(fill, byte_order=order))
    for name in ("t", "number"):
        tensor = file.tensors[name]
        assert (tensor.number, tensor.ne, tensor.shape) == (kind.number, ne, ne[::-1])
        assert tensor.type == kind
        assert tensor.read() == body


def test_types_can_be_given_by_name() -> None:
    file = open_file(written(lambda writer: writer.add_tensor("t", (4, 128), "i2_s", bytes(128 + 32))))
    assert file.tensors["t"].type == types.I2_S
    assert len(file.tensors["t"].tail) == 32


DTYPES = [*types.NUMPY_TYPES.items(), ("BF16", "u2")]


@pytest.mark.parametrize(("name", "dtype"), DTYPES)
@pytest.mark.parametrize("theirs", "<>")
@pytest.mark.parametrize("order", ORDERS)
def test_arrays_of_plain_types_in_any_byte_order(name: str, dtype: str, theirs: str, order: Any) -> None:
    values = np.arange(24, dtype=theirs + dtype).reshape(2, 3, 4)
    for data in (values, values.reshape(-1), values.astype(dtype), np.asfortranarray(values), values[::1, ::1]):
        file = open_file(written(lambda w, data=data: w.add_tensor("t", (2, 3, 4), name, data), byte_order=order))
        mark = "<" if order == "little" else ">"
        assert file.tensors["t"].read() == values.astype(mark + dtype).tobytes()
    strided = np.repeat(values, 2, axis=2)[:, :, ::2]
    file = open_file(written(lambda w: w.add_tensor("t", (2, 3, 4), name, strided), byte_order=order))
    assert file.tensors["t"].shape == (2, 3, 4)
    if name != "BF16":
        assert np.array_equal(file.tensors["t"].array(), values)


def test_arrays_that_are_not_of_the_type_are_refused() -> None:
    with Writer(io.BytesIO()) as writer:
        with pytest.raises(TypeError, match="tensor 't': the data is of dtype float64; F32 takes f4, or bytes"):
            writer.add_tensor("t", (4,), "F32", np.zeros(4))
        with pytest.raises(TypeError, match="of dtype float32; I2_S takes u1, or bytes"):
            writer.add_tensor("t", (4, 128), "I2_S", np.zeros(40, np.float32))
        with pytest.raises(ValueError, match=r"the data has the shape \[3, 2\], not \[2, 3\]"):
            writer.add_tensor("t", (2, 3), "F32", np.zeros((3, 2), np.float32))
        with pytest.raises(TypeError, match="tensor data is bytes, an array or a callable, not list"):
            writer.add_tensor("t", (2,), "F32", [1.0, 2.0])
        writer.add_tensor("t", (2,), "F32", np.zeros(8, np.uint8))
        writer.add_tensor("u", (2, 128), "I2_S", np.zeros((12, 8), np.int8))
        writer.add_tensor("v", (2,), "F32", array.array("f", [1, 2]))


def test_words_of_other_buffers_are_turned_into_the_files_order() -> None:
    values = array.array("f", [1, 2])
    for order in ORDERS:
        file = open_file(written(lambda w: w.add_tensor("t", (2,), "F32", values), byte_order=order))
        assert file.tensors["t"].array().tolist() == [1, 2]
    every_second = memoryview(b"a.b.c.d.")[::2]
    file = open_file(written(lambda w: w.add_tensor("t", (4,), "I8", every_second)))
    assert file.tensors["t"].read() == b"abcd"


@pytest.mark.parametrize("name", ["", "n" * 64, "é" * 32, "a\nb", "a\0", "\x7f", "\x85", "\udcff"])
def test_names_that_the_format_does_not_have_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^tensor "), Writer(io.BytesIO()) as writer:
        writer.add_tensor(name, (1,), "I8", b"x")


def test_a_second_tensor_of_a_name_is_refused() -> None:
    with Writer(io.BytesIO()) as writer:
        writer.add_tensor("n" * 63, (1,), "I8", b"x")
        writer.add_tensor("é" * 31, (1,), "I8", b"x")
        with pytest.raises(ValueError, match="is there already"):
            writer.add_tensor("é" * 31, (1,), "I8", b"x")
        with pytest.raises(TypeError, match="a tensor's name is text"):
            writer.add_tensor(b"t", (1,), "I8", b"x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "kind", "error"),
    [
        ((), "F32", "it has 0 dimensions; 1 to 4 are possible"),
        ((1,) * 5, "F32", "it has 5 dimensions"),
        ((0,), "F32", "every length must be at least 1"),
        ((3, -1), "F32", "every length must be at least 1"),
        ((4, 48), "Q4_0", "its rows have 48 elements; Q4_0 packs blocks of 32"),
        ((32, 4), "Q4_0", "its rows have 4 elements"),
        ((2**32, 2**31), "I8", "there must be fewer than 2.63"),
        ((2**63,), "I8", "there must be fewer than 2.63"),
        ((1,), "Q9_9", "'Q9_9' is not a tensor type"),
        ((1,), 99, "no tensor type has the number 99"),
        ((1,), -1, "no tensor type has the number -1"),
    ],
)
def test_shapes_and_types_that_cannot_be_are_refused(shape: tuple[int, ...], kind: Any, error: str) -> None:
    with pytest.raises(ValueError, match=f"tensor 't': .*{error}"), Writer(io.BytesIO()) as writer:
        writer.add_tensor("t", shape, kind)


def test_more_bytes_than_a_file_has_are_refused() -> None:
    writer = Writer(io.BytesIO())
    for i in range(3):
        writer.add_tensor(f"t{i}", (2**60,), "F32")
    with pytest.raises(ValueError, match="no file can"):
        writer.commit()


def test_no_data_is_zeros() -> None:
    file = open_file(written(lambda writer: writer.add_tensor("t", (MIB + 5,), "I8")))
    assert file.tensors["t"].read() == bytes(MIB + 5)


# Streams, failures, targets.


def streamed(*parts: Any) -> Callable[[], Iterator[Any]]:
    return lambda: iter(parts)


def test_data_can_be_made_when_it_is_written() -> None:
    made: list[str] = []

    def make(name: str) -> Callable[[], Iterator[bytes]]:
        def parts() -> Iterator[bytes]:
            made.append(name)
            yield b"ab"
            yield b""
            yield bytearray(b"c")
            yield np.array([100], np.uint8).data

        return parts

    def fill(writer: Writer) -> None:
        for name in ("a", "b"):
            writer.add_tensor(name, (4,), "I8", make(name), size=4)
        writer.add_tensor("whole", (4,), "I8", lambda: b"whol")
        assert made == []

    file = open_file(written(fill))
    assert made == ["a", "b"]
    assert [tensor.read() for tensor in file.tensors.rows] == [b"abcd", b"abcd", b"whol"]


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ((b"abc",), "the data has 3 bytes and I8 of shape .4. takes 4"),
        ((), "the data has 0 bytes"),
        ((b"abcd", b"e"), "the data has 5 bytes or more and I8 of shape .4. takes 4"),
        ((b"abcde",), "the data has 5 bytes or more"),
    ],
)
def test_streams_of_another_size_leave_no_file(parts: tuple[bytes, ...], error: str, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x.gguf")
    writer.add_tensor("t", (4,), "I8", streamed(*parts))
    writer.add_tensor("after", (4,), "I8", b"abcd")
    with pytest.raises(ValueError, match=f"tensor 't': {error}"):
        writer.commit()
    assert list(tmp_path.iterdir()) == []


def test_an_endless_stream_is_stopped(tmp_path: Path) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield bytes(1000)

    with pytest.raises(ValueError, match="or more"), Writer(tmp_path / "x.gguf") as writer:
        writer.add_tensor("t", (4096,), "I8", endless)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError, GeneratorExit])
@pytest.mark.parametrize("force", [False, True])
def test_a_failure_in_the_middle_leaves_nothing_behind(
    tmp_path: Path, failure: type[BaseException], force: bool
) -> None:
    path = tmp_path / "x.gguf"
    if force:
        path.write_bytes(b"before")
    seen = []

    def fails() -> Iterator[bytes]:
        yield b"ab"
        seen.extend(sorted(tmp_path.iterdir()))
        raise failure

    with pytest.raises(failure), Writer(path, force=force) as writer:
        writer.add_tensor("t", (4,), "I8", fails)
    assert len(seen) == 1 + force
    assert list(tmp_path.iterdir()) == ([path] if force else [])
    assert not force or path.read_bytes() == b"before"


def test_a_failure_in_the_block_writes_nothing(tmp_path: Path) -> None:
    out = io.BytesIO()

    def fails(target: Any) -> None:
        with Writer(target) as writer:
            writer.add("k", 1)
            raise KeyboardInterrupt

    for target in (out, tmp_path / "x.gguf"):
        with pytest.raises(KeyboardInterrupt):
            fails(target)
    assert out.getvalue() == b""
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_refused_at_the_start_and_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    with pytest.raises(FileExistsError, match="there is a file"), Writer(path):
        path.write_bytes(b"theirs")
    with pytest.raises(FileExistsError, match="there is a file"):
        Writer(path)
    assert path.read_bytes() == b"theirs"
    with Writer(path, force=True) as writer:
        writer.add("k", 1)
    assert open_file(path).metadata["k"] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_reported_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: namedtuple("U", "total used free")(1000, 900, 100))
    with pytest.raises(OSError, match="the disk has 100 free") as error, Writer(tmp_path / "x.gguf") as writer:
        writer.add_tensor("t", (4096,), "I8", lambda: pytest.fail("nothing is made for a file without room"))
    assert error.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_chunks_other_than_bytes_are_refused() -> None:
    for part, error in ((np.zeros(2, np.float32), "not words of 4 bytes"), ("abcd", "bytes-like"), (5, "bytes-like")):
        with pytest.raises(TypeError, match=error), Writer(io.BytesIO()) as writer:
            writer.add_tensor("t", (8,), "I8", streamed(part))


@pytest.mark.parametrize("target", [3, None, io.StringIO()])
def test_targets_other_than_paths_and_binary_streams_are_refused(target: Any) -> None:
    with pytest.raises(TypeError, match="written to a path or a binary stream, not to"):
        Writer(target)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"version": 1}, "version 1 is not written"),
        ({"version": 4}, "version 4 is not written"),
        ({"version": 2, "byte_order": "big"}, "version 2 is little-endian"),
        ({"byte_order": "middle"}, "the byte order is 'middle'"),
    ],
)
def test_invalid_versions_and_byte_orders_are_refused(options: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Writer(io.BytesIO(), **options)


@pytest.mark.requirement("R2.3-2")
@pytest.mark.parametrize(("version", "order"), [(2, "little"), (3, "little"), (3, "big")])
def test_versions_and_byte_orders(version: int, order: Any) -> None:
    file = open_file(written(lambda w: w.add("k", 7), version=version, byte_order=order))
    assert (file.version, file.byte_order, file.metadata["k"]) == (version, order, 7)
    assert open_file(written(lambda w: w.add("k", 7), byte_order=order)).version == 3


def test_nothing_is_added_to_a_written_file() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add("k", 1)
        writer.commit()
    assert len(out.getvalue()) == writer.size
    for late in (lambda: writer.add("l", 1), lambda: writer.add_tensor("t", (1,), "I8"), writer.commit):
        with pytest.raises(ValueError, match="has been written or given up"):
            late()


def test_progress_ends_with_the_whole_file(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with Writer(tmp_path / "x.gguf", progress=lambda done, total: told.append((done, total))) as writer:
        writer.add_tensor("t", (5 * MIB + 3,), "I8")
    size = (tmp_path / "x.gguf").stat().st_size
    assert told == sorted(set(told))
    assert told[-1] == (size, size)
    assert 5 <= len(told) <= 8


def test_streams_are_written_with_little_memory(tmp_path: Path) -> None:
    size = 64 * MIB
    tracemalloc.start()
    try:
        with Writer(tmp_path / "x.gguf") as writer:
            writer.add_tensor("made", (size,), "I8", lambda: (bytes(MIB) for _ in range(64)))
            writer.add_tensor("zeros", (size,), "I8")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB
    assert (tmp_path / "x.gguf").stat().st_size > 2 * size


def test_many_keys_and_tensors_take_linear_time() -> None:
    def fill(writer: Writer) -> None:
        for i in range(5000):
            writer.add(f"k{i}", i)
            writer.add_tensor(f"t{i}", (1,), "I8", b"x")

    out = io.BytesIO()
    with Writer(out) as writer:
        fill(writer)
    assert len(open_file(out.getvalue()).tensors) == 5000


# --- the limits of the writer, and the other byte order ---


def test_the_longest_key() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add("k" * 65_535, 7)
        with pytest.raises(ValueError, match="65,536"):
            writer.add("k" * 65_536, 7)
    assert i2s.open(out.getvalue()).metadata["k" * 65_535] == 7


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("by_key", [False, True])
def test_alignment_by_key_and_by_parameter(order: Any, by_key: bool) -> None:
    out = io.BytesIO()
    with Writer(out, byte_order=order, alignment=None if by_key else 4096) as writer:
        if by_key:
            writer.add("general.alignment", 4096, "u32")
        assert writer.alignment == 4096
        writer.add_tensor("a", (3,), "F32", bytes(12))
        writer.add_tensor("b", (3,), "F32", bytes(range(12)))
    file = i2s.open(out.getvalue())
    assert (file.alignment, file.metadata["general.alignment"]) == (4096, 4096)
    assert [tensor.offset for tensor in file.tensors.values()] == [0, 4096]
    assert file.tensors["b"].read() == bytes(range(12))
    assert len(out.getvalue()) == 3 * 4096


@pytest.mark.parametrize("other", [64, 256])
def test_two_alignments(other: int) -> None:
    writer = Writer(io.BytesIO(), alignment=128)
    with pytest.raises(ValueError, match=f"given as 128 and as {other}"):
        writer.add("general.alignment", other, "u32")
    writer.add("general.alignment", 128, "u32")


@pytest.mark.parametrize("tensors", [False, True])
def test_an_alignment_is_stored_with_or_without_tensors(tensors: bool) -> None:
    out = io.BytesIO()
    with Writer(out, alignment=64) as writer:
        if tensors:
            writer.add_tensor("a", (4,), "I8", bytes(4))
    assert i2s.open(out.getvalue()).metadata["general.alignment"] == 64


@pytest.mark.parametrize(
    "copy", [rewrite, partial(rewrite, byte_order="big"), partial(i2s.sanitize, keep_unknown=True)],
    ids=["copy", "other order", "sanitize"],
)  # fmt: skip
def test_a_number_with_two_meanings_keeps_its_own(tmp_path: Path, copy: Callable[[Path, Path], object]) -> None:
    """3 rows of 256 take 204 bytes as Q2_0 in groups of 128 and 216 as Q2_0, and 224 either way where padding follows."""
    old = types.BY_NAME["Q2_0_G128"]
    draft = Draft()
    records = draft.records()
    records.tensor_infos = [tensor_info(b"w", (256, 3), old.number, 0)]
    records.data = b"\0\x3c" * (old.nbytes((256, 3)) // 2)
    data = draft.built(records)
    assert open_file(data).tensors["w"].type is old
    (tmp_path / "a.gguf").write_bytes(data)
    with pytest.raises(ValueError, match="type 42 is Q2_0_G128 here"):
        copy(tmp_path / "a.gguf", tmp_path / "b.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_larger_tensors_decide_the_meaning_of_a_number() -> None:
    old = types.BY_NAME["Q2_0_G128"]
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add_tensor("w", (128, 256), old)
        writer.add_tensor("v", (3, 256), old)  # the same type: the type of most tensors decides
    assert all(tensor.type is old for tensor in open_file(out.getvalue()).tensors.values())
