"""The possible mistakes of a file that statistics of its weights cannot decide, each as a change of a model.

A change undoes one mistake: if the file has it, the changed model is right, and predicts text better than any other.
Only mistakes that make a difference to a model are listed (`hypotheses`). Some make almost no difference, such as
scales before a norm; then the text leaves them undecided, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.codec import kernels
from i2s_spec.codec.native import pack_codes, unpack_codes
from i2s_spec.errors import counted
from i2s_spec.model.architectures import STEPS, graph_of
from i2s_spec.model.weights import ModelWeights, Ternary
from i2s_spec.schema.dialect import CANONICAL, CODE_MAPS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.architectures import GraphSettings
    from i2s_spec.model.forward import Model
    from i2s_spec.model.weights import Grouped
    from i2s_spec.schema.architectures import Hyperparameters

Change = Callable[["Model"], "Model"]

#: Matrices of a layer.
ROLES: Final = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
#: Matrices whose signs can be inverted together without changing the model: only their product counts.
TWINS: Final = (("attn_q", "attn_k"), ("attn_v", "attn_output"), ("ffn_up", "ffn_down"))
#: Bases of rotation with which models are trained.
ROPE_BASES: Final = (10_000.0, 500_000.0)
#: Most layers for which every pair of layers is tried as exchanged.
FEW_LAYERS: Final = 6
#: The largest magnitude of 8-bit codes; writers have multiplied or divided scales by it.
MOST: Final = np.float32(127)


class PossibleMistake(NamedTuple):
    """One possible mistake: a name, a sentence, and the change that undoes it.

    `shift` is by how many rows the embeddings of tokens are shifted down.
    """

    name: str
    title: str
    change: Change
    shift: int = 0


def hypotheses(model: Model) -> Iterator[PossibleMistake]:
    """Yield all hypotheses for a model; the unchanged file is the first."""
    yield PossibleMistake("as it is", "nothing is wrong", lambda model: model)
    ternary = ternary_roles(model)
    yield from _codes(model, ternary)
    yield from _orders(model, ternary)
    yield from _exchanges(model)
    yield from _graphs(model)
    yield from _scales(bool(ternary))


def ternary_roles(model: Model) -> frozenset[str]:
    """Return the roles of `ROLES` with a matrix that has ternary codes and one scale: hypotheses about codes and
    scales do not apply to matrices of floats, or with a scale for each group."""
    found = set()
    for each in ROLES:
        names = _present(model, each)
        if any(isinstance(model.weights.matrix(name), Ternary) for name in names):
            found.add(each)
    return frozenset(found)


def _weights(matrix: ChangeMatrix | None = None, vector: ChangeVector | None = None) -> Change:
    return lambda model: model.replace(weights=ChangedWeights(model.weights, matrix, vector))


def _codes(model: Model, ternary: frozenset[str]) -> Iterator[PossibleMistake]:
    """Yield other meanings of codes, for all tensors and for those of one role."""
    if not ternary:
        return
    own = model.weights.dialect.code_map
    used = [code for code in range(4) if code != own.unused]
    names = {
        tuple(each.trits[code] for code in used): each.name for each in CODE_MAPS.values() if each.unused == own.unused
    }
    for trits in permutations((-1, 0, 1)):
        of_code = dict(zip(used, trits, strict=True))
        read = [of_code[own.code_of(trit)] for trit in (-1, 0, 1)]
        if read == [-1, 0, 1]:
            continue
        worth = ", ".join(f"{trit:+d}" if trit else "0" for trit in trits)
        shown = f"codes {', '.join(map(str, used))} stand for {worth}"
        if read == [1, 0, -1]:
            title = f"the signs of all weights, or of ffn_gate alone, are inverted: {shown}"
            yield PossibleMistake("signs turned", title, _weights(recoded(read)))
        else:
            name = names.get(trits, worth)
            yield PossibleMistake(f"code map {name}", shown, _weights(recoded(read)))
    for one, other in TWINS:
        if one not in ternary:
            continue
        title = f"the signs of {one}, or of {other}, are inverted in every layer"
        yield PossibleMistake(f"signs of {one} turned", title, _weights(recoded((1, 0, -1), {one})))


def _orders(model: Model, ternary: frozenset[str]) -> Iterator[PossibleMistake]:
    """Yield other orders of elements, rows and heads."""
    h = model.hyperparameters
    shapes = {each: shape for each in ROLES if each in ternary and (shape := _shape(model, each))}
    square: list[str] = [each for each, shape in shapes.items() if len(set(shape)) == 1]
    oblong = [each for each in shapes if each not in square]
    if len(square) > 1:
        how = dict.fromkeys(square, transposed)
        title = f"{', '.join(square)} are stored column by column"
        yield PossibleMistake("square matrices transposed", title, _weights(rearranged(how)))
    for each in (*square, *oblong):
        title = f"{each} is stored column by column"
        yield PossibleMistake(f"{each} transposed", title, _weights(rearranged({each: transposed})))
    other = "norm" if model.settings.rope == "neox" else "neox"
    halves = {"norm": "neighbors are rotated together", "neox": "halves of a head are rotated together"}
    yield PossibleMistake("other RoPE order", f"rows of attn_q and attn_k are in the order where {halves[other]}",
                          partial(_graph, rope=other))  # fmt: skip
    if not h.varying and 1 < h.heads_kv < h.heads and {"attn_q", "attn_output"} <= ternary:
        spread = np.arange(h.heads).reshape(-1, h.heads_kv).T.reshape(-1)
        for name, order in {"spread": spread, "gathered": np.argsort(spread)}.items():
            if name == "spread" or not np.array_equal(order, spread):
                title = f"query heads that share a key head are {name}, not side by side" if name == "spread" else (
                    "query heads are gathered as if they had been spread")  # fmt: skip
                yield PossibleMistake(f"heads {name}", title, _weights(rearranged(_by_heads(order, h))))


def _by_heads(
    order: NDArray[np.intp], h: Hyperparameters
) -> dict[str, Callable[[NDArray[np.uint8]], NDArray[np.uint8]]]:
    """Return query heads in another order: the rows of attn_q, and the columns of attn_output."""

    def rows(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return codes.reshape(h.heads, -1, codes.shape[1])[order].reshape(codes.shape)

    def columns(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return codes.reshape(len(codes), h.heads, -1)[:, order].reshape(codes.shape)

    return {"attn_q": rows, "attn_output": columns}


def _shape(model: Model, role: str) -> tuple[int, ...]:
    """Return the shape of the matrices of a role; None if there are none, or layers differ."""
    found = {model.weights.tensor(name).shape for name in _present(model, role)}
    return found.pop() if len(found) == 1 else ()


def _present(model: Model, role: str) -> list[str]:
    """Return the tensors of a role that the file has, layer by layer."""
    return [name for name in (f"blk.{i}.{role}.weight" for i in range(model.graph.layers)) if name in model.weights]


def _exchanges(model: Model) -> Iterator[PossibleMistake]:
    """Yield exchanges of tensors' names."""
    layers = range(model.graph.layers)
    for one, other in (("ffn_gate", "ffn_up"), ("attn_k", "attn_v"), ("attn_q", "attn_output")):
        if _shape(model, one) and _shape(model, one) == _shape(model, other):
            pairs = [(f"blk.{i}.{one}.weight", f"blk.{i}.{other}.weight") for i in layers]
            yield PossibleMistake(f"{one} and {other} exchanged", f"{one} has the name of {other}",
                                  _weights(exchanged(_both(pairs))))  # fmt: skip
    for i, j in combinations(layers, 2) if len(layers) <= FEW_LAYERS else ():
        prefix, other = f"blk.{i}.", f"blk.{j}."
        names = _both([(name, other + name[len(prefix) :]) for name in _names(model) if name.startswith(prefix)])
        if all(map(model.weights.__contains__, names)) and all(_same_shape(model, *each) for each in names.items()):
            change = _weights(exchanged(names), exchanged_vectors(names))
            yield PossibleMistake(f"layers {i} and {j} exchanged", f"layer {i} has the name of layer {j}", change)
    for shift in (1, -1):
        title = f"the embedding of each token is one row {'further down' if shift > 0 else 'further up'}"
        yield PossibleMistake(f"embedding shifted by {shift:+d}", title, lambda model: model, shift)


