"""This module writes trits with one scale, or with one for each group, in the types that can hold them.

Every encoded window is decoded again and compared before it is returned (`Encoder.proved`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from i2s_spec.checkpoints.source.bounded_json import refused
from i2s_spec.checkpoints.source.source_weights import FloatMatrix, TernaryMatrix
from i2s_spec.codec.blocks import block_native
from i2s_spec.codec.form import FLOAT_WORDS, Form
from i2s_spec.codec.quantization.in_order import in_order
from i2s_spec.codec.scale_rounding import ProofError
from i2s_spec.codec.ternary_types import BLOCK_TYPES
from i2s_spec.codec.trits import WINDOW
from i2s_spec.codec.weights import from_bfloat16, to_bfloat16
from i2s_spec.convert.tensors.encode import TARGETS, Encoder
from i2s_spec.errors import counted, quote

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Types of float tables.
FLOAT_TYPES: Final = tuple(FLOAT_WORDS)


def why_not(type: str, shape: tuple[int, ...]) -> str | None:
    """Why a type cannot hold a matrix of a shape; None if it can."""
    try:
        Encoder(Form(type, shape), np.float32(1))
    except ValueError as error:
        return str(error)
    return None


def fitting(shapes: set[tuple[int, ...]]) -> list[str]:
    """The types that can hold all of these shapes."""
    return [type for type in TARGETS if not any(why_not(type, shape) for shape in shapes)]


def encoded(name: str, matrix: TernaryMatrix | FloatMatrix, type: str, threads: int) -> Iterator[bytes]:
    """The bytes of a matrix, a window at a time.

    :raises FormatError: H104 for group scales that the type does not have, and for scales that it cannot hold
    """
    try:
        if isinstance(matrix, TernaryMatrix) and matrix.scales.size > 1:
            yield from _grouped(name, matrix, type)
            return
        encoder = Encoder(Form(type, matrix.shape), matrix.scale)
        size, unit = encoder.form.elements, encoder.form.unit
        step = max(WINDOW // unit, 1) * unit

        def made(start: int) -> bytes:
            return encoder.proved(matrix.window(start, min(start + step, size)))

        yield from in_order(made, range(0, size, step), threads)
        yield encoder.tail()
    except ProofError:
        raise
    except ValueError as error:
        raise error if hasattr(error, "fault") else refused(f"tensor {quote(name)}: {error}") from None


def _grouped(name: str, matrix: TernaryMatrix, type: str) -> Iterator[bytes]:
    rows, cols = matrix.trits.shape
    group = cols // matrix.scales.shape[1]
    if type in FLOAT_TYPES:
        step = max(WINDOW // cols, 1)
        for start in range(0, rows, step):
            scales = np.repeat(matrix.scales[start : start + step], group, axis=1)
            yield float_words(name, matrix.trits[start : start + step] * scales, type, exact=True)
        return
    target = 0
    if type in BLOCK_TYPES:
        target = BLOCK_TYPES[type].group_elements(cols)
    if not target or group % target:
        fits = [each for each, layout in BLOCK_TYPES.items() if group % layout.group_elements(cols) == 0]
        raise refused(
            f"tensor {quote(name)} has a scale for every {counted(group, 'weight')}, which {type} cannot store; "
            f"{', '.join([*(each for each in fits if not why_not(each, (rows, cols))), *FLOAT_TYPES])} can"
        )
    scales = np.repeat(matrix.scales, group // target, axis=1)
    used = matrix.trits.reshape(rows, -1, target).any(axis=2)
    scales = np.where(used, scales, np.float32(0))
    data: bytes = block_native.pack(matrix.trits, scales.reshape(-1), type)
    trits, stored = block_native.unpack(data, (rows, cols), type)
    rounded = scales if BLOCK_TYPES[type].scale.type == "F32" else scales.astype(np.float16).astype(np.float32)
    if not np.array_equal(trits, matrix.trits) or not np.array_equal(stored.reshape(rows, -1), rounded):
        raise ProofError(f"{type} does not give back what was written of {name}")
    yield data


def float_words(name: str, values: NDArray[np.float32], type: str, exact: bool = False) -> bytes:
    """Floats as little-endian words of a type, rounded to nearest, ties to even.

    :param exact: refuse what would be rounded
    :raises FormatError: H104 for values that the type cannot represent
    """
    if type == "F32":
        return values.astype("<f4").tobytes()
    if type == "BF16":
        words = to_bfloat16(values).astype("<u2")
        back = from_bfloat16(words)
    else:
        with np.errstate(over="ignore"):
            halves = values.astype("<f2")
        words, back = halves.view("<u2"), halves.astype(np.float32)
    if not np.isfinite(back).all():
        raise refused(
            f"tensor {quote(name)} has values up to {np.abs(values).max():.4g}, which {type} cannot represent"
        )
    if exact and not np.array_equal(back, values):
        raise refused(f"tensor {quote(name)} has scales that {type} would round; F32 keeps them")
    return words.tobytes()
