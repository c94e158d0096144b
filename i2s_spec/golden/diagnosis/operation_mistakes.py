"""Operations that compute as runtimes with known mistakes do: projections, and all others (clause 10.5).

Each mistake is a class; a numeric profile names it, as it names `Operations`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from i2s_spec.codec.native import unpack_codes
from i2s_spec.model.graph import base
from i2s_spec.model.reference import bitlinear, reductions
from i2s_spec.model.reference.operations import Operations
from i2s_spec.model.weights import DENSE, Ternary
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.graph import Node
    from i2s_spec.model.numerics import ActivationQuantizer
    from i2s_spec.model.reference.run import Run

    Floats = NDArray[np.float32]


# --- projections -----------------------------------------------------------------------------------------------------
# Something is wrong about codes, sums or scales.


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

    def quantized(self, x: Floats, rule: ActivationQuantizer) -> bitlinear.Quantized:
        return bitlinear.quantize(x, rule)

    def sums(self, codes: NDArray[np.uint8], quantized: bitlinear.Quantized) -> NDArray[np.int64]:
        values = np.array(self.worth, dtype=np.float64)[codes]
        return np.rint(quantized.codes.astype(np.float64) @ values.T).astype(np.int64)  # exact below 2^53

    def outputs(self, acc: NDArray[np.int64], quantized: bitlinear.Quantized, matrix: Ternary) -> Floats:
        scale = self.weight_scale(matrix.scale)
        return bitlinear.epilogue_of_rule(acc.astype(np.int32), quantized.scale, scale, self.profile.quantizer)

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

    def outputs(self, acc: NDArray[np.int64], quantized: bitlinear.Quantized, matrix: Ternary) -> Floats:
        return acc.astype(np.float32) * matrix.scale


class ActivationScaleMultiplied(WrongProjection):
    """Multiplied by the activation scale."""

    def outputs(self, acc: NDArray[np.int64], quantized: bitlinear.Quantized, matrix: Ternary) -> Floats:
        return acc.astype(np.float32) * quantized.scale[:, None] * matrix.scale


class Wrapped(WrongProjection):
    """Sums of a kernel of `ggml_math.KERNEL_BUGS`."""

    kernel = "int16-wrap/avx2"

    def sums(self, codes: NDArray[np.uint8], quantized: bitlinear.Quantized) -> NDArray[np.int64]:
        from i2s_spec.model.reference.ggml_math import KERNEL_BUGS

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

    def sums(self, codes: NDArray[np.uint8], quantized: bitlinear.Quantized) -> NDArray[np.int64]:
        lanes = codes.reshape(-1, CODES_PER_BYTE, CANONICAL.layout.block // CODES_PER_BYTE)
        return super().sums(np.ascontiguousarray(lanes[:, ::-1]).reshape(codes.shape), quantized)


class HalfScale(WrongProjection):
    """The scale as an F16."""

    def weight_scale(self, scale: np.float32) -> np.float32:
        return np.float32(np.float16(scale))


class Transposed(WrongProjection):
    """The matrix read as if its sides were exchanged."""

    def sums(self, codes: NDArray[np.uint8], quantized: bitlinear.Quantized) -> NDArray[np.int64]:
        turned = codes.reshape(codes.shape[::-1]).T
        return super().sums(np.ascontiguousarray(turned), quantized)


class OneScale(WrongProjection):
    """One activation scale for all tokens."""

    def quantized(self, x: Floats, rule: ActivationQuantizer) -> bitlinear.Quantized:
        found = bitlinear.quantize(x.reshape(1, -1), rule)
        codes = found.codes.reshape(x.shape)
        return bitlinear.Quantized(codes, np.repeat(found.scale, len(x)), codes.sum(axis=1, dtype=np.int32))


class Truncated(WrongProjection):
    """Activation codes cut off, not rounded."""

    rounded: ClassVar[staticmethod[[Any], Any]] = staticmethod(np.trunc)

    def quantized(self, x: Floats, rule: ActivationQuantizer) -> bitlinear.Quantized:
        scale = bitlinear.quantize(x, rule).scale
        return _coded(self.rounded(x * scale[:, None]), scale)


class Floored(Truncated):
    """Activation codes rounded down."""

    rounded: ClassVar[staticmethod[[Any], Any]] = staticmethod(np.floor)


class Of128(WrongProjection):
    """Activation scales of 128 / amax."""

    largest = 128

    def quantized(self, x: Floats, rule: ActivationQuantizer) -> bitlinear.Quantized:
        scale = (bitlinear.quantize(x, rule).scale.astype(np.float64) * (self.largest / 127)).astype(np.float32)
        return _coded(np.clip(np.rint(x * scale[:, None]), -128, 127), scale)


class FourBits(Of128):
    """Activation codes of 4 bits, -7 to 7."""

    largest = 7


def _coded(codes: Floats, scale: Floats) -> bitlinear.Quantized:
    narrow = np.where(np.isfinite(codes), codes, 0).astype(np.int8)
    return bitlinear.Quantized(narrow, scale, narrow.sum(axis=1, dtype=np.int32))


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


# --- other operations ------------------------------------------------------------------------------------------------


class HeadsInTurn(Operations):
    """Query head h meets key head h mod G, not h // (H / G)."""

    def _turn(self, values: NDArray[Any], heads: int) -> NDArray[Any]:
        return values[:, np.arange(heads) % values.shape[1]]

    def scores(self, run: Run, node: Node, q: Floats, keys: list[NDArray[Any]]) -> list[Floats]:
        return super().scores(run, node, q, [self._turn(each, node.settings["heads"]) for each in keys])

    def weighted_values(self, run: Run, node: Node, p: list[Floats], values: list[NDArray[Any]]) -> Floats:
        return super().weighted_values(
            run, node, p, [self._turn(v, len(each)) for each, v in zip(p, values, strict=True)]
        )