def _names(model: Model) -> list[str]:
    """Return the tensors that the graph uses."""
    return [name for node in model.graph for name in node.weights]


def _same_shape(model: Model, one: str, other: str) -> bool:
    return model.weights.tensor(one).shape == model.weights.tensor(other).shape


def _both(pairs: list[tuple[str, str]]) -> dict[str, str]:
    return {**dict(pairs), **{other: one for one, other in pairs}}


def _graphs(model: Model) -> Iterator[PossibleMistake]:
    """Yield other graphs for the same weights: wrong metadata or a wrong architecture."""
    for each in STEPS:
        if each != model.settings.activation:
            yield PossibleMistake(f"activation {each}", f"the activation is {each}, not {model.settings.activation}",
                                  partial(_graph, activation=each))  # fmt: skip
    h = model.hyperparameters
    for base in ROPE_BASES:
        if base != h.rope_base:
            yield PossibleMistake(f"RoPE base {base:,.0f}",
                                  f"heads are rotated with base {base:,.0f}, not {h.rope_base:,.0f}",
                                  partial(_sized, h._replace(rope_base=base)))  # fmt: skip
    halved = h._replace(
        heads=h.heads // 2, heads_kv=h.heads_kv // 2, head_dim=h.head_dim * 2, value_dim=h.value_dim * 2
    )
    doubled = h._replace(
        heads=h.heads * 2, heads_kv=h.heads_kv * 2, head_dim=h.head_dim // 2, value_dim=h.value_dim // 2
    )
    for name, sizes in {"half as many heads": halved, "twice as many heads": doubled}.items():
        rotated = sizes._replace(rope_dims=sizes.head_dim if h.rope_dims else 0)
        whole = (sizes.q_width, sizes.k_width, sizes.v_width) == (h.q_width, h.k_width, h.v_width) and sizes.heads_kv
        if whole and not h.varying and sizes.head_dim % 2 == 0 and h.rope_dims in (0, h.head_dim):
            title = f"there are {counted(sizes.heads, 'head')} of {sizes.head_dim}, not {h.heads} of {h.head_dim}"
            yield PossibleMistake(name, title, partial(_sized, rotated))


