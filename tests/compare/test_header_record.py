"""Records of headers: what `show --format record` writes, and what `lint --expect` finds with it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from builders import model_bytes
from click.testing import CliRunner

from i2s_spec.cli import cli
from i2s_spec.compare.header_record import HeaderRecord, header_record
from i2s_spec.convert.rewrite import Value, convert_endian, rewrite
from i2s_spec.errors import SettingError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.linter.cluster.check import options_key
from i2s_spec.linter.engine import lint
from i2s_spec.linter.options import Options

SOUND = model_bytes("llama")


@pytest.fixture
def record(tmp_path: Path) -> Path:
    path = tmp_path / "record.json"
    with open_file(SOUND) as file:
        path.write_text(json.dumps(header_record(file)), encoding="utf-8")
    return path


def changed(**options: Any) -> bytes:
    out = io.BytesIO()
    with open_file(SOUND) as file:
        rewrite(file, out, **options)
    return out.getvalue()


def drift(data: bytes, record: Path) -> list[tuple[str, str]]:
    """Place and message of each finding of S905."""
    found = lint(data, record=record)
    assert not found.bugs
    return [(each.span.path, each.message) for each in found.findings if each.code == "S905"]


def test_a_file_agrees_with_its_own_record(record: Path) -> None:
    assert drift(SOUND, record) == []


@pytest.mark.requirement("R12.4-5")
def test_a_key_that_changed_is_named(record: Path) -> None:
    ((path, message),) = drift(changed(set={"llama.context_length": Value("u32", 64)}), record)
    assert path.endswith(".value")
    assert message == "key 'llama.context_length' is u32 64 here, and u32 512 in the record"


def test_a_template_that_changed_is_named(record: Path) -> None:
    ((_, message),) = drift(changed(set={"tokenizer.chat_template": Value("str", "{{ x }}" * 100)}), record)
    assert message.startswith("key 'tokenizer.chat_template' is str with SHA-256 ")


def test_keys_that_came_and_went(record: Path) -> None:
    found = drift(changed(set={"general.url": Value("str", "a\x1b]b")}, drop_keys=["general.name"]), record)
    assert [message.partition(" is ")[0] for _, message in found] == ["key 'general.name'", "key 'general.url'"]
    assert r"\x1b" in found[1][1]
    assert found[0][0] == "header.key_count"
    assert found[0][1].startswith("key 'general.name' is missing here, and str 'synthetic-llama'")


def test_tensors_that_changed(record: Path) -> None:
    """Of tensors that only lie elsewhere because another became longer, nothing is listed."""
    data = model_bytes("llama", type="F16")
    found = drift(data, record)
    assert "key 'general.file_type'" in found[0][1]
    assert all("F16" in message and "I2_S" in message for _, message in found[1:])
    assert len(found) == 15
    fewer = model_bytes("llama", layers=1)
    assert ("header.tensor_count", "missing here") in [
        (path, "missing here" if "is missing here" in message else "") for path, message in drift(fewer, record)
    ]


def test_the_byte_order_is_pinned_and_values_are_compared_in_one(record: Path) -> None:
    out = io.BytesIO()
    with open_file(SOUND) as file:
        convert_endian(file, out, "big")
    assert [message for _, message in drift(out.getvalue(), record)] == [
        "byte order is big here, and 'little' in the record"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "[" * 100_000, '{"schema_version": 2}', '{"schema_version": 1, "header": {}}',
        '{"schema_version": 1, "header": {}, "keys": [{}], "tensors": []}',
        '{"schema_version": 1, "header": {}, "keys": [{"key": {"hex": "zz"}, "type": "u8", "sha256": ""}], "tensors": []}',
        '{"schema_version": 1, "header": {"version": []}, "keys": [], "tensors": []}',
        '{"schema_version": 1, "header": {}, "keys": [], "tensors": [{"name": "a", "type": 1, "ne": [], "offset": 0}]}',
    ],
)  # fmt: skip
def test_what_is_no_record_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingError, match="no record that"):
        HeaderRecord(str(path))


def test_odd_values_in_a_record_are_quoted(record: Path) -> None:
    document = json.loads(record.read_text("utf-8"))
    document["header"]["version"] = "\x1b[31m"
    document["keys"][0] |= {"type": "\x1b", "sha256": "\x1b" * 100}
    document["tensors"][0] |= {"type": "\x1b", "ne": ["\x1b", [], {}]}
    record.write_text(json.dumps(document), encoding="utf-8")
    assert not any("\x1b" in message for _, message in drift(SOUND, record))


def test_on_the_command_line(tmp_path: Path) -> None:
    model, record = tmp_path / "model.gguf", tmp_path / "record.json"
    model.write_bytes(SOUND)
    made = CliRunner().invoke(cli, ["show", str(model), "--format", "record", "-o", str(record)])
    assert (made.exit_code, made.output) == (0, "")
    for words in (["--format", "record", "-o", str(record)], ["-o", str(tmp_path / "new")]):
        assert CliRunner().invoke(cli, ["show", str(model), *words]).exit_code == 2

    def run(*words: str) -> Any:
        return CliRunner().invoke(cli, ["lint", "--no-config", str(model), *words], standalone_mode=False)

    assert run("--expect", str(record)).return_value == 0
    model.write_bytes(changed(set={"llama.rope.freq_base": Value("f32", 7.0)}))
    found = run("--expect", str(record), "--format", "concise")
    assert found.return_value == 1
    assert "'llama.rope.freq_base' is f32 7.0 here" in found.output
    assert run("--reference", str(model), "--expect", "canonical").return_value == 0
    assert "no such record, and no such dialect" in str(run("--expect", "nothing").exception)


def test_results_of_a_run_belong_to_the_record(record: Path) -> None:
    one = options_key(Options(record=HeaderRecord(str(record))))
    document = json.loads(record.read_text("utf-8"))
    document["keys"].pop()
    record.write_text(json.dumps(document), encoding="utf-8")
    assert len({one, options_key(Options(record=HeaderRecord(str(record)))), options_key(Options())}) == 3