class FirstHead(HeadsInTurn):
    """Every query head meets the first key head."""

    def _turn(self, values: NDArray[Any], heads: int) -> NDArray[Any]:
        return values[:, np.zeros(heads, dtype=np.int64)]


class OneMoreGain(Operations):
    """Gains plus one, where the file has one in them already."""

    added = np.float32(1)

    def norm_weight(self, run: Run, node: Node, x: Floats) -> Floats:
        return x * (run.weights.vector(node.weight) + self.added)


class OneLessGain(OneMoreGain):
    """Gains without the one that the converter put in."""

    added = np.float32(-1)


class NoResidual(Operations):
    """Sums without what went past the block."""

    def add(self, run: Run, node: Node, a: Floats, b: Floats) -> Floats:
        return b.copy()


class TypeReadAsCodes(Operations):
    """Projections whose bytes were read as I2_S: codes in blocks of 128, the scale behind them."""

    types = frozenset({*DENSE, "TQ2_0"})

    def linear(self, run: Run, node: Node, x: Floats) -> Floats:
        tensor = run.weights.tensor(node.weight)
        rows, columns = tensor.shape
        size = rows * columns // CODES_PER_BYTE
        raw = run.weights.data(node.weight)[: size + 4]
        if run.weights.tensor_type(node.weight) not in self.types or len(raw) < size + 4:
            return super().linear(run, node, x)
        scale = np.frombuffer(raw[size:].tobytes(), dtype="<f4")[0]
        quantized = bitlinear.quantize(x, replace(self.profile.quantizer, groups="token"))
        acc = bitlinear.accumulate(raw[:size], rows, columns, quantized.codes)
        return bitlinear.epilogue_of_rule(acc, quantized.scale, scale, self.profile.quantizer, quantized.steps)


class TableReadAsHalves(Operations):
    """A table of larger or other numbers whose bytes were read as F16."""

    types = frozenset({"F32", "BF16"})

    def embed(self, run: Run, node: Node, tokens: NDArray[np.int64]) -> Floats:
        return self.halves(run, node)[tokens].astype(np.float32)

    def head(self, run: Run, node: Node, x: Floats) -> Floats:
        if run.weights.tensor_type(node.weight) not in self.types:
            return super().head(run, node, x)
        return self.projections.products(x, self.halves(run, node).astype(np.float32))

    def halves(self, run: Run, node: Node) -> NDArray[np.float16]:
        """Return the table as it was read, float16 [rows, columns]."""
        tensor = run.weights.tensor(node.weight)
        rows, columns = tensor.shape
        data = run.weights.data(node.weight)[: 2 * rows * columns]
        return np.frombuffer(data.tobytes(), dtype="<f2").reshape(rows, columns)


