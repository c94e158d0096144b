"""How float weights become trits and a scale: what the released quantizer and the converters do.

Rules differ in their scale and in what they do with the weights between (clause 6.2):

    absmax           the released C quantizer: the largest absolute value; the sign of every weight of 1e-6 or more
    hf-first         the Hugging Face converter: the first absolute value beyond 1e-6; rounded, and cut to -1..+1
    embedding-mean   the embedding converter: the mean absolute value; rounded, and cut
    given            a packed checkpoint: its own `weight_scale`, and its own trits
    convert-ms       BitNet's `transform_to_i2`, and T-MAC's: the first weight that is not 0, with its sign; cut off
    c-article        an article on inference in plain C: the mean, added up in float32; 1e-8 more where it divides
    loom             loom, in Go: the mean, added up in float64, 1 in the place of 0; half of it becomes +1 or -1

The first two expect weights that are ternary already, -s, 0 and +s. Anything else they destroy, and `NotTernaryWarning`
says so. A mean is the opposite case: of weights that are ternary already it makes the same trits with a smaller scale,
and `AlreadyTernaryWarning` says so (clause 8.5).

    >>> trits, scale = ternarise([[-0.5, 0.0, 0.5, 0.5]])
    >>> trits.tolist(), float(scale)
    ([[-1, 0, 1, 1]], 0.5)

`numpy_mean` and `torch_mean` add up as NumPy and PyTorch do.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from i2s_spec.codec import native, shape
from i2s_spec.codec.observation import float32_scale, write_tail
from i2s_spec.codec.reference import codes_of_trits, join
from i2s_spec.codec.shape import Weights, check_writable, payload_shape, windows
from i2s_spec.errors import counted
from i2s_spec.schema.dialect import Dialect, parse
from i2s_spec.schema.faults import ByteOrder

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


# --- mean ------------------------------------------------------------------------------------------------------------
# The mean of absolute values in float32, added up in the order of NumPy or PyTorch.
#
# A sum of float32 depends on its order, and scales are means: to write what a converter wrote, add as it did. Both
# orders are followed in windows, so that no tensor needs a second copy in memory.
#
# NumPy halves the range until pieces are short. PyTorch, on x86, adds 32 columns (four vectors of eight lanes)
# downwards in a cascade: runs of rows are added up, then runs of those sums, over four levels; then it adds the
# vectors, and the lanes. Larger tensors it may split over threads, whose number changes the sum; here it is one thread.

#: Gives the absolute values of elements start to stop as float32.
Magnitudes = Callable[[int, int], "NDArray[np.float32]"]

_LANES: Final = 8
_VECTORS: Final = 4
_LEVELS: Final = 4
#: Columns that PyTorch adds downwards: four vectors of eight lanes.
COLUMNS: Final = _VECTORS * _LANES
#: Pieces that NumPy no longer halves have up to 128 elements; windows must not be shorter.
_SHORTEST_WINDOW: Final = 128


def numpy_mean(magnitudes: Magnitudes, n: int) -> np.float32:
    """Return the mean of `n` absolute values as `np.mean` of one contiguous float32 array gives it."""
    with np.errstate(all="ignore"):
        return np.float32(_halved(magnitudes, 0, n, max(shape.WINDOW, _SHORTEST_WINDOW)) / np.float32(n))


def _halved(magnitudes: Magnitudes, start: int, stop: int, window: int) -> np.float32:
    if stop - start <= window:
        return np.float32(magnitudes(start, stop).sum())
    half = (stop - start) // 2
    middle = start + half - half % 8
    return np.float32(_halved(magnitudes, start, middle, window) + _halved(magnitudes, middle, stop, window))


def torch_mean(magnitudes: Magnitudes, n: int, runs: NDArray[np.float32] | None = None) -> np.float32:
    """Return the mean of `n` absolute values as `torch.mean` of a float32 tensor gives it on one thread of an x86 CPU.

    :param runs: the sums of the first runs, float32 [runs, 32], where the caller has them (`torch_runs`)
    """
    with np.errstate(all="ignore"):
        total = np.float32(0)
        wide = n // COLUMNS * COLUMNS  # elements in whole rows of four vectors
        even = n // _LANES * _LANES  # elements in whole vectors
        vectors = _cascade(magnitudes, wide, runs).reshape(_VECTORS, _LANES)
        for vector in magnitudes(wide, even).reshape(-1, _LANES):
            vectors[0] += vector
        lanes = ((vectors[0] + vectors[1]) + vectors[2]) + vectors[3]
        for value in (*magnitudes(even, n), *lanes):
            total += value
        return np.float32(total / np.float32(n))


def torch_runs(n: int) -> tuple[int, int]:
    """How many rows of 32 a run has in PyTorch's sum of `n` elements, and how many whole runs there are."""
    rows = n // COLUMNS
    run = 1 << max(4, (max(rows, 1) - 1).bit_length() // _LEVELS)  # rows in a run, and runs in a run of runs
    return run, rows // run


def _cascade(magnitudes: Magnitudes, n: int, runs: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """Return the sums of the 32 columns of `n` elements: what is in no run of its level, lowest level first."""
    run, count = torch_runs(n)
    full = count * run * COLUMNS
    level = _first_runs(magnitudes, run, full) if runs is None else runs
    columns = _added(magnitudes(full, n).reshape(-1, COLUMNS))
    for _ in range(1, _LEVELS - 1):
        full = len(level) // run * run
        columns = columns + _added(level[full:])
        level = _runs(level[:full].reshape(-1, run, COLUMNS))
    return columns + _added(level)


def _first_runs(magnitudes: Magnitudes, run: int, full: int) -> NDArray[np.float32]:
    window = max(shape.WINDOW // (run * COLUMNS), 1) * run * COLUMNS
    runs = [_runs(magnitudes(at, min(at + window, full)).reshape(-1, run, COLUMNS)) for at in range(0, full, window)]
    return np.concatenate(runs) if runs else np.zeros((0, COLUMNS), np.float32)


def _runs(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the sums over the middle axis, from its first element to its last."""
    total = np.zeros((rows.shape[0], rows.shape[2]), np.float32)
    for i in range(rows.shape[1]):
        total += rows[:, i]
    return total


def _added(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the sum of rows, from the first to the last."""
    total: NDArray[np.float32] = _runs(rows[np.newaxis])[0]
    return total


# --- quantize --------------------------------------------------------------------------------------------------------

#: Absolute values below this are zero to the C quantizer, in float64: float32(1e-6) is, its upper neighbor is not.
ZERO_BELOW: Final = 1e-6
#: The largest float32 below it.
_ZERO: Final = np.float32(1e-6)

#: The smallest scale of the Python converters, and that of a tensor without any weight beyond 1e-6.
SMALLEST_SCALE: Final = 1e-5

#: Magnitudes that differ by no more than one rounding to bfloat16 count as equal.
ROUNDING: Final = 2.0**-8


class NotTernaryWarning(UserWarning):
    """The weights are not -s, 0 and +s, and the rule keeps little of what they are."""


class AlreadyTernaryWarning(UserWarning):
    """The weights are -s, 0 and +s, and the rule stores another scale than s."""


@dataclass(frozen=True, slots=True)
class QuantizerRule:
    """One way to quantize.

    :param scale: the scale of a tensor, from its weights
    :param trits: the trits of a window of weights, int8, from the weights and the scale
    :param destroys: for a rule that is meant for weights -s, 0 and +s: what it does to others
    :param unit: whether s must be 1
    :param mean: whether the scale is a mean over all weights, which is not s where weights are -s, 0 and +s
    """

    name: str
    known_as: str
    scale: Callable[[Weights], np.float32]
    trits: Callable[[NDArray[np.float32], np.float32], NDArray[np.int8]]
    destroys: str = ""
    unit: bool = False
    mean: bool = False


def _largest(weights: Weights) -> np.float32:
    largest = np.float32(0)  # fmax passes over NaN, so that it is also the scale of a tensor of nothing else
    for start, stop in windows(len(weights)):
        largest = np.fmax(largest, np.fmax.reduce(weights.magnitudes(start, stop)))
    return np.float32(largest)


def _first(weights: Weights) -> np.float32:
    for start, stop in windows(len(weights)):
        part = weights.magnitudes(start, stop)
        if (beyond := part > np.float32(ZERO_BELOW)).any():
            return np.float32(part[beyond.argmax()])
    return np.float32(SMALLEST_SCALE)


def _mean(weights: Weights) -> np.float32:
    mean = numpy_mean(weights.magnitudes, len(weights))
    return np.float32(SMALLEST_SCALE) if mean < np.float32(SMALLEST_SCALE) else mean  # a NaN stays


def _first_signed(weights: Weights) -> np.float32:
    for start, stop in windows(len(weights)):
        part = weights.values(start, stop)
        if (other := part != 0).any():
            return np.float32(part[other.argmax()])
    return np.float32(1)


def _mean_by_index(weights: Weights) -> np.float32:
    """Return the mean as a loop over float32 has it: each addition rounded, from the first weight to the last."""
    total = np.float32(0)
    for start, stop in windows(len(weights)):
        total = np.cumsum(np.concatenate([[total], weights.magnitudes(start, stop)]), dtype=np.float32)[-1]
    return np.float32(total / np.float32(len(weights)))


def _wide_mean(weights: Weights) -> np.float32:
    """Return the mean as a loop over float64 has it, rounded once; 1 in the place of 0."""
    total = 0.0
    for start, stop in windows(len(weights)):
        total = np.cumsum(np.concatenate([[total], weights.magnitudes(start, stop).astype(np.float64)]))[-1]
    mean = np.float32(total / len(weights)) if len(weights) else np.float32(0)
    return mean if mean != 0 else np.float32(1)


def _missing(weights: Weights) -> np.float32:
    raise ValueError("the rule 'given' needs a scale")


def _signs(part: NDArray[np.float32], scale: np.float32) -> NDArray[np.int8]:
    """+1 for weights whose product with the scale is positive, 0 for those below `ZERO_BELOW`, else -1, as for NaN."""
    above, below = (part > _ZERO).view(np.int8), (~(part >= -_ZERO)).view(np.int8)
    return above - below if scale > 0 else -(above | below)


def _cut_off(quotients: NDArray[np.float32]) -> NDArray[np.int8]:
    """Return the whole part, cut to -1..+1; NaN is 0."""
    return (quotients >= 1).astype(np.int8) - (quotients <= -1).astype(np.int8)


def _cut(quotients: NDArray[np.float32]) -> NDArray[np.int8]:
    """Return rounded, ties to even, and cut to -1..+1; NaN is 0."""
    return (quotients > np.float32(0.5)).astype(np.int8) - (quotients < np.float32(-0.5)).astype(np.int8)


def _away(quotients: NDArray[np.float32]) -> NDArray[np.int8]:
    """Return rounded, ties away from zero, and cut to -1..+1; NaN is -1, as the least integer is."""
    return (quotients >= np.float32(0.5)).astype(np.int8) - (~(quotients > np.float32(-0.5))).astype(np.int8)


RULES: Final = {
    rule.name: rule
    for rule in (
        QuantizerRule(
            "absmax", "quantize_i2_s of the BitNet fork, which llama-quantize calls", _largest, _signs,
            destroys=f"absmax gives the largest to all that are at least {ZERO_BELOW:g}, which leaves next to no zeros",
        ),
        QuantizerRule(
            "hf-first", "convert-hf-to-gguf-bitnet.py", _first, lambda part, scale: _cut(part / scale),
            destroys="hf-first takes the first of them for the scale",
        ),
        QuantizerRule(
            "embedding-mean", "convert-bitnet-embedding-to-gguf.py", _mean,
            lambda part, scale: _cut(part * (np.float32(1) / scale)), mean=True,
        ),
        QuantizerRule(
            "given", "convert-hf-to-gguf-bitnet.py, packed checkpoints", _missing, lambda part, scale: _cut(part),
            destroys="given takes them for trits, rounded", unit=True,
        ),
        QuantizerRule(
            "convert-ms", "transform_to_i2 of convert-ms-to-gguf-bitnet.py, and T-MAC", _first_signed,
            lambda part, scale: _cut_off(part / scale),
            destroys="convert-ms takes the first of them for the scale, and cuts the quotients off",
        ),
        QuantizerRule(
            "c-article", "pack_weight_matrix of an article on BitNet inference in plain C", _mean_by_index,
            lambda part, scale: _cut(part * (np.float32(1) / (scale + np.float32(1e-8)))), mean=True,
        ),
        QuantizerRule(
            "loom", "MorphBitNetTernary of loom (poly/bitnet_cpu.go)", _wide_mean,
            lambda part, scale: _away(part / scale), mean=True,
        ),
    )
}  # fmt: skip


def quantize(
    weights: ArrayLike,
    rule: str = "absmax",
    scale: float | None = None,
    dialect: str | Dialect = "canonical",
    strict: bool = True,
    *,
    byte_order: ByteOrder = "little",
) -> bytes:
    """Return the bytes of a ternary tensor from float weights, as a producer of I2_S files makes them.

    :param weights: float32, or float16, float64, bfloat16 (or its bits as uint16), which become float32 first; [rows,
        cols] or [n]
    :param rule: one of `RULES`
    :param scale: for the rule `given`, and only for it: the scale, whose trits the weights are
    :param dialect: a name or a `Dialect`
    :param strict: refuse elements outside whole blocks, and rows that begin inside a block (clause 5.3). If False,
        write what the released quantizer of the layout writes, with an `UndefinedElementsWarning`
    :param byte_order: of the file that the scale is written for
    :returns: n/4 + 32 bytes, rounded down
    :raises TypeError: for weights of another type
    :raises ValueError: for an unknown rule, a scale that is missing or one too many, and as `pack` does
    """
    dialect = parse(dialect)
    source = Weights(weights)
    tensor = payload_shape(source.shape)
    check_writable(dialect.layout, tensor, strict=strict)
    trits, factor = _ternarise(source, rule, scale)
    if shape.dropped_elements(dialect.layout, tensor.rows, tensor.cols) is None:
        made: bytes = native.pack(trits, factor, dialect, byte_order=byte_order, strict=strict)
        return made
    tail = write_tail(factor, dialect.tail, byte_order)
    return join(codes_of_trits(trits, dialect.code_map), tensor, dialect.layout, tail)


def ternarise(
    weights: ArrayLike, rule: str = "absmax", scale: float | None = None
) -> tuple[NDArray[np.int8], np.float32]:
    """Return the trits and the scale of float weights by a rule; `quantize` without the packing.

    :returns: int8 trits of the shape of the weights, float32 scale
    """
    return _ternarise(Weights(weights), rule, scale)


def weight_quant(weights: ArrayLike) -> NDArray[np.float32]:
    """Float masters as BitNet models use them: round(w / s) * s, limited to -s..+s, where s is their mean absolute
    value.

    What the Hugging Face converter does to float checkpoints before anything else, and BitNet's preprocessing of
    checkpoints (`quant_weight_fp16`), which gives the same bits, in their arithmetic of float32: with
    the reciprocal of s twice, and the mean of PyTorch. It changes weights that are ternary already: their mean is smaller
    than their magnitude by the share of zeros.

    :param weights: as for `quantize`, of any shape
    :returns: float32, of the same shape; -0.0 where a small weight was negative, NaN where the mean is not a number
    """
    source = Weights(weights)
    result = np.empty(len(source), dtype=np.float32)
    with np.errstate(all="ignore"):
        mean = torch_mean(source.magnitudes, len(source)) if len(source) else np.float32(0)
        gain = np.float32(1) / np.maximum(mean, np.float32(SMALLEST_SCALE))
        for start, stop in windows(len(source)):
            part = source.values(start, stop) * gain
            np.divide(np.clip(np.round(part), -1, 1), gain, out=result[start:stop])
    return result.reshape(source.shape)


def _ternarise(weights: Weights, name: str, given: float | None) -> tuple[NDArray[np.int8], np.float32]:
    if name not in RULES:
        raise ValueError(f"no rule is called {name!r}; there are {', '.join(RULES)}")
    rule = RULES[name]
    if given is not None and rule.name != "given":
        raise ValueError(f"the rule {rule.name} computes the scale; only 'given' takes one")
    trits = np.empty(len(weights), dtype=np.int8)
    with np.errstate(all="ignore"):  # infinities and NaN have their answers
        scale = rule.scale(weights) if given is None else float32_scale(given)
        for start, stop in windows(len(weights)):
            trits[start:stop] = rule.trits(weights.values(start, stop), scale)
        complaint = _complaint(weights, rule)
        size = _size(weights) if rule.mean else None
    if complaint:
        warnings.warn(complaint, NotTernaryWarning, stacklevel=3)
    if size is not None and abs(size - float(scale)) > ROUNDING * size:
        already = (
            f"the weights are -s, 0 and +s with s = {size:.6g}; {rule.name} gives the scale {float(scale):.6g}, a mean"
        )
        warnings.warn(f"{already}; use absmax to keep s", AlreadyTernaryWarning, stacklevel=3)
    return trits.reshape(weights.shape), scale


def ternary_magnitude(weights: ArrayLike) -> float | None:
    """Return the s of weights that are -s, 0 and +s, with zeros among them, up to a rounding to bfloat16; None of
    others.
    """
    return _size(Weights(weights))


def _size(weights: Weights) -> float | None:
    """Return the s of weights that are -s, 0 and +s, with both kinds among them; None of others. Ends at the first
    of those.
    """
    least, most, zeros = np.inf, 0.0, False
    for start, stop in windows(len(weights)):
        part = weights.magnitudes(start, stop)
        beyond = part[part.astype(np.float64) >= ZERO_BELOW]
        zeros = zeros or beyond.size < part.size
        if beyond.size:
            least, most = min(least, float(beyond.min())), max(most, float(beyond.max()))
        if not np.isfinite(part).all() or most > least * (1 + ROUNDING):
            return None
    return most if zeros and most else None


def _complaint(weights: Weights, rule: QuantizerRule) -> str | None:
    """Return the fault of weights that a rule expects to be ternary; None if they are, and for other rules."""
    if not rule.destroys:
        return None
    least, most, odd, some = np.inf, 0.0, 0, False
    for start, stop in windows(len(weights)):
        part = weights.magnitudes(start, stop)
        finite = np.isfinite(part)
        odd += int(np.count_nonzero(~finite))
        some = some or bool((part > 0).any())
        if (beyond := part[finite & (part > _ZERO)]).size:
            least, most = min(least, float(beyond.min())), max(most, float(beyond.max()))
    if odd:
        return (
            f"{counted(odd, 'weight is', 'weights are')} infinite or NaN, and the rule "
            f"{rule.name} makes trits of them all the same"
        )
    if most > least * (1 + ROUNDING) or (rule.unit and most and (least, most) != (1, 1)):
        one = "-1, 0 and +1" if rule.unit else "-s, 0 and +s"
        return f"the weights are not {one}: their magnitudes run from {least:.3g} to {most:.3g}, and {rule.destroys}"
    return f"all weights are smaller than {ZERO_BELOW} and become 0" if some and not most else None
