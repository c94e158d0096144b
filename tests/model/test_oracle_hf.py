"""Hugging Face transformers in float32 on tiny random models: the same codes, the same logits.

The models are made by `new`, and their weights are copied into transformers' own classes, with `AutoBitLinear` and
`BitLinear` as projections. A code may differ only where x * s lies within rounding of a tie; such cases are counted.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # compiled, transformers disagrees with itself

if find_spec("transformers") is None:  # before torch, whose import takes seconds
    pytest.skip("transformers is not installed: pip install -e '.[oracle]'", allow_module_level=True)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[oracle]'")
    from transformers.integrations.bitnet import AutoBitLinear, BitLinear, pack_weights

from builders import model_bytes

from i2s_spec.convert.rewrite import Value, rewrite
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model
from i2s_spec.model.reference.embedding_table import EmbeddingTable
from i2s_spec.model.weights import Ternary

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.thorough]

#: Largest distance from a tie at which a code may differ: the rounding error of x * s, for any rule that multiplies
#: once.
TAU = 127 * 2**-23

PROJECTIONS = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
NORMS = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_sub_norm": "self_attn.attn_sub_norm",
    "ffn_sub_norm": "mlp.ffn_sub_norm", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
}  # fmt: skip
GEMMA_NORMS = {
    **NORMS, "ffn_norm": "pre_feedforward_layernorm", "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}  # fmt: skip


def loaded(architecture: str, seed: int, profile: str, **sizes: Any) -> Model:
    return load_model(model_bytes(architecture, layers=2, seed=seed, **sizes), profile, threads=1)


def trits_of(matrix: Any) -> np.ndarray:
    from i2s_spec.codec import reference

    assert isinstance(matrix, Ternary)
    data = np.concatenate([matrix.payload, np.zeros(32, np.uint8)])
    return reference.unpack(data, (matrix.rows, matrix.columns))[0]


def floats(model: Model, name: str) -> np.ndarray:
    return EmbeddingTable(model.weights, name).take(np.arange(model.vocab_size))


def unpermuted(w: np.ndarray, heads: int) -> np.ndarray:
    """Rows as the checkpoint has them: halves of a head instead of neighbors."""
    return w.reshape(heads, -1, 2, w.shape[1]).transpose(0, 2, 1, 3).reshape(w.shape)


def common(model: Model) -> dict[str, Any]:
    h = model.hyperparameters
    return {
        "vocab_size": h.vocab, "hidden_size": h.embd, "intermediate_size": h.ff, "num_hidden_layers": h.layers,
        "num_attention_heads": h.heads, "num_key_value_heads": h.heads_kv, "max_position_embeddings": h.context,
        "rms_norm_eps": h.eps, "attn_implementation": "eager",
        "rope_parameters": {"rope_type": "default", "rope_theta": h.rope_base},
    }  # fmt: skip


def bitnet(model: Model) -> Any:
    from transformers import BitNetConfig, BitNetForCausalLM

    act = {"relu2": "relu2", "silu": "silu"}[model.activation_rule.activation]
    return BitNetForCausalLM(BitNetConfig(**common(model), hidden_act=act, tie_word_embeddings=True))


def llama(model: Model) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**common(model), hidden_act="silu", tie_word_embeddings=False))


def local(model: Model) -> dict[str, Any]:
    """The settings of local layers; their number counts the token itself, as ours does."""
    found = model.settings.local
    if found is None:
        return {}
    kinds = ["sliding_attention" if each else "full_attention" for each in found.local]
    return {"sliding_window": found.window, "layer_types": kinds, "use_sliding_window": True}


def qwen3(model: Model) -> Any:
    from transformers import Qwen3Config, Qwen3Model

    return Qwen3Model(Qwen3Config(**common(model), **local(model), head_dim=model.hyperparameters.head_dim))


def qwen3_lm(model: Model) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tied = "output.weight" not in model.weights
    width = model.hyperparameters.head_dim
    config = Qwen3Config(**common(model), **local(model), head_dim=width, tie_word_embeddings=tied)
    return Qwen3ForCausalLM(config)


def gemma3(model: Model) -> Any:
    from transformers import Gemma3TextConfig, Gemma3TextModel

    h = model.hyperparameters
    config = common(model)
    rope = config.pop("rope_parameters")
    found = model.settings.local
    own = rope["rope_theta"] if found is None else found.rope_base
    both = {"full_attention": rope, "sliding_attention": {**rope, "rope_theta": own}}
    return Gemma3TextModel(
        Gemma3TextConfig(
            **config,
            rope_parameters=both,
            head_dim=h.head_dim,
            query_pre_attn_scalar=h.head_dim,
            **{"sliding_window": 4096, "layer_types": ["full_attention"] * h.layers, **local(model)},
        )
    )


MAKERS: dict[str, Callable[[Model], Any]] = {
    "bitnet-b1.58": bitnet, "bitnet-25": bitnet, "bitnet": bitnet, "llama": llama, "qwen3": qwen3,
    "qwen3-lm": qwen3_lm, "gemma3": gemma3,
}  # fmt: skip


class Oracle:
    """A transformers model with the weights of one of ours; keeps what enters each projection."""

    def __init__(self, model: Model, packed: bool = False) -> None:
        self.model = model
        self.entering: dict[str, np.ndarray] = {}
        h, name = model.hyperparameters, model.architecture.name
        whole = MAKERS[name](model).float().eval()
        self.whole = whole
        body = getattr(whole, "model", whole)
        norms = GEMMA_NORMS if name == "gemma3" else NORMS
        less = 1.0 if name == "gemma3" else 0.0  # its norms multiply by 1 + w
        vector = model.weights.vector
        with torch.no_grad():
            body.embed_tokens.weight.copy_(torch.from_numpy(np.array(floats(model, "token_embd.weight"))))
            if "output.weight" in model.weights:
                whole.lm_head.weight.copy_(torch.from_numpy(np.array(floats(model, "output.weight"))))
            body.norm.weight.copy_(torch.from_numpy(vector("output_norm.weight") - np.float32(less)))
            for i, layer in enumerate(body.layers):
                for ours, theirs in norms.items():
                    if f"blk.{i}.{ours}.weight" in model.weights:
                        gain = vector(f"blk.{i}.{ours}.weight") - np.float32(less)
                        layer.get_submodule(theirs).weight.copy_(torch.from_numpy(gain))
                for ours, theirs in PROJECTIONS.items():
                    key = f"blk.{i}.{ours}"
                    matrix = model.weights.matrix(f"{key}.weight")
                    trits = trits_of(matrix)
                    if name == "llama" and ours in ("attn_q", "attn_k"):
                        trits = unpermuted(trits, h.heads if ours == "attn_q" else h.heads_kv)
                    normed = f"{key}_norm_in.weight" in model.weights
                    settings = {"use_rms_norm": normed, "rms_norm_eps": h.eps}
                    made: Any
                    if packed:
                        made = BitLinear(matrix.columns, matrix.rows, False, dtype=torch.float32, **settings)
                        made.weight = pack_weights(torch.from_numpy(trits))
                        made.weight_scale = torch.tensor([1 / matrix.scale], dtype=torch.float32)  # BitLinear divides
                    else:
                        made = AutoBitLinear(matrix.columns, matrix.rows, False, dtype=torch.float32, **settings)
                        made.weight.copy_(torch.from_numpy(trits.astype(np.float32)))
                        made.weight_scale.copy_(torch.tensor([matrix.scale]))
                    if normed:
                        made.rms_norm.weight.copy_(torch.from_numpy(vector(f"{key}_norm_in.weight")))
                    layer.set_submodule(theirs, made)
                    made.register_forward_pre_hook(self._hook(key, made))

    def _hook(self, key: str, module: Any) -> Any:
        def keep(_: Any, inputs: Any) -> None:
            x = inputs[0] if module.rms_norm is None else module.rms_norm(inputs[0])
            self.entering[key] = x[0].detach().numpy().copy()

        return keep

    def __call__(self, tokens: list[int]) -> np.ndarray:
        with torch.no_grad():
            out = self.whole(torch.tensor([tokens]))
        result = out.last_hidden_state if self.model.architecture.embedding_model else out.logits
        return result[0].numpy()


def flips(oracle: Oracle, taps: Any) -> tuple[int, int]:
    """Codes that differ before anything has drifted, and how many there are until there; all of them explained."""
    seen = 0
    for key, x in oracle.entering.items():
        s = np.float32(127) / np.maximum(np.abs(x).max(axis=1), np.float32(1e-5))
        p = x * s[:, None]
        codes = np.clip(np.rint(p), -128, 127).astype(np.int8)
        ours = taps[f"{key}.act_q8"]
        differ = codes != ours
        seen += codes.size
        if differ.any():
            # x differs by a few units in the last place between the two, and so does the distance from the tie
            far = np.abs(np.abs(p - np.trunc(p)) - 0.5)[differ].max()
            assert far <= 8 * TAU, f"{key}: a code differs {far:.2g} from a tie"
            assert np.abs(codes.astype(int) - ours)[differ].max() == 1
            return int(differ.sum()), seen
    return 0, seen


TOKENS = np.random.default_rng(7).integers(0, 256, 24).tolist()

#: Sizes small enough for a test, and the seeds.
SIZES: dict[str, dict[str, int]] = {
    "bitnet-b1.58": {"heads": 4, "heads_kv": 2}, "bitnet-25": {"heads": 4, "heads_kv": 1}, "bitnet": {"heads": 4},
    "llama": {"heads": 4, "heads_kv": 2}, "qwen3": {"heads": 4, "heads_kv": 2}, "qwen3-lm": {"heads": 4, "heads_kv": 2},
    "gemma3": {"heads": 4, "heads_kv": 1},
}  # fmt: skip
SEEDS = range(4)


@pytest.mark.parametrize("profile", ["hf-f32", "bitnet-golden-1"])
@pytest.mark.parametrize("architecture", list(MAKERS))
def test_codes_and_results_are_those_of_transformers(architecture: str, profile: str) -> None:
    without = 0
    for seed in SEEDS:
        head = {"head": "untied" if seed % 2 else "tied"} if architecture == "qwen3-lm" else {}
        model = loaded(architecture, seed, profile, **SIZES[architecture], **head)
        oracle = Oracle(model, packed=seed % 2 == 1)
        theirs = oracle(TOKENS)
        result = model.forward(TOKENS, taps=("act_q8", "result_norm"))
        ours = result.taps["result_norm"] if architecture in ("qwen3", "gemma3") else result.logits
        flipped, seen = flips(oracle, result.taps)
        assert seen
        distance = np.abs(ours - theirs).max() / np.abs(theirs).max()
        if not flipped:
            without += 1
            assert distance <= 1e-6
            if result.embedding is not None:
                last = theirs[-1].astype(np.float64)
                assert np.abs(result.embedding - last / np.linalg.norm(last)).max() < 1e-6
        else:
            assert distance < 0.1
    assert without >= len(SEEDS) // 2, "nearly every model has a flipped code: that is no rounding any more"


@pytest.mark.parametrize("architecture", ["qwen3", "qwen3-lm", "gemma3"])
def test_local_layers_are_those_of_transformers(architecture: str) -> None:
    """A window of a few tokens in one of two layers; in gemma3, rotated with a base of its own."""
    out = io.BytesIO()
    with open_file(model_bytes(architecture, layers=2, seed=1, **SIZES[architecture])) as file:
        keys = {"attention.sliding_window": Value("u32", 5), "attention.sliding_window_pattern": Value("u32", 2)}
        prefix = file.metadata["general.architecture"]
        given = {"rope.freq_base": 1e6, "attention.layer_norm_rms_epsilon": 1e-5}
        rewrite(file, out, set={f"{prefix}.{name}": each for name, each in (keys | given).items()})
    model = load_model(out.getvalue(), "hf-f32", threads=1)
    theirs = Oracle(model)(TOKENS)
    result = model.forward(TOKENS, taps=("result_norm",))
    ours = result.taps["result_norm"] if result.logits is None else result.logits
    rows = np.abs(ours - theirs).max(axis=1) / np.abs(theirs).max()
    assert (rows <= 1e-6).all() or (np.median(rows) < 1e-6 and rows.max() < 0.1)  # a code may flip
    plain = load_model(model_bytes(architecture, layers=2, seed=1, **SIZES[architecture]), "hf-f32", threads=1)
    full = plain.forward(TOKENS, taps=("result_norm",))
    without = full.taps["result_norm"] if full.logits is None else full.logits
    assert np.abs(without - theirs).max() / np.abs(theirs).max() > 0.1


@pytest.mark.parametrize("head", ["tied", "untied"])
@pytest.mark.parametrize("rotated", [False, True])
def test_qwen3_in_floats(head: str, rotated: bool) -> None:
    """Without quantization nothing can flip: the logits are those of Qwen3ForCausalLM to the last few bits."""
    model = loaded("qwen3-lm", 5, "hf-f32", type="F32", head=head, rotated=rotated, heads=4, heads_kv=2)
    plain = loaded("qwen3-lm", 5, "hf-f32", type="F32", head=head, heads=4, heads_kv=2)
    whole = qwen3_lm(plain).float().eval()
    vector = plain.weights.vector
    with torch.no_grad():
        whole.model.embed_tokens.weight.copy_(torch.from_numpy(np.array(floats(plain, "token_embd.weight"))))
        if head == "untied":
            whole.lm_head.weight.copy_(torch.from_numpy(np.array(floats(plain, "output.weight"))))
        whole.model.norm.weight.copy_(torch.from_numpy(vector("output_norm.weight")))
        for i, layer in enumerate(whole.model.layers):
            for ours, theirs in NORMS.items():
                if f"blk.{i}.{ours}.weight" in plain.weights:
                    layer.get_submodule(theirs).weight.copy_(torch.from_numpy(vector(f"blk.{i}.{ours}.weight")))
            for ours, theirs in PROJECTIONS.items():
                name = f"blk.{i}.{ours}.weight"
                rows = plain.file.tensors[name].shape[0]
                weights = EmbeddingTable(plain.weights, name).take(np.arange(rows))
                layer.get_submodule(theirs).weight.copy_(torch.from_numpy(np.array(weights)))
        theirs = whole(torch.tensor([TOKENS])).logits[0].numpy()
    ours = model.forward(TOKENS).logits
    assert ours is not None
    assert np.abs(ours - theirs).max() <= 2e-6 * np.abs(theirs).max()


def test_a_wrong_reading_is_far_from_transformers() -> None:
    model = loaded("bitnet-b1.58", 0, "hf-f32", heads=4, heads_kv=2)
    theirs = Oracle(model)(TOKENS)
    wrong = model.replace(graph=model.graph.replaced("Qcur-0#1", pairs="norm"))
    logits = wrong.forward(TOKENS).logits
    assert logits is not None
    assert np.abs(logits - theirs).max() / np.abs(theirs).max() > 1e-2
