"""The free-running mode: the record's values beside the candidate's as they stand, which drift apart (clause 10.4).

What lies before the first quantizer must agree; the first layer, but for what a flipped code may do; later ones and the
logits, within the distance that was measured between correct runtimes. What is found here is plausible or not, seldom
proven. `drift` gives the distances of layers and of the result, whatever the mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.errors import counted
from i2s_spec.golden import op_replay
from i2s_spec.golden.candidate import WHOLE, Candidate, Record
from i2s_spec.golden.diagnosis.diagnose import Diagnoser, by_running, limit_of, nearest, with_solved
from i2s_spec.golden.diagnosis.patterns import OF_CORNERS, listed, recognized
from i2s_spec.golden.diagnosis.solving import solved
from i2s_spec.golden.fitting import Steps, WantedValues
from i2s_spec.golden.metrics import beyond, length, logit_measures, measure, relative
from i2s_spec.golden.result import Agreement, Comparison, Diagnosis, TapResult, Whole
from i2s_spec.golden.shown import ROUNDED, SUMMED, Pair, largest_of, pair_of
from i2s_spec.golden.tolerance import ALLOWANCES, EMBEDDING_COSINE, FAIL, PLAUSIBLE
from i2s_spec.model.graph import INTEGER_TAPS, base

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.forward import Model

    Array = NDArray[Any]

#: Steps of a code by which outputs of a projection may differ: so many codes of a token flip at a rounding boundary.
MOST_STEPS: Final = 3

#: How far from a whole number of steps a difference may be, in steps, besides what printing takes off.
OFF_STEP: Final = 0.06

#: How far off a tensor may be whose inputs agree, as a share of its largest, where its operation rounds as no profile
#: may know: keys, queries and soft-max rows in F16, float products in another type, sums of float32.
ROUNDS: Final = {
    "scores": 2e-3, "soft_max": 2e-3, "weighted_values": 2e-3, "head": 1e-3, "linear": 1e-3, "norm": 2e-5,
    "norm_weight": 2e-5, "rope": 2e-5, "rotate": 2e-5, "restore": 2e-5, "pool": 2e-5, "expert_shares": 2e-3,
    "expert_weights": 2e-3, "expert_linear": 1e-3, "sum_experts": 2e-5, "convolve": 2e-5, "sigmoid": 2e-5,
    "softplus": 2e-5, "unit": 2e-5, "delta_rule": 1e-4,
}  # fmt: skip

#: The same of products with a matrix of bfloat16, to which a runtime may round their input.
OF_BFLOAT16: Final = 1e-2

#: The same in bfloat16, of which a share is lost at each rounding.
ROUNDS_BFLOAT16: Final = {"embed": 1e-2, "norm": 1e-2, "norm_weight": 1e-2}
ROUNDS_BFLOAT16_ELSE: Final = 5e-2

#: How far off a tensor may be behind one that differs, in the layer of that one, as a share of the largest that is shown:
#: where a few codes flipped, and where something was rounded in another way, so that every code may flip that is near a
#: rounding boundary (0.036 was measured of right runtimes). Later layers may be as far apart as whole models.
BEHIND_FLIPS: Final = 0.03
BEHIND_ROUNDING: Final = 0.06


#: Operations that hide a difference where they are not shown: codes flip in them, or they round.
HIDES: Final = frozenset({"linear", "scores", "soft_max", "weighted_values", "head"})

#: Places besides the numbers of layers.
BEFORE_LAYERS: Final = -1
AFTER_LAYERS: Final = 1 << 31


def run(
    result: Comparison, model: Model | None, record: Record, theirs: Candidate, diagnose: bool,
    progress: Callable[[int, int], object] | None,
) -> None:  # fmt: skip
    """Compare every stored tap; the first that is wrong is explained, with a model by running it with each mistake."""
    reference = WantedValues(record, theirs, model)
    judge = _Judge(reference, theirs)
    diagnoser = Diagnoser(model) if model is not None else None
    for done, name in enumerate(record.shapes):
        if progress is not None:
            progress(done + 1, len(record.shapes))
        judge.enter(name)
        if name not in theirs:
            continue
        tap = TapResult(name, "skipped", record.layer(name), record.op(name))
        want = reference.value(name)
        pair = pair_of(theirs, name, want)
        if pair is None:
            tap.notes = ("the record has its digest only" if want is None else "nothing of it is shown",)
        else:
            judge.assess(tap, pair)
            if tap.status == "wrong" and result.first is not None:
                tap.status = "behind"
            elif tap.status == "wrong":
                result.first = tap
                if diagnose:
                    tap.diagnoses = tuple(_explained(record, theirs, diagnoser, tap, pair))
                    if model is not None and not any(each.fits == "exactly" for each in tap.diagnoses):
                        tap.diagnoses = tuple(_with_numbers(model, reference, tap, pair))
                    unknown = all(each.fits == "by pattern" for each in tap.diagnoses)
                    if unknown and diagnoser is not None and theirs.dump.kind != "text":
                        until = [*takewhile(name.__ne__, record.shapes), name]
                        op_replay.explain_by_replay(tap, diagnoser, record, theirs, until)
            elif result.first is None and diagnose and name in WHOLE and _far(tap) and not pair.resolution:
                found = _explained(record, theirs, diagnoser, tap, pair)
                of_this = op_replay.explaining(tap, found)
                if of_this:  # correct runtimes are seldom so far apart, and this one is what a mistake gives
                    tap.status, tap.diagnoses, result.first = "wrong", of_this, tap
        result.taps.append(tap)
    result.agreement = judge.agreement


def _far(tap: TapResult) -> bool:
    return tap.measures is not None and tap.measures.relative > PLAUSIBLE.relative


class _Judge:
    """Holds tensor after tensor against a reference.

    As long as nothing that goes into a tensor differs, it has to agree to the last digit, or to differ as rounding does.
    """

    def __init__(self, reference: WantedValues, theirs: Candidate) -> None:
        self.reference, self.theirs = reference, theirs
        self.agreement = Agreement()
        self._pairs: dict[str, Pair] = {}
        #: Of each tensor the first layer in which something that goes into it differs, or may without being shown; and
        #: whether a projection lies before it.
        self._since: dict[str, int | None] = {}
        self._projected: dict[str, bool] = {}
        self.bfloat16 = theirs.bfloat16
        self._place = BEFORE_LAYERS
        self._flipped = True

    def enter(self, name: str) -> None:
        """Take up the next tensor, shown or not: what is known of its inputs holds for it."""
        inputs, record = self.reference.inputs(name), self.reference.record
        layer, op = record.layer(name), record.op(name)
        self._place = self._place if layer is None and self._place < 0 else AFTER_LAYERS if layer is None else layer
        since = [at for each in inputs if (at := self._since.get(each)) is not None]
        if not since and op in HIDES and name not in self.theirs:
            since = [self._place]
        self._since[name] = min(since, default=None)
        self._projected[name] = any(self._projected.get(each, False) or record.op(each) == "linear" for each in inputs)

    def assess(self, tap: TapResult, pair: Pair) -> None:
        """Give a tensor its status, its measures and its limit in words."""
        name = tap.name
        if base(name) in INTEGER_TAPS:
            _assess_integers(tap, pair, self.reference)
            return
        self._pairs[name] = pair
        behind = self._since[name] is not None
        agrees = pair.agrees() and not self._sum_off(tap, pair) > 0
        own = None if agrees and not behind else expected(name, self._pairs, self.reference, self.bfloat16, behind)
        if not behind and not agrees:
            self._since[name] = self._place
        self.agreement.count(name, agrees)
        room: Any = pair.room()
        tap.measures, tap.limit, tap.status = measure(pair.got, pair.want, room), "the last digit", "ok"
        if own is not None:
            tap.limit, room = "what its shown inputs give", own.room
            tap.measures = measure(pair.got, own.value, room)
            tap.status = "wrong" if tap.measures.over else "ok"
        elif not agrees:
            room = self._behind(tap, pair) if behind else self._first(tap, pair)
        if np.isnan(pair.got).any() or (np.isinf(pair.got) & (pair.got != pair.want)).any():
            tap.status = "wrong"
        if tap.status == "wrong" and self.agreement.how != "not-whole":
            self.agreement.explain(name, "wrong")
        tap.drift = relative(pair.got, pair.want)
        if pair.places is not None:  # indices are those of the whole value, not of what is shown of it
            at = tuple(int(each[i]) for each, i in zip(pair.places, tap.measures.at, strict=False))
            tap.measures = tap.measures._replace(at=at)
            if pair.total is not None:
                tap.notes = (*tap.notes, "the sum is that of the shown numbers")
            tap.notes = (*tap.notes, f"a corner: {pair.got.size:,} of {counted(pair.whole.size, 'element')}")
            if tap.status == "wrong":
                tap.notes = (*tap.notes, *_wrong_places(pair, pair.places, room))

    def _sum_off(self, tap: TapResult, pair: Pair) -> float:
        """How far a printed sum is off, beyond what adding up takes."""
        return pair.sum_off(precise=not self._projected[tap.name]) if tap.op in SUMMED else 0.0

    def _first(self, tap: TapResult, pair: Pair) -> Any:
        """Judge a tensor that differs although nothing before it does."""
        if pair.agrees():
            tap.status, tap.limit = "wrong", f"its printed sum, which is {self._sum_off(tap, pair):.2g} too far off"
            return pair.room()
        if tap.op == "linear" and not self.bfloat16:
            steps = self.reference.steps(tap.name)
            if steps is not None:
                return self._flips(tap, pair, steps)
        share = ROUNDS_BFLOAT16.get(tap.op, ROUNDS_BFLOAT16_ELSE) if self.bfloat16 else ROUNDS.get(tap.op, 0.0)
        if tap.op == "rope" and self.reference.model is not None:
            share = max(share, 2 * self.reference.model.numerics.angle_error)
        if tap.op in ("linear", "head") and not self.bfloat16:
            if self.reference.record.type(tap.name) == "BF16":
                share = OF_BFLOAT16
            elif tap.op == "linear" and self.reference.has_own_blocks(tap.name):
                share = BEHIND_FLIPS
        self._flipped = False
        self.agreement.explain(tap.name, "rounding")
        limit = self._within(tap, pair, share, pair.largest)
        allowed = ALLOWANCES.get(tap.op) if tap.status == "wrong" else None
        if allowed is not None and not pair.resolution and allowed.holds(pair.got):
            wider = measure(pair.got, pair.want, pair.room() + allowed.limit.of(None, [], pair.want))
            if not wider.over:
                tap.status, tap.measures, tap.limit = "ok", wider, allowed.limit.words
                tap.notes = (*tap.notes, allowed.note.format(tap.name))
        return limit

    def _within(self, tap: TapResult, pair: Pair, share: float, largest: float) -> Any:
        """Hold each number to a share of the largest."""
        limit = pair.room() + share * largest
        tap.limit = f"{share:g} of the largest" if share else "the last digit"
        tap.measures = measure(pair.got, pair.want, limit)
        tap.status = "wrong" if tap.measures.over else "ok"
        return limit

    def _flips(self, tap: TapResult, pair: Pair, steps: Steps) -> Any:
        """Judge a projection whose input agrees: codes at a rounding boundary may have flipped, and nothing else."""
        rows = pair.places[0] if pair.places is not None else np.arange(len(pair.whole))[-len(pair.got) :]
        step = steps.size[rows].reshape(-1, *[1] * (pair.got.ndim - 1))
        many = pair.apart() / step
        room = OFF_STEP + 2 * pair.room() / step
        limit = MOST_STEPS * step + pair.room()
        fine = pair.apart() <= limit
        if steps.whole:
            with np.errstate(invalid="ignore"):
                fine &= np.abs(many - np.rint(many)) <= room
        tap.limit = f"{MOST_STEPS} {'whole ' if steps.whole else ''}steps of a code"
        tap.measures = measure(pair.got, pair.want, limit)._replace(over=float(1 - fine.mean()))
        tap.status = "flips" if fine.all() else "wrong"
        self.agreement.explain(tap.name, "flips" if fine.all() else "not-whole")
        return np.where(fine, np.inf, 0.0)

    def _behind(self, tap: TapResult, pair: Pair) -> Any:
        """Judge a tensor behind one that differs."""
        if self._since[tap.name] == self._place:
            share = ROUNDS_BFLOAT16_ELSE if self.bfloat16 else BEHIND_FLIPS if self._flipped else BEHIND_ROUNDING
            return self._within(tap, pair, share, largest_of(pair.want))
        tap.limit = f"relative L2 {FAIL.relative:g}"
        room = pair.resolution * float(np.sqrt(pair.want.size)) / (length(pair.want.astype(np.float64)) or 1.0)
        far = relative(pair.got, pair.want)
        tap.measures = measure(pair.got, pair.want, np.inf)
        tap.status = "wrong" if far > FAIL.relative + room else "ok"
        if tap.status == "ok" and far > PLAUSIBLE.relative + room:
            tap.notes = (*tap.notes, "doubtful: correct runtimes are seldom so far apart")
        return FAIL.relative * largest_of(pair.want)


def _assess_integers(tap: TapResult, pair: Pair, reference: WantedValues) -> None:
    """Hold codes and their sums, which depend on each other, to be near at all. A scale is a float."""
    tap.measures, tap.limit = measure(pair.got, pair.want, np.inf), "no limit: depends on the codes"
    far = tap.measures.relative if base(tap.name) != "act_sum" else _relative_of_sums(tap.name, pair, reference.record)
    tap.status = "wrong" if far > FAIL.relative else "ok"


def _wrong_places(pair: Pair, places: tuple[Array, ...], room: Any) -> list[str]:
    """Return the rows and columns where shown numbers are off, in words; one alone tells nothing."""
    off = beyond(pair.got, pair.want, room)
    if off.ndim < 2 or np.count_nonzero(off) < 2:
        return []
    rows = places[0][off.reshape(len(off), -1).any(axis=1)]
    columns = places[-1][off.reshape(-1, off.shape[-1]).any(axis=0)]
    if len(rows) == len(places[0]) and len(columns) == len(places[-1]):
        return []
    return [f"of the shown numbers those in {listed(rows, 'row')} and {listed(columns, 'column')} are off"]


def _relative_of_sums(name: str, pair: Pair, record: Record) -> float:
    """How far apart sums of codes are, relative to the codes that they are of: sums themselves cancel, down to 0.

    0 where the record lacks the codes.
    """
    codes = record.value(f"{name.rpartition('.')[0]}.act_q8")
    if codes is None or pair.resolution:
        return 0.0
    size = length(codes.astype(np.float64))
    apart = length(pair.got.astype(np.float64) - pair.want)
    return apart / size if size else float(apart > 0) * np.inf


def _explained(
    record: Record, theirs: Candidate, diagnoser: Diagnoser | None, tap: TapResult, pair: Pair
) -> list[Diagnosis]:
    """Return what explains a value that the record does not give."""
    tokens = record.tokens
    if diagnoser is None:
        limit = limit_of(pair.want)
        found = recognized(pair.got, pair.want, limit, (), 0 if pair.resolution else len(tokens), tap.op)
        return [each for each in found if not pair.resolution or each.name in OF_CORNERS]
    few = tap.name not in theirs.rows and not pair.resolution
    free = tap.name in theirs.shifted
    found = by_running(diagnoser, tokens, tap.name, pair, few, free)
    if tap.name in WHOLE and (words := nearest(diagnoser, relative(pair.got, pair.want))):
        tap.notes = (*tap.notes, words)
    return (
        [each for each in found if each.fits != "by pattern" or each.name in OF_CORNERS] if pair.resolution else found
    )


def _with_numbers(model: Model, reference: WantedValues, tap: TapResult, pair: Pair) -> list[Diagnosis]:
    """Return what explains a value, with the numbers that are solved from what goes into it."""
    if tap.name not in model.graph.by_name:
        return list(tap.diagnoses)
    numbers = solved(model, model.graph[tap.name], pair, reference.value)
    return with_solved(list(tap.diagnoses), numbers)


def drift(result: Comparison, record: Record, theirs: Candidate) -> None:
    """Measure how far apart the layers are, and the logits or the embedding, whatever the mode."""
    for name in record.shapes:
        if base(name) == "l_out" and name in theirs:
            pair = pair_of(theirs, name, record.value(name))
            if pair is not None:
                found = measure(pair.got, pair.want)
                result.drift.append((record.layer(name) or 0, found.relative, found.cosine))
    for name in WHOLE:
        pair = pair_of(theirs, name, record.value(name)) if name in theirs else None
        if pair is not None:
            result.whole = _whole(name, pair)


def _whole(name: str, pair: Pair) -> Whole:
    far, found = relative(pair.got, pair.want), measure(pair.got, pair.want)
    if name == "embedding":
        fine = found.cosine > EMBEDDING_COSINE and np.isfinite(far)
        return Whole(name, "plausible" if fine else "fail", far, found.cosine)
    if pair.resolution:
        verdict: Any = "fail" if far > FAIL.relative else "doubtful" if far > PLAUSIBLE.relative else "plausible"
        return Whole(name, verdict, far, found.cosine)
    same, divergence = logit_measures(pair.got, pair.want)
    beyond_all = far > PLAUSIBLE.relative and same < PLAUSIBLE.top and divergence > PLAUSIBLE.divergence
    if not far <= FAIL.relative or divergence > FAIL.divergence or beyond_all:
        verdict = "fail"
    elif far < PLAUSIBLE.relative and same > PLAUSIBLE.top and divergence < PLAUSIBLE.divergence:
        verdict = "plausible"
    else:
        verdict = "doubtful"
    return Whole(name, verdict, far, found.cosine, same, divergence)


# --- elements from their shown inputs --------------------------------------------------------------------------------
# Element-wise operations replayed from what a dump shows of their inputs: no model, no numerics, no drift (10.4).
#
# A sum, a product, an activation or the weights of a norm take each element by itself: of the numbers that a text shows,
# each must follow from the numbers shown of its inputs, in any layer and whatever happened before, within their last
# digits. Where a runtime does several such operations in one node, they are replayed together.

#: What a value may be off by, as a share of it: some roundings of float32, or one of bfloat16.
ROUNDING: Final = 4 * 2.0**-24
BFLOAT16_ROUNDING: Final = 2.0**-7

#: How far SiLU may be off, as a share of the largest: approximations of e^x in float32.
SILU_ERROR: Final = 2e-6

#: How far GELU may be off, as a share of the largest: a table of F16.
GELU_TABLE: Final = 1e-3

#: Operations that are replayed together: a gate is an activation of two operations and a product.
DEPTH: Final = 3

#: Operations whose inputs are two tensors of one shape.
_OF_TWO: Final = ("add", "multiply")


class KnownElements(NamedTuple):
    """Elements that a dump shows, or that follow from those, float64, and how far off each may be.

    :param scaled: whether they are known but for a factor of each row
    """

    value: NDArray[np.float64]
    room: NDArray[np.float64]
    scaled: bool = False


def expected(
    name: str, pairs: Mapping[str, Pair], reference: WantedValues, bfloat16: bool = False, scaled: bool = False
) -> KnownElements | None:
    """Compute a tensor from its shown inputs, at the places where it is shown; None where that cannot be known.

    :param pairs: the tensors that are shown, by name
    :param bfloat16: whether the dump's values are bfloat16
    :param scaled: whether a norm follows from its input, too, which gives it but for a factor of each row
    """
    like = pairs[name]
    found = _replayed(name, like, pairs, reference, bfloat16, scaled, DEPTH)
    if found is None or not np.isfinite(like.got).all():
        return None
    value, room = found.value, found.room
    if found.scaled:
        factor = _row_factors(like.got.astype(np.float64), value)
        value, room = factor * value, 2 * np.abs(factor) * room + ROUNDED * like.resolution
    rounding = BFLOAT16_ROUNDING if bfloat16 else ROUNDING
    return KnownElements(value, room + ROUNDED * like.resolution + rounding * np.abs(value))


def _row_factors(got: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factor of each row of one value that makes it another one, 1 where it is 0."""
    squares = (value * value).sum(axis=-1, keepdims=True)
    return np.where(squares > 0, (got * value).sum(axis=-1, keepdims=True) / np.where(squares > 0, squares, 1.0), 1.0)


