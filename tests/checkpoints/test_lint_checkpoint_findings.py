"""Lint of checkpoints: valid folders of every family, a folder that breaks each rule, and hostile folders."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tiny_checkpoints import TINY, Tiny, bf16_2b4t, llama3, packed_2b4t, plain_llama

import i2s_spec as i2s
from i2s_spec.checkpoints.lint_checkpoint import lint_checkpoint
from i2s_spec.cli import cli
from i2s_spec.errors import FormatError
from i2s_spec.linter.options import Options
from i2s_spec.linter.rules.checkpoint import LIKELY
from i2s_spec.testing.malformed.situations import SITUATIONS, Situation
from i2s_spec.testing.sample import LAYER, CheckpointSample, Q

INDEX = "model.safetensors.index.json"


def folder_of(sample: CheckpointSample, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name, data in sample.files().items():
        (folder / name).write_bytes(data)
    return folder


def codes(folder: Path, **options: Any) -> list[str]:
    report = lint_checkpoint(folder, **options)
    assert report.bugs == ()
    assert all(finding.message.isprintable() for finding in report.findings)
    return [finding.code for finding in report.findings]


@pytest.mark.parametrize("name", TINY)
def test_sound_folders_of_every_family_have_no_finding(name: str, tmp_path: Path) -> None:
    report = lint_checkpoint(TINY[name][1]().write(tmp_path))
    assert (report.findings, report.bugs, report.ok) == ((), (), True)
    assert report.size == sum(file.stat().st_size for file in tmp_path.glob("*.safetensors"))


@pytest.mark.parametrize("code", [code for code in SITUATIONS if code.startswith("H2")])
def test_each_rule_on_a_folder_that_breaks_it(code: str, tmp_path: Path) -> None:
    situation = SITUATIONS[code]
    assert isinstance(situation, Situation)
    for name, make in situation.files.items():
        (tmp_path / name).write_bytes(make())
    found = codes(tmp_path, profile="security" if "security" in situation.command else "default")
    assert set(found) == {code}
    assert codes(tmp_path, ignore=(code,)) == []
    assert codes(folder_of(CheckpointSample(), tmp_path / "sound")) == []


def tensor(name: str, words: Any, dtype: str) -> Callable[[Tiny], None]:
    return lambda tiny: tiny.tensors.__setitem__(name, (dtype, np.asarray(words)))


def _no_quantization(tiny: Tiny) -> None:
    del tiny.config["quantization_config"]


def _rows_of_no_fours(tiny: Tiny) -> None:
    tiny.tensors[Q] = ("U8", tiny.tensors[Q][1][:31])


FLOAT_SCALE = np.array([1.0, 2.0], dtype="<f4")

#: How a checkpoint is changed, and the expected codes and words of the message.
BROKEN: dict[str, tuple[Callable[[], Tiny], Callable[[Tiny], object], list[str], str]] = {
    "scale of two floats": (packed_2b4t, tensor(f"{Q}_scale", FLOAT_SCALE, "F32"), ["H207"], "not one float"),
    "scale is infinite": (
        packed_2b4t, lambda tiny: tiny.tensors[f"{Q}_scale"][1].__setitem__(0, 0x7F80), ["H207", "H213"], "is inf, not a"),
    "scale beside floats": (bf16_2b4t, tensor(f"{Q}_scale", FLOAT_SCALE[:1], "F32"), ["H207"], "that is 'BF16'"),
    "scale of nothing": (
        packed_2b4t, tensor("model.layers.0.x.weight_scale", FLOAT_SCALE[:1], "F32"), ["H205", "H207"], "no such matrix"),
    "packed without quantization_config": (packed_2b4t, _no_quantization, ["H209"], "it is missing"),
    "other method": (
        packed_2b4t, lambda tiny: tiny.config["quantization_config"].update(quant_method="gptq"), ["H209"], "'gptq'"),
    "other class": (
        packed_2b4t, lambda tiny: tiny.config["quantization_config"].update(linear_class="x"), ["H209"], "known are"),
    "no object": (packed_2b4t, lambda tiny: tiny.config.update(quantization_config=[1]), ["H209"], "not an object"),
    "other convention": (
        llama3, lambda tiny: tiny.config["quantization_config"].update(linear_class="autobitlinear"), ["H210"],
        "multiplies"),
    "packed shape": (packed_2b4t, _rows_of_no_fours, ["H206"], "(31, 128)"),
    "size is text": (packed_2b4t, lambda tiny: tiny.config.update(hidden_size="x"), ["H104"], "hidden_size"),
    "untied without a head": (
        packed_2b4t, lambda tiny: tiny.config.update(tie_word_embeddings=False), ["H212"], "there is no lm_head"),
    "wrapped by an adapter": (
        packed_2b4t, lambda tiny: setattr(tiny, "tensors", {f"base_model.model.{k}": v for k, v in tiny.tensors.items()}),
        ["H214"], "'base_model.model.'"),
    "wrapped by a compiler": (
        llama3, lambda tiny: setattr(tiny, "tensors", {f"_orig_mod.{k}": v for k, v in tiny.tensors.items()}),
        ["H214"], "'_orig_mod.'"),
    "layer too many": (
        packed_2b4t, lambda tiny: tiny.config.update(num_hidden_layers=1), ["H205"], "layers.1"),
    "infinite weights of a ternary model": (
        plain_llama, lambda tiny: tiny.tensors["lm_head.weight"][1].__setitem__((0, 0), math.inf), ["H213"], "1 value that"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_checkpoint_that_is_broken(name: str, tmp_path: Path) -> None:
    make, change, want, words = BROKEN[name]
    tiny = make()
    change(tiny)
    report = lint_checkpoint(tiny.write(tmp_path))
    assert sorted({finding.code for finding in report.findings}) == want
    assert any(words in finding.message for finding in report.findings)
    assert report.bugs == ()


def _index(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        index = json.loads((folder / INDEX).read_text())
        change(index)
        (folder / INDEX).write_text(json.dumps(index))

    return edit


SHARD = "model-00002-of-00003.safetensors"


def _more_bytes(folder: Path) -> None:
    with (folder / SHARD).open("ab") as file:
        file.write(b"x")


#: How a folder of three shards is changed, and the expected codes and words.
FOLDERS: dict[str, tuple[Callable[[Path], object], set[str], str]] = {
    "missing shard": (lambda folder: (folder / SHARD).unlink(), {"H201", "H203"}, f"'{SHARD}', which is missing"),
    "no index": (lambda folder: (folder / INDEX).unlink(), {"H215"}, "the shards have no model.safetensors.index"),
    "no index and a missing shard": (
        lambda folder: ((folder / INDEX).unlink(), (folder / SHARD).unlink()), {"H104"},
        "one of 3 shards, of which 2 are there, and there is no"),
    "no weight_map": (_index(lambda index: index.pop("weight_map")), {"H201"}, "no weight_map"),
    "empty weight_map": (_index(lambda index: index["weight_map"].clear()), {"H201"}, "names no tensor"),
    "in another shard": (
        _index(lambda index: index["weight_map"].update({"lm_head.weight": SHARD})), {"H201"}, "which is in 'model-00001"),
    "not in the index": (_index(lambda index: index["weight_map"].pop("lm_head.weight")), {"H201"}, "is not in model"),
    "a path": (
        _index(lambda index: index["weight_map"].update({"lm_head.weight": "../x.safetensors"})), {"H201"},
        "not the name of a file"),
    "index is not JSON": (lambda folder: (folder / INDEX).write_text("{"), {"H104", "H201"}, "is not JSON"),
    "no config": (lambda folder: (folder / "config.json").unlink(), {"H104", "H209"}, "no config.json"),
    "config is deep": (lambda folder: (folder / "config.json").write_text('{"a":' * 9999), {"H104", "H209"}, "not JSON"),
    "a cut shard": (lambda folder: os.truncate(folder / SHARD, 99), {"H101", "H203", "H207"}, "not a safetensors file"),
    "bytes of no tensor": (_more_bytes, {"H101", "H203", "H207"}, "belong to no tensor"),
    "a pickle": (
        lambda folder: [(folder / SHARD.replace("2-of", f"{part}-of")).rename(folder / f"{part}.bin") for part in (1, 2, 3)],
        {"H104", "H201"}, "are pickles ('1.bin')"),
    "a tensor twice": (
        lambda folder: ((folder / "a.safetensors").write_bytes((folder / SHARD).read_bytes()), (folder / INDEX).unlink(),
                        [path.rename(folder / f"{path.name[6:11]}.safetensors") for path in folder.glob("model-*")]),
        {"H201"}, "and in"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_is_broken(name: str, tmp_path: Path) -> None:
    change, want, words = FOLDERS[name]
    folder = llama3().write(tmp_path)
    change(folder)
    report = lint_checkpoint(folder)
    assert want <= {finding.code for finding in report.findings} <= want | {"H203", "H207"}
    assert any(words in finding.message for finding in report.findings)
    assert report.bugs == ()
    assert all(finding.span.path for finding in report.findings)


def test_a_model_that_is_not_ternary_is_no_model_of_ours(tmp_path: Path) -> None:
    tiny = plain_llama()
    for name, (dtype, words) in tiny.tensors.items():
        noise = np.random.default_rng(5).standard_normal(words.shape)
        tiny.tensors[name] = (dtype, noise.astype("<f2"))
    report = lint_checkpoint(tiny.write(tmp_path))
    assert [(finding.code, finding.severity.value) for finding in report.findings] == [("H202", "error")]
    assert "its weights are not ternary" in report.findings[0].message


def test_a_scale_that_fits_both_conventions_is_not_a_finding(tmp_path: Path) -> None:
    """A scale counts as inverted only if it is far above those of trained models and its reciprocal is like them."""
    for scale, found in ((1 / LIKELY[1] - 0.1, []), (1 / LIKELY[1] + 0.1, ["H210"]), (1.5, []), (5000.0, [])):
        assert codes(folder_of(CheckpointSample(scale), tmp_path)) == found


def test_how_much_of_the_weights_is_read(tmp_path: Path) -> None:
    """Rules on weights are silent without them; a sample has the first and the last bytes of each tensor."""
    sample = CheckpointSample()
    sample.floats("model.norm.weight", (8,), math.nan)
    sample.floats("lm_head.weight", (4, 8), 3.0)
    folder = folder_of(sample, tmp_path)
    assert codes(folder, payload="none") == []
    assert codes(folder, payload="sample") == codes(folder) == ["H212", "H213"]


def test_options_apply_as_for_files(tmp_path: Path) -> None:
    sample = CheckpointSample()
    del sample.tensors["model.norm.weight"], sample.tensors[f"{LAYER}mlp.ffn_sub_norm.weight"]
    folder = folder_of(sample, tmp_path)
    assert codes(folder, select=("H203",)) == ["H203"]
    report = lint_checkpoint(folder, Options(severity={"H204": "warning"}, suppressed={"H203": "known"}))
    assert [(each.code, each.severity.value) for each in report.findings] == [("H204", "warning")]
    assert [(each.code, each.reason) for each in report.suppressed] == [("H203", "known")]
    with pytest.raises(TypeError, match="exclude each other"):
        lint_checkpoint(folder, Options(), ignore=("H203",))
    with pytest.raises(ValueError, match="no rule has a code"):
        lint_checkpoint(folder, select=("H9",))
    assert [finding.code for finding in lint_checkpoint(tmp_path / "nowhere").findings] == ["S901"]


def test_a_rule_that_crashes_is_reported_as_a_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from i2s_spec.checkpoints import lint_checkpoint as module

    def broken(facts: object) -> None:
        raise RuntimeError("no")

    rule = module.REGISTRY["H206"]
    monkeypatch.setitem(module.REGISTRY, "H206", rule._replace(check=broken))
    report = module.lint_checkpoint(folder_of(CheckpointSample(), tmp_path))
    assert [(bug.where, bug.message) for bug in report.bugs] == [("H206", "RuntimeError: no")]


def test_lint_on_the_command_line(tmp_path: Path) -> None:
    """Folders of checkpoints among files, in one process and in several, in every form."""
    (tmp_path / "models").mkdir()
    folder_of(CheckpointSample(), tmp_path / "models" / "sound")
    broken = CheckpointSample()
    del broken.tensors["model.norm.weight"]
    worse = str(folder_of(broken, tmp_path / "models" / "worse"))
    i2s.new(tmp_path / "models" / "a.gguf")
    for jobs in ("1", "2"):
        arguments = ["lint", "--jobs", jobs, "--format", "concise", str(tmp_path / "models")]
        run = CliRunner().invoke(cli, arguments, standalone_mode=False)
        assert run.return_value == 1
        assert "sound: ok" in run.output
        assert "a.gguf: ok" in run.output
        assert f"{worse}: error: H203 checkpoint-tensor-missing: the checkpoint has no tensor" in run.output
    for form in ("json", "sarif", "html", "junit", "markdown", "github", "jsonl"):
        run = CliRunner().invoke(cli, ["lint", "--format", form, worse], standalone_mode=False)
        assert (run.return_value, "H203" in run.output) == (1, True), form


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    """Nobody may ever write to it."""
    folder = packed_2b4t().write(tmp_path / "a")
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    assert codes(folder) == ["H104", "H209"]
    with pytest.raises(FormatError, match="this is a FIFO, not a regular file"):
        i2s.import_checkpoint(folder, tmp_path / "a.gguf")
    assert not (tmp_path / "a.gguf").exists()


@pytest.mark.parametrize("key", ["quant_method", "linear_class", "quantization_mode"])
@pytest.mark.parametrize("value", [["autobitlinear"], {}, 1, True])
def test_config_values_of_another_type_are_findings(key: str, value: Any, tmp_path: Path) -> None:
    tiny = packed_2b4t()
    tiny.config["quantization_config"][key] = value
    assert set(codes(tiny.write(tmp_path))) <= {"H209", "H210"}
