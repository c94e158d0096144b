"""A checkpoint on a hub is linted like a local folder: by ranges, at one commit, without its weights."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from range_server import Server, Zeros, every, status
from test_remote_verbs import Said

from i2s_spec.checkpoints import folder
from i2s_spec.checkpoints.lint_checkpoint import lint_checkpoint, lint_folder
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.linter.cluster.check import check, identities
from i2s_spec.linter.cluster.manifest import manifest
from i2s_spec.linter.options import defaults
from i2s_spec.remote.policy import current, using

sys.path.append(str(Path(__file__).parents[1] / "checkpoints"))
from tiny_checkpoints import llama3

pytestmark = pytest.mark.usefixtures("private")

COMMIT = "c" * 40
REPO = "hf://org/check"
SHARD = "model-00002-of-00003.safetensors"
INDEX = "model.safetensors.index.json"


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Three shards and an index, packed."""
    folder = llama3().write(tmp_path_factory.mktemp("checkpoints") / "check")
    return {path.name: path.read_bytes() for path in folder.iterdir()} | {"pytorch_model.bin": b"pickle"}


@pytest.fixture
def checkpoint(hub: Server, files: dict[str, Any]) -> Server:
    hub.repository("org/check", files)
    hub.seen.clear()
    return hub


def changed(hub: Server, files: dict[str, Any], **changes: Any) -> None:
    hub.repository("org/check", {name: data for name, data in {**files, **changes}.items() if data is not None})


def test_a_sound_repository(checkpoint: Server) -> None:
    said = Said("lint", "--allow-private", REPO)
    assert said.status == 0, said.out + said.err
    assert "hf://org/check" in said.out
    assert "not evaluated: H208, H211, H213; 1 rule on payloads saw only the sample\n" in said.out
    assert "hf://org/check: sampled, no error in what was read\n" in said.out
    read = {seen.path.partition("?")[0].rpartition("/")[2] for seen in checkpoint.seen if "/resolve/" in seen.path}
    texts = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "README.md"}
    assert read == {INDEX, *texts, *(f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3))}
    assert all(f"/resolve/{COMMIT}/" in seen.path for seen in checkpoint.seen if "/resolve/" in seen.path)


def test_the_report_says_what_was_not_read(
    checkpoint: Server, files: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Said("lint", "--allow-private", "--json", REPO)
    report = json.loads(said.out)["files"][0]
    assert (report["path"], report["findings"], report["ok"]) == (REPO, [], True)
    assert report["not_evaluated"] == ["H208", "H211", "H213"]
    assert report["evaluated_in_part"] == ["H212"]
    assert report["remote"]["version"] == COMMIT
    assert report["unchecked"] == ["the contents of 'pytorch_model.bin'"]
    content = sum(len(data) for name, data in files.items() if name != "pytorch_model.bin")
    lists = sum("/api/" in seen.path for seen in checkpoint.seen)
    assert report["remote"]["requests"] == len(checkpoint.seen)
    assert lists > 0
    assert (report["remote"]["bytes"] - content) % lists == 0  # these files are smaller than the first range
    assert report["remote"]["bytes"] > content
    whole = lint_checkpoint(REPO, payload="full")
    assert (whole.findings, whole.sampled) == ((), None)
    assert lint_checkpoint(REPO, payload="sample").sampled == ((), (), None)  # the sample covered everything
    monkeypatch.setattr("i2s_spec.checkpoints.lint_checkpoint.PIECE", 64)
    assert lint_checkpoint(REPO, payload="sample").sampled == ((), ("H208", "H212", "H213"), None)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({SHARD: None}, "H201"),
        ({SHARD: b"\xff" * 100}, "H101"),
        ({"config.json": b"["}, "H104"),
        ({"config.json": None}, "H104"),
        ({INDEX: b'{"weight_map": {"a": "../../etc/model.safetensors"}}'}, "H201"),
    ],
)
def test_findings_are_those_of_the_folder(
    checkpoint: Server, files: dict[str, Any], tmp_path: Path, change: dict[str, Any], code: str
) -> None:
    changed(checkpoint, files, **change)
    report = lint_checkpoint(REPO)
    (tmp_path / "check").mkdir()
    for name, data in {**files, **change}.items():
        if data is not None:
            (tmp_path / "check" / name).write_bytes(data)
    local = lint_checkpoint(tmp_path / "check", payload="none")
    assert [(finding.span, str(finding.message)) for finding in report.findings] == [
        (finding.span, str(finding.message)) for finding in local.findings
    ]
    assert code in {finding.code for finding in report.findings}
    assert report.bugs == ()
    assert report.exit_code() == 1
    assert Said("lint", "--allow-private", REPO).status == 1


