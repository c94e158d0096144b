"""What wrong values look like, whatever made them: a factor, other rows, wrong places, NaN (clause 10.5).

Each pattern is a function of an `Observation` (the value, the wanted one and its limit) that gives a diagnosis, or
None. `PATTERNS` lists them, and `recognized` tries them all. `swapped_operands` explains a value by
the weights, keys or values of another place of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.errors import counted, quote
from i2s_spec.golden.metrics import beyond, length, relative
from i2s_spec.golden.result import Diagnosis
from i2s_spec.schema.mistakes import Mistake

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph import Node

    Array = NDArray[Any]


# --- observation -----------------------------------------------------------------------------------------------------

#: A pattern holds if what is left with it is this share of what was off.
LEFT: Final = 0.02


class Observation(NamedTuple):
    """A wrong value.

    :param got: [T, ...]
    :param want: the same shape
    :param off: which elements are too far off
    :param inputs: of the operation, where they are known
    :param tokens: of the sequence
    :param op: the operation; empty where that does not matter
    """

    got: Array
    want: Array
    off: NDArray[np.bool_]
    inputs: tuple[Array, ...] = ()
    tokens: int = 0
    rows_are_tokens: bool = True
    op: str = ""


Pattern = Callable[[Observation], "Diagnosis | None"]


def by_pattern(name: str, says: str, remaining: float | None = None) -> Diagnosis:
    """Return a diagnosis that a pattern gives."""
    return Diagnosis(name, says, "by pattern", remaining)


def wrong_rows(observed: Observation) -> NDArray[np.int64]:
    """Return the rows with an element that is too far off."""
    return np.flatnonzero(observed.off.reshape(len(observed.off), -1).any(axis=1))


def listed(rows: Any, what: str) -> str:
    """Return some numbers in words, the first eight of them."""
    shown = ", ".join(str(int(row)) for row in rows[:8])
    return f"{what}{'s' if len(rows) != 1 else ''} {shown}{' ...' if len(rows) > 8 else ''}"


def factor_of(observed: Observation) -> tuple[float, float] | None:
    """Return the one factor that brings the wanted value to what is there, and what is left."""
    got, want = finite_pair(observed)
    square = float(np.sum(want * want))
    if not square:
        return None
    factor = float(np.sum(got * want)) / square
    left = length(got - factor * want) / (length(got - want) or 1.0)
    exact = length(got - factor * want) <= 1e-5 * abs(factor) * length(want)
    return (factor, left) if exact or left < LEFT else None


def finite_pair(observed: Observation) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the elements that are finite in both."""
    finite = np.isfinite(observed.got) & np.isfinite(observed.want)
    return observed.got[finite].astype(np.float64), observed.want[finite].astype(np.float64)


# --- values in other rows or columns ---------------------------------------------------------------------------------

#: Widest value of which columns are matched with each other.
MOST_COLUMNS: Final = 8192


def shifted(observed: Observation) -> Diagnosis | None:
    """Recognize the values of the token before or after."""
    if not observed.rows_are_tokens or len(observed.got) < 3:
        return None
    for step in (1, -1):
        a, b = (observed.got[1:], observed.want[:-1]) if step == 1 else (observed.got[:-1], observed.want[1:])
        if relative(a, b) < LEFT:
            return by_pattern(
                "shifted", f"the values are those of the token {'before' if step == 1 else 'after'}", relative(a, b)
            )
    return None


def permuted_rows(observed: Observation) -> Diagnosis | None:
    """Recognize rows in another order."""
    if observed.got.ndim < 2 or len(observed.got) < 2:
        return None
    order = _matched(observed.got.reshape(len(observed.got), -1), observed.want.reshape(len(observed.want), -1))
    if order is None:
        return None
    what = "tokens" if observed.rows_are_tokens else "rows"
    turned = np.array_equal(order, np.arange(len(order))[::-1])
    return by_pattern("rows-permuted", f"the {what} are {'in reverse order' if turned else 'in another order'}")


