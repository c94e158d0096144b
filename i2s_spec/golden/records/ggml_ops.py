"""This module says what ggml calls the operations of our graphs, so that texts of either can be held together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class GgmlOp(NamedTuple):
    """An operation as ggml's `ggml_op_desc` names it, and whether its tensor comes before its input among the sources."""

    name: str
    weights_first: bool = False


#: By the operation of our graphs. What is missing has no node of its own in ggml's graph, or one without data.
GGML_OPS: Final[Mapping[str, GgmlOp]] = {
    "embed": GgmlOp("GET_ROWS", weights_first=True),
    "norm": GgmlOp("RMS_NORM"),
    "norm_weight": GgmlOp("MUL"),
    "bias": GgmlOp("ADD"),
    "scale": GgmlOp("MUL"),
    "multiply_by": GgmlOp("SCALE"),
    "add": GgmlOp("ADD"),
    "multiply": GgmlOp("MUL"),
    "heads": GgmlOp("RESHAPE"),
    "linear": GgmlOp("MUL_MAT", weights_first=True),
    "head": GgmlOp("MUL_MAT", weights_first=True),
    "rope": GgmlOp("ROPE"),
    "scores": GgmlOp("MUL_MAT"),
    "soft_max": GgmlOp("SOFT_MAX"),
    "weighted_values": GgmlOp("CONT"),
    "relu": GgmlOp("RELU"),
    "square": GgmlOp("SQR"),
    "silu": GgmlOp("SILU"),
    "gelu": GgmlOp("GELU"),
}
