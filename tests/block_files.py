"""Files with tensors of every type with a scale for each group, in several dimensions and either byte order."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
from construct import Container

from i2s_spec.codec import blocks
from i2s_spec.codec.blocks import blocks_of
from i2s_spec.schema import container, faults
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.types import BY_NAME, READINGS, padded
from i2s_spec.testing.sample import tensor_info

TYPES = tuple(GROUP_LAYOUTS)


def file_of_blocks(names: tuple[str, ...] | list[str], order: str, alignment: int = 32) -> bytes:
    """A file with a matrix and a tensor of three dimensions of each type, and a tensor F32 at the end.

    No tensor is so small that the room fits several meanings of 42. TL2 stands for a third meaning of it: as many bytes
    as the fork's rule says, all zero.
    """
    tensors = []
    for name in names:
        block = GROUP_LAYOUTS[name].block if name in GROUP_LAYOUTS else 256
        tensors += [(f"{name}.2", name, (11, 5 * block)), (f"{name}.3", name, (2, 3, 6 * block))]
    return file_of_tensors(tensors, order, alignment)


def file_of_tensors(
    tensors: list[tuple[str, str, tuple[int, ...]]], order: str, alignment: int = 32, reverse: bool = False
) -> bytes:
    """A file with these tensors, name, type and shape of each, and a tensor F32 at the end of its data."""
    random = np.random.default_rng(5)
    infos, data = [], b""
    for label, name, shape in tensors:
        if name in GROUP_LAYOUTS:
            most = 3 if GROUP_LAYOUTS[name].fourth == "weight" else 2
            scales = random.uniform(-2, 2, blocks_of(shape, name).groups).astype(np.float32)
            values = random.integers(-1, most, shape, dtype=np.int8)
            content = blocks.pack(values, scales, name, byte_order=order)  # type: ignore[arg-type]
        else:
            content = bytes(BY_NAME[name].nbytes(shape[::-1]))
        infos.append(tensor_info(label.encode(), shape[::-1], BY_NAME[name].number, len(data)))
        data += content.ljust(padded(len(content), alignment), b"\0")
    infos.append(tensor_info(b"last", (4,), 0, len(data)))
    data += bytes(16)
    if reverse:
        infos.reverse()
    file = Container(
        header=Container(magic=b"GGUF", version=3, tensor_count=len(infos), key_count=0),
        key_values=[], tensor_infos=infos, padding=b"", data=b"", byte_order=order,
    )  # fmt: skip
    end = len(container.build(file))
    file.padding, file.data = bytes(faults.data_start(end, alignment) - end), data
    assert prod(info.ne[0] for info in infos)
    return container.build(file)


def files_of_small_tensors(order: str, count: int) -> Iterator[bytes]:
    """Files with tensors of 40 and of 42, so small that many fit several types: each number means one type in a file.

    In every fourth file the tensors are not in the order of their offsets.
    """
    random = np.random.default_rng(9)
    for k in range(count):
        kinds = [str(random.choice([each.name for each in READINGS[number]])) for number in (40, 42)]
        tensors = []
        for i in range(int(random.integers(3, 9))):
            name = kinds[int(random.integers(2))]
            shape = (1, 128) if i % 3 == 2 else (int(random.integers(1, 7)), 128 * int(random.integers(1, 9)))
            tensors.append((f"t{i}", name, shape))
        yield file_of_tensors(tensors, order, reverse=k % 4 == 3)
