"""The operations of graphs, computed as a numeric profile declares, and the walk over a graph.

Every operation is a method that takes the run, its node and its inputs, and returns its value. Only the profile and the
node's settings decide how it is computed. If a profile computes in another way (compiled kernels, another device), it
names another class with the same methods.

Values are float32 [T, ...], T being the tokens of all sequences of a run, one after the other. Keys, values, scores and
soft-max rows differ in shape between sequences and are lists with one array for each.

Every float operation except sums is a single NumPy operation on float32: one IEEE rounding, nothing fused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.codec.float_passes import restore as unrotated
from i2s_spec.codec.float_passes import rotate as rotated
from i2s_spec.model.graph import unlisted
from i2s_spec.model.reference import attention, delta_net, ggml_math, reductions, transcendental
from i2s_spec.model.reference.linear import Projections, halved, unread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.graph import Graph, Node
    from i2s_spec.model.numerics import NumericProfile
    from i2s_spec.model.reference.run import Run
    from i2s_spec.model.weights import ModelWeights
    from i2s_spec.schema.rotation import Rotation

    Floats = NDArray[np.float32]
    Doubles = NDArray[np.float64]


class Operations:
    """The operations of profiles that are defined by their choices alone.

    :param profile: the choices
    :param threads: how many threads may work; results do not depend on it
    :param projections: the object that multiplies with matrices; by default that of the profile
    """

    def __init__(self, profile: NumericProfile, threads: int = 1, projections: Projections | None = None) -> None:
        self.profile = profile
        self.threads = threads
        self.projections = Projections(profile, threads) if projections is None else projections

    def prepare(self, graph: Graph, weights: ModelWeights) -> None:
        """Do the work that is needed only once, when a model is loaded."""

    def whole(self, graph: Graph, given: Mapping[str, Any], run: Run) -> dict[str, Any] | None:
        """Return the results of a graph if no other value is needed, computed faster; None if this class has no
        faster way.
        """
        return None

    def batches(self, graph: Graph, weights: ModelWeights) -> bool:
        """Whether tokens of several sequences, one of each, have in one pass the values that they have alone."""
        return True

    # Rows and elements

    def embed(self, run: Run, node: Node, tokens: NDArray[np.int64]) -> Floats:
        """Return the rows of the embedding table, dequantized exactly."""
        rows = run.table(node.weight).take(tokens)
        return rows if self.profile.table_bytes is None else unread(rows, tokens, self.profile.table_bytes)

    def select_rows(self, run: Run, node: Node, x: Floats) -> Floats:
        """Return the rows for which logits are needed."""
        return x if run.rows is None else x[run.rows]

    def norm_weight(self, run: Run, node: Node, x: Floats) -> Floats:
        """Multiply each element by the gain of its column."""
        return x * run.weights.vector(node.weight)

    def bias(self, run: Run, node: Node, x: Floats) -> Floats:
        """Add the bias of its column to each element."""
        return x + run.weights.vector(node.weight)

    def scale(self, run: Run, node: Node, x: Floats) -> Floats:
        """Multiply all elements by one number from the file."""
        factor: np.float32 = run.weights.vector(node.weight)[0]
        return x * factor

    def multiply_by(self, run: Run, node: Node, x: Floats) -> Floats:
        """Multiply all elements by a number, rounded to float32."""
        return x * np.float32(node.settings["factor"])

    def add(self, run: Run, node: Node, a: Floats, b: Floats) -> Floats:
        """Return a + b."""
        return a + b

    def multiply(self, run: Run, node: Node, a: Floats, b: Floats) -> Floats:
        """Return a * b."""
        return a * b

    def rotate(self, run: Run, node: Node, x: Floats) -> Floats:
        """x' = H (s * x), block by block, before a product with a folded weight (clause 3.8)."""
        rotation: Rotation = node.settings["rotation"]
        return rotated(x, rotation.block, rotation.signs_of(x.shape[-1]))

    def restore(self, run: Run, node: Node, x: Floats) -> Floats:
        """h = s * (H z): the rows of a rotated table as they were (clause 3.8)."""
        rotation: Rotation = node.settings["rotation"]
        return unrotated(x, rotation.block, rotation.signs_of(x.shape[-1]))

    def heads(self, run: Run, node: Node, x: Floats) -> Floats:
        """Split the columns into heads: [T, heads, d]."""
        return x.reshape(len(x), node.settings["heads"], -1)

    def columns(self, run: Run, node: Node, x: Floats) -> Floats:
        """Return some columns of each head: [T, heads, stop - start]."""
        heads = x.reshape(len(x), node.settings["heads"], -1)
        return np.ascontiguousarray(heads[..., node.settings["start"] : node.settings["stop"]])

    def merge(self, run: Run, node: Node, x: Floats) -> Floats:
        """Put heads side by side: [T, heads * d]."""
        return x.reshape(len(x), -1)

    def regroup(self, run: Run, node: Node, x: Floats) -> Floats:
        """Bring value heads from their tiled order to that in which heads with one key head are neighbors (clause 3.8)."""
        tiled = x.reshape(len(x), -1, node.settings["groups"], node.settings["width"])
        return np.ascontiguousarray(tiled.transpose(0, 2, 1, 3)).reshape(x.shape)

    # Projections

    def linear(self, run: Run, node: Node, x: Floats) -> Floats:
        """Return a projection: BitLinear where the matrix is ternary (clause 9.8), else products of floats."""
        return self.projections.linear(run, node, x)

    def head(self, run: Run, node: Node, x: Floats) -> Floats:
        """Return the logits: products with every row of the table; of an I2_S table, if the profile says so, by
        BitLinear.
        """
        return self.projections.head(run, node, x)

    # Experts

    def expert_shares(self, run: Run, node: Node, logits: Floats) -> Floats:
        """Return the soft-max of the router's logits: [T, experts]."""
        z = logits - logits.max(axis=-1, keepdims=True)
        return attention.shares(z, self.profile.soft_max, self.profile.vector)

    def best_experts(self, run: Run, node: Node, p: Floats) -> NDArray[np.int64]:
        """Return the experts with the largest shares, in their order, of equal ones the first: int64 [T, used]."""
        found: NDArray[np.int64] = np.argsort(-p, axis=-1, kind="stable")[:, : node.settings["used"]]
        return found

    def expert_weights(self, run: Run, node: Node, p: Floats, chosen: NDArray[np.int64]) -> Floats:
        """Return the shares of the chosen experts, divided by their sum, which is added in float64 and rounded: [T,
        used].
        """
        own: Floats = np.take_along_axis(p, chosen, axis=-1)
        return own / reductions.sums(own).astype(np.float32)[..., None]

    def expert_linear(self, run: Run, node: Node, x: Floats, chosen: NDArray[np.int64]) -> Floats:
        """Multiply each token by the matrices of its experts: [T, used, N], of x [T, K], or of x [T, used, K] for each."""
        matrices, kind = run.weights.experts(node.weight), run.weights.tensor_type(node.weight)
        out = np.zeros((*chosen.shape, run.weights.tensor(node.weight).shape[1]), dtype=np.float32)
        for expert in np.unique(chosen):
            tokens, places = np.nonzero(chosen == expert)
            rows = x[tokens] if x.ndim == 2 else x[tokens, places]
            out[tokens, places] = self.projections.expert(kind, np.ascontiguousarray(rows), matrices[expert])
        return out

    def expert_scale(self, run: Run, node: Node, x: Floats, chosen: NDArray[np.int64]) -> Floats:
        """Return the results of each expert times its number from the file."""
        return x * run.weights.vector(node.weight)[chosen][..., None]

    def weigh_experts(self, run: Run, node: Node, x: Floats, weights: Floats) -> Floats:
        """Return the results of each expert times its weight."""
        return x * weights[..., None]

    def sum_experts(self, run: Run, node: Node, x: Floats) -> Floats:
        """Return the sum over experts in their order, in float32: [T, N]."""
        total = x[:, 0]
        for place in range(1, x.shape[1]):
            total = total + x[:, place]
        return total

    # Norms

    def norm(self, run: Run, node: Node, x: Floats) -> Floats:
        """x / sqrt(mean(x^2) + eps) over the last axis, as a product with a reciprocal of float32.

        `f64`: the squares are exact and added by index in float64; mean, + eps and 1/sqrt stay in float64 and are rounded
        once. `f32`: squares rounded to float32, added in float64; their mean, + eps and 1/sqrt are rounded one by one.
        """
        eps, count = node.settings["eps"], x.shape[-1]
        if self.profile.norm == "f64":
            mean = reductions.squares(x) / count
            factor: Floats = (1.0 / np.sqrt(mean + float(np.float32(eps)))).astype(np.float32)
        else:
            narrow = (reductions.squares(x, rounded=True) / count).astype(np.float32)
            factor = np.float32(1) / np.sqrt(narrow + np.float32(eps))
        return x * factor[..., None]

    # Attention

    def rope(self, run: Run, node: Node, x: Floats) -> Floats:
        """Rotate heads by the positions of their tokens: [T, heads, d]."""
        settings = node.settings
        factors = run.weights.vector(node.weight) if node.weights else None
        how = (self.profile.angles, float(settings["base"]), settings["dims"], float(settings["scale"]))
        key = (*how, node.weights)
        if key not in run.angles:
            angles, base, dims, scale = how
            run.angles[key] = attention.cos_sin(angles, run.positions, base, dims, scale, factors)
        cos, sin = run.angles[key]
        return attention.rotate(
            x.reshape(len(x), settings["heads"], -1), cos, sin, settings["pairs"], self.profile.fused
        )

    def store_kv(self, run: Run, node: Node, x: Floats) -> list[NDArray[Any]]:
        """Append keys or values to those of earlier tokens: [S, heads, d] for each sequence, in the cache's type."""
        rows = x.reshape(len(x), node.settings["heads"], -1)
        part, layer = node.settings["part"], node.layer or 0
        return [each.cache.write(part, layer, rows[each.start : each.stop]) for each in run.sequences]

    def scores(self, run: Run, node: Node, q: Floats, keys: list[NDArray[Any]]) -> list[Floats]:
        """q k^T, neither scaled nor masked: [H, T, S] for each sequence; query head h uses key head h // (H / G)."""
        heads = self._attended(q).reshape(len(q), node.settings["heads"], -1)
        parts = zip(run.sequences, keys, strict=True)
        as_tiles = self.profile.llamafile and self.profile.llamafile_input == "as-weights"
        multiply = self.projections.dense if as_tiles else self.projections.products
        return [attention.scores(heads[each.start : each.stop], k, multiply) for each, k in parts]

    def soft_max(self, run: Run, node: Node, scores: list[Floats]) -> list[Floats]:
        """e^(z - max z) / sum in each row, with z = scores times f32(scale): [H, T, S]; 0 for keys that a row does not
        see."""
        scale = np.float32(node.settings["scale"])
        seen = {name: node.settings[name] for name in ("causal", "window")}
        parts = zip(run.sequences, scores, strict=True)
        how = self.profile.soft_max, self.profile.vector
        return [attention.soft_max(each, scale, sequence.past, *how, **seen) for sequence, each in parts]

    def weighted_values(self, run: Run, node: Node, p: list[Floats], values: list[NDArray[Any]]) -> Floats:
        """Return the sum of the values, each times its weight, with heads side by side: [T, H * d]."""
        lanes = ggml_math.VECTORS * self.profile.vector  # that runtime's cache is padded with zeros
        unit = lanes if self.profile.sums == "lanes" else 1
        parts = [self._weighted(each, v, unit) for each, v in zip(p, values, strict=True)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _weighted(self, p: Floats, values: NDArray[Any], unit: int) -> Floats:
        if self.profile.llamafile and p.shape[1] > 1:
            return attention.weighted_values(p, values, self.projections.dense, unit)
        return attention.weighted_values(self._attended(p), values, self.projections.products, unit)

    def _attended(self, x: Floats) -> Floats:
        """Return the input of a product of attention, rounded as the profile declares."""
        return halved(x) if self.profile.attention == "f16" else x

    # Gated delta nets

    def convolve(self, run: Run, node: Node, x: Floats) -> Floats:
        """Multiply each column of each token, and of the tokens before it, by its weights, and add them up: [T, C]."""
        (channels, kernel), layer = run.weights.tensor(node.weight).shape, node.layer or 0
        weights = run.weights.vector(node.weight).reshape(channels, kernel)
        parts = []
        for each in run.sequences:
            before = each.cache.state("rows", layer)
            part, after = delta_net.convolve(x[each.start : each.stop], before, weights)
            each.cache.replace_state("rows", layer, after)
            parts.append(part)
        return np.concatenate(parts)

    def decay(self, run: Run, node: Node, x: Floats) -> Floats:
        """Multiply each column by how fast its state fades."""
        return x * run.weights.vector(node.weight)

    def unit(self, run: Run, node: Node, x: Floats) -> Floats:
        """x / sqrt(sum(x^2) + eps) of each head."""
        return delta_net.unit(x, node.settings["eps"])

    def delta_rule(self, run: Run, node: Node, q: Floats, k: Floats, v: Floats, gate: Floats, beta: Floats) -> Floats:
        """Return the value of the states for each token, after they fade by e^gate and learn its value: [T, heads, d]."""
        layer, parts = node.layer or 0, []
        fading = transcendental.exp(gate.astype(np.float64)).astype(np.float32)
        for each in run.sequences:
            rows, state = slice(each.start, each.stop), each.cache.state("states", layer)
            part, after = delta_net.delta_rule(
                q[rows], k[rows], v[rows], fading[rows], beta[rows], state, node.settings["heads"]
            )
            each.cache.replace_state("states", layer, after)
            parts.append(part)
        return np.concatenate(parts)

    # Activations

    def sigmoid(self, run: Run, node: Node, x: Floats) -> Floats:
        """1 / (1 + e^-x), in float64, rounded once."""
        return transcendental.sigmoid(x)

    def softplus(self, run: Run, node: Node, x: Floats) -> Floats:
        """log(1 + e^x), in float64, rounded once."""
        return transcendental.softplus(x)

    def relu(self, run: Run, node: Node, x: Floats) -> Floats:
        """x if it is above 0, else 0; NaN stays NaN."""
        out = x.copy()
        out[x <= 0] = 0  # np.maximum does not define the sign of a zero result
        return out

    def square(self, run: Run, node: Node, x: Floats) -> Floats:
        """x * x."""
        return x * x

    def silu(self, run: Run, node: Node, x: Floats) -> Floats:
        """x / (1 + e^-x)."""
        if self.profile.activation == "f64":
            return transcendental.silu(x)
        if self.profile.activation == "ggml":
            return ggml_math.silu(x, self.profile.vector)
        with np.errstate(all="ignore"):
            power: Floats = np.exp(np.negative(x))
            power += 1
            return x / power

    def gelu(self, run: Run, node: Node, x: Floats) -> Floats:
        """Return the tanh form of GELU."""
        return ggml_math.gelu(x) if self.profile.activation == "ggml" else transcendental.gelu(x)

    # Embedding models

    def pool(self, run: Run, node: Node, x: Floats) -> list[Floats]:
        """Return a vector of length 1 for each sequence: from its last or first token, or the mean of all tokens,
        float32 [D]."""
        return [self._pooled(x[each.start : each.stop], node.settings["kind"]) for each in run.sequences]

    def _pooled(self, x: Floats, kind: str) -> Floats:
        row: Floats = x[-1] if kind == "last" else x[0]
        if kind == "mean":
            row = (reductions.sums(x.T) / len(x)).astype(np.float32)
        with np.errstate(all="ignore"):
            if self.profile.norm == "f64":
                length = np.sqrt(reductions.squares(row))
                wide: Doubles = row.astype(np.float64) / np.where(length == 0, 1.0, length)
                return wide.astype(np.float32)
            length = np.sqrt(reductions.squares(row, rounded=True))
            inverse: Floats = np.where(length == 0, 0.0, 1.0 / length).astype(np.float32)
            return row * inverse


def operations_of(profile: NumericProfile, threads: int) -> Operations:
    """Return the operations that a profile names."""
    module, _, name = profile.operations.partition(":")
    found: Operations = getattr(import_module(module), name)(profile, threads)
    return found


# --- executor --------------------------------------------------------------------------------------------------------
# `execute` runs a graph, or a part of one, from given values, one operation after the other; `evaluate` runs one node.
# Each value is passed to the tap of the run, and released after its last use.


def evaluate(node: Node, inputs: list[Any], run: Run, operations: Operations) -> Any:
    """Return the value of one node for given inputs; infinities and NaN are valid values."""
    with np.errstate(all="ignore"):
        return getattr(operations, node.op)(run, node, *inputs)


def execute(
    graph: Graph,
    given: Mapping[str, Any],
    run: Run,
    operations: Operations,
    substitutes: Mapping[str, Operations] | None = None,
) -> dict[str, Any]:
    """Return the results of a graph.

    :param given: the inputs of the graph, by name
    :param substitutes: operations of another profile for some nodes, by name of the node
    """
    values = dict(given)
    for at, node in enumerate(graph.nodes):
        chosen = (substitutes or {}).get(node.name, operations)
        value = evaluate(node, [values[name] for name in node.inputs], run, chosen)
        values[node.name] = value
        run.tap(node.name, partial(unlisted, value, node.op))
        for name in (*node.inputs, node.name):
            if graph.last_use[name] == at and name not in graph.results:
                values.pop(name, None)
    return {name: values[name] for name in graph.results}
