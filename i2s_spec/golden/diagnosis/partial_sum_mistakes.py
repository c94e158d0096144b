"""This module computes projections whose sums lack a part: columns, or half of what is taken off (clause 10.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from i2s_spec.golden.diagnosis.linear_mistakes import WrongProjection
from i2s_spec.model.reference import activation_quant
from i2s_spec.schema.dialect import CANONICAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.weights import Ternary

    Floats = NDArray[np.float32]


class HalfOffset(WrongProjection):
    """Half of the sum of the activation codes taken off."""

    def outputs(self, acc: NDArray[np.int64], quantized: activation_quant.Quantized, matrix: Ternary) -> Floats:
        half = acc.astype(np.float32) + quantized.sums[:, None].astype(np.float32) / np.float32(2)
        return np.asarray(half / quantized.scale[:, None] * matrix.scale, dtype=np.float32)


class HalfOfColumns(WrongProjection):
    """Only the first half of the columns added up."""

    def retained(self, columns: int) -> int:
        return columns // 2

    def sums(self, codes: NDArray[np.uint8], quantized: activation_quant.Quantized) -> NDArray[np.int64]:
        retained = self.retained(codes.shape[1])
        return super().sums(codes[:, :retained], quantized._replace(codes=quantized.codes[:, :retained]))


class LastBlockDropped(HalfOfColumns):
    """All columns but the last 128 added up."""

    def retained(self, columns: int) -> int:
        return columns - CANONICAL.layout.block
