"""This module declares the colors of all drawings, for light and dark backgrounds, and writes them as CSS variables.

Reports and the site use the same classes; they differ only in what decides about dark colors: the system, or the theme
of the site.
"""

from __future__ import annotations

from typing import Final

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
    """The colors as CSS variables.

    :param light: the selector of the light colors, and `dark`: that of the dark ones
    :param dark_media: the media query around the dark colors; empty for none
    """
    pairs = COLORS.items()
    by_day = " ".join(f"--{name}: {colors[0]};" for name, colors in pairs)
    by_night = " ".join(f"--{name}: {colors[1]};" for name, colors in pairs)
    inside = f"{dark} {{ {by_night} }}"
    return f"{light} {{ {by_day} }}\n{f'@media {dark_media} {{ {inside} }}' if dark_media else inside}\n"


def report_style() -> str:
    """The colors for a separate page, which is dark if the system is."""
    return variables(":root", ":root", "(prefers-color-scheme: dark)")


def site_style() -> str:
    """The colors for the site, whose theme decides whether it is dark."""
    made = "/* Written by i2s_spec.draw.palette: edit that. */\n"
    return made + variables('[data-md-color-scheme="default"]', '[data-md-color-scheme="slate"]')