class NoGain(Operations):
    """Norms without gains."""

    def norm_weight(self, run: Run, node: Node, x: Floats) -> Floats:
        return x.copy()


class Centred(Operations):
    """The mean taken off first, as LayerNorm does."""

    def norm(self, run: Run, node: Node, x: Floats) -> Floats:
        mean = (reductions.sums(x) / x.shape[-1]).astype(np.float32)
        return super().norm(run, node, x - mean[..., None])


class FromOne(Operations):
    """Positions that begin with 1."""

    def rope(self, run: Run, node: Node, x: Floats) -> Floats:
        later = [replace(each, past=each.past + 1) for each in run.sequences]
        return super().rope(replace(run, sequences=later, angles={}), node, x)


# --- partial sums ----------------------------------------------------------------------------------------------------
# Projections whose sums lack a part: columns, or half of what is taken off.


class HalfOffset(WrongProjection):
    """Half of the sum of the activation codes taken off."""

    def outputs(self, acc: NDArray[np.int64], quantized: bitlinear.Quantized, matrix: Ternary) -> Floats:
        half = acc.astype(np.float32) + quantized.sums[:, None].astype(np.float32) / np.float32(2)
        return np.asarray(half / quantized.scale[:, None] * matrix.scale, dtype=np.float32)


class HalfOfColumns(WrongProjection):
    """Only the first half of the columns added up."""

    def retained(self, columns: int) -> int:
        return columns // 2

    def sums(self, codes: NDArray[np.uint8], quantized: bitlinear.Quantized) -> NDArray[np.int64]:
        retained = self.retained(codes.shape[1])
        return super().sums(codes[:, :retained], quantized._replace(codes=quantized.codes[:, :retained]))


class LastBlockDropped(HalfOfColumns):
    """All columns but the last 128 added up."""

    def retained(self, columns: int) -> int:
        return columns - CANONICAL.layout.block


# --- delta nets ------------------------------------------------------------------------------------------------------


class AttentionUngated(Operations):
    """The result of attention as it is, where a gate multiplies it."""

    gated = "attn_gated"

    def multiply(self, run: Run, node: Node, a: Floats, b: Floats) -> Floats:
        return a.copy() if base(node.name) == self.gated else super().multiply(run, node, a, b)


class NetUngated(AttentionUngated):
    """The result of a delta net as it is, where a gate multiplies it."""

    gated = "attn_output_gated"


class Forgets(Operations):
    """Each token alone in the convolution."""

    def convolve(self, run: Run, node: Node, x: Floats) -> Floats:
        (channels, kernel) = run.weights.tensor(node.weight).shape
        return x * run.weights.vector(node.weight).reshape(channels, kernel)[:, -1]


class Grows(Operations):
    """States that grow where they have to fade."""

    def delta_rule(self, run: Run, node: Node, q: Floats, k: Floats, v: Floats, gate: Floats, beta: Floats) -> Floats:
        return super().delta_rule(run, node, q, k, v, -gate, beta)


class OnlyAdds(Operations):
    """States to which each token is added: plain linear attention."""

    def delta_rule(self, run: Run, node: Node, q: Floats, k: Floats, v: Floats, gate: Floats, beta: Floats) -> Floats:
        groups, heads, scale = q.shape[1], np.arange(v.shape[1]), np.float32(1 / np.sqrt(q.shape[2]))
        own = heads % groups if node.settings["heads"] == "tiled" else heads // (len(heads) // groups)
        out = np.empty(v.shape, dtype=np.float32)
        for each in run.sequences:
            state = np.zeros((len(heads), q.shape[2], v.shape[2]), dtype=np.float32)
            for t in range(each.start, each.stop):
                state = state * np.exp(gate[t])[:, None, None]
                state = state + k[t, own][:, :, None] * (beta[t][:, None] * v[t])[:, None]
                out[t] = np.einsum("hi,hij->hj", q[t, own] * scale, state)
        return out
