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
from peers.exported_files import malformed_files

from i2s_spec.codec import blocks as block_reference
from i2s_spec.exports import export
from i2s_spec.exports.imhex import NUMBERS, PATTERN_LIMIT
from i2s_spec.exports.json_form import fixed_offsets, records
from i2s_spec.gguf.reader import open as opened
from i2s_spec.schema import container
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CANONICAL, LAYOUTS
from i2s_spec.schema.i2s import codes_of
from i2s_spec.schema.types import BY_NAME, I2_S, ValueType, reading
from i2s_spec.testing.sample import ByteOrder, Draft, array, key_value, tensor_info

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
        tensors = found["tensors"]
        assert len(tensors) == index.tensors
        for i, (info, shown) in enumerate(zip(found["tensor_infos"], tensors, strict=True)):
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
                assert bytes(laid["payload"]) == bytes(tensor.payload)
                assert "block" not in shown


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
        with pytest.raises(PatternError, match="not in the file"):
            Pattern(PATTERN, data[:size])
    for name in ("kv_type_bad", "arr_type_bad"):
        with pytest.raises(PatternError, match="no value has this type"):
            Pattern(PATTERN, broken(name))


def test_malformed_files_are_an_error_of_the_pattern() -> None:
    """As ImHex's own evaluator has it, which `python tests/peers exports` runs."""
    found = []
    for name, data in list(malformed_files().items())[::4]:
        try:
            Pattern(PATTERN, data)
        except PatternError:
            continue
        found.append(name)
    assert found == []


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


@pytest.mark.parametrize(("order", "other"), [("little", ""), ("big", ""), ("little", "Q2_0")])
def test_types_with_a_scale_for_each_group(order: ByteOrder, other: str) -> None:
    """Bytes of every tensor; weights and scale of the block that is asked for, by the functions and as they are shown."""
    data = file_of_blocks([name for name in TYPES if name != other], order)
    with opened(data) as file:
        for i, tensor in enumerate(file.tensors.values()):
            if tensor.name == "last":
                continue
            layout = GROUP_LAYOUTS[tensor.kind]
            blocks = tensor.elements // layout.block
            wanted = blocks - 1 if tensor.name.endswith("2") else blocks // 2
            pattern = Pattern(PATTERN, data, shown_tensor=i + 1, shown_block=wanted)
            everything = pattern.main["tensors"]
            assert [name for j, name in enumerate(file.tensors) if "block" in everything[j]] == [tensor.name]
            assert "data" not in everything[-1]
            check_block(pattern, tensor, layout, wanted, everything[i])


def check_block(pattern: Pattern, tensor: Any, layout: Any, wanted: int, shown: Any) -> None:
    call, block, scale = pattern.functions, shown["block"], layout.scale
    held = shown["data"]
    assert (held.size if scale.apart else len(held)) == tensor.nbytes
    assert scale.apart or bytes(held) == bytes(tensor.read())
    file_order: ByteOrder = "little" if pattern.mark == "<" else "big"
    values, scales = block_reference.unpack(tensor.read(), tensor.shape, tensor.kind, byte_order=file_order)
    weights = [f"{value:+d}" if value else "0" for value in values.reshape(-1).tolist()]
    weights = weights[wanted * layout.block : (wanted + 1) * layout.block]
    codes = [call[f"code_of_{layout}"](block.start, k) for k in range(layout.block)]
    assert [call["weight"](code) for code in codes] == weights, tensor.name

    row = wanted // (tensor.shape[-1] // layout.block)
    owner = held["scales"][row] if scale.apart else (shown if scale.per == "row" else block)["scale"]
    assert (owner if scale.type == "F32" else call["half"](owner)) == scales[row if scale.per == "row" else wanted]
    for byte in range(len(block["codes"])):  # each byte must show all its codes
        at = byte + (scale.nbytes if (scale.per, scale.offset) == ("block", 0) else 0)
        mine = {layout.find(k)[1]: weights[k] for k in range(layout.block) if layout.find(k)[0] == at}
        code = block["codes"][byte]
        bits = layout.coding == "bits"
        lane = [call["weight"](pair) for pair in code.values()] if bits else call["digits"](code).split()
        assert all(
            lane[i] == mine[place] for i, place in enumerate(range(0, 8, 2) if bits else range(5)) if place in mine
        )


