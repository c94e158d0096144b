"""Exporting files to checkpoints and importing these gives the same files."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from reference_import import absmean
from tiny_checkpoints import TINY, TYPE, bonsai, llama3, one_bit_llm, packed_2b4t

import i2s_spec as i2s
from i2s_spec.checkpoints.export_checkpoint import FORMS, export_checkpoint, for_absmean
from i2s_spec.checkpoints.import_checkpoint import import_checkpoint
from i2s_spec.checkpoints.receipt import failed, make_receipt
from i2s_spec.checkpoints.source_weights import FLOATS, float_windows
from i2s_spec.cli import cli
from i2s_spec.codec.shape import FLOAT_WORDS, to_bfloat16
from i2s_spec.errors import SettingError
from i2s_spec.safetensors.files import Checkpoint

#: Families that need different inverse transforms in an export; the others are thorough.
QUICK = ("2b4t-packed", "llama3", "embedding-qwen3", "embedding-gemma3", "bonsai", "weight-only")


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.thorough)
        for name in TINY
        if name != "qwen35"  # it cannot be exported
    ],
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


def _exported(path: Path, folder: Path, **choices: Any) -> tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]:
    """config.json, the tensors by name, and the notes of an export."""
    with i2s.open(path) as file:
        notes = export_checkpoint(file, folder, **choices).notes
    with Checkpoint(folder) as tensors:
        found = {
            name: np.concatenate(list(float_windows(each))).reshape(each.shape) if each.dtype in FLOATS else each.dtype
            for name, each in tensors.items()
        }
    return json.loads((folder / "config.json").read_text(encoding="utf-8")), found, notes


@given(
    trits=st.lists(st.lists(st.integers(-1, 1), min_size=8, max_size=8), min_size=1, max_size=40),
    scale=st.floats(2.0**-16, 2.0**13, width=32),
    form=st.sampled_from(["F32", "F16", "BF16"]),
)
def test_the_mean_magnitude_gives_back_trits_and_scale(trits: list[list[int]], scale: float, form: str) -> None:
    """Each weight is exact in its type, and within two steps of the scale divided by the share; they are not all equal."""
    wanted = np.array(trits, dtype=np.int8)
    used = np.count_nonzero(wanted)
    with np.errstate(over="ignore"):
        weights = for_absmean(wanted, scale, form)
        if form == "F16" and scale * wanted.size / max(used, 1) > 6e4:
            return  # `float_words` refuses it
        words = (
            to_bfloat16(weights).view(np.uint16) if form == "BF16" else weights.astype({"F16": "f2", "F32": "f4"}[form])
        )
    if form == "BF16":
        assert np.array_equal((words.astype(np.uint32) << 16).view(np.float32), weights)
    else:
        assert np.array_equal(words.astype(np.float32), weights)
    found = absmean(weights)
    assert np.array_equal(found.trits, wanted)
    if used:
        step = {"F32": 2.0**-23, "F16": max(2.0**-10, 2.0**-23 / scale), "BF16": 2.0**-7}[form]
        assert float(found.scales.item()) == pytest.approx(scale, rel=step / used + 1e-6)
        assert np.abs(weights)[wanted != 0] == pytest.approx(scale * wanted.size / used, rel=2.1 * step)
        assert used == 1 or np.unique(np.abs(weights[wanted != 0])).size == 2


@pytest.mark.parametrize("architecture", ["bitnet", "llama", "qwen3-lm"])
@pytest.mark.parametrize("form", ["F32", "BF16"])
def test_floats_for_absmean_are_the_same_model(architecture: str, form: str, tmp_path: Path) -> None:
    """An import, which does what transformers does with `online`, has the same trits and scales."""
    i2s.new(tmp_path / "a.gguf", architecture)
    config, tensors, notes = _exported(tmp_path / "a.gguf", tmp_path / "c", form=form, for_absmean=True)
    assert config["quantization_config"]["quantization_mode"] == "online"
    assert any("scales that are too large" in note for note in notes)
    import_checkpoint(tmp_path / "c", tmp_path / "b.gguf")
    with i2s.open(tmp_path / "a.gguf") as a, i2s.open(tmp_path / "b.gguf") as b:
        for name, tensor in a.tensors.items():
            if tensor.type is not None and tensor.type.name == "I2_S":
                assert np.array_equal(tensor.trits(), b.tensors[name].trits())
                assert b.tensors[name].scale() == pytest.approx(tensor.scale(), rel=2e-6)
        scale, trits = a.tensors["blk.0.ffn_up.weight"].scale(), a.tensors["blk.0.ffn_up.weight"].trits()
    weights = tensors["model.layers.0.mlp.up_proj.weight"]
    assert np.abs(weights).mean(dtype=np.float64) == pytest.approx(scale, rel=2e-6)
    assert np.abs(weights).max() == pytest.approx(scale * trits.size / np.count_nonzero(trits), rel=2**-6)


def test_plain_floats_have_a_note_on_programs_that_quantize_them_again(tmp_path: Path) -> None:
    i2s.new(tmp_path / "a.gguf", "bitnet")
    _, tensors, notes = _exported(tmp_path / "a.gguf", tmp_path / "c", form="F32")
    shares = [np.count_nonzero(each) / each.size for name, each in tensors.items() if "_proj" in name]
    assert any("--for-absmean" in note and f"({min(shares):.2f} to {max(shares):.2f})" in note for note in notes)
    _, _, notes = _exported(tmp_path / "a.gguf", tmp_path / "packed")
    assert not any("--for-absmean" in note for note in notes)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("embedding", [None, "F32", "F16", "BF16"])
def test_tables_have_one_type_and_vectors_are_f32(form: str, embedding: str | None, tmp_path: Path) -> None:
    i2s.new(tmp_path / "a.gguf", "llama", layers=1)
    with i2s.open(tmp_path / "a.gguf") as file:
        export_checkpoint(file, tmp_path / "c", form=form, embedding=embedding)
    with Checkpoint(tmp_path / "c") as tensors:
        types = {name: each.dtype for name, each in tensors.items()}
    assert {types["lm_head.weight"], types["model.embed_tokens.weight"]} == {
        embedding or ("F32" if form == "packed" else form)
    }
    assert types["model.norm.weight"] == types["model.layers.0.input_layernorm.weight"] == "F32"
    assert types["model.layers.0.mlp.up_proj.weight"] == ("U8" if form == "packed" else form)
    assert set(types.values()) <= {*FLOAT_WORDS, "U8"}


def test_scales_that_divide_come_back(tmp_path: Path) -> None:
    """A Falcon or HF1BitLLM model is what it was: its class, and its scales to the last bit but one."""
    import_checkpoint(llama3().write(tmp_path / "checkpoint"), tmp_path / "a.gguf")
    config, _, notes = _exported(tmp_path / "a.gguf", tmp_path / "c", weight_scale="divide")
    assert config["quantization_config"]["linear_class"] == "bitlinear"
    assert not any("llama.cpp's converter" in note for note in notes)
    result = import_checkpoint(tmp_path / "c", tmp_path / "b.gguf")
    assert result.recognized.convention == "divide"
    with i2s.open(tmp_path / "a.gguf") as a, i2s.open(tmp_path / "b.gguf") as b:
        for name, tensor in a.tensors.items():
            if tensor.type is not None and tensor.type.name == "I2_S":
                assert np.array_equal(tensor.trits(), b.tensors[name].trits())
                assert b.tensors[name].scale() == pytest.approx(tensor.scale(), rel=2**-23)


def test_names_of_1bitllm(tmp_path: Path) -> None:
    """The folder is of 1bitLLM's class, and is imported as such."""
    i2s.new(tmp_path / "a.gguf", "bitnet")
    config, tensors, _ = _exported(tmp_path / "a.gguf", tmp_path / "c", form="BF16", for_absmean=True, names="1bitllm")
    assert (config["architectures"], config["weight_bits"]) == (["BitnetForCausalLM"], 1)
    assert "quantization_config" not in config
    assert {"model.layers.1.self_attn.inner_attn_ln.weight", "model.layers.1.mlp.ffn_layernorm.weight"} < set(tensors)
    result = import_checkpoint(tmp_path / "c", tmp_path / "b.gguf")
    assert (result.recognized.family.name, dict(result.rules)) == ("1bitllm", {"absmean": 14})
    i2s.new(tmp_path / "relu2.gguf", "bitnet-b1.58")
    with i2s.open(tmp_path / "relu2.gguf") as file, pytest.raises(SettingError, match="SiLU"):
        export_checkpoint(file, tmp_path / "d", form="BF16", names="1bitllm")


