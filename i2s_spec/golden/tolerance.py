"""The limits of a comparison: how far a value may be from its replay, for each operation, layer and model (10.4).

A limit is an array: for each element, how far off a correct runtime may be. It depends on what goes in, since rounding
errors grow with what is added up. Where several operations are replayed together, their limits add up: `limit_of` and
`loosen` give the limit of a reach.

Figures: measured on correct runtimes and doubled at least; reference/forward of this project says on what.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

import numpy as np

from i2s_spec.errors import counted
from i2s_spec.golden.metrics import is_float16
from i2s_spec.model.graph import INTEGER_TAPS
from i2s_spec.model.weights import Grouped, Ternary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.golden.code_flips import Flips
    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph import Node

#: Half-precision rounding of a factor, where a runtime keeps q, soft-max rows or the head's input in F16.
HALF: Final = 2.0**-10


class Limit(NamedTuple):
    """How far off an operation may be, in words and as a function.

    :param words: for a report
    :param of: takes the node, its inputs and the replayed value; gives the limit of each element, float64
    """

    words: str
    of: Callable[[Any, list[Any], NDArray[Any]], NDArray[np.float64] | float]


def ulps(value: NDArray[Any], count: float) -> NDArray[np.float64]:
    """Return so many units in the last place of each element, as a distance."""
    with np.errstate(all="ignore"):
        return count * np.spacing(np.abs(value.astype(np.float32))).astype(np.float64)


def _ulps(count: float) -> Callable[[Node, list[Any], NDArray[Any]], NDArray[np.float64]]:
    return lambda node, inputs, value: ulps(value, count)


def _of_largest(rtol: float) -> Callable[[Node, list[Any], NDArray[Any]], float]:
    def limit(node: Node, inputs: list[Any], value: NDArray[Any]) -> float:
        finite = np.abs(value[np.isfinite(value)])
        return rtol * float(finite.max()) if finite.size else 0.0

    return limit


def _rotated(node: Node, inputs: list[Any], value: NDArray[Any]) -> NDArray[np.float64]:
    """Return the limit of a rotation: angles of float32 are off by more the later the position."""
    x = inputs[0].reshape(len(inputs[0]), -1)
    largest = np.abs(x).max(axis=1).astype(np.float64)
    limit = 2.0**-21 * (2 + np.arange(len(x))) * largest
    return np.broadcast_to(limit.reshape(-1, *[1] * (value.ndim - 1)), value.shape)


def _scores(node: Node, inputs: list[Any], value: NDArray[Any]) -> NDArray[np.float64]:
    """Return, for each product of a query and a key, a share of the sum of magnitudes."""
    q, keys = inputs
    heads = np.abs(q.reshape(len(q), node.settings["heads"], -1)).astype(np.float64)
    rtol = heads.shape[1] // keys.shape[1]
    near = np.abs(np.repeat(keys, rtol, axis=1)).astype(np.float64)
    found: NDArray[np.float64] = HALF * np.einsum("thd,shd->hts", heads, near)
    return found


def _mixed(node: Node, inputs: list[Any], value: NDArray[Any]) -> NDArray[np.float64]:
    p, values = inputs
    rtol = p.shape[0] // values.shape[1]
    near = np.abs(np.repeat(values, rtol, axis=1)).astype(np.float64)
    found: NDArray[np.float64] = 2 * HALF * np.einsum("hts,shd->thd", p.astype(np.float64), near)
    return found.reshape(value.shape)


def _transformed(node: Node, inputs: list[Any], value: NDArray[Any]) -> NDArray[np.float64]:
    """Return the limit of a transform: every element of a block is a sum of all over the root of their number, added
    in pairs."""
    block = node.settings["rotation"].block
    sums = np.abs(inputs[0].astype(np.float64)).reshape(-1, block).sum(axis=-1, keepdims=True)
    limit: NDArray[np.float64] = (block.bit_length() + 1) * 2.0**-24 / np.sqrt(block) * sums
    return np.broadcast_to(limit, (len(limit), block)).reshape(value.shape)


#: By the operation of the graph.
LIMITS: Final[Mapping[str, Limit]] = {
    "embed": Limit("bit-exact", lambda node, inputs, value: 0.0),
    "select_rows": Limit("bit-exact", lambda node, inputs, value: 0.0),
    "heads": Limit("bit-exact", lambda node, inputs, value: 0.0),
    "store_kv": Limit("a rounding to F16", lambda node, inputs, value: HALF * np.abs(value).astype(np.float64)),
    "norm": Limit("4 ulp; 64 where float32 sums are added in order of index", _ulps(64)),
    "norm_weight": Limit("1 ulp", _ulps(1)),
    "bias": Limit("1 ulp", _ulps(1)),
    "scale": Limit("1 ulp", _ulps(1)),
    "multiply_by": Limit("1 ulp", _ulps(1)),
    "add": Limit("bit-exact", lambda node, inputs, value: 0.0),
    "multiply": Limit("bit-exact", lambda node, inputs, value: 0.0),
    "relu": Limit("bit-exact", lambda node, inputs, value: 0.0),
    "square": Limit("bit-exact", lambda node, inputs, value: 0.0),
    "silu": Limit("2e-6 of the largest", _of_largest(2e-6)),
    "gelu": Limit("1e-3 of the largest, a table of F16", _of_largest(1e-3)),
    "linear": Limit("3 ulp or 0.01 of a step, sums equal as integers", _ulps(3)),
    "rotate": Limit("(log2 of the block + 2) · 2^-24 of the sum of magnitudes", _transformed),
    "restore": Limit("(log2 of the block + 2) · 2^-24 of the sum of magnitudes", _transformed),
    "rope": Limit("2^-21 (2 + position) of the largest of the token", _rotated),
    "scores": Limit("2^-10 of the sum of magnitudes", _scores),
    "soft_max": Limit("5e-4", lambda node, inputs, value: 5e-4),
    "weighted_values": Limit("2^-9 of the sum of magnitudes", _mixed),
    "head": Limit("1e-3 of the largest", _of_largest(1e-3)),
    "pool": Limit("1e-6", lambda node, inputs, value: 1e-6),
    "expert_shares": Limit("5e-4", lambda node, inputs, value: 5e-4),
    "best_experts": Limit("bit-exact", lambda node, inputs, value: 0.0),
    "expert_weights": Limit("4 ulp", _ulps(4)),
    "expert_linear": Limit("1e-3 of the largest", _of_largest(1e-3)),
    "expert_scale": Limit("1 ulp", _ulps(1)),
    "weigh_experts": Limit("1 ulp", _ulps(1)),
    "sum_experts": Limit("1e-6 of the largest", _of_largest(1e-6)),
    "columns": Limit("bit-exact", lambda node, inputs, value: 0.0),
    "merge": Limit("bit-exact", lambda node, inputs, value: 0.0),
    "regroup": Limit("bit-exact", lambda node, inputs, value: 0.0),
    "convolve": Limit("2e-6 of the largest", _of_largest(2e-6)),
    "sigmoid": Limit("2e-6 of the largest", _of_largest(2e-6)),
    "softplus": Limit("2e-6 of the largest", _of_largest(2e-6)),
    "decay": Limit("1 ulp", _ulps(1)),
    "unit": Limit("4 ulp; 64 where float32 sums are added in order of index", _ulps(64)),
    "delta_rule": Limit("1e-4 of the largest, where tokens are computed together", _of_largest(1e-4)),
}


#: Norms whose sums are not float32 in one row are this near.
NORM_ULPS: Final = 4


class RelativeTolerance(NamedTuple):
    """How far off a value may be after a quantizer, as a share of its largest magnitude, by what the candidate computes in.

    :param f32: with float32 and keys and values in F16 or F32
    :param bf16: with bfloat16
    """

    words: str
    f32: float
    bf16: float

    def rtol(self, bfloat16: bool) -> float:
        """Return the share that holds for a type."""
        return self.bf16 if bfloat16 else self.f32


#: One layer from its input on: a flipped code in it changes what is after.
FORCED: Final = RelativeTolerance("3e-2 of the largest (5e-2 for bfloat16)", 3e-2, 5e-2)

#: More than one layer.
UNFORCED: Final = RelativeTolerance("0.3 of the largest", 0.3, 0.3)

#: Share of the elements of a layer's value, in the middle, that may be off by that: flips are few.
FORCED_MEDIAN: Final = RelativeTolerance("median 5e-3 of the largest (1e-2 for bfloat16)", 5e-3, 1e-2)

#: Fewer elements have no middle: the scale of a single token is as far off as the one element that it follows.
MEDIAN_OF: Final = 8

#: Share of codes that may differ where a layer is computed from its input, and by how many steps. With keys and values in
#: F16, 0.8 % were measured to differ at a width of 2,560 and up to 6.6 % at 256: narrow models flip more.
FORCED_FLIPS: Final = (0.15, 5)
FORCED_FLIPS_BFLOAT16: Final = (0.25, 11)


def most_flips(codes: int, share: float) -> int:
    """Return how many of so many codes may differ: the share, and three standard deviations, by which few codes scatter.

    >>> most_flips(512, 0.15), most_flips(1_000_000, 0.15)
    (101, 151071)
    """
    return int(share * codes + 3 * math.sqrt(share * (1 - share) * codes))


#: How far the codes of a layer may be apart where their input is rotated, as a share of their L2 norm. A rotation spreads
#: what few elements are off by over all of a block: it keeps the norm of the difference, and so this is the measure that
#: does not depend on it, while every fourth code differs where unrotated ones are sparse. Keys and values in F16 or not
#: were measured to give 0.012 rotated and 0.014 unrotated, with 30 % and 10 % of the codes, at a width of 256.
FORCED_ROTATED: Final = RelativeTolerance("3e-2 of the norm (5e-2 for bfloat16)", 3e-2, 5e-2)


def forced_start(word: str, bfloat16: bool) -> tuple[float, str]:
    """Return the limit of a value that lies before every quantizer of its layer: the share of the largest, and words."""
    rtol = 1e-3 if not bfloat16 else 8e-3 if word == "act_scale" else 1e-2
    return rtol, f"{rtol:g} of the largest"


class Free(NamedTuple):
    """How far whole models may be apart: below `plausible` they agree, above `fail` it is a failure.

    :param relative: L2 norm of the difference over that of the record's value
    :param top: least share of tokens with the same most probable next token
    :param divergence: mean KL divergence, in nats
    """

    relative: float
    top: float
    divergence: float


PLAUSIBLE: Final = Free(0.1, 0.75, 0.3)
FAIL: Final = Free(0.3, 0.0, 1.0)

#: Least cosine of pooled embeddings.
EMBEDDING_COSINE: Final = 0.999

#: Distance of neighboring bfloat16, in those of float32.
BFLOAT16_STEP: Final = 1 << 16


def rope_limit(angle_error: float) -> Limit:
    """Return the limit of a rotation on a platform that allows cosine and sine an absolute error, of both elements of
    a pair."""
    own = LIMITS["rope"]

    def limit(node: Node, inputs: list[Any], value: NDArray[Any]) -> NDArray[np.float64]:
        x = np.abs(inputs[0].reshape(len(inputs[0]), -1)).max(axis=1).astype(np.float64)
        room = (2 * angle_error * x).reshape(-1, *[1] * (value.ndim - 1))
        found: NDArray[np.float64] = own.of(node, inputs, value) + room
        return found

    return Limit(f"{own.words}, and {angle_error:.3g} of cosine and sine", limit)


def dense_limit(kind: str) -> Limit:
    """Return the limit of products with a matrix of floats, or a quantized table, whose input a runtime may quantize too."""
    rtol = 1e-3 if kind in ("F32", "F16", "BF16") else 2e-2
    return Limit(f"{rtol:g} of the largest", _of_largest(rtol))


class Allowance(NamedTuple):
    """A wider limit for what is a choice of a platform and no mistake; it is remarked where it is needed.

    :param holds: takes the candidate's value: whether it looks like that choice
    :param note: takes the name of the tensor
    """

    limit: Limit
    holds: Callable[[NDArray[Any]], bool]
    note: str


#: Products of floats whose sums have 16 bits, so that every output is an F16 number: 1.9e-3 was measured.
HALF_SUMS: Final = Allowance(
    Limit("2.5e-3 of the largest, with 16-bit sums", _of_largest(2.5e-3)), is_float16,
    "every number of {} is an F16: 16-bit sums of cuBLAS, up to 2e-3 of the largest off; with the environment variable "
    "GGML_CUDA_CUBLAS_COMPUTE_TYPE=f32 llama.cpp can be compared exactly",
)  # fmt: skip

#: Cosines and sines as imprecise as WGSL allows, each off by 2^-11: 1.9e-4 was measured of SwiftShader.
WIDE_ANGLES: Final = Allowance(
    Limit("2^-10 of the largest of the token, with cosines and sines of WGSL", lambda node, inputs, value: _by_token(value)),
    lambda value: True,
    "{} is as near as WGSL has cosines and sines, 2^-11, not as near as float32 has them",
)  # fmt: skip


def _by_token(value: NDArray[Any]) -> NDArray[np.float64]:
    wide = np.abs(value.astype(np.float64))
    found: NDArray[np.float64] = 2.0**-10 * wide.max(axis=tuple(range(1, wide.ndim)), keepdims=True, initial=0.0)
    return found


#: By operation; `linear` is one of floats.
ALLOWANCES: Final[Mapping[str, Allowance]] = {"head": HALF_SUMS, "linear": HALF_SUMS, "rope": WIDE_ANGLES}


def grouped_limit(columns: int, group: int, offset: bool, weight_scale: float) -> Limit:
    """Return the limit of a projection whose groups of columns have their own scales: partial sums are floats, in any order.

    Each addition may be off by half a unit of what has been added up, which is at most the sum of magnitudes. Eight lanes
    that are added at the end make four more additions.

    :param group: columns with one scale; the partial sums that are added
    :param offset: whether weight codes 0 to 2 are summed and the sum of activations is taken off, as floats
    """
    additions = -(-columns // group) + 4
    share = additions * 2.0**-24 * (3 if offset else 1)

    def limit(node: Node, inputs: list[Any], value: NDArray[Any]) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            magnitudes = np.abs(inputs[0].astype(np.float64)).sum(axis=-1) * abs(weight_scale)
        found: NDArray[np.float64] = np.maximum(ulps(value, 3), share * magnitudes[:, None])
        return found

    return Limit(f"{additions * (3 if offset else 1)} · 2^-24 of the sum of magnitudes", limit)


def bfloat16_limit(op: str, own: Limit) -> Limit:
    """Return the limit of an operation in bfloat16: four steps of it (a square doubles what its input is off by),
    more of sums.
    """
    if op in ("linear", "head", "scores", "soft_max", "weighted_values", "rope"):
        return Limit("5e-2 of the largest, in bfloat16", _of_largest(5e-2))

    def limit(node: Node, inputs: list[Any], value: NDArray[Any]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.maximum(own.of(node, inputs, value), ulps(value, 4 * BFLOAT16_STEP))
        if op == "add":  # what cancels leaves the rounding of what went in
            found = np.maximum(found, ulps(np.maximum(np.abs(inputs[0]), np.abs(inputs[1])), 4 * BFLOAT16_STEP))
        return found

    return Limit("4 steps of bfloat16", limit)


# --- limits of a reach -----------------------------------------------------------------------------------------------
# A `Replay` holds a value for which several operations were replayed together.

#: How a value is checked: by its operation, by what a layer may add up to, or by what a whole model may.
Scope = Literal["op", "layer", "model"]


class GroupedSums(NamedTuple):
    """How a runtime adds up a projection whose activations have several scales.

    :param columns: that have one scale; 0 for a quarter of all
    :param offset: whether it sums codes 0 to 2 and takes the sum of activations off after that, in floats
    """

    columns: int
    offset: bool


#: By the groups of a quantizer, where there are several in a token.
GROUPS: Final[Mapping[str, GroupedSums]] = {
    "blocks-256": GroupedSums(256, False), "blocks-32": GroupedSums(32, False), "interleaved-4": GroupedSums(0, True),
}  # fmt: skip


@dataclass
class Replay:
    """One value of a candidate beside what its own inputs give.

    :param reach: the operations that were replayed together, the first one first
    :param value: what they give; tokens whose flipped codes are explained have what the flipped codes give
    :param limit: how far off each element may be
    :param words: the same in words
    :param span: what the limit is one of
    :param flips: of projections and codes
    :param rows: how many of the last rows its inputs let one know; None for all
    :param allowance: a wider limit, for what a platform may choose
    """

    name: str
    op: str
    reach: tuple[str, ...]
    value: NDArray[Any]
    limit: NDArray[np.float64] | float
    words: str
    span: Scope = "op"
    flips: Flips | None = None
    rows: int | None = None
    allowance: Allowance | None = None


def limit_of(model: Model, bfloat16: bool, node: Node, inputs: list[Any], value: NDArray[Any]) -> tuple[str, Any]:
    """Return how far off an operation may be, in words and as a limit of each element.

    :param bfloat16: whether the candidate's values are bfloat16
    """
    own = LIMITS[node.op]
    if node.op == "rope" and model.numerics.angle_error:
        own = rope_limit(model.numerics.angle_error)
    if node.op in ("head", "expert_linear"):
        own = dense_limit(model.weights.tensor_type(node.weight))
    elif node.op == "linear" and not _is_integer(model, node):
        own = dense_limit("F16")
    elif node.op == "linear":
        own = _of_groups(model, node) or own
    if bfloat16:
        own = bfloat16_limit(node.op, own)
    return own.words, own.of(node, inputs, value)


def _is_integer(model: Model, node: Node) -> bool:
    """Whether a projection is one of integers."""
    rule = model.numerics.quantizer_of(model.weights.tensor_type(node.weight))
    return rule.groups != "none" and isinstance(model.weights.matrix(node.weight), Ternary | Grouped)


def _of_groups(model: Model, node: Node) -> Limit | None:
    """Return the limit of a projection of integers where activations, or weights, have several scales; None where
    neither has.
    """
    matrix = cast(Ternary | Grouped, model.weights.matrix(node.weight))
    groups = GROUPS.get(model.numerics.quantizer_of(model.weights.tensor_type(node.weight)).groups)
    if isinstance(matrix, Ternary):
        if groups is None:
            return None
        return grouped_limit(matrix.columns, groups.columns or matrix.columns // 4, groups.offset, float(matrix.scale))
    largest = 2 * float(np.abs(matrix.scales).max())  # a weight is at most twice its scale
    columns = matrix.group if groups is None else min(matrix.group, groups.columns or matrix.columns // 4)
    return grouped_limit(matrix.columns, columns, groups is not None and groups.offset, largest)


def loosen(model: Model, bfloat16: bool, replay: Replay) -> None:
    """Widen the limits of a reach in which other projections lie."""
    graph = model.graph
    behind = {graph[each].layer for each in replay.reach[:-1] if each in graph.by_name and graph[each].op == "linear"}
    if not behind:
        return
    replay.span = "layer" if len(behind) == 1 else "model"
    own = FORCED if replay.span == "layer" else UNFORCED
    if replay.op in INTEGER_TAPS:
        replay.limit, replay.words = np.inf, "no limit: depends on earlier values"
        return
    finite = np.abs(replay.value[np.isfinite(replay.value)])
    largest = float(finite.max()) if finite.size else 0.0
    replay.limit, replay.words = own.rtol(bfloat16) * largest, f"{own.words}, after {counted(len(behind), 'layer')}"


def relative_error(limit: Any, value: Any) -> float:
    """Return a limit as a share of the root mean square: what an operation after it inherits."""
    wide = value.astype(np.float64)
    finite = np.isfinite(wide)
    if not finite.any():
        return 0.0
    rms = float(np.sqrt(np.mean(np.square(wide[finite]))))
    limits = np.broadcast_to(np.asarray(limit, dtype=np.float64), value.shape)[finite]
    return float(np.sqrt(np.mean(np.square(limits[np.isfinite(limits)])))) / rms if rms else 0.0


def propagated_error(rtol: float, value: NDArray[Any]) -> NDArray[np.float64]:
    """Return the error that a share of an input makes in a value after it: so much of each element and of their RMS."""
    wide = np.abs(value.astype(np.float64))
    finite = wide[np.isfinite(wide)]
    rms = float(np.sqrt(np.mean(finite * finite))) if finite.size else 0.0
    return 4 * rtol * (wide + rms) + ulps(value, 1)
