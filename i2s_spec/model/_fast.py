"""The kernels of profile `fast` in NumPy, where `pyx/_fast.pyx` is not compiled (`codec._cpu`).

There are no programs and no screened heads: graphs are walked node by node.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.portable import portable_needs, portable_sets
from i2s_spec.codec.shape import from_bfloat16

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Steps, weight types and activation functions by their names.
OPS: Final[dict[str, int]] = {}
TYPES: Final = {"float32": 0, "float16": 1, "uint16": 2}
ACTIVATIONS: Final = {"relu": 0, "square": 1, "relu2": 2, "silu": 3, "gelu": 4}
#: Most matrices in a step, the widest head, floats of scratch memory for attention, keys of a token processed together.
MOST_MATRICES, WIDEST, ROOM, SPLIT = 1, 1, 1, 1
HEAD_COLUMNS: Final = 128
#: Rows of weights that are expanded at a time.
_ROWS: Final = 1024
_GELU: Final = np.float32(np.sqrt(2 / np.pi)), np.float32(0.044715)


class Program:
    """The steps of a pass.

    :raises NotImplementedError: always
    """

    def __init__(self, *arguments: int) -> None:
        raise NotImplementedError(type(self).__name__)

    def __getattr__(self, name: str) -> Any:
        """Type what the extension has; nothing gets here."""
        raise AttributeError(name)


class HeadRows(Program):
    """The rows of a head, of which some are read.

    :raises NotImplementedError: always
    """


kernel_sets = head_sets = portable_sets
kernel_needs = portable_needs


def dots(fast: int, kind: int, w: int, rows: int, pitch: int, x: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write out[t, r] = the sum of row r of the weights at an address, `pitch` bytes apart, times token t."""
    form = np.dtype((np.float32, np.float16, np.uint16)[kind])
    width = x.shape[1] * form.itemsize
    for first in range(0, rows, _ROWS):
        count = min(_ROWS, rows - first)
        memory = (ctypes.c_ubyte * (pitch * (count - 1) + width)).from_address(w + first * pitch)
        part = np.ndarray((count, x.shape[1]), form, memory, strides=(pitch, form.itemsize))
        weights = from_bfloat16(part) if form == np.uint16 else part.astype(np.float32)
        with np.errstate(all="ignore"):
            np.matmul(x, weights.T, out=out[:, first : first + count])


def activate(fast: int, kind: int, x: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write the activation of x."""
    with np.errstate(all="ignore"):
        if kind == ACTIVATIONS["silu"]:
            out[:] = x / (np.float32(1) + np.exp(-x))
        elif kind == ACTIVATIONS["gelu"]:
            root, cube = _GELU
            out[:] = np.float32(0.5) * x * (np.float32(1) + np.tanh(root * x * (np.float32(1) + cube * x * x)))
        else:
            out[:] = x if kind == ACTIVATIONS["square"] else np.maximum(x, np.float32(0))
            if kind != ACTIVATIONS["relu"]:
                out *= out


def norm(fast: int, x: NDArray[np.float32], eps: float, out: NDArray[np.float32]) -> None:
    """Write each row divided by the root of the mean of its squares plus eps."""
    with np.errstate(all="ignore"):
        mean = np.mean(x * x, axis=1, keepdims=True, dtype=np.float32)
        np.divide(x, np.sqrt(mean + np.float32(eps)), out=out)


def halve(fast: int, x: NDArray[np.float32], out: NDArray[np.uint16]) -> None:
    """Write floats rounded to half precision, as bits."""
    with np.errstate(all="ignore"):
        out[:] = x.astype(np.float16).view(np.uint16)
