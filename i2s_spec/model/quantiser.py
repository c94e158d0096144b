"""This module makes integers of activations as the runtimes do, and floats of the sums: what `Quantiser` declares.

The original rule is `bitlinear`'s, the definition, and is called as it stands; everything else here is a variation on it,
named by the declaration. Whatever the groups, sums of codes times trits are exact integers.

>>> from i2s_spec.model.profile import Quantiser
>>> x = np.array([[0.5, -2.5, 254.0]], dtype=np.float32)
>>> quantise(x, Quantiser()).codes.tolist(), quantise(x, Quantiser(rounding="away")).codes.tolist()
([[0, -1, 127]], [[0, -1, 127]])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.errors import SettingError
from i2s_spec.model import bitlinear, integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.profile import Quantiser
    from i2s_spec.model.weights import Ternary

    Floats = NDArray[np.float32]

BLOCK: Final = 256
FOUR: Final = 4


class Quantised(NamedTuple):
    """Tokens as integers.

    :param codes: int8 [T, K]
    :param scale: float32 [T], or [T, groups]: what elements were multiplied with
    :param sums: int32 [T], of all codes of a token
    :param steps: what a code of 1 stands for, as `scale`, where a runtime keeps that too: amax / 127
    """

    codes: NDArray[np.int8]
    scale: Floats
    sums: NDArray[np.int32]
    steps: Floats | None = None


def quantise(x: Floats, rule: Quantiser) -> Quantised:
    """The codes of activations, float32 [T, K], by a rule with groups."""
    if _is_original(rule):
        return Quantised(*bitlinear.quantize_activations(x))
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
    return Quantised(codes, scale, codes.sum(axis=1, dtype=np.int32), steps)


def linear(quantised: Quantised, rule: Quantiser, weight: Ternary, threads: int) -> tuple[Floats, NDArray[np.int32]]:
    """A projection of quantised tokens: float32 [T, N], and the integer sums, int32 [T, N] or [groups, T, N]."""
    codes = quantised.codes
    if rule.groups == "token":
        acc = integers.accumulate(weight.payload, weight.rows, weight.columns, codes, threads)
        if rule.offset == "kept":
            acc += quantised.sums[:, None]
        return epilogue(acc, quantised.scale, weight.scale, rule, quantised.steps), acc
    groups = quantised.scale.shape[1]
    parts = []
    owner = _owner(codes.shape[1], rule)
    for group in range(groups):
        masked = np.where(owner == group, codes, np.int8(0))
        parts.append(integers.accumulate(weight.payload, weight.rows, weight.columns, masked, threads))
    acc = np.stack(parts)
    return epilogue(acc, quantised.scale, weight.scale, rule, quantised.steps), acc


def epilogue(
    acc: NDArray[np.int32], scale: Floats, weight_scale: np.float32, rule: Quantiser, steps: Floats | None = None
) -> Floats:
    """The floats that sums stand for, in the order of roundings of a rule.

    :param steps: what a code of 1 stands for; the reciprocal of the scale where that is not kept
    """
    with np.errstate(all="ignore"):
        if rule.epilogue == "divide":
            return bitlinear.epilogue(acc, scale, weight_scale)
        if rule.epilogue == "ratio":
            return acc.astype(np.float32) * (weight_scale / scale)[:, None]
        # A scale of 0 stands for a group of zeros, whose step is 0 as well.
        d = np.where(scale == 0, np.float32(0), np.float32(1) / scale) if steps is None else steps
        if rule.epilogue == "scaled":
            return acc.astype(np.float32) * weight_scale * d[:, None]
        half = np.float16(weight_scale).astype(np.float32)
        total = np.zeros(acc.shape[1:], dtype=np.float32)
        for group in range(len(acc)):
            factor = d[:, group] * half if rule.epilogue == "blocks" else d[:, group]
            total += acc[group].astype(np.float32) * factor[:, None]
        return total if rule.epilogue == "blocks" else total * weight_scale


def _is_original(rule: Quantiser) -> bool:
    return (rule.groups, rule.floor, rule.scale, rule.product, rule.rounding, rule.least) == (
        "token", bitlinear.FLOOR, "f64", "rounded", "even", -128
    )  # fmt: skip


def _scales(grouped: Floats, rule: Quantiser) -> Floats:
    """What each group is multiplied with, float32 [T, groups]."""
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


def _steps(grouped: Floats, rule: Quantiser) -> Floats | None:
    """What a code of 1 stands for, where it is amax / 127 and not the reciprocal of the scale, float32 [T, groups]."""
    if rule.scale != "inverse" and rule.epilogue != "scaled":
        return None
    amax = np.abs(grouped).max(axis=-1)
    if rule.floor is not None:
        amax = np.maximum(amax, np.float32(rule.floor))
    found: Floats = amax / np.float32(127)
    return np.where((amax == 0) & (rule.zero == "one"), np.float32(1), found)


_ROUND: Final[dict[str, Callable[[Any], Any]]] = {
    "even": np.rint,
    "away": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "up": lambda x: np.floor(x + 0.5),
}


def _grouped(x: Floats, rule: Quantiser) -> Floats:
    """The elements of each group: [T, groups, elements of a group]."""
    tokens = len(x)
    require_groups(x.shape[1], rule)
    if rule.groups == "blocks-256":
        return x.reshape(tokens, -1, BLOCK)
    if rule.groups == "interleaved-4":
        return x.reshape(tokens, -1, FOUR, FOUR).transpose(0, 2, 1, 3).reshape(tokens, FOUR, -1)
    return x[:, None, :]


def _flat(codes: NDArray[np.int8], shape: tuple[int, ...], rule: Quantiser) -> NDArray[np.int8]:
    if rule.groups == "interleaved-4":
        codes = codes.reshape(shape[0], FOUR, -1, FOUR).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(codes.reshape(shape))


def _owner(columns: int, rule: Quantiser) -> NDArray[np.int64]:
    """The group of each element."""
    k = np.arange(columns)
    return k // BLOCK if rule.groups == "blocks-256" else k // FOUR % FOUR


def require_groups(columns: int, rule: Quantiser) -> None:
    """Refuse a width that is no whole number of a rule's groups.

    :raises SettingError: for such a width
    """
    unit = {"blocks-256": BLOCK, "interleaved-4": FOUR * FOUR}.get(rule.groups, 1)
    if columns % unit:
        raise SettingError(
            f"activations of {columns:,} columns are no whole {rule.groups}, which come in units of {unit}"
        )
