"""Runs the exported shaders by wgpu, on any adapter that it finds."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

#: Invocations of a workgroup, and the most workgroups of a dimension of the grid.
_GROUP, _MOST = 64, 65_535


@cache
def device() -> Any:
    """A device with the limits of its adapter.

    :raises ImportError, RuntimeError: without wgpu, or without an adapter
    """
    import wgpu

    adapter = wgpu.gpu.request_adapter_sync()
    return adapter.request_device_sync()


def require() -> None:
    """Make the device.

    :raises ImportError, RuntimeError: without wgpu, or without an adapter
    """
    device()


@cache
def _pipeline(text: str, entry: str) -> Any:
    module = device().create_shader_module(code=text)
    return device().create_compute_pipeline(layout=_layout(), compute={"module": module, "entry_point": entry})


@cache
def _layout() -> Any:
    kinds = ("uniform", "read-only-storage", "read-only-storage", "storage")
    entries = [{"binding": i, "visibility": 4, "buffer": {"type": kind}} for i, kind in enumerate(kinds)]
    return device().create_pipeline_layout(bind_group_layouts=[device().create_bind_group_layout(entries=entries)])


def run(text: str, entry: str, shape: tuple[int, ...], tensor: bytes, activations: bytes, count: int) -> Any:
    """The first `count` results of a shader, int32.

    :param shape: rows, cols, tokens, kind, order, code_map, big_endian
    """
    import numpy as np
    import wgpu

    made = [
        device().create_buffer_with_data(data=data + bytes(-len(data) % 4 + 4), usage=usage)
        for data, usage in (
            (struct.pack("<8I", *shape, 0), wgpu.BufferUsage.UNIFORM),
            (tensor, wgpu.BufferUsage.STORAGE),
            (activations, wgpu.BufferUsage.STORAGE),
        )
    ]
    made.append(device().create_buffer(size=4 * count, usage=wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC))
    pipeline = _pipeline(text, entry)
    entries = [
        {"binding": i, "resource": {"buffer": each, "offset": 0, "size": each.size}} for i, each in enumerate(made)
    ]
    group = device().create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = device().create_command_encoder()
    compute = encoder.begin_compute_pass()
    compute.set_pipeline(pipeline)
    compute.set_bind_group(0, group)
    groups = -(-count // _GROUP)
    compute.dispatch_workgroups(min(groups, _MOST), -(-groups // _MOST))
    compute.end()
    device().queue.submit([encoder.finish()])
    return np.frombuffer(device().queue.read_buffer(made[3]), np.int32)
