"""This module is the fast path of `float_passes`: the same functions with compiled kernels for the loops (pyx/floats.h)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from i2s_spec.codec.isa import KernelSet, chosen, table
from i2s_spec.codec.quantization import _floats
from i2s_spec.codec.quantization.float_passes import check_sizes, width_of
from i2s_spec.codec.quantization.mean import COLUMNS

if TYPE_CHECKING:
    from numpy.typing import NDArray


@cache
def kernel_sets() -> tuple[KernelSet, ...]:
    """Every set that was compiled, the slowest first; `portable` is always there and can always run."""
    return table(_floats.kernel_sets())


def sum_runs(words: NDArray[np.uint8], type: str, rows: int, out: NDArray[np.float32]) -> bool:
    """The magnitudes in 32 columns, each added up over `rows` rows; as `float_passes.sum_runs`."""
    check_sizes(words, type, out.shape[0] * rows * COLUMNS)
    return _floats.sums(chosen(kernel_sets()).row, _floats.KINDS[type], words, rows, out)


def cut_words(words: NDArray[np.uint8], type: str, least: int) -> NDArray[np.int8]:
    """The trit of each word; as `float_passes.cut_words`."""
    trits = np.empty(words.size // width_of(type), dtype=np.int8)
    check_sizes(words, type, trits.size)
    _floats.cut(chosen(kernel_sets()).row, _floats.KINDS[type], words, least, trits)
    return trits


def change_words(words: NDArray[np.uint8], type: str, target: str) -> tuple[NDArray[np.uint8], bool]:
    """Words of another type; as `float_passes.change_words`."""
    count = words.size // width_of(type)
    check_sizes(words, type, count)
    made = np.empty(count * width_of(target), dtype=np.uint8)
    kinds = _floats.KINDS
    return made, _floats.change(chosen(kernel_sets()).row, kinds[type], words, count, kinds[target], made)
