"""This module breaks the scales of I2_S tensors, and puts other bytes into their tails."""

from __future__ import annotations

import struct
from functools import partial

from i2s_spec.testing.malformed.case import add as add_case
from i2s_spec.testing.malformed.payload import SIZE, TernaryTensor, matrix, model, pair, scaled, trits

_NAN, _INFINITY = float("nan"), float("inf")


def _scaled(scale: float) -> bytes:
    return model(matrix(trits(), tail=scaled(scale)))


def _several(*scales: float) -> bytes:
    """Tensors with these scales."""
    return model(*(
        matrix(trits(4096, seed), b"tensor.%d.weight" % seed, tail=scaled(scale)) for seed, scale in enumerate(scales)
    ))  # fmt: skip


def _attention(*scales: float) -> bytes:
    """A layer of an architecture that is not declared."""
    names = (b"attn_q", b"attn_k", b"attn_v")
    return model(*(
        matrix(trits(1024, seed), b"blk.0.%s.weight" % name, tail=scaled(scale))
        for seed, (name, scale) in enumerate(zip(names, scales, strict=True))
    ))  # fmt: skip


def _header_in_front() -> bytes:
    payload = struct.pack("<e", 0.03125) + bytes(30) + trits(SIZE - 32)
    return model(matrix(payload, tail=bytes(32)))


def _float_in_front(rest: bytes = bytes(28)) -> bytes:
    """A float32 and, with `rest`, zeros where the codes should begin; the codes end where the scale should be."""
    shifted = struct.pack("<f", 0.03125) + rest + trits(SIZE, 6)  # the last bytes are not a usual scale
    return model(matrix(shifted[:SIZE], tail=shifted[SIZE:].ljust(32, b"\0")))


def _by_rows(form: str) -> bytes:
    """Rows of 512 weights with a scale in front of each, and nothing after them."""
    codes, scale = trits(), struct.pack(form, 0.03125)
    rows = b"".join(scale + codes[at : at + 128] for at in range(0, SIZE, 128))
    return model(TernaryTensor(b"first.weight", (512, 64), rows, b""))


def _left_behind() -> bytes:
    """A large tensor, then a small one whose tail has bytes of the large one, as if both were written with one buffer."""
    large = trits(2 * SIZE, 4)
    rest = large[SIZE + 4 : SIZE + 32]
    return model(matrix(large, b"one.weight"), matrix(trits(SIZE, 5), b"other.weight", tail=scaled(0.6, rest)))


_USUAL = partial(_several, 0.021, 0.025, 0.024, 0.022, 0.026)
add = partial(add_case, sound=partial(_scaled, 0.5))

add("scale-nan", "I302", "data[0].tail.scale", partial(_scaled, _NAN))
add("scale-infinite", "I303", "data[0].tail.scale", partial(_scaled, _INFINITY))
add("scale-minus-infinite", "I303", "data[0].tail.scale", partial(_scaled, -_INFINITY))
add("scale-zero", "I304", "data[0].tail.scale", partial(_scaled, 0.0))
add("scale-negative", "I305", "data[0].tail.scale", partial(_scaled, -0.5))
add("scale-subnormal", "I306", "data[0].tail.scale", partial(_scaled, 1e-41))
add("scale-tiny", "I306", "data[0].tail.scale", partial(_scaled, 1e-13))
add("scale-large", "I307", "data[0].tail.scale", partial(_scaled, 3000.0))
add("scale-small", "I307", "data[0].tail.scale", partial(_scaled, 2.0**-15))
add(
    "scale-inverted",
    "I308",
    "data[2].tail.scale",
    partial(_several, 0.021, 0.025, 1 / 0.024, 0.022, 0.026),
    sound=_USUAL,
)
add("scale-eight-times", "I309", "data[0].tail.unused", lambda: (
    model(matrix(trits(), tail=struct.pack("<f", 0.5) * 8))))  # fmt: skip
add("tail-with-old-memory", "I310", "data[0].tail.unused", lambda: (
    model(matrix(trits(), tail=scaled(0.5, bytes(range(1, 29)))))))  # fmt: skip
add("tail-of-another-tensor", "I311", "data[1].tail.unused", _left_behind, sound=partial(pair, 4, 0.6))
add("scale-in-front", "I312", "data[0]", _header_in_front)
add("float-in-front-with-zeros", "I312", "data[0]", _float_in_front, also=("I310",))
add("float-in-front", "I312", "data[0]", partial(_float_in_front, b""))
add("float-in-every-row", "I112", "data[0]", partial(_by_rows, "<f"))
add("half-in-every-row", "I112", "data[0]", partial(_by_rows, "<e"))
add("scales-identical", "I313", "data[0].tail.scale", partial(_several, 1.0, 1.0, 1.0, 1.0), sound=_USUAL)
add("scales-far-apart", "I314", "data[1].tail.scale", partial(_attention, 0.02, 4.1, 0.03),
    also=("M001",), sound=partial(_attention, 0.02, 0.041, 0.03))  # fmt: skip
add("zeros-with-a-scale", "I315", "data[0].tail.scale", partial(
    model, TernaryTensor(b"first.weight", (512, 4), b"\x55" * 512, scaled(5e-3))), also=("I205",))  # fmt: skip
add("same-codes-other-scale", "I316", "data[1].tail.scale", partial(pair, scale=0.7), sound=partial(pair, 4, 0.7))
