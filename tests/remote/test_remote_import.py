"""A checkpoint on a hub is imported like a local folder: by ranges, at one commit, writing nothing else."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from range_server import Server, Zeros, every, status
from test_remote_verbs import Said

from i2s_spec.checkpoints.folder import MOST_CONFIG, CheckpointFolder
from i2s_spec.checkpoints.import_checkpoint import import_checkpoint
from i2s_spec.checkpoints.receipt import make_receipt
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.remote.policy import current, using

sys.path.append(str(Path(__file__).parents[1] / "checkpoints"))
from tiny_checkpoints import llama3, one_bit_llm

pytestmark = pytest.mark.usefixtures("private")

COMMIT = "c" * 40
PINNED = f"hf://org/check@{COMMIT}"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three shards, an index, and the files of a tokenizer."""
    tiny = llama3()
    tiny.files = {
        "README.md": tiny.files["README.md"], "tokenizer.model": one_bit_llm().files["tokenizer.model"],
        "tokenizer_config.json": {"bos_token": "<s>", "eos_token": "</s>"}, "pytorch_model.bin": b"pickle",
    }  # fmt: skip
    return tiny.write(tmp_path_factory.mktemp("checkpoints") / "check")


def files_of(folder: Path) -> dict[str, Any]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def checkpoint(hub: Server, folder: Path) -> Server:
    """The hub, with the checkpoint as org/check beside other files."""
    others = {
        "deep/config.json": b"{",
        "deep/model.safetensors": b"",
        "../out.safetensors": b"",
        "a b.safetensors": b"",
    }
    hub.repository("org/check", {**files_of(folder), **others})
    hub.seen.clear()
    return hub


def test_a_repository_is_imported_as_its_folder(checkpoint: Server, folder: Path, tmp_path: Path) -> None:
    import_checkpoint(folder, tmp_path / "local.gguf", source="org/check")
    (tmp_path / "empty").mkdir()
    result = import_checkpoint("hf://org/check", tmp_path / "empty" / "remote.gguf")
    assert (tmp_path / "empty" / "remote.gguf").read_bytes() == (tmp_path / "local.gguf").read_bytes()
    assert result.notes[0] == f"read from {PINNED}"
    assert [path.name for path in (tmp_path / "empty").iterdir()] == ["remote.gguf"]
    asked = {seen.path.partition("?")[0] for seen in checkpoint.seen}
    assert {path for path in asked if path.startswith("/api/")} == {"/api/models/org/check/revision/main"}
    resolved = {path for path in asked if "/resolve/" in path}
    assert all(path.startswith(f"/org/check/resolve/{COMMIT}/") for path in resolved)
    read = {path.rpartition("/")[2] for path in resolved}
    assert (
        {"config.json", "tokenizer.model", "model-00003-of-00003.safetensors"}
        <= read
        <= {path.name for path in folder.iterdir()} - {"pytorch_model.bin"}
    )


def test_a_page_and_a_folder_of_a_repository(checkpoint: Server, folder: Path) -> None:
    for name, address in ((f"{checkpoint.url}/org/check/tree/main", PINNED), (PINNED, PINNED)):
        with CheckpointFolder(name) as opened:
            assert (opened.path, opened.title, opened.repository) == (address, "check", "org/check")
            assert opened.file("config.json") == f"{address}/config.json"
            assert opened.names == sorted(files_of(folder))
            assert len(opened.shards) == 3
    checkpoint.repository("org/nested", {f"main/sub/{name}": data for name, data in files_of(folder).items()})
    with CheckpointFolder("hf://org/nested/main/sub") as opened:
        assert (opened.path, opened.title) == (f"hf://org/nested@{COMMIT}/main/sub", "sub")
        assert opened.names == sorted(files_of(folder))
        assert opened.tensors


def test_tensors_are_read_by_ranges(checkpoint: Server) -> None:
    """A shard of eight gibibytes, of which one tensor is wanted."""
    size, start = 1 << 33, (1 << 33) - 4096
    tensor = {"dtype": "F32", "shape": [1024], "data_offsets": [start - 512, start - 512 + 4096]}
    large = {"dtype": "U8", "shape": [start - 512], "data_offsets": [0, start - 512]}
    header = json.dumps({"model.layers.0.mlp.up_proj.weight": large, "model.norm.weight": tensor}).encode()
    header += b" " * (504 - len(header))
    shard = Zeros(size, {0: (504).to_bytes(8, "little") + header, start: b"\x07" * 4096})
    checkpoint.repository("org/big", {"config.json": b"{}", "model.safetensors": shard})
    with CheckpointFolder("hf://org/big") as opened:
        stored = opened.tensors["model.norm.weight"]
        assert stored.read() == b"\x07" * 4096
        assert stored.source.usage.bytes < 3 << 20  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"config.json": None}, "H104.*no config.json"),
        ({"config.json": b"["}, "H104.*config.json.* is not JSON"),
        ({"config.json": b" " * (MOST_CONFIG + 1)}, "H104.*the limit is"),
        ({"model-00002-of-00003.safetensors": None}, "H104.*which is missing"),
        ({"model-00002-of-00003.safetensors": b"\xff" * 100}, "H101.*header would have"),
        (
            {"model.safetensors.index.json": b'{"weight_map": {"a": "../../etc/model.safetensors"}}'},
            "H104.*is not the name of a safetensors file",
        ),
    ],
)
def test_invalid_checkpoints_on_a_hub_are_refused(
    checkpoint: Server, folder: Path, tmp_path: Path, change: dict[str, bytes | None], reason: str
) -> None:
    files = {name: data for name, data in (files_of(folder) | change).items() if data is not None}
    checkpoint.repository("org/check", files)
    with pytest.raises(FormatError, match=reason):
        import_checkpoint("hf://org/check", tmp_path / "out.gguf")
    assert not list(tmp_path.iterdir())


