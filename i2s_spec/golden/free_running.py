"""This module compares free-running: the record's values with the candidate's as they stand, which drift apart (10.4).

What lies before the first quantizer must agree; the first layer, but for what a flipped code may do; later ones and the
logits, within what correct runtimes were measured to be apart. What is found here is plausible or not, seldom proven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.errors import counted
from i2s_spec.golden import op_replay
from i2s_spec.golden.candidate import WHOLE, Candidate, Record, only_known
from i2s_spec.golden.diagnosis.diagnose import Diagnoser, by_running, limit_of
from i2s_spec.golden.diagnosis.patterns import OF_CORNERS, listed, recognized
from i2s_spec.golden.metrics import beyond, length, logit_measures, measure, relative
from i2s_spec.golden.result import Comparison, Diagnosis, TapResult, Whole
from i2s_spec.golden.store import Tap, corner_indices
from i2s_spec.golden.tolerance import EMBEDDING_COSINE, FAIL, FORCED, PLAUSIBLE, SHOWN, forced_start
from i2s_spec.model.graph import INTEGER_TAPS, base

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.forward import Model

    Array = NDArray[Any]

#: Names behind which activations have been quantized.
_PROJECTIONS: Final = ("linear",)


class _Pair(NamedTuple):
    """What is compared.

    :param resolution: how far a shown number may be off
    :param cut: what cuts a value like these two
    :param whole: the wanted value with everything that is not shown: by its size, not by a corner's, differences are checked
    :param places: of a corner, which rows, columns and so on of the whole value are shown, for each dimension
    """

    got: Array
    want: Array
    resolution: float
    cut: Callable[[Array], Array]
    whole: Array
    places: tuple[Array, ...] | None = None


def run(
    result: Comparison, model: Model | None, record: Record, theirs: Candidate, diagnose: bool,
    progress: Callable[[int, int], object] | None,
) -> None:  # fmt: skip
    """Compare every stored tap; the first that is wrong is explained, with a model by running it with each mistake."""
    quantized: int | None = None
    own = _of_its_numerics(model, record, theirs)
    if own is not None and model is not None:
        result.notes.append(
            f"held against what the model gives with the numerics {model.numerics.name}, not the record"
        )
    for done, name in enumerate(record.shapes):
        if progress is not None:
            progress(done + 1, len(record.shapes))
        if quantized is None and record.op(name) in _PROJECTIONS:
            quantized = record.layer(name)
        if name in theirs:
            tap = TapResult(name, "skipped", record.layer(name), record.op(name))
            pair = _pair(record, theirs, name, own)
            if pair is None:
                tap.notes = (
                    "the record has its digest only" if record.value(name) is None else "nothing of it is shown",
                )
            else:
                _assess(tap, pair, quantized, theirs, record)
                if tap.status == "wrong" and result.first is not None:
                    tap.status = "behind"
                elif tap.status == "wrong":
                    result.first = tap
                    if diagnose:
                        tap.diagnoses = tuple(_explained(record, theirs, model, tap, pair))
                        unknown = all(each.fits == "by pattern" for each in tap.diagnoses)
                        if unknown and model is not None and theirs.dump.kind != "text":
                            until = [*takewhile(name.__ne__, record.shapes), name]
                            op_replay.explain_by_replay(tap, Diagnoser(model), record, theirs, until)
                elif result.first is None and diagnose and name in WHOLE and _far(tap) and not pair.resolution:
                    found = _explained(record, theirs, model, tap, pair)
                    of_this = op_replay.explaining(tap, found)
                    if of_this:  # correct runtimes are seldom so far apart, and this one is what a mistake gives
                        tap.status, tap.diagnoses, result.first = "wrong", of_this, tap
            result.taps.append(tap)


def _of_its_numerics(model: Model | None, record: Record, theirs: Candidate) -> Mapping[str, Array] | None:
    """What a model gives with numerics that are not the record's, for texts: nothing of them can be replayed."""
    if model is None or theirs.dump.kind != "text" or model.numerics.name == record.header["profile"]:
        return None
    known = set(model.tap_names())
    names = [name for name in record.shapes if name in theirs and name in known]
    found = model.forward(record.tokens, taps=names)
    results = {"result_output": found.logits, "embedding": found.embedding}
    return {**found.taps, **{name: value for name, value in results.items() if value is not None and name in names}}


def _far(tap: TapResult) -> bool:
    return tap.measures is not None and tap.measures.relative > PLAUSIBLE.relative


