"""BitLinear: activations become int8 codes, codes and trits an integer, the integer a float; and the rules of runtimes.

The first part is the definition, not the fast path. For one token x, float32 [K], and a ternary matrix with trits w [N,
K] and one float32 scale ws, where f32() is one rounding to float32 and c are the codes that the payload stores:

    amax = max(max |x|, 1e-5)           compared in float64
    s    = f32(127 / amax)              a multiplier; divided in float64
    q    = rint(f32(x s))               half to even, then clamped to -128..127; 0 where x s is NaN
    dot  = sum of c q                   int32
    acc  = dot - sum of q               int32; the sum of w q, as c is w + 1
    y    = f32(f32(f32(acc) / s) ws)

Up to acc no result depends on the order of operations: two implementations agree on every bit, or one of them is wrong.

Infinities and NaN follow from these lines. A NaN in x makes amax, s and all of y NaN; an infinity makes s 0, and y =
0/0, NaN again. In both cases all codes are 0, and other tokens are not affected.

    >>> activations = quantize_activations(np.array([[0.5, -1.0, 0.25, 0.0]], dtype=np.float32))
    >>> activations.codes.tolist(), float(activations.scale[0]), int(activations.sums[0])
    ([[64, -127, 32, 0]], 127.0, -31)

The second part quantizes activations and converts sums as an `ActivationQuantizer` declares: `quantize` and
`epilogue_of_rule`.

    >>> from i2s_spec.model.numerics import ActivationQuantizer
    >>> x = np.array([[0.5, -2.5, 254.0]], dtype=np.float32)
    >>> [quantize(x, ActivationQuantizer(rounding=how)).codes.tolist() for how in ("even", "away")]
    [[[0, -1, 127]], [[0, -1, 127]]]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.codec.reference import unpack_codes
from i2s_spec.errors import SettingError, counted
from i2s_spec.schema.dialect import CANONICAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.numerics import ActivationQuantizer

    Floats = NDArray[np.float32]

#: The lower bound of a token's largest magnitude: with it, a token of zeros gets codes 0, not 0/0.
FLOOR: Final = 1e-5
#: The magnitude of the code of a token's largest element.
LARGEST: Final = 127.0
#: Most columns for which no dot product overflows int32, whatever the codes: the worst element is 3 times -128.
MAX_COLUMNS: Final = 2**31 // (3 * 128)

#: Weights that are unpacked at a time.
_WINDOW: Final = 1 << 22


class Activations(NamedTuple):
    """Tokens as integers.

    :param codes: int8 [T, K]
    :param scale: float32 [T], the factors of the elements
    :param sums: int32 [T], the sum of each token's codes
    """

    codes: NDArray[np.int8]
    scale: NDArray[np.float32]
    sums: NDArray[np.int32]


def quantize_activations(x: NDArray[np.float32]) -> Activations:
    """Quantize tokens to int8 codes with one scale each.

    :param x: float32 [T, K]
    :raises TypeError: for another type of element
    :raises ValueError: for another number of dimensions
    """
    check_tokens(x)
    with np.errstate(all="ignore"):  # infinities and NaN are valid results
        amax = np.abs(x).max(axis=1, initial=0.0).astype(np.float64)
        scale = (LARGEST / np.maximum(amax, FLOOR)).astype(np.float32)
        products = x * scale[:, None]
        rounded = np.clip(np.rint(products), -128.0, 127.0)
        codes = np.where(np.isnan(products), np.float32(0), rounded).astype(np.int8)
    return Activations(codes, scale, codes.sum(axis=1, dtype=np.int32))


def dot(payload: Any, rows: int, columns: int, codes: NDArray[np.int8]) -> NDArray[np.int32]:
    """Return the sums of weight codes times activation codes, which kernels compute before they subtract the offset.

    A weight's code counts as a number from 0 to 3, including the unused 3.

    :param payload: the weights in the canonical layout, rows * columns / 4 bytes; any object with the buffer protocol
    :param codes: int8 [T, columns]
    :returns: int32 [T, rows]
    :raises TypeError: for activation codes of a wrong type
    :raises ValueError: for a matrix that is not a whole number of blocks, for a payload or activation codes of a wrong
        size, and for more than `MAX_COLUMNS` columns, where int32 might not hold the sums
    """
    check_product(codes, rows, columns)
    weights = unpack_codes(payload, (rows, columns), CANONICAL.layout)
    activations = codes.astype(np.int32)
    sums = np.empty((len(codes), rows), dtype=np.int32)
    step = max(1, _WINDOW // columns)
    for start in range(0, rows, step):
        part = weights[start : start + step]
        np.matmul(activations, part.astype(np.int32).T, out=sums[:, start : start + len(part)])
    return sums


def accumulate(payload: Any, rows: int, columns: int, codes: NDArray[np.int8]) -> NDArray[np.int32]:
    """Return the sums of trits times activation codes; code 3 counts as +2, as in released kernels (clause 5.4).

    Parameters and errors are those of `dot`.

    :returns: int32 [T, rows]
    """
    sums: NDArray[np.int32] = dot(payload, rows, columns, codes)
    sums -= codes.sum(axis=1, dtype=np.int32)[:, None]
    return sums


def epilogue(
    acc: NDArray[np.int32], scale: NDArray[np.float32], weight_scale: float | np.float32 | NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the float values of sums, with three roundings to float32; scales that are 0 or not finite are used as
    they are.

    :param acc: int32 [T, N]
    :param scale: float32 [T], the scales of the activations, which are divisors here
    :param weight_scale: float32, the scale of the weights; [N] if each row has its own
    :returns: float32 [T, N]
    """
    with np.errstate(all="ignore"):  # scales that are NaN, 0 or infinite give their natural results
        quotients: NDArray[np.float32] = acc.astype(np.float32) / scale[:, None]
        quotients *= np.asarray(weight_scale, dtype=np.float32)
    return quotients


