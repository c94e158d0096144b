"""Exporting files to checkpoints and importing these gives the same files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tiny_checkpoints import TINY, TYPE, bonsai, llama3, packed_2b4t

import i2s_spec as i2s
from i2s_spec.checkpoints.export_checkpoint import export_checkpoint
from i2s_spec.checkpoints.import_checkpoint import import_checkpoint
from i2s_spec.checkpoints.receipt import failed, make_receipt
from i2s_spec.cli import cli
from i2s_spec.errors import SettingError

#: Families that need different inverse transforms in an export; the others are thorough.
QUICK = ("2b4t-packed", "llama3", "embedding-qwen3", "embedding-gemma3", "bonsai", "weight-only")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.thorough) for name in TINY]
)
def test_import_export_import_is_the_same_file(name: str, tmp_path: Path) -> None:
    """Keys and tensors are equal, but for the name; floats by groups go through F16."""
    type = TYPE.get(name, "I2_S")
    form = "F16" if name == "bonsai" else "packed"
    import_checkpoint(TINY[name][1]().write(tmp_path / "checkpoint"), tmp_path / "a.gguf", to=type, name="x")
    with i2s.open(tmp_path / "a.gguf") as file:
        export_checkpoint(file, tmp_path / "again", form=form)
    import_checkpoint(tmp_path / "again", tmp_path / "b.gguf", to=type, name="x")
    with i2s.open(tmp_path / "a.gguf") as a, i2s.open(tmp_path / "b.gguf") as b:
        assert {each.name: each.read() for each in a.tensors.values()} == {
            each.name: each.read() for each in b.tensors.values()
        }
        keys = {key for key in a.metadata if key not in ("general.license", "general.size_label")}
        assert keys == {key for key in b.metadata if key != "general.size_label"}
        assert [key for key in keys if not np.array_equal(a.metadata[key], b.metadata[key])] == []
    assert failed(make_receipt(tmp_path / "again", tmp_path / "b.gguf", only="abcefgk", positions=4)) == []


@pytest.mark.parametrize("form", ["F32", "BF16"])
def test_floats_are_trits_times_scale_without_quantization(form: str, tmp_path: Path) -> None:
    import_checkpoint(llama3().write(tmp_path / "checkpoint"), tmp_path / "a.gguf")
    with i2s.open(tmp_path / "a.gguf") as file:
        result = export_checkpoint(file, tmp_path / "floats", form=form)
        assert result.notes
    assert "quantization_config" not in json.loads((tmp_path / "floats" / "config.json").read_text())
    import_checkpoint(tmp_path / "floats", tmp_path / "b.gguf")
    with i2s.open(tmp_path / "a.gguf") as a, i2s.open(tmp_path / "b.gguf") as b:
        one, other = a.tensors["blk.1.attn_k.weight"], b.tensors["blk.1.attn_k.weight"]
        assert np.array_equal(one.trits(), other.trits())
        assert abs(other.scale() / one.scale() - 1) <= (0 if form == "F32" else 2**-8)


def test_synthetic_files_are_exported_too(tmp_path: Path) -> None:
    for architecture in ("bitnet-b1.58", "bitnet-25", "bitnet", "llama", "qwen3", "gemma3"):
        i2s.new(tmp_path / f"{architecture}.gguf", architecture, layers=1)
        with i2s.open(tmp_path / f"{architecture}.gguf") as file:
            export_checkpoint(file, tmp_path / architecture)
        result = import_checkpoint(tmp_path / architecture, tmp_path / "again.gguf", force=True)
        assert result.recognized.family.architecture == architecture.replace("-25", "-b1.58")


def test_safetensors_and_tokenizers_load_an_export(tmp_path: Path) -> None:
    from safetensors import safe_open
    from tokenizers import Tokenizer

    i2s.new(tmp_path / "a.gguf", "bitnet-b1.58")
    with i2s.open(tmp_path / "a.gguf") as file:
        export_checkpoint(file, tmp_path / "out")
        tokenizer = i2s.load_tokenizer(file)
        with safe_open(tmp_path / "out" / "model.safetensors", "np") as opened:
            packed = opened.get_tensor("model.layers.1.mlp.down_proj.weight")
            scale = opened.get_tensor("model.layers.1.mlp.down_proj.weight_scale")
        tensor = file.tensors["blk.1.ffn_down.weight"]
        found = np.concatenate([(packed >> shift & 3).astype(np.int8) - 1 for shift in (0, 2, 4, 6)])
        assert np.array_equal(found, tensor.trits())
        assert scale == tensor.scale()
        theirs = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
        assert theirs.encode("The weights are ternary.").ids == tokenizer.encode("The weights are ternary.")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["quantization_config"]["quantization_mode"] == "offline"
    assert config["rms_norm_eps"] == 1e-5


def test_a_refused_export_writes_nothing(tmp_path: Path) -> None:
    import_checkpoint(packed_2b4t().write(tmp_path / "c"), tmp_path / "a.gguf")
    import_checkpoint(bonsai().write(tmp_path / "d"), tmp_path / "groups.gguf", to="Q2_0")
    import_checkpoint(TINY["weight-only"][1]().write(tmp_path / "e"), tmp_path / "qwen2.gguf")
    data = (tmp_path / "qwen2.gguf").read_bytes()
    (tmp_path / "other.gguf").write_bytes(data.replace(b"qwen2", b"plamo"))
    (tmp_path / "short.gguf").write_bytes(data.replace(b"blk.1.attn_k.bias", b"blk.7.attn_k.bias"))
    before = sorted(each.name for each in tmp_path.iterdir())
    with i2s.open(tmp_path / "a.gguf") as file:
        with pytest.raises(SettingError, match="every scale would shrink by the share of zeros"):
            export_checkpoint(file, tmp_path / "out", mode="online")
        with pytest.raises(SettingError, match="there are: packed, F32"):
            export_checkpoint(file, tmp_path / "out", form="Q8_0")
        with pytest.raises(FileExistsError):
            export_checkpoint(file, tmp_path / "c")
        with pytest.raises(FileNotFoundError, match="the folder for the checkpoint does not exist"):
            export_checkpoint(file, tmp_path / "no" / "where")
    with i2s.open(tmp_path / "groups.gguf") as file, pytest.raises(SettingError, match="different scales"):
        export_checkpoint(file, tmp_path / "out")
    with i2s.open(tmp_path / "other.gguf") as file, pytest.raises(SettingError, match="'plamo' cannot be exported"):
        export_checkpoint(file, tmp_path / "out")
    with (
        i2s.open(tmp_path / "short.gguf") as file,
        pytest.raises(SettingError, match=r"no tensor 'blk\.1\.attn_k\.bias'"),
    ):
        export_checkpoint(file, tmp_path / "out")
    assert sorted(each.name for each in tmp_path.iterdir()) == before


def test_export_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    i2s.new("tiny.gguf", "llama")
    run = CliRunner().invoke(cli, ["export", "tiny.gguf", "-o", "out"])
    assert (run.exit_code, run.output.startswith("out: LlamaForCausalLM, ")) == (0, True), run.output
    run = CliRunner().invoke(cli, ["export", "tiny.gguf", "-o", "out"])
    assert (run.exit_code, "already exists; the checkpoint needs a new name" in run.output) == (2, True)
    run = CliRunner().invoke(cli, ["export", "tiny.gguf", "-o", "other", "--mode", "online"])
    assert run.exit_code == 2
    assert not Path("other").exists()
