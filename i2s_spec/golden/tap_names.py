"""This module declares what runtimes call the values of our graphs, and with which operations of ggml they make them (10.4).

The callback of ggml gives a name to a node, and one name to several nodes; which of them a value is, its operation says.
`OPERATIONS` has the operations of ggml that give what one of ours gives. `NODE_NAMES` has the names that are not ours, by
runtime, version and architecture. A new runtime is some entries here.

Sources: dumps of the fork at 406a5036, and the graphs of the others as read: ggml-org/llama.cpp src/llama-graph.cpp and
src/models/bitnet.cpp (2026-09), ikawrakow/ik_llama.cpp src/llama-build-context.cpp and src/graphs (8337e4c).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

#: By the operation of our graphs, those of ggml whose node holds the same value. Views have none of their own, but for the
#: shape in which flash attention's result is named.
OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "embed": ("GET_ROWS",),
    "norm": ("RMS_NORM",),
    "norm_weight": ("MUL", "FUSED_RMS_NORM"),
    "bias": ("ADD",),
    "scale": ("MUL",),
    "multiply_by": ("SCALE",),
    "add": ("ADD",),
    "multiply": ("MUL", "FUSED_MUL_UNARY", "FUSED_UP_GATE", "SWIGLU", "GEGLU", "REGLU"),
    "heads": ("RESHAPE",),
    "linear": ("MUL_MAT",),
    "head": ("MUL_MAT",),
    "rope": ("ROPE", "ROPE_FAST"),
    "scores": ("MUL_MAT",),
    "soft_max": ("SOFT_MAX",),
    "weighted_values": ("CONT", "FLASH_ATTN_EXT", "RESHAPE"),
    "relu": ("RELU",),
    "square": ("SQR",),
    "silu": ("SILU",),
    "gelu": ("GELU",),
}

#: Operations of ours whose node has the tensor of the file among its sources, by which it is known whatever it is called.
OF_TENSORS: Final = frozenset({"embed", "norm_weight", "bias", "scale", "linear", "head"})


class NodeName(NamedTuple):
    """One name that a runtime gives to a value.

    :param value: the word of our graphs
    :param op: our operation that makes it
    :param name: the runtime's word
    :param node: ggml's operation that the runtime makes it with
    :param runtime: whose name it is, and `version`: of which release or month
    :param architectures: in whose graphs
    """

    value: str
    op: str
    name: str
    node: str
    runtime: str
    version: str
    architectures: tuple[str, ...]


_BITNETS: Final = ("bitnet", "bitnet-25", "bitnet-b1.58")
_ALL: Final = ("every",)
_FORK: Final = ("bitnet.cpp", "2024-10 to 2025-11")
_NEW: Final = ("llama.cpp", "2026-09")
_IK: Final = ("ik_llama.cpp", "8337e4c")

#: Where a runtime's name is not ours, or stands for another value too.
NODE_NAMES: Final[tuple[NodeName, ...]] = (
    NodeName("inp_embd", "embed", "embd", "GET_ROWS", *_NEW, _ALL),
    NodeName("Qcur", "linear", "Qcur", "MUL_MAT", *_NEW, _ALL),
    NodeName("Qcur", "heads", "Qcur", "RESHAPE", *_NEW, _ALL),
    NodeName("Qcur", "rope", "Qcur", "ROPE", *_NEW, _ALL),
    NodeName("Qcur", "rope", "Qcur_roped", "ROPE", *_IK, ("llama",)),
    NodeName("Kcur", "rope", "Kcur_roped", "ROPE", *_IK, ("llama",)),
    NodeName("kq_soft_max_ext", "soft_max", "kq_soft_max", "SOFT_MAX", *_NEW, _ALL),
    NodeName("kq_soft_max", "soft_max", "kq_soft_max_ext", "SOFT_MAX", *_IK, ("qwen3", "gemma3")),
    NodeName("kqv_out", "weighted_values", "kqv_merged_cont", "CONT", *_FORK, ("llama",)),
    NodeName("attn_out", "linear", "kqv_out", "MUL_MAT", *_FORK, ("llama",)),
    NodeName("attn_o_out", "linear", "attn_out", "MUL_MAT", *_NEW, _BITNETS),
    NodeName("attn_o_out", "linear", "kqv_out", "MUL_MAT", *_IK, ("bitnet",)),
    NodeName("ffn_inp", "add", "ffn_norm", "ADD", *_IK, ("bitnet-25", "bitnet-b1.58", "llama")),
    NodeName("ffn_inp", "add", "attn_out_with_input", "ADD", *_IK, ("llama",)),
    NodeName("ffn_sub_out", "multiply", "ffn_gate_par", "FUSED_MUL_UNARY", *_IK, ("bitnet",)),
    NodeName("ffn_sub_out", "multiply", "ffn_sub_out", "SWIGLU", *_NEW, _BITNETS),
    NodeName("ffn_out", "multiply", "ffn_sub_out", "SWIGLU", *_NEW, _BITNETS),
    NodeName("ffn_gate_par", "multiply", "ffn_swiglu", "SWIGLU", *_NEW, ("llama",)),
    NodeName("ffn_gate_up", "multiply", "ffn_swiglu", "SWIGLU", *_NEW, ("qwen3",)),
    NodeName("ffn_gate_par", "multiply", "ffn_up_gate", "FUSED_UP_GATE", *_IK, ("llama",)),
    NodeName("l_out", "add", "ffn_out_with_inp", "ADD", *_IK, ("llama",)),
)


def runtime_names(word: str, op: str) -> tuple[str, ...]:
    """The words that runtimes have for a value of ours, each once.

    >>> runtime_names("attn_o_out", "linear")
    ('attn_out', 'kqv_out')
    """
    found = (each.name for each in NODE_NAMES if (each.value, each.op) == (word, op) and each.name != word)
    return tuple(dict.fromkeys(found))
