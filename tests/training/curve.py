"""Draw the loss curves of a training log, as an SVG file with its own colors for light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

from i2s_spec.draw.chart import Axis, decades, levels
from i2s_spec.draw.svg import drawing, element, number, text

#: Colors of text and curves on the page's background.
STYLE: Final = (
    "svg{font:12px system-ui,sans-serif;background:#fff}.axis{fill:#555}.grid{stroke:#ddd}.curve{fill:none;stroke-width:2}"
    ".a{stroke:#2563a8}.b{stroke:#b4540a}.fill-a{fill:#2563a8}.fill-b{fill:#b4540a}"
    "@media (prefers-color-scheme:dark){svg{background:#14171b}.axis{fill:#a9b1ba}.grid{stroke:#343a42}"
    ".a{stroke:#7db4ee}.b{stroke:#f0a35e}.fill-a{fill:#7db4ee}.fill-b{fill:#f0a35e}}"
)

#: The height of a name at the end of its curve.
NAME_HEIGHT: Final = 14.0


class Curve(NamedTuple):
    """Points by ascending x with positive y, their class, and the name of the curve."""

    points: Sequence[tuple[float, float]]
    style: str
    name: str


def drawn(records: list[dict[str, float]], name: str, vocab: int) -> str:
    """Draw the loss on training text and on unseen text, as an SVG file.

    :param vocab: tokens of the model; a uniform guess has the loss ln(vocab)
    """
    training = [(record["tokens"], record["loss"]) for record in records]
    unseen = [(record["tokens"], record["unseen"]) for record in records if "unseen" in record]
    more = (
        f"From {training[0][1]:.2f} nats at the start (a uniform guess has {math.log(vocab):.2f}) to {training[-1][1]:.2f} "
        f"on training text and {unseen[-1][1]:.2f} on unseen text, after {training[-1][0]:,} tokens."
    )
    lines = [
        Curve(training, "a", f"training {training[-1][1]:.2f}"),
        Curve(unseen, "b", f"unseen {unseen[-1][1]:.2f}"),
    ]
    return alone(curves(lines, f"Loss of {name} in nats for a token", more, "tokens seen")) + "\n"


def curves(lines: Sequence[Curve], says: str, more: str, below: str, width: float = 720, height: float = 300) -> str:
    """Draw curves over a common linear axis that begins at 0; the other axis is logarithmic.

    :param says: the title of the drawing, and `more`: its description
    :param below: the quantity of the horizontal axis
    :raises ValueError: for a point that these axes cannot show
    """
    heights = [y for line in lines for _, y in line.points]
    if not heights or not all(0 < y < math.inf for y in heights):
        raise ValueError("a curve on a logarithmic axis needs positive finite values, at least one")
    left, right, base = 44.0, width - 96, height - 34
    across = Axis(0, max(x for line in lines for x, _ in line.points) or 1, left, right, False)
    up = Axis(*decades(heights), base, 10.0)
    marks = [*levels(up, left, right)]
    for x in (across.high * quarter / 4 for quarter in range(5)):
        marks.append(text(across.place(x), base + 16, f"{x:,.0f}", "axis", "middle"))
    marks.append(text((left + right) / 2, height - 4, below, "axis", "middle"))
    taken: list[float] = []
    for line in sorted(lines, key=lambda line: -line.points[-1][1]):
        path = "L".join(f"{number(across.place(x))} {number(up.place(y))}" for x, y in line.points)
        marks.append(element("path", {"class": f"curve {line.style}", "d": f"M{path}"}))
        x, y = line.points[-1]
        taken.append(max([up.place(y) + 4, *(each + NAME_HEIGHT for each in taken)]))
        marks.append(text(across.place(x) + 6, taken[-1], line.name, f"fill-{line.style}"))
    return drawing(width, height, says, more, *marks, style="curves")


def alone(svg: str) -> str:
    """Return a drawing as a separate file, with its colors."""
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        "</title>", f"</title><style>{escape(STYLE, quote=False)}</style>", 1
    )
