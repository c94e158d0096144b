"""This module makes candidates whose payloads and tails are odd."""

# Tables: a row is easier to compare with the next than its cells one below the other.
# ruff: noqa: E501

from __future__ import annotations

import struct
from itertools import product
from random import Random

from candidates_build import CODES, TAIL, Candidates, made_tensor, text_key
from overlay import written


def payloads() -> Candidates:
    """Payloads of odd codes and runs, and tails, in a model and alone."""
    pieces = {
        "zeros": bytes(40), "fives": b"\x55" * 40, "ones": b"\xff" * 40, "codes": CODES[:300], "halves": CODES[:100] + bytes(600),
        "few-zeros": b"\x00\xaa\x02\xa0" * 20, "lopsided": b"\x55\x95\x56" * 30, "odd": CODES[:200] + b"\xff" * 3,
        "floats": struct.pack("<64f", *(Random(1).gauss(0, 0.02) for _ in range(64))), "plus": b"\xaa" * 30,
        "halfs": struct.pack("<64e", *(Random(1).gauss(0, 0.5) for _ in range(64))),
        "brain": b"".join(struct.pack("<f", Random(i).gauss(0, 0.5))[2:] for i in range(64)),
        "code-3": bytes((0xC0, 0x30, 0x0C, 0x03)) * 20, "msb": bytes((0x40, 0x10, 0x04, 0x01)) * 8, "rare-3": CODES[:500] + b"\xc0",
        "end": CODES[:400],
    }  # fmt: skip
    tails = {
        "": TAIL, "-nan": b"\0\0\xc0\x7f" + bytes(28), "-eight": struct.pack("<f", 0.5) * 8, "-big": struct.pack(">f", 0.5) + bytes(28),
        "-zero": bytes(32), "-stale": struct.pack("<f", 0.7) + b"stale" * 5 + b"abc", "-large": struct.pack("<f", 1e9) + bytes(28),
        "-negative": struct.pack("<f", -2.0) + bytes(28), "-in-front": bytes(28) + struct.pack("<f", 0.5),
        "-pattern": b"\x41" * 32, "-inverted": struct.pack("<f", 300.0) + bytes(28),
    }  # fmt: skip
    for (name, piece), (of, tail) in product(pieces.items(), tails.items()):
        if of and name not in ("codes", "zeros"):
            continue
        for ne in ((256, 128), (1024, 64)):
            tensor = made_tensor("blk.0.attn_q.weight", ne, "I2_S", piece + tail)
            yield (
                f"payload-{name}{of}-{ne[0]}",
                written({"base": ""}, [text_key("general.architecture", "sample")], [tensor]),
            )
        first = made_tensor("blk.0.ffn_up.weight", (128, 256), "I2_S", piece + tail)
        yield f"model-{name}{of}", written({"base": "bitnet-b1.58"}, [], [first])
    two = [
        made_tensor(f"{name}.weight", (256, 64), "I2_S", CODES[:500] + tail)
        for name, tail in (("a", TAIL), ("b", TAIL))
    ]
    yield "payload-twice", written({"base": ""}, [], two)
    other = [two[0], made_tensor("c.weight", (256, 64), "I2_S", CODES[:500] + tails["-large"])]
    yield "payload-twice-other-scale", written({"base": ""}, [], other)
    many = [
        made_tensor(
            f"blk.{i}.ffn_down.weight", (256, 64), "I2_S", CODES[i : 200 + i] + struct.pack("<f", 0.5 + i) + bytes(28)
        )
        for i in range(5)
    ]
    yield "payload-many-scales", written({"base": ""}, [], many)
    inverted = [
        *many[:4],
        made_tensor("blk.4.ffn_down.weight", (256, 64), "I2_S", CODES[:200] + struct.pack("<f", 0.001) + bytes(28)),
    ]
    yield "payload-one-inverted", written({"base": ""}, [], inverted)
    for kind in ("F32", "F16", "BF16", "Q8_0", "TQ2_0", "TQ1_0", "F64", "I32", "Q4_0", "TL1", "TL2", "Q6_K"):
        for name, piece in (
            ("nan", b"\xff\x7f\xff\x7f\0\0\xc0\x7f"),
            ("ones", b"\0\0\x80\x3f"),
            ("zeros", bytes(8)),
            ("noise", Random(4).randbytes(300)),
        ):
            tensor = made_tensor("blk.0.attn_k.weight", (256, 16), kind, piece)
            yield (
                f"type-{kind}-{name}".lower(),
                written({"base": ""}, [text_key("general.architecture", "sample")], [tensor]),
            )
            yield (
                f"typed-{kind}-{name}".lower(),
                written({"base": "bitnet-b1.58"}, [], [made_tensor("blk.0.attn_k.weight", (128, 128), kind, piece)]),
            )
