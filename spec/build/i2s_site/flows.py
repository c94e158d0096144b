"""Boxes with arrows between them, and bars: a layer as its graph is declared, who makes and reads a file, how a run is
compared, whom the requirements bind, which parts of a file were attacked.

`flow` places boxes on a grid and draws the arrows; the other functions declare the boxes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from i2s_site.requirements import CLASSES, requirements
from i2s_spec.convert.recipes import SHAPES
from i2s_spec.draw.chart import THINNEST
from i2s_spec.draw.svg import drawing, element, number, rect, text
from i2s_spec.linter.explain import find
from i2s_spec.model.architectures import GRAPHS, GraphSettings
from i2s_spec.model.graph import Builder, Graph, Node
from i2s_spec.schema.architectures import ARCHITECTURES, Hyperparameters
from i2s_spec.schema.type_registry import ADVISORIES

#: Size of a box, and the room between boxes: across and down.
WIDE: Final = 150.0
HIGH: Final = 54.0
ACROSS: Final = 34.0
DOWN: Final = 26.0


class Box(NamedTuple):
    """A box on the grid: its name, its column and row (fractions are allowed), a heading and the lines below it."""

    name: str
    column: float
    row: float
    words: Sequence[str]
    style: str = "plain"
    says: str = ""
    wide: float = 1


class Arrow(NamedTuple):
    """An arrow from a box to another, and the class that it is drawn in.

    :param around: how far left (or, if positive, right) of the boxes it goes, in pixels; 0 for the straight way
    """

    start: str
    stop: str
    style: str = ""
    around: float = 0


class Grid(NamedTuple):
    """The size of a box and the room between boxes."""

    wide: float = WIDE
    high: float = HIGH
    across: float = ACROSS
    down: float = DOWN


def flow(
    boxes: Sequence[Box], arrows: Sequence[Arrow], says: str, more: str, grid: Grid | None = None, margin: float = 2
) -> str:
    """Boxes and arrows.

    :param margin: room left and right of the boxes, for arrows that go around them
    """
    grid = grid or Grid()
    at = {box.name: _place(box, grid, margin) for box in boxes}
    marks = [_box(box, at[box.name]) for box in boxes]
    drawn = [_arrow(arrow, at[arrow.start], at[arrow.stop]) for arrow in arrows]
    ways = [x for arrow in arrows for x, _ in _way(at[arrow.start], at[arrow.stop], arrow.around)]
    width = max([x + wide for x, _, wide, _ in at.values()] + ways) + margin
    height = max(y + high for _, y, _, high in at.values()) + 2
    return drawing(width, height, says, more, *drawn, *marks, style="i2s-figure i2s-flow")


_Place = tuple[float, float, float, float]


def _place(box: Box, grid: Grid, margin: float) -> _Place:
    wide = grid.wide * box.wide + grid.across * (box.wide - 1)
    return margin + box.column * (grid.wide + grid.across), 2 + box.row * (grid.high + grid.down), wide, grid.high


def _box(box: Box, place: _Place) -> str:
    x, y, wide, high = place
    parts = [rect(x, y, wide, high, f"box {box.style}", box.says or " ".join(box.words))]
    first = y + high / 2 + 4.5 - 7.5 * (len(box.words) - 1)
    for line, words in enumerate(box.words):
        parts.append(text(x + wide / 2, first + 15 * line, words, "more" if line else "word", "middle"))
    return "".join(parts)


def _arrow(arrow: Arrow, start: _Place, stop: _Place) -> str:
    points = _way(start, stop, arrow.around)
    path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
    (x0, y0), (x1, y1) = points[-2:]
    line = element("path", {"class": f"arrow {arrow.style}".strip(), "d": path})
    return line + element("path", {"class": "head", "d": _head(x0, y0, x1, y1)})


def _way(start: _Place, stop: _Place, around: float) -> list[tuple[float, float]]:
    """Return the corners of an arrow: straight where boxes face each other, else with one bend half-way."""
    (x0, y0, w0, h0), (x1, y1, w1, h1) = start, stop
    if around:
        side = min(x0, x1) + around if around < 0 else max(x0 + w0, x1 + w1) + around
        ends = (x0, x1) if around < 0 else (x0 + w0, x1 + w1)
        return [(ends[0], y0 + h0 / 2), (side, y0 + h0 / 2), (side, y1 + h1 / 2), (ends[1], y1 + h1 / 2)]
    if abs(y0 - y1) < 1:
        right = x1 > x0
        return [(x0 + w0 if right else x0, y0 + h0 / 2), (x1 if right else x1 + w1, y1 + h1 / 2)]
    below = y1 > y0
    top, bottom = (y0 + h0 if below else y0), (y1 if below else y1 + h1)
    low, high = max(x0, x1), min(x0 + w0, x1 + w1)
    if high - low > 16:
        return [((low + high) / 2, top), ((low + high) / 2, bottom)]
    middle = bottom - 10 if below else bottom + 10
    return [(x0 + w0 / 2, top), (x0 + w0 / 2, middle), (x1 + w1 / 2, middle), (x1 + w1 / 2, bottom)]


def _head(x0: float, y0: float, x1: float, y1: float) -> str:
    """Return a small triangle whose point is the end of a line that goes along an axis."""
    size = 6
    across = (x1 > x0) - (x1 < x0) if abs(x1 - x0) > abs(y1 - y0) else 0
    down = 0 if across else ((y1 > y0) - (y1 < y0))
    a = (x1 - size * across - size * 0.6 * down, y1 - size * down - size * 0.6 * across)
    b = (x1 - size * across + size * 0.6 * down, y1 - size * down + size * 0.6 * across)
    return f"M{number(x1)} {number(y1)}L{number(a[0])} {number(a[1])}L{number(b[0])} {number(b[1])}z"


#: Operations that are drawn as part of the one that they belong to, which has their value's name.
_INNER: Final = ("norm",)

#: Class of a box by its operation.
_STYLES: Final = {"linear": "ternary", "norm_weight": "norm", "add": "sum", "multiply": "sum"}

_WORDS: Final = {
    "norm_weight": "RMS norm", "linear": "BitLinear", "add": "added", "multiply": "multiplied", "rope": "rotated",
    "store_kv": "kept in the cache", "scores": "q kᵀ", "soft_max": "softmax", "weighted_values": "times v",
    "silu": "SiLU", "relu": "ReLU", "square": "squared", "gelu": "GELU", "multiply_by": "times a constant",
    "heads": "cut into heads",
}  # fmt: skip

_GRID: Final = Grid(132, 40, 12, 16)


@cache
def two_b_4t() -> Hyperparameters:
    """Return the sizes of BitNet b1.58 2B-4T."""
    size = SHAPES["2b4t"][0]
    head = size.embd // size.heads
    return Hyperparameters(size.layers, size.embd, size.ff, size.heads, size.heads_kv, head, head, size.vocab)


def graph_flow(architecture: str, half: str) -> str:
    """Return the attention or the feed-forward of one layer of an architecture, as its graph is declared.

    :param half: `attention` or `feed-forward`
    :raises ValueError: for another architecture or another half
    """
    if architecture not in GRAPHS or half not in ("attention", "feed-forward"):
        raise ValueError(f"there is no {half!r} of {architecture!r}; there are {', '.join(GRAPHS)}")
    made = GRAPHS[architecture](
        Builder(), two_b_4t()._replace(layers=1), GraphSettings(ARCHITECTURES[architecture].activation, "neox")
    )
    nodes = made.layer(0).nodes
    norm = next(i for i, node in enumerate(nodes) if node.name == "ffn_norm-0")
    cut = 1 + max(i for i, node in enumerate(nodes[:norm]) if node.op == "add")  # the residual around attention
    part = made.part(nodes[:cut] if half == "attention" else nodes[cut:])
    title = f"{architecture}: {half} of a layer"
    boxes, arrows = _boxes(part), list(_arrows(part))
    return flow(boxes, arrows, title, _in_words(part), _GRID, margin=26)


def _shown(graph: Graph) -> list[Node]:
    return [node for node in graph if node.op not in _INNER]


def _inputs(graph: Graph, node: Node) -> list[str]:
    """Return the inputs of a node, past operations that are drawn with it."""
    found = []
    for name in node.inputs:
        inner = graph.by_name.get(name)
        found += _inputs(graph, inner) if inner is not None and inner.op in _INNER else [name]
    return found


def _boxes(graph: Graph) -> list[Box]:
    ranks: dict[str, int] = dict.fromkeys(graph.given, 0)
    rows: dict[int, list[Node]] = {}
    for node in _shown(graph):
        ranks[node.name] = 1 + max(ranks[name] for name in _inputs(graph, node))
        rows.setdefault(ranks[node.name], []).append(node)
    columns = dict.fromkeys(graph.given, 1.0)
    boxes = [Box(name, columns[name], 0, (_plain(name),), "given") for name in graph.given]
    for rank, nodes in sorted(rows.items()):
        for place, node in enumerate(_in_order(nodes, graph, columns)):
            above = [columns[name] for name in _inputs(graph, node)]
            columns[node.name] = _column(place, len(nodes), above)
            boxes.append(_node_box(node, columns[node.name], rank))
    return boxes


def _column(place: int, count: int, above: list[float]) -> float:
    """Where a node stands: below its only input where it is alone in its row, else in the middle, or side by side."""
    if count == 1:
        return above[0] if len(above) == 1 else 1.0
    return float(place) if count > 2 else 1 + place - 0.5


def _in_order(nodes: list[Node], graph: Graph, columns: dict[str, float]) -> list[Node]:
    """Return the nodes of a row, by where the values come from that go into them."""
    return sorted(nodes, key=lambda node: min(columns[name] for name in _inputs(graph, node)))


def _node_box(node: Node, column: float, row: int) -> Box:
    weights = ", ".join(name.removeprefix("blk.0.").removesuffix(".weight") for name in node.weights)
    words = _WORDS.get(node.op, node.op)
    says = f"{_plain(node.name)}: {words}{f', weights {weights}' if weights else ''}"
    return Box(node.name, column, row, (_plain(node.name), words), _STYLES.get(node.op, "plain"), says)


def _plain(name: str) -> str:
    """Return a value's name without its layer."""
    return name.replace("-0", "")


