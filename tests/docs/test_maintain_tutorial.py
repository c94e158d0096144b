"""The tutorial for maintainers: its commands run, one after the other, and print what the page says they print."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from peers.programs import PROGRAM

from i2s_site import checkout
from i2s_spec.cli.replay import ran, replay

PAGE = (checkout.chapters() / "tutorials" / "maintain.md").read_text(encoding="utf-8")
HEADING = "Is its chat template the same to the engines?"


def blocks(kind: str) -> list[str]:
    """The fences of a kind in the page."""
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the page presupposes: the model, also in a store of Ollama, and the files that it names."""
    replay(blocks("bash")[0].strip(), tmp_path)
    data = (tmp_path / "ours.gguf").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    store = tmp_path / "store"
    manifest = store / "manifests/registry.ollama.ai/library/ours/latest"
    blob = store / f"blobs/sha256-{digest}"
    for path in (manifest, blob):
        path.parent.mkdir(parents=True)
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}", "size": len(data)}
    manifest.write_text(json.dumps({"layers": [layer]}), encoding="utf-8")
    blob.write_bytes(data)
    monkeypatch.setenv("OLLAMA_MODELS", str(store))
    (tmp_path / "chat_template.jinja").write_text(blocks("jinja")[0], encoding="utf-8")
    (tmp_path / "description.txt").write_text("A model.", encoding="utf-8")
    replay("i2s show ours.gguf --format record -o header.json", tmp_path)
    replay("i2s hash ours.gguf --write SHA256SUMS -q", tmp_path)
    return tmp_path


def test_its_commands_run(folder: Path) -> None:
    """Those that transcripts do not show; nothing is asked of a hub."""
    lines = [line for block in blocks("bash")[1:] for line in block.splitlines() if "hf://" not in line]
    assert len(lines) > 10
    for line in lines:
        if ("cyclonedx" in line and find_spec("cyclonedx") is None) or (
            "--deep" in line and find_spec("jinja2") is None
        ):
            continue
        printed = replay(line, folder)
        if "--deep" in line and find_spec("xllamacpp") is None:
            assert f"{HEADING}  no engine that was run renders it: 'SecurityError: " in printed
        else:
            assert "[exit" not in printed, printed
    assert {"described.gguf", "renamed.gguf", "shorter.gguf", "chat.gguf"} <= {path.name for path in folder.iterdir()}


def test_the_finding_is_accepted_in_this_file_only(folder: Path) -> None:
    [toml] = blocks("toml")
    (folder / "i2s.toml").write_text(toml, encoding="utf-8")
    assert "1 finding of M112 suppressed: trained with one matrix" in replay("i2s lint ours.gguf", folder)
    replay("i2s fix ours.gguf --set general.license=MIT -o next.gguf -q", folder)
    (folder / "next.gguf").replace(folder / "ours.gguf")
    assert "note: M112 head-missing" in replay("i2s lint ours.gguf", folder)


def test_the_engines_differ_as_the_page_shows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2", reason="the extra [chat] is not installed")
    missing = PROGRAM["xllamacpp"].missing()
    if missing is not None:
        pytest.skip(missing)
    packages = PROGRAM["xllamacpp"].folder.glob("lib/python*/site-packages")
    monkeypatch.setattr(sys, "path", [*sys.path, *map(str, packages)])
    change, doctor = next(block for block in blocks("bash") if "--deep" in block).splitlines()
    replay(change, folder)
    done = ran(shlex.split(doctor)[1:], folder)
    shown = HEADING + done.stdout.decode().partition(HEADING)[2].partition("\n\n")[0] + "\n"
    assert (done.returncode, shown) == (0, blocks("text")[0])
