"""This module puts the outcome of a race into words, and into plain data as identify.schema.json describes it."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.draw.terminal import Line, Piece
from i2s_spec.errors import counted

if TYPE_CHECKING:
    from i2s_spec.model.likelihood.measure import Likelihood, Standing

#: How many hypotheses are listed by default.
SHOWN: Final = 8

RIGHT, WRONG, UNDECIDED = "right", "wrong", "undecided"


def verdict(found: Likelihood) -> str:
    """The verdict: `right` if the unchanged model predicts the text best, `wrong` if it certainly does not."""
    if found.wrong:
        return WRONG
    leads = found.predicts and found.standings[0].name == "as it is"
    return RIGHT if leads else UNDECIDED


def as_dict(found: Likelihood) -> dict[str, Any]:
    """The outcome as plain data."""
    return {
        "verdict": verdict(found),
        "answer": found.answer,
        "undecided": [each.name for each in found.remaining] if found.answer is None else [],
        "margin": round(found.margin, 3),
        "chance": round(found.chance, 4),
        "dialect": found.dialect or None,
        "tokens": found.tokens,
        "hypotheses": [
            {
                "name": each.name,
                "title": each.title,
                "loss": _finite(each.loss),
                "tokens": each.tokens,
                "behind": _finite(each.nats),
                "sigmas": _finite(each.sigmas),
                "dropped": each.lost or None,
            }
            for each in found.standings
        ],
        "not_tried": found.not_tried or None,
        "why_not": found.why_not or None,
    }


def _finite(value: float) -> float | None:
    return round(value, 4) if isfinite(value) else None


def sentence(found: Likelihood) -> str:
    """The verdict in words."""
    if found.why_not:
        return f"cannot tell: {found.why_not}"
    best, left = found.standings[0], [each.name for each in found.remaining]
    if not found.predicts:
        return (
            "undecided: under no hypothesis does the model predict the text better than the frequency of its tokens; "
            "it was not trained, or something else is wrong"
        )
    also = f"; the text does not distinguish {_listed(left[1:])} from it" if left[1:] else ""
    if verdict(found) == RIGHT:
        return f"no hypothesis is better: the unchanged model predicts the text best{also}"
    if verdict(found) == WRONG:
        return f"{best.name}: {best.title}{also}"
    return f"undecided between {_listed(left)}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def lines(found: Likelihood, everything: bool = False) -> Iterator[Line]:
    """The outcome as text.

    :param everything: all hypotheses, not only the best
    """
    style = {RIGHT: "green", WRONG: "red"}.get(verdict(found), "yellow")
    yield [Piece("Does it predict text as it should?", "bold"), Piece("  "), Piece(sentence(found), style)]
    if found.why_not:
        return
    read = f"read as {found.dialect}, " if found.dialect else ""
    yield [Piece(f"  {read}{counted(found.tokens, 'token')}; by the frequency of tokens {found.chance:.3f}", "dim")]
    if found.not_tried:
        yield [Piece(f"  not tried: {found.not_tried}", "dim")]
    yield [Piece(f"  {'nats a token':>12}  {'tokens':>6}  {'behind by':>10}  {'sigmas':>6}  hypothesis", "dim")]
    shown = found.standings if everything else found.standings[:SHOWN]
    for each in shown:
        yield [Piece(f"  {_row(each)}")]
    left = found.standings[len(shown) :]
    if left:
        behind = ", all of them behind" if all(each.lost for each in left) else ""
        yield [Piece(f"  and {len(left)} more{behind}; -v shows them", "dim")]


def _row(each: Standing) -> str:
    loss = f"{each.loss:.3f}" if isfinite(each.loss) else "-"
    nats, sigmas = (f"{value:,.1f}" if isfinite(value) else "-" for value in (each.nats, each.sigmas))
    why = (
        f" ({each.lost})"
        if each.lost.startswith("it")
        else ""
        if each.lost
        else " (not distinguished)"
        if each.nats
        else ""
    )
    return f"{loss:>12}  {each.tokens:>6,}  {nats:>10}  {sigmas:>6}  {each.name}{why}"
