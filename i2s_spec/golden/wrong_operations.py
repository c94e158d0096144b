"""This module computes operations as runtimes with known mistakes do: classes that a profile can name (clause 10.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.codec.payload import unpack_codes
from i2s_spec.model import quantiser
from i2s_spec.model.operations import Operations
from i2s_spec.model.weights import Ternary
from i2s_spec.schema.dialect import CANONICAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.execution import Run
    from i2s_spec.model.graph import Node

    Floats = NDArray[np.float32]


class WrongProjection(Operations):
    """Projections with something wrong about codes, sums or scales."""

    #: What each code is worth.
    worth: tuple[int, ...] = (-1, 0, 1, 2)

    def linear(self, run: Run, node: Node, x: Floats) -> Floats:
        matrix = run.weights.matrix(node.weight)
        rule = self.profile.quantiser
        if not isinstance(matrix, Ternary) or rule.groups != "token":
            return super().linear(run, node, x)
        quantised = quantiser.quantise(x, rule)
        codes = unpack_codes(matrix.payload, (matrix.rows, matrix.columns), CANONICAL.layout)
        acc = self.sums(codes, quantised)
        return self.outputs(acc, quantised, matrix)

    def sums(self, codes: NDArray[np.uint8], quantised: quantiser.Quantised) -> NDArray[np.int64]:
        values = np.array(self.worth, dtype=np.float64)[codes]
        return np.rint(quantised.codes.astype(np.float64) @ values.T).astype(np.int64)  # exact below 2^53

    def outputs(self, acc: NDArray[np.int64], quantised: quantiser.Quantised, matrix: Ternary) -> Floats:
        scale = self.weight_scale(matrix.scale)
        return quantiser.epilogue(acc.astype(np.int32), quantised.scale, scale, self.profile.quantiser)

    def weight_scale(self, scale: np.float32) -> np.float32:
        return scale


class ZeroFirst(WrongProjection):
    """Codes 0, 1, 2 read as 0, +1, -1."""

    worth = (0, 1, -1, 2)


class TwosComplement(WrongProjection):
    """Codes read as two's complement."""

    worth = (0, 1, -2, -1)


class OffsetTwo(WrongProjection):
    """2 taken off each code."""

    worth = (-2, -1, 0, 1)


class SignsSwapped(WrongProjection):
    """Codes 0 and 2 exchanged."""

    worth = (1, 0, -1, 2)


class CodesAsTheyAre(WrongProjection):
    """Nothing taken off the codes."""

    worth = (0, 1, 2, 3)


class ReciprocalScale(WrongProjection):
    """Divided by the scale."""

    def weight_scale(self, scale: np.float32) -> np.float32:
        return np.float32(1) / scale


class NoScale(WrongProjection):
    """Without the scale."""

    def weight_scale(self, scale: np.float32) -> np.float32:
        return np.float32(1)


class ScaleTwice(WrongProjection):
    """The scale applied twice."""

    def weight_scale(self, scale: np.float32) -> np.float32:
        return scale * scale


class NoActivationScale(WrongProjection):
    """Not divided by the activation scale."""

    def outputs(self, acc: NDArray[np.int64], quantised: quantiser.Quantised, matrix: Ternary) -> Floats:
        return acc.astype(np.float32) * matrix.scale


class ActivationScaleMultiplied(WrongProjection):
    """Multiplied by the activation scale."""

    def outputs(self, acc: NDArray[np.int64], quantised: quantiser.Quantised, matrix: Ternary) -> Floats:
        return acc.astype(np.float32) * quantised.scale[:, None] * matrix.scale


class Wrapped(WrongProjection):
    """Sums of a kernel that `emulation` has."""

    kernel = "int16-wrap/avx2"

    def sums(self, codes: NDArray[np.uint8], quantised: quantiser.Quantised) -> NDArray[np.int64]:
        from i2s_spec.model.emulation import EMULATIONS

        dot = EMULATIONS[self.kernel](codes, quantised.codes)
        return dot.astype(np.int64) - quantised.sums[:, None]


class Int16WrapAvx2(Wrapped):
    """Lanes of 16 bits that wrap around, x86."""


class Int16WrapNeon(Wrapped):
    """Lanes of 16 bits that wrap around, ARM."""

    kernel = "int16-wrap/neon"


class RowsOfFour(Wrapped):
    """Packed as rows-1x4 and read as blocks of 128."""

    kernel = "rows-of-four"


class HeadsInTurn(Operations):
    """Query head h meets key head h mod G, not h // (H / G)."""

    def _turn(self, values: NDArray[Any], heads: int) -> NDArray[Any]:
        return values[:, np.arange(heads) % values.shape[1]]

    def scores(self, run: Run, node: Node, q: Floats, keys: list[NDArray[Any]]) -> list[Floats]:
        return super().scores(run, node, q, [self._turn(each, node.settings["heads"]) for each in keys])

    def mix(self, run: Run, node: Node, p: list[Floats], values: list[NDArray[Any]]) -> Floats:
        return super().mix(run, node, p, [self._turn(v, len(each)) for each, v in zip(p, values, strict=True)])


class OneMoreGain(Operations):
    """Gains plus one, where the file has one in them already."""

    def gain(self, run: Run, node: Node, x: Floats) -> Floats:
        return x * (run.weights.vector(node.weight) + np.float32(1))


class OneLessGain(Operations):
    """Gains without the one that the converter put in."""

    def gain(self, run: Run, node: Node, x: Floats) -> Floats:
        return x * (run.weights.vector(node.weight) - np.float32(1))


class NoResidual(Operations):
    """Sums without what went past the block."""

    def add(self, run: Run, node: Node, a: Floats, b: Floats) -> Floats:
        return b.copy()