def linear(
    payload: Any, weight_scale: float | np.float32, rows: int, columns: int, x: NDArray[np.float32]
) -> NDArray[np.float32]:
    """BitLinear: float32 [T, columns] to float32 [T, rows], with the three steps of this module."""
    activations = quantize_activations(x)
    return epilogue(accumulate(payload, rows, columns, activations.codes), activations.scale, weight_scale)


def check_tokens(x: NDArray[np.float32]) -> None:
    """Refuse arrays that are not float32 [T, K]."""
    if x.dtype != np.float32:
        raise TypeError(f"activations must be float32, not {x.dtype}")
    if x.ndim != 2:
        raise ValueError(f"activations must have the shape [tokens, columns], not {list(x.shape)}")


def check_product(codes: NDArray[np.int8], rows: int, columns: int) -> None:
    """Refuse activation codes that do not fit a matrix, and a matrix whose sums could overflow int32."""
    if codes.dtype != np.int8:
        raise TypeError(f"activation codes must be int8, not {codes.dtype}")
    check_matrix(rows, columns)
    if codes.ndim != 2 or codes.shape[1] != columns:
        raise ValueError(f"activation codes must have the shape [tokens, {columns:,}], not {list(codes.shape)}")


def check_matrix(rows: int, columns: int) -> None:
    """Refuse a matrix that is not whole blocks, or whose sums could overflow int32."""
    if columns > MAX_COLUMNS:
        raise ValueError(
            f"with {counted(columns, 'column')} a sum could overflow int32; the maximum is {MAX_COLUMNS:,}"
        )
    if rows < 0 or columns < 1:
        raise ValueError(f"a matrix of {counted(rows, 'row')} and {counted(columns, 'column')} holds no weights")
    CANONICAL.layout.check(rows, columns)


# --- activations by a rule -------------------------------------------------------------------------------------------
# The original rule is the definition above, which is called unchanged; everything else here is a variation of it, named
# by the declaration. With any groups, sums of codes times trits are exact integers.

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
    """Return the codes of activations, float32 [T, K], for a rule with groups."""
    if quantizes_as_defined(rule):
        return Quantized(*quantize_activations(x))
    grouped = _grouped(x, rule)
    with np.errstate(all="ignore"):
        scale = _scales(grouped, rule)
        if rule.scale == "wide":
            products = grouped.astype(np.float64) * scale[..., None]
            scale = scale.astype(np.float32)
        elif rule.product == "exact":  # the product of two float32 is exact in float64
            products = grouped.astype(np.float64) * scale[..., None].astype(np.float64)
        else:
            products = (grouped * scale[..., None]).astype(np.float64)
        rounded = np.clip(_ROUND[rule.rounding](products), rule.least, 127)
        codes = np.where(np.isnan(products), rule.least if rule.nan == "least" else 0, rounded).astype(np.int8)
    codes = _flat(codes, x.shape, rule)
    steps = _steps(grouped, rule)
    if rule.groups == "token":
        scale, steps = scale[:, 0], None if steps is None else steps[:, 0]
    return Quantized(codes, scale, codes.sum(axis=1, dtype=np.int32), steps)


