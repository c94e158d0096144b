"""Models with changed keys, tensors and bytes, as Hypothesis draws them: what would be too large as a stored file.

A test function that draws from these strategies is a harness for bytes too: `by_choices` reads its choices from an input.
Choices are bytes and integers of small ranges, so that stored inputs are short and a mutator can change one at a time.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from i2s_spec.checkpoints.export_checkpoint import export_checkpoint
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.faults import order_prefix
from i2s_spec.schema.types import I2_S, READINGS, TAIL_BYTES, VALUE_FORMATS, ValueType
from i2s_spec.testing.mutator import dictionary, mutate
from i2s_spec.testing.sample import Model, Tensor, array, key_value

#: The first byte of an input that is a sequence of choices; the others are a file.
MARK = b"\xc0"

#: Bytes for choices, with zeros behind those of the input: the first of each.
CHOICES = 1 << 14

#: Maximum size of a file, and of a tensor made by repetition.
MOST = 1 << 21

Draw = Callable[[st.SearchStrategy[Any]], Any]


def by_choices(test: Any, data: bytes) -> None:
    """Run a test function of Hypothesis with the choices that bytes describe."""
    test.hypothesis.fuzz_one_input(data.ljust(CHOICES, b"\0"))


class ChangedModel(NamedTuple):
    """A sound model, and the file that changes made of it."""

    sound: bytes
    data: bytes


@st.composite
def changed_models(draw: Draw) -> ChangedModel:
    """Small models of every architecture, or files without one, with changes of keys, of tensors and of bytes."""
    model = Model(
        draw(st.sampled_from(list(ARCHITECTURES))), draw(st.sampled_from(("little", "big"))), draw(st.integers(1, 3))
    )
    if draw(st.booleans()):
        model.keys, model.tensors = [], []
    sound = model.built()
    while draw(st.booleans()):
        draw(st.sampled_from((_drop, _key, _tensor)))(draw, model)
    if draw(st.booleans()):
        model.tensors = []
    data = bytearray(model.built())
    if draw(st.booleans()):
        size = draw(st.integers(0, MOST - 1))
        data = bytearray(data[:size].ljust(size, b"\0"))
    while draw(st.booleans()):
        start, size = draw(st.integers(0, MOST - 1)), draw(st.integers(0, MOST - 1))
        data[start : start + size] = bytes((draw(st.integers(0, 255)),)) * len(data[start : start + size])
    while draw(st.booleans()):
        data = bytearray(mutate(bytes(data), draw(st.integers(0, 255)), MOST))
    return ChangedModel(sound, bytes(data))


def _name(draw: Draw, known: list[bytes]) -> bytes:
    """A name of the model, one of the mutator's dictionary, or any."""
    source = draw(st.integers(0, 2))
    if source == 0:
        return bytes(draw(st.binary(max_size=70)))
    return bytes(draw(st.sampled_from((known or [b""]) if source == 1 else dictionary())))


def _drop(draw: Draw, model: Model) -> None:
    """A key and a tensor of this name are left out."""
    name = _name(draw, [pair.key for pair in model.keys] + [tensor.name for tensor in model.tensors])
    model.keys = [pair for pair in model.keys if pair.key != name]
    model.tensors = [tensor for tensor in model.tensors if tensor.name != name]


def _key(draw: Draw, model: Model) -> None:
    """A key has another value, or is new."""
    name = _name(draw, [pair.key for pair in model.keys])
    kind = draw(st.sampled_from(list(ValueType)))
    made = key_value(name, kind, _value(draw, kind, model.order))
    at = next((i for i, pair in enumerate(model.keys) if pair.key == name), len(model.keys))
    model.keys[at : at + 1] = [made]


def _value(draw: Draw, kind: ValueType, order: Any, depth: int = 0) -> Any:
    if kind == ValueType.STRING:
        return draw(st.binary(max_size=2048))
    if kind == ValueType.ARRAY:
        element = draw(st.sampled_from([each for each in ValueType if depth < 3 or each != ValueType.ARRAY]))
        items = []
        while draw(st.booleans()):
            items.append(_value(draw, element, order, depth + 1))
        return array(element, items)
    form = order_prefix(order) + VALUE_FORMATS[kind]
    size = struct.calcsize(form)
    return struct.unpack(form, draw(st.binary(min_size=size, max_size=size)))[0]


def _tensor(draw: Draw, model: Model) -> None:
    """A tensor has another type, shape and content, or is new; its content is repeated up to its size."""
    name = _name(draw, [tensor.name for tensor in model.tensors])
    number, ne = draw(st.integers(0, 255)), tuple(draw(st.lists(st.integers(0, (1 << 64) - 1), max_size=7)))
    content, tail = draw(st.binary(max_size=4096)), b""
    readings = READINGS.get(number)
    size = min(readings[-1].nbytes(ne), MOST) if readings and min(ne, default=0) > 0 else 0
    if number == I2_S.number and len(content) > TAIL_BYTES:
        content, tail = content[:-TAIL_BYTES], content[-TAIL_BYTES:]
    room = max(size - len(tail), 0)
    made = Tensor(name, ne, number, (content * (room // len(content) + 1) if content else bytes(room))[:room] + tail)
    at = next((i for i, tensor in enumerate(model.tensors) if tensor.name == name), len(model.tensors))
    model.tensors[at : at + 1] = [made]


#: What references are made from: a type or dialect of GGUF files, a form of checkpoints, or a file that is none.
REFERENCES = (
    "", "F32", "F16", "TQ1_0", "TQ2_0", "Q2_0", "interleave-64", "interleave-64/zero-first", "checkpoint packed",
    "checkpoint F32", "checkpoint BF16", "npy", "broken",
)  # fmt: skip


def reference(form: str, data: bytes, folder: Path) -> Path | bytes:
    """A model in another form; the file itself if it has none.

    :param folder: a folder for forms that must be on disk; it does not exist yet
    """
    if form.startswith("checkpoint"):
        try:
            export_checkpoint(data, folder, form=form.partition(" ")[2])
        except (FormatError, ValueError):
            return data
        return folder
    if form in ("npy", "broken"):
        path = folder.with_suffix(".npy" if form == "npy" else ".safetensors")
        path.write_bytes(b"\x93NUMPY\1\0" if form == "npy" else struct.pack("<Q", 1 << 40) + b"{")
        return path
    made = io.BytesIO()
    try:
        convert_file(File(BufferSource(data)), made, to=form or None)
    except (FormatError, ValueError):
        return data
    return made.getvalue()
