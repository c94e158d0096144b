"""The result of a comparison: the status of each tap, the groups of wrong taps, and the verdict (clause 10.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from i2s_spec.errors import counted, line, quote, table
from i2s_spec.golden.code_flips import Flips
from i2s_spec.golden.metrics import Measures
from i2s_spec.model.graph import base

SCHEMA_VERSION: Final = 1

Mode = Literal["op-replay", "layer-forced", "free-running"]
MODES: Final = ("op-replay", "layer-forced", "free-running")

#: What can become of a tap.
#:
#: ok         within its limit
#: flips      within its limit, but for codes that flipped at a rounding boundary, all of them explained
#: wrong      beyond its limit
#: behind     beyond its limit, and behind a wrong one that explains it: only where errors travel
#: missing    the candidate does not have it
#: extra      the record does not have it
#: shape      of a shape that cannot be brought into the record's
#: skipped    not comparable: nothing to hold it against
Status = Literal["ok", "flips", "wrong", "behind", "missing", "extra", "shape", "skipped"]


@dataclass(frozen=True)
class Diagnosis:
    """What explains a wrong value.

    :param name: of a known mistake, or of a pattern
    :param says: one sentence
    :param remaining: relative L2 error that is left with it; None where it cannot be computed
    :param fits: `exactly`: the value is within its limit then; `nearly`; `by pattern`: the numbers look like it
    :param seen: where it was met
    """

    name: str
    says: str
    fits: Literal["exactly", "nearly", "by pattern"]
    remaining: float | None = None
    seen: str = ""


@dataclass
class TapResult:
    """What became of one tap.

    :param other: the candidate's name, where it is another
    :param notes: what was done to it or is remarkable: transposed, the last row only, a corner
    :param reach: the operations that were replayed together
    :param span: how far back that goes: one `op`, a `layer`, or the `model`, where little more than plausibility is shown
    :param limit: the limit in words
    :param drift: relative L2 distance from the record's value, whatever the mode
    """

    name: str
    status: Status
    layer: int | None = None
    op: str = ""
    other: str | None = None
    notes: tuple[str, ...] = ()
    measures: Measures | None = None
    limit: str = ""
    reach: tuple[str, ...] = ()
    span: Literal["op", "layer", "model"] = "op"
    flips: Flips | None = None
    drift: float | None = None
    diagnoses: tuple[Diagnosis, ...] = ()


@dataclass(frozen=True)
class Group:
    """Wrong taps that one thing explains.

    :param word: the name without layer
    :param layers: of the taps; empty where they are in none
    """

    diagnosis: Diagnosis | None
    word: str
    taps: tuple[str, ...]
    layers: tuple[int, ...]


@dataclass(frozen=True)
class Whole:
    """Logits or embedding of the candidate beside the record's.

    :param verdict: `plausible`, `doubtful` or `fail`
    :param same_top: share of tokens with the same most probable next token; None of embeddings
    :param divergence: mean KL divergence; None of embeddings
    """

    name: str
    verdict: Literal["plausible", "doubtful", "fail"]
    relative: float
    cosine: float
    same_top: float | None = None
    divergence: float | None = None


@dataclass
class Agreement:
    """How far a dump agrees with what it was held against, to the last digit that is shown.

    :param exact: tensors that agree before the first that does not
    :param compared: how many there are
    :param first: the first that does not agree
    :param how: what becomes of that one: `flips`, whole steps of a code; `rounding`; `wrong`; `not-whole`, wrong because
        they are no whole steps
    """

    exact: int = 0
    compared: int = 0
    first: str | None = None
    how: Literal["", "flips", "rounding", "wrong", "not-whole"] = ""

    def count(self, name: str, agrees: bool) -> None:
        """Count a tensor, in the order of computation."""
        self.compared += 1
        if not agrees and self.first is None:
            self.first = name
        self.exact += self.first is None

    def explain(self, name: str, how: Literal["flips", "rounding", "wrong", "not-whole"]) -> None:
        """Say what explains a tensor, if it is the first that does not agree."""
        if name == self.first:
            self.how = how


@dataclass(repr=False)
class Comparison:
    """What a comparison gives.

    :param ok: nothing is wrong, and something was compared
    :param verdict: one sentence
    :param taps: in the order of computation
    :param first: the first wrong tap
    :param drift: of each layer the relative L2 distance of what leaves it, and its cosine
    :param header: of the record
    """

    mode: Mode
    golden: str
    candidate: str
    form: str
    profile: str
    ok: bool = False
    verdict: str = ""
    taps: list[TapResult] = field(default_factory=list)
    first: TapResult | None = None
    groups: list[Group] = field(default_factory=list)
    drift: list[tuple[int, float, float]] = field(default_factory=list)
    whole: Whole | None = None
    notes: list[str] = field(default_factory=list)
    header: dict[str, Any] = field(default_factory=dict)
    agreement: Agreement | None = None

    def counted(self, *statuses: Status) -> int:
        """How many taps have one of some statuses."""
        return sum(tap.status in statuses for tap in self.taps)

    @property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        """What explains the first wrong tap, the likeliest first."""
        return self.first.diagnoses if self.first is not None else ()

    def __repr__(self) -> str:
        state = "ok" if self.ok else "not ok"
        return line(
            "Comparison", self.candidate, f"{state}, {counted(len(self.taps), 'tensor')}, {self.mode}; {self.verdict}"
        )

    def _repr_html_(self) -> str:
        """Return the comparison for a notebook: the verdict, and the first taps that are not right."""
        facts: list[tuple[str, Any]] = [
            ("record", self.golden), ("candidate", self.candidate), ("mode", self.mode), ("profile", self.profile),
            ("tensors that are right", self.counted("ok", "flips")), *(("note", each) for each in self.notes[:5]),
        ]  # fmt: skip
        others = [tap for tap in self.taps if tap.status not in ("ok", "flips")]
        rows = ((tap.name, tap.status, "; ".join(each.says for each in tap.diagnoses[:1]), tap.limit) for tap in others)
        return table(self.verdict, facts, ("tensor", "status", "diagnosis", "limit"), rows, len(others))

    def __getitem__(self, name: str) -> TapResult:
        """Return the result of a tap by its name."""
        found = next((tap for tap in self.taps if tap.name == name), None)
        if found is None:
            raise KeyError(name)
        return found


# --- summary ---------------------------------------------------------------------------------------------------------
# Wrong taps are grouped by what explains them, and the verdict is one sentence.


def grouped(result: Comparison) -> list[Group]:
    """Return the groups of wrong taps of one word that one diagnosis explains, in the order of their first."""
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
    """Return the name of a tap without its layer: of the inside of a projection with the tensor."""
    word = base(tap.name)
    if tap.name.startswith("blk."):
        return tap.name.split(".", 2)[2]
    mark, number = tap.name.partition("#")[1:]
    return f"{word}{mark}{number}"


def group_words(group: Group) -> str:
    """Return a group in words: `ffn_gate in 30 layers: everything is doubled`."""
    where = group.word
    if len(group.layers) > 1:
        where = f"{group.word} in {counted(len(group.layers), 'layer')} ({_ranges(group.layers)})"
    elif len(group.taps) == 1:
        where = group.taps[0]
    why = group.diagnosis.name if group.diagnosis is not None else "no known mistake explains it"
    return f"{quote(where, bare=True)}: {why}"


def _ranges(layers: tuple[int, ...]) -> str:
    """Return numbers in words, with runs of them shortened: 0-2, 5."""
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
    """Return whether nothing is wrong, and a sentence about it."""
    compared = result.counted("ok", "flips", "wrong", "behind")
    if not compared and (shapes := result.counted("shape")):
        what = "the one tensor" if shapes == 1 else f"each of the {counted(shapes, 'tensor')}"
        return False, f"nothing could be compared: {what} of the candidate that the record knows is of another shape"
    if not compared:
        return False, "nothing could be compared: no tensor of the candidate is one of the record's"
    if result.first is None:
        failed = result.whole is not None and result.whole.verdict == "fail"
        flips = sum(tap.flips.explained for tap in result.taps if tap.flips is not None and tap.status == "flips")
        explained = f"; {counted(flips, 'flipped code')}, all explained by rounding" if flips else ""
        far = sum(tap.span == "model" for tap in result.taps if tap.status in ("ok", "flips"))
        alone = result.mode == "op-replay" and far == compared
        free = alone or result.mode == "free-running"
        nearest = "" if result.whole is None else _nearest(result[result.whole.name])
        if failed and free and result.whole is not None:
            return False, f"{_apart(result.whole)}, which is further than correct runtimes are{nearest}"
        if result.whole is not None and result.whole.verdict == "doubtful" and free:
            return True, (
                f"doubtful: {_apart(result.whole)}, which is further than correct runtimes usually are; "
                f"more tensors, or op-replay, would decide{nearest}"
            )
        if alone:
            what = "the one tensor" if far == 1 else f"each of {counted(far, 'tensor')}"
            near = "it differs from the reference no more than correct runtimes do; more tensors would prove more"
            return True, f"{what} that could be compared is plausible: {near}"
        if result.mode == "free-running" and result.agreement is not None and result.agreement.compared:
            further = ", and what is behind it is no further off than in correct runtimes"
            return True, f"{agreement_words(result)}{further if result.agreement.first is not None else ''}"
        how = {"op-replay": "right on its own inputs", "layer-forced": "right in its layer"}
        each = f"each of {counted(compared, 'tensor')}" if compared > 1 else "the one tensor that was compared"
        near = "plausible: it differs from the record no more than correct runtimes do"
        return True, f"{each} is {how.get(result.mode, near)}{explained}"
    return (
        False,
        f"the first wrong tensor is {quote(result.first.name, bare=True)}{_strange(result.first)}: {_cause(result.first)}",
    )


def _apart(whole: Whole) -> str:
    """Return how far a result is from the record's, in every measure, in words."""
    words = f"{whole.name} has a relative error of {whole.relative:.2g}"
    if whole.same_top is None or whole.divergence is None:
        return words
    same = f"the same most probable token for {whole.same_top:.0%} of the tokens"
    return f"{words}, {same}, and a KL divergence of {whole.divergence:.2g}"