def _pair(record: Record, theirs: Candidate, name: str, own: Mapping[str, Array] | None = None) -> _Pair | None:
    """The two values of a tap in the same shape, or the same corner of both.

    :param own: values to hold the candidate's against in place of the record's
    """
    want = own[name] if own is not None and name in own else record.value(name)
    if want is None:
        return None
    shown = theirs.corner(name)
    if shown is None:
        got = theirs.get(name)
        if got is None or got.shape != want.shape:
            return None
        rows = theirs.rows.get(name)
        return _Pair(only_known(got, rows), only_known(want, rows), 0.0, lambda value: only_known(value, rows), want)
    if np.isnan(shown.value).all():
        return None
    places = _places(shown, want.shape)

    def cut(value: Array) -> Array:
        return value[np.ix_(*_places(shown, value.shape))]

    return _Pair(_shown(shown, want.shape), cut(want), shown.resolution, cut, want, places)


def _places(shown: Tap, want: tuple[int, ...]) -> tuple[Array, ...]:
    """Which indices of a whole value a corner has: those of the last rows where fewer are there, no padded columns."""
    shape = (1,) * (len(want) - len(shown.shape)) + shown.shape
    indices = []
    for axis, (size, theirs) in enumerate(zip(want, shape, strict=True)):
        at = corner_indices(theirs)
        if theirs < size and axis == 0:
            at = at + size - theirs
        indices.append(at[at < size])
    return tuple(indices)


def _shown(shown: Tap, want: tuple[int, ...]) -> Array:
    """The corner of a text without the columns that only pad."""
    shape = (1,) * (len(want) - len(shown.shape)) + shown.shape
    value = shown.value.reshape(tuple(min(side, 6) for side in shape))
    keep = []
    for axis, (size, theirs) in enumerate(zip(want, shape, strict=True)):
        at = corner_indices(theirs)
        keep.append(np.flatnonzero((at < size) | ((axis == 0) & (theirs < size))))
    return value[np.ix_(*keep)]


def _assess(tap: TapResult, pair: _Pair, quantized: int | None, theirs: Candidate, record: Record) -> None:
    """Hold a value against the record's, with the room that its place in the model needs."""
    word = base(tap.name)
    finite = np.abs(pair.whole[np.isfinite(pair.whole)])
    largest = float(finite.max()) if finite.size else 0.0
    if word in INTEGER_TAPS and word != "act_scale":
        tap.measures, tap.limit, tap.status = (
            measure(pair.got, pair.want, np.inf),
            "no limit: depends on the codes",
            "ok",
        )
        far = tap.measures.relative if word != "act_sum" else _relative_of_sums(tap.name, pair, record)
        tap.status = "wrong" if far > FAIL.relative else "ok"
        return
    if quantized is None:
        rtol, tap.limit = forced_start(word, theirs.bfloat16)
        limit: float | None = rtol * largest
    elif tap.layer == quantized:
        own = FORCED if not pair.resolution else SHOWN
        limit, tap.limit = own.rtol(theirs.bfloat16) * largest, own.words
    else:
        limit, tap.limit = None, f"relative L2 {FAIL.relative:g}"
    tap.measures = measure(pair.got, pair.want, pair.resolution + (largest if limit is None else limit))
    tap.drift = tap.measures.relative
    if pair.places is not None:  # indices are those of the whole value, not of what is shown of it
        at = tuple(int(each[i]) for each, i in zip(pair.places, tap.measures.at, strict=False))
        tap.measures = tap.measures._replace(at=at)
    if limit is not None:
        wrong = tap.measures.over > 0
    else:  # many small numbers say nothing against the resolution of a text
        room = pair.resolution * float(np.sqrt(pair.want.size)) / (length(finite.astype(np.float64)) or 1.0)
        far = _relative(pair, finite)
        wrong = far > FAIL.relative + room or tap.measures.not_finite > 0
        if not wrong and far > PLAUSIBLE.relative + room:
            tap.notes = (*tap.notes, "doubtful: correct runtimes are seldom so far apart")
    if pair.resolution:
        tap.limit = f"{tap.limit}, and {pair.resolution:g} of a printed number"
        tap.notes = (*tap.notes, *_sum_notes(theirs, tap, pair))
    tap.status = "wrong" if wrong else "ok"
    if wrong and pair.places is not None:
        room = pair.resolution + (FAIL.relative * largest if limit is None else limit)
        tap.notes = (*tap.notes, *_wrong_places(pair, pair.places, room))


def _wrong_places(pair: _Pair, places: tuple[Array, ...], room: float) -> list[str]:
    """Where the shown numbers are off, by the numbers of their rows and columns in the whole value; one says nothing."""
    off = beyond(pair.got, pair.want, room)
    if off.ndim < 2 or np.count_nonzero(off) < 2:
        return []
    rows = places[0][off.reshape(len(off), -1).any(axis=1)]
    columns = places[-1][off.reshape(-1, off.shape[-1]).any(axis=0)]
    if len(rows) == len(places[0]) and len(columns) == len(places[-1]):
        return []
    return [f"of the shown numbers those in {listed(rows, 'row')} and {listed(columns, 'column')} are off"]


