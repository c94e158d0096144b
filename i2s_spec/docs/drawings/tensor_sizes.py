"""This module draws the matrices of a layer to scale, and which keys the shapes of tensors depend on."""

from __future__ import annotations

from typing import Final

from i2s_spec.docs.drawings.graph_flow import two_b_4t
from i2s_spec.draw.svg import drawing, element, rect, text, title
from i2s_spec.schema.architectures.architecture import ARCHITECTURES, placed
from i2s_spec.schema.architectures.inventory import PROJECTIONS, TensorSpec

#: Elements to a pixel.
_SCALE: Final = 36

#: Where in the list of projections those of the feed-forward begin, which stand in a row of their own.
_FEED_FORWARD: Final = 4

_ARCHITECTURE: Final = "bitnet-b1.58"

#: Fields of `Hyperparameters`, the keys that give them, and another value to try.
_SIZES: Final = {
    "embd": "embedding_length", "ff": "feed_forward_length", "heads": "attention.head_count",
    "heads_kv": "attention.head_count_kv", "head_dim": "rope.dimension_count", "vocab": "vocab_size",
}  # fmt: skip


def shapes_to_scale() -> str:
    """The projections of one layer of 2B-4T, each as wide as it has columns and as tall as it has rows."""
    h = two_b_4t()
    marks, x, y, tall = [], 0.0, 0.0, 0.0
    words = []
    for spec in PROJECTIONS:
        cols, rows = placed(spec, h, 0).ne
        wide, high = cols / _SCALE, rows / _SCALE
        if spec == PROJECTIONS[_FEED_FORWARD]:
            x, y, tall = 0.0, y + tall + 44, 0.0
        name = spec.name[8:-7]
        size = rows * cols // 4 + 32
        says = f"{name}: {rows:,} rows of {cols:,}, {size:,} bytes as I2_S"
        words.append(says)
        marks.append(rect(x + 1, y + 34, wide, high, "part payload", says))
        marks.append(text(x + 1, y + 14, name, "word"))
        marks.append(text(x + 1, y + 28, f"{rows:,} × {cols:,}", "offset"))
        x, tall = x + max(wide, 96) + 26, max(tall, high)
    return drawing(
        520, y + tall + 40, "The projections of a layer of 2B-4T, to scale", "; ".join(words) + ".", *marks,
        style="i2s-figure i2s-shapes",
    )  # fmt: skip


def keys_of_shapes() -> str:
    """A dot where the shape of a tensor changes with a key: found by changing the key's number."""
    h = two_b_4t()
    specs = [
        spec for spec, layer in ARCHITECTURES[_ARCHITECTURE].specs(h) if layer in (None, 0) and spec.need == "required"
    ]
    left, step, high, top = 118, 104, 24, 34
    marks, words = [], []
    for column, key in enumerate(_SIZES.values()):
        x = left + (column + 0.5) * step
        for line, part in enumerate(_broken(key)):
            marks.append(text(x, 12 + 14 * line, part, "offset", "middle"))
    for row, spec in enumerate(specs):
        y = top + row * high
        marks.append(rect(0, y, left + step * len(_SIZES), high, "stripe" if row % 2 else "stripe odd"))
        marks.append(text(4, y + 16, spec.name.replace("blk.{i}.", "").removesuffix(".weight"), "kind"))
        found = [key for field, key in _SIZES.items() if _depends(spec, field)]
        words.append(f"{spec.name}: {', '.join(found)}")
        for column, key in enumerate(_SIZES.values()):
            if key in found:
                dot: dict[str, str | float | None] = {
                    "class": "dot",
                    "cx": left + (column + 0.5) * step,
                    "cy": y + high / 2,
                    "r": 6,
                }
                marks.append(element("circle", dot, title(f"{spec.name} has a shape that follows {key}")))
    return drawing(
        left + step * len(_SIZES) + 2, top + high * len(specs) + 2, "Which keys the shapes of tensors follow",
        "; ".join(words) + ".", *marks, style="i2s-figure i2s-dots",
    )  # fmt: skip


def _depends(spec: TensorSpec, field: str) -> bool:
    h = two_b_4t()
    changed = h._replace(value_dim=2 * h.head_dim, head_dim=2 * h.head_dim) if field == "head_dim" else h._replace(
        **{field: 2 * getattr(h, field)}
    )  # fmt: skip
    return placed(spec, h, 0).ne != placed(spec, changed, 0).ne


def _broken(key: str) -> list[str]:
    """A key on two lines: after its point, or before its last word."""
    mark = "." if "." in key else "_"
    first, _, rest = key.rpartition(mark)
    return [first + mark, rest]
