"""The ImHex pattern decodes real files, with an evaluator of the part of the language that it uses."""

from __future__ import annotations

import math
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from block_files import TYPES, file_of_blocks, files_of_small_tensors
from hexpat_evaluator import Pattern, PatternError
from malformed_cases import broken

from i2s_spec.codec import blocks as block_reference
from i2s_spec.exports import export
from i2s_spec.exports.imhex import NUMBERS
from i2s_spec.exports.json_form import fixed_offsets, records
from i2s_spec.gguf.reader import open as opened
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CANONICAL, LAYOUTS
from i2s_spec.schema.i2s import codes_of
from i2s_spec.schema.types import I2_S, ValueType, reading
from i2s_spec.testing.sample import ByteOrder, Draft, array, key_value

PATTERN = export("hexpat")


def check(data: bytes, origin: Path | bytes) -> None:
    """Everything that our own reader finds is where the pattern shows it."""
    found = Pattern(PATTERN, data).main
    with opened(origin) as file:
        mark = "<" if file.byte_order == "little" else ">"
        assert (found["header"]["magic"], found["header"]["version"]) == ("GGUF", file.version)
        assert (found["alignment"], found["data_start"]) == (file.alignment, file.data_start)
        index = file.index
        for i, pair in enumerate(found["key_values"]):
            entry = index.key(i)
            assert (pair["key"]["text"].encode("latin-1"), pair["type"]) == (entry.name, entry.type)
            assert (pair.start, pair.start + pair.size) == entry.span[:2]
        assert len(found["key_values"]) == index.keys
        assert len(found["tensors"]) == index.tensors
        for i, (info, shown) in enumerate(zip(found["tensor_infos"], found["tensors"], strict=True)):
            seen = index.tensor(i)
            assert (info.start, info.start + info.size) == seen.span[:2]
            assert info["name"]["text"].encode("latin-1") == seen.name
            assert (tuple(info["ne"]), info["type"], info["offset"]) == (seen.ne, seen.type, seen.offset)
            assert ("data" in shown) == (seen.type == I2_S.number)
            if seen.type == I2_S.number:
                tensor, laid = file.tensors.by_index(i), shown["data"]
                assert (laid.start, laid.size) == (tensor.span.start, len(tensor.read()))
                assert laid["tail"]["scale"] == struct.unpack(f"{mark}f", tensor.tail[:4])[0]
                assert bytes(laid["tail"]["unused"]) == bytes(tensor.tail[4:])
                lanes = [tuple(lane.values())[::-1] for lane in laid["payload"]]
                assert lanes == [codes_of(byte) for byte in bytes(tensor.payload)]


@pytest.mark.parametrize("last", ["i2s", "f32"])
@pytest.mark.parametrize("order", ["little", "big"])
def test_small_files(order: ByteOrder, last: str) -> None:
    data = Draft(order, last).data
    check(data, data)


def test_values_of_every_type_and_another_alignment() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values += [
        key_value(b"general.alignment", ValueType.UINT32, 128),
        key_value(b"general.alignment", ValueType.UINT32, 64),
        *(
            key_value(b"sample.%d" % kind, kind, b"x" if kind == ValueType.STRING else 1)
            for kind in ValueType
            if kind != ValueType.ARRAY
        ),
        key_value(b"sample.nested", ValueType.ARRAY, array(ValueType.ARRAY, [array(ValueType.UINT8, [1, 2])])),
    ]
    data = draft.built(file, 128)
    found = Pattern(PATTERN, data).main
    assert (found["alignment"], found["data_start"] % 128) == (128, 0)
    assert found["key_values"][-1]["value"]["items"][0]["items"] == [1, 2]
    assert found["tensors"][1]["data"]["tail"]["scale"] == 0.75


