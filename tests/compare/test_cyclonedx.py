"""Bills of materials: what is in them, and that CycloneDX's schema takes them whatever a file says."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import model_bytes
from click.testing import CliRunner
from harmful_texts import HARMFUL

from i2s_spec.cli import cli
from i2s_spec.compare.hash import hash as identity_of
from i2s_spec.convert.rewrite import Value, rewrite
from i2s_spec.errors import MissingExtra
from i2s_spec.gguf.reader import open as open_file

REASON = "cyclonedx-python-lib is not installed: pip install -e '.[test]'"


def bill(keys: dict[str, Any]) -> dict[str, Any]:
    """The bill of materials of a model with these keys, which CycloneDX's schema takes."""
    pytest.importorskip("cyclonedx", reason=REASON)
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    from i2s_spec.compare.cyclonedx import bill_of_materials

    out = io.BytesIO()
    with open_file(model_bytes("llama", layers=1)) as file:
        rewrite(file, out, set=keys)
    with open_file(out.getvalue()) as file:
        document = bill_of_materials(file)
        assert bill_of_materials(file) == document
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document)) is None
    return document


def text(value: str) -> Value:
    return Value("str", value)


def test_what_a_model_is_made_of() -> None:
    document = bill(
        {
            "general.name": text("Small"), "general.version": text("2"), "general.license": text("Apache-2.0"),
            "general.repo_url": text("https://models.example/small"), "general.base_model.count": Value("u32", 2),
            "general.base_model.0.name": text("Large"), "general.base_model.0.organization": text("Makers"),
            "general.base_model.0.repo_url": text("https://models.example/large"),
            "general.base_model.1.repo_url": text("https://models.example/other"),
        }
    )  # fmt: skip
    model = document["metadata"]["component"]
    assert (model["type"], model["name"], model["version"]) == ("machine-learning-model", "Small", "2")
    assert model["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    assert [each["name"] for each in model["pedigree"]["ancestors"]] == ["Large", "https://models.example/other"]
    assert model["pedigree"]["ancestors"][0]["group"] == "Makers"
    assert model["hashes"][0]["alg"] == "SHA-256"
    assert "timestamp" not in document["metadata"]


def test_the_weights_are_a_property() -> None:
    model = bill({})["metadata"]["component"]
    facts = {each["name"]: each["value"] for each in model["properties"]}
    found = identity_of(model_bytes("llama", layers=1))
    assert facts["i2s-spec:weights-sha256"] == found.weights
    assert facts["gguf:architecture"] == "llama"


@pytest.mark.parametrize("harm", [*HARMFUL[:20], "http://a b", "javascript:alert(1)", "(MIT", "x" * 5000, "\ud800"])
def test_any_text_is_taken_by_the_schema(harm: Any) -> None:
    value = harm if isinstance(harm, str) else str(harm)
    value = value.encode("utf-8", "replace").decode("utf-8")
    keys = (
        "name",
        "version",
        "license",
        "license.name",
        "organization",
        "description",
        "repo_url",
        "base_model.0.repo_url",
    )
    document = bill({"general.base_model.count": Value("u32", 1), **{f"general.{key}": text(value) for key in keys}})
    assert not any(ord(char) < 32 for char in json.dumps(document, ensure_ascii=False))


def test_a_count_of_bases_is_no_loop() -> None:
    assert "pedigree" not in bill({"general.base_model.count": Value("u64", 1 << 63)})["metadata"]["component"]


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from i2s_spec.compare.cyclonedx import bill_of_materials

    monkeypatch.setitem(sys.modules, "cyclonedx.model.bom", None)
    with (
        open_file(model_bytes("llama", layers=1)) as file,
        pytest.raises(MissingExtra, match=r"needs the extra \[sbom\]"),
    ):
        bill_of_materials(file)


def test_on_the_command_line(tmp_path: Path) -> None:
    pytest.importorskip("cyclonedx", reason=REASON)
    (tmp_path / "model.gguf").write_bytes(model_bytes("llama", layers=1))
    words = ["show", str(tmp_path / "model.gguf"), "--format", "cyclonedx"]
    document = json.loads(CliRunner().invoke(cli, words).output)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert CliRunner().invoke(cli, [*words, "--all"]).exit_code == 2
