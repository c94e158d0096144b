r"""SVG as text: elements with escaped attributes, drawings with a title and a description, and the colors.

Title and description serve readers who cannot see the drawing. Colors come from classes, so one style sheet serves
light and dark. A drawing refers to nothing outside, and all text is escaped.

    >>> print(drawing(10, 4, "two <halves>", "", rect(0, 0, 5, 4, "a", "left")).replace("<path", "\n<path"))
    <svg viewBox="0 0 10 4" role="img"><title>two &lt;halves&gt;</title>
    <path class="a" d="M0 0h5v4h-5z"><title>left</title></path></svg>
"""

from __future__ import annotations

from html import escape
from typing import Final

#: Decimals of a coordinate: a hundredth of a pixel.
DECIMALS = 2


def number(value: float) -> str:
    """Return a coordinate in as few characters as possible.

    >>> number(3.0), number(0.5), number(-0.001)
    ('3', '.5', '0')
    """
    shown = f"{value:.{DECIMALS}f}".rstrip("0").rstrip(".")
    if shown in ("-0", ""):
        return "0"
    return shown.replace("0.", ".", 1) if shown.startswith(("0.", "-0.")) else shown


def element(name: str, attributes: dict[str, str | float | None], *children: str) -> str:
    """One element; attributes that are None are left out, and `children` are markup already."""
    shown = "".join(
        f' {key.replace("_", "-")}="{_value(value)}"' for key, value in attributes.items() if value is not None
    )
    inside = "".join(children)
    return f"<{name}{shown}>{inside}</{name}>" if inside else f"<{name}{shown}/>"


def _value(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else number(value)


def title(text: str) -> str:
    """Return the tooltip of an element, which screen readers read aloud; nothing for an empty text."""
    return f"<title>{escape(text)}</title>" if text else ""


def rect(x: float, y: float, width: float, height: float, style: str, says: str = "") -> str:
    """Return a rectangle with a class and a description."""
    return outline([(x, y, width, height)], style, says)


def outline(boxes: list[tuple[float, float, float, float]], style: str, says: str = "", data: int | None = None) -> str:
    """Rectangles (x, y, width, height) as one element.

    :param data: a number by which a script finds the element
    """
    path = "".join(f"M{number(x)} {number(y)}h{number(w)}v{number(h)}h{number(-w)}z" for x, y, w, h in boxes)
    return element("path", {"class": style, "d": path, "data-i": None if data is None else str(data)}, title(says))


def text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> str:
    """Return a line of text whose base begins (or, by `anchor`, has its `middle` or `end`) at a point."""
    at = {"x": x, "y": y, "class": style or None, "text-anchor": None if anchor == "start" else anchor}
    return element("text", at, escape(words))


def drawing(width: float, height: float, says: str, more: str, *children: str, style: str | None = None) -> str:
    """Return a whole drawing.

    :param says: its title, in a few words
    :param more: its description, in a sentence or two; or nothing
    """
    about = title(says) + (f"<desc>{escape(more)}</desc>" if more else "")
    box = f"0 0 {number(width)} {number(height)}"
    return element("svg", {"viewBox": box, "class": style, "role": "img"}, about, *children)


# --- palette ---------------------------------------------------------------------------------------------------------
# The colors, for light and dark backgrounds, written as CSS variables.
#
# Reports and the site use the same classes; they differ only in what decides about dark colors: the system, or the
# theme of the site.

#: Variables with their colors on a light and a dark background. `c` are codes, `g` groups of lines.
COLORS: Final[dict[str, tuple[str, str]]] = {
    "c0": ("#3b7dd8", "#5a9bef"), "c1": ("#c3cad4", "#4b5664"), "c2": ("#e0882f", "#ec9f4e"), "c3": ("#c4212f", "#ff6b73"),
    "g0": ("#2f74d0", "#62a4f5"), "g1": ("#d2691e", "#f09450"), "g2": ("#2a9d55", "#55c97f"), "g3": ("#a348c0", "#c987e0"),
    "g4": ("#c23b5a", "#ee7f97"), "g5": ("#0c9494", "#3cc4c4"), "g6": ("#97821a", "#cdb84a"), "g7": ("#6b7480", "#98a2af"),
    "header": ("#5b3fb0", "#8d6ff0"), "key": ("#8b72d8", "#7a62c8"), "info": ("#b9a9ea", "#574a94"),
    "padding": ("#d3d8df", "#39434f"), "payload": ("#4a88da", "#3a74c0"), "tail": ("#0c9494", "#1fb5b5"),
    "elements": ("#5ba56c", "#438a54"), "heat": ("#c8500c", "#f08a3c"),
}  # fmt: skip


def variables(light: str, dark: str, dark_media: str = "") -> str:
    """Return the colors as CSS variables.

    :param light: the selector of the light colors, and `dark`: that of the dark ones
    :param dark_media: the media query around the dark colors; empty for none
    """
    pairs = COLORS.items()
    by_day = " ".join(f"--{name}: {colors[0]};" for name, colors in pairs)
    by_night = " ".join(f"--{name}: {colors[1]};" for name, colors in pairs)
    inside = f"{dark} {{ {by_night} }}"
    return f"{light} {{ {by_day} }}\n{f'@media {dark_media} {{ {inside} }}' if dark_media else inside}\n"


def report_style() -> str:
    """Return the colors for a separate page, which is dark if the system is."""
    return variables(":root", ":root", "(prefers-color-scheme: dark)")


def site_style() -> str:
    """Return the colors for the site, whose theme decides whether it is dark."""
    made = "/* Written by i2s_spec.draw.svg: edit that. */\n"
    return made + variables('[data-md-color-scheme="default"]', '[data-md-color-scheme="slate"]')
