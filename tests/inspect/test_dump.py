from __future__ import annotations

import json
from typing import Any

import pytest
from examples import share
from harmful_texts import HARMFUL
from malformed_cases import SMALL, broken

from i2s_spec.draw.terminal import plain
from i2s_spec.draw.text import json_document
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.inspect.dump import Unknown, document, lines, target
from i2s_spec.inspect.dump_codes import Columns, decoded, unraveled
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Draft, array, key_value, tensor_info

DATA = Draft().data


def file_of(data: bytes = DATA) -> File:
    return File(BufferSource(data, "sample.gguf"))


def dump(
    what: str | None = None, data: bytes = DATA, width: int = 16, available: int | None = None, **options: Any
) -> str:
    file = file_of(data)
    return "\n".join(plain(line) for line in lines(file, target(file, what, **options), width, available))


def nodes(what: str | None = None, data: bytes = DATA, **options: Any) -> list[dict[str, Any]]:
    file = file_of(data)
    found: list[dict[str, Any]] = json.loads("".join(json_document(document(file, target(file, what, **options)))))[
        "nodes"
    ]
    return found


def shown_bytes(text: str, width: int = 16) -> dict[int, int]:
    """The bytes on the left side of a dump, by address; each may be there once only."""
    found: dict[int, int] = {}
    for line in text.splitlines()[1:]:
        if not line.startswith("0x"):
            continue
        address, rest = line.split("  ", 1)
        for column in range(width):
            cell = rest[3 * column : 3 * column + 2]
            if cell.strip():
                at = int(address, 16) + column
                assert at not in found
                found[at] = int(cell, 16)
    return found


@pytest.mark.parametrize("width", [8, 16, 32])
def test_a_whole_dump_shows_every_byte_once_in_its_place(width: int) -> None:
    assert shown_bytes(dump(None, everything=True, width=width), width) == dict(enumerate(DATA))


@pytest.mark.parametrize(
    ("what", "start", "stop"),
    [
        ("0x20..0x31", 0x20, 0x31),
        ("0x20+17", 0x20, 0x31),
        ("32:17", 32, 49),
        ("0X20:0x11", 32, 49),
        ("600..864", 600, 864),
    ],
)
def test_a_range_shows_its_bytes_and_no_others(what: str, start: int, stop: int) -> None:
    assert shown_bytes(dump(what)) == dict(enumerate(DATA[start:stop], start))


def test_an_address_shows_the_field_it_lies_in() -> None:
    text = dump("0x21")
    assert "key.text: 'general.architecture'" in text
    assert "0x20..0x34 (20)" in text
    assert shown_bytes(text) == {0x21: DATA[0x21]}


