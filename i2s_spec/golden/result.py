"""This module says what a comparison amounts to: wrong taps by what explains them, and the verdict in one sentence."""

from __future__ import annotations

from i2s_spec.errors import counted, quote
from i2s_spec.golden.replay.result import Comparison, Diagnosis, Group, TapResult
from i2s_spec.model.graph.taps import base


def grouped(result: Comparison) -> list[Group]:
    """Wrong taps of one word that one diagnosis explains, in the order of their first."""
    found: dict[tuple[str, str], list[TapResult]] = {}
    for tap in result.taps:
        if tap.status == "wrong":
            name = tap.diagnoses[0].name if tap.diagnoses else ""
            found.setdefault((name, _word(tap)), []).append(tap)
    groups = []
    for taps in found.values():
        diagnosis: Diagnosis | None = taps[0].diagnoses[0] if taps[0].diagnoses else None
        layers = tuple(tap.layer for tap in taps if tap.layer is not None)
        groups.append(Group(diagnosis, _word(taps[0]), tuple(tap.name for tap in taps), layers))
    return groups


def _word(tap: TapResult) -> str:
    """The name of a tap without its layer: of the inside of a projection with the tensor."""
    word = base(tap.name)
    if tap.name.startswith("blk."):
        return tap.name.split(".", 2)[2]
    mark, number = tap.name.partition("#")[1:]
    return f"{word}{mark}{number}"


def group_words(group: Group) -> str:
    """A group in words: `ffn_gate in 30 layers: everything is doubled`."""
    where = group.word
    if len(group.layers) > 1:
        where = f"{group.word} in {counted(len(group.layers), 'layer')} ({_ranges(group.layers)})"
    elif len(group.taps) == 1:
        where = group.taps[0]
    why = group.diagnosis.name if group.diagnosis is not None else "no known mistake explains it"
    return f"{quote(where, bare=True)}: {why}"


def _ranges(layers: tuple[int, ...]) -> str:
    """Numbers with runs of them shortened: 0-2, 5."""
    parts: list[str] = []
    start = last = layers[0]
    for number in (*layers[1:], None):
        if number is not None and number == last + 1:
            last = number
            continue
        parts.append(str(start) if start == last else f"{start}-{last}")
        if number is not None:
            start = last = number
    return ", ".join(parts)


def sentence(result: Comparison) -> tuple[bool, str]:
    """Whether nothing is wrong, and one sentence that says so."""
    compared = result.counted("ok", "flips", "wrong", "behind")
    if not compared and (shapes := result.counted("shape")):
        what = "the one tap" if shapes == 1 else f"each of the {counted(shapes, 'tap')}"
        return False, f"nothing could be compared: {what} of the candidate that the record knows is of another shape"
    if not compared:
        return False, "nothing could be compared: no tap of the candidate is one of the record's"
    if result.first is None:
        failed = result.whole is not None and result.whole.verdict == "fail"
        if failed and result.mode == "free-running":
            return False, f"{result.whole.name if result.whole else ''} is too far from the record's"
        flips = sum(tap.flips.explained for tap in result.taps if tap.flips is not None and tap.status == "flips")
        explained = f"; {counted(flips, 'flipped code')}, all explained by rounding" if flips else ""
        far = sum(tap.span == "model" for tap in result.taps if tap.status in ("ok", "flips"))
        alone = result.mode == "op-replay" and far == compared
        if result.whole is not None and result.whole.verdict == "doubtful" and (alone or result.mode == "free-running"):
            far_off = f"{result.whole.name} is {result.whole.relative:.2g} from the record's"
            return True, (
                f"nothing is certainly wrong, but {far_off}, which is further than correct runtimes usually are; "
                "more taps, or op-replay, would decide"
            )
        if alone:
            what = "the one tap" if far == 1 else f"each of {counted(far, 'tap')}"
            near = "it differs from the reference no more than correct runtimes do; more taps would prove more"
            return True, f"{what} that could be compared is plausible: {near}"
        how = {
            "op-replay": "right on its own inputs",
            "layer-forced": "right in its layer",
            "free-running": "plausible: it differs from the record no more than correct runtimes do",
        }[result.mode]
        each = f"each of {counted(compared, 'tap')}" if compared > 1 else "the one tap that was compared"
        return True, f"{each} is {how}{explained}"
    return (
        False,
        f"the first wrong tap is {quote(result.first.name, bare=True)}{_strange(result.first)}: {_cause(result.first)}",
    )


def _strange(tap: TapResult) -> str:
    """How many elements of a tap are not numbers; nothing where all are."""
    found = tap.measures
    if found is None or not found.not_finite:
        return ""
    many = "all" if found.not_finite == found.elements else f"{found.not_finite:,} of {found.elements:,}"
    return (
        f", {many} of whose elements are NaN or infinite"
        if many == "all"
        else f", with {many} elements NaN or infinite"
    )


def _cause(tap: TapResult) -> str:
    """What explains a tap: all mistakes that do it exactly, or what comes nearest."""
    exact = [each for each in tap.diagnoses if each.fits == "exactly"]
    if exact:
        return "; or ".join(f"{each.says} [{each.name}]" for each in exact)
    if not tap.diagnoses:
        return "no known mistake explains it"
    first = tap.diagnoses[0]
    if first.fits == "by pattern":
        more = f"; it may be this: {tap.diagnoses[1].says} [{tap.diagnoses[1].name}]" if _goes_on(tap) else ""
        return f"{first.says} [{first.name}]{more}"
    return f"most likely {first.says} [{first.name}], which leaves a relative error of {first.remaining or 0:.2g}"


def _goes_on(tap: TapResult) -> bool:
    """Whether what comes first is only that there are NaN, and a pattern behind it says where they may come from."""
    first, *others = tap.diagnoses
    return first.name == "not-finite" and bool(others) and others[0].fits == "by pattern"
