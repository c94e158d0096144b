"""This module draws what each quantizing rule makes of the same weights: trits as bands, as the rules compute them."""

from __future__ import annotations

import warnings
from itertools import groupby
from typing import Final

import numpy as np

from i2s_spec.codec.quantization.quantize import quantize
from i2s_spec.codec.reference import unpack
from i2s_spec.draw.svg import drawing, element, number, rect, text

#: Rules that need nothing but the weights.
_RULES: Final = ("absmax", "hf-first", "embedding-mean")

_LEFT: Final = 146
_WIDE: Final = 540
_BAND: Final = 34
_SIGNS: Final = {-1: "−1", 0: "0", 1: "+1"}


def quantizer_steps() -> str:
    """1,024 weights from −1 to 1 as each rule rounds them; the first is 0.75."""
    weights = np.linspace(-1, 1, 1024, dtype=np.float32)
    order = np.concatenate([np.array([0.75], np.float32), weights[1:-1], np.array([1.0], np.float32)])
    marks, words = [], []
    for place, rule in enumerate(_RULES):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # these weights are meant to be anything but ternary
            trits, scale = unpack(quantize(order.reshape(1, -1), rule=rule), (1, len(order)))
        y, x = 4 + place * (_BAND + 14), float(_LEFT)
        marks.append(text(0, y + 15, rule, "word"))
        marks.append(text(0, y + 30, f"scale {scale:.3g}", "offset"))
        for trit, run in groupby(trits[0][1:-1].tolist()):
            wide = len(list(run)) / (len(order) - 2) * _WIDE
            says = f"{rule}: {_SIGNS[trit]} for {wide / _WIDE:.0%} of the weights"
            words.append(says)
            marks.append(rect(x, y, wide, _BAND, f"band c{trit + 1}", says))
            if wide > 16:
                marks.append(text(x + wide / 2, y + 22, _SIGNS[trit], "part-name", "middle"))
            x += wide
    floor = 4 + len(_RULES) * (_BAND + 14)
    marks.append(element("path", {"class": "axis-line", "d": f"M{_LEFT} {number(floor)}h{_WIDE}"}))
    for value in (-1, -0.5, 0, 0.5, 1):
        x = _LEFT + (value + 1) / 2 * _WIDE
        marks.append(element("path", {"class": "axis-line", "d": f"M{number(x)} {number(floor)}v4"}))
        marks.append(text(x, floor + 17, f"{value:g}".replace("-", "−"), "offset", "middle"))
    marks.append(text(_LEFT + _WIDE / 2, floor + 34, "weight", "side", "middle"))
    return drawing(
        _LEFT + _WIDE + 12, floor + 40, "The same weights under each rule", "; ".join(words) + ".", *marks,
        style="i2s-figure i2s-steps",
    )  # fmt: skip