def _relative_of_sums(name: str, pair: _Pair, record: Record) -> float:
    """How far apart sums of codes are, relative to the codes that they are of: sums themselves cancel, down to 0.

    Where the record lacks the codes, nothing can be said.
    """
    codes = record.value(f"{name.rpartition('.')[0]}.act_q8")
    if codes is None or pair.resolution:
        return 0.0
    size = length(codes.astype(np.float64))
    apart = length(pair.got.astype(np.float64) - pair.want)
    return apart / size if size else float(apart > 0) * np.inf


def _relative(pair: _Pair, finite: Array) -> float:
    """How far apart two values are, relative; of a corner, to what so many numbers of the whole value are on average."""
    far = relative(pair.got, pair.want)
    if not pair.resolution or not finite.size:
        return far
    shown = length(pair.want[np.isfinite(pair.want)].astype(np.float64))
    average = length(finite.astype(np.float64)) * float(np.sqrt(pair.want.size / finite.size))
    return far * shown / average if average > shown and np.isfinite(far) else far


def _sum_notes(theirs: Candidate, tap: TapResult, pair: _Pair) -> list[str]:
    """Which numbers the sum of a text adds up: the shown ones or all of them."""
    shown = theirs.corner(tap.name)
    notes = [f"a corner: {pair.got.size:,} of {counted(int(np.prod(shown.shape)) if shown else 0, 'element')}"]
    if shown is None or shown.total is None:
        return notes
    of_shown = float(np.sum(shown.value, dtype=np.float64))
    room = shown.resolution * shown.value.size + 1e-5 * float(np.abs(shown.value).sum())
    if abs(shown.total - of_shown) <= room:
        return [*notes, "the sum is that of the shown numbers"]
    want = theirs.record.value(tap.name)
    if want is None or want.shape[:1] != shown.shape[:1]:
        return notes
    total, size = float(np.sum(want, dtype=np.float64)), length(want.astype(np.float64))
    near = abs(shown.total - total) <= FAIL.relative * size * float(np.sqrt(want.size)) ** 0.5 + room
    return [*notes, "the sum is that of all elements" if near else f"the sum {shown.total:.6g} is neither that of the shown"
            f" numbers ({of_shown:.6g}) nor near that of all ({total:.6g})"]  # fmt: skip


def _explained(record: Record, theirs: Candidate, model: Model | None, tap: TapResult, pair: _Pair) -> list[Diagnosis]:
    """What explains a value that the record does not give."""
    tokens = record.tokens
    if model is None:
        limit = limit_of(pair.want)
        return recognized(pair.got, pair.want, limit, (), len(tokens)) if not pair.resolution else []
    few = tap.name not in theirs.rows and not pair.resolution
    free = tap.name in theirs.shifted
    found = by_running(Diagnoser(model), tokens, tap.name, pair.got, pair.want, pair.cut, few, free)
    return (
        [each for each in found if each.fits != "by pattern" or each.name in OF_CORNERS] if pair.resolution else found
    )


def drift(result: Comparison, record: Record, theirs: Candidate) -> None:
    """How far apart the layers are, and the logits or the embedding, whatever the mode."""
    for name in record.shapes:
        if base(name) == "l_out" and name in theirs:
            pair = _pair(record, theirs, name)
            if pair is not None:
                found = measure(pair.got, pair.want)
                result.drift.append((record.layer(name) or 0, found.relative, found.cosine))
    for name in WHOLE:
        pair = _pair(record, theirs, name) if name in theirs else None
        if pair is not None:
            result.whole = _whole(name, pair)


def _whole(name: str, pair: _Pair) -> Whole:
    far, found = relative(pair.got, pair.want), measure(pair.got, pair.want)
    if name == "embedding":
        fine = found.cosine > EMBEDDING_COSINE and np.isfinite(far)
        return Whole(name, "plausible" if fine else "fail", far, found.cosine)
    if pair.resolution:
        finite = np.abs(pair.whole[np.isfinite(pair.whole)])
        far = _relative(pair, finite)
        verdict: Any = "fail" if far > FAIL.relative else "doubtful" if far > PLAUSIBLE.relative else "plausible"
        return Whole(name, verdict, far, found.cosine)
    same, divergence = logit_measures(pair.got, pair.want)
    if not far <= FAIL.relative or divergence > FAIL.divergence:
        verdict = "fail"
    elif far < PLAUSIBLE.relative and same > PLAUSIBLE.top and divergence < PLAUSIBLE.divergence:
        verdict = "plausible"
    else:
        verdict = "doubtful"
    return Whole(name, verdict, far, found.cosine, same, divergence)
