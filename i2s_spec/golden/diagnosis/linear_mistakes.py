"""This module computes projections as runtimes with known mistakes do; a numeric profile names the class (clause 10.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from i2s_spec.codec.payload_native import unpack_codes
from i2s_spec.model.reference import activation_quant
from i2s_spec.model.reference.operations import Operations
from i2s_spec.model.weights import Ternary
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.graph.graph import Node
    from i2s_spec.model.numeric_profile import ActivationQuantizer
    from i2s_spec.model.reference.run import Run

    Floats = NDArray[np.float32]


class WrongProjection(Operations):
    """Projections with something wrong about codes, sums or scales."""

    #: What each code is worth.
    worth: tuple[int, ...] = (-1, 0, 1, 2)

    def linear(self, run: Run, node: Node, x: Floats) -> Floats:
        matrix = run.weights.matrix(node.weight)
        rule = self.profile.quantizer
        if not isinstance(matrix, Ternary) or rule.groups != "token":
            return super().linear(run, node, x)
        quantized = self.quantized(x, rule)
        codes = unpack_codes(matrix.payload, (matrix.rows, matrix.columns), CANONICAL.layout)
        acc = self.sums(codes, quantized)
        return self.outputs(acc, quantized, matrix)

    def quantized(self, x: Floats, rule: ActivationQuantizer) -> activation_quant.Quantized:
        return activation_quant.quantize(x, rule)

    def sums(self, codes: NDArray[np.uint8], quantized: activation_quant.Quantized) -> NDArray[np.int64]:
        values = np.array(self.worth, dtype=np.float64)[codes]
        return np.rint(quantized.codes.astype(np.float64) @ values.T).astype(np.int64)  # exact below 2^53

    def outputs(self, acc: NDArray[np.int64], quantized: activation_quant.Quantized, matrix: Ternary) -> Floats:
        scale = self.weight_scale(matrix.scale)
        return activation_quant.epilogue(acc.astype(np.int32), quantized.scale, scale, self.profile.quantizer)

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

    def outputs(self, acc: NDArray[np.int64], quantized: activation_quant.Quantized, matrix: Ternary) -> Floats:
        return acc.astype(np.float32) * matrix.scale


class ActivationScaleMultiplied(WrongProjection):
    """Multiplied by the activation scale."""

    def outputs(self, acc: NDArray[np.int64], quantized: activation_quant.Quantized, matrix: Ternary) -> Floats:
        return acc.astype(np.float32) * quantized.scale[:, None] * matrix.scale


class Wrapped(WrongProjection):
    """Sums of a kernel of `kernel_bugs`."""

    kernel = "int16-wrap/avx2"

    def sums(self, codes: NDArray[np.uint8], quantized: activation_quant.Quantized) -> NDArray[np.int64]:
        from i2s_spec.model.reference.kernel_bugs import KERNEL_BUGS

        dot = KERNEL_BUGS[self.kernel](codes, quantized.codes)
        return dot.astype(np.int64) - quantized.sums[:, None]


class Int16WrapAvx2(Wrapped):
    """Lanes of 16 bits that wrap around, x86."""


class Int16WrapNeon(Wrapped):
    """Lanes of 16 bits that wrap around, ARM."""

    kernel = "int16-wrap/neon"


class RowsOfFour(Wrapped):
    """Packed as rows-1x4 and read as blocks of 128."""

    kernel = "rows-of-four"


class LanesReversed(WrongProjection):
    """The four lanes of a block in the other order."""

    def sums(self, codes: NDArray[np.uint8], quantized: activation_quant.Quantized) -> NDArray[np.int64]:
        lanes = codes.reshape(-1, CODES_PER_BYTE, CANONICAL.layout.block // CODES_PER_BYTE)
        return super().sums(np.ascontiguousarray(lanes[:, ::-1]).reshape(codes.shape), quantized)


class HalfScale(WrongProjection):
    """The scale as an F16."""

    def weight_scale(self, scale: np.float32) -> np.float32:
        return np.float32(np.float16(scale))


class Transposed(WrongProjection):
    """The matrix read as if its sides were exchanged."""

    def sums(self, codes: NDArray[np.uint8], quantized: activation_quant.Quantized) -> NDArray[np.int64]:
        turned = codes.reshape(codes.shape[::-1]).T
        return super().sums(np.ascontiguousarray(turned), quantized)


class OneScale(WrongProjection):
    """One activation scale for all tokens."""

    def quantized(self, x: Floats, rule: ActivationQuantizer) -> activation_quant.Quantized:
        found = activation_quant.quantize(x.reshape(1, -1), rule)
        codes = found.codes.reshape(x.shape)
        return activation_quant.Quantized(codes, np.repeat(found.scale, len(x)), codes.sum(axis=1, dtype=np.int32))


class Truncated(WrongProjection):
    """Activation codes cut off, not rounded."""

    def quantized(self, x: Floats, rule: ActivationQuantizer) -> activation_quant.Quantized:
        scale = activation_quant.quantize(x, rule).scale
        return _coded(np.trunc(x * scale[:, None]), scale)


class Floored(WrongProjection):
    """Activation codes rounded down."""

    def quantized(self, x: Floats, rule: ActivationQuantizer) -> activation_quant.Quantized:
        scale = activation_quant.quantize(x, rule).scale
        return _coded(np.floor(x * scale[:, None]), scale)


class Of128(WrongProjection):
    """Activation scales of 128 / amax."""

    def quantized(self, x: Floats, rule: ActivationQuantizer) -> activation_quant.Quantized:
        scale = (activation_quant.quantize(x, rule).scale.astype(np.float64) * (128 / 127)).astype(np.float32)
        return _coded(np.clip(np.rint(x * scale[:, None]), -128, 127), scale)


class FourBits(WrongProjection):
    """Activation codes of 4 bits, -7 to 7."""

    def quantized(self, x: Floats, rule: ActivationQuantizer) -> activation_quant.Quantized:
        scale = (activation_quant.quantize(x, rule).scale.astype(np.float64) * (7 / 127)).astype(np.float32)
        return _coded(np.rint(x * scale[:, None]), scale)


def _coded(codes: Floats, scale: Floats) -> activation_quant.Quantized:
    narrow = np.where(np.isfinite(codes), codes, 0).astype(np.int8)
    return activation_quant.Quantized(narrow, scale, narrow.sum(axis=1, dtype=np.int32))


class BlocksOf32(WrongProjection):
    """An activation scale for every 32 columns, an F16 as in Q8_0."""

    size = 32

    def linear(self, run: Run, node: Node, x: Floats) -> Floats:
        matrix = run.weights.matrix(node.weight)
        if not isinstance(matrix, Ternary) or x.shape[1] % self.size:
            return super().linear(run, node, x)
        blocks = x.reshape(len(x), -1, self.size)
        d = np.abs(blocks).max(axis=-1) / np.float32(127)
        codes = np.rint(blocks * np.where(d == 0, np.float32(0), np.float32(1) / d)[..., None])
        wide = codes.astype(np.float64) * d.astype(np.float16).astype(np.float64)[..., None]
        trits = unpack_codes(matrix.payload, (matrix.rows, matrix.columns), CANONICAL.layout).astype(np.float64) - 1
        outputs: Floats = (wide.reshape(x.shape) @ trits.T * np.float64(matrix.scale)).astype(np.float32)
        return outputs


class BlocksOf64(BlocksOf32):
    """An activation scale for every 64 columns."""

    size = 64


class BlocksOf128(BlocksOf32):
    """An activation scale for every 128 columns."""

    size = 128
