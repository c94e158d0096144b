"""Checkpoints of transformers' own classes: imported, their logits are theirs; exported and loaded again, as well.

Weights are random; the classes, their layers (`AutoBitLinear`) and their files are transformers' own.
"""

from __future__ import annotations

import json
import os
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # compiled, transformers disagrees with itself

if find_spec("transformers") is None:  # before torch, whose import takes seconds
    pytest.skip("transformers is not installed: pip install -e '.[oracle]'", allow_module_level=True)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[oracle]'")
    import transformers
    from transformers.integrations.bitnet import AutoBitLinear

from tiny_checkpoints import LLAMA_TEMPLATE, PROJECTIONS, text_files

import i2s_spec as i2s
from i2s_spec.checkpoints.export.export_checkpoint import export_checkpoint
from i2s_spec.checkpoints.receipt.make_receipt import failed, make_receipt
from i2s_spec.checkpoints.writing.import_checkpoint import import_checkpoint

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.thorough]

COMMON: dict[str, Any] = {
    "vocab_size": 384, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "bos_token_id": 381, "eos_token_id": 382,
}  # fmt: skip
TOKENS = np.random.default_rng(11).integers(0, 380, 24).tolist()

#: Class, its configuration, more of it, and the pre-tokenizer.
CLASSES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "bitnet": ("BitNetForCausalLM", "BitNetConfig", {"hidden_act": "relu2", "tie_word_embeddings": True}, "llama-bpe"),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {"hidden_act": "silu", "tie_word_embeddings": False}, "llama-bpe"),
}


def random_model(kind: str, seed: int) -> Any:
    """A model of transformers whose projections are BitLinear with the floats of training."""
    name, config, more, _ = CLASSES[kind]
    torch.manual_seed(seed)
    made = getattr(transformers, config)(**COMMON, **more, attn_implementation="eager")
    model = getattr(transformers, name)(made).float().eval()
    with torch.no_grad():
        for layer in model.model.layers:
            for module in PROJECTIONS:
                linear = layer.get_submodule(module)
                other = AutoBitLinear(linear.in_features, linear.out_features, False, online_quant=True)
                other.weight.copy_(torch.randn_like(linear.weight) * 0.05)
                layer.set_submodule(module, other)
            for norm in ("input_layernorm", "post_attention_layernorm"):
                gain = layer.get_submodule(norm).weight
                gain.copy_(1 + 0.2 * torch.randn_like(gain))
    return model


def logits_of(model: Any) -> np.ndarray:
    with torch.no_grad():
        return model(torch.tensor([TOKENS])).logits[0].float().numpy()


def saved(model: Any, kind: str, folder: Path) -> Path:
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    for name, content in text_files(CLASSES[kind][3], 384).items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max() / np.abs(other).max())


@pytest.mark.parametrize("kind", CLASSES)
def test_logits_of_an_imported_model_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    """In most models no code of an activation lies on a tie; there the logits are equal to rounding."""
    without = 0
    for seed in range(4):
        model = random_model(kind, seed)
        folder = saved(model, kind, tmp_path / str(seed))
        path = tmp_path / f"{seed}.gguf"
        result = import_checkpoint(folder, path, embedding="F32")
        assert result.rules == {"absmean": 14}
        found = i2s.load_model(path, "hf-f32").forward(TOKENS).logits
        assert found is not None
        apart = distance(found, logits_of(model))
        without += apart <= 2e-6
        assert apart < 0.1
        assert failed(make_receipt(folder, path, only="abcdfgk")) == []
    assert without >= 2


@pytest.mark.parametrize("kind", CLASSES)
def test_what_is_exported_is_loaded_by_transformers_with_the_same_logits(kind: str, tmp_path: Path) -> None:
    """`from_pretrained` reads the folder: packed, marked offline. Where no code lies on a tie the logits are equal."""
    without = 0
    for seed in range(4):
        model = random_model(kind, seed)
        import_checkpoint(saved(model, kind, tmp_path / f"a{seed}"), tmp_path / f"{seed}.gguf", embedding="F32")
        with i2s.open(tmp_path / f"{seed}.gguf") as file:
            export_checkpoint(file, tmp_path / f"b{seed}")
            ours = i2s.load_tokenizer(file).encode("The weights are ternary.")
        loaded = transformers.AutoModelForCausalLM.from_pretrained(
            tmp_path / f"b{seed}", dtype=torch.float32, attn_implementation="eager"
        ).eval()
        apart = distance(logits_of(loaded), logits_of(model))
        without += apart <= 2e-6
        assert apart < 0.1
    assert without >= 2
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "b3")
    assert tokenizer("The weights are ternary.")["input_ids"] == ours
    assert tokenizer.chat_template == LLAMA_TEMPLATE


@pytest.mark.parametrize("architecture", ["qwen3", "gemma3"])
def test_embedding_models_are_loaded_by_transformers(architecture: str, tmp_path: Path) -> None:
    """Norms inside of projections come from the folder as well."""
    i2s.new(tmp_path / "a.gguf", architecture, seed=5)
    with i2s.open(tmp_path / "a.gguf") as file:
        export_checkpoint(file, tmp_path / "b")
    loaded = transformers.AutoModel.from_pretrained(
        tmp_path / "b", dtype=torch.float32, attn_implementation="eager"
    ).eval()
    tokens = [token % 320 for token in TOKENS[:9]]
    with torch.no_grad():
        theirs = loaded(torch.tensor([tokens])).last_hidden_state[0].numpy()
    found = i2s.load_model(tmp_path / "a.gguf", "hf-f32").forward(tokens, taps=("result_norm",)).taps["result_norm"]
    rows = np.array([distance(one, other) for one, other in zip(found, theirs, strict=True)])
    assert np.median(rows) <= 2e-5


def test_online_shrinks_every_scale(tmp_path: Path) -> None:
    """The trap that export refuses: transformers quantizes ternary weights once more, by their mean."""
    model = random_model("bitnet", 2)
    import_checkpoint(saved(model, "bitnet", tmp_path / "a"), tmp_path / "a.gguf")
    with i2s.open(tmp_path / "a.gguf") as file:
        weights = file.tensors["blk.0.ffn_up.weight"].dequantize()
        scale = file.tensors["blk.0.ffn_up.weight"].scale()
    online = AutoBitLinear(128, 256, False, online_quant=True)
    with torch.no_grad():
        online.weight.copy_(torch.from_numpy(weights))
        again = np.abs(online(torch.eye(128) * 127).numpy()).max() / 127
    share = np.count_nonzero(weights) / weights.size
    assert again == pytest.approx(scale * share, rel=1e-3)