def test_real_files(shared: Path) -> None:
    for name in ("bitnet.i2_s.gguf", "bitnet-25.i2_s.arm64block.gguf"):
        path = shared / "vectors" / "gguf" / name
        check(path.read_bytes(), path)
    path = min((shared / "real").glob("ggml-vocab-*.gguf"), key=lambda path: path.stat().st_size)
    check(path.read_bytes(), path)


def test_cut_files_are_an_error_of_the_pattern() -> None:
    data = Draft().data
    for size in range(24, len(data), 31):
        with pytest.raises(PatternError, match="are not in the file"):
            Pattern(PATTERN, data[:size])
    for name in ("kv_type_bad", "arr_type_bad"):
        with pytest.raises(PatternError, match="no value has this type"):
            Pattern(PATTERN, broken(name))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=str)
def test_functions_say_where_elements_are(layout: Any) -> None:
    call = Pattern(PATTERN, Draft().data).functions
    name = layout.name.replace("-", "_")
    rows, cols = 8, 128
    for k in range(rows * cols):
        assert call[f"byte_of_{name}"](k, rows, cols) == layout.byte_of(k, rows, cols)
        assert call[f"shift_of_{name}"](k, rows, cols) == layout.shift_of(k, rows, cols)


def test_codes_are_shown_as_trits() -> None:
    pattern = Pattern(PATTERN, Draft().data)
    said = [pattern.functions["trit"](code) for code in range(4)]
    words = {-1: "-1", 0: "0", 1: "+1", None: "undefined"}
    assert said == [words[trit] for trit in CANONICAL.code_map.trits]
    assert pattern.functions["shown"](pattern.main["key_values"][0]["key"]) == "general.architecture"


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("other", ["", "Q2_0"])
def test_types_with_a_scale_for_each_group(order: ByteOrder, other: str) -> None:
    """Weights and scales of every element as the definition has them, by the functions and as they are shown."""
    data = file_of_blocks([name for name in TYPES if name != other], order)
    pattern = Pattern(PATTERN, data)
    call = pattern.functions
    with opened(data) as file:
        for tensor, shown in zip(file.tensors.values(), pattern.main["tensors"], strict=True):
            if tensor.name == "last":
                assert "data" not in shown
                continue
            layout, laid = GROUP_LAYOUTS[tensor.kind], shown["data"]
            rows = laid["each_row"] if layout.scale.apart else laid
            assert (laid.size if layout.scale.apart else sum(row.size for row in rows)) == tensor.nbytes
            values, scales = block_reference.unpack(tensor.read(), tensor.shape, tensor.kind, byte_order=order)
            blocks = [block for row in rows for block in row["blocks"]]
            weights = [f"{value:+d}" if value else "0" for value in values.reshape(-1).tolist()]
            for i in (0, len(blocks) - 1):
                codes = [call[f"code_of_{layout}"](blocks[i].start, k) for k in range(layout.block)]
                wanted = weights[i * layout.block : (i + 1) * layout.block]
                assert [call["weight"](code) for code in codes] == wanted, tensor.name
            with_scale = rows if layout.scale.per == "row" else blocks
            held = laid["scales"] if layout.scale.apart else [each["scale"] for each in with_scale]
            assert (held if layout.scale.type == "F32" else [call["half"](bits) for bits in held]) == scales.tolist()
            for byte in range(len(blocks[0]["codes"])):  # each byte must show all its codes
                at = byte + (layout.scale.nbytes if (layout.scale.per, layout.scale.offset) == ("block", 0) else 0)
                mine = {layout.find(k)[1]: weights[k] for k in range(layout.block) if layout.find(k)[0] == at}
                code = blocks[0]["codes"][byte]
                lane = (
                    [call["weight"](pair) for pair in code.values()]
                    if layout.coding == "bits"
                    else call["digits"](code).split()
                )
                places = range(0, 8, 2) if layout.coding == "bits" else range(5)
                assert all(lane[i] == mine[place] for i, place in enumerate(places) if place in mine)