def test_choices_that_exclude_each_other(tmp_path: Path) -> None:
    i2s.new(tmp_path / "a.gguf", "llama")
    with i2s.open(tmp_path / "a.gguf") as file:
        for choices, reason in (
            ({"for_absmean": True}, "for floats"),
            ({"form": "F16", "weight_scale": "divide"}, "no weight_scale"),
            ({"form": "F16", "mode": "online"}, "--for-absmean"),
            ({"names": "1bitllm"}, "1bitLLM's class has floats"),
            ({"names": "other"}, "there are: transformers, 1bitllm"),
            ({"embedding": "Q8_0"}, "the embedding cannot be 'Q8_0'"),
        ):
            with pytest.raises(SettingError, match=reason):
                export_checkpoint(file, tmp_path / "out", **choices)
    import_checkpoint(bonsai().write(tmp_path / "d"), tmp_path / "groups.gguf", to="Q2_0")
    with i2s.open(tmp_path / "groups.gguf") as file, pytest.raises(SettingError, match="different scales"):
        export_checkpoint(file, tmp_path / "out", form="F16", for_absmean=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("architecture", "form", "words"),
    [
        ("llama", "packed", "cannot read packed matrices"),
        ("llama", "F32", "load it"),
        ("bitnet-b1.58", "F32", "do not know the class BitNetForCausalLM"),
        ("qwen3-lm", "F16", "Ollama does not know the class Qwen3ForCausalLM"),
    ],
)
def test_what_ollama_and_jlama_do_with_the_folder(architecture: str, form: str, words: str, tmp_path: Path) -> None:
    i2s.new(tmp_path / "a.gguf", architecture)
    with i2s.open(tmp_path / "a.gguf") as file:
        notes = export_checkpoint(file, tmp_path / "c", form=form).notes
    assert [note for note in notes if words in note and "Ollama" in note]


