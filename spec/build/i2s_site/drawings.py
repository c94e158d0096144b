"""The drawings that pages call by a name, each with what stands below it.

Here are the file as a whole, and the tensors of a layer to scale; the others are in `figures` and `flows`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from i2s_site import figures, flows
from i2s_site.flows import two_b_4t
from i2s_spec.draw.svg import drawing, element, number, rect, text, title
from i2s_spec.exports.json_form import fixed_offsets
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import source_of
from i2s_spec.schema.architectures import ARCHITECTURES, placed
from i2s_spec.schema.container import container, header, tensor_info
from i2s_spec.schema.inventory import PROJECTIONS, TensorSpec
from i2s_spec.schema.types import TAIL_BYTES
from i2s_spec.testing.sample import Draft

#: Width of the drawing, of a tensor info, and the height of a strip.
WIDTH: Final = 720
HIGH: Final = 46

_STYLES: Final = {
    "header": "header",
    "key_values": "key",
    "tensor_infos": "info",
    "padding": "padding",
    "data": "payload",
}

#: Parts of the width that the five parts take: to scale, all but the data could not be seen.
_SHARES: Final = {"header": 2, "key_values": 4, "tensor_infos": 4, "padding": 2, "data": 6}


def whole_file() -> str:
    """Return the five parts in their order, one tensor info in full, and the tensor whose bytes it locates."""
    file = File(source_of(Draft().data))
    tensor = next(each for each in file.tensors.values() if each.payload)
    starts = _starts(file)
    marks, x, at = [text(0, 14, "the file", "side")], 0.0, {}
    unit = WIDTH / sum(_SHARES.values())
    for field in container("little").fields:
        wide = _SHARES[field.name] * unit
        says = f"{field.name}: {field.meaning}"
        marks.append(rect(x + 1, 22, wide - 2, HIGH, f"part {_STYLES[field.name]}", says))
        marks.append(text(x + wide / 2, 22 + HIGH / 2 + 4, field.name, "part-name", "middle"))
        marks.append(text(x + 1, 22 + HIGH + 14, f"{starts[field.name]:#x}", "offset"))
        at[field.name] = (x + 1, x + wide - 1)
        x += wide
    info, data = _tensor_info(at["tensor_infos"]), _tensor(at["data"], len(tensor.payload))
    marks.append(text(WIDTH, 14, f"sample.gguf, {file.size:,} bytes; widths are not to scale", "side", "end"))
    parts, of_info = (", ".join(field.name for field in each("little").fields) for each in (container, tensor_info))
    more = (
        f"{parts} follow each other without gaps. A tensor info holds {of_info}; its offset "
        "counts from the start of the data, to the "
        "payload of the tensor, which the tail follows and padding up to the next multiple of the alignment."
    )
    return drawing(WIDTH, 262, "The file as a whole", more, *marks, *info, *data, style="i2s-figure i2s-file")


def _starts(file: File) -> dict[str, int]:
    """Where the parts of a file begin."""
    index = file.index
    size = sum(shape.size or 0 for _, shape, _ in fixed_offsets(header("little")))
    return {
        "header": 0,
        "key_values": size,
        "tensor_infos": index.tensor(0).start,
        "padding": index.infos_end or 0,
        "data": index.data_start or 0,
    }


def _zoom(left: float, right: float, first: float, last: float) -> str:
    """Lines from the ends of a part down to what is inside it."""
    path = f"M{number(left)} {22 + HIGH}L{number(first)} 128M{number(right)} {22 + HIGH}L{number(last)} 128"
    return element("path", {"class": "zoom", "d": path})


def _tensor_info(part: tuple[float, float]) -> list[str]:
    marks = [_zoom(*part, 1, 300), text(290, 122, "one tensor info", "side", "end")]
    x, wide = 1.0, 299 / len(tensor_info("little").fields)
    for field in tensor_info("little").fields:
        marks.append(rect(x, 128, wide - 1, HIGH, "part info", f"{field.name}: {field.meaning}"))
        marks.append(text(x + wide / 2, 128 + HIGH / 2 + 4, field.name, "part-name", "middle"))
        x += wide
    marks.append(
        element("path", {"class": "arrow", "d": f"M{number(x - wide / 2)} {128 + HIGH}V218H341V{128 + HIGH + 8}"})
    )
    marks.append(element("path", {"class": "head", "d": f"M341 {128 + HIGH + 1}l4 8h-8z"}))
    marks.append(
        text(x - wide / 2, 234, "offset: bytes from the start of the data, a multiple of the alignment", "side")
    )
    return marks


def _tensor(part: tuple[float, float], payload: int) -> list[str]:
    cells = [
        (0.38, "payload", "payload", f"{payload} bytes", "payload: two bits for each weight, n / 4 bytes"),
        (0.2, "tail", "tail", f"{TAIL_BYTES} bytes", "tail: the scale, and 28 bytes without a meaning"),
        (0.22, "padding", "padding", "zeros", "padding: zero bytes up to the alignment"),
        (0.2, "payload", "next", "tensor", "the next tensor"),
    ]
    marks = [_zoom(part[0], part[1], 340, WIDTH - 1), text(WIDTH - 7, 122, "an I2_S tensor in the data", "side", "end")]
    x = 340.0
    for share, style, name, below, says in cells:
        wide = (WIDTH - 341) * share
        marks.append(rect(x, 128, wide - 1, HIGH, f"part {style}", says))
        marks.append(text(x + wide / 2, 128 + HIGH / 2 - 2, name, "part-name", "middle"))
        marks.append(text(x + wide / 2, 128 + HIGH / 2 + 14, below, "part-more", "middle"))
        x += wide
    return marks


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
    """Return the projections of one layer of 2B-4T, each as wide as it has columns and as tall as it has rows."""
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
    """Return a dot where the shape of a tensor changes with a key: found by changing the key's number."""
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
    """Return a key on two lines: after its point, or before its last word."""
    mark = "." if "." in key else "_"
    first, _, rest = key.rpartition(mark)
    return [first + mark, rest]


