"""The layer-forced mode: each layer of the reference runs on what the candidate says enters it (clause 10.4).

An error stays in its layer: behind the first wrong tap of a layer the rest of it is `behind`, the next layer starts
afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from i2s_spec.errors import counted
from i2s_spec.golden import op_replay
from i2s_spec.golden.candidate import Candidate, Record, only_known
from i2s_spec.golden.code_flips import Flips
from i2s_spec.golden.diagnosis.diagnose import Diagnoser
from i2s_spec.golden.metrics import measure
from i2s_spec.golden.replay import Replayer
from i2s_spec.golden.result import Comparison, Diagnosis, TapResult
from i2s_spec.golden.tolerance import (
    FORCED,
    FORCED_FLIPS,
    FORCED_FLIPS_BFLOAT16,
    FORCED_MEDIAN,
    FORCED_ROTATED,
    MEDIAN_OF,
    forced_start,
    most_flips,
)
from i2s_spec.model.graph import INTEGER_TAPS, base

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph import Graph


def run(
    result: Comparison, model: Model, record: Record, theirs: Candidate, diagnose: bool,
    progress: Callable[[int, int], object] | None,
) -> None:  # fmt: skip
    """Run every layer whose input the candidate has; what is before and behind the layers is replayed."""
    diagnoser = Diagnoser(model) if diagnose else None
    graph = model.graph
    outside = [node.name for node in graph if node.layer is None]
    replayer = Replayer(model, record.tokens, theirs, theirs.bfloat16, theirs.rows)
    for tap, replay, got, rows in op_replay.replayed(replayer, record, theirs, outside):
        if replay is not None and tap.status == "wrong" and diagnoser is not None:
            tap.diagnoses = tuple(diagnoser.of_replay(replayer, replay, got, rows))
        result.taps.append(tap)
    for number in range(graph.layers):
        part = graph.layer(number)
        x = _entering(model, record, theirs, number)
        names = [name for name in model.tap_names(part) if name in theirs]
        if x is None:
            result.taps += [
                TapResult(name, "skipped", number, record.op(name), notes=(f"the candidate lacks {part.given[0]}",))
                for name in names
            ]
        elif names:
            _layer(result, model, record, theirs, part, number, x, names, diagnoser)
        if progress is not None:
            progress(number + 1, graph.layers)
    order = {name: at for at, name in enumerate(record.shapes)}
    result.taps.sort(key=lambda tap: order.get(tap.name, len(order)))
    result.first = next((tap for tap in result.taps if tap.status == "wrong"), None)


def _entering(model: Model, record: Record, theirs: Candidate, number: int) -> NDArray[Any] | None:
    """Return the candidate's value that enters a layer; for the first layer, where it has none, what the model makes."""
    name = model.graph.layer(number).given[0]
    if name in theirs or number:
        return theirs.get(name)
    made = Replayer(model, record.tokens, theirs).replay(name)
    return made.value if made is not None else None


def _layer(
    result: Comparison, model: Model, record: Record, theirs: Candidate, part: Graph, number: int, x: NDArray[Any],
    names: list[str], diagnoser: Diagnoser | None,
) -> None:  # fmt: skip
    _, found = model.layer(number, x, tuple(names))
    quantized, wrong = False, False
    right: dict[str, bool] = {}
    for name in model.tap_names(part):
        node = part.by_name.get(name)
        quantized = quantized or (node is not None and node.op == "linear")
        if name in names:
            got, rows = theirs[name], theirs.rows.get(name)
            tap = TapResult(name, "skipped", number, record.op(name), reach=(part.given[0], name))
            want = found[name]
            if want.shape == got.shape:
                precision = _Precision(quantized, _is_rotated(model, name), theirs.bfloat16)
                _assess(tap, only_known(got, rows), only_known(want, rows), precision)
                if tap.status == "wrong" and wrong:
                    tap.status = "behind"
                elif tap.status == "wrong":
                    wrong = True
                    if diagnoser is not None:
                        tap.diagnoses = tuple(
                            _explained(diagnoser, record, number, name, got, want, part, theirs, right)
                        )
                        if all(each.fits == "by pattern" for each in tap.diagnoses):
                            until = [each for each in names if each in right or each == name]
                            op_replay.explain_by_replay(tap, diagnoser, record, theirs, until)
                else:
                    right[name] = quantized
            else:
                tap.notes = ("of another shape in the reference",)
            result.taps.append(tap)