def test_codes_with_bits_and_elements() -> None:
    (node,) = [node for node in nodes("data[1].payload[33]") if node["kind"] == "codes"]
    value = node["value"]
    for lane, code in enumerate(node["codes"]):
        k = 129 + 32 * lane
        byte, shift = k // 128 * 32 + k % 32, 6 - 2 * (k % 128 // 32)
        assert byte == 33
        assert code["code"] == value >> shift & 3
        assert code["bits"] == f"{shift + 1}:{shift}"
        assert (code["element"], code["at"]) == (k, [k // 128, k % 128])
        assert code["trit"] == code["weight"] == {0: -1, 1: 0, 2: 1, 3: None}[code["code"]]


def test_codes_in_text() -> None:
    text = dump("first.weight", limit=2)
    assert "bits  7:6         5:4         3:2         1:0" in text
    assert "[0]   00 -1 @0    01  0 @32   01  0 @64   01  0 @96" in text
    assert "[2..128]: … 126 elements" in text
    assert "scale: 0.75" in text


def test_code_3_and_positions_after_the_last_element() -> None:
    assert [code.trit for code in decoded((1, 128), 0, 0xFF)] == [None] * 4
    assert Columns((1, 128)).line(0, 0xFF) == "11  ? @0    11  ? @32   11  ? @64   11  ? @96"
    partial = decoded((1, 192), 40, 0x55)
    assert [code.element for code in partial] == [136, 168, None, None]
    assert "@?" in Columns((1, 192)).line(40, 0x55)


def test_every_element_has_its_code_shown_once() -> None:
    shape = (3, 256)
    seen = [code.element for byte in range(3 * 64) for code in decoded(shape, byte, 0)]
    assert sorted(seen) == list(range(768))  # type: ignore[type-var]
    assert unraveled(700, shape) == (2, 188)
    assert unraveled(5, ()) == ()


@pytest.mark.parametrize("order", ["little", "big"])
def test_elements_of_plain_types(order: Any) -> None:
    values = [node["value"] for node in nodes("embedding.weight", Draft(order).data) if ".elements[" in node["path"]]
    assert values == [1 + i / 8 for i in range(8)]


@pytest.mark.parametrize(("kind", "data", "value"), [(30, b"\x80\x3f", 1.0), (1, b"\x00\x3e", 1.5), (24, b"\xff", -1)])
def test_elements_of_narrow_types(kind: int, data: bytes, value: float) -> None:
    draft = Draft()
    file = draft.records()
    file.tensor_infos = [tensor_info(b"t", (1,), kind, 0)]
    file.data = data
    (node,) = [node for node in nodes("t", draft.built(file)) if ".elements[" in node["path"]]
    assert node["value"] == value


@pytest.mark.parametrize(
    ("what", "paths"),
    [
        ("header.version", ["header", "header.version"]),
        ("key_values[3].value", ["key_values[3]", "key_values[3].value"]),
        ("key_values[1].value.text", ["key_values[1]", "key_values[1].value.text"]),
        ("tensor_infos[0].ne[1]", ["tensor_infos[0]", "tensor_infos[0].ne", "tensor_infos[0].ne[1]"]),
        ("data[2].tail.scale", ["data[2]", "data[2].tail", "data[2].tail.scale"]),
        ("padding", ["padding"]),
    ],
)
def test_paths(what: str, paths: list[str]) -> None:
    assert [node["path"] for node in nodes(what)] == paths


@pytest.mark.parametrize("path", sorted({node["path"] for node in nodes(None, everything=True)}))
def test_every_path_that_a_dump_writes_can_be_asked_for(path: str) -> None:
    asked = nodes(path)
    assert path in [node["path"] for node in asked]
    assert all(node["path"].startswith(path) or path.startswith(node["path"]) for node in asked)


def test_elements_at_high_indices() -> None:
    file = Draft().records()
    file.key_values = [
        key_value(b"numbers", ValueType.ARRAY, array(ValueType.UINT32, range(1000))),
        key_value(b"texts", ValueType.ARRAY, array(ValueType.STRING, [b"%d" % i for i in range(1000)])),
    ]
    data = Draft().built(file)
    assert nodes("key_values[0].value.items[777]", data)[-1]["value"] == 777
    assert nodes("key_values[1].value.items[777].text", data)[-1]["value"] == "777"


def test_a_name_is_a_key_or_a_tensor_or_both_or_there_twice() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values[0].key = b"first.weight"
    file.key_values[1].key = b"first.weight"
    data = draft.built(file)
    opened = [
        node["path"] for node in nodes("first.weight", data) if node["kind"] == "record" and "." not in node["path"]
    ]
    assert opened == ["key_values[0]", "key_values[1]", "tensor_infos[1]", "data[1]"]


def test_a_name_like_a_path_or_range_is_found_if_neither_exists() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values[0].key = b"data.weight"
    file.key_values[1].key = b"99999"
    data = draft.built(file)
    assert nodes("data.weight", data)[0]["path"] == "key_values[0]"
    assert nodes("99999", data)[0]["path"] == "key_values[1]"


def test_data_at_an_unknown_position_are_not_shown() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values.append(key_value(b"general.alignment", ValueType.UINT32, 48))
    file.tensor_infos[1].offset += 16  # no multiple of 32, the alignment that could be read with
    data = draft.built(file)
    assert {node["path"].split(".")[0] for node in nodes("first.weight", data)} == {"tensor_infos[1]"}
    with pytest.raises(Unknown, match="G219"):
        target(file_of(data), "data[1]")


@pytest.mark.parametrize("what", ["9" * 5000, "0x" + "f" * 5000, "data[" + "9" * 5000 + "]", "1+" + "9" * 5000])
def test_paths_and_ranges_with_huge_numbers_are_refused(what: str) -> None:
    with pytest.raises(Unknown):
        target(file_of(), what)


def test_booleans_are_told_from_bytes() -> None:
    assert nodes("sample.flag")[-1]["value"] is True
    assert [node["value"] for node in nodes("key_values[7].value.items")[2:]] == [False, True]
    assert "value: true (the byte is 7)" in dump("sample.flag", Draft().patch("key_values[4].value", b"\7"))


def test_nested_booleans() -> None:
    inner = [array(ValueType.UINT8, [1]), array(ValueType.BOOL, [1])]
    file = Draft().records()
    file.key_values = [key_value(b"n", ValueType.ARRAY, array(ValueType.ARRAY, inner))]
    found = {node["path"]: node.get("value") for node in nodes("n", Draft().built(file))}
    assert found["key_values[0].value.items[0].items[0]"] == 1
    assert found["key_values[0].value.items[1].items[0]"] is True


def test_limits() -> None:
    file = Draft().records()
    file.key_values = [key_value(b"a", ValueType.ARRAY, array(ValueType.UINT8, range(200)))]
    data = Draft().built(file)

    def count(what: str | None = None, **options: Any) -> int:
        return sum(".items[" in node["path"] and node["kind"] == "field" for node in nodes(what, data, **options))

    assert (count(), count("a"), count("a", limit=3), count("a", everything=True), count("key_values")) == (
        8,
        16,
        3,
        200,
        16,
    )


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("frist.weight", "did you mean first.weight"),
        ("WORDS", "did you mean sample.words"),
        ("key_values[8]", "has key_values\\[0\\] to key_values\\[7\\]"),
        ("tensor_infos[3]", "tensor_infos\\[2\\]"),
        ("data[3]", "there is no data\\[3\\]"),
        ("header.nothing", "has no key, tensor, path or byte range"),
        ("data[1].payload[128]", "has no key, tensor, path or byte range"),
        ("key_values[6].value.items[3]", "has no key, tensor, path or byte range"),
        ("5..5", "is empty"),
        ("9..5", "is empty"),
        ("0+0", "is empty"),
        ("0..865", "ends at byte 865; the file has 864 bytes"),
        ("864", "starts at byte 864"),
        ("\x1b[2J", "range '.x1b"),
    ],
)
def test_unknown_parts_are_refused(what: str, message: str) -> None:
    with pytest.raises(Unknown, match=message):
        target(file_of(), what)


