"""The registry in JSON and TSV: read back by the meaning of their columns, both equal the registry."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import jsonschema

import i2s_spec.exports as room
from i2s_spec.exports import export
from i2s_spec.exports.json_form import COLUMNS
from i2s_spec.schema.type_registry import Assignment, all_file_assignments, all_tensor_assignments, tensor_assignments

SCHEMA = json.loads((Path(room.__file__).parent / "registry.schema.json").read_text())


def read_json() -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = json.loads(export("registry"))["meanings"]
    return said


def read_tsv() -> list[dict[str, Any]]:
    """The rows as a reader of spreadsheets has them, numbers and lists made of text."""
    rows: list[dict[str, Any]] = []
    for row in csv.DictReader(io.StringIO(export("registry-tsv")), delimiter="\t", quoting=csv.QUOTE_NONE):
        read: dict[str, Any] = dict(row)
        for name in ("number", "block", "bytes", "row_bytes"):
            read[name] = int(read[name]) if read[name] else None
        for name in ("since_at", "until", "until_at"):
            read[name] = read[name] or None
        read["in_files"] = read["in_files"] == "true"
        read["tensors"] = read["tensors"].split(",") if read["tensors"] else []
        rows.append(read)
    return rows


def test_the_document_is_valid_by_its_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(export("registry")))
    assert SCHEMA["properties"]["meanings"]["items"]["required"] == list(COLUMNS)


def test_both_forms_hold_the_same() -> None:
    assert read_tsv() == read_json()


def test_no_field_holds_what_separates_fields() -> None:
    assert all("\t" not in str(value) and "\n" not in str(value) for row in read_json() for value in row.values())
    assert all("," not in name for row in read_json() for name in row["tensors"])


def _again(row: dict[str, Any]) -> tuple[Any, ...]:
    since = f"{row['since']} {row['since_at']}" if row["since_at"] else row["since"]
    until = f"{row['until']} {row['until_at']}" if row["until_at"] else row["until"] or ""
    return (
        row["number"],
        row["name"],
        row["program"],
        since,
        until,
        row["source"],
        row["in_files"],
        tuple(row["tensors"]),
    )


def _declared(each: Assignment) -> tuple[Any, ...]:
    return each.number, each.name, each.program, each.since, each.until, each.source, each.files, each.tensors


def test_the_table_read_back_is_the_registry() -> None:
    rows = read_tsv()
    assert [_again(row) for row in rows if row["kind"] == "tensor_type"] == [
        _declared(m) for m in all_tensor_assignments()
    ]
    assert [_again(row) for row in rows if row["kind"] == "file_type"] == [_declared(m) for m in all_file_assignments()]


def test_sizes_are_those_of_the_meanings() -> None:
    """Where a row has a block, a tensor has the bytes that follow from it."""
    rows = [row for row in read_json() if row["kind"] == "tensor_type"]
    for row, meaning in zip(rows, all_tensor_assignments(), strict=True):
        if row["block"] is not None:
            ne = (row["block"] * 3, 5)
            assert meaning.nbytes(ne) == 5 * (3 * row["bytes"] + row["row_bytes"])
    assert {row["name"] for row in rows if row["block"] is not None} >= {
        "Q2_0",
        "Q2_0_G128",
        "PQ2_0",
        "PTQ1_0",
        "IQ1_BN",
    }


def test_meanings_of_a_number_are_distinguished() -> None:
    """Two types of one number that have the same distinguishing words have the same size in files."""
    rows = [row for row in read_json() if row["kind"] == "tensor_type"]
    assert all(row["tell"] for row in rows)
    for number in {row["number"] for row in rows}:
        known = [row for row in rows if row["number"] == number and row["in_files"] and "not known" not in row["tell"]]
        for one in known:
            for other in known:
                if one["tell"] == other["tell"] and one["name"] != other["name"]:
                    assert (one["block"], one["bytes"]) == (other["block"], other["bytes"]), (one, other)
    assert {each.name for each in tensor_assignments(42)} >= {"Q2_0", "Q2_0_G128", "TL2"}