def _known(
    name: str, like: Pair, pairs: Mapping[str, Pair], reference: WantedValues, bfloat16: bool, scaled: bool, depth: int
) -> KnownElements | None:
    """Return the elements of a tensor at the places of another one: as they are shown, or as their inputs give them."""
    pair = pairs.get(name)
    if pair is None:
        return _replayed(name, like, pairs, reference, bfloat16, scaled, depth - 1) if depth > 1 else None
    if pair.got.shape != like.got.shape or not _same_places(pair, like):
        return None
    value = pair.got.astype(np.float64)
    rounding = BFLOAT16_ROUNDING * np.abs(value) if bfloat16 else 0.0
    return KnownElements(value, np.full(value.shape, ROUNDED * pair.resolution) + rounding)


def _same_places(one: Pair, other: Pair) -> bool:
    if one.places is None or other.places is None:
        return one.places is other.places
    return len(one.places) == len(other.places) and all(map(np.array_equal, one.places, other.places))


def _replayed(
    name: str, like: Pair, pairs: Mapping[str, Pair], reference: WantedValues, bfloat16: bool, scaled: bool, depth: int
) -> KnownElements | None:
    """Compute an element-wise operation from its inputs; None for other operations, and where an input is not known."""
    op, inputs = reference.record.op(name), reference.inputs(name)
    if op in _OF_TWO and len(inputs) == 2:
        a, b = (_known(each, like, pairs, reference, bfloat16, False, depth) for each in inputs)
        if a is None or b is None:
            return None
        if op == "add":
            lost = ROUNDING * (np.abs(a.value) + np.abs(b.value))
            return KnownElements(a.value + b.value, a.room + b.room + lost)
        return KnownElements(a.value * b.value, np.abs(a.value) * b.room + np.abs(b.value) * a.room + a.room * b.room)
    if len(inputs) != 1:
        return None
    factors = _factors(name, inputs[0], like, reference) if op in ("norm_weight", "multiply_by") else None
    if factors is None and op not in ("relu", "square", "silu", "gelu") and not (op == "norm" and scaled):
        return None
    x = _known(inputs[0], like, pairs, reference, bfloat16, scaled and op == "norm_weight", depth)
    if x is None:
        return None
    value, room, _ = x
    if op == "norm":
        return KnownElements(value, room, True)
    if factors is not None:
        known = np.isfinite(factors)  # a column that is 0 in every token tells no factor
        factors = np.where(known, factors, 0.0)
        lost = ROUNDING * np.abs(value * factors)
        return KnownElements(value * factors, np.where(known, room * np.abs(factors) + lost, np.inf), x.scaled)
    if op == "relu":
        return KnownElements(np.maximum(value, 0.0), room)
    if op == "square":
        return KnownElements(value * value, 2 * np.abs(value) * room + room * room)
    with np.errstate(over="ignore"):
        if op == "silu":
            found = value / (1 + np.exp(-value))
            return KnownElements(found, 1.1 * room + SILU_ERROR * largest_of(found))
        bent = np.tanh(np.sqrt(2 / np.pi) * (value + 0.044715 * value**3))
    return KnownElements(0.5 * value * (1 + bent), 1.13 * room + GELU_TABLE * largest_of(value))


def _factors(name: str, entering: str, like: Pair, reference: WantedValues) -> NDArray[Any] | None:
    """Return the factor of each shown column: the quotient of what the reference has, where its input is largest."""
    before, after = reference.value(entering), reference.value(name)
    if before is None or after is None or before.shape != after.shape or not before.ndim:
        return None
    a, b = (each.reshape(-1, each.shape[-1]).astype(np.float64) for each in (before, after))
    row, column = np.abs(a).argmax(axis=0), np.arange(a.shape[1])
    with np.errstate(all="ignore"):
        found = b[row, column] / a[row, column]
    found = found if like.places is None else found[like.places[-1]]
    return found if np.isfinite(found).any() else None