def _graph(model: Model, **settings: Any) -> Model:
    return _regraphed(model, model.hyperparameters, replace(model.settings, **settings))


def _sized(sizes: Hyperparameters, model: Model) -> Model:
    return _regraphed(model, sizes, model.settings)


def _regraphed(model: Model, sizes: Hyperparameters, settings: GraphSettings) -> Model:
    graph = graph_of(model.architecture.name, sizes, settings, model.file.tensors)
    return replace(model, graph=graph, hyperparameters=sizes, settings=settings)


def _scales(ternary: bool) -> Iterator[PossibleMistake]:
    """Yield other scales, if matrices have one, and other gains."""
    scales: dict[str, tuple[str, Callable[[np.float32], Any]]] = {
        "scale reciprocal": ("each scale is stored as its reciprocal", lambda scale: 1 / scale if scale else scale),
        "scale 1": ("the gains contain the scales already, so each scale should be 1", lambda scale: 1),
        "scale times 127": ("each scale was divided by 127", lambda scale: scale * MOST),
        "scale over 127": ("each scale was multiplied by 127", lambda scale: scale / MOST),
        "scale rooted": ("each scale was squared", lambda scale: np.sqrt(np.abs(scale))),
    }
    for name, (title, change) in scales.items() if ternary else ():
        yield PossibleMistake(name, title, _weights(rescaled(change)))
    yield PossibleMistake(
        "gains plus 1", "gains are stored without the 1 that is added to them", _weights(vector=plus_one)
    )


# --- changed weights -------------------------------------------------------------------------------------------------
# A model reads some of its weights in another way and shares the rest, so that a change is cheap. A change of matrices
# is a function of a tensor's name and its unchanged weights. The functions here make such changes: other trits for
# codes, transposed matrices, exchanged tensors, heads in another order, other scales.

#: Rows and columns of the tiles in which a matrix is transposed.
TILE: Final = (512, 64)

#: Gives a changed matrix, from the name of its tensor and the unchanged weights.
ChangeMatrix = Callable[[str, ModelWeights], "Ternary | Grouped | NDArray[Any]"]
#: Gives a changed vector of gains, likewise.
ChangeVector = Callable[[str, ModelWeights], "NDArray[np.float32]"]


