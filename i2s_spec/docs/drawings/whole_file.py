"""This module draws a file as a whole: its five parts, a tensor info, and the bytes of the tensor that it points to."""

from __future__ import annotations

from typing import Final

from i2s_spec.draw.svg import drawing, element, number, rect, text
from i2s_spec.exports.description import fixed_offsets
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import source_of
from i2s_spec.schema.gguf import container, header, tensor_info
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
    """The five parts in their order, one tensor info in full, and the tensor whose bytes it locates."""
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
