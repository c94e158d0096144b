"""A copy equals the source except for the requested changes."""

from __future__ import annotations

import gzip
import io
import os
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import written
from examples import some

from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.encode import decode_tensor
from i2s_spec.convert.rewrite import Replacement, Value, convert_endian, rewrite
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema import container as schema
from i2s_spec.schema.types import ValueType

MIB = 1 << 20
SCALE = struct.pack("<f", 0.75)


def model(writer: Writer) -> None:
    writer.add("general.architecture", "bitnet-b1.58")
    writer.add("general.name", b"odd \xff text")
    writer.add("a.count", 7, "u64")
    writer.add("a.tokens", ["a", "b", "ü"])
    writer.add("a.types", [1, -1], "arr[i32]")
    writer.add("a.nested", [[1], [2, 3]], "arr[arr[u16]]")
    writer.add("a.nan", b"\x01\x00\xa0\x7f", "f32")
    writer.add_tensor("norm", (5,), "F32", np.arange(5, dtype=np.float32))
    writer.add_tensor("weight", (2, 128), "I2_S", bytes(range(64)) + SCALE + bytes(range(100, 128)))
    writer.add_tensor("embd", (3, 4), "F16", np.arange(12, dtype=np.float16))


MODEL = written(model)


def copied(data: bytes, **changes: Any) -> bytes:
    out = io.BytesIO()
    rewrite(open_file(data), out, **changes)
    result = out.getvalue()
    assert schema.build(schema.parse(result)) == result
    return result


