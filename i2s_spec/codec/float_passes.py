"""Passes over float weights: words as checkpoints have them (float32, float16, bfloat16), and the rotation of rows.

    sum_runs     |w| added up in 32 columns, so many rows at a time: the first step of `quantize.torch_mean`
    cut_words    the trits round(w * gain), cut to -1..+1, by comparing words with the least that becomes 1
    change_words words of another type, rounded to nearest, ties to even

The definitions are named `..._reference`; the compiled twins, which a property test compares bit for bit, have the
plain names. Words are little-endian; infinities and NaN are reported and not computed with.

The rotation is the one that `schema.rotation.Rotation` declares:

    >>> rotate(np.array([1, 0, 0, 0], dtype=np.float32), 4).tolist()
    [0.5, 0.5, 0.5, 0.5]
    >>> matrix(2).round(3).tolist()
    [[0.707, 0.707], [0.707, -0.707]]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec import _floats
from i2s_spec.codec.encoding import kernel_sets
from i2s_spec.codec.isa import chosen
from i2s_spec.codec.quantize import COLUMNS
from i2s_spec.codec.shape import FLOAT_WORDS, from_bfloat16, to_bfloat16, widened
from i2s_spec.errors import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The bits of infinity by type; what is above is NaN, what is below a number.
INFINITY: Final = {"F32": 0x7F800000, "F16": 0x7C00, "BF16": 0x7F80}


def width_of(type: str) -> int:
    """Bytes of a word."""
    return np.dtype(FLOAT_WORDS[type]).itemsize


def wide(words: NDArray[np.uint8], type: str) -> NDArray[np.float32]:
    """Convert words, given as bytes, to float32."""
    bits: NDArray[Any] = words.view(np.dtype(FLOAT_WORDS[type]).newbyteorder("<"))
    return widened(bits.astype(FLOAT_WORDS[type], copy=False), type)


def sum_runs_reference(words: NDArray[np.uint8], type: str, rows: int, out: NDArray[np.float32]) -> bool:
    """Add up the magnitudes in each of 32 columns over `rows` rows, from the first to the last.

    :param words: the bytes of runs * rows * 32 words
    :param out: float32 [runs, 32], written to
    :returns: whether infinities or NaN are among the words; then `out` means nothing
    :raises ValueError: where the sizes do not fit
    """
    check_sizes(words, type, out.shape[0] * rows * COLUMNS)
    values = np.abs(wide(words, type)).reshape(-1, rows, COLUMNS)
    out[:] = 0
    with np.errstate(all="ignore"):
        for row in range(rows):
            out += values[:, row]
    return not np.isfinite(values).all()


def least_one(gain: np.float32, type: str) -> int:
    """Return the bits of the least magnitude that rounds to 1 or more when `gain` multiplies it, infinity's where
    none does.

    Products of floats with a gain that is not negative never fall while the float grows, so that this is found by halving.

    :param gain: float32, at least 0
    """
    low, high = 0, INFINITY[type]  # the bits of 0, which stays 0, and of what is no weight
    kind = np.dtype(FLOAT_WORDS[type])
    with np.errstate(over="ignore"):
        while high - low > 1:
            middle = (low + high) // 2
            value = widened(np.array([middle], dtype=kind), type)
            low, high = (low, middle) if (np.rint(value * np.float32(gain)) >= 1).item() else (middle, high)
    return high


def cut_words_reference(words: NDArray[np.uint8], type: str, least: int) -> NDArray[np.int8]:
    """Return the trit of each word: 0 below the magnitude with the bits `least`, else the sign.

    :param words: the bytes of finite words
    :returns: int8, flat
    """
    values = wide(words, type)
    edge = widened(np.array([least], dtype=FLOAT_WORDS[type]), type)
    return (np.sign(values) * (np.abs(values) >= edge)).astype(np.int8)


def change_words_reference(words: NDArray[np.uint8], type: str, target: str) -> tuple[NDArray[np.uint8], bool]:
    """Words of another type, rounded to nearest, ties to even.

    :returns: their bytes, and whether infinities or NaN are among them; then the bytes mean nothing
    """
    values = wide(words, type)
    finite = bool(np.isfinite(values).all())
    with np.errstate(all="ignore"):
        if target == "F32":
            made: NDArray[Any] = values.astype("<f4")
            back = made
        elif target == "F16":
            made = values.astype("<f2")
            back = made
        else:
            made = to_bfloat16(values).astype("<u2")
            back = from_bfloat16(made)
        finite = finite and bool(np.isfinite(back).all())
    return np.ascontiguousarray(made).view(np.uint8), not finite


def check_sizes(words: NDArray[np.uint8], type: str, count: int) -> None:
    """Refuse bytes that are not so many words of a type."""
    if words.size != count * width_of(type):
        raise ValueError(
            f"{counted(count, 'word')} of {type} take {counted(count * width_of(type), 'byte')}, "
            f"and there are {words.size:,}"
        )


# --- float passes native ---------------------------------------------------------------------------------------------
# The fast path: the same functions with compiled kernels for the loops (pyx/floats.h).


def sum_runs(words: NDArray[np.uint8], type: str, rows: int, out: NDArray[np.float32]) -> bool:
    """Add up the magnitudes in each of 32 columns over `rows` rows; as `sum_runs_reference`."""
    check_sizes(words, type, out.shape[0] * rows * COLUMNS)
    return _floats.sums(chosen(kernel_sets()).row, _floats.KINDS[type], words, rows, out)


def cut_words(words: NDArray[np.uint8], type: str, least: int) -> NDArray[np.int8]:
    """Return the trit of each word; as `float_passes.cut_words`."""
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


# --- rotation --------------------------------------------------------------------------------------------------------
# The normalized Walsh-Hadamard transform of blocks, with signs.
#
# H has 1 / sqrt(n) where row and column have an even number of bits in common, and its negative elsewhere: Sylvester's
# order. It is symmetric and its own inverse. Sums are done in float32 in the order of the butterfly, from neighbors
# outwards, and the result is scaled once.


def matrix(block: int) -> NDArray[np.float64]:
    """Return H, [block, block], by which `transform` multiplies."""
    each = np.arange(block)
    common = np.bitwise_count(each[:, None] & each[None, :])
    signed: NDArray[np.float64] = np.where(common % 2, -1.0, 1.0) / np.sqrt(block)
    return signed


def transform(x: NDArray[np.float32], block: int) -> NDArray[np.float32]:
    """Multiply each block of the last dimension by H, float32.

    :param x: float32 [..., width]; the width is a multiple of `block`, a power of two
    """
    _require(x, block)
    done = x.reshape(-1, block).astype(np.float32)
    step = 1
    while step < block:
        pairs = done.reshape(-1, block // (2 * step), 2, step)
        low, high = pairs[:, :, 0], pairs[:, :, 1]
        done = np.stack([low + high, low - high], axis=2).reshape(-1, block)
        step *= 2
    scaled: NDArray[np.float32] = done * np.float32(1 / np.sqrt(block))
    return scaled.reshape(x.shape)


def rotate(x: NDArray[np.float32], block: int, signs: Sequence[int] | None = None) -> NDArray[np.float32]:
    """Rotate the input of a folded weight, as programs do: x' = H (s * x)."""
    return transform(x if signs is None else x * np.array(signs, dtype=np.float32), block)


def restore(z: NDArray[np.float32], block: int, signs: Sequence[int] | None = None) -> NDArray[np.float32]:
    """Undo `rotate` for the rows of a rotated table, as programs do: h = s * (H z)."""
    h = transform(z, block)
    return h if signs is None else h * np.array(signs, dtype=np.float32)


def fold(weights: NDArray[np.float32], block: int, signs: Sequence[int] | None = None) -> NDArray[np.float32]:
    """Return the weights [rows, width] whose product with `rotate(x)` is that of `weights` with x: rows rotated as
    inputs are.
    """
    return rotate(weights, block, signs)


def _require(x: NDArray[np.float32], block: int) -> None:
    if block < 1 or block & (block - 1):
        raise ValueError(f"blocks of {counted(block, 'element')} cannot be rotated: it is not a power of two")
    if x.shape[-1] % block:
        raise ValueError(f"rows of {counted(x.shape[-1], 'element')} are not whole blocks of {block:,}")
