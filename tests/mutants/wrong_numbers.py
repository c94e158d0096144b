"""Programs that compute wrongly in one way each: quantizing, activations, products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mutants.mutant import Mutant, method
from mutants.plain_numbers import PlainNumbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


def _with(**methods: Any) -> type[PlainNumbers]:
    """The plain program with some methods replaced."""
    return type("Wrong", (PlainNumbers,), {name: method(each) for name, each in methods.items()})


class TernaryScale(PlainNumbers):
    """The mean for the scale, whatever the rule says."""

    def ternary(self, w: Floats, rule: str) -> tuple[np.float32, NDArray[Any]]:
        _, trits = super().ternary(w, rule)
        return np.float32(np.abs(w).mean() / 2), trits


class CutOff(PlainNumbers):
    """Quotients cut off, not rounded; groups too."""

    def rounded(self, x: Floats) -> NDArray[Any]:
        return np.clip(np.trunc(x), -1, 1)

    rounded_away = rounded

    def ggml(self, w: Floats, type: str) -> tuple[NDArray[Any], Floats]:
        values, scales = super().ggml(w, type)
        with np.errstate(all="ignore"):
            return np.where(scales > 0, np.trunc(w / scales), values), scales


class Wrapped(PlainNumbers):
    """Sums in 16 bits that wrap around."""

    def added(self, codes: NDArray[np.int64], weights: NDArray[Any]) -> NDArray[np.int64]:
        return super().added(codes, weights).astype(np.int16).astype(np.int64)


class Saturated(PlainNumbers):
    """Sums in 16 bits that stop at their ends."""

    def added(self, codes: NDArray[np.int64], weights: NDArray[Any]) -> NDArray[np.int64]:
        return np.clip(super().added(codes, weights), -32768, 32767)


class HalfSummed(PlainNumbers):
    """The first half of the columns added up."""

    def added(self, codes: NDArray[np.int64], weights: NDArray[Any]) -> NDArray[np.int64]:
        half = codes.shape[1] // 2
        return super().added(codes[:, :half], weights[:, :half])


class LastColumns(PlainNumbers):
    """The last 128 columns not added up."""

    def added(self, codes: NDArray[np.int64], weights: NDArray[Any]) -> NDArray[np.int64]:
        return super().added(codes[:, :-128], weights[:, :-128])


class NotQuantized(PlainNumbers):
    """Activations that stay floats."""

    def bitlinear(self, data: bytes, x: Floats, args: Any) -> Floats:
        return (x @ self.trits(data, args).astype(np.float32).T) * self.scale(data, args)


#: Every program that computes wrongly, by the bug that it has.
MUTANTS: Final = (
    Mutant("threshold-0", "quantize-threshold", _with(threshold=lambda: 0.0)),
    Mutant("threshold-1e-5", "quantize-threshold", _with(threshold=lambda: 1e-5)),
    Mutant("scale-of-mean", "quantize-scale", TernaryScale),
    Mutant("cut-off", "quantize-rounding", CutOff),
    Mutant("ties-away", "quantize-rounding", _with(rounded=lambda x: np.clip(np.trunc(x + np.copysign(0.5, x)), -1, 1))),
    Mutant("ties-even", "quantize-rounding", _with(rounded_away=lambda x: np.clip(np.rint(x), -1, 1))),
    Mutant("group-mean", "quantize-group-scale", _with(group_scale=lambda parts: np.abs(parts).mean(axis=1))),
    Mutant("activation-truncated", "activation-truncated", _with(nearest=lambda x, rule: np.trunc(x))),
    Mutant("activation-floored", "activation-floored", _with(nearest=lambda x, rule: np.floor(x))),
    Mutant("activation-half-up", "activation-half-up", _with(nearest=lambda x, rule: np.floor(x.astype(np.float64) + 0.5))),
    Mutant("activation-half-away", "activation-half-away",
           _with(nearest=lambda x, rule: np.copysign(np.floor(np.abs(x.astype(np.float64)) + 0.5), x))),
    Mutant("activation-128", "activation-128", _with(largest_code=lambda: 128.0)),
    Mutant("activation-4-bits", "activation-4-bits", _with(largest_code=lambda: 7.0)),
    Mutant("activation-one-scale", "activation-one-scale", _with(for_tokens=lambda scale: np.full_like(scale, scale.min()))),
    Mutant("activation-reciprocal", "activation-reciprocal", _with(for_tokens=lambda scale: np.float32(1) / scale)),
    Mutant("activation-no-floor", "activation-no-floor", _with(floored=lambda amax: np.maximum(amax, 1e-30))),
    Mutant("offset-kept", "offset-not-subtracted", _with(offset=lambda codes: codes.sum(axis=1) * 0)),
    Mutant("offset-half", "offset-not-subtracted", _with(offset=lambda codes: codes.sum(axis=1) // 2)),
    Mutant("int16-wrap", "int16-wrap", Wrapped),
    Mutant("int16-saturates", "int16-saturates", Saturated),
    Mutant("sum-of-half", "sum-of-half", HalfSummed),
    Mutant("columns-dropped", "last-block-dropped", LastColumns),
    Mutant("activations-unsigned", "activations-unsigned",
           _with(added=lambda codes, weights: (codes & 255) @ weights.T)),
    Mutant("epilogue-undivided", "activation-scale-ignored", _with(epilogue=lambda acc, s, ws: acc * ws)),
    Mutant("epilogue-multiplied", "activation-scale-multiplied", _with(epilogue=lambda acc, s, ws: acc * s * ws)),
    Mutant("epilogue-order", "epilogue-order", _with(epilogue=lambda acc, s, ws: acc * (ws / s))),
    Mutant("not-quantized", "activation-not-quantized", NotQuantized),
)  # fmt: skip