class ChangedWeights(ModelWeights):
    """The weights `base`, with some of them changed.

    :param matrix: changes a matrix; a matrix that it returns unchanged needs no memory
    :param vector: changes a vector
    """

    def __init__(
        self, base: ModelWeights, matrix: ChangeMatrix | None = None, vector: ChangeVector | None = None
    ) -> None:
        super().__init__(base.file, base.dialect)
        self.preloaded = base.preloaded
        self._base = base
        self._change_matrix, self._change_vector = matrix, vector

    def matrix(self, name: str) -> Ternary | Grouped | NDArray[Any]:
        """Return a projection, changed."""
        change = self._change_matrix
        if change is None:
            return self._base.matrix(name)
        return self._once(name, lambda _: change(name, self._base))

    def vector(self, name: str) -> NDArray[np.float32]:
        """Return gains, changed."""
        change = self._change_vector
        if change is None:
            return self._base.vector(name)
        return self._once(name, lambda _: change(name, self._base))

    def blocks(self, name: str) -> NDArray[np.uint8]:
        """Return the bytes of a quantized table, unchanged."""
        return self._base.blocks(name)


def role(name: str) -> str:
    """Return the role of a tensor of a layer: `attn_q` for `blk.3.attn_q.weight`; else its whole name."""
    parts = name.split(".")
    return parts[2] if len(parts) == 4 and parts[0] == "blk" and parts[3] == "weight" else name


def recoded(trits: Sequence[int], roles: Collection[str] | None = None) -> ChangeMatrix:
    """Read other trits for -1, 0 and +1.

    :param trits: the new values, in this order
    :param roles: the roles of the tensors to change; None for all
    """
    codes = tuple(trits[code] + 1 if code < 3 else 3 for code in range(4))

    def change(name: str, base: ModelWeights) -> Any:
        matrix = base.matrix(name)
        if not isinstance(matrix, Ternary) or (roles is not None and role(name) not in roles):
            return matrix
        made, layout = np.empty_like(matrix.payload), CANONICAL.layout
        kernels.recode(matrix.payload, matrix.rows, matrix.columns, layout, layout, codes, made, 1)
        return matrix._replace(payload=made)

    return change


def rearranged(arrange: Mapping[str, Callable[[NDArray[np.uint8]], NDArray[np.uint8]]]) -> ChangeMatrix:
    """Put the codes of some matrices in another order.

    :param arrange: by role, a function that takes and returns codes, uint8 [rows, columns]
    """

    def change(name: str, base: ModelWeights) -> Any:
        matrix, how = base.matrix(name), arrange.get(role(name))
        if how is None or not isinstance(matrix, Ternary):
            return matrix
        codes = how(unpack_codes(matrix.payload, (matrix.rows, matrix.columns), CANONICAL.layout))
        packed = pack_codes(np.ascontiguousarray(codes), CANONICAL.layout)
        return matrix._replace(payload=np.frombuffer(packed, dtype=np.uint8))

    return change


def transposed(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a matrix that the file stores column by column.

    It is copied in tiles: the elements of a column are on different pages, and the TLB of a processor holds only some
    of them.
    """
    there, made = codes.reshape(codes.shape[::-1]).T, np.empty_like(codes)
    for row in range(0, codes.shape[0], TILE[0]):
        for column in range(0, codes.shape[1], TILE[1]):
            tile = slice(row, row + TILE[0]), slice(column, column + TILE[1])
            made[tile] = there[tile]
    return made


def exchanged(names: Mapping[str, str]) -> ChangeMatrix:
    """Exchange the names of tensors; a scale stays with its payload."""

    def change(name: str, base: ModelWeights) -> Any:
        return base.matrix(names.get(name, name))

    return change


def exchanged_vectors(names: Mapping[str, str]) -> ChangeVector:
    """Exchange the names of gains."""

    def change(name: str, base: ModelWeights) -> NDArray[np.float32]:
        return base.vector(names.get(name, name))

    return change


def plus_one(name: str, base: ModelWeights) -> NDArray[np.float32]:
    """Add the missing 1 to gains of norms."""
    gains = base.vector(name)
    return gains + np.float32(1) if "norm" in name else gains


def rescaled(scale: Callable[[np.float32], Any]) -> ChangeMatrix:
    """Give every ternary matrix another scale."""

    def change(name: str, base: ModelWeights) -> Any:
        matrix = base.matrix(name)
        return matrix._replace(scale=np.float32(scale(matrix.scale))) if isinstance(matrix, Ternary) else matrix

    return change
