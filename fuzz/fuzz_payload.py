"""The codec: every set of kernels gives what the definition gives, or refuses in the same words.

The first eight bytes of an input choose dialects, shape, byte order and strictness; the rest is the tensor, repeated or
cut to its size, or left as it is.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, get_args

import numpy as np
from harness import replayed, search

from i2s_spec.codec import native, recode, reference
from i2s_spec.codec.isa import VARIABLE, kernel_sets
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, TAILS, Dialect

_DIALECTS = [
    Dialect(layout, code_map, tail)
    for layout in LAYOUTS.values() for code_map in CODE_MAPS.values() for tail in TAILS.values()
]  # fmt: skip
_COLUMNS = (128, 64, 256, 32, 4, 132, 192, 1, 384, 130, 16, 96, 512, 3, 640, 0)
_CODE3 = get_args(reference.Code3)
HEAD = 8


def outcome(function: Callable[[], Any]) -> Any:
    """What a function gives, in a form that compares bit for bit; or how it refuses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the definition warns of, it gives all the same
        try:
            given = function()
        except (ValueError, TypeError) as error:
            return type(error).__name__, str(error)
    parts = given if isinstance(given, tuple) else (given,)
    return [
        (part.dtype.str, part.shape, part.tobytes()) if isinstance(part, np.ndarray | np.generic) else part
        for part in parts
    ]


def one_input(data: bytes) -> None:
    """What must hold for any bytes; whatever is raised here is a find."""
    head = data[:HEAD].ljust(HEAD, b"\0")
    source, target = _DIALECTS[head[0] % len(_DIALECTS)], _DIALECTS[head[1] % len(_DIALECTS)]
    rows, cols = head[2] % 20, _COLUMNS[head[3] % len(_COLUMNS)]
    order = "big" if head[4] & 1 else "little"
    strict, exact = not head[4] & 2, not head[4] & 4
    code3: Any = _CODE3[head[5] % len(_CODE3)]
    tensor = data[HEAD:]
    if exact:
        size = rows * cols // 4 + 32
        tensor = (tensor * (size // len(tensor) + 1))[:size] if tensor else bytes(size)
    shape = (rows, cols)
    more: Any = {"byte_order": order, "strict": strict}

    def each(codec: Any) -> list[Any]:
        return [
            outcome(lambda: codec.unpack(tensor, shape, source, **more, code3=code3)),
            outcome(lambda: codec.dequantize(tensor, shape, source, **more, code3=code3)),
            outcome(lambda: codec.histogram(tensor, shape, strict=strict)),
            outcome(lambda: tuple(codec.scan(tensor, shape, source, strict=strict))),
            outcome(lambda: codec.transcode(tensor, shape, source, target, **more)),
        ]

    wanted = each(_Definition)
    before = os.environ.get(VARIABLE)
    try:
        for kernels in kernel_sets():
            if kernels.available:
                os.environ[VARIABLE] = kernels.name
                assert each(native) == wanted, kernels.name
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before
    _packed_again(tensor, shape, source, more)


class _Definition:
    """The definition of all that `native` has."""

    unpack, dequantize, pack = (staticmethod(f) for f in (reference.unpack, reference.dequantize, reference.pack))
    histogram, scan, transcode = (staticmethod(f) for f in (recode.histogram, recode.scan, recode.transcode))


def _packed_again(tensor: bytes, shape: tuple[int, int], dialect: Dialect, more: Any) -> None:
    """What can be unpacked strictly is packed to the same bytes again, but for those that mean nothing."""
    if not more["strict"]:
        return
    try:
        trits, scale = native.unpack(tensor, shape, dialect, byte_order=more["byte_order"])
        made = native.pack(trits, scale, dialect, byte_order=more["byte_order"])
    except ValueError:
        return
    meaning = trits.size // 4 + 4 * dialect.tail.copies
    assert bytes(made)[:meaning] == tensor[: trits.size // 4] + bytes(made)[trits.size // 4 : meaning]
    again, same = native.unpack(made, shape, dialect, byte_order=more["byte_order"])
    assert np.array_equal(again, trits)
    assert np.float32(same).tobytes() == np.float32(scale).tobytes()


@replayed("payload")
def test_corpus(path: Path) -> None:
    one_input(path.read_bytes())


def test_chance() -> None:
    for i in range(250):
        chance = Random(i)
        head = bytes(chance.randrange(256) for _ in range(HEAD))
        codes = chance.choice((b"\x15", b"\x00\x55\xaa", b"\xff", b"\x1b", chance.randbytes(40)))
        one_input(head + codes * chance.choice((1, 7, 50)))


if __name__ == "__main__":
    search(one_input, gguf=False)
