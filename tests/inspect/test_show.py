from __future__ import annotations

import importlib.resources
import json
import struct
from typing import Any

import jsonschema
import pytest
from examples import share
from harmful_texts import HARMFUL
from malformed_cases import SMALL, broken

from i2s_spec.draw.terminal import plain
from i2s_spec.draw.text import json_document
from i2s_spec.errors import FormatError, Span
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.inspect.show import WINDOW, beginning, describe, members, unreadable
from i2s_spec.inspect.show_text import page
from i2s_spec.schema import faults
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Draft, array, key_value, tensor_info


def file_of(data: bytes) -> File:
    return File(BufferSource(data, "sample.gguf"))


def text_of(data: bytes, available: int | None = None) -> str:
    return "\n".join(plain(line) for line in page(describe(file_of(data)), available))


def with_keys(*keys: Any) -> bytes:
    draft = Draft()
    file = draft.records()
    file.key_values = list(keys)
    return draft.built(file)


SCHEMA = json.loads(importlib.resources.files("i2s_spec.inspect").joinpath("show.schema.json").read_text("utf-8"))


VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def assert_conforms(about: dict[str, Any]) -> None:
    VALIDATOR.validate(json.loads("".join(json_document(about))))


def test_the_description_of_a_file() -> None:
    about = describe(file_of(Draft().data))
    assert about["header"]["version"] == 3
    assert [key["key"] for key in about["keys"]][:2] == ["general.architecture", "general.name"]
    assert about["keys"][5]["value"] == ["a", "", "word"]
    tensor = about["tensors"][1]
    assert (tensor["name"], tensor["type"], tensor["shape"], tensor["ne"]) == (
        "first.weight",
        "I2_S",
        [4, 128],
        [128, 4],
    )
    assert (tensor["start"], tensor["bytes"], tensor["scale"]) == (tensor["offset"] + 512, 160, 0.75)
    assert about["totals"]["by_type"][1] == {
        "type": "I2_S",
        "type_number": 36,
        "tensors": 2,
        "elements": 1024,
        "bytes": 320,
        "bits_per_element": 2.5,
    }
    assert about["totals"]["elements"] == 1032


@pytest.mark.parametrize("name", share(SMALL))
def test_every_malformed_file_is_described(name: str) -> None:
    file = file_of(broken(name))
    about = describe(file, None)
    assert_conforms(about)
    assert (about["fault"] is None) == (file.fault is None)
    text = text_of(broken(name))
    assert all(char.isprintable() or char == "\n" for char in text)


def test_a_file_that_cannot_be_opened_is_described() -> None:
    assert_conforms(unreadable("a\udcff", FormatError(faults.UNREADABLE, Span(0, 0), reason="no")))


def test_both_byte_orders_say_the_same() -> None:
    little, big = describe(file_of(Draft("little").data)), describe(file_of(Draft("big").data))
    assert big["header"].pop("byte_order") == "big"
    little["header"].pop("byte_order")
    assert little == big


def test_the_page_says_that_shapes_are_rows_x_cols() -> None:
    text = text_of(Draft().data)
    assert "rows x cols" in text
    assert "4 x 128" in text


@pytest.mark.parametrize(
    ("number", "words"),
    [(99, "type 99"), (-1, "type -1"), (4, "Q4_2"), (31, "Q4_0_4_4"), (2**31 - 1, "type 2147483647")],
)
def test_types_of_unknown_size_do_not_stop_the_description(number: int, words: str) -> None:
    draft = Draft()
    file = draft.records()
    file.tensor_infos[1].type = number
    data = draft.built(file)
    (line,) = [line for line in text_of(data).splitlines() if "first.weight" in line]
    assert words in line
    assert "type of unknown size" in line
    about = describe(file_of(data))
    assert about["tensors"][1]["problem"]["code"] == "G313"
    assert about["totals"]["bytes"] is None
    assert_conforms(about)


def test_huge_dimensions_and_offsets_do_not_stop_the_description() -> None:
    draft = Draft()
    file = draft.records()
    file.tensor_infos[1].ne = [2**64 - 1, 2**64 - 1]
    file.tensor_infos[2].offset = 2**64 - 32
    file.tensor_infos.append(tensor_info(b"scalar", (), 0, 0))
    text = text_of(draft.built(file))
    assert "starts beyond the end of the file" in text
    assert "cut off by the end of the file" in text
    assert "scalar  " in text


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7F800000, 0xFF800000, 0x80000000, 1])
def test_odd_scales(bits: int) -> None:
    data = bytearray(Draft().data)
    at = describe(file_of(bytes(data)))["tensors"][2]["start"] + 128
    data[at : at + 4] = struct.pack("<I", bits)
    about = describe(file_of(bytes(data)))
    assert struct.pack("<f", about["tensors"][2]["scale"])[:1] == struct.pack("<I", bits)[:1]
    assert_conforms(about)
    assert "second.weight" in text_of(bytes(data))


