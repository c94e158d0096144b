"""Numbers that a wrong value gives away: a scale, a term in a sum, positions, solved from what goes in and comes out (10.5).

Where no known mistake explains a value, the runtime may have the right formula with another number in it. `solve` asks
the solvers of the operation for that number, and names what it equals: 127/128, another token's scale, the share of a
matrix's weights that are not 0. A solver says nothing unless the number explains what is shown.

    activation scales      outputs of a projection are integers times the weight scale over the activation's
    columns left out       the scale of a token is 127 over another of its elements
    sum offset             what a projection adds to each token, as a share of the sum of its codes
    soft-max sums          a constant term in the sum of each row; a factor of the scores
    angles                 positions, base and width of a rotation
    weights of a sum       of both terms of a residual connection
    epsilon                of a norm, by the factors of its rows
    a factor               of everything else
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.errors import quote
from i2s_spec.golden.diagnosis.mistakes import share_of_nonzeros
from i2s_spec.golden.diagnosis.patterns import listed
from i2s_spec.golden.result import Diagnosis
from i2s_spec.model.reference import bitlinear, matmul
from i2s_spec.model.reference.attention import visible
from i2s_spec.model.weights import Ternary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.golden.shown import Pair
    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph import Node
    from i2s_spec.model.numerics import ActivationQuantizer

    Array = NDArray[Any]
    Doubles = NDArray[np.float64]

#: A printed digit may be rounded the other way.
ROUNDED: Final = 1.05
#: How far off float32 arithmetic may be, as a share of a number, or of the largest beside it.
FLOAT32: Final = 4e-6
#: How near, relative, a factor brings one scale to another that was used in its place.
SAME_SCALE: Final = 1e-5
#: How near, relative, a solved number is to a known quantity that it equals.
SAME_NUMBER: Final = 2e-3


@dataclass(frozen=True)
class Context:
    """A wrong value, and everything that its numbers may be solved from.

    :param node: the operation
    :param got: what a dump shows of the value
    :param want: the same part of what is right
    :param whole: all of what is right
    :param inputs: what goes into the operation, whole; None for what is not known
    :param resolution: how far a shown number may be from the real one
    :param places: of a part, which indices of the whole value are shown, for each dimension
    """

    model: Model
    node: Node
    got: Array
    want: Array
    whole: Array
    inputs: tuple[Array | None, ...]
    resolution: float = 0.0
    places: tuple[Array, ...] | None = None

    def at(self, axis: int) -> Array:
        """Return the indices of the whole value that are shown along an axis."""
        return np.arange(self.whole.shape[axis]) if self.places is None else self.places[axis]

    def room(self, value: Array) -> Doubles:
        """How far off a shown number may be from a computed one."""
        wide = np.abs(np.asarray(value, dtype=np.float64))
        largest = float(wide.max()) if wide.size else 0.0
        found: Doubles = ROUNDED * self.resolution + FLOAT32 * (wide + largest)
        return found

    def agrees(self, value: Array) -> bool:
        """Whether computed numbers are those that are shown."""
        return bool((np.abs(self.got.astype(np.float64) - value) <= self.room(value)).all())


class Solved(NamedTuple):
    """A number that explains a value.

    :param name: short and stable, of the quantity
    :param says: a sentence
    :param value: the number
    """

    name: str
    says: str
    value: float

    def diagnosis(self) -> Diagnosis:
        """Return the number as a diagnosis."""
        return Diagnosis(self.name, self.says, "by pattern")


Solver = Callable[[Context], Iterator[Solved]]


def solved(model: Model, node: Node, pair: Pair, value: Callable[[str], Array | None]) -> list[Diagnosis]:
    """Return the numbers that explain a value of the model's graph, as diagnoses.

    :param pair: what is shown and what is wanted
    :param value: gives a whole value by its name, or None
    """
    inputs = tuple(value(name) for name in node.inputs)
    context = Context(model, node, pair.got, pair.want, pair.whole, inputs, pair.resolution, pair.places)
    return [each.diagnosis() for each in solve(context)]


def solve(context: Context) -> list[Solved]:
    """Return the numbers that explain a value, the most telling first; [] where none does."""
    if context.got.shape != context.want.shape or not context.got.size or context.agrees(context.want):
        return []
    if not np.isfinite(context.got).all() or not np.isfinite(context.want).all():
        return []
    found: list[Solved] = []
    with np.errstate(all="ignore"):
        for solver in (*SOLVERS.get(context.node.op, ()), factor):
            found += solver(context)
            if found:
                return found
    return found


# --- known quantities ------------------------------------------------------------------------------------------------


def _words(value: float) -> str:
    """Return a solved number, with the fraction or the short decimal whose reciprocal it is."""
    fractions = {
        "128/127": 128 / 127,
        "127/128": 127 / 128,
        "127.5/127": 127.5 / 127,
        "7/127": 7 / 127,
        "sqrt(2)": sqrt(2),
    }
    for words, each in fractions.items():
        if abs(value - each) <= 2e-4 * each:
            return f"{value:.5g} ({words})"
    short = round(1 / value, 2) if value else 0.0
    if short and abs(1 / value - short) <= 1e-4 * abs(short) and abs(value - round(value, 2)) > 1e-4:
        return f"{value:.5g} (1/{short:g})"
    return f"{value:.5g}"


def _equals(context: Context, value: float) -> tuple[str, str]:
    """Return the known quantity of a model that a factor is, as a name and in words; both empty for none."""
    weight = context.node.weight if context.node.op == "linear" else ""
    sizes = context.model.hyperparameters
    known = {
        "the root of the head's width": sqrt(sizes.head_dim), "the head's width": float(sizes.head_dim),
        "the root of the embedding's width": sqrt(sizes.embd),
    }  # fmt: skip
    for words, each in known.items():
        for name, number in ((words, each), (f"1 over {words}", 1 / each)):
            if abs(value - number) <= SAME_NUMBER * number:
                return "factor", name
    matrix = context.model.weights.matrix(weight) if weight else None
    if not isinstance(matrix, Ternary):
        return "", ""
    if abs(value - (share := share_of_nonzeros(matrix))) <= SAME_NUMBER * share:
        own = f"the share of weights of {quote(weight, bare=True)} that are not 0: scales requantised by absmean"
        return "scales-requantised", own
    for other in scales_of_others(context.model, weight, value):
        return "scale-of-another", f"the scale of {quote(other, bare=True)} in the place of its own"
    return "", ""


def scales_of_others(model: Model, weight: str, factor: float) -> Iterator[str]:
    """Yield the tensors of other projections whose scale is that of a projection, times a factor."""
    matrix = model.weights.matrix(weight)
    for node in model.graph:
        other = model.weights.matrix(node.weight) if node.op == "linear" and node.weight != weight else None
        if isinstance(matrix, Ternary) and isinstance(other, Ternary):
            wanted = float(matrix.scale) * factor
            if abs(float(other.scale) - wanted) <= SAME_SCALE * abs(wanted):
                yield node.weight


# --- projections -----------------------------------------------------------------------------------------------------

#: Smallest and largest activation scale that is looked for, as a share of the right one.
RANGE: Final = (0.2, 5.0)
#: Numbers of a projection that are enough, their largest magnitude in steps, and the fewest.
ENOUGH, MOST_STEPS, FEWEST = 256, 2000.0, 20
#: Share of numbers that agree in every step with codes of another scale.
AGREEING: Final = 0.5
#: Tokens from which a number is solved: more take time, and say the same.
MOST_TOKENS: Final = 32
#: Elements of a token that are tried as its largest, the next largest first.
LARGEST_TRIED: Final = 512


class _Projection(NamedTuple):
    """What a projection's solvers share.

    :param x: what enters it, float32 [T, K]; `rows` are the tokens that are shown, `columns` the outputs
    :param scale: of the shown tokens, float64 [R]
    :param units: the shown outputs in steps of a code, float64 [R, C]
    :param noise: how far off those may be, float64 [R]
    :param acc: the right integers
    """

    matrix: Ternary
    rule: ActivationQuantizer
    x: Array
    rows: Array
    columns: Array
    scale: Doubles
    sums: Array
    units: Doubles
    noise: Doubles
    acc: Array

    @property
    def worth(self) -> float:
        return float(self.matrix.scale)


def _projection(c: Context) -> _Projection | None:
    matrix = c.model.weights.matrix(c.node.weight)
    rule = c.model.numerics.quantizer_of(c.model.weights.tensor_type(c.node.weight))
    x = c.inputs[0] if c.inputs else None
    if not isinstance(matrix, Ternary) or rule.groups != "token" or x is None or x.ndim != 2 or not matrix.scale:
        return None
    rows, columns = c.at(0), c.at(1)
    quantized = bitlinear.quantize(np.ascontiguousarray(x, dtype=np.float32), rule)
    scale = quantized.scale.astype(np.float64)[rows]
    if not (np.isfinite(scale) & (scale != 0)).all():
        return None
    acc = matmul.accumulate(matrix.payload, matrix.rows, matrix.columns, np.ascontiguousarray(quantized.codes[rows]))
    units = c.got.astype(np.float64) / float(matrix.scale) * scale[:, None]
    noise = ROUNDED * c.resolution * scale / abs(float(matrix.scale))
    return _Projection(matrix, rule, x, rows, columns, scale, quantized.sums[rows], units, noise, acc[:, columns])


def activation_scales(c: Context) -> Iterator[Solved]:
    """Yield another scale of the activations of all tokens, or of some: outputs are whole numbers times ws / s."""
    p = _projection(c)
    if p is None:
        return
    if next(factor(c), None) is not None:
        return
    if (offset := _offset(c, p)) is not None:
        yield offset
        return
    right = (np.abs(c.got - c.want) <= c.room(c.want)).all(axis=1)
    share = _lattice(p.units[~right], p.noise[~right])
    if share is not None and abs(share - 1) > 1e-4 and not right.any() and _gives(c, p, share):
        yield Solved(
            "activation-scale",
            f"activation scales are {_words(share)} times 127 / amax in every token: a code of 127 stands for "
            f"{1 / share:.4g} of the largest",
            share,
        )
        return
    if (of_tokens := _scales_of_tokens(c, p, right)) is not None:
        yield of_tokens
    if share != 1 or of_tokens is not None:
        return
    delta = np.rint(p.units) - p.acc
    wrong = (np.abs(delta) > 0).any(axis=1)
    if wrong.any() and float(np.sqrt(np.mean(delta[wrong] ** 2))) <= sqrt(p.matrix.columns):
        step = float(np.sqrt(np.mean(delta[wrong] ** 2)))
        yield Solved(
            "codes-rounded",
            "the outputs are whole steps of the right scales, off by "
            f"{step:.2g} steps: the activation codes are rounded in another way",
            step,
        )


def _gives(c: Context, p: _Projection, share: float) -> bool:
    """Whether codes with a share of the right scales give what is shown, but for a few at a rounding boundary.

    Codes of any scale come near; that many numbers agree in every step is no chance.
    """
    scale = share * p.scale
    step = np.abs(p.worth / scale)[:, None]
    room = np.minimum(c.room(c.want) + 2e-5 * np.abs(c.want), 0.3 * step)
    for least in (-128, -127):  # a larger scale cuts codes off
        rule = replace(p.rule, least=least)
        codes = np.concatenate([_codes(p.x[row], s[None], rule) for row, s in zip(p.rows, scale, strict=True)])
        acc = matmul.accumulate(p.matrix.payload, p.matrix.rows, p.matrix.columns, codes)[:, p.columns]
        if float((np.abs(acc * (p.worth / scale)[:, None] - c.got) <= room).mean()) >= AGREEING:
            return True
    return False


def _offset(c: Context, p: _Projection) -> Solved | None:
    """Return the constant that is added to all outputs of a token, as a share of the sum of its codes."""
    delta = p.units - p.acc
    if len(p.columns) < 3 or not np.abs(p.sums).any():
        return None
    mean = np.median(delta, axis=1)
    sums = p.sums.astype(np.float64)
    share = float((mean * sums).sum() / (sums * sums).sum())
    room = 0.1 + 2 * p.noise[:, None] + 2e-6 * np.abs(p.units)
    if abs(share) < 1e-3 or (np.abs(delta - share * sums[:, None]) > room).any():
        return None
    return Solved(
        "sum-offset",
        f"{_words(share)} times the sum of the activation codes is in every output; none of it has to be",
        share,
    )


def _lattice(units: Doubles, noise: Doubles) -> float | None:
    """Return the number k for which all units times k are whole, if there is one."""
    fine = np.broadcast_to(noise[:, None], units.shape) < 0.2
    values, rough = units[fine], np.broadcast_to(noise[:, None], units.shape)[fine]
    order = np.argsort(np.abs(np.abs(values) - MOST_STEPS / 4), kind="stable")[:ENOUGH]
    values, rough = values[order], rough[order]
    keep = (np.abs(values) > 1) & (np.abs(values) <= MOST_STEPS)
    values, rough = values[keep], rough[keep]
    if len(values) < FEWEST:
        return None

    def far(k: Doubles) -> Doubles:
        scaled = k[:, None] * values
        found: Doubles = np.abs(scaled - np.rint(scaled)).mean(axis=1)
        return found

    def refined(k: float) -> float:
        for _ in range(4):
            k = float((values * np.rint(values * k)).sum() / (values * values).sum())
        return k

    def fits(k: float) -> bool:  # of random numbers the mean is 0.25, of so few of them seldom below the second number
        noise = 0.02 + 0.75 * float(rough.mean()) * k
        return bool(far(np.array([k]))[0] <= min(noise, 0.25 - 5 * 0.144 / sqrt(len(values))))

    if fits(1.0):
        return 1.0
    low, high = RANGE
    count = int(8 * np.abs(values).max() * log(high / low)) + 1
    grid = np.geomspace(low, high, count)
    scores = np.concatenate([far(part) for part in np.array_split(grid, max(1, count * len(values) >> 20))])
    best = [refined(float(grid[at])) for at in np.argsort(scores, kind="stable")[:16]]
    good = [k for k in best if fits(k)]
    return min(good) if good else None  # multiples of it are whole, too


def _scales_of_tokens(c: Context, p: _Projection, right: NDArray[np.bool_]) -> Solved | None:
    """Return the scales of tokens that have their own: another token's, or 127 over another element than the largest."""
    left_out: dict[int, Array] = {}
    of_others: dict[int, set[str]] = {}
    free: dict[int, float] = {}
    for at in np.flatnonzero(~right)[:MOST_TOKENS]:
        token = int(p.rows[at])
        found = _tried(c, p, int(at), token)
        if found is None and len(p.columns) >= 2 * FEWEST:
            k = _lattice(p.units[at : at + 1], p.noise[at : at + 1])
            if k is None or abs(k - 1) < 1e-4:
                return None
            free[token] = k
        elif found is None:
            return None
        elif isinstance(found, set):
            of_others[token] = found
        else:
            left_out[token] = found
    if left_out and not of_others and not free:
        columns = np.unique(np.concatenate(list(left_out.values())))
        counted_in = np.abs(p.x[p.rows[right]]).argmax(axis=1)
        count, words = _end(columns, counted_in, p.x.shape[1])
        return Solved(
            "columns-not-in-maximum",
            f"the activation scale of {listed(list(left_out), 'token')} is 127 over another element than the largest: "
            f"{listed(columns, 'column')} of {p.x.shape[1]:,} left out of the maximum{words}",
            count,
        )
    if of_others and not left_out and not free:
        common = set.intersection(*of_others.values())
        if common:
            return Solved("scale-of-another-token", f"{listed(list(of_others), 'token')}: {min(common)}", 1.0)
    elif free and not left_out and not of_others:
        each = ", ".join(f"{value:.4g}" for value in list(free.values())[:8])
        return Solved(
            "activation-scale", f"the activation scales of {listed(list(free), 'token')} are {each} times 127 / amax",
            next(iter(free.values())),
        )  # fmt: skip
    return None


