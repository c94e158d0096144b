"""Folders of strangers: links that lead out of them, and what a check of a checkpoint looks for besides its weights."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tiny_checkpoints import llama3, packed_2b4t, plain_llama

import i2s_spec as i2s
from i2s_spec.checkpoints import token_files
from i2s_spec.checkpoints.import_checkpoint import import_checkpoint
from i2s_spec.checkpoints.lint_checkpoint import lint_checkpoint
from i2s_spec.checkpoints.receipt import make_receipt
from i2s_spec.cli import cli
from i2s_spec.errors import FormatError
from i2s_spec.gguf.source import below, open_below, read_below
from i2s_spec.golden.dumps import read_dump
from i2s_spec.linter.paths import inputs, lint_paths
from i2s_spec.safetensors.files import Checkpoint

SECRET = "the words of a user"
PROFILES = ("default", "security", "strict")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text(SECRET, encoding="utf-8")
    return path


def codes(folder: Path, **options: Any) -> set[str]:
    report = lint_checkpoint(folder, **options)
    assert report.bugs == ()
    assert SECRET not in str(report.as_dict())
    return {finding.code for finding in report.findings}


# --- links -----------------------------------------------------------------------------------------------------------


def test_what_lies_below_a_folder(tmp_path: Path, secret: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "a").write_bytes(b"abc")
    for name, target in {
        "inside": "inner/a", "around": "../folder/inner/a", "whole": str(folder / "inner" / "a"), "inner/up": "../inside",
    }.items():  # fmt: skip
        (folder / name).symlink_to(target)
        assert read_below(folder, name, 3) == b"abc"
    for name, target in {"out": "../secret.txt", "far": str(secret), "step": "inner/../../secret.txt"}.items():
        (folder / name).symlink_to(target)
        with pytest.raises(FormatError, match="S904"):
            open_below(folder, name)
    (folder / "chain").symlink_to("out")
    (folder / "place").symlink_to("..")
    (tmp_path / "folder-beside").mkdir()
    (folder / "beside").symlink_to("../folder-beside")
    for name in ("chain", "place/secret.txt", "beside"):
        with pytest.raises(FormatError, match="S904"):
            below(folder, name)
    (folder / "nowhere").symlink_to("none")
    (folder / "round").symlink_to("round")
    for name in ("nowhere", "round", "none"):
        with pytest.raises(FormatError, match="S901"):
            open_below(folder, name)
    assert below(folder, "out", tmp_path) == str(secret.resolve())
    (tmp_path / "link").symlink_to("folder")
    assert read_below(tmp_path / "link", "inside", 3) == b"abc"  # the folder itself may be named by a link
    with pytest.raises(OSError, match="3 bytes, and 2 at most"):
        read_below(folder, "inside", 2)


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="no /proc here")
def test_files_that_the_system_makes_up_are_no_regular_files(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"S902.*of size 0 and not empty"):
        i2s.open("/proc/self/environ")
    assert [each.code for each in i2s.lint("/proc/self/environ").findings] == ["S902"]
    (tmp_path / "empty.gguf").write_bytes(b"")
    assert [each.code for each in i2s.lint(tmp_path / "empty.gguf").findings] == ["G001"]


TEXTS = {
    "chat_template.jinja": SECRET, "config.json": "{}", "tokenizer.json": "{}",
    "README.md": f"---\nlicense: {SECRET}\n---\n", "tokenizer_config.json": "{}",
    "generation_config.json": "{}", "model.safetensors": "",
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_an_import_follows_no_link_out_of_the_folder(name: str, tmp_path: Path) -> None:
    folder, target = packed_2b4t().write(tmp_path / "a"), tmp_path / "outside"
    if (folder / name).exists() and name != "README.md":
        shutil.copy(folder / name, target)  # even what would be right
    else:
        target.write_text(TEXTS[name], encoding="utf-8")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(target)
    with pytest.raises(FormatError, match=r"H104.*a link that leads out of the folder"):
        import_checkpoint(folder, tmp_path / "out.gguf")
    assert not (tmp_path / "out.gguf").exists()
    for profile in PROFILES:
        assert "H104" in codes(folder, profile=profile)


def test_the_cache_of_a_hub_and_links_inside_are_right(tmp_path: Path) -> None:
    """`snapshots/COMMIT/NAME -> ../../blobs/DIGEST`, as the hub's client lays it."""
    plain = llama3().write(tmp_path / "plain")
    import_checkpoint(plain, tmp_path / "plain.gguf", name="a")
    cache = tmp_path / "hub" / "models--org--name"
    snapshot = cache / "snapshots" / ("c" * 40)
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir()
    inside = tmp_path / "inside"
    (inside / "data").mkdir(parents=True)
    for number, file in enumerate(sorted(plain.iterdir())):
        shutil.copy(file, cache / "blobs" / f"{number}")
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
        shutil.copy(file, inside / "data" / file.name)
        (inside / file.name).symlink_to(f"data/{file.name}")
    for folder in (snapshot, inside):
        assert codes(folder, payload="full") == set()
        import_checkpoint(folder, tmp_path / "out.gguf", name="a", force=True)
        assert (tmp_path / "out.gguf").read_bytes() == (tmp_path / "plain.gguf").read_bytes()
    receipt = make_receipt(snapshot, tmp_path / "plain.gguf", only="ab")
    assert {each["name"] for each in receipt["checkpoint"]} > {"config.json", "tokenizer.json"}
    assert [report["ok"] for _, report in lint_paths([str(tmp_path / "hub")], folders=_folder)] == [True]
    (snapshot / "chat_template.jinja").symlink_to("../../refs")  # not a blob
    (cache / "refs").write_text(SECRET, encoding="utf-8")
    assert "H104" in codes(snapshot)


