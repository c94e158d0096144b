"""`lint` of a folder has an error exactly where `import` refuses it: on every folder that tests of checkpoints make."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_import_checkpoint import REFUSED
from test_lint_checkpoint_findings import BROKEN, FOLDERS
from tiny_checkpoints import NORMS, SIZES, TINY, TYPE, Maker, Tiny, bonsai, llama3, packed_2b4t, plain_llama

from i2s_spec.checkpoints.import_checkpoint import import_checkpoint
from i2s_spec.checkpoints.lint_checkpoint import lint_checkpoint
from i2s_spec.errors import FormatError
from i2s_spec.testing.malformed.situations import SITUATIONS, Situation

INDEX = "model.safetensors.index.json"
ADAPTER = {"peft_type": "LORA", "r": 8, "base_model_name_or_path": "org/base", "target_modules": ["q_proj"]}
NET = "model.layers.0.linear_attn"
GATE = "model.layers.1.mlp.gate_proj.weight"


def peft(folder: Path) -> None:
    """What PEFT saves: two small matrices for each module that is changed."""
    tiny = Tiny({}, {f"base_model.model.model.layers.0.self_attn.q_proj.lora_{word}.weight": ("F32", np.zeros(shape, "<f4"))
                     for word, shape in (("A", (8, 128)), ("B", (128, 8)))})  # fmt: skip
    tiny.write(folder)
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "config.json").unlink()
    (folder / "adapter_config.json").write_text(json.dumps(ADAPTER), encoding="utf-8")


def peft_with_config(folder: Path) -> None:
    peft(folder)
    (folder / "config.json").write_text(json.dumps(plain_llama().config), encoding="utf-8")


def peft_beside_its_base(folder: Path) -> None:
    peft(folder)
    plain_llama().write(folder)


def mlx(folder: Path) -> None:
    """Codes of 2 bits in U32 with scales and biases for groups, as mlx_lm writes them."""
    tiny = plain_llama()
    for name in [name for name, (_, words) in tiny.tensors.items() if "proj" in name and words.ndim == 2]:
        rows, cols = tiny.tensors.pop(name)[1].shape
        module = name.removesuffix(".weight")
        tiny.tensors[name] = ("U32", np.zeros((rows, cols // 16), "<u4"))
        for word in ("scales", "biases"):
            tiny.tensors[f"{module}.{word}"] = ("F16", np.ones((rows, cols // 128), "<f2"))
    tiny.config["quantization"] = {"group_size": 128, "bits": 2}
    tiny.config["quantization_config"] = {"group_size": 128, "bits": 2}
    tiny.write(folder)


def quantized_by(method: str) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        tiny = plain_llama()
        tiny.config["quantization_config"] = {"quant_method": method, "bits": 4}
        tiny.write(folder)

    return write


def asymmetric(folder: Path) -> None:
    """Weights mu - alpha, mu and mu + alpha."""
    tiny = plain_llama()
    trits = np.random.default_rng(3).integers(-1, 2, tiny.tensors[GATE][1].shape)
    tiny.tensors[GATE] = ("F16", (trits * 0.25 + 0.0625).astype("<f2"))
    tiny.write(folder)


def late(folder: Path) -> None:
    """A matrix of which only the last row is not ternary."""
    tiny = plain_llama()
    tiny.tensors[GATE][1][-1, 3] = 0.001
    tiny.write(folder)


def group_of_rows(folder: Path) -> None:
    """Scales for groups in matrices of several widths."""
    tiny = bonsai()
    tiny.write(folder)


def two_sets(index: bool, differ: bool = True) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        tiny = llama3()
        tiny.write(folder)
        if not index:
            (folder / INDEX).unlink()
        tiny.shards = 1
        if differ:
            for dtype, words in tiny.tensors.values():
                if dtype == "U8":
                    words[:] = words[::-1].copy()
        tiny.write(folder)

    return write


def stale_index(folder: Path) -> None:
    packed_2b4t().write(folder)
    text = json.dumps({"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}})
    (folder / INDEX).write_text(text, encoding="utf-8")


def parts_of_two(folder: Path) -> None:
    llama3().write(folder)
    (folder / INDEX).unlink()
    shutil.copy(folder / "model-00001-of-00003.safetensors", folder / "model-00001-of-00002.safetensors")


def edited(change: Callable[[Tiny], object], make: Callable[[], Tiny] = packed_2b4t) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        tiny = make()
        change(tiny)
        tiny.write(folder)

    return write


def more_tokens(tiny: Tiny) -> None:
    more = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = tiny.files["tokenizer.json"]["added_tokens"]
    added += [{"id": SIZES["vocab"] + i, "content": f"<|extra_{i}|>", **more} for i in range(2)]


def one_ternary(tiny: Tiny) -> None:
    """One matrix that is ternary already, among floats of the training."""
    tiny.tensors[GATE] = Maker(1, "F16", SIZES).model("ternary", NORMS, tied=True)[GATE]


def without(name: str) -> Callable[[Tiny], object]:
    return lambda tiny: tiny.files.pop(name)


def qwen35(change: Callable[[Tiny], object]) -> Callable[[Path], object]:
    return edited(change, TINY["qwen35"][1])


def qwen35_config() -> dict[str, Any]:
    return {key: value for key, value in TINY["qwen35"][1]().config.items() if key.startswith("linear_")}


def shaped(name: str, *shape: int) -> Callable[[Tiny], object]:
    return lambda tiny: tiny.tensors.update({name: ("F32", np.ones(shape, "<f4"))})


def rotation(**values: object) -> Callable[[Tiny], object]:
    return lambda tiny: tiny.config["rope_parameters"].update(values)


def text(name: str, content: str) -> Callable[[Tiny], object]:
    return lambda tiny: tiny.files.update({name: content})


#: Further folders: how each is written, whether an import takes it, and words of the refusal or of a finding.
MORE: dict[str, tuple[Callable[[Path], object], bool, str]] = {
    "peft": (peft, False, "a PEFT adapter (LoRA) of 'org/base'"),
    "peft with config": (peft_with_config, False, "the weights of a PEFT adapter"),
    "peft beside its base": (peft_beside_its_base, True, ""),
    "mlx": (mlx, False, "packed by MLX (bits 2, group_size 128)"),
    "gptq": (quantized_by("gptq"), False, "quant_method 'gptq'"),
    "bitsandbytes": (quantized_by("bitsandbytes"), False, "quant_method 'bitsandbytes'"),
    "asymmetric": (asymmetric, False, "asymmetric ternary weights: the first 128 weights have the values -0.1875, 0.0625"),
    "late": (late, False, "not ternary: its first rows are, and others are not"),
    "two sets": (two_sets(False), True, "two sets of weights: 'model.safetensors' was taken"),
    "two sets and an index": (two_sets(True), True, "two sets of weights: 'model.safetensors' was taken"),
    "an index of files that are gone": (stale_index, True, "'model.safetensors' was taken"),
    "parts of two sets": (parts_of_two, False, "are of two sets of weights"),
    "more tokens than rows": (edited(more_tokens), False, "has the id 385, and the embedding has 384 rows"),
    "activation": (edited(lambda tiny: tiny.config.update(hidden_act="silu2")), False, "hidden_act is 'silu2'"),
    "no tokenizer": (edited(without("tokenizer.json")), False, "neither tokenizer.json nor tokenizer.model"),
    "no settings of a tokenizer": (edited(without("tokenizer_config.json")), True, ""),
    "settings are no JSON": (edited(text("tokenizer_config.json", "{")), False, "is not JSON"),
    "generation is no JSON": (edited(text("generation_config.json", "{")), False, "is not JSON"),
    "tokenizer is deep": (edited(text("tokenizer.json", "[" * 90_000)), False, "is not JSON"),
    "tokens are no JSON": (edited(text("added_tokens.json", "{")), True, ""),
    "template is no text": (edited(lambda tiny: tiny.files.update({"chat_template.jinja": b"\xff"})), False, "not UTF-8"),
    "card is no text": (edited(lambda tiny: tiny.files.update({"README.md": b"\xff"})), False, "not UTF-8"),
    "rotation": (edited(lambda tiny: tiny.config.update(rope_scaling={"type": "llama3", "factor": 8.0})), False, "llama3"),
    "rotary shares": (edited(lambda tiny: tiny.config.update(partial_rotary_factor=0.5)), False, "partial_rotary_factor"),
    "bias of a wrong shape": (
        edited(lambda tiny: tiny.tensors.update({"model.layers.0.self_attn.q_proj.bias": ("F16", np.ones(3, "<f2"))}),
               TINY["weight-only"][1]), False, "q_proj.bias"),
    "a head beside a tied embedding": (
        edited(lambda tiny: tiny.tensors.update({"lm_head.weight": tiny.tensors["model.embed_tokens.weight"]})), True, ""),
    "zeros": (edited(lambda tiny: tiny.tensors[GATE][1].__imul__(0), plain_llama), False, "nothing but zeros"),
    "net without its decays": (qwen35(lambda tiny: tiny.tensors.pop(f"{NET}.A_log")), False, f"{NET}.A_log"),
    "net without its gate": (qwen35(lambda tiny: tiny.tensors.pop(f"{NET}.in_proj_a.weight")), False, f"{NET}.in_proj_a"),
    "net of another shape": (qwen35(shaped(f"{NET}.conv1d.weight", 256, 4)), False, f"{NET}.conv1d.weight"),
    "net in a layer of attention": (
        qwen35(shaped(f"{NET.replace('0', '1')}.dt_bias", 4)), False, f"{NET.replace('0', '1')}.dt_bias"),
    "attention in place of a net": (
        qwen35(lambda tiny: tiny.config.update(layer_types=["full_attention"] * 2)), False, f"{NET}.A_log"),
    "layers of another kind": (
        qwen35(lambda tiny: tiny.config.update(layer_types=["sliding_attention"] * 2)), False, "layer_types"),
    "layer types are a word": (qwen35(lambda tiny: tiny.config.update(layer_types="full_attention")), False, "layer_types"),
    "layers by an interval": (
        qwen35(lambda tiny: tiny.config.update(layer_types=None, full_attention_interval=2)), True, ""),
    "heads of two widths": (qwen35(lambda tiny: tiny.config.update(linear_key_head_dim=64)), False, "linear_key_head_dim"),
    "value heads in part": (qwen35(lambda tiny: tiny.config.update(linear_num_key_heads=3)), False, "not a multiple"),
    "no width of heads": (qwen35(lambda tiny: tiny.config.pop("linear_key_head_dim")), False, "linear_key_head_dim"),
    "no sizes of nets": (qwen35(lambda tiny: tiny.config.pop("linear_num_value_heads")), False, ""),
    "sizes of nets in another model": (
        edited(lambda tiny: tiny.config.update(qwen35_config(), layer_types=["full_attention"] * 2)), False, "delta nets"),
    "attention without a gate": (qwen35(lambda tiny: tiny.config.update(attn_output_gate=False)), False, "output_gate"),
    "no share of rotation": (qwen35(rotation(partial_rotary_factor=0)), False, "partial_rotary_factor"),
    "half a pair": (qwen35(rotation(partial_rotary_factor=0.1)), False, "must be pairs"),
    "sections that leave a pair": (qwen35(rotation(mrope_section=[4, 0, 0])), False, "mrope_section"),
    "sections are text": (qwen35(rotation(mrope_section="211")), False, "mrope_section"),
    "huge decays": (qwen35(lambda tiny: tiny.tensors[f"{NET}.A_log"][1].fill(99)), False, "exponential"),
    "drafting layers": (qwen35(shaped("mtp.fc.weight", 128, 256)), True, ""),
    "floats in a net": (
        qwen35(lambda tiny: tiny.tensors[f"{NET}.out_proj.weight"][1].__setitem__((slice(None), 0), 0.1)), False, "ternary"),
    "kinds of matrices": (edited(one_ternary, TINY["1bitllm"][1]), False, "different rules"),
}  # fmt: skip


def _refusal(folder: Path, to: str = "I2_S") -> str:
    try:
        import_checkpoint(folder, folder.parent / "out.gguf", to=to, force=True)
    except FormatError as error:
        return str(error)
    return ""


def _agreement(folder: Path, to: str = "I2_S") -> tuple[str, Any]:
    refusal, report = _refusal(folder, to), lint_checkpoint(folder)
    assert report.bugs == ()
    assert report.ok == (refusal == ""), (refusal, report.findings)
    return refusal, report


@pytest.mark.parametrize("name", TINY)
def test_sound_folders(name: str, tmp_path: Path) -> None:
    assert _agreement(TINY[name][1]().write(tmp_path / "a"), TYPE.get(name, "I2_S"))[0] == ""


@pytest.mark.parametrize("name", REFUSED)
def test_folders_that_imports_refuse(name: str, tmp_path: Path) -> None:
    REFUSED[name][0](tmp_path / "a")
    assert _agreement(tmp_path / "a")[0] != ""


@pytest.mark.parametrize("name", BROKEN)
def test_folders_with_broken_tensors(name: str, tmp_path: Path) -> None:
    make, change, _, _ = BROKEN[name]
    tiny = make()
    change(tiny)
    _agreement(tiny.write(tmp_path / "a"))


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_with_broken_files(name: str, tmp_path: Path) -> None:
    FOLDERS[name][0](llama3().write(tmp_path / "a"))
    _agreement(tmp_path / "a")


@pytest.mark.parametrize("code", [code for code in SITUATIONS if code.startswith("H2")])
def test_folders_that_break_a_rule(code: str, tmp_path: Path) -> None:
    situation = SITUATIONS[code]
    assert isinstance(situation, Situation)
    (tmp_path / "a").mkdir()
    for name, make in situation.files.items():
        (tmp_path / "a" / name).write_bytes(make())
    _agreement(tmp_path / "a", "F32")  # matrices of 8 columns


@pytest.mark.parametrize("name", MORE)
def test_further_folders(name: str, tmp_path: Path) -> None:
    write, taken, words = MORE[name]
    write(tmp_path / "a")
    refusal, report = _agreement(tmp_path / "a")
    assert taken == (refusal == "")
    assert taken or words in refusal
    assert not words or any(words in finding.message for finding in report.findings)


def test_the_file_that_transformers_takes_is_the_model(tmp_path: Path) -> None:
    """Of two sets of weights, with an index and without."""
    for index in (False, True):
        two_sets(index)(tmp_path / f"{index}")
        result = import_checkpoint(tmp_path / f"{index}", tmp_path / f"{index}.gguf", name="a")
        assert [note for note in result.notes if "'model.safetensors' was taken, as transformers does" in note]
        for part in (tmp_path / f"{index}").glob("model-*"):
            part.unlink()
    single = import_checkpoint(tmp_path / "False", tmp_path / "single.gguf", name="a")
    assert not [note for note in single.notes if "taken" in note]
    made = {(tmp_path / f"{name}.gguf").read_bytes() for name in ("False", "True", "single")}
    assert len(made) == 1


def test_a_refusal_names_only_types_that_then_work(tmp_path: Path) -> None:
    """Matrices of 128 columns have one scale a row, for which more types exist than for wider ones."""
    group_of_rows(tmp_path / "a")
    refusal = _refusal(tmp_path / "a")
    named = refusal.rpartition("; ")[2].removesuffix(" can store all matrices").split(", ")
    assert "Q2_0" in named
    for to in ("Q2_0", "I2_SR", "IQ2_BN", "TQ2_0", "F16", "BF16", "F32"):
        assert (_refusal(tmp_path / "a", to) == "") == (to in named), to


def test_a_refusal_names_only_families_that_then_work(tmp_path: Path) -> None:
    tiny = packed_2b4t()
    tiny.config["architectures"] = ["MambaForCausalLM"]
    refusal = _refusal(tiny.write(tmp_path / "a"))
    assert refusal.endswith("It has what these need, which --family chooses: bitnet-2b4t")
    import_checkpoint(tmp_path / "a", tmp_path / "b.gguf", family="bitnet-2b4t")
    tiny.tensors = {"x": ("F32", np.ones((1, 1), "<f4"))}
    assert "--family" not in _refusal(tiny.write(tmp_path / "c"))


def test_weights_that_no_option_makes_ternary_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    asymmetric(tmp_path / "a")
    with pytest.raises(FormatError, match="asymmetric ternary weights"):
        import_checkpoint(tmp_path / "a", tmp_path / "out.gguf", to="F32")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
