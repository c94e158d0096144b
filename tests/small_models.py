"""Files with hundreds of small I2_S tensors of all kinds, for code that processes many of them at once."""

from __future__ import annotations

import io

import numpy as np

from i2s_spec.compare.hash import TOGETHER
from i2s_spec.gguf.reader import File, open
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema.faults import ByteOrder

#: Shapes of tensors that are read together, and shapes that some or all layouts do not support: these are read alone.
SHAPES = (
    (1, 128),
    (128,),
    (4, 64),
    (8, 32),
    (4, 32),
    (2, 128),
    (16, 256),
    (1, 64),
    (1, 4, 128),
    (3, 4, 128),
    (12, 128),
)


def model(
    seed: int,
    byte_order: ByteOrder = "little",
    like: int | None = None,
    shapes: tuple[tuple[int, ...], ...] = SHAPES,
    clean: bool = False,
) -> File:
    """A file of some hundreds of small tensors, in no order; with `like`, two in three are those of that seed."""
    random, out = np.random.default_rng(seed), io.BytesIO()
    base = None if like is None else np.random.default_rng(like)
    with Writer(out, byte_order=byte_order) as writer:
        writer.add("general.architecture", "bitnet-b1.58")
        for i in range(2 * TOGETHER + 9):
            shape = shapes[i % len(shapes)]
            elements = int(np.prod(shape))
            data = _data(random, elements, byte_order, clean)
            kept = None if base is None else _data(base, elements, byte_order, clean)
            writer.add_tensor(f"t{i * 7919 % 1000}", shape, "I2_S", kept if kept is not None and i % 3 else data)
            if i % 50 == 0:
                writer.add_tensor(f"f{i}", (4,), "F32", bytes(16))
    out.seek(0)
    return open(out)


def _data(random: np.random.Generator, elements: int, byte_order: ByteOrder, clean: bool) -> bytes:
    """Codes of which some stand for nothing unless clean, some rows are zero, and a tail with something in it."""
    payload = random.integers(0, 256, elements // 4, dtype=np.uint8)
    if clean:
        payload &= ~(payload >> np.uint8(1) & np.uint8(0x55))
    payload[: int(random.integers(0, payload.size + 1))] = 0x55
    scale = np.array([random.random() - (0 if clean else 0.5)], dtype=("<f4" if byte_order == "little" else ">f4"))
    tails = (bytes(28), scale.tobytes() * 7, random.bytes(28))
    return payload.tobytes() + scale.tobytes() + tails[int(random.integers(3))]
