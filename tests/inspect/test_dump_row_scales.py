"""`dump` of I2_SR: codes like those of I2_S, the scale of each row by its number, the bytes at the end."""

from __future__ import annotations

import io
import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from i2s_spec.codec import blocks
from i2s_spec.draw.terminal import plain
from i2s_spec.draw.text import json_document
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.gguf.writer import Writer
from i2s_spec.inspect.dump import document, lines, target

SHAPE = (24, 256)
RANDOM = np.random.default_rng(3)
VALUES = RANDOM.integers(-1, 2, SHAPE, dtype=np.int8)
SCALES = RANDOM.uniform(0.5, 2, SHAPE[0]).astype(np.float32)


def file_of(order: Any, names: tuple[str, ...] = ("t",)) -> bytes:
    stream = io.BytesIO()
    with Writer(stream, byte_order=order) as writer:
        writer.add("general.architecture", "llama")
        for name in names:
            writer.add_tensor(name, SHAPE, "I2_SR", blocks.pack(VALUES, SCALES, "I2_SR", byte_order=order))
    return stream.getvalue()


def nodes(what: str, data: bytes, **options: Any) -> list[dict[str, Any]]:
    file = File(BufferSource(data, "rows.gguf"))
    shown = "".join(json_document(document(file, target(file, what, **options))))
    return [node for node in json.loads(shown)["nodes"] if node["path"].startswith("data[")]


@pytest.mark.parametrize("order", ["little", "big"])
def test_every_code_and_every_scale_once(order: Any) -> None:
    found = nodes("t", file_of(order), everything=True)
    leaves = [node for node in found if node["kind"] != "record"]
    assert all(left["stop"] == right["start"] for left, right in pairwise(leaves))
    weights = np.full(VALUES.size, 9)
    for node in leaves:
        for code in node.get("codes", ()):
            weights[code["element"]] = code["code"] - 1
    assert np.array_equal(weights.reshape(SHAPE), VALUES)
    scales = [node["value"] for node in leaves if node["path"].startswith("data[0].scales[")]
    assert np.array_equal(np.array(scales, dtype=np.float32), SCALES)
    assert leaves[-1]["path"].startswith("data[0].tail") or "padding" in leaves[-1]["path"]


def test_one_scale_by_its_name() -> None:
    (node,) = [each for each in nodes("data[0].scales[7]", file_of("little")) if each["kind"] != "record"]
    assert node["path"] == "data[0].scales[7]"
    assert np.float32(node["value"]) == SCALES[7]
    file = File(BufferSource(file_of("little"), "rows.gguf"))
    text = "".join(plain(line) for line in lines(file, target(file, "t"), 16, None))
    assert f"[23]: {SCALES[23]!s}" in text


def test_scales_that_the_file_does_not_have() -> None:
    """Another tensor of the file says which of the types of 40 is meant."""
    data = file_of("little", ("t", "u"))
    (start,) = [node["start"] for node in nodes("data[1].scales[0]", data) if node["path"] == "data[1].scales[0]"]
    found = nodes("u", data[: start + 10], everything=True)
    assert [node["path"] for node in found if "scales" in node["path"]][-3:] == [
        "data[1].scales[0]", "data[1].scales[1]", "data[1].scales[2..]",
    ]  # fmt: skip