def _nearest(tap: TapResult) -> str:
    """Return the mistakes that were tried on a result, in words, if any were."""
    return next((f"; {note}" for note in tap.notes if " comes nearest: " in note), "")


#: What becomes of the first tensor that does not agree.
_HOWS: Final = {
    "": "its shown inputs give it, to the last digit of theirs", "flips": "by whole steps of a code (flips)",
    "rounding": "by no more than rounding does", "wrong": "by more than rounding does (wrong)",
    "not-whole": "not by whole steps of a code (wrong)",
}  # fmt: skip


def agreement_words(result: Comparison) -> str:
    """How many tensors agree to the last digit, and what becomes of the first that does not; empty where nobody counted."""
    found = result.agreement
    if found is None or not found.compared:
        return ""
    digit = "printed digit" if result.form == "text" else "digit of float32"
    agree = "tensor agrees" if found.compared == 1 else "tensors agree"
    words = f"{found.exact:,} of {found.compared:,} {agree} to the last {digit} under {result.profile}"
    if found.first is None:
        return words
    return f"{words}; the first that does not is {quote(found.first, bare=True)}: {_HOWS[found.how]}"


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
    """Return what explains a tap, in words: all mistakes that do it exactly, or what comes nearest."""
    exact = [each for each in tap.diagnoses if each.fits == "exactly"]
    if exact:
        return "; or ".join(f"{each.says} [{each.name}]" for each in exact)
    if not tap.diagnoses:
        return f"no known mistake explains it{_nearest(tap)}"
    first = tap.diagnoses[0]
    if first.fits == "by pattern":
        more = f"; it may be this: {tap.diagnoses[1].says} [{tap.diagnoses[1].name}]" if _goes_on(tap) else ""
        return f"{first.says} [{first.name}]{more}"
    return f"most likely {first.says} [{first.name}], which leaves a relative error of {first.remaining or 0:.2g}"


def _goes_on(tap: TapResult) -> bool:
    """Whether what comes first is only that there are NaN, and a pattern behind it says where they may come from."""
    first, *others = tap.diagnoses
    return first.name == "not-finite" and bool(others) and others[0].fits == "by pattern"
