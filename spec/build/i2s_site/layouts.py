"""The page of layouts found from weights: each trained model in each layout, and what its weights answer.

A model of random weights is asked as well: its layout must stay undecided. `confusion` and `code_maps` ask, `page`
writes the page, `picture`, `channels` and `layers` draw what its fences show.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_site.runtimes import table
from i2s_spec.convert.trained import write_trained
from i2s_spec.draw.chart import HeatCell, heat_map
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource
from i2s_spec.layout_inference.counts import likely_code_map, sigma
from i2s_spec.linter.engine import lint
from i2s_spec.linter.report.html import gather
from i2s_spec.linter.report.html_pictures import layer_plots, rank_plots
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS

if TYPE_CHECKING:
    from i2s_spec.layout_inference.evidence import LayoutEvidence


#: The layouts that files have.
PACKED: Final = tuple(layout.name for layout in LAYOUTS.values() if layout.in_gguf)


class Asked(NamedTuple):
    """A model packed in one layout: its score as each hypothesis, the lead of the best, what decides, the answer."""

    packed: str
    sums: dict[str, float]
    margin: float
    wanted: float
    answer: str | None


class Confusion(NamedTuple):
    """A model in all layouts: its name, what it is, how many comparisons were made over how many layers, the rows."""

    name: str
    title: str
    comparisons: int
    layers: int
    rows: tuple[Asked, ...]


class Balanced(NamedTuple):
    """A model packed with one code map: how often each code occurs, how far from balance the codes are that each code map
    has for -1 and +1 (standard deviations; None where the code that it leaves unused occurs), and the answer.
    """

    packed: str
    counts: tuple[int, ...]
    sigmas: dict[str, float | None]
    answer: str


def _trained(architecture: str) -> Callable[[str], bytes]:
    def packed(dialect: str) -> bytes:
        out = io.BytesIO()
        write_trained(out, architecture, dialect=dialect)
        return out.getvalue()

    return packed


def _random(layout: str) -> bytes:
    """Return a model of the widths of `stories`, with half of its layers, as `i2s new` writes it."""
    from i2s_spec.convert.convert_file import convert_file
    from i2s_spec.convert.new import new

    made, out = io.BytesIO(), io.BytesIO()
    new(made, "bitnet-b1.58", layers=2, embd=256, ff=384, heads=4, heads_kv=2)
    with open_file(BufferSource(made.getvalue())) as file:
        convert_file(file, out, to=layout)
    return out.getvalue()


#: The models that are asked: what each is, and its file in a layout.
MODELS: Final[dict[str, tuple[str, Callable[[str], bytes]]]] = {
    "stories": ("the trained `bitnet-b1.58` that comes with the package", _trained("bitnet-b1.58")),
    "llama": ("the trained `llama` that comes with the package, without sub-norms", _trained("llama")),
    "random": ("a model of random weights, as `i2s new` writes it", _random),
}


def evidence(name: str, layout: str) -> LayoutEvidence:
    """Return the evidence in the weights of a model, packed in a layout.

    :raises KeyError: for a model that is not in `MODELS`
    """
    from i2s_spec.layout_inference.evidence import layout_evidence

    with open_file(BufferSource(MODELS[name][1](layout))) as file:
        found = layout_evidence(file, CODE_MAPS["offset-1"])
    assert found is not None
    return found


@cache
def confusion(name: str) -> Confusion:
    """Return the scores of a model, by the layout that it is packed in; in later calls those that are known.

    :raises KeyError: for a model that is not in `MODELS`
    """
    rows, comparisons, layers = [], 0, 0
    for layout in PACKED:
        found = evidence(name, layout)
        whole = found.whole
        comparisons, layers = whole.freedom, found.layers
        rows.append(Asked(layout, dict(whole.sums), whole.margin, whole.wanted, whole.name))
    return Confusion(name, MODELS[name][0], comparisons, layers, tuple(rows))


@cache
def code_maps(name: str) -> tuple[Balanced, ...]:
    """Return the evidence in the codes of a model for their code map, packed with each.

    :raises KeyError: for a model that is not in `MODELS`
    """
    return tuple(_balanced(packed, MODELS[name][1](f"interleave-128/{packed}")) for packed in CODE_MAPS)


def _balanced(packed: str, data: bytes) -> Balanced:
    from i2s_spec.inspect.survey_reader import survey

    with open_file(BufferSource(data)) as file:
        seen = survey(file)
        assert seen is not None
        counts = tuple(sum(column) for column in zip(*(seen.counts(i) for i in range(len(seen))), strict=True))
    sigmas = {
        each.name: None if counts[each.unused] else sigma(counts[each.code_of(-1)], counts[each.code_of(1)])
        for each in CODE_MAPS.values()
    }
    return Balanced(packed, counts, sigmas, likely_code_map(counts).name)


#: The score that is drawn deepest in every picture.
DEEPEST: Final = 110_000.0

#: The layout in which channels are shown.
SHOWN: Final = "interleave-64"

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
computed when the site was built. The tutorial [Which layout is my file in?](tutorials/layout.md) shows the commands.
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


def page() -> str:
    """Return the page."""
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
    return "\n".join([*parts, _CODE_MAPS, _code_map_table()])


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


def picture(name: str) -> str:
    """Return the scores of a model as a picture, SVG.

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


@cache
def _details(name: str, layout: str) -> dict[str, Any]:
    if name not in MODELS or layout not in PACKED:
        raise ValueError(f"there is no {name!r} in {layout!r}; there are {', '.join(MODELS)}, in {', '.join(PACKED)}")
    details = lint(MODELS[name][1](layout), details=gather).details
    assert isinstance(details, dict)
    return details


def channels(what: str) -> str:
    """Return the channels of a model under each layout, HTML.

    :param what: a model and the layout that it is packed in: `stories interleave-64`
    :raises ValueError: for what there is not
    """
    name, _, layout = what.partition(" ")
    alignment = _details(name, layout or PACKED[0])["alignment"]
    if alignment is None:
        raise ValueError(f"{name} has no channels to compare")
    words = f"Rank by {alignment['partner']}, and by weights that are not 0 in the columns of {alignment['tensor']}."
    return f'{rank_plots(alignment)}<p class="i2s-machine">{escape(words)}</p>'


def layers(what: str) -> str:
    """Return the codes and scales of a model by layer, HTML.

    :raises ValueError: for a model that there is not
    """
    return layer_plots(_details(what, PACKED[0])["tensors"])