@pytest.mark.parametrize("harm", HARMFUL)
def test_harmful_characters_are_escaped(harm: str) -> None:
    raw = harm.encode()
    draft = Draft()
    file = draft.records()
    file.key_values = [
        key_value(b"key" + raw, ValueType.STRING, b"value" + raw),
        key_value(b"array", ValueType.ARRAY, array(ValueType.STRING, [raw, b"\xff" + raw])),
        key_value(b"nested", ValueType.ARRAY, array(ValueType.ARRAY, [array(ValueType.STRING, [raw])])),
    ]
    file.tensor_infos[0].name = b"name" + raw
    data = draft.built(file)
    about = members(File(BufferSource(data, f"path{harm}")))
    for output in (text_of(data), text_of(data, 70), "".join(json_document(about))):
        assert harm not in output.replace("\n", "")
        assert all(char.isprintable() or char == "\n" for char in output)


def test_bad_utf8_is_shown_and_kept() -> None:
    data = with_keys(key_value(b"\xffk", ValueType.STRING, b"caf\xe9"))
    assert "\\xffk" in text_of(data)
    assert "caf\\xe9" in text_of(data)
    about = describe(file_of(data))
    assert (about["keys"][0]["key"], about["keys"][0]["value"]) == ({"hex": "ff6b"}, {"hex": "636166e9"})


def test_long_arrays_and_texts_are_cut_and_counted() -> None:
    template = "{% for message in messages %}\nsecond line\n" + "x" * 500
    data = with_keys(
        key_value(b"tokenizer.chat_template", ValueType.STRING, template.encode()),
        key_value(b"tokens", ValueType.ARRAY, array(ValueType.STRING, [b"t%d" % i for i in range(2000)])),
    )
    text = text_of(data)
    assert "'{% for message in messages %}'… (542 bytes, 3 lines)" in text
    assert "[2,000 items] 't0', 't1', 't2', 't3'" in text
    keys = describe(file_of(data), limit=3)["keys"]
    assert (keys[1]["value"], keys[1]["whole"], keys[1]["count"]) == (["t0", "t1", "t2"], False, 2000)
    assert keys[0]["value"] == template
    assert describe(file_of(data), limit=None)["keys"][1]["value"][-1] == "t1999"


def test_a_text_that_is_cut_inside_a_character_stays_text() -> None:
    data = with_keys(
        key_value(b"long", ValueType.STRING, "é".encode() * WINDOW),
        key_value(b"odd", ValueType.STRING, b"a" + "é".encode() * WINDOW),
    )
    for key in describe(file_of(data))["keys"]:
        assert isinstance(key["value"], str)
        assert not key["whole"]
        assert len(key["value"].encode()) in (WINDOW, WINDOW - 1)


def test_no_more_than_a_window_is_read_of_a_value() -> None:
    class Counting(BufferSource):
        most = 0

        def read(self, start: int, length: int) -> bytes:
            self.most = max(self.most, length)
            return super().read(start, length)

    items = [b"x" * 1000] * 500
    source = Counting(with_keys(key_value(b"a", ValueType.ARRAY, array(ValueType.STRING, items))))
    file = File(source)
    source.most = 0
    assert len(beginning(file, file.metadata.by_index(0), 8).value) == 8
    assert source.most <= WINDOW
    assert len(beginning(file, file.metadata.by_index(0), None).value) == 500


def test_nested_arrays_are_shown() -> None:
    inner = [array(ValueType.UINT8, [1, 2]), array(ValueType.STRING, [b"a"]), array(ValueType.BOOL, [1])]
    data = with_keys(key_value(b"nested", ValueType.ARRAY, array(ValueType.ARRAY, inner)))
    (key,) = describe(file_of(data))["keys"]
    assert (key["value"], key["whole"]) == ([[1, 2], ["a"], [True]], True)
    assert "[3 items] [1, 2], ['a'], [true]" in text_of(data)
    (short,) = describe(file_of(data), limit=1)["keys"]
    assert (short["value"], short["whole"]) == ([[1]], False)


def test_the_beginning_of_an_array_is_as_the_reader_decodes_it() -> None:
    file = file_of(Draft().data)
    for entry in file.metadata.rows:
        value = file.metadata.decode(entry)
        wanted = value.tolist() if hasattr(value, "tolist") else value
        got, whole = beginning(file, entry, None)
        assert whole
        texts = [item.decode() if isinstance(item, bytes) else item for item in got] if isinstance(got, list) else None
        assert (texts if texts is not None else got.decode() if isinstance(got, bytes) else got) == wanted


def test_first_and_last_rows() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values *= 100
    file.tensor_infos *= 100
    about = describe(file_of(draft.built(file)), rows=(3, 2))
    assert [key["index"] for key in about["keys"]] == [0, 1, 2, 798, 799]
    assert [tensor["index"] for tensor in about["tensors"]] == [0, 1, 2, 298, 299]
    assert about["totals"]["tensors"] == 300
    text = "\n".join(plain(line) for line in page(about))
    assert "Keys (800)" in text
    assert "… 795 keys are not shown" in text
    assert "… 295 tensors are not shown" in text


def test_a_page_fits_a_terminal() -> None:
    draft = Draft()
    file = draft.records()
    file.tensor_infos[0].name = b"blk.0." + b"very_" * 20 + b"long.weight"
    for available in (70, 80, 100):
        for line in text_of(draft.built(file), available).splitlines():
            assert len(line) <= available or "tensors" in line
