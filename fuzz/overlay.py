"""Files that are too large as inputs, stored as small files that describe their differences.

An input with the key `fuzz.base` is laid over a valid model of that architecture: its keys and tensors replace those of
the same name, others are appended, and names in `fuzz.without` are left out. `fuzz.layers` and `fuzz.big_endian` choose
the model; an empty base means no model. The bytes of a tensor are those of the input from its offset to the next one's,
repeated up to its size; for I2_S the last 32 are the tail. `fuzz.size` truncates the file or appends zeros, `fuzz.fill`
sets ranges of it to one byte, `fuzz.bare` leaves all tensors out.

All other keys that begin with `fuzz.` are settings of a harness. An input is a GGUF file itself, so the mutator can
change it field by field; bytes that are not such a file stand for themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from construct import Container

from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.engine import lint
from i2s_spec.schema import container
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.types import I2_S, READINGS, TAIL_BYTES, ValueType
from i2s_spec.testing.sample import Draft, Model, Tensor, array, key_value, tensor_info

PREFIX = "fuzz."

#: Maximum size of a tensor made by repetition, and of a file.
MOST = 1 << 21


class Given(NamedTuple):
    """The meaning of an input: the bytes of a file, and settings by name."""

    file: bytes
    settings: dict[str, Any]


def read(data: bytes) -> Given:
    """The file that an input describes, and its settings."""
    settings = _settings(data)
    if "base" not in settings:
        return Given(data, settings)
    try:
        parsed = container.parse(data)
    except FormatError:
        return Given(data, settings)
    model = base(settings)
    without = settings.get("without", [])
    if isinstance(without, list):
        names = {str(name) for name in without}
        model.keys = [pair for pair in model.keys if pair.key.decode() not in names]
        model.without(*names)
    for pair in parsed.key_values:
        if not pair.key.startswith(PREFIX.encode()):
            _put_key(model, pair)
    if sum(max(_size(info), 0) for info in parsed.tensor_infos) > MOST:
        return Given(data, settings)
    starts = sorted({info.offset for info in parsed.tensor_infos})
    for info in parsed.tensor_infos:
        stop = next((start for start in starts if start > info.offset), len(parsed.data))
        _put_tensor(model, info, parsed.data[info.offset : stop])
    if settings.get("bare") is True:
        model.tensors = []
    made = model.built()
    size = settings.get("size")
    if isinstance(size, int) and size >= 0:
        made = made[:size].ljust(min(size, MOST), b"\0")
    return Given(_filled(made, settings.get("fill")), settings)


def _filled(data: bytes, stretches: Any) -> bytes:
    """The bytes with ranges set to one value each: `start:length:value`, from the end if `start` is negative."""
    made = bytearray(data)
    for stretch in stretches if isinstance(stretches, list) else ():
        numbers = [int(part) for part in str(stretch).split(":") if part.lstrip("-").isdecimal() and len(part) < 12]
        if len(numbers) == 3:
            start = max(0, numbers[0] if numbers[0] >= 0 else len(made) + numbers[0])
            stop = max(start, min(start + numbers[1], len(made)))
            made[start:stop] = bytes((numbers[2] % 256,)) * (stop - start)
    return bytes(made)


def _settings(data: bytes) -> dict[str, Any]:
    file = File(BufferSource(data))
    found: dict[str, Any] = {}
    if file.fault is None and PREFIX.encode() in data:
        for entry in file.metadata.rows:
            if entry.key.startswith(PREFIX) and (entry.element < 0 or entry.element == ValueType.STRING):
                found.setdefault(entry.key.removeprefix(PREFIX), file.metadata.decode(entry))
    return found


def base(settings: dict[str, Any]) -> Model:
    """The sound model that settings choose."""
    name, layers = settings.get("base", "llama"), settings.get("layers", 1)
    known = name if isinstance(name, str) and name in ARCHITECTURES else "llama"
    if not isinstance(layers, int) or not 1 <= layers <= 3:
        layers = 1
    model = Model(known, "big" if settings.get("big_endian") is True else "little", layers)
    if name == "":
        model.keys, model.tensors = [], []
    return model


def _put_key(model: Model, pair: Container) -> None:
    for i, known in enumerate(model.keys):
        if known.key == pair.key:
            model.keys[i] = pair
            return
    model.keys.append(pair)


def _size(info: Container) -> int:
    kinds = READINGS.get(info.type)
    return kinds[-1].nbytes(tuple(info.ne)) if kinds and min(info.ne, default=0) > 0 else 0


def _put_tensor(model: Model, info: Container, content: bytes) -> None:
    size, tail = _size(info), b""
    if info.type == I2_S.number and len(content) > TAIL_BYTES:
        content, tail = content[:-TAIL_BYTES], content[-TAIL_BYTES:]
    room = max(size - len(tail), 0)
    content = (content * (room // len(content) + 1))[:room] if content else bytes(room)
    made = Tensor(bytes(info.name), tuple(info.ne), info.type, content + tail)
    for i, known in enumerate(model.tensors):
        if known.name == made.name:
            model.tensors[i] = made
            return
    model.tensors.append(made)


# --- making inputs ---


def written(
    settings: dict[str, Any], keys: Sequence[Container] = (), tensors: Sequence[Tensor] = (), order: Any = "little"
) -> bytes:
    """An input: settings, keys and tensors as a small GGUF file; bytes of tensors are given in short form."""
    draft = Draft(order)
    pairs = []
    for name, value in settings.items():
        key = (PREFIX + name).encode()
        if isinstance(value, bool):
            pairs.append(key_value(key, ValueType.BOOL, int(value)))
        elif isinstance(value, int):
            pairs.append(key_value(key, ValueType.UINT64, value))
        elif isinstance(value, list):
            pairs.append(key_value(key, ValueType.ARRAY, array(ValueType.STRING, [item.encode() for item in value])))
        else:
            pairs.append(key_value(key, ValueType.STRING, value.encode("utf-8", "surrogateescape")))
    infos, data = [], b""
    for tensor in tensors:
        infos.append(tensor_info(tensor.name, tensor.ne, tensor.number, len(data)))
        data += tensor.data
    return draft.built(
        Container(
            header=Container(magic=b"GGUF", version=3, tensor_count=0, key_count=0), key_values=[*pairs, *keys],
            tensor_infos=infos, padding=b"", data=data, byte_order=order,
        )
    )  # fmt: skip


def difference(data: bytes, most: int) -> bytes | None:
    """A file as the difference from the model from which it was made, with the same findings.

    :returns: None if that takes more than `most` bytes
    """
    try:
        parsed = container.parse(data)
    except FormatError:
        return None
    wanted, order = _findings(data), parsed.byte_order
    likely = [name for name in ARCHITECTURES if name.encode() in data[:400]]
    for name in (*sorted(likely, key=len, reverse=True), *(["llama"] if not likely else []), ""):
        for layers in (1, 3, 2) if name else (1,):
            settings: dict[str, Any] = {"base": name}
            if layers != 1:
                settings["layers"] = layers
            if order == "big":
                settings["big_endian"] = True
            for size in (0, 40, 250, 1000):
                made = _against(base(settings), parsed, settings, order, size)
                if len(made) <= most and _findings(read(made).file) == wanted:
                    return made
    return None


def _findings(data: bytes) -> set[tuple[str, str]]:
    return {(finding.code, finding.span.path) for finding in lint(data).findings}


def _against(base: Model, parsed: Container, settings: dict[str, Any], order: Any, size: int) -> bytes:
    before = {pair.key: pair for pair in base.keys}
    there = {pair.key for pair in parsed.key_values}
    keys = [pair for pair in parsed.key_values if before.get(pair.key) != pair]
    gone = [key.decode() for key in before if key not in there]
    held = {tensor.name: tensor for tensor in base.tensors}
    tensors, names = [], set()
    for info in parsed.tensor_infos:
        names.add(info.name)
        known = held.get(info.name)
        content = parsed.data[info.offset : info.offset + _size(info)]
        if known is None or (known.ne, known.number, known.data) != (tuple(info.ne), info.type, content):
            tensors.append(Tensor(info.name, tuple(info.ne), info.type, _short(content, info, size)))
    gone += [name.decode() for name in held if name not in names]
    if gone:
        settings = {**settings, "without": gone}
    return written(settings, keys, tensors, order)


def _short(content: bytes, info: Container, size: int) -> bytes:
    """The shortest piece whose repetition gives the content; else its first bytes, if `size` says how many."""
    tail = content[-TAIL_BYTES:] if info.type == I2_S.number else b""
    body = content[: len(content) - len(tail)]
    for length in (2, 4, 32, 64, 256, 1024):
        if body == (body[:length] * (len(body) // length + 1))[: len(body)]:
            return body[:length] + tail
    return body[: size or len(body)] + tail