def test_a_large_text_is_refused_by_its_size(checkpoint: Server, folder: Path) -> None:
    checkpoint.repository("org/check", files_of(folder) | {"config.json": Zeros(1 << 40, {})})
    with pytest.raises(FormatError, match=r"H104.*1,099,511,627,776 bytes"):
        CheckpointFolder("hf://org/check")
    asked = [seen for seen in checkpoint.seen if seen.path.startswith("/cdn/")]
    assert [seen.ranges for seen in asked] == [[(0, 2 << 20)]]


@pytest.mark.parametrize("sha", [None, 5, "main", "../x"])
def test_a_hub_that_names_no_commit_is_not_read(checkpoint: Server, sha: Any) -> None:
    siblings = [{"rfilename": "config.json"}]
    checkpoint.files["/api/models/org/check/revision/main"] = json.dumps({"sha": sha, "siblings": siblings}).encode()
    with pytest.raises(FormatError, match=r"S918.*which commit"):
        CheckpointFolder("hf://org/check")


def test_a_file_of_another_commit_is_not_read(checkpoint: Server) -> None:
    checkpoint.extra[f"/org/check/resolve/{COMMIT}/config.json"]["X-Repo-Commit"] = "d" * 40
    with pytest.raises(FormatError, match=r"S918.*commit d{40} instead of c{40}") as error:
        CheckpointFolder("hf://org/check")
    assert error.value.file == f"{PINNED}/config.json"


def test_addresses_without_a_checkpoint_folder_are_refused(checkpoint: Server) -> None:
    checkpoint.files["/model.safetensors"] = b""
    for name in (f"{checkpoint.url}/model.safetensors", "s3://bucket/model", "hf://org/check/none", "hf://org/repo/b"):
        with pytest.raises(FormatError, match=r"S916|H104.*no config\.json"):
            CheckpointFolder(name)


def test_budgets_hold_for_an_import(checkpoint: Server, tmp_path: Path) -> None:
    with using(current()._replace(bytes=1000)), pytest.raises(FormatError, match="S917"):
        import_checkpoint("hf://org/check", tmp_path / "out.gguf")
    assert not list(tmp_path.iterdir())


def test_a_server_that_fails_midway_leaves_nothing(checkpoint: Server, tmp_path: Path) -> None:
    with CheckpointFolder("hf://org/check"):
        opened = len(checkpoint.seen)
    checkpoint.seen.clear()
    checkpoint.faults.insert(0, every(opened + 1, status(500)))
    with pytest.raises(FormatError, match="S915"):
        import_checkpoint("hf://org/check", tmp_path / "out.gguf")
    assert not list(tmp_path.iterdir())


def test_offline_the_cache_is_imported(
    checkpoint: Server, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "cache" / "models--org--check"
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text(COMMIT)
    (root / "snapshots" / COMMIT).mkdir(parents=True)
    for name, data in files_of(folder).items():
        (root / "snapshots" / COMMIT / name).write_bytes(data)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import_checkpoint(folder, tmp_path / "local.gguf", source="org/check")
    import_checkpoint("hf://org/check", tmp_path / "remote.gguf")
    assert (tmp_path / "remote.gguf").read_bytes() == (tmp_path / "local.gguf").read_bytes()
    assert checkpoint.seen == []
    (root / "refs" / "main").unlink()
    with pytest.raises(FormatError, match="S914"):
        CheckpointFolder("hf://org/check")


def test_the_receipt_of_a_hub_is_that_of_the_folder(checkpoint: Server, folder: Path, tmp_path: Path) -> None:
    import_checkpoint(folder, tmp_path / "model.gguf")
    local, remote = (
        make_receipt(place, tmp_path / "model.gguf", only="abcdek") for place in (folder, "hf://org/check")
    )
    assert remote == local
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files_of(folder).items()}
    assert {each["name"]: each["sha256"] for each in remote["checkpoint"]}.items() <= digests.items()
    assert {check["status"] for check in remote["checks"] if check["id"] in "abc"} == {"passed"}


def test_import_on_the_command_line(checkpoint: Server, tmp_path: Path) -> None:
    target = tmp_path / "out.gguf"
    said = Said("import", "--allow-private", "hf://org/check@main", "-o", str(target))
    assert said.status == 0, said.err
    assert f"note: read from {PINNED}" in said.out
    with open_file(target) as file:
        assert file.metadata["general.name"] == "check"
        assert file.metadata["general.source.huggingface.repository"] == "org/check"
    checkpoint.faults.insert(0, every(1, status(401, X_Error_Code="GatedRepo")))
    said = Said("import", "--allow-private", "hf://org/check", "-o", str(tmp_path / "no.gguf"))
    assert said.status == 5
    assert "gated" in said.err
    assert not (tmp_path / "no.gguf").exists()


def test_the_verb_refuses_private_networks_unless_told(checkpoint: Server, tmp_path: Path) -> None:
    with using(current()._replace(private=False)):
        said = Said("import", "hf://org/check", "-o", str(tmp_path / "out.gguf"))
    assert (said.status, checkpoint.seen) == (5, [])
    assert "--allow-private" in said.err
