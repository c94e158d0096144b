"""Whole files of the writer: properties, the reference reader and writer, and real files written again."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from examples import examples, some
from hypothesis import given
from hypothesis import strategies as st
from written_files import INTEGERS, ORDERS, written

from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema import types
from i2s_spec.schema.types import ValueType, padded

texts = st.text(st.characters(codec="utf-8"), max_size=8)
leaves = {
    "bool": st.booleans(), "str": texts, "f32": st.floats(width=32, allow_nan=False), "f64": st.floats(allow_nan=False),
    **{label: st.integers(*bounds) for label, bounds in INTEGERS.items()},
}  # fmt: skip
scalars = st.sampled_from(sorted(leaves)).flatmap(lambda label: st.tuples(st.just(label), leaves[label]))
arrays = st.sampled_from(sorted(leaves)).flatmap(
    lambda label: st.tuples(st.just(f"arr[{label}]"), st.lists(leaves[label], max_size=5))
)
nested = st.sampled_from(sorted(leaves)).flatmap(
    lambda label: st.tuples(st.just(f"arr[arr[{label}]]"), st.lists(st.lists(leaves[label], max_size=3), max_size=3))
)
keys = st.dictionaries(st.from_regex(r"[a-z_.]{1,8}", fullmatch=True), scalars | arrays | nested, max_size=6)
tensor_names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=15)
shapes = st.lists(st.integers(1, 3), min_size=0, max_size=3).map(tuple)
tensors = st.dictionaries(tensor_names, st.tuples(st.sampled_from(types.TENSOR_TYPES), shapes, st.binary()), max_size=5)
layouts = st.sampled_from([(2, "little"), (3, "little"), (3, "big")])


@given(keys, tensors, layouts, st.sampled_from([None, 8, 32, 128]))
@examples(60)
def test_added_keys_and_tensors_are_read_back(
    keys: dict[str, Any], tensors: dict[str, Any], layout: tuple[int, Any], alignment: int | None
) -> None:
    bodies = {}

    def fill(writer: Writer) -> None:
        for key, (label, value) in keys.items():
            writer.add(key, value, label)
        for name, (kind, lengths, seed) in tensors.items():
            shape = (*lengths, 256)
            size = kind.nbytes(shape[::-1])
            bodies[name] = (shape, kind, (seed * size)[:size].ljust(size, b"\x5a"))
            writer.add_tensor(name, shape, kind, bodies[name][2])

    refused = ""
    try:
        made = written(fill, version=layout[0], byte_order=layout[1], alignment=alignment)
    except ValueError as error:
        refused = str(error)
    if refused:  # several types share this number and have the same size in this file
        assert "both have room" in refused
        assert any(
            padded(other.nbytes(shape[::-1]), alignment or 32) == padded(len(body), alignment or 32)
            for shape, kind, body in bodies.values()
            for other in types.READINGS[kind.number]
            if other.name != kind.name and shape[-1] % other.block == 0
        )
        return
    file = open_file(made)
    expected = {key: value for key, (_, value) in keys.items()}
    if alignment not in (None, 32):
        expected["general.alignment"] = alignment
    found = {key: v.tolist() if isinstance(v, np.ndarray) else v for key, v in file.metadata.items()}
    assert list(found.items()) == list(expected.items())
    assert list(file.tensors) == list(bodies)
    for name, (shape, kind, body) in bodies.items():
        tensor = file.tensors[name]
        assert (tensor.shape, tensor.number) == (shape, kind.number)
        rooms = [padded(reading.nbytes(tensor.ne), file.alignment or 32) for reading in types.READINGS[kind.number]]
        if len(rooms) == len(set(rooms)):  # otherwise the sizes do not tell which fork's type is meant
            assert tensor.type == kind
            assert tensor.read() == body


# The reference implementation.

THEIRS = {kind.name: kind for kind in gguf.GGMLQuantizationType}
#: The types that both know, except Q8_1: the package still has the former 40 bytes, with float32 instead of float16.
GGUF_TYPES = [kind for kind in types.TENSOR_TYPES if kind.name in THEIRS and kind.name != "Q8_1"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("alignment", [None, 128])
def test_the_reference_reader_reads_what_we_write(tmp_path: Path, order: Any, alignment: int | None) -> None:
    rng = np.random.default_rng(1)
    values = {
        "general.architecture": ("bitnet-b1.58", "str"), "a.u8": (200, "u8"), "a.i8": (-3, "i8"), "a.u16": (60000, "u16"),
        "a.i16": (-300, "i16"), "a.u32": (2**31, "u32"), "a.i32": (-(2**31), "i32"), "a.u64": (2**63, "u64"),
        "a.i64": (-(2**63), "i64"), "a.f32": (0.5, "f32"), "a.f64": (0.1, "f64"), "a.bool": (True, "bool"),
        "a.strings": (["a", "é", "", "\U0001f600"], "arr[str]"), "a.ints": ([1, -2, 3], "arr[i32]"),
        "a.floats": ([0.5, -1.5], "arr[f32]"), "a.bools": ([True, False], "arr[bool]"), "a.bytes": ([0, 255], "arr[u8]"),
    }  # fmt: skip
    path = tmp_path / "x.gguf"
    bodies = {}
    with Writer(path, byte_order=order, alignment=alignment) as writer:
        for key, (value, label) in values.items():
            writer.add(key, value, label)
        for kind in GGUF_TYPES:
            shape = (3, 2, 256)
            body = rng.integers(0, 60, kind.nbytes(shape[::-1]), np.uint8).tobytes()
            bodies[kind.name] = body
            writer.add_tensor(kind.name.lower(), shape, kind, body)
    reader = gguf.GGUFReader(path)
    for key, (value, _) in values.items():
        assert reader.fields[key].contents() == value
    assert reader.alignment == (alignment or 32)
    assert len(reader.tensors) == len(GGUF_TYPES) > 25
    for tensor in reader.tensors:
        assert tensor.tensor_type.name.lower() == tensor.name
        assert tensor.shape.tolist() == [256, 2, 3]
        assert tensor.data.tobytes() == bodies[tensor.tensor_type.name]


@pytest.mark.parametrize("order", ORDERS)
def test_we_read_what_the_reference_writer_writes_and_write_the_same(tmp_path: Path, order: Any) -> None:
    endian = gguf.GGUFEndian.BIG if order == "big" else gguf.GGUFEndian.LITTLE
    theirs, ours = tmp_path / "theirs.gguf", tmp_path / "ours.gguf"
    rng = np.random.default_rng(2)
    plain = {
        "f32": rng.standard_normal((3, 4)).astype(np.float32), "f16": rng.standard_normal((2, 3, 4)).astype(np.float16),
        "i8": rng.integers(-128, 128, (5,), np.int8), "i16": rng.integers(-999, 999, (5, 1)).astype(np.int16),
        "i32": rng.integers(-999, 999, (1, 5)).astype(np.int32), "i64": rng.integers(-9, 9, (7,)).astype(np.int64),
        "f64": rng.standard_normal((3,)),
    }  # fmt: skip
    packed = rng.integers(0, 256, (4, 34), np.uint8)

    reference = gguf.GGUFWriter(theirs, "llama", endianess=endian)
    reference.add_uint32("llama.block_count", 7)
    reference.add_array("tokenizer.ggml.tokens", ["a", "bé", "c"])
    reference.add_array("tokenizer.ggml.scores", [0.5, -1.0])
    reference.add_bool("tokenizer.ggml.add_bos_token", True)
    for name, values in plain.items():
        reference.add_tensor(name, values)
    reference.add_tensor("q8_0", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    reference.write_header_to_file()
    reference.write_kv_data_to_file()
    reference.write_tensors_to_file()
    reference.close()

    with open_file(theirs) as file:
        assert file.byte_order == order
        assert file.metadata["tokenizer.ggml.tokens"] == ["a", "bé", "c"]
        for name, values in plain.items():
            assert np.array_equal(file.tensors[name].array(), values)
        assert file.tensors["q8_0"].read() == packed.tobytes()
        with Writer(ours, byte_order=order) as writer:
            for entry in file.metadata.rows:
                kind = f"arr[{ValueType(entry.element).label}]" if entry.element >= 0 else entry.type
                writer.add(entry.key, file.metadata[entry.key], kind)
            for name, values in plain.items():
                writer.add_tensor(name, values.shape, name, values)
            writer.add_tensor("q8_0", (4, 32), "Q8_0", packed)
    assert ours.read_bytes() == theirs.read_bytes()


def test_every_real_file_can_be_written_again_from_its_values(shared: Path) -> None:
    count, paths = 0, sorted([*(shared / "real").glob("*.gguf"), *(shared / "vectors" / "gguf").glob("*.gguf")])
    for path in some(paths, every=3):
        data = path.read_bytes()
        file = File(BufferSource(data))
        if file.fault is not None or "CORRUPT" in path.name or path.name.startswith("bitnet-rs"):
            continue

        def fill(writer: Writer, file: File = file) -> None:
            for entry in file.metadata.rows:
                writer.add(entry.key, file.metadata[entry.key], entry.label)
            for tensor in file.tensors.rows:
                values = tensor.array() if tensor.type and tensor.type.is_plain else tensor.read()
                writer.add_tensor(tensor.name, tensor.shape, tensor.number, values)

        assert written(fill) == data
        count += 1
    assert count >= (11 if some(paths) == paths else 2)


def test_lists_and_bytes_are_written_without_numpy(tmp_path: Path) -> None:
    program = """
        import sys
        from i2s_spec.gguf.writer import Writer
        with Writer(sys.argv[1]) as writer:
            writer.add("a", [1, 2], "arr[i32]")
            writer.add("b", [[0.5], []], "arr[arr[f32]]")
            writer.add_tensor("t", (4,), "I8", lambda: iter([b"abcd"]))
        sys.exit("numpy" in sys.modules or "construct" in sys.modules)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "x.gguf")]
    assert subprocess.run(command, check=False).returncode == 0
