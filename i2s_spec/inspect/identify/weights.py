"""This module puts what the weights tell of their layout into the question about the layout, and into plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from i2s_spec.draw.text import json_string
from i2s_spec.errors import counted, quote
from i2s_spec.inspect.evidence.hypotheses import named
from i2s_spec.inspect.evidence.pairs import pair_order
from i2s_spec.inspect.evidence.zeros import zero_channels
from i2s_spec.inspect.identify.evidence import PROOF, STRONG, Question, QuestionCase
from i2s_spec.schema.dialect import CANONICAL

if TYPE_CHECKING:
    from i2s_spec.inspect.evidence.decision import Decision
    from i2s_spec.inspect.evidence.layout_evidence import LayoutEvidence

#: Tensors of a mixed file that a text names.
NAMED = 4


def weigh_weights(case: QuestionCase, found: LayoutEvidence) -> None:
    """What the weights say for and against each layout; nothing where they decide nothing."""
    decided, whole = found.decided, found.whole
    if decided is None:
        return
    many = f"{counted(whole.freedom, 'comparison')} over {counted(found.layers, 'layer')}"
    best = whole.sums[decided.name]
    for name in case.names:
        score = whole.sums.get(name)
        if score is None:
            continue
        if name == decided.name:
            text = f"{many} of its weights score {score:,.0f}, and {best - whole.margin:,.0f} in the next best layout"
            case.favour(name, text, PROOF)
        else:
            case.against(name, f"in this layout its weights score {score:,.0f}; in {decided.name} {best:,.0f}", PROOF)


def undecided(found: LayoutEvidence) -> str:
    """Why the weights decide nothing; empty where they do."""
    if found.mixed:
        others = [f"{quote(one.matrix.name)} is {one.decision.name}" for one in found.otherwise(found.usual or "")]
        more = f", and {len(others) - NAMED} more" if len(others) > NAMED else ""
        return f"its tensors are mixed: most are {found.usual}, but {', '.join(others[:NAMED])}{more}"
    if found.decided is None:
        whole = found.whole
        if whole.margin >= whole.wanted:
            return "trained weights, but in this file gains and Gram matrices contradict each other"
        return (
            "trained weights, but those of this file show no layout, like random weights (the score "
            f"of the best layout leads by {whole.margin:.0f}; {whole.wanted:.0f} is needed)"
        )
    return "" if found.decided.plain else f"its weights are laid out as {found.decided.name}"


def reconsidered(question: Question, found: LayoutEvidence) -> Question:
    """The question about the layout, where the weights leave it open and say why."""
    why = undecided(found)
    if not why:
        return question
    if found.decided is None and not found.mixed:
        tell = f"{why}; {question.would_tell}"
        return question._replace(would_tell=tell) if question.answer is None else question
    case = QuestionCase([(each.name, each.title) for each in question.hypotheses])
    for name in case.names:
        case.against(name, why, STRONG)
    return case.question(question.name, question.text, f"{why}; what else would decide: {question.would_tell}")


def rotation(found: LayoutEvidence) -> Question | None:
    """Which rows of queries and keys are rotated together; None where the weights do not tell."""
    pairs = pair_order(found)
    if pairs.order is None:
        return None
    case = QuestionCase([("neox", "rows in the two halves of a head"), ("norm", "rows beside each other")])
    sums = f"{pairs.halves:,.0f} for the halves of a head and {pairs.neighbors:,.0f} for neighboring rows"
    text = (
        f"the densities of rows show it: "
        f"{counted(pairs.comparisons, 'comparison scores', 'comparisons score')} {sums}; chance gives {pairs.wanted:.0f}"
    )
    case.favour(pairs.order, text, STRONG)
    return case.question("rotation", "Which rows of queries and keys are rotated together?", "a text: --likelihood")


def as_dict(found: LayoutEvidence) -> dict[str, Any]:
    """The evidence as plain data."""
    return {
        "layout": found.decided.name if found.decided is not None else None,
        "mixed": found.mixed,
        "layers": found.layers,
        "file": _decision(found.whole),
        "profiles": _decision(found.profiles),
        "grams": _decision(found.grams),
        "pairs": _pairs(found),
        "zero_channels": [
            {**each._asdict(), "score": round(each.score, 3)}
            for each in zero_channels(found.counts, found.decided or named(CANONICAL.layout.name))
        ],
        "tensors": [{"name": json_string(one.matrix.name), **_decision(one.decision)} for one in found.tensors],
        "comparisons": [
            {"tensor": json_string(one.matrix.name), "text": one.text, "scores": _rounded(one.scores[True])}
            for one in found.comparisons
        ],
    }


def _pairs(found: LayoutEvidence) -> dict[str, Any]:
    pairs = pair_order(found)
    return {
        "order": pairs.order,
        "halves": round(pairs.halves, 3),
        "neighbors": round(pairs.neighbors, 3),
        "wanted": round(pairs.wanted, 3),
        "comparisons": pairs.comparisons,
    }


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "decided": decision.name,
        "best": decision.best,
        "margin": round(decision.margin, 3),
        "wanted": round(decision.wanted, 3),
        "comparisons": decision.freedom,
        "scores": _rounded(decision.sums),
    }


def _rounded(scores: Any) -> dict[str, float]:
    return {name: round(score, 3) for name, score in scores.items()}


__all__ = ["as_dict", "reconsidered", "rotation", "undecided", "weigh_weights"]