_SENTENCEPIECE = """
import json, sys
from sentencepiece import SentencePieceProcessor as Processor
theirs = Processor(model_file=sys.argv[1])
special = [theirs.bos_id(), theirs.eos_id(), theirs.unk_id()]
print(json.dumps([special, [theirs.encode(text) for text in json.loads(sys.argv[2])]]))
"""


def test_tokenizer_model_has_what_sentencepiece_needs(tmp_path: Path) -> None:
    """Byte pieces need `byte_fallback`; the library itself reads it where it is installed."""
    import_checkpoint(one_bit_llm().write(tmp_path / "checkpoint"), tmp_path / "a.gguf")
    with i2s.open(tmp_path / "a.gguf") as file:
        export_checkpoint(file, tmp_path / "c")
    ours = i2s.load_tokenizer(tmp_path / "a.gguf")
    data = (tmp_path / "c" / "tokenizer.model").read_bytes()
    assert b"\x98\x02\x01" in data  # field 35, an integer: 1
    if find_spec("sentencepiece") is None:
        pytest.skip("sentencepiece is not installed: pip install sentencepiece")
    texts = ["The weights are ternary.", "  two spaces  and é 中"]
    # In a process of its own: two libraries that bring a protobuf each do not get along in one.
    words = [sys.executable, "-c", _SENTENCEPIECE, str(tmp_path / "c" / "tokenizer.model"), json.dumps(texts)]
    special, ids = json.loads(subprocess.run(words, check=True, capture_output=True, encoding="utf-8").stdout)
    assert special == [1, 2, 0]
    assert [[1, *each] for each in ids] == [ours.encode(text) for text in texts]


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