def test_trits_of_a_block_of_i2s() -> None:
    data = Draft().data
    for i, tensor in enumerate(opened(data).tensors.values()):
        found = Pattern(PATTERN, data, shown_tensor=i + 1, shown_block=1).main["tensors"]
        assert [j for j, shown in enumerate(found) if "block" in shown] == ([i] if tensor.elements >= 256 else [])
        if tensor.number == I2_S.number and tensor.elements >= 256:
            lanes = [tuple(lane.values())[::-1] for lane in found[i]["block"]]
            assert lanes == [codes_of(byte) for byte in bytes(tensor.payload)[32:64]]


def of_a_model(tokens: int, merges: int, tensors: int) -> bytes:
    """A header with the strings of a vocabulary and a tensor table; the data are zeros."""
    file = Draft().records()
    strings = ((b"tokenizer.ggml.tokens", tokens), (b"tokenizer.ggml.merges", merges))
    file.key_values = [
        *(key_value(name, ValueType.ARRAY, array(ValueType.STRING, [b"a b"] * count)) for name, count in strings),
        key_value(b"tokenizer.ggml.token_type", ValueType.ARRAY, array(ValueType.INT32, [1] * tokens)),
        key_value(b"tokenizer.ggml.scores", ValueType.ARRAY, array(ValueType.FLOAT32, [0.0] * tokens)),
        *(key_value(b"sample.%d" % i, ValueType.STRING, b"text") for i in range(40)),
    ]
    file.tensor_infos = [tensor_info(b"blk.%d.weight" % i, (128, 2), I2_S.number, 96 * i) for i in range(tensors)]
    file.header.key_count, file.header.tensor_count = len(file.key_values), tensors
    file.padding = file.data = b""
    head = container.build(file)
    return head + bytes(-len(head) % 32) + bytes(96 * tensors)


def test_a_header_of_real_size_is_within_the_limits() -> None:
    """That of BitNet-b1.58-2B-4T, whose counts follow from those of small files: each item adds the same."""
    assert PATTERN_LIMIT <= 4_000_000
    assert f"#pragma pattern_limit {PATTERN_LIMIT}\n#pragma array_limit {PATTERN_LIMIT}\n" in PATTERN

    def count(*sizes: int) -> int:
        return Pattern(PATTERN, of_a_model(*sizes), shown_tensor=1).count

    base = count(1, 1, 1)
    token, merge, tensor = count(2, 1, 1) - base, count(1, 2, 1) - base, count(1, 1, 2) - base
    assert count(800, 1300, 21) == base + 799 * token + 1299 * merge + 20 * tensor
    assert base + 128_255 * token + 280_146 * merge + 209 * tensor < PATTERN_LIMIT


def test_a_limit_that_is_exceeded_is_an_error() -> None:
    text = PATTERN.replace(f"pattern_limit {PATTERN_LIMIT}", "pattern_limit 1000")
    with pytest.raises(PatternError, match="more than 1000 patterns"):
        Pattern(text, of_a_model(400, 1, 1))
    text = PATTERN.replace(f"array_limit {PATTERN_LIMIT}", "array_limit 100")
    with pytest.raises(PatternError, match="more than 100 items"):
        Pattern(text, of_a_model(400, 1, 1))


def test_a_file_without_keys_and_tensors_opens() -> None:
    main = Pattern(PATTERN, struct.pack("<4sIQQ", b"GGUF", 3, 0, 0)).main
    assert (main["header"]["version"], main["tensors"]) == (3, [])


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
                    assert len(laid) == BY_NAME[wanted].nbytes(tensor.ne)
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
    ("Tensor tensors[", "if (header.tensor_count > 0)\n    Tensor tensors[", "cannot be placed in a condition"),
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
