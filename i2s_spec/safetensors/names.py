"""Tensor names of Hugging Face's BitNet and Llama checkpoints as those of GGUF files, and the order of rows.

    model.layers.N.self_attn.q_proj.weight     blk.N.attn_q.weight     and so on, as in `LAYER`

Files of architectures that rotate neighboring rows of a head (`llama`) have the rows of attn_q and attn_k in another
order than the checkpoint, which rotates halves. With heads of d rows, 0 <= i < d/2 and p = 0 or 1:

    row h*d + p*(d/2) + i of the checkpoint  is  row h*d + 2*i + p  of the GGUF file

The BitNet architectures rotate halves as well, so their rows keep the order.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import counted, quote
from i2s_spec.schema.architectures import DeltaNet, declared_architecture

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File, Tensor

#: Names inside a layer; if two names have the same meaning, the first one is written.
LAYER: Final = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.attn_sub_norm": "attn_sub_norm",
    "mlp.ffn_sub_norm": "ffn_sub_norm",
    "self_attn.inner_attn_ln": "attn_sub_norm",
    "mlp.ffn_layernorm": "ffn_sub_norm",
}

WHOLE: Final = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}

#: Names that are written by no converter here, or have several meanings; the first one that a checkpoint has counts.
_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    "attn_q_norm": ("self_attn.q_norm",),
    "attn_k_norm": ("self_attn.k_norm",),
    "attn_sub_norm": ("self_attn.attn_sub_norm", "self_attn.inner_attn_ln"),
    "ffn_sub_norm": ("mlp.ffn_sub_norm", "mlp.ffn_layernorm"),
    "ffn_norm": ("pre_feedforward_layernorm", "post_attention_layernorm"),
    "post_attention_norm": ("post_attention_layernorm",),
    "post_ffw_norm": ("post_feedforward_layernorm",),
    "attn_qkv": ("linear_attn.in_proj_qkv",),
    "attn_gate": ("linear_attn.in_proj_z",),
    "ssm_alpha": ("linear_attn.in_proj_a",),
    "ssm_beta": ("linear_attn.in_proj_b",),
    "ssm_conv1d": ("linear_attn.conv1d",),
    "ssm_norm": ("linear_attn.norm",),
    "ssm_out": ("linear_attn.out_proj",),
    **{f"{gguf}_norm_in": (f"{name}.rms_norm",) for name, gguf in LAYER.items() if name.endswith("_proj")},
}

#: Parameters of delta nets that are no module's.
_PARAMETERS: Final = {"ssm_a": "linear_attn.A_log", "ssm_dt.bias": "linear_attn.dt_bias"}

#: Architectures whose checkpoints store the gains of norms less 1; norms inside projections are stored as they are.
_GAINS_LESS_1: Final = frozenset({"gemma3", "qwen35"})

#: Tensors of delta nets that have rows or columns of value heads: whether as many as a head is wide, or one.
_OF_NETS: Final = {
    "attn_qkv": True, "ssm_conv1d": True, "attn_gate": True, "ssm_out": True, "ssm_alpha": False, "ssm_beta": False,
    "ssm_a": False, "ssm_dt.bias": False,
}  # fmt: skip
#: Those that have rows of queries and keys before them.
_MIXED: Final = ("attn_qkv", "ssm_conv1d")

_TO_LAYER: Final = {gguf: name for name, gguf in reversed(LAYER.items())}
_TO_WHOLE: Final = {gguf: name for name, gguf in WHOLE.items()}

_NAME: Final = re.compile(r"model\.layers\.(0|[1-9][0-9]{0,8})\.(.+)", re.ASCII)
_GGUF_NAME: Final = re.compile(r"blk\.(0|[1-9][0-9]{0,8})\.(.+)", re.ASCII)


def gguf_name(module: str) -> str | None:
    """Return the name in a GGUF file of the weight of a module, such as `model.layers.0.self_attn.q_proj`; None if
    there is none."""
    if module in WHOLE:
        return f"{WHOLE[module]}.weight"
    match = _NAME.fullmatch(module)
    return f"blk.{match[1]}.{LAYER[match[2]]}.weight" if match and match[2] in LAYER else None


def module_name(tensor: str) -> str | None:
    """Return the module for a tensor of a GGUF file; None if checkpoints have none."""
    name, dot, end = tensor.rpartition(".")
    if not dot or end != "weight":
        return None
    if name in _TO_WHOLE:
        return _TO_WHOLE[name]
    match = _GGUF_NAME.fullmatch(name)
    return f"model.layers.{match[1]}.{_TO_LAYER[match[2]]}" if match and match[2] in _TO_LAYER else None


def checkpoint_names(tensor: str) -> list[str]:
    """Return the names that a tensor of a GGUF file may have in a checkpoint, with the prefixes
    `model.language_model.` and `model.` and without; the first one that there is counts."""
    if (match := _GGUF_NAME.fullmatch(tensor)) and match[2] in _PARAMETERS:
        return _prefixed(f"model.layers.{match[1]}.{_PARAMETERS[match[2]]}")
    module, _, end = tensor.rpartition(".")
    if end not in ("weight", "bias"):
        return []
    match = _GGUF_NAME.fullmatch(module)
    modules = [f"model.layers.{match[1]}.{name}" for name in _ALSO.get(match[2], ())] if match else []
    usual = module_name(f"{module}.weight")
    if usual is not None and usual not in modules:
        modules.append(usual)
    return [name for each in modules for name in _prefixed(f"{each}.{end}")]


def _prefixed(name: str) -> list[str]:
    inner = name.removeprefix("model.")
    return [name, inner] if inner == name else [f"model.language_model.{inner}", name, inner]


def added_gain(file: File, tensor: str) -> float:
    """Return what is added to a tensor's values in a checkpoint to give those of a GGUF file: 1 to the gains of Gemma."""
    module = tensor.removesuffix(".weight")
    less = file.metadata.get("general.architecture") in _GAINS_LESS_1
    return 1.0 if less and module.endswith("_norm") and not module.endswith(".ssm_norm") else 0.0