def permuted_columns(observed: Observation) -> Diagnosis | None:
    """Recognize columns in another order, that of rows of q and k among them."""
    if observed.got.ndim < 2:
        return None
    got, want = observed.got.reshape(len(observed.got), -1), observed.want.reshape(len(observed.want), -1)
    if got.shape[1] > MOST_COLUMNS or got.shape[0] < 2:
        return None
    order = _matched(got.T, want.T)
    if order is None:
        return None
    columns = len(order)
    for width in (w for w in range(2, columns + 1, 2) if columns % w == 0):
        paired = np.arange(columns).reshape(-1, 2, width // 2).swapaxes(1, 2).ravel()
        if np.array_equal(order, paired) or np.array_equal(np.argsort(order), paired):
            says = (
                f"rows of the weights are permuted within heads of {width}, as for llama: once too often, or not at all"
            )
            return by_pattern("q-k-permuted", says)
    return by_pattern("columns-permuted", "the columns are in another order: rows of the weights are permuted")


def _matched(got: Array, want: Array) -> NDArray[np.int64] | None:
    """Return the order of rows in which one matrix is the other; None if there is no order other than the same."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    if not np.isfinite(a).all() or not np.isfinite(b).all():
        return None
    norms = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    with np.errstate(all="ignore"):
        likeness = (a / norms[0][:, None]) @ (b / norms[1][:, None]).T
    order = np.where(np.isfinite(likeness), likeness, -2).argmax(axis=1)
    if len(np.unique(order)) != len(order) or np.array_equal(order, np.arange(len(order))):
        return None
    return order if relative(a, b[order]) < LEFT else None


def transposed(observed: Observation) -> Diagnosis | None:
    """Recognize rows and columns that are exchanged."""
    shape = observed.got.shape
    if len(shape) < 2:
        return None
    got = observed.got.reshape(shape[0], -1)
    for turned in (got.T.reshape(-1), np.ascontiguousarray(observed.got.reshape(got.shape[::-1]).T).reshape(-1)):
        if relative(turned, observed.want.reshape(-1)) < LEFT:
            return by_pattern("transposed", "rows and columns are exchanged")
    return None


# --- wrong in some places only ---------------------------------------------------------------------------------------
# Wrong are tokens, columns, or what two threads share.


def some_rows(observed: Observation) -> Diagnosis | None:
    """Recognize tokens that are wrong among others that are right."""
    if not observed.rows_are_tokens or observed.tokens < 2:
        return None
    rows = wrong_rows(observed)
    if 0 < len(rows) < len(observed.got):
        return by_pattern("some-tokens", f"only {listed(rows, 'token')} of {len(observed.got)} wrong")
    return None


def some_columns(observed: Observation) -> Diagnosis | None:
    """Recognize columns that are wrong, a few of all."""
    if observed.got.ndim < 2:
        return None
    off = observed.off.reshape(len(observed.off), -1)
    columns = np.flatnonzero(off.any(axis=0))
    if not 0 < len(columns) <= off.shape[1] // 4:
        return None
    place = f"columns {columns[0]:,} to {columns[-1]:,}" if len(columns) > 1 else f"column {columns[0]:,}"
    middle = off.shape[1] // 2
    if len(columns) <= 8 and all(abs(int(column) - middle) <= 4 for column in columns) and off.shape[1] % 4:
        return by_pattern("row-split", f"only {place} are wrong, where two threads share rows that are not multiples of four"
                          " and write to each other's; what comes out depends on timing")  # fmt: skip
    tail = (
        ": the end, which a kernel for whole blocks leaves out"
        if columns[-1] == off.shape[1] - 1 and columns[0] == columns[-1] - len(columns) + 1
        else ""
    )
    return by_pattern(
        "some-columns",
        f"only {len(columns):,} of {counted(off.shape[1], 'column')} are wrong, {place}{tail}",
    )


def rotation(observed: Observation) -> Diagnosis | None:
    """Recognize a wrong rotation: every token is wrong but the first, whose angle is 0."""
    rows = wrong_rows(observed) if observed.op == "rope" else np.zeros(0, dtype=np.int64)
    if not observed.rows_are_tokens or len(rows) < 1 or len(rows) != len(observed.got) - 1 or rows[0] != 1:
        return None
    says = "every token but the first is wrong, and position 0 never rotates: the rotation itself is"
    return by_pattern("rotation", says)


# ARM's mat-mul passes four tokens to a kernel for one, where the whole fours of tokens are odd in number.


def four_token_kernel(observed: Observation) -> Diagnosis | None:
    """Recognize a product in which those four tokens are wrong and all others right, or tokens from the four on are NaN.

    Of a value that is all NaN this is a guess, which comes after `not-finite`.
    """
    if observed.tokens // 4 * 4 % 8 != 4 or observed.op not in ("linear", "head", ""):
        return None
    strange: NDArray[np.bool_] = np.atleast_1d(~np.isfinite(observed.got) & np.isfinite(observed.want))
    everything = bool(strange.all())
    strange = np.asarray(strange.reshape(len(strange), -1).any(axis=1))
    if strange.any():
        zeros = any(len(x) == len(strange) and not np.asarray(x)[strange].any() for x in observed.inputs[:1])
        may = not zeros and _behind(np.flatnonzero(strange), observed) and not _made_behind(strange, observed)
        return _of_four_tokens(observed.tokens, known=not everything) if may else None
    block = observed.tokens // 4 * 4
    rows = wrong_rows(observed) if observed.rows_are_tokens and observed.op == "linear" else ()
    four = observed.tokens > 4 and np.array_equal(rows, np.arange(block - 4, block))
    return _of_four_tokens(observed.tokens) if four and factor_of(observed) is None else None


def _behind(rows: NDArray[np.int64], observed: Observation) -> bool:
    return not observed.rows_are_tokens or int(rows[0]) >= observed.tokens // 4 * 4 - 4


def _made_behind(strange: NDArray[np.bool_], observed: Observation) -> bool:
    """Whether a token after the four is NaN although its input is finite: this mistake does not make such a NaN."""
    x = np.asarray(observed.inputs[0]) if observed.inputs else np.zeros(0)
    if not observed.rows_are_tokens or x.ndim < 2 or len(x) != len(strange):
        return False
    sound = np.isfinite(x.reshape(len(x), -1)).all(axis=1)
    return bool((strange & sound)[observed.tokens // 4 * 4 :].any())


def _of_four_tokens(tokens: int, known: bool = True) -> Diagnosis:
    """Return the diagnosis `nrc-4`.

    :param known: whether the place tells; else nothing speaks against it
    """
    stop = tokens // 4 * 4
    says = (
        f"of {counted(tokens, 'token')} the mat-mul hands numbers {stop - 4} to {stop - 1} to a "
        f"kernel for one: ARM builds with dot "
        "products since November 2025; what comes out depends on memory"
    )
    doubt = "; nothing else that is known explains the value: try another number of tokens"
    return by_pattern("nrc-4", says if known else says + doubt)


# --- values as a whole -----------------------------------------------------------------------------------------------


def recognized(
    got: Array, want: Array, limit: Any, inputs: tuple[Array, ...] = (), tokens: int = 0, op: str = ""
) -> list[Diagnosis]:
    """Return the patterns that a wrong value has, the most telling first."""
    off = beyond(got, want, limit)
    by_token = bool(got.ndim) and len(got) == tokens
    observed = Observation(got, want, off, inputs, tokens, by_token, op)
    if got.size > 1 and np.count_nonzero(off) < 2 and np.isfinite(got[off]).all():
        return []  # one element looks like anything
    found = [each for pattern in PATTERNS if (each := pattern(observed)) is not None]
    rotates = any(each.name == "rotation" for each in found)  # that token 0 is right tells nothing then
    return [each for each in found if each.name != "some-tokens"] if rotates else found


def _zeros(observed: Observation) -> Diagnosis | None:
    if observed.got.any() or not observed.want.any():
        return None
    return by_pattern(
        "zeros",
        "every element is 0: the kernel never wrote or does not know the type of the weights, or a scale is 0",
        1.0,
    )


def _nan_rows(observed: Observation) -> Diagnosis | None:
    strange = ~np.isfinite(observed.got) & np.isfinite(observed.want)
    if not strange.any():
        return None
    if strange.all():
        return by_pattern("not-finite", "every element is NaN or infinite")
    rows = np.flatnonzero(np.atleast_1d(strange).reshape(len(np.atleast_1d(strange)), -1).any(axis=1))
    whole = observed.got.ndim and all(strange[row].all() for row in rows)
    what = "token" if observed.rows_are_tokens else "row"
    zeros = (
        any(not np.asarray(x)[rows].any() for x in observed.inputs[:1] if len(x) == len(observed.got))
        if len(rows)
        else False
    )
    why = "; its input is all 0 there: an activation scale without a floor" if zeros else ""
    return by_pattern("not-finite", f"{counted(strange.sum(), 'element is', 'elements are')} NaN or "
                                    f"infinite, {'all' if whole else 'some'} of "
                    f"{listed(rows, what)}{why}")  # fmt: skip


def _factor(observed: Observation) -> Diagnosis | None:
    found = factor_of(observed)
    if found is None or not np.isfinite(observed.got).all():
        return None
    factor, left = found
    if abs(factor - 1) < 1e-6 or not factor:
        return None
    if abs(factor + 1) < 1e-4:
        return by_pattern("negated", "every sign is inverted", left)
    word = {2.0: "scale-doubled", 0.5: "scale-halved"}.get(round(factor, 3), "factor")
    says = {"scale-doubled": "everything is doubled", "scale-halved": "everything is halved"}.get(
        word, f"everything is multiplied by {factor:.6g}"
    )
    return by_pattern(word, f"{says}: a scale is wrong", left)


def _offset(observed: Observation) -> Diagnosis | None:
    got, want = finite_pair(observed)
    constant = float(np.median(got - want)) if got.size else 0.0
    left = length(got - want - constant) / (length(got - want) or 1.0)
    return by_pattern("offset", f"{constant:.6g} is added to everything", left) if constant and left < LEFT else None


def _row_factors(observed: Observation) -> Diagnosis | None:
    if observed.got.ndim < 2 or not np.isfinite(observed.got).all():
        return None
    got, want = (
        observed.got.reshape(len(observed.got), -1).astype(np.float64),
        observed.want.reshape(len(observed.want), -1).astype(np.float64),
    )
    for a, b, what in ((got, want, "token" if observed.rows_are_tokens else "row"), (got.T, want.T, "column")):
        if a.shape[1] < 3:
            continue
        squares = (b * b).sum(axis=1)
        factors = np.divide((a * b).sum(axis=1), squares, out=np.ones(len(a)), where=squares > 0)
        left = length(a - factors[:, None] * b) / (length(a - b) or 1.0)
        if left < LEFT and len(a) > 1:
            low, high = float(factors.min()), float(factors.max())
            return by_pattern(
                "factors", f"each {what} is multiplied by a factor of its own, {low:.4g} to {high:.4g}", left
            )
    return None


def _untouched(observed: Observation) -> Diagnosis | None:
    for x in observed.inputs:
        if np.size(x) == observed.got.size and relative(observed.got.reshape(-1), np.asarray(x).reshape(-1)) < 1e-6:
            return by_pattern("left-out", "the value is the input of the operation: it was left out")
    return None


PATTERNS: Final[tuple[Pattern, ...]] = (
    _zeros, _nan_rows, four_token_kernel, rotation, _untouched, _factor, _offset, _row_factors, shifted, transposed,
    permuted_rows, permuted_columns, some_rows, some_columns,
)  # fmt: skip


#: Patterns that a corner of a value shows too: they need neither the numbers that are left out nor their places.
OF_CORNERS: Final = frozenset({"zeros", "not-finite"})

#: Patterns that say where a value is wrong, not how: less telling than a mistake that explains most of it.
WEAK: Final = frozenset({"some-tokens", "some-columns", "row-split"})


# --- swapped operands --------------------------------------------------------------------------------------------------
# The same operation with weights, keys or values of another place. What is found is no mistake of a table: there are as
# many of them as a model has places. They are tried where nothing else explains a value exactly.

#: Most places that are tried for one value, the nearest layers first.
MOST_PLACES: Final = 64


def swapped_operands(model: Model, reach: Iterable[str]) -> Iterator[tuple[Mistake, Model]]:
    """Yield each exchange that can explain a value, with the model that has it.

    :param reach: names of the operations that are replayed together
    """
    nodes = [model.graph[name] for name in reach if name in model.graph.by_name]
    linear = [node for node in nodes if node.op == "linear"]
    if len(nodes) == len(linear) == 1:
        yield from _other_weights(model, linear[0])
    for node in nodes:
        if node.op in ("scores", "weighted_values"):
            yield from _other_cache(model, node)


def _other_weights(model: Model, node: Node) -> Iterator[tuple[Mistake, Model]]:
    """Yield the projection with each other matrix of its shape, those of its own kind first."""
    shape = model.file.tensors[node.weight].shape
    kind = node.weight.rpartition("blk.")[2].partition(".")[2]
    others = [
        each for each in model.graph
        if each.op == "linear" and each.weight != node.weight and model.file.tensors[each.weight].shape == shape
    ]  # fmt: skip
    others.sort(key=lambda each: (not each.weight.endswith(f".{kind}"), abs((each.layer or 0) - (node.layer or 0))))
    for each in others[:MOST_PLACES]:
        theirs, own = (quote(name, bare=True) for name in (each.weight, node.weight))
        says = f"the weights of {theirs} were used; those of {own} are right"
        changed = model.replace(graph=model.graph.replaced(node.name, weights=each.weights))
        yield Mistake("weights-of-another", says), changed


def _other_cache(model: Model, node: Node) -> Iterator[tuple[Mistake, Model]]:
    """Yield the attention with the keys, or the values, that another layer stored."""
    what = "keys" if node.op == "scores" else "values"
    at = next((i for i, name in enumerate(node.inputs) if model.graph[name].op == "store_kv"), None)
    if at is None or node.layer is None:
        return
    own = model.graph[node.inputs[at]]
    word = own.name.partition("-")[0]
    layers = [each for each in model.graph if each.op == "store_kv" and each.name.partition("-")[0] == word]
    before = [each for each in layers if each.layer is not None and each.layer < node.layer]
    for each in before[: -MOST_PLACES - 1 : -1]:
        inputs = (*node.inputs[:at], each.name, *node.inputs[at + 1 :])
        says = f"the {what} of layer {each.layer} were used; those of layer {node.layer} are right"
        changed = model.replace(graph=model.graph.replaced(node.name, inputs=inputs))
        yield Mistake(f"{what}-of-another-layer", says), changed