def content(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    file = open_file(data)
    pairs = {entry.key: data[entry.span.start + 8 + len(entry.name) : entry.span.stop] for entry in file.metadata.rows}
    return pairs, {tensor.name: (tensor.shape, tensor.number, tensor.read()) for tensor in file.tensors.rows}


def test_a_copy_without_changes_is_the_file() -> None:
    assert copied(MODEL) == MODEL
    for options in ({"version": 2}, {"byte_order": "big"}, {"alignment": 128}):
        data = written(model, **options)
        assert copied(data) == data


def test_real_files_are_copied_byte_for_byte(shared: Path, tmp_path: Path) -> None:
    count, paths = 0, sorted([*(shared / "real").glob("*.gguf"), *(shared / "vectors" / "gguf").glob("*.gguf*")])
    for path in some(paths, every=3):
        if path.name.startswith("bitnet-rs.mini"):
            continue
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        target = tmp_path / path.name.removesuffix(".gz")
        with open_file(data if path.suffix == ".gz" else path) as file:
            rewrite(file, target)
        result = target.read_bytes()
        assert content(result) == content(data)
        if "CORRUPT" not in path.name:  # its tensors lie apart
            assert result == data
        again = copied(result)
        assert again == result
        count += 1
    assert count == 15 if some(paths) == paths else count >= 4


class TestKeys:
    def test_a_value_keeps_the_type_of_the_one_it_replaces(self) -> None:
        changes = {"a.count": 8, "a.types": [5], "a.tokens": [], "a.nan": 2, "general.name": "plain", "a.nested": [[9]]}
        file = open_file(data := copied(MODEL, set=changes))
        before = open_file(MODEL)
        assert [(e.key, e.label) for e in file.metadata.rows] == [(e.key, e.label) for e in before.metadata.rows]
        assert file.metadata["a.count"] == 8
        assert file.metadata["a.types"].tolist() == [5]
        assert file.metadata["a.tokens"] == []
        assert file.metadata["a.nan"] == 2.0
        assert file.metadata["general.name"] == "plain"
        assert file.metadata["a.nested"] == [[9]]
        assert content(data)[1] == content(MODEL)[1]

    def test_a_value_that_does_not_fit_the_type_is_refused(self) -> None:
        for key, value in (("a.count", -1), ("a.types", [2**31])):
            with pytest.raises(ValueError, match=rf"key '{key}': .* does not fit"):
                copied(MODEL, set={key: value})
        with pytest.raises(TypeError, match=r"key 'a\.count': u64 takes integers, not text"):
            copied(MODEL, set={"a.count": "8"})

    def test_a_value_may_have_a_type_of_its_own(self) -> None:
        changes = {
            "a.count": Value("str", "eight"),
            "a.types": Value(ValueType.ARRAY, [], "str"),
            "b.new": Value(None, 5),
            "c.new": 1.5,
        }
        file = open_file(copied(MODEL, set=changes))
        labels = {entry.key: entry.label for entry in file.metadata.rows}
        assert list(labels)[-2:] == ["b.new", "c.new"]
        assert list(labels)[:7] == list(open_file(MODEL).metadata)
        assert [labels[key] for key in changes] == ["str", "arr[str]", "u32", "f32"]

    def test_keys_are_renamed_and_dropped_in_place(self) -> None:
        data = copied(MODEL, rename={"a.count": "a.number", "a.nan": "général"}, drop_keys=["a.tokens"])
        pairs, tensors = content(data)
        before = content(MODEL)[0]
        names = {"a.count": "a.number", "a.nan": "général"}
        assert list(pairs.items()) == [(names.get(k, k), v) for k, v in before.items() if k != "a.tokens"]
        assert tensors == content(MODEL)[1]

    def test_keys_can_exchange_their_names(self) -> None:
        pairs = content(copied(MODEL, rename={"a.count": "a.nan", "a.nan": "a.count"}))[0]
        before = content(MODEL)[0]
        assert (pairs["a.nan"], pairs["a.count"]) == (before["a.count"], before["a.nan"])

    def test_keys_are_set_under_their_new_names(self) -> None:
        file = open_file(copied(MODEL, rename={"a.count": "a.number"}, set={"a.number": 9}))
        assert (file.metadata["a.number"], file.metadata.entry("a.number").label) == (9, "u64")
        file = open_file(copied(MODEL, drop_keys=["a.count"], set={"a.count": "new"}))
        assert list(file.metadata)[-1] == "a.count"
        assert file.metadata["a.count"] == "new"

    @pytest.mark.parametrize(
        ("changes", "sort", "error"),
        [
            ({"rename": {"none": "b"}}, KeyError, "the file has no key 'none'"),
            ({"drop_keys": ["none"]}, KeyError, "the file has no key 'none'"),
            ({"drop_tensors": ["none"]}, KeyError, "the file has no tensor 'none'"),
            ({"rename_tensors": {"none": "b"}}, KeyError, "the file has no tensor 'none'"),
            ({"rename": {"a.count": "a.nan"}}, ValueError, "key 'a.nan' would occur twice"),
            ({"rename": {"a.nan": "a.count"}}, ValueError, "key 'a.count' would occur twice"),
            ({"rename_tensors": {"norm": "embd"}}, ValueError, "tensor 'embd' would occur twice"),
            ({"rename_tensors": {"norm": "n" * 64}}, ValueError, "the name has 64 bytes"),
            ({"rename": {"a.nan": "b"}, "drop_keys": ["a.nan"]}, ValueError, "both renamed and dropped"),
            ({"drop_keys": "a.nan"}, TypeError, "keys to drop must be a list"),
            ({"drop_tensors": "norm"}, TypeError, "tensors to drop must be a list"),
            ({"byte_order": "middle"}, ValueError, "the byte order is 'middle'"),
            ({"alignment": 12}, ValueError, "not a power of two"),
        ],
    )
    def test_impossible_changes_are_refused(
        self, changes: dict[str, Any], sort: type[Exception], error: str, tmp_path: Path
    ) -> None:
        with pytest.raises(sort, match=error):
            rewrite(open_file(MODEL), tmp_path / "x.gguf", **changes)
        assert list(tmp_path.iterdir()) == []


class TestTensors:
    def test_tensors_are_renamed_and_dropped_in_place(self) -> None:
        data = copied(MODEL, rename_tensors={"weight": "blk.0.weight"}, drop_tensors=["norm"])
        pairs, tensors = content(data)
        before = content(MODEL)[1]
        assert list(tensors.items()) == [("blk.0.weight", before["weight"]), ("embd", before["embd"])]
        assert pairs == content(MODEL)[0]
        assert open_file(data).tensors["blk.0.weight"].offset == 0

    def test_all_tensors_can_be_dropped(self) -> None:
        data = copied(MODEL, drop_tensors=["norm", "weight", "embd"])
        assert content(data) == (content(MODEL)[0], {})
        assert len(data) == open_file(data).infos_end

    @pytest.mark.parametrize("alignment", [8, 32, 64, 4096])
    @pytest.mark.parametrize("before", [None, 8, 128])
    def test_a_new_alignment_lays_the_tensors_out_anew(self, alignment: int, before: int | None) -> None:
        source = written(model, alignment=before)
        data = copied(source, alignment=alignment)
        file = open_file(data)
        assert file.alignment == alignment
        assert all(tensor.span.start % alignment == 0 for tensor in file.tensors.rows)
        assert content(data)[1] == content(source)[1]
        assert ("general.alignment" in file.metadata) == (before is not None or alignment != 32)
        assert list(file.metadata)[:7] == list(open_file(MODEL).metadata)
        assert copied(data, alignment=alignment) == data
        if before is None:
            assert copied(data, alignment=32, drop_keys=["general.alignment"] if alignment != 32 else []) == source

    def test_the_alignment_can_be_set_by_its_key(self) -> None:
        assert copied(MODEL, set={"general.alignment": 64}) == copied(MODEL, alignment=64)
        assert copied(MODEL, set={"general.alignment": 64}, alignment=64) == copied(MODEL, alignment=64)
        with pytest.raises(ValueError, match=r"general\.alignment is given as 128 and as 64"):
            copied(MODEL, set={"general.alignment": 64}, alignment=128)
        aligned = written(model, alignment=64)
        assert copied(aligned, drop_keys=["general.alignment"]) == MODEL
        renamed = open_file(copied(aligned, rename={"general.alignment": "old"}))
        assert (renamed.alignment, renamed.metadata["old"]) == (32, 64)

    def test_an_alignment_that_loaders_take_and_the_format_does_not_must_be_changed(self) -> None:
        data = written(lambda writer: writer.add("general.alignment", 64)).replace(
            struct.pack("<I", 64), struct.pack("<I", 4)
        )
        assert open_file(data).alignment == 4
        with pytest.raises(ValueError, match="multiple of 8"):
            copied(data)
        assert open_file(copied(data, alignment=32)).metadata["general.alignment"] == 32

    @pytest.mark.filterwarnings("ignore::i2s_spec.errors.ReadOnWarning")  # what follows may be weights
    def test_gaps_and_what_follows_the_tensors_are_not_copied(self) -> None:
        parsed = schema.parse(MODEL)
        parsed.tensor_infos[2].offset += 64
        last = open_file(MODEL).tensors["embd"].offset
        parsed.data = parsed.data[:last] + b"\xaa" * 64 + parsed.data[last:] + b"trailing"
        parsed.padding = b"\x55" * len(parsed.padding)
        assert copied(schema.build(parsed)) == MODEL


class TestSourcesThatAreRefused:
    def refused(self, data: bytes, tmp_path: Path, sort: type[Exception], error: str, **changes: Any) -> None:
        with pytest.raises(sort, match=error):
            rewrite(File(BufferSource(data)), tmp_path / "x.gguf", **changes)
        assert list(tmp_path.iterdir()) == []

    def test_a_file_with_a_fault(self, tmp_path: Path) -> None:
        for cut in (0, 10, 30, len(MODEL) // 4):
            self.refused(MODEL[:cut], tmp_path, FormatError, "^[GS]")

    def test_a_file_without_all_its_data(self, tmp_path: Path) -> None:
        data = written(model, alignment=128)
        span = open_file(data).tensors["embd"].span
        self.refused(data[: span.stop - 1], tmp_path, FormatError, "G401")
        self.refused(data[: span.start - 1], tmp_path, FormatError, "G402")
        kept = copied(data[: span.stop - 1], drop_tensors=["embd"])
        assert kept == copied(data, drop_tensors=["embd"])

    def test_duplicates(self, tmp_path: Path) -> None:
        parsed = schema.parse(MODEL)
        parsed.key_values[2].key = b"a.types"
        parsed.tensor_infos[0].name = b"embd"
        data = schema.build(parsed)
        self.refused(data, tmp_path, ValueError, "key 'a.types' occurs twice in the file")
        self.refused(data, tmp_path, ValueError, "tensor 'embd' occurs twice in the file", drop_keys=["a.types"])
        both = {"drop_keys": ["a.types"], "drop_tensors": ["embd"]}
        assert list(content(copied(data, **both))[1]) == ["weight"]

    def test_types_of_unknown_size(self, tmp_path: Path) -> None:
        parsed = schema.parse(MODEL)
        parsed.tensor_infos[1].type = 99
        data = schema.build(parsed)
        self.refused(data, tmp_path, FormatError, "G313")
        assert list(content(copied(data, drop_tensors=["weight"]))[1]) == ["norm", "embd"]

    def test_tensors_that_share_bytes(self, tmp_path: Path) -> None:
        """A table of many rows over the same bytes would make a small file large."""
        parsed = schema.parse(MODEL)
        parsed.tensor_infos[2].offset = parsed.tensor_infos[1].offset + 32
        self.refused(schema.build(parsed), tmp_path, ValueError, "tensors 'weight' and 'embd' share bytes")
        parsed.tensor_infos[2].offset = parsed.tensor_infos[1].offset
        self.refused(
            schema.build(parsed), tmp_path, ValueError, "tensors '(weight|embd)' and '(weight|embd)' share bytes"
        )

    def test_a_file_that_changes_meanwhile(self, tmp_path: Path) -> None:
        path = tmp_path / "source.gguf"
        path.write_bytes(written(lambda writer: writer.add_tensor("t", (3 * MIB,), "I8")))

        def change(done: int, total: int) -> None:
            os.utime(path, ns=(1, 1))

        with pytest.raises(FormatError, match="S903"), open_file(path) as file:
            rewrite(file, tmp_path / "x.gguf", progress=change)

        def cut_and_rewrite() -> None:
            with open_file(path) as file:
                path.write_bytes(b"short")
                rewrite(file, tmp_path / "x.gguf")

        with pytest.raises(FormatError, match="S903"):
            cut_and_rewrite()
        assert list(tmp_path.iterdir()) == [path]

    def test_metadata_that_changes_meanwhile(self, tmp_path: Path) -> None:
        class Restless(BufferSource):
            def changed(self) -> str | None:
                return "it was written to"

        with pytest.raises(FormatError, match="S903"):
            rewrite(open_file(Restless(written(lambda writer: writer.add("k", 1)))), tmp_path / "x.gguf")
        assert list(tmp_path.iterdir()) == []


class TestTargets:
    @pytest.mark.parametrize("force", [False, True])
    @pytest.mark.parametrize("trusted", [False, True])
    @pytest.mark.parametrize("name", ["x.gguf", "hard.gguf", "soft.gguf"])
    def test_the_source_is_never_replaced_by_its_copy(
        self, tmp_path: Path, name: str, trusted: bool, force: bool
    ) -> None:
        path = tmp_path / "x.gguf"
        path.write_bytes(MODEL)
        os.link(path, tmp_path / "hard.gguf")
        (tmp_path / "soft.gguf").symlink_to(path)
        with open_file(path, trusted=trusted) as file:
            for write in (
                lambda to: rewrite(file, to, drop_tensors=["norm"], force=force),
                lambda to: convert_file(file, to, force=force),
                lambda to: convert_endian(file, to, "big", force=force),
                lambda to: decode_tensor(file, "norm", to, form="float32", force=force),
            ):
                with pytest.raises(FileExistsError, match="this is an input file"):
                    write(tmp_path / name)
        assert path.read_bytes() == MODEL
        assert len(list(tmp_path.iterdir())) == 3

    def test_a_stream_onto_the_source_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "x.gguf"
        path.write_bytes(MODEL)
        with open_file(path) as file, path.open("r+b") as stream, pytest.raises(ValueError, match="half-written"):
            rewrite(file, stream, force=True)
        memory = io.BytesIO(MODEL)
        with pytest.raises(ValueError, match="half-written"):
            rewrite(open_file(memory), memory)
        assert path.read_bytes() == memory.getvalue() == MODEL

    @pytest.mark.parametrize("force", [False, True])
    def test_an_interrupted_copy_leaves_nothing_behind(self, tmp_path: Path, force: bool) -> None:
        path = tmp_path / "x.gguf"
        if force:
            path.write_bytes(b"before")

        def interrupt(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            rewrite(open_file(MODEL), path, force=force, progress=interrupt)
        assert list(tmp_path.iterdir()) == ([path] if force else [])
        assert not force or path.read_bytes() == b"before"

    def test_tensors_pass_through_in_parts(self, tmp_path: Path) -> None:
        source, target = tmp_path / "source.gguf", tmp_path / "target.gguf"
        with Writer(source) as writer:
            for i in range(3):
                writer.add_tensor(f"t{i}", (32 * MIB,), "I8", lambda i=i: (bytes([i]) * MIB for _ in range(32)))
        with open_file(source) as file:
            tracemalloc.start()
            try:
                rewrite(file, target, set={"k": 1})
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        assert peak < 4 * MIB
        with open_file(target) as file:
            assert [set(tensor.read()) for tensor in file.tensors.rows] == [{0}, {1}, {2}]


def test_data_is_replaced_and_the_rest_copied() -> None:
    new = bytes(range(100, 164)) + SCALE + bytes(28)
    result = copied(MODEL, replace={"weight": Replacement("I2_S", lambda: iter([new[:50], new[50:]]))})
    before, after = open_file(MODEL), open_file(result)
    assert after.tensors["weight"].read() == new
    assert [tensor.read() for name, tensor in before.tensors.items() if name != "weight"] == [
        tensor.read() for name, tensor in after.tensors.items() if name != "weight"
    ]
    halves = np.arange(256, dtype=np.float16).tobytes()
    wider = open_file(copied(MODEL, replace={"weight": Replacement("F16", lambda: iter([halves]))}))
    assert wider.tensors["weight"].shape == (2, 128)
    assert wider.tensors["embd"].read() == before.tensors["embd"].read()


def test_data_is_replaced_under_a_new_name_and_in_another_byte_order() -> None:
    data = np.arange(5, dtype=">f4").tobytes()
    result = copied(
        MODEL,
        byte_order="big",
        rename_tensors={"norm": "gains"},
        replace={"norm": Replacement("F32", lambda: iter([data]))},
    )
    assert open_file(result).tensors["gains"].array().tolist() == [0, 1, 2, 3, 4]


def test_only_tensors_that_are_there_are_replaced() -> None:
    with pytest.raises(KeyError, match="no tensor 'nothing'"):
        copied(MODEL, replace={"nothing": Replacement("F32", lambda: iter([b""]))})
    with pytest.raises(ValueError, match=r"takes 20$"):
        copied(MODEL, replace={"norm": Replacement("F32", lambda: iter([bytes(7)]))})
