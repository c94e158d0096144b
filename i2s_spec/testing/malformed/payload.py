"""This module breaks the payloads of I2_S tensors: unused codes, other code maps, runs, copies, odd shares."""

from __future__ import annotations

import random
import struct
from functools import cache, partial
from typing import NamedTuple

from i2s_spec.schema.types import BY_NAME
from i2s_spec.testing.malformed.case import add as add_case
from i2s_spec.testing.malformed.case import plain
from i2s_spec.testing.sample import Draft, tensor_info

_I2S = BY_NAME["I2_S"].number
#: A payload of `SIZE` bytes has 32,768 codes: enough for meaningful shares.
SIZE = 8192


class TernaryTensor(NamedTuple):
    """An I2_S tensor: name, ne, payload, and the bytes after it."""

    name: bytes
    ne: tuple[int, ...]
    payload: bytes
    tail: bytes = struct.pack("<f", 0.5) + bytes(28)


@cache
def trits(
    size: int = SIZE, seed: int = 1, shares: tuple[int, ...] = (1, 1, 1), codes: tuple[int, ...] = (0, 1, 2)
) -> bytes:
    """A payload of `size` bytes whose codes are drawn with these shares; deterministic."""
    made = random.Random(seed).choices(codes, shares, k=4 * size)
    return bytes(a << 6 | b << 4 | c << 2 | d for a, b, c, d in zip(*(iter(made),) * 4, strict=True))


def scaled(scale: float, rest: bytes = bytes(28)) -> bytes:
    """A tail."""
    return struct.pack("<f", scale) + rest


def model(*tensors: TernaryTensor) -> bytes:
    """A sound file with these I2_S tensors and no other."""
    draft = Draft()
    file = draft.records()
    file.tensor_infos, file.data = [], b""
    for name, ne, payload, tail in tensors:
        file.tensor_infos.append(tensor_info(name, ne, _I2S, len(file.data)))
        file.data += payload + tail
    return draft.built(file)


def matrix(payload: bytes, name: bytes = b"first.weight", cols: int = 512, tail: bytes = scaled(0.5)) -> TernaryTensor:
    """A payload as a matrix of rows of `cols` weights."""
    return TernaryTensor(name, (cols, 4 * len(payload) // cols), payload, tail)


def _alone(payload: bytes) -> bytes:
    return model(matrix(payload))


def _with(at: int, data: bytes, size: int = SIZE) -> bytes:
    """A sound payload with other bytes somewhere."""
    whole = trits(size)
    return whole[:at] + data + whole[at + len(data) :]


def _floats(form: str, count: int) -> bytes:
    drawn = random.Random(2)
    return struct.pack(f"<{count}{form}", *(drawn.gauss(0, 0.02) for _ in range(count)))


def _bfloats(count: int) -> bytes:
    words = _floats("f", count)
    return b"".join(words[at + 2 : at + 4] for at in range(0, len(words), 4))


def _few_signs() -> bytes:
    """Zeros, with a weight of +1 in every twentieth byte."""
    return bytes(0x65 if i % 20 == 0 else 0x55 for i in range(SIZE))


def pair(seed: int = 3, scale: float = 0.5) -> bytes:
    """Two matrices, the second with another scale or, from another seed, other weights."""
    other = matrix(trits(seed=seed), b"other.weight", tail=scaled(scale))
    return model(matrix(trits(seed=3), b"one.weight"), other)


def _nan_in_floats() -> bytes:
    draft = Draft()
    start, _ = draft.span("data")
    data = bytearray(draft.data)
    data[start + 8 : start + 12] = struct.pack("<f", float("nan"))
    return bytes(data)


add = partial(add_case, sound=lambda: _alone(trits()))

add("code-3", "I201", "data[0]", lambda: _alone(_with(1000, b"\xff")))
add("code-3-alone-in-its-byte", "I201", "data[0]", lambda: _alone(_with(SIZE - 1, b"\x43")))
add("code-3-throughout", "I201", "data[0]", lambda: _alone(b"\xff" * 128))
add("codes-of-june-2024", "I202", "data[0]", lambda: _alone(trits(codes=(0, 1, 3))))
add("codes-of-t-mac", "I202", "data[0]", lambda: _alone(trits(codes=(1, 2, 3))))
add("payload-of-f32", "I203", "data[0]", lambda: _alone(_floats("f", SIZE // 4)))
add("payload-of-f16", "I203", "data[0]", lambda: _alone(_floats("e", SIZE // 2)))
add("payload-of-bf16", "I203", "data[0]", lambda: _alone(_bfloats(SIZE // 2)))
add("end-not-filled", "I204", "data[0]", lambda: _alone(_with(SIZE - 512, bytes(512))))
add("end-not-filled-by-a-block", "I204", "data[0]", lambda: _alone(_with(4096 - 32, bytes(32), 4096)))
add("all-minus-one", "I205", "data[0]", lambda: _alone(bytes(128)))
add("all-plus-one", "I205", "data[0]", lambda: _alone(b"\xaa" * SIZE))
add("stretch-of-zero-weights", "I206", "data[0]", lambda: _alone(_with(SIZE, b"\x55" * 4096, 8 * SIZE)))
add("stretch-of-zero-bytes", "G411", "data[0]", lambda: _alone(_with(SIZE, bytes(4096), 8 * SIZE)))
add("rows-all-equal", "I207", "data[0]", lambda: _alone(trits(128) * 64))
add("tensor-twice", "I208", "data[1]", pair, sound=partial(pair, 4))
add("signs-only", "I209", "data[0]", lambda: _alone(trits(shares=(1, 0, 1))))
add("hardly-a-sign", "I210", "data[0]", lambda: _alone(_few_signs()))
add("minus-for-plus", "I211", "data[0]", lambda: _alone(trits(shares=(6, 4, 1))))
add("few-zeros", "I212", "data[0]", lambda: _alone(trits(shares=(4, 1, 4))))
add("nan-in-floats", "G413", "data[0]", _nan_in_floats, sound=plain)
