"""Files whose tensors have every type with a scale for each group, in several dimensions and either byte order."""

from __future__ import annotations

from math import prod

import numpy as np
from construct import Container

from i2s_spec.codec.blocks import block_reference
from i2s_spec.codec.blocks.block_shape import blocks_of
from i2s_spec.schema import checks, gguf
from i2s_spec.schema.block_layout import BLOCK_LAYOUTS
from i2s_spec.schema.types import BY_NAME, padded
from i2s_spec.testing.sample import tensor_info

TYPES = tuple(BLOCK_LAYOUTS)


def file_of_blocks(names: tuple[str, ...] | list[str], order: str, alignment: int = 32) -> bytes:
    """A file with a matrix and a tensor of three dimensions of each type, and a tensor F32 at the end.

    No tensor is so small that the room fits several meanings of 42. TL2 stands for a third meaning of it: as many bytes
    as the fork's rule says, all zero.
    """
    random = np.random.default_rng(5)
    infos, data = [], b""
    for name in names:
        for dims in ((11, 5), (2, 3, 6)):
            block = BLOCK_LAYOUTS[name].block if name in BLOCK_LAYOUTS else 256
            shape = *dims[:-1], dims[-1] * block
            if name in BLOCK_LAYOUTS:
                most = 3 if BLOCK_LAYOUTS[name].fourth == "weight" else 2
                scales = random.uniform(-2, 2, blocks_of(shape, name).groups).astype(np.float32)
                values = random.integers(-1, most, shape, dtype=np.int8)
                content = block_reference.pack(values, scales, name, byte_order=order)  # type: ignore[arg-type]
            else:
                content = bytes(BY_NAME[name].nbytes(shape[::-1]))
            infos.append(tensor_info(f"{name}.{len(dims)}".encode(), shape[::-1], BY_NAME[name].number, len(data)))
            data += content.ljust(padded(len(content), alignment), b"\0")
    infos.append(tensor_info(b"last", (4,), 0, len(data)))
    data += bytes(16)
    file = Container(
        header=Container(magic=b"GGUF", version=3, tensor_count=len(infos), key_count=0),
        key_values=[], tensor_infos=infos, padding=b"", data=b"", byte_order=order,
    )  # fmt: skip
    end = len(gguf.build(file))
    file.padding, file.data = bytes(checks.data_start(end, alignment) - end), data
    assert prod(info.ne[0] for info in infos)
    return gguf.build(file)