def epilogue_of_rule(
    acc: NDArray[np.int32],
    scale: Floats,
    weight_scale: np.float32 | Floats,
    rule: ActivationQuantizer,
    steps: Floats | None = None,
) -> Floats:
    """Return the float values of sums, with the roundings of a rule in its order.

    :param acc: int32 [T, N], of all tokens that the runtime computes at once; or [groups, T, N]
    :param weight_scale: the scale of all weights, or of each row, float32 [N]
    :param steps: the value of code 1; the reciprocal of the scale if it is not stored
    """
    with np.errstate(all="ignore"):
        if rule.epilogue == "divide":
            return epilogue(acc, scale, weight_scale)
        if rule.epilogue == "ratio":
            return acc.astype(np.float32) * (weight_scale / scale[:, None])
        d = _steps_or_reciprocal(scale, steps)
        if rule.epilogue == "wide":
            largest = (d * 127.0).astype(np.float32).astype(np.float64)  # d is amax / 127 in float64
            factors = np.asarray(weight_scale, dtype=np.float64) * largest[:, None] / 127.0
            return (acc * factors).astype(np.float32)
        if rule.epilogue == "scaled":
            if len(acc) > 1:
                return acc.astype(np.float32) * (weight_scale * d[:, None])
            return acc.astype(np.float32) * weight_scale * d[:, None]
        total = np.zeros(acc.shape[1:], dtype=np.float32)
        for group in range(len(acc)):
            total += acc[group].astype(np.float32) * d[:, group, None]
        return total * weight_scale


def steps_of(quantized: Quantized) -> Floats:
    """Return the value of code 1, float32, shaped like the scales."""
    return _steps_or_reciprocal(quantized.scale, quantized.steps)


def _steps_or_reciprocal(scale: Floats, steps: Floats | None) -> Floats:
    """Return the stored steps, else reciprocals of the scales; a scale of 0 means a group of zeros, whose step is 0
    as well.
    """
    if steps is not None:
        return steps
    with np.errstate(all="ignore"):
        return np.where(scale == 0, np.float32(0), np.float32(1) / scale)


def block_of(rule: ActivationQuantizer) -> int | None:
    """How many contiguous columns share a scale; None if a token has one scale."""
    return BLOCKS.get(rule.groups)


def quantizes_as_defined(rule: ActivationQuantizer) -> bool:
    """Whether the codes and scales of a rule are those of `quantize_activations`, whatever its epilogue."""
    return (rule.groups, rule.floor, rule.scale, rule.product, rule.rounding, rule.least, rule.nan) == (
        "token", FLOOR, "f64", "rounded", "even", -128, "token"
    )  # fmt: skip


def _amax(grouped: Floats, rule: ActivationQuantizer) -> Any:
    """Return the largest magnitude of each group, float32 [T, groups]."""
    size = np.abs(grouped)
    return np.fmax.reduce(size, axis=-1, initial=0) if rule.nan == "least" else size.max(axis=-1)


def _scales(grouped: Floats, rule: ActivationQuantizer) -> Floats:
    """Return the factor of each group, float32 [T, groups]; float64 if the rule keeps it so."""
    amax = _amax(grouped, rule)
    largest = amax.astype(np.float64 if rule.scale in ("f64", "wide") else np.float32)
    if rule.floor is not None:
        floor = np.float32(rule.floor) if rule.scale == "wide" else rule.floor  # compared as float32, then widened
        largest = np.maximum(largest, largest.dtype.type(floor))
    if rule.scale == "wide":
        return np.asarray(127.0 / largest)
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
    """Return the value of code 1, if it is amax / 127 and not the reciprocal of the scale, float32 [T, groups]."""
    if rule.scale != "inverse" and rule.epilogue not in ("scaled", "wide") and rule.steps == "f32":
        return None
    amax = _amax(grouped, rule)
    if rule.floor is not None:
        amax = np.maximum(amax, np.float32(rule.floor))
    if rule.epilogue == "wide":
        return np.asarray(amax.astype(np.float64) / 127.0)
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
    """Return the elements of each group: [T, groups, elements of a group]."""
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