def test_bytes_are_bounded(hub: Server, files: dict[str, Any]) -> None:
    """Of a shard of eight gibibytes the header and the scales are read."""
    start = 1 << 32
    tensors: dict[str, Any] = {"model.norm.weight": {"dtype": "F32", "shape": [1 << 30], "data_offsets": [0, start]}}
    at = start
    for i in range(20):
        name, size = f"model.layers.{i}.mlp.up_proj.weight", 1 << 27
        tensors[name] = {"dtype": "U8", "shape": [1 << 10, 1 << 17], "data_offsets": [at, at + size]}
        tensors[f"{name}_scale"] = {"dtype": "F32", "shape": [1], "data_offsets": [at + size, at + size + 4]}
        at += size + 4
    header = json.dumps(tensors).encode()
    shard = Zeros(8 + len(header) + at, {0: len(header).to_bytes(8, "little") + header})
    hub.repository("org/check", {"config.json": files["config.json"], "model.safetensors": shard})
    hub.seen.clear()
    report = lint_checkpoint(REPO)
    assert sum("not a positive number" in finding.message for finding in report.findings) == 20
    assert report.remote is not None
    assert report.remote.bytes < 3 << 20
    assert len(hub.seen) < 15  # the scales are requested together


@pytest.mark.parametrize("number", [1, 3, 5])
def test_a_failing_server_is_not_a_fault_of_the_checkpoint(checkpoint: Server, number: int) -> None:
    checkpoint.faults.insert(0, every(number, status(403)))
    report = lint_checkpoint(REPO)
    assert [finding.code for finding in report.findings] == ["S911"]
    assert report.exit_code() == 5
    assert Said("lint", "--allow-private", REPO).status == 5


def test_one_budget_holds_for_all_files(
    checkpoint: Server, files: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    most = max(len(data) for data in files.values()) + 1000  # enough for each single file, valid or not
    broken = b"\x01" + bytes(7) + b"{" + bytes(most - 1009)
    shards = {name: None for name in files if name.endswith(".safetensors")}
    changed(checkpoint, files, **{**shards, "a.safetensors": broken, "b.safetensors": broken, INDEX: None})
    with using(current()._replace(bytes=most)):
        assert [finding.code for finding in lint_checkpoint(REPO).findings if finding.code[0] == "S"] == ["S917"]
    changed(checkpoint, files)
    limited = lint_checkpoint(REPO, remote=current()._replace(bytes=most))
    assert [finding.code for finding in limited.findings] == ["S917"]
    monkeypatch.setattr(folder, "MOST_SHARDS", 2)
    assert ["2 shards" in finding.message for finding in lint_checkpoint(REPO).findings] == [True]


def test_repositories_without_gguf_files_are_checkpoints(checkpoint: Server, files: dict[str, Any]) -> None:
    changed(checkpoint, files, **{"model.gguf": b"GGUF"})
    said = Said("lint", "--allow-private", REPO)
    assert "hf://org/check/model.gguf: " in said.out  # a repository with GGUF files stands for these
    assert "hf://org/check: " not in said.out
    checkpoint.repository("org/none", {"deep/model.safetensors": b"", "model.bin": b""})
    said = Said("lint", "--allow-private", "hf://org/none")
    assert (said.status, "S916" in said.out) == (5, True)


def test_a_folder_of_a_repository_is_checked_and_imported(hub: Server, files: dict[str, Any], tmp_path: Path) -> None:
    both = {f"{place}/{name}": data for place in ("first", "second") for name, data in files.items()}
    hub.repository("org/both", {**both, f"second/{SHARD}": b"\xff" * 100, "README.md": b""})
    assert Said("lint", "--allow-private", "hf://org/both/first").status == 0
    said = Said("lint", "--allow-private", f"{hub.url}/org/both/tree/main/second")
    assert (said.status, "H101" in said.out) == (1, True)
    said = Said("import", "--allow-private", "hf://org/both/first", "-o", str(tmp_path / "a.gguf"))
    assert said.status == 0, said.err
    with open_file(tmp_path / "a.gguf") as file:
        assert file.metadata["general.name"] == "first"


def test_an_entry_of_a_run_over_many(checkpoint: Server, files: dict[str, Any]) -> None:
    """The record has the commit; later the hub is asked for that alone."""
    (entry,) = manifest([REPO])
    assert (entry.checkpoint, entry.problem) == (True, "")
    record = check(entry.as_dict(), folders=lint_folder)
    assert (record["report"]["ok"], record["etag"], record["facts"]) == (True, COMMIT, None)
    alone = check(entry.as_dict())
    assert "a folder of safetensors" in alone["report"]["findings"][0]["message"]
    checkpoint.seen.clear()
    options = pickle.dumps(defaults())
    assert identities([entry], options, record["rules"]) == [(COMMIT, None)]
    assert len(checkpoint.seen) == 1
