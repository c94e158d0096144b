"""Packed checkpoints in memory, by names of modules, for tests."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from i2s_spec.codec.encoding import Rounding
from i2s_spec.safetensors.files import Checkpoint, write_checkpoint
from i2s_spec.safetensors.packed import (
    Convention,
    PackedWeights,
    checked_convention,
    configured,
    packed_tensors,
    stored_scale,
)


def read_packed(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], weight_scale: Convention | Literal["auto"] = "auto"
) -> PackedWeights:
    """The packed weights of a checkpoint: a mapping from modules to (int8 trits [rows, cols], float32 scale).

    :param path: a safetensors file, a folder of them, or several
    :param weight_scale: whether it multiplies or divides; `auto` asks the config.json beside the file
    :raises ValueError: where that does not say it, and for a `weight_scale` of 0 that divides
    :raises FormatError: for what is no such checkpoint (H101, H102), or cannot be read
    """
    convention = configured(path) if weight_scale == "auto" else checked_convention(weight_scale)
    return PackedWeights(Checkpoint(path), convention)


def write_packed(
    path: str | os.PathLike[str],
    weights: Mapping[str, tuple[NDArray[np.int8], float | np.float32]],
    *,
    weight_scale: Convention = "multiply",
    scale_type: str = "F32",
    force: bool = False,
) -> dict[str, Rounding]:
    """Write trits and scales as a packed checkpoint.

    :param weights: int8 trits [rows, cols] with rows a multiple of 4, and the scale, by module
    :param weight_scale: whether it is to multiply or to divide
    :param scale_type: F32, or BF16, which published checkpoints have
    :param force: replace an existing file
    :returns: what became of each scale
    :raises ValueError: for a shape or a scale that has no place, before anything is written
    """
    scales = {module: stored_scale(scale, weight_scale, scale_type) for module, (_, scale) in weights.items()}
    tensors = [
        tensor
        for module, (trits, _) in weights.items()
        for tensor in packed_tensors(module, trits.shape, partial(np.asarray, trits), scales[module], scale_type)
    ]
    write_checkpoint(path, tensors, force=force)
    return {module: each.rounding for module, each in scales.items()}