def _folder(path: str, options: Any, root: str = "") -> dict[str, Any]:
    from i2s_spec.checkpoints.lint_checkpoint import lint_folder

    return lint_folder(path, options, root)


def test_folders_of_one_repository_may_share_files(tmp_path: Path) -> None:
    """In a run over the whole of it; alone, a folder has no right to what lies beside it."""
    shared = tmp_path / "repository" / "shared"
    model = packed_2b4t().write(tmp_path / "repository" / "model")
    shared.mkdir()
    (model / "tokenizer.json").rename(shared / "tokenizer.json")
    (model / "tokenizer.json").symlink_to("../shared/tokenizer.json")
    assert [report["ok"] for _, report in lint_paths([str(tmp_path / "repository")], folders=_folder)] == [True]
    assert [report["ok"] for _, report in lint_paths([str(model)], folders=_folder)] == [False]


def test_a_search_reads_no_file_outside_of_its_folder(tmp_path: Path, secret: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    i2s.new(folder / "a.gguf")
    (folder / "b.gguf").symlink_to("a.gguf")
    (folder / "p.gguf").symlink_to(secret)
    for name in (str(folder), str(folder / "*.gguf"), str(tmp_path / "**" / "*.gguf")):
        run = CliRunner().invoke(cli, ["lint", "--json", name], standalone_mode=False)
        files = {Path(file["path"]).name: file for file in json.loads(run.output)["files"]}
        if "**" not in name:
            assert [each["code"] for each in files["p.gguf"]["findings"]] == ["S904"]
        assert SECRET.encode()[:8].hex() not in run.output.replace(" ", "") or "**" in name
        assert files["b.gguf"]["ok"]
    run = CliRunner().invoke(cli, ["doctor", "--json", str(folder)], standalone_mode=False)
    assert run.return_value == 3
    assert SECRET.encode()[:8].hex() not in run.output
    assert [each.path for each in inputs([str(folder / "p.gguf")]) if not each.problem]  # what is named is opened
    assert [each.code for each in i2s.lint(folder / "p.gguf").findings] == ["G002"]


def test_dumps_and_references_read_no_file_outside_of_their_folder(tmp_path: Path, secret: Path) -> None:
    dump = tmp_path / "dump"
    dump.mkdir()
    (dump / "l_out-1.bin").write_bytes(struct.pack("<4f", 1, 2, 3, 4))
    (dump / "l_out-2.bin").symlink_to("l_out-1.bin")
    assert [tap.value.tolist() for tap in read_dump(dump).values()] == [[1, 2, 3, 4]] * 2
    (dump / "l_out-0.bin").symlink_to(secret)
    with pytest.raises(FormatError, match="S904"):
        read_dump(dump)
    folder = plain_llama().write(tmp_path / "reference")
    shutil.move(folder / "model.safetensors", tmp_path / "model.safetensors")
    (folder / "model.safetensors").symlink_to("../model.safetensors")
    with pytest.raises(FormatError, match="S904"):
        Checkpoint(folder)
    assert len(Checkpoint(folder / "model.safetensors"))  # what is named is opened


def test_parts_of_a_model_may_be_linked_together(tmp_path: Path) -> None:
    """Parts lie beside the first one, or beside the file that it is a link to, and nowhere else."""
    from i2s_spec.testing.sample import Model

    model = Model("llama")
    names = [f"model-{number:05d}-of-00002.gguf" for number in (1, 2)]
    (tmp_path / "store").mkdir()
    (tmp_path / "links").mkdir()
    for name, data in zip(names, model.split(3, len(model.tensors) - 3, all_keys=True), strict=True):
        (tmp_path / "store" / name).write_bytes(data)
        (tmp_path / "links" / name).symlink_to(f"../store/{name}")
    assert i2s.lint(tmp_path / "links" / names[0]).ok
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "store" / names[1]).rename(tmp_path / "elsewhere" / names[1])
    (tmp_path / "links" / names[1]).unlink()
    (tmp_path / "links" / names[1]).symlink_to(f"../elsewhere/{names[1]}")
    assert "S904" in str(i2s.lint(tmp_path / "links" / names[0]).findings)


# --- what is looked for ----------------------------------------------------------------------------------------------

REACHES = "{{ ''.__class__ }}"
LONG = "{% for i in range(10**9) %}x{% endfor %}"


def _settings(folder: Path, **values: Any) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")


