"""This module quantizes activations as the runtimes do, and converts sums to floats, as an `ActivationQuantizer` declares.

The original rule is the definition in `bitlinear`, which is called unchanged; everything else here is a variation of
it, named by the declaration. With any groups, sums of codes times trits are exact integers.

>>> from i2s_spec.model.numeric_profile import ActivationQuantizer
>>> x = np.array([[0.5, -2.5, 254.0]], dtype=np.float32)
>>> quantize(x, ActivationQuantizer()).codes.tolist(), quantize(x, ActivationQuantizer(rounding="away")).codes.tolist()
([[0, -1, 127]], [[0, -1, 127]])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.errors import SettingError, counted
from i2s_spec.model.reference import bitlinear

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.numeric_profile import ActivationQuantizer

    Floats = NDArray[np.float32]

FOUR: Final = 4
#: Columns of blocks with a scale each, by their name in a rule.
BLOCKS: Final = {"blocks-256": 256, "blocks-32": 32}


class Quantized(NamedTuple):
    """Tokens as integers.

    :param codes: int8 [T, K]
    :param scale: float32 [T], or [T, groups]: the factors of the elements
    :param sums: int32 [T], the sum of all codes of a token
    :param steps: the value of code 1, shaped like `scale`, if a runtime stores that, too: amax / 127
    """

    codes: NDArray[np.int8]
    scale: Floats
    sums: NDArray[np.int32]
    steps: Floats | None = None


def quantize(x: Floats, rule: ActivationQuantizer) -> Quantized:
    """The codes of activations, float32 [T, K], for a rule with groups."""
    if _is_definition(rule):
        return Quantized(*bitlinear.quantize_activations(x))
    grouped = _grouped(x, rule)
    with np.errstate(all="ignore"):
        scale = _scales(grouped, rule)
        if rule.product == "exact":  # the product of two float32 is exact in float64
            products = grouped.astype(np.float64) * scale[..., None].astype(np.float64)
        else:
            products = (grouped * scale[..., None]).astype(np.float64)
        rounded = np.clip(_ROUND[rule.rounding](products), rule.least, 127)
        codes = np.where(np.isnan(products), 0, rounded).astype(np.int8)
    codes = _flat(codes, x.shape, rule)
    steps = _steps(grouped, rule)
    if rule.groups == "token":
        scale, steps = scale[:, 0], None if steps is None else steps[:, 0]
    return Quantized(codes, scale, codes.sum(axis=1, dtype=np.int32), steps)


def epilogue(
    acc: NDArray[np.int32],
    scale: Floats,
    weight_scale: np.float32 | Floats,
    rule: ActivationQuantizer,
    steps: Floats | None = None,
) -> Floats:
    """The float values of sums, with the roundings of a rule in its order.

    :param weight_scale: the scale of all weights, or of each row, float32 [N]
    :param steps: the value of code 1; the reciprocal of the scale if it is not stored
    """
    with np.errstate(all="ignore"):
        if rule.epilogue == "divide":
            return bitlinear.epilogue(acc, scale, weight_scale)
        if rule.epilogue == "ratio":
            return acc.astype(np.float32) * (weight_scale / scale[:, None])
        d = _steps_or_reciprocal(scale, steps)
        if rule.epilogue == "scaled":
            return acc.astype(np.float32) * weight_scale * d[:, None]
        total = np.zeros(acc.shape[1:], dtype=np.float32)
        for group in range(len(acc)):
            total += acc[group].astype(np.float32) * d[:, group, None]
        return total * weight_scale


def steps_of(quantized: Quantized) -> Floats:
    """The value of code 1, float32, shaped like the scales."""
    return _steps_or_reciprocal(quantized.scale, quantized.steps)


def _steps_or_reciprocal(scale: Floats, steps: Floats | None) -> Floats:
    """The stored steps, else reciprocals of the scales; a scale of 0 means a group of zeros, whose step is 0 as well."""
    if steps is not None:
        return steps
    with np.errstate(all="ignore"):
        return np.where(scale == 0, np.float32(0), np.float32(1) / scale)


def block_of(rule: ActivationQuantizer) -> int | None:
    """How many contiguous columns share a scale; None if a token has one scale."""
    return BLOCKS.get(rule.groups)


def _is_definition(rule: ActivationQuantizer) -> bool:
    return (rule.groups, rule.floor, rule.scale, rule.product, rule.rounding, rule.least) == (
        "token", bitlinear.FLOOR, "f64", "rounded", "even", -128
    )  # fmt: skip


def _scales(grouped: Floats, rule: ActivationQuantizer) -> Floats:
    """The factor of each group, float32 [T, groups]."""
    amax = np.abs(grouped).max(axis=-1)
    largest = amax.astype(np.float64 if rule.scale == "f64" else np.float32)
    if rule.floor is not None:
        largest = np.maximum(largest, largest.dtype.type(rule.floor))
    if rule.scale == "inverse":
        scale = np.float32(1) / (largest / np.float32(127))
    elif rule.scale == "signed":
        at = np.abs(grouped).argmax(axis=-1)[..., None]
        scale = np.float32(-127) / np.take_along_axis(grouped, at, axis=-1)[..., 0]
    else:
        scale = (largest.dtype.type(127) / largest).astype(np.float32)
    if rule.floor is None:
        scale = np.where(amax == 0, np.float32(1 if rule.zero == "one" else 0), scale)
    found: Floats = scale
    return found


def _steps(grouped: Floats, rule: ActivationQuantizer) -> Floats | None:
    """The value of code 1, if it is amax / 127 and not the reciprocal of the scale, float32 [T, groups]."""
    if rule.scale != "inverse" and rule.epilogue != "scaled" and rule.steps == "f32":
        return None
    amax = np.abs(grouped).max(axis=-1)
    if rule.floor is not None:
        amax = np.maximum(amax, np.float32(rule.floor))
    found: Floats = amax / np.float32(127)
    if rule.steps == "f16":
        with np.errstate(over="ignore"):
            found = found.astype(np.float16).astype(np.float32)
    return np.where((amax == 0) & (rule.zero == "one"), np.float32(1), found)


_ROUND: Final[dict[str, Callable[[Any], Any]]] = {
    "even": np.rint,
    "away": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "up": lambda x: np.floor(x + 0.5),
}


def _grouped(x: Floats, rule: ActivationQuantizer) -> Floats:
    """The elements of each group: [T, groups, elements of a group]."""
    tokens = len(x)
    require_groups(x.shape[1], rule)
    if rule.groups in BLOCKS:
        return x.reshape(tokens, -1, BLOCKS[rule.groups])
    if rule.groups == "interleaved-4":
        return x.reshape(tokens, -1, FOUR, FOUR).transpose(0, 2, 1, 3).reshape(tokens, FOUR, -1)
    return x[:, None, :]


def _flat(codes: NDArray[np.int8], shape: tuple[int, ...], rule: ActivationQuantizer) -> NDArray[np.int8]:
    if rule.groups == "interleaved-4":
        codes = codes.reshape(shape[0], FOUR, -1, FOUR).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(codes.reshape(shape))


def require_groups(columns: int, rule: ActivationQuantizer) -> None:
    """Refuse a width that is not a multiple of a rule's groups.

    :raises SettingError: for such a width
    """
    unit = {**BLOCKS, "interleaved-4": FOUR * FOUR}.get(rule.groups, 1)
    if columns % unit:
        raise SettingError(
            f"activations of {counted(columns, 'column')} cannot be quantized with {rule.groups}, which "
            f"needs multiples of {counted(unit, 'column')}"
        )