def _arrows(graph: Graph) -> list[Arrow]:
    ranks: dict[str, int] = dict.fromkeys(graph.given, 0)
    arrows = []
    for node in _shown(graph):
        inputs = _inputs(graph, node)
        ranks[node.name] = 1 + max(ranks[name] for name in inputs)
        for name in inputs:
            residual = node.op == "add" and ranks[node.name] - ranks[name] > 1
            arrows.append(Arrow(name, node.name, "residual" if residual else "", _GRID.wide + 18 if residual else 0))
    return arrows


def _in_words(graph: Graph) -> str:
    lines = [f"{_plain(node.name)} from {' and '.join(map(_plain, _inputs(graph, node)))}" for node in _shown(graph)]
    return "; ".join(lines) + "."


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
        Box("verdict", 0.5, 4, ("first wrong tensor", "and the known mistake"), "bad"),
    ]
    arrows = [
        Arrow("model", "record"), Arrow("model", "dump"), Arrow("record", "taps"), Arrow("dump", "theirs"),
        Arrow("taps", "drift"), Arrow("theirs", "replay"), Arrow("drift", "verdict"), Arrow("replay", "verdict"),
    ]  # fmt: skip
    more = (
        "The reference forward pass and the runtime compute the same tokens of the same model. Drift compares each tap "
        "with the record; replay computes each step again from what the runtime itself put into it, so that only the step "
        "that is wrong differs. The first wrong tensor is tried against the known mistakes."
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
        if not advisory.rules:  # it does not say which part
            continue
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
        for count, style, what in parts:
            length = wide * count / most
            words.append(f"{name}: {count} {what}")
            if count:
                marks.append(rect(x, y + 3, max(length, THINNEST), high - 8, f"band {style}", words[-1]))
            x += length
        marks.append(text(x + 8, y + 18, " + ".join(str(number) for number, _, _ in parts), "kind"))
    marks.append(text(left, len(rows) * high + 16, below, "side"))
    return drawing(
        left + wide + 70, len(rows) * high + 24, says, "; ".join(words) + ".", *marks, style="i2s-figure i2s-bars"
    )
