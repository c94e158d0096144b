"""Published chat templates, those that llama.cpp's tests use, from a source distribution: the rules about templates, and
the engines that render them.
"""

from __future__ import annotations

import io
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from finding_codes import codes

import i2s_spec as i2s
from i2s_spec.convert.new import new
from i2s_spec.convert.rewrite import rewrite
from i2s_spec.model.text.chat import KEY
from i2s_spec.model.text.template_engines import template_checks
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.malformed.container import with_keys
from i2s_spec.testing.sample import key_value
from peers.arch_tables import sdist
from peers.programs import PROGRAM


@pytest.fixture
def templates(tmp_path: Path) -> list[Path]:
    archive = os.environ.get("I2S_LLAMA_CPP_SDIST")
    if not archive:
        pytest.skip("I2S_LLAMA_CPP_SDIST names no source distribution of llama-cpp-python")
    folder = sdist.unpack(Path(archive), tmp_path, ["models/templates"]) / "models/templates"
    return sorted(folder.glob("*.jinja"))


def test_published_templates_have_no_findings(templates: list[Path]) -> None:
    assert len(templates) >= 25
    for path in templates:
        data = with_keys(key_value(b"tokenizer.chat_template", ValueType.STRING, path.read_bytes()))
        assert codes(i2s.lint(data)) == set(), path.name


def test_engines_render_published_templates(templates: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """All are compared, and most are equal; -s shows the differences."""
    pytest.importorskip("jinja2", reason="the extra [chat] is not installed")
    missing = PROGRAM["xllamacpp"].missing()
    if missing is not None:
        pytest.skip(missing)
    folders = PROGRAM["xllamacpp"].folder.glob("lib/python*/site-packages")
    monkeypatch.setattr(sys, "path", [*sys.path, *map(str, folders)])
    model, counts = io.BytesIO(), Counter[str]()
    new(model, "llama", layers=1)
    for path in templates:
        target = io.BytesIO()
        keys = {KEY: path.read_text(encoding="utf-8"), "tokenizer.ggml.add_bos_token": False}
        rewrite(model.getvalue(), target, set=keys)
        found = template_checks(i2s.open(target.getvalue()))
        assert found is not None
        assert found.same is not None, (path.name, found.not_run)
        causes = {each.difference.cause for each in found.differing if each.difference is not None}
        counts["equal" if found.same else "equal but for variables" if "" not in causes else "different"] += 1
        print(path.name, found.words[0], *(f"\n    {text}" for text, _ in found.remarks()))
    print(dict(counts))
    assert counts["equal"] > len(templates) // 2, counts
