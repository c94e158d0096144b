"""The rules about templates on published ones: those that llama.cpp's tests use, from a source distribution."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from i2s_spec.errors import Span
from i2s_spec.linter.rules.template import template_findings
from peers.arch_tables import sdist


def test_published_templates_have_no_findings(tmp_path: Path) -> None:
    archive = os.environ.get("I2S_LLAMA_CPP_SDIST")
    if not archive:
        pytest.skip("I2S_LLAMA_CPP_SDIST names no source distribution of llama-cpp-python")
    folder = sdist.unpack(Path(archive), tmp_path, ["models/templates"]) / "models/templates"
    paths = sorted(folder.glob("*.jinja"))
    assert len(paths) >= 25
    for path in paths:
        data = path.read_bytes()
        assert list(template_findings(b"chat_template", data, Span(0, len(data), path.name))) == []
