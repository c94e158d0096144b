"""The op-replay mode: every tap beside what the candidate's own inputs give (clause 10.4).

`run` replays every tap; `first_cause` and `explain_by_replay` find, for the other modes too, the first tap that its own
inputs do not give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.golden.candidate import WHOLE, Candidate, Record, only_known, shifted
from i2s_spec.golden.diagnosis.diagnose import MUCH, NEARLY, Diagnoser, by_running, nearest, weights_of
from i2s_spec.golden.metrics import beyond, measure, relative
from i2s_spec.golden.replay import Replayer
from i2s_spec.golden.result import Comparison, Diagnosis, TapResult
from i2s_spec.golden.shown import Pair
from i2s_spec.golden.tolerance import FAIL, NORM_ULPS, PLAUSIBLE, Replay
from i2s_spec.model.graph import base

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.forward import Model

#: Wrong taps for which every mistake is tried; behind that only those found so far are.
MOST_DIAGNOSED: Final = 32

#: Mistakes that change a norm by so little that sums of float32 might; one looks like another until the whole layer is seen.
EPSILONS: Final = ("eps-0", "eps-1e-6", "eps-1e-5", "embedding-scaled")


def run(
    result: Comparison, model: Model, record: Record, theirs: Candidate, diagnose: bool,
    progress: Callable[[int, int], object] | None,
) -> None:  # fmt: skip
    """Replay every tap that the candidate has."""
    replayer = Replayer(model, record.tokens, theirs, theirs.bfloat16, theirs.rows)
    explainer = _Explainer(model, replayer, theirs.shifted) if diagnose else None

    def names() -> Iterator[str]:
        for done, name in enumerate(record.shapes, 1):
            if progress is not None:
                progress(done, len(record.shapes))
            yield name

    for tap, replay, got, rows in replayed(replayer, record, theirs, names()):
        if replay is not None and explainer is not None:
            explainer.explain(tap, replay, got, rows)
        want = record.value(tap.name)
        if want is not None and want.shape == got.shape and got.dtype.kind == "f":
            known = theirs.rows.get(tap.name)
            tap.drift = relative(only_known(got, known), only_known(want, known))
        result.taps.append(tap)
        if tap.status == "wrong" and result.first is None:
            result.first = tap
    if explainer is not None and result.first is not None:
        explainer.tell_apart(result, theirs)


def replayed(
    replayer: Replayer, record: Record, theirs: Candidate, names: Iterable[str]
) -> Iterator[tuple[TapResult, Replay | None, NDArray[Any], int | None]]:
    """Yield those of some taps that the candidate has, held against their replays.

    :returns: the tap; its replay, None where it cannot be replayed; its value; how many last rows of it are known, None
        for all
    """
    layer: int | None = None
    for name in names:
        got = theirs.get(name)
        if got is None:
            continue
        if record.layer(name) != layer:
            layer = record.layer(name)
            replayer.forget()
        tap = TapResult(name, "skipped", layer, record.op(name))
        replay = replayer.replay(name, got)
        if replay is None or replay.value.shape != got.shape:
            tap.notes = ("the candidate lacks what it is made of",)
            yield tap, None, got, None
            continue
        rows = min(filter(None, (replay.rows, theirs.rows.get(name))), default=None)
        got = shifted(got, replay.value) if name in theirs.shifted else got
        assess(tap, replay, got, rows)
        yield tap, replay, got, rows


def assess(tap: TapResult, replay: Replay, got: NDArray[Any], rows: int | None) -> None:
    """Hold a value against its replay."""
    limit, known, want = only_known(replay.limit, rows), only_known(got, rows), only_known(replay.value, rows)
    found = measure(known, want, limit)
    allowed = replay.allowance if found.over and replay.span == "op" else None
    if allowed is not None and allowed.holds(known):
        wider = measure(known, want, allowed.limit.of(None, [], want))
        if not wider.over:
            found, replay.words = wider, allowed.limit.words
            tap.notes = (*tap.notes, allowed.note.format(tap.name))
    tap.measures, tap.limit, tap.reach, tap.flips = found, replay.words, replay.reach, replay.flips
    tap.span = replay.span
    wrong = found.over > 0 or (replay.flips is not None and replay.flips.unexplained > 0 and replay.op == "act_q8")
    if replay.span == "model":
        wrong = found.relative > FAIL.relative or found.not_finite > 0
    tap.status = "wrong" if wrong else "flips" if replay.flips is not None and replay.flips.explained else "ok"
    if replay.span != "op":
        tap.notes = (*tap.notes, f"nothing between {replay.reach[0]} and it was dumped")


def explaining(tap: TapResult, found: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Return what proves that logits of a whole run are wrong although they might be a correct runtime's.

    That is a mistake which gives them exactly, or one that makes them plausible and leaves at most a tenth of the distance.
    """
    far = tap.measures.relative if tap.measures is not None else 0.0
    found = [each for each in found if each.fits != "by pattern"]
    exact = tuple(each for each in found if each.fits == "exactly")
    room = min(NEARLY * far, PLAUSIBLE.relative)
    return exact or tuple(each for each in found if each.remaining is not None and each.remaining <= room)


def first_cause(
    diagnoser: Diagnoser, record: Record, theirs: Candidate, names: Iterable[str]
) -> tuple[str, tuple[Diagnosis, ...]] | None:
    """Return the first of some taps that its own inputs do not give, with the mistakes that explain it exactly.

    Behind a mistake that changes little codes flip in ways that no other run repeats: values that were computed from the
    beginning of a layer then tell nothing, those of one operation do.
    """
    replayer = Replayer(diagnoser.model, record.tokens, theirs, theirs.bfloat16, theirs.rows)
    for tap, replay, got, rows in replayed(replayer, record, theirs, names):
        if replay is not None and tap.status == "wrong" and replay.span != "model":
            found = diagnoser.of_replay(replayer, replay, got, rows)
            exact = tuple(each for each in found if each.fits == "exactly")
            return (tap.name, exact) if exact else None
    return None