def test_small_tensors_get_the_type_of_others_in_the_file() -> None:
    """Where several types fit, the type is the library's, or the first that fits where tensors are out of order."""
    decided = set()
    for data in files_of_small_tensors("little", 24):
        pattern = Pattern(PATTERN, data)
        with opened(data) as file:
            rows = list(file.tensors.values())
            if any(tensor.type is None for tensor in rows):  # one block alone, in which nothing decides
                continue
            in_order = all(a.offset < b.offset for a, b in pairwise(rows))
            for tensor, shown in zip(rows, pattern.main["tensors"], strict=True):
                room = file.tensors.allotted_bytes(tensor.offset)
                likeliest = str(reading(tensor.number, tensor.ne, room, file.alignment))
                wanted = tensor.kind if in_order else likeliest
                if wanted not in GROUP_LAYOUTS:
                    assert "data" not in shown
                    continue
                laid = shown["data"]
                assert ("scales" in laid) == (wanted == "I2_SR")
                if wanted != "I2_SR":
                    assert len(laid[0]["blocks"]) == tensor.shape[-1] // GROUP_LAYOUTS[wanted].block
                if in_order and tensor.kind != likeliest:
                    decided.add(tensor.kind)
    assert decided == {"I2_SR", "Q2_0_G128"}


def test_float16_values_are_shown() -> None:
    half = Pattern(PATTERN, Draft().data).functions["half"]
    for bits in [*range(0, 1 << 16, 97), 0x0001, 0x03FF, 0x0400, 0x7BFF, 0x8001, 0xFBFF]:
        (number,) = struct.unpack("<e", struct.pack("<H", bits))
        words = {math.inf: "infinity", -math.inf: "-infinity"}.get(number, number)
        assert half(bits) == ("NaN" if math.isnan(number) else words)


@pytest.mark.parametrize("title", ["Header", "Tail"])
def test_records_have_the_sizes_of_the_schema(title: str) -> None:
    """Of records without strings: each field where the schema says, and as large."""
    record = next(record for record in records() if record.title == title)
    data = Draft().data
    main = Pattern(PATTERN, data).main
    laid = main["header"] if title == "Header" else main["tensors"][1]["data"]["tail"]
    fields = list(fixed_offsets(record))
    assert laid.size == sum(shape.size or 0 for _, shape, _ in fields)
    for field, shape, offset in fields:
        assert offset is not None
        raw = data[laid.start + offset : laid.start + offset + (shape.size or 0)]
        if shape.kind == "number":
            form = {"u32": "<I", "u64": "<Q", "f32": "<f"}[shape.number]
            assert shape.number in NUMBERS
            assert laid[field.name] == struct.unpack(form, raw)[0]


BROKEN = [
    ("struct Array {", "struct Arrey {", "Array|operand|wanted"),
    ("import std.io;", "", "no library that is imported has std::error"),
    ("u64 count;", "u65 count;", "u65|wanted|declared"),
    ("Tail tail;", "Teil tail;", "wanted|declared"),
    ("};\n\nHeader header", "}\n\nHeader header", "; is wanted"),
    ('[[format("trit")]]', '[[format("trits")]]', "no function formats"),
    ("bool alignment_said = false;", "", "alignment_said is not declared"),
    ("n / 4]", "n / 3]", ""),
    ("$ + alignment - 1", "$ - 1", ""),
    ("fn fits(u128 i", "fn fit(u128 i", "fits is called before it is declared"),
]


@pytest.mark.parametrize(("text", "other", "said"), BROKEN)
def test_a_broken_pattern_is_noticed(text: str, other: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert text in PATTERN
    monkeypatch.setitem(globals(), "PATTERN", PATTERN.replace(text, other))
    data = Draft().data
    if said:
        with pytest.raises(PatternError, match=said):
            Pattern(PATTERN, data)
    else:
        with pytest.raises((AssertionError, PatternError)):
            check(data, data)
