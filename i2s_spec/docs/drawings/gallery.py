"""This module lists the drawings by the names that pages call them by, each with what stands below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from i2s_spec.docs.drawings import (
    block_type,
    chapter_flows,
    graph_flow,
    layout_order,
    quantizer_steps,
    tensor_sizes,
    whole_file,
)


class Drawing(NamedTuple):
    """A function that makes an SVG of words, the caption, and what the words are."""

    make: Callable[..., str]
    caption: str
    takes: tuple[str, ...] = ()


#: Name of each drawing.
DRAWINGS: Final[dict[str, Drawing]] = {
    "scope": Drawing(chapter_flows.scope, "Whom the requirements bind, and where they stand"),
    "file": Drawing(whole_file.whole_file, "The file as a whole, a tensor info, and the tensor that it locates"),
    "keys": Drawing(tensor_sizes.keys_of_shapes, "Which keys the shapes of tensors follow, in bitnet-b1.58"),
    "shapes": Drawing(
        tensor_sizes.shapes_to_scale, "The ternary matrices of one layer of 2B-4T (rows × columns), to scale"
    ),
    "layouts": Drawing(
        layout_order.layout_order,
        "The first bytes of the same matrix in every layout: the deeper the color, the later the element; the first row of "
        "the matrix is framed",
    ),
    "quantizers": Drawing(
        quantizer_steps.quantizer_steps, "The same weights, from −1 to 1 and first of them 0.75, under three rules"
    ),
    "block-type": Drawing(
        block_type.block_type,
        "A block: the codes of each byte, the weights that they stand for, and the elements that they belong to",
        ("a block type",),
    ),
    "graph": Drawing(
        graph_flow.graph_flow,
        "One layer as its graph is declared: names of values, and operations",
        ("an architecture", "a half of a layer"),
    ),
    "comparison": Drawing(chapter_flows.comparison, "How a run is compared with a record"),
    "claims": Drawing(chapter_flows.claims, "Requirements by whom they bind"),
    "attacked": Drawing(chapter_flows.attacked, "Published advisories on readers of GGUF, by part of the file"),
}


def drawn(words: str) -> tuple[str, str]:
    """A drawing and its caption.

    :param words: its name, and what it takes
    :raises ValueError: for a name that there is not, or what its drawing does not take
    """
    name, *rest = words.split()
    if name not in DRAWINGS:
        raise ValueError(f"there is no drawing {name!r}; there are {', '.join(DRAWINGS)}")
    drawing = DRAWINGS[name]
    if len(rest) != len(drawing.takes):
        raise ValueError(f"{name} takes {' and '.join(drawing.takes) or 'nothing'}")
    return drawing.make(*rest), drawing.caption
