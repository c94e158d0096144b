"""This module draws what belongs together: who makes and reads a file, how a run is compared, what binds whom, what was
attacked."""

from __future__ import annotations

from collections import Counter
from typing import Final

from i2s_spec.docs.drawings.flow import Arrow, Box, Grid, flow
from i2s_spec.docs.requirements import CLASSES, requirements
from i2s_spec.draw.plot import THINNEST
from i2s_spec.draw.svg import drawing, rect, text
from i2s_spec.linter.explain import find
from i2s_spec.schema.registry.advisories import ADVISORIES


def scope() -> str:
    """Who has to do with a file, and which chapters say what of it."""
    boxes = [
        Box("weights", 0, 0, ("trained weights", "a checkpoint"), "given"),
        Box("writer", 1, 0, ("writer", "chapters 5, 6, 8"), "ternary", CLASSES["writer"]),
        Box("file", 2, 0, ("file", "chapters 2 to 7"), "norm", CLASSES["file"]),
        Box("reader", 3, 0, ("reader", "chapters 2, 5, 12"), "ternary", CLASSES["reader"]),
        Box("runtime", 3, 1, ("runtime", "chapter 9"), "ternary", CLASSES["runtime"]),
        Box("validator", 2, 1, ("validator", "chapters 10, 11"), "ternary", CLASSES["validator"]),
    ]
    arrows = [
        Arrow("weights", "writer"), Arrow("writer", "file"), Arrow("file", "reader"), Arrow("reader", "runtime"),
        Arrow("file", "validator"), Arrow("runtime", "validator"),
    ]  # fmt: skip
    return flow(boxes, arrows, "Whom the specification binds", _classes_in_words())


def _classes_in_words() -> str:
    return "; ".join(f"{name}: {what}" for name, what in CLASSES.items()) + "."


def comparison() -> str:
    """How a run of another runtime is compared with a record, and what comes out of it."""
    boxes = [
        Box("model", 0.5, 0, ("model and token ids", "the same for both"), "given"),
        Box("record", 0, 1, ("i2s golden record", "reference forward pass"), "ternary"),
        Box("dump", 1, 1, ("your runtime", "writes its values"), "sum"),
        Box("taps", 0, 2, ("record", "each tap as it must be"), "norm"),
        Box("theirs", 1, 2, ("dump", "each tap as it is"), "norm"),
        Box("drift", 0, 3, ("drift", "distance tap by tap"), "plain"),
        Box("replay", 1, 3, ("replay", "each step on its own input"), "ternary"),
        Box("verdict", 0.5, 4, ("first wrong tap", "and the known mistake"), "bad"),
    ]
    arrows = [
        Arrow("model", "record"), Arrow("model", "dump"), Arrow("record", "taps"), Arrow("dump", "theirs"),
        Arrow("taps", "drift"), Arrow("theirs", "replay"), Arrow("drift", "verdict"), Arrow("replay", "verdict"),
    ]  # fmt: skip
    more = (
        "The reference forward pass and the runtime compute the same tokens of the same model. Drift compares each tap "
        "with the record; replay computes each step again from what the runtime itself put into it, so that only the step "
        "that is wrong differs. The first wrong tap is tried against the known mistakes."
    )
    return flow(boxes, arrows, "How a run is compared", more, Grid(178, 50, 40, 28))


def claims() -> str:
    """How many requirements bind each class, by MUST and SHOULD."""
    found = requirements()
    counts = {
        name: (
            sum(name in each.binds and each.is_must for each in found),
            sum(name in each.binds and not each.is_must for each in found),
        )
        for name in CLASSES
    }
    rows = [(name, [(must, "c0", "MUST"), (should, "c1", "SHOULD or MAY")]) for name, (must, should) in counts.items()]
    return _bars(rows, "Requirements by whom they bind", "blue: MUST, grey: only SHOULD or MAY")


#: Parts of a file by the beginnings of the codes of rules that look at them.
_PARTS: Final = {
    "header": ("G0", "G1"), "keys and values": ("G2", "M"), "vocabulary and template": ("T", "S2"),
    "tensor infos": ("G3",), "data": ("G4", "I"),
}  # fmt: skip


def attacked() -> str:
    """How many advisories there are on each part of a file."""
    counts: Counter[str] = Counter()
    for advisory in ADVISORIES:
        code = find(advisory.rules[0]).code
        counts[next(part for part, codes in _PARTS.items() if code.startswith(codes))] += 1
    rows = [(part, [(counts[part], "c3", "advisories")]) for part in _PARTS]
    return _bars(
        rows, "Published advisories on readers of GGUF, by part of the file", "number of advisories, section 12.6"
    )


def _bars(rows: list[tuple[str, list[tuple[int, str, str]]]], says: str, below: str) -> str:
    left, wide, high = 194.0, 440.0, 30.0
    most = max(sum(number for number, _, _ in parts) for _, parts in rows)
    marks, words = [], []
    for row, (name, parts) in enumerate(rows):
        y, x = row * high, left
        marks.append(text(0, y + 18, name, "word"))
        for number, style, what in parts:
            length = wide * number / most
            words.append(f"{name}: {number} {what}")
            if number:
                marks.append(rect(x, y + 3, max(length, THINNEST), high - 8, f"band {style}", words[-1]))
            x += length
        marks.append(text(x + 8, y + 18, " + ".join(str(number) for number, _, _ in parts), "kind"))
    marks.append(text(left, len(rows) * high + 16, below, "side"))
    return drawing(
        left + wide + 70, len(rows) * high + 24, says, "; ".join(words) + ".", *marks, style="i2s-figure i2s-bars"
    )
