"""This module makes a small sound checkpoint, packed like BitNet b1.58 2B-4T, which tests then break in one place.

Its tensors have a few bytes each: it serves rules on names, shapes and scales, and no model can run it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, Final

EMBD: Final = 8
FF: Final = 16
VOCAB: Final = 4
LAYER: Final = "model.layers.0."
Q: Final = f"{LAYER}self_attn.q_proj.weight"

_MATRICES: Final = {
    "self_attn.q_proj": (EMBD, EMBD), "self_attn.k_proj": (EMBD, EMBD), "self_attn.v_proj": (EMBD, EMBD),
    "self_attn.o_proj": (EMBD, EMBD), "mlp.gate_proj": (FF, EMBD), "mlp.up_proj": (FF, EMBD), "mlp.down_proj": (EMBD, FF),
}  # fmt: skip
_NORMS: Final = {
    "input_layernorm": EMBD, "post_attention_layernorm": EMBD, "self_attn.attn_sub_norm": EMBD, "mlp.ffn_sub_norm": FF,
}  # fmt: skip


class CheckpointSample:
    """Config and tensors by name: type, shape, bytes.

    :param scale: the `weight_scale` of every matrix
    """

    def __init__(self, scale: float = 0.5) -> None:
        self.config: dict[str, Any] = {
            "architectures": ["BitNetForCausalLM"], "model_type": "bitnet", "hidden_act": "relu2", "hidden_size": EMBD,
            "intermediate_size": FF, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
            "vocab_size": VOCAB, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
            "quantization_config": {
                "quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline",
            },
        }  # fmt: skip
        self.tensors: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
        self.floats("model.embed_tokens.weight", (VOCAB, EMBD))
        self.floats("model.norm.weight", (EMBD,))
        for module, (rows, cols) in _MATRICES.items():
            self.tensors[f"{LAYER}{module}.weight"] = ("U8", (rows // 4, cols), bytes([0x24]) * (rows * cols // 4))
            self.floats(f"{LAYER}{module}.weight_scale", (1,), scale)
        for module, width in _NORMS.items():
            self.floats(f"{LAYER}{module}.weight", (width,))

    def floats(self, name: str, shape: tuple[int, ...], value: float = 1.0) -> None:
        """Add a tensor of equal floats."""
        count = 1
        for size in shape:
            count *= size
        self.tensors[name] = ("F32", shape, struct.pack("<f", value) * count)

    def changed(self, change: Callable[[CheckpointSample], object]) -> CheckpointSample:
        change(self)
        return self

    def files(self) -> dict[str, bytes]:
        """The files of the folder by name."""
        header, data = {}, b""
        for name, (dtype, shape, words) in self.tensors.items():
            header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(words)]}
            data += words
        text = json.dumps(header).encode()
        whole = struct.pack("<Q", len(text)) + text + data
        return {"config.json": json.dumps(self.config).encode(), "model.safetensors": whole}
