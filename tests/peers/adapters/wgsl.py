"""An adapter of the exported shaders, which wgpu runs on any Vulkan device.

i2s conform run -- python tests/peers/adapters/wgsl.py
"""

from functools import partial
from pathlib import Path

import numpy as np
import wgpu
from generated import FEATURES, decoded
from peers.wgsl_device import device, run
from speak import speak

from i2s_spec.exports import wgsl

TEXT = wgsl.text()


def elements(entry, data, shape, settings):
    found = run(TEXT, entry, (*shape, 0, *settings), data, b"", shape[0] * shape[1])
    return found.view(np.float32) if entry == "dequantise" else found


def answer(op, path, args):
    return decoded(op, Path(path).read_bytes(), args, partial(elements, "decode"), partial(elements, "dequantise"))


speak(
    {
        "name": "WGSL, by wgpu",
        "version": f"{wgpu.__version__}, {device().adapter.info['description']}",
        "language": "wgsl",
    },
    ["decode", "dequant"],
    answer,
    FEATURES,
)
