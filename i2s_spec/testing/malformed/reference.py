"""This module makes files whose fault only another file of the same model shows; each comes with that file."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from i2s_spec.schema.types import BY_NAME, I2_S
from i2s_spec.testing.malformed.payload import SIZE, matrix, model, scaled, trits
from i2s_spec.testing.sample import Draft, tensor_info

#: Columns of the matrix; the number of rows follows from the payload.
_COLS = 512


class ReferenceCase(NamedTuple):
    """A file whose weights are not those of a reference, the code that a linter must give, and the path of the span."""

    name: str
    code: str
    path: str
    data: bytes
    reference: bytes
    also: frozenset[str] = frozenset()


def _codes(seed: int = 1) -> list[int]:
    return random.Random(seed).choices((0, 1, 2), k=4 * SIZE)


def _interleaved(codes: list[int], block: int) -> bytes:
    """Codes in `interleave-128` and `interleave-64`."""
    lanes, made = block // 4, bytearray()
    for at in range(0, len(codes), block):
        for lane in range(lanes):
            a, b, c, d = codes[at + lane : at + block : lanes]
            made.append(a << 6 | b << 4 | c << 2 | d)
    return bytes(made)


def _by_rows(codes: list[int]) -> bytes:
    """Codes in `rows-1x4`."""
    made = bytearray()
    for at in range(0, len(codes), 4 * _COLS):
        for col in range(_COLS):
            a, b, c, d = codes[at + col : at + 4 * _COLS : _COLS]
            made.append(a << 6 | b << 4 | c << 2 | d)
    return bytes(made)


def _file(payload: bytes, name: bytes = b"first.weight", scale: float = 0.5) -> bytes:
    return model(matrix(payload, name, _COLS, scaled(scale)))


def _with_gains(payload: bytes, gains: Sequence[float], name: bytes = b"gains.weight") -> bytes:
    """A file with a matrix and a tensor of F32."""
    draft = Draft()
    file = draft.records()
    file.tensor_infos, file.data = [], b""
    for each, ne, number, data in (
        (b"first.weight", (_COLS, 4 * len(payload) // _COLS), I2_S.number, payload + scaled(0.5)),
        (name, (len(gains),), BY_NAME["F32"].number, struct.pack(f"<{len(gains)}f", *gains)),
    ):
        file.tensor_infos.append(tensor_info(each, ne, number, len(file.data)))
        file.data += data
    return draft.built(file)


def compared() -> Iterator[ReferenceCase]:
    """Every case; the bytes are made when the case is reached.

    >>> [case.code for case in compared()]
    ['I401', 'I401', 'I401', 'I402', 'I402', 'I402', 'I403', 'I404', 'I405', 'I406']
    """
    codes = _codes()
    right = _interleaved(codes, 128)
    sound = _file(right)
    for name, payload in (
        ("in-blocks-of-64", _interleaved(codes, 64)),
        ("four-rows-a-byte", _by_rows(codes)),
        ("zero-first-codes", _interleaved([(2, 0, 1)[code] for code in codes], 128)),
    ):
        yield ReferenceCase(name, "I401", "data[0]", _file(payload), sound)
    odd = bytearray(right)
    odd[1000:1016] = bytes(0xAA - byte for byte in odd[1000:1016])  # -1 and +1 exchanged
    odd[1000], odd[1015] = (0x55 if right[at] != 0x55 else 0xAA for at in (1000, 1015))
    yield ReferenceCase("a-few-weights", "I402", "data[0]", _file(bytes(odd)), sound)
    yield ReferenceCase(
        "signs-turned", "I402", "data[0]", _file(_interleaved([2 - code for code in codes], 128)), sound
    )
    yield ReferenceCase("another-model", "I402", "data[0]", _file(trits(SIZE, 9)), sound)
    yield ReferenceCase("another-scale", "I403", "data[0].tail.scale", _file(right, scale=2.0), sound)
    yield ReferenceCase("another-name", "I404", "tensor_infos[0].name", _file(right, b"second.weight"), sound)
    seeded = random.Random(2)
    gains = [seeded.uniform(0.5, 2.0) for _ in range(64)]
    floats = _with_gains(right, gains)
    yield ReferenceCase("gains-less-1", "I405", "data[1]", _with_gains(right, [gain - 1 for gain in gains]), floats)
    other = _with_gains(right, gains, b"other.weight")
    yield ReferenceCase("gains-of-another-name", "I406", "tensor_infos[1].name", other, floats)
