"""This module defines what a comparison gives: of each tap what became of it, and what it amounts to (clause 10.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from i2s_spec.errors import counted
from i2s_spec.golden.metrics import Measures
from i2s_spec.golden.replay.code_flips import Flips

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

    def counted(self, *statuses: Status) -> int:
        """How many taps have one of some statuses."""
        return sum(tap.status in statuses for tap in self.taps)

    @property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        """What explains the first wrong tap, the likeliest first."""
        return self.first.diagnoses if self.first is not None else ()

    def __repr__(self) -> str:
        from i2s_spec.display import line

        state = "ok" if self.ok else "not ok"
        return line(
            "Comparison", self.candidate, f"{state}, {counted(len(self.taps), 'tap')}, {self.mode}; {self.verdict}"
        )

    def _repr_html_(self) -> str:
        """The comparison for a notebook: the verdict, and the first taps that are not right."""
        from i2s_spec.display import table

        facts: list[tuple[str, Any]] = [
            ("record", self.golden), ("candidate", self.candidate), ("mode", self.mode), ("profile", self.profile),
            ("taps that are right", self.counted("ok", "flips")), *(("note", each) for each in self.notes[:5]),
        ]  # fmt: skip
        others = [tap for tap in self.taps if tap.status not in ("ok", "flips")]
        rows = ((tap.name, tap.status, "; ".join(each.says for each in tap.diagnoses[:1]), tap.limit) for tap in others)
        return table(self.verdict, facts, ("tap", "status", "diagnosis", "limit"), rows, len(others))

    def __getitem__(self, name: str) -> TapResult:
        """The result of a tap by its name."""
        found = next((tap for tap in self.taps if tap.name == name), None)
        if found is None:
            raise KeyError(name)
        return found