def tiled_places(file: File, tensor: Tensor) -> NDArray[Any] | None:
    """Return `tiled_heads` for a tensor of a file, by its keys.

    :raises ValueError: for keys that do not fit the tensor
    """
    match = _GGUF_NAME.fullmatch(tensor.name)
    word = match[2].removesuffix(".weight") if match else ""
    declared = declared_architecture(file.metadata.get("general.architecture"), file.metadata)
    if declared is None or not declared.delta_nets or word not in _OF_NETS:
        return None
    names = ("state_size", "group_count", "time_step_rank")
    counts: list[Any] = [file.metadata.get(f"{declared.prefix}.ssm.{name}") for name in names]
    width, keys, values = (each if isinstance(each, int) and each > 0 else 0 for each in counts)
    size = (width if _OF_NETS[word] else 1) * values + (2 * keys * width if word in _MIXED else 0)
    if (
        not (width and keys and values)
        or values % keys
        or tensor.shape[-1 if word == "ssm_out" else 0 :][:1] != (size,)
    ):
        raise ValueError(f"the keys {declared.prefix}.ssm.* do not give the shape of {quote(tensor.name)}")
    return tiled_heads(DeltaNet((), 0, width, keys, values), word)


def heads_that_move(file: File, tensor: str) -> int | None:
    """Return the number of heads that the rows of a tensor belong to, if a GGUF file has them in another order; else
    None.

    :raises ValueError: for an architecture without known checkpoints of this kind, and if the number of heads is not given
    """
    architecture = file.metadata.get("general.architecture")
    declared = declared_architecture(architecture, file.metadata, file.tensors)
    if declared is None or declared.embedding_model:
        raise ValueError(f"no packed checkpoints of architecture {quote(str(architecture))} are known")
    key = {"attn_q": "head_count", "attn_k": "head_count_kv"}.get(tensor.rpartition(".")[0].rpartition(".")[2])
    if key is None or declared.rope != "norm":
        return None
    count: Any = file.metadata.get(f"{architecture}.attention.{key}")
    if count is None:
        count = file.metadata.get(f"{architecture}.attention.head_count")
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"{architecture}.attention.{key} does not give the number of heads")
    return count


def tiled_heads(net: DeltaNet, word: str) -> NDArray[Any] | None:
    """Return the place in the checkpoint of each row of a delta net's tensor in a GGUF file (of `ssm_out` each column);
    None if all have their own place.

    Value heads of a checkpoint are grouped, and those of a file tiled: with G key heads, head r*G + g of the file is head
    g*(H/G) + r of the checkpoint (clause 4.8).

    :param word: the middle of the tensor's name, such as `attn_qkv`
    """
    import numpy as np

    if word not in _OF_NETS or net.value_heads == net.key_heads:
        return None
    width = net.width if _OF_NETS[word] else 1
    heads = np.arange(net.value_heads * width).reshape(net.key_heads, -1, width).swapaxes(0, 1).reshape(-1)
    first = 2 * net.keys if word in _MIXED else 0
    return np.concatenate([np.arange(first), first + heads])


def to_gguf_rows(matrix: NDArray[Any], heads: int) -> NDArray[Any]:
    """Return the rows of a matrix [rows, cols] in the order of a GGUF file that rotates neighbors."""
    return _moved(matrix, heads, 2, matrix.shape[0] // heads // 2)


def to_checkpoint_rows(matrix: NDArray[Any], heads: int) -> NDArray[Any]:
    """Return the rows of a matrix [rows, cols] in the order of a checkpoint, which rotates halves."""
    return _moved(matrix, heads, matrix.shape[0] // heads // 2, 2)


def _moved(matrix: NDArray[Any], heads: int, first: int, second: int) -> NDArray[Any]:
    rows, cols = matrix.shape
    if heads * first * second != rows:
        raise ValueError(
            f"{counted(rows, 'row is', 'rows are')} not {counted(heads, 'head')} of an even number of rows"
        )
    return matrix.reshape(heads, first, second, cols).swapaxes(1, 2).reshape(rows, cols)
