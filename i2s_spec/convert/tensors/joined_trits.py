"""This module writes the trits of many tensors at once, one after the other, each with a scale, and proves the result."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from i2s_spec.codec.blocks import block_native
from i2s_spec.codec.blocks.block_shape import blocks_of
from i2s_spec.codec.form import FLOAT_WORDS, widened
from i2s_spec.codec.payload_native import pack_trits, unpack_trits
from i2s_spec.codec.scale_rounding import ProofError
from i2s_spec.codec.ternary_types import BLOCK_TYPES
from i2s_spec.schema.checks import order_prefix
from i2s_spec.schema.dialect import CODES_PER_BYTE
from i2s_spec.schema.types import TAIL_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from i2s_spec.codec.form import Form


def encoded(trits: NDArray[np.int8], stored: NDArray[np.float32], elements: Sequence[int], form: Form) -> list[bytes]:
    """The bytes of each tensor in a form, whose shape does not matter.

    :param trits: the trits of all tensors, [rows, columns]: whole blocks of the form, and whole rows if it has row scales
    :param stored: the stored scale of each tensor
    :param elements: the number of elements of each tensor
    :raises ValueError: if the scale is 0 but trits are not, in a type that stores weights
    :raises ProofError: if the bytes decode to something else
    """
    if form.type == "I2_S":
        payload: bytes = pack_trits(trits, form.dialect)
        if not np.array_equal(unpack_trits(payload, trits.shape, form.dialect), trits):
            raise ProofError(f"{form.dialect} does not give back the trits that were written")
        words = stored.astype(order_prefix(form.byte_order) + "f4")
        tails = [(word.tobytes() * form.dialect.tail.copies).ljust(TAIL_BYTES, b"\0") for word in words]
        codes = divided(payload, [count // CODES_PER_BYTE for count in elements])
        return [code + tail for code, tail in zip(codes, tails, strict=True)]
    made = (_blocks if form.type in BLOCK_TYPES else _floats)(trits, stored, elements, form)
    return divided(made, [len(made) * count // trits.size for count in elements])


def divided(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    """Bytes in parts of these sizes."""
    return [data[start:stop] for start, stop in pairwise(accumulate(sizes, initial=0))]


def _blocks(trits: NDArray[np.int8], stored: NDArray[np.float32], elements: Sequence[int], form: Form) -> bytes:
    """The blocks of tensors; a group of zeros has the scale 0."""
    group = blocks_of(trits.shape, form.type).group
    each = np.repeat(stored, [count // group for count in elements])
    scales = np.where(trits.reshape(-1, group).any(axis=1), each, np.float32(0))
    made: bytes = block_native.pack(trits, scales, form.type, byte_order=form.byte_order)
    after, found = block_native.unpack(made, trits.shape, form.type, byte_order=form.byte_order)
    if not np.array_equal(trits, after) or not np.array_equal(found, scales):
        raise ProofError(f"{form.type} does not give back the trits and scales that were written")
    return made


def _floats(trits: NDArray[np.int8], stored: NDArray[np.float32], elements: Sequence[int], form: Form) -> bytes:
    """The weights of tensors; trits times a scale of 0 are refused."""
    flat, word = trits.reshape(-1), FLOAT_WORDS[form.type]
    weights = flat * np.repeat(stored, elements)
    if not np.array_equal(weights != 0, flat != 0):
        raise ValueError(f"a scale is 0, so {form.type} would store 0 for every trit")
    if form.type == "BF16":
        words = (weights.view(np.uint32) >> np.uint32(16)).astype(word)
    else:
        words = weights.astype(np.float16 if form.type == "F16" else np.float32).view(word)
    made = words.astype(order_prefix(form.byte_order) + word).tobytes()
    after = widened(np.frombuffer(made, order_prefix(form.byte_order) + word).astype(word), form.type)
    if not np.array_equal(after, weights):
        raise ProofError(f"{form.type} does not give back the trits that were written")
    return made
