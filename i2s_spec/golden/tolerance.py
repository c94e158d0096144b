"""This module declares how far a value may be from its replay, for each operation (clause 10.4).

A limit is an array: for each element, how far off a correct runtime may be. It depends on what goes in, since rounding
errors grow with what is added up. Where several operations are replayed together, their limits add up.

Figures: measured on correct runtimes and doubled at least; reference/forward of this project says on what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.graph import Node

#: Half-precision rounding of a factor, where a runtime keeps q, soft-max rows or the head's input in F16.
HALF: Final = 2.0**-10


class Limit(NamedTuple):
    """How far off an operation may be, in words and as a function.

    :param words: for a report
    :param of: takes the node, its inputs and the replayed value; gives the limit of each element, float64
    """

    words: str
    of: Callable[[Node, list[Any], NDArray[Any]], NDArray[np.float64] | float]


def ulps(value: NDArray[Any], count: float) -> NDArray[np.float64]:
    """So many units in the last place of each element, as a distance."""
    with np.errstate(all="ignore"):
        return count * np.spacing(np.abs(value.astype(np.float32))).astype(np.float64)


def _ulps(count: float) -> Callable[[Node, list[Any], NDArray[Any]], NDArray[np.float64]]:
    return lambda node, inputs, value: ulps(value, count)


def _of_largest(share: float) -> Callable[[Node, list[Any], NDArray[Any]], float]:
    def limit(node: Node, inputs: list[Any], value: NDArray[Any]) -> float:
        finite = np.abs(value[np.isfinite(value)])
        return share * float(finite.max()) if finite.size else 0.0

    return limit


def _rotated(node: Node, inputs: list[Any], value: NDArray[Any]) -> NDArray[np.float64]:
    """Angles of float32 are off by more the later the position."""
    x = inputs[0].reshape(len(inputs[0]), -1)
    largest = np.abs(x).max(axis=1).astype(np.float64)
    limit = 2.0**-21 * (2 + np.arange(len(x))) * largest
    return np.broadcast_to(limit.reshape(-1, *[1] * (value.ndim - 1)), value.shape)


def _scores(node: Node, inputs: list[Any], value: NDArray[Any]) -> NDArray[np.float64]:
    """Of each product of a query and a key, a share of the sum of magnitudes."""
    q, keys = inputs
    heads = np.abs(q.reshape(len(q), node.settings["heads"], -1)).astype(np.float64)
    share = heads.shape[1] // keys.shape[1]
    near = np.abs(np.repeat(keys, share, axis=1)).astype(np.float64)
    found: NDArray[np.float64] = HALF * np.einsum("thd,shd->hts", heads, near)
    return found


def _mixed(node: Node, inputs: list[Any], value: NDArray[Any]) -> NDArray[np.float64]:
    p, values = inputs
    share = p.shape[0] // values.shape[1]
    near = np.abs(np.repeat(values, share, axis=1)).astype(np.float64)
    found: NDArray[np.float64] = 2 * HALF * np.einsum("hts,shd->thd", p.astype(np.float64), near)
    return found.reshape(value.shape)


#: By the operation of the graph.
LIMITS: Final[Mapping[str, Limit]] = {
    "embed": Limit("bit-exact", lambda node, inputs, value: 0.0),
    "choose": Limit("bit-exact", lambda node, inputs, value: 0.0),
    "heads": Limit("bit-exact", lambda node, inputs, value: 0.0),
    "keep": Limit("a rounding to F16", lambda node, inputs, value: HALF * np.abs(value).astype(np.float64)),
    "norm": Limit("64 ulp, 4 unless sums are float32 by index", _ulps(64)),
    "gain": Limit("1 ulp", _ulps(1)),
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
    "rope": Limit("2^-21 (2 + position) of the largest of the token", _rotated),
    "scores": Limit("2^-10 of the sum of magnitudes", _scores),
    "soft_max": Limit("5e-4", lambda node, inputs, value: 5e-4),
    "mix": Limit("2^-9 of the sum of magnitudes", _mixed),
    "head": Limit("1e-3 of the largest", _of_largest(1e-3)),
    "pool": Limit("1e-6", lambda node, inputs, value: 1e-6),
}


#: Norms whose sums are not float32 in one row are this near.
NORM_ULPS: Final = 4


class Share(NamedTuple):
    """How far off a value may be behind a quantiser, as a share of its largest magnitude, by what the candidate computes in.

    :param f32: with float32 and keys and values in F16 or F32
    :param bf16: with bfloat16
    """

    words: str
    f32: float
    bf16: float

    def share(self, brain: bool) -> float:
        """The one that holds."""
        return self.bf16 if brain else self.f32


#: One layer from its input on: a flipped code in it changes what is behind.
FORCED: Final = Share("3e-2 of the largest (5e-2 for bfloat16)", 3e-2, 5e-2)

#: More than one layer.
UNFORCED: Final = Share("0.3 of the largest", 0.3, 0.3)

#: Share of the elements of a layer's value, in the middle, that may be off by that: flips are few.
FORCED_MEDIAN: Final = Share("median 5e-3 of the largest (1e-2 for bfloat16)", 5e-3, 1e-2)

#: Share of codes that may differ where a layer is computed from its input, and by how many steps. With keys and values in
#: F16, 0.8 % were measured to differ at a width of 2,560 and up to 6.6 % at 256: narrow models flip more.
FORCED_FLIPS: Final = (0.15, 5)
FORCED_FLIPS_BRAIN: Final = (0.25, 11)


def forced_start(word: str, brain: bool) -> tuple[float, str]:
    """Of a value of a layer that lies before every quantiser of it: share of the largest, and words."""
    share = 1e-3 if not brain else 8e-3 if word == "act_scale" else 1e-2
    return share, f"{share:g} of the largest"


class Free(NamedTuple):
    """How far whole models may be apart: below `plausible` nothing is said, above `fail` it is a failure.

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

#: Distance of neighbouring bfloat16, in those of float32.
BRAIN: Final = 1 << 16


def dense_limit(kind: str) -> Limit:
    """Of products with a matrix of floats, or with a quantised table, whose input a runtime may quantise too."""
    share = 1e-3 if kind in ("F32", "F16", "BF16") else 2e-2
    return Limit(f"{share:g} of the largest", _of_largest(share))


def brain_limit(op: str, own: Limit) -> Limit:
    """The limit of an operation in bfloat16: four steps of it (a square doubles what its input is off by), more of sums."""
    if op in ("linear", "head", "scores", "soft_max", "mix", "rope"):
        return Limit("5e-2 of the largest, in bfloat16", _of_largest(5e-2))

    def limit(node: Node, inputs: list[Any], value: NDArray[Any]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.maximum(own.of(node, inputs, value), ulps(value, 4 * BRAIN))
        if op == "add":  # what cancels leaves the rounding of what went in
            found = np.maximum(found, ulps(np.maximum(np.abs(inputs[0]), np.abs(inputs[1])), 4 * BRAIN))
        return found

    return Limit("4 steps of bfloat16", limit)