def _metadata(folder: Path, about: dict[str, str]) -> None:
    path = folder / "model.safetensors"
    data = path.read_bytes()
    stop = 8 + struct.unpack_from("<Q", data)[0]
    text = json.dumps(
        {"__metadata__": about, **{k: v for k, v in json.loads(data[8:stop]).items() if k[:2] != "__"}}
    ).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[stop:])


#: What is put into a folder, and the rule that finds it in every profile.
TEXTS_FOUND: dict[str, tuple[Callable[[Path], object], str]] = {
    "a template of its own": (lambda f: (f / "chat_template.jinja").write_text(REACHES, encoding="utf-8"), "S201"),
    "a template in the settings": (lambda f: _settings(f, chat_template=REACHES), "S201"),
    "a template among several": (
        lambda f: _settings(f, chat_template=[{"name": "default", "template": "x"}, {"name": "tool_use", "template": LONG}]),
        "S202"),
    "one that another file overrides": (
        lambda f: (_settings(f, chat_template=REACHES), (f / "chat_template.jinja").write_text("x", encoding="utf-8")),
        "S201"),
    "templates by name": (
        lambda f: (f / "chat_template.json").write_text(json.dumps({"chat_template": REACHES}), encoding="utf-8"), "S201"),
    "a template of a processor": (
        lambda f: (f / "processor_config.json").write_text(json.dumps({"chat_template": REACHES}), encoding="utf-8"),
        "S201"),
    "a template in the header of a shard": (lambda f: _metadata(f, {"format": "pt", "x": REACHES}), "S201"),
    "control characters there": (lambda f: _metadata(f, {"format": "pt", "title": "a\x1b[2Jb"}), "S209"),
    "invisible text": (
        lambda f: (f / "chat_template.jinja").write_text("x\u200b{{ messages }}", encoding="utf-8"), "S204"),
    "an escape in a file's name": (lambda f: (f / "a\x1b[2J.txt").write_bytes(b""), "S209"),
}  # fmt: skip


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", TEXTS_FOUND)
def test_texts_are_found(name: str, profile: str, tmp_path: Path) -> None:
    folder = packed_2b4t().write(tmp_path / "a")
    assert codes(folder, profile=profile) == set()
    change, code = TEXTS_FOUND[name]
    change(folder)
    assert codes(folder, profile=profile) == {code}
    assert all(finding.message.isprintable() for finding in lint_checkpoint(folder).findings)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize("content", ["{", "[" * 100_000, '{"a": 1, "a": 2}', "\ud800"])
def test_files_of_the_tokenizer_that_no_import_reads(name: str, content: str, profile: str, tmp_path: Path) -> None:
    folder = packed_2b4t().write(tmp_path / "a")
    (folder / name).write_bytes(content.encode("utf-8", "surrogatepass"))
    assert codes(folder, profile=profile) == {"H104"}


def test_code_is_named_where_safety_is_asked_for(tmp_path: Path) -> None:
    """Pickles, modules and what auto_map names; nothing of them is opened."""
    folder = packed_2b4t().write(tmp_path / "a")
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02.")
    (folder / "modeling_x.py").write_bytes(b"raise SystemExit")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8")) | {
        "auto_map": {"AutoModel": "modeling_x.X"}
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert codes(folder) == set()
    for profile, level in (("security", "warning"), ("strict", "error")):
        report = lint_checkpoint(folder, profile=profile)
        assert [(each.code, each.severity.value, each.span.path) for each in report.findings] == [
            ("H216", level, name) for name in ("modeling_x.py", "pytorch_model.bin", "config.json")
        ]
        assert "'modeling_x.X'" in report.findings[2].message


def test_files_that_nothing_looked_at_are_named(tmp_path: Path) -> None:
    folder = packed_2b4t().write(tmp_path / "a")
    assert lint_checkpoint(folder).unchecked == ()
    for name in ("LICENSE", "b.safetensors", "merges.txt", "pytorch_model.bin", "vocab.json", "z.json"):
        (folder / name).write_bytes(b"")
    report = lint_checkpoint(folder)
    assert report.unchecked == (
        "the contents of 'LICENSE', 'b.safetensors', 'merges.txt', 'pytorch_model.bin' and 2 other files",
    )
    assert (report.ok, report.words) == (True, "no error in what was checked")


@pytest.mark.usefixtures("own_process")
def test_a_tokenizer_cannot_take_more_than_its_share(tmp_path: Path) -> None:
    """Steps that each make a text longer: a few are usual, and more are refused before the library sees them."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    for part, count in (("pre_tokenizer", 5), ("normalizer", 17)):
        step = level if part == "pre_tokenizer" else {"type": "Prepend", "prepend": "x"}
        several = {"type": "Sequence", f"{part}s".replace("_", ""): [step] * count}
        with pytest.raises(token_files.CannotTellError, match=f"its {part} has more steps"):
            token_files.ask_library({part: several}, "cuts", ["a"])
    tiny = packed_2b4t()
    split = {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Isolated", "invert": False}
    tiny.files["tokenizer.json"]["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split] * 300}
    folder = tiny.write(tmp_path / "a")
    assert codes(folder) == {"H104"}
    with pytest.raises(FormatError, match="more steps than any known one"):
        import_checkpoint(folder, tmp_path / "out.gguf")