def test_unknown_parts_of_a_broken_file_are_refused() -> None:
    with pytest.raises(Unknown, match="read up to a fault only: G201"):
        target(file_of(DATA[:200]), "first.weight")
    with pytest.raises(Unknown, match="none of them"):
        target(file_of(DATA[:24]), "key_values[0]")


@pytest.mark.parametrize("name", share(SMALL, every=8))
def test_every_malformed_file_is_dumped(name: str) -> None:
    data = broken(name)
    shown = dump(None, data)
    for text in (shown, dump(None, data, 8, 80, limit=2), dump(None, data, everything=True)):
        assert all(char.isprintable() or char == "\n" for char in text)
    nodes(None, data)
    for tensor in file_of(data).tensors.rows:
        if file_of(data).data_start is not None:
            dump(f"data[{tensor.index}]", data)
        dump(f"tensor_infos[{tensor.index}]", data)
    fault = file_of(data).fault
    if fault is not None:
        assert f"! {fault.code} {fault.fault.slug}: " in shown


@pytest.mark.parametrize("harm", HARMFUL)
def test_harmful_characters_are_escaped(harm: str) -> None:
    raw = harm.encode()
    draft = Draft()
    file = draft.records()
    file.key_values[0] = key_value(b"key" + raw, ValueType.STRING, b"value" + raw)
    file.key_values[5].value["items"] = [raw, b"\xff" + raw, b""]
    file.tensor_infos[0].name = b"name" + raw
    data = draft.built(file)
    for what in (None, "key_values[0]", "data[0]", "sample.words"):
        for output in (
            dump(what, data),
            dump(what, data, 8, 80),
            "".join(json_document(document(file_of(data), target(file_of(data), what)))),
        ):
            assert harm not in output.replace("\n", "")
            assert all(char.isprintable() or char == "\n" for char in output)


def test_meanings_are_shown_once() -> None:
    text = dump()
    for meaning in (
        "The value itself. [2.5]",
        "ggml type number; 36 is I2_S. [2.6]",
        "one float32 for the whole tensor. [6.1]",
    ):
        assert text.count(meaning) == 1


def test_a_narrow_terminal_keeps_the_codes() -> None:
    text = dump("first.weight", width=8, available=80, limit=1)
    assert "[0]   00 -1 @0    01  0 @32   01  0 @64   01  0 @96" in text
    assert max(len(line) for line in text.splitlines() if "@96" in line) <= 80
    assert "..0x" not in text
