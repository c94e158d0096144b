"""This module makes small files for the corpus out of keys and tensors."""

# Tables: a row is easier to compare with the next than its cells one below the other.

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import overlay
from construct import ConstructError
from overlay import written

from i2s_spec.errors import FormatError
from i2s_spec.schema import gguf
from i2s_spec.schema.types import BY_NAME, ValueType
from i2s_spec.testing.malformed import malformed
from i2s_spec.testing.sample import Draft, Tensor, array, key_value

Candidates = Iterator[tuple[str, bytes]]

MOST = 4000


@cache
def small_malformed() -> list[tuple[str, bytes]]:
    """The malformed files, the large ones as what is different in them."""
    made = []
    for case in malformed():
        data = (
            case.data
            if len(case.data) <= MOST
            else overlay.difference(case.data, MOST)
            if len(case.data) < 1 << 21
            else None
        )
        if data is not None:
            made.append((f"{case.code}-{case.name}".replace("_", "-"), data))
    return made


def text_key(name: str, text: str | bytes) -> Any:
    return key_value(
        name.encode(), ValueType.STRING, text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    )


def texts_key(name: str, *texts: str) -> Any:
    return key_value(name.encode(), ValueType.ARRAY, array(ValueType.STRING, [text.encode() for text in texts]))


def number_key(name: str, value: int, kind: ValueType = ValueType.UINT32) -> Any:
    return key_value(name.encode(), kind, value)


def made_tensor(name: str, ne: tuple[int, ...], kind: str, data: bytes) -> Tensor:
    return Tensor(name.encode(), ne, BY_NAME[kind].number, data)


TAIL = struct.pack("<f", 0.5) + bytes(28)

CODES = bytes(byte for byte in Random(3).randbytes(3000) if all(byte >> shift & 3 != 3 for shift in (0, 2, 4, 6)))


def with_settings(data: bytes, **settings: Any) -> bytes | None:
    """A file with settings more."""
    try:
        parsed = gguf.parse(data)
    except (FormatError, ConstructError):  # no file that settings could be put in front of
        return None
    keys = gguf.parse(written(settings, [], [], parsed.byte_order)).key_values
    parsed.key_values = [*keys, *parsed.key_values]
    try:
        made = Draft(parsed.byte_order).built(parsed)
    except (FormatError, ConstructError):  # it declares what cannot be written again
        return None
    return made if len(made) <= MOST else None