def _explained(
    diagnoser: Diagnoser, record: Record, number: int, name: str, got: NDArray[Any], want: NDArray[Any], part: Graph,
    theirs: Candidate, right: dict[str, bool],
) -> tuple[Diagnosis, ...]:  # fmt: skip
    """Return what explains the first wrong value of a layer.

    :param right: what is right before it, and whether a quantizer lies before each
    """

    def values(model: Model, names: Iterable[str]) -> dict[str, Any]:
        """Return the values of some taps: a mistake in front of the first layer is in what enters it, too."""
        x, known = _entering(model, record, theirs, number), set(model.tap_names(model.graph.layer(number)))
        wanted = tuple(each for each in names if each in known)
        found: dict[str, Any] = {} if x is None or not wanted else model.layer(number, x, wanted)[1]
        return found

    def fits(model: Model, each: str, value: NDArray[Any], quantized: bool) -> bool:
        mine, rows, tap = theirs[each], theirs.rows.get(each), TapResult(each, "skipped")
        if value.shape == mine.shape:
            precision = _Precision(quantized, _is_rotated(model, each), theirs.bfloat16)
            _assess(tap, only_known(mine, rows), only_known(value, rows), precision)
        return tap.status != "wrong"

    def agrees(model: Model) -> bool:
        """Whether what is right stays right with a mistake in place."""
        return all(fits(model, each, value, right[each]) for each, value in values(model, right).items())

    def explained(model: Model) -> int:
        """How many values of the layer are right with a mistake in place."""
        names = [each for each in part.by_name if theirs.get(each) is not None]
        try:
            return sum(fits(model, each, value, True) for each, value in values(model, names).items())
        except (ValueError, IndexError, KeyError, FloatingPointError):
            return 0  # as for any mistake: a layer that cannot be computed explains nothing

    at = next((i for i, node in enumerate(part) if node.name == name), len(part.nodes) - 1)
    ops = {node.op for node in part.nodes[: at + 1]}
    found = diagnoser.of_run(
        lambda model: values(model, (name,)).get(name), got, want, 0.0, len(record.tokens), ops, agrees
    )
    return diagnoser.tell_apart(found, explained)


class _Precision(NamedTuple):
    """What decides how far off a value of a layer may be.

    :param quantized: whether a quantizer lies before it
    :param rotated: whether it belongs to a projection whose input is rotated
    """

    quantized: bool
    rotated: bool
    bfloat16: bool


def _is_rotated(model: Model, name: str) -> bool:
    """Whether a tap is inside a projection whose input is rotated: `blk.0.ffn_down.act_q8` is in `blk.0.ffn_down`."""
    rotation = model.settings.rotation
    return rotation is not None and rotation.rotates(f"{name.rpartition('.')[0]}.weight")


def _assess(tap: TapResult, got: NDArray[Any], want: NDArray[Any], precision: _Precision) -> None:
    """Hold a value of a layer against what the layer gives, with room for flips."""
    word = base(tap.name)
    quantized, bfloat16 = precision.quantized, precision.bfloat16
    if word == "act_q8":
        rtol, most = FORCED_FLIPS_BFLOAT16 if bfloat16 else FORCED_FLIPS
        steps = np.abs(got.astype(np.int64) - want)
        flips = int((steps > 0).sum())
        tap.measures = measure(got, want, float(most))
        first = tuple(int(i) for i in np.argwhere(steps == steps.max())[0]) if flips else None
        tap.flips = Flips(0, flips, 0, 0, first)
        if precision.rotated:
            tap.limit = f"{FORCED_ROTATED.words}, {counted(most, 'step')}"
            far = not tap.measures.relative <= FORCED_ROTATED.rtol(bfloat16)
        else:
            limit = most_flips(steps.size, rtol)
            tap.limit = f"{limit:,} of {counted(steps.size, 'code')}, {counted(most, 'step')}"
            far = flips > limit
        tap.status = "wrong" if far or int(steps.max(initial=0)) > most else "ok"
        return
    if word in INTEGER_TAPS and word != "act_scale":
        tap.measures, tap.limit, tap.status = measure(got, want, np.inf), "no limit: depends on the codes", "ok"
        return
    finite = np.abs(want[np.isfinite(want)])
    largest = float(finite.max()) if finite.size else 0.0
    if not quantized:
        rtol, tap.limit = forced_start(word, bfloat16)
        tap.measures = measure(got, want, rtol * largest)
        tap.status = "wrong" if tap.measures.over else "ok"
        return
    tap.measures = measure(got, want, FORCED.rtol(bfloat16) * largest)
    has_middle = want.size >= MEDIAN_OF
    tap.limit = f"{FORCED.words}, {FORCED_MEDIAN.words}" if has_middle else FORCED.words
    with np.errstate(all="ignore"):
        apart = np.abs(got.astype(np.float64) - want)
    known = apart[~np.isnan(apart)]
    median = float(np.median(known)) if has_middle and known.size else 0.0
    tap.status = "wrong" if tap.measures.over or median > FORCED_MEDIAN.rtol(bfloat16) * largest else "ok"
