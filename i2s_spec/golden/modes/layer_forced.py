"""This module compares layer by layer: each layer of the reference runs on what the candidate says enters it (10.4).

An error stays in its layer: behind the first wrong tap of a layer the rest of it is `behind`, the next layer starts afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from i2s_spec.golden.candidates.candidate import Candidate, Record, only_known
from i2s_spec.golden.diagnosis.diagnose import Diagnoser
from i2s_spec.golden.metrics import measure
from i2s_spec.golden.modes import op_replay
from i2s_spec.golden.replay.code_flips import Flips
from i2s_spec.golden.replay.replay import Replayer
from i2s_spec.golden.replay.result import Comparison, TapResult
from i2s_spec.golden.replay.tolerance import (
    FORCED,
    FORCED_FLIPS,
    FORCED_FLIPS_BFLOAT16,
    FORCED_MEDIAN,
    FORCED_ROTATED,
    MEDIAN_OF,
    forced_start,
)
from i2s_spec.model.graph.taps import INTEGER_TAPS, base

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph.graph import Graph


def run(
    result: Comparison, model: Model, record: Record, theirs: Candidate, diagnose: bool,
    progress: Callable[[int, int], object] | None,
) -> None:  # fmt: skip
    """Run every layer whose input the candidate has; what is before and behind the layers is replayed."""
    diagnoser = Diagnoser(model) if diagnose else None
    graph = model.graph
    outside = [node.name for node in graph if node.layer is None]
    _replayed(result, model, record, theirs, outside, diagnoser)
    for number in range(graph.layers):
        part = graph.layer(number)
        x = theirs.get(part.given[0])
        if x is None and number == 0:  # what enters the first layer can be made
            made = Replayer(model, record.tokens, theirs).replay(part.given[0])
            x = made.value if made is not None else None
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


def _replayed(
    result: Comparison,
    model: Model,
    record: Record,
    theirs: Candidate,
    names: Iterable[str],
    diagnoser: Diagnoser | None,
) -> None:
    replayer = Replayer(model, record.tokens, theirs, theirs.bfloat16)
    for name in names:
        got = theirs.get(name)
        if got is None:
            continue
        tap = TapResult(name, "skipped", None, record.op(name))
        replay = replayer.replay(name, got)
        if replay is not None and replay.value.shape == got.shape:
            op_replay.assess(tap, replay, got, theirs.rows.get(name))
            if tap.status == "wrong" and diagnoser is not None:
                tap.diagnoses = tuple(diagnoser.of_replay(replayer, replay, got, theirs.rows.get(name)))
        result.taps.append(tap)


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
                room = _Room(quantized, _is_rotated(model, name), theirs.bfloat16)
                _assess(tap, only_known(got, rows), only_known(want, rows), room)
                if tap.status == "wrong" and wrong:
                    tap.status = "behind"
                elif tap.status == "wrong":
                    wrong = True
                    if diagnoser is not None:
                        tap.diagnoses = tuple(_explained(diagnoser, number, x, name, got, want, part, theirs, right))
                else:
                    right[name] = quantized
            else:
                tap.notes = ("of another shape in the reference",)
            result.taps.append(tap)


def _explained(
    diagnoser: Diagnoser, number: int, x: NDArray[Any], name: str, got: NDArray[Any], want: NDArray[Any], part: Graph,
    theirs: Candidate, right: dict[str, bool],
) -> list[Any]:  # fmt: skip
    """What explains the first wrong value of a layer.

    :param right: what is right before it, and whether a quantizer lies before each
    """

    def again(model: Model) -> NDArray[Any] | None:
        if name not in model.tap_names(model.graph.layer(number)):
            return None
        value: NDArray[Any] = model.layer(number, x, (name,))[1][name]
        return value

    def agrees(model: Model) -> bool:
        """Whether what is right stays right with a mistake in place."""
        known = model.tap_names(model.graph.layer(number))
        before = [each for each in right if each in known]
        found = model.layer(number, x, tuple(before))[1]
        for each in before:
            mine, rows, tap = theirs[each], theirs.rows.get(each), TapResult(each, "skipped")
            if found[each].shape == mine.shape:
                room = _Room(right[each], _is_rotated(model, each), theirs.bfloat16)
                _assess(tap, only_known(mine, rows), only_known(found[each], rows), room)
            if tap.status == "wrong":
                return False
        return True

    at = next((i for i, node in enumerate(part) if node.name == name), len(part.nodes) - 1)
    ops = {node.op for node in part.nodes[: at + 1]}
    return diagnoser.of_run(again, got, want, 0.0, len(x), ops, agrees)


class _Room(NamedTuple):
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


def _assess(tap: TapResult, got: NDArray[Any], want: NDArray[Any], room: _Room) -> None:
    """Hold a value of a layer against what the layer gives, with room for flips."""
    word = base(tap.name)
    quantized, bfloat16 = room.quantized, room.bfloat16
    if word == "act_q8":
        rtol, most = FORCED_FLIPS_BFLOAT16 if bfloat16 else FORCED_FLIPS
        steps = np.abs(got.astype(np.int64) - want)
        flips = int((steps > 0).sum())
        tap.measures = measure(got, want, float(most))
        first = tuple(int(i) for i in np.argwhere(steps == steps.max())[0]) if flips else None
        tap.flips = Flips(0, flips, 0, 0, first)
        if room.rotated:
            tap.limit = f"{FORCED_ROTATED.words}, {most} steps"
            far = not tap.measures.relative <= FORCED_ROTATED.rtol(bfloat16)
        else:
            tap.limit = f"{rtol:g} of the codes, {most} steps"
            far = flips > rtol * steps.size
        tap.status = "wrong" if far or int(steps.max(initial=0)) > most else "ok"
        return
    if word in INTEGER_TAPS and word != "act_scale":
        tap.measures, tap.limit, tap.status = measure(got, want, np.inf), "follows the codes", "ok"
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
