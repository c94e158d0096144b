"""This module writes the page that holds against each other how models are packed and how their weights say that they are.

Gram matrices are products of floats, which other machines add in another order. So a number in a table of the page that
differs from the new one by a thousandth, or by one in its last place, is the same number: the page is then current.
"""

from __future__ import annotations

import re
from typing import Final

from i2s_spec.docs.layouts.matrix import MODELS, PACKED, Confusion, code_maps, confusion
from i2s_spec.docs.runtimes import table
from i2s_spec.draw.heat_map import HeatCell, heat_map
from i2s_spec.schema.dialect import CODE_MAPS

#: Last line of the page; it is never edited.
MARK: Final = "<!-- Written by i2s_spec.docs.layouts from the trained models: run `i2s spec write`. -->\n"

#: The score that is drawn deepest in every picture.
DEEPEST: Final = 110_000.0

#: The layout in which channels are shown.
SHOWN: Final = "interleave-64"

_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")

_INTRODUCTION: Final = """\
# Layouts found from weights

A file does not state its layout, but trained weights show it ([section
7.7](07-dialects.md#77-deciding-by-the-weights-themselves)). To show how well, the trained models that come with the
package were packed in each layout, and `i2s identify` looked at each file without being told its layout. A layout gets
a score. For random weights the score is a sum of squared normal numbers, about as large as the number of comparisons.
The answer is the layout that leads every other one (and every accident of section 7.7, such as swapped words) by more
than the lead that decides. If no layout does, it is undecided.

Below each table is one of the comparisons for the file in `interleave-64`. Each point is a channel: its rank by one profile,
such as the gains of a norm, and by the share of weights that are not 0 in the columns that it must agree with. In the right
layout the points lie along a line. `i2s lint --report html=FILE` draws this for every file. Every number on this page was
computed by `i2s spec write`. The tutorial [Which layout is my file in?](tutorials/layout.md) shows the commands.
"""

_LAYERS: Final = """\
## Codes and scales by layer

The report also draws codes and scales by layer; here those of `stories`, whose weights are balanced in every layer.

```i2s-layouts
layers stories
```
"""

_CODE_MAPS: Final = """\
## Code maps

Balance shows the code map: in trained weights -1 and +1 occur about equally often. `stories` was packed with each code map.
A number gives the difference between the counts of the two codes for -1 and +1, in standard deviations. *No* means that
the code map is impossible, because its unused code occurs.
"""


def page(before: str = "") -> str:
    """The page; what it was before, where nothing but the last digits of scores differs.

    :param before: the page as it is
    """
    parts = [_INTRODUCTION]
    for name in MODELS:
        found = confusion(name)
        parts += [
            f"## {name.capitalize()}",
            "",
            f"{found.title[0].upper()}{found.title[1:]}: {found.layers} layers, {found.comparisons} comparisons.",
            "",
            f"```i2s-layouts\nmatrix {name}\n```",
            "",
            _table(found),
            f"```i2s-layouts\nchannels {name} {SHOWN}\n```",
            "",
        ]
    parts += [_LAYERS]
    return stable_text(before, "\n".join([*parts, _CODE_MAPS, _code_map_table(), MARK]))


def _table(found: Confusion) -> str:
    head = ["packed as", "answer", "best score", "next best", "its score", "lead", "lead that decides"]
    rows = []
    for row in found.rows:
        best, second = sorted(row.sums, key=lambda name: -row.sums[name])[:2]
        numbers = (f"{each:,.0f}" for each in (row.sums[second], row.margin, row.wanted))
        answer = "undecided" if row.answer is None else f"**`{row.answer}`**"
        rows.append([f"`{row.packed}`", answer, f"{row.sums[best]:,.0f}", f"`{second}`", *numbers])
    return table(head, rows)


def _code_map_table() -> str:
    head = ["packed with", "codes 0 to 3", *(f"read with `{name}`" for name in CODE_MAPS), "answer"]
    rows = [
        [
            f"`{row.packed}`",
            ", ".join(f"{count:,}" for count in row.counts),
            *(_sigma(row.sigmas[name], name == row.answer) for name in CODE_MAPS),
            f"`{row.answer}`",
        ]
        for row in code_maps("stories")
    ]
    return table(head, rows)


def _sigma(sigma: float | None, bold: bool) -> str:
    return "no" if sigma is None else _bold(f"{sigma:,.1f}", bold)


def _bold(words: str, whether: bool) -> str:
    return f"**{words}**" if whether else words


def stable_text(before: str, after: str) -> str:
    """The text before, if all that differs are numbers of tables, by a thousandth or by one; else the text after.

    >>> stable_text("| 2,000 |", "| 2,001 |"), stable_text("| 2,000 |", "| 2,100 |"), stable_text("7 layers", "8 layers")
    ('| 2,000 |', '| 2,100 |', '8 layers')
    """
    old, new = before.splitlines(), after.splitlines()
    if len(old) != len(new):
        return after
    same = all(
        one == other or (one.startswith("|") and _close(one, other)) for one, other in zip(old, new, strict=True)
    )
    return before if same else after


def _close(one: str, other: str) -> bool:
    if _NUMBER.sub("#", one) != _NUMBER.sub("#", other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return all(abs(x - y) <= max(1, x / 1000) for x, y in ((_value(a), _value(b)) for a, b in pairs))


def _value(words: str) -> float:
    return float(words.replace(",", ""))


def picture(name: str) -> str:
    """The scores of a model as a picture, SVG.

    :raises ValueError: for a model that there is not
    """
    if name not in MODELS:
        raise ValueError(f"no model is called {name!r}; there are {', '.join(MODELS)}")
    found = confusion(name)
    cells = [
        [
            HeatCell(
                row.sums[each],
                f"{row.sums[each]:,.0f}",
                each == row.answer,
                f"packed as {row.packed}, read as {each}: score {row.sums[each]:,.0f}",
            )
            for each in PACKED
        ]
        for row in found.rows
    ]
    answers = [row.answer for row in found.rows]
    right = sum(row.answer == row.packed for row in found.rows)
    more = (
        "No layout is decided."
        if not any(answers)
        else f"The framed cell of each row is the answer; {right} of {len(answers)} are how the file is packed."
    )
    return heat_map(
        PACKED,
        PACKED,
        cells,
        f"Scores of {name} by layout",
        more,
        across="read as",
        down="packed as",
        pale=found.comparisons,
        deepest=DEEPEST,
    )