def explain_by_replay(
    tap: TapResult, diagnoser: Diagnoser, record: Record, theirs: Candidate, names: Iterable[str]
) -> None:  # fmt: skip
    """Give a wrong tap what explains the first of some taps that is wrong by itself, and say which one that is."""
    found = first_cause(diagnoser, record, theirs, names)
    if found is not None:
        name, diagnoses = found
        tap.diagnoses = (*diagnoses, *tap.diagnoses)
        if name != tap.name:
            tap.notes = (*tap.notes, f"operation by operation {name} is the first that is wrong")


#: Relative error from which on the result of a whole run is held against the mistakes, and the mistakes that another
#: choice of numerics may be: near the right result they are no mistakes.
NEAR: Final = 1e-3
OTHER_NUMERICS: Final = frozenset(
    {
        "activation-four-scales", "activation-blocks", "activation-blocks-32", "activation-blocks-64",
        "activation-blocks-128", "activation-2026", "activation-half-up", "activation-not-quantized", "scale-half",
    }
)  # fmt: skip


class _Explainer:
    """Finds what explains wrong taps: what explained another one of the same word first."""

    def __init__(self, model: Model, replayer: Replayer, shifted: set[str]) -> None:
        self.diagnoser = Diagnoser(model)
        self.replayer, self.shifted = replayer, shifted
        self._found: dict[str, tuple[Diagnosis, ...]] = {}
        self._left = MOST_DIAGNOSED

    def explain(self, tap: TapResult, replay: Replay, got: NDArray[Any], rows: int | None) -> None:
        if tap.status == "wrong":
            tap.diagnoses = tuple(self._of(tap, replay, got, rows))
        elif replay.span == "model" and tap.measures is not None and tap.measures.relative > self._doubted(tap):
            of_this = explaining(tap, self._of(tap, replay, got, rows))
            if tap.measures.relative <= PLAUSIBLE.relative:
                of_this = tuple(each for each in of_this if each.fits == "exactly" and each.name not in OTHER_NUMERICS)
            if of_this:  # correct runtimes are seldom so far apart, and this one is what a mistake gives
                tap.status, tap.diagnoses = "wrong", of_this
        elif tap.op in ("norm", "norm_weight") and tap.measures is not None and tap.measures.ulp > 2 * NORM_ULPS:
            eps = self.diagnoser.of_replay(self.replayer, replay, got, rows, only=EPSILONS)
            exact = tuple(each for each in eps if (each.remaining or 0.0) * 8 < tap.measures.relative)
            if exact:  # within what sums of float32 may be off by, and explained by something else
                tap.status, tap.diagnoses = "wrong", exact

    def _doubted(self, tap: TapResult) -> float:
        """Return the relative error from which on mistakes are tried: of a result, a small one, if passes are short."""
        short = tap.name in WHOLE and len(self.replayer.tokens) * weights_of(self.diagnoser.model) <= MUCH
        return NEAR if short else PLAUSIBLE.relative

    def _of(self, tap: TapResult, replay: Replay, got: NDArray[Any], rows: int | None) -> list[Diagnosis]:
        word = base(tap.name)
        if replay.span == "model" and replay.reach[0] == self.diagnoser.model.graph.nodes[0].name:
            want, tokens = only_known(replay.value, rows), self.replayer.tokens
            pair = Pair(only_known(got, rows), want, 0.0, lambda x: only_known(x, rows), replay.value)
            found = by_running(self.diagnoser, tokens, tap.name, pair, rows is None, tap.name in self.shifted)
            if tap.name in WHOLE and (words := nearest(self.diagnoser, relative(pair.got, want))):
                tap.notes = (*tap.notes, words)
            return found
        known = {each.name for found in self._found.values() for each in found if each.fits == "exactly"}
        seen = self._found.get(word)
        if seen is not None and any(each.fits == "exactly" for each in seen):
            again = self.diagnoser.of_replay(self.replayer, replay, got, rows, only=known)
            if again:
                return again
        if self._left <= 0:
            return self.diagnoser.of_replay(self.replayer, replay, got, rows, only=known)
        self._left -= 1
        found = self.diagnoser.of_replay(self.replayer, replay, got, rows)
        self._found[word] = tuple(found)
        return found

    def tell_apart(self, result: Comparison, theirs: Candidate) -> None:
        """Keep, of several mistakes that explain the first wrong tap, those that explain most of its layer."""
        first = result.first
        if first is not None:
            taps = [tap for tap in result.taps if tap.layer == first.layer and tap.status != "skipped"]
            first.diagnoses = self.diagnoser.tell_apart(
                first.diagnoses, lambda model: self._explained(model, taps, theirs)
            )

    def _explained(self, model: Model, taps: list[TapResult], theirs: Candidate) -> int:
        """How many of some taps are within their limit in a changed model."""
        other = Replayer(model, self.replayer.tokens, theirs, theirs.bfloat16)
        fits = 0
        for tap in taps:
            got, rows = theirs[tap.name], theirs.rows.get(tap.name)
            try:
                replay = other.replay(tap.name, got)
            except (ValueError, IndexError):
                continue
            if replay is None or replay.value.shape != got.shape:
                fits += replay is None  # a value that a graph with the mistake does not have
                continue
            wrong = beyond(only_known(got, rows), only_known(replay.value, rows), only_known(replay.limit, rows))
            fits += not wrong.any()
        return fits