def _end(columns: Array, counted_in: Array, width: int) -> tuple[float, str]:
    """Return how many columns are left out, and words, if they can be the end of a row: most likely whole 64 are read.

    :param columns: some that are left out
    :param counted_in: some that are not
    """
    most, least = int(columns.min()), int(counted_in.max(initial=-1)) + 1
    if least > most:
        return float(len(columns)), ""
    unit = next(unit for unit in (64, 32, 16, 1) if most // unit * unit >= least)
    read = most // unit * unit
    return float(width - read), f"; the first {read:,} may be what is read ({least:,} to {most:,} are possible)"


def _tried(c: Context, p: _Projection, at: int, token: int) -> Array | set[str] | None:
    """Return the other scale that gives a token's outputs: columns left out of its maximum, or whose scale it is."""
    x = np.abs(p.x[token].astype(np.float64))
    order = np.argsort(-x, kind="stable")
    order = order[(x[order] < x.max()) & (x[order] > 0)][:LARGEST_TRIED]
    amax = np.abs(p.x).max(axis=1).astype(np.float64)
    others: dict[str, float] = {}
    if token:
        others["the activation scale is that of the token before"] = amax[token - 1]
        others["the activation scale is that of the first token"] = amax[0]
    if token + 1 < len(amax):
        others["the activation scale is that of the token after"] = amax[token + 1]
        others["the activation scale is that of the last token"] = amax[-1]
    others["one activation scale, of the largest element of all tokens, is used"] = float(amax.max())
    tried = np.array([*others.values(), *x[order]])
    tried = np.where(tried == amax[token], np.nan, tried)
    codes = _codes(p.x[token], 127 / tried, p.rule)
    acc = matmul.accumulate(p.matrix.payload, p.matrix.rows, p.matrix.columns, codes)[:, p.columns]
    y = acc * (p.worth * tried / 127)[:, None]
    off = np.abs(y - c.got[at]) > c.room(c.want[at])
    fits = np.flatnonzero(~off.any(axis=1) & np.isfinite(tried))
    if not len(fits):
        return None
    names = {list(others)[each] for each in fits if each < len(others)}
    return names or np.flatnonzero(x > tried[int(fits[0])])


def _codes(x: Array, scales: Doubles, rule: ActivationQuantizer) -> NDArray[np.int8]:
    """Return the codes of one token with each of some scales, int8 [scales, K]."""
    with np.errstate(all="ignore"):
        products = np.nan_to_num(x.astype(np.float64) * scales[:, None], posinf=0, neginf=0)
        rounded = (
            np.rint(products) if rule.rounding == "even" else np.copysign(np.floor(np.abs(products) + 0.5), products)
        )
        return np.clip(rounded, rule.least, 127).astype(np.int8)


# --- attention -------------------------------------------------------------------------------------------------------


def soft_max_sums(c: Context) -> Iterator[Solved]:
    """Yield the constant term in the sum of rows that do not add up to 1, or the factor of rows of scores."""
    if c.whole.ndim != 3 or not c.inputs or c.inputs[0] is None:
        return
    got, want = c.got.astype(np.float64), c.want.astype(np.float64)
    heads, tokens = c.at(0), c.at(1)
    least = max(1e-3, 40 * c.resolution)
    seen = want > least
    ratio = (got * want * seen).sum(axis=-1) / (want * want * seen).sum(axis=-1)
    fits = (np.abs(got - ratio[..., None] * want) <= c.room(want)) | ~seen
    usable = seen.any(axis=-1)
    if not usable.any():
        return
    peak = c.whole[np.ix_(heads, tokens)].max(axis=-1).astype(np.float64)
    if fits.all() and (np.abs(ratio[usable] - 1) > 1e-3).any():
        strongest = np.where(seen, want, 0).max(axis=-1)
        term = ((1 / ratio - 1) / peak)[usable]
        error = ((ROUNDED * c.resolution + 1e-5) / strongest / ratio**2 / peak)[usable]
        found = _constant(term, error)
        if found is not None and abs(found) > 1e-3:
            yield Solved(
                "soft-max-term",
                f"the sum of each soft-max row has a term of {found:.4g} more, beside e^0 = 1 for the largest score", found,
            )  # fmt: skip
            return
        scale = np.float64(np.float32(c.node.settings["scale"]))
        scores = c.inputs[0].astype(np.float64) * scale
        settings = c.node.settings
        seen_by = visible(scores.shape[1], scores.shape[2], 0, settings["causal"], settings["window"])
        scores = np.where(seen_by, scores, -np.inf)
        largest = scores.max(axis=-1)[np.ix_(heads, tokens)]
        found = _constant(term * np.exp(largest[usable]), error * np.exp(largest[usable]))
        if found is not None and found > 0:
            yield Solved(
                "soft-max-sink", f"the sum of each soft-max row has a term e^{log(found):.4g} more: a score that no key has",
                log(found),
            )  # fmt: skip
        return
    both = seen & (got > least) & (want < 1)
    logs, right = np.log(np.where(both, got, 1)), np.log(np.where(both, want, 1))
    top = np.where(both, want, 0).argmax(axis=-1)[..., None]
    logs, right = (np.where(both, each - np.take_along_axis(each, top, axis=-1), 0) for each in (logs, right))
    if np.count_nonzero(right) < 4:
        return
    power = float((logs * right).sum() / (right * right).sum())
    room = 3 * (ROUNDED * c.resolution + 1e-5) / np.where(both, got, 1) + 2e-3 * np.abs(right)
    if abs(power - 1) > 5e-3 and (np.abs(logs - power * right) <= room).all():
        _, known = _equals(c, power)
        yield Solved(
            "scores-factor", f"the scores were multiplied by {_words(power)} more{f': {known}' if known else ''}", power
        )


def _constant(values: Doubles, errors: Doubles) -> float | None:
    """Return the one number that all values are, within their errors."""
    weights = 1 / np.maximum(errors, 1e-12) ** 2
    mean = float((values * weights).sum() / weights.sum())
    fine = np.abs(values - mean) <= 3 * errors + 5e-3 * abs(mean)
    return mean if np.isfinite(mean) and fine.all() else None


def angles(c: Context) -> Iterator[Solved]:
    """Yield the angle of each pair of each token, and from it the positions, or the base."""
    found = _angles(c)
    if found is None:
        return
    tokens, pairs, seen, sure = found
    dims, base = c.node.settings["dims"], float(c.node.settings["base"])
    scale = float(c.node.settings["scale"])
    frequencies = base ** (-2.0 * pairs / dims)
    where = tokens.astype(np.float64) * scale
    solved = np.array([_position(seen[t], sure[t], frequencies, len(c.whole), where[t]) for t in range(len(tokens))])
    fine = np.isfinite(solved)
    if fine.sum() >= min(3, len(tokens)) and fine.all():
        yield from _positions(tokens, where, solved)
        return
    yield from _base(c, tokens, where, pairs, seen, sure, dims)


def _angles(c: Context) -> tuple[Array, Array, Doubles, Doubles] | None:
    """Return tokens, pairs, the angle of each, and how sure it is (radians), from what is shown of both elements of
    pairs."""
    x = c.inputs[0] if c.inputs else None
    if x is None or c.whole.ndim != 3 or c.node.weights:
        return None
    heads_in = x.reshape(len(x), c.node.settings["heads"], -1).astype(np.float64)
    if heads_in.shape != c.whole.shape:
        return None
    rows, heads, columns = c.at(0)[:MOST_TOKENS], c.at(1), c.at(2)
    count = c.node.settings["dims"] // 2
    neox = c.node.settings["pairs"] == "neox"
    pair = columns % count if neox else columns // 2
    second = columns >= count if neox else columns % 2 == 1
    inside = columns < 2 * count
    numbers = np.unique(pair[inside])
    seen = np.full((len(rows), len(numbers)), np.nan)
    sure = np.full(seen.shape, np.inf)
    got = c.got.astype(np.float64)
    for r, row in enumerate(rows):
        for i, number in enumerate(numbers):
            a = heads_in[row, heads, number if neox else 2 * number]
            b = heads_in[row, heads, number + count if neox else 2 * number + 1]
            system, given = [], []
            for column in np.flatnonzero(inside & (pair == number)):
                system.append(np.stack([b, a] if second[column] else [a, -b], axis=1))
                given.append(got[r, :, column])
            matrix, values = np.concatenate(system), np.concatenate(given)
            if len(values) < 2:
                continue
            (cos, sin), _, rank, strength = np.linalg.lstsq(matrix, values, rcond=None)
            size = float(np.hypot(cos, sin))
            if rank < 2:
                continue
            room = (ROUNDED * c.resolution + 1e-5 * float(np.abs(matrix).max())) / float(strength[-1])
            if abs(size - 1) > 5 * room + 1e-3:
                continue
            seen[r, i], sure[r, i] = float(np.arctan2(sin, cos)), room + 1e-6
    if np.isnan(seen).mean() > 0.5:
        return None
    return rows, numbers, seen, sure


def _position(seen: Doubles, sure: Doubles, frequencies: Doubles, count: int, right: float) -> float:
    """Return the position with which all angles of a token fit; NaN for none. Ties go to the nearest to the right
    one.
    """
    known = np.isfinite(seen) & (sure < 0.3)
    if not known.any():
        return np.nan
    f, angle, room = frequencies[known], seen[known], 4 * sure[known] + 1e-3
    grid = np.arange(-2.0 * count - 8, 4.0 * count + 8, 0.125)

    def off(p: Doubles) -> Doubles:
        turned = np.angle(np.exp(1j * (p[:, None] * f - angle)))
        return np.asarray(np.abs(turned))

    rough = off(grid)
    order = np.argsort(rough.max(axis=1) + 1e-9 * np.abs(grid - right), kind="stable")[:8]
    best, least = np.nan, np.inf
    for start in grid[order]:
        p = float(start)
        for _ in range(6):  # least squares, weighted
            turned = np.angle(np.exp(1j * (angle - p * f)))
            weight = 1 / room**2
            p += float((weight * f * turned).sum() / (weight * f * f).sum())
        final = np.abs(np.angle(np.exp(1j * (angle - p * f))))
        if (final <= room).all() and abs(p - right) < least:
            best, least = p, abs(p - right)
    return best


def _positions(tokens: Array, where: Doubles, solved: Doubles) -> Iterator[Solved]:
    if (np.abs(solved - where) < 5e-3).all():
        return
    shift = solved - where
    if np.abs(shift - np.median(shift)).max() < 1e-2:
        by = float(np.median(shift))
        yield Solved("positions", f"tokens are rotated by their position {'+' if by > 0 else '-'} {abs(by):.4g}", by)
        return
    late = tokens > 0
    if late.any() and np.ptp(shift[late]) < 1e-2 and np.abs(shift[~late]).max(initial=0) < 1e-2:
        by = float(np.median(shift[late]))
        words = f"tokens but the first are rotated by their position {'+' if by > 0 else '-'} {abs(by):.4g}"
        yield Solved("positions", words, by)
        return
    factor_ = float((solved * where).sum() / (where * where).sum()) if where.any() else 1.0
    if np.abs(solved - factor_ * where).max() <= 1e-2 * max(1.0, float(np.abs(solved).max())):
        yield Solved("positions", f"positions are {_words(factor_)} times what they have to be", factor_)
        return
    shown = ", ".join(f"{each:.4g}" for each in solved[:8])
    yield Solved("positions", f"{listed(tokens, 'token')} are rotated by the positions {shown}", float(solved[-1]))


def _base(
    c: Context, tokens: Array, where: Doubles, pairs: Array, seen: Doubles, sure: Doubles, dims: int
) -> Iterator[Solved]:
    """Yield another base, or another width, from the angles of tokens whose fastest pair has not turned round."""
    rows = np.flatnonzero((where > 0) & (where < np.pi))
    if not len(rows):
        return
    logs, places, weight = [], [], []
    for r in rows:
        for i, number in enumerate(pairs):
            angle = seen[r, i] / where[r]
            if number > 0 and np.isfinite(angle) and 0 < angle <= 1.5 and sure[r, i] < 0.2 * seen[r, i]:
                logs.append(log(angle))
                places.append(float(number))
                weight.append(seen[r, i] / sure[r, i])
    if len(logs) < 2:
        return
    y, n, w = np.array(logs), np.array(places), np.array(weight)
    slope = float((w * w * n * y).sum() / (w * w * n * n).sum())
    if (np.abs(y - slope * n) > 4 / w + 2e-3).any() or slope >= 0:
        return
    base = float(np.exp(-slope * dims / 2))
    own = float(c.node.settings["base"])
    if abs(log(base / own)) < 5e-3 * log(own):
        return
    width = dims * log(own) / log(base)
    yield Solved(
        "rope-base",
        f"the rotation has the base {base:.4g}; the file says {own:g} (or frequencies as of a width of {width:.4g})",
        base,
    )


# --- sums, norms, factors --------------------------------------------------------------------------------------------


def weights_of_sum(c: Context) -> Iterator[Solved]:
    """Yield the factors of both terms of a sum."""
    if len(c.inputs) != 2 or any(each is None or each.shape != c.whole.shape for each in c.inputs):
        return
    terms = [np.asarray(each, dtype=np.float64) for each in c.inputs]
    parts = [each if c.places is None else each[np.ix_(*c.places)] for each in terms]
    a, b = (each.ravel() for each in parts)
    got = c.got.astype(np.float64).ravel()
    matrix = np.stack([a, b], axis=1)
    (of_a, of_b), _, rank, _ = np.linalg.lstsq(matrix, got, rcond=None)
    room = c.room(got.reshape(c.got.shape)).ravel() + FLOAT32 * (np.abs(a) + np.abs(b))
    if rank < 2 or len(got) < 6 or (np.abs(got - matrix @ (of_a, of_b)) > room).any():
        return
    names = [quote(name, bare=True) for name in c.node.inputs]
    near = [float(each) for each in (of_a, of_b)]
    if abs(near[0] - 1) < 1e-3 or abs(near[1] - 1) < 1e-3:
        at = 1 if abs(near[0] - 1) < 1e-3 else 0
        yield Solved("residual-weight", f"{names[at]} was added {_words(near[at])} times; once is right", near[at])
        return
    yield Solved(
        "residual-weight", f"the sum is {near[0]:.6g} times {names[0]} and {near[1]:.6g} times {names[1]}", near[0]
    )


#: Rows must differ by so much in their mean squares: where they are alike, a scale does what another epsilon does.
DIFFERENT: Final = 1.05


def epsilons_of_rows(squares: Doubles, got: Doubles, want: Doubles, own: float) -> Doubles:
    """Return the epsilon of a norm that each row tells.

    A norm divides by the root of m + epsilon, m being the mean square of what enters. With another epsilon each row is
    off by a factor of its own; one factor for all rows, whatever their m, is a scale.

    :param squares: the mean squares of what enters
    :param got: [..., n]
    :param want: what it should be, with the epsilon `own`
    :returns: in the shape of `squares`
    """
    factors = (got * want).sum(axis=-1) / (want * want).sum(axis=-1)
    return np.asarray((squares + own) / factors**2 - squares)


def fitted_epsilons(entering: Array, got: Array, want: Array, own: float) -> Iterator[float]:
    """Yield the values of epsilon that would explain a norm, the roundest first; none where rows are too much alike.

    :param entering: what enters the norm, [..., n]
    :param got: what a candidate has, [..., n]
    :param want: what it should have
    :param own: the epsilon of the file
    """
    if entering.shape != got.shape or got.ndim < 2:
        return
    wide, seen, right = (each.astype(np.float64) for each in (entering, got, want))
    squares = (wide * wide).mean(axis=-1)
    with np.errstate(all="ignore"):
        fitted = epsilons_of_rows(squares, seen, right, own).ravel()
    squares = squares.ravel()
    usable = np.isfinite(fitted) & (squares > 0)
    if usable.sum() < 2 or squares[usable].max() < DIFFERENT * squares[usable].min():
        return
    row = int(np.argmin(np.where(usable, squares, np.inf)))  # where epsilon weighs most
    if fitted[row] > 0:
        yield from dict.fromkeys(float(f"{fitted[row]:.{digits}e}") for digits in (0, 1, 2))


def epsilon(c: Context) -> Iterator[Solved]:
    """Yield the epsilon by which rows of a norm are off, each by a factor of its own."""
    x = c.inputs[0] if c.inputs else None
    if x is None or x.shape != c.whole.shape or x.ndim < 2:
        return
    squares = np.square(x.astype(np.float64)).mean(axis=-1)
    if c.places is not None:
        squares = squares[np.ix_(*c.places[:-1])]
    got, want = c.got.astype(np.float64), c.want.astype(np.float64)
    power = (want * want).sum(axis=-1)
    factors = (got * want).sum(axis=-1) / power
    own = float(c.node.settings["eps"])
    solved = epsilons_of_rows(squares, got, want, own).ravel()
    slack = (
        2 * (squares + own) * (ROUNDED * c.resolution + FLOAT32 * np.abs(want).max(axis=-1)) / np.sqrt(power)
    ).ravel()
    if len(solved) < 2 or not np.isfinite(solved).all() or not c.agrees(factors[..., None] * want):
        return
    if squares.max() < DIFFERENT * squares.min():
        return
    found = _constant(solved, slack)
    if found is not None and found > 0 and abs(found - own) > 3 * float(slack.min()):
        yield Solved("epsilon", f"the norm has an epsilon of {found:.3g}; the file says {own:.3g}", found)


def factor(c: Context) -> Iterator[Solved]:
    """Yield the one factor of the whole value."""
    got, want = c.got.astype(np.float64), c.want.astype(np.float64)
    square = float((want * want).sum())
    if not square or got.size < 6:
        return
    value = float((got * want).sum()) / square
    if not value or abs(value - 1) < 1e-4 or abs(value + 1) < 1e-4 or not c.agrees(value * want):
        return
    name, known = _equals(c, value)
    yield Solved(name or "factor", f"everything is multiplied by {_words(value)}: {known or 'a scale is wrong'}", value)


#: By the operation of the graph.
SOLVERS: Final[Mapping[str, tuple[Solver, ...]]] = {
    "linear": (activation_scales,),
    "soft_max": (soft_max_sums,),
    "rope": (angles,),
    "add": (weights_of_sum,),
    "norm": (epsilon,),
}
