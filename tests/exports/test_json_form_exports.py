"""The schema in other languages: reproducible, complete, and valid in each language."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

import i2s_spec.exports as room
from i2s_spec.cli.rules import schema_command
from i2s_spec.codec import blocks as block_reference
from i2s_spec.errors import EXIT_USAGE
from i2s_spec.exports import FORMS, export, json_form
from i2s_spec.exports import json_form as description
from i2s_spec.schema import container, i2s
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, TAILS
from i2s_spec.schema.types import TENSOR_TYPES
from i2s_spec.testing.sample import Draft

SCHEMA = json.loads((Path(room.__file__).parent / "schema.schema.json").read_text())


def test_the_document_is_valid_by_its_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(export("json")))


def test_the_document_has_every_declaration() -> None:
    said = json_form.document()
    assert [each["name"] for each in said["i2_s"]["layouts"]] == list(LAYOUTS)
    assert [each["name"] for each in said["i2_s"]["code_maps"]] == list(CODE_MAPS)
    assert [each["name"] for each in said["i2_s"]["tails"]] == list(TAILS)
    assert len(said["tensor_types"]) == len(TENSOR_TYPES)
    declared = [container.header, container.key_value, container.tensor_info, container.container, i2s.tail, i2s.extent]
    assert set(said["records"]) == {record("little").title for record in declared}
    for make in declared:
        record = make("little")
        assert [field["name"] for field in said["records"][record.title]["fields"]] == [f.name for f in record.fields]


class DocumentReader:
    """Reads a file by the document alone: it knows the kinds of shapes, and nothing of GGUF."""

    def __init__(self, document: dict[str, Any], data: bytes) -> None:
        self.document, self.data = document, data

    def number(self, name: str, at: int) -> tuple[Any, int]:
        size = int(name[1:]) // 8
        part = self.data[at : at + size]
        return part if name[0] == "f" else int.from_bytes(part, "little", signed=name[0] == "i"), at + size

    def values(self, shape: dict[str, Any], count: int, at: int, before: dict[str, Any]) -> tuple[list[Any], int]:
        items = []
        for _ in range(count):
            item, at = self.value(shape, at, before)
            items.append(item)
        return items, at

    def value(self, shape: dict[str, Any], at: int, before: dict[str, Any]) -> tuple[Any, int]:
        match shape["kind"]:
            case "number":
                return self.number(shape["number"], at)
            case "constant":
                wanted = bytes.fromhex(shape["value"])
                assert self.data[at : at + len(wanted)] == wanted
                return wanted, at + len(wanted)
            case "string":
                length, at = self.number(shape["number"], at)
                return self.data[at : at + length], at + length
            case "repeat":
                count: Any = before
                for part in shape["by"].split("."):
                    count = count[part]
                return self.values(shape["item"], count, at, before)
            case "record":
                return self.record(shape["record"], at)
            case "choice":
                return self.value(self.document["value_types"][before[shape["by"]]]["shape"], at, before)
            case "array":
                kind, at = self.number("u32", at)
                count, at = self.number(shape["number"], at)
                return self.values(self.document["value_types"][kind]["shape"], count, at, {})
        raise AssertionError(shape)

    def record(self, title: str, at: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        for field in self.document["records"][title]["fields"]:
            if field["shape"]["kind"] == "rest":
                break
            found[field["name"]], at = self.value(field["shape"], at, found)
        return found, at


def test_a_file_can_be_read_by_the_document_alone() -> None:
    """A reader that knows the kinds of shapes and nothing of GGUF finds what the definition finds."""
    document, data = json_form.document(), Draft().data
    assert document["value_types"]
    found, _ = DocumentReader(document, data).record("File", 0)
    meant = container.parse(data)
    infos = [(info["name"], info["ne"], info["type"], info["offset"]) for info in found["tensor_infos"]]
    assert infos == [(i.name, list(i.ne), i.type, i.offset) for i in meant.tensor_infos]
    assert [pair["key"] for pair in found["key_values"]] == [pair.key for pair in meant.key_values]


@pytest.mark.parametrize("name", GROUP_LAYOUTS)
def test_blocks_can_be_decoded_by_the_document_alone(name: str) -> None:
    """The codes and scales of any bytes, by the formulas as the document has them."""
    (entry,) = (each for each in json_form.document()["block_types"] if each["name"] == name)
    rows, blocks = 3, 2
    shape = rows, blocks * entry["block"]
    width = entry["row_bytes"] + blocks * entry["bytes"]
    apart = entry["scale"]["apart"]
    data = np.random.default_rng(1).bytes(rows * width + (4 * rows + 32 if apart else 0))
    values, scales = block_reference.unpack(data, shape, name, unused_code="plus-two")
    codes, found = [], []
    for row in range(rows):
        start = row * width
        if entry["scale"]["per"] == "row":
            found.append(rows * width + 4 * row if apart else start + entry["scale"]["offset"])
        for block in range(blocks):
            at = start + entry["row_bytes"] + block * entry["bytes"]
            if entry["scale"]["per"] == "block":
                found.append(at + entry["scale"]["offset"])
            for k in range(entry["block"]):
                part = next(each for each in entry["parts"] if k < each["stop"])
                byte, place = (eval(part[what]["python"], {"k": k}) for what in ("byte", "place"))
                held = data[at + byte]
                codes.append(held >> place & 3 if entry["coding"] == "bits" else held * 3**place % 256 * 3 >> 8)
    assert (values.reshape(-1) + 1).tolist() == codes
    kind = {"F16": "<f2", "F32": "<f4"}[entry["scale"]["type"]]
    with np.errstate(all="ignore"):
        stored = [np.frombuffer(data, kind, 1, at)[0].astype("f4") for at in found]
    assert np.array_equal(scales, stored, equal_nan=True)
    assert (entry["code_3"] is None) == (max(codes) < 3)


def test_unknown_constructs_are_refused() -> None:
    from construct import GreedyBytes

    with pytest.raises(TypeError, match="GreedyBytes"):
        description.shape(GreedyBytes)


@pytest.mark.parametrize("form", FORMS)
def test_the_verb_prints_and_writes(form: str, tmp_path: Path) -> None:
    runner = CliRunner()
    printed = runner.invoke(schema_command, ["--format", form])
    assert (printed.exit_code, printed.stdout) == (0, export(form))
    target = tmp_path / FORMS[form][0]
    assert runner.invoke(schema_command, ["--format", form, "-o", str(target)]).exit_code == 0
    assert target.read_text(encoding="utf-8") == export(form)
    assert runner.invoke(schema_command, ["--format", form, "-o", str(target)]).exit_code == EXIT_USAGE


def test_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="xml"):
        export("xml")


def test_imhex_pattern_has_every_declaration() -> None:
    """What the pattern finds in files is held in test_imhex_hexpat.py."""
    text = export("hexpat")
    for layout in LAYOUTS.values():
        name = layout.name.replace("-", "_")
        assert f"fn byte_of_{name}(" in text
        assert f"fn shift_of_{name}(" in text
    for record in description.records():
        if record.title != "File":
            for field in record.fields:
                assert re.search(rf"\b{field.name}\b", text), field.name
