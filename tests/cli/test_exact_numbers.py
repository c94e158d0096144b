"""JSON for readers without whole numbers of 64 bits: the text of each large integer is beside it. All schemas are strict."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import npm_packages
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import i2s_spec
from i2s_spec import _version
from i2s_spec.cli import cli
from i2s_spec.draw.text import with_exact
from i2s_spec.linter.options import Options
from i2s_spec.linter.paths import lint_path
from i2s_spec.linter.report import make
from i2s_spec.linter.report_data import Totals
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.sample import Draft, array, key_value

SCHEMAS = sorted(Path(i2s_spec.__file__).parent.rglob("*.schema.json"))
LARGE = 1 << 53


def schema(name: str) -> Any:
    (path,) = (each for each in SCHEMAS if each.name == f"{name}.schema.json")
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with numbers that a double does not hold: values of keys, an offset, and what findings say of both."""
    path = tmp_path_factory.mktemp("exact") / "large.gguf"
    path.write_bytes(made(offset=1 << 60))
    return path


def made(offset: int | None = None) -> bytes:
    draft = Draft()
    records = draft.records()
    records.key_values += [
        key_value(b"sample.u64", ValueType.UINT64, (1 << 63) + 1),
        key_value(b"sample.most", ValueType.UINT64, (1 << 64) - 1),
        key_value(b"sample.first", ValueType.UINT64, LARGE + 1),
        key_value(b"sample.exact", ValueType.UINT64, LARGE),
        key_value(b"sample.i64", ValueType.INT64, -(LARGE + 1)),
        key_value(b"sample.array", ValueType.ARRAY, array(ValueType.UINT64, [1, (1 << 60) + 1])),
    ]
    records.header.key_count = len(records.key_values)
    if offset is not None:
        records.tensor_infos[-1].offset = offset
    return draft.built(records)


def called(*arguments: object) -> Any:
    return CliRunner().invoke(cli, [str(each) for each in arguments], standalone_mode=False).stdout


def objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(item)


def large(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(large, value))
    return isinstance(value, int) and abs(value) > LARGE


def texts(value: Any) -> Any:
    return [texts(each) for each in value] if isinstance(value, list) else str(value) if large(value) else None


def check(document: Any) -> int:
    """Every large integer has its text beside it, and nothing else has; returns how many there are."""
    count = 0
    for each in objects(document):
        names = {name: "exact" if name == "value" else f"{name}_exact" for name in each}
        wanted = {names[name]: texts(value) for name, value in each.items() if large(value)}
        assert wanted == {name: value for name, value in each.items() if name == "exact" or name.endswith("_exact")}
        count += len(wanted)
    return count


def test_show(file: Path) -> None:
    document = json.loads(called("show", "--json", file))
    jsonschema.validate(document, schema("show"))
    assert check(document) >= 6
    keys = {each["key"]: each for each in document["keys"]}
    assert (keys["sample.u64"]["value"], keys["sample.u64"]["exact"]) == ((1 << 63) + 1, "9223372036854775809")
    assert keys["sample.i64"]["exact"] == "-9007199254740993"
    assert keys["sample.array"]["exact"] == [None, "1152921504606846977"]
    assert "exact" not in keys["sample.exact"]
    assert document["tensors"][-1]["offset_exact"] == str(1 << 60)


def test_lint(file: Path) -> None:
    document = json.loads(called("lint", "--format", "json", file))
    jsonschema.validate(document, schema("lint"))
    assert check(document)
    log = json.loads(called("lint", "--format", "sarif", file))
    results = log["runs"][0]["results"]
    assert sum(name.endswith("_exact") for each in results for name in each["properties"]) == check(document)
    bags = [{n: v for n, v in each["properties"].items() if not n.startswith(("start", "stop"))} for each in results]
    assert sum(map(check, bags))
    assert "_exact" not in json.dumps([{**each, "properties": {}} for each in results])  # the standard's own objects


def test_lines_of_jsonl_fit_the_schema(file: Path, tmp_path: Path) -> None:
    (tmp_path / "sound.gguf").write_bytes(Draft().data)
    (tmp_path / "empty.gguf").write_bytes(b"")
    lines = called(
        "lint", "--format", "jsonl", "--profile", "strict", tmp_path, file, tmp_path / "missing.gguf"
    ).splitlines()
    validator = jsonschema.Draft202012Validator(schema("lint"))
    parsed = [json.loads(line) for line in lines]
    for line in parsed:
        validator.validate(line)
        assert not validator.is_valid({**line, "more": "x"})
        assert not validator.is_valid({**line, "type": "other"})
    assert [line["type"] for line in parsed] == ["file"] * 4 + ["summary"]
    assert sum(map(check, parsed))


def test_diff(tmp_path: Path) -> None:
    for name, data in (("a.gguf", made()), ("b.gguf", Draft().data)):
        (tmp_path / name).write_bytes(data)
    document = json.loads(called("diff", "--json", tmp_path / "a.gguf", tmp_path / "b.gguf"))
    jsonschema.validate(document, schema("diff"))
    assert check(document) >= 4


def test_identify(file: Path) -> None:
    document = json.loads(called("identify", "--format", "json", file))
    jsonschema.validate(document, schema("identify"))
    check(document)


@given(
    st.recursive(
        st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abc"), inner)
    )
)
def test_nothing_but_texts_is_added(value: Any) -> None:
    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without(each) for name, each in value.items() if not name.endswith("_exact")}
        return [without(each) for each in value] if isinstance(value, list) else value

    assert without(with_exact(value)) == value


def test_addresses_in_sarif_once_the_site_has_one(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    def driver() -> dict[str, Any]:
        form, report, totals = make("sarif"), lint_path(file, Options()), Totals()
        totals.add(report)
        log = json.loads(form.begin() + form.file(report) + form.end(totals))
        found: dict[str, Any] = log["runs"][0]["tool"]["driver"]
        return found

    assert ("informationUri" in driver()) == bool(_version.SITE)
    monkeypatch.setattr("i2s_spec.linter.report.sarif.SITE", "https://site.example/i2s/")
    found = driver()
    assert found["informationUri"] == "https://site.example/i2s/"
    assert all(rule["helpUri"] == f"https://site.example/i2s/rules/{rule['id']}/" for rule in found["rules"])


_STRICT = """
const Ajv = require("ajv/dist/2020");
for (const path of process.argv.slice(1))
  new Ajv({ strict: true, validateFormats: false }).compile(JSON.parse(require("fs").readFileSync(path)));
"""


def test_schemas_are_accepted_in_strict_mode(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = npm_packages.home(tmp_path_factory)
    done = subprocess.run(
        [shutil.which("node") or "node", "-e", _STRICT, *SCHEMAS],
        capture_output=True, encoding="utf-8", timeout=600, check=False,
        env={**os.environ, "NODE_PATH": str(home / "node_modules")},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
