"""This module packs each trained model in each layout, and asks its weights which layout that is.

A model of random weights is asked as well: its layout must stay undecided.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.convert.trained.model import write_trained
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import BufferSource
from i2s_spec.inspect.evidence.balance import likely_code_map, sigma
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS

if TYPE_CHECKING:
    from i2s_spec.inspect.evidence.layout_evidence import LayoutEvidence

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
    """A model of the widths of `stories`, with half of its layers, as `i2s new` writes it."""
    from i2s_spec.convert.synthetic.new import new
    from i2s_spec.convert.tensors.convert_file import convert_file

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
    """What the weights of a model tell, packed in a layout.

    :raises KeyError: for a model that is not in `MODELS`
    """
    from i2s_spec.inspect.evidence.layout_evidence import layout_evidence

    with open_file(BufferSource(MODELS[name][1](layout))) as file:
        found = layout_evidence(file, CODE_MAPS["offset-1"])
    assert found is not None
    return found


@cache
def confusion(name: str) -> Confusion:
    """The scores of a model, by the layout that it is packed in; in later calls those that are known.

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
    """What the codes of a model tell of their code map, packed with each.

    :raises KeyError: for a model that is not in `MODELS`
    """
    return tuple(_balanced(packed, MODELS[name][1](f"interleave-128/{packed}")) for packed in CODE_MAPS)


def _balanced(packed: str, data: bytes) -> Balanced:
    from i2s_spec.inspect.survey.reader import survey

    with open_file(BufferSource(data)) as file:
        seen = survey(file)
        assert seen is not None
        counts = tuple(sum(column) for column in zip(*(seen.counts(i) for i in range(len(seen))), strict=True))
    sigmas = {
        each.name: None if counts[each.unused] else sigma(counts[each.code_of(-1)], counts[each.code_of(1)])
        for each in CODE_MAPS.values()
    }
    return Balanced(packed, counts, sigmas, likely_code_map(counts).name)
