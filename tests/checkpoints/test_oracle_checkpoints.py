"""Checkpoints of transformers' own classes: an import has the same logits, and so has an export that is loaded again.

Weights are random; the classes, their layers (`AutoBitLinear`, `BitLinear`) and their files are transformers' own.
Language models are compared by logits, embedding models by the hidden states after the last norm.
"""

from __future__ import annotations

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
    from oracle_models import Kind, kinds, loaded, random_model, saved
    from transformers.integrations.bitnet import AutoBitLinear

from reference_import import CheckpointForward, Witness, differences
from tiny_checkpoints import LLAMA_TEMPLATE

import i2s_spec as i2s
from i2s_spec.checkpoints.export_checkpoint import export_checkpoint
from i2s_spec.checkpoints.families import BY_FAMILY
from i2s_spec.checkpoints.folder import CheckpointFolder
from i2s_spec.checkpoints.import_checkpoint import import_checkpoint
from i2s_spec.checkpoints.receipt import failed, make_receipt
from i2s_spec.schema.architectures import PREFIXES

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.thorough]

KINDS = kinds()
TOKENS = np.random.default_rng(11).integers(0, 380, 24).tolist()

#: Largest difference relative to the largest value: without an activation on a rounding tie, and with one.
SAME, NEAR = 2e-6, 0.1


def computed(model: Any, kind: Kind) -> np.ndarray:
    """What transformers computes: logits or hidden states, float32 [tokens, ...]."""
    with torch.no_grad():
        found = model(torch.tensor([TOKENS]))
    return (found.last_hidden_state if kind.embedding else found.logits)[0].float().numpy()


def computed_here(path: Path, folder: Path, kind: Kind) -> np.ndarray:
    """The same of the file, by its graph; of an architecture without one, by the checkpoint's own forward pass."""
    if BY_FAMILY[kind.family].architecture not in PREFIXES:
        with CheckpointFolder(folder) as opened:
            forward = CheckpointForward(Witness(opened))
            return forward.logits(forward.hidden(TOKENS))
    result = i2s.load_model(path, "hf-f32").forward(TOKENS, taps=("result_norm",))
    found = result.taps["result_norm"] if kind.embedding else result.logits
    assert found is not None
    return np.asarray(found)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max() / np.abs(other).max())


def test_every_family_is_tested() -> None:
    assert {kind.family for kind in KINDS.values()} == set(BY_FAMILY)


@pytest.mark.parametrize("name", KINDS)
def test_logits_survive_import_and_export(name: str, tmp_path: Path) -> None:
    """In most models no code of an activation lies on a tie; there the logits are equal to rounding."""
    kind = KINDS[name]
    imported = exported = 0
    for seed in range(kind.seeds):
        folder, model = saved(random_model(kind, seed), kind, tmp_path / f"a{seed}")
        path, again = tmp_path / f"{seed}.gguf", tmp_path / f"b{seed}"
        wanted = computed(model, kind)
        result = import_checkpoint(folder, path, to=kind.to, embedding="F32")
        assert result.recognized.family.name == kind.family
        assert failed(make_receipt(folder, path, only="abcdfgk")) == []
        with CheckpointFolder(folder) as opened, i2s.open(path) as file:
            assert differences(file, Witness(opened)) == []

        apart = distance(computed_here(path, folder, kind), wanted)
        assert apart < NEAR
        imported += kind.rounds or apart <= SAME
        if not kind.form:
            exported += 1
            continue
        export_checkpoint(path, again, form=kind.form)
        apart = distance(computed(loaded(again, kind), kind), wanted)
        assert apart < NEAR
        exported += apart <= SAME
        if seed == 0 and kind.pre:
            tokenizer = transformers.AutoTokenizer.from_pretrained(again)
            ours = i2s.load_tokenizer(path).encode("The weights are ternary.")
            assert tokenizer("The weights are ternary.")["input_ids"] == ours
            assert tokenizer.chat_template == LLAMA_TEMPLATE
    assert min(imported, exported) >= kind.seeds / 2


def test_online_quantization_shrinks_every_scale(tmp_path: Path) -> None:
    """The trap that export refuses: transformers quantizes ternary weights once more, by their mean."""
    kind = KINDS["2B-4T, bf16"]
    folder, _ = saved(random_model(kind, 2), kind, tmp_path / "a")
    import_checkpoint(folder, tmp_path / "a.gguf")
    with i2s.open(tmp_path / "a.gguf") as file:
        weights = file.tensors["blk.0.ffn_up.weight"].dequantize()
        scale = file.tensors["blk.0.ffn_up.weight"].scale()
    online = AutoBitLinear(128, 256, False, online_quant=True)
    with torch.no_grad():
        online.weight.copy_(torch.from_numpy(weights))
        again = np.abs(online(torch.eye(128) * 127).numpy()).max() / 127
    share = np.count_nonzero(weights) / weights.size
    assert again == pytest.approx(scale * share, rel=1e-3)


@pytest.mark.parametrize("choices", [{"form": "F32", "for_absmean": True}, {"weight_scale": "divide"}])
@pytest.mark.parametrize("architecture", ["bitnet-b1.58", "llama"])
def test_transformers_computes_the_file_of_each_export(
    architecture: str, choices: dict[str, Any], tmp_path: Path
) -> None:
    """`online` finds trits and scales of floats made for it, and `bitlinear` divides by reciprocal scales."""
    i2s.new(tmp_path / "a.gguf", architecture)
    with i2s.open(tmp_path / "a.gguf") as file:
        export_checkpoint(file, tmp_path / "c", **choices)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "c", dtype=torch.float32)
    tokens = list(range(5, 13))
    with torch.no_grad():
        theirs = model(torch.tensor([tokens])).logits[0].numpy()
    ours = np.asarray(i2s.load_model(tmp_path / "a.gguf", "hf-f32").forward(tokens).logits)
    assert np.linalg.norm(theirs - ours) <= 1e-5 * np.linalg.norm(ours)