class Drawing(NamedTuple):
    """A function that makes an SVG of words, the caption, and what the words are."""

    make: Callable[..., str]
    caption: str
    takes: tuple[str, ...] = ()


#: Name of each drawing.
DRAWINGS: Final[dict[str, Drawing]] = {
    "scope": Drawing(flows.scope, "Whom the requirements bind, and where they stand"),
    "file": Drawing(whole_file, "The file as a whole, a tensor info, and the tensor that it locates"),
    "keys": Drawing(keys_of_shapes, "Which keys the shapes of tensors follow, in bitnet-b1.58"),
    "shapes": Drawing(shapes_to_scale, "The ternary matrices of one layer of 2B-4T (rows × columns), to scale"),
    "layouts": Drawing(
        figures.layout_order,
        "The first bytes of the same matrix in every layout: the deeper the color, the later the element; the first row of "
        "the matrix is framed",
    ),
    "quantizers": Drawing(
        figures.quantizer_steps, "The same weights, from −1 to 1 and first of them 0.75, under three rules"
    ),
    "block-type": Drawing(
        figures.block_type,
        "A block: the codes of each byte, the weights that they stand for, and the elements that they belong to",
        ("a block type",),
    ),
    "graph": Drawing(
        flows.graph_flow,
        "One layer as its graph is declared: names of values, and operations",
        ("an architecture", "a half of a layer"),
    ),
    "comparison": Drawing(flows.comparison, "How a run is compared with a record"),
    "claims": Drawing(flows.claims, "Requirements by whom they bind"),
    "attacked": Drawing(flows.attacked, "Published advisories on readers of GGUF, by part of the file"),
}


def drawn(words: str) -> tuple[str, str]:
    """Return a drawing and its caption.

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
