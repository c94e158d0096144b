"""Models of Ollama's store: their names, and stores that others made."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from builders import model_bytes
from click.testing import CliRunner

from i2s_spec.cli import cli, main
from i2s_spec.errors import FormatError
from i2s_spec.gguf.ollama_store import store, stored_model

MODEL = model_bytes("llama", layers=1)
MEDIA = "application/vnd.ollama.image."


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store, empty but for its folders."""
    folder = tmp_path / "models"
    (folder / "blobs").mkdir(parents=True)
    monkeypatch.setenv("OLLAMA_MODELS", str(folder))
    return folder


def layer(models: Path, data: bytes, kind: str) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    (models / "blobs" / f"sha256-{digest}").write_bytes(data)
    return {"mediaType": MEDIA + kind, "digest": f"sha256:{digest}", "size": len(data)}


def manifest(models: Path, layers: Any, *place: str) -> None:
    path = models.joinpath("manifests", *(place or ("registry.ollama.ai", "library", "tiny", "latest")))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(layers if isinstance(layers, str) else json.dumps({"layers": layers}), encoding="utf-8")


def blob(data: bytes = MODEL) -> str:
    return f"sha256-{hashlib.sha256(data).hexdigest()}"


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("tiny", ("registry.ollama.ai", "library", "tiny", "latest")),
        ("tiny:1b-q4_K_M", ("registry.ollama.ai", "library", "tiny", "1b-q4_K_M")),
        ("someone/tiny", ("registry.ollama.ai", "someone", "tiny", "latest")),
        ("models.example/org/tiny-GGUF:Q8_0", ("models.example", "org", "tiny-GGUF", "Q8_0")),
    ],
)
def test_names(models: Path, name: str, place: tuple[str, ...]) -> None:
    manifest(models, [layer(models, MODEL, "model"), layer(models, b"{}", "params")], *place)
    assert stored_model(f"ollama:{name}") == (str(models / "blobs" / blob()), ())


def test_what_is_used_beside_the_model_is_named(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layers = [layer(models, MODEL, "model"), layer(models, b"p", "projector"), layer(models, b"a", "adapter")]
    manifest(models, layers)
    with pytest.raises(SystemExit) as ended:
        main(["lint", "--no-config", "ollama:tiny"])
    assert ended.value.code == 0
    printed = capsys.readouterr()
    assert f"{blob()}: ok" in printed.out
    assert [line.partition("/")[0] for line in printed.err.splitlines()] == [
        "i2s: ollama:tiny is ", "i2s: it is used with the projector ", "i2s: it is used with the adapter ",
    ]  # fmt: skip


@pytest.mark.parametrize("verb", ["show", "doctor", "identify", "hash", "dump"])
def test_any_verb_takes_a_name(models: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    manifest(models, [layer(models, MODEL, "model")])
    with pytest.raises(SystemExit) as ended:
        main([verb, "ollama:tiny"])
    assert ended.value.code == 0
    assert capsys.readouterr().err.startswith("i2s: ollama:tiny is ")


def test_a_reference_may_be_a_name(models: Path, tmp_path: Path) -> None:
    manifest(models, [layer(models, MODEL, "model")])
    (tmp_path / "model.gguf").write_bytes(MODEL)
    with pytest.raises(SystemExit) as ended:
        main(["lint", "--no-config", "-q", str(tmp_path / "model.gguf"), "--reference", "ollama:tiny"])
    assert ended.value.code == 0


@pytest.mark.parametrize(
    "name",
    [
        "", "../tiny", "a/../tiny", "tiny:../../x", "/etc/passwd", "a/b/c/d", "tiny:", ":latest", "tiny\0", "ti ny", "..",
        "a\nb", "tiny:latest/", "\x1b[31m", "a" * 10_000,
    ],
)  # fmt: skip
def test_what_is_no_name(models: Path, name: str) -> None:
    with pytest.raises(FormatError, match="Ollama's names are") as error:
        stored_model(f"ollama:{name}")
    assert error.value.code == "S901"


GOOD = {"mediaType": f"{MEDIA}model", "digest": "sha256:" + "0" * 64, "size": 0}


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ("", "no JSON with layers"),
        ("[" * 100_000, "no JSON with layers"),
        ('{"layers": 7}', "no JSON with layers"),
        ('{"layers": [[]]}', "no JSON with layers"),
        ("[]", "no JSON with layers"),
        ([], "0 layers"),
        ([{"mediaType": [], "digest": 1}], "0 layers"),
        ([GOOD, GOOD], "2 layers"),
        ([GOOD | {"digest": "sha256:../../../../etc/passwd"}], "digest"),
        ([GOOD | {"digest": "sha256:" + "0" * 63 + "/"}], "digest"),
        ([GOOD | {"digest": "md5:" + "0" * 64}], "digest"),
        ([GOOD | {"digest": None}], "digest"),
        ([GOOD | {"digest": "sha256:" + "0" * 64 + "\n"}], "digest"),
    ],
)
def test_wrong_manifests(models: Path, layers: Any, words: str) -> None:
    manifest(models, layers)
    with pytest.raises(FormatError, match=words) as error:
        stored_model("ollama:tiny")
    assert error.value.code == "S901"


def test_a_blob_that_is_not_there_or_has_another_size(models: Path) -> None:
    good = layer(models, MODEL, "model")
    for size in (0, len(MODEL) + 1, True, None, "1", -1):
        manifest(models, [good | {"size": size}])
        with pytest.raises(FormatError, match="another size"):
            stored_model("ollama:tiny")
    (models / "blobs" / blob()).unlink()
    manifest(models, [good])
    with pytest.raises(FormatError) as error:
        stored_model("ollama:tiny")
    assert error.value.code == "S901"


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_links_do_not_lead_out_of_the_store(models: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(MODEL)
    good = layer(models, MODEL, "model")
    manifest(models, [good])
    (models / "blobs" / blob()).unlink()
    (models / "blobs" / blob()).symlink_to(tmp_path / "secret")
    with pytest.raises(FormatError) as error:
        stored_model("ollama:tiny")
    assert error.value.code == "S904"
    place = models / "manifests" / "registry.ollama.ai" / "library" / "tiny" / "latest"
    place.unlink()
    place.symlink_to(tmp_path / "secret")
    with pytest.raises(FormatError) as error:
        stored_model("ollama:tiny")
    assert error.value.code == "S904"


def test_the_place_of_the_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OLLAMA_MODELS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert store() == os.path.join(str(tmp_path), ".ollama", "models")
    with pytest.raises(FormatError, match="there is no manifests"):
        stored_model("ollama:tiny")


def test_no_model_is_written_over(models: Path) -> None:
    """The blob counts as an input of the call."""
    manifest(models, [layer(models, MODEL, "model")])
    path = models / "blobs" / blob()
    found = CliRunner().invoke(cli, ["convert", "ollama:tiny", str(path), "--force"])
    assert found.exit_code == 2
    assert path.read_bytes() == MODEL
